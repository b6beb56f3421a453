"""One driver runs one sweep. It locks the sweep, claims the trials that are to be run, runs them
within what a launch may spend, and reads in the ledger how they ended."""

from __future__ import annotations

import math
import os
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from sweepd.errors import EnvironmentFailure
from sweepd.grid.placement import PAID_SECONDS, Placement
from sweepd.grid.plan import Plan
from sweepd.grid.trials import Trial
from sweepd.grid.user_classes import own_classes
from sweepd.provenance import home, provenance
from sweepd.ray_private import nodes_and_types
from sweepd.run.own_code import keep_sources, launch_copy
from sweepd.run.runner import Listener, Runner, on_ray
from sweepd.search.base import Search
from sweepd.search.ledger import Standing, outcomes, standing
from sweepd.store.store import Store, SweepInfo
from sweepd.store.sweeps import accepting

Note = Callable[[str], None]
"""A function that is called with each line that tells people what is going on."""

FOR_QUESTIONS = "factor", "least", "most"
"""The fields of `settle` that questions need."""
POLL_SECONDS = 2.0
"""The seconds after which the store is asked again. It is asked for a request to cancel, and for
trials that another sweep's driver runs."""
LOOK_SECONDS = 5.0
"""The seconds after which the nodes, which cost money, are counted again."""

COMPACTION_SECONDS = 60.0
"""The seconds after which a running sweep's driver looks again for files to compact."""
COMPACTION_SHARE = 0.05
"""The most of its time that a driver spends on that."""
FILES_WHILE_RUNNING, FILES_AT_THE_END = 1000, 64
"""The least number of new files that are compacted while a sweep runs, and at its end."""


@dataclass(frozen=True)
class Launched:
    """How a launch ended. failed: the trials that failed as often as they may."""

    standing: Standing
    failed: tuple[Trial, ...]
    interrupted: bool


def launch(
    search: Search,
    store: Store,
    placement: Placement,
    stopping: threading.Event,
    listener: Listener,
    note: Note,
    runner: Runner = on_ray,
) -> Launched:
    """Runs what the search of a plan still wants. The same call again continues it.

    Returns how the launch ended, when nothing is wanted but trials that failed for good, or once
    `stopping` is set. Raises EnvironmentFailure where another driver holds the sweep or the store
    can't be written.
    """
    plan = search.plan
    limits = within_limits(placement, listener, stopping, note)
    with limits, driving(plan, store, stopping, note) as number, ExitStack() as held:
        # Workers on this machine find the copy that is made now.
        if any(trial.program and not trial.program.in_place for trial in plan.trials):
            codes = frozenset(plan.codes)
            made = launch_copy(plan.grid.name, plan.grid.base, codes, store, number)
            held.callback(made.close)
        search.learn(outcomes(plan, store.read_trials().table), ())
        waiting = 0
        while search.wanted() and not stopping.is_set():
            unsettled = [trial for trial in plan.trials if not search.taken(trial)]
            with claimed(store, unsettled) as owned:
                # Read after claiming, so that what another driver has ended meanwhile is not run
                # again.
                ended = outcomes(plan, store.read_trials().table)
                search.learn(ended, {trial.id for trial in owned})
                if not search.finished:
                    runner(search, owned, store, number, placement, listener, stopping)
            if (elsewhere := len(search.wanted())) and not stopping.is_set():
                if elsewhere != waiting:
                    waiting = elsewhere
                    note(f"waiting for {waiting} trials that another sweep is running")
                stopping.wait(POLL_SECONDS)
        store.compact(FILES_AT_THE_END)
        after = standing(plan.trials, store.read_trials().table)
        failed = tuple(trial for trial in after.failed if trial.id in search.abandoned)
        left = bool(search.in_flight or search.wanted())
        return Launched(after, failed, stopping.is_set() and left)


