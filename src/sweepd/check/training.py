"""Checks of training itself: that of a model on a task, and that of a loop of the user's own.

A trial in small takes three steps, is continued from a checkpoint and gives a few answers. A loop's
rows are read as a trial reads them: they can be used, they depend on the seed alone, and a loop
that was saved and loaded goes on as if it had never stopped. What fails a check would still run,
and its numbers would mean nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from sweepd.check.cases import Wrong
from sweepd.check.tasks import seed_all
from sweepd.grid import metrics
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
ANSWERS = 16
"""The number of rows of the test sample."""
SEED = 1
ROWS = 2
"""The number of rows that are compared."""
MOST_SECONDS = 20.0
"""The seconds that the first row of a loop may take. A loop that takes longer is not run again."""
QUICK_SECONDS = 2.0
"""The seconds that the first row of a loop may take for it to be run with another seed too."""


class Rehearsal:
    """Trains a model on a task as a trial does. The checks are its methods: each returns what it
    saw, in words, and raises Wrong for what is wrong."""

    made: nn.Module
    """The model that is trained."""

    def __init__(
        self, task: Task, architecture: Model, batch_size: int, lengths: Sequence[float]
    ) -> None:
        self.task, self.architecture, self.lengths = task, architecture, lengths
        self.train = Train(steps=STEPS, batch_size=batch_size, warmup=0, decay=0.0)
        self.step_seconds = 0.0

    def _training(self) -> ScoredLonger:
        few = Evaluate(check_every=STEPS, check_samples=ANSWERS, verdict_samples=ANSWERS)
        settings = self.task, self.architecture, self.train, few, Stop(), 0, 0.0, "cpu"
        return ScoredLonger(self.lengths, *settings)

    def check_training(self) -> str:
        """Checks that three steps give finite losses, and that every weight gets a gradient."""
        self.straight = self._training()
        self.made = self.straight.model
        losses: list[float] = []
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
            if step == SAVED - 1:
                self.snapshot = self.straight.snapshot()
        self.step_seconds = min(seconds)
        named = self.made.named_parameters()
        idle = [name for name, weight in named if weight.requires_grad and weight.grad is None]
        if idle:
            raise Wrong(
                f"has weights that get no gradient ({', '.join(idle[:3])})",
                "use them in `forward`, without .detach() on the way, or leave them out",
            )
        return "losses " + ", ".join(f"{loss:.3f}" for loss in losses)

    def check_checkpoint(self) -> str:
        """Checks that a restored state trains on as if it had never stopped, bit for bit."""
        resumed = self._training()
        resumed.restore(resumed.read(self.snapshot))
        seed_all(99)  # in another process the global generators have other states
        while resumed.step < STEPS:
            resumed.train_step()
        straight = self.made.state_dict()
        for name, value in resumed.model.state_dict().items():
            if not torch.equal(value, straight[name]):
                raise Wrong(
                    f"trains on otherwise after a checkpoint: {name} differs after one step",
                    "keep what `forward` changes in a buffer (register_buffer), and draw random "
                    "numbers from torch alone",
                )
        return f"restored after {SAVED} steps, the next gives the same weights bit for bit"

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

    def check_time(self) -> str:
        """Returns how long the fastest step took. In the first one libraries warm up."""
        rows = self.train.batch_size
        return (
            f"{self.step_seconds * 1000:.1f} ms a step of {rows} rows on one core of this machine"
        )


TRIAL_CHECKS: dict[str, Callable[[Rehearsal], str]] = {
    "training": Rehearsal.check_training,
    "checkpoint": Rehearsal.check_checkpoint,
    "scores": Rehearsal.check_scores,
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
    saved: bytes | None
    """The state after the first row; None where the loop has no `save`."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
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
        self.saved = run.snapshot()
        self.rows += [_next(run) for _ in range(ROWS - 1)]
        self._check_finite(run)
        return f"the first {ROWS} rows can be used; the first took {self.seconds:.2g} s"

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
        if self.saved is None:
            return "it has no `save`: a trial that is interrupted starts again"
        restored = self._run()
        restored.restore(restored.read(self.saved))
        rest = self.rows[1:]
        if differing := _differing(rest, [_next(restored) for _ in rest]):
            raise Wrong(
                f"goes on with other numbers than the run that was saved: {differing}",
                "let `save` return all that `advance` reads, generators too, and `load` restore it",
                "load",
            )
        return "saved and loaded, it gives the same rows"

    def _run(self, seed: int = SEED) -> OwnLoop:
        reported = metrics.directions(self.loop.metrics)
        run = OwnLoop(self.loop, reported, 0, Stop(), seed, None, "cpu")
        self.made = run.running
        return run


def _next(run: OwnLoop) -> Scores:
    """Returns the scores of a run's next row. They are empty at its end."""
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
}
"""The checks of a loop in their order. Each relies on those before it."""
