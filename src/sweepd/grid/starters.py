"""What a new user begins with: the shipped grids, a commented grid of a task and models, and
templates of a task, a model or a training loop of one's own.

The templates are the files that docs/own.md explains, and its tests run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweepd.closest import closest
from sweepd.errors import UserError
from sweepd.grid import registry
from sweepd.grid.fingerprint import PACKAGE
from sweepd.grid.metrics import directions
from sweepd.grid.registry import REQUIRED, Entry

GRIDS, TEMPLATE_FOLDER = PACKAGE / "grids", PACKAGE / "templates"
SCHEMA = "grid.schema.json"
"""The file with the JSON Schema of a grid, which shipped and new grids name for editors."""
DOUBLINGS = (1, 2, 4)
"""The factors of a new grid's first size that give the sizes of its axis."""
WIDTHS = (8, 16, 32, 64)
SMALL: dict[str, dict[str, Any]] = {
    "parity.py:Parity": {"n": [14, 18]},
    "lis": {"n": [4, 6, 8], "value_range": 16},
}
"""The fields of some tasks in a grid with a template: small, for an answer within minutes."""
SMALL_WIDTHS = (4, 8, 16, 32)
ACC_GOAL = "acc > 0.9"


@dataclass(frozen=True)
class Template:
    """A file from which users start a class of their own. where: how a grid names what is in the
    file. grid: the file with the grid of a loop or of a program, which has no other classes."""

    file: str
    where: str
    grid: str = ""


TEMPLATES = {
    "task": Template("parity.py", "parity.py:Parity"),
    "model": Template("lstm.py", "lstm.py:Lstm"),
    "loop": Template("script.py", "script.py:Parity", "script.yaml"),
    "program": Template("train.py", "train.py", "train.yaml"),
}
"""The templates by the kind of class that they are for."""


def shipped_grids() -> dict[str, Path]:
    """Returns the files of the grids that come with sweepd, by name."""
    return {path.stem: path for path in sorted(GRIDS.glob("*.yaml"))}


def shipped_grid(name: str) -> str:
    """Returns the text of a shipped grid. Raises UserError if there is none of this name."""
    grids = shipped_grids()
    if name not in grids:
        raise UserError(
            f"no grid is shipped as {name}{closest(name, grids)}; there are {', '.join(grids)}"
        )
    return grids[name].read_text(encoding="utf-8")


def template(kind: str) -> tuple[Template, str]:
    """Returns the template of a kind, and its text. Raises UserError for any other kind."""
    if kind not in TEMPLATES:
        raise UserError(f"--own {kind}{closest(kind, TEMPLATES)}: there are {', '.join(TEMPLATES)}")
    found = TEMPLATES[kind]
    return found, (TEMPLATE_FOLDER / found.file).read_text(encoding="utf-8")


def template_grid(name: str) -> str:
    """Returns the text of the grid that belongs to a template. name: the file of the grid."""
    text = (TEMPLATE_FOLDER / name).read_text(encoding="utf-8")
    return f"# yaml-language-server: $schema={SCHEMA}\n{text}"


def new_grid(task: str, models: Sequence[str], base: Path) -> str:
    """Returns the text of a new grid, which sets what most sweeps set, and has every other
    parameter as a comment. `base` is the folder of the grid, where one's own classes are; templates
    need not be there yet. Raises UserError as `registry.find` does."""
    # Where each template is found; other classes are looked for from `base`.
    templates = {template.where: TEMPLATE_FOLDER for template in TEMPLATES.values()}
    found = registry.find("task", task, templates.get(task, base))
    of_task, size_field = registry.entry(task, found), found.size_field
    least = of_task.parameters[size_field].default
    sizes = [(4 if least is REQUIRED else least) * times for times in DOUBLINGS]
    fields, widths = {size_field: sizes}, WIDTHS
    if templates.keys() & {task, *models}:
        fields, widths = SMALL.get(task, fields), SMALL_WIDTHS
    lines = [
        f"# yaml-language-server: $schema={SCHEMA}",
        "# sweepd plan FILE     what it would run, and how long that takes",
        "# sweepd launch FILE   run it; the same command again continues it",
        '# sweepd query "min d"   the answer',
        f"name: {'own' if registry.is_own(task) else task}",
        "",
        f"# {of_task.summary}",
        "task:",
        *_block(of_task, fields),
        "",
    ]
    lines += ["# Several blocks are swept side by side.", "model:"]
    for model in models:
        kind = registry.find("model", model, templates.get(model, base))
        entry = registry.entry(model, kind)
        lines += [f"  # {entry.summary}", *_block(entry, {"d": list(widths)}, dash="- ")]
    metrics = directions(found.metrics)
    *_, (last, better) = metrics.items()
    goal = ACC_GOAL if "acc" in metrics else f"{last} {'>' if better == 'up' else '<'} 0.1"
    early = ["stop:  {success: 0.95}  # a trial that is right so often ends"] * (goal == ACC_GOAL)
    lines += [
        "",
        "train: {steps: 1000, batch_size: 64}   # lr: 1.0e-3 sets the rate; a list is swept",
        "seeds: [0, 1, 2]",
        f"goal:  {goal}        # when a trial passes",
        *early,
        "pass:  median           # of a cell's seeds; or all, any, mean",
        "search: staircase       # only the cells that the answer needs; or grid: all of them",
        "# What decides the answer is then trained for longer: would more training change it?",
        "# settle: {factor: 4, least: 2000, most: 4000}",
    ]
    return "\n".join(lines) + "\n"


def _block(entry: Entry, axes: dict[str, Any], dash: str = "") -> Iterator[str]:
    """Yields the lines of a block: its axes, what it must be given, and the rest as comments."""
    indent = "  " + " " * len(dash)
    yield f"  {dash}name: {entry.name}"
    for field, value in axes.items():
        yield f"{indent}{field}: {json.dumps(value)}"
    for field, parameter in entry.parameters.items():
        if field in axes:
            continue
        if parameter.default is REQUIRED:
            yield f"{indent}{field}:   # required"
        else:
            value = parameter.default
            text = value if isinstance(value, str) else json.dumps(value)
            yield f"{indent}# {field}: {text}"
