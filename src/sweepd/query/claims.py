"""What Yang et al. 2024 (arXiv 2402.13934) published, judged by what a store has measured: Table 2,
the least GFLOPs with accuracy above 90% on arithmetic, and what the figures claim.

What is known of min d at one set of settings is an interval. Two of them differ only where the
intervals do not overlap. How min d grows is what `fit` says of it. Cells are compared only if they
agree in every setting that both have, from the task's to the schedule's.

A claim is judged by every comparison that was made at the paper's settings, and by no other. What
was seen at other settings is shown, but does not count. A control puts the claim about the
efficient models to the standard model, of which the paper does not claim it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import hypot, inf
from pathlib import Path
from typing import Any

from sweepd.grid.costs import costs
from sweepd.grid.registry import find_model
from sweepd.query.answers import answer
from sweepd.query.database import Views
from sweepd.store.storage import Damaged

TABLE2 = {
    "standard": {87: (0.027, 64), 221: (0.266, 128), 355: (0.426, 128), 505: (0.605, 128)},
    "linear": {87: (0.422, 256), 221: (4.220, 512), 355: (6.756, 512), 505: (9.584, 512)},
    "sparse": {87: (0.106, 128), 221: (1.055, 256), 355: (1.690, 256), 505: (2.399, 256)},
}
"""The published GFLOPs and the min d that they imply, by model and L.

All of them exceed 24 · layers · d² · L, the FLOPs of the weight products of one forward pass, by
0.5% to 5.3%.
"""
LAYERS, HEADS, POSITIONS = 3, 4, "sinusoidal"
SIZES = {
    "arithmetic": (6, 10, 13, 16),
    "lis": (40, 110, 175, 250),
    "edit_distance": (6, 12, 16, 20),
    "ed_local": (6, 12, 16, 20),
}
"""The sizes of the paper's figures, by task. Those of ed_local are not published, so they are taken
to be those of the edit distance."""

TABLE2_COLUMNS = (
    *("kind", "model", "L", "operators", "published_gflops", "d", "gflops_weights", "ratio"),
    *("gflops", "measured_d", "measured_gflops_weights", "verdict"),
)

TableRow = dict[str, Any]

LOCALITY = ("lis", "edit_distance", "ed_local")
"""The tasks, from the least to the most local."""
LARGEST_D = 1024
"""The largest d of the paper's grid on LIS."""
ENOUGH_D = 256
"""The d with which, by the paper's claim, the standard model manages every size of its grid."""
DEEP = 5
"""The number of layers of the paper's deeper models."""
COLUMNS = ("kind", "claim", "status", "evidence", "control")
MOST_SHOWN = 6
"""How many comparisons of one kind the evidence spells out at most."""
EFFICIENT = ("linear", "sparse")


class Measured:
    """What the views of a store answer to questions. Without views nothing was measured."""

    def __init__(self, views: Views | None) -> None:
        self.views = views
        self.columns: set[str] = set()
        self.settings: tuple[str, ...] = ()
        """The axes that tell cells apart, except d, the sizes and the nuisance axes."""
        self.settles = False
        """Whether a sweep settles its answers. Then a fail that is not settled says nothing."""
        self.notes: list[str] = []
        self.damaged: tuple[Damaged, ...] = ()
        if views is not None:
            self.columns = set(views.columns) if views.axes else set()
            ranked = {"d", *views.selection.size_fields.values(), *views.selection.tune}
            self.settings = tuple(axis for axis in views.axes if axis not in ranked)
            self.settles = views.selection.settles
            self.notes, self.damaged = views.notes, views.damaged

    def rows(self, text: str, needs: Sequence[str] = ("d", "acc")) -> list[TableRow]:
        """Returns the rows of the answer to a question. There are none if the store lacks one of
        the columns that the question needs."""
        if self.views is None or not self.columns.issuperset(needs):
            return []
        return answer(self.views, text).rows

    @property
    def chains(self) -> str:
        """The condition that a cell was trained with chains of thought, as all of the paper's were.
        It always holds in a store that has no column `cot`."""
        return "cot" if "cot" in self.columns else "true"


def table2(measured: Measured) -> list[TableRow]:
    """Returns one row (TABLE2_COLUMNS) for each published figure, with our counts at the d that it
    implies and with the min d that the store has measured.

    gflops_weights counts as the paper does, and ratio is the published figure over it. gflops
    counts attention's own products too. The measured min d is that of cells with the paper's
    layers, heads and modulus.
    """
    from sweepd.tasks.arithmetic import PUBLISHED_L  # importing numba takes a while

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


