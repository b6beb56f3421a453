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
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
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
from sweepd.trial.user_values import Unusable, shown, unusable

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
"""The least number of rows that are compared."""
MOST_SECONDS = 20.0
"""The seconds that the first row of a loop may take. A loop that takes longer is not run again."""
QUICK_SECONDS = 2.0
"""The seconds that the first row of a loop may take for it to be run with another seed too."""
FRESH_SECONDS = 30
"""The seconds that the same trial may take in a fresh process."""

Numbers = Mapping[str, str]
"""What a trial gives, by name: the same texts for the same bits."""


def difference(one: Numbers, other: Numbers) -> str | None:
    """Returns in which number two runs first differ, in words, or None. A NaN equals another."""
    for name in {**one, **other}:
        ours, theirs = one.get(name, "nothing"), other.get(name, "nothing")
        if ours != theirs:
            return f"{name} is {ours} and {theirs}"
    return None


class Tried:
    """Training that is tried. The checks are its methods: each returns what it saw, in words, and
    raises Wrong or Unusable for what is wrong. Each may rely on those before it."""

    made: Any = None
    """What the user's code made the last time: a model, or what a loop's `start` returned."""
    fresh: Connection | None = None
    """Asks a process in which nothing has run yet: it is sent a number of steps or rows, and
    answers with their `numbers`, or with a text that says why there are none."""

    def numbers(self, steps: int) -> Numbers:
        """Returns what so many steps or rows of another seed give."""
        raise NotImplementedError

    def compared_with_fresh(self, steps: int) -> str:
        """Checks that a trial gives the same here, after others, as in a fresh process."""
        if self.fresh is None:
            return "not compared with a fresh process"
        self.fresh.send(steps)
        here = self.numbers(steps)
        late = f"it took more than {FRESH_SECONDS} s"
        try:
            there = self.fresh.recv() if self.fresh.poll(FRESH_SECONDS) else late
        except EOFError:
            there = "it died"
        if isinstance(there, str):
            return f"not compared with a fresh process: {there}"
        if differs := difference(here, there):
            raise Wrong(
                f"gives other numbers after other trials in its process: {differs} in a fresh "
                "process",
                "keep nothing from trial to trial: no global, no cache and no generator outside of "
                "the objects that sweepd makes",
            )
        return "after other trials it gives the same numbers as in a fresh process"


