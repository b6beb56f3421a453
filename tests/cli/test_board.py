"""The board that shows a running sweep. Its content is a pure function of rows: what the map says
of each place, what is done and what is left. How it is drawn is compared with pictures in text.
Covers `cli/board.py`."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from fake_store import planned
from hypothesis import given
from hypothesis import strategies as st
from looped import loop
from rich.console import Console

from sweepd.cli.board import RUNNING, Board, TrialState, amount, drawn, line, maps
from sweepd.listing import Row
from sweepd.statuses import DONE, STATUSES
from sweepd.store.sweeps import SweepInfo

ROWS = [
    {**planned(n, d, seed, steps=100), "train_flops": 1e6 * d}
    for n in (4, 6)
    for d in (8, 16)
    for seed in (0, 1)
]
IDS = {(row["size"], row["d"], row["seed"]): row["id"] for row in ROWS}


def of(
    rows: Sequence[Row], reserve: tuple[int, ...] = (), least: str = "d", goal: str = "acc > 0.9"
) -> Board:
    return Board.of("s", SweepInfo(goal=goal, extra_seeds=reserve, minimized=least), rows)


BOARD = of(ROWS)


def board(states: dict[tuple[int, int, int], TrialState], **more: Any) -> Board:
    return replace(BOARD, states={IDS[at]: state for at, state in states.items()}, **more)


def shown(found: Board, width: int = 79, interrupt: str = "") -> list[str]:
    """The lines of the board on a terminal that is wider."""
    console = Console(width=200)
    with console.capture() as printed:
        console.print(drawn(found, width, interrupt))
    return [text.rstrip() for text in printed.get().splitlines()]


def marks(found: Board) -> dict[tuple[Any, int], str]:
    [places] = maps(found).values()
    return {at: place.mark for at, place in places.items()}


def ended(score: float, **more: Any) -> TrialState:
    return TrialState("completed", 100, score, **more)


def test_a_place_says_what_its_seeds_say() -> None:
    found = board(
        {
            (4, 8, 0): ended(0.5),
            (4, 8, 1): ended(0.6),
            (4, 16, 0): ended(0.95),
            (4, 16, 1): ended(0.99),
            (6, 8, 0): TrialState(RUNNING, 30),
            (6, 8, 1): TrialState(RUNNING, 50),
            (6, 16, 0): ended(0.95),
        }
    )
    wanted = {(8, 4): "failed", (16, 4): "passed", (8, 6): "running", (16, 6): "open"}
    assert marks(found) == wanted
    [places] = maps(found).values()
    assert places[8, 6].share == 0.4


@pytest.mark.parametrize(
    ("state", "mark"),
    [
        (TrialState("stopped", 50, 0.3), "stopped"),
        (TrialState("failed", 0), "error"),
        (TrialState("interrupted", 10), "open"),
        (TrialState("diverged", 10), "failed"),
    ],
)
def test_other_endings(state: TrialState, mark: str) -> None:
    assert marks(board({(4, 8, 0): state}))[8, 4] == mark
    known = replace(state, earlier=True)
    [places] = maps(board({(4, 8, 0): known, (4, 8, 1): known})).values()
    assert places[8, 4].mark == mark and places[8, 4].earlier


def test_a_staircase_infers_what_it_does_not_try() -> None:
    states = {(4, 8, s): ended(0.5) for s in (0, 1)} | {(4, 16, s): ended(0.95) for s in (0, 1)}
    assert marks(board(states, staircase=True))[8, 6] == "fails"
    passed = {(6, 8, s): ended(0.95) for s in (0, 1)}
    assert marks(board(passed, staircase=True))[16, 6] == "passes"
    assert marks(board(passed))[16, 6] == "untried"


def test_seeds_in_reserve_count_once_they_have_run() -> None:
    reserved = of(ROWS, reserve=(1,)).spots
    one = board({(4, 8, 0): ended(0.95)}, spots=reserved)
    assert marks(one)[8, 4] == "passed"
    two = board({(4, 8, 0): ended(0.95), (4, 8, 1): ended(0.2)}, spots=reserved)
    assert marks(two)[8, 4] == "failed"


states = st.builds(
    TrialState,
    st.sampled_from([*STATUSES, RUNNING]),
    st.integers(0, 120),
    st.none() | st.floats(0, 1),
    st.booleans(),
)


@given(
    st.dictionaries(st.sampled_from([*BOARD.spots]), states),
    st.none() | st.tuples(st.floats(0, 20), st.floats(0, 1e9)),
    st.floats(0, 1e6),
    st.integers(20, 120),
)
def test_nothing_passes_its_end_and_every_line_fits(
    found: dict[str, TrialState], expected: tuple[float, float] | None, seconds: float, width: int
) -> None:
    here = replace(
        BOARD, rule="all", states=found, staircase=True, expected=expected, seconds=seconds
    )
    told = amount(here)
    assert 0 <= told.trials <= told.trials_in_all and told.flops <= told.flops_in_all * (1 + 1e-9)
    assert told.trials == sum(s.status in DONE and not s.earlier for s in found.values())
    if told.left:
        assert 0 <= told.left[0] <= told.left[1]
    room = max(width, 40)
    assert max(map(len, shown(here, room, "Ctrl-C"))) <= room


def test_time_left_is_a_range_and_begins_as_the_forecast() -> None:
    fresh = board({}, estimate=(10.0, 60.0), seconds=4.0)
    assert amount(fresh).left == (6.0, 56.0)
    half = board({(4, 8, 0): ended(0.5), (4, 8, 1): ended(0.5)}, seconds=60.0)
    assert amount(half).trials_in_all == 8
    assert amount(half).left == pytest.approx((180.0, 300.0))


def test_what_was_done_before_is_no_part_of_this_launch() -> None:
    found = amount(board({(4, 8, 0): ended(0.5, earlier=True)}))
    assert (found.trials, found.trials_in_all) == (0, 7)


def picture() -> Board:
    return board(
        {
            (4, 8, 0): ended(0.5, earlier=True),
            (4, 8, 1): ended(0.6, earlier=True),
            (4, 16, 0): ended(0.95),
            (4, 16, 1): ended(0.99),
            (6, 16, 0): TrialState(RUNNING, 37, 0.4),
        },
        staircase=True,
        expected=(5.0, 8e7),
        seconds=91.0,
        errors=["1a2b: failed: no memory (`sweepd logs 1a2b`)"],
    )


def test_the_picture() -> None:
    name = IDS[6, 16, 0][:8]
    assert shown(picture(), 79, "Ctrl-C ends it") == [
        "sweep s: acc > 0.9, median of seeds",
        "━━━━━━━━━╌╌╌╌╌╌╌╌╌╌╌ 47% · 2 of ~5 trials · 3.8e+07 of ~8e+07 FLOPs",
        "1.3 trials/min · 2 min left",
        f"▸ {name} lis standard n=6 d=16 seed=0 step 37/100, acc 0.40",
        "1a2b: failed: no memory (`sweepd logs 1a2b`)", "", "lis standard", " d    4    6",
        " 8  (✗)    ↑", "16    ✓  37%", "",
        "d down, size across   % running, so much done   ✓ passed   ✗ failed",
        "↑ fails, as a smaller size does   (in brackets: known before this launch)",
        "Ctrl-C ends it",
    ]  # fmt: skip


def test_unknown_flops_are_left_out_and_the_share_is_that_of_trials() -> None:
    free = of([{**row, "train_flops": 0.0} for row in ROWS]).spots
    lines = shown(replace(picture(), spots=free, expected=None))
    assert lines[1] == "━━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌ 33% · 2 of ≤6 trials · 1.3 trials/min · 3 min left"
    assert "120 trials/min" in shown(replace(picture(), seconds=1.0))[2]


def test_before_the_first_step_it_says_what_it_waits_for() -> None:
    assert shown(board({}, waiting="starting Ray"))[1] == "starting Ray …"
    assert line(board({}, waiting="starting Ray")) == "0/8 done; starting Ray"


def test_maps_stand_side_by_side_where_there_is_room() -> None:
    here = of([planned(4, 8, model=f"model{i}", steps=10) for i in range(4)])
    for width, at_once in ((30, 2), (80, 4)):
        titles = [x for x in shown(here, width) if "lis model" in x]
        assert [title.count("lis") for title in titles] == [at_once] * (4 // at_once)


def test_one_line_where_there_is_no_terminal() -> None:
    name = IDS[6, 16, 0][:8]
    assert line(picture()) == (
        "2/~5 done after 2 min, about 2 min left; running: "
        f"{name} lis standard n=6 d=16 seed=0 step 37/100, acc 0.40"
    )


def test_the_rows_of_a_loop_are_what_its_grid_minimises() -> None:
    rows = [loop(n, hidden) for n in (2, 3) for hidden in (4, 8)]
    states = {
        rows[0]["id"]: TrialState("completed", 10, 0.9),
        rows[3]["id"]: TrialState("completed", 10, 0.1),
    }
    found = replace(of(rows, least="hidden", goal="f1 > 0.8"), states=states, staircase=True)
    assert marks(found) == {
        (4, 2): "passed", (8, 2): "passes", (4, 3): "untried", (8, 3): "failed",
    }  # fmt: skip
    text = "\n".join(shown(found))
    assert "hidden    2    3" in text and "     4    ✓    ·" in text
    assert "hidden down, size across" in text and "as a smaller hidden does" in text
    assert "years" not in line(replace(found, estimate=(1.0, inf), seconds=0.5))
