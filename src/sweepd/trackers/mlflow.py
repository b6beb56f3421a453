"""MLflow: an experiment is a sweep, and a run is a trial."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from sweepd.statuses import DONE
from sweepd.trackers.base import TrackedRun, Values

MOST_AT_ONCE = 1000
"""Metrics that a call may hold."""


class MLflow:
    def __init__(self, client: Any, folder: Path) -> None:
        from mlflow.entities import Metric
        from mlflow.tracking import MlflowClient

        address = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder / 'mlflow.db'}"
        folder.mkdir(parents=True, exist_ok=True)
        self.client = MlflowClient(address)
        self.metric = Metric
        self.experiments: dict[str, str] = {}
        self.runs: dict[str, str] = {}
        self.waiting: dict[str, list[Any]] = {}

    def begin(self, run: TrackedRun) -> None:
        tags = {"mlflow.runName": run.name, "sweepd.trial": run.id}
        made = self.client.create_run(self._experiment(run.sweep), tags=tags)
        self.runs[run.id] = made.info.run_id
        for name, value in run.settings.items():
            self.client.log_param(made.info.run_id, name, value)

    def log(self, run: TrackedRun, step: int, values: Values) -> None:
        now = int(1000 * time.time())
        waiting = self.waiting.setdefault(run.id, [])
        waiting += [self.metric(name, value, now, step) for name, value in values.items()]
        if len(waiting) >= MOST_AT_ONCE - len(values):
            self._send(run.id)

    def end(self, run: TrackedRun, status: str, scores: Values) -> None:
        self._send(run.id)
        id_ = self.runs.pop(run.id)
        for name, value in scores.items():
            self.client.log_metric(id_, f"final_{name}", value)
        self.client.set_tag(id_, "sweepd.status", status)
        self.client.set_terminated(id_, "FINISHED" if status in DONE else "FAILED")

    def close(self) -> None:
        for trial in list(self.runs):
            self._send(trial)

    def _experiment(self, name: str) -> str:
        if name not in self.experiments:
            found = self.client.get_experiment_by_name(name)
            made = found.experiment_id if found else self.client.create_experiment(name)
            self.experiments[name] = made
        return self.experiments[name]

    def _send(self, trial: str) -> None:
        if metrics := self.waiting.pop(trial, []):
            self.client.log_batch(self.runs[trial], metrics=metrics)


connect = MLflow
