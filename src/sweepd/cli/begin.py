"""The first steps: init."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sweepd.cli.completion import complete_grids, complete_models, complete_tasks
from sweepd.cli.output import say
from sweepd.errors import EnvironmentFailure, UserError

TASK, MODELS = "lis", ("standard", "linear")
"""The task and the models of a new grid for which the user names none."""


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: sweepd init --grid quickstart --out first")(init)


def init(
    grid: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="A grid that comes with sweepd.", autocompletion=complete_grids
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="The task of a new grid.", autocompletion=complete_tasks),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A model of a new grid (repeatable).", autocompletion=complete_models),
    ] = None,
    own: Annotated[
        list[str] | None,
        typer.Option(metavar="task|model|loop", help="A template of your own (repeatable)."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write it.")] = Path(),
) -> None:
    """Write a grid to start from, and templates of a task, a model or a training loop of your own
    beside it.

    Without --grid it is a new grid with every parameter of its task and models as a comment, and
    with --own loop that of the loop alone.
    """
    from sweepd.grid import starters
    from sweepd.grid.spec import json_schema

    if grid and (task or model or own):
        raise UserError("--grid names a whole grid: leave out --task, --model and --own")
    if "loop" in (own or ()) and (task or model or set(own or ()) != {"loop"}):
        raise UserError(
            "--own loop is the whole training: leave out --task, --model and other --own"
        )
    found = {kind: starters.template(kind) for kind in own or ()}
    files = {template.file: text for template, text in found.values()}
    if grid:
        files[f"{grid}.yaml"] = starters.shipped_grid(grid)
    elif "loop" in found:
        files["grid.yaml"] = starters.template_grid(found["loop"][0].grid)
    else:
        task = task or (found["task"][0].where if "task" in found else TASK)
        models = model or ([found["model"][0].where] if "model" in found else [*MODELS])
        files["grid.yaml"] = starters.new_grid(task, models, out)
    if there := [name for name in files if (out / name).exists()]:
        raise UserError(
            f"{out} has {', '.join(there)} already: nothing was written; name another --out"
        )
    files[starters.SCHEMA] = json.dumps(json_schema())
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise EnvironmentFailure(f"cannot write {out}: {error.strerror}") from error
    say(f"wrote {', '.join(str(out / name) for name in files)}")
    say(f"next: sweepd plan {out / (grid or 'grid')}.yaml")
