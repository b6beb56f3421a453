"""Several files read at once: in their order, at most so many at a time, and with the first
error."""

from __future__ import annotations

import threading

import pytest

from sweepd.store.parallel import each


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_results_come_in_the_order_of_the_items(count: int) -> None:
    assert each(lambda x: x * x, range(count), 3) == [x * x for x in range(count)]


def test_no_more_than_so_many_at_a_time_and_none_alone_in_a_thread() -> None:
    together = threading.Barrier(2, timeout=30)

    def meet(_: int) -> int:
        return together.wait() >= 0 and threading.active_count()

    before = threading.active_count()
    assert all(seen <= before + 2 for seen in each(meet, range(4), 2))
    assert each(lambda _: threading.current_thread(), [0], 9) == [threading.main_thread()]


def test_the_first_error_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        each(lambda x: 1 / x, [1, 0, 2], 2)
