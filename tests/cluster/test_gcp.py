"""What is asked of Google before anything costs money. A server on loopback answers as our reading
of Google's pages says, not Google. Covers `cluster/gcp.py`."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cluster.ready import have_commands, written
from inprocess import sweepd

from sweepd.cluster import gcp

PROJECT, ZONE = "/compute/v1/projects/ours", "/zones/us-central1-a"
IMAGES = "/compute/v1/projects/{}/global/images/family/{}"
CARDS = "common-cu129-ubuntu-2204-nvidia-580"
IMAGE_OF_CARDS = IMAGES.format("deeplearning-platform-release", CARDS)
L4 = {"guestAcceleratorType": "nvidia-l4", "guestAcceleratorCount": 1}
PERMISSIONS = "/v1/projects/ours:testIamPermissions"


def quota(metric: str, limit: float, usage: float = 0.0) -> dict[str, Any]:
    return {"metric": metric, "limit": limit, "usage": usage}


class Google(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    has: dict[str, dict[str, Any]]
    lacks: set[str]

    def do_GET(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
        found = self.has.get(self.path)
        if self.headers.get("Authorization") != "Bearer token":
            found = None
        elif self.path == PERMISSIONS:
            found = {"permissions": [one for one in said["permissions"] if one not in self.lacks]}
        error = {"error": {"code": 404, "message": f"The resource '{self.path}' was not found"}}
        body = json.dumps(error if found is None else found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 (the library's names)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Google]]:
    """A project that has all that the ready file needs, and somebody who may do all."""
    Google.lacks = set()
    Google.has = {
        PROJECT: {"quotas": [quota("GPUS_ALL_REGIONS", 1)]},
        f"{PROJECT}/regions/us-central1": {
            "quotas": [
                quota("N2_CPUS", 8, 6),
                quota("PREEMPTIBLE_NVIDIA_L4_GPUS", 0),
                quota("NVIDIA_L4_GPUS", 1),
            ]
        },
        PROJECT + ZONE: {"status": "UP", "region": f"https://google{PROJECT}/regions/us-central1"},
        f"{PROJECT}{ZONE}/machineTypes/n2-standard-2": {"guestCpus": 2},
        f"{PROJECT}{ZONE}/machineTypes/g2-standard-8": {"guestCpus": 8, "accelerators": [L4]},
        IMAGES.format("ubuntu-os-cloud", "ubuntu-2204-lts"): {"name": "ubuntu-2204-jammy-v1"},
        IMAGE_OF_CARDS: {"name": f"{CARDS}-v1"},
    }
    server = ThreadingHTTPServer(("127.0.0.1", 0), Google)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    for name, path in (("COMPUTE", "/compute/v1"), ("PROJECTS", "/v1/projects"), ("ACCOUNTS", "")):
        monkeypatch.setattr(gcp, name, url + path)
    monkeypatch.setenv("HOME", str(tmp_path))
    have_commands(tmp_path, monkeypatch)
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    yield Google
    server.shutdown()
    server.server_close()


def checked(path: Path) -> dict[str, tuple[bool, str]]:
    answer = sweepd("doctor", "--cluster", str(path), "--results", "/shared", "--json")
    rows = json.loads(answer.out)
    assert answer.code == (0 if all(row["ok"] for row in rows) else 3), answer
    return {row["check"]: (row["ok"], row["detail"]) for row in rows}


def file(folder: Path) -> Path:
    token = "type: gcp, gcp_credentials: {type: credentials_token, credentials: token}"
    return written(folder, "gcp", "type: gcp,", f"{token},")


def test_a_project_that_has_all_passes(google: type[Google], tmp_path: Path) -> None:
    found = checked(file(tmp_path))
    assert not {name: said for name, (ok, said) in found.items() if not ok}
    assert found["image of gpu"][1] == f"{CARDS}-v1, NVIDIA's driver 580"
    assert found["quota of gpu"][1] == "NVIDIA_L4_GPUS: 0 of 1 in use, a node takes 1"
    assert found["quota of head"][1] == "N2_CPUS: 6 of 8 in use, a node takes 2"


@pytest.mark.parametrize(
    ("missing", "check", "told"),
    [
        ("compute.instances.create", "permissions", "have an owner of ours grant them"),
        ("iam.serviceAccounts.create", "permissions", "until there is ray-autoscaler-sa-v1"),
        (PROJECT + ZONE, "zone", "us-central1-a: The resource"),
        (f"{PROJECT}/regions/us-central1", "region", "was not found"),
        (f"{PROJECT}{ZONE}/machineTypes/g2-standard-8", "node type gpu", "was not found"),
        (IMAGE_OF_CARDS, "image of gpu", "was not found"),
        ("cards", "quota of gpu", "1 of 1 in use, a node takes 1: ask Google for more"),
        ("an image", "image of gpu", "is OBSOLETE: name another one"),
        ("driver", "image of gpu", "has no driver for cards: take one of deeplearning"),
        ("another region", "zone", "us-central1-a is in us-central1, and not in us-east1"),
        ("credentials", "credentials", "`gcloud auth application-default login` makes them"),
        ("library", "google.auth", "pip install 'sweepd[gcp]'`; permissions, zone, machines"),
    ],
)
def test_what_is_missing_is_told(
    google: type[Google],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    missing: str,
    check: str,
    told: str,
) -> None:
    path = file(tmp_path)
    google.has.pop(missing, None)
    google.lacks.add(missing)
    if missing == "cards":
        google.has[f"{PROJECT}/regions/us-central1"]["quotas"][2]["usage"] = 1
    elif missing == "an image":
        google.has[IMAGE_OF_CARDS]["deprecated"] = {"state": "OBSOLETE"}
    elif missing == "driver":
        text = path.read_text().replace("deeplearning-platform-release", "ubuntu-os-cloud")
        path.write_text(text.replace(CARDS, "ubuntu-2204-lts"))
    elif missing == "another region":
        google.has[f"{PROJECT}/regions/us-east1"] = {}
        path.write_text(path.read_text().replace("region: us-central1", "region: us-east1"))
    elif missing == "credentials":
        path = written(tmp_path, "gcp")
    elif missing == "library":
        monkeypatch.setitem(sys.modules, "google.auth", None)
    ok, said = checked(path)[check]
    assert not ok and told in said, said
