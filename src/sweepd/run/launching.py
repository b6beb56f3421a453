"""What a launch would run, what that costs, and what surrounds a launch. These are plain functions
that return data, for the command line and for Python."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Protocol

import pyarrow as pa

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid import plan as planning
from sweepd.grid.fingerprint import is_program, unknown_files
from sweepd.grid.placement import Nodes, Resources, by_type, torchs_share
from sweepd.grid.plan import Plan
from sweepd.grid.program import Program
from sweepd.grid.spec import Grid, parse_grid
from sweepd.grid.trials import Trial
from sweepd.grid.user_classes import changed_defaults
from sweepd.provenance import home
from sweepd.run.own_code import (
    folder_of,
    refuse_namesakes,
    refuse_other_spellings,
    refuse_twins,
)
from sweepd.search.base import Search
from sweepd.search.estimate import Bill, bills, trial_seconds
from sweepd.search.ledger import Standing, outcomes, standing
from sweepd.search.staircase import promotion_of, search_of
from sweepd.store.schema import TRIALS
from sweepd.store.storage import Damaged
from sweepd.store.store import Store, SweepInfo
from sweepd.store.sweeps import changed_files
from sweepd.trial.checkpoints import Outlook, outlook
from sweepd.trial.program import KEPT_BYTES

Codes = Literal["accepted", "all"]
"""The other versions of the code whose trials count as done. They are those that an earlier launch
of the sweep accepted, or all."""
Aim = Literal["search", "promote"]
"""What a launch runs. `search` runs the search of the grid. `promote` runs in full the trials that
a rule stopped and on which the answer depends."""
BILLS = ("grid", "least", "likely", "worst")
"""The bills that are compared: the whole grid's, and the ways in which the staircase may go."""
SETTLING = "settle_most"
"""The name of the bill of about the most that settling adds. At the least it adds nothing."""
STARTUP_SECONDS = (8.0, 60.0)
"""The seconds from a launch to its first step, low and high. They pass while Ray and torch are
imported and Ray and a worker start. They were measured on 2 cores, idle and busy."""
WARM_UP, STEPS = 4, 20
"""The steps of a probe before the measured ones (one is recorded as a graph), and the measured."""
MOST_SECONDS = 20.0
"""The seconds after which a probe takes no further step of a trial."""
CANCEL_SECONDS = 120.0
"""The seconds that a driver may take to stop after it was told to."""
CANCEL_POLL_SECONDS = 1.0


class Site(Protocol):
    """What an estimate needs to know of the place where the trials run: a cluster file."""

    @property
    def per_trial(self) -> Resources: ...
    @property
    def starting(self) -> tuple[float, float]: ...
    def slots(self, per_trial: Resources) -> int: ...
    def types(self) -> Mapping[str, Nodes]: ...
    def cost(
        self, per_trial: Resources, at_once: int, seconds_low: float, seconds_high: float
    ) -> tuple[float, float]: ...


@dataclass(frozen=True)
class Planned:
    """A grid's trials, and what a store has of them.

    search: the search, which knows the trials that have ended. ended: the store's `trials` table.
    changed: the files in which the versions of the code that `--accept-code` would accept differ
    from the present one. defaults: sentences about defaults of the user's classes that have changed
    since the last launch. damaged: the files of the store that were skipped.
    """

    search: Search
    standing: Standing
    ended: pa.Table
    outlook: Outlook
    changed: tuple[str, ...]
    defaults: tuple[str, ...]
    damaged: tuple[Damaged, ...]

    @property
    def plan(self) -> Plan:
        return self.search.plan

    def notes(self, resources: Resources) -> Iterator[str]:
        """Yields sentences for the person who launches trials on these resources."""
        for warning in self.plan.warnings:
            yield f"warning: {warning}"
        yield from self.plan.notes
        yield from _of_programs(self.plan.grid)
        yield from self.defaults
        if self.standing.other:
            yield (
                f"{len(self.standing.other)} trials were done by another version of the code "
                f"(changed: {', '.join(self.changed) or 'unknown'}); --accept-code counts them as "
                "done"
            )
        if unscored := len(self.standing.unscored):
            yield (
                f"trials that are done without scores at these lengths: {unscored}; they stay as "
                "they are, and a trial with such scores is trained anew, as far as no kept state "
                "spares it that"
            )
        trains = (trial.values.train for trial in self.plan.trials)
        if not resources.gpus and any(train and train.compile for train in trains):
            yield "train.compile records steps on a GPU; without one, as here, it does nothing"
        yield from self.outlook.lines()


