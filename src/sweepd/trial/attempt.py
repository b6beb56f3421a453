"""One attempt of a trial: it trains, and puts everything worth keeping into the store.

The order of writes is what makes interruption safe. Metric rows up to a step are durable before the
checkpoint of that step appears. The row that ends the attempt is written after its metrics and
before its checkpoints are dropped. Work that is cut off in between is done again from the last
checkpoint, by a newer attempt and with the same numbers.
"""

from __future__ import annotations

import io
import re
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid import registry
from sweepd.grid.placement import Resources
from sweepd.grid.settings import Train
from sweepd.grid.trials import Trial
from sweepd.grid.user_files import raised_at
from sweepd.ray_private import is_told_to_end
from sweepd.statuses import DONE
from sweepd.store.names import Checkpoint
from sweepd.store.store import Store
from sweepd.trial import gpu
from sweepd.trial.checkpoints import reachable
from sweepd.trial.other_lengths import ScoredLonger
from sweepd.trial.own_loop import OwnLoop
from sweepd.trial.program import ProgramRun
from sweepd.trial.runs import Check, Run, StepRow
from sweepd.trial.training import Training
from sweepd.trial.workplace import LaunchCopy

FLUSH_SECONDS = 10.0
"""The seconds that metric rows wait to be written together, if few enough trials run at once."""
REPORTED = ("status", "step", "acc", "chain_acc", "loss", "total", "independent", "error")
"""The columns of an attempt's row that are reported, besides the metrics of its trial."""
MOST_PRINTED = 2**20
"""The most characters of printed text that go to the log, for a flood must not fill the disk."""
SCORES = (
    *("acc", "chain_acc", "correct", "chain_correct", "total"),
    *("independent", "commonest", "loss_at", "acc_at"),
)
"""The columns of a test score. A loop of the user's own may have more."""
MOST_TOLD = 10_000
"""The most characters of an error's text that are stored."""


