"""How a sweep stands, as pure data: what a person sees of it while it runs.

A board is made from rows. A launch takes them from its plan and the reports of its engine, and
`status --watch` takes them from the store. Below, it is drawn as lines of text for a terminal of
any width.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from sweepd.grid.options import Goal, PassRule
from sweepd.judge.cells import FAIL, OPEN, PASS, at_budgets, over_budgets, over_rates
from sweepd.listing import SHORT_ID, Row, duration, in_lines, shown
from sweepd.statuses import DONE, UNTRIED
from sweepd.store.endings import in_reserve
from sweepd.store.schema import PLAN
from sweepd.store.sweeps import SweepInfo

if TYPE_CHECKING:
    from rich.console import RenderableType

SIGNS = {
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
"""What a place of the map may say: the sign of each mark, how the sign looks, and what it means.
stopped, error: this befell some of its trials, and nothing is decided. fails, passes: it was not
tried."""
EARLIER = "(in brackets: known before this launch)"
COLUMN, GAP = 5, 3
"""The width of a column of a map, and the distance between maps, in characters."""
MOST_RUNNING = 4
"""How many running trials a board shows at most."""
BAR = 20
RUNNING = "running"
MOST_ERRORS = 3
"""How many errors a board shows at most, of which the last is the latest."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A planned trial, and where it stands on the map."""

    id: str
    task: str
    model: str
    size: int
    value: Any
    """The trial's value of what is minimised, or None if it has no such field."""
    seed: int
    settings: tuple[tuple[str, Any], ...]
    steps: int
    train_flops: float
    first: bool
    """Whether its seed counts in its cell before it has ended."""
    in_reserve: bool
    """Whether the trial runs only where an answer depends on it."""


shared = lru_cache(maxsize=10_000, typed=True)(lambda *setting: setting)
"""Returns a setting as one object for all trials that have it. Trials share most of their settings,
and those of a hundred thousand trials would fill 200 MB."""


@dataclass(frozen=True, slots=True)
class TrialState:
    """How a trial stands. `score` is its score by the goal's metric. `earlier` says whether it
    ended before this launch."""

    status: str = UNTRIED
    step: int = 0
    score: float | None = None
    earlier: bool = False


@dataclass(frozen=True)
class Board:
    """A sweep at one moment. Whoever shows it makes one of the plan, and again and again replaces
    what has changed."""

    sweep: str
    goal: Goal
    rule: PassRule
    spots: Mapping[str, Spot]
    """The planned trials by id."""
    varying: Mapping[tuple[str, str], frozenset[str]]
    """The settings in which the trials of each task and model differ."""
    minimized: str
    """The field whose least value is asked for. The rows of the map show its values."""
    staircase: bool
    """Whether only the cells that the answer needs are run. The map then infers others from
    them."""
    settles: bool
    """Whether trials with other steps are longer ones of the same cells."""
    states: Mapping[str, TrialState] = field(default_factory=dict)
    """How each trial that was tried stands, by the trial's id."""
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

    @classmethod
    def of(cls, sweep: str, info: SweepInfo, rows: Iterable[Row]) -> Self:
        """Returns the board of a sweep of which nothing has run. rows: those of its plan."""
        extra = {*info.extra_seeds, *info.fresh_seeds}
        spots: dict[str, Spot] = {}
        values: dict[tuple[str, str], dict[str, set[Any]]] = {}
        for row in rows:
            settings = tuple(shared(*item) for item in row.items() if item[0] not in PLAN.fixed)
            seen = values.setdefault((row["task"], row["model"]), defaultdict(set))
            for name, value in settings:
                seen[name].add(value)
            place = row["id"], row["task"], row["model"], row["size"]
            value, steps = dict(settings).get(info.minimized), int(row.get("steps") or 0)
            flops = float(row["train_flops"] or 0.0)
            seed, reserve = row["seed"], in_reserve(row.get("on_demand"), row["seed"], extra)
            counts = seed not in extra
            trial = Spot(*place, value, seed, settings, steps, flops, counts, reserve)
            spots[row["id"]] = trial
        varying = {
            pair: frozenset(name for name, found in seen.items() if len(found) > 1)
            for pair, seen in values.items()
        }
        goal, rule = Goal.parse(info.goal), cast(PassRule, info.pass_rule)
        staircase = info.search == "staircase"
        settles = bool(info.settle)
        return cls(sweep, goal, rule, spots, varying, info.minimized, staircase, settles)

    def label(self, trial: str) -> str:
        """Returns what to call a trial: the first digits of its id, its task and model, the
        settings that differ between the trials of that pair, and its seed."""
        spot = self.spots[trial]
        differ = self.varying[spot.task, spot.model]
        settings = [f"{name}={value}" for name, value in spot.settings if name in differ]
        words = [trial[:SHORT_ID], spot.task, spot.model, *settings, f"seed={spot.seed}"]
        return shown(" ".join(map(str, words)))

    def state(self, spot: Spot) -> TrialState:
        return self.states.get(spot.id, TrialState())

    def running(self) -> list[tuple[Spot, TrialState]]:
        now = ((spot, self.state(spot)) for spot in self.spots.values())
        return [(spot, state) for spot, state in now if state.status == RUNNING]


