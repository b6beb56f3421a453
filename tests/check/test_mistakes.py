"""Each mistake is told with its file, its line and what to do, in the words of docs/check.md. Where
the mistake is not made, nothing is wrong."""

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
SAID = dict(re.findall(r"(?m)^\| (.+?) \| (.+) \|$", PAGE.partition("## Mistakes")[2]))
"""By the name of each mistake, what the page says is said. Its `…` stand for anything."""
EVERY = {**IN_MODELS, **IN_TASKS, **IN_SCORES, **IN_CLASSES, **IN_LOOPS}


def test_the_page_tells_of_these_mistakes() -> None:
    assert {name for name in SAID if name not in ("mistake", "---")} == set(EVERY)


def seen(folder: Path, task: str = TASK, model: str | None = None) -> list[Finding]:
    """The findings of the first case that is wrong, or of all."""
    (folder / "task.py").write_text(task)
    (folder / "model.py").write_text(model or "")
    name = "model.py:Mine" if model else "standard"
    findings: list[Finding] = []
    for case in cases_of(parse_grid(GRID.replace("MODEL", name), "grid.yaml", [], folder)):
        if case.name != "standard" and (case.kind != "task" or not model):
            findings += inspect(case, folder)
        if findings and not findings[-1].ok:
            break
    return findings


def seen_in_loop(folder: Path, text: str) -> list[Finding]:
    (folder / "loop.py").write_text(text)
    [case] = cases_of(parse_grid("loop: {name: loop.py:Mine}", "grid.yaml", [], folder))
    return list(inspect(case, folder))


def test_nothing_is_wrong_without_a_mistake(tmp_path: Path) -> None:
    findings = seen(tmp_path) + seen(tmp_path, model=MODEL) + seen_in_loop(tmp_path, LOOP)
    assert all(finding.ok for finding in findings), findings
    assert {one.check for one in findings} >= {"splits", "causal", "checkpoint", "time", "seed"}


STATED = """
from sweepd.models.base import Architecture, Part

class Stated(Architecture):
    def parts(self, vocab, L):
        return [Part("all", 9, 9)]

    def kept_floats(self, vocab, L):
        return 9, 9

"""
ROUTED = """
        for i, expert in enumerate(self.experts):
            if (here := tokens % 99 == i).any():
                x = x + expert(x) * here[..., None]
        return self.head(x)
"""


def test_an_expert_may_be_idle(tmp_path: Path) -> None:
    experts = "self.experts = nn.ModuleList(nn.Linear(d, d) for _ in range(99))"
    text = MODEL.replace("self.kept = None", experts).replace("        return self.head(x)", ROUTED)
    text = text.replace("(Architecture)", "(Stated)").replace(
        "@dataclass", f"{STATED}@dataclass", 1
    )
    findings = seen(tmp_path, model=text)
    assert all(finding.ok for finding in findings), findings
    told = {(one.check, one.subject): one.detail for one in findings}
    assert "no row reached" in told["training", "model.py:Mine"]


@pytest.mark.parametrize("name", EVERY)
def test_a_mistake(tmp_path: Path, name: str) -> None:
    mistake: Mistake = EVERY[name]
    said = ".*".join(map(re.escape, SAID[name].split("…")))
    right, file = (
        (MODEL, "model.py")
        if name in IN_MODELS
        else (LOOP, "loop.py")
        if name in IN_LOOPS
        else (TASK, "task.py")
    )
    text = mistake.made_in(right)
    place = f"{tmp_path / file}:{mistake.line(text)}"

    def findings() -> list[Finding]:
        if file == "loop.py":
            return seen_in_loop(tmp_path, text)
        return seen(tmp_path, model=text) if file == "model.py" else seen(tmp_path, text)

    if mistake.check:
        *_, wrong = findings()
        assert not wrong.ok and (wrong.check, wrong.place) == (mistake.check, place)
        assert re.fullmatch(said, wrong.detail), f"\n{wrong.detail}\n{SAID[name]}"
    else:
        with pytest.raises(GridError, match=f"{re.escape(place)}: {said}"):
            findings()
