"""What papers say, judged by what a store has measured.

A claim (`sweepd.query.claim_files`) asks a question and says what holds in every row of its answer.
What is known of a least value or of an exponent is an interval, so a comparison holds, does not
hold, or cannot be told. A claim may hold each row against another, which agrees with it in every
other setting that both have. Rows at the claim's own settings judge it. Others are only shown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, inf
from typing import Any

from sweepd.grid.starters import shipped_grids
from sweepd.query.answers import answer
from sweepd.query.cells_sql import quoted
from sweepd.query.claim_files import Claim, Paper, PublishedTable, comparisons, parsed
from sweepd.query.database import Views
from sweepd.query.grouping import ranked_by
from sweepd.query.parser import TOKEN, Question

COLUMNS = ("kind", "paper", "claim", "status", "evidence", "control", "decides")
"""The columns of a claim. `decides` says what would decide it, where it is not decided."""
ROW_COLUMNS = ("kind", "claim", "settings", "side", "row", "why")
"""The columns of a row on which a claim rests. settings: `claim`, `other` or `control`. side:
one of SIDES. row: in words, with the training budgets. why: what the row leaves open."""
SIDES = {True: "for", False: "against", None: "cannot tell"}
MOST_SHOWN = 6
"""How many rows of one side the evidence spells out at most."""

AnswerRow = dict[str, Any]


@dataclass(frozen=True)
class Range:
    """What is known of a number: it is from `low` to `high`, or above `low` if it is a least value.
    An estimate has a `middle`, and bounds of a least value have none."""

    low: float
    high: float
    middle: float | None = None

    def larger(self, other: Range) -> bool | None:
        """Returns whether this number is larger than the other, or None where that is not told.
        Two estimates are measured apart, so the squares of their errors add up."""
        if self.middle is not None and other.middle is not None:
            gap = self.middle - other.middle
            larger = gap > hypot(self.middle - self.low, other.high - other.middle)
            not_larger = -gap >= hypot(self.high - self.middle, other.middle - other.low)
        else:
            larger = self.low > other.high or (self.low == other.high and self.middle is None)
            not_larger = self.high <= other.low
        return True if larger else False if not_larger else None

    def __str__(self) -> str:
        if self.middle is not None:
            spread = f" [{self.low:.2f}, {self.high:.2f}]" if self.low < self.high else ""
            return f"{self.middle:.2f}{spread}" if spread else f"{self.middle:.4g}"
        if self.high == inf:
            return f"> {self.low:g}" if self.low else "not bounded"
        return f"({self.low:g}, {self.high:g}]" if self.low else f"<= {self.high:g}"


def judged(views: Views | None, paper: Paper) -> Iterator[AnswerRow]:
    """Yields a row (COLUMNS) for each claim, and after it one (ROW_COLUMNS) for each row on which
    it rests. Without views nothing was measured.

    The status counts the rows at the claim's own settings. supported: all of them speak for it.
    contradicted: some speak against it and none for it. cannot tell: anything else, or the control
    shows the contrary of what it should. at other settings: there are rows, none of them at the
    claim's settings. not measured: there is no row.
    """
    for claim in paper.claims:
        rows = evidence(views, claim, claim.ask, claim.holds)
        status, control = _status(rows), []
        if claim.control:
            control = evidence(views, claim, claim.control.ask, claim.control.holds or claim.holds)
            if claim.control.holds and (status, _status(control)) == ("supported", "contradicted"):
                status = "cannot tell"
        own = [row for row in rows if row["settings"] == "claim"]
        elsewhere = [row for row in rows if row["settings"] == "other"]
        counts = [_counted(own), f"At other settings: {_counted(elsewhere)}" if elsewhere else ""]
        decides = ""
        if status not in ("supported", "contradicted"):
            plan = f"sweepd plan {claim.grid}" if claim.grid else ""
            if claim.grid in shipped_grids():
                plan = f"sweepd init --grid {claim.grid}; sweepd plan {claim.grid}.yaml"
            whys = dict.fromkeys(row["why"] for row in own if row["side"] == "cannot tell")
            decides = "; ".join(filter(None, [*list(whys)[:MOST_SHOWN], plan]))
        yield {
            "kind": "claim",
            "paper": paper.paper,
            "claim": claim.says,
            "status": status,
            "evidence": ". ".join(filter(None, counts)) or "no row to judge it by",
            "control": _counted(control) or None,
            "decides": decides or None,
        }
        yield from (*own, *elsewhere, *(row | {"settings": "control"} for row in control))


def _status(rows: Sequence[AnswerRow]) -> str:
    sides = {row["side"] for row in rows if row["settings"] == "claim"}
    if not sides:
        return "at other settings" if rows else "not measured"
    if sides == {"for"}:
        return "supported"
    return "contradicted" if "against" in sides and "for" not in sides else "cannot tell"


def _counted(rows: Sequence[AnswerRow]) -> str:
    """How many rows speak for a claim, how many against it, and how many do not tell, in words. The
    first MOST_SHOWN of each are spelled out."""
    parts = []
    for side in SIDES.values():
        if texts := [row["row"] for row in rows if row["side"] == side]:
            more = "; …" * (len(texts) > MOST_SHOWN)
            parts.append(f"{len(texts)} {side}: {'; '.join(texts[:MOST_SHOWN])}{more}")
    return ". ".join(parts)


def evidence(views: Views | None, claim: Claim, ask: str, holds: str) -> list[AnswerRow]:
    """Returns a row (ROW_COLUMNS) for each row that speaks for a claim, against it, or does not
    tell. ask, holds: those of the claim, or of its control."""
    if views is None or not views.axes:
        return []
    at = {name: wanted for name, wanted in claim.at.items() if name not in claim.beside}
    rows, group = _rows(views, parsed(ask, views.connection), at)
    members = defaultdict(list)
    for row in rows:
        members[row["task"], row["model"]].append(row)
    found = []

    def add(holds: bool | None, of_claim: bool, text: str, why: str) -> None:
        values = ("row", claim.says, "claim" if of_claim else "other", SIDES[holds], text, why)
        found.append(dict(zip(ROW_COLUMNS, values, strict=True)))

    for row in rows:
        # What the row is about, with the settings that have several values.
        about = f"{row['model']} on {row['task']}"
        about += f" at size {row['size']}" if row.get("size") is not None else ""
        for n in (n for n in group if n not in ("task", "size", "model") and row[n] is not None):
            same = members[row["task"], row["model"]]
            about += f", {n} {row[n]}" if len({one[n] for one in same}) > 1 else ""
        others = [one for one in rows if _stands_beside(row, one, claim.beside, group)]
        for other in others if claim.beside else [row]:
            sides, known = [], []
            for left, operator, right in comparisons(holds):
                ends = [_known(views, other if o["other"] else row, o) for o in (left, right)]
                sides.append(_compare(ends[0], operator, ends[1]))
                known += ends
            if None in known and (claim.beside or "fail" in row):
                continue  # nothing is known of it
            side = False if False in sides else None if None in sides else True
            if side is False and claim.bound == "upper":
                side = None  # more than an upper bound contradicts nothing
            text = f"{about}: {_in_words(row, known[0])}"
            for n in claim.beside:
                text += f", {other[n]}" if n in ("task", "model") else f", {n} {other[n]}"
            text += f" {_in_words(other, known[1])}" if claim.beside else ""
            of_claim = row["of_claim"] and other["of_claim"]
            of_claim &= all(_is_at(row, claim.at, n) for n in claim.at.keys() & claim.beside)
            whys = dict.fromkeys(one.get("why") or one.get("reason") for one in (row, other))
            add(side, of_claim, text, "; ".join(filter(None, whys)))
    if claim.every:  # what was not measured of it does not tell
        for (task, model), same in members.items():
            seen = {_plain(row[claim.every]) for row in same if row["of_claim"]}
            lacking = [one for one in _wanted(claim.at, claim.every, task) if one not in seen]
            if seen and lacking:
                text = f"{model} on {task} was not measured at {claim.every} {', '.join(lacking)}"
                add(None, True, text, text)
    return found


def _rows(
    views: Views, question: Question, at: Mapping[str, Any]
) -> tuple[list[AnswerRow], tuple[str, ...]]:
    """The rows of the answer to a question, and the columns that group them. The column `of_claim`
    of a row says whether it is at these settings.

    Without `by`, rows are grouped by every setting, so none takes cells of different settings
    together. There are no rows where no sweep has a column that the question ranks.
    """
    ranked = {name for _, node in question.expressions for name in node.columns}
    ranked |= {name for name in (question.along, question.best) if name}
    if not ranked.union(question.by or ()) <= {*views.columns}:
        return [], ()
    by = question.by
    if by is None:
        sizes = {"size", "L", *views.selection.size_fields.values()}
        left_out = ranked_by(views, question, sizes) | sizes | views.selection.tune
        settings = [axis for axis in views.axes if axis not in left_out]
        by = tuple(settings if ranked & sizes else ["size", *settings])

    # What rows are not grouped by, such as the sizes of a fit, selects the cells beforehand. Such a
    # condition is false, and not null, where its column is null.
    grouping = {"task", "model", *by}
    conditions = []
    for name in (name for name in at if name not in grouping):
        parts = []
        for task in at[name] if isinstance(at[name], dict) else [""]:
            wanted = (one.replace("'", "''") for one in _wanted(at, name, task))
            values = " or ".join(f"{quoted(name)} is not distinct from '{one}'" for one in wanted)
            parts.append(f"(task = '{task}' and ({values}))" if task else f"({values})")
        conditions.append(f"({' or '.join(parts)})")
    chosen = " and ".join(conditions)
    rows: list[AnswerRow] = []
    group: tuple[str, ...] = ()
    for half in (chosen, f"not ({chosen})") if chosen else ("",):
        answered = answer(views, _text(question, by, half, views.columns))
        group = answered.group
        for row in answered.rows:
            of_claim = half == chosen and all(_is_at(row, at, n) for n in at.keys() & grouping)
            rows.append({**row, "of_claim": of_claim})
    return rows, group


def _text(question: Question, by: Sequence[str], half: str, columns: Collection[str]) -> str:
    """The text of a question with other groups and one more condition. Unknown columns are null."""
    known = {name.lower() for name in columns}
    named = {name.lower() for name in (question.where.columns if question.where else ())}
    named |= {token.strip('"').lower() for token in TOKEN.findall(half) if token[0] == '"'}

    def present(token: re.Match[str]) -> str:
        return "null" if token[0].strip('"').lower() in named - known else token[0]

    where = " and ".join(f"({part})" for part in (question.condition, half) if part)
    ranked = ", ".join(text for text, _ in question.expressions) or quoted(question.best or "")
    along = f" ~ {quoted(question.along)}" if question.along else ""
    groups = f" by {', '.join(map(quoted, by))}" if by else ""
    condition = f" where {TOKEN.sub(present, where)}" if where else ""
    return f"{question.verb} {ranked}{along}{groups}{condition}"


def _wanted(at: Mapping[str, Any], name: str, task: str) -> list[str]:
    """The values that a claim about a task wants of a column, as texts."""
    wanted = at[name].get(task, []) if isinstance(at[name], dict) else at[name]
    return [_plain(one) for one in (wanted if isinstance(wanted, list) else [wanted])]


def _is_at(row: AnswerRow, at: Mapping[str, Any], name: str) -> bool:
    return _plain(row.get(name)) in _wanted(at, name, row["task"])


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _stands_beside(
    row: AnswerRow, other: AnswerRow, beside: Mapping[str, Any], group: Sequence[str]
) -> bool:
    """Whether the other row has the values of `beside`, which this one has not, and all else in
    common with it. `beside` may name another value for each value of this row."""
    for name, wanted in beside.items():
        wanted = wanted.get(_plain(row.get(name))) if isinstance(wanted, dict) else wanted
        if wanted is None or row.get(name) == wanted or other.get(name) != wanted:
            return False
    shared = (name for name in group if name not in beside)
    return all(row[n] == other[n] or None in (row[n], other[n]) for n in shared)


def _known(views: Views, row: AnswerRow, side: re.Match[str]) -> Range | str | None:
    """What a row says of one side of a comparison, or None where nothing was measured. A fail that
    more training may change bounds nothing: any value is possible."""
    if not (name := side["name"]):
        number = float(side["number"] or 0)
        return side["text"] if side["number"] is None else Range(number, number, number)
    value, times = row.get(name), float(side["times"] or 1)
    if name == "value" and "fail" in row:
        if value is None and row["fail"] is None:
            return None
        counts = row["holds_to"] is not None or not views.selection.settles
        low, high = (row["fail"] or 0) if counts else 0, inf if value is None else value
        return Range(low * times, high * times)
    if value is None or isinstance(value, str):
        return None if value == "not told" else value
    ends = ("low", "high") if name == "exponent" else (f"{name}_low", f"{name}_high")
    low, high = (value if row.get(end) is None else row[end] for end in ends)
    return Range(low * times, high * times, value * times)


def _compare(left: Range | str | None, operator: str, right: Range | str | None) -> bool | None:
    """Whether a comparison holds, or None where what is known does not tell."""
    if left is None or right is None:
        return None
    if not isinstance(left, Range) or not isinstance(right, Range):
        holds: bool | None = left == right
    elif operator in (">", "<="):
        holds = left.larger(right)
    elif operator in ("<", ">="):
        holds = right.larger(left)
    else:
        apart = left.larger(right) or right.larger(left)
        holds = False if apart else True if left.high == right.high < inf else None
    return holds if operator in (">", "<", "=") or holds is None else not holds


def _in_words(row: AnswerRow, known: Range | str | None) -> str:
    """What is known of a row, and the training budget behind it, in words."""
    if "points" in row:
        if row["exponent"] is None:
            return f"no exponent ({row['reason']})"
        exponent = Range(row["low"], row["high"], row["exponent"])
        budget = f" at up to {row['most_steps']} steps" if row["most_steps"] else ""
        return f"exponent {exponent} over {row['points']} sizes{budget}"
    passed, failed = row.get("steps"), row.get("fail_steps")
    if isinstance(known, Range) and known.middle is None:
        if known.high == inf and not known.low:
            budget = f" with {failed} steps" if failed else ""
            return f"{known} ({row['fail']} failed{budget}, no forecast)"
        passed, failed = passed if known.high < inf else None, failed if known.low else None
    if passed and failed and passed != failed:
        return f"{known} passed with {passed} steps, failed with {failed}"
    return f"{known} with {passed or failed} steps" if passed or failed else f"{known}"


def published(views: Views | None, table: PublishedTable) -> Iterator[AnswerRow]:
    """Yields each row of a published table, with our counts of one forward pass beside it and the
    least d that the store has measured.

    gflops_weights counts the products with weights only, as Yang et al. do, and ratio is what they
    published over that. gflops counts attention's own products too.
    """
    from sweepd.grid.plan import plan  # imports torch, which takes a while
    from sweepd.grid.spec import load_grid

    trials = plan(load_grid(shipped_grids()[table.grid], ["seeds=[0]", "settle=off"])).trials
    planned = [(trial, trial.row()) for trial in trials]
    rows: list[AnswerRow] = []
    if views is not None and views.axes:
        rows, _ = _rows(views, parsed(table.ask, views.connection), {})
    for one in table.rows:
        alike = (row for row in rows if all(row[n] == one[n] for n in one.keys() & row.keys()))
        own = next(alike, {})
        by_d = {
            row["d"]: trial
            for trial, row in planned
            if all(row[n] == one[n] for n in one.keys() & row.keys() - {"d"})
        }
        weights = {d: (trial.flops_weights or 0) / 1e9 for d, trial in by_d.items()}
        yield {
            "kind": "table",
            **one,
            "gflops_weights": weights[one["d"]],
            "ratio": one["published_gflops"] / weights[one["d"]],
            "gflops": (by_d[one["d"]].flops or 0) / 1e9,
            "measured_d": own.get("value"),
            "measured_gflops_weights": weights.get(own.get("value")),
            "verdict": own.get("verdict"),
        }