def _gflops(model: str, operators: int, d: int) -> tuple[float, float]:
    """Returns the GFLOPs of a forward pass of the paper's model on arithmetic: those of weight
    products only, and those with attention's own products."""
    from sweepd.tasks.arithmetic import Arithmetic

    task = Arithmetic(operators)
    kind: Any = find_model(model, Path())
    architecture = kind(d=d, layers=LAYERS, heads=HEADS)
    found = costs(architecture, len(task.vocab), task.L, task.capacity)
    return found.flops_weights / 1e9, found.flops / 1e9


# Claims


def claims(measured: Measured) -> list[TableRow]:
    """Returns each claim with its status, the evidence, and the control where it has one.

    The status counts the comparisons at the paper's settings. supported: all speak for the claim.
    partly supported: some do, none speaks against it, and the others do not tell. mixed: some speak
    for it and some against. contradicted: some speak against it and none for it. undecided: none
    tells. at other settings: there are comparisons, but none at the paper's settings. not measured:
    there is no comparison at all.
    """
    widths, laws = widths_of(measured), growth_of(measured)
    grows = list(growing(laws, "standard"))
    return [
        _claim("sparse needs a larger d than standard", larger(widths, "sparse")),
        _claim("linear needs a larger d than standard", larger(widths, "linear")),
        _claim("min d of sparse grows with the size", growing(laws, "sparse"), grows),
        _claim("min d of linear grows with the size", growing(laws, "linear"), grows),
        _claim(
            f"min d grows faster on less local tasks: {' > '.join(LOCALITY)}",
            faster(laws, *EFFICIENT),
            faster(laws, "standard"),
        ),
        _claim(
            "linear and sparse need a smaller d on ed_local than on edit_distance",
            easier(widths, *EFFICIENT),
            easier(widths, "standard"),
        ),
        _claim(f"standard manages every size with d up to {ENOUGH_D}", enough(widths)),
        _claim(
            f"sparse does not reach 100% on lis with n from {min(SIZES['lis'])}",
            imperfect(measured),
        ),
        _claim("5 layers are like 3 on edit_distance", alike(widths)),
    ]


def _claim(
    text: str, comparisons: Iterable[Comparison], control: Iterable[Comparison] = ()
) -> TableRow:
    found = list(comparisons)
    own = [one for one in found if one.of_paper]
    elsewhere = [one for one in found if not one.of_paper]
    status = "not measured"
    if found:
        status = _status(own) if own else "at other settings"
    evidence = [_evidence(own)] if own else []
    if elsewhere:
        evidence.append(f"At other settings: {_evidence(elsewhere)}")
    controls = list(control)
    return {
        "kind": "claim",
        "claim": text,
        "status": status,
        "evidence": ". ".join(evidence) or "no two cells to compare",
        "control": _evidence(controls) if controls else None,
    }


def _status(comparisons: Sequence[Comparison]) -> str:
    sides = {one.holds for one in comparisons}
    if {True, False} <= sides:
        return "mixed"
    if False in sides:
        return "contradicted"
    if True in sides:
        return "partly supported" if None in sides else "supported"
    return "undecided"


def _evidence(comparisons: Sequence[Comparison]) -> str:
    """Returns in words how many comparisons speak for a claim, speak against it or do not tell. It
    spells out the first MOST_SHOWN of each kind."""
    told = []
    for word, side in (("for", True), ("against", False), ("undecided", None)):
        if found := [one.text for one in comparisons if one.holds is side]:
            more = "; …" * (len(found) > MOST_SHOWN)
            told.append(f"{len(found)} {word}: {'; '.join(found[:MOST_SHOWN])}{more}")
    return ". ".join(told)


# What speaks for a claim, and what against it


@dataclass(frozen=True)
class Comparison:
    holds: bool | None
    """True if the comparison speaks for a claim, False if it speaks against it, and None if it does
    not tell."""
    text: str
    """What was compared, in words."""
    of_paper: bool
    """Whether the comparison was made at the layers, heads, positions and sizes of the paper."""


