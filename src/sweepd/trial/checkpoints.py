"""Where a trial may start: at a saved state of its own, or at one that was kept of its trunk. Also
why a trial has to start again although a shorter run came before it.

What is said here before a launch rests on the names of checkpoints and on the ledger. The trial
itself reads the checkpoints and skips those that are damaged.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from sweepd.grid import lengths
from sweepd.grid.options import column
from sweepd.grid.settings import Evaluate, Stop, unsolved
from sweepd.grid.trials import LoopBudget, Trial
from sweepd.store.names import Checkpoint
from sweepd.store.schema import TRIALS

FREE = {
    *("id", "trunk", "config", "attempt", "sweep", "steps", "decay", lengths.COLUMN),
    *(field.name for field in fields(Evaluate)),
    *(column("stop", field.name) for field in fields(Stop)),
    *(TRIALS.after),
}
"""The columns in which a run may differ from another that it could be the beginning of."""
SPENT = ("status", "step", "tokens", "seconds")
"""The columns of an ended run that are needed. (100,000 rows with all columns take half a
gigabyte.)"""


def reachable(trial: Trial, names: Iterable[str]) -> list[Checkpoint]:
    """Returns the checkpoints that a trial passes through, the furthest first: its own, and the
    kept ones up to the end of its trunk. names: those of the checkpoints of its trunk."""
    checkpoints = filter(None, map(Checkpoint.parse, names))
    on_the_way = (
        one
        for one in checkpoints
        if (one.step <= trial.train.trunk_end if one.kept else one.trial == trial.id)
    )
    return sorted(on_the_way, reverse=True)


@dataclass(frozen=True)
class Outlook:
    """Which of the trials that are to run can continue earlier runs."""

    continued: Mapping[str, int]
    """For the id of each trial that can continue a run, the step at which it starts."""
    again: Mapping[str, str]
    """For the id of each trial that starts at the beginning although a shorter run came before it,
    the reason."""

    def lines(self) -> Iterator[str]:
        """Yields sentences for the person who launches."""
        if self.continued:
            low, high = min(self.continued.values()), max(self.continued.values())
            steps = f"step {low}" if low == high else f"steps {low} to {high}"
            yield f"trials that can continue earlier runs, from {steps}: {len(self.continued)}"
        for why, count in Counter(self.again.values()).items():
            yield f"trials that would start again: {count}: {why}"


def outlook(
    todo: Sequence[Trial], ended: pa.Table, checkpoints: Callable[[str], Iterable[str]]
) -> Outlook:
    """Returns which of the trials that are to run can continue earlier runs.

    ended: the store's `trials` table. checkpoints: gives the names of the checkpoints of a trunk.
    """
    if not todo:
        return Outlook({}, {})
    both = TRIALS.concat([ended, TRIALS.table([{**t.row(), "attempt": 0} for t in todo])])
    both = both.drop_columns([name for name in TRIALS.after if name not in SPENT])
    rows = both.to_pylist()  # of one table, so that equal values compare as equal
    past, planned = rows[: ended.num_rows], rows[ended.num_rows :]
    same = [name for name in both.column_names if name not in FREE]
    kin: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in past:
        kin[tuple(row[name] for name in same)].append(row)
    makers = {row["id"]: row for row in past}
    trunks = {row["trunk"] for row in past} & {trial.trunk for trial in todo}
    names = {trunk: list(checkpoints(trunk)) for trunk in trunks}
    continued, again = {}, {}
    for trial, row in zip(todo, planned, strict=True):
        saved = names.get(trial.trunk, [])
        on_the_way = reachable(trial, saved)
        shorter = [
            run
            for run in kin[tuple(row[name] for name in same)]
            if run["id"] != trial.id and 0 < (run["step"] or 0) < trial.train.steps
        ]
        left = makers.get(trial.id, {})
        if usable := [c for c in on_the_way if _passes(trial, row, c, makers.get(c.trial))]:
            continued[trial.id] = usable[0].step
        elif left.get("status") == "interrupted" and isinstance(trial.train, LoopBudget):
            why = "program kept nothing" if trial.program else "loop gives no `save` and `load`"
            again[trial.id] = f"nothing was saved of them: their {why}"
        elif shorter:
            again[trial.id] = _why(trial, shorter, on_the_way, saved)
    return Outlook(continued, again)


def _passes(
    trial: Trial, row: Mapping[str, Any], checkpoint: Checkpoint, maker: Mapping[str, Any] | None
) -> bool:
    """Returns whether the trial can continue from a checkpoint, which `Training.passes` decides, as
    far as the ledger tells. The ledger knows only the last step of the trial that made it."""
    if checkpoint.trial == trial.id:
        return True
    if maker is None:
        return trial.values.stop.success is None
    checks = [field.name for field in fields(Evaluate)]  # a loop of the user's own has none
    same_checks = all(maker.get(name) == row.get(name) for name in checks)
    return unsolved(
        trial.values.stop.success, maker["success"], same_checks
    ) and not trial.values.stop.spent(maker["tokens"] or 0, maker["seconds"] or 0.0)


def _why(
    trial: Trial,
    shorter: Sequence[Mapping[str, Any]],
    on_the_way: Sequence[Checkpoint],
    saved: Sequence[str],
) -> str:
    """Returns why a trial can't continue the shorter runs. saved: the names of the checkpoints of
    its trunk. on_the_way: those that the trial passes through."""
    if trial.program and trial.train.extensible:
        return "the program left no file `done` in {dir}, so it runs anew with each number of steps"
    if isinstance(trial.train, LoopBudget):
        return "a loop may do other things with other `steps`, so it runs anew with each number"
    if all(run["trunk"] != trial.trunk for run in shorter):
        return (
            f"with schedule: {trial.train.schedule} the rate at every step depends on train.steps "
            "(wsd or constant can be continued)"
        )
    if on_the_way:
        return (
            "this grid's stop rules might have ended the earlier runs before the step that they "
            "saved (those had another stop.success, other checks or a larger budget)"
        )
    if any(checkpoint.kept for checkpoint in filter(None, map(Checkpoint.parse, saved))):
        return "their learning rate starts to fall before the step that earlier runs saved"
    return "earlier runs saved no state that they would pass through"
