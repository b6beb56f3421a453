"""The report of some sweeps on one page. It has the question and its answer with caveats, figures,
laws, a comparison with the paper, failures and costs. It also says where the results came from and
how to repeat them."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from html import escape
from pathlib import PurePath
from typing import Any

from sweepd.errors import SweepdError
from sweepd.figures.answers import in_symbols
from sweepd.figures.kinds import KINDS, Questions
from sweepd.figures.panels import Asked, NothingToDraw
from sweepd.figures.render import ON_SCREEN, commands, figure, page, specified, table
from sweepd.figures.style import ordered
from sweepd.figures.training import one_cell
from sweepd.listing import SHORT_ID, Row, shown
from sweepd.query.claim_files import load_claims
from sweepd.query.claims import judged
from sweepd.query.database import Views
from sweepd.query.readable import rows_for_people
from sweepd.statuses import STATUSES

MOST_CURVES = 300
"""The most trials whose learning curves one figure shows. If there are more, a click on a cell
still shows the curves of that cell."""
MOST_POINTS = 60_000
"""The most points that the learning curves of a page have together, unless there are so many trials
that each curve gets only LEAST_POINTS."""
LEAST_POINTS, ENOUGH_POINTS = 6, 200
"""The least and the greatest limit on the points of one learning curve."""
MOST_NAMED = 12
"""The most rows that a caveat names. The table has all of them."""
LONGEST_ERROR = 600
"""The most characters of an error that the page shows. The trial's log has all of it."""
MOST_FAILURES = 200
"""The most failed trials that the page lists."""
Records = Sequence[Mapping[str, Any]]
"""The records of launches as `Store.launches` returns them, the oldest first."""


