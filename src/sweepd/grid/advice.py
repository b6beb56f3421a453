"""Warnings about what looks unwise in a plan, and notes on its costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from sweepd.grid.costs import Costs, train_flops
from sweepd.grid.options import Goal
from sweepd.grid.parts import Part, Parts
from sweepd.grid.settings import Evaluate, Train
from sweepd.grid.trials import Setting

TEST_SHARE = 1 / 16
TRAIN_SHARE = 14 / 16
"""The share of a task's inputs that training draws from. TEST_SHARE is that of the test
(`tasks.base.Split`)."""
MOST_PASSES = 100
"""The number of passes over the training inputs above which a result may be memorised. It is more
than the paper makes."""


def repeated_looks(goal: Goal, stops: Sequence[Part]) -> Iterator[str]:
    """Yields a warning for each `stop` block whose success mark is the goal itself. A trial may
    then stop as solved on a score that only just meets the goal."""
    for stop in stops:
        success = stop.value.success
        if goal.metric == "acc" and success == goal.threshold:
            yield (
                f"stop.success is the goal itself, {success:g}: every check is one more chance "
                "to meet it by luck; set it higher"
            )


def same_networks(
    models: Sequence[Part], all_costs: Sequence[Sequence[Costs | None]]
) -> Iterator[str]:
    """Yields at most one warning a model, where two widths build networks of the same size."""
    warned: set[str] = set()
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


def cost_notes(
    parts: Parts,
    settings: Sequence[Setting | None],
    all_costs: Sequence[Sequence[Costs | None]],
    lengths: Sequence[float],
) -> Iterator[str]:
    """Yields notes on what the models cost. One kind names the operators that a model's FLOPs leave
    out. The other says what it costs to decode with a model that has no `step`. Each model gets at
    most one note of a kind. That on decoding is for the setting where it is dearest."""
    uncounted: dict[str, tuple[str, ...]] = {}
    shares: dict[str, float] = {}
    for setting, of_task in zip(settings, all_costs, strict=True):
        for model, cost in zip(parts.models, of_task, strict=True):
            assert setting and cost
            if cost.uncounted:
                uncounted[model.name] = cost.uncounted
            if cost.reruns and setting.decoded:
                share = max(
                    setting.decoded
                    * _decoded_rows(train.value, evaluate.value, lengths)
                    / (train_flops(1, train.value.batch_size) * train.value.steps)
                    for train, evaluate in product(parts.trains, parts.evaluates)
                )
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


def few_inputs(task: Part, setting: Setting, parts: Parts) -> Iterator[str]:
    """Yields at most one warning: a task setting has too few distinct inputs to mean anything."""
    distinct = max(setting.distinct_inputs, 1.0)
    samples = max(part.value.verdict_samples for part in parts.evaluates)
    trains = (part.value for part in [*parts.trains, *parts.reserve])
    draws = max(train.steps * train.batch_size for train in trains)
    passes = draws / (distinct * TRAIN_SHARE)
    faults = []
    if distinct * TEST_SHARE < samples:
        faults.append(
            f"a test of {samples} samples repeats the {distinct * TEST_SHARE:.0f} that "
            "it may draw from, so its interval is too narrow"
        )
    if passes > MOST_PASSES:
        faults.append(f"training sees each of its inputs {passes:.0f} times and may memorise them")
    if faults:
        yield f"{task} has about {distinct:.3g} distinct inputs: {'; '.join(faults)}"


def _decoded_rows(train: Train, evaluate: Evaluate, lengths: Sequence[float]) -> float:
    """Returns how many rows the checks and the test of a trial may decode.

    A score at another length has as many tokens as the test. The prefix from which each of them is
    decoded is longer by about that factor. The score therefore counts as that many tests.
    """
    checks = (train.steps - 1) // evaluate.check_every
    tests = 1 + sum(lengths)
    return checks * evaluate.check_samples + tests * evaluate.verdict_samples