@contextmanager
def driving(plan: Plan, store: Store, stopping: threading.Event, note: Note) -> Iterator[int]:
    """Holds a plan's sweep for the block, as its only driver. Yields the number of the launch.

    First, what could not be written before is taken into the store, and the sweep is saved. Until
    the block ends, two threads look after the store. `stopping` is set when somebody cancels the
    launch, or when the store gives the sweep to another driver. Raises EnvironmentFailure where
    another driver holds the sweep.
    """
    name = plan.grid.name

    def lost(reason: str) -> None:
        note(f"sweep {name}: {reason}")
        stopping.set()

    if not store.lock_sweep(name, note, lost):
        end = shlex.join(["sweepd", "cancel", name, "--results", store.address])
        driver = "it is just starting"
        for latest in [one for one in store.launches() if one.get("sweep") == name][-1:]:
            driver = f"process {latest.get('pid')} on {latest.get('host')}"
        raise EnvironmentFailure(
            f"sweep {name}: another driver holds it ({driver}); wait for it, or end it with `{end}`"
        )
    over = threading.Event()

    def heed(number: int) -> None:
        """Stops the launch if `sweepd cancel` asks for it on any machine."""
        while not over.wait(POLL_SECONDS):
            with suppress(EnvironmentFailure):  # a store that does not answer now may do so later
                if store.cancel_requested(number):
                    note("cancelled: saving what runs")
                    stopping.set()
                    return

    def compact() -> None:
        """Compacts the many files that a long launch writes, which spares their readers."""
        pause = COMPACTION_SECONDS
        while not over.wait(pause):
            began = time.monotonic()
            try:
                store.compact(FILES_WHILE_RUNNING, newer=True)
            except EnvironmentFailure:
                pass  # as above
            except Exception as error:  # the sweep goes on without it
                note(f"files cannot be compacted, which is tried again: {error!r}")
            # Of a million objects on S3 the first listing alone takes minutes.
            pause = max(COMPACTION_SECONDS, (time.monotonic() - began) / COMPACTION_SHARE)

    try:
        if moved := store.take_in_spill():
            note(f"took in {moved} objects that could not be written before")
        _save(plan, store)
        number = store.new_launch({"sweep": name, **provenance(plan.grid.base)})
        store.mark_driven(name)
        threading.Thread(target=heed, args=(number,), daemon=True).start()
        threading.Thread(target=compact, daemon=True).start()
        yield number
        store.unmark_driven(name)
    finally:
        over.set()
        store.unlock_sweep(name)


@contextmanager
def claimed(store: Store, trials: Sequence[Trial]) -> Iterator[list[Trial]]:
    """Claims those of the trials that no other driver runs, and yields them."""
    ids = store.claim([trial.id for trial in trials])
    try:
        yield [trial for trial in trials if trial.id in ids]
    finally:
        store.release(ids)


def sweep_info(plan: Plan, past: SweepInfo | None = None) -> SweepInfo:
    """What is saved of a plan besides its trials. `past`: what an earlier launch saved."""
    grid, settle = plan.grid, plan.grid.settle
    present = {digest: made.files for digest, made in plan.codes.items()}
    return SweepInfo(
        goal=str(grid.goal),
        pass_rule=grid.pass_rule,
        tune=grid.tune,
        search=grid.search_name,
        settle={name: float(getattr(settle, name)) for name in FOR_QUESTIONS} if settle else None,
        extra_seeds=grid.seeds[grid.first_seeds :],
        fresh_seeds=grid.fresh_seeds,
        base=home(grid.base),
        accepted_for=accepting(plan.accepted, past.accepted_for if past else {}),
        size_fields=plan.size_fields,
        task_fields=plan.task_fields,
        neutral=plan.neutral,
        code_files={**(past.code_files if past else {}), **present},
        metrics=plan.metrics,
        minimized=plan.minimized,
        own_classes=own_classes(grid, past.own_classes if past else {}),
        sources=past.sources if past else {},
    )


def _save(plan: Plan, store: Store) -> None:
    """Saves the sweep as it is now: its grid, its trials and what queries need to know of it."""
    name = plan.grid.name
    sweeps, _ = store.readable_sweeps()
    info = sweep_info(plan, sweeps.get(name))
    kept = keep_sources(plan, store)
    earlier = {code: files for code, files in info.sources.items() if code not in kept}
    info = replace(info, sources={**earlier, **kept})
    store.save_sweep(name, plan.grid.resolved_text(), info, plan.rows())


@contextmanager
def within_limits(
    placement: Placement, listener: Listener, stopping: threading.Event, note: Note
) -> Iterator[None]:
    """Tells the listener what the nodes cost while the block runs, and sets `stopping` once that,
    or the time, is all that one launch may take. A node counts from when the cloud, or where it
    cannot be asked Ray, knows of it. Those that are there at first have cost since this launch, or
    the job that it is, began to bring nodes up (`PAID_SECONDS`)."""
    over, began = threading.Event(), time.monotonic()

    def look() -> None:
        spent, looked = 0.0, began - float(os.environ.get(PAID_SECONDS, 0))
        while not over.wait(LOOK_SECONDS):
            now = time.monotonic()
            # A node of a type that the cluster file does not name costs what the dearest of its
            # size does.
            an_hour, types = 0.0, placement.nodes
            there = nodes_and_types() if types else []
            for name, resources in there:
                size = resources.get("CPU", 0), resources.get("GPU", 0)
                alike = [one for one in types.values() if (one.cpus, one.gpus) == size]
                known = [types[name]] if name in types else alike or types.values()
                an_hour += max(one.price for one in known)
            if there:  # else Ray has not been joined yet
                spent += an_hour * (now - looked) / 3600
                looked = now
            if an_hour:
                listener.spent(spent, an_hour)
            hours = (now - began) / 3600
            for name, limit, used in (
                ("max_dollars", placement.max_dollars, spent),
                ("max_hours", placement.max_hours, hours),
            ):
                if used >= limit:
                    note(f"{name}: {used:.2f} of {limit:g} are spent: saving what runs")
                    stopping.set()
                    return

    if placement.ray or placement.max_hours < math.inf:
        threading.Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        over.set()
