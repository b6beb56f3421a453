"""A sweep file of Weights & Biases becomes a grid: its trials, its command, what is left out."""

from pathlib import Path

import pytest

from sweepd.errors import SweepdError
from sweepd.grid.plan import plan
from sweepd.grid.spec import parse_grid
from sweepd.grid.wandb import grid_of

SWEEP = (Path(__file__).parents[2] / "docs/examples/wandb.yaml").read_text()


def test_its_trials(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    text, left_out = grid_of(SWEEP, "sweep.yaml")
    trials = plan(parse_grid(text, "grid.yaml", [], tmp_path)).trials
    assert {(t.axes["lr"], t.axes["optimizer_beta"], t.seed) for t in trials} == {
        (lr, beta, seed) for lr in (0.1, 0.01) for beta in (0.9, 0.99) for seed in (1, 2)
    }
    trial = trials[0]
    assert trial.metrics == {"val_loss": "down"} and trial.program
    assert trial.program.arguments(trial.values.loop, {"seed": 7})[:4] == [
        *("python", "train.py", "--lr=0.1", "--epochs=10")
    ]
    assert "project is left out" in left_out and any("dropout" in one for one in left_out)


def test_a_command_of_its_own() -> None:
    command = 'command: ["${env}", python3, "${program}", "a b", "${args_no_hyphens}"]'
    text, _ = grid_of(SWEEP + command, "sweep.yaml")
    assert "program: python3 train.py 'a b' lr={lr} epochs={epochs}" in text


@pytest.mark.parametrize(
    ("args", "amps"),
    [
        ("args", {("--amp=True",), ("--amp=False",)}),
        ("args_no_boolean_flags", {("--amp",), ()}),
    ],
)
def test_its_values_and_names_become_the_words_that_wandb_writes(
    tmp_path: Path, args: str, amps: set[tuple[str, ...]]
) -> None:
    sweep = (
        "parameters: {amp: {values: [true, false]}, model: {value: m}, lambda: {value: [1, 2]}, "
    )
    sweep += "a.b: {value: null}, a_b: {value: 4}, Seed: {value: 5}}\nmethod: grid\n"
    sweep += f'program: train.py\ncommand: ["${{program}}", "${{{args}}}"]'
    (tmp_path / "train.py").write_text("")
    text, _ = grid_of(sweep, "sweep.yaml")
    trials = plan(parse_grid(text, "grid.yaml", [], tmp_path)).trials
    given = [one.program.arguments(one.values.loop, {}) for one in trials if one.program]
    others = ("--model=m", "--lambda=[1, 2]", "--a.b=None", "--a_b=4", "--Seed=5")
    assert {tuple(command[1:]) for command in given} == {(*amp, *others) for amp in amps}


def test_what_is_no_sweep_file_is_refused() -> None:
    with pytest.raises(SweepdError, match="has `program` and `parameters`"):
        grid_of("method: grid", "sweep.yaml")