@dataclass(frozen=True)
class Width:
    """What is known of min d at one task, model, size and set of all other settings.

    It is above `low`, which is 0 if nothing failed, or if longer training may turn a fail into a
    pass. It is at most `high`, which is inf if nothing passed.
    """

    at: TableRow
    low: float
    high: float
    marks: tuple[str, ...]
    """The settings that have several values among the widths of the same task and model."""

    @property
    def model(self) -> str:
        return str(self.at["model"])

    @property
    def of_paper(self) -> bool:
        return self.at["size"] in SIZES[self.at["task"]] and _settings_of_paper(self.at)

    def comparable(self, other: Width, *but: str) -> bool:
        """Returns whether two widths agree in all settings that both have, except those in `but`,
        which are compared."""
        return _comparable(self.at, other.at, *but)

    def above(self, other: Width) -> bool | None:
        """Returns whether this min d is larger than the other, or None where the intervals do not
        tell."""
        if self.low >= other.high:
            return True
        return False if other.low >= self.high else None

    def where(self) -> str:
        """Returns in words what the width is known at: its model, task, size and marks."""
        marks = [f"{name} {self.at[name]}" for name in self.marks if self.at[name] is not None]
        at = f"{self.model} on {self.at['task']} at size {self.at['size']}"
        return ", ".join([at, *marks])

    def __str__(self) -> str:
        if self.high == inf:
            return f"> {self.low}"
        return f"({self.low}, {self.high}]" if self.low else f"<= {self.high}"


def widths_of(measured: Measured) -> list[Width]:
    """Returns what is known of min d, wherever anything is."""
    rows = measured.rows(
        f"min d by {', '.join(('size', *measured.settings))} where acc > 0.9 and {_tasks(measured)}"
    )
    marks = _marks(rows, measured)
    widths = [_width(row, measured, marks[row["task"], row["model"]]) for row in rows]
    return [width for width in widths if width.low > 0 or width.high < inf]


def _width(row: TableRow, measured: Measured, marks: tuple[str, ...] = ()) -> Width:
    """Returns what a row of `min d` says of min d."""
    counts = row["settled"] == "yes" or not measured.settles
    at = {name: row[name] for name in ("task", "model", "size", *measured.settings)}
    return Width(at, (row["fail"] or 0) if counts else 0, row["value"] or inf, marks)


def growth_of(measured: Measured) -> list[TableRow]:
    """Returns what `fit` says of the growth of min d, one row for each task, model and set of
    settings.

    Sizes of the paper's grid and other sizes are not fitted together. `of_paper` says whether the
    sizes and the settings of a row are the paper's.
    """
    sizes = " or ".join(f"task = '{task}' and size in {found}" for task, found in SIZES.items())
    names = ["model", *measured.settings]
    found = []
    for of_size, side in ((True, f"({sizes})"), (False, f"not ({sizes})")):
        for row in measured.rows(
            f"fit d ~ L by {', '.join(names)} where acc > 0.9 and {_tasks(measured)} and {side}"
        ):
            found.append(row | {"of_paper": of_size and _settings_of_paper(row)})
    return found


def larger(widths: Sequence[Width], model: str) -> Iterator[Comparison]:
    """Yields comparisons that say whether the model's min d is larger than the standard model's."""
    for ours in widths:
        for other in widths:
            pair = (ours.model, other.model)
            if pair == (model, "standard") and ours.comparable(other, "model"):
                text = f"{ours.where()}: {ours}, standard {other}"
                yield Comparison(ours.above(other), text, ours.of_paper)


def growing(laws: Sequence[TableRow], model: str) -> Iterator[Comparison]:
    """Yields comparisons that say whether the model's min d grows along L, one for each law."""
    holds = {"grows": True, "falls": False}
    for law in (law for law in laws if law["model"] == model):
        yield Comparison(holds.get(law["growth"]), _exponent(law), law["of_paper"])


def faster(laws: Sequence[TableRow], *models: str) -> Iterator[Comparison]:
    """Yields comparisons that say whether the exponent of min d in L is larger on a task than on
    the next more local task.

    The two exponents are measured apart. So the error of their difference is the root of the sum of
    the squares of their errors.
    """
    known = [law for law in laws if law["exponent"] is not None and law["model"] in models]
    for less, more in pairwise(LOCALITY):
        for law in (law for law in known if law["task"] == less):
            for other in (other for other in known if other["task"] == more):
                if _comparable(_settings(law), _settings(other)):
                    gap, low, high = _less(law, other)
                    holds = True if low > 0 else False if high < 0 else None
                    text = f"{_exponent(law)}, less {_exponent(other)} is {_span(gap, low, high)}"
                    yield Comparison(holds, text, law["of_paper"] and other["of_paper"])


def _less(one: TableRow, other: TableRow) -> tuple[float, float, float]:
    """Returns the difference of two exponents, and the low and high end of its interval."""
    (low, middle, high), (below, centre, above) = (
        [law[name] for name in ("low", "exponent", "high")] for law in (one, other)
    )
    gap = middle - centre
    return (
        gap,
        gap - hypot(middle - low, above - centre),
        gap + hypot(high - middle, centre - below),
    )


