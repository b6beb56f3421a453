"""The cells of a question, and what its condition says of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from math import inf, isfinite
from typing import Any

import numpy as np

from sweepd.errors import UserError
from sweepd.intervals import wilson
from sweepd.judge.cells import FAIL, OPEN, PASS, RULES, as_bool, by_rules, confirmed
from sweepd.judge.seeds import Ints
from sweepd.listing import Row
from sweepd.query.cells_sql import ScoreDirections, quoted
from sweepd.query.database import Views
from sweepd.query.evidence import POOLED_BY
from sweepd.query.expressions import Node, kleene, known
from sweepd.query.parser import Question
from sweepd.statuses import RAN, STATUSES

Value = int | float
NUMERIC = ("TINY", "SMALL", "INT", "BIG", "HUGE", "U", "FLOAT", "DOUBLE", "DECIMAL")
"""The beginnings of the names of DuckDB's numeric types."""


@dataclass(eq=False)
class Cell:
    """A cell as a question sees it. It is equal to itself alone. Nobody changes it. (Made `frozen`,
    a dataclass takes twice as long to fill, and an answer makes thousands.)

    row: the cell's row in `raw.cells`, by column. selected: whether what the question says of
    anything but scores holds for it. outcomes: whether the condition holds, by its own pass rule
    and by each of RULES, as `judge.cells` has it. passed, decided: for how many seeds it holds, and
    for how many that is known. values: those of the question's expressions,
    each a number, or None where, for example, there is no score yet. own: the metrics of users' own
    tasks and loops that the question is about, and which way each is better. trained: whether a
    seed was trained to an end that counts (RAN). confirmed: whether fresh seeds confirm a pass.

    Where nuisance axes were tuned, the best of several cells stands for all of them, its `rivals`.
    They differ in the axes `tuned` alone, and `outcomes` is what they say together. edge: those of
    these axes, joined by commas, whose best value lies at the edge of the tried range.
    """

    row: Row
    selected: bool
    outcomes: tuple[int, ...]
    passed: int
    decided: int
    seeds: Ints
    votes: Ints
    values: tuple[Any, ...]
    rivals: tuple[Cell, ...] = ()
    tuned: tuple[str, ...] = ()
    own: ScoreDirections = field(default_factory=dict)
    trained: bool = False
    confirmed: bool = False
    edge: str = ""

    @property
    def outcome(self) -> bool | None:
        """Whether the condition holds, by the cell's pass rule. None until that is decided."""
        return as_bool(self.outcomes[0])

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
    def shown(self) -> bool:
        """Whether training says something of each of its points. Where nothing was trained, a cell
        has not failed, even if no score at all could meet the condition."""
        return all(point.trained for point in self.points)

    @property
    def failed(self) -> bool:
        """Whether the condition does not hold, and training has shown that."""
        return self.outcomes[0] == FAIL and self.shown

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
    # The condition is asked of each seed, and of the cell's score by its pass rule. It is open
    # where a score that is not known yet may turn it.
    outcome = f"coalesce(2 * {kleene(condition)}::TINYINT - 1, {OPEN})::TINYINT AS outcome"
    names = list(views.raw_types)
    rows = views.fetch(f"""
        SELECT coalesce({selection.sql()}, false), row({", ".join(values)}), {outcome},
            {", ".join(f"cells.{quoted(name)}" for name in names)}
        FROM raw.cells JOIN raw.bounds USING (cell) WHERE {quoted(POOLED_BY)} = pass
    """)
    votes = views.arrays(
        f"SELECT cell, coalesce(seed, 0) AS seed, seed IS NULL AS pooled, fresh, {outcome} "
        "FROM raw.cells JOIN raw.bounds USING (cell) "
        f"WHERE seed NOTNULL OR {quoted(POOLED_BY)} = 'median' "
        "ORDER BY cell"
    )
    number, vote, fresh, of_cell = (votes[name] for name in ("cell", "outcome", "fresh", "pooled"))
    median = np.full(len(rows) + 1, OPEN)
    median[number[of_cell]] = vote[of_cell]
    every, passed, failed, fresh_passed, fresh_failed = (
        np.bincount(number[which & ~of_cell], minlength=len(rows) + 1)
        for which in (number > 0, vote == PASS, vote == FAIL,
                      fresh & (vote == PASS), fresh & (vote == FAIL))
    )  # fmt: skip
    by_rule = by_rules(every, passed, failed, median)
    in_rows = zip(*(by_rule[rule].tolist() for rule in RULES), strict=True)
    outcomes = [dict(zip(RULES, of_rules, strict=True)) for of_rules in in_rows]
    is_confirmed, decided = confirmed(fresh_passed, fresh_failed), passed + failed
    seeds, vote = votes["seed"][~of_cell], vote[~of_cell]
    ends = np.cumsum(every).tolist()
    cells = []
    for chosen, numbers, of_mean, *rest in rows:
        row = dict(zip(names, rest, strict=True))
        at = row["cell"]
        cell = Cell(
            row=row,
            selected=chosen,
            outcomes=(outcomes[at].get(row["pass"], of_mean), *outcomes[at].values()),
            passed=int(passed[at]),
            decided=int(decided[at]),
            seeds=seeds[ends[at - 1] : ends[at]],
            votes=vote[ends[at - 1] : ends[at]],
            values=tuple(float(v) if isinstance(v, Decimal) else v for v in numbers),
            own=own,
            trained=any(row[status] for status in RAN),
            confirmed=bool(is_confirmed[at]),
        )
        cells.append(cell)
    return sorted(cells, key=lambda cell: cell.row["cell"])  # DuckDB sorts wide rows more slowly
