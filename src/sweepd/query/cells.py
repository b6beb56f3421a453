"""The cells of a question, and what its condition says of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import inf, isfinite
from operator import itemgetter
from typing import Any

from sweepd.errors import UserError
from sweepd.grid.options import PassRule
from sweepd.intervals import wilson
from sweepd.listing import Row
from sweepd.query.cells_sql import ScoreDirections, quoted
from sweepd.query.database import Views
from sweepd.query.expressions import Node, falls, kleene, known
from sweepd.query.parser import Question
from sweepd.search.seeds import confirms, counted, refuses
from sweepd.statuses import RAN

Value = int | float
NUMERIC = ("TINY", "SMALL", "INT", "BIG", "HUGE", "U", "FLOAT", "DOUBLE", "DECIMAL")
"""The beginnings of the names of DuckDB's numeric types."""

RULES: tuple[PassRule, ...] = ("any", "median", "all")
"""The pass rules by which seeds can be counted."""


@dataclass(eq=False)
class Cell:
    """A cell as a question sees it. It is equal to itself alone. Nobody changes it. (Made `frozen`,
    a dataclass takes twice as long to fill, and an answer makes thousands.)"""

    row: Row
    """The cell's row in `raw.cells`, by column."""
    outcome: bool | None
    """Whether the condition holds for the cell. None until its seeds decide that."""
    passed: int
    """The number of seeds for which the condition holds."""
    decided: int
    """The number of seeds for which it is known whether the condition holds."""
    by_rule: tuple[bool | None, ...]
    """What `outcome` would be by each of RULES. By its own rule it is `outcome`. A cell that stands
    for others has that of the best of them."""
    values: tuple[Any, ...]
    """The values of the question's expressions. Each is a number, or None where, for example, there
    is no score yet."""
    rivals: tuple[Cell, ...] = ()
    """The cells of the grid that this one stands for where nuisance axes were tuned. They differ in
    these axes alone. This cell is the best of them, and `outcome` is what they say together. Empty
    where nothing was tuned."""
    tuned: tuple[str, ...] = ()
    """The nuisance axes in which the rivals may differ."""
    own: ScoreDirections = field(default_factory=dict)
    """The metrics of users' own tasks and loops that the question is about, and which way each is
    better."""
    trained: bool = False
    """Whether a seed was trained to an end that counts (RAN)."""
    confirmed: bool = False
    """Whether fresh seeds confirm that the condition holds for the cell."""
    edge: str = ""
    """The names, joined by commas, of the tuned axes whose best value lies at the edge of the tried
    range."""

    steps: int = field(init=False)
    """The cell's budget of steps, or 0 where nobody knows it."""
    has_values: bool = field(init=False)
    """Whether all of the question's expressions are finite numbers for this cell."""
    failed: bool = field(init=False)
    """Whether the condition does not hold, and training has shown that. Where nothing was trained,
    a cell has not failed, even if no score at all could meet the condition."""

    def __post_init__(self) -> None:
        self.steps = int(self.row.get("steps") or 0)
        self.has_values = None not in self.values and all(map(isfinite, self.values))
        self.failed = self.outcome is False and all(point.trained for point in self.points)

    @property
    def points(self) -> tuple[Cell, ...]:
        """The cells of the grid that this one stands for."""
        return self.rivals or (self,)

    @property
    def measured(self) -> bool:
        return any(self.row[score] is not None for score in ("acc", "loss", *self.own))

    @property
    def complete(self) -> bool:
        """Whether every seed of every cell that it stands for ran to an end that counts (RAN)."""
        rows = [point.row for point in self.points]
        return all(sum(row[status] for status in RAN) == row["seeds"] for row in rows)

    def scores(self) -> dict[str, float | None]:
        """Returns the score columns of an answer (`score_columns`) with their values.

        The seeds are pooled by the pass rule. acc, loss and a user's own metrics come with their
        least and greatest value over seeds, and acc also with Wilson's interval. An infinite score,
        which seeds that diverged have, is None.
        """
        acc = self.row["acc"]
        worth = self.row["worth" if self.row["pass"] == "mean" else "worth_of_one"]
        interval = wilson(acc, worth) if acc is not None and worth else (None, None)
        of_acc = (acc, *interval, *map(self.row.get, ("acc_min", "acc_max")))
        of_acc = (*of_acc, *map(self.row.get, ("chain_acc", "commonest")))
        of_loss = (self.row["loss"], self.row["loss_min"], self.row["loss_max"])
        of_own = (self.row[f"{name}{end}"] for name in self.own for end in ("", "_min", "_max"))
        found = map(_finite, (*of_acc, *of_loss, *of_own))
        return dict(zip(score_columns(self.own), found, strict=True))

    def merit(self, score: str) -> tuple[float, ...]:
        """Returns how good a cell is by a score, then by the others: the greater the better. A
        score that is missing counts as the worst."""
        better = {"acc": "up", "loss": "down", **self.own}
        merits = {name: self._merit(name, way) for name, way in better.items()}
        return merits[score], *merits.values()

    def _merit(self, score: str, better: str) -> float:
        value = self.row[score]
        return -inf if value is None else float(value if better == "up" else -value)


def score_columns(own: Iterable[str]) -> list[str]:
    """Returns the columns in which an answer tells the scores. own: as in `Cell`."""
    of_acc = ("acc", "acc_low", "acc_high", "acc_seed_min", "acc_seed_max")
    ends = ("", "_seed_min", "_seed_max")
    rest = (f"{name}{end}" for name in ("loss", *own) for end in ends)
    return [*of_acc, "chain_acc", "commonest", *rest]


