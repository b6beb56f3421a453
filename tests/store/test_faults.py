"""Storage that fails while a trial runs: full and read-only disks, an object store with faults and
outages, clocks that jump, and copies of a store in use. Nothing recorded is lost, and what was in
memory is kept elsewhere. The numbers are those of a trial that nothing disturbed."""

import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults import attempt, faked_clock, finish, mount, numbers, run_alone
from object_store import Proxy
from waiting import python

from sweepd.errors import EnvironmentFailure
from sweepd.store import local
from sweepd.store.bucket import ObjectFolder
from sweepd.store.leases import Leases
from sweepd.store.local import LocalFolder
from sweepd.store.store import Store
from sweepd.trial.attempt import Attempt

HERE = (Path(__file__).parent, Path(__file__).parents[1])
"""What another process needs to import this file, and what this file imports."""

Numbers = tuple[list[Any], list[Any]]
"""What `faults.numbers` tells of a trial."""
Act = Callable[[Path, Store], None]
"""Fills or spoils the disk that a store lies on while a trial runs."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Numbers:
    store = Store.create(str(tmp_path_factory.mktemp("undisturbed")))
    finish(attempt(store, 1001))
    return numbers(store)


@pytest.fixture(autouse=True)
def rescue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where refuges are made."""
    monkeypatch.setenv("SWEEPD_RESCUE", str(tmp_path / "rescue"))
    return tmp_path / "rescue"


def waiting(store: Store) -> list[str]:
    """What waits in the store's spill."""
    files = LocalFolder(store.spill_folder).files()
    return [file.name.partition("/")[0] for file in files if "/" in file.name]


def step_of(running: Attempt) -> int:
    assert running.training is not None
    return running.training.step


def recorded(store: Store, number: int) -> set[int]:
    """Steps of an attempt."""
    rows = store.read_metrics().table.to_pylist()
    return {row["step"] for row in rows if row["attempt"] == number}


# Disks


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return filler


def full_in_mid_trial(disk: Path, store: Store) -> None:
    first = attempt(store, 1001)
    for _ in range(25):
        first.advance(0.0)
    filler = fill(disk)
    with pytest.raises(EnvironmentFailure) as caught:
        finish(first)
    told = str(caught.value)
    assert f"cannot write {disk}/results" in told and "No space left on device" in told, told
    assert str(store.spill_folder) in told and "next launch or resume" in told
    assert {"checkpoints", "trials"} <= set(waiting(store))
    held = step_of(first)

    filler.unlink()
    second = attempt(store, 1002)
    assert step_of(second) == held >= 25  # not a step is done again
    assert waiting(store) == []
    assert recorded(store, 1001) == set(range(10, held + 1, 10))
    finish(second)


def full_at_the_end(disk: Path, store: Store) -> None:
    first = attempt(store, 1001, checkpoint_seconds=1e9)
    while step_of(first) < 59:
        first.advance(0.0)
    fill(disk).rename(disk / "other")
    with pytest.raises(EnvironmentFailure, match="No space left"):
        finish(first)
    (disk / "other").unlink()
    assert {"metrics", "trials"} <= set(waiting(store))
    assert store.read_trials().table.num_rows == 0
    assert store.take_in_spill() > 0


def full_everywhere(disk: Path, store: Store) -> None:
    os.environ["SWEEPD_RESCUE"] = str(disk / "rescue")
    first = attempt(store, 1001)
    for _ in range(25):
        first.advance(0.0)
    filler = fill(disk)
    with pytest.raises(EnvironmentFailure, match="continues from its last checkpoint: cannot"):
        finish(first)
    filler.unlink()
    before = recorded(store, 1001)
    finish(attempt(store, 1002))
    assert recorded(store, 1001) == before


