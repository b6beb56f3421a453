"""A cluster of one's own: machines with an sshd each, and a shell that stands beside them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from e2e import conftest as e2e
from waiting import wait_until

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
    """Three machines at 10.99.0.11 to 13, and a shell in the folder that they share, /mnt, where a
    user's own tasks lie."""
    path = os.environ["PATH"] + ":/usr/sbin"
    if missing := [name for name in NEEDED if not shutil.which(name, path=path)]:
        pytest.skip(f"needs {', '.join(missing)}")
    if os.geteuid():
        pytest.skip("only root makes network namespaces")
    folder = tmp_path_factory.mktemp("lab")
    shutil.copy(e2e.MINE, folder)
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

    probe = [*lab.command[:-1], "bash", "-c", ": >/dev/tcp/10.99.0.1/5000"]
    quiet = {"stderr": subprocess.DEVNULL}
    wait_until(lambda: subprocess.run(probe, **quiet).returncode == 0, 60, server)
    configuration = {"LocationConstraint": "us-west-2"}
    ask("s3", "create_bucket", Bucket="mine", CreateBucketConfiguration=configuration)
    yield ask
    server.kill()
    server.wait()
