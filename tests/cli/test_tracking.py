"""Trackers during a launch: they are told what the live view is told, in order, and each step once.
`export --to` hands a whole store over to a tracker."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest
from inprocess import sweepd
from trackers.test_trackers import Recorder

from sweepd.cli import tracking
from sweepd.cli.tracking import Told
from sweepd.grid.plan import plan
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial

GRID = "task: {name: lis, n: 4}\nmodel: {name: standard, d: [4, 8], heads: 2}\nseeds: [0]\n"


class Silent:
    """A `Progress` that shows nothing."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def preparing(self, what: str) -> None:
        self.seen.append("preparing")

    def spent(self, dollars: float, an_hour: float) -> None:
        self.seen.append("spent")

    def running(self, trial: Trial, report: dict[str, Any]) -> None:
        self.seen.append("running")

    def ended(self, trial: Trial, report: dict[str, Any]) -> None:
        self.seen.append("ended")

    def lost_ray(self, reason: str) -> NoReturn:
        raise SystemExit(reason)

    def label(self, trial: Trial) -> str:
        return f"{trial.task_name} {trial.model_name}"


def test_what_the_view_is_told_trackers_are_told() -> None:
    first, second = plan(parse_grid(GRID, "grid.yaml", [], Path())).trials
    silent, recorder = Silent(), Recorder()
    told = Told(silent, [recorder], "s")  # type: ignore[arg-type]
    told.preparing("starting Ray")
    told.running(first, {"step": 10, "acc": None})
    told.running(second, {"step": 10, "acc": 0.25})
    told.running(second, {"step": 10, "acc": 0.25})  # reported twice
    told.running(first, {"step": 20, "acc": 0.5})
    told.ended(first, {"step": 30, "status": "completed", "acc": 0.75, "loss": 0.1})
    told.ended(second, {"step": 0, "status": "failed", "acc": None, "loss": None})
    assert silent.seen == ["preparing", *["running"] * 4, "ended", "ended"]
    assert recorder.told == [
        ("begin", first.id, "lis standard"),
        ("begin", second.id, "lis standard"),
        ("log", second.id, (10, {"acc": 0.25})),
        ("log", first.id, (20, {"acc": 0.5})),
        ("end", first.id, ("completed", {"acc": 0.75, "loss": 0.1})),
        ("end", second.id, ("failed", {})),
    ]


def test_export_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.yaml").write_text(GRID)
    assert sweepd("export").code == 2
    assert "--out FILE or --to TRACKER" in sweepd("export", "--results", "x").err
    monkeypatch.setattr(tracking, "FOLDER", tmp_path / "trackers")
    answer = sweepd("launch", "grid.yaml", "--log-to", "comet", "--yes")
    assert answer.code == 2 and "one of tensorboard, wandb" in answer.err
