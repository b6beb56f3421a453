"""`sweepd status`. It shows how all sweeps stand, as the view `sweeps` counts them. For one sweep
it shows each trial."""

from pathlib import Path

import looped
import pytest
from fake_store import FakeStore, planned
from inprocess import sweepd

from sweepd.statuses import STATUSES


@pytest.fixture
def filled(folder: Path) -> None:
    """Two sweeps: of one, a trial failed and was then done; the other keeps seeds for close calls,
    of which one has ended, and an older code ran one of its trials too."""
    fake = FakeStore()
    first = [planned(d=d) for d in (8, 16, 32)]
    fake.end(first[0], "failed", attempt=1000, error="out of memory")
    fake.end(first[0], "completed", 0.9, attempt=2000)
    fake.end(first[1], "diverged")
    second = [planned(d=64, seed=seed) for seed in range(4)]
    fake.end(second[0], "completed", 0.9, sweep="second")
    fake.end(second[2], "interrupted", sweep="second")
    fake.end(planned(d=64, seed=1, code="old"), "completed", 0.8, sweep="second")
    fake.add_sweep("first", first)
    fake.add_sweep("second", second, extra_seeds=(1, 2, 3))
    fake.save("sweepd-results")


@pytest.mark.usefixtures("filled")
def test_sweeps_are_counted_as_the_view_counts_them() -> None:
    status = sweepd("status", "--json", exits=0).rows
    assert [(row["sweep"], row["trials"], row["untried"]) for row in status] == [
        ("first", 3, 1),
        ("second", 2, 0),
    ]
    sweeps = sweepd("sql", "FROM sweeps", "--json").rows
    same = ("trials", *STATUSES)
    assert [[row[name] for name in same] for row in status] == [
        [row[name] for name in same] for row in sweeps
    ]


@pytest.mark.usefixtures("filled")
def test_a_trial_shows_its_latest_ending() -> None:
    found = sweepd("status", "first", "--json", exits=0).rows
    table = sweepd("status", "first")
    shown = [line.split()[0] for line in table.out.splitlines()]
    assert shown == ["id", *(row["id"][:8] for row in found[:2])]
    assert table.err == "not tried: 1 of 3 trials (--json or --csv lists them too)\n"
    assert [(row["d"], row["status"], row["acc"], row["error"]) for row in found] == [
        (8, "completed", 0.9, None),
        (16, "diverged", None, None),
        (32, "untried", None, None),
    ]


@pytest.mark.usefixtures("filled")
def test_a_trial_in_reserve_is_shown_once_somebody_has_tried_it() -> None:
    """Of the seeds 1, 2 and 3, which are kept for close calls, one was tried."""
    found = sweepd("status", "second", "--json", exits=0).rows
    assert [(row["seed"], row["status"]) for row in found] == [
        (0, "completed"),
        (2, "interrupted"),
    ]


@pytest.mark.usefixtures("folder")
def test_metrics_of_ones_own_are_columns() -> None:
    looped.store({(2, 4): [0.75], (2, 8): [None]}).save("sweepd-results")
    found = sweepd("status", "s", "--json", exits=0).rows
    assert [(row["hidden"], row["status"], row["f1"], row["err"]) for row in found] == [
        (4, "completed", 0.75, 0.25),
        (8, "untried", None, None),
    ]
