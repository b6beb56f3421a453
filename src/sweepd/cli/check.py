"""The command check: whether a task, a model, a training loop or a grid is right."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweepd.cli.begin import parsed
from sweepd.cli.options import AsJson, Settings
from sweepd.cli.output import emit, form_of, say
from sweepd.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sweepd.check.cases import Finding
    from sweepd.grid.spec import Grid
    from sweepd.grid.yamlfile import Problem

PARTNERS = {"task": ("model", "standard"), "model": ("task", "lis")}
"""The partner with which a task or a model is checked if it is named alone: its kind and its
name."""
SMALL = {"d": 8, "n": 6}
"""The values of fields that --set does not give. They are for all fields of the usual partner, and
for fields without a default."""
COLUMNS = ("check", "subject", "setting", "ok", "detail", "place", "raised")


def check(
    target: Annotated[
        str, typer.Argument(metavar="FILE.py:Name | GRID", help="A class of yours, or a grid.")
    ],
    partner: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="NAME",
            help="The model that a task is checked with (standard), or a model's task (lis).",
        ),
    ] = None,
    overrides: Settings = None,
    as_json: AsJson = None,
) -> None:
    """Look whether a task, a model, a training loop or all of a grid keeps its promises.

    A task and a model are also trained for some steps together, and a loop for some rows. --set
    takes fields of the class and of its partner, or overrides those of a grid.
    Exits with 2 if something is wrong, and says where and what to do.
    """
    from sweepd.check.cases import cases_of
    from sweepd.check.own_process import inspected
    from sweepd.cluster import Local
    from sweepd.grid.advice import clashes
    from sweepd.grid.spec import load_grid
    from sweepd.grid.yamlfile import GridError

    form, settings = form_of(as_json), overrides or []
    is_grid = target.endswith((".yaml", ".yml"))
    findings: list[Finding] = []
    if is_grid:
        if partner:
            raise UserError(f"--with {partner}: a grid names its tasks and models itself")
        from sweepd.check.inspection import goals, room, tried  # late: torch takes seconds

        grid = load_grid(Path(target), settings)
        findings.append(room(grid, Local(kind="local")))
        problems = list(clashes(grid))
    else:
        grid = _grid_of(target, partner, settings)
        problems = _of_options(clashes(grid), settings)
    if problems:
        raise GridError(problems)
    cases = [one for one in cases_of(grid) if is_grid or one.kind == "trial" or one.name == target]
    for of_case in inspected(cases, grid.base, say):
        findings += of_case
    if is_grid:
        findings += tried(grid)
    if is_grid and all(finding.ok for finding in findings):
        findings += goals(grid)
    if form != "table":
        emit(COLUMNS, [asdict(finding) for finding in findings], form)
    else:
        # A heading for each class and setting, and below an error the line of the user's code that
        # raised it.
        for about, members in groupby(findings, key=lambda one: f"{one.subject}, {one.setting}"):
            print(about)
            for finding in members:
                where = f"{finding.place}: " if finding.place else ""
                sign = "✓" if finding.ok else "✗"
                print(f"  {sign} {finding.check:<10}  {where}{finding.detail}")
                if finding.statement:
                    print(f"{'':16}{finding.statement}")
    if wrong := sum(not finding.ok for finding in findings):
        say(f"{wrong} of {len(findings)} checks found something wrong")
        raise typer.Exit(2)
    say(f"all {len(findings)} checks passed")


def _grid_of(target: str, partner: str | None, settings: list[str]) -> Grid:
    """Returns the grid of one class and its partner, with the fields that --set names. A loop has
    no partner. Raises UserError or GridError for what cannot be such a grid."""
    from sweepd.grid import registry
    from sweepd.grid.fingerprint import KINDS
    from sweepd.grid.metrics import directions
    from sweepd.grid.registry import REQUIRED, parameters
    from sweepd.grid.spec import parse_grid
    from sweepd.grid.yamlfile import GridError, dump

    kind = registry.kind_of(target, Path())
    other, usual = PARTNERS.get(kind, ("", ""))
    if partner and not other:
        raise UserError(f"--with {partner}: {target} is a training loop, which needs no partner")
    names = {kind: target, other: partner or usual}
    classes = {k: registry.find(k, names[k], Path()) for k in KINDS if k in names}
    # The goal does not matter here, but a grid must have one that its task or loop reports.
    metrics = directions(next(iter(classes.values())).metrics)
    metric = "loss" if "loss" in metrics else next(iter(metrics))
    goal = f"{metric} {'>' if metrics[metric] == 'up' else '<'} 0.5"
    given = parsed(settings)
    blocks: dict[str, dict[str, Any]] = {}
    for block, kind_of_block in classes.items():
        blocks[block] = {"name": names[block]}
        for field, parameter in parameters(kind_of_block).items():
            if field in given:
                blocks[block][field] = given.pop(field)
            elif field in SMALL and (parameter.default is REQUIRED or names[block] == usual):
                blocks[block][field] = SMALL[field]
            elif parameter.default is REQUIRED:
                raise UserError(f"{names[block]} needs {field}: add --set {field}=…")
    if given:
        whose = " or ".join(names[block] for block in classes)
        raise UserError(f"--set {next(iter(given))}: no such field of {whose}")
    try:
        return parse_grid(dump({"name": "check", **blocks, "goal": goal}), "check", [], Path())
    except GridError as error:
        raise GridError(_of_options(error.problems, settings)) from None


def _of_options(problems: Iterable[Problem], settings: list[str]) -> list[Problem]:
    """Returns the problems of a grid that nobody wrote. Each is that of an option, or of the
    class."""
    given = parsed(settings)
    found = []
    for one in problems:
        is_given = len(one.keys) > 1 and one.keys[1] in given
        found.append(replace(one, place=f"--set {one.keys[1]}" if is_given else "", keys=()))
    return found
