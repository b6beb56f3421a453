"""The command line as a user runs it. All tests that are not about Ray itself share one Ray."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from object_store import Objects, Proxy
from shell import TASKS, SharedShell, clean_environment
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

Running = Callable[[subprocess.Popen[str]], subprocess.Popen[str]]


class Raylets(NamedTuple):
    """A cluster of this machine: the program that runs it (a node dies for each line that it
    reads), the addresses of its dashboard and of Ray, and the environment that it lets in."""

    program: subprocess.Popen[str]
    address: str
    ray: str
    token: dict[str, str]


class ByLaunch(LoadScopeScheduling):  # type: ignore[misc]
    """Tests of a file that share what one launch has made stay in one process, the first to be
    run; any other test goes where there is room."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if "module_shell" in Path(self.config.rootpath, file).read_text() else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByLaunch:
    return ByLaunch(config, log)


@pytest.fixture(scope="session", autouse=True)
def rescue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where results wait that cannot be written. The workers of the shared Ray, which starts later,
    know it too."""
    folder = tmp_path_factory.mktemp("rescue")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWEEPD_RESCUE", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def way_to_s3() -> Iterator[Proxy]:
    """The way to all s3:// addresses. It leads somewhere for tests with `s3`. The workers of the
    shared Ray know it too."""
    proxy = Proxy()
    with pytest.MonkeyPatch.context() as patch:
        proxy.lead_s3(patch)
        yield proxy
    proxy.close()


@pytest.fixture
def s3(way_to_s3: Proxy, objects: Objects) -> Proxy:
    way_to_s3.to = objects
    way_to_s3.requests.clear()
    return way_to_s3


@pytest.fixture
def shell(tmp_path: Path) -> SharedShell:
    return SharedShell(tmp_path)


@pytest.fixture
def mine(shell: SharedShell) -> SharedShell:
    """A folder that holds a user's own tasks."""
    shutil.copy(TASKS, shell.folder)
    return shell


@pytest.fixture(scope="module")
def module_shell(tmp_path_factory: pytest.TempPathFactory) -> SharedShell:
    """One folder for a whole file, where launching once serves many tests."""
    return SharedShell(tmp_path_factory.mktemp("sweep"))


@pytest.fixture
def running() -> Iterator[Running]:
    """Registers processes to be killed when the test ends, however it ends."""
    processes: list[subprocess.Popen[str]] = []

    def register(process: subprocess.Popen[str]) -> subprocess.Popen[str]:
        processes.append(process)
        return process

    yield register
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def raylets(request: pytest.FixtureRequest) -> Iterator[Raylets]:
    """A head without cores and two nodes of one, unless the test asks for others."""
    cores = getattr(request, "param", (0, 1, 1))
    folder = tempfile.mkdtemp(prefix="sweepd-", dir="/tmp")  # sockets' paths must be short
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex()}
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("raylets.py"), *map(str, cores)],
        env={**clean_environment(), **token, "TMPDIR": folder, "RAY_TMPDIR": folder},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin and process.stdout
    try:
        address, ray = process.stdout.readline().split()
        yield Raylets(process, address, ray, token)
        process.stdin.close()
        process.wait(timeout=200)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
