"""How a sweep stands, as pure data: what a person sees of it while it runs.

A board is made from rows. A launch takes them from its plan and the reports of its engine, and
`status --watch` takes them from the store. `sweepd.cli.drawing` draws the board.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import Any, Literal

from sweepd.grid.options import Goal, PassRule
from sweepd.listing import SHORT_ID
from sweepd.search.seeds import Outcome, decide
from sweepd.statuses import DONE, UNTRIED
from sweepd.store.schema import PLAN

MapMark = Literal[
    "untried", "running", "passed", "failed", "stopped", "error", "open", "fails", "passes"
]
"""What a place of the map says. open: its seeds do not decide it yet. fails: it was not tried, but
a smaller size failed. passes: it was not tried, but a smaller value passed. stopped: a rule stopped
some of its trials, and nothing is decided. error: some of its trials failed to run, and nothing is
decided."""
RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Spot:
    """A planned trial, and where it stands on the map."""

    id: str
    task: str
    model: str
    size: int
    seed: int
    settings: tuple[tuple[str, Any], ...]
    steps: int
    train_flops: float
    in_reserve: bool
    """Whether the trial runs only where an answer depends on it."""

    @classmethod
    def of(cls, row: Mapping[str, Any], extra_seeds: Iterable[int] = ()) -> Spot:
        """Returns the spot of a row of a plan. extra_seeds: those that only some cells get."""
        settings = (_setting(*item) for item in row.items() if item[0] not in PLAN.fixed)
        return cls(
            id=row["id"],
            task=row["task"],
            model=row["model"],
            size=row["size"],
            seed=row["seed"],
            settings=tuple(settings),
            steps=int(row.get("steps") or 0),
            train_flops=float(row["train_flops"] or 0.0),
            in_reserve=bool(row.get("on_demand")) or row["seed"] in set(extra_seeds),
        )

    def setting(self, name: str) -> Any:
        """Returns the trial's value of a field, or None if it has no such field."""
        return next((value for field, value in self.settings if field == name), None)


@lru_cache(maxsize=10_000, typed=True)
def _setting(name: str, value: Any) -> tuple[str, Any]:
    """Returns the pair, as one object for all trials that share it. Trials share most of their
    settings, and those of a hundred thousand trials would fill 200 MB."""
    return name, value


@dataclass(frozen=True, slots=True)
class TrialState:
    """How a trial stands. `score` is its score by the goal's metric. `earlier` says whether it
    ended before this launch."""

    status: str = UNTRIED
    step: int = 0
    score: float | None = None
    earlier: bool = False
    error: str | None = None


@dataclass(frozen=True)
class Board:
    """A sweep at one moment."""

    sweep: str
    goal: Goal
    rule: PassRule
    spots: Sequence[Spot]
    states: Mapping[str, TrialState]
    """How each trial that was tried stands, by the trial's id."""
    staircase: bool = False
    """Whether only the cells that the answer needs are run. The map then infers others from
    them."""
    expected: tuple[float, float] | None = None
    """The number of trials and the training FLOPs that this launch is likely to run. If it is None,
    all planned trials count, except those in reserve and those that ended earlier."""
    forecast: tuple[float, float] = (0.0, 0.0)
    """The least and the most seconds that this launch was expected to take."""
    seconds: float = 0.0
    """For how many seconds the launch has run. The launch itself counts from its first step, and
    `status --watch` from the launch's beginning."""
    waiting: str = ""
    """What is being prepared while nothing runs. Empty at other times."""
    errors: Sequence[str] = ()
    """The texts of the latest errors."""
    labels: Mapping[str, str] = field(default_factory=dict)
    minimized: str = "d"
    """The field whose least value is asked for. The rows of the map show its values."""

    def state(self, spot: Spot) -> TrialState:
        return self.states.get(spot.id, TrialState())

    def here(self) -> Iterator[tuple[Spot, TrialState]]:
        """Yields the trials that have ended in this launch."""
        for spot in self.spots:
            state = self.state(spot)
            if state.status in DONE and not state.earlier:
                yield spot, state

    def running(self) -> list[tuple[Spot, TrialState]]:
        found = ((spot, self.state(spot)) for spot in self.spots)
        return [(spot, state) for spot, state in found if state.status == RUNNING]


@dataclass(frozen=True)
class Amount:
    """How much this launch has done, and how much it is likely to do in all. `flops_in_all` is 0
    where some trials do not state theirs. `left` has the least and the most seconds that are left,
    or is None while nobody can tell."""

    trials: int
    trials_in_all: int
    flops: float
    flops_in_all: float
    left: tuple[float, float] | None


def amount(board: Board) -> Amount:
    """Returns what this launch has done, also by trials that still run. It never exceeds what is to
    do."""
    ended, running = list(board.here()), board.running()
    flops = sum(_flops(spot, state) for spot, state in (*ended, *running))
    in_reach = len(ended) + len(running)
    if board.expected is None:
        todo = [s for s in board.spots if not s.in_reserve and not board.state(s).earlier]
        expected = float(len(todo)), sum(spot.train_flops for spot in todo)
    else:
        expected = board.expected
    trials_in_all = max(round(expected[0]), in_reach)
    rest = sum(spot.train_flops - _flops(spot, state) for spot, state in running)
    stated = all(spot.train_flops for spot in board.spots)
    flops_in_all = max(expected[1], flops + rest) if stated else 0.0
    share = len(ended) / trials_in_all if trials_in_all else 1.0
    shares = [share, flops / flops_in_all if flops_in_all else share]
    left = _left(board, shares)
    return Amount(len(ended), trials_in_all, flops, flops_in_all, left)


