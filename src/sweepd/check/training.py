"""Checks of training itself: that of a model on a task, and that of a loop of the user's own.

A trial in small takes some steps, is continued from a checkpoint and gives a few answers. A loop's
rows are read as a trial reads them: they can be used, they depend on the seed alone, and a loop
that was saved and loaded goes on as if it had never stopped. Both give the same numbers in a fresh
process as after other trials. What fails a check would still run, and its numbers would mean
nothing.
"""

from __future__ import annotations

import hashlib
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sweepd.check.cases import Wrong
from sweepd.check.models import TORCHS_OWN
from sweepd.check.tasks import seed_all
from sweepd.grid import metrics
from sweepd.grid.costs import sparing_the_compiler
from sweepd.grid.settings import Evaluate, Stop, Train
from sweepd.grid.trials import loop_facts
from sweepd.models.base import Model
from sweepd.tasks.base import Task
from sweepd.trial.other_lengths import ScoredLonger
from sweepd.trial.own_loop import OwnLoop
from sweepd.trial.user_values import Unusable, unusable

STEPS, SAVED = 3, 2
"""The number of steps that are trained, and the number of steps after which the checkpoint is
made."""
LONG, LONG_SECONDS = 24, 2.0
"""The most steps, or rows of a loop, after which a continued run is compared with one that was
never interrupted, and the seconds after which no more of them are trained."""
ANSWERS = 16
"""The number of rows of the test sample."""
SEED = 1
ROWS = 2
"""The number of rows that are compared."""
MOST_SECONDS = 20.0
"""The seconds that the first row of a loop may take. A loop that takes longer is not run again."""
QUICK_SECONDS = 2.0
"""The seconds that the first row of a loop may take for it to be run with another seed too."""


Numbers = Mapping[str, str]
"""What a trial gives, by name: the same texts for the same bits."""
Elsewhere = Callable[[int], Callable[[], Numbers | str]]
"""Begins so many steps or rows of the same trial in a process in which nothing has run yet. Returns
a function that waits for its numbers, or for a text that says why there are none."""