@dataclass(eq=False, repr=False)
class Attempt:
    """Trains one trial in slices: call `begin`, then `advance` until `status` is no longer None. An
    exception of the user's classes or of torch ends the attempt as `failed`, with its text. When
    the store can't be written, EnvironmentFailure is raised to the caller."""

    store: Store
    trial: Trial
    number: int
    sweep: str
    base: Path
    device: str
    checkpoint_seconds: float
    resources: Resources = Resources()  # noqa: RUF009 (it is frozen)
    hang_seconds: float = 0.0
    flush_seconds: float = FLUSH_SECONDS
    launch_copy: LaunchCopy | None = None
    """The launch's copy of the grid's folder, in which programs run."""

    def __post_init__(self) -> None:
        self.training: Run | None = None
        self.ending: dict[str, Any] | None = None
        """The attempt's row of `trials`, once it is written."""
        self.latest: StepRow | None = None
        self.scores: Mapping[str, float] = {}
        """The scores of the latest check."""
        self.start = 0
        """The step at which this attempt begins."""
        self.heard = 0
        """The number of checks that `news` has returned."""
        self.pending: list[dict[str, Any]] = []
        """The metric rows that are not written yet."""
        self.own_checkpoints: list[str] = []
        self.saved = 0
        """The step of the newest checkpoint."""
        self.started = datetime.now(UTC)
        self.flushed = self.checkpointed = time.monotonic()
        self.printed = Printed()
        self.failure: EnvironmentFailure | None = None
        """Why the store could not be written. The attempt is over then."""

    @property
    def status(self) -> str | None:
        """How the attempt ended, or None while it goes on."""
        return self.ending["status"] if self.ending else None

    def begin(self) -> None:
        """Makes the run that trains, and continues it from where the trial stands."""
        with self._recording_failure():
            if self.trial.program:
                self.training = ProgramRun(
                    self.trial,
                    self.base,
                    self.resources,
                    self.hang_seconds,
                    self.store.address,
                    self.launch_copy,
                )
            else:
                self.training = started(self.trial, self.base, self.device)
            self._restore(self.training)

    def advance(self, seconds: float) -> None:
        """Trains for about `seconds`, to the end, or to a check that a rule waits for."""
        until = time.monotonic() + seconds
        self._safely(lambda run: self._train(run, until))

    def news(self) -> list[Check]:
        """Returns the checks that were not returned before, those of earlier attempts included."""
        checks = self.training.checks[self.heard :] if self.training else []
        self.heard += len(checks)
        return list(checks)

    def report(self) -> dict[str, Any]:
        """Returns how the attempt stands: its REPORTED columns and the metrics of its trial. Before
        the end, only the step and the scores of the latest check are known. The others are None."""
        names = [*REPORTED, *self.trial.metrics]
        if self.ending:
            return {name: self.ending.get(name) for name in names}
        return {
            **dict.fromkeys(names),
            **self.scores,
            "step": self.training.step if self.training else 0,
        }

    def interrupt(self) -> None:
        """Saves where training stands and ends the attempt as `interrupted`."""
        self._safely(self._interrupt)

    def give_up(self) -> None:
        """Ends the attempt as `stopped`, and keeps its state in case somebody wants it in full."""

        def give_up(run: Run) -> None:
            self._stop(run)
            if self._on_trunk(run):
                self._keep(run)
            else:
                self._checkpoint(run)
                self.own_checkpoints = []  # it outlives this ending
            self._end("stopped")

        self._safely(give_up)

    def _safely(self, act: Callable[[Run], None]) -> None:
        """Does something with the run, unless the attempt has ended. What fails is recorded.

        Where the store can't be written, EnvironmentFailure says what has become of the trial. What
        the attempt holds in memory is then saved on this machine, as far as the run can be saved,
        and the next launch here takes it to the store (`Store.take_in_spill`). The attempt is over:
        every later use raises the failure again.
        """
        if self.failure:
            raise self.failure
        if self.status is not None:
            return
        store, run, trial = self.store, self.training, f"trial {self.trial.id}"
        assert run is not None
        try:
            with self._recording_failure():
                act(run)
        except EnvironmentFailure as error:
            became = f"nothing of {trial} is lost"
            if self.status is None:
                try:
                    self.store = store.spill_store()
                    with self._recording_failure():
                        (self._finish if run.result else self._interrupt)(run)
                    became = (
                        f"{trial} is saved in {self.store.address}, and the next launch or resume "
                        f"on this machine takes it to {store.address}"
                    )
                except EnvironmentFailure as again:
                    became = f"{trial} continues from its last checkpoint: {again}"
            self.failure = EnvironmentFailure(f"{error}; {became}")
            raise self.failure from error

    def _train(self, run: Run, until: float) -> None:
        checks, stop = len(run.checks), self.trial.values.stop
        ruled = stop.plateau is not None or stop.asha is not None
        for row in run.advance():
            if row is not None:
                self._record(row)
            if run.result is not None:
                break
            now = time.monotonic()
            if isinstance(run, ProgramRun):  # which says itself when it can be saved
                due = run.marked
            else:
                due = now - self.checkpointed >= self.checkpoint_seconds
                if self.trial.train.extensible and run.step == self.trial.train.trunk_end:
                    self._keep(run)
            if due:
                self._checkpoint(run)
            elif now - self.flushed > self.flush_seconds:
                self._flush()
            if now >= until or (ruled and len(run.checks) > checks):
                return
        self._finish(run)

    def _stop(self, run: Run) -> None:
        """Has a program save itself and end. All other training has stopped already."""
        for row in run.stop() if isinstance(run, ProgramRun) else ():
            self._record(row)

    def _on_trunk(self, run: Run) -> bool:
        """Whether other trials may train on from where the run stands."""
        left = run.done if isinstance(run, ProgramRun) else True
        return left and run.step <= self.trial.train.trunk_end

    def _record(self, row: StepRow) -> None:
        self.latest = row
        if row.scores:
            self.scores = row.scores
            measured = ", ".join(f"{name} {value:.4f}" for name, value in row.scores.items())
            self._log(f"step {row.step}: {measured}")
        self.pending.append({"id": self.trial.id, "attempt": self.number, **row.columns})

    def _flush(self) -> None:
        if self.pending:
            self.store.write_metrics(self.pending)
            self.pending = []
        self.flushed = time.monotonic()

    def _save(self, run: Run, checkpoint: Checkpoint) -> bool:
        """Writes the waiting metric rows and the checkpoint. Returns whether it can be saved."""
        self._flush()
        snapshot = run.snapshot()
        if snapshot is not None:
            self.store.put_checkpoint(self.trial.trunk, checkpoint.name, snapshot)
        return snapshot is not None

    def _checkpoint(self, run: Run) -> None:
        """Saves the present state, and deletes its predecessor once the new one is complete."""
        checkpoint = Checkpoint(run.step, self.trial.id, kept=False)
        saved = self._save(run, checkpoint)
        self.checkpointed = time.monotonic()
        if saved:
            for older in self.own_checkpoints:
                if older != checkpoint.name:
                    self.store.delete_checkpoint(self.trial.trunk, older)
            self.own_checkpoints, self.saved = [checkpoint.name], checkpoint.step

    def _keep(self, run: Run) -> None:
        """Saves a state that every trial of the trunk passes through. It stays until `gc`."""
        self._save(run, Checkpoint(run.step, self.trial.id, kept=True))

    def _restore(self, run: Run) -> None:
        """Continues from the furthest readable state that this trial passes through, if any."""
        self.store.take_in_spill()
        ways = reachable(self.trial, self.store.checkpoints(self.trial.trunk))
        self.own_checkpoints = [checkpoint.name for checkpoint in ways if not checkpoint.kept]
        for checkpoint in ways:
            own = checkpoint.trial == self.trial.id
            try:
                state = run.read(self.store.get_checkpoint(self.trial.trunk, checkpoint.name))
            except EnvironmentFailure:
                raise
            except Exception as error:  # torch's reader raises many kinds for a damaged file
                self._log(f"checkpoint {checkpoint.name} is damaged, trying an older one: {error}")
                continue
            if own or run.passes(state):
                run.restore(state)
                if not own:
                    run.parent = checkpoint.trial
                self.start = self.saved = checkpoint.step
                self._log(f"continuing from step {checkpoint.step} ({checkpoint.name})")
                return

    def _finish(self, run: Run) -> None:
        """Ends the attempt of a run that has ended. A state for other trials is kept first."""
        assert run.result is not None
        others_may_train_on = self._on_trunk(run) and (
            self.trial.train.extensible or run.step < self.trial.train.steps
        )
        trained = run.step > self.start
        if trained and others_may_train_on and run.result.status != "diverged":
            self._keep(run)
        if isinstance(run, ProgramRun):
            for name, path in run.conclude().items():
                self.store.keep_file(self.trial.id, name, path.read_bytes())
        for note in run.result.notes:
            self._log(note)
        self._end(run.result.status)

    def _interrupt(self, run: Run) -> None:
        self._stop(run)
        self._checkpoint(run)
        nothing = None
        if run.step and not self.own_checkpoints:
            why = "program kept nothing in {dir}" if self.trial.program else "loop gives no `save`"
            nothing = f"nothing is kept of it, since its {why}; it will start again"
            self._log(nothing)
        self._end("interrupted", nothing)

    def _end(self, status: str, error: str | None = None) -> None:
        """Writes the row that ends the attempt, and drops its checkpoints if the trial is done."""
        self._flush()
        # There is no run where the user's classes could not be made.
        run, latest = self.training, self.latest
        if isinstance(run, ProgramRun):
            run.close()
        result = run.result if run else None
        card = None
        with suppress(RuntimeError, AssertionError):  # where torch cannot use a program's cards
            card = torch.cuda.get_device_name() if self.device == "cuda" else None
        # The newest loss stands in for that of a missing test score. A stopped trial has no score
        # at all, since nobody knows what the rest of its budget would give.
        loss = latest.columns.get("loss") if latest and status != "stopped" else None
        row = {
            **ledger_columns(self.trial, self.number, self.sweep),
            "status": status,
            "error": error or (result.error if result else None),
            **dict.fromkeys(SCORES),
            "loss": loss,
            **(result.columns if result else {}),
            "step": run.step if run else 0,
            "tokens": run.tokens if run else 0,
            "seconds": run.seconds if run else 0.0,
            "train_flops": run.train_flops if run else 0.0,
            "parent": run.parent if run else None,
            "started": self.started,
            "ended": datetime.now(UTC),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "card": card,
        }
        self._log(f"{status} at step {row['step']}")
        self.store.write_trials([row])
        self.ending = row
        if status in DONE:
            for name in self.own_checkpoints:
                self.store.delete_checkpoint(self.trial.trunk, name)

    def note(self, line: str) -> None:
        """Writes a line to the trial's log, at once."""
        self._log(line)
        self.store.flush_logs()

    def _log(self, line: str) -> None:
        self.store.append_log(self.trial.id, log_line(self.number, line))

    @contextmanager
    def _recording_failure(self) -> Iterator[None]:
        """Writes what the block prints to the log. An exception ends the attempt as `failed`."""
        try:
            with self._printing():
                yield
        except EnvironmentFailure:
            raise
        except BaseException as error:  # a user may raise anything
            if is_told_to_end(error):  # which is no fault of the trial
                raise
            self._fail(error)
        finally:
            if text := self.printed.getvalue():
                self.store.append_log(self.trial.id, text)
                self.printed.seek(0)
                self.printed.truncate()
            if self.status is not None:
                self.store.flush_logs()

    @contextmanager
    def _printing(self) -> Iterator[None]:
        """Keeps what the block prints, for the log."""
        with redirect_stdout(self.printed), redirect_stderr(self.printed):
            yield

    def _fail(self, error: BaseException) -> None:
        """Ends the attempt as `failed`, with the error's traceback in the log."""
        account = str(error) if isinstance(error, UserError) else traceback.format_exc()
        self._log(account[:MOST_TOLD] + account[MOST_TOLD:][-MOST_TOLD:])
        self._end("failed", described(error))


