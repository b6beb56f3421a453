"""A cluster of one's own: machines with an sshd each, and a shell that stands beside them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

_E2E = Path(__file__).parents[1] / "e2e/conftest.py"
_spec = importlib.util.spec_from_file_location("e2e_conftest", _E2E)
assert _spec and _spec.loader
e2e = importlib.util.module_from_spec(_spec)
sys.modules["e2e_conftest"] = e2e
_spec.loader.exec_module(e2e)
e2e.TIMEOUT = 900  # bringing a cluster up takes minutes
running = e2e.running

AMAZON = "http://10.99.0.1:5000"
VARIABLES = {
    "AWS_ENDPOINT_URL": AMAZON,
    "AWS_ACCESS_KEY_ID": "someone",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-west-2",
}
NEEDED = ("sshd", "ssh", "rsync", "ip", "unshare", "nsenter")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Three machines at 10.99.0.11 to 13, and a shell in the folder that they share, /mnt."""
    path = os.environ["PATH"] + ":/usr/sbin"
    if missing := [name for name in NEEDED if not shutil.which(name, path=path)]:
        pytest.skip(f"needs {', '.join(missing)}")
    if os.geteuid():
        pytest.skip("only root makes network namespaces")
    folder = tmp_path_factory.mktemp("lab")
    program = [sys.executable, Path(__file__).with_name("lab.py"), folder, "3"]
    program += [f"{name}={value}" for name, value in VARIABLES.items()]
    process = subprocess.Popen(
        ["unshare", "--net", "--mount", *program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline() == "up\n"
    enter = ("nsenter", "--target", str(process.pid), "--net", "--mount")
    inside = ("bash", "-c", 'cd /mnt; exec "$@"', "_")
    yield e2e.Shell(folder, (*enter, *inside, e2e.SWEEPD), {"HOME": "/home/me", **VARIABLES})
    process.communicate()


@pytest.fixture
def amazon(lab):
    """A client for EC2 as moto plays it, which the machines reach, and S3 with a bucket `mine`."""
    server = subprocess.Popen(
        [*lab.command[:-1], sys.executable, "-m", "moto.server", "-H", "10.99.0.1", "-p", "5000"],
        env={**os.environ, "MOTO_IAM_LOAD_MANAGED_POLICIES": "true"},  # Ray's roles have them
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def ask(service, operation, **arguments):
        program = (
            "import boto3, json, sys\n"
            "service, operation, arguments = json.loads(sys.argv[1])\n"
            "answer = getattr(boto3.client(service), operation)(**arguments)\n"
            "print(json.dumps(answer, default=str))"
        )
        request = json.dumps([service, operation, arguments])
        done = subprocess.run(
            [*lab.command[:-1], sys.executable, "-c", program, request],
            env={**os.environ, **VARIABLES},
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    until = time.monotonic() + 60
    probe = [*lab.command[:-1], "bash", "-c", ": >/dev/tcp/10.99.0.1/5000"]
    while subprocess.run(probe, stderr=subprocess.DEVNULL).returncode:
        assert server.poll() is None and time.monotonic() < until, "moto's server did not start"
        time.sleep(0.2)
    configuration = {"LocationConstraint": "us-west-2"}
    ask("s3", "create_bucket", Bucket="mine", CreateBucketConfiguration=configuration)
    yield ask
    server.kill()
    server.wait()
