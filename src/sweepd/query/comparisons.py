"""What a store says about the paper's claims, one comparison at a time.

What is known of min d at one set of settings is an interval. Two of them differ only where the
intervals do not overlap. How min d grows is what `fit` says of it. Cells are compared only if they
agree in every setting that both have, from the task's to the schedule's. Each comparison says
whether it was made at the settings that the paper's figures are about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import hypot, inf
from typing import Any

from sweepd.query.paper import HEADS, LAYERS, POSITIONS, SIZES, Measured, TableRow

LOCALITY = ("lis", "edit_distance", "ed_local")
"""The tasks, from the least to the most local."""
LARGEST_D = 1024
"""The largest d of the paper's grid on LIS."""
ENOUGH_D = 256
"""The d with which, by the paper's claim, the standard model manages every size of its grid."""
DEEP = 5
"""The number of layers of the paper's deeper models."""


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
