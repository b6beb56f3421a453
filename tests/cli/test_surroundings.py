"""The command line in surroundings that the user's system decides: locales, a pipe whose reader
ends early, a full disk behind stdout, files that exist already, and how a process ends. Each
command runs in a process of its own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fake_store import FakeStore, as_present, planned

SWEEPD = Path(sys.executable).with_name("sweepd")
QUESTION = "min d where acc > 0.9"
LONG = 'sql "SELECT unnest(range(200000))" --csv'


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose answers need characters that ASCII lacks."""
    folder = tmp_path_factory.mktemp("store") / "results"
    fake, trial = FakeStore(), planned()
    fake.end(trial, "completed", 0.95)
    fake.add_sweep("s", [trial], accepted_for=as_present())
    fake.save(str(folder))
    return folder


def run(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a shell command line in which `sweepd` is ours."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.replace("sweepd", str(SWEEPD), 1)],
        cwd=folder,
        env={**os.environ, "SWEEPD_RESULTS": str(folder / "results"), **environment},
        capture_output=True,
        timeout=120,
    )


LAST_WORDS = """
import atexit, sys, types
LIBRARY
atexit.register(print, "last words")
from sweepd.cli import program
program()
"""


@pytest.mark.parametrize(
    ("library", "arguments", "code"),
    [
        ("", "query nonsense", 2),
        ("", "tasks --json", 0),
        ("sys.modules['wandb'] = types.ModuleType('wandb')", "query nonsense", 2),
    ],
)
def test_a_program_ends_at_once_where_nothing_has_last_words(
    results: Path, library: str, arguments: str, code: int
) -> None:
    """All that was printed has been written, also to a pipe."""
    text = LAST_WORDS.replace("LIBRARY", library)
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments.split()],
        env={**os.environ, "SWEEPD_RESULTS": str(results)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    assert ("last words" in done.stdout) == bool(library)
    listed = done.stdout.replace("last words", "")
    assert json.loads(listed)[0]["name"] if code == 0 else "a question is" in done.stderr


def test_last_words_that_never_end_are_cut_off() -> None:
    """User code may register what waits for ever."""
    endless = "import threading; atexit.register(threading.Event().wait)"
    text = LAST_WORDS.replace("LIBRARY", f"sys.modules['wandb'] = types.ModuleType('w'); {endless}")
    text = text.replace(
        "program()\n", "import sweepd.cli as cli; cli.LAST_WORDS_SECONDS = 1\nprogram()\n"
    )
    done = subprocess.run([sys.executable, "-c", text, "tasks"], capture_output=True, timeout=60)
    assert done.returncode == 0 and b"lookup" in done.stdout


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0"}
FULL = "sweepd: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("words", "environment", "code", "printed", "said"),
    [
        (f"sweepd query '{QUESTION}'", ASCII, 0, "≤ 16 ~", ""),
        ("sweepd plan grid.yaml", ASCII, 2, "", "füße"),
        (f"sweepd query '{QUESTION}'", {"PYTHONIOENCODING": "latin-1"}, 0, "? 16 ~", ""),
        # Whoever reads may leave.
        ("sweepd query 'min d' | true", {}, 0, "", ""),
        (f"sweepd {LONG} | true", {}, 0, "", ""),
        ("sweepd --version > /dev/full", {}, 3, "", FULL),
        (f"sweepd {LONG} > /dev/full", {}, 3, "", FULL),
        ("sweepd query 'min d' >&-", {}, 3, "", "cannot be written: Bad file descriptor"),
        ("sweepd query 'min d' 2>&-", {}, 0, "Least d", ""),
        ("sweepd query nonsense 2>/dev/full", {}, 2, "", ""),
        (
            "cd gone; rmdir ../gone; sweepd query 'min d'",
            {},
            3,
            "",
            "the current folder was deleted",
        ),
    ],
)
def test_what_surrounds_a_command_ends_it_in_one_plain_way(
    results: Path, words: str, environment: dict[str, str], code: int, printed: str, said: str
) -> None:
    """Encodings that lack characters, readers that leave, full disks, closed outputs."""
    (results.parent / "grid.yaml").write_text("füße: 3\n", encoding="utf-8")
    (results.parent / "gone").mkdir(exist_ok=True)
    done = run(words, results.parent, **environment)
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    out, err = done.stdout.decode(encoding), done.stderr.decode(encoding)
    assert done.returncode == code and printed in out and said in err, err
    assert not re.search("Traceback|Broken|Exception ignored", err), err


def test_export_replaces_no_file_unless_it_is_told_to(results: Path) -> None:
    there = results.parent / "trials.csv"
    there.write_text("mine")
    done = run("sweepd export --out trials.csv", results.parent)
    assert done.returncode == 2 and b"--force" in done.stderr
    assert there.read_text() == "mine"
    done = run("sweepd export --out trials.csv --force", results.parent)
    assert done.returncode == 0 and there.read_bytes() != b"mine"
    assert not list(results.parent.glob(".trials*"))
