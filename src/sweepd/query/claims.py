"""What the figures of Yang et al. 2024 (arXiv 2402.13934) claim, judged by what a store measured.

A claim is judged by comparisons, each of which speaks for it, against it or neither way. What is
known of min d is an interval, and two differ where their intervals do not overlap. Two are compared
only if they agree in every setting that both have, from the task's to the schedule's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any

from sweepd.query.paper import HEADS, LAYERS, Measured, TableRow
from sweepd.query.power_law import Point

LOCALITY = ("lis", "edit_distance", "ed_local")
"""Tasks from the least to the most local."""
TASKS = ("arithmetic", *LOCALITY)
LEAST_N, LARGEST_D = 40, 1024
"""Of the paper's grid on LIS: the smallest size, the largest d."""
ENOUGH_D = 256
"""At which the standard model manages every size of the paper's grid."""

COLUMNS = ("kind", "claim", "status", "evidence")
MOST_SHOWN = 6
"""Comparisons of one kind that the evidence spells out."""

Comparison = tuple[bool | None, str]
"""Whether it speaks for a claim (True), against it (False) or neither way (None); and what it
compares, in words."""


@dataclass(frozen=True)
class Width:
    """What is known of min d somewhere: at a task, a model, a size and all other settings."""

    at: TableRow
    known: Point
    marks: tuple[str, ...]
    """settings that other widths of the same task and model have otherwise"""

    @property
    def model(self) -> str:
        return str(self.at["model"])

    def comparable(self, other: Width, *but: str) -> bool:
        return comparable(self.at, other.at, *but)

    def where(self, size: bool = True) -> str:
        """In words."""
        marks = [f"{name} {self.at[name]}" for name in self.marks if self.at[name] is not None]
        at = [f" at size {self.at['size']}"] if size else []
        return f"{self.model} on {self.at['task']}{''.join(at)}{', '.join(['', *marks])}"


def claims(measured: Measured) -> list[TableRow]:
    """Each claim, whether it is supported, contradicted or not measured, and the evidence.

    More comparisons for a claim than against it support it; otherwise one against it is enough
    to contradict it.
    """
    widths = _widths(measured)
    found = {
        "sparse needs a larger d than standard": _larger(widths, "sparse"),
        "linear needs a larger d than standard": _larger(widths, "linear"),
        "min d of sparse grows with the size": _growing(widths, "sparse"),
        "min d of linear grows with the size": _growing(widths, "linear"),
        f"min d grows faster on less local tasks: {' > '.join(LOCALITY)}": _faster(measured),
        f"standard manages every size with d up to {ENOUGH_D}": _enough(widths),
        f"sparse does not reach 100% on lis with n from {LEAST_N}": _imperfect(measured),
        "5 layers are like 3 on edit_distance": _like(widths),
    }
    return [_claim(text, list(comparisons)) for text, comparisons in found.items()]


def comparable(one: TableRow, other: TableRow, *but: str) -> bool:
    """Whether two rows agree in all settings that both have, except those compared."""
    both = (name for name in one.keys() & other.keys() if name not in but)
    return all(one[n] == other[n] or None in (one[n], other[n]) for n in both)


def _widths(measured: Measured) -> list[Width]:
    """What is known of min d, wherever it was measured."""
    rows = measured.rows(
        f"min d by {', '.join(('size', *measured.settings))} where acc > 0.9 and {_paper(measured)}"
    )
    marks = _marks(rows, measured)
    widths = []
    for row in rows:
        at = {name: row[name] for name in ("task", "model", "size", *measured.settings)}
        widths.append(Width(at, _known(row), marks[row["task"], row["model"]]))
    return [width for width in widths if width.known.informative]


