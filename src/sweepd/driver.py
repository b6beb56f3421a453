"""One driver runs one sweep: lock it, claim what is to be done, run that, judge by the ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sweepd.errors import EnvironmentFailure
from sweepd.ledger import Standing, standing
from sweepd.plan import Plan, Trial
from sweepd.provenance import provenance
from sweepd.search import GridSearch
from sweepd.spec import Resources
from sweepd.store import Store

if TYPE_CHECKING:
    from sweepd.engine import Listener

POLL_SECONDS = 2.0
"""How often the ledger is read while waiting for trials that another sweep's driver runs."""

FILES_BEFORE_COMPACTION = 64


@dataclass(frozen=True)
class Outcome:
    """How a launch ended."""

    standing: Standing
    interrupted: bool


def launch(
    plan: Plan,
    store: Store,
    per_trial: Resources,
    stopping: threading.Event,
    listener: Listener,
    note: Callable[[str], None],
) -> Outcome:
    """Run what the plan still lacks; the same call again continues it.

    Returns when every trial has ended or failed for good, or once `stopping` is set. Raises
    EnvironmentFailure where another driver holds the sweep or the store can't be written.
    """
    name = plan.grid.name
    if not store.lock_sweep(name):
        raise EnvironmentFailure(
            f"sweep {name}: another driver holds it ({_latest_driver(store, name)}); "
            "wait for it, or end it with `sweepd cancel`"
        )
    try:
        _save(plan, store)
        number = store.new_launch({"sweep": name, **provenance(plan.grid.base)})
        pending, waiting = list(_standing(plan, store).todo), 0
        while pending and not stopping.is_set():
            mine = [trial for trial in pending if store.claim(trial.id)]
            try:
                # Read after claiming: what another driver ended meanwhile is not run again.
                done = {trial.id for trial in _standing(plan, store).done}
                todo = [trial for trial in mine if trial.id not in done]
                if todo:
                    _run(plan, store, number, todo, per_trial, stopping, listener)
            finally:
                for trial in mine:
                    store.release(trial.id)
            tried = {trial.id for trial in mine} | done
            pending = [trial for trial in pending if trial.id not in tried]
            if pending:
                if len(pending) != waiting:
                    waiting = len(pending)
                    note(f"waiting for {waiting} trials that another sweep is running")
                stopping.wait(POLL_SECONDS)
        for kind in ("trials", "metrics"):
            store.compact(kind, FILES_BEFORE_COMPACTION)
        after = _standing(plan, store)
        return Outcome(after, stopping.is_set() and bool(after.todo))
    finally:
        store.unlock_sweep(name)


def _save(plan: Plan, store: Store) -> None:
    """Freeze the sweep as it is now: its grid, its trials and what questions need of it."""
    grid, name = plan.grid, plan.grid.name
    past = store.load_sweep(name).info if name in store.sweeps() else {}
    present = {digest: made.files for digest, made in plan.codes.items()}
    used = {trial.code for trial in plan.trials}
    store.save_sweep(
        name,
        grid.resolved_text(),
        {
            "format": 1,
            "name": name,
            "goal": str(grid.goal),
            "pass": grid.pass_rule,
            "tune": list(grid.tune),
            "search": grid.search,
            "base": str(grid.base),
            "created": past.get("created", datetime.now(UTC).isoformat(timespec="seconds")),
            "accepted": sorted(set(past.get("accepted", ())) | (used - present.keys())),
            "size_fields": plan.size_fields,
            "code_files": {**past.get("code_files", {}), **present},
        },
        [trial.row() for trial in plan.trials],
    )


def _standing(plan: Plan, store: Store) -> Standing:
    return standing(plan.trials, store.read_trials().table)


def _run(
    plan: Plan,
    store: Store,
    number: int,
    todo: list[Trial],
    per_trial: Resources,
    stopping: threading.Event,
    listener: Listener,
) -> None:
    from sweepd import engine  # Ray takes seconds to import: only where something is to be run

    grid = plan.grid
    job = engine.Job(
        store.address, grid.name, grid.base, number, grid.checkpoint_seconds, tuple(todo)
    )
    search = GridSearch(todo, grid.retries)
    engine.run(job, search, store, per_trial, listener, stopping)


def _latest_driver(store: Store, sweep: str) -> str:
    drivers = [launch for launch in store.launches() if launch.get("sweep") == sweep]
    if not drivers:
        return "it is just starting"
    return f"process {drivers[-1]['pid']} on {drivers[-1]['host']}"
