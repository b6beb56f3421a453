"""How the cells of a question fall into rows."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sweepd.errors import UserError
from sweepd.query.cells import NUMERIC, Cell, score_columns
from sweepd.query.cells_sql import COSTS, GOAL_COST, ScoreDirections, quoted
from sweepd.query.database import Views
from sweepd.query.expressions import Column
from sweepd.query.parser import Question

_JSON = json.JSONEncoder(sort_keys=True)
TRAINING = "train_flops"
"""The column with the cost of training, which can be spent on width, on steps, or on both."""


@dataclass(frozen=True)
class Grouping:
    """Which columns make a row of an answer, and which of the others a row is the best over."""

    views: Views
    question: Question
    group: tuple[str, ...]
    shown: tuple[str, ...]
    """The axes, other than those of the group, that rows show in columns of their own."""
    others: tuple[str, ...]
    """The other columns that vary. Rows show them together, in the column `at`."""
    tuned: tuple[str, ...]
    """The nuisance axes that a row is the best over. Cells that differ in these alone are one."""
    across_sizes: bool
    """Whether a row is about one size, so that fails at smaller sizes say something about it."""
    pooled: tuple[str, ...]
    """The axes that vary and that `by` may have left out. A row is the best over them, too."""
    scores: tuple[str, ...]
    """The columns that tell the scores of a row."""

    @property
    def of_score(self) -> bool:
        """Whether the question ranks a measured score, and not something that the grid sets."""
        return bool(self.question.expressions[0][1].scores)

    @property
    def of_compute(self) -> bool:
        """Whether the question ranks training FLOPs, of which more need not be better (`judge`)."""
        return TRAINING in self.question.expressions[0][1].columns

    def rows(self, cells: Iterable[Cell]) -> list[tuple[dict[str, Any], list[Cell]]]:
        """Returns each group's columns and its cells. The groups are in natural order."""
        groups = defaultdict(list)
        for cell in cells:
            groups[tuple(cell.row[name] for name in self.group)].append(cell)
        keys = sorted(groups, key=lambda key: [(value is not None, value) for value in key])
        return [(dict(zip(self.group, key, strict=True)), groups[key]) for key in keys]

    def merged(self, cells: Iterable[Cell]) -> str:
        """Returns, joined by commas, those of `pooled` in which cells of one row differ."""
        differ = {
            name
            for _, members in (self.rows(cells) if self.pooled else ())
            for name in self.pooled
            if len({cell.row[name] for cell in members}) > 1
        }
        return ", ".join(name for name in self.pooled if name in differ)

    def at(self, cell: Cell) -> str:
        """Returns the axes in `others` that a cell has, with its values, as a JSON object."""
        axes = {name: cell.row[name] for name in self.others if cell.row[name] is not None}
        return _JSON.encode(axes)


def group(
    views: Views, question: Question, cells: Sequence[Cell], own: ScoreDirections
) -> Grouping:
    """Returns how all cells of the store fall into rows: by `by`, or by default. own: as in `Cell`.
    Raises UserError for columns that cannot group, be ranked or be fitted along."""
    along, verb = question.along, question.verb
    size_fields = views.selection.size_fields
    tasks = {cell.row["task"] for cell in cells if cell.selected}
    sizes = {"size", "L", *(size_fields.get(task, "size") for task in tasks)}
    ranked = ranked_by(views, question, sizes)

    # The axes, other than a task's size, that have several values for some task and model. Null is
    # a value too. Where a column is fitted along, only cells with one value of it are compared.
    compared = defaultdict(list)
    for cell in cells:
        where = cell.row["task"], cell.row["model"], cell.row[along] if along else None
        compared[where].append(cell.row)
    differ = {
        axis
        for (task, *_), rows in compared.items()
        for axis in views.axes
        if axis != size_fields.get(task)
        if len({row[axis] for row in rows}) > 1
    }
    varying = [axis for axis in views.axes if axis in differ]

    # Other problems never compete: a frontier and `max` are of each of them.
    of_problems = views.axes
    if verb in ("frontier", "max"):
        of_problems = tuple(axis for axis in views.axes if axis in views.selection.task_fields)

    # Codes are told apart only where a task and a model have run with several.
    code = views.code_column
    if code and len({(c.row["task"], c.row["model"], c.row["code"]) for c in cells}) == len(
        {(c.row["task"], c.row["model"]) for c in cells}
    ):
        code = []
    if question.by is None:
        names = ["task", "size", "L", "model", *code, *(a for a in varying if a in of_problems)]
        names = [name for name in names if name not in ranked | views.selection.tune]
    else:
        allowed = ["task", "size", "L", "model", *views.code_column, *views.axes, *COSTS]
        for name in question.by:
            if name not in allowed:
                raise UserError(f"by {name}: group by one of {', '.join(sorted(allowed))}")
            if name == along:
                raise UserError(f"by {name}: a fit along {name} needs several values in a group")
        names = ["task", *question.by, "model", *code]

    group = tuple(dict.fromkeys(names))
    tuned = tuple(axis for axis in varying if axis in views.selection.tune - ranked.union(group))
    in_columns = {*group, *(n.name for _, n in question.expressions if isinstance(n, Column))}
    in_columns |= {question.best} if question.best else set()
    widths = {"d"}.intersection(views.axes)
    shown = tuple(widths - in_columns) if verb in ("frontier", "max") else ()
    across_sizes = bool(sizes.intersection((*group, along)))
    several_sizes = len({(cell.row["task"], cell.row["size"]) for cell in cells}) > len(
        {cell.row["task"] for cell in cells}
    )
    size = ["size"] if several_sizes and not across_sizes else []
    pooled = {*varying, *(() if "size" in group else sizes)} - ranked.union(group, tuned)
    return Grouping(
        views=views,
        question=question,
        group=group,
        shown=shown,
        others=tuple(name for name in varying + size if name not in in_columns.union(shown)),
        tuned=tuned,
        across_sizes=across_sizes,
        pooled=tuple(axis for axis in of_problems if axis in pooled),
        scores=tuple(score_columns(own)),
    )


def ranked_by(views: Views, question: Question, sizes: set[str]) -> set[str]:
    """Returns the columns that the question ranks, which by default do not group its rows: those of
    its expressions, and the one that it fits along or asks the best value of. Costs are there to
    rank widths, so with one of them d is ranked too, and what all sweeps minimise if that is one
    field. With the cost of training the steps are ranked as well. If one of `sizes`, the columns of
    the size, is ranked, all of them are. Raises UserError for columns that cannot be ranked."""
    along = question.along
    ranked = {name for _, node in question.expressions for name in node.columns}
    if question.best is not None:
        if question.best not in views.axes:
            raise UserError(f"best {question.best}: name an axis, one of {', '.join(views.axes)}")
        ranked.add(question.best)
    if along is not None:
        if along in ranked or along not in {"size", "L", *views.axes}:
            raise UserError(f"~ {along}: fit along the size or an axis, not what is minimised")
        [kind] = views.types(quoted(along))
        if not kind.startswith(NUMERIC):
            raise UserError(f"~ {along}: it is of type {kind}, not a number")
        ranked.add(along)
    if ranked.intersection((*COSTS, GOAL_COST)):
        minimized = {info.minimized for info in views.selection.infos.values()}
        ranked |= {"d", *(minimized if len(minimized) == 1 else ())}
    if TRAINING in ranked:
        ranked.add("steps")
    return ranked | sizes if ranked & sizes else ranked
