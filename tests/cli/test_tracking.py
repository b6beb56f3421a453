"""Trackers during a launch: they are told what the live view is told, in order, and each step once.
`export --to` hands a whole store over to a tracker."""

from pathlib import Path

import pytest
from inprocess import sweepd
from trackers.test_trackers import Recorder

from sweepd.cli import tracking
from sweepd.cli.progress import Progress
from sweepd.cluster import Local
from sweepd.grid.spec import parse_grid
from sweepd.run.launching import estimate, planned
from sweepd.trackers.base import Tracking

GRID = "task: {name: lis, n: 4}\nmodel: {name: standard, d: [4, 8], heads: 2}\nseeds: [0]\n"


def test_what_the_view_is_told_trackers_are_told() -> None:
    made = planned(parse_grid(GRID, "grid.yaml", [], Path()), None)
    first, second = made.plan.trials
    shown = Progress(made.search, estimate(made, Local(kind="local")), "results", "sweepd resume")
    recorder = Recorder()
    shown.tracking = Tracking(
        [recorder], "s", lambda trial: f"{trial.task_name} {trial.model_name}"
    )
    shown.running(first, {"step": 10, "acc": None})
    shown.running(second, {"step": 10, "acc": 0.25})
    shown.running(second, {"step": 10, "acc": 0.25})  # reported twice
    shown.running(first, {"step": 20, "acc": 0.5})
    done = {"step": 30, "status": "completed", "acc": 0.75, "loss": 0.1, "error": None}
    shown.ended(first, done)
    shown.ended(second, {**done, "step": 0, "status": "failed", "acc": None, "loss": None})
    assert recorder.told == [
        ("begin", first.id, "lis standard"),
        ("begin", second.id, "lis standard"),
        ("log", second.id, (10, {"acc": 0.25})),
        ("log", first.id, (20, {"acc": 0.5})),
        ("end", first.id, ("completed", {"acc": 0.75, "loss": 0.1})),
        ("end", second.id, ("failed", {})),
    ]


def test_export_says_what_it_needs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "grid.yaml").write_text(GRID)
    assert "--out FILE or --to TRACKER" in sweepd("export", exits=2).err
    monkeypatch.setattr(tracking, "FOLDER", folder / "trackers")
    answer = sweepd("launch", "grid.yaml", "--log-to", "comet", "--yes", exits=2)
    assert "one of tensorboard, wandb" in answer.err
