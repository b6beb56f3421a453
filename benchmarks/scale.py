"""How far one driver and one store go. results/performance has its figures from this.

    python benchmarks/scale.py engine [--trials 1000] [--reports 1 10]
    python benchmarks/scale.py slots [--slots 10000] [--trials 24000] [--reports 4]
    python benchmarks/scale.py fleet [--trials 1000 100000] [--nodes 48] [--slots 8] [--seconds 10]
    python benchmarks/scale.py store [--trials 1000 10000 100000] [--folder DIR]
    python benchmarks/scale.py metrics [--files 50000] [--rows 20]

`engine` runs fake trials through the real engine and Ray. Each of them reports so often, trains
nothing and writes its ending. It prints the CPU time of the driver's process for a trial and for a
report, quarter by quarter of the run.

`slots` does so with thousands of trials at once, whose workers live in one process (pretended.py).
It leaves out the time in which the slots fill and that in which they empty.

`fleet` runs a real plan and a real search against simulated workers in virtual time. Nodes have
slots, are lost and come back. Trials report as often as real ones do. The driver handles one event
at a time, which takes as long as `engine` and `slots` measured and as the search itself takes.

`store` fills a store with so many ended trials, one file each, as workers leave them. It then runs
the commands that read it, before and after compaction.

`metrics` writes files of metrics and compacts each thousand of them, as a driver does while its
sweep goes on.

Times are CPU seconds, which other load on the machine disturbs less than the clock.
"""

from __future__ import annotations

import argparse
import heapq
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import overhead
import pretended
from overhead import Clock, NoOp
from processes import SWEEPD

from sweepd.grid.placement import Placement, Resources
from sweepd.grid.plan import Plan, plan
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial
from sweepd.run import engine
from sweepd.run.driver import FILES_WHILE_RUNNING, sweep_info
from sweepd.run.worker import REPORT_SECONDS, slice_seconds
from sweepd.search.base import GridSearch
from sweepd.search.seeds import Outcome
from sweepd.store.store import Store
from sweepd.trial.attempt import ledger_columns

GRID = """
name: scale
task: {{name: lis, n: [4, 6, 8, 10], value_range: 16}}
model: {{name: [standard, linear], d: [8, 16, 32, 64, 128], layers: 1, heads: 1}}
train: {{weight_decay: {decays}}}
seeds: {seeds}
"""
CELLS = 40
"""Of the grid with one weight decay."""
TRIAL_MS, REPORT_MS = 4.5, 1e3 * REPORT_SECONDS
"""Of the driver's CPU, for a trial as `engine` printed, and for a report as `slots` did
(docs/performance.md)."""
WARM_UP = 20
"""Trials left out at the beginning: actors are starting."""
WINDOWS = 100
"""Into so many parts `slots` divides a run."""
BETWEEN_EVENTS = 3e-3
"""The seconds after which the next of the pretended slots has news for the driver."""


