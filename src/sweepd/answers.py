"""Questions → rows: `ask` parses a question, runs it over `cells` and words what was found."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from sweepd.errors import UserError
from sweepd.question import Node, Question, parse, parse_predicate
from sweepd.verdicts import Candidate, judge, wilson
from sweepd.views import COSTS, SCORES, Answer, CodeChoice, Source, Views, connect, least, most, quoted

ACC_COLUMNS = ("acc", "acc_low", "acc_high", "acc_seed_min", "acc_seed_max")
TRUE = Node("true")


@dataclass(frozen=True)
class Cell:
    """A cell as the question sees it."""

    row: Mapping[str, Any]
    """Its columns in `cells`, and `total_of_one`, the size of one trial's verdict sample."""
    values: tuple[Any, ...]
    """What the question's expressions are; None where scores are not settled."""
    selected: bool
    """Whether the part of the condition that needs no score holds."""
    outcome: bool | None
    """Whether the rest holds; None until its seeds decide that."""
    passed: int
    """Seeds for which it holds."""
    decided: int
    """Seeds for which it holds or does not."""

    def acc(self) -> dict[str, float | None]:
        """The accuracy by pass rule, its Wilson interval, and the spread over seeds."""
        acc = self.row["acc"]
        total = self.row["total" if self.row["pass"] == "mean" else "total_of_one"]
        interval = wilson(acc, total) if acc is not None and total else (None, None)
        values = (acc, *interval, self.row["acc_min"], self.row["acc_max"])
        return dict(zip(ACC_COLUMNS, values, strict=True))


def ask(
    source: Source,
    text: str,
    *,
    code: CodeChoice,
    sweeps: Sequence[str] | None = None,
    seeds: str | None = None,
) -> Answer:
    """Answer a question over some sweeps or the whole store. UserError if it has none.

    `seeds` overrides the grids' pass rule: median, all, any or mean.
    """
    views = connect(source, code=code, sweeps=sweeps, seeds=seeds)
    if not views.axes:
        return Answer([], [], ["no sweep has been launched into this store"], views.damaged)
    question = parse(text, views.columns)
    return _min(views, question) if question.verb == "min" else _frontier(views, question)
