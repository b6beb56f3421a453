"""What Yang et al. 2024 (arXiv 2402.13934) publish, beside what a store has measured.

Table 2: the least GFLOPs with accuracy above 90% on arithmetic. Claims: what their figures show.
A claim is judged by comparisons, each of which speaks for it, against it or neither way: what is
known of min d is an interval, and two differ where their intervals do not overlap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

from sweepd.answers import ask
from sweepd.fits import Point
from sweepd.flops import costs
from sweepd.registry import find_model
from sweepd.tables import Damaged
from sweepd.tasks.arithmetic import PUBLISHED_L, Arithmetic
from sweepd.views import CodeChoice, Source, connect

TABLE2 = {
    "standard": {87: (0.027, 64), 221: (0.266, 128), 355: (0.426, 128), 505: (0.605, 128)},
    "linear": {87: (0.422, 256), 221: (4.220, 512), 355: (6.756, 512), 505: (9.584, 512)},
    "sparse": {87: (0.106, 128), 221: (1.055, 256), 355: (1.690, 256), 505: (2.399, 256)},
}
"""By model and L: the published GFLOPs, and the min d that they imply.

All exceed 24 · layers · d² · L, the weight products of one forward pass, by 0.5% to 5.3%.
"""
LAYERS, HEADS = 3, 4
LOCALITY = ("lis", "edit_distance", "ed_local")
"""Tasks from the least to the most local."""
LEAST_N, LARGEST_D = 40, 1024
"""Of the paper's grid on LIS: the smallest size, the largest d."""

TABLE2_COLUMNS = (
    *("kind", "model", "L", "operators", "published_gflops", "d", "gflops_weights", "ratio"),
    *("gflops", "measured_d", "measured_gflops_weights", "verdict"),
)
CLAIM_COLUMNS = ("kind", "claim", "status", "evidence")
MOST_SHOWN = 6
"""Comparisons of one kind that the evidence spells out."""

Row = dict[str, Any]
Comparison = tuple[bool | None, str]
"""Whether it speaks for a claim, against it (False) or neither way (None); what it compares."""


@dataclass(frozen=True)
class Setting:
    """Where min d was measured; null for axes that no trial has."""

    task: str
    model: str
    size: int
    layers: int | None
    heads: int | None
    steps: int | None

    def __str__(self) -> str:
        return f"{self.model} on {self.task} at size {self.size}"


class Measured:
    """Questions to a store; without one, nothing was measured."""

    def __init__(
        self, source: Source | None, code: CodeChoice, sweeps: Sequence[str] | None = None
    ) -> None:
        self.source, self.code, self.sweeps = source, code, sweeps
        self.columns: set[str] = set()
        self.notes: list[str] = []
        self.damaged: tuple[Damaged, ...] = ()
        if source is not None:
            views = connect(source, code=code, sweeps=sweeps)
            self.columns = set(views.columns) if views.axes else set()
            self.notes, self.damaged = views.notes, views.damaged

    def rows(self, text: str, needs: Sequence[str] = ("d", "acc")) -> list[Row]:
        """The rows of an answer; none if the store lacks one of the columns that it needs."""
        if self.source is None or not self.columns.issuperset(needs):
            return []
        return ask(self.source, text, code=self.code, sweeps=self.sweeps).rows

    @property
    def chains(self) -> str:
        """The condition that a cell is of chains of thought, as all of the paper's are."""
        return "cot" if "cot" in self.columns else "true"

    def by(self, *names: str) -> str:
        """Those of the columns that the store has."""
        return ", ".join(name for name in names if name in self.columns)


def table2(measured: Measured) -> list[Row]:
    """Each published figure, our counts at the d that it implies, and the store's own min d.

    gflops_weights is the paper's count and ratio the published figure over it; gflops counts
    attention's own products too. Measured is with the paper's layers, heads and modulus.
    """
    where = f"task = 'arithmetic' and modulus = 11 and layers = {LAYERS} and heads = {HEADS}"
    found = {
        (row["model"], row["L"]): row
        for row in measured.rows(
            f"min d by L where acc > 0.9 and {measured.chains} and {where}",
            needs=("d", "modulus", "layers", "heads"),
        )
    }
    rows = []
    for model, published in TABLE2.items():
        for operators, L in PUBLISHED_L.items():
            gflops, d = published[L]
            ours, with_attention = _gflops(model, operators, d)
            own = found.get((model, L), {})
            own_d = own.get("value")
            rows.append(
                {
                    "kind": "table2",
                    "model": model,
                    "L": L,
                    "operators": operators,
                    "published_gflops": gflops,
                    "d": d,
                    "gflops_weights": ours,
                    "ratio": gflops / ours,
                    "gflops": with_attention,
                    "measured_d": own_d,
                    "measured_gflops_weights": own_d and _gflops(model, operators, own_d)[0],
                    "verdict": own.get("verdict"),
                }
            )
    return rows