@dataclass(frozen=True)
class Estimate:
    """What a search has still to run: counts of cells and trials, what is left by each of `BILLS`,
    how many trials the place can run at once, and the cost in dollars of what is likely left."""

    sweep: str
    cells: int
    trials: int
    done: int
    failed: int
    other_code: int
    search: str
    slots: int
    cost_low: float
    cost_high: float
    bills: Mapping[str, Bill]
    starting: tuple[float, float] = (0.0, 0.0)
    """The seconds in which the nodes come up, low and high."""
    kinds: Mapping[str, int | None] = field(default_factory=dict)
    """The slots of each type of node of the place, as far as it names them. None stands for a type
    whose cards no trial asks for, so that it runs none."""

    @property
    def expected(self) -> Bill:
        """What is likely left, with half of the most that settling adds. The low time is without
        settling, the high time with all of it. Both include the start of nodes and of Ray."""
        likely, most = self.bill("likely"), self.bill(SETTLING)
        trials = likely.trials + most.trials / 2
        pairs = zip(STARTUP_SECONDS, self.starting, strict=True)
        low, high = (sum(pair) if trials else 0.0 for pair in pairs)
        flops = likely.train_flops
        return Bill(
            trials,
            None if flops is None else flops + (most.train_flops or 0.0) / 2,
            low + likely.seconds_low,
            high + likely.seconds_high + most.seconds_high,
        )

    @property
    def to_run(self) -> int:
        """The number of trials that are likely left."""
        return round(self.expected.trials)

    @property
    def at_once(self) -> int:
        """How many trials run at once: the slots that are used, if so many trials are left."""
        return min(self.slots, self.to_run)

    @property
    def is_exact(self) -> bool:
        """Whether it is known which trials are left, and not only how many are likely."""
        return not {"likely", SETTLING}.intersection(self.bills)

    def bill(self, name: str) -> Bill:
        """Returns the bill of this name. Without a staircase all `BILLS` are the same. Where a grid
        does not settle, that of `SETTLING` is all zeros."""
        nothing = Bill(0.0, 0.0, 0.0, 0.0)
        return self.bills.get(name, nothing if name == SETTLING else self.bills["grid"])

    def row(self) -> dict[str, Any]:
        left = self.expected
        likely = {
            "train_flops": left.train_flops,
            "slots": self.slots,
            "at_once": self.at_once,
            "seconds_low": left.seconds_low,
            "seconds_high": left.seconds_high,
            "cost_low": self.cost_low,
            "cost_high": self.cost_high,
            "search": self.search,
        }
        counts = ("sweep", "cells", "trials", "done", "failed", "other_code", "to_run")
        row = {name: getattr(self, name) for name in counts} | likely
        for bill in (*BILLS, SETTLING):
            row |= {f"{bill}_{name}": value for name, value in asdict(self.bill(bill)).items()}
        return row


def planned(
    grid: Grid, store: Store | None, *, codes: Codes = "accepted", aim: Aim = "search"
) -> Planned:
    """Returns a grid's plan, with what the store has of it counted as done. Changes nothing. store:
    None where there is none yet. Raises GridError for what only the tasks and models themselves can
    refuse, and UserError for what results could not tell apart."""
    plan = planning.plan(grid)
    ended, damaged = TRIALS.concat([]), []
    sweeps: Mapping[str, SweepInfo] = {}
    if store is not None:
        read = store.read_trials()
        sweeps, unreadable = store.readable_sweeps()
        ended, damaged = read.table, [*read.damaged, *unreadable]
    refuse_namesakes(grid, sweeps)
    refuse_other_spellings(grid, ended.column_names)
    refuse_twins(plan, ended)
    past = sweeps.get(grid.name)
    if store and past:
        _refuse_takeover(plan, past, store)

    def accepts(code: str, present: str) -> bool:
        return codes == "all" or bool(past and past.accepts(code, present))

    # What an accepted code has done is planned under the ids of that code. The rest is still to be
    # run, and of what a code that is not accepted has done, it is said which files have changed.
    plan = standing(plan.trials, ended).accepting(plan, accepts)
    now = standing(plan.trials, ended)
    present = {name: of for made in plan.codes.values() for name, of in made.files.items()}
    theirs = {code: files for info in sweeps.values() for code, files in info.code_files.items()}
    others = {newest["code"] for newest, *_ in now.other.values()}.intersection(theirs)
    search = promotion_of(plan) if aim == "promote" else search_of(plan)
    search.learn(outcomes(plan, ended), ())
    todo = [trial for trial in now.todo if not trial.on_demand]
    return Planned(
        search,
        now,
        ended,
        outlook(todo, ended, store.checkpoints) if store else Outlook({}, {}),
        tuple(sorted(set().union(*(changed_files(theirs[one], present) for one in others)))),
        tuple(changed_defaults(grid, past.own_classes)) if past else (),
        tuple(damaged),
    )