@dataclass(frozen=True)
class Amount:
    """How much this launch has done, and is likely to do in all. `flops_in_all` is 0 where some
    trials do not state theirs. `left`: the least and the most seconds that are left, if known."""

    trials: int
    trials_in_all: int
    flops: float
    flops_in_all: float
    left: tuple[float, float] | None


def amount(board: Board) -> Amount:
    """Returns what this launch has done, also by trials that still run. It never exceeds what is to
    do."""
    states = [(spot, board.state(spot)) for spot in board.spots.values()]
    ended = running = 0
    flops = rest = 0.0
    for spot, state in states:
        runs, ends = state.status == RUNNING, state.status in DONE and not state.earlier
        if runs or ends:
            share = min(1.0, state.step / spot.steps) if spot.steps else float(ends)
            flops += spot.train_flops * share
            rest += spot.train_flops * (1 - share) if runs else 0.0
        running, ended = running + runs, ended + ends
    if board.expected is None:
        todo = [spot for spot, state in states if not spot.in_reserve and not state.earlier]
        expected = float(len(todo)), sum(spot.train_flops for spot in todo)
    else:
        expected = board.expected
    trials_in_all = max(round(expected[0]), ended + running)
    stated = all(spot.train_flops for spot in board.spots.values())
    flops_in_all = max(expected[1], flops + rest) if stated else 0.0
    share = ended / trials_in_all if trials_in_all else 1.0
    shares = [share, flops / flops_in_all if flops_in_all else share]

    # The time that is left follows from the rate so far, counted in trials and in FLOPs. Before the
    # first end it follows from the estimate, until that has passed.
    left = None
    low, high = board.estimate
    if min(shares) > 0 and board.seconds > 0:
        times = [board.seconds * (1 - share) / share for share in shares]
        left = min(times), max(times)
    elif board.seconds < high < inf:
        left = max(0.0, low - board.seconds), high - board.seconds
    return Amount(ended, trials_in_all, flops, flops_in_all, left)


@dataclass(frozen=True)
class MapPlace:
    """One place of a map. `share` is the share of their budgets that its running trials have run.
    `earlier` says whether all that the place says was known before this launch."""

    mark: str
    share: float = 0.0
    earlier: bool = False


