"""One attempt of a trial: training, with everything worth keeping put into the store.

The order of writes is what makes interruption safe. Metric rows up to a step are durable before
the checkpoint of that step appears; the row that ends the attempt is written after its metrics
and before its checkpoints are dropped. Whatever is cut off in between is done again from the last
checkpoint, with the same numbers under a newer attempt.
"""

from __future__ import annotations

import contextlib
import functools
import io
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import torch

from sweepd import registry
from sweepd.errors import EnvironmentFailure
from sweepd.evaluation import Score
from sweepd.plan import Trial
from sweepd.statuses import DONE
from sweepd.store import Store
from sweepd.training import Row, Training

FLUSH_SECONDS = 10.0
"""How long metric rows wait for company before they are written."""

_P = ParamSpec("_P")


def _rescuing(
    act: Callable[Concatenate[Attempt, _P], None],
) -> Callable[Concatenate[Attempt, _P], None]:
    """When `act` fails because the store can't be written, what the attempt holds in memory goes
    to the store's refuge, and the error says so."""

    @functools.wraps(act)
    def acting(self: Attempt, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            act(self, *args, **kwargs)
        except EnvironmentFailure as error:
            raise EnvironmentFailure(f"{error}; {self._rescue()}") from error

    return acting


class Attempt:
    """Trains one trial in slices; `status` is None until it has ended.

    An exception of the task, the model or torch ends the attempt as `failed`, with its text.
    EnvironmentFailure, when the store can't be written, is raised to the caller.
    """

    def __init__(
        self,
        store: Store,
        trial: Trial,
        number: int,
        sweep: str,
        base: Path,
        device: str,
        checkpoint_seconds: float,
    ) -> None:
        self.checkpoint_seconds = checkpoint_seconds
        self.store, self.trial, self.number, self.sweep = store, trial, number, sweep
        self.status: str | None = None
        self.latest: Row | None = None
        self.acc: float | None = None
        self.loss: float | None = None
        self.score: Score | None = None
        self.error: str | None = None
        self.parent: str | None = None
        self.pending: list[dict[str, Any]] = []
        self.own_checkpoints: list[str] = []
        self.started = datetime.now(UTC)
        self.flushed = self.checkpointed = time.monotonic()
        self.training: Training | None = None
        with self._recording_failure():
            task = registry.find_task(trial.task_name, base)(**trial.task)
            self.training = Training(
                task,
                registry.find_model(trial.model_name, base)(**trial.model),
                trial.train,
                trial.evaluate,
                trial.stop,
                trial.seed,
                trial.train_flops / trial.train.steps,
                device,
            )
            self._restore(self.training)

    @_rescuing
    def advance(self, seconds: float) -> None:
        """Train for about `seconds`, or to the end."""
        if self.status is not None:
            return
        assert self.training is not None
        with self._recording_failure():
            until = time.monotonic() + seconds
            for row in self.training.advance():
                if row is not None:
                    self._record(row)
                train = self.trial.train
                if train.extensible and self.training.step == train.trunk_end:
                    self._keep(self.training)
                if self.training.ending is not None:
                    self._finish(self.training)
                    return
                now = time.monotonic()
                if now - self.checkpointed >= self.checkpoint_seconds:
                    self._checkpoint(self.training)
                elif now - self.flushed > FLUSH_SECONDS:
                    self._flush()
                if now >= until:
                    return

    @_rescuing
    def interrupt(self) -> None:
        """Save where training stands and end the attempt as `interrupted`."""
        if self.status is None:
            assert self.training is not None
            self._checkpoint(self.training)
            self._end("interrupted")

    def _record(self, row: Row) -> None:
        self.latest = row
        if row.acc is not None:
            self.acc = row.acc
            self._log(f"step {row.step}: loss {row.loss:.4f}, acc {row.acc:.4f}")
        self.pending.append({"id": self.trial.id, "attempt": self.number, **asdict(row)})

    def _flush(self) -> None:
        if self.pending:
            self.store.write_metrics(self.pending)
            self.pending = []
        self.flushed = time.monotonic()

    def _checkpoint(self, training: Training) -> None:
        """Save the present state; its predecessor goes once this one is complete."""
        self._flush()
        name = f"{training.step:09d}-{self.trial.id}.pt"
        self.store.put_checkpoint(self.trial.trunk, name, training.snapshot())
        for older in self.own_checkpoints:
            if older != name:
                self.store.delete_checkpoint(self.trial.trunk, older)
        self.own_checkpoints = [name]
        self.checkpointed = time.monotonic()

    def _keep(self, training: Training) -> None:
        """Save a state that every trial of the trunk passes through, until `gc`."""
        prefix = f"{training.step:09d}-"
        if not any(
            name.startswith(prefix) and name.endswith(".keep.pt")
            for name in self.store.checkpoints(self.trial.trunk)
        ):
            self._flush()
            name = f"{prefix}{self.trial.id}.keep.pt"
            self.store.put_checkpoint(self.trial.trunk, name, training.snapshot())

    def _restore(self, training: Training) -> None:
        """Continue from the furthest readable state that is this trial's own or its trunk's."""
        self.store.take_in_refuge()
        found: list[tuple[int, str, str]] = []
        for name in self.store.checkpoints(self.trial.trunk):
            digits, _, rest = name.partition("-")
            at, maker, kept = int(digits), rest.split(".")[0], rest.endswith(".keep.pt")
            if maker == self.trial.id and not kept:
                self.own_checkpoints.append(name)
                found.append((at, maker, name))
            elif kept and at <= self.trial.train.trunk_end:
                found.append((at, maker, name))
        for step, maker, name in sorted(found, reverse=True):
            try:
                training.restore(self.store.get_checkpoint(self.trial.trunk, name))
            except EnvironmentFailure:
                raise
            except Exception as error:  # torch's reader raises many kinds for a damaged file
                self._log(f"checkpoint {name} is damaged, trying an older one: {error}")
                continue
            self.parent = None if maker == self.trial.id else maker
            self._log(f"continuing from step {step} ({name})")
            return

    def _finish(self, training: Training) -> None:
        """Training has come to an end by itself."""
        assert training.ending is not None
        stopped_early = training.step < self.trial.train.steps
        on_trunk = training.step <= self.trial.train.trunk_end
        if stopped_early and on_trunk and training.ending.status != "diverged":
            self._keep(training)
        self._end(training.ending.status)

    def _end(self, status: str, error: str | None = None) -> None:
        """Write the attempt's row: from here on it has ended."""
        self._flush()
        trial, training = self.trial, self.training
        score = training.ending.score if training and training.ending else None
        loss = score.loss if score else self.latest.loss if self.latest else None
        self._log(f"{status} at step {training.step if training else 0}")
        self.store.write_trials(
            [
                {
                    **ledger_columns(trial, self.number, self.sweep),
                    "status": status,
                    "error": error,
                    "acc": score and score.acc,
                    "chain_acc": score and score.chain_acc,
                    "correct": score and score.correct,
                    "chain_correct": score and score.chain_correct,
                    "total": score and score.total,
                    "loss": loss,
                    "step": training.step if training else 0,
                    "tokens": training.tokens if training else 0,
                    "seconds": training.seconds if training else 0.0,
                    "train_flops": training.step * training.flops_per_step if training else 0.0,
                    "parent": self.parent,
                    "started": self.started,
                    "ended": datetime.now(UTC),
                    "torch": torch.__version__,
                    "threads": torch.get_num_threads(),
                }
            ]
        )
        self.status, self.error, self.loss, self.score = status, error, loss, score
        self.acc = score.acc if score else self.acc
        if status in DONE:
            for name in self.own_checkpoints:
                self.store.delete_checkpoint(trial.trunk, name)

    def _rescue(self) -> str:
        """Save elsewhere what the store did not take, and end the attempt there: what to tell."""
        trial = f"trial {self.trial.id}"
        if self.status is not None or self.training is None:
            return f"nothing of {trial} is lost"
        unwritable = self.store
        try:
            self.store = unwritable.refuge()
            if self.training.ending:
                self._finish(self.training)
            else:
                self._checkpoint(self.training)
                self._end("interrupted")
        except EnvironmentFailure as error:
            return f"{trial} continues from its last checkpoint: {error}"
        return (
            f"{trial} is saved in {self.store.address}, and the next launch or resume on this "
            f"machine takes it to {unwritable.address}"
        )

    def _log(self, line: str) -> None:
        stamp = datetime.now(UTC).isoformat(timespec="seconds")
        self.store.append_log(self.trial.id, f"{stamp} attempt {self.number}: {line}\n")

    @contextlib.contextmanager
    def _recording_failure(self) -> Iterator[None]:
        """What the trial prints goes to its log; what it raises becomes its `failed` ending."""
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                yield
        except EnvironmentFailure:
            raise
        except Exception as error:  # a user's code may raise anything
            self._log(traceback.format_exc())
            self._end("failed", f"{type(error).__name__}: {error}")
        finally:
            if printed.getvalue():
                self.store.append_log(self.trial.id, printed.getvalue())
            if self.status is not None:
                self.store.flush_logs()


def ledger_columns(trial: Trial, number: int, sweep: str) -> dict[str, Any]:
    """The columns of an attempt's row that are known before it starts."""
    return {
        "id": trial.id,
        "trunk": trial.trunk,
        "config": trial.config,
        "code": trial.code,
        "attempt": number,
        "sweep": sweep,
        "task": trial.task_name,
        "model": trial.model_name,
        "size": trial.size,
        "L": trial.L,
        "seed": trial.seed,
        **trial.axes,
        "params": trial.params,
        "flops": trial.flops,
        "flops_weights": trial.flops_weights,
        "state_bytes": trial.state_bytes,
        "train_bytes": trial.train_bytes,
        "host": socket.gethostname(),
    }
