"""`sweepd check` on a class and on a grid, as people and programs see it. It says what is right,
and what is wrong in which place. It also answers when the user's code kills the process that
inspects it."""

from pathlib import Path

import pytest
from inprocess import sweepd
from mistakes import IN_MODELS, MODEL, TASK

GRID = """
name: a
task: {name: task.py:Mine, n: [4, 8]}
model: {name: [model.py:Mine, standard], as: [mine, standard], d: [16, 8]}
goal: acc > 0.4
"""


@pytest.fixture(autouse=True)
def written(folder: Path) -> None:
    (folder / "task.py").write_text(TASK)
    (folder / "model.py").write_text(MODEL)
    (folder / "grid.yaml").write_text(GRID)


def test_a_grid_is_checked_as_a_whole() -> None:
    """`check` looks at all classes of the grid, at their smallest and largest size, and in trials.
    It also says whether the goal means anything."""
    found = sweepd("check", "grid.yaml", "--json", exits=2).rows
    seen = {(finding["subject"], finding["setting"]) for finding in found}
    assert {("task.py:Mine", "size 4"), ("task.py:Mine", "size 8")} < seen
    assert {("mine", "task.py:Mine size 8, d 8"), ("standard", "task.py:Mine size 4, d 8")} < seen
    *right, goal = found
    assert all(finding["ok"] for finding in right)
    assert {finding["check"] for finding in right} >= {"resources", "splits", "causal", "training"}
    assert goal["check"] == "goal" and goal["place"] == "grid.yaml:5" and not goal["ok"]
    assert "acc > 0.4 says nothing: always answering" in goal["detail"]


def test_people_see_a_line_for_each_check(folder: Path) -> None:
    """Below an error stands the line that raised it. A class that is wrong keeps none of the others
    from being looked at."""
    both = IN_MODELS["a layer that reads from both ends"]
    (folder / "model.py").write_text(both.made_in(MODEL))
    (folder / "other.py").write_text(IN_MODELS["layers whose sizes do not fit"].made_in(MODEL))
    text = (
        GRID.replace("[4, 8]", "4")
        .replace("standard", "other.py:Mine", 1)
        .replace("standard", "other")
    )
    (folder / "grid.yaml").write_text(text)
    answer = sweepd("check", "grid.yaml", exits=2)
    assert answer.err.startswith("2 of ")
    lines = answer.out.splitlines()
    assert "task.py:Mine, size 4" in lines
    wrong = [at for at, line in enumerate(lines) if line.startswith("  ✗ ")]
    place = f"{folder}/model.py:{both.line(both.made_in(MODEL))}"
    assert (
        lines[wrong[0]].startswith("  ✗ causal ") and f"{place}: is not causal" in lines[wrong[0]]
    )
    assert lines[wrong[1] + 1].strip() == "return self.head(x)"


def test_code_that_takes_its_process_along(folder: Path) -> None:
    text = MODEL.replace("return self.head(x)", "import os\n        os.abort()")
    (folder / "model.py").write_text(text)
    *right, wrong = sweepd("check", "model.py:Mine", "--json", exits=2).rows
    assert [finding["check"] for finding in right] == ["weights"]
    assert wrong["check"] == "outputs" and wrong["raised"]
    assert wrong["detail"] == "its process died (-6)"
    assert (
        wrong["place"] == f"{folder}/model.py:{text.splitlines().index('        os.abort()') + 1}"
    )


def test_a_name_that_is_taken_is_refused_as_plan_refuses_it(folder: Path) -> None:
    more = TASK.replace("n: int = 8\n", "n: int = 8\n    cell: int = 1\n")
    (folder / "task.py").write_text(more)
    told = "task.py:Mine has a field cell, the name of a column of every result; rename the field"
    for command, at in (
        (["check", "task.py:Mine"], ""),
        (["check", "grid.yaml"], "grid.yaml:3: task: "),
        (["plan", "grid.yaml"], "grid.yaml:3: task: "),
    ):
        answer = sweepd(*command)
        assert (answer.code, answer.err) == (2, f"sweepd: {at}{told}\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing.py:Mine"], "no task nothing.py:Mine: there is no"),
        (["task.py:Yours"], "task.py has no class named Yours"),
        (["task.py:np"], "is neither a task nor a model nor a training loop"),
        (["lit"], "no task and no model is named lit (did you mean lis?)"),
        (["task.py:Mine", "--set", "m=3"], "--set m: no such field of task.py:Mine or standard"),
        (["task.py:Mine", "--set", "n=a"], 'sweepd: --set n: "a": must be a valid integer'),
        (["task.py:Mine", "--with", "gru"], "no model is named gru"),
        (["grid.yaml", "--with", "lis"], "--with lis: a grid names its tasks and models itself"),
        (["none.yaml"], "none.yaml"),
    ],
)
def test_what_cannot_be_checked(arguments: list[str], told: str) -> None:
    assert told in sweepd("check", *arguments, exits=2).err
