"""How a sweep stands, as pure data: what a person sees of it while it runs.

A board is made from rows. A launch takes them from its plan and the reports of its engine, and
`status --watch` takes them from the store. Below, it is drawn as lines of text for a terminal of
any width.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import zip_longest
from math import inf
from typing import Any, Literal

from rich.text import Text

from sweepd.cli.output import command
from sweepd.grid.options import Goal, PassRule
from sweepd.listing import SHORT_ID, duration
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
KEPT_ERRORS = 20


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
    estimate: tuple[float, float] = (0.0, 0.0)
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


class BoardMaker:
    """Makes the boards of one sweep from what is told of it: by the engine of a launch, or by the
    store. `states` and `errors` hold what was told last."""

    def __init__(
        self, rows: Iterable[Mapping[str, Any]], extra_seeds: Iterable[int], **fixed: Any
    ) -> None:
        """rows: the sweep's plan. extra_seeds: those that only some cells get. fixed: the fields
        that all of its boards share."""
        extra = frozenset(extra_seeds)
        self.spots = [Spot.of(row, extra) for row in rows]
        self.labels = labels(self.spots)
        self.states: dict[str, TrialState] = {}
        self.errors: list[str] = []
        self.fixed = fixed

    def failed(self, trial: str, why: str, address: str) -> None:
        """Notes that an attempt failed. address: where the results lie, and so the log."""
        logs = command("logs", trial, results=address)
        text = f"{self.labels[trial]}: failed{why} (`{logs}`)"
        self.errors = [*self.errors, text][-KEPT_ERRORS:]

    def board(self, **now: Any) -> Board:
        """Returns the board with these other fields."""
        return Board(
            spots=self.spots,
            labels=self.labels,
            states=dict(self.states),
            errors=tuple(self.errors),
            **self.fixed,
            **now,
        )


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
    counted in trials and in FLOPs. Before the first end they follow from the estimate. Returns None
    if there is no finite estimate, or if its time has passed."""
    if min(shares) > 0 and board.seconds > 0:
        found = [board.seconds * (1 - share) / share for share in shares]
        return min(found), max(found)
    low, high = board.estimate
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


SIGNS: dict[MapMark, tuple[str, str, str]] = {
    "untried": ("·", "dim", "not tried"),
    "running": ("%", "cyan", "running, so much done"),
    "passed": ("✓", "green", "passed"),
    "failed": ("✗", "red", "failed"),
    "stopped": ("■", "yellow", "stopped by a rule"),
    "error": ("!", "bold red", "error"),
    "open": ("○", "yellow", "not decided"),
    "fails": ("↑", "dim", "fails, as a smaller size does"),
    "passes": ("↓", "dim", "passes, as a smaller {least} does"),
}
"""The sign of each mark on the map, how the sign looks, and what it means."""
EARLIER = "(in brackets: known before this launch)"
COLUMN = 5
GAP = 3
MOST_ERRORS = 3
MOST_RUNNING = 4
BAR = 20


def drawn(board: Board, width: int, interrupt: str) -> Text:
    """Returns the whole board. interrupt: a sentence on what Ctrl-C does. It is empty once the
    sweep has ended."""
    lines = [
        *_headline(board, width),
        *_running(board, width),
        *_errors(board, width),
        Text(),
        *_maps(board, width),
    ]
    if interrupt:
        lines.append(Text(_shortened(interrupt, width), style="dim"))
    return Text("\n").join(lines)


def _headline(board: Board, width: int) -> Iterator[Text]:
    yield Text(
        _shortened(f"sweep {board.sweep}: {board.goal}, {board.rule} of seeds", width), "bold"
    )
    if board.waiting:
        yield Text(_shortened(f"{board.waiting} …", width), style="cyan")
        return
    found = amount(board)
    share = found.trials / found.trials_in_all if found.trials_in_all else 1.0
    flops = []  # unknown for a loop without `cost`
    if found.flops_in_all:
        share = found.flops / found.flops_in_all
        flops = [f"{found.flops:.2g} of {_about(board)}{found.flops_in_all:.2g} FLOPs"]
    filled = round(BAR * share)
    bar = "━" * filled + "╌" * (BAR - filled)
    parts = [
        f"{bar} {share:.0%}",
        f"{found.trials} of {_about(board)}{found.trials_in_all} trials",
        *flops,
    ]
    if board.seconds:
        rate = 60 * found.trials / board.seconds
        parts.append(f"{rate:.{rate < 10:d}f} trials/min")
    if found.left is not None and found.trials < found.trials_in_all:
        parts.append(f"{_span(found.left)} left")
    yield from map(Text, _wrapped(parts, " · ", width))