class Rehearsal(Tried):
    """Trains a model on a task as a trial does."""

    def __init__(
        self, task: Task, architecture: Model, batch_size: int, lengths: Sequence[float]
    ) -> None:
        self.task, self.architecture, self.lengths = task, architecture, lengths
        self.train = Train(steps=LONG + 1, batch_size=batch_size, warmup=0, decay=0.0)

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
        self.step_seconds = min(seconds)  # in the first step libraries warm up
        idle = [name for name, weight in named if weight.requires_grad and name not in reached]
        told = "losses " + ", ".join(f"{loss:.3f}" for loss in losses)
        if not idle:
            return told
        try:
            with sparing_the_compiler():
                Model.parts(self.architecture, len(self.task.vocab), self.task.L)
        except ValueError:
            # Without numbers it does not run: it computes other things for other numbers, as where
            # each row goes to an expert.
            return f"{told}; no row reached {len(idle)} of {len(named)} weights ({idle[0]}, …)"
        raise Wrong(
            f"has weights that get no gradient ({', '.join(idle[:3])})",
            "use them in `forward`, without .detach() on the way, or leave them out",
        )

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
        weights, others = resumed.model.state_dict(), dict(_unsaved(resumed.model))
        what = [
            f"{name} differs after {steps}"
            for name, value in self.made.state_dict().items()
            if not _same(value, weights[name])
        ][:1]
        if unsaved := [k for k, v in _unsaved(self.made) if not _same(v, others.get(k))]:
            what.append(f"it keeps {', '.join(unsaved[:3])}, which no checkpoint holds")
        if what:
            raise Wrong(
                f"trains on otherwise after a checkpoint: {'; '.join(what)}",
                "keep what `forward` changes in a buffer (register_buffer), and draw random "
                "numbers from torch alone",
            )
        return f"restored after {SAVED} steps, it has the same weights {steps} later, bit for bit"

    def check_scores(self) -> str:
        """Checks that a test sample can be scored. Says what the grid's `lengths` give."""
        started = time.perf_counter()
        score = self.straight.test_score()
        seconds = time.perf_counter() - started
        measured = f"loss {score.loss:.3f}" if score.acc is None else f"acc {score.acc:.3f}"
        scores, missing = self.straight.other_scores()
        longer = [f"{name} {value:.3f}" for name, value in scores.items()]
        return "; ".join([f"{ANSWERS} rows in {seconds:.2f} s, {measured}", *longer, *missing])

    def numbers(self, steps: int, seed: int = SEED) -> Numbers:
        """Returns each loss, a hash of the weights, and the test score."""
        training = self._training(seed)
        given: dict[str, str] = {}
        for step in range(1, steps + 1):
            seed_all(step)
            given[f"the loss of step {step}"] = repr(float(training.train_step()[1]))
        held = hashlib.sha256()
        for value in training.model.state_dict().values():
            held.update(value.numpy().tobytes())
        score = training.test_score()
        given["the hash of the weights"] = held.hexdigest()[:12]
        return given | {"the test's loss": repr(score.loss), "the test's acc": repr(score.acc)}

    def check_fresh(self) -> str:
        return self.compared_with_fresh(self.straight.step)

    def second(self) -> str:
        """Checks what `check_fresh` does, after another trial and with few steps, for a launch."""
        self.numbers(STEPS, seed=0)
        return self.compared_with_fresh(STEPS)

    def check_time(self) -> str:
        rows = self.train.batch_size
        return (
            f"{self.step_seconds * 1000:.1f} ms a step of {rows} rows on one core of this machine"
        )


