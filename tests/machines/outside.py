"""What a machine with nothing of ours has: a fresh Debian, and a way out through a proxy, as in
many a data centre. Where PyTorch's index cannot be reached from here it is played, with the wheels
that pip finds here."""

from __future__ import annotations

import re
import select
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

INCLUDED = "openssh-server,rsync,sudo,curl,ca-certificates,procps,python3-pip"
TRUSTED = "etc/ssl/certs/ca-certificates.crt"
PYTORCH = "download.pytorch.org"
AUTHORITY = f"""
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=rig -keyout own.key -out own.pem
openssl req -newkey rsa:2048 -nodes -subj /CN={PYTORCH} -keyout key -out asked
openssl x509 -req -in asked -CA own.pem -CAkey own.key -days 2 -out pem \
    -extfile <(echo subjectAltName=DNS:{PYTORCH})
"""


def reached(host: str) -> bool:
    with suppress(OSError):
        socket.create_connection((host, 443), timeout=5).close()
        return True
    return False


class WayOut:
    """A proxy that answers CONNECT at its listener, until that is closed."""

    def __init__(self, listener: socket.socket, folder: Path) -> None:
        self.played: tuple[str, int] | None = None
        self.authority = b""
        """What a machine must trust, too, to believe the index that is played."""
        pip = [sys.executable, "-m", "pip", "config", "list"]
        said = subprocess.run(pip, capture_output=True, text=True).stdout
        wheels = re.search(r"find-links='(/[^']+)'", said)
        if not reached(PYTORCH) and wheels:
            self._play(Path(wheels[1]), folder)
        threading.Thread(target=self._serve, args=[listener], daemon=True).start()

    def _play(self, wheels: Path, folder: Path) -> None:
        subprocess.run(["bash", "-ec", AUTHORITY], cwd=folder, check=True, capture_output=True)
        self.authority = (folder / "own.pem").read_bytes()
        for wheel in wheels.glob("*.whl"):  # every backend of PyTorch's has a folder a package
            for backend in ("cpu", "cu130"):
                package = folder / "index/whl" / backend / wheel.name.partition("-")[0]
                package.mkdir(parents=True, exist_ok=True)
                (package / wheel.name).symlink_to(wheel)
        quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
        index = partial(quiet, directory=str(folder / "index"))
        server = ThreadingHTTPServer(("127.0.0.1", 0), index)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "pem", folder / "key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.played = ("127.0.0.1", server.server_port)

    def _serve(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near = listener.accept()[0]
                threading.Thread(target=self._relay, args=[near], daemon=True).start()

    def _relay(self, near: socket.socket) -> None:
        with near, suppress(OSError, ValueError, IndexError):
            asked = b""
            while b"\r\n\r\n" not in asked and (data := near.recv(4096)):
                asked += data
            host, _, port = asked.split()[1].decode().partition(":")
            to = self.played if host == PYTORCH and self.played else (host, int(port))
            with socket.create_connection(to, timeout=20) as far:
                near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                other = {near: far, far: near}
                while True:
                    for one in select.select([near, far], [], [], 300)[0]:
                        if not (data := one.recv(1 << 16)):
                            return
                        other[one].sendall(data)


def fresh_debian(root: Path, way_out: WayOut) -> None:
    """Makes the root folder of a fresh Debian, which trusts whom this machine trusts."""
    for program in ("debootstrap", "openssl"):
        if not shutil.which(program):
            pytest.skip(f"needs {program}")
    if not reached("pypi.org"):
        pytest.skip("needs PyPI")
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={INCLUDED}", "bookworm", str(root)],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    own = ssl.get_default_verify_paths().cafile or f"/{TRUSTED}"
    (root / TRUSTED).write_bytes(Path(own).read_bytes() + way_out.authority)
