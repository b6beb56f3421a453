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
"""The columns of an ended run that are needed. (All columns of 100,000 rows take 500 MB.)"""


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
    """Why each trial, by id, starts at the beginning although a shorter run came before."""

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
    """Returns which of the trials that are to run can continue earlier runs. ended: the store's
    `trials` table. checkpoints: gives the names of the checkpoints of a trunk."""
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
        stop, train, saved = trial.values.stop, trial.train, names.get(trial.trunk, [])
        on_the_way = reachable(trial, saved)
        # `Training.passes` decides where it can continue. The ledger tells as much as it knows: the
        # last step of the trial that made a checkpoint, and its checks, of which a loop of the
        # user's own has none.
        usable = []
        for checkpoint in on_the_way:
            maker = makers.get(checkpoint.trial)
            if checkpoint.trial == trial.id or (maker is None and stop.success is None):
                usable.append(checkpoint)
            elif maker is not None and not stop.spent(maker["tokens"] or 0, maker["seconds"] or 0):
                alike = all(maker.get(f.name) == row.get(f.name) for f in fields(Evaluate))
                if unsolved(stop.success, maker["success"], alike):
                    usable.append(checkpoint)
        shorter = [
            run
            for run in kin[tuple(row[name] for name in same)]
            if run["id"] != trial.id and 0 < (run["step"] or 0) < train.steps
        ]
        interrupted = makers.get(trial.id, {}).get("status") == "interrupted"
        if usable:
            continued[trial.id] = usable[0].step
        elif interrupted and isinstance(train, LoopBudget):
            lacks = "program kept nothing" if trial.program else "loop gives no `save` and `load`"
            again[trial.id] = f"nothing was saved of them: their {lacks}"
        elif shorter:
            why = "earlier runs saved no state that they would pass through"
            if trial.program and train.extensible:
                why = "the program left no file `done` in {dir}, so it runs anew with each number "
                why += "of steps"
            elif isinstance(train, LoopBudget):
                why = "a loop may do other things with other `steps`, so it runs anew with each "
                why += "number"
            elif all(run["trunk"] != trial.trunk for run in shorter):
                why = f"with schedule: {train.schedule} the rate at every step depends on "
                why += "train.steps (wsd or constant can be continued)"
            elif on_the_way:
                why = "this grid's stop rules might have ended the earlier runs before the step "
                why += "that they saved (those had another stop.success, other checks or a larger "
                why += "budget)"
            elif any(one.kept for one in map(Checkpoint.parse, saved) if one):
                why = "their learning rate starts to fall before the step that earlier runs saved"
            again[trial.id] = why
    return Outlook(continued, again)
