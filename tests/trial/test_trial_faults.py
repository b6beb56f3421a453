"""What a user's task may do wrong, on a real store without Ray. Each fault is one failed attempt
with its text and its log, and none passes for a result. Faults that end the worker are tested in
`e2e/`. Where the store cannot be written, an attempt saves what it holds in another place, once,
and ends. `store/test_faults.py` tests this on a disk that is really full."""

import shutil
from pathlib import Path

import faults
import faulty
import pytest

from sweepd.errors import EnvironmentFailure
from sweepd.store.store import Store
from sweepd.trial import attempt
from sweepd.trial.attempt import MOST_PRINTED, MOST_TOLD, Attempt
from sweepd.trial.runs import Run

GRID = """
task: {name: TASK, n: 3, value_range: 64}
model: {name: standard, d: 8, layers: 1, heads: 1}
train: {steps: 20, batch_size: 4}
evaluate: {check_every: 10, check_samples: 8, verdict_samples: 8}
"""
WORDS = {
    "exception": "RuntimeError: on purpose",
    "odd text": "RuntimeError: ?\0 red",
    "untellable": "Untellable: (its text can't be told)",
    "recursion": "RecursionError",
    "host memory": "MemoryError: Unable to allocate 8.00 PiB",
    "CUDA memory": "OutOfMemoryError: CUDA out of memory.",
    "few rows": "4 rows were asked for; inputs and targets are ((1, 9), (1, 9))",
    "no targets": "a batch without a target",
    "unknown ids": "IndexError: index out of range",
    "few chains": "8 rows were asked for; tokens are (1, 10)",
    "no end": "rows that do not end in <eos>",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(faulty.__file__, tmp_path)
    return tmp_path


def run(folder: Path, task: str, *sets: str) -> tuple[Store, Attempt]:
    runs = faults.Runs(folder, GRID.replace("TASK", f"faulty.py:{task}"))
    return runs.store, faults.finish(runs.begin(runs.trial(*sets)), 9.0)


@pytest.mark.parametrize("fault", [*faulty.ERRORS, *faulty.BATCHES, *faulty.SAMPLES])
def test_errors_and_rubbish_fail(folder: Path, fault: str) -> None:
    store, made = run(folder, "Rubbish", f"task.fault={fault}")
    [row] = store.read_trials().table.to_pylist()
    assert (row["status"], row["acc"], row["error"]) == ("failed", None, made.report()["error"])
    assert WORDS.get(fault, "Error") in row["error"] and len(row["error"]) <= MOST_TOLD
    log = store.read_log(made.trial.id)
    assert "Traceback" in log and len(log) < 3 * MOST_TOLD


def test_a_worker_that_is_told_to_end_ends_and_its_trial_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray's handler of SIGTERM raises this wherever the worker stands. A user's own SystemExit is
    an error as any other."""
    store = Store.create(str(tmp_path))
    for told, status in ((SystemExit(1), "failed"), (SystemExit(1), None)):
        running = faults.attempt(store, 1001)
        monkeypatch.setattr(running.training, "train_step", lambda told=told: faulty.fail(told))
        if status:
            running.advance(1.0)
        else:
            told.ray_terminate_msg = "SIGTERM"  # type: ignore[attr-defined]
            with pytest.raises(SystemExit):
                running.advance(1.0)
        assert running.status == status
    assert store.read_trials().table.num_rows == 1


def test_a_flood_of_output_is_cut(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "FLUSH_SECONDS", 0.0)
    store, made = run(folder, "Flood")
    assert made.status == "completed"
    log = store.read_log(made.trial.id)
    assert log.count("what it printed after this is left out") == 1
    assert MOST_PRINTED < len(log) < MOST_PRINTED + 1000 and "completed at step 20" in log


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Attempt, Store]:
    """An attempt on its way, with a row that waits, and its store, which refuses metrics."""
    monkeypatch.setenv("SWEEPD_RESCUE", str(tmp_path / "rescue"))
    store = Store.create(str(tmp_path / "store"))
    attempt = faults.attempt(store, 1001, checkpoint_seconds=1e9)
    attempt.advance(0.0)
    attempt.pending = [{"id": attempt.trial.id, "attempt": 1001, "step": 1, "loss": 1.0}]
    full = EnvironmentFailure("disk full")
    monkeypatch.setattr(store, "write_metrics", lambda rows: faulty.fail(full))
    return attempt, store


def test_it_is_saved_elsewhere_and_taken_in_by_the_next(broken: tuple[Attempt, Store]) -> None:
    attempt, store = broken
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
    fault = RuntimeError("cannot be pickled")
    monkeypatch.setattr(attempt.training, "snapshot", lambda: faulty.fail(fault))
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
    full = EnvironmentFailure("no room")
    monkeypatch.setattr(store, "spill_store", lambda: faulty.fail(full))
    with pytest.raises(EnvironmentFailure, match="continues from its last checkpoint: no room"):
        attempt.interrupt()
    assert attempt.status is None


def test_an_attempt_that_has_ended_loses_nothing(
    broken: tuple[Attempt, Store], tmp_path: Path
) -> None:
    attempt, _ = broken
    attempt.pending.clear()

    def end(run: Run) -> None:
        attempt._end("interrupted")
        raise EnvironmentFailure("disk full")

    with pytest.raises(EnvironmentFailure, match="nothing of trial"):
        attempt._safely(end)
    assert not Path(tmp_path / "rescue").exists()
