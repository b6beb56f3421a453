"""Rows from lines, files, TensorBoard and the stand-in for wandb."""

import json
import math
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
    (tmp_path / "a.csv").write_text("x,y\n4\n1,2,3\n")
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


def read(line: str, block: dict[str, Any] | None = None) -> list[Row]:
    return list(taken(block or {"pattern": "loss {loss} acc={acc}"}).of_line(line))


@pytest.mark.parametrize(
    ("loss", "acc", "row"),
    [
        ("1.2e-05", "97.3%", (1.2e-05, 0.973)),
        ("-1.5E+3", "97.3 %", (-1500, 0.973)),
        ("1,234.5", ".5", (1234.5, 0.5)),
        ("1_000", "1.", (1000, 1)),
        ("tensor(0.5, grad_fn=<NllLossBackward0>)", "np.float64(1.0)", (0.5, 1)),
    ],
)
def test_numbers_as_people_print_them(loss: str, acc: str, row: tuple[float, float]) -> None:
    assert read(f"loss {loss} acc={acc}") == [dict(zip(("loss", "acc"), row, strict=True))]


def test_a_number_that_is_filled_up_with_blanks() -> None:
    assert read("|loss=   0.5|acc=1   |", {"pattern": "|loss={loss}|acc={acc}|"}) == [
        {"loss": 0.5, "acc": 1}
    ]


@pytest.mark.parametrize("number", ["NaN", "nan", "NAN", "-nan", "nan%"])
def test_what_is_no_number_has_diverged_however_it_is_written(number: str) -> None:
    [row] = read(f"loss {number} acc=1")
    assert math.isnan(row["loss"])


@pytest.mark.parametrize("number", ["1,5", "0,97", "1.234.567", "1'000", "0.5s", "1k", "0x10", "-"])
def test_a_number_of_another_kind_is_never_taken_for_another_one(number: str) -> None:
    told = taken({"pattern": "loss {loss} acc={acc}"})
    line = f"loss 1 acc={number}"
    assert not list(told.of_line(line)) and told.unlike == line
    assert not list(taken({}).of_line(json.dumps({"acc": number})))


def test_commas_between_numbers_are_none_of_theirs() -> None:
    assert read("1,200,3", {"pattern": "{step},{loss},{acc}"}) == [
        {"step": 1, "loss": 200, "acc": 3}
    ]


def test_two_patterns_on_one_line_are_one_row_and_two_rows_on_one_line_are_two() -> None:
    block = {"pattern": ["step {step}", "loss {loss}", "acc {acc}"]}
    assert read("step 3: loss 1 | acc 0.5", block) == [{"step": 3, "loss": 1, "acc": 0.5}]
    assert [row["acc"] for row in read("acc 0.5 acc 0.6", {"pattern": "acc {acc}"})] == [0.5, 0.6]


@pytest.mark.parametrize(
    "line", ["{'loss': 0.5, 'acc': nan, 'all': [1, inf]}", "x {'loss': tensor(0.5), 'acc': 1}"]
)
def test_a_mapping_as_python_prints_it(line: str) -> None:
    [row] = read(line, {"from": "stdout"})
    assert row["loss"] == 0.5


@pytest.mark.parametrize(
    "line", ['{"acc": 0.5, "acc": 0.6}', "{'acc': <Tensor>}", '{"acc": 0.5', '{"acc": "0,5"}']
)
def test_an_object_that_cannot_be_read_is_remembered(line: str) -> None:
    told = taken({})
    assert not list(told.of_line(line))
    assert told.unlike


def test_nan_as_c_prints_it_under_any_name_of_the_step() -> None:
    [row] = read('{"global_step": 1, "acc": nan}', {"step": "global_step"})
    assert math.isnan(row["acc"])


def test_a_dot_and_a_blank_in_a_name() -> None:
    block = {"metrics": {"acc": "valid.acc", "loss": "val loss"}}
    line = '{"valid": {"acc": 0.5}, "val loss": 2}'
    assert read(line, block) == [{"acc": 0.5, "loss": 2}]


def put_together(*rows: Row) -> list[Row]:
    steps = Steps()
    return [done for row in rows for done in steps.add(row)] + list(steps.end())


