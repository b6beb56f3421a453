"""A trial in small: three steps of training, a checkpoint, a few answers, and their time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import nn

from sweepd.check.cases import Wrong
from sweepd.check.tasks import seed_all
from sweepd.grid.settings import Evaluate, Stop, Train
from sweepd.models.base import Model
from sweepd.tasks.base import Task
from sweepd.trial.other_lengths import ScoredLonger

STEPS, SAVED = 3, 2
"""The number of steps that are trained, and the number of steps after which the checkpoint is
made."""
ANSWERS = 16
"""The number of rows of the test sample."""


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
                    "forward",
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
                "forward",
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
                    "forward",
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
