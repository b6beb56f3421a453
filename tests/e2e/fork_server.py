"""Python that forks instead of starting: what `fork_client.py` is to run runs in a child of this
process, which has imported what takes a worker of Ray's four CPU-seconds to import.

A child has the arguments, the environment, the folder and the files of its client, and dies with
it. The imports happen in the first client's environment, since Ray reads its own when imported:
all clients must be workers of one job.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from pathlib import Path

MODULES = ("sweepd.run.engine", "sweepd.trial.training")
NO_THREADS = {"OMP_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""With which numpy and pyarrow start no thread when they are imported: a fork would lack it."""


def serve(address: str) -> None:
    """Fork for each connection, until standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for children
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        while sys.stdin not in select.select([server, sys.stdin], [], [])[0]:
            client, _ = server.accept()
            _, files, *_ = socket.recv_fds(client, 1, maxfds=3)
            asked = json.loads(client.makefile().readline())
            prepare(asked["environment"])
            if not os.fork():
                server.close()
                run(client, files, **asked)
            for open_here in (client.detach(), *files):
                os.close(open_here)


def prepare(environment: dict[str, str]) -> None:
    """Import, if nothing is imported yet."""
    os.environ.update(environment | NO_THREADS)
    for name in MODULES:
        importlib.import_module(name)
    threads = [Path(task, "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    assert len(threads) == 1, threads


def run(
    client: socket.socket,
    files: list[int],
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
) -> None:
    """Be the program that a client asks for, with its standard input, output and error."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    threading.Thread(target=die_with, args=[client], daemon=True).start()
    runpy.run_path(arguments[0], run_name="__main__")
    sys.exit()


def die_with(client: socket.socket) -> None:
    client.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    serve(sys.argv[1])