def judged(
    views: Views, question: Question, selection: Node, condition: Node, own: ScoreDirections
) -> list[tuple[Cell, bool]]:
    """Returns every cell, in order of their numbers, and whether the selection, which mentions no
    score, holds for it.

    Raises UserError if an expression of the question is not a number, or if the selection or the
    condition is not true or false.
    """
    nodes = [node for _, node in question.expressions]
    *kinds, selects, judges = views.types([node.sql() for node in (*nodes, selection, condition)])
    for (text, _), kind in zip(question.expressions, kinds, strict=True):
        if not kind.startswith(NUMERIC):
            raise UserError(f"`{text}` is of type {kind}, not a number")
    for node, kind in ((selection, selects), (condition, judges)):
        if kind != "BOOLEAN":
            raise UserError(f"`where {node.sql()}` is of type {kind}, not a condition")
    names = [name for name in views.raw_columns if name not in views.same]
    cells = []
    for (
        selected, values, seeds, passed, decided, pooled, fresh, met, failed, trained, *columns
    ) in views.fetch(_votes_sql(nodes, selection, condition, names)):  # fmt: skip
        row = views.same.copy()
        row.update(zip(names, columns, strict=True))
        by_count = {rule: counted(rule, seeds, passed, decided) for rule in RULES}
        # A median or a mean is one score of all seeds. The others count seeds.
        outcome = by_count[row["pass"]] if row["pass"] in ("any", "all") else pooled
        if outcome and fresh is not None and refuses(failed, fresh):
            outcome = False
        cell = Cell(
            row=row,
            outcome=outcome,
            by_rule=tuple({**by_count, row["pass"]: outcome}[rule] for rule in RULES),
            passed=passed,
            decided=decided,
            values=tuple(map(_number, values)),
            own=own,
            trained=trained,
            confirmed=met is not None and confirms(met, failed),
        )
        cells.append((cell, selected))
    return sorted(cells, key=lambda one: one[0].row["cell"])  # DuckDB sorts wide rows more slowly


def _votes_sql(
    nodes: Sequence[Node], selection: Node, condition: Node, columns: Iterable[str]
) -> str:
    """Returns a SELECT of all cells, in any order, with these columns of theirs after what their
    seeds say. nodes: the question's expressions.

    The condition is asked of each seed, and of all seeds pooled (the row with a null seed). It is
    NULL where a score that is not known yet may turn it. Of the fresh seeds, a pass counts `here`,
    at the cell's own budget. One that failed with fewer steps counts until it has run with these.
    """
    trained = " + ".join(f"cells.{status}" for status in RAN)
    shown = ["votes.* EXCLUDE cell", "fresh.* EXCLUDE cell", f"{trained} > 0"]
    return f"""
        WITH units AS (
            SELECT cell, seed, {kleene(condition)} AS holds,
                coalesce({selection.sql()}, false) AS selected,
                row({", ".join(map(_shown, nodes))}) AS "values"
            FROM raw.cells JOIN raw.bounds USING (cell)
        ), votes AS (
            SELECT cell,
                any_value(selected) FILTER (seed IS NULL) AS selected,
                any_value("values") FILTER (seed IS NULL) AS "values",
                count(seed) AS seeds,
                count(*) FILTER (holds AND seed IS NOT NULL) AS passed,
                count(holds) FILTER (seed IS NOT NULL) AS decided,
                bool_or(holds) FILTER (seed IS NULL) AS pooled
            FROM units GROUP BY cell
        ), fresh AS (
            SELECT cell, any_value(rules.fresh) AS planned,
                count(*) FILTER (here AND holds) AS met, count(*) FILTER (holds IS false) AS failed
            FROM (
                SELECT cell, here, {kleene(condition)} AS holds
                FROM raw.cells JOIN raw.fresh USING (cell)
            ) JOIN raw.rules AS rules USING (cell) GROUP BY cell
        )
        SELECT {", ".join([*shown, *(f"cells.{quoted(name)}" for name in columns)])}
        FROM raw.cells JOIN votes USING (cell) LEFT JOIN fresh USING (cell)
    """


def together(rivals: Iterable[Cell], condition: Node) -> bool | None:
    """Returns the outcome of cells that differ in nuisance axes alone, taken as one cell.

    Such a cell is as good as the best value of those axes makes it. So a condition holds if it
    holds for one of the cells. A condition that asks for bad scores holds if it holds for all of
    them. The outcome is None while that is open.
    """
    outcomes = {rival.outcome for rival in rivals}
    decisive = not falls(condition)
    if decisive in outcomes:
        return decisive
    return None if None in outcomes else not decisive


def getter(columns: Sequence[str]) -> Callable[[Row], tuple[Any, ...]]:
    """Returns the function that gets a row's values of these columns."""
    if len(columns) > 1:
        return itemgetter(*columns)
    return lambda row: tuple(row[name] for name in columns)


def _shown(node: Node) -> str:
    """Returns an expression in SQL. Its scores are those of the seeds that ended.

    It is NULL where a rule stopped a seed that can still change the score. Rules stop the bad
    seeds, so the others alone would look too good.
    """
    if not node.scores:
        return node.sql()
    return f"CASE WHEN stopped = 0 OR ({known(node)}) THEN {node.sql()} END"


def _number(value: Decimal | Value | None) -> Value | None:
    return float(value) if isinstance(value, Decimal) else value


def _finite(value: Value | None) -> Value | None:
    return None if value is None or not isfinite(value) else value
