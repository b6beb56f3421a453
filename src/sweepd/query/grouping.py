"""How the cells of a question fall into rows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sweepd.errors import UserError
from sweepd.query.cells import NUMERIC, Cell, getter
from sweepd.query.cells_sql import COSTS, GOAL_COST, quoted
from sweepd.query.database import Views
from sweepd.query.expressions import Column
from sweepd.query.parser import Question

_JSON = json.JSONEncoder(sort_keys=True)
TRAINING = "train_flops"
"""The column with the cost of training, which can be spent on width, on steps, or on both."""


@dataclass(frozen=True)
class Grouping:
    """Which columns make a row, and which of the others a row is the best over."""

    group: tuple[str, ...]
    shown: tuple[str, ...]
    """The axes, other than those of the group, that rows show in columns of their own."""
    others: tuple[str, ...]
    """The other columns that vary. Rows show them together, in the column `at`."""
    tuned: tuple[str, ...]
    """The nuisance axes that a row is the best over. Cells that differ in these alone are taken as
    one."""
    across_sizes: bool
    """Whether a row is about one size, so that fails at smaller sizes say something about it."""
    pooled: tuple[str, ...]
    """The axes that vary and that `by` may have left out. A row is the best over the cells that
    differ in them."""
    of_score: bool
    """Whether the question ranks a measured score, and not something that the grid sets."""
    of_compute: bool
    """Whether the question ranks training FLOPs. They can be spent on width or on steps, so more of
    them need not be better."""

    def rows(self, cells: Iterable[Cell]) -> list[tuple[dict[str, Any], list[Cell]]]:
        """Returns each group's columns and its cells. The groups are in natural order."""
        groups, key_of = defaultdict(list), getter(self.group)
        for cell in cells:
            groups[key_of(cell.row)].append(cell)
        keys = sorted(groups, key=lambda key: [(value is not None, value) for value in key])
        return [(dict(zip(self.group, key, strict=True)), groups[key]) for key in keys]

    def merged(self, cells: Iterable[Cell]) -> list[str]:
        """Returns the columns in which cells of one row differ though the question does not speak
        of them."""
        found = {
            name
            for _, members in (self.rows(cells) if self.pooled else ())
            for name in self.pooled
            if len({cell.row[name] for cell in members}) > 1
        }
        return [name for name in self.pooled if name in found]

    def at(self, cell: Cell) -> str:
        """Returns the axes in `others` that a cell has, with its values, as a JSON object."""
        axes = {name: cell.row[name] for name in self.others if cell.row[name] is not None}
        return _JSON.encode(axes)


def group(
    views: Views, question: Question, cells: Sequence[Cell], selected: Sequence[Cell]
) -> Grouping:
    """Returns how the question's cells fall into rows: by the columns of its `by`, or by default.

    `cells` are all cells of the store. `selected` are those for which the question's conditions on
    anything but scores hold.
    """
    along = question.along
    varying = _varying(views, cells, along)
    size_fields = views.selection.size_fields
    sizes = {"size", "L", *(size_fields.get(cell.row["task"], "size") for cell in selected)}
    ranked = _ranked(views, question, sizes)
    of_problems = views.axes
    # Codes are told apart only where a task and a model have run with several.
    code = views.code_column
    if code and len({(c.row["task"], c.row["model"], c.row["code"]) for c in cells}) == len(
        {(c.row["task"], c.row["model"]) for c in cells}
    ):
        code = []
    if question.verb in ("frontier", "max"):
        of_problems = tuple(axis for axis in views.axes if axis in views.selection.task_fields)
    if question.by is None:
        named = _default(views, code, [axis for axis in varying if axis in of_problems], ranked)
    else:
        named = _asked(views, code, question.by, along)
    group = tuple(dict.fromkeys(named))
    tuned = tuple(axis for axis in varying if axis in views.selection.tune - ranked.union(group))
    in_columns = {*group, *(n.name for _, n in question.expressions if isinstance(n, Column))}
    if question.best:
        in_columns.add(question.best)
    widths = {"d"}.intersection(views.axes)
    shown = tuple(widths - in_columns) if question.verb in ("frontier", "max") else ()
    across_sizes = bool(sizes.intersection((*group, along)))
    pooled = {*varying, *(() if "size" in group else sizes)} - ranked.union(group, tuned)
    size = [] if across_sizes or not _sizes_vary(cells) else ["size"]
    return Grouping(
        group=group,
        shown=shown,
        others=tuple(name for name in varying + size if name not in in_columns.union(shown)),
        tuned=tuned,
        across_sizes=across_sizes,
        pooled=tuple(axis for axis in of_problems if axis in pooled),
        of_score=bool(question.expressions[0][1].scores),
        of_compute=TRAINING in question.expressions[0][1].columns,
    )