def maps(board: Board) -> dict[tuple[str, str], dict[tuple[Any, int], MapPlace]]:
    """Returns the map of each task and model: its places, by the value of what is minimised and the
    size."""
    spots: dict[tuple[str, str], dict[tuple[Any, int], list[Spot]]] = {}
    for spot in board.spots.values():
        pair = spots.setdefault((spot.task, spot.model), defaultdict(list))
        pair[spot.value, spot.size].append(spot)
    found = {}
    for of, members in spots.items():
        places = found[of] = {at: _place(board, here) for at, here in members.items()}
        # On a staircase, a place that was not tried has the mark that monotonicity gives it, if
        # any.
        marks = {at: place.mark for at, place in places.items()}
        for (value, size), mark in marks.items() if board.staircase else ():
            if mark == "untried" and value is not None:
                if any(m == "failed" and v == value and n < size for (v, n), m in marks.items()):
                    places[value, size] = MapPlace("fails")
                elif any(m == "passed" and n == size and v < value for (v, n), m in marks.items()):
                    places[value, size] = MapPlace("passes")
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
    # By nuisance values, the cells with their budgets.
    rates: dict[Any, dict[int, list[Spot]]] = defaultdict(lambda: defaultdict(list))
    for spot in spots:
        rate = tuple(i for i in spot.settings if i[0] != "steps" or not board.settles)
        rates[rate][spot.steps].append(spot)
    by_rate = [_shown(board, [cells[steps] for steps in sorted(cells)]) for cells in rates.values()]
    known = np.array([outcome for outcome in by_rate if outcome is not None], np.int64)
    one = np.zeros(len(known), np.int64)
    outcome = int(over_rates(known, one, 1)[0]) if known.size else OPEN
    statuses = {state.status for state in tried}
    mark = "open"
    if outcome == PASS:
        mark = "passed"
    elif outcome == FAIL:
        mark = "failed"
    elif "stopped" in statuses:
        mark = "stopped"
    elif "failed" in statuses:
        mark = "error"
    return MapPlace(mark, earlier=all(state.earlier for state in tried))


def _shown(board: Board, cells: Sequence[Sequence[Spot]]) -> int | None:
    """Returns what cells have shown that differ in their budgets alone, the least budget first.
    Returns None where there is nothing to wait for: all are in reserve, and none has begun."""
    endings, planned = [], []
    for cell in cells:
        states = {spot.seed: board.state(spot) for spot in cell}
        ended = {seed: state for seed, state in states.items() if state.status in DONE}
        if ended or not all(spot.in_reserve for spot in cell):
            endings.append(ended)
            planned.append({spot.seed for spot in cell if spot.first})
    if not endings:
        return None
    outcomes, _ = at_budgets(board.goal, board.rule, endings, planned)
    return int(over_budgets(np.array(outcomes), np.zeros(len(outcomes), np.int64), 1)[0])


