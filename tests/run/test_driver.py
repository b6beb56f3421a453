"""What a driver sees to while its sweep runs."""

from __future__ import annotations

import threading

from simulated import simulated
from waiting import wait_until

from sweepd.run import driver
from sweepd.store.store import Store
from sweepd.trial.endings import ledger_columns


def test_files_are_compacted_while_a_sweep_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(driver, "COMPACTION_SECONDS", 0.0)
    monkeypatch.setattr(driver, "FILES_WHILE_RUNNING", 10)
    store, stopping, over = Store.create(str(tmp_path)), threading.Event(), threading.Event()
    beside = threading.Thread(target=driver._look_after, args=(store, 1, stopping, over, print))
    beside.start()
    try:
        for trial in simulated().trials[:25]:
            store.write_metrics([{"id": trial.id, "attempt": 1000, "step": 1}])
            store.write_trials([{**ledger_columns(trial, 1000, "s"), "status": "completed"}])
        for kind in ("trials", "metrics"):
            wait_until(lambda kind=kind: any(tmp_path.glob(f"{kind}/compacted-*")), 30)
    finally:
        over.set()
        beside.join()
    assert store.read_trials().table.num_rows == store.read_metrics().table.num_rows == 25
    assert not stopping.is_set()
