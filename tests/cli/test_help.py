"""The help of every command has an example in one line, and the command accepts this example."""

from __future__ import annotations

import shlex
from itertools import takewhile
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from sweepd.cli import application


def commands(group: TyperGroup, *names: str) -> dict[tuple[str, ...], Any]:
    """By its words, every command below a group."""
    found: dict[tuple[str, ...], Any] = {}
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            found |= commands(command, *names, name)
        else:
            found[*names, name] = command
    return found


COMMANDS = commands(typer.main.get_group(application()))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_commands_example_is_one_that_it_accepts(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]
    assert command.help and command.epilog
    label, _, example = command.epilog.partition(": ")
    given = list(takewhile(lambda word: word != ">", shlex.split(example)))
    assert (label, given[: len(words) + 1]) == ("Example", ["sweepd", *words])
    context = command.make_context(" ".join(words), given[len(words) + 1 :])
    assert command.epilog in " ".join(command.get_help(context).split())
