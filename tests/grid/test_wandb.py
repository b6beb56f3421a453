"""A sweep file of Weights & Biases becomes a grid: its trials, its words, what is said of it.

`words_of_wandb` is a plain twin of how `wandb agent` expands a command.
"""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweepd.errors import SweepdError
from sweepd.grid.plan import Plan, plan
from sweepd.grid.spec import parse_grid
from sweepd.grid.wandb import grid_of

SWEEP = (Path(__file__).parents[2] / "docs/examples/wandb.yaml").read_text()


def planned(folder: Path, sweep: str) -> Plan:
    (folder / "train.py").write_text("")
    return plan(parse_grid(grid_of(sweep, "sweep.yaml")[0], "grid.yaml", [], folder))


def words(made: Plan) -> set[tuple[str, ...]]:
    return {
        tuple(trial.program.arguments(trial.values.loop, {"seed": trial.seed}))
        for trial in made.trials
        if trial.program
    }


def runs_of_wandb(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the values of each run of a grid. Nested parameters are one dict."""
    axes = [
        [*runs_of_wandb(about["parameters"])]
        if "parameters" in about
        else about.get("values", [about.get("value")])
        for about in parameters.values()
    ]
    for values in itertools.product(*axes):
        yield dict(zip(parameters, values, strict=True))


def words_of_wandb(sweep: dict[str, Any], run: dict[str, Any]) -> tuple[str, ...]:
    macros: dict[str, list[str]] = {
        "env": [],
        "interpreter": ["python"],
        "program": [sweep["program"]],
        "args": [f"--{name}={value}" for name, value in run.items()],
        "args_no_hyphens": [f"{name}={value}" for name, value in run.items()],
        "args_append_hydra": [f"+{name}={value}" for name, value in run.items()],
        "args_override_hydra": [f"++{name}={value}" for name, value in run.items()],
        "args_no_equals": [w for name, value in run.items() for w in (f"--{name}", str(value))],
        "args_no_boolean_flags": [
            f"--{name}" if value is True else f"--{name}={value}"
            for name, value in run.items()
            if value is not False
        ],
        "args_json": [json.dumps(run)],
    }
    default = ["${env}", "${interpreter}", "${program}", "${args}"]
    return tuple(
        word
        for chunk in map(str, sweep.get("command", default))
        for word in (
            macros.get(chunk[2:-1], []) if chunk[:2] == "${" and chunk[-1] == "}" else [chunk]
        )
    )


PARAMETERS = {
    "plain": '{lr: {values: [0.1, 1.0e-5]}, n: {value: 3}, name: {values: [a b, "it\'s"]}}',
    "bools and null": "{amp: {values: [true, false]}, x: {value: null}, of: {value: false}, "
    "mixed: {values: [true, 3, two]}}",
    "lists and dicts": "{a: {values: [[1, 2], [3]]}, o: {values: [{a: 1}, {b: x}]}, "
    "q: {value: '{x}'}, e: {values: ['', y]}}",
    "nested": "{model: {parameters: {depth: {values: [4, 8]}, opt: {value: adam}, "
    "in: {parameters: {y: {values: [null, true, 'a\"b']}}}}}, model_depth: {value: 1}}",
    "whole numbers among others": "{wd: {values: [0, 0.01, 1]}}",
    "large": "{n: {values: [123456789012345678901234567890, 5]}, m: {value: 9007199254740993}}",
    "YAML 1.1": "{lr: {values: [1e-4, 0.1]}, flag: {values: [yes, no]}, u: {value: 1_000}, "
    "inf: {value: .inf}}",
    "names": "{model: {value: m}, lambda: {value: 1}, a.b: {value: 2}, a_b: {value: 3}, "
    "Size: {value: 5}, steps: {values: [1e5, 10]}, 9x: {value: 1}, program: {value: p}}",
    "twice": "{lr: {values: [1, 1, '1', 2]}}",
    "seeds": "{random_seed: {values: [1, 2]}, data_seed: {value: 3}}",
}
MACROS = [
    *("args", "args_no_hyphens", "args_no_equals", "args_no_boolean_flags", "args_json"),
    *("args_append_hydra", "args_override_hydra"),
]


@pytest.mark.parametrize("macro", MACROS)
@pytest.mark.parametrize("parameters", PARAMETERS.values(), ids=PARAMETERS)
def test_the_words_are_those_of_wandb(tmp_path: Path, parameters: str, macro: str) -> None:
    command = (
        f"['${{env}}', '${{interpreter}}', '${{program}}', --tag, '', '${{{macro}}}', '{{a}}']"
    )
    text = f"program: train.py\nmethod: grid\ncommand: {command}\nparameters: {parameters}"
    sweep = yaml.safe_load(text)
    theirs = {words_of_wandb(sweep, run) for run in runs_of_wandb(sweep["parameters"])}
    assert words(planned(tmp_path, text)) == theirs


def test_its_trials(tmp_path: Path) -> None:
    trials = planned(tmp_path, SWEEP).trials
    values = {(t.axes["lr"], t.axes["optimizer_beta"], t.axes["dropout"], t.seed) for t in trials}
    dropouts = (0.1, 0.2, 0.3, 0.4, 0.5)
    assert values == {*itertools.product((0.1, 0.01), (0.9, 0.99), dropouts, (1, 2))}
    assert trials[0].metrics == {"val_loss": "down"}
    text, notes = grid_of(SWEEP, "sweep.yaml")
    assert "project is left out" in notes
    assert re.search(r"# a range from 0.1 to 0.5 .*\n  dropout: \{from: 0.1, to: 0.5,", text)


@pytest.mark.parametrize(
    ("about", "values"),
    [
        ("{min: 0, max: 8}", [0, 2, 4, 6, 8]),
        ("{min: 1, max: 3}", [1, 2, 3]),
        ("{min: 0.0, max: 1}", [0.0, 0.25, 0.5, 0.75, 1.0]),
        ("{distribution: log_uniform_values, min: 1e-5, max: 0.1}", [1e-5, 1e-4, 1e-3, 0.01, 0.1]),
        ("{distribution: log_uniform, min: 0, max: 4}", [1.0, 2.71828, 7.38905, 20.0855, 54.5982]),
        ("{distribution: q_uniform, min: 16, max: 256, q: 16}", [16, 80, 128, 192, 256]),
    ],
)
def test_its_ranges(tmp_path: Path, about: str, values: list[float]) -> None:
    made = planned(tmp_path, f"{{program: train.py, method: bayes, parameters: {{x: {about}}}}}")
    assert [trial.axes["x"] for trial in made.trials] == pytest.approx(values, rel=1e-5)
    assert {type(trial.axes["x"]) for trial in made.trials} == {type(values[0])}


def test_what_is_left_out_or_changed_is_said() -> None:
    parameters = "{n: {distribution: normal, mu: 0, sigma: 1}, wd: {values: [0, 0.1, 0.1]}}"
    command = "[python, /a/train.py, '${args_json_file}', '${args}']"
    _, notes = grid_of(f"{{command: {command}, parameters: {parameters}}}", "sweep.yaml")
    said = "\n".join(notes)
    for part in ("n has no finite range", "0.1 twice", "are texts", "args_json_file", "absolute"):
        assert part in said


@pytest.mark.parametrize("metric", ["1_acc", "val/Acc_max", "seconds", "é", "loss", "Acc", "pass"])
@pytest.mark.parametrize("goal", ["maximize", "minimize"])
def test_any_metric_and_a_script_of_any_name_can_be_planned(
    tmp_path: Path, metric: str, goal: str
) -> None:
    (tmp_path / "linear.py").write_text("")
    text = "{command: [python, linear.py, '${args}'], parameters: {d: {values: [1, 2]}}, "
    made = planned(tmp_path, text + f"metric: {{name: {metric}, goal: {goal}}}}}")
    assert [*made.trials[0].metrics.values()] == ["up" if goal == "maximize" else "down"]


@pytest.mark.parametrize(
    "text", ["method: grid", "parameters: {a: {value: 1}}", "a: [", "{parameters: {}, program: 3}"]
)
def test_what_is_no_sweep_file_is_refused(text: str) -> None:
    with pytest.raises(SweepdError, match=r"sweep\.yaml"):
        grid_of(text, "sweep.yaml")
