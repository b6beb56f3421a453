"""What benchmarks/slopes.py says of a series of measurements. It fits slopes by least squares and
gives Student's intervals. They are compared with NumPy's fit and with series whose slope is
known."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slopes import MINUTE, slope_of, told

VALUES = st.lists(st.integers(-1000, 1000), min_size=4, max_size=30)


@given(VALUES, st.integers(0, 27))
def test_a_slope_is_that_of_least_squares(values: list[int], missing: int) -> None:
    x, y = (np.delete(column, missing % len(values)) for column in (range(len(values)), values))
    left = y - np.polyval(np.polyfit(x, y, 1), x)
    variance = left @ left / (len(x) - 2) / ((x - x.mean()) ** 2).sum()
    slope, error = slope_of(list(zip(x, y, strict=True)))
    assert slope == pytest.approx(np.polyfit(x, y, 1)[0], abs=1e-6)
    assert error == pytest.approx(np.sqrt(variance), abs=1e-6)


def test_what_grows_by_one_a_minute_grows_by_sixty_an_hour() -> None:
    series = [(5.0 * i, 1000.0 if i < 12 else 100 + 5.0 * i // MINUTE) for i in range(12 * 8)]
    found = re.findall(r"[-+]?\d+\.\d", told(series))
    assert found == ["107.0", "+60.0", "+60.0", "+60.0"], "the first minute is left out"


def test_a_flat_series_has_an_interval_around_zero() -> None:
    rng = np.random.default_rng(0)
    series = [(5.0 * i, 100 + float(rng.normal())) for i in range(12 * 20)]
    _, _, low, high = map(float, re.findall(r"[-+]?\d+\.\d", told(series)))
    assert low < 0 < high and high - low < 20


def test_three_minutes_say_nothing_of_an_hour() -> None:
    assert "too short" in told([(float(i), 1.0) for i in range(170)])
