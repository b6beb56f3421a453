"""Where a launch came from: the commit and the uncommitted changes of its folder, what is known
without git, and the origin of a launch that was handed over to a cluster."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sweepd import provenance as module
from sweepd.provenance import LONGEST_DIFF, ORIGIN, home, provenance


def git(folder: Path, *arguments: str) -> str:
    me = ("-c", "user.name=me", "-c", "user.email=me@here")
    command = ["git", "-C", str(folder), *me, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "grids").mkdir(parents=True)
    (folder / "grids" / "grid.yaml").write_text("seeds: [0]\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "a grid")
    return folder


def test_a_folder_of_a_repository_has_its_commit_and_its_changes(repository: Path) -> None:
    folder = repository / "grids"
    record = provenance(folder)
    assert (record["commit"], record["diff"]) == (git(repository, "rev-parse", "HEAD"), "")
    assert record["command"] == sys.argv and record["versions"].keys() == {*module.PACKAGES}
    assert "origin" not in record and home(folder) == str(folder)

    (folder / "grid.yaml").write_text("seeds: [0, 1]\n")
    diff = provenance(folder)["diff"]
    assert "-seeds: [0]" in diff and "+seeds: [0, 1]" in diff
    (folder / "grid.yaml").write_text("x" * (LONGEST_DIFF + 1))
    assert len(provenance(folder)["diff"]) == LONGEST_DIFF
    (folder / "grid.yaml").write_bytes("name: größe\n".encode("latin-1"))
    assert "+name: gr�" in provenance(folder)["diff"], "no error, whatever bytes the files hold"


def test_without_a_repository_or_without_git_there_is_no_commit(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    record = provenance(tmp_path)
    assert (record["commit"], record["diff"]) == (None, "")
    monkeypatch.setenv("PATH", "")
    record = provenance(repository)
    assert (record["commit"], record["diff"]) == (None, "")


def test_a_package_that_is_not_installed_has_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PACKAGES", ("numpy", "no-such-package"))
    versions = provenance(tmp_path)["versions"]
    assert versions["numpy"] and versions["no-such-package"] is None


def test_a_sweep_that_was_handed_over_tells_where_it_came_from(repository: Path) -> None:
    """The commit is that of the launch, not of the folder in which the driver runs."""
    origin = {"commit": "abc", "diff": "-1", "host": "laptop", "base": "/home/me/grids"}
    (repository / ORIGIN).write_text(json.dumps(origin))
    record = provenance(repository)
    assert (record["commit"], record["diff"]) == ("abc", "-1")
    assert record["origin"] == {"host": "laptop", "base": "/home/me/grids"}
    assert home(repository) == "/home/me/grids"
