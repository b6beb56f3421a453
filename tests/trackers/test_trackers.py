"""Trackers. Each, through its own client and without a network, shows what it was told. A tracker
that fails, hangs or is slow harms no sweep, and the user is told once. Of a store a tracker is told
each ended trial once, with its learning curve in order, and only numbers that are finite. Covers
`trackers/base.py` and `trackers/clients.py`."""

import math
import threading
from pathlib import Path
from typing import Any, get_args

import pytest
from fake_store import FakeStore, planned
from looped import loop, store

from sweepd.errors import UserError
from sweepd.grid.options import TrackerName
from sweepd.query.database import connect
from sweepd.trackers import base
from sweepd.trackers.base import Forwarder, TrackedRun, Tracker, Values, hand_over, numbers
from sweepd.trackers.clients import KINDS
from sweepd.trackers.clients import connect as connected

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

    tell(connected("tensorboard", tmp_path))
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
    tell(connected("wandb", tmp_path))
    written = [path.read_bytes() for path in tmp_path.rglob("*.wandb")]
    assert len(written) == 2
    assert sum(b"lis standard d=8 (trial0)" in content for content in written) == 1


def test_mlflow_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    tell(connected("mlflow", tmp_path))
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
        connected("comet", tmp_path)
    monkeypatch.setitem(KINDS, "trackio", ("nowhere", KINDS["trackio"][1]))
    with pytest.raises(UserError, match=r"pip install 'sweepd\[trackio\]'"):
        connected("trackio", tmp_path)


class Recorder:
    def __init__(self) -> None:
        self.told: list[tuple[str, str, Any]] = []
        self.closed = 0

    def begin(self, run: TrackedRun) -> None:
        self.told.append(("begin", run.id, run.name))

    def log(self, run: TrackedRun, step: int, values: Values) -> None:
        self.told.append(("log", run.id, (step, dict(values))))

    def end(self, run: TrackedRun, status: str, scores: Values) -> None:
        self.told.append(("end", run.id, (status, dict(scores))))

    def close(self) -> None:
        self.closed += 1


RUN = TrackedRun("ab", "lis standard", "s", {"d": 8})


def told(tracker: Recorder, notes: list[str], calls: int = 3) -> None:
    forwarder = Forwarder("x", tracker, notes.append)
    forwarder.begin(RUN)
    for step in range(calls):
        forwarder.log(RUN, step, {"loss": 1.0})
    forwarder.end(RUN, "completed", {"acc": 1.0})
    forwarder.close()


def test_everything_arrives_in_order() -> None:
    recorder, notes = Recorder(), list[str]()
    told(recorder, notes)
    assert [what for what, *_ in recorder.told] == ["begin", "log", "log", "log", "end"]
    assert recorder.closed == 1 and notes == []


class Failing(Recorder):
    def log(self, run: TrackedRun, step: int, values: Values) -> None:
        raise ConnectionError("no network")


def test_one_that_fails_is_left_alone() -> None:
    failing, notes = Failing(), list[str]()
    told(failing, notes)
    assert [what for what, *_ in failing.told] == ["begin"]
    assert notes == ["x failed and gets no more: ConnectionError: no network"]


class Hanging(Recorder):
    go = threading.Event()

    def begin(self, run: TrackedRun) -> None:
        self.go.wait()


def test_one_that_hangs_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(base, "MOST_WAITING", 4)
    notes = list[str]()
    told(Hanging(), notes, calls=100)
    assert notes[0] == "x is too slow: it does not get everything"
    assert notes[-1].startswith("x has not taken everything")
    Hanging.go.set()


def test_each_trial_with_its_curve() -> None:
    store = FakeStore()
    trials = [planned(d=d, seed=seed) for d in (8, 16) for seed in (0, 1)]
    store.add_sweep("s", [*trials[:3], trials[3] | {"cot": True}])  # an axis of no ended trial
    for trial in trials[:3]:
        store.end(trial, "completed", acc=0.5)
    for step in (20, 10):  # as they happen to lie in the store
        for trial in trials[:2]:
            row = {"id": trial["id"], "attempt": 1000, "step": step, "loss": step / 100}
            store.steps.append(row)
    recorder = Recorder()
    assert hand_over(connect(store, code="all"), recorder) == (3, ())
    assert recorder.closed == 1
    for trial in trials[:2]:
        told = [what for what, id_, _ in recorder.told if id_ == trial["id"]]
        assert told == ["begin", "log", "log", "end"]
        steps = [more[0] for _, id_, more in recorder.told if id_ == trial["id"]][1:3]
        assert steps == [10, 20]
    last = [(what, more) for what, id_, more in recorder.told if id_ == trials[2]["id"]]
    assert last[0] == ("begin", "lis standard d=16 seed=0")
    status, scores = last[1][1]
    assert (last[1][0], status, scores["acc"]) == ("end", "completed", 0.5)
    assert not [told for told in recorder.told if told[1] == trials[3]["id"]]


def test_metrics_of_a_loop_of_ones_own() -> None:
    made = store({(2, 4): [0.9]})
    id_ = loop(2, 4)["id"]
    made.steps = [{"id": id_, "attempt": 1000, "step": 1, "f1": 0.25, "err": 0.75, "seconds": 1.0}]
    recorder = Recorder()
    hand_over(connect(made, code="all"), recorder)
    assert [(what, more) for what, _, more in recorder.told if what != "begin"] == [
        ("log", (1, {"seconds": 1.0, "f1": 0.25, "err": 0.75})),
        ("end", ("completed", {"f1": 0.9, "err": pytest.approx(0.1)})),
    ]


def test_only_finite_numbers_are_told_and_of_an_empty_store_nothing() -> None:
    recorder = Recorder()
    assert hand_over(connect(FakeStore(), code="all"), recorder) == (0, ())
    assert recorder.told == []
    row = {"a": 1, "b": math.nan, "c": math.inf, "d": None, "e": "text", "f": 0.5}
    assert numbers(row, "abcdefg") == {"a": 1.0, "f": 0.5}
