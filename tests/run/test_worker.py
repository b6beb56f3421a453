"""What workers are sent, and how long they train between two reports. With more slots it is longer,
within bounds. Also how often a trial may lose its node."""

import pickle
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from simulated import simulated

from sweepd.run.tune_hooks import Watchdog
from sweepd.run.worker import (
    REPORT_SECONDS,
    REPORTS_SHARE,
    SLICES_TO_HANG,
    LaunchSpec,
    flush_seconds,
    slice_seconds,
)
from sweepd.search.base import MOST_MOVES


@given(slots=st.integers(1, 10**6), hang_seconds=st.just(0.0) | st.floats(1.0, 1e4))
def test_the_driver_hears_of_few_enough_trials_a_second(slots: int, hang_seconds: float) -> None:
    seconds = slice_seconds(slots, hang_seconds)
    assert seconds > 0
    if not hang_seconds:
        busy = slots / seconds * REPORT_SECONDS
        assert seconds >= 1 and busy <= REPORTS_SHARE * (1 + 1e-9)
    else:
        assert seconds == min(slice_seconds(slots, 0.0), hang_seconds / SLICES_TO_HANG)


def test_what_every_worker_gets_does_not_grow_with_the_trials() -> None:
    """Each would unpickle all of them: of 96,000 these are 157 MB."""

    def size(seeds: int) -> int:
        made = simulated(f"seeds={list(range(seeds))}")
        spec = LaunchSpec("", "s", Path(), 1, 1.0, made.trials, made.grid.goal)
        return len(pickle.dumps(spec.for_workers()))

    assert size(1) == size(40) < 1000


@given(st.lists(st.integers(0, 5), min_size=30, max_size=30))
def test_a_trial_moves_as_often_as_it_gets_on(gains: list[int]) -> None:
    """A trial that loses its node without a newer checkpoint too often has brought it down."""
    made = simulated()
    spec = LaunchSpec("", "s", Path(), 1, 1.0, made.trials, made.grid.goal)
    nothing: Any = None
    watchdog = Watchdog(spec, nothing, nothing, nothing, nothing, lambda: True)
    step, in_vain = 0, 0
    for gain in gains:
        step += gain
        in_vain = 0 if gain else in_vain + 1
        assert watchdog._may_move(made.trials[0], step) is (in_vain <= MOST_MOVES)


def test_metrics_go_with_checkpoints_where_many_trials_run() -> None:
    """With the default of 30 seconds between checkpoints, from 300 slots on."""
    assert flush_seconds(2) == flush_seconds(100) == 10.0
    assert all(slots / flush_seconds(slots) <= 10 for slots in (2, 100, 300, 10_000))