def _unsaved(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yields by name what a model keeps outside of its state_dict."""
    for path, module in model.named_modules():
        kept = {k: value for k, value in vars(module).items() if k not in TORCHS_OWN}
        buffers = dict(module.named_buffers(recurse=False))
        kept |= {k: buffers[k] for k in buffers.keys() & module._non_persistent_buffers_set}
        for name, value in kept.items():
            yield ".".join(filter(None, (path, name))), value


def _same(one: Any, other: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Returns whether two values hold the same, bit for bit. Weights are compared elsewhere."""
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


class Diverged(Unusable):
    """A loop's value is no finite number. Its trials run all the same, with other settings."""


class Tryout(Tried):
    """The first rows of a loop. A loop whose first row takes long gives that row alone."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop

    def check_rows(self) -> str:
        """Checks that each row has all metrics and nothing else, as finite numbers. Checks that
        what the loop says of its costs and its budget can be used too."""
        loop_facts(self.loop)
        began = time.monotonic()
        self.straight = run = self._run()
        self.rows = _rows(run, 1)
        self.seconds = time.monotonic() - began
        self.slow = self.seconds > MOST_SECONDS
        self.asked = 1
        """How many rows were asked for. Fewer come where the loop ends before."""
        self.saved = {} if self.slow else {1: run.snapshot()}
        """The state after the first row and after half of LONG rows; None where the loop has no
        `save`."""
        until = began + LONG_SECONDS
        while not (self.slow or run.result) and (
            self.asked < ROWS or (self.asked < LONG and time.monotonic() < until)
        ):
            self.asked += 1
            self.rows = _rows(run, self.asked)
            if run.step == LONG // 2 and not run.result:
                self.saved[run.step] = run.snapshot()
        for row in run.checks:
            for name, value in row.scores.items():
                if value is not None and not math.isfinite(value):
                    message = (
                        f"reported {name} = {value} at step {row.step}, where a trial ends as a "
                        "fail; look for a division by 0, or a rate that is too high"
                    )
                    wrong = unusable(run.running, "advance", message)
                    raise Diverged(wrong.message, wrong.place)
        if self.slow:
            return f"the first row can be used, and took {self.seconds:.0f} s"
        if self.seconds <= QUICK_SECONDS:
            # As the loop gives it: a trial takes the bools of NumPy and torch for 0 and 1.
            for name, value in self._run().running.advance().items():
                if str(getattr(value, "dtype", "")) in ("bool", "torch.bool"):
                    message = f"reported {name} = {shown(value)}; it must be one number"
                    raise unusable(run.running, "advance", message)
        return f"the first {run.step} rows can be used; the first took {self.seconds:.2g} s"

    def check_seed(self) -> str:
        """Checks that the same seed gives the same rows. Remarks on it if another seed gives them
        too, which is right for a loop that draws nothing, or whose first scores are all alike."""
        if self.slow:
            return "not run again, as it is slow"
        twin = self._run()
        if differs := difference(self.rows, _rows(twin, self.asked)):
            raise Wrong(
                f"gives other numbers for the same seed: {differs}",
                "give every generator the seed, and report nothing that depends on time "
                "(sweepd records the seconds)",
            )
        kept, others = _kept(self.straight), _kept(twin)
        self.repeated = [name for name in kept if _same(kept[name], others.get(name))]
        """What the loop keeps that depends on nothing but the seed, unlike a time."""
        if self.seconds <= QUICK_SECONDS and self.rows == self.numbers(self.asked):
            return "the same seed gives the same rows, and so does another: is `seed` used?"
        return "the same seed gives the same rows"

    def check_checkpoint(self) -> str:
        """Checks that a loop that loads a saved state goes on as if it had never stopped."""
        if self.slow:
            return "not run again, as it is slow"
        lost: dict[str, None] = {}
        for saved in self.saved.values():
            if saved is None:
                return "it has no `save`: a trial that is interrupted starts again"
            restored = self._run()
            restored.restore(restored.read(saved))
            if differs := difference(self.rows, _rows(restored, self.asked)):
                raise Wrong(
                    f"goes on with other numbers than the run that was saved: {differs}",
                    "let `save` return all that `advance` reads, generators too, and `load` "
                    "restore it",
                    "load",
                )
            kept, others = _kept(self.straight), _kept(restored)
            lost |= {k: None for k in self.repeated if not _same(kept[k], others.get(k))}
        if lost:
            names = ", ".join(lost)
            return f"saved and loaded, it gives the same rows, with another {names}: is it needed?"
        return "saved and loaded, it gives the same rows"

    def numbers(self, steps: int) -> Numbers:
        return _rows(self._run(SEED + 1), steps)

    def check_fresh(self) -> str:
        if self.seconds > QUICK_SECONDS:
            return "not compared with a fresh process, as it is slow"
        return self.compared_with_fresh(self.asked)

    def _run(self, seed: int = SEED) -> OwnLoop:
        reported = metrics.directions(self.loop.metrics)
        run = OwnLoop(self.loop, reported, 0, Stop(), seed, None, "cpu")
        self.made = run.running
        return run


def _kept(run: OwnLoop) -> dict[str, Any]:
    """Returns by name what the object keeps that a loop's `start` has returned, and of what torch
    can save its state."""
    kept: dict[str, Any] = {}
    for name, value in getattr(run.running, "__dict__", {}).items():
        match value:
            case nn.Module():
                kept[name] = value.state_dict(), dict(_unsaved(value))
            case torch.optim.Optimizer():
                kept[name] = value.state_dict()
            case _:
                kept[name] = value
    return kept


def _rows(run: OwnLoop, count: int) -> Numbers:
    """Runs on to row `count`, if the run does not end before. Returns the numbers of all rows."""
    while run.step < count and next(run.advance(), None):
        pass
    return {
        f"{name} of row {row.step}": repr(value)
        for row in run.checks
        for name, value in row.scores.items()
    }
