"""How long workers train between two reports. With more slots it is longer, within bounds."""

from hypothesis import given
from hypothesis import strategies as st

from sweepd.run.worker import (
    REPORT_SECONDS,
    REPORTS_SHARE,
    SLICES_TO_HANG,
    slice_seconds,
)


@given(slots=st.integers(1, 10**6), hang_seconds=st.just(0.0) | st.floats(1.0, 1e4))
def test_the_driver_hears_of_few_enough_trials_a_second(slots: int, hang_seconds: float) -> None:
    seconds = slice_seconds(slots, hang_seconds)
    assert seconds > 0
    if not hang_seconds:
        busy = slots / seconds * REPORT_SECONDS
        assert seconds >= 1 and busy <= REPORTS_SHARE * (1 + 1e-9)
    else:
        assert seconds == min(slice_seconds(slots, 0.0), hang_seconds / SLICES_TO_HANG)


def test_a_laptop_hears_once_a_second() -> None:
    assert slice_seconds(2, 600.0) == 1.0
    assert 30 < slice_seconds(10_000, 600.0) < 35
