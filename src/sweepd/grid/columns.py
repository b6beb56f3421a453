"""The columns that the trials of a grid add to the results: the fields of its classes and their
metrics. Two columns can't have one name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from sweepd.grid import lengths, metrics
from sweepd.grid.axes import Block
from sweepd.grid.metrics import Better
from sweepd.grid.options import OF_ANSWERS, OF_CELLS, OF_SQL
from sweepd.grid.parts import RESERVED, column
from sweepd.grid.spec import FINDERS, SETTINGS, Grid
from sweepd.grid.yamlfile import Problem


def clashes(grid: Grid) -> Iterator[Problem]:
    """Yields a problem for each field and each metric whose name is taken. SQL reads the names of
    columns without regard to case."""
    taken = {name.lower(): "a column of every result" for name in (*RESERVED, *OF_CELLS, *OF_SQL)}
    taken |= dict.fromkeys(length_scores(grid), "a score at another length")
    own_scores = {name.lower(): block.name for block, name, _ in own_metrics(grid)}
    for score in ("acc", "chain_acc", "loss", "flops_to_goal", *own_scores):
        ends = (f"{score}_{end}" for end in ("min", "max", "least", "most"))
        taken |= dict.fromkeys(ends, f"an end of {score}, which answers tell")
    yield from _of_metrics(grid, taken)
    taken |= {name: f"a metric of {block}" for name, block in own_scores.items()}
    for kind in ("train", "evaluate", "stop", "task", "model", "loop"):
        own: dict[str, tuple[str, str]] = {}
        for block in grid.blocks[kind]:
            what = block.name or kind
            for name in (column(kind, name) for name in block.axes):
                spelled, where = own.setdefault(name.lower(), (name, f"a field of {what}"))
                other = taken.get(name.lower(), where if spelled != name else None)
                if other:
                    message = f"{what} has a field {name}, the name of {other}; rename the field"
                    yield Problem(grid.document.place(block.keys), block.keys, message)
        taken |= {name: where for name, (_, where) in own.items()}


def unaskable(grid: Grid) -> Iterator[str]:
    """Yields a warning for each field and each metric that has the name of a column of answers.
    Some questions can't group by it, or be about it."""
    named = [(block, name, "metric") for block, name, _ in own_metrics(grid)]
    for block in (block for kind in FINDERS for block in grid.blocks[kind]):
        named += [(block, name, "field") for name in block.axes]
    for block, name, kind in named:
        verbs = [verb for verb, columns in OF_ANSWERS.items() if name in columns]
        if kind == "metric" and "fit" in verbs:
            verbs.remove("fit")  # its answers have no scores
        if verbs:
            what = "group by it" if kind == "field" else "be about it"
            yield (
                f"{block.name} has a {kind} {name}, the name of a column of answers: "
                f"{', '.join(f'`{verb}`' for verb in verbs)} can't {what}; rename the {kind} "
                "before you train"
            )


def _of_metrics(grid: Grid, taken: Mapping[str, str]) -> Iterator[Problem]:
    """Yields a problem for each metric whose name is taken, and for each that two blocks call
    better in opposite ways."""
    settings = {field.name for kind in SETTINGS.values() for field in fields(kind)}
    taken = {**dict.fromkeys(settings, "a setting of the built-in training"), **taken}
    first: dict[str, tuple[Block, Better]] = {}
    for block, name, better in own_metrics(grid):
        of, other = first.setdefault(name, (block, better))
        message = f"{block.name} has a metric {name}, the name of {taken.get(name.lower())}"
        if better != other:
            message = f"{name} is better {better} for {block.name} and {other} for {of.name}"
        if name.lower() in taken or better != other:
            place = grid.document.place(block.keys)
            yield Problem(place, block.keys, f"{message}; rename it")


def own_metrics(grid: Grid) -> Iterator[tuple[Block, str, Better]]:
    """Yields the metrics of the user's own tasks and loops that no other trial has. Each comes with
    its block and the way in which it is better."""
    for block in (*grid.blocks["task"], *grid.blocks["loop"]):
        found = (metrics.own(variant.value.metrics) for variant in block.variants)
        for name, better in dict.fromkeys(one for own in found for one in own.items()):
            yield block, name, better


def length_scores(grid: Grid) -> dict[str, Better]:
    """Returns the scores at other lengths that a grid asks for, and which way each is better."""
    return {
        name: better
        for block in grid.blocks["task"]
        for variant in block.variants
        for name, better in lengths.scores(
            metrics.directions(variant.value.metrics), grid.lengths
        ).items()
    }
