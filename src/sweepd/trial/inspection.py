"""What is wrong with a user's own task or model that training would not show; `loop_inspection`
says it of a loop.

A model that sees later tokens, a task that draws from a global generator or whose splits overlap:
such code runs, and its numbers mean nothing. `inspect` looks at the smallest setting of each class
for that, in seconds. Code that raises is not its business: the trials say so themselves, and only
those whose settings raise.
"""

from __future__ import annotations

import inspect as python
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sweepd.errors import UserError
from sweepd.grid import registry
from sweepd.grid.fingerprint import Kind
from sweepd.grid.plan import Trial
from sweepd.models.base import Model
from sweepd.tasks.base import IGNORE, Batch, Chains, ChainTask, Split, Task
from sweepd.trial.loop_inspection import loop_faults
from sweepd.trial.setting import Setting
from sweepd.trial.training import Stream, generator, torch_seed

ROWS = 32
"""Drawn at a time."""
SPLIT_ROWS, SPLIT_SECONDS = 512, 1.0
"""How many inputs of each split are compared, and for how long they are drawn."""
SAME, LIKE = 5e-5, 2e-3
"""Shares of the largest output that rounding explains: where nothing but later tokens changed, and
where the same is computed in another order."""
JITTER = 0.05
"""By how much weights are moved before a model is looked at: what starts at zero hides leaks."""

GENERATORS: dict[str, tuple[Callable[[], Any], re.Pattern[str]]] = {
    "numpy's (np.random.…)": (
        lambda: np.random.get_state(legacy=False),
        re.compile(r"\b(np|numpy)\.random\.(?!Generator|default_rng|Philox|PCG64|SeedSequence)\w"),
    ),
    "Python's (random.…)": (random.getstate, re.compile(r"(?<![\w.])random\.(?!Random\b)\w")),
    "torch's (torch.rand…)": (
        lambda: torch.get_rng_state().tolist(),
        re.compile(r"\btorch\.(rand|normal|bernoulli|multinomial|manual_seed)|\.(uniform|normal)_"),
    ),
}
"""The global generators: their state now, and how code that uses them looks."""


@dataclass(frozen=True)
class Subject:
    """A class of the user's. name: as results call it."""

    name: str
    found: type

    def says(self, fault: str, sign: re.Pattern[str] | None = None) -> str:
        """A fault with file and line: that of the class or, inside it, of what has the sign."""
        line = registry.line_of(self.found, sign) or registry.line_of(self.found)
        return f"{python.getsourcefile(self.found)}:{line}: {self.name} {fault}"


class Raised(Exception):
    """The user's code raised: what and where, as text."""


def inspect(kind: Kind, trial: Setting | Trial, base: Path) -> list[str]:
    """What is wrong with one of the classes of a trial, in plain words, each with file and line.

    `Raised` where the code does not get through a few batches.
    """
    with _own_generators():
        try:
            if kind == "loop":
                loop = registry.find_loop(trial.loop_where, base)(**trial.loop)
                return list(loop_faults(loop))
            task_class = registry.find_task(trial.task_where, base)
            task = task_class(**trial.task)
            if kind == "task":
                return list(task_faults(Subject(trial.task_name, task_class), task))
            model_class = registry.find_model(trial.model_where, base)
            subject = Subject(trial.model_name, model_class)
            return list(model_faults(subject, model_class(**trial.model), task))
        except UserError as error:
            return [str(error)]
        except Exception as error:  # a user's code may raise anything
            raise Raised(f"{type(error).__name__}: {str(error)[:500]}") from error


@contextmanager
def _own_generators() -> Iterator[None]:
    """The global generators are afterwards as they were."""
    before = np.random.get_state(), random.getstate(), torch.get_rng_state()
    try:
        yield
    finally:
        np.random.set_state(before[0])
        random.setstate(before[1])
        torch.set_rng_state(before[2])


def _seed_all(seed: int) -> None:
    np.random.seed(seed)
    random.seed(seed)
    torch.manual_seed(seed)


# Tasks


def task_faults(subject: Subject, task: Task) -> Iterator[str]:
    """What is wrong with the rows that a task draws."""
    batch, sample = _drawn(task, 0)
    if not (isinstance(batch, Batch) and isinstance(sample, Batch | Chains)):
        found = f"{type(batch).__name__} and {type(sample).__name__}"
        yield subject.says(f"gives {found} where a Batch, and a Batch or Chains, are needed")
        return
    try:
        batch.check(ROWS)
        sample.check(ROWS)
    except ValueError as error:  # such as rows of the wrong shape
        yield subject.says(f"gives rows that cannot be used: {error}")
        return
    faults = list(_row_faults(task, batch, sample))
    yield from map(subject.says, faults)
    if faults:
        return
    yield from _random_faults(subject, task)
    yield from map(subject.says, _split_faults(task))


def _drawn(task: Task, step: int) -> tuple[Batch, Chains | Batch]:
    rngs = [generator(0, stream, step) for stream in (Stream.DATA, Stream.TEST)]
    return task.batch(rngs[0], ROWS, Split.TRAIN), task.sample(rngs[1], ROWS, Split.TEST)


