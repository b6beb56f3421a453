"""The rows of an answer as people read them, a line each: what belongs together in one column, and
numbers in words where they need them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sweepd.listing import Row, at_most
from sweepd.query.database import Answer


def shown(answer: Answer) -> tuple[list[str], list[dict[str, Any]]]:
    """Columns and rows for people. Every row of `min` says whether it is settled."""
    if not answer.columns:
        return [], []
    if "exponent" in answer.columns:
        return _law_columns(answer), [_law(row) for row in answer.rows]
    return _columns(answer), [_row(row, answer.about) for row in answer.rows]


def _columns(answer: Answer) -> list[str]:
    """Columns of the table that people see of a `min` or a `frontier`."""
    scores = [name for name in ("acc", "95%", "seeds' acc") if "acc" in answer.about]
    for score in sorted(answer.about - {"acc"}):
        scores += [score, f"seeds' {score}"]
    if "verdict" in answer.columns:
        groups = answer.columns[: answer.columns.index("value")]
        own = ["value", "fail", "verdict", "settled", "passed", *scores, "inferred"]
        own += ["per halving"] if "per_halving" in answer.columns else []
    else:
        groups = answer.columns[: answer.columns.index("seeds") + 1]
        own = scores
    edge = ["edge"] if any(row["edge"] for row in answer.rows) else []
    return list(dict.fromkeys([*groups, *own, "at", *edge]))


def _row(row: Row, about: Iterable[str]) -> dict[str, Any]:
    """A row for people: what belongs together in one column, what is empty left out."""

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
        **({"value": at_most(row["value"])} if row.get("verdict") == "at most" else {}),
        "acc": _accuracy(row),
        "passed": f"{row.get('passed')} of {row['seeds']}",
        "settled": _mark(row) if "settled" in row else "",
        "per halving": _factor(row),
        "at": "" if row["at"] == "{}" else row["at"],
    }


def _accuracy(row: Row) -> str:
    """A test score, whether its interval holds the threshold, and the accuracy of whole chains. In
    a frontier, that of a trial that stopped as solved is a bound from below."""
    if row["acc"] is None:
        return ""
    beside = ["close"] if row.get("close") else []
    beside += [] if row["chain_acc"] is None else [f"chain {row['chain_acc']:.3f}"]
    bound = "≥ " if row.get("solved") else ""
    told = f" ({', '.join(beside)})" if beside else ""
    return f"{bound}{row['acc']:.3f}{told}"


def _factor(row: Row) -> str:
    """How many times the steps one halving costs."""
    if row.get("per_halving") is None:
        return ""
    low, high = row["per_halving_low"], row["per_halving_high"]
    return f"{row['per_halving']:.2g} times ({low:.2g} … {high:.2g})"


def _law_columns(answer: Answer) -> list[str]:
    """Columns of the table that people see of a `fit`."""
    groups = answer.columns[: answer.columns.index("exponent")]
    told = ["exponent", "95%", "growth", "law", "points", "censored", "seeds", "over standard"]
    return [*groups, *told, "predicted", "at_hand", "agrees", "reason"]


def _law(row: Row) -> dict[str, Any]:
    """A row of `fit` for people. Of the laws it shows those that weigh a tenth or more."""
    prefix = "weight_"
    weights = {name.removeprefix(prefix): row[name] for name in row if name.startswith(prefix)}
    heavy = sorted((-w, name) for name, w in weights.items() if w is not None and w >= 0.1)
    over = row["over_standard"]
    return {
        **row,
        "exponent": row["exponent"] and round(row["exponent"], 2),
        "95%": _between(row["low"], row["high"]),
        "law": ", ".join(f"{name} {-w:.2f}" for w, name in heavy),
        "over standard": ""
        if over is None
        else f"{over:+.2f} ({_between(row['over_standard_low'], row['over_standard_high'])})",
        "at_hand": row["at_hand"] and round(row["at_hand"], 2),
    }


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None else f"{low:.2f} … {high:.2f}"


def _mark(row: Row) -> str:
    """Whether more training would change a row's value, and why it is said."""
    if row["settled"] != "yes":
        return f"{row['settled']}: {row['why']}"
    return "yes, at one rate" if row["rates"] == 1 else "yes"
