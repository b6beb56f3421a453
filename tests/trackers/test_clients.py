"""Each tracker through its own client, without a network: it shows what it was told. Covers
`trackers/base.py` and `trackers/clients.py`."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from sweepd.errors import UserError
from sweepd.grid.options import TrackerName
from sweepd.trackers.base import TrackedRun, Tracker
from sweepd.trackers.clients import KINDS, connect

RUNS = [
    TrackedRun(f"trial{i}", f"lis standard d={8 << i}", "sweep", {"d": 8 << i, "lr": "x"})
    for i in (0, 1)
]


def test_a_grid_may_name_each() -> None:
    assert set(get_args(TrackerName)) == set(KINDS)


def tell(tracker: Tracker) -> None:
    """Two runs at a time, one of which fails."""
    for run in RUNS:
        tracker.begin(run)
    for step in (10, 20):
        for run in RUNS:
            tracker.log(run, step, {"loss": 1 / step})
    tracker.end(RUNS[0], "completed", {"acc": 0.75})
    tracker.end(RUNS[1], "failed", {})
    tracker.close()


def test_tensorboard(tmp_path: Path) -> None:
    from tensorboardX.proto.event_pb2 import Event

    tell(connect("tensorboard", tmp_path))
    [events] = (tmp_path / "tensorboard/sweep/trial0").glob("events.*")
    content, at = events.read_bytes(), 0
    scalars: list[tuple[int, float]] = []
    while at < len(content):  # a record: its length, a checksum, the event, a checksum
        length = int.from_bytes(content[at : at + 8], "little")
        event = Event.FromString(content[at + 12 : at + 12 + length])
        scalars += [(event.step, v.simple_value) for v in event.summary.value if v.tag == "loss"]
        at += 16 + length
    assert [step for step, _ in scalars] == [10, 20]
    assert all(math.isclose(value, 1 / step, rel_tol=1e-6) for step, value in scalars)


def test_weights_and_biases_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    tell(connect("wandb", tmp_path))
    written = [path.read_bytes() for path in tmp_path.rglob("*.wandb")]
    assert len(written) == 2
    assert sum(b"lis standard d=8 (trial0)" in content for content in written) == 1


def test_mlflow_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    tell(connect("mlflow", tmp_path))
    from mlflow.tracking import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("sweep")
    assert experiment is not None
    runs = {
        run.data.tags["sweepd.trial"]: run for run in client.search_runs([experiment.experiment_id])
    }
    assert runs["trial0"].data.params == {"d": "8", "lr": "x"}
    assert runs["trial0"].data.metrics == {"loss": 0.05, "final_acc": 0.75}
    assert runs["trial0"].info.status == "FINISHED" and runs["trial1"].info.status == "FAILED"
    history = client.get_metric_history(runs["trial0"].info.run_id, "loss")
    assert [(m.step, m.value) for m in history] == [(10, 0.1), (20, 0.05)]


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="one of tensorboard, wandb"):
        connect("comet", tmp_path)
    monkeypatch.setitem(KINDS, "trackio", replace(KINDS["trackio"], package="nowhere"))
    with pytest.raises(UserError, match=r"pip install 'sweepd\[trackio\]'"):
        connect("trackio", tmp_path)
