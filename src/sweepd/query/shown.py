"""The rows of an answer as people read them, one line for each row. Values that belong together
stand in one column, and numbers have words beside them where they need some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sweepd.listing import Row, at_most
from sweepd.query.database import Answer


def shown(answer: Answer) -> tuple[list[str], list[dict[str, Any]]]:
    """Returns the columns and rows for people. Every row of `min` says whether it is settled."""
    if not answer.columns:
        return [], []
    match answer.verb:
        case "fit":
            return _law_columns(answer), [_law(row) for row in answer.rows]
        case "min":
            rows = [_row(row, answer.about) | _of_min(row) for row in answer.rows]
        case _:
            rows = [_row(row, answer.about) for row in answer.rows]
    return _columns(answer), rows


def _columns(answer: Answer) -> list[str]:
    """Returns the columns of the table that people see of any answer but that of `fit`."""
    scores = [name for name in ("acc", "95%", "seeds' acc") if "acc" in answer.about]
    for score in sorted(answer.about - {"acc"}):
        scores += [score, f"seeds' {score}"]
    if answer.verb == "min":
        told = ["value", "fail", "verdict", "settled", "passed", *scores, "inferred"]
        told = [*answer.group, *told]
        told += ["per halving"] if "per_halving" in answer.columns else []
    else:
        told = [*answer.columns[: answer.columns.index("seeds") + 1], *scores]
    edge = ["edge"] if any(row["edge"] for row in answer.rows) else []
    return list(dict.fromkeys([*told, "at", *edge]))


def _of_min(row: Row) -> dict[str, Any]:
    """Returns the columns that people see of a row of `min` alone."""
    return {
        "value": at_most(row["value"]) if row["verdict"] == "at most" else row["value"],
        "acc": _accuracy(row, close=row["close"]),
        "passed": f"{row['passed']} of {row['seeds']}",
        "settled": _mark(row),
        "per halving": _factor(row),
    }


def _row(row: Row, about: Iterable[str]) -> dict[str, Any]:
    """Returns a row for people, in which values that belong together stand in one column. Such a
    column is empty where its values are missing."""

    def span(low: str, high: str, form: str) -> str:
        if row[low] is None and row[high] is None:
            return ""
        ends = (row[low], row[high])
        return " … ".join("diverged" if end is None else format(end, form) for end in ends)

    return {
        **row,
        "95%": span("acc_low", "acc_high", ".3f"),
        **{
            f"seeds' {score}": span(
                f"{score}_seed_min", f"{score}_seed_max", ".3f" if score == "acc" else ".3g"
            )
            for score in about
        },
        "acc": _accuracy(row),
        "at": "" if row["at"] == "{}" else row["at"],
    }


def _accuracy(row: Row, close: bool | None = None) -> str:
    """Returns a cell's accuracy as text, with a word if its interval holds the threshold (`close`),
    and with the accuracy of whole chains. In a frontier, the accuracy of a cell with seeds that
    stopped as solved is a bound from below."""
    if row["acc"] is None:
        return ""
    beside = ["close"] if close else []
    beside += [] if row["chain_acc"] is None else [f"chain {row['chain_acc']:.3f}"]
    bound = "≥ " if row.get("solved") else ""
    told = f" ({', '.join(beside)})" if beside else ""
    return f"{bound}{row['acc']:.3f}{told}"


def _factor(row: Row) -> str:
    """Returns words on how many times as many steps one halving of the minimised value costs."""
    if row.get("per_halving") is None:
        return ""
    low, high = row["per_halving_low"], row["per_halving_high"]
    return f"{row['per_halving']:.2g} times ({low:.2g} … {high:.2g})"


def _law_columns(answer: Answer) -> list[str]:
    """Returns the columns of the table that people see of a `fit`."""
    told = [
        "exponent",
        "95%",
        "growth",
        "likely laws",
        "points",
        "censored",
        "seeds",
        "over standard",
    ]
    return [*answer.group, *told, "predicted", "at_hand", "agrees", "reason"]


def _law(row: Row) -> dict[str, Any]:
    """Returns a row of `fit` for people. It shows the laws that have a weight of 0.1 or more."""
    prefix = "weight_"
    weights = {name.removeprefix(prefix): row[name] for name in row if name.startswith(prefix)}
    heavy = sorted((-w, name) for name, w in weights.items() if w is not None and w >= 0.1)
    over = row["over_standard"]
    return {
        **row,
        "exponent": row["exponent"] and round(row["exponent"], 2),
        "95%": _between(row["low"], row["high"]),
        "likely laws": ", ".join(f"{name} {-w:.2f}" for w, name in heavy),
        "over standard": ""
        if over is None
        else f"{over:+.2f} ({_between(row['over_standard_low'], row['over_standard_high'])})",
        "at_hand": row["at_hand"] and round(row["at_hand"], 2),
    }


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None else f"{low:.2f} … {high:.2f}"


def _mark(row: Row) -> str:
    """Returns words on whether more training would change a row's value, with the reason if the row
    is not settled."""
    if row["settled"] != "yes":
        return f"{row['settled']}: {row['why']}"
    return "yes, at one rate" if row["rates"] == 1 else "yes"
