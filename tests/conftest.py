"""What tests of every folder share. There is one object store for all of them, with a bucket and a
proxy for each test. Besides, this file decides how many inputs hypothesis tries:
`--hypothesis-profile=torture` tries many more."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from object_store import Amazon, GoogleProxy, Objects, Proxy

os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is imported, here and in processes of tests
"""Models of tests are tiny. Threads would wait for one another, and more so where several tests run
side by side: a step then takes up to twenty times the processor time."""
os.environ.setdefault("RAY_worker_niceness", "0")  # read when Ray is started, here and in those
"""Ray lets other work of the machine go before its trials. Here that is other tests, and a trial
that waits for them takes a hundred times as long."""

os.fsync = lambda fd: None
"""What a test writes need not outlast a power cut, and thousands of small files wait long for the
disk. What would be lost without this call is tested by bookkeeping (`torture/crash.py`)."""

gc.set_threshold(100_000, 50, 10)


def pytest_collection_finish() -> None:
    gc.freeze()  # what the tests have imported stays


def pytest_unconfigure() -> None:
    gc.unfreeze()  # DuckDB wants all of it to go


# Other work on the machine may slow a test down, so no input has a deadline.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
settings.register_profile("torture", deadline=None, max_examples=25_000)


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Whoever is started in the background of a script is started to ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[None]:
    """Nothing of the user's cache decides a test, and no test changes it. pytest-xdist's workers
    share one, since they put the scripts of a page together in seconds."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder if worker_id == "master" else folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a user works: commands find and leave their results there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SWEEPD_RESULTS", raising=False)
    return tmp_path


@pytest.fixture(scope="session")
def objects() -> Objects:
    return Objects()


@pytest.fixture
def s3(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The way to all s3:// addresses, for this process and those that it starts."""
    proxy = Proxy(objects)
    proxy.lead_s3(monkeypatch)
    yield proxy
    proxy.close()


@pytest.fixture
def amazon(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> Iterator[Amazon]:
    """Likewise, where all buckets are in Frankfurt and the environment says nothing of it."""
    proxy = Amazon(objects, "eu-central-1")
    proxy.lead_s3(monkeypatch)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    yield proxy
    proxy.close()


@pytest.fixture
def gs(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The way to all gs:// addresses, for this process and those that it starts."""
    proxy = GoogleProxy(objects)
    monkeypatch.setenv("GOOGLE_BASE_URL", proxy.url)
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "token")
    yield proxy
    proxy.close()


KINDS = ("local", "s3", "gs")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty place of each kind that can hold a store."""
    if request.param == "local":
        return str(tmp_path / "results")
    request.getfixturevalue(request.param)
    return f"{request.param}://{request.getfixturevalue('bucket')}/some/results"


@pytest.fixture
def bucket(objects: Objects) -> str:
    """The name of an empty bucket."""
    return objects.new_bucket()