def test_a_row_without_a_step_belongs_to_the_step_that_was_told_last() -> None:
    """As of a program that prints `Epoch 1`, and the numbers on lines below it."""
    epochs = put_together({"step": 1}, {"loss": 2}, {"acc": 0.5}, {"step": 2}, {"loss": 1})
    assert epochs == [{"step": 1, "loss": 2, "acc": 0.5}, {"step": 2, "loss": 1}]
    assert put_together({"step": 10, "loss": 2}, {"acc": 0.5}) == [
        {"step": 10, "loss": 2, "acc": 0.5}
    ]


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffstep,acc,loss\r\n1,0.5,2\r\n",
        "step;acc;loss\n1;0,5;2\n",
        "step;acc;loss\n1;0.5;2\n",
        "step, acc, loss\n1, 50%, 2\n",
        "step\tacc\tloss\n1\t0.5\t2\n",
        '"step","acc","loss","note"\n"1","0.5","2","a,\nb"\n',
        "step,acc,loss\n1,0.5,2\nstep,acc,loss\n",
    ],
)
def test_csv_as_others_write_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(text, encoding="utf-8")
    told = taken({"from": "./m.csv"})
    assert list(Files(told, written(tmp_path)).news()) == [{"step": 1, "acc": 0.5, "loss": 2}]
    assert not told.unlike


def test_nan_in_csv_has_diverged(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("step,acc\n1,nan\n")
    [row] = Files(taken({"from": "m.csv"}), written(tmp_path)).news()
    assert math.isnan(row["acc"])


def test_lines_that_are_written_anew_count_from_the_first_that_differs(tmp_path: Path) -> None:
    """As of a program that goes on from step 2 and cuts its log there."""
    path, files = tmp_path / "m.jsonl", Files(taken({"from": "m.jsonl"}), written(tmp_path))
    path.write_text("".join(f'{{"step": {step}, "acc": 0.5}}\n' for step in (1, 2, 3)))
    assert [row["step"] for row in files.news()] == [1, 2, 3]
    path.write_text("".join(f'{{"step": {step}, "acc": 0.6}}\n' for step in (1, 2, 3, 4)))
    assert [(row["step"], row["acc"]) for row in files.news()] == [(n, 0.6) for n in (1, 2, 3, 4)]


def test_a_file_of_json_as_a_whole(tmp_path: Path) -> None:
    path, told = tmp_path / "results.json", taken({"from": "results.json"})
    files = Files(told, written(tmp_path))
    path.write_text('{\n  "acc": 0.5,')
    assert not list(files.news())
    path.write_text('{\n  "acc": 0.5,\n  "loss": 2\n}')
    assert list(files.news()) == [{"acc": 0.5, "loss": 2}]
    path.write_text('{\n  "acc": 0.75,\n  "loss": 1\n}')
    assert list(files.news(ended=True)) == [{"acc": 0.75, "loss": 1}]
    assert not list(files.news(ended=True)), "the same row does not count twice"
    path.write_text('[{"acc": 0.75, "loss": 1}, {"acc": 1, "loss": 0}]')
    assert list(files.news()) == [{"acc": 1, "loss": 0}]


def test_a_file_of_another_name_is_named_where_nothing_is_told(tmp_path: Path) -> None:
    told = taken({"from": "metric.csv"})
    (tmp_path / "metrics.csv").write_text("step,acc\n1,1\n")
    assert not list(Files(told, written(tmp_path)).news())
    assert "it wrote metrics.csv" in told.silent(["acc"])


OFF = """
import wandb as wb
import numpy as np, torch
wb.login()
run = wb.init(mode="disabled", settings=wb.Settings(start_method="fork"))
wb.log({"acc": np.float32(0.5), "loss": torch.tensor(2.0, requires_grad=True)})
wb.log({"acc": np.array([0.75]), "loss": np.ones(3), "h": wb.Histogram([1]), "t": torch.ones(2)})
run.finish()
"""


@pytest.mark.parametrize(("rank", "rows"), [("0", [(0, 0.5, 2.0), (1, 0.75, None)]), ("1", [])])
def test_wandb_by_another_name_switched_off_of_arrays_and_in_several_processes(
    rank: str, rows: list[Any], tmp_path: Path
) -> None:
    file = tmp_path / "rows"
    file.touch()
    environment = {**os.environ, "PYTHONPATH": str(STAND_INS), "SWEEPD_ROWS": str(file)}
    subprocess.run([sys.executable, "-c", OFF], env={**environment, "RANK": rank}, check=True)
    told = map(json.loads, file.read_text().splitlines())
    assert [(row["_step"], row["acc"], row.get("loss")) for row in told] == rows


def test_a_file_that_is_being_replaced_is_read_once_it_is_there(tmp_path: Path) -> None:
    path, told = tmp_path / "m.csv", taken({"from": "m.csv"})
    files = Files(told, lambda: [("m.csv", path)])
    assert not list(files.news())
    path.write_text("step,acc\n1,0.5\n")
    assert list(files.news()) == [{"step": 1, "acc": 0.5}]
