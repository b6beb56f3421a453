"""Table 2 of Yang et al. 2024 (arXiv 2402.13934), beside our counts and what a store has measured.
The table gives the least GFLOPs with accuracy above 90% on arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
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
            ranked = {"d", *views.size_fields.values(), *views.tune}
            self.settings = tuple(axis for axis in views.axes if axis not in ranked)
            self.settles = views.settles
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
