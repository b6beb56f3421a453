"""Each mistake is told with its file, its line and what to do, as docs/check.md says. Where the
mistake is not made, nothing is found. Covers `grid/blame.py`, `trial/findings.py` and
`trial/rehearsal.py`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mistakes import (
    IN_CLASSES,
    IN_LOOPS,
    IN_MODELS,
    IN_SCORES,
    IN_TASKS,
    LOOP,
    MODEL,
    TASK,
    Mistake,
)

from sweepd.check.cases import Finding, cases_of
from sweepd.check.inspection import inspect
from sweepd.grid.spec import parse_grid
from sweepd.grid.yamlfile import GridError

GRID = """
name: a
task: {name: task.py:Mine, n: 4}
model: {name: MODEL, d: 8}
train: {batch_size: 8}
"""
PAGE = (Path(__file__).parents[2] / "docs" / "check.md").read_text()


def found_in(folder: Path, task: str, model: str | None = None) -> list[Finding]:
    """What is found of the first case that is wrong, or of all."""
    (folder / "task.py").write_text(task)
    if model:
        (folder / "model.py").write_text(model)
    name = "model.py:Mine" if model else "standard"
    found: list[Finding] = []
    for case in cases_of(parse_grid(GRID.replace("MODEL", name), "grid.yaml", [], folder)):
        if case.name != "standard" and (case.kind != "task" or not model):
            found += inspect(case, folder)
        if found and not found[-1].ok:
            break
    return found


def matches(told: str, text: str) -> bool:
    """Whether a text is what is told, whose `…` stand for anything."""
    return bool(re.fullmatch(".*".join(map(re.escape, told.split("…"))), text))


def test_nothing_is_wrong_without_a_mistake(tmp_path: Path) -> None:
    found = found_in(tmp_path, TASK) + found_in(tmp_path, TASK, MODEL)
    assert all(finding.ok for finding in found), found
    assert {finding.check for finding in found} >= {"splits", "causal", "checkpoint", "time"}


@pytest.mark.parametrize("name", IN_MODELS)
def test_in_a_model(tmp_path: Path, name: str) -> None:
    mistake = IN_MODELS[name]
    text = mistake.made_in(MODEL)
    *_, wrong = found_in(tmp_path, TASK, text)
    is_told(wrong, mistake, f"{tmp_path}/model.py:{mistake.line(text)}")


OF_TASKS = {**IN_TASKS, **{name: one for name, one in IN_SCORES.items() if one.check}}


@pytest.mark.parametrize("name", OF_TASKS)
def test_in_a_task(tmp_path: Path, name: str) -> None:
    mistake = OF_TASKS[name]
    text = mistake.made_in(TASK)
    *_, wrong = found_in(tmp_path, text)
    is_told(wrong, mistake, f"{tmp_path}/task.py:{mistake.line(text)}")


def is_told(wrong: Finding, mistake: Mistake, place: str) -> None:
    assert not wrong.ok
    assert matches(mistake.told, wrong.detail), f"\n{wrong.detail}\n{mistake.told}"
    assert wrong.check == mistake.check and wrong.place == place


def found_in_loop(folder: Path, text: str) -> list[Finding]:
    (folder / "loop.py").write_text(text)
    [case] = cases_of(parse_grid("loop: {name: loop.py:Mine}", "grid.yaml", [], folder))
    return list(inspect(case, folder))


def test_nothing_is_wrong_with_the_loop(tmp_path: Path) -> None:
    assert all(finding.ok for finding in found_in_loop(tmp_path, LOOP))


@pytest.mark.parametrize("name", IN_LOOPS)
def test_in_a_loop(tmp_path: Path, name: str) -> None:
    mistake = IN_LOOPS[name]
    text = mistake.made_in(LOOP)
    place = f"{tmp_path}/loop.py:{mistake.line(text)}"
    if mistake.check:
        *_, wrong = found_in_loop(tmp_path, text)
        is_told(wrong, mistake, place)
    else:
        with pytest.raises(GridError) as caught:
            found_in_loop(tmp_path, text)
        assert f"{place}: {mistake.told}" in str(caught.value)


OF_CLASSES = {**IN_CLASSES, **{name: one for name, one in IN_SCORES.items() if not one.check}}


@pytest.mark.parametrize("name", OF_CLASSES)
def test_in_a_class(tmp_path: Path, name: str) -> None:
    mistake = OF_CLASSES[name]
    text = mistake.made_in(TASK)
    with pytest.raises(GridError) as caught:
        found_in(tmp_path, text)
    place = f"{tmp_path}/task.py:{mistake.line(text)}"
    assert f"{place}: {mistake.told}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        item
        for mistakes in (IN_MODELS, IN_TASKS, IN_SCORES, IN_LOOPS, IN_CLASSES)
        for item in mistakes.items()
    ],
)
def test_the_page_tells_it(name: str, mistake: Mistake) -> None:
    assert f"| {name} | {mistake.told} |" in PAGE
