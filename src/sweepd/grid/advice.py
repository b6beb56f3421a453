"""What a plan refuses or warns of, beyond what reading a grid shows, and notes on its costs.

A plan refuses fields and metrics whose column has a name that is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import product
from typing import Any

from sweepd.grid import lengths, metrics
from sweepd.grid.axes import Block, Point
from sweepd.grid.costs import Costs, train_flops
from sweepd.grid.fingerprint import KINDS
from sweepd.grid.metrics import Better
from sweepd.grid.options import OF_ANSWERS, OF_CELLS, OF_SQL, RESERVED, column
from sweepd.grid.spec import SETTINGS, Grid
from sweepd.grid.trials import Setting
from sweepd.grid.yamlfile import Problem

TEST_SHARE = 1 / 16
TRAIN_SHARE = 14 / 16
"""The shares of a task's inputs that the test and training draw from (`tasks.base.Split`)."""
MOST_PASSES = 100
"""The passes over the inputs above which a result may be memorised: more than the paper makes."""


def doubts(
    grid: Grid,
    settings: Sequence[Setting | None],
    all_costs: Sequence[Sequence[Costs | None]],
    trains: Sequence[Point],
) -> Iterator[str]:
    """Yields warnings about trials of the built-in training. trains: all that may be trained."""
    # A trial may stop as solved on a score that only just meets the goal.
    for stop in grid.points("stop"):
        success = stop.value.success
        if grid.goal.metric == "acc" and success == grid.goal.threshold:
            yield (
                f"stop.success is the goal itself, {success:g}: every check is one more chance "
                "to meet it by luck; set it higher"
            )
    # Two widths build networks of the same size: at most one warning a model.
    models, warned = grid.points("model"), set[str]()
    for costs in all_costs:
        sizes: dict[tuple[Any, ...], int] = {}
        for model, cost in zip(models, costs, strict=True):
            if cost is None or "d" not in model.axes or model.name in warned:
                continue
            others = tuple(item for item in model.axes.items() if item[0] != "d")
            width = model.axes["d"]
            first = sizes.setdefault((model.name, others, cost.params, cost.flops), width)
            if first != width:
                warned.add(model.name)
                yield (
                    f"{model.name}: d = {first} and d = {width} build networks of the same size "
                    f"({cost.params:,} parameters): is d used in its `build`?"
                )
    # A task setting has too few distinct inputs to mean anything.
    samples = max(evaluate.value.verdict_samples for evaluate in grid.points("evaluate"))
    draws = max(train.value.steps * train.value.batch_size for train in trains)
    for setting in settings:
        assert setting is not None
        distinct = max(setting.distinct_inputs, 1.0)
        passes = draws / (distinct * TRAIN_SHARE)
        faults = []
        if distinct * TEST_SHARE < samples:
            faults.append(
                f"a test of {samples} samples repeats the {distinct * TEST_SHARE:.0f} that "
                "it may draw from, so its interval is too narrow"
            )
        if passes > MOST_PASSES:
            faults.append(
                f"training sees each of its inputs {passes:.0f} times and may memorise them"
            )
        if faults:
            yield f"{setting.task} has about {distinct:.3g} distinct inputs: {'; '.join(faults)}"


def cost_notes(
    grid: Grid,
    settings: Sequence[Setting | None],
    all_costs: Sequence[Sequence[Costs | None]],
) -> Iterator[str]:
    """Yields notes on what the models cost. One kind names the operators that a model's FLOPs leave
    out. The other says what it costs to decode with a model that has no `step`. Each model gets at
    most one note of a kind. That on decoding is for the setting where it is dearest."""
    uncounted: dict[str, tuple[str, ...]] = {}
    shares: dict[str, float] = {}
    for setting, of_task in zip(settings, all_costs, strict=True):
        for model, cost in zip(grid.points("model"), of_task, strict=True):
            assert setting and cost
            if cost.uncounted:
                uncounted[model.name] = cost.uncounted
            if cost.reruns and setting.decoded:
                # A score at another length has as many tokens as the test. The prefix from which
                # each is decoded is longer by about that factor, so it counts as that many tests.
                tests = 1 + sum(grid.lengths)
                for train, evaluate in product(grid.points("train"), grid.points("evaluate")):
                    of, steps = evaluate.value, train.value.steps
                    checked = (steps - 1) // of.check_every * of.check_samples
                    rows = setting.decoded * (checked + tests * of.verdict_samples)
                    share = rows / (train_flops(1, train.value.batch_size) * steps)
                    shares[model.name] = max(share, shares.get(model.name, 0.0))
    for name, operators in uncounted.items():
        yield (
            f"{name}: its FLOPs leave out {', '.join(operators)}, which torch cannot count; "
            "give it `parts` of its own (docs/own.md)"
        )
    for name, share in shares.items():
        yield (
            f"{name} has no `step`, so it runs the whole prefix for every token that it "
            f"decodes: checks and tests take up to {share:.0%} of the FLOPs of training"
        )


def clashes(grid: Grid) -> Iterator[Problem]:
    """Yields a problem for each field and metric whose name is taken (SQL reads names without
    regard to case), and for each metric that two blocks call better in opposite ways."""
    taken = {name.lower(): "a column of every result" for name in (*RESERVED, *OF_CELLS, *OF_SQL)}
    taken |= dict.fromkeys(length_scores(grid), "a score at another length")
    own_scores = {name.lower(): block.name for block, name, _ in own_metrics(grid)}
    for score in ("acc", "chain_acc", "loss", "flops_to_goal", *own_scores):
        ends = (f"{score}_{end}" for end in ("min", "max", "least", "most"))
        taken |= dict.fromkeys(ends, f"an end of {score}, which answers tell")
    settings = {field.name for kind in SETTINGS.values() for field in fields(kind)}
    of_metrics = {**dict.fromkeys(settings, "a setting of the built-in training"), **taken}
    first: dict[str, tuple[Block, Better]] = {}
    for block, name, better in own_metrics(grid):
        of, way = first.setdefault(name, (block, better))
        message = f"{block.name} has a metric {name}, the name of {of_metrics.get(name.lower())}"
        if better != way:
            message = f"{name} is better {better} for {block.name} and {way} for {of.name}"
        if name.lower() in of_metrics or better != way:
            place = grid.document.place(block.keys)
            yield Problem(place, block.keys, f"{message}; rename it")
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
    for block in (block for kind in KINDS for block in grid.blocks[kind]):
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


def own_metrics(grid: Grid) -> Iterator[tuple[Block, str, Better]]:
    """Yields the metrics of the user's own tasks and loops that no other trial has. Each comes with
    its block and the way in which it is better."""
    for block in (*grid.blocks["task"], *grid.blocks["loop"]):
        reported = (metrics.own(point.value.metrics) for point in block.points)
        for name, better in dict.fromkeys(one for own in reported for one in own.items()):
            yield block, name, better


def length_scores(grid: Grid) -> dict[str, Better]:
    """Returns the scores at other lengths that a grid asks for, and which way each is better."""
    return {
        name: better
        for block in grid.blocks["task"]
        for point in block.points
        for name, better in lengths.scores(
            metrics.directions(point.value.metrics), grid.lengths
        ).items()
    }