def _ranked(views: Views, question: Question, sizes: set[str]) -> set[str]:
    """Returns the columns that the question ranks, which by default do not group its rows.

    These are the columns of its expressions, and the one that it fits along or asks the best value
    of. If a cost is among them, d is ranked too, and what all sweeps minimise if that is one
    field, since costs are there to rank them. If that is
    the cost of training, the steps are ranked as well. If one of `sizes`, the columns of the size,
    is ranked, all of them are. Raises UserError if the question cannot ask for that best value, or
    cannot fit along that column.
    """
    along = question.along
    ranked = {name for _, node in question.expressions for name in node.columns}
    if question.best is not None:
        if question.best not in views.axes:
            raise UserError(f"best {question.best}: name an axis, one of {', '.join(views.axes)}")
        ranked.add(question.best)
    if along is not None:
        if along in ranked or along not in {"size", "L", *views.axes}:
            raise UserError(f"~ {along}: fit along the size or an axis, not what is minimised")
        [kind] = views.types([quoted(along)])
        if not kind.startswith(NUMERIC):
            raise UserError(f"~ {along}: it is of type {kind}, not a number")
        ranked.add(along)
    if ranked.intersection((*COSTS, GOAL_COST)):
        minimized = {info.minimized for info in views.selection.infos.values()}
        ranked |= {"d", *(minimized if len(minimized) == 1 else ())}
    if TRAINING in ranked:
        ranked.add("steps")
    return ranked | sizes if ranked & sizes else ranked


def _default(
    views: Views, code: Sequence[str], varying: Sequence[str], ranked: set[str]
) -> list[str]:
    """Returns the columns that group a question without `by`. They are task, size, L, model, the
    code where cells differ by it, and the `varying` axes. Nuisance axes and what the question ranks
    are left out."""
    names = ["task", "size", "L", "model", *code, *varying]
    return [name for name in names if name not in ranked | views.selection.tune]


def _asked(views: Views, code: Sequence[str], by: Sequence[str], along: str | None) -> list[str]:
    """Returns the columns that group a question with `by`: those that it names, besides task, model
    and, where cells differ by it, code. Raises UserError for a column that cannot group."""
    allowed = ["task", "size", "L", "model", *views.code_column, *views.axes, *COSTS]
    for name in by:
        if name not in allowed:
            raise UserError(f"by {name}: group by one of {', '.join(sorted(allowed))}")
        if name == along:
            raise UserError(f"by {name}: a fit along {name} needs several values in a group")
    return ["task", *by, "model", *code]


def _sizes_vary(cells: Sequence[Cell]) -> bool:
    """Returns whether any task has several sizes."""
    sizes = {(cell.row["task"], cell.row["size"]) for cell in cells}
    return len(sizes) > len({task for task, _ in sizes})


def _varying(views: Views, cells: Sequence[Cell], along: str | None) -> list[str]:
    """Returns the axes, other than a task's size, that have several values for some task and model.
    Null is a value too. Where a column is fitted along, only cells with one value of it are
    compared."""
    axes = [axis for axis in views.axes if axis in views.apart]
    compared = defaultdict(list)
    for cell in cells:
        where = cell.row["task"], cell.row["model"], cell.row[along] if along else None
        compared[where].append(cell.row)
    varying = {
        axis
        for (task, *_), rows in compared.items()
        for axis in axes
        if axis != views.selection.size_fields.get(task) and len({row[axis] for row in rows}) > 1
    }
    return [axis for axis in axes if axis in varying]