def _arrays(rows: Chains | Batch) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in vars(rows).items()}


def _row_faults(task: Task, batch: Batch, sample: Chains | Batch) -> Iterator[str]:
    """Ids outside of the vocabulary, and types and lengths that do not fit."""
    vocab = len(task.vocab)
    checked = {"inputs": batch.inputs, "targets": batch.targets}
    if isinstance(sample, Chains):
        checked["tokens of a sample"] = sample.tokens
    else:
        checked |= {"inputs of a sample": sample.inputs, "targets of a sample": sample.targets}
    for what, rows in checked.items():
        if rows.dtype not in _types(what, vocab):
            wanted = " or ".join(map(str, _types(what, vocab)))
            yield f"gives {what} of type {rows.dtype}; with {vocab} words they must be {wanted}"
            continue
        if not vocab:
            continue
        allowed = (rows >= 0) & (rows < vocab)
        if what.startswith("targets"):
            allowed |= rows == IGNORE
        if not allowed.all():
            row, position = map(int, np.argwhere(~allowed)[0])
            also = f", or IGNORE = {IGNORE} without a target" if what.startswith("targets") else ""
            yield (
                f"gives {what} with the id {rows[row, position]} at position {position}; its "
                f"vocabulary has the ids 0 to {vocab - 1}{also}"
            )
    length = max(rows.shape[1] for rows in checked.values())
    if length > task.capacity:
        yield f"gives rows of {length} tokens, more than its capacity of {task.capacity}"
    if isinstance(sample, Chains) and isinstance(task, ChainTask):
        for row, end in zip(sample.tokens, sample.lengths, strict=True):
            if not task.answer(row[: end - 1]):
                yield "gives a row without an answer after its last separator"
                return


def _types(what: str, vocab: int) -> list[np.dtype]:
    """The types with which torch can train."""
    looked_up = what.startswith("inputs")
    if vocab:
        return [np.dtype(np.int64), *([np.dtype(np.int32)] if looked_up else [])]
    return [np.dtype(np.float32), *([] if looked_up else [np.dtype(np.float64)])]


def _random_faults(subject: Subject, task: Task) -> Iterator[str]:
    """The same generator must give the same rows, whatever global generators do; another others."""
    _seed_all(1)
    before = {name: str(state()) for name, (state, _) in GENERATORS.items()}
    first = _drawn(task, 0)
    used = [name for name, (state, _) in GENERATORS.items() if str(state()) != before[name]]
    _seed_all(2)
    again = _drawn(task, 0)
    if not all(map(_equal, first, again)):
        culprit = used[0] if used else None
        told = f"the global generator of {culprit}" if culprit else "something other than `rng`"
        yield subject.says(
            f"draws from {told}: the same seed gave other rows; draw from `rng` alone",
            GENERATORS[culprit][1] if culprit else None,
        )
    elif task.distinct_inputs() > 16 and all(map(_equal, first, _drawn(task, 1))):
        yield subject.says("gives the same rows for every seed; draw them from `rng`")


def _equal(one: Chains | Batch, other: Chains | Batch) -> bool:
    ours, theirs = _arrays(one), _arrays(other)
    return ours.keys() == theirs.keys() and all(
        np.array_equal(ours[name], theirs[name], equal_nan=ours[name].dtype.kind == "f")
        for name in ours
    )


def _split_faults(task: Task) -> Iterator[str]:
    """No input may be in two splits."""
    seen = {split: _inputs(task, split) for split in Split}
    for one, other in (("TRAIN", "TEST"), ("TRAIN", "CHECK"), ("CHECK", "TEST")):
        both = seen[Split[one]] & seen[Split[other]]
        if both:
            yield (
                f"gives the same inputs in training, checks and tests: {len(both)} of "
                f"{len(seen[Split[other]])} in the split {other} are in {one} too; an input may "
                "only be in the split that its hash says (`Task.drawn`)"
            )
            return


