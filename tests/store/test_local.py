"""What is special about a local folder: writes are durable, are tried again, and say why they
fail."""

import errno
import os
from pathlib import Path

import pytest

from sweepd.errors import EnvironmentFailure
from sweepd.store.local import RETRY_DELAYS, LocalFolder
from sweepd.store.storage import Unfit


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    return LocalFolder(tmp_path)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    delays: list[float] = []
    monkeypatch.setattr("sweepd.store.local.time.sleep", delays.append)
    return delays


def failing_fsync(monkeypatch: pytest.MonkeyPatch, *errors: int) -> None:
    """The next calls of fsync fail so, later ones do their work."""
    left, fsync = list(errors), os.fsync

    def fail(descriptor: int) -> None:
        if left:
            number = left.pop(0)
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr("sweepd.store.local.os.fsync", fail)


def all_files(folder: LocalFolder) -> list[str]:
    return sorted(path.name for path in folder.root.rglob("*") if path.is_file())


def test_writing_is_tried_again(
    folder: LocalFolder, slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_fsync(monkeypatch, errno.EIO, errno.ENOSPC)
    folder.put("x", b"1")
    assert folder.read("x") == b"1"
    assert slept == list(RETRY_DELAYS[:2])


@pytest.mark.parametrize(("number", "delays"), [(errno.ENOSPC, RETRY_DELAYS), (errno.EACCES, ())])
def test_writing_gives_up_with_path_and_reason_and_leaves_what_was_there(
    folder: LocalFolder,
    slept: list[float],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    delays: tuple[float, ...],
) -> None:
    """What will not pass is not tried again. A folder that was deleted is not made anew."""
    folder.put("x", b"old")
    failing_fsync(monkeypatch, *[number] * 9)
    with pytest.raises(EnvironmentFailure, match=rf"cannot write .*/x: {os.strerror(number)}"):
        folder.put("x", b"new")
    assert slept == list(delays)
    assert folder.read("x") == b"old" and all_files(folder) == ["x"]
    with pytest.raises(EnvironmentFailure, match="gone/a/x"):
        LocalFolder(folder.root / "gone").put("a/x", b"")
    assert not (folder.root / "gone").exists()


def test_an_aside_deleted_under_its_writer_is_written_again(
    folder: LocalFolder, slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gc` might delete it where a clock has jumped."""
    replace = os.replace
    deleted: list[Path] = []

    def publish(aside: Path, path: Path) -> None:
        if not deleted:
            deleted.append(aside)
            aside.unlink()
        replace(aside, path)

    monkeypatch.setattr("sweepd.store.local.os.replace", publish)
    folder.put("x", b"1")
    assert folder.read("x") == b"1" and len(slept) == 1


def test_read_tells_absent_from_unreadable(folder: LocalFolder) -> None:
    folder.put("x", b"")
    for absent in ("y", "x/y"):
        with pytest.raises(FileNotFoundError):
            folder.read(absent)
    with pytest.raises(Unfit, match="no regular file but a folder"):
        folder.read("")


def test_other_failures_name_the_path(folder: LocalFolder) -> None:
    folder.put("x", b"")
    for act in (folder.files, lambda name: folder.delete([name])):
        with pytest.raises(EnvironmentFailure, match="/x/y: Not a directory"):
            act("x/y")
    (folder.root / "logs" / "a.log").mkdir(parents=True)
    with pytest.raises(EnvironmentFailure, match="cannot write"):
        folder.append("logs/a", "x")
