"""`answer` in one call that is repeated until nothing is left to run, and `skill`."""

import json
from pathlib import Path

import pytest
from inprocess import sweepd

GRID = """
name: asked
task: {name: lis, n: [2, 3], value_range: 16}
model: {name: standard, d: [4, 8], layers: 1, heads: 2}
train: {steps: 30, batch_size: 4}
evaluate: {check_every: 10, check_samples: 8, verdict_samples: 16}
seeds: [0, 1]
goal: acc >= 0
"""


def test_the_same_call_goes_on_until_it_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("grid.yaml").write_text(GRID)
    monkeypatch.setattr("sweepd.run.driver.LOOK_SECONDS", 0.01)
    call = ("answer", "min d", "grid.yaml", "--in-process", "--json")
    first = json.loads(sweepd(*call, "--max-minutes", "0.0001", exits=0).out)
    assert first["finished"] is False and first["spent"]["trials"] < 8
    assert first["next"]["trials"] + first["spent"]["trials"] == 8
    assert "--max-minutes 0.0001" in first["next"]["command"]
    assert {row["verdict"] for row in first["answer"]} <= {"open", "at most"}
    whole = json.loads(sweepd(*call, exits=0).out)
    assert whole["finished"] is True and whole["spent"]["trials"] == 8
    assert whole["next"] == {"trials": 0, "first": [], "command": None}
    assert [(row["size"], row["value"], row["verdict"]) for row in whole["answer"]] == [
        (2, 4, "at most"),
        (3, 4, "at most"),
    ]
    again = sweepd(*call, exits=0)
    assert json.loads(again.out) == whole and "nothing to do" in again.err


def test_a_trial_that_fails_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loop = "{program: 'false', as: p, task: t, metrics: {acc: up}, files: [], width: [1]}"
    Path("grid.yaml").write_text(f"name: bad\nloop: {loop}\nretries: 0\ngoal: acc > 0\n")
    refused = sweepd("answer", "min width", "grid.yaml", "--in-process", "--json")
    assert refused.code == 2 and "never sees width" in refused.err
    loop = loop.replace("'false'", "'false {width}'")
    Path("grid.yaml").write_text(f"name: bad\nloop: {loop}\nretries: 0\ngoal: acc > 0\n")
    told = sweepd("answer", "min width", "grid.yaml", "--in-process", "--json", exits=1)
    assert json.loads(told.out)["failed"] == 1


def test_the_skill_is_a_file_with_a_name_and_a_description(tmp_path: Path) -> None:
    text = sweepd("skill", exits=0).out
    assert text.startswith("---\nname: sweepd\ndescription: ")
    out = tmp_path / "skills" / "sweepd" / "SKILL.md"
    sweepd("skill", "--out", str(out), exits=0)
    assert out.read_text() == text
    sweepd("skill", "--out", str(out), exits=2)
