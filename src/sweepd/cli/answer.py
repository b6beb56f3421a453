"""For agents and scripts: `answer` plans, runs and asks in one call that can be repeated, and
`skill` prints what an agent should know."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from sweepd.cli.options import AsJson, Results, Settings
from sweepd.cli.output import command, form_of, say, show, width
from sweepd.cli.run import GridFile, InOwnProcess, Options, run_to_its_end
from sweepd.errors import UserError

MOST_NEXT = 5
"""How many of the trials that come next are named."""


def answer(
    question: Annotated[str, typer.Argument(metavar="QUESTION", show_default=False)],
    grid: GridFile,
    max_minutes: Annotated[
        float,
        typer.Option(
            metavar="M", help="How long it may run. The same call goes on.", show_default=False
        ),
    ] = math.inf,
    overrides: Settings = None,
    in_process: InOwnProcess = False,
    results: Results = None,
    as_json: AsJson = None,
) -> None:
    """Plan a grid, run it or go on with it for at most so many minutes, and answer a question.

    With --json it prints one object: `answer` (the rows, each with how sure it is), `finished`,
    `spent`, and `next`: what would make it surer, with the command for that. Exits with 0 if there
    is an answer, 1 if it has no row or trials failed.
    """
    from sweepd.grid.spec import load_grid
    from sweepd.query.answers import ask
    from sweepd.query.readable import lines, rows_for_people
    from sweepd.query.selection import codes

    form = form_of(as_json)
    if not max_minutes > 0:
        raise UserError(f"--max-minutes {max_minutes:g}: must be above 0")
    asked = load_grid(grid, overrides or [])
    options = Options(in_process=in_process, whole_hours=max_minutes / 60)
    store, search, failed = run_to_its_end(asked, results, options)
    reply = ask(store, question, code=codes("current", store), sweeps=[asked.name])
    waiting = search.wanted()
    again = ["answer", question, str(grid)]
    for text in overrides or ():
        again += ["--set", text]
    again += ["--in-process"] * in_process + ["--json"] * (form == "json")
    again += ["--max-minutes", f"{max_minutes:g}"] if max_minutes < math.inf else []
    go_on = command(*again, results=store.address)
    if form == "table":
        if reply.summary and reply.rows:
            show(lines(reply, width()))
        else:
            from sweepd.cli.output import emit

            emit(*rows_for_people(reply), form)
        say(f"{len(waiting)} trials would make it surer: {go_on}" if waiting else "it is finished")
    else:
        ended = search.outcomes
        spent = [t.train_flops or 0.0 for t in search.plan.trials if t.id in ended]
        row: dict[str, Any] = {
            "question": question,
            "sweep": asked.name,
            "answer": [_known(row) for row in reply.rows],
            "finished": not waiting and not failed,
            "spent": {"trials": len(ended), "train_flops": sum(spent)},
            "failed": failed,
            "next": {
                "trials": len(waiting),
                "first": [_named(trial) for trial in waiting[:MOST_NEXT]],
                "command": go_on if waiting else None,
            },
            "notes": list(reply.notes),
        }
        print(json.dumps(row, default=str))
    if failed or not reply.rows:
        raise typer.Exit(1)


def _known(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the columns of a row that say something."""
    return {name: value for name, value in row.items() if value not in (None, "")}


def _named(trial: Any) -> dict[str, Any]:
    """Returns what tells a trial from others."""
    return {"id": trial.id[:8], "model": trial.model_name, "size": trial.size, "seed": trial.seed}


def skill(
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it there, as .../sweepd/SKILL.md.")
    ] = None,
) -> None:
    """Print what an agent should know of this version: ten commands, and how to read an answer."""
    text = files("sweepd").joinpath("SKILL.md").read_text(encoding="utf-8")
    if out is None:
        print(text, end="")
        return
    if out.exists():
        raise UserError(f"--out {out}: there is such a file; choose another")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    say(f"wrote {out}")
