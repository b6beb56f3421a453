"""Answers as people read them. `rows_for_people` has a line for each row of an answer. `lines` has
`min` as a table with a row for each size and a column for each model:

    Least d with acc > 0.9 on lis (median of 3 seeds)
    n   L  linear                       standard
    4  11  4 *                          ≤ 4
    6  15  16 (8 fails at 16×, to 64×)  16 (8 fails at 1×) …

A value says how hard the next smaller one was tried. A legend says what the marks mean.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from sweepd.listing import GAP, Row, at_most, cell, in_lines
from sweepd.query.database import Answer, Summary
from sweepd.query.deciding import UNCONFIRMED

MARKS = {
    "≤": "nothing smaller was tried to its end",
    ">": "more than this grid has",
    "(fails)": "the next smaller value failed, here or at a smaller size",
    "at N×": "trained with N times the steps of the pass",
    "at N steps": "trained with N steps",
    "to N": "and forecast to fail up to there",
    "none": "nothing that was tried passes",
    "~": "close call",
    "…": "no forecast: longer training may lower it",
    "*": "passed as the best of several, not confirmed on fresh seeds",
    "¹": "at one learning rate",
    "!": "not monotone",
    "–": "not finished",
}
"""What each mark means, in the order of the legend."""
JUDGED = ("exact", "bracketed", "above")
"""The verdicts whose `fail` is the value of the cell that decides the row."""

Tone = Literal["plain", "title", "sure", "open", "warning", "quiet"]
StyledLine = list[tuple[str, Tone]]
"""A line of text, cut into pieces. Each piece has the tone in which it is shown."""


# One line for each row


def rows_for_people(answer: Answer) -> tuple[list[str], list[dict[str, Any]]]:
    """Returns the columns and rows for people. Values that belong together stand in one column, and
    numbers have words beside them where they need some."""
    if not answer.columns:
        return [], []
    if answer.verb == "fit":
        law = ("exponent", "95%", "growth", "likely laws", "points", "censored", "seeds")
        beside = ("budget", "with less", "over standard", "predicted", "reason")
        return [*answer.group, *law, *beside], [_law(row) for row in answer.rows]
    scores = [name for name in ("acc", "95%", "seeds' acc") if "acc" in answer.about]
    for score in sorted(answer.about - {"acc"}):
        scores += [score, f"seeds' {score}"]
    if answer.verb == "min":
        own = ["value", "fail", "verdict", "failed with", "passed"]
        columns = [*answer.group, *own, *scores, "inferred"]
        columns += ["per halving"] if "per_halving" in answer.columns else []
    else:
        columns = [*answer.columns[: answer.columns.index("seeds") + 1], *scores]
    columns += ["at", *(["edge"] if any(row["edge"] for row in answer.rows) else [])]
    return list(dict.fromkeys(columns)), [_row(row, answer) for row in answer.rows]


def _between(row: Row, low: str, high: str, form: str) -> str:
    """The range between two columns of a row. It is empty where both are missing. One
    that is missing is of seeds that diverged."""
    ends = (row[low], row[high])
    if ends == (None, None):
        return ""
    return " … ".join("diverged" if end is None else format(end, form) for end in ends)


def _row(row: Row, answer: Answer) -> dict[str, Any]:
    """A row for people. Columns without values are empty. One of `min` says how hard the next
    smaller value was tried."""
    of_min, acc = answer.verb == "min", ""
    if row["acc"] is not None:
        beside = ["close"] if of_min and row["close"] else []
        beside += [] if row["chain_acc"] is None else [f"chain {row['chain_acc']:.3f}"]
        # In a frontier, the score of a cell with seeds that stopped as solved may be higher still.
        from_below = "≥ " if row.get("solved") else ""
        acc = f"{from_below}{row['acc']:.3f}" + (f" ({', '.join(beside)})" if beside else "")
    shown = {**row, "95%": _between(row, "acc_low", "acc_high", ".3f"), "acc": acc}
    shown["at"] = "" if row["at"] == "{}" else row["at"]
    for score in answer.about:
        form = ".3f" if score == "acc" else ".3g"
        ends = (f"{score}_seed_min", f"{score}_seed_max")
        shown[f"seeds' {score}"] = _between(row, *ends, form)
    if not of_min:
        return shown
    per_halving = ""
    if row.get("per_halving") is not None:
        low, high = row["per_halving_low"], row["per_halving_high"]
        per_halving = f"{row['per_halving']:.2g} times ({low:.2g} … {high:.2g})"
    return {
        **shown,
        "value": at_most(row["value"]) if row["verdict"] == "at most" else row["value"],
        "passed": f"{row['passed']} of {row['seeds']}",
        "failed with": "; ".join(filter(None, (failed_with(row), row["why"]))),
        "fails to": row["holds_to"] and f"{row['holds_to']} steps",
        "per halving": per_halving,
    }


def failed_with(row: Row) -> str:
    """Returns how hard a row's `fail` was tried. The text is empty where the deciding cell has
    another value, as where the next smaller one is untried or unfinished."""
    if row["verdict"] not in JUDGED:
        return ""
    tried = [f"{row['fail_steps']} steps"] if row["fail_steps"] else []
    if row["effort"] is not None:
        tried.append(f"{row['effort']:.3g} times the FLOPs")
    return ", ".join([*tried, *(["one rate"] if tried and row["rates"] == 1 else [])])


def _law(row: Row) -> dict[str, Any]:
    """A row of `fit` for people. It shows the laws that have a weight of 0.1 or more."""
    weights = ((row[name], name) for name in row if name.startswith("weight_"))
    heavy = sorted((-w, name.removeprefix("weight_")) for w, name in weights if w and w >= 0.1)
    over = less = ""
    if row["over_standard"] is not None:
        interval = _between(row, "over_standard_low", "over_standard_high", ".2f")
        over = f"{row['over_standard']:+.2f} ({interval})"
    if row["first_exponent"] is not None:
        interval = _between(row, "first_low", "first_high", ".2f")
        less = f"{row['first_exponent']:.2f} ({interval}) at {row['least_steps']} steps"
    return {
        **row,
        "exponent": row["exponent"] and round(row["exponent"], 2),
        "95%": _between(row, "low", "high", ".2f"),
        "likely laws": ", ".join(f"{name} {-w:.2f}" for w, name in heavy),
        "budget": row["most_steps"] and f"up to {row['most_steps']} steps",
        "with less": less,
        "over standard": over,
    }


# One line for each size


class PivotEntry(NamedTuple):
    """What the table shows of one row of `min`: its value, and the marks of what is uncertain."""

    text: str
    marks: tuple[str, ...]
    tone: Tone


def entry(row: Row) -> PivotEntry:
    """Returns a row of `min` in a few characters. One without a forecast has at least one mark."""
    value, fail, verdict = cell(row["value"]), cell(row["fail"]), row["verdict"]
    holds, text, marks = row["holds_to"], value, []

    # How hard the next smaller value was tried: in times the steps of the pass, if there is one.
    tried = ""
    effort: list[str] = []
    if verdict in JUDGED and (failed := row["fail_steps"]):
        passed = row["steps"]
        ends = [f"{end / passed:.3g}×" if passed else str(end) for end in (failed, holds) if end]
        ends[0] += "" if passed else " steps"
        tried, effort = f"at {', to '.join(ends)}", ["at N×" if passed else "at N steps"]
        effort += ["to N"] if holds else []
    fails = f" ({fail} fails{f' {tried}' if tried else ''})" if fail else ""
    match verdict:
        case "exact" | "bracketed":
            text, marks = value + fails, ["(fails)", *effort]
        case "at most":
            text, marks = f"≤ {value}", ["≤"]
        case "above" if fail:
            text, marks = f"> {fail}{f' ({tried})' if tried else ''}", [">", *effort]
        case "above":
            text, marks = "none", ["none"]
        case "open":
            text, marks = f"–{fails}", ["–", *(["(fails)"] if fail else [])]
        case "not monotone":
            text, marks = f"{value} !", ["!"]
    doubts = ["~"] if row["close"] else []
    if verdict in JUDGED:
        if row["why"] == UNCONFIRMED:
            doubts.append("*")
        elif holds is None:
            doubts.append("…")
        elif row["rates"] == 1:
            doubts.append("¹")
    tone: Tone = "open" if holds is None else "sure"
    if verdict in ("not monotone", "open"):
        tone = "warning" if verdict == "not monotone" else "quiet"
    return PivotEntry(" ".join([text, *doubts]), (*marks, *doubts), tone)


def lines(answer: Answer, width: int | None) -> Iterator[StyledLine]:
    """Yields an answer of `min` as lines of at most `width` characters. There is a table for each
    task, with a legend of the marks that it uses. Models that do not fit side by side continue
    below in a table of their own. The last line says how much was run."""
    about = answer.summary
    assert about is not None
    by_task: dict[str, list[Row]] = {}
    for row in answer.rows:
        by_task.setdefault(row["task"], []).append(row)
    for task, rows in by_task.items():
        yield from _table_of_task(about, answer.group, task, rows, width)
        yield []
    for line in in_lines(f"{about.ran}. --wide says more.".split(), width, " "):
        yield [(line, "plain")]


def _table_of_task(
    about: Summary, group: Sequence[str], task: str, rows: Sequence[Row], width: int | None
) -> Iterator[StyledLine]:
    for line in in_lines(f"{about.asked} on {task} ({about.seeds})".split(), width, " "):
        yield [(line, "title")]

    # A line of the table for each combination of the group's other columns, of which the size comes
    # last. It holds the entries of the models.
    extras = [name for name in group if name not in ("task", "model", "size", "L")]
    sizes = [name for name in ("size", "L") if name in group]
    sizes = [name for name in sizes if any(row[name] is not None for row in rows)]
    beside = [*extras, *sizes]
    table: dict[tuple[Any, ...], dict[str, PivotEntry]] = {}
    for row in rows:
        table.setdefault(tuple(row[name] for name in beside), {})[row["model"]] = entry(row)
    keys = sorted(table, key=lambda key: [(value is not None, value) for value in key])
    models = list(dict.fromkeys(row["model"] for row in rows))

    # The columns, whose first piece is the head: those beside the models, and one for each model.
    def column(texts: Sequence[str], tones: Sequence[Tone], right: bool = False) -> StyledLine:
        widest = max(map(len, texts))
        aligned = (text.rjust(widest) if right else text.ljust(widest) for text in texts)
        return list(zip(aligned, tones, strict=True))

    size_field = about.size_fields.get(task, "size")
    stub: list[StyledLine] = []
    columns: list[StyledLine] = []
    plain: list[Tone] = ["plain"] * (len(keys) + 1)
    plain[0] = "quiet"
    for i, name in enumerate(beside):
        head = size_field if name == "size" and size_field not in extras else name
        numbers = all(isinstance(key[i], int | float) or key[i] is None for key in keys)
        stub.append(column([head, *(cell(key[i]) for key in keys)], plain, right=numbers))
    for model in models:
        entries = [table[key].get(model) for key in keys]
        texts = [model, *(one.text if one else "" for one in entries)]
        columns.append(column(texts, ["quiet", *(one.tone if one else "plain" for one in entries)]))

    # As many models as fit stand side by side. The others continue below, beside the same stub.
    while columns:
        block = [*stub, columns.pop(0)]
        used = sum(len(one[0][0]) + len(GAP) for one in block)
        while columns and (width is None or used + len(columns[0][0][0]) <= width):
            used += len(columns[0][0][0]) + len(GAP)
            block.append(columns.pop(0))
        for pieces in zip(*block, strict=True):
            spaced: StyledLine = []
            for piece in pieces:
                spaced += [(GAP, "plain"), piece]
            spaced[-1] = (spaced[-1][0].rstrip(), spaced[-1][1])
            yield spaced[1:]

    used_marks = {mark for same in table.values() for one in same.values() for mark in one.marks}
    legend = [f"{mark} {means}" for mark, means in MARKS.items() if mark in used_marks]
    for line in in_lines(legend, width):
        yield [(line, "quiet")]
