"""Locks on files: between processes, within one process, after a fork, and when the process that
holds them is killed."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import python

from sweepd.errors import EnvironmentFailure
from sweepd.store.locks import FILES, FileLocks

HOLDER = """
import sys
from pathlib import Path
from sweepd.store.locks import FileLocks
print(*sorted(FileLocks(Path(sys.argv[1])).acquire(sys.argv[2:])), flush=True)
sys.stdin.read()
"""
"""Takes what it can of some locks, says which, and holds them."""


@contextmanager
def holder(path: Path, *names: str) -> Iterator[tuple[subprocess.Popen[str], set[str]]]:
    with python(HOLDER, str(path), *names) as process:
        assert process.stdout
        yield process, set(process.stdout.readline().split())
        process.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks"


def test_a_lock_is_held_by_one_process_and_dies_with_it(path: Path) -> None:
    locks = FileLocks(path)
    with holder(path, "a") as (process, taken):
        assert taken == {"a"}
        assert locks.held_elsewhere(["a"])
        assert not locks.acquire(["a"])
        assert not locks.held_elsewhere(["b"])
        assert locks.acquire(["b"])
        process.kill()
        process.wait()
        assert not locks.held_elsewhere(["a"])
        assert locks.acquire(["a"])


def test_our_locks_hold_against_others_until_released(path: Path) -> None:
    locks = FileLocks(path)
    assert locks.acquire(["a"]) and locks.acquire(["b"])
    assert not locks.held_elsewhere(["a"])
    locks.release(["b"])
    locks.release(["never held"])
    with holder(path, "a", "b") as (_, taken):
        assert taken == {"b"}


def test_one_process_excludes_itself_also_by_another_path(path: Path) -> None:
    assert FileLocks(path).acquire(["a"])
    link = path.with_name("link")
    link.symlink_to(path)
    for other in (FileLocks(path), FileLocks(link)):
        assert not other.acquire(["a"])
        assert other.acquire(["b"])
        other.release(["b"])
    # Had any of them opened the file again and closed it, the lock would be gone.
    with holder(path, "a") as (_, taken):
        assert taken == set()
    FileLocks(link).release(["a"])
    assert FileLocks(path).acquire(["a"])


def test_a_forked_child_holds_nothing_and_takes_nothing_away(path: Path) -> None:
    locks = FileLocks(path)
    assert locks.acquire(["a"])
    child = os.fork()
    if child == 0:
        locks.release(["a"])
        refused = locks.held_elsewhere(["a"]) and not locks.acquire(["a"])
        os._exit(0 if refused and locks.acquire(["b"]) else 1)
    assert os.waitpid(child, 0)[1] == 0
    with holder(path, "a", "b") as (_, taken):
        assert taken == {"b"}


def test_racing_processes_share_the_locks_out(path: Path) -> None:
    names = [f"trial {i}" for i in range(500)]
    processes = [python(HOLDER, str(path), *names) for _ in range(3)]
    outputs = [process.stdout.readline().split("trial") for process in processes if process.stdout]
    for process in processes:
        process.communicate()
    won = sorted(int(number) for output in outputs for number in output if number.strip())
    assert won == list(range(500))


def descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


def test_one_process_holds_thousands(path: Path) -> None:
    locks = FileLocks(path)
    before = descriptors()
    assert len(locks.acquire([f"{i}" for i in range(3000)])) == 3000
    assert descriptors() <= before + FILES
    with holder(path, "0", "1234", "2999", "3000") as (_, taken):
        assert taken == {"3000"}


def test_asking_makes_no_file_and_needs_no_write_access(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not FileLocks(path).held_elsewhere(["a"])
    assert not path.exists()
    with holder(path, "a"):
        real_open = os.open

        def read_only(file: Path, flags: int, mode: int = 0o777) -> int:
            if flags & os.O_RDWR:
                raise PermissionError(13, "Permission denied")
            return real_open(file, flags, mode)

        monkeypatch.setattr(os, "open", read_only)
        locks = FileLocks(path)
        assert locks.held_elsewhere(["a"])
        assert not locks.held_elsewhere(["b"])
        with pytest.raises(EnvironmentFailure, match="locking failed"):
            locks.acquire(["b"])


def test_locks_whose_folder_was_deleted_are_released_without_a_word(tmp_path: Path) -> None:
    """A file in place of a deleted one is another file."""
    folder = tmp_path / "results" / "locks"
    with pytest.raises(EnvironmentFailure, match="results/locks"):
        FileLocks(folder).acquire(["a"])
    folder.parent.mkdir()
    locks = FileLocks(folder)
    assert locks.acquire(["a", "b"]) == {"a", "b"}
    shutil.rmtree(folder.parent)
    locks.release(["a"])
    folder.parent.mkdir()
    assert FileLocks(folder).acquire(["a", "b"]) == {"a", "b"}
    with holder(folder, "a", "b") as (_, taken):
        assert taken == set()