def _refuse_takeover(plan: Plan, past: SweepInfo, store: Store) -> None:
    """Raises UserError where a grid without a name, which is called as its file, would replace the
    plan of such a grid of another folder, of which it has no trial."""
    grid = plan.grid
    if "name" in grid.document.data or past.base == home(grid.base):
        return
    theirs = set(store.read_plans([grid.name]).table["id"].to_pylist())
    if theirs.isdisjoint(trial.id for trial in plan.trials):
        raise UserError(
            f"{grid.document.source}: it has no `name:`, and these results have a sweep "
            f"{grid.name} of {past.base}, with other trials; write a `name:` of its own (or "
            f"`name: {grid.name}`, to take that one's place)"
        )


def estimate(planned: Planned, site: Site, measured: tuple[float, float] | None = None) -> Estimate:
    """Returns what a search has still to run at a site. `measured`: see `bills`."""
    plan = planned.plan
    resources = per_trial(plan.grid, site)
    slots = max(1, site.slots(resources))
    by_name = bills(planned.search, slots, planned.ended, resources.gpus, measured)
    types = site.types()
    kinds: dict[str, int | None] = {
        name: count or None
        for name, count in by_type(types, resources).items()
        if count or types[name].held(resources)
    }
    made = Estimate(
        sweep=plan.grid.name,
        cells=sum(not trials[0].on_demand for trials in plan.cells),
        trials=planned.standing.trials,
        done=len(planned.standing.done),
        failed=len(planned.standing.failed),
        other_code=len(planned.standing.other),
        search=plan.grid.search_name,
        slots=slots,
        cost_low=0.0,
        cost_high=0.0,
        bills=by_name,
        starting=site.starting,
        kinds=kinds,
    )
    # Nodes are paid for as long as a launch takes. The start of nodes the site adds by itself.
    low, high = made.expected.seconds_low, made.expected.seconds_high
    seconds = max(0.0, low - site.starting[0]), max(0.0, high - site.starting[1])
    cost_low, cost_high = site.cost(resources, made.at_once, *seconds)
    return replace(made, cost_low=cost_low, cost_high=cost_high)


