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
import re
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import torch

from sweepd.errors import EnvironmentFailure
from sweepd.grid import registry
from sweepd.grid.plan import Trial
from sweepd.statuses import DONE
from sweepd.store.store import Store
from sweepd.trial.checkpoints import Checkpoint, reachable
from sweepd.trial.evaluation import Score
from sweepd.trial.training import Check, MetricRow, Training

FLUSH_SECONDS = 10.0
"""How long metric rows wait for company before they are written."""
MOST_PRINTED = 2**20
"""Characters of what an attempt prints that go to its log: a flood must not fill the disk."""
MOST_TOLD = 10_000
"""Characters of an error's text that are stored."""

_P = ParamSpec("_P")


def _rescuing(
    act: Callable[Concatenate[Attempt, _P], None],
) -> Callable[Concatenate[Attempt, _P], None]:
    """When `act` fails because the store can't be written, what the attempt holds in memory goes
    to the store's spill folder, and the error says so. Whatever is asked of it then raises that
    error again."""

    @functools.wraps(act)
    def acting(self: Attempt, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        if self.unwritable:
            raise self.unwritable
        try:
            act(self, *args, **kwargs)
        except EnvironmentFailure as error:
            self.unwritable = EnvironmentFailure(f"{error}; {self._rescue()}")
            raise self.unwritable from error

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
        self.latest: MetricRow | None = None
        self.acc: float | None = None
        self.loss: float | None = None
        self.score: Score | None = None
        self.error: str | None = None
        self.unwritable: EnvironmentFailure | None = None
        self.heard = 0
        """how many of the checks were handed out"""
        self.start = 0
        """the step at which this attempt begins"""
        self.pending: list[dict[str, Any]] = []
        self.own_checkpoints: list[str] = []
        self.started = datetime.now(UTC)
        self.flushed = self.checkpointed = time.monotonic()
        self.training: Training | None = None
        self.printed = _Printed()
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
        """Train for about `seconds`, to the next check or to the end."""
        if self.status is not None:
            return
        training = self.training
        assert training is not None
        with self._recording_failure():
            until, checks = time.monotonic() + seconds, len(training.checks)
            for row in training.advance():
                if row is not None:
                    self._record(row)
                if training.result is not None:
                    break
                if self.trial.train.extensible and training.step == self.trial.train.trunk_end:
                    self._keep(training)
                now = time.monotonic()
                if now - self.checkpointed >= self.checkpoint_seconds:
                    self._checkpoint(training)
                elif now - self.flushed > FLUSH_SECONDS:
                    self._flush()
                if now >= until or len(training.checks) > checks:
                    return
            self._finish(training)

    def news(self) -> list[Check]:
        """The checks that were not handed out before, those of earlier attempts among them."""
        checks = self.training.checks[self.heard :] if self.training else []
        self.heard += len(checks)
        return checks

    @_rescuing
    def interrupt(self) -> None:
        """Save where training stands and end the attempt as `interrupted`."""
        if self.status is None:
            assert self.training is not None
            self._checkpoint(self.training)
            self._end("interrupted")

    @_rescuing
    def give_up(self) -> None:
        """Save where training stands, for whoever wants the trial in full after all, and end the
        attempt as `stopped`."""
        if self.status is None:
            assert self.training is not None
            if self._on_trunk(self.training):
                self._keep(self.training)
            else:
                self._checkpoint(self.training)
                self.own_checkpoints = []  # it outlives this ending
            self._end("stopped")

    def _on_trunk(self, training: Training) -> bool:
        return training.step <= self.trial.train.trunk_end

    def _record(self, row: MetricRow) -> None:
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
        name = Checkpoint(training.step, self.trial.id, kept=False).name
        self.store.put_checkpoint(self.trial.trunk, name, training.snapshot())
        for older in self.own_checkpoints:
            if older != name:
                self.store.delete_checkpoint(self.trial.trunk, older)
        self.own_checkpoints = [name]
        self.checkpointed = time.monotonic()

    def _keep(self, training: Training) -> None:
        """Save a state that every trial of the trunk passes through, until `gc`."""
        self._flush()
        name = Checkpoint(training.step, self.trial.id, kept=True).name
        self.store.put_checkpoint(self.trial.trunk, name, training.snapshot())

    def _restore(self, training: Training) -> None:
        """Continue from the furthest readable state that lies on this trial's way."""
        self.store.take_in_spill()
        ways = reachable(self.trial, self.store.checkpoints(self.trial.trunk))
        self.own_checkpoints = [found.name for found in ways if not found.kept]
        for found in ways:
            own = found.trial == self.trial.id
            try:
                state = training.read(self.store.get_checkpoint(self.trial.trunk, found.name))
            except EnvironmentFailure:
                raise
            except Exception as error:  # torch's reader raises many kinds for a damaged file
                self._log(f"checkpoint {found.name} is damaged, trying an older one: {error}")
                continue
            if own or training.passes(state):
                training.restore(state)
                if not own:
                    training.parent = found.trial
                self.start = found.step
                self._log(f"continuing from step {found.step} ({found.name})")
                return

    def _finish(self, training: Training) -> None:
        """Training has come to an end by itself."""
        assert training.result is not None
        others_may_train_on = self._on_trunk(training) and (
            self.trial.train.extensible or training.step < self.trial.train.steps
        )
        trained = training.step > self.start
        if trained and others_may_train_on and training.result.status != "diverged":
            self._keep(training)
        self._end(training.result.status)

    def _end(self, status: str, error: str | None = None) -> None:
        """Write the attempt's row: from here on it has ended."""
        self._flush()
        trial, training = self.trial, self.training
        score = training.result.score if training and training.result else None
        latest = self.latest if status != "stopped" else None  # of whose scores nothing is known
        loss = score.loss if score else latest.loss if latest else None
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
                    "parent": training.parent if training else None,
                    "started": self.started,
                    "ended": datetime.now(UTC),
                    "torch": torch.__version__,
                    "threads": torch.get_num_threads(),
                }
            ]
        )
        self.status, self.error, self.loss, self.score = status, error, loss, score
        self.acc = score.acc if score else None
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
            self.store = unwritable.spill_store()
            if self.training.result:
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
        out = self.printed
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                yield
        except EnvironmentFailure:
            raise
        except Exception as error:  # a user's code may raise anything
            account = traceback.format_exc()
            self._log(account[:MOST_TOLD] + account[MOST_TOLD:][-MOST_TOLD:])
            self._end("failed", _described(error))
        finally:
            if text := out.taken():
                self.store.append_log(self.trial.id, text)
            if self.status is not None:
                self.store.flush_logs()


class _Printed(io.TextIOBase):
    """Holds what a trial prints, the first MOST_PRINTED characters of it."""

    def __init__(self) -> None:
        self.room = MOST_PRINTED
        self.parts: list[str] = []

    def write(self, text: str) -> int:
        if self.room > 0:
            self.parts.append(text[: self.room])
            self.room -= len(text)
            if self.room <= 0:
                self.parts.append("\n(what it printed after this is left out)\n")
        return len(text)

    def taken(self) -> str:
        """What was printed since this was last called."""
        text, self.parts = "".join(self.parts), []
        return text


def _described(error: Exception) -> str:
    try:
        text = str(error)
    except Exception:  # a user's class may do anything
        text = "(its text can't be told)"
    return storable(f"{type(error).__name__}: {text}")


def storable(text: str) -> str:
    """An error's text as it is stored: no colours for terminals, no lone surrogates, no flood."""
    return re.sub(r"\x1b\[[\d;]*m", "", text).encode(errors="replace").decode()[:MOST_TOLD]


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
