"""The fake attempt of benchmarks/overhead.py. It answers all that a worker asks of an attempt, and
it ends as a real one does. No Ray is needed for this."""

from __future__ import annotations

from pathlib import Path

from overhead import GRID, NoOp

from sweepd.grid.plan import plan
from sweepd.grid.spec import parse_grid
from sweepd.store.store import Store


def test_a_fake_attempt_ends_and_is_recorded(tmp_path: Path) -> None:
    [trial] = plan(parse_grid(GRID.format(seeds=[0]), "no-op", [], tmp_path)).trials
    store = Store.create(str(tmp_path / "results"))
    attempt = NoOp(store, trial, 1000, "no-op", tmp_path, "cpu", 30.0)
    attempt.begin()
    assert attempt.news() == [] and attempt.status is None
    attempt.advance(1.0)
    assert attempt.status == attempt.report()["status"] == "completed"
    attempt.interrupt()
    assert store.read_trials().table["status"].to_pylist() == ["completed"]
