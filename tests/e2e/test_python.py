"""A launch from Python: in a process of its own, with what it says, continued by the same call;
its grid names a tracker."""

from __future__ import annotations

import pytest
from shell import SharedShell

import sweepd
from sweepd.errors import UserError

GRID = """
task: {name: lis, n: 4, value_range: 64}
model: {name: standard, d: 4, layers: 1, heads: 1}
train: {steps: 5, batch_size: 4, warmup: 0}
evaluate: {check_samples: 8, verdict_samples: 8}
log_to: [tensorboard]
"""


def test_launch(shell: SharedShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shell.folder)
    grid, results = shell.write("grid.yaml", GRID), shell.folder / "results"
    said: list[str] = []
    ended = sweepd.launch(grid, {"seeds": [0]}, results=results, say=said.append)
    assert ended.completed and not ended.interrupted and ended.lines == tuple(said)
    assert len(ended.results.trials()) == 1
    told = shell.folder / "sweepd-trackers" / "tensorboard" / "grid"
    assert [path.name for path in told.iterdir()] == ended.results.trials()["id"]
    again = sweepd.launch(grid, {"seeds": [0]}, results=results)
    assert again.completed and "nothing to do" in again.lines[-1]
    with pytest.raises(UserError, match="seedz"):
        sweepd.launch(grid, {"seedz": [0]}, results=results)