def read_only(disk: Path, store: Store) -> None:
    """A disk that goes read-only under a trial, as they do when they fail."""
    first = attempt(store, 1001)
    for _ in range(25):
        first.advance(0.0)
    mount("-o", "remount,ro", disk)
    with pytest.raises(EnvironmentFailure, match=r"Read-only file system.*is saved in"):
        finish(first)
    assert Store.open(store.address).read_metrics().table.num_rows > 0
    assert store.driven_elsewhere(["faults"]) == set()
    with pytest.raises(EnvironmentFailure, match="Read-only file system"):
        Store.create(store.address)
    command = [str(Path(sys.executable).with_name("sweepd")), "--results", store.address]
    subprocess.run([*command[:1], "status", *command[1:]], check=True, stdout=subprocess.DEVNULL)
    mount("-o", "remount,rw", disk)
    finish(attempt(store, 1002))


DISKS: tuple[Act, ...] = (full_in_mid_trial, full_at_the_end, full_everywhere, read_only)


def on_disks(folder: str) -> None:
    """Each on a disk of its own; each ends with a trial that is done."""
    local.RETRY_DELAYS = (0.01, 0.01)
    rescue = os.environ["SWEEPD_RESCUE"]
    for act in DISKS:
        os.environ["SWEEPD_RESCUE"] = rescue
        disk = Path(folder, act.__name__)
        disk.mkdir()
        mount("-t", "tmpfs", "-o", "size=2m", "tmpfs", disk)
        store = Store.create(str(disk / "results"))
        act(disk, store)
        print(numbers(store))  # noqa: T201


@pytest.fixture(scope="module")
def after_faults_of_disks(tmp_path_factory: pytest.TempPathFactory) -> dict[Act, str]:
    folder = tmp_path_factory.mktemp("disks")
    told = run_alone("test_faults.on_disks", folder, SWEEPD_RESCUE=str(folder / "rescue"))
    return dict(zip(DISKS, told.splitlines(), strict=True))


@pytest.mark.parametrize("act", DISKS)
def test_full_and_read_only_disks(
    act: Act, after_faults_of_disks: dict[Act, str], undisturbed: Numbers
) -> None:
    assert after_faults_of_disks[act] == str(undisturbed)


# Object stores


@pytest.fixture
def remote(s3: Proxy, bucket: str) -> Store:
    """A store on S3 that is given up on within seconds."""
    Store.create(f"s3://{bucket}/results")
    folder = ObjectFolder(f"s3://{bucket}/results", request_seconds=0.5, retry_seconds=1)
    return Store(folder, Leases(folder))


def test_an_object_store_that_fails_now_and_then(
    remote: Store, s3: Proxy, undisturbed: Numbers
) -> None:
    faults = random.Random(0)
    s3.fault = lambda method, path: (
        faults.choice(["refuse", "reset", "lose", "cut"]) if faults.random() < 0.2 else None
    )
    first = attempt(remote, 1001)
    for _ in range(25):
        first.advance(0.0)
    first.interrupt()
    finish(attempt(remote, 1002))
    s3.fault = lambda method, path: None
    assert numbers(remote) == undisturbed
    assert remote.read_log(first.trial.id).count("step 20:") == 1


def test_an_outage_of_the_object_store(
    remote: Store, s3: Proxy, undisturbed: Numbers, rescue: Path
) -> None:
    first = attempt(remote, 1001)
    for _ in range(25):
        first.advance(0.0)
    s3.fault = lambda method, path: "reset"
    with pytest.raises(EnvironmentFailure, match=re.escape(str(rescue))):
        finish(first)
    with pytest.raises(EnvironmentFailure, match="cannot list s3://"):
        remote.read_trials()  # which is no damage, and no empty answer
    s3.fault = lambda method, path: None
    second = attempt(remote, 1002)
    assert step_of(second) == step_of(first)
    finish(second)
    assert numbers(remote) == undisturbed
    assert "continuing from" in remote.read_log(first.trial.id)


# Refuges


def test_what_waits_is_found_by_whichever_path_leads_to_the_results(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path / "results"))
    (tmp_path / "link").symlink_to(tmp_path / "results")
    by_link = Store.open(str(tmp_path / "link"))
    by_link.spill_store().write_trials(
        [{"id": "ff", "attempt": 1, "config": "ff", "status": "failed"}]
    )
    assert store.take_in_spill() == 1 and store.read_trials().table.num_rows == 1
    assert by_link.spilled() == store.spilled() == store.spill_folder