def claims(measured: Measured) -> list[Row]:
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
        f"sparse does not reach 100% on lis with n from {LEAST_N}": _imperfect(measured),
        "5 layers are like 3 on edit_distance": _alike(widths),
    }
    return [_claim(text, list(comparisons)) for text, comparisons in found.items()]


def _gflops(model: str, operators: int, d: int) -> tuple[float, float]:
    """Of the paper's model on arithmetic: by weights only, and with attention's own products."""
    task = Arithmetic(operators)
    architecture = find_model(model, Path())(d=d, layers=LAYERS, heads=HEADS)
    found = costs(architecture, len(task.vocab), task.L, task.capacity)
    return found.flops_weights / 1e9, found.flops / 1e9


def _widths(measured: Measured) -> dict[Setting, Point]:
    """What is known of min d, wherever it was measured."""
    rest = ("layers", "heads", "steps")
    rows = measured.rows(
        f"min d by {measured.by('size', *rest)} where acc > 0.9 and {measured.chains}"
    )
    known = {
        Setting(row["task"], row["model"], row["size"], *map(row.get, rest)): _known(row)
        for row in rows
    }
    return {setting: point for setting, point in known.items() if point.informative}


def _larger(widths: Mapping[Setting, Point], model: str) -> Iterator[Comparison]:
    """The model's min d against that of the standard one."""
    for setting, known in widths.items():
        standard = widths.get(replace(setting, model="standard"))
        if setting.model == model and standard:
            yield (
                _above(known, standard),
                f"{setting}: {_text(known)}, standard {_text(standard)}",
            )


def _growing(widths: Mapping[Setting, Point], model: str) -> Iterator[Comparison]:
    """The model's min d at the largest size of each task against that at the smallest."""
    by_size = defaultdict(list)
    for setting, known in widths.items():
        if setting.model == model:
            by_size[replace(setting, size=0)].append(known)
    for setting, points in by_size.items():
        if len(points) > 1:
            first, *_, last = sorted(points, key=lambda point: point.x)
            sizes = f"size {first.x}: {_text(first)}, size {last.x}: {_text(last)}"
            yield _above(last, first), f"{model} on {setting.task}, {sizes}"


def _faster(measured: Measured) -> Iterator[Comparison]:
    """The exponent of min d in L on each task against that on the next more local one."""
    rest = ("layers", "heads")
    rows = measured.rows(
        f"fit d ~ L by {measured.by('model', *rest)} where acc > 0.9 and {measured.chains}"
    )
    laws = {
        (row["task"], row["model"], *map(row.get, rest)): row
        for row in rows
        if row["exponent"] is not None and row["model"] != "standard"
    }
    for (task, *setting), law in laws.items():
        for less, more in pairwise(LOCALITY):
            other = laws.get((more, *setting))
            if task == less and other:
                faster = True if law["low"] > other["high"] else None
                slower = law["high"] < other["low"]
                texts = [
                    f"{row['task']} {row['exponent']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"
                    for row in (law, other)
                ]
                yield False if slower else faster, f"{setting[0]}: {', '.join(texts)}"


def _imperfect(measured: Measured) -> Iterator[Comparison]:
    """Whether no width up to the paper's largest one reaches 100%."""
    for row in measured.rows(
        f"min d by size where acc >= 1 and {measured.chains} "
        f"and task = 'lis' and model = 'sparse' and size >= {LEAST_N}"
    ):
        known = _known(row)
        fails = True if known.low >= LARGEST_D else None
        yield False if known.high < inf else fails, f"size {known.x}: 100% at d {_text(known)}"


def _alike(widths: Mapping[Setting, Point]) -> Iterator[Comparison]:
    """The min d of 5 layers against that of 3."""
    for setting, known in widths.items():
        three = widths.get(replace(setting, layers=3))
        if setting.task == "edit_distance" and setting.layers == 5 and three:
            same = True if known.high == three.high < inf else None
            differ = _above(known, three) is not None
            yield (
                False if differ else same,
                f"{setting}: 5 layers {_text(known)}, 3 layers {_text(three)}",
            )


def _known(row: Row) -> Point:
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


def _claim(text: str, comparisons: Sequence[Comparison]) -> Row:
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
