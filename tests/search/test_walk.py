"""The staircase on one line of the grid. On every monotone surface it finds the boundary. It tries
no more cells than it may, and none above the boundary. It tests its assumption and the values that
it only inferred. Where the assumption fails it looks closer."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.search.walk import Known, Position, SearchLine

SIZES, WIDTHS = (4, 6, 8, 10), (8, 16, 32, 64, 128, 256)


def line(
    spot_checks: int = 0, sizes: Iterable[int] = SIZES, widths: Iterable[int] = WIDTHS
) -> SearchLine:
    return SearchLine({(s, w): s * w**2 for s, w in product(sizes, widths)}, spot_checks)


MINIMA = st.lists(st.sampled_from([*WIDTHS, math.inf]), min_size=4, max_size=4)
MONOTONE = MINIMA.map(sorted)


def surface(minima: Sequence[float]) -> Callable[[Position], bool]:
    least: dict[float, float] = dict(zip(SIZES, minima, strict=True))
    return lambda position: position[1] >= least[position[0]]


@given(MONOTONE)
def test_the_walk_finds_every_monotone_boundary(minima: list[float]) -> None:
    tried = line().complete({}, surface(minima))
    for size, least in zip(SIZES, minima, strict=True):
        passed = [width for at, width in tried if at == size and tried[at, width]]
        assert passed == ([least] if least < math.inf else []), "nothing above it, and it alone"
        failed = max((w for (s, w), ok in tried.items() if s <= size and not ok), default=0)
        narrower = [width for width in WIDTHS if width < least]
        assert failed == max(narrower, default=0)
    assert len(tried) <= len(SIZES) + len(WIDTHS) - 1


@given(MONOTONE, st.integers(0, 3))
def test_spot_checks_lie_off_the_walk_on_either_side(minima: list[float], count: int) -> None:
    walked = line().complete({}, surface(minima))
    checked = line(count).complete({}, surface(minima))
    extra = {p: ok for p, ok in checked.items() if p not in walked}
    assert walked.items() <= checked.items()
    above, below = list(extra.values()).count(True), list(extra.values()).count(False)
    for found, side in ((above, True), (below, False)):
        there = [
            (size, width)
            for size, width in product(SIZES, WIDTHS)
            if surface(minima)((size, width)) is side and (size, width) not in walked
        ]
        inferred = [
            (size, width)
            for size, width in there
            if not side and surface(minima)((size, width * 2)) and width * 2 in WIDTHS
        ]
        assert found == min(max(count, len(inferred)), len(there)) if count else found == 0
        assert not count or extra.keys() >= set(inferred)
    roles = line(count).roles(checked, checked)
    assert {p for p, role in roles.items() if role == "walk"} == walked.keys()
    assert {p for p, role in roles.items() if role == "spot check"} == extra.keys()


def test_a_contradiction_widens_the_search_around_it() -> None:
    known = line().complete({}, surface([16, 32, 32, 64]))
    known[10, 256] = False  # though 64 passed there
    beside_failure, beside_pass = {(10, 128), (8, 256)}, {(10, 128), (8, 64)}
    assert set(line().wanted(known)) == beside_failure | beside_pass
    tried = {**known, **line().complete(known, lambda p: p != (10, 128))}
    roles = line().roles(tried, tried)
    assert roles[10, 128] == roles[8, 64] == "widened"


def test_a_failure_at_a_smaller_size_is_no_failure_where_the_cell_itself_passed() -> None:
    known: Known = {(4, 8): False, (4, 16): True, (6, 8): True}
    _, step = line().walk(known)
    assert step == (8, 16), "8 failed at size 4, so size 8 starts above it"
    assert line().walk({**known, (4, 8): True})[1] == (8, 8)


def test_cells_without_a_verdict_are_passed_by() -> None:
    known: Known = {(4, 8): False, (4, 16): None}
    assert line().walk(known) == ([(4, 8), (4, 16)], (4, 32))


@given(MONOTONE, st.integers(0, 10))
def test_a_forecast_names_what_may_come_next(minima: list[float], steps: int) -> None:
    known: dict[Position, bool] = {}
    for _ in range(steps):
        if step := line().walk(known)[1]:
            known[step] = surface(minima)(step)
    _, step = line().walk(known)
    forecast = dict(line().forecast(known, 0.25))
    assert all(0.25 <= chance <= 1 for chance in forecast.values())
    assert step not in forecast and not forecast.keys() & known.keys()


def test_the_chances_are_those_of_all_monotone_boundaries() -> None:
    small = line(sizes=(1, 2, 3), widths=(1, 2))
    boundaries = list(small.boundaries())
    assert len(boundaries) == 10
    starts: list[Known] = [{}, {(1, 1): False}, {(1, 1): True, (2, 1): False}]
    for known in starts:
        possible = [f for f in boundaries if all(f(p) == ok for p, ok in known.items())]
        _, step = small.walk(known)
        assert step is not None
        for position, chance in small.forecast(known, 0.01):
            needed = [
                f for f in possible if position in small.complete({**known, step: f(step)}, f)
            ]
            assert chance <= len(needed) / len(possible) + 1e-9


@given(st.integers(2, 12), st.integers(2, 12))
@settings(max_examples=20)
def test_a_sample_of_boundaries_is_monotone_and_holds_the_extremes(sizes: int, widths: int) -> None:
    wide = line(sizes=range(sizes), widths=range(1, widths + 1))
    found = [
        tuple(min((w for w in range(1, widths + 1) if f((s, w))), default=99) for s in range(sizes))
        for f in wide.boundaries()
    ]
    assert all(list(minima) == sorted(minima) for minima in found)
    assert {(1,) * sizes, (99,) * sizes} <= set(found)
    assert len(set(found)) > min(100, len(found) // 2)


def test_lines_may_have_holes() -> None:
    holes = SearchLine({(4, 8): 1, (4, 32): 2, (6, 16): 3}, 0)
    assert holes.complete({}, lambda p: p[1] >= 16) == {(4, 8): False, (4, 32): True, (6, 16): True}
