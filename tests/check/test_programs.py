"""`check` of a grid with a program: a row, an end by SIGTERM and a way on, or what is wrong."""

from __future__ import annotations

from pathlib import Path

import inprocess
import pytest

PROGRAM = """
import json, pathlib, sys, time
steps, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
state = folder / "state"
first = int(state.read_text()) if state.exists() else 0
for step in range(first + 20, steps + 1, 20):
    time.sleep({pause})
    print(json.dumps({{"step": step, {metric!r}: 0.5}}))
    (folder / "new").write_text(str(step))
    (folder / "new").replace(state)
    (folder / {mark!r}).write_text(str(step))
"""
GRID = """
name: mine
loop:
  program: python train.py {steps} {dir}
  as: mine
  task: blobs
  metrics: {acc: up}
  files: [train.py]
  steps: 100
goal: acc > 0.7
"""


@pytest.mark.parametrize(
    ("pause", "mark", "metric", "code", "says"),
    [
        (0.4, "checkpoint", "acc", 0, ["✓ rows        step 20: acc 0.", "its next row is step 40"]),
        (0, "other", "acc", 0, ["it ended before it could be interrupted"]),
        (0, "checkpoint", "f1", 2, ["✗ rows        the row", "reported 'f1'"]),
    ],
)
def test_a_program_is_tried(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pause: float,
    mark: str,
    metric: str,
    code: int,
    says: list[str],
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.format(pause=pause, mark=mark, metric=metric))
    (tmp_path / "train.yaml").write_text(GRID)
    monkeypatch.chdir(tmp_path)
    answer = inprocess.sweepd("check", "train.yaml")
    assert answer.code == code, answer.err
    assert all(text in answer.out for text in says), answer.out