def probed(
    planned: Planned, resources: Resources, note: Callable[[str], None]
) -> tuple[float, float]:
    """Measures the smallest and the largest trial that is left of each task and model, and returns
    the least and the most ratio of their times to the middle of the estimate's.

    A time is that of a trial's steps, checks and test. Where trials share a card, the most counts
    its neighbours' turns too. Nothing is kept. `note` is told of each trial. Raises UserError where
    no trial of a model is left or one raises an error, and EnvironmentFailure without a card.
    """
    import torch

    from sweepd.trial.attempt import described, started
    from sweepd.trial.gpu import take_share
    from sweepd.trial.training import Training

    if resources.gpus and not torch.cuda.is_available():
        raise EnvironmentFailure(
            "no card here to probe: run `plan --probe` on a machine like those"
        )
    kinds: dict[object, list[Trial]] = defaultdict(list)
    for trial in planned.standing.todo:
        if not trial.loop_where:
            kinds[trial.classes].append(trial)
    if not kinds:
        raise UserError("nothing to probe: no trial of a task and a model is left")
    base, device = planned.plan.grid.base, "cuda" if resources.gpus else "cpu"
    torch.set_num_threads(max(1, int(resources.cpus)))
    if resources.gpus:
        total = torch.cuda.get_device_properties(0).total_memory
        take_share(torchs_share(resources.gpus, total))
    ratios = []
    for trials in kinds.values():
        trials.sort(key=lambda trial: (trial.train_flops or 0.0) / trial.train.steps)
        for trial in trials[:1] + trials[1:][-1:]:
            steps, flops = trial.train.steps, trial.train_flops or 0.0
            try:
                run = started(trial, base, device)
                assert isinstance(run, Training)
                until = time.monotonic() + MOST_SECONDS
                for taken in range(-WARM_UP, STEPS):
                    if taken == 0:
                        began = time.perf_counter()
                    _, loss = run.train_step()
                    if taken >= 0 and time.monotonic() > until:
                        break
                loss.item()  # waits for the card
                step = (time.perf_counter() - began) / (taken + 1)
                began = time.perf_counter()
                run.check()
                check = time.perf_counter() - began
                run.test_score()
                test = time.perf_counter() - began - check
            except Exception as error:
                raise UserError(f"trial {trial.id}: {described(error)}") from error
            seconds = steps * step + steps // run.evaluation.check_every * check + test
            ratios.append(seconds / (sum(trial_seconds(steps, flops)) / 2))
            note(
                f"{trial.model_name} on {trial.task_name}, {flops / steps:.3g} FLOPs a step: "
                f"{1000 * step:.3g} ms a step, {seconds:.3g} s a trial"
            )
    return min(ratios), max(ratios) / (resources.gpus if 0 < resources.gpus < 1 else 1)


def _of_programs(grid: Grid) -> Iterator[str]:
    """Yields what people should know of the programs of a grid: what becomes of what they write,
    and what their results may depend on besides the files that are known."""
    programs = [block for block in grid.blocks["loop"] if is_program(block.where)]
    unknown: dict[str, list[str]] = {}
    for block in programs:
        for what in unknown_files(block.where, grid.base):
            unknown.setdefault(what, []).append(block.name)
    for what, names in unknown.items():
        yield f"{', '.join(dict.fromkeys(names))}: {what}"
    if any(not Program(block.where).in_place for block in programs):
        yield (
            f"each trial runs in a copy of {grid.base} of its own; of what it writes there by "
            f"relative paths, files up to {KEPT_BYTES / 2**20:g} MiB, or those that `keep:` names, "
            "go to files/TRIAL of the results once it completes, and the rest is deleted"
        )


def per_trial(grid: Grid, site: Site) -> Resources:
    """Returns what one trial occupies, as the grid says, or else as the cluster file says."""
    return grid.resources if isinstance(grid.resources, Resources) else site.per_trial


@contextmanager
def saved_grid(store: Store, sweep: str | None, note: Callable[[str], None]) -> Iterator[Grid]:
    """Yields the frozen grid of a sweep, or of the latest. Where the user's own code is gone, the
    store's is used within the block, and `note` is told so. Raises UserError for no such sweep."""
    if sweep is None:
        launched = [made["sweep"] for made in store.launches() if "sweep" in made]
        if not launched:
            raise UserError(f"{store.address}: no sweep was launched here")
        sweep = launched[-1]
    with folder_of(sweep, store.load_sweep(sweep), store, note) as base:
        source = f"{store.address}/sweeps/{sweep}/grid.yaml"
        yield parse_grid(store.load_grid(sweep), source, [], base)


def cancel(store: Store, sweep: str) -> bool:
    """Tells a sweep's driver to stop, on whatever machine, and waits for its end. Returns whether
    there was one. Raises UserError if there is no such sweep, and EnvironmentFailure if the driver
    still runs after `CANCEL_SECONDS`."""
    store.load_sweep(sweep)
    if not store.driven_elsewhere([sweep]):
        return False
    until = time.monotonic() + CANCEL_SECONDS
    while store.driven_elsewhere([sweep]):
        for latest in [made for made in store.launches() if made.get("sweep") == sweep][-1:]:
            store.request_cancel(latest["number"])  # a driver just starting has no launch yet
        if time.monotonic() > until:
            raise EnvironmentFailure(f"sweep {sweep}: its driver was told to stop but still runs")
        time.sleep(CANCEL_POLL_SECONDS)
    return True