def planned(trials: int) -> Plan:
    """Returns a plan of about so many trials: 40 cells or more, with up to 25 seeds each."""
    seeds = min(25, max(1, trials // CELLS))
    decays = [i / 10000 for i in range(max(1, trials // CELLS // seeds))]
    text = GRID.format(decays=decays, seeds=list(range(seeds)))
    return plan(parse_grid(text, "scale.yaml", [], Path()))


# engine


class Reporting(NoOp):
    """Reports `REPORTS` times and ends."""

    REPORTS = 1

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.left = self.REPORTS

    def advance(self, seconds: float) -> None:
        self.left -= 1
        if not self.left:
            super().advance(seconds)


class CpuClock(Clock):
    """Notes the CPU time of the driver when each trial reported and when it ended."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[float] = []

    def running(self, trial: Trial, report: dict[str, Any]) -> None:
        self.reports.append(time.process_time())

    def ended(self, trial: Trial, report: dict[str, Any]) -> None:
        self.ends.append(time.process_time())


def run_fakes(trials: int, reports: int, slots: int = 0) -> CpuClock:
    """Runs trials that report so often, in slots of this machine or in so many pretended ones."""
    from ray import cloudpickle

    for module in (overhead, pretended):  # which workers can't import
        cloudpickle.register_pickle_by_value(module)
    clock, made = CpuClock(), planned(trials)
    attempt = type("Fake", (Reporting,), {"REPORTS": reports})
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(f"{folder}/results")
        search = GridSearch(made)
        search.learn({}, {trial.id for trial in made.trials})
        with pretended.slots(slots, slots * BETWEEN_EVENTS) if slots else nullcontext():
            where, stopping = Placement(Resources()), threading.Event()
            engine.run(search, made.trials, store, 1, where, clock, stopping, attempt)
        assert store.read_trials().table.num_rows == len(made.trials)
    return clock


def milliseconds_a_trial(trials: int, reports: int) -> list[float]:
    """Returns the milliseconds of the driver's CPU for each trial, in each quarter of a run."""
    ends = run_fakes(trials, reports).ends[WARM_UP:]
    quarter = len(ends) // 4
    return [
        1000 * (ends[i + quarter - 1] - ends[i]) / (quarter - 1)
        for i in range(0, 4 * quarter, quarter)
    ]


def measure_engine(trials: int, reports: list[int]) -> None:
    found = {}
    for count in reports:
        quarters = milliseconds_a_trial(trials, count)
        found[count] = statistics.mean(quarters)
        shown = " ".join(f"{ms:6.2f}" for ms in quarters)
        print(f"{trials} trials of {count} reports: ms a trial, by quarters: {shown}", flush=True)
    if len(found) > 1:
        (few, cheap), *_, (many, dear) = sorted(found.items())
        report = (dear - cheap) / (many - few)
        print(f"a report {report:.2f} ms, a trial besides {cheap - few * report:.2f} ms")


# slots


def measure_slots(slots: int, trials: int, reports: int) -> None:
    """Prints what a trial and a report take, as least squares find from the CPU between events."""
    clock = run_fakes(trials, reports, slots)
    full, empties = clock.ends[slots], clock.ends[-slots]
    events = sorted(
        (at, is_end)
        for is_end, times in enumerate((clock.reports, clock.ends))
        for at in times
        if full <= at <= empties
    )
    spent, is_end = np.array(events).T
    edges = np.linspace(0, len(events) - 1, WINDOWS + 1).astype(int)
    counts = [np.diff(is_end.cumsum()[edges]), np.diff(edges)]  # each end is a report, too
    trial, report = np.linalg.lstsq(np.transpose(counts), np.diff(spent[edges]))[0]
    print(
        f"{slots} slots, {len(events)} events, {is_end.sum():.0f} of them ends: "
        f"{1000 * (spent[-1] - spent[0]) / len(events):.2f} ms an event; "
        f"a report {1000 * report:.2f} ms, a trial besides {1000 * trial:.2f} ms"
    )


# fleet


@dataclass
class Fleet:
    """Simulated workers under a real search, in virtual time."""

    search: GridSearch
    nodes: int
    slots: int
    """of each node"""
    seconds: float
    """of training, a trial on average"""
    spread: float
    """trials take from 1 - spread to 1 + spread times that"""
    trial_seconds: float
    """of the driver, for a trial besides its reports"""
    report_seconds: float
    rng: random.Random
    slice_seconds: float
    checkpoint: float
    """seconds between two checkpoints of a trial"""
    loss_seconds: float = 3600.0
    """mean life of a node"""
    away_seconds: float = 120.0
    now: float = 0.0
    busy: float = 0.0
    """how long the driver was"""
    searching: float = 0.0
    """CPU of the search in that"""
    moved: int = 0
    events: list[tuple[float, int, str, int]] = field(default_factory=list)
    running: dict[int, tuple[Trial, float, float]] = field(default_factory=dict)
    """by slot, a trial, the seconds it has to train after its present slice, and that slice's"""
    trained: float = 0.0
    """slices that have ended, less what was lost with nodes"""
    full: tuple[float, float, float] | None = None
    """`now`, `trained` and `absent` when a slot found nothing to do for the first time"""
    whole: dict[str, float] = field(default_factory=dict)
    """of each trial that began, its seconds of training in all"""
    saved: dict[str, float] = field(default_factory=dict)
    """of trials that lost their node, the seconds that their checkpoint had still to train"""
    away: dict[int, float] = field(default_factory=dict)
    """when each node was lost that is not back yet"""
    absent: float = 0.0
    """seconds of slots whose node was away, and is back"""
    lives: Counter[int] = field(default_factory=Counter)
    """how often each slot was lost: what was under way there before counts no more"""

    def run(self) -> None:
        for node in range(self.nodes):
            self.arrives(node)
        while not self.search.finished:
            at, life, what, index = heapq.heappop(self.events)
            self.now = max(self.now, at)  # an event waits while the driver handles another
            if what == "report" and life == self.lives[index]:
                self.reports_from(index)
            elif what == "lost":
                self.loses(index)
            elif what == "back":
                self.arrives(index)

    def gone(self) -> float:
        """Returns the seconds of slots whose node was away so far."""
        return self.absent + self.slots * sum(self.now - lost for lost in self.away.values())

    def arrives(self, node: int) -> None:
        self.absent += self.slots * (self.now - self.away.pop(node, self.now))
        for slot in self.slots_of(node):
            self.hand_out(slot)
        lost = self.now + self.rng.expovariate(1 / self.loss_seconds)
        heapq.heappush(self.events, (lost, 0, "lost", node))

    def reports_from(self, slot: int) -> None:
        trial, left, slice_ = self.running[slot]
        self.trained += slice_
        self.works(self.report_seconds)
        if left > 0:
            self.trains(slot, trial, left)
        else:
            self.ends(slot, Outcome("completed", 0.5, 1024))
            self.hand_out(slot)

    def loses(self, node: int) -> None:
        self.away[node] = self.now
        for slot in self.slots_of(node):
            self.lives[slot] += 1
            if slot in self.running:
                self.moved += 1
                trial, left, slice_ = self.running[slot]
                whole = self.whole[trial.id]
                lost = (whole - left - slice_) % self.checkpoint
                self.trained -= lost
                self.saved[trial.id] = left + slice_ + lost
                self.ends(slot, Outcome("interrupted"))
        heapq.heappush(self.events, (self.now + self.away_seconds, 0, "back", node))

    def hand_out(self, slot: int) -> None:
        if trial := self.searched(self.search.next):
            self.works(self.trial_seconds)
            if trial.id not in self.whole:
                part = self.rng.uniform(1 - self.spread, 1 + self.spread)
                self.whole[trial.id] = part * self.seconds
            self.trains(slot, trial, self.saved.pop(trial.id, self.whole[trial.id]))
        elif not self.full:
            self.full = self.now, self.trained, self.gone()

    def ends(self, slot: int, outcome: Outcome) -> None:
        trial, _, _ = self.running.pop(slot)
        self.searched(self.search.ended, trial, outcome)

    def trains(self, slot: int, trial: Trial, left: float) -> None:
        """Lets a trial train until its next report, which comes after a slice or at its end."""
        slice_ = min(left, self.slice_seconds * self.rng.uniform(0.9, 1.1))
        self.running[slot] = trial, left - slice_, slice_
        heapq.heappush(self.events, (self.now + slice_, self.lives[slot], "report", slot))

    def slots_of(self, node: int) -> range:
        return range(node * self.slots, (node + 1) * self.slots)

    def searched(self, call: Any, *arguments: Any) -> Any:
        before = time.process_time()
        answer = call(*arguments)
        spent = time.process_time() - before
        self.searching += spent
        self.works(spent)
        return answer

    def works(self, seconds: float) -> None:
        self.busy += seconds
        self.now += seconds


def simulate(trials: int, given: argparse.Namespace) -> None:
    before = time.process_time()
    made = planned(trials)
    planning = time.process_time() - before
    search = GridSearch(made)
    search.learn({}, {trial.id for trial in made.trials})
    count, at_once = len(made.trials), given.nodes * given.slots
    costs = given.trial_ms / 1000, given.report_ms / 1000
    slice_ = slice_seconds(at_once, made.grid.hang_seconds)
    fleet = Fleet(
        *(search, given.nodes, given.slots, given.seconds, given.spread),
        *(*costs, random.Random(given.seed), slice_, made.grid.checkpoint_seconds),
    )
    fleet.run()
    ideal = sum(fleet.whole.values()) / at_once
    assert fleet.full
    until, trained, absent = fleet.full
    print(
        f"{count} trials on {given.nodes} x {given.slots} slots: {fleet.now:.0f} s, "
        f"{ideal / (fleet.now - fleet.gone() / at_once):.0%} of the slots' time trained "
        f"({ideal / fleet.now:.0%} with the time in which their nodes were away), "
        f"{trained / (until * at_once - absent):.0%} while there was work for all; driver busy "
        f"{fleet.busy / fleet.now:.0%}, search {1000 * fleet.searching / count:.3f} ms a trial; "
        f"{fleet.moved} trials moved; planning {planning:.1f} s",
        flush=True,
    )
    assert len(search.outcomes) == count
    assert abs(fleet.trained - ideal * at_once) < 1e-6 * fleet.trained


# store


def fill(store: Store, made: Plan) -> float:
    """Writes ended trials, each in a file of its own. Returns the milliseconds of CPU for each
    file."""
    store.save_sweep("scale", made.grid.resolved_text(), sweep_info(made), made.rows())
    return end(store, made.trials, 1000)


def end(store: Store, trials: Sequence[Trial], attempt: int) -> float:
    """Writes the endings of trials. Returns the milliseconds of CPU for each."""
    rng, before = random.Random(0), time.process_time()
    with patch.object(os, "fsync"):  # which would be most of the time, and is no reader's cost
        for trial in trials:
            ended = {"status": "completed", "acc": rng.random(), "total": 1024, "step": 1000}
            store.write_trials([{**ledger_columns(trial, attempt, "scale"), **ended}])
    return 1000 * (time.process_time() - before) / len(trials)


def commands(grid: Path) -> list[tuple[str, ...]]:
    reading = [
        ("query", "min d where acc>0.9"),
        ("sql", "SELECT count(*) FROM trials"),
        ("status",),
        ("status", "scale", "--csv"),
        ("plan", str(grid)),
    ]
    return [*reading, ("launch", str(grid)), *reading]  # a launch with nothing to do compacts


def timed(arguments: tuple[str, ...], results: str) -> tuple[float, float]:
    """Returns the CPU seconds of a command, and its seconds by the clock."""
    program = [SWEEPD, *arguments, "--results", results]
    before = time.perf_counter()
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        _, ended, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(ended)
    assert child.returncode in (0, 1), program
    return used.ru_utime + used.ru_stime, time.perf_counter() - before


def measure_store(trials: int, root: Path) -> None:
    made, grid = planned(trials), root / f"{trials}.yaml"
    store = Store.create(str(root / str(trials)))
    if not store.sweeps():
        grid.write_text(made.grid.resolved_text())
        print(f"{trials} trials: {fill(store, made):.2f} ms of CPU to write each", flush=True)
    before = time.process_time()
    store.release(store.claim([trial.id for trial in made.trials]))
    print(f"  claimed and released in {time.process_time() - before:.2f} s", flush=True)
    for arguments in commands(grid):
        cpu, wall = timed(arguments, store.address)
        files = sum(1 for _ in (root / str(trials) / "trials").iterdir())
        print(f"  {files:6} files: {cpu:6.1f} s CPU, {wall:6.1f} s: {arguments[0]}", flush=True)
    more = made.trials[:1000]
    end(store, more, 2000)
    for what, at_least in (
        ("looking whether to compact", len(more) + 1),
        (f"compacting {len(more):,} more", len(more)),
    ):
        before = time.process_time()
        store.compact(at_least)
        print(f"  {what}: {time.process_time() - before:.1f} s CPU", flush=True)


def measure_metrics(files: int, rows: int) -> None:
    with tempfile.TemporaryDirectory(prefix="sweepd-scale-") as folder:
        store, costs = Store.create(folder), []
        for start in range(0, files, FILES_WHILE_RUNNING):
            with patch.object(os, "fsync"):  # as in `end`
                for file in range(start, start + FILES_WHILE_RUNNING):
                    step = {"id": f"{file % 100:064x}", "attempt": file, "loss": 0.5, "acc": 0.5}
                    store.write_metrics([{**step, "step": at} for at in range(rows)])
            before = time.process_time()
            store.compact(FILES_WHILE_RUNNING)
            costs.append(time.process_time() - before)
            if len(costs) % 10 == 0:
                print(
                    f"{start + FILES_WHILE_RUNNING} files: compacting the last ten thousand took "
                    f"{sum(costs[-10:]):.1f} s of CPU, at most {max(costs[-10:]):.1f} s at once",
                    flush=True,
                )
        before = time.process_time()
        assert store.read_metrics().table.num_rows == files * rows
        print(f"reading all: {time.process_time() - before:.1f} s of CPU")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = arguments.add_subparsers(dest="part", required=True)
    part = parts.add_parser("engine")
    part.add_argument("--trials", type=int, default=1000)
    part.add_argument("--reports", type=int, nargs="+", default=[1, 10])
    part = parts.add_parser("slots")
    part.add_argument("--slots", type=int, default=10_000)
    part.add_argument("--trials", type=int, default=24_000, help="more than twice the slots")
    part.add_argument("--reports", type=int, default=4, help="of a trial")
    part = parts.add_parser("fleet")
    part.add_argument("--trials", type=int, nargs="+", default=[1000, 10_000, 100_000])
    part.add_argument("--nodes", type=int, default=48)
    part.add_argument("--slots", type=int, default=8)
    part.add_argument("--seconds", type=float, default=10, help="of training, a trial")
    part.add_argument("--spread", type=float, default=0, help="of the seconds, up and down")
    part.add_argument("--trial-ms", type=float, default=TRIAL_MS)
    part.add_argument("--report-ms", type=float, default=REPORT_MS)
    part.add_argument("--seed", type=int, default=0)
    part = parts.add_parser("store")
    part.add_argument("--trials", type=int, nargs="+", default=[1000, 10_000, 100_000])
    part.add_argument("--folder", type=Path, help="where stores are made and left, or lie")
    part = parts.add_parser("metrics")
    part.add_argument("--files", type=int, default=50_000)
    part.add_argument("--rows", type=int, default=20, help="of each file")
    given = arguments.parse_args()
    if given.part == "engine":
        measure_engine(given.trials, given.reports)
    elif given.part == "slots":
        measure_slots(given.slots, given.trials, given.reports)
    elif given.part == "fleet":
        for trials in given.trials:
            simulate(trials, given)
    elif given.part == "metrics":
        measure_metrics(given.files, given.rows)
    else:
        root = given.folder or Path(tempfile.mkdtemp(prefix="sweepd-scale-"))
        for trials in given.trials:
            measure_store(trials, root)
        if not given.folder:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
