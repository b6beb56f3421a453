"""The exponents that theory predicts, and when a measured exponent contradicts it."""

from __future__ import annotations

import pytest

from sweepd.query.growth import PREDICTED, agrees, at_hand
from sweepd.query.laws import Slope


@pytest.mark.parametrize(
    ("predicted", "low", "high", "expected"),
    [
        ("0", -0.1, 0.3, True),
        ("0", -0.5, -0.1, True),
        ("0", 0.1, 0.3, None),
        ("1/2", 0.1, 0.6, True),
        ("1/2", 0.6, 0.9, None),
        ("1/2", 0.1, 0.45, True),
        ("1/2", 0.1, 0.3, False),
        (">= 1/4", 0.5, 0.9, True),
        (">= 1/4", -0.5, 0.25, True),
        (">= 1/4", -0.5, 0.1, False),
    ],
)
def test_only_falling_below_a_bound_from_below_contradicts(
    predicted: str, low: float, high: float, expected: bool | None
) -> None:
    least = at_hand(predicted, [100, 800])
    assert agrees(predicted, least, Slope((low + high) / 2, low, high, 0.5)) is expected


def test_the_slope_at_hand_is_that_of_the_law_with_its_logarithm() -> None:
    assert at_hand("1/2", [11, 15, 23]) == pytest.approx(0.316, abs=0.005)
    assert at_hand("1/2", [1e30, 1e60]) == pytest.approx(0.495, abs=0.001)
    assert at_hand(">= 1/4", [11, 23]) == at_hand("1/2", [11, 23]) / 2
    assert at_hand("0", [11, 23]) == 0


def test_predictions_are_those_of_the_paper_s_models_and_tasks() -> None:
    tasks = {"lis", "edit_distance", "ed_local", "arithmetic"}
    assert PREDICTED.keys() == {(t, m) for t in tasks for m in ("standard", "sparse", "linear")}
