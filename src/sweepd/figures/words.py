"""The answer to `min` in words: what each model needs, and what is uncertain about that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sweepd.figures.least import bound
from sweepd.figures.panels import Asked
from sweepd.figures.style import ordered
from sweepd.listing import Row

ANSWER_COLUMNS = (
    *("least value", "verdict", "settled", "why", "seeds that pass", "score", "95%", "over seeds"),
    *("inferred", "at"),
)
"""The columns of the table of the answer, after those of the group."""
MOST_NAMED = 12
"""The most rows that a caveat names. The table has all of them."""


def question(asked: Asked) -> str:
    """Returns the question in a sentence."""
    goal = f"{asked.answer.goal}" if asked.answer.goal else "the condition holds"
    return f"Which is the least {asked.name} with {goal}?"


def answered(asked: Asked) -> Mapping[str, Sequence[str]]:
    """Returns, for each problem, what each model needs at each size, in words."""
    found: dict[str, list[str]] = {}
    for name, rows in asked.problems(asked.answer.rows).items():
        for model in ordered([row["model"] for row in rows]):
            needs = [
                f"{bound(asked.expression, row)} at {asked.where(row)}"
                + ("" if row["settled"] == "yes" else "*")
                for row in rows
                if row["model"] == model
            ]
            found.setdefault(name, []).append(f"{model}: {', '.join(needs)}")
    return found


def caveats(asked: Asked) -> list[str]:
    """Returns what is uncertain about the answer. There is a text for each kind of doubt, and it
    names the rows that it is about."""
    rows = asked.answer.rows
    unsettled = [row for row in rows if row["settled"] != "yes"]
    found = []
    if unsettled:
        some = "None" if len(unsettled) == len(rows) else f"{len(rows) - len(unsettled)}"
        found.append(
            f"{some} of the {len(rows)} rows {'are' if len(rows) > 1 else 'is'} settled. A row "
            "marked * is about this training budget: longer training may lower its value. "
            + _named(asked, unsettled, "why")
        )
    wrong = [row for row in rows if row["verdict"] == "not monotone"]
    if wrong:
        found.append("Cells contradict each other: " + _named(asked, wrong))
    close = [row for row in rows if row["close"]]
    if close:
        found.append("The evaluation error holds the threshold: " + _named(asked, close))
    return found


def table_rows(asked: Asked) -> tuple[list[str], list[dict[str, Any]]]:
    """Returns the columns and the rows of the answer, for people."""
    columns = [
        name for name in ("task", *asked.apart, "size", "L", "model") if name in asked.answer.group
    ]
    return [*columns, *ANSWER_COLUMNS], [
        {**{name: row[name] for name in columns}, **_told(asked, row)} for row in asked.answer.rows
    ]


def _told(asked: Asked, row: Row) -> dict[str, Any]:
    score = asked.score
    return {
        "least value": bound(asked.expression, row),
        "verdict": row["verdict"],
        "settled": row["settled"],
        "why": row["why"],
        "seeds that pass": f"{row['passed']} of {row['seeds']}",
        "score": row[score],
        "95%": _span(row, f"{score}_low", f"{score}_high"),
        "over seeds": _span(row, f"{score}_seed_min", f"{score}_seed_max"),
        "inferred": row["inferred"],
        "at": "" if row["at"] == "{}" else row["at"],
    }


def _span(row: Row, low: str, high: str) -> str:
    if row.get(low) is None or row.get(high) is None:
        return ""
    return f"{row[low]:.3f}\N{NO-BREAK SPACE}…\N{NO-BREAK SPACE}{row[high]:.3f}"


def _named(asked: Asked, rows: Sequence[Row], reason: str | None = None) -> str:
    """Returns these rows in words, each with its value in the column `reason` if one is given. It
    names at most MOST_NAMED rows and says how many more there are."""
    names = []
    for row in rows[:MOST_NAMED]:
        why = f" ({row[reason]})" if reason and row[reason] else ""
        names.append(f"{row['model']} on {row['task']} at {asked.where(row)}{why}")
    more = len(rows) - MOST_NAMED
    return "; ".join(names) + (f"; and {more} more" if more > 0 else "") + "."
