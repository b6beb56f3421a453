"""The folder of a private Ray is closed to others, and removed when its launch has died."""

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import python

from sweepd.errors import EnvironmentFailure
from sweepd.run import ray_folder

HOLD = """
import sys
from sweepd.run import ray_folder
print(ray_folder.new_folder(), flush=True)
sys.stdin.read()
"""
OTHER = 65533
"""Another user, without a name."""


@pytest.fixture
def usual(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of this user's with a short path, where temporary files are to lie."""
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as name:
        monkeypatch.setenv("RAY_TMPDIR", name)
        monkeypatch.setattr(ray_folder, "held", {})
        yield Path(name)


def launch() -> tuple[subprocess.Popen[str], Path]:
    """A process that holds a folder, and the folder."""
    process = python(HOLD)
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


def test_only_its_owner_enters_it(usual: Path) -> None:
    before = os.umask(0)
    try:
        folder = ray_folder.new_folder()
    finally:
        os.umask(before)
    status = folder.lstat()
    assert folder.parent == usual and not list(folder.glob("ray"))
    assert stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o700
    assert status.st_uid == os.getuid()


def test_folders_of_dead_launches_are_removed_and_no_others(usual: Path) -> None:
    dead, left = launch()
    (left / "ray" / "session" / "logs").mkdir(parents=True)
    (left / "ray" / "session" / "logs" / "raylet.out").write_text("dead")
    dead.kill()
    dead.wait()
    alive, kept = launch()
    slurms = usual / "sweepd-17-0"
    someones = usual / "sweepd-ray-12345678"  # without a lock: just made, or no folder of a launch
    for folder in (slurms, someones):
        folder.mkdir()
    (usual / "sweepd-ray-link").symlink_to(slurms)
    (slurms / ray_folder.LOCK).touch()
    (slurms / "ray").mkdir()
    mine = ray_folder.new_folder()
    others = {slurms, someones, usual / "sweepd-ray-link"}
    assert {*usual.iterdir()} == {kept, mine, *others} and (slurms / "ray").exists()
    alive.communicate("")
    ray_folder.new_folder()
    assert not kept.exists() and mine.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can play another user")
def test_a_folder_of_another_user_is_left_alone(usual: Path) -> None:
    usual.chmod(0o1777)
    folder = usual / "sweepd-ray-87654321"
    folder.mkdir()
    (folder / ray_folder.LOCK).touch()
    for path in (folder / ray_folder.LOCK, folder):
        os.chown(path, OTHER, OTHER)
    ray_folder.new_folder()
    assert (folder / ray_folder.LOCK).exists()


def test_it_lies_elsewhere_where_others_could_replace_it(usual: Path) -> None:
    """As in a scratch folder that is open to all: they would rename it, and make their own."""
    within = usual / "a"
    within.mkdir()
    for mode, guarded in ((0o777, False), (0o775, False), (0o1777, True), (0o755, True)):
        usual.chmod(mode)
        assert ray_folder.is_guarded(usual) is guarded
        assert ray_folder.is_guarded(within) is guarded
    usual.chmod(0o777)
    folder = ray_folder.new_folder()
    assert folder.parent == Path("/tmp").resolve()
    ray_folder.remove(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can play another user")
def test_it_does_not_lie_in_a_folder_of_another_user(usual: Path) -> None:
    os.chown(usual, OTHER, OTHER)
    assert not ray_folder.is_guarded(usual) and not ray_folder.is_guarded(usual / "none")


def test_a_long_path_is_not_taken(usual: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = usual / "a-path-too-long-for-the-sockets"
    deep.mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(deep))
    folder = ray_folder.new_folder()
    assert folder.parent == Path("/tmp").resolve()
    ray_folder.remove(folder)
    monkeypatch.setattr(ray_folder, "is_guarded", lambda folder: False)
    with pytest.raises(EnvironmentFailure, match="set RAY_TMPDIR to a folder of yours"):
        ray_folder.new_folder()