def _inputs(task: Task, split: Split) -> set[bytes]:
    """Inputs of a split, as many as SPLIT_SECONDS allow."""
    found: set[bytes] = set()
    until = time.monotonic() + SPLIT_SECONDS
    for step in range(SPLIT_ROWS // ROWS):
        rows = task.sample(generator(0, Stream.CHECK, step), ROWS, split)
        if isinstance(rows, Chains):
            pairs = zip(rows.tokens, rows.prompts, strict=True)
            found.update(row[:prompt].tobytes() for row, prompt in pairs)
        else:
            found.update(row.tobytes() for row in rows.inputs)
        if time.monotonic() > until:
            break
    return found


# Models


@torch.no_grad()
def model_faults(subject: Subject, architecture: Model, task: Task) -> Iterator[str]:
    """What is wrong with the network that an architecture builds, on rows of the task."""
    rows = torch.from_numpy(task.batch(generator(0, Stream.DATA, 0), 4, Split.TRAIN).inputs)
    vocab = len(task.vocab)

    def built() -> nn.Module:
        initial = torch.Generator().manual_seed(torch_seed(0, Stream.INIT, 0))
        torch.manual_seed(torch_seed(0, Stream.INIT, 0))  # as training does
        return architecture.build(vocab, task.L, task.capacity, initial)

    _seed_all(1)
    model = built()
    _seed_all(2)
    again = built().state_dict()
    differing = [
        name for name, value in model.state_dict().items() if not _close(value, again[name], 0.0)
    ]
    if differing:
        yield subject.says(
            f"starts with other weights for the same seed ({differing[0]}); draw them from the "
            "generator that `build` is given",
            GENERATORS["numpy's (np.random.…)"][1],
        )
    model.eval()
    outputs = model(rows)
    wanted = (*rows.shape, vocab or 1)
    if tuple(outputs.shape) != wanted:
        yield subject.says(f"gives outputs of shape {tuple(outputs.shape)}; {wanted} is needed")
        return
    if outputs.isnan().any():
        yield subject.says("gives outputs that are no numbers (NaN) before any training")
        return
    _stir(model)
    _seed_all(1)
    first = model(rows)
    scale = max(1e-6, float(torch.where(first.isfinite(), first, 0).abs().max()))
    _seed_all(2)
    if not _close(first, model(rows), SAME * scale):
        yield subject.says(
            "gives other outputs for the same row, in evaluation: it draws random numbers there",
            GENERATORS["torch's (torch.rand…)"][1],
        )
        return
    if leak := _leak(model, rows, vocab, SAME * scale):
        yield subject.says(leak)
    elif rows.shape[1] > 2 and _can_decode(model, task, rows):
        yield from map(subject.says, _decoding_faults(model, rows, LIKE * scale))


def _stir(model: nn.Module) -> None:
    """Move every weight a little."""
    noise = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        if weight.is_floating_point() and weight.numel():
            size = JITTER * max(1.0, float(weight.abs().mean()))
            weight.add_(torch.randn(weight.shape, generator=noise, dtype=weight.dtype), alpha=size)


def _close(one: Tensor, other: Tensor, within: float) -> bool:
    return one.shape == other.shape and torch.allclose(
        one, other, rtol=0.0, atol=within, equal_nan=True
    )


def _leak(model: nn.Module, rows: Tensor, vocab: int, within: float) -> str | None:
    """Where a later token changes an earlier output, in words."""
    outputs = model(rows)
    last, middle = rows.shape[1] - 1, rows.shape[1] // 2
    for first in (last, last - 1, middle + 1, middle, middle - 1, 3, 2, 1):
        if not 1 <= first <= last:
            continue
        others = rows.clone()
        others[:, first:] = (others[:, first:] + 1) % vocab if vocab else others[:, first:] + 1
        difference = (model(others) - outputs)[:, :first].abs().amax(dim=(0, 2))
        if (difference > within).any():
            at = int(difference.nan_to_num().argmax())
            changed = f"token {last}" if first == last else f"tokens {first} to {last}"
            return (
                f"is not causal: changing {changed} changed the output at position {at} by "
                f"{float(difference[at]):.2g}; a position may only see itself and those before it"
            )
    return None


def _can_decode(model: nn.Module, task: Task, rows: Tensor) -> bool:
    """Whether a model gives `prefill` and `step`. Only chains make use of them, so for other tasks
    they may be left out."""
    if not (hasattr(model, "prefill") and hasattr(model, "step")):
        return False  # it is run again for each token
    if isinstance(task, ChainTask):
        return True
    lengths = torch.ones(len(rows), dtype=torch.long)
    try:
        model.step(rows[:, 1], model.prefill(rows[:, :1], lengths))  # type: ignore[operator]
    except NotImplementedError:
        return False
    return True


def _decoding_faults(model: nn.Module, rows: Tensor, within: float) -> Iterator[str]:
    """Token by token must give what all at once gives, from any state and after rows left."""
    outputs = model(rows)
    count, length = rows.shape
    given = torch.tensor([1 + i * (length - 2) // count for i in range(count)])
    prefill: Callable[..., Any] = model.prefill  # type: ignore[assignment]
    step: Callable[..., Any] = model.step  # type: ignore[assignment]
    state = prefill(rows[:, : int(given.max())], given)
    left = torch.arange(count)
    for fed in range(length - int(given.max())):
        at = given[left] + fed
        found = step(rows[left, at], state)
        if not _close(found, outputs[left, at], within):
            difference = (found - outputs[left, at]).abs().amax(1)
            row = int(difference.argmax())
            yield (
                f"decodes otherwise than it trains: after `prefill` of {int(given[left][row])} "
                f"tokens, `step` number {fed + 1} differs from `forward` by "
                f"{float(difference[row]):.2g} at position {int(at[row])}"
            )
            return
        if fed == 1 and len(left) > 2:
            left = left[::2]
            state = state.select(torch.arange(0, count, 2))
