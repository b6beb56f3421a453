"""Several machines for tests of clusters (`lab.py`). Each has an sshd, and a shell runs beside
them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.conftest import running as running
from shell import SWEEPD, TASKS, Shell
from waiting import wait_until

from sweepd.cluster.aws import SPOT_ROLE

Amazon = Callable[..., Any]
"""Asks: a service, an operation of it and its arguments."""
PATIENCE = 900
"""Seconds that a command may take: bringing a cluster up takes minutes."""

AMAZON = "http://10.99.0.1:5000"
VARIABLES = {
    "AWS_ENDPOINT_URL": AMAZON,
    "AWS_ACCESS_KEY_ID": "someone",
    "AWS_SECRET_ACCESS_KEY": "secret",
}
"""No region: on machines that somebody has just started there is none."""
SERVER = """
import json, pathlib, time
from object_store import Amazon, Services
amazon = Amazon(Services(), "us-west-2", ("10.99.0.1", 5000))
refused = pathlib.Path("refused.json")
while True:
    amazon.refused = json.loads(refused.read_text()) if refused.exists() else {}
    time.sleep(0.2)
"""
NEEDED = ("sshd", "ssh", "rsync", "ip", "unshare", "nsenter")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Three machines at 10.99.0.11 to 13, and a shell in the folder that they share, /mnt, where a
    user's own tasks lie."""
    path = os.environ["PATH"] + ":/usr/sbin"
    if missing := [name for name in NEEDED if not shutil.which(name, path=path)]:
        pytest.skip(f"needs {', '.join(missing)}")
    if os.geteuid():
        pytest.skip("only root makes network namespaces")
    folder = tmp_path_factory.mktemp("lab")
    shutil.copy(TASKS, folder)
    program = [sys.executable, str(Path(__file__).with_name("lab.py")), str(folder), "3"]
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
    command = (*enter, *inside, SWEEPD)
    yield Shell(folder, command, {"HOME": "/home/me", **VARIABLES}, timeout=PATIENCE)
    process.communicate()


@pytest.fixture
def amazon(lab: Shell) -> Iterator[Amazon]:
    """A client for Amazon as moto plays it, which the machines reach: EC2, S3 with a bucket `mine`,
    and the role for spot instances. It is as strict about regions as Amazon. What the folder's file
    `refused.json` names, it refuses."""
    tests = str(Path(__file__).parents[1])
    server = subprocess.Popen(
        [*lab.command[:-1], sys.executable, "-c", SERVER],
        # Ray's roles have managed policies.
        env={**os.environ, "MOTO_IAM_LOAD_MANAGED_POLICIES": "true", "PYTHONPATH": tests},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def ask(service: str, operation: str, **arguments: Any) -> Any:
        program = (
            "import boto3, json, sys\n"
            "service, operation, arguments = json.loads(sys.argv[1])\n"
            "answer = getattr(boto3.client(service, 'us-west-2'), operation)(**arguments)\n"
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
    wait_until(lambda: not subprocess.run(probe, stderr=subprocess.DEVNULL).returncode, 60, server)
    configuration = {"LocationConstraint": "us-west-2"}
    ask("iam", "create_role", RoleName=SPOT_ROLE, AssumeRolePolicyDocument="{}")
    ask("s3", "create_bucket", Bucket="mine", CreateBucketConfiguration=configuration)
    yield ask
    server.kill()
    server.wait()
