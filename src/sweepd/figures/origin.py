"""The parts of a report that are about the runs themselves: failures, costs, launches, and the
commands that repeat them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import PurePath
from typing import Any

from sweepd.figures.page import commands, table
from sweepd.query.database import Views
from sweepd.statuses import STATUSES

LONGEST_ERROR = 600
"""The most characters of an error that the page shows. The trial's log has all of it."""
MOST_FAILURES = 200
"""The most failed trials that the page lists."""


@dataclass(frozen=True)
class Launches:
    """What a store has recorded of the launches of some sweeps."""

    sweeps: Sequence[str]
    grids: Mapping[str, str]
    """The frozen grid of each sweep, by the sweep's name."""
    records: Sequence[Mapping[str, Any]]
    """The records of the launches as `Store.launches` returns them, the oldest first."""


def failures(views: Views) -> str:
    """Returns HTML with the trials that failed, their errors, and the commands that show their
    logs."""
    shown = ["id", "task", "model", "size", "d", "seed", "error"]
    known = {name for name, *_ in views.fetch("DESCRIBE trials")}
    shown = [name for name in shown if name in known]
    found = views.fetch(
        f"SELECT {', '.join(shown)} FROM trials WHERE status = 'failed' ORDER BY ALL "
        f"LIMIT {MOST_FAILURES}"
    )
    [(count,)] = views.fetch("SELECT count(*) FROM trials WHERE status = 'failed'")
    if not found:
        return "<p>No trial has failed.</p>"
    rows = [dict(zip(shown, row, strict=True)) for row in found]
    for row in rows:
        row["error"] = (row["error"] or "")[:LONGEST_ERROR]
        row["its log"] = f"sweepd logs {row['id'][:8]}"
        row["id"] = row["id"][:8]
    return table([*shown, "its log"], rows, f"{count} trials failed; {len(rows)} are listed.")


def cost(views: Views) -> str:
    """Returns HTML with the cost of the trials of each task and model."""
    columns = ["task", "model", "trials", *STATUSES, "training FLOPs", "hours of training"]
    counts = ", ".join(f"count(*) FILTER (status = '{status}')" for status in STATUSES)
    rows = views.fetch(
        f"SELECT task, model, count(*), {counts}, sum(train_flops), sum(seconds) / 3600 "
        "FROM trials GROUP BY task, model ORDER BY task, model"
    )
    known = ([row[i] for row in rows if row[i] is not None] for i in range(2, len(columns)))
    totals = [sum(values) if values else None for values in known]
    told = [dict(zip(columns, row, strict=True)) for row in [*rows, ("all", "", *totals)]]
    caption = "FLOPs of each trial count from its first step; hours are those of its last attempt."
    return table(columns, told, caption)


def origin(launches: Launches) -> str:
    """Returns HTML with the commit, versions, host and command line of each launch, and with the
    grids."""
    parts = []
    for record in launches.records:
        parts.append(
            f"<h3>Launch {record['number']} of {escape(str(record.get('sweep', '')))}</h3>"
        )
        facts = "".join(
            f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>"
            for name, text in _facts(record).items()
        )
        parts.append(f"<dl>{facts}</dl>")
    for name, grid in launches.grids.items():
        parts.append(
            f"<details><summary>The grid of {escape(name)}</summary>{commands([grid])}</details>"
        )
    return "".join(parts)


def _facts(record: Mapping[str, Any]) -> dict[str, str]:
    if "damaged" in record:
        return {"damaged": str(record["damaged"])}
    commit = str(record.get("commit") or "not in a git repository")
    versions = record.get("versions") or {}
    return {
        "started": str(record.get("started")),
        "command": shlex.join(record.get("command") or ()),
        "commit": commit + (" with uncommitted changes" if record.get("diff") else ""),
        "host": f"{record.get('host')}, {record.get('platform')}",
        "versions": ", ".join(
            [f"python {record.get('python')}", *(f"{name} {at}" for name, at in versions.items())]
        ),
    }


def repeating(launches: Launches, questions: Sequence[str]) -> str:
    """Returns HTML with the commands that made the results, each as it was typed, and with the
    commands `questions`, which ask for the results."""
    lines = []
    for record in launches.records:
        if record.get("commit"):
            lines.append(f"git checkout {record['commit']}")
        if words := record.get("command"):
            lines.append(shlex.join([PurePath(words[0]).name, *words[1:]]))
    return commands(list(dict.fromkeys([*lines, *questions])))
