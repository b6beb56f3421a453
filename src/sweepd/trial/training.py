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
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sweepd.grid.settings import Evaluate, Stop, Train, unsolved
from sweepd.models.base import Model
from sweepd.tasks.base import Batch, Split, Task
from sweepd.trial.adamw import AdamW
from sweepd.trial.batches import Batches
from sweepd.trial.evaluation import Score, evaluate, loss_of
from sweepd.trial.generators import seed_torch
from sweepd.trial.gpu import Recorded, Step
from sweepd.trial.handed import unusable

LOG_EVERY = 10
"""The number of steps between two metric rows."""

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
    """Returns the generator of one purpose at one step. It is independent of every other generator,
    and of what was drawn before."""
    return np.random.Generator(np.random.Philox(key=[seed, (stream << 48) | step]))


def torch_seed(seed: int, stream: Stream, step: int) -> int:
    """Returns a 63-bit seed for torch's generators, drawn from `generator`."""
    return int(generator(seed, stream, step).integers(2**63))


@dataclass(frozen=True)
class MetricRow:
    """What is recorded of one step.

    acc, chain_acc and `own`, the task's own metrics, are those of the check at this step. At the
    last step they are those of the test score. At a step without either, acc and chain_acc are
    None, and `own` is empty.
    """

    step: int
    loss: float
    acc: float | None
    chain_acc: float | None
    lr: float
    tokens: int
    seconds: float
    train_flops: float
    own: Mapping[str, float] = field(default_factory=dict)

    @property
    def scores(self) -> dict[str, float]:
        """What its check measured. It is empty where that was the loss alone."""
        acc = {} if self.acc is None else {"acc": self.acc}
        return {"loss": self.loss, **acc, **self.own} if acc or self.own else {}

    def columns(self) -> dict[str, Any]:
        columns = asdict(self)
        own: dict[str, float] = columns.pop("own")
        return columns | own


@dataclass(frozen=True)
class Check:
    """What a check measured, by metric."""

    step: int
    acc: float | None
    chain_acc: float | None
    loss: float
    own: Mapping[str, float] = field(default_factory=dict)

    def score(self, metric: str) -> float | None:
        found: float | None = self.own.get(metric, getattr(self, metric, None))
        return found


@dataclass(frozen=True)
class TrainingResult:
    """How training ended: completed, solved or diverged (then without a score)."""

    status: str
    score: Score | None
    error: str | None = None
    notes: tuple[str, ...] = ()

    def columns(self) -> dict[str, Any]:
        """Returns its score as columns of `trials`. The mapping is empty without a score."""
        return self.score.columns() if self.score else {}


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
        self.result: TrainingResult | None = None

    def advance(self) -> Iterator[MetricRow | None]:
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
                self.result = TrainingResult("diverged", None)
            elif last:
                score = self.test_score()
                self.result = self.ended("completed", score)
            elif check_due:
                score = self.check()
                self.result = self.after_check()
            self.seconds = before + time.perf_counter() - started
            yield MetricRow(
                self.step,
                value,
                score.acc if score else None,
                score.chain_acc if score else None,
                lr,
                self.tokens,
                self.seconds,
                self.train_flops,
                score.own if score else {},
            )

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
        """Scores the present weights on a fresh check sample, and records the check. Returns the
        score."""
        score = self._score(Stream.CHECK, Split.CHECK, self.evaluation.check_samples)
        self.checks.append(Check(self.step, score.acc, score.chain_acc, score.loss, score.own))
        return score

    def test_score(self) -> Score:
        """Returns the score of the present weights on a test sample. No input of it was trained on
        or checked before."""
        return self._score(Stream.TEST, Split.TEST, self.evaluation.verdict_samples)

    def _score(self, stream: Stream, split: Split, count: int) -> Score:
        rng = generator(self.seed, stream, self.step)
        sample = self.task.sample(rng, count, split)
        sample.check(count)
        return evaluate(self.model, self.task, sample)

    def after_check(self) -> TrainingResult | None:
        """Returns the result if the latest check ends the trial, else None. Where a check reaches
        the success mark, a test sample is drawn, which must confirm it."""
        mark = self.stop.success

        def reached(acc: float | None) -> bool:
            return mark is not None and acc is not None and acc >= mark

        if reached(self.checks[-1].acc) and reached((score := self.test_score()).acc):
            return self.ended("solved", score)
        return self.spoilt(self.checks[-1].own)

    def ended(self, status: str, score: Score) -> TrainingResult:
        return self.spoilt(score.own) or TrainingResult(status, score)

    def spoilt(self, own: Mapping[str, float]) -> TrainingResult | None:
        """Returns a `diverged` result where one of the task's own metrics is no finite number, else
        None. The metrics of a loop are judged alike."""
        wild = [f"{name} = {value}" for name, value in own.items() if not math.isfinite(value)]
        if not wild:
            return None
        told = unusable(self.task, "scores", f"reported {wild[0]} at step {self.step}")
        return TrainingResult("diverged", None, str(told))

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
        same_checks = state["evaluate"] == asdict(self.evaluation)
        return unsolved(self.stop.success, state["success"], same_checks) and not self.stop.spent(
            state["tokens"], state["seconds"]
        )

    def restore(self, state: Snapshot) -> None:
        """Continues from a state of the same trunk, as if this run had just reached it."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for group in self.optimizer.param_groups:  # the state may come from another device
            group["capturable"] = self.recorded
        self.step, self.tokens, self.seconds = state["step"], state["tokens"], state["seconds"]
        self.parent = state["parent"]
        if state["evaluate"] == asdict(self.evaluation):
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
