"""Finds what may be deleted of a store. That is never a row that is nowhere else, nor what a
driver may need."""

from collections.abc import Collection
from dataclasses import dataclass
from math import inf

from sweepd.errors import EnvironmentFailure
from sweepd.statuses import DONE
from sweepd.store.endings import statuses
from sweepd.store.names import Checkpoint
from sweepd.store.storage import File
from sweepd.store.store import Store

KINDS = {
    "replaced": "files whose rows a compacted file holds",
    "leftover": "halves of files, of writers that died",
    "ended": "checkpoints of trials that have ended",
    "kept": "checkpoints kept for longer trials, which without them start anew",
}


@dataclass(frozen=True)
class Garbage:
    """An object that may be deleted. kind: one of KINDS. name: in its store. size: in bytes."""

    kind: str
    name: str
    size: int


def find(store: Store, older_than_seconds: float) -> list[Garbage]:
    """Returns what may be deleted now and is older than that many seconds. Raises
    EnvironmentFailure while another process asks for garbage, or if the plan of a sweep that
    runs is damaged."""
    if not store.locks.acquire(["gc"]):  # holding it makes `driven_elsewhere` exact
        raise EnvironmentFailure(f"{store.address}: another gc is running")
    try:
        written_until = store.folder.now() - older_than_seconds
        running = store.read_plans(list(store.driven_elsewhere(store.sweeps())))
        if running.damaged:
            paths = ", ".join(damaged.path for damaged in running.damaged)
            raise EnvironmentFailure(f"{paths}: damaged, and its sweep runs: gc when it ended")
        files: list[tuple[str, str, File]] = []
        for table in (store.trials, store.metrics):
            below = f"{table.layout.name}/"
            files += [("replaced", below, file) for file in table.replaced(written_until)]
        files += [("leftover", "", file) for file in store.folder.asides()]

        # By trunk, the most steps of its planned trials that are still to run: states from which
        # one of them may train on are left. Where a plan does not say how many, they are infinite.
        in_use = set(running.table["trunk"].to_pylist())
        status_of, plans = statuses(store.read_trials().table), store.read_plans().table
        no_steps = [None] * len(plans)
        steps = plans["steps"].to_pylist() if "steps" in plans.column_names else no_steps
        longest: dict[str, float] = {}
        columns = plans["id"].to_pylist(), plans["trunk"].to_pylist(), steps
        for id_, trunk, wanted in zip(*columns, strict=True):
            if status_of.get(id_) not in DONE:
                most = inf if wanted is None else wanted
                longest[trunk] = max(most, longest.get(trunk, 0))
        for file in store.folder.files("checkpoints"):
            trunk, _, name = file.name.partition("/")
            checkpoint = Checkpoint.parse(name)
            if not checkpoint or trunk in in_use:
                continue
            status = status_of.get(checkpoint.trial)
            if checkpoint.kept and checkpoint.step < longest.get(trunk, 0):
                continue
            if checkpoint.kept or status == "stopped":
                files.append(("kept", "checkpoints/", file))
            elif status in DONE:
                files.append(("ended", "checkpoints/", file))
        old = [one for one in files if one[2].written <= written_until]
        return [Garbage(kind, below + file.name, file.size) for kind, below, file in old]
    finally:
        store.locks.release(["gc"])


def delete(store: Store, garbage: Collection[Garbage], older_than_seconds: float) -> list[Garbage]:
    """Deletes what of this is still garbage. Returns what was deleted."""
    still = set(find(store, older_than_seconds))
    doomed = [one for one in garbage if one in still]
    store.folder.delete([one.name for one in doomed])
    return doomed