def points_each(trials: int) -> int:
    """Returns how many points the learning curve of each trial may have on a page with so many
    trials."""
    return min(max(MOST_POINTS // max(trials, 1), LEAST_POINTS), ENOUGH_POINTS)


def report(
    heading: str,
    asked: Questions,
    grids: Mapping[str, str],
    launches: Records,
    papers: Sequence[str],
    command: str,
) -> bytes:
    """Returns the page with the report of some sweeps. A part that has no answer says why. Raises
    NothingToDraw if there are no least values at all.

    grids: the frozen grid of each sweep, by its name. launches: those of the sweeps. papers: the
    files of claims that the page judges, or the names of those that ship. command: the one that
    makes the page.
    """
    least, views = asked.least, asked.views

    # The specifications of the figures, and why others are missing. `curve` is that of the
    # learning curves of one cell.
    figures: dict[str, Any] = {}
    missing = {}
    for name, kind in KINDS.items():
        try:
            if name == "curves" and (trials := len(asked.curves)) > MOST_CURVES:
                raise NothingToDraw(f"{trials} curves are too many for one figure")
            figures[name] = specified(kind.draw(asked), ON_SCREEN, kind.shows)
        except SweepdError as error:
            missing[name] = str(error)
    draw = partial(one_cell, least.score)
    figures["curve"] = specified(draw, ON_SCREEN, "Learning curves of one cell")

    # Of each cell that has learning curves, what it is in words, and the curves of its trials.
    curves: dict[str, Any] = {}
    for row in least.answer.cells:
        lines = []
        for trial in asked.trials.get(row["cell"], ()):
            if curve := asked.curves.get(trial["id"]):
                scores = [float(f"{score:.4g}") for _, score in curve]
                lines.append([trial["id"], trial["seed"], [step for step, _ in curve], scores])
        if lines:
            where = f"{row['model']} on {row['task']}, {least.where(row)}"
            told = f"{where}, {least.expression} = {row['value']:g}"
            curves[str(row["cell"])] = {"told": told, "trials": lines}

    def laws() -> str:
        return table(*rows_for_people(asked.laws.answer), asked.texts["fit"])

    def claims() -> str:
        columns = ("paper", "claim", "status", "evidence", "control", "decides")
        files = [load_claims(name, views.columns) for name in papers]
        rows = [row for file in files for row in judged(views, file) if row["kind"] == "claim"]
        rows = [row for row in rows if row["status"] != "not measured"]
        if not rows:
            return "<p>No claim that comes with sweepd is about what was measured here.</p>"
        return table(columns, rows, "What papers claim, judged by these results.")

    def shown(kind: str) -> str:
        if kind in figures:
            return figure(kind, KINDS[kind].shows)
        why = missing[kind][:1].upper() + missing[kind][1:]
        return f'<p class="quiet">{escape(KINDS[kind].shows)} {escape(why)}.</p>'

    sections: dict[str, Callable[[], str]] = {
        "Answer": lambda: _answer(least, asked.texts["min"]),
        "Figures": lambda: "".join(map(shown, KINDS)),
        "Laws": laws,
        "Beside the papers": claims,
        "Failures": lambda: _failures(views),
        "Cost": lambda: _cost(views),
        "Where it came from": lambda: _origin(launches, grids),
        "To repeat it": lambda: _repeating(launches, grids, asked, command),
    }
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    links, parts = [], []
    for title, make in sections.items():
        anchor = title.lower().replace(" ", "-")
        try:
            part = make()
        except SweepdError as error:
            part = f'<p class="quiet">{escape(str(error))}</p>'
        links.append(f'<a href="#{anchor}">{title}</a>')
        parts.append(f'<h2 id="{anchor}">{title}</h2>{part}')
    body = [
        f'<h1>{escape(heading)}</h1><p class="quiet">Made by sweepd at {made}.</p>',
        f'<nav aria-label="Parts of this page">{" ".join(links)}</nav>',
        *parts,
    ]
    return page(heading, "\n".join(body), {"figures": figures, "curves": curves})


# The answer in words


def _answer(asked: Asked, text: str) -> str:
    """Returns the question, what each model needs at each size, what is uncertain about that, and
    all rows. text: the question as it is asked on the command line."""
    goal = f"{asked.answer.goal}" if asked.answer.goal else "the condition holds"
    parts = [f"<p>Which is the least {escape(asked.name)} with {escape(goal)}?</p>"]
    for problem, rows in asked.problems(asked.answer.rows).items():
        items = ""
        for model in ordered([row["model"] for row in rows]):
            needs = []
            for row in (row for row in rows if row["model"] == model):
                mark = "*" if row["holds_to"] is None else ""
                needs.append(f"{in_symbols(asked.expression, row)} at {asked.where(row)}{mark}")
            items += f"<li>{escape(model)}: {escape(', '.join(needs))}</li>"
        parts.append(f'<div class="answer"><p>{escape(problem)}</p><ul>{items}</ul></div>')

    # For each kind of doubt about the answer, the rows that it is about.
    every = asked.answer.rows
    unknown = [row for row in every if row["holds_to"] is None]
    some = "none" if len(unknown) == len(every) else f"{len(every) - len(unknown)}"
    doubts: dict[str, Sequence[Row]] = {
        f"A fail says how hard a width was tried. In {some} of the {len(every)} rows a forecast "
        "says that it goes on failing. A row marked * has none: longer training may lower its "
        "value. ": unknown,
        "Cells contradict each other: ": [r for r in every if r["verdict"] == "not monotone"],
        "The evaluation error holds the threshold: ": [row for row in every if row["close"]],
    }
    for doubt, members in doubts.items():
        names = []
        for row in members[:MOST_NAMED]:
            why = f" ({row['why']})" if members is unknown and row["why"] else ""
            names.append(f"{row['model']} on {row['task']} at {asked.where(row)}{why}")
        if more := len(members[MOST_NAMED:]):
            names.append(f"and {more} more")
        if members:
            parts.append(f'<p class="caveat">{escape(doubt)}{escape("; ".join(names))}.</p>')

    columns, for_people = rows_for_people(asked.answer)
    columns.insert(columns.index("failed with") + 1, "fails to")
    parts.append(table(columns, for_people, caption=text))
    parts += [f'<p class="quiet">{escape(note)}</p>' for note in asked.answer.notes]
    return "".join(parts)


# The runs themselves


def _failures(views: Views) -> str:
    """Returns the trials that failed, their errors, and the commands that show their logs."""
    shown = ("id", "task", "model", "size", "d", "seed", "error")
    failed = views.sql(
        "SELECT *, count(*) OVER () AS \"in all\" FROM trials WHERE status = 'failed' "
        f"ORDER BY id LIMIT {MOST_FAILURES}"
    )
    if not failed.rows:
        return "<p>No trial has failed.</p>"
    columns = [name for name in shown if name in failed.columns]
    rows = []
    for row in failed.rows:
        id_, error = row["id"][:SHORT_ID], (row["error"] or "")[:LONGEST_ERROR]
        rows.append({**row, "id": id_, "error": error, "its log": f"sweepd logs {id_}"})
    caption = f"{failed.rows[0]['in all']} trials failed; {len(rows)} are listed."
    return table([*columns, "its log"], rows, caption)


def _cost(views: Views) -> str:
    """Returns the cost of the trials of each task and model."""
    counts = ", ".join(f"count(*) FILTER (status = '{name}') AS {name}" for name in STATUSES)
    costs = views.sql(
        f"SELECT coalesce(task, 'all') AS task, model, count(*) AS trials, {counts}, "
        'sum(train_flops) AS "training FLOPs", sum(seconds) / 3600 AS "hours of training" '
        "FROM trials GROUP BY GROUPING SETS ((task, model), ()) "
        "ORDER BY grouping(task), trials.task, model"
    )
    caption = "FLOPs of each trial count from its first step; hours are those of its last attempt."
    return table(costs.columns, costs.rows, caption)


def _origin(launches: Records, grids: Mapping[str, str]) -> str:
    """Returns where each launch came from, and the grids."""
    parts = []
    for number, record in enumerate(launches, 1):
        versions = {"python": record.get("python"), **(record.get("versions") or {})}
        commit = str(record.get("commit") or "not in a git repository")
        facts = {
            "started": str(record.get("started")),
            "command": shlex.join(record.get("command") or ()),
            "commit": commit + (" with uncommitted changes" if record.get("diff") else ""),
            "host": f"{record.get('host')}, {record.get('platform')}",
            "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        }
        if "damaged" in record:
            facts = {"damaged": str(record["damaged"])}
        parts.append(f"<h3>Launch {number} of {escape(str(record.get('sweep', '')))}</h3>")
        terms = (f"<dt>{escape(name)}</dt><dd>{escape(fact)}</dd>" for name, fact in facts.items())
        parts.append(f"<dl>{''.join(terms)}</dl>")
    for name, grid in grids.items():
        summary = f"<summary>The grid of {escape(name)}</summary>"
        parts.append(f"<details>{summary}{commands([grid])}</details>")
    return "".join(parts)


def _repeating(launches: Records, grids: Iterable[str], asked: Questions, command: str) -> str:
    """Returns the commands that made the results, and those that ask for them."""
    lines = []
    for record in launches:
        if re.fullmatch(r"[0-9a-f]{7,64}", record.get("commit") or ""):
            lines.append(f"git checkout {record['commit']}")
        if words := record.get("command"):
            lines.append(shlex.join([PurePath(words[0]).name, *words[1:]]))
    sweeps = [word for name in grids for word in ("--sweep", name)]
    for text in asked.texts.values():
        lines.append(shlex.join(["sweepd", "query", text, *sweeps]))
    return commands([shown(line) for line in dict.fromkeys([*lines, command])])
