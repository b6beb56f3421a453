"""The cells of a question, and what its condition says of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import inf, isfinite
from typing import Any

from sweepd.errors import UserError
from sweepd.intervals import wilson
from sweepd.query.bounds import Value
from sweepd.query.cells_sql import Scores
from sweepd.query.database import Views
from sweepd.query.expressions import Node, falls, kleene, known
from sweepd.query.parser import Question
from sweepd.statuses import RAN

NUMERIC = ("TINY", "SMALL", "INT", "BIG", "HUGE", "U", "FLOAT", "DOUBLE", "DECIMAL")
"""How DuckDB's numeric types begin."""

_TALLY = """
    count(seed) AS seeds,
        count(*) FILTER (holds AND seed IS NOT NULL) AS passed,
        count(holds) FILTER (seed IS NOT NULL) AS decided,
        bool_or(holds) FILTER (seed IS NULL) AS pooled
"""
"""What the seeds of a cell say, from one row for each seed and one, with a null seed, for all of
them pooled."""
_OUTCOME = """
    CASE cells.pass
        WHEN 'all' THEN
            CASE WHEN v.passed < v.decided THEN false WHEN v.passed = v.seeds THEN true END
        WHEN 'any' THEN
            CASE WHEN v.passed > 0 THEN true WHEN v.decided = v.seeds THEN false END
        ELSE v.pooled
    END
"""
"""Whether the cell passes, by its pass rule; NULL while that is open."""


@dataclass(frozen=True)
class Cell:
    """A cell as a question sees it."""

    row: Mapping[str, Any]
    """Columns of `raw.cells`."""
    outcome: bool | None
    """Whether the condition holds; None until its seeds decide that."""
    passed: int
    """Seeds for which it holds."""
    decided: int
    """Seeds for which it holds or does not."""
    values: tuple[Any, ...]
    """The question's expressions: numbers, or None where there is no score yet, say."""
    rivals: tuple[Cell, ...] = ()
    """Where nuisance axes were tuned: one cell for each of their values, of which this is the
    best; then `outcome` is what they say together."""
    tuned: tuple[str, ...] = ()
    """The nuisance axes in which those differ."""
    own: Scores = field(default_factory=dict)
    """The metrics of users' own tasks and loops that the question is about."""
    edge: str = ""
    """Tuned axes, joined by commas, whose best value lies at the edge of the tried range."""

    @property
    def points(self) -> tuple[Cell, ...]:
        """The cells of the grid that this one stands for."""
        return self.rivals or (self,)

    @property
    def failed(self) -> bool:
        """Whether the condition does not hold, and training showed it: that is more than where
        nothing was trained and no score at all could meet the condition."""
        return self.outcome is False and all(map(_trained, self.points))

    @property
    def measured(self) -> bool:
        return any(self.row[score] is not None for score in ("acc", "loss", *self.own))

    @property
    def complete(self) -> bool:
        """Whether all that is planned of it ran its budget."""
        rows = [point.row for point in self.points]
        return all(sum(row[status] for status in RAN) == row["seeds"] for row in rows)

    @property
    def has_values(self) -> bool:
        """Whether the question's expressions are numbers here."""
        return all(value is not None and isfinite(value) for value in self.values)

    def scores(self) -> dict[str, float | None]:
        """The scores by pass rule, each with its spread over seeds; of the accuracy also Wilson's
        interval. An infinite one, of seeds that diverged, is None."""
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
        """Orders cells by a score, then by the others; without scores they come last."""
        better = {"acc": "up", "loss": "down", **self.own}
        merits = {name: self._merit(name, way) for name, way in better.items()}
        return merits[score], *merits.values()

    def _merit(self, score: str, better: str) -> float:
        value = self.row[score]
        return -inf if value is None else float(value if better == "up" else -value)


def score_columns(own: Iterable[str]) -> list[str]:
    """What an answer tells of the scores. own: as of `Cell`."""
    of_acc = ("acc", "acc_low", "acc_high", "acc_seed_min", "acc_seed_max")
    ends = ("", "_seed_min", "_seed_max")
    rest = (f"{name}{end}" for name in ("loss", *own) for end in ends)
    return [*of_acc, "chain_acc", "commonest", *rest]


def judged(
    views: Views, question: Question, selection: Node, condition: Node, own: Scores
) -> list[tuple[Cell, bool]]:
    """Every cell, and whether the selection, which mentions no score, holds for it."""
    nodes = [node for _, node in question.expressions]
    *kinds, selects, judges = views.types([node.sql() for node in (*nodes, selection, condition)])
    for (text, _), kind in zip(question.expressions, kinds, strict=True):
        if not kind.startswith(NUMERIC):
            raise UserError(f"`{text}` is of type {kind}, not a number")
    for node, kind in ((selection, selects), (condition, judges)):
        if kind != "BOOLEAN":
            raise UserError(f"`where {node.sql()}` is of type {kind}, not a condition")
    found = views.fetch(
        f"""
        WITH units AS (
            SELECT cell, seed, {kleene(condition)} AS holds
            FROM raw.cells JOIN raw.bounds USING (cell)
        ), votes AS (
            SELECT cell, {_TALLY}
            FROM units GROUP BY cell
        ), expressions AS (
            SELECT cell, coalesce({selection.sql()}, false) AS selected,
                row({", ".join(map(_shown, nodes))}) AS "values"
            FROM raw.cells JOIN raw.bounds USING (cell) WHERE seed IS NULL
        )
        SELECT e.selected, e.values,
            {_OUTCOME},
            cell IN (
                SELECT cell FROM raw.cells JOIN raw.fresh USING (cell)
                WHERE ({kleene(condition)}) IS false
            ),
            v.passed, v.decided, cells.*
        FROM raw.cells JOIN votes AS v USING (cell) JOIN expressions AS e USING (cell)
        ORDER BY cell
        """
    )
    return [
        (
            Cell(
                row=dict(zip(views.raw_columns, columns, strict=True)),
                outcome=False if refused and outcome else outcome,
                passed=passed,
                decided=decided,
                values=tuple(map(_number, values)),
                own=own,
            ),
            selected,
        )
        for selected, values, outcome, refused, passed, decided, *columns in found
    ]


def together(rivals: Iterable[Cell], condition: Node) -> bool | None:
    """The outcome of cells that differ in nuisance axes alone, taken as one.

    Such a cell is as good as the best value of those axes makes it: a condition holds where it
    does for one of them, and one that asks for bad scores where it does for all.
    """
    outcomes = {rival.outcome for rival in rivals}
    decisive = not falls(condition)
    if decisive in outcomes:
        return decisive
    return None if None in outcomes else not decisive


def _trained(point: Cell) -> bool:
    """Whether a seed of a cell was trained to an end that counts."""
    return any(point.row[status] for status in RAN)


def _shown(node: Node) -> str:
    """An expression in SQL; its scores are those of the seeds that ended.

    It is NULL where a rule stopped a seed that can still change the score: rules stop the bad
    seeds, so the others alone would look too good.
    """
    if not node.scores:
        return node.sql()
    return f"CASE WHEN stopped = 0 OR ({known(node)}) THEN {node.sql()} END"


def _number(value: Decimal | Value | None) -> Value | None:
    return float(value) if isinstance(value, Decimal) else value


def _finite(value: Value | None) -> Value | None:
    return None if value is None or not isfinite(value) else value
