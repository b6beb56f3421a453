"""Rows from lines, files, TensorBoard and the stand-in for wandb."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sweepd.errors import UserError
from sweepd.grid.rows import Rows
from sweepd.trial.row_sources import Files, Row, Steps, Taken, Written

STAND_INS = Path(__file__).parents[2] / "src" / "sweepd" / "trial" / "stand_ins"


def written(folder: Path) -> Written:
    return lambda: [
        (str(path.relative_to(folder)), path) for path in folder.rglob("*") if path.is_file()
    ]


def taken(block: dict[str, Any], *names: str) -> Taken:
    return Taken(Rows.of(block, names or ("acc", "loss")))


def test_a_row_counts_wherever_it_stands_on_its_line() -> None:
    told = taken({"pattern": "step {step} loss {loss} acc {acc}"})
    line = "\x1b[32m[rank0]:\x1b[0m 12:00 INFO step 3 loss 1e-2 acc 50% |####  | 40/100"
    assert list(told.of_line(line)) == [{"step": 3, "loss": 0.01, "acc": 0.5}]


def test_names_with_slashes_are_found_in_nested_json_and_others_are_left_alone() -> None:
    told = taken({"step": "global_step", "metrics": {"acc": "valid/acc", "loss": "valid/loss"}})
    line = json.dumps({"global_step": 5, "valid": {"acc": 0.5, "loss": 2}, "speed": 1, "lr": 3})
    assert list(told.of_line(line)) == [{"step": 5, "acc": 0.5, "loss": 2}]
    assert told.left_alone == {"speed", "lr"}


def test_a_value_that_is_no_number_is_remembered() -> None:
    told = taken({})
    assert not list(told.of_line('{"step": 5, "acc": "much"}'))
    assert '"much"' in told.unlike


def test_the_last_number_at_the_end_counts() -> None:
    told = taken({"final": {"acc": "Network score: {acc}"}}, "acc")
    for line in ("Network score: 0.5", "hello", "Network score: 0.97"):
        told.end_of(line)
    assert told.final == {"acc": 0.97}


def test_csv_is_read_as_it_grows_also_with_a_new_column(tmp_path: Path) -> None:
    """Lightning writes its file anew where a metric comes later."""
    told = taken({"from": "*.csv", "metrics": {"acc": "test/Accuracy_epoch"}})
    files = Files(told, written(tmp_path))
    path = tmp_path / "metrics.csv"
    assert not list(files.news())
    path.write_text("step,loss\n1,0.5\n2,0.4\n3,0.")
    assert list(files.news()) == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.4}]
    path.write_text("step,loss,test/Accuracy_epoch\n1,0.5,\n2,0.4,\n3,0.3,\n3,,0.9\n")
    assert list(files.news()) == [{"step": 3, "loss": 0.3}, {"step": 3, "acc": 0.9}]
    assert not list(files.news())


def test_a_file_that_is_no_csv_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2,3\n4\n")
    with pytest.raises(UserError, match=r"a\.csv cannot be read as CSV"):
        list(Files(taken({"from": "a.csv"}), written(tmp_path)).news())


def test_lines_of_json_in_a_file_of_its_own(tmp_path: Path) -> None:
    files = Files(taken({"from": "logs/*.jsonl", "step": "global_step"}), written(tmp_path))
    (tmp_path / "logs").mkdir()
    path = tmp_path / "logs" / "train.jsonl"
    path.write_text('{"global_step": 1, "loss": 2, "acc": 0}\n{"global_step": 2, "lo')
    assert list(files.news()) == [{"step": 1, "loss": 2, "acc": 0}]
    with path.open("a") as file:
        file.write('ss": 1}\n')
    assert list(files.news()) == [{"step": 2, "loss": 1}]


def test_what_was_told_of_one_step_is_one_row_and_rows_without_a_step_are_counted() -> None:
    steps = Steps()
    rows: list[Row] = [{"step": 1, "loss": 2}, {"step": 1, "acc": 0.5}, {"step": 2, "loss": 1}]
    put_together = [done for row in rows for done in steps.add(row)] + list(steps.end())
    assert put_together == [{"step": 1, "loss": 2, "acc": 0.5}, {"step": 2, "loss": 1}]
    counted = Steps()
    rows = [{"loss": 2}, {"loss": 1}]
    assert [r["step"] for row in rows for r in counted.add(row)] == [1]
    assert [row["step"] for row in counted.end()] == [2]


PROGRAM = """
import wandb
from argparse import Namespace
with wandb.init(project="x", config=Namespace(lr=0.1)) as run:
    wandb.define_metric("acc", summary="max")
    wandb.watch(object()).anything[3]
    assert wandb.config.lr == 0.1 and run.config["lr"] == 0.1
    wandb.log({"loss": 2.0, "nested": {"acc": 0.25}, "text": "x", "image": wandb.Image(1)})
    wandb.log({"loss": 1.0}, commit=False)
    run.log({"nested": {"acc": 0.5}})
    wandb.log({"loss": 0.5}, step=10)
    wandb.log({"nested": {"acc": 1.0}}, step=10)
    wandb.summary["loss"] = 0.125
wandb.finish()
"""


def test_a_program_tells_its_numbers_by_wandb_log(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.touch()
    environment = {**os.environ, "PYTHONPATH": str(STAND_INS), "SWEEPD_ROWS": str(rows)}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True)
    told, steps = taken({"from": "wandb", "metrics": {"acc": "nested/acc"}}), Steps()
    every = [row for line in rows.read_text().splitlines() for row in told.of_line(line)]
    put_together = [done for row in every for done in steps.add(row)] + list(steps.end())
    assert put_together == [
        {"step": 0, "loss": 2.0, "acc": 0.25},
        {"step": 1, "loss": 1.0, "acc": 0.5},
        {"step": 10, "loss": 0.5, "acc": 1.0},
    ]
    assert told.final == {"loss": 0.125}