def _left(board: Board, shares: Sequence[float]) -> tuple[float, float] | None:
    """Returns the least and the most seconds that are left. They follow from the rate so far,
    counted in trials and in FLOPs. Before the first end they follow from the forecast. Returns None
    if there is no finite forecast, or if its time has passed."""
    if min(shares) > 0 and board.seconds > 0:
        found = [board.seconds * (1 - share) / share for share in shares]
        return min(found), max(found)
    low, high = board.forecast
    if not board.seconds < high < inf:
        return None
    return max(0.0, low - board.seconds), high - board.seconds


def _flops(spot: Spot, state: TrialState) -> float:
    if not spot.steps:
        return spot.train_flops if state.status in DONE else 0.0
    return spot.train_flops * min(1.0, state.step / spot.steps)


@dataclass(frozen=True)
class MapPlace:
    """One place of a map. `share` is the share of their budgets that its running trials have run.
    `earlier` says whether all that the place says was known before this launch."""

    mark: MapMark
    share: float = 0.0
    earlier: bool = False


@dataclass(frozen=True)
class Map:
    """The places of one task and model. The key of a place is the value of what is minimised, and
    the size."""

    task: str
    model: str
    values: Sequence[Any]
    sizes: Sequence[int]
    places: Mapping[tuple[Any, int], MapPlace]


def maps(board: Board) -> list[Map]:
    """Returns a map for each task and model."""
    by_pair: dict[tuple[str, str], dict[tuple[Any, int], list[Spot]]] = {}
    for spot in board.spots:
        pair = by_pair.setdefault((spot.task, spot.model), defaultdict(list))
        pair[spot.setting(board.minimized), spot.size].append(spot)
    found = []
    for (task, model), spots in by_pair.items():
        values = sorted({value for value, _ in spots}, key=lambda one: (one is not None, one))
        sizes = sorted({size for _, size in spots})
        places = {at: _place(board, of) for at, of in spots.items()}
        if board.staircase:
            places = {at: _inferred(places, *at) for at in places}
        found.append(Map(task, model, values, sizes, places))
    return found


def _place(board: Board, spots: Sequence[Spot]) -> MapPlace:
    """Returns what the trials of one place say together. A place is as good as its best cell."""
    states = [board.state(spot) for spot in spots]
    tried = [state for state in states if state.status != UNTRIED]
    if running := [(s, t) for s, t in zip(spots, states, strict=True) if t.status == RUNNING]:
        done = sum(min(1.0, state.step / spot.steps) for spot, state in running if spot.steps)
        return MapPlace("running", done / len(running))
    if not tried:
        return MapPlace("untried")
    earlier = all(state.earlier for state in tried)
    cells: dict[Any, list[Spot]] = defaultdict(list)
    for spot in spots:
        cells[spot.settings].append(spot)
    passing = [_passes(board, cell) for cell in cells.values()]
    if True in passing:
        return MapPlace("passed", earlier=earlier)
    statuses = Counter(state.status for state in tried)
    if False in passing:
        return MapPlace("failed", earlier=earlier)
    if statuses["stopped"]:
        return MapPlace("stopped", earlier=earlier)
    return MapPlace("error" if statuses["failed"] else "open", earlier=earlier)


def _passes(board: Board, cell: Sequence[Spot]) -> bool | None:
    """Returns whether a cell passes by the seeds that count, or None while they do not decide it.
    All seeds count, except for those in reserve that are not done."""
    states = [(spot, board.state(spot)) for spot in cell]
    counting = [state for spot, state in states if not spot.in_reserve or state.status in DONE]
    if not any(state.status in DONE for state in counting):
        return None
    outcomes = [
        Outcome(state.status if state.status in DONE else UNTRIED, state.score)
        for state in counting
    ]
    bounds = [outcome.bounds(board.goal) for outcome in outcomes]
    return decide(board.goal, board.rule, bounds)


def _inferred(places: Mapping[tuple[Any, int], MapPlace], value: Any, size: int) -> MapPlace:
    """Returns the place. If it was not tried, it has the mark that monotonicity gives it, if
    any."""
    here = places[value, size]
    if here.mark != "untried" or value is None:
        return here
    if any(p.mark == "failed" and at == value and n < size for (at, n), p in places.items()):
        return MapPlace("fails")
    if any(p.mark == "passed" and n == size and at < value for (at, n), p in places.items()):
        return MapPlace("passes")
    return here


def labels(spots: Sequence[Spot]) -> dict[str, str]:
    """Returns what to call each trial, by its id. This is the first digits of its id, its task and
    model, the settings that differ between the trials of that pair, and its seed."""
    seen: dict[tuple[str, str], dict[str, set[Any]]] = defaultdict(lambda: defaultdict(set))
    for spot in spots:
        for name, value in spot.settings:
            seen[spot.task, spot.model][name].add(value)
    return {
        spot.id: " ".join(
            [
                spot.id[:SHORT_ID],
                spot.task,
                spot.model,
                *(f"{n}={v}" for n, v in spot.settings if len(seen[spot.task, spot.model][n]) > 1),
                f"seed={spot.seed}",
            ]
        )
        for spot in spots
    }
