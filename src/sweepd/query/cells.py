"""The cells of a question, and what its condition says of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from math import inf, isfinite
from typing import Any

from sweepd.errors import UserError
from sweepd.grid.options import PassRule
from sweepd.intervals import wilson
from sweepd.listing import Row
from sweepd.query.cells_sql import ScoreDirections, quoted
from sweepd.query.database import Views
from sweepd.query.expressions import Node, kleene, known
from sweepd.query.parser import Question
from sweepd.search.seeds import confirms, counted, refuses
from sweepd.statuses import RAN, STATUSES

Value = int | float
NUMERIC = ("TINY", "SMALL", "INT", "BIG", "HUGE", "U", "FLOAT", "DOUBLE", "DECIMAL")
"""The beginnings of the names of DuckDB's numeric types."""

RULES: tuple[PassRule, ...] = ("any", "median", "all")
"""The pass rules by which seeds can be counted."""


@dataclass(eq=False)
class Cell:
    """A cell as a question sees it. It is equal to itself alone. Nobody changes it. (Made `frozen`,
    a dataclass takes twice as long to fill, and an answer makes thousands.)

    row: the cell's row in `raw.cells`, by column. selected: whether what the question says of
    anything but scores holds for it. outcome: whether the condition holds, None until its seeds
    decide that. passed, decided: for how many seeds it holds, and for how many that is known.
    by_rule: what `outcome` would be by each of RULES. values: those of the question's expressions,
    each a number, or None where, for example, there is no score yet. own: the metrics of users' own
    tasks and loops that the question is about, and which way each is better. trained: whether a
    seed was trained to an end that counts (RAN). confirmed: whether fresh seeds confirm a pass.

    Where nuisance axes were tuned, the best of several cells stands for all of them, its `rivals`.
    They differ in the axes `tuned` alone, and `outcome` is what they say together. edge: those of
    these axes, joined by commas, whose best value lies at the edge of the tried range.
    """

    row: Row
    selected: bool
    outcome: bool | None
    passed: int
    decided: int
    by_rule: tuple[bool | None, ...]
    values: tuple[Any, ...]
    rivals: tuple[Cell, ...] = ()
    tuned: tuple[str, ...] = ()
    own: ScoreDirections = field(default_factory=dict)
    trained: bool = False
    confirmed: bool = False
    edge: str = ""

    @cached_property
    def steps(self) -> int:
        """The cell's budget of steps, or 0 where nobody knows it."""
        return int(self.row.get("steps") or 0)

    @property
    def tried(self) -> bool:
        """Whether a trial of one of its points has ended."""
        return any(point.row[status] for point in self.points for status in STATUSES)

    @cached_property
    def has_values(self) -> bool:
        """Whether all of the question's expressions are finite numbers for this cell."""
        return None not in self.values and all(map(isfinite, self.values))

    @cached_property
    def failed(self) -> bool:
        """Whether the condition does not hold, and training has shown that. Where nothing was
        trained, a cell has not failed, even if no score at all could meet the condition."""
        return self.outcome is False and all(point.trained for point in self.points)

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
        of_acc = ("acc_min", "acc_max", "chain_acc", "commonest")
        rest = (f"{name}{end}" for name in ("loss", *self.own) for end in ("", "_min", "_max"))
        values = (acc, *interval, *map(self.row.get, (*of_acc, *rest)))
        finite = (None if value is None or not isfinite(value) else value for value in values)
        return dict(zip(score_columns(self.own), finite, strict=True))

    def merit(self, score: str) -> tuple[float, ...]:
        """Returns how good a cell is by a score, then by the others: the greater the better. A
        score that is missing counts as the worst."""
        merits = {}
        for name, better in {"acc": "up", "loss": "down", **self.own}.items():
            value = self.row[name]
            merits[name] = -inf if value is None else float(value if better == "up" else -value)
        return merits[score], *merits.values()


def score_columns(own: Iterable[str]) -> list[str]:
    """Returns the columns in which an answer tells the scores. own: as in `Cell`."""
    of_acc = ("acc", "acc_low", "acc_high", "acc_seed_min", "acc_seed_max")
    ends = ("", "_seed_min", "_seed_max")
    rest = (f"{name}{end}" for name in ("loss", *own) for end in ends)
    return [*of_acc, "chain_acc", "commonest", *rest]


def judged(
    views: Views, question: Question, selection: Node, condition: Node, own: ScoreDirections
) -> list[Cell]:
    """Returns every cell, in order of their numbers. The selection mentions no score. Raises
    UserError for an expression that is no number, and a condition that is not true or false."""
    nodes = [node for _, node in question.expressions]
    *kinds, selects, judges = views.types(*(node.sql() for node in (*nodes, selection, condition)))
    for (text, _), kind in zip(question.expressions, kinds, strict=True):
        if not kind.startswith(NUMERIC):
            raise UserError(f"`{text}` is of type {kind}, not a number")
    for node, kind in ((selection, selects), (condition, judges)):
        if kind != "BOOLEAN":
            raise UserError(f"`where {node.sql()}` is of type {kind}, not a condition")

    # An expression shows the scores of the seeds that ended. It is NULL where a rule stopped a seed
    # that can still change one: rules stop bad seeds, and the others alone would look too good.
    values = [
        f"CASE WHEN stopped = 0 OR ({known(node)}) THEN {node.sql()} END"
        if node.scores
        else node.sql()
        for node in nodes
    ]
    # The condition is asked of each seed, and of all seeds pooled (the row with a null seed). It is
    # NULL where a score that is not known yet may turn it. Of the fresh seeds, a pass counts
    # `here`, at the cell's own budget. One that failed with fewer steps counts until it has run
    # with these.
    names = list(views.raw_types)
    ran = " + ".join(f"cells.{status}" for status in RAN)
    shown = ["votes.* EXCLUDE cell", "fresh.* EXCLUDE cell", f"{ran} > 0"]
    rows = views.fetch(f"""
        WITH units AS (
            SELECT cell, seed, {kleene(condition)} AS holds,
                coalesce({selection.sql()}, false) AS selected, row({", ".join(values)}) AS "values"
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
        SELECT {", ".join([*shown, *(f"cells.{quoted(name)}" for name in names)])}
        FROM raw.cells JOIN votes USING (cell) LEFT JOIN fresh USING (cell)
    """)
    cells = []
    for chosen, numbers, seeds, passed, decided, pooled, fresh, met, failed, trained, *rest in rows:
        row = dict(zip(names, rest, strict=True))
        by_count = {rule: counted(rule, seeds, passed, decided) for rule in RULES}
        # A median or a mean is one score of all seeds. The others count seeds.
        outcome = by_count[row["pass"]] if row["pass"] in ("any", "all") else pooled
        if outcome and fresh is not None and refuses(failed, fresh):
            outcome = False
        cell = Cell(
            row=row,
            selected=chosen,
            outcome=outcome,
            by_rule=tuple({**by_count, row["pass"]: outcome}[rule] for rule in RULES),
            passed=passed,
            decided=decided,
            values=tuple(float(v) if isinstance(v, Decimal) else v for v in numbers),
            own=own,
            trained=trained,
            confirmed=met is not None and confirms(met, failed),
        )
        cells.append(cell)
    return sorted(cells, key=lambda cell: cell.row["cell"])  # DuckDB sorts wide rows more slowly