class Printed(io.StringIO):
    """Holds what a trial prints, the first MOST_PRINTED characters of it."""

    room = MOST_PRINTED

    def close(self) -> None:
        """Stays open, since user code may close what it prints to."""

    def write(self, text: str) -> int:
        if self.room > 0:
            super().write(text[: self.room])
            self.room -= len(text)
            if self.room <= 0:
                super().write("\n(what it printed after this is left out)\n")
        return len(text)


def started(trial: Trial, base: Path, device: str) -> Run:
    """Returns the run of a trial, at its first step. Raises whatever the user's code raises."""
    values = trial.values
    if device == "cuda":
        gpu.repeat(strictly=not any(registry.is_own(where) for _, where in trial.classes))
    if trial.loop_where:
        return OwnLoop(
            registry.find("loop", trial.loop_where, base)(**values.loop),
            trial.metrics,
            trial.train.steps,
            values.stop,
            trial.seed,
            trial.train_flops,
            device,
        )
    assert isinstance(trial.train, Train)
    assert values.evaluate is not None and trial.train_flops is not None
    make = partial(ScoredLonger, values.lengths) if values.lengths else Training
    return make(
        registry.find("task", trial.task_where, base)(**values.task),
        registry.find("model", trial.model_where, base)(**values.model),
        trial.train,
        values.evaluate,
        values.stop,
        trial.seed,
        trial.train_flops / trial.train.steps,
        device,
    )


