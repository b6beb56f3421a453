"""An object store to test against. It is moto's, behind a proxy that counts the requests and fails
when it is told to."""

import json
import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Fault = Callable[[str, str], str | None]
"""From method and path to what goes wrong: `refuse` (503), `forbid` (403), `reset` (before the
request arrives), `lose` (the answer, after it did its work), `cut` (the answer's body), `hang`;
None: nothing."""

HANG_SECONDS = 1.0
BUSY = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
FORBIDDEN = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
ELSEWHERE = (
    b"<Error><Code>PermanentRedirect</Code><Message>The bucket you are attempting to access must be"
    b" addressed using the specified endpoint.</Message></Error>"
)
ROLE = json.dumps(
    {
        "Code": "Success",
        "Type": "AWS-HMAC",
        "AccessKeyId": "role",
        "SecretAccessKey": "secret",
        "Token": "session",
        "Expiration": "2099-01-01T00:00:00Z",
        "LastUpdated": "2026-01-01T00:00:00Z",
    }
).encode()

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers, content."""


class Objects:
    """moto's S3 in this process. On the way to it over HTTP a request would take several times as
    long as its answer."""

    def __init__(self) -> None:
        from werkzeug.test import Client

        self._moto = Client(self.application(), use_cookies=False)

    def application(self) -> Any:
        from moto.moto_server.werkzeug_app import create_backend_app

        return create_backend_app("s3")

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        answer = self._moto.open(path, method=method, headers=headers, data=body)
        return answer.status_code, dict(answer.headers), answer.data

    def new_bucket(self) -> str:
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        status, _, content = self.ask("PUT", f"/{name}", {}, b"")
        assert status == 200, content
        return name


class Proxy:
    """The way to objects over HTTP. `requests` holds the method and path of each request, in the
    order in which they came."""

    def __init__(self, to: Objects | None = None, at: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.fault: Fault = lambda method, path: None
        self.to = to
        self._server = ThreadingHTTPServer(at, type("Relay", (_Relay,), {"by": self}))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=[0.01], daemon=True).start()
        self.url = f"http://{at[0]}:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def count(self, method: str, part: str = "") -> int:
        return sum(method == m and part in path for m, path in self.requests)

    def relay(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        assert self.to, "it leads nowhere"
        return self.to.ask(method, path, headers, body)

    def lead_s3(self, patch: pytest.MonkeyPatch) -> None:
        """Make it the way to all s3:// addresses, for this process and those that it starts."""
        patch.setenv("AWS_ENDPOINT_URL", self.url)
        patch.setenv("AWS_ACCESS_KEY_ID", "someone")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


class Services(Objects):
    """All that moto plays of Amazon."""

    def application(self) -> Any:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        return DomainDispatcherApplication(create_backend_app)


class Amazon(Proxy):
    """Amazon as it is where moto is kinder. Who signs for another region than the bucket's is sent
    away, and whoever asks learns the region, also without credentials. A machine learns its role's
    credentials. More than `most` requests a second are refused. `refused` names operations of EC2,
    and the error with which each is answered. `quota` is what an account may start."""

    def __init__(self, to: Objects, region: str, at: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        super().__init__(to, at)
        self.region = region
        self.tells = True
        """Whether it says which region that is."""
        self.refused: dict[str, str] = {}
        self.bodies: list[bytes] = []
        self.quota = 64.0
        self.latency, self.most = 0.0, 3500.0
        self._busy = (0, 0.0)

    @property
    def dollars(self) -> float:
        """What Amazon asks for the requests so far."""
        dear = sum(method in ("PUT", "POST") or "list-type" in at for method, at in self.requests)
        return dear * 5e-6 + (len(self.requests) - dear) * 4e-7

    def relay(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        time.sleep(self.latency)
        second = int(time.time())
        self._busy = (second, self._busy[1] + 1 if self._busy[0] == second else 1)
        if self._busy[1] > self.most:
            return 503, {}, BUSY
        if path.startswith("/latest/api/token"):
            return 200, {"X-aws-ec2-metadata-token-ttl-seconds": "600"}, b"token"
        if path.startswith("/latest/meta-data/iam/security-credentials"):
            return 200, {}, b"sweepd" if path.endswith("/") else ROLE
        given = {name.lower(): value for name, value in headers.items()}
        there = {"x-amz-bucket-region": self.region} if self.tells else {}
        signed = given.get("authorization")
        if signed is None:
            return 403, there, FORBIDDEN
        if "/s3/" in signed and f"/{self.region}/s3/" not in signed:
            return 301, there, ELSEWHERE
        if "/servicequotas/" in signed:
            quota = {"Quota": {"Value": self.quota, "QuotaName": "Some Instances"}}
            return 200, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(quota).encode()
        self.bodies.append(body)
        for operation, code in self.refused.items():
            if f"Action={operation}&".encode() in body:
                said = f"<Error><Code>{code}</Code><Message>refused by the test</Message></Error>"
                return 403, {}, f"<Response><Errors>{said}</Errors></Response>".encode()
        return super().relay(method, path, headers, body)


class GoogleProxy(Proxy):
    """Speaks Cloud Storage's XML interface as far as it differs from S3's in what we use: versions
    are generations, in headers of their own. Our reading of Google's pages, not Google."""

    def __init__(self, to: Objects) -> None:
        super().__init__(to)
        self._etags: dict[str, str] = {}

    def relay(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        headers = {name.lower(): value for name, value in headers.items()}
        expected = headers.pop("x-goog-if-generation-match", None)
        if expected == "0":
            headers["if-none-match"] = "*"
        elif expected:
            headers["if-match"] = self._etags.get(expected, '"none"')
        for name in [name for name in headers if name.startswith("x-goog-meta-")]:
            headers[name.replace("x-goog", "x-amz")] = headers.pop(name)
        path = path.replace("%2D", "-")
        status, answered, content = super().relay(method, path, headers, body)
        etag = answered.get("ETag", "")
        if etag:
            generation = str(int(etag.strip('"').partition("-")[0], 16) % 10**15)
            self._etags[generation] = etag
            answered["x-goog-generation"] = generation
        for name in [name for name in answered if name.startswith("x-amz-meta-")]:
            answered[name.replace("x-amz", "x-goog")] = answered.pop(name)
        return status, answered, content


class _Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # of two small writes the second one would wait for the first one's receipt
    by: Proxy

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.by.requests.append((self.command, self.path))
        self.by.headers.append({name.lower(): value for name, value in self.headers.items()})
        fault = self.by.fault(self.command, self.path)
        if fault == "refuse":
            return self.send(503, {}, BUSY)
        if fault == "forbid":
            return self.send(403, {}, FORBIDDEN)
        if fault == "hang":
            time.sleep(HANG_SECONDS)
        if fault in ("hang", "reset"):
            return self.reset()
        status, headers, content = self.by.relay(self.command, self.path, dict(self.headers), body)
        if fault == "lose":
            return self.reset()
        if fault == "cut":
            self.send(status, headers, content, sent=len(content) // 2)
            return self.reset()
        return self.send(status, headers, content)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815 (the library's names)

    def send(
        self, status: int, headers: dict[str, str], content: bytes, sent: int | None = None
    ) -> None:
        self.send_response_only(status)
        length = headers.get("Content-Length") if self.command == "HEAD" else None
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(content)))
        self.end_headers()
        self.wfile.write(content[:sent])
        self.wfile.flush()

    def reset(self) -> None:
        """Close as a dying peer does."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""
