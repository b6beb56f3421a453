"""What trackers are told of a store: each ended trial once, with its learning curve in order. They
are told only numbers that are finite."""

from __future__ import annotations

import math

import pytest
from fake_store import FakeStore, planned
from looped import loop, store
from trackers.recorder import Recorder

from sweepd.query.database import connect
from sweepd.trackers.stored import hand_over, numbers


def test_each_trial_with_its_curve() -> None:
    store = FakeStore()
    trials = [planned(d=d, seed=seed) for d in (8, 16) for seed in (0, 1)]
    store.add_sweep("s", trials)
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


def test_an_empty_store() -> None:
    recorder = Recorder()
    assert hand_over(connect(FakeStore(), code="all"), recorder) == (0, ())
    assert recorder.told == []


def test_only_finite_numbers_are_told() -> None:
    row = {"a": 1, "b": math.nan, "c": math.inf, "d": None, "e": "text", "f": 0.5}
    assert numbers(row, "abcdefg") == {"a": 1.0, "f": 0.5}
