"""Where a program runs: what it reads there, where its writes land, and what becomes of them, with
the kernel's overlays and without."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweepd.errors import EnvironmentFailure
from sweepd.trial import workplace
from sweepd.trial.workplace import COPIED_BYTES, LaunchCopy, Workplace, guarded, matches

LARGE = b"x" * (COPIED_BYTES + 1)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a grid's folder `exp` in it, beside data."""
    files = {
        ".git/HEAD": b"ref",
        "data/small.txt": b"5",
        "data/large.bin": LARGE,
        "exp/train.py": b"",
        "exp/conf/a.yaml": b"a: 1",
        "exp/__pycache__/x.pyc": b"",
        "exp/.venv/pyvenv.cfg": b"home = /",
        "exp/cache/CACHEDIR.TAG": b"Signature",
        "exp/results/sweepd-store.json": b"{}",
        "exp/.env": b"KEY=1",
    }
    for name, data in files.items():
        path = tmp_path / "repository" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "repository/exp/link.yaml").symlink_to("conf/a.yaml")
    (tmp_path / "beside.txt").write_text("beside")
    return tmp_path / "repository"


@pytest.fixture(params=["overlays", "copies"])
def copy(
    request: pytest.FixtureRequest,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[LaunchCopy]:
    monkeypatch.setattr(workplace, "shared_folder", lambda: shared(tmp_path))
    if request.param == "copies":
        monkeypatch.setattr(workplace, "overlays_work", lambda folder: False)
    made = LaunchCopy.of(repository / "exp", "key", lambda: {"train.py": b"# as launched"})
    if request.param == "overlays" and not made.overlays:
        pytest.skip("this kernel mounts no overlays for this user")
    yield made
    made.close()


def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir(exist_ok=True)
    return folder


def run(place: Workplace, code: str) -> str:
    """What Python code prints that runs as a program does."""
    command = guarded(5, place.folder, place.cwd, (), place.overlays, [sys.executable, "-c", code])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        printed = process.stdout.read().decode()
        assert process.wait() == 0
    return printed


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_what_lies_beside_the_grid_is_there(copy: LaunchCopy, repository: Path) -> None:
    place = Workplace("trial", repository / "exp", copy)
    printed = run(
        place,
        "import os\n"
        "for name in ('train.py', 'link.yaml', '.env', '../data/small.txt', '../../beside.txt',\n"
        "             '.venv/pyvenv.cfg'): print(open(name).read())\n"
        "print(os.path.getsize('../data/large.bin'), os.path.islink('link.yaml'))\n"
        "print([n for n in ('__pycache__', '../.git', 'cache', 'results') if os.path.exists(n)])\n",
    )
    large = f"{len(LARGE)} True"
    assert printed.splitlines() == [
        *("# as launched", "a: 1", "KEY=1", "5", "beside", "home = /", large, "[]")
    ]
    place.close()


WRITES = """
import os
open("best.json", "w").write("1")
open("conf/new.yaml", "w").write("2")
open("conf/a.yaml", "w").write("3")
open("../data/small.txt", "a").write("4")
os.makedirs("out/deep"); open("out/deep/x", "w").write("5")
os.remove("train.py")
print(open("link.yaml").read(), open("../data/small.txt").read())
"""
WRITTEN = {
    "best.json": b"1",
    "conf/new.yaml": b"2",
    "conf/a.yaml": b"3",
    "../data/small.txt": b"54",
    "out/deep/x": b"5",
}


def test_what_it_writes_lands_with_its_trial(copy: LaunchCopy, repository: Path) -> None:
    before = contents(repository)
    first, second = (Workplace(name, repository / "exp", copy) for name in ("first", "second"))
    assert run(first, WRITES) == "3 54\n"
    assert {name: path.read_bytes() for name, path in first.written()} == WRITTEN
    code = "import os; print(os.path.exists('best.json'), open('train.py').read())"
    assert run(second, code) == "False # as launched\n"
    assert contents(repository) == before and list(second.written()) == []
    first.close()
    second.close()


def test_a_large_file_is_written_in_the_trial_or_that_is_noticed(
    copy: LaunchCopy, repository: Path
) -> None:
    began, large = time.time_ns(), repository / "data" / "large.bin"
    place = Workplace("trial", repository / "exp", copy)
    run(place, "open('../data/large.bin', 'r+b').write(b'y')")
    assert [name for name, _ in place.written()] == ["../data/large.bin"]
    if copy.overlays:
        assert large.read_bytes() == LARGE and copy.changed(began) == []
    else:
        assert copy.changed(began) == ["../data/large.bin"]
    place.close()


def test_what_is_written_by_an_absolute_path_is_noticed(copy: LaunchCopy, repository: Path) -> None:
    began = time.time_ns()
    place = Workplace("trial", repository / "exp", copy)
    run(place, f"open({str(repository / 'exp' / 'best.json')!r}, 'w').write('1')")
    assert list(place.written()) == [] and copy.changed(began) == ["best.json"]
    place.close()


def test_a_folder_of_too_many_files_is_linked(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(workplace, "shared_folder", lambda: shared(tmp_path))
    monkeypatch.setattr(workplace, "FOLDER_FILES", 3)
    for number in range(5):
        (repository / "data" / f"{number}.txt").write_text("n")
    made = LaunchCopy.of(repository / "exp", "key")
    assert list(made.linked) == [str(repository / "data")]
    place = Workplace("trial", repository / "exp", made)
    run(place, "open('../data/1.txt', 'w').write('new'); open('../data/n', 'w').write('new')")
    if made.overlays:
        names = {name: path.read_text() for name, path in place.written()}
        assert names == {"../data/1.txt": "new", "../data/n": "new"}
        assert (repository / "data" / "1.txt").read_text() == "n"
    place.close()
    made.close()


def test_a_launch_has_one_version_of_all_files(copy: LaunchCopy, repository: Path) -> None:
    (repository / "exp" / "conf" / "a.yaml").write_text("a: 2")
    (repository / "exp" / "conf" / "later.yaml").touch()
    again = LaunchCopy.of(repository / "exp", "key")
    place = Workplace("trial", repository / "exp", again)
    printed = run(place, "import os; print(open('conf/a.yaml').read(), os.listdir('conf'))")
    assert printed == "a: 1 ['a.yaml']\n"
    place.close()
    again.close()
    assert copy.folder.exists()  # as long as one process uses it


def test_an_attempt_has_the_paths_of_the_one_before_and_waits_for_it(
    copy: LaunchCopy, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Workplace("trial", repository / "exp", copy)
    (first.dir / "state").touch()
    monkeypatch.setattr(workplace, "WAIT_SECONDS", 0.1)
    with pytest.raises(EnvironmentFailure, match="does not end"):
        Workplace("trial", repository / "exp", copy)
    os.close(first.lock)  # it was killed, and has left its files
    second = Workplace("trial", repository / "exp", copy)
    assert (second.dir, second.cwd) == (first.dir, first.cwd) and not list(second.dir.iterdir())
    second.close()


def test_what_was_left_by_the_killed_is_swept_up(copy: LaunchCopy, repository: Path) -> None:
    place = Workplace("trial", repository / "exp", copy)
    os.close(place.lock)
    workplace.sweep_up()
    assert copy.folder.exists() and not place.folder.exists()


def test_it_may_run_in_the_grids_folder_itself(repository: Path) -> None:
    place = Workplace("in-place-of-a-test", repository / "exp", None)
    run(place, "open('conf/new.yaml', 'w').write('2')")
    assert (repository / "exp" / "conf" / "new.yaml").read_text() == "2"
    assert list(place.written()) == []
    place.close()


@pytest.mark.parametrize(
    ("name", "pattern", "is_kept"),
    [
        ("pred-1.csv", "pred-*.csv", True),
        ("out/pred-1.csv", "pred-*.csv", True),
        ("out/deep/x.csv", "out", True),
        ("out/deep/x.csv", "out/", True),
        ("out/deep/x.csv", "*/deep", True),
        ("x.csv", "out/", False),
        ("../data/x", "../data/*", True),
        ("best.pt", "*.csv", False),
    ],
)
def test_patterns_of_what_is_kept(name: str, pattern: str, is_kept: bool) -> None:
    assert matches(name, pattern) == is_kept