def easier(widths: Sequence[Width], *models: str) -> Iterator[Comparison]:
    """Yields comparisons that say whether min d is larger on the edit distance than on its more
    local variant."""
    for ours in (width for width in widths if width.model in models):
        for local in widths:
            tasks = (ours.at["task"], local.at["task"])
            if tasks == LOCALITY[1:] and ours.comparable(local, "task"):
                text = f"{ours.where()}: {ours}, ed_local {local}"
                yield Comparison(ours.above(local), text, ours.of_paper)


def enough(widths: Sequence[Width]) -> Iterator[Comparison]:
    """Yields comparisons that say whether the standard model's min d is at most ENOUGH_D.

    For each task that was measured at a size of the paper, one more names the sizes of the paper at
    which it was not measured, if there are any. That one does not tell (None).
    """
    tried = defaultdict(set)
    for width in (width for width in widths if width.model == "standard"):
        manages = True if width.high <= ENOUGH_D else None
        holds = False if width.low >= ENOUGH_D else manages
        yield Comparison(holds, f"{width.where()}: {width}", width.of_paper)
        if width.of_paper:
            tried[width.at["task"]].add(width.at["size"])
    for task, sizes in tried.items():
        if missing := [str(size) for size in SIZES[task] if size not in sizes]:
            text = f"standard on {task} was not measured at size {', '.join(missing)}"
            yield Comparison(None, text, of_paper=True)


def imperfect(measured: Measured) -> Iterator[Comparison]:
    """Yields comparisons that say whether the sparse model fails to reach 100% on LIS with every
    width up to the paper's largest. Sizes below the paper's smallest are left out."""
    least = min(SIZES["lis"])
    settings = ", ".join(("size", *measured.settings))
    for row in measured.rows(
        f"min d by {settings} where acc >= 1 and {_tasks(measured)} and task = 'lis' "
        f"and model = 'sparse' and size >= {least}"
    ):
        width = _width(row, measured)
        fails = True if width.low >= LARGEST_D else None
        holds = False if width.high < inf else fails
        yield Comparison(holds, f"size {row['size']}: 100% at d {width}", width.of_paper)


def alike(widths: Sequence[Width]) -> Iterator[Comparison]:
    """Yields comparisons that say whether 5 layers have the min d of 3 on the edit distance."""
    deep = [width for width in widths if width.at["task"] == "edit_distance"]
    for five in deep:
        for three in deep:
            layers = (five.at.get("layers"), three.at.get("layers"))
            if layers == (DEEP, LAYERS) and five.comparable(three, "layers"):
                same = True if five.high == three.high < inf else None
                holds = False if five.above(three) is not None else same
                text = f"{five.where()}: 5 layers {five}, 3 layers {three}"
                yield Comparison(holds, text, three.of_paper)


def _settings_of_paper(row: TableRow) -> bool:
    found = tuple(row.get(name) for name in ("layers", "heads", "positions"))
    return found == (LAYERS, HEADS, POSITIONS)


def _settings(law: TableRow) -> TableRow:
    """Returns what a row of `fit` was measured at, apart from the task. These are the columns
    before its exponent."""
    names = list(law)
    return {name: law[name] for name in names[: names.index("exponent")] if name != "task"}


def _comparable(one: TableRow, other: TableRow, *but: str) -> bool:
    both = (name for name in one.keys() & other.keys() if name not in but)
    return all(one[n] == other[n] or None in (one[n], other[n]) for n in both)


def _exponent(law: TableRow) -> str:
    where = f"{law['model']} on {law['task']}"
    if law["exponent"] is None:
        return f"{where}: no exponent ({law['reason']})"
    return f"{where}: {_span(law['exponent'], law['low'], law['high'])}"


def _span(middle: float, low: float, high: float) -> str:
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def _tasks(measured: Measured) -> str:
    """Returns the condition that a cell is of one of the paper's tasks, with a chain of thought."""
    return f"task in {tuple(SIZES)} and {measured.chains}"


def _marks(rows: Sequence[TableRow], measured: Measured) -> dict[tuple[str, str], tuple[str, ...]]:
    """Returns, for each task and model, the settings that have several values there."""
    values: dict[tuple[str, str], dict[str, set[Any]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        for name in measured.settings:
            values[row["task"], row["model"]][name].add(row[name])
    return {
        key: tuple(name for name, seen in settings.items() if len(seen) > 1)
        for key, settings in values.items()
    }