def log_line(number: int, line: str) -> str:
    return f"{datetime.now(UTC).isoformat(timespec='seconds')} attempt {number}: {line}\n"


def ledger_columns(trial: Trial, number: int, sweep: str) -> dict[str, Any]:
    """Returns the columns of an attempt's row that are known before it starts. `train_flops` is
    None, since the plan's is a budget that the attempt has yet to spend."""
    return {
        **trial.row(),
        "train_flops": None,
        "attempt": number,
        "sweep": sweep,
        "host": socket.gethostname(),
    }


def described(error: BaseException) -> str:
    """Returns an exception as it is stored: its class and its text. In front stands the line of the
    user's own code that raised it, if any did. Of a UserError only the text is stored, which says
    all that itself."""
    try:
        text = str(error)
    except Exception:  # a user's class may do anything
        text = "(its text can't be told)"
    if isinstance(error, UserError):
        return storable(text)
    frame = raised_at(error)
    where = f"{frame.filename}:{frame.lineno}: " if frame else ""
    return storable(f"{where}{type(error).__name__}: {text}")


def storable(text: str) -> str:
    """Returns an error's text without colours and lone surrogates, and at most MOST_TOLD long."""
    return re.sub(r"\x1b\[[\d;]*m", "", text).encode(errors="replace").decode()[:MOST_TOLD]
