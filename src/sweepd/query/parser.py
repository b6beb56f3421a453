"""Parses a question's text into a `Question`.

    min EXPR [by COL, …] [where PREDICATE]
    frontier COST, SCORE [by COL, …] [where PREDICATE]
    fit EXPR ~ COL [by COL, …] [where PREDICATE]
    best COL [by COL, …] [where PREDICATE]
    max EXPR [by COL, …] [where PREDICATE]

This module cuts the text into its clauses. `sweepd.query.syntax` reads the expressions in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import duckdb

from sweepd.closest import closest
from sweepd.query.cells_sql import ScoreDirections
from sweepd.query.expressions import Column, Node
from sweepd.query.syntax import TOKEN, TreeReader

GRAMMAR = (
    "a question is `min EXPR [by COL, …] [where PREDICATE]`, "
    "`frontier COST, SCORE [by …] [where …]`, `fit EXPR ~ COL [by …] [where …]`, "
    "`best COL [by …] [where …]` or `max EXPR [by …] [where …]`"
)

Verb = Literal["min", "frontier", "fit", "best", "max"]
_TAKES: dict[Verb, tuple[int, str]] = {
    "min": (1, "one expression"),
    "frontier": (2, "a cost and a score: COST, SCORE"),
    "fit": (2, "an expression and a column: EXPR ~ COL"),
    "best": (1, "one column: an axis of the grid"),
    "max": (1, "one expression"),
}
"""How many items each verb takes, and what they are in words."""


VERBS = tuple(_TAKES)


@dataclass(frozen=True)
class Question:
    verb: Verb
    expressions: tuple[tuple[str, Node], ...]
    """Each expression as it was typed and as it was understood. `best` has none when it is parsed.
    `with_score` then puts its score here."""
    along: str | None
    """The column along which `fit` fits. None for any other verb."""
    best: str | None
    """The column of which `best` asks for the best value. None for any other verb."""
    by: tuple[str, ...] | None
    """The columns that the question names after `by`. None if it has no `by`, so that the default
    columns group its rows."""
    where: Node | None
    condition: str = ""
    """The text after `where`, as it was typed but on one line. Empty if there is none."""


def parse(
    text: str, columns: Sequence[str], own: ScoreDirections, con: duckdb.DuckDBPyConnection
) -> Question:
    """Returns the question that the text asks. It may use these columns of `cells`, among which are
    the metrics of users' `own` tasks and loops. Raises UserError, which shows the place, if the
    text is wrong.

    con: a database that parses SQL. Nothing in it is read or changed.
    """
    return _Parser(text, columns, own, con).question()


class _Parser(TreeReader):
    def question(self) -> Question:
        tokens = list(TOKEN.finditer(self.text))
        word = tokens[0].group().lower() if tokens else ""
        verb = next((verb for verb in _TAKES if verb == word), None)
        if verb is None:
            raise self.error(f"{GRAMMAR}{closest(word, _TAKES)}", 0)
        (_, places), *clauses = self.clauses(tokens, "~" if verb == "fit" else ",")
        by: tuple[str, ...] | None = None
        where, condition = None, ""
        for word, divisions in clauses:
            if word == "where" and where is None:
                where = self.expression(divisions[0], divisions[-1])
                condition = self.fragment(divisions[0], divisions[-1])
            elif word != "where" and by is None and where is None:
                by = tuple(self.named(*span) for span in self.items(divisions))
            else:
                raise self.error("at most one `by`, then at most one `where`", divisions[0])
        items = list(self.items(places))
        count, wanted = _TAKES[verb]
        if len(items) != count:
            raise self.error(f"`{verb}` takes {wanted}", items[min(count, len(items) - 1)][0])
        along = self.named(*items.pop()) if verb == "fit" else None
        best = self.named(*items.pop()) if verb == "best" else None
        expressions = tuple((self.fragment(*s), self.expression(*s)) for s in items)
        return Question(verb, expressions, along, best, by, where, condition)

    def clauses(self, tokens: list[re.Match[str]], divider: str) -> Iterator[tuple[str, list[int]]]:
        """Yields each keyword and the places in the text that divide what follows it. These are the
        start of what follows, each divider in it, and its end. After the verb the divider is
        `divider`, later it is a comma."""
        word, places, depth = tokens[0].group().lower(), [tokens[0].end()], 0
        for token in tokens[1:]:
            symbol = token.group().lower()
            depth += (symbol in "([{") - (symbol in ")]}")
            if depth == 0 and symbol == divider:
                places.append(token.start())
            elif depth == 0 and symbol in ("by", "per", "where"):
                yield word, [*places, token.start()]
                word, places, divider = symbol, [token.end()], ","
        yield word, [*places, len(self.text)]

    def items(self, places: list[int]) -> Iterator[tuple[int, int]]:
        """Yields the start and the end of each span between the dividers."""
        for i, (start, end) in enumerate(pairwise(places)):
            yield start + (i > 0), end

    def fragment(self, start: int, end: int) -> str:
        """Returns a piece of the question on one line, with single spaces."""
        return " ".join(self.text[start:end].split())

    def named(self, start: int, end: int) -> str:
        """Returns the column that is named between two places of the text. Raises UserError if an
        expression other than a name stands there."""
        node = self.expression(start, end)
        if not isinstance(node, Column):
            raise self.error("write names of columns here, not expressions", start)
        return node.name
