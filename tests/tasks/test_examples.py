"""The rows that a task's docstring shows are those that `sweepd sample` prints."""

import inspect
import shlex
from pathlib import Path

import pytest
from inprocess import sweepd

from sweepd.grid.registry import find, shipped

TASKS = [task.name for task in shipped("task")]


def docstring(name: str) -> str:
    return inspect.getdoc(find("task", name, Path())) or ""


def shown(name: str) -> tuple[list[str], list[str]]:
    """The command of a docstring's `Examples:` and the lines below it."""
    _, _, examples = docstring(name).partition("\nExamples")
    lines = [line.strip() for line in examples.splitlines()[1:] if line.strip()]
    prompt, *command = shlex.split(lines[0])
    assert prompt == "$", lines
    return command, lines[1:]


@pytest.mark.parametrize("name", TASKS)
def test_examples_are_real_rows(name: str) -> None:
    command, rows = shown(name)
    assert command[:3] == ["sweepd", "sample", name]
    found = sweepd(*command[1:], exits=0)
    assert rows
    for row, real in zip(rows, found.out.splitlines(), strict=True):
        for word, printed in zip(row.split(" "), real.split(" "), strict=True):
            # Processors differ in the last digits of a sum of real numbers.
            assert word == printed or float(word) == pytest.approx(float(printed), rel=1e-5)


@pytest.mark.parametrize("name", TASKS)
def test_docstrings_tell_the_source(name: str) -> None:
    assert "\nSource: " in docstring(name)
