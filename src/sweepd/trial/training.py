"""One trial's training: a loop in which every step is a function of the settings, seed and step.

Nothing random carries state from step to step: data, dropout and samples come from counter-based
generators keyed by (seed, stream, step). So the weights, the optimizer and the step number are the
whole state of a trial. A trial that is continued from a checkpoint gives the numbers of one that
was never interrupted.
"""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from enum import IntEnum
from functools import partial
from inspect import unwrap
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sweepd.grid import metrics
from sweepd.grid.settings import Evaluate, Stop, Train, unsolved
from sweepd.models.base import Model
from sweepd.tasks.base import Batch, Split, Task
from sweepd.trial.evaluation import Score, evaluate, loss_of
from sweepd.trial.generators import seed_torch
from sweepd.trial.gpu import Recorded, Step
from sweepd.trial.runs import Check, Result, StepRow
from sweepd.trial.user_values import unusable

VERSION = 1
"""The version of what training and evaluation do, as one (docs/own.md#which-code-counts)."""
LOG_EVERY = 10
"""The number of steps between two metric rows."""
AHEAD = 4
"""The number of steps whose batches are drawn ahead while a GPU computes."""

Snapshot = dict[str, Any]
"""The state of a run, as `Training.snapshot` returns it."""


class Stream(IntEnum):
    """What a random generator is for."""

    INIT = 0
    DATA = 1
    DROPOUT = 2
    CHECK = 3
    TEST = 4


def generator(seed: int, stream: Stream, step: int) -> np.random.Generator:
    """Returns the generator of one purpose at one step, independent of what was drawn before."""
    return np.random.Generator(np.random.Philox(key=[seed, (stream << 48) | step]))


def torch_seed(seed: int, stream: Stream, step: int) -> int:
    """Returns a 63-bit seed for torch's generators, drawn from `generator`."""
    return int(generator(seed, stream, step).integers(2**63))


_AdamW = torch.optim.AdamW


class AdamW(_AdamW):
    """Torch's AdamW (Loshchilov & Hutter 2019), with the same numbers. Torch wraps these methods to
    keep its compiler out of them, and loads the compiler to do so. That takes 1.4 seconds of
    processor time in every worker, and a trial may take no longer."""

    add_param_group = unwrap(_AdamW.add_param_group)
    zero_grad = unwrap(_AdamW.zero_grad)
    state_dict = unwrap(_AdamW.state_dict)
    load_state_dict = unwrap(_AdamW.load_state_dict)
    step = torch.no_grad()(unwrap(_AdamW.step))


@dataclass(frozen=True)
class Fed:
    """A batch as tensors. scored: the number of its targets."""

    inputs: Tensor
    targets: Tensor
    scored: int


class Batches:
    """Draws the batch of each step. What it holds is not part of a trial's state, since a step's
    batch depends on nothing but the step.

    For a GPU a thread draws the batches while the GPU computes, and puts each into pinned memory.
    From there it is copied without waiting for the GPU's present work.
    """

    def __init__(self, draw: Callable[[int], Batch], device: torch.device) -> None:
        self.draw, self.device = draw, device
        self.ahead = ThreadPoolExecutor(1, "batches") if device.type == "cuda" else None
        self.coming: dict[int, Future[Fed]] = {}

    def take(self, step: int) -> Fed:
        """Returns the batch of a step. Raises whatever `draw` raises."""
        if not self.ahead:
            return self._fed(step)
        for later in range(step, step + AHEAD):
            if later not in self.coming:
                self.coming[later] = self.ahead.submit(self._fed, later)
        fed = self.coming.pop(step).result()
        inputs, targets = (
            tensor.to(self.device, non_blocking=True) for tensor in (fed.inputs, fed.targets)
        )
        return Fed(inputs, targets, fed.scored)

    def _fed(self, step: int) -> Fed:
        batch = self.draw(step)
        inputs, targets = torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)
        if self.ahead:
            inputs, targets = inputs.pin_memory(), targets.pin_memory()
        return Fed(inputs, targets, int(batch.scored.sum()))


