"""Where a trial may start: at a state that was saved of it, or kept of its trunk; and for a trial
that a shorter run came before, why it has to start again.

A checkpoint is named `<step>-<trial>.pt`, or `.keep.pt` if every trial of its trunk that trains on
passes through it. What is said here before a launch goes by names and by the ledger; the trial
itself reads the checkpoints, and skips what is damaged.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from sweepd.grid.plan import Trial, column
from sweepd.grid.settings import Evaluate, Stop, unsolved
from sweepd.store.schema import TRIALS

FREE = {
    *("id", "trunk", "config", "attempt", "sweep", "steps", "decay"),
    *(field.name for field in fields(Evaluate)),
    *(column("stop", field.name) for field in fields(Stop)),
    *(TRIALS.after),
}
"""Columns in which a run may differ from one that it could be the beginning of."""


@dataclass(frozen=True, order=True)
class Checkpoint:
    step: int
    trial: str
    kept: bool

    @property
    def name(self) -> str:
        return f"{self.step:09d}-{self.trial}{'.keep' * self.kept}.pt"

    @classmethod
    def parse(cls, name: str) -> Checkpoint | None:
        """None for a name that is no checkpoint's."""
        found = re.fullmatch(r"(\d+)-(\w+)(\.keep)?\.pt", name)
        return found and cls(int(found[1]), found[2], bool(found[3]))


def reachable(trial: Trial, names: Iterable[str]) -> list[Checkpoint]:
    """The checkpoints of its trunk that lie on a trial's way, the furthest first."""
    found = (checkpoint for name in names if (checkpoint := Checkpoint.parse(name)))
    return sorted(
        (
            checkpoint
            for checkpoint in found
            if (checkpoint.trial == trial.id and not checkpoint.kept)
            or (checkpoint.kept and checkpoint.step <= trial.train.trunk_end)
        ),
        reverse=True,
    )


@dataclass(frozen=True)
class Outlook:
    """What earlier runs are worth to the trials that are to run, by id."""

    continued: Mapping[str, int]
    """the step at which they start"""
    again: Mapping[str, str]
    """why they start at the beginning, though a shorter run came before"""

    def lines(self) -> Iterator[str]:
        """The same in words."""
        if self.continued:
            low, high = min(self.continued.values()), max(self.continued.values())
            steps = f"step {low}" if low == high else f"steps {low} to {high}"
            yield f"trials that can continue earlier runs, from {steps}: {len(self.continued)}"
        for why, count in Counter(self.again.values()).items():
            yield f"trials that would start again: {count}: {why}"


def outlook(
    todo: Sequence[Trial], ended: pa.Table, checkpoints: Callable[[str], Iterable[str]]
) -> Outlook:
    """Compare trials that are to run with the store's `trials` table and with the names of the
    `checkpoints` of a trunk."""
    both = TRIALS.concat([ended, TRIALS.table([{**t.row(), "attempt": 0} for t in todo])])
    rows = both.to_pylist()  # put together, so that equal values are equal
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
        kept = names.get(trial.trunk, [])
        found = reachable(trial, kept)
        shorter = [
            run
            for run in kin[tuple(row[name] for name in same)]
            if run["id"] != trial.id and 0 < (run["step"] or 0) < trial.train.steps
        ]
        if usable := [c for c in found if _passes(trial, row, c, makers.get(c.trial))]:
            continued[trial.id] = usable[0].step
        elif shorter:
            again[trial.id] = _why(trial, shorter, found, kept)
    return Outlook(continued, again)


def _passes(
    trial: Trial, row: Mapping[str, Any], checkpoint: Checkpoint, maker: Mapping[str, Any] | None
) -> bool:
    """What `Training.passes` will say, as far as the ledger tells: of its maker's last step."""
    if checkpoint.trial == trial.id:
        return True
    if maker is None:
        return trial.stop.success is None
    same_checks = all(maker[field.name] == row[field.name] for field in fields(Evaluate))
    return unsolved(trial.stop.success, maker["success"], same_checks) and not trial.stop.spent(
        maker["tokens"] or 0, maker["seconds"] or 0.0
    )


def _why(
    trial: Trial,
    shorter: Sequence[Mapping[str, Any]],
    found: Sequence[Checkpoint],
    kept: Sequence[str],
) -> str:
    if all(run["trunk"] != trial.trunk for run in shorter):
        return (
            f"with schedule: {trial.train.schedule} the rate at every step depends on train.steps "
            "(wsd or constant can be continued)"
        )
    if found:
        return (
            "earlier runs do not show that stop would not have ended them before (they had "
            "another stop.success, other checks or more of a budget)"
        )
    if any(name.endswith(".keep.pt") for name in kept):
        return "their rate falls before the step at which earlier runs were kept"
    return "earlier runs left no state behind that they would pass through"
