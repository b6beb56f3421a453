"""An attempt whose store cannot be written. It saves what it holds in another place, once, and
ends. `store/test_faults.py` tests this on a disk that is really full."""

from __future__ import annotations

from pathlib import Path

import faults
import pytest

from sweepd.errors import EnvironmentFailure
from sweepd.store.store import Store
from sweepd.trial.attempt import Attempt


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Attempt, Store]:
    """An attempt on its way, and its store, which refuses metrics from now on."""
    monkeypatch.setenv("SWEEPD_RESCUE", str(tmp_path / "rescue"))
    store = Store.create(str(tmp_path / "store"))
    attempt = faults.attempt(store, 1001, checkpoint_seconds=1e9)
    attempt.advance(0.0)

    def refuse(rows: object) -> None:
        raise EnvironmentFailure("disk full")

    monkeypatch.setattr(store, "write_metrics", refuse)
    return attempt, store


def test_it_is_saved_elsewhere_and_taken_in_by_the_next(
    broken: tuple[Attempt, Store], tmp_path: Path
) -> None:
    attempt, store = broken
    attempt.pending.append({"id": attempt.trial.id, "attempt": 1001, "step": 1, "loss": 1.0})
    assert attempt.training is not None
    step = attempt.training.step
    with pytest.raises(EnvironmentFailure, match=r"disk full; trial \w+ is saved in .*rescue"):
        attempt.interrupt()
    assert attempt.status == "interrupted" and not store.read_trials().table.num_rows
    with pytest.raises(EnvironmentFailure, match=r"disk full; trial \w+ is saved"):
        attempt.advance(0.0)  # the same error: it is over
    again = faults.attempt(Store.open(store.address), 2001)
    assert again.start == step
    [row] = Store.open(store.address).read_trials().table.to_pylist()
    assert (row["status"], row["attempt"]) == ("interrupted", 1001)


def test_code_that_cannot_save_its_state_fails_and_the_failure_is_kept(
    broken: tuple[Attempt, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt, store = broken

    def snapshot() -> bytes:
        raise RuntimeError("cannot be pickled")

    attempt.pending.append({"id": attempt.trial.id, "attempt": 1001, "step": 1, "loss": 1.0})
    monkeypatch.setattr(attempt.training, "snapshot", snapshot)
    with pytest.raises(EnvironmentFailure, match=r"disk full; trial \w+ is saved in .*rescue"):
        attempt.interrupt()
    again = Store.open(store.address)
    again.take_in_spill()
    [row] = again.read_trials().table.to_pylist()
    assert row["status"] == "failed" and "cannot be pickled" in row["error"]
    assert again.read_metrics().table["step"].to_pylist() == [1]


def test_where_nothing_can_be_saved_the_last_checkpoint_counts(
    broken: tuple[Attempt, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt, store = broken

    def nowhere() -> Store:
        raise EnvironmentFailure("no room")

    monkeypatch.setattr(store, "spill_store", nowhere)
    attempt.pending.append({"id": attempt.trial.id, "attempt": 1001, "step": 1, "loss": 1.0})
    with pytest.raises(EnvironmentFailure, match="continues from its last checkpoint: no room"):
        attempt.interrupt()
    assert attempt.status is None


def test_an_attempt_that_has_ended_loses_nothing(
    broken: tuple[Attempt, Store], tmp_path: Path
) -> None:
    attempt, _ = broken
    attempt.pending.clear()
    attempt.interrupt()
    with pytest.raises(EnvironmentFailure, match="nothing of trial"), attempt._saving_elsewhere():
        raise EnvironmentFailure("disk full")
    assert not Path(tmp_path / "rescue").exists()