def drawn(board: Board, width: int, interrupt: str) -> RenderableType:
    """Returns the whole board, in lines that fit the width. interrupt: a sentence on what Ctrl-C
    does. It is empty once the sweep has ended."""
    # These take a while to import, and most boards are never drawn.
    from rich.columns import Columns
    from rich.console import Group
    from rich.constrain import Constrain
    from rich.text import Text

    lines: list[Text] = [Text(f"sweep {board.sweep}: {board.goal}, {board.rule} of seeds", "bold")]
    if board.waiting:
        lines.append(Text(f"{board.waiting} …", "cyan"))
    else:
        found = amount(board)
        share = found.trials / found.trials_in_all if found.trials_in_all else 1.0
        flops = []  # unknown for a loop without `cost`
        if found.flops_in_all:
            share = found.flops / found.flops_in_all
            flops = [f"{found.flops:.2g} of {_about(board)}{found.flops_in_all:.2g} FLOPs"]
        filled = round(BAR * share)
        parts = [
            f"{'━' * filled}{'╌' * (BAR - filled)} {share:.0%}",
            f"{found.trials} of {_about(board)}{found.trials_in_all} trials",
            *flops,
        ]
        if board.seconds:
            rate = 60 * found.trials / board.seconds
            parts.append(f"{rate:.{rate < 10:d}f} trials/min")
        if found.left is not None and found.trials < found.trials_in_all:
            parts.append(f"{_span(found.left)} left")
        lines += map(Text, in_lines(parts, width, " · "))
    running = board.running()
    for spot, state in running[:MOST_RUNNING]:
        end = f" {_step(board, spot, state)}"
        label = Text(f"▸ {board.label(spot.id)}", "cyan")
        label.truncate(width - len(end), overflow="ellipsis")
        lines.append(label.append(end))
    if more := len(running[MOST_RUNNING:]):
        lines.append(Text(f"▸ and {more} more", "cyan"))
    lines += [Text(shown(error), "red") for error in board.errors]

    # The maps side by side, as many as fit, and then what their signs mean.
    blocks = []
    used: set[str] = set()
    known_before = False
    for (task, model), places in maps(board).items():
        # A title, a line of sizes, and a line for each value of what is minimised.
        values = sorted({value for value, _ in places}, key=lambda one: (one is not None, one))
        sizes = sorted({size for _, size in places})
        heads = ["" if value is None else shown(str(value)) for value in values]
        stub = max(len(board.minimized), *map(len, heads))
        above = "".join(str(size).rjust(COLUMN) for size in sizes)
        block = [
            Text(shown(f"{task} {model}"), "bold"),
            Text(board.minimized.rjust(stub) + above, "dim"),
        ]
        for value, head in zip(values, heads, strict=True):
            block.append(Text(head.rjust(stub)))
            for size in sizes:
                sign = style = ""
                if place := places.get((value, size)):
                    sign, style, _ = SIGNS[place.mark]
                    used.add(place.mark)
                    known_before = known_before or place.earlier
                    if place.mark == "running":
                        sign = f"{place.share:.0%}"
                    elif place.earlier:
                        sign, style = f"({sign})", f"dim {style}"
                block[-1].append(sign.rjust(COLUMN), style)
        blocks.append(Text("\n").join([*block, Text()]))
    least = board.minimized or "value"
    legend = [f"{board.minimized} down, size across" if board.minimized else "size across"]
    legend += [
        f"{sign} {means.format(least=least)}"
        for mark, (sign, _, means) in SIGNS.items()
        if mark in used
    ]
    legend += [EARLIER] if known_before else []
    below = [Text(text, "dim") for text in in_lines(legend, width)]
    below += [Text(interrupt, "dim")] if interrupt else []
    for text in (*lines, *blocks, *below):
        text.no_wrap, text.overflow = True, "ellipsis"
    maps_beside = Columns(blocks, padding=(0, GAP))
    return Constrain(Group(*lines, Text(), maps_beside, *below), width)


def line(board: Board) -> str:
    """Returns the board in one line, for where there is no terminal."""
    found = amount(board)
    text = f"{found.trials}/{_about(board)}{found.trials_in_all} done"
    if board.seconds:
        text += f" after {duration(board.seconds)}"
    if found.left is not None and found.trials < found.trials_in_all:
        text += f", about {_span(found.left)} left"
    running = [f"{board.label(one.id)} {_step(board, one, at)}" for one, at in board.running()]
    now = board.waiting or (f"running: {'; '.join(running)}" if running else "")
    return f"{text}; {now}" if now else text


def _step(board: Board, spot: Spot, state: TrialState) -> str:
    """Returns the step that a trial is at, of how many, and its score, where these are known."""
    score = "" if state.score is None else f", {board.goal.metric} {state.score:.2f}"
    return f"step {state.step}{f'/{spot.steps}' if spot.steps else ''}{score}"


def _span(seconds: tuple[float, float]) -> str:
    low, high = map(duration, seconds)
    return low if low == high else f"{low} to {high}"


def _about(board: Board) -> str:
    """Returns the sign before numbers that are not known exactly, or nothing before those that
    are."""
    if board.expected is not None:
        return "~"
    return "≤" if board.staircase else ""