class Training:
    """The model, optimizer and position of one trial: the built-in `loop.Run`.

    `advance()` trains a step at a time and sets `result` when the trial is over. It may be left
    after any step and called again. `snapshot()` and `restore()` carry the state over to another
    run.
    """

    def __init__(
        self,
        task: Task,
        architecture: Model,
        train: Train,
        evaluation: Evaluate,
        stop: Stop,
        seed: int,
        flops_per_step: float,
        device: str,
    ) -> None:
        self.task, self.train, self.evaluation, self.stop = task, train, evaluation, stop
        self.seed, self.flops_per_step, self.device = seed, flops_per_step, torch.device(device)
        initial = torch.Generator().manual_seed(torch_seed(seed, Stream.INIT, 0))
        model = architecture.build(len(task.vocab), task.L, task.capacity, initial)
        self.model = model.to(self.device)
        self.peak_lr = train.peak_lr(getattr(architecture, "d", None))
        self.recorded = train.compile and self.device.type == "cuda"
        self.optimizer = AdamW(
            self.model.parameters(),
            lr=self.peak_lr,
            betas=(train.beta1, train.beta2),
            weight_decay=train.weight_decay,
            fused=True,
            capturable=self.recorded,
        )
        self.lr = torch.tensor(self.peak_lr, device=self.device)
        """The tensor from which a recorded step reads its learning rate."""
        # Neither refers to this run, so that a GPU's memory is free as soon as the run is dropped.
        self.batches = Batches(partial(drawn, task, train.batch_size, seed), self.device)
        update = partial(updated, self.model, self.optimizer, train)
        self.update: Step = Recorded(update) if self.recorded else update
        self.step = 0
        self.tokens = 0
        self.seconds = 0.0
        self.checks: list[Check] = []
        """The checks made so far, by this run or by the one that it continues."""
        self.parent: str | None = None
        """The trial whose state this run started from, if that was another trial."""
        self.score: Score | None = None
        """The test score with which the run ended."""
        self.result: Result | None = None

    def advance(self) -> Iterator[StepRow | None]:
        """Trains on and yields after each step: a row every LOG_EVERY steps, at each check and at
        the last step, and None otherwise."""
        while self.result is None:
            started, before = time.perf_counter(), self.seconds
            lr, loss = self.train_step()
            self.seconds = before + time.perf_counter() - started
            last = self.step == self.train.steps or self.stop.spent(self.tokens, self.seconds)
            check_due = self.check_due() and not last
            if not (last or check_due or self.step % LOG_EVERY == 0):
                yield None
                continue
            score = None
            if not math.isfinite(value := loss.item()):
                self.result = Result("diverged")
            elif last:
                score = self.test_score()
                self.result = self.ended("completed", score)
            elif check_due:
                score = self.check()
                self.result = self.after_check()
            self.seconds = before + time.perf_counter() - started
            acc, own = (score.acc, score.own) if score else (None, {})
            columns = {
                "step": self.step,
                "loss": value,
                "acc": acc,
                "chain_acc": score.chain_acc if score else None,
                "lr": lr,
                "tokens": self.tokens,
                "seconds": self.seconds,
                "train_flops": self.train_flops,
                **own,
            }
            scores = {} if acc is None else {"acc": acc}
            scores |= own
            yield StepRow(self.step, columns, {"loss": value, **scores} if scores else {})

    @property
    def train_flops(self) -> float:
        """The training FLOPs so far."""
        return self.step * self.flops_per_step

    def train_step(self) -> tuple[float, Tensor]:
        """Takes one optimizer step on fresh data. Returns its learning rate and its loss."""
        fed = self.batches.take(self.step)
        seed_torch(torch_seed(self.seed, Stream.DROPOUT, self.step), self.device)
        lr = self.peak_lr * lr_factor(self.train, self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr.fill_(lr) if self.recorded else lr
        loss = self.update(fed.inputs, fed.targets)
        self.step += 1
        self.tokens += fed.scored
        return lr, loss

    def check_due(self) -> bool:
        return self.step % self.evaluation.check_every == 0

    def check(self) -> Score:
        """Scores the present weights on a fresh check sample, and records the check."""
        score = self._score(Stream.CHECK, Split.CHECK, self.evaluation.check_samples)
        scores = {"acc": score.acc, "chain_acc": score.chain_acc, "loss": score.loss}
        self.checks.append(Check(self.step, {**scores, **score.own}))
        return score

    def test_score(self) -> Score:
        """Returns the score of the present weights on a test sample, of inputs not seen before."""
        return self._score(Stream.TEST, Split.TEST, self.evaluation.verdict_samples)

    def _score(self, stream: Stream, split: Split, count: int) -> Score:
        rng = generator(self.seed, stream, self.step)
        sample = self.task.sample(rng, count, split)
        sample.check(count)
        return evaluate(self.model, self.task, sample)

    def after_check(self) -> Result | None:
        """Returns the result if the latest check ends the trial, else None. Where a check reaches
        the success mark, a test sample is drawn, which must confirm it."""
        mark = self.stop.success

        def reached(acc: float | None) -> bool:
            return mark is not None and acc is not None and acc >= mark

        scores = self.checks[-1].scores
        if reached(scores["acc"]) and reached((score := self.test_score()).acc):
            return self.ended("solved", score)
        return self.spoilt({name: scores[name] for name in metrics.own(self.task.metrics)})

    def ended(self, status: str, score: Score) -> Result:
        if spoilt := self.spoilt(score.own):
            return spoilt
        self.score = score
        return Result(status, score.columns())

    def spoilt(self, own: Mapping[str, float | None]) -> Result | None:
        """Returns a `diverged` result where one of the task's own metrics is no finite number."""
        for name, value in own.items():
            if value is not None and not math.isfinite(value):
                message = f"reported {name} = {value} at step {self.step}"
                return Result("diverged", error=str(unusable(self.task, "scores", message)))
        return None

    def snapshot(self) -> bytes:
        """Returns everything that `restore` needs. It can be loaded with torch's weights_only."""
        buffer = io.BytesIO()
        torch.save(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
                "tokens": self.tokens,
                "seconds": self.seconds,
                "parent": self.parent,
                "evaluate": asdict(self.evaluation),
                "success": self.stop.success,
                "checks": [asdict(check) for check in self.checks],
            },
            buffer,
        )
        return buffer.getvalue()

    def read(self, snapshot: bytes) -> Snapshot:
        """Returns a snapshot's content. Any error of torch's reader may be raised."""
        state: Snapshot = torch.load(
            io.BytesIO(snapshot), map_location=self.device, weights_only=True
        )
        return state

    def passes(self, state: Snapshot) -> bool:
        """Returns whether this run would pass through a state of its trunk that another run
        reached. It does unless it would have been solved before, or its budget would be used up."""
        same = self.is_checked_alike(state)
        return unsolved(self.stop.success, state["success"], same) and not self.stop.spent(
            state["tokens"], state["seconds"]
        )

    def is_checked_alike(self, state: Snapshot) -> bool:
        """Returns whether the run of a state is checked as this one is. A field of `Evaluate` that
        is newer than the state stood at its default."""
        return {**asdict(Evaluate()), **state["evaluate"]} == asdict(self.evaluation)

    def restore(self, state: Snapshot) -> None:
        """Continues from a state of the same trunk, as if this run had just reached it."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for group in self.optimizer.param_groups:  # the state may come from another device
            group["capturable"] = self.recorded
        self.step, self.tokens, self.seconds = state["step"], state["tokens"], state["seconds"]
        self.parent = state["parent"]
        if self.is_checked_alike(state):
            self.checks = [Check(**check) for check in state["checks"]]
        if self.step == self.train.steps:
            self.result = self.ended("completed", self.test_score())
        elif self.check_due():
            if not self.checks or self.checks[-1].step < self.step:
                self.check()
            self.result = self.after_check()


def drawn(task: Task, rows: int, seed: int, step: int) -> Batch:
    """Returns the training batch of a step. Raises ValueError unless it can be trained on."""
    batch = task.batch(generator(seed, Stream.DATA, step), rows, Split.TRAIN)
    batch.check(rows)
    return batch


def updated(
    model: nn.Module, optimizer: AdamW, train: Train, inputs: Tensor, targets: Tensor
) -> Tensor:
    """Takes one step of the optimizer on a batch. Returns the loss before the step."""
    mixed = train.precision == "bf16"
    with torch.autocast(inputs.device.type, torch.bfloat16, enabled=mixed, cache_enabled=False):
        outputs = model(inputs)
    loss = loss_of(outputs, targets)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.parameters(), train.clip)
    optimizer.step()
    return loss.detach()


def lr_factor(train: Train, step: int) -> float:
    """Returns the learning rate of step `step` (counted from 0) as a share of the peak rate."""
    warm = min(1.0, (step + 1) / train.warmup) if train.warmup else 1.0
    start = train.decay_start
    if step < start:
        return warm
    progress = (step - start + 1) / (train.steps - start)
    cosine = train.schedule == "cosine"
    left = (1 + math.cos(math.pi * progress)) / 2 if cosine else 1 - progress
    return warm * (train.floor + (1 - train.floor) * left)
