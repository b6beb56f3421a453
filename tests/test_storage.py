"""The primitives on a local folder: whole or absent, exclusive, tried again, and saying why not."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd import storage
from sweepd.errors import EnvironmentFailure, UserError
from sweepd.storage import ASIDE, RETRY_DELAYS, LocalFolder, checked


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    return LocalFolder(tmp_path)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    delays: list[float] = []
    monkeypatch.setattr(storage.time, "sleep", delays.append)
    return delays


def failing_fsync(monkeypatch: pytest.MonkeyPatch, *errors: int) -> None:
    """The next calls of fsync fail so, later ones do their work."""
    left, fsync = list(errors), os.fsync

    def fail(descriptor: int) -> None:
        if left:
            number = left.pop(0)
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(storage.os, "fsync", fail)


def all_files(folder: LocalFolder) -> list[str]:
    return sorted(path.name for path in folder.root.rglob("*") if path.is_file())


def test_put_replaces_and_create_does_not(folder):
    folder.put("a/b/x", b"1")
    folder.put("a/b/x", b"2")
    assert folder.read("a/b/x") == b"2"
    assert not folder.create("a/b/x", b"3")
    assert folder.create("a/b/y", b"3")
    assert folder.read("a/b/x") == b"2"
    assert folder.names("a/b") == ["x", "y"]
    assert all_files(folder) == ["x", "y"]
    folder.delete("a/b/x")
    folder.delete("a/b/x")
    assert folder.names("a/b") == ["y"]
    assert folder.names("nowhere") == []


def test_one_of_many_creates_wins(folder):
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: folder.create("x", str(i).encode()), range(32)))
    assert won.count(True) == 1
    assert folder.read("x") == str(won.index(True)).encode()


def test_writing_is_tried_again(folder, slept, monkeypatch):
    failing_fsync(monkeypatch, errno.EIO, errno.ENOSPC)
    folder.put("x", b"1")
    assert folder.read("x") == b"1"
    assert slept == list(RETRY_DELAYS[:2])


def test_writing_gives_up_with_path_and_reason_and_leaves_what_was_there(
    folder, slept, monkeypatch
):
    folder.put("x", b"old")
    failing_fsync(monkeypatch, *[errno.ENOSPC] * 9)
    with pytest.raises(EnvironmentFailure, match=r"cannot write .*/x: No space left"):
        folder.put("x", b"new")
    assert slept == list(RETRY_DELAYS)
    assert folder.read("x") == b"old"
    assert all_files(folder) == ["x"]


def test_what_will_not_pass_is_not_tried_again(folder, slept, monkeypatch):
    failing_fsync(monkeypatch, errno.EACCES)
    with pytest.raises(EnvironmentFailure, match="Permission denied"):
        folder.put("x", b"")
    assert slept == []


@pytest.mark.usefixtures("slept")
def test_a_folder_that_was_deleted_is_not_made_anew(tmp_path):
    with pytest.raises(EnvironmentFailure, match="gone/a/x"):
        LocalFolder(tmp_path / "gone").put("a/x", b"")
    assert not (tmp_path / "gone").exists()


def test_what_writers_left_behind_is_not_listed_and_is_deleted_when_old(folder):
    folder.put("a/x", b"")
    for age, name in [(100, "old"), (0, "new")]:
        left = folder.root / "a" / f"{ASIDE}{name}"
        left.write_bytes(b"half")
        os.utime(left, (left.stat().st_atime, left.stat().st_mtime - age))
    assert folder.names("a") == ["x"]
    assert folder.delete_asides(50) == 1
    assert all_files(folder) == [f"{ASIDE}new", "x"]


def test_read_tells_absent_from_unreadable(folder):
    folder.put("x", b"")
    for absent in ("y", "x/y"):
        with pytest.raises(FileNotFoundError):
            folder.read(absent)
    with pytest.raises(EnvironmentFailure, match="cannot read"):
        folder.read("")


@pytest.mark.parametrize("act", [LocalFolder.names, LocalFolder.delete])
def test_other_failures_name_the_path(folder, act):
    folder.put("x", b"")
    with pytest.raises(EnvironmentFailure, match="/x/y: Not a directory"):
        act(folder, "x/y")


def test_append_adds_text(folder):
    folder.append("logs/a", "é")
    folder.append("logs/a", "\udce9\n")
    assert folder.read("logs/a") == "é?\n".encode()
    with pytest.raises(EnvironmentFailure, match="cannot write"):
        folder.append("logs", "x")


@pytest.mark.parametrize("name", ["a", "0-b_c.pt", "x" * 100])
def test_names_that_may_be_part_of_a_path(name):
    assert checked(name) == name


@given(st.text(st.sampled_from("/\\. \n:é\0")) | st.just("x" * 101) | st.just(".hidden"))
def test_names_that_may_not(name):
    with pytest.raises(UserError, match="a name has"):
        checked(name)
