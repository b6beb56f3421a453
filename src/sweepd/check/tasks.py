"""Checks of a task: its rows can be trained on, the seed decides them, and no input is in two
splits.

A task that draws from a global generator or whose splits overlap would still run, and its numbers
would mean nothing. Each check returns what it saw, in words, and raises Wrong for what is wrong.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from sweepd.check.cases import Wrong
from sweepd.grid.metrics import directions
from sweepd.tasks.base import IGNORE, SPECIALS, Batch, Chains, ChainTask, Split, Task
from sweepd.trial.evaluation import commonest_target, own_scores, per_row, right_of
from sweepd.trial.generators import seed_torch
from sweepd.trial.training import Stream, generator

ROWS = 32
"""The number of rows that are drawn at a time."""
SPLIT_ROWS, SPLIT_SECONDS = 512, 1.0
"""The most rows of a split that are looked at, and the seconds after which no more are drawn."""
CONSTANT = 0.999
"""The accuracy of always giving the commonest answer above which there is nothing to learn."""

GENERATORS: dict[str, Callable[[], object]] = {
    "numpy": lambda: np.random.get_state(legacy=False),
    "Python": random.getstate,
    "torch": lambda: torch.get_rng_state().tolist(),
}
"""For each library, a function that returns the present state of its global generator."""


def seed_all(seed: int) -> None:
    np.random.seed(seed)
    random.seed(seed)
    seed_torch(seed)


def check_rows(task: Task) -> str:
    """Checks that shapes, types, ids and lengths fit, and that each row has an answer."""
    if isinstance(task, ChainTask) and tuple(task.vocab[: len(SPECIALS)]) != SPECIALS:
        raise Wrong(
            f"has a vocab that begins with {' '.join(task.vocab[: len(SPECIALS)])}",
            "begin it with SPECIALS: vocab = (*SPECIALS, …)",
            type(task),
        )
    batch, sample = _drawn(task, 0)
    if not (isinstance(batch, Batch) and isinstance(sample, Batch | Chains)):
        raise Wrong(
            f"gives {type(batch).__name__} and {type(sample).__name__} where a Batch, and a Batch "
            "or Chains, are needed",
            "return them from `batch` and `sample`, or derive the class from ChainTask or RowTask",
            "batch",
            "sample",
        )
    try:
        batch.check(ROWS)
        sample.check(ROWS)
    except ValueError as error:  # such as rows of the wrong shape
        raise Wrong(
            f"gives rows that cannot be used: {error}",
            "see what Batch and Chains hold in sweepd.tasks.base",
            "batch",
            "sample",
        ) from None
    checked = {"inputs": batch.inputs, "targets": batch.targets}
    if isinstance(sample, Chains):
        checked["tokens of a sample"] = sample.tokens
    else:
        checked |= {"inputs of a sample": sample.inputs, "targets of a sample": sample.targets}
    vocab = len(task.vocab)
    for what, rows in checked.items():
        # Torch must be able to train with the type of these rows, and the vocabulary has their ids.
        target = what.startswith("targets")
        if vocab:
            types = ["int64"] if target or what.startswith("tokens") else ["int64", "int32"]
        else:
            types = ["float32", "float64"] if target else ["float32"]
        if str(rows.dtype) not in types:
            raise Wrong(
                f"gives {what} of type {rows.dtype}",
                f"with {vocab} words they must be {' or '.join(types)}: convert them with "
                f".astype(np.{types[0]})",
            )
        allowed = (rows >= 0) & (rows < vocab) | (target & (rows == IGNORE))
        if vocab and not allowed.all():
            row, position = map(int, np.argwhere(~allowed)[0])
            also = f", or IGNORE = {IGNORE} without a target" if target else ""
            raise Wrong(
                f"gives {what} with the id {rows[row, position]} at position {position}",
                f"its vocabulary has the ids 0 to {vocab - 1}{also}",
            )
    length = max(rows.shape[1] for rows in checked.values())
    if length > task.capacity:
        raise Wrong(
            f"gives rows of {length} tokens, more than its capacity of {task.capacity}",
            "let `capacity` say the most that a row can have",
            "capacity",
        )
    if isinstance(sample, Chains) and isinstance(task, ChainTask):
        for row, end in zip(sample.tokens, sample.lengths, strict=True):
            if not task.answer(row[: end - 1]):
                raise Wrong(
                    "gives a row without an answer after its last separator",
                    "write the answer between the last separator and <eos>",
                )
    return f"up to {length} of {task.capacity} tokens, {vocab or 'no'} words"


def check_seeds(task: Task) -> str:
    """Checks that the generator decides the rows, whatever the global generators do."""

    def drawn(step: int) -> list[tuple[str, bytes]]:
        arrays = [vars(rows) for rows in _drawn(task, step)]
        return [(name, np.asarray(a).tobytes()) for of in arrays for name, a in of.items()]

    seed_all(1)
    before = {name: str(state()) for name, state in GENERATORS.items()}
    first = drawn(0)
    used = [name for name, state in GENERATORS.items() if str(state()) != before[name]]
    seed_all(2)
    if drawn(0) != first:
        whose = f"{used[0]}'s global generator" if used else "something other than `rng`"
        raise Wrong(f"draws from {whose}: the same seed gave other rows", "draw from `rng` alone")
    if task.distinct_inputs() > 16 and drawn(1) == first:
        raise Wrong("gives the same rows for every seed", "draw them from `rng`")
    return "decide the rows"


def check_splits(task: Task) -> str:
    """Checks that no input is in two splits."""
    seen: dict[Split, set[bytes]] = {split: set() for split in Split}
    for split in Split:
        for rows in _samples(task, split):
            if isinstance(rows, Chains):
                pairs = zip(rows.tokens, rows.prompts, strict=True)
                seen[split].update(row[:prompt].tobytes() for row, prompt in pairs)
            else:
                seen[split].update(row.tobytes() for row in rows.inputs)
    for one, other in (("TRAIN", "TEST"), ("TRAIN", "CHECK"), ("CHECK", "TEST")):
        both = seen[Split[one]] & seen[Split[other]]
        if both:
            raise Wrong(
                f"gives the same inputs in training, checks and tests: {len(both)} of "
                f"{len(seen[Split[other]])} in the split {other} are in {one} too",
                "an input may only be in the split that its hash says (`Task.drawn`)",
                "sample",
                "drawn",
            )
    counts = ", ".join(f"{len(inputs)}" for inputs in seen.values())
    return f"share no input ({counts} inputs of training, checks and test)"


def check_answers(task: Task) -> str:
    """Checks that there is something to learn: the answer is not always the same."""
    answer, share = commonest(task)
    if share > CONSTANT:
        raise Wrong(
            f"has the same answer in every row ({answer})",
            "let `draw` give problems with different answers",
        )
    if not answer:
        return "real numbers"
    return f"always answering {answer} is right in {share:.0%}"


def commonest(task: Task) -> tuple[str, float]:
    """Returns the commonest answer of a sample (all after a chain's last separator, or one target),
    and the accuracy of always giving it. Returns ("", 0) for real numbers."""
    if not task.vocab:
        return "", 0.0
    samples = list(_samples(task, Split.TRAIN))
    if batches := [rows for rows in samples if isinstance(rows, Batch)]:
        always, share = commonest_target(task, batches)
        return " ".join(task.words([always])), share
    assert isinstance(task, ChainTask)
    counts: Counter[tuple[int, ...]] = Counter()
    for rows in samples:
        counts.update(_answers(task, rows))
    [(ids, count)] = counts.most_common(1)
    return " ".join(task.words(ids)), count / counts.total()


def _answers(task: Task, rows: Chains | Batch) -> list[tuple[int, ...]]:
    assert isinstance(task, ChainTask) and isinstance(rows, Chains)
    pairs = zip(rows.tokens, rows.lengths, strict=True)
    return [task.answer(row[: end - 1]) for row, end in pairs]


def check_metrics(task: Task) -> str:
    """Checks that `right` counts the right answers as right, and that `scores` gives metrics for
    them that can be used, and the same ones a second time."""
    _, sample = _drawn(task, 0)
    measured = {}
    if isinstance(sample, Batch):
        answers: Any = np.where(sample.scored, sample.targets, sample.targets.dtype.type(0))
        wanted: Any = sample
        right = right_of(task, answers, sample)
        if right is not None:
            hits, counted = per_row(right, sample.scored)
            measured["acc"] = float(hits.sum() / counted.sum())
        elif "acc" in directions(task.metrics):
            raise Wrong(
                "has `acc` among its metrics, and its `right` gives none",
                "let `right(self, found, batch)` say which targets are met, "
                "or leave acc out of `metrics`",
                "right",
            )
    else:
        answers = wanted = _answers(task, sample)
        measured["acc"] = 1.0
    if measured.get("acc", 1.0) < 1:
        raise Wrong(
            f"counts the right answers as right in {measured['acc']:.0%} alone",
            "let `right` be true where `found` is the target",
            "right",
        )
    measured |= (own := own_scores(task, answers, wanted))
    if differing := [
        name
        for name, value in own_scores(task, answers, wanted).items()
        if repr(value) != repr(own[name])
    ]:
        raise Wrong(
            f"gives another {differing[0]} for the same answers",
            "compute it from `found` and `wanted` alone, without random numbers",
            "scores",
        )
    named = ", ".join(f"{name} {value:.4g}" for name, value in measured.items())
    return f"the right answers have {named}" if named else "the loss alone"


def _drawn(task: Task, step: int) -> tuple[Batch, Chains | Batch]:
    rngs = [generator(0, stream, step) for stream in (Stream.DATA, Stream.TEST)]
    return task.batch(rngs[0], ROWS, Split.TRAIN), task.sample(rngs[1], ROWS, Split.TEST)


def _samples(task: Task, split: Split) -> Iterator[Chains | Batch]:
    """Yields SPLIT_ROWS rows of a split, or as many as SPLIT_SECONDS allow."""
    until = time.monotonic() + SPLIT_SECONDS
    for step in range(SPLIT_ROWS // ROWS):
        yield task.sample(generator(0, Stream.CHECK, step), ROWS, split)
        if time.monotonic() > until:
            return
