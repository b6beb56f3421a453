"""Every command and every option is explained in the manual and has an example there; and the
manual speaks of no command and no option that does not exist. Who follows the tour has the trials
that it names."""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from pages import MANUAL, ROOT, Shown, all_commands, name, prose, spans

from sweepd.cli import application
from sweepd.grid.plan import plan
from sweepd.grid.spec import load_grid

ROOT_COMMAND = typer.main.get_command(application())


def commands_of(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each command with its words: `cluster up`. They are classes of the click within Typer."""
    subcommands = getattr(group, "commands", None)
    if subcommands is None:
        yield path, group
        return
    for word, command in subcommands.items():
        yield from commands_of(command, f"{path} {word}".strip())


COMMANDS = dict(commands_of(ROOT_COMMAND))


def options_of(command: Any) -> list[tuple[str, ...]]:
    """The names of each option, without --help; of a pair such as --json and --csv, of each."""
    options = [p for p in command.params if p.param_type_name == "option"]
    return [tuple(names) for p in options for names in (p.opts, p.secondary_opts) if names]


def of_sweepd(words: list[str]) -> tuple[str, list[str]] | None:
    """The command that words call, and the options that they give it; None if it is not ours."""
    if words[:1] != ["sweepd"]:
        return None
    for count in (2, 1):
        path = " ".join(words[1 : 1 + count])
        if path in COMMANDS:
            return path, [w.partition("=")[0] for w in words[1 + count :] if w.startswith("-")]
    return " ".join(words[1:2]), []


EXAMPLES: list[tuple[Shown, str, list[str]]] = [
    (shown, *call) for shown in all_commands() if (call := of_sweepd(shown.words))
]
OPTIONS: dict[tuple[tuple[str, ...], str], list[str]] = defaultdict(list)
"""By its names and its help, the commands that have the option."""
for path_, command_ in COMMANDS.items():
    for parameter in command_.params:
        if parameter.param_type_name == "option":
            for names_ in filter(None, (parameter.opts, parameter.secondary_opts)):
                OPTIONS[tuple(names_), getattr(parameter, "help", None) or ""].append(path_)


OTHERS = {"--help", "--version", "--install-completion", "--no-kill", "--signal"}
"""Options of `sweepd` itself, Typer's or Slurm's."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_explained_and_has_an_example(command: str) -> None:
    in_table = rf"(?m)^\|[^|]*`{command}[` ]"
    assert any(re.search(in_table, prose(page)) for page in MANUAL), f"no table explains {command}"
    assert any(path == command for _, path, _ in EXAMPLES), f"no example of sweepd {command}"
    assert COMMANDS[command].help, f"{command} has no help"


@pytest.mark.parametrize(
    ("names", "owners"),
    [(names, owners) for (names, _), owners in OPTIONS.items()],
    ids=[f"{names[0]} of {', '.join(owners)}" for (names, _), owners in OPTIONS.items()],
)
def test_an_option_is_explained_and_has_an_example(
    names: tuple[str, ...], owners: list[str]
) -> None:
    """Commands that share an option, with the same help, share its example."""
    text = [span for page in MANUAL for span in spans(page)]
    mentioned = {word for span in text for word in re.split(r"[ =,]", span)}
    used = {o for _, path, options in EXAMPLES if path in owners for o in options}
    assert mentioned.intersection(names), f"no text explains {names}"
    assert used.intersection(names), f"no example of {names} with any of: {', '.join(owners)}"


def test_examples_use_commands_and_options_that_exist() -> None:
    for shown, path, options in EXAMPLES:
        assert path in COMMANDS, f"{shown}: there is no such command"
        known = {name for names in options_of(COMMANDS[path]) for name in (*names, "--help")}
        assert set(options) <= known, f"{shown}: {path} has no {set(options) - known}"


def test_the_text_speaks_of_commands_and_options_that_exist() -> None:
    every = {n for command in COMMANDS.values() for names in options_of(command) for n in names}
    for page in MANUAL:
        for span in spans(page):
            words = shlex.split(span) if span.count(chr(34)) == 2 else span.split()
            call = of_sweepd(words)
            if call and words[1:2] and words[1] in OTHERS:
                continue
            if call and words[1:2] not in ([], ["COMMAND"]):
                path, options = call
                assert path in COMMANDS or path == "cluster", f"{name(page)}: `{span}`"
                if path in COMMANDS:
                    known = {n for names in options_of(COMMANDS[path]) for n in (*names, "--help")}
                    assert set(options) <= known, f"{name(page)}: `{span}`"
            elif words[0].startswith("--") and len(words[0]) > 2:
                option = re.split(r"[=,]", words[0])[0]
                assert option in every or option in OTHERS, f"{name(page)}: `{span}`"


def test_the_trials_of_the_tour_are_those_of_its_grid_with_the_code_of_now() -> None:
    named = [
        shown.words[2]
        for shown, path, _ in EXAMPLES
        if shown.place.startswith("docs/tour.md") and path in ("show", "logs")
    ]
    planned = plan(load_grid(ROOT / "grids" / "quickstart.yaml", [])).trials
    assert named
    for beginning in named:
        ids = [trial.id for trial in planned if trial.id.startswith(beginning)]
        assert len(ids) == 1, f"docs/tour.md: {beginning} is {ids}: show another run"
