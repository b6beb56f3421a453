"""What the store's record says about planned trials: which are done, and which another version of
the code has done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sweepd.grid.plan import Plan
from sweepd.grid.trials import Trial
from sweepd.listing import Row
from sweepd.search.seeds import Outcome
from sweepd.statuses import DONE
from sweepd.store.endings import counting
from sweepd.store.schema import with_doubles

IDS = ("id", "trunk", "config", "code")
"""What a trial is called where another version of the code has run it."""


@dataclass(frozen=True)
class Standing:
    """How planned trials stand. failed: those of `todo` whose ending is a failure. other: by a
    trial's id, its endings under other versions of the code, the newest first. unscored: those of
    `todo` that are done but for the scores at other `lengths`."""

    done: tuple[Trial, ...]
    todo: tuple[Trial, ...]
    failed: tuple[Trial, ...]
    other: Mapping[str, Sequence[Row]]
    unscored: tuple[Trial, ...] = ()

    @property
    def trials(self) -> int:
        """How many trials a sweep has: those of its grid, and those run on demand that are done."""
        return len(self.done) + sum(not trial.on_demand for trial in self.todo)

    def accepting(self, plan: Plan, accepts: Callable[[str, str], bool]) -> Plan:
        """Returns the plan with these trials. A trial that other versions of the code have done has
        the ids that it has under the newest of them which `accepts` in place of the trial's. Their
        order stays, since it says which seeds of a cell come first."""
        trials: list[Trial] = []
        accepted: dict[str, frozenset[str]] = {}
        for trial in plan.trials:
            others = self.other.get(trial.id, ())
            if one := next((e for e in others if accepts(e["code"], trial.code)), None):
                accepted[one["code"]] = accepted.get(one["code"], frozenset()) | {trial.code}
                trial = replace(trial, **{name: one[name] for name in IDS})
            trials.append(trial)
        return replace(plan, trials=tuple(trials), accepted=accepted)


def standing(trials: Iterable[Trial], table: pa.Table) -> Standing:
    """Returns how `trials` stand by the store's `trials` table; `failed` ones are in `todo` too."""
    rows = counting(table.select([*IDS, "task", "model", "attempt", "status"])).to_pylist()
    endings = {row["id"]: row for row in rows}
    ended: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for one in sorted(rows, key=lambda one: (-one["attempt"], one["id"])):
        if one["status"] in DONE:
            ended[one["task"], one["model"], one["config"]].append(one)
    done, todo, failed, unscored, other = [], [], [], [], {}
    for trial in trials:
        ending = endings.get(trial.id)
        if ending and ending["status"] in DONE:
            done.append(trial)
            continue
        todo.append(trial)
        if ending and ending["status"] == "failed":
            failed.append(trial)
        own, twins = (
            ended.get((trial.task_name, trial.model_name, config or ""), [])
            for config in (trial.config, trial.unscored_config)
        )
        if any(twin["code"] == trial.code for twin in twins):
            unscored.append(trial)
        if own:
            other[trial.id] = own
    return Standing(tuple(done), tuple(todo), tuple(failed), other, tuple(unscored))


def outcomes(plan: Plan, table: pa.Table) -> dict[str, Outcome]:
    """Returns, by id, how those trials of a plan came out that are done."""
    metric = plan.grid.goal.metric
    names = {"id", "attempt", "status", metric, "total", "independent"}
    known = table.select([*names.intersection(table.column_names)])
    rows = counting(with_doubles(known, {metric}.intersection(known.column_names))).to_pylist()
    done = {row["id"]: row for row in rows if row["status"] in DONE}
    # Where no loop that reports the metric has ended, there is no such column.
    return {t.id: Outcome.of(done[t.id], metric) for t in plan.trials if t.id in done}
