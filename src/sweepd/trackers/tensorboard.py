"""TensorBoard, through tensorboardX: one folder of event files for each trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sweepd.trackers.base import TrackedRun, Values


class TensorBoard:
    def __init__(self, client: Any, folder: Path) -> None:
        self.client = client
        self.folder = folder / "tensorboard"
        self.writers: dict[str, Any] = {}

    def begin(self, run: TrackedRun) -> None:
        folder = self.folder / run.sweep / run.id
        self.writers[run.id] = self.client.SummaryWriter(str(folder), write_to_disk=True)
        settings = "\n".join(f"{name}: {value}  " for name, value in run.settings.items())
        self.writers[run.id].add_text("settings", f"{run.name}\n\n{settings}")

    def log(self, run: TrackedRun, step: int, values: Values) -> None:
        for name, value in values.items():
            self.writers[run.id].add_scalar(name, value, step)

    def end(self, run: TrackedRun, status: str, scores: Values) -> None:
        writer = self.writers.pop(run.id)
        plain = (bool, int, float, str)
        settings = {k: v if isinstance(v, plain) else str(v) for k, v in run.settings.items()}
        final = {f"final/{name}": value for name, value in scores.items()}
        writer.add_text("status", status)
        writer.add_hparams(settings, final, name="settings")
        writer.close()

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()


connect = TensorBoard