def line(board: Board) -> str:
    """Returns the board in one line, for where there is no terminal."""
    found = amount(board)
    told = f"{found.trials}/{_about(board)}{found.trials_in_all} done"
    if board.seconds:
        told += f" after {duration(board.seconds)}"
    if found.left is not None and found.trials < found.trials_in_all:
        told += f", about {_span(found.left)} left"
    running = [
        f"{board.labels.get(spot.id, spot.id)} {_step(spot, state)}"
        + ("" if state.score is None else f" {board.goal.metric} {state.score:.2f}")
        for spot, state in board.running()
    ]
    now = board.waiting or (f"running: {'; '.join(running)}" if running else "")
    return f"{told}; {now}" if now else told


def _step(spot: Spot, state: TrialState) -> str:
    """Returns the step that a trial is at, and of how many if that is known."""
    return f"step {state.step}" + (f"/{spot.steps}" if spot.steps else "")


def _span(seconds: tuple[float, float]) -> str:
    low, high = map(duration, seconds)
    return low if low == high else f"{low} to {high}"


def _about(board: Board) -> str:
    """Returns the sign before numbers that are not known exactly, or nothing before those that
    are."""
    if board.expected is not None:
        return "~"
    return "≤" if board.staircase else ""


def _running(board: Board, width: int) -> Iterator[Text]:
    running = board.running()
    for spot, state in running[:MOST_RUNNING]:
        score = "" if state.score is None else f", {board.goal.metric} {state.score:.2f}"
        end = f"{_step(spot, state)}{score}"
        label = _shortened(board.labels.get(spot.id, spot.id), width - len(end) - 3)
        yield Text(f"▸ {label} {end}", style="cyan")
    if more := len(running[MOST_RUNNING:]):
        yield Text(f"▸ and {more} more", style="cyan")


def _errors(board: Board, width: int) -> Iterator[Text]:
    for error in board.errors[-MOST_ERRORS:]:
        yield Text(_shortened(error, width), style="red")


def _maps(board: Board, width: int) -> Iterator[Text]:
    """Yields the maps side by side, as many as fit, and then what their signs mean."""
    found = maps(board)
    blocks = [_map(one, board.minimized) for one in found]
    row: list[list[Text]] = []
    for block in blocks:
        if row and sum(one[0].cell_len + GAP for one in [*row, block]) - GAP > width:
            yield from _beside(row)
            row = []
        row.append(block)
    if row:
        yield from _beside(row)
    places = [place for one in found for place in one.places.values()]
    used = {place.mark for place in places}
    told = [f"{board.minimized} down, size across" if board.minimized else "size across"]
    least = board.minimized or "value"
    told += [
        f"{sign} {means.format(least=least)}"
        for mark, (sign, _, means) in SIGNS.items()
        if mark in used
    ]
    if any(place.earlier for place in places):
        told.append(EARLIER)
    for text in _wrapped(told, "   ", width):
        yield Text(text, style="dim")


def _beside(blocks: Sequence[Sequence[Text]]) -> Iterator[Text]:
    for lines in zip_longest(*blocks):
        joined = Text()
        for block, line in zip(blocks, lines, strict=True):
            shown = line.copy() if line is not None else Text()
            shown.pad_right(block[0].cell_len - shown.cell_len + GAP)
            joined.append_text(shown)
        joined.rstrip()
        yield joined
    yield Text()


def _map(one: Map, minimized: str) -> list[Text]:
    """Returns a title, a line of sizes, and a line for each value of what is minimised. The title
    is as wide as the widest line."""
    heads = [str(value) if value is not None else "" for value in one.values]
    stub = max(len(minimized), *map(len, heads))
    title = f"{one.task} {one.model}"
    room = max(len(title), stub + COLUMN * len(one.sizes))
    lines = [Text(title.ljust(room), style="bold")]
    sizes = "".join(str(size).rjust(COLUMN) for size in one.sizes)
    lines.append(Text(f"{minimized.rjust(stub)}{sizes}", style="dim"))
    for value, head in zip(one.values, heads, strict=True):
        line = Text(head.rjust(stub))
        for size in one.sizes:
            line.append_text(_sign(one.places.get((value, size))))
        lines.append(line)
    return lines


def _sign(place: MapPlace | None) -> Text:
    if place is None:
        return Text(" " * COLUMN)
    sign, style, _ = SIGNS[place.mark]
    if place.mark == "running":
        sign = f"{place.share:.0%}"
    elif place.earlier:
        sign, style = f"({sign})", f"dim {style}"
    return Text(sign.rjust(COLUMN), style=style)


def _wrapped(parts: Sequence[str], gap: str, width: int) -> list[str]:
    """Returns the parts side by side, in lines that fit."""
    lines: list[str] = []
    for part in (_shortened(part, width) for part in parts):
        if lines and len(lines[-1]) + len(gap) + len(part) <= width:
            lines[-1] += gap + part
        else:
            lines.append(part)
    return lines


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(1, width - 1)]}…"
