"""`check` of a grid with a program: a row, an end by SIGTERM and a way on, or what is wrong."""

from __future__ import annotations

from pathlib import Path

import inprocess
import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SLOWLY = "    loss.backward(); import time; time.sleep(0.05)"
"""Slowly enough to be ended between two rows."""


@pytest.mark.parametrize(
    ("was", "becomes", "code", "says"),
    [
        (
            "    loss.backward()",
            SLOWLY,
            0,
            ["✓ rows        step 20: acc 0.", "its next row is step 40"],
        ),
        (
            '(args.dir / "checkpoint")',
            "Path('/dev/null')",
            0,
            ["it ended before it could be interrupted"],
        ),
        ('"acc":', '"f1":', 2, ["✗ rows        the row", "reported 'f1'"]),
    ],
)
def test_a_program_is_tried(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    was: str,
    becomes: str,
    code: int,
    says: list[str],
) -> None:
    for name in ("train.py", "train.yaml"):
        (tmp_path / name).write_text((EXAMPLES / name).read_text().replace(was, becomes))
    monkeypatch.chdir(tmp_path)
    answer = inprocess.sweepd("check", "train.yaml")
    assert answer.code == code, answer.err
    assert all(text in answer.out for text in says), answer.out