def _marks(rows: Sequence[TableRow], measured: Measured) -> dict[tuple[str, str], tuple[str, ...]]:
    """By task and model: the settings that have several values there."""
    values: dict[tuple[str, str], dict[str, set[Any]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        for name in measured.settings:
            values[row["task"], row["model"]][name].add(row[name])
    return {
        key: tuple(name for name, seen in settings.items() if len(seen) > 1)
        for key, settings in values.items()
    }


def _larger(widths: Sequence[Width], model: str) -> Iterator[Comparison]:
    """The model's min d against that of the standard one."""
    for ours in widths:
        for standard in widths:
            if (ours.model, standard.model) == (model, "standard") and ours.comparable(
                standard, "model"
            ):
                yield (
                    _above(ours.known, standard.known),
                    f"{ours.where()}: {_text(ours.known)}, standard {_text(standard.known)}",
                )


def _growing(widths: Sequence[Width], model: str) -> Iterator[Comparison]:
    """The model's min d at the largest size of each task against that at the smallest."""
    by_size: dict[Any, list[Width]] = defaultdict(list)
    for width in widths:
        if width.model == model:
            by_size[tuple(value for name, value in width.at.items() if name != "size")] += [width]
    for same in by_size.values():
        if len(same) > 1:
            first, *_, last = sorted(same, key=lambda width: width.known.x)
            sizes = ", ".join(f"size {w.known.x}: {_text(w.known)}" for w in (first, last))
            yield _above(last.known, first.known), f"{first.where(size=False)}, {sizes}"


def _faster(measured: Measured) -> Iterator[Comparison]:
    """The exponent of min d in L on each task against that on the next more local one."""
    rows = measured.rows(
        f"fit d ~ L by {', '.join(('model', *measured.settings))} "
        f"where acc > 0.9 and model <> 'standard' and {_paper(measured)}"
    )
    laws = [row for row in rows if row["exponent"] is not None]
    settings = ("model", *measured.settings)
    for less, more in pairwise(LOCALITY):
        for law in (row for row in laws if row["task"] == less):
            for other in (row for row in laws if row["task"] == more):
                if comparable({n: law[n] for n in settings}, {n: other[n] for n in settings}):
                    faster = True if law["low"] > other["high"] else None
                    slower = law["high"] < other["low"]
                    texts = [
                        f"{row['task']} {row['exponent']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"
                        for row in (law, other)
                    ]
                    yield False if slower else faster, f"{law['model']}: {', '.join(texts)}"


def _enough(widths: Sequence[Width]) -> Iterator[Comparison]:
    """Whether the standard model's min d is at most the paper's."""
    for width in widths:
        if width.model == "standard":
            manages = True if width.known.high <= ENOUGH_D else None
            fails = width.known.low >= ENOUGH_D
            yield False if fails else manages, f"{width.where()}: {_text(width.known)}"


def _imperfect(measured: Measured) -> Iterator[Comparison]:
    """Whether no width up to the paper's largest one reaches 100%, with its layers and heads."""
    for row in measured.rows(
        f"min d by size where acc >= 1 and {_paper(measured)} and task = 'lis' "
        f"and model = 'sparse' and size >= {LEAST_N} and layers = {LAYERS} and heads = {HEADS}",
        needs=("d", "acc", "layers", "heads"),
    ):
        known = _known(row)
        fails = True if known.low >= LARGEST_D else None
        yield False if known.high < inf else fails, f"size {known.x}: 100% at d {_text(known)}"


def _like(widths: Sequence[Width]) -> Iterator[Comparison]:
    """The min d of 5 layers against that of 3."""
    deep = [width for width in widths if width.at["task"] == "edit_distance"]
    for five in deep:
        for three in deep:
            layers = (five.at.get("layers"), three.at.get("layers"))
            if layers == (5, 3) and five.comparable(three, "layers"):
                same = True if five.known.high == three.known.high < inf else None
                differ = _above(five.known, three.known) is not None
                texts = f"5 layers {_text(five.known)}, 3 layers {_text(three.known)}"
                yield False if differ else same, f"{five.where()}: {texts}"


def _paper(measured: Measured) -> str:
    """The condition that a cell is of the paper's tasks, with a chain of thought."""
    tasks = f"task in {TASKS}"
    return f"{tasks} and cot" if "cot" in measured.columns else tasks


def _known(row: TableRow) -> Point:
    """What a row of `min d by size` knows."""
    return Point(row["size"], row["fail"] or 0, row["value"] or inf)


def _above(one: Point, other: Point) -> bool | None:
    """Whether one least value is the larger; None where the intervals do not tell."""
    if one.low >= other.high:
        return True
    return False if other.low >= one.high else None


def _text(known: Point) -> str:
    if known.high == inf:
        return f"> {known.low}"
    return f"({known.low}, {known.high}]" if known.low else f"<= {known.high}"


def _claim(text: str, comparisons: Sequence[Comparison]) -> TableRow:
    by_side = {
        word: [what for holds, what in comparisons if holds is side]
        for word, side in (("for", True), ("against", False), ("undecided", None))
    }
    votes, against = len(by_side["for"]), len(by_side["against"])
    status = "supported" if votes > against else "contradicted" if against else "not measured"
    evidence = [
        f"{len(found)} {word}: {'; '.join(found[:MOST_SHOWN])}{'; …' * (len(found) > MOST_SHOWN)}"
        for word, found in by_side.items()
        if found
    ]
    return {
        "kind": "claim",
        "claim": text,
        "status": status,
        "evidence": ". ".join(evidence) or "no two cells to compare",
    }
