"""What a new user begins with: the shipped grids, new grids with comments, and templates of
code."""

from pathlib import Path

import pytest
import yaml

from sweepd.errors import UserError
from sweepd.grid import registry, starters
from sweepd.grid.plan import plan
from sweepd.grid.registry import parameters
from sweepd.grid.spec import load_grid, parse_grid

ROOT = Path(__file__).parents[2]
TASKS = [entry.name for entry in registry.shipped("task")]
MODELS = [entry.name for entry in registry.shipped("model")]


def test_every_grid_is_shipped_and_tells_editors_of_its_schema() -> None:
    grids = starters.shipped_grids()
    assert {f"{name}.yaml" for name in grids} == {p.name for p in (ROOT / "grids").glob("*.yaml")}
    for name in grids:
        first = starters.shipped_grid(name).partition("\n")[0]
        assert first == f"# yaml-language-server: $schema={starters.SCHEMA}"


@pytest.mark.parametrize("task", TASKS)
def test_a_new_grid_of_any_task_can_be_planned(task: str, tmp_path: Path) -> None:
    text = starters.new_grid(task, ["standard"], tmp_path)
    grid = parse_grid(text, "grid.yaml", [], tmp_path)
    assert {trial.task_name for trial in plan(grid).planned} == {task}


@pytest.mark.parametrize("model", MODELS)
def test_every_parameter_of_a_model_is_there_and_may_be_uncommented(
    model: str, tmp_path: Path
) -> None:
    text = starters.new_grid("lis", [model, "standard"], tmp_path)
    fields = list(parameters(registry.find("model", model, tmp_path)))
    lines = [line.replace("# ", "", 1) if ": " in line else line for line in text.splitlines()]
    start = next(i for i, line in enumerate(lines) if line == f"  - name: {model}")
    block = yaml.safe_load("\n".join(lines[start : start + len(fields) + 1]))
    assert list(block[0]) == ["name", "d", *(name for name in fields if name != "d")]
    (tmp_path / "grid.yaml").write_text(text)
    blocks = load_grid(tmp_path / "grid.yaml", []).blocks["model"]
    assert [block.name for block in blocks] == [model, "standard"]


def test_templates_are_the_tested_examples_and_a_grid_names_them(tmp_path: Path) -> None:
    for found, text in map(starters.template, starters.TEMPLATES):
        assert text == (ROOT / "docs" / "examples" / found.file).read_text()
        (tmp_path / found.file).write_text(text)
    where = {kind: found.where for kind, found in starters.TEMPLATES.items()}
    text = starters.new_grid(where["task"], [where["model"]], Path("/nowhere"))
    grid = parse_grid(text, "grid.yaml", [], tmp_path)
    assert grid.name == "own"
    assert {trial.model_where for trial in plan(grid).planned} == {where["model"]}


def test_what_there_is_not_is_answered_with_what_there_is() -> None:
    with pytest.raises(UserError, match="did you mean quickstart"):
        starters.shipped_grid("quikstart")
    with pytest.raises(UserError, match="did you mean model"):
        starters.template("modle")


def test_a_loop_has_a_grid_of_its_own(tmp_path: Path) -> None:
    found, text = starters.template("loop")
    (tmp_path / found.file).write_text(text)
    grid = parse_grid(starters.template_grid(found.grid), "grid.yaml", [], tmp_path)
    assert {trial.loop_where for trial in plan(grid).planned} == {found.where}
