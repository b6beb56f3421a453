"""The first minutes of a new user: `init`, `--version`, the help in groups with an example of each
command, completion in the shell, and `query` without a question.
Covers `cli/completion.py` and `query/answers.py`."""

import json
import shlex
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from fake_store import FakeStore, as_present, planned
from inprocess import sweepd
from typer.core import TyperGroup
from typer.main import get_group

from sweepd import __version__
from sweepd.cli import SECTIONS, application, completion
from sweepd.store.store import Store

pytestmark = pytest.mark.usefixtures("folder")
run = partial(sweepd, exits=0)


@pytest.fixture
def store(folder: Path) -> None:
    fake = FakeStore()
    trials = [planned(d=d, lr=lr) for d in (8, 16) for lr in ("0.01", "0.02")]
    for trial in trials:
        fake.end(trial, "completed", 0.95, loss=0.1)
    fake.add_sweep("widths", trials, accepted_for=as_present())
    fake.save("sweepd-results")


@pytest.mark.parametrize("kind", ["tasks", "models"])
def test_what_there_is_stands_by_family(kind: str) -> None:
    rows = run(kind, "--json").rows
    lines = run(kind).out.splitlines()
    assert max(map(len, lines)) <= 100
    titles = [line for line in lines if line and not line.startswith(" ")]
    assert titles == sorted({row["family"] for row in rows})
    for row in rows:
        at = lines.index(row["family"])
        until = next((i for i in range(at, len(lines)) if not lines[i]), len(lines))
        text = " ".join(" ".join(lines[at:until]).split())
        field, value = list(json.loads(row["parameters"]).items())[-1]
        value = value if isinstance(value, str) else json.dumps(value)
        assert f"{row['name']} {row['summary']} " in text and f"{field}: {value}" in text


def test_init_writes_a_grid_that_can_be_planned_and_replaces_nothing(folder: Path) -> None:
    told = run("init", "--grid", "quickstart", "--out", "first").err
    assert "sweepd plan first/quickstart.yaml" in told
    schema = json.loads((folder / "first" / "grid.schema.json").read_text())
    assert schema["title"] == "A sweepd grid"
    run("plan", "first/quickstart.yaml")
    run("init", "--own", "task", "--own", "model")
    run("plan", "grid.yaml")
    (folder / "parity.py").write_text("mine")
    (folder / "grid.yaml").unlink()
    answer = run("init", "--own", "task", exits=2)
    assert "has parity.py already" in answer.err and not (folder / "grid.yaml").exists()
    assert (folder / "parity.py").read_text() == "mine"


def test_init_says_what_it_cannot_do(folder: Path) -> None:
    assert "did you mean lis" in run("init", "--task", "lsi", exits=2).err
    assert "did you mean linear" in run("init", "--model", "liner", exits=2).err
    assert "leave out" in run("init", "--grid", "mini", "--task", "lis", exits=2).err
    assert list(folder.iterdir()) == []


def test_the_version() -> None:
    assert run("--version").out == f"sweepd {__version__}\n"


def test_every_command_stands_in_one_section_of_the_help() -> None:
    commands = get_group(application()).commands
    named = [name for names in SECTIONS.values() for name in names]
    assert sorted(named) == sorted(commands), "put a new command into a section"
    for name in named:
        [alone] = get_group(application([name])).commands
        assert alone == name, "name its file in GROUPS"
    told = run("--help").out
    assert all(f"{title}:\n" in told for title in SECTIONS) and "More:" not in told


def test_a_command_that_does_not_exist_is_answered_with_one_that_does() -> None:
    assert "'plan'" in run("plann", exits=2).err


@pytest.mark.usefixtures("store")
def test_query_without_a_question_lists_what_can_be_asked() -> None:
    answer = run("query", "--json")
    rows = {row["column"]: row["values"] for row in answer.rows}
    assert (rows["d"], rows["lr"], rows["acc"]) == ("8, 16", "0.01, 0.02", "0.95 … 0.95")
    assert "heads" not in rows, "it has one value"
    examples = [shlex.split(line)[2] for line in answer.err.splitlines()]
    assert "min d where acc > 0.9" in examples and "best lr by d" in examples
    for example in examples:
        run("query", example)


def test_a_store_with_nothing_in_it_has_nothing_to_ask(folder: Path) -> None:
    Store.create("sweepd-results")
    assert run("query", "--json").rows == []


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("sample arith", ["arithmetic"]),
        ("flops li", ["lin_rpe", "linear"]),
        ("init --grid quick", ["quickstart"]),
        ("plan g", ["grids/"]),
        ("plan grids/", ["grids/one.yaml"]),
        ("plan ./grids/", ["./grids/one.yaml"]),
        ("status w", ["widths"]),
        ("query fr", ["frontier"]),
        ("query 'min d where tr", ["min d where train_bytes", "min d where train_flops"]),
    ],
)
def test_completion(
    folder: Path, monkeypatch: pytest.MonkeyPatch, typed: str, offered: list[str]
) -> None:
    """A shell is told what it asks for."""
    (folder / "grids").mkdir()
    (folder / "grids" / "one.yaml").touch()
    (folder / "grids" / "notes.txt").touch()
    monkeypatch.setenv("_SWEEPD_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"sweepd {typed}")
    monkeypatch.setenv("COMP_CWORD", str(len(typed.partition("'")[0].split()) + ("'" in typed)))
    assert run().out.splitlines() == offered


def test_what_cannot_be_read_offers_nothing(folder: Path) -> None:
    assert completion.complete_sweeps() == []
    (folder / "sweepd-results").mkdir()
    (folder / "sweepd-results" / "cat.jpg").touch()
    assert completion.complete_sweeps() == completion.complete_question("min d by ") == []
    assert completion.complete_grid_files("nowhere/") == []


def commands(group: TyperGroup, *names: str) -> dict[tuple[str, ...], Any]:
    """By its words, every command below a group."""
    found: dict[tuple[str, ...], Any] = {}
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            found |= commands(command, *names, name)
        else:
            found[*names, name] = command
    return found


COMMANDS = commands(get_group(application()))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_commands_examples_are_ones_that_it_accepts(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]
    assert command.help and command.epilog
    _, label, *examples = command.epilog.splitlines()
    assert label == "Examples:" and len(examples) == 2
    for example in examples:
        given = list(takewhile(lambda word: word not in (">", "|"), shlex.split(example)))
        assert given[: len(words) + 1] == ["sweepd", *words]
        context = command.make_context(" ".join(words), given[len(words) + 1 :])
        assert example.strip() in command.get_help(context)