class Rehearsal:
    """Trains a model on a task as a trial does. The checks are its methods: each returns what it
    saw, in words, and raises Wrong for what is wrong."""

    made: nn.Module
    """The model that is trained."""

    def __init__(
        self,
        task: Task,
        architecture: Model,
        batch_size: int,
        lengths: Sequence[float],
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self.task, self.architecture, self.lengths = task, architecture, lengths
        self.train = Train(steps=LONG + 1, batch_size=batch_size, warmup=0, decay=0.0)
        self.step_seconds = 0.0
        self.elsewhere = elsewhere

    def _training(self, seed: int = 0) -> ScoredLonger:
        few = Evaluate(check_every=LONG + 1, check_samples=ANSWERS, verdict_samples=ANSWERS)
        settings = self.task, self.architecture, self.train, few, Stop(), seed, 0.0, "cpu"
        return ScoredLonger(self.lengths, *settings)

    def check_training(self) -> str:
        """Checks that three steps give finite losses, and that every weight gets a gradient."""
        self.straight = self._training()
        self.made = self.straight.model
        losses: list[float] = []
        reached: set[str] = set()
        seconds: list[float] = []
        for step in range(STEPS):
            seed_all(step)
            started = time.perf_counter()
            _, loss = self.straight.train_step()
            seconds.append(time.perf_counter() - started)
            losses.append(float(loss))
            if not torch.isfinite(loss):
                raise Wrong(
                    f"has the loss {float(loss)} after {step} steps of training",
                    "look for a logarithm or root of what may be 0, or a rate that is too high",
                )
            named = list(self.made.named_parameters())
            reached |= {name for name, weight in named if weight.grad is not None}
            if step == SAVED - 1:
                self.snapshot = self.straight.snapshot()
        self.step_seconds = min(seconds)
        idle = [name for name, weight in named if weight.requires_grad and name not in reached]
        told = "losses " + ", ".join(f"{loss:.3f}" for loss in losses)
        if idle and self._routes():
            return f"{told}; no row reached {len(idle)} of {len(named)} weights ({idle[0]}, …)"
        if idle:
            raise Wrong(
                f"has weights that get no gradient ({', '.join(idle[:3])})",
                "use them in `forward`, without .detach() on the way, or leave them out",
            )
        return told

    def _routes(self) -> bool:
        """Returns whether the model computes other things for other numbers, as where each row goes
        to an expert. Such a model does not run without numbers."""
        try:
            with sparing_the_compiler():
                Model.parts(self.architecture, len(self.task.vocab), self.task.L)
        except ValueError:
            return True
        return False

    def check_checkpoint(self) -> str:
        """Checks that a restored state trains on as if it had never stopped, bit for bit, and that
        the model keeps nothing else that changes from step to step."""
        until = time.monotonic() + LONG_SECONDS
        while self.straight.step < LONG and time.monotonic() < until:
            seed_all(self.straight.step)
            self.straight.train_step()
        resumed = self._training()
        resumed.restore(resumed.read(self.snapshot))
        seed_all(99)  # in another process the global generators have other states
        while resumed.step < self.straight.step:
            resumed.train_step()
        cut = self.straight.step - SAVED
        steps = f"{cut} steps" if cut > 1 else "one step"
        weights = resumed.model.state_dict()
        differing = [
            k for k, value in self.made.state_dict().items() if not _same(value, weights[k])
        ]
        others = dict(_unsaved(resumed.model))
        unsaved = [k for k, value in _unsaved(self.made) if not _same(value, others.get(k))]
        what = [f"{name} differs after {steps}" for name in differing[:1]]
        if unsaved:
            what.append(f"it keeps {', '.join(unsaved[:3])}, which no checkpoint holds")
        if what:
            raise Wrong(
                f"trains on otherwise after a checkpoint: {'; '.join(what)}",
                "keep what `forward` changes in a buffer (register_buffer), and draw random "
                "numbers from torch alone",
            )
        return f"restored after {SAVED} steps, it has the same weights {steps} later, bit for bit"

    def check_scores(self) -> str:
        """Checks that a test sample can be scored. Says what the grid's `lengths` give, and which
        of their scores would stay empty."""
        started = time.perf_counter()
        score = self.straight.test_score()
        seconds = time.perf_counter() - started
        measured = f"loss {score.loss:.3f}" if score.acc is None else f"acc {score.acc:.3f}"
        scores, missing = self.straight.other_scores()
        longer = [f"{name} {value:.3f}" for name, value in scores.items()]
        return "; ".join([f"{ANSWERS} rows in {seconds:.2f} s, {measured}", *longer, *missing])

    def numbers(self, steps: int, seed: int = 1) -> Numbers:
        """Returns what so many steps of another seed give: each loss, a hash of the weights, and
        the test score."""
        training = self._training(seed)
        found: dict[str, str] = {}
        for step in range(1, steps + 1):
            seed_all(step)
            found[f"the loss of step {step}"] = repr(float(training.train_step()[1]))
        held = hashlib.sha256()
        for value in training.model.state_dict().values():
            held.update(value.numpy().tobytes())
        score = training.test_score()
        found["the hash of the weights"] = held.hexdigest()[:12]
        return found | {"the test's loss": repr(score.loss), "the test's acc": repr(score.acc)}

    def check_fresh(self) -> str:
        return _compared(self.numbers, self.elsewhere, self.straight.step)

    def check_second(self) -> str:
        """Checks what `check_fresh` does, with few steps, for a launch."""
        self.numbers(STEPS, seed=0)
        return _compared(self.numbers, self.elsewhere, STEPS)

    def check_time(self) -> str:
        """Returns how long the fastest step took. In the first one libraries warm up."""
        rows = self.train.batch_size
        return (
            f"{self.step_seconds * 1000:.1f} ms a step of {rows} rows on one core of this machine"
        )


def _compared(numbers: Callable[[int], Numbers], elsewhere: Elsewhere | None, steps: int) -> str:
    """Checks that a trial gives the same here, where other trials ran before it, as in a fresh
    process."""
    if elsewhere is None:
        return "not compared with a fresh process"
    asked = elsewhere(steps)
    here = numbers(steps)
    there = asked()
    if isinstance(there, str):
        return f"not compared with a fresh process: {there}"
    for name, value in here.items():
        if there[name] != value:
            raise Wrong(
                f"gives other numbers after other trials in its process: {name} is {value}, and "
                f"{there[name]} in a fresh process",
                "keep nothing from trial to trial: no global, no cache and no generator outside of "
                "the objects that sweepd makes",
            )
    return "after other trials it gives the same numbers as in a fresh process"


def _unsaved(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yields what a model keeps outside of its state_dict, by name: attributes, and buffers that
    are not persistent."""
    for path, module in model.named_modules():
        kept = {k: value for k, value in vars(module).items() if k not in TORCHS_OWN}
        buffers = dict(module.named_buffers(recurse=False))
        kept |= {k: buffers[k] for k in buffers.keys() & module._non_persistent_buffers_set}
        for name, value in kept.items():
            yield ".".join(filter(None, (path, name))), value


def _same(one: Any, other: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Returns whether two values hold the same numbers and texts, bit for bit. Weights and modules
    are compared elsewhere."""
    if one is other or id(one) in seen or isinstance(one, nn.Module | nn.Parameter):
        return True
    if type(one) is not type(other):
        return False
    inside = partial(_same, seen=seen | {id(one)})
    match one:
        case Tensor():
            return one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())
        case np.ndarray():
            return bool(one.shape == other.shape and one.tobytes() == other.tobytes())
        case torch.Generator():
            return torch.equal(one.get_state(), other.get_state())
        case random.Random():
            return bool(one.getstate() == other.getstate())
        case np.random.Generator():
            return inside(one.bit_generator.state, other.bit_generator.state)
        case np.random.RandomState():
            return inside(one.get_state(), other.get_state())
        case list() | tuple():
            return len(one) == len(other) and all(map(inside, one, other))
        case dict():
            return one.keys() == other.keys() and all(inside(one[k], other[k]) for k in one)
        case bool() | int() | float() | complex() | str() | bytes() | set() | np.generic():
            return repr(one) == repr(other)
        case _:
            return inside(getattr(one, "__dict__", {}), getattr(other, "__dict__", {}))


TRIAL_CHECKS: dict[str, Callable[[Rehearsal], str]] = {
    "training": Rehearsal.check_training,
    "checkpoint": Rehearsal.check_checkpoint,
    "scores": Rehearsal.check_scores,
    "fresh": Rehearsal.check_fresh,
    "time": Rehearsal.check_time,
}
"""The checks of a trial in their order. Each may rely on those before it."""


Scores = Mapping[str, float]


class Diverged(Unusable):
    """A loop has reported a value that is no finite number. Its trials are run all the same, since
    they may have other settings."""


class Tryout:
    """The first rows of a loop. The checks are its methods: each returns what it saw, in words,
    and raises Wrong or Unusable for what is wrong."""

    rows: Sequence[Scores]
    saved: dict[int, bytes | None]
    """The state after the first row and after half of LONG rows, by how many there were; None where
    the loop has no `save`."""

    def __init__(self, loop: Any, elsewhere: Elsewhere | None = None) -> None:
        self.loop, self.elsewhere = loop, elsewhere
        self.made: Any = None
        """What the loop's `start` returned the last time."""
        self.seconds = 0.0

    def check_rows(self) -> str:
        """Checks that each row has all metrics and nothing else, as finite numbers. Checks that
        what the loop says of its costs and its budget can be used too. A slow loop gives its first
        row alone."""
        loop_facts(self.loop)
        began = time.monotonic()
        run = self._run()
        first = _next(run)
        self.seconds = time.monotonic() - began
        self.rows = [first]
        if self.slow:
            self._check_finite(run)
            return f"the first row can be used, and took {self.seconds:.0f} s"
        self.saved, until = {1: run.snapshot()}, began + LONG_SECONDS
        while len(self.rows) < ROWS or (len(self.rows) < LONG and time.monotonic() < until):
            self.rows.append(_next(run))
            if len(self.rows) == LONG // 2 and self.rows[-1]:
                self.saved[LONG // 2] = run.snapshot()
        self._check_finite(run)
        return f"the first {len(self.rows)} rows can be used; the first took {self.seconds:.2g} s"

    def _check_finite(self, run: OwnLoop) -> None:
        for step, row in enumerate(self.rows, 1):
            if wild := [name for name, value in row.items() if not math.isfinite(value)]:
                message = (
                    f"reported {wild[0]} = {row[wild[0]]} at step {step}, where a trial ends as a "
                    "fail; look for a division by 0, or a rate that is too high"
                )
                wrong = unusable(run.running, "advance", message)
                raise Diverged(wrong.message, wrong.place)

    @property
    def slow(self) -> bool:
        return self.seconds > MOST_SECONDS

    def check_seed(self) -> str:
        """Checks that the same seed gives the same rows. Remarks on it if another seed gives them
        too, which is right for a loop that draws nothing, or whose first scores are all alike."""
        if self.slow:
            return "not run again, as it is slow"
        again = self._run()
        if differing := _differing(self.rows, [_next(again) for _ in self.rows]):
            raise Wrong(
                f"gives other numbers for the same seed: {differing}",
                "give every generator the seed, and report nothing that depends on time "
                "(sweepd records the seconds)",
            )
        if self.seconds <= QUICK_SECONDS:
            other = self._run(SEED + 1)
            if not _differing(self.rows, [_next(other) for _ in self.rows]):
                return "the same seed gives the same rows, and so does another: is `seed` used?"
        return "the same seed gives the same rows"

    def check_checkpoint(self) -> str:
        """Checks that a loop that loads a saved state goes on as if it had never stopped."""
        if self.slow:
            return "not run again, as it is slow"
        for row, saved in self.saved.items():
            if saved is None:
                return "it has no `save`: a trial that is interrupted starts again"
            restored = self._run()
            restored.restore(restored.read(saved))
            rest = self.rows[row:]
            if differing := _differing(rest, [_next(restored) for _ in rest]):
                raise Wrong(
                    f"goes on with other numbers than the run that was saved: {differing}",
                    "let `save` return all that `advance` reads, generators too, and `load` "
                    "restore it",
                    "load",
                )
        return "saved and loaded, it gives the same rows"

    def numbers(self, rows: int) -> Numbers:
        """Returns what so many rows of another seed give."""
        run = self._run(SEED + 1)
        return {
            f"{name} of row {row}": repr(value)
            for row in range(1, rows + 1)
            for name, value in _next(run).items()
        }

    def check_fresh(self) -> str:
        if self.seconds > QUICK_SECONDS:
            return "not compared with a fresh process, as it is slow"
        return _compared(self.numbers, self.elsewhere, len(self.rows))

    def _run(self, seed: int = SEED) -> OwnLoop:
        reported = metrics.directions(self.loop.metrics)
        run = OwnLoop(self.loop, reported, 0, Stop(), seed, None, "cpu")
        self.made = run.running
        return run


def _next(run: OwnLoop) -> Scores:
    """Returns the scores of a run's next row. They are empty once it has ended."""
    row = next(run.advance(), None)
    return row.scores if row else {}


def _differing(rows: Sequence[Scores], others: Sequence[Scores]) -> str | None:
    """Returns where the rows of two runs first differ, in words, or None. A NaN equals another."""
    for row, other in zip(rows, others, strict=True):
        if row.keys() != other.keys():
            return "one of two runs ends earlier"
        for name, value in row.items():
            if repr(value) != repr(other[name]):
                return f"{name} {value!r} and {other[name]!r}"
    return None


LOOP_CHECKS: dict[str, Callable[[Tryout], str]] = {
    "rows": Tryout.check_rows,
    "seed": Tryout.check_seed,
    "checkpoint": Tryout.check_checkpoint,
    "fresh": Tryout.check_fresh,
}
"""The checks of a loop in their order. Each relies on those before it."""