def test_what_waits_is_taken_in_by_several_at_once_and_only_from_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.create(str(tmp_path / "results"))
    assert store.take_in_spill() == 0
    there = store.spill_store()
    for attempt_number in range(30):
        there.write_trials(
            [{"id": "ff", "attempt": attempt_number, "config": "ff", "status": "failed"}]
        )
    there.append_log("ff", "a line\n")
    takers = [python(TAKE_IN, store.address) for _ in range(3)]
    assert sum(int(taker.communicate()[0]) for taker in takers) >= 30
    assert store.read_trials().table.num_rows == 30 and waiting(store) == []
    assert "a line" in store.read_log("ff")

    there.write_trials([{"id": "ff", "attempt": 99, "config": "ff", "status": "failed"}])
    monkeypatch.setattr("os.getuid", lambda: 12345)
    with pytest.raises(EnvironmentFailure, match="belongs to another user"):
        store.take_in_spill()


TAKE_IN = (
    "import sys; from sweepd.store.store import Store; "
    "print(Store.open(sys.argv[1]).take_in_spill())"
)


# Clocks


def run_while_the_clock_jumps(address: str, clock: str) -> None:
    store = Store.open(address)
    first = attempt(store, 1001)
    for step, offset in [(15, "-1d"), (30, "+2h"), (45, "-400d")]:
        while step_of(first) < step:
            first.advance(0.0)
        Path(clock).write_text(offset)
    first.interrupt()
    Path(clock).write_text("-900d")
    finish(attempt(store, 2001))


def test_a_clock_that_jumps(tmp_path: Path, undisturbed: Numbers) -> None:
    clock = tmp_path / "clock"
    clock.write_text("+0")
    store = Store.create(str(tmp_path / "results"))
    code = "import sys, test_faults; test_faults.run_while_the_clock_jumps(*sys.argv[1:])"
    subprocess.run(
        [sys.executable, "-c", code, store.address, str(clock)],
        env={"PYTHONPATH": os.pathsep.join(map(str, HERE)), **faked_clock(str(clock))},
        check=True,
    )
    assert numbers(store) == undisturbed
    endings = sorted(store.read_trials().table.to_pylist(), key=lambda row: row["attempt"])
    assert [row["status"] for row in endings] == ["interrupted", "completed"]
    assert endings[1]["ended"] < endings[0]["ended"]  # it did jump, and decided nothing
    seconds = [row["seconds"] for row in sorted(
        store.read_metrics().table.to_pylist(), key=lambda row: row["step"])]  # fmt: skip
    assert seconds == sorted(seconds) and 0 <= seconds[-1] < 600


# Copies

WRITER = """
import sys
from sweepd.store.store import Store
store = Store.open(sys.argv[1])
for attempt in range(10_000):
    store.write_metrics([{"id": "ab", "attempt": attempt, "step": i} for i in range(20)])
    store.write_trials([{"id": "ab", "attempt": attempt, "config": "ab", "status": "failed"}])
    store.put_checkpoint("t1", "000000001-ab.pt", bytes(100_000))
    if attempt % 10 == 9:
        store.compact()
    print(attempt, flush=True)
"""


def test_a_folder_copied_while_in_use(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path / "results"))
    with python(WRITER, store.address) as writer:
        assert writer.stdout
        for copy in range(5):
            for _ in range(12):
                before = int(writer.stdout.readline())
            there = tmp_path / f"copy{copy}"
            # It says that files being written have gone meanwhile, and goes on.
            subprocess.run(["cp", "-r", store.address, str(there)], stderr=subprocess.DEVNULL)
            copied = Store.open(str(there))
            trials, metrics = copied.read_trials(), copied.read_metrics()
            assert trials.damaged == metrics.damaged == ()
            # Whatever was written before the copy began; of what came later, any file or none.
            assert set(trials.table["attempt"].to_pylist()) >= set(range(before + 1))
            steps = Counter(metrics.table["attempt"].to_pylist())
            assert all(steps[attempt] == 20 for attempt in range(before + 1))
            assert set(steps.values()) == {20}
            assert len(copied.get_checkpoint("t1", "000000001-ab.pt")) == 100_000
        writer.kill()
