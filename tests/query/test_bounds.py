"""What is claimed of a least value. The first claim that holds is compared with a slow twin, over
all that may be known of a few values. Also tested is what is claimed of a minimised score."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import min_verdicts

from sweepd.query.minima import Candidate, Verdict, judge, judge_measured

OUTCOMES = st.sampled_from([True, False, None])
WIDTHS, SIZES = (8, 16, 32, 64), (6, 8, 12)


@settings(max_examples=500)
@given(st.dictionaries(st.tuples(st.sampled_from(SIZES), st.sampled_from(WIDTHS)), OUTCOMES))
def test_bounds_are_those_of_the_slow_twin(cells: dict[tuple[int, int], bool | None]) -> None:
    expected = min_verdicts({(size, d, "lr"): passed for (size, d), passed in cells.items()})
    for size in {size for size, _ in cells}:
        candidates = [
            Candidate(d, cells[size, d], *[_failed_smaller(cells, size, d)] * 2)
            for d in WIDTHS
            if (size, d) in cells
        ]
        bound = judge(candidates)
        assert (bound.kind, bound.value, bound.fail, bound.inferred) == expected[size]


def _failed_smaller(cells: Mapping[tuple[int, int], bool | None], size: int, d: int) -> bool:
    return any(cells.get((s, d)) is False for s in SIZES if s < size)


def test_every_claim_holds_for_some_values_and_only_where_its_words_do() -> None:
    """There are three values at one size, and each has passed, failed or is open. A claim is made
    only where its words are true."""
    kinds = set()
    for outcomes in itertools.product([True, False, None], repeat=3):
        bound = judge([Candidate(8 * 2**i, passed) for i, passed in enumerate(outcomes)])
        kinds.add(bound.kind)
        first = outcomes.index(True) if True in outcomes else None
        if bound.kind == "exact":
            assert first and set(outcomes[:first]) == {False}
        if bound.kind == "above":
            assert first is None and outcomes[-1] is False
        if first == 0:
            assert bound.kind == ("not monotone" if False in outcomes else "at most")
    assert kinds == {"not monotone", "above", "open", "exact", "bracketed", "at most"}


@pytest.mark.parametrize(
    ("passed", "all_failed", "bound"),
    [
        ((0.3, 0.2), False, Verdict("at most", 0.2, None, 0)),
        ((), True, Verdict("above", None, None, 0)),
        ((), False, Verdict("open", None, None, 0)),
    ],
)
def test_of_a_score_nothing_is_claimed_from_below(
    passed: tuple[float, ...], all_failed: bool, bound: Verdict
) -> None:
    assert judge_measured(passed, all_failed) == bound
