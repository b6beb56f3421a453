"""Parses the text of a question into a `Question`.

    min EXPR [by COL, …] [where PREDICATE]
    frontier COST, SCORE [by COL, …] [where PREDICATE]
    fit EXPR ~ COL [by COL, …] [where PREDICATE]
    best COL [by COL, …] [where PREDICATE]
    max EXPR [by COL, …] [where PREDICATE]

The text is cut into its clauses. DuckDB parses the expressions in them and runs nothing. Its syntax
trees are checked against a whitelist. So the SQL that runs later is printed from checked nodes
(`sweepd.query.expressions`) and never pasted from the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import duckdb

from sweepd.closest import close_names, closest
from sweepd.errors import UserError
from sweepd.grid.metrics import is_share
from sweepd.query.cells_sql import ScoreDirections, extremes
from sweepd.query.expressions import (
    Between,
    Column,
    Compare,
    Constant,
    In,
    Junction,
    Node,
    Other,
    negation,
    numeral,
)

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
_COMPARISONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM",
    "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}
_JUNCTIONS: dict[str, Literal["AND", "OR"]] = {"CONJUNCTION_AND": "AND", "CONJUNCTION_OR": "OR"}
_POSTFIX = {"OPERATOR_IS_NULL": "IS NULL", "OPERATOR_IS_NOT_NULL": "IS NOT NULL"}
_INFIX = ("+", "-", "*", "/", "//", "%", "**", "^", "||", "~~", "!~~", "~~*", "!~~*")
# fmt: off
_FUNCTIONS = (
    "abs", "ceil", "ceiling", "contains", "exp", "floor", "greatest", "least",
    "length", "ln", "log", "log10", "log2", "lower", "nullif", "pow",
    "power", "round", "sign", "sqrt", "starts_with", "trim", "upper",
)
# fmt: on
_TYPES = ("BIGINT", "BOOLEAN", "DOUBLE", "FLOAT", "INTEGER", "VARCHAR")
_NUMBER = re.compile(r"-?(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\w+|\S")
"""A text in quotes with the quotes around it, a word, or another symbol."""
_SELECT = "SELECT "

Tree = dict[str, Any]
"""A node of DuckDB's syntax tree, as read from JSON."""


@dataclass(frozen=True)
class Question:
    verb: Verb
    expressions: tuple[tuple[str, Node], ...]
    """Each expression as it was typed and as it was understood. `best` has none when it is parsed.
    `answers` then puts its score here."""
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


class _Parser:
    """Reads one question. Its errors show the text with a mark under the place. Places are numbers
    of characters of the text."""

    def __init__(
        self,
        text: str,
        columns: Sequence[str],
        own: ScoreDirections,
        con: duckdb.DuckDBPyConnection,
    ) -> None:
        self.con = con
        self.text = text.encode(errors="replace").decode()  # replaces lone surrogates
        self.own = {**own, **{name: own[score] for name, (score, _) in extremes(own).items()}}
        self.names = {column.lower(): column for column in columns}

    def error(self, message: str, at: int) -> UserError:
        """Returns an error that shows the text, with a mark under what begins at `at`."""
        shown = " ".join(re.split(r"\s", self.text))
        at = len(shown) - len(shown[at:].lstrip())
        return UserError(f"{message}\n  {shown}\n  {' ' * at}^")

    def question(self) -> Question:
        tokens = list(TOKEN.finditer(self.text))
        word = tokens[0].group().lower() if tokens else ""
        verb = next((verb for verb in _TAKES if verb == word), None)
        if verb is None:
            raise self.error(f"{GRAMMAR}{closest(word, _TAKES)}", 0)
        (_, items), *clauses = self.clauses(tokens, "~" if verb == "fit" else ",")
        by: tuple[str, ...] | None = None
        where, condition = None, ""
        for word, spans in clauses:
            start, end = spans[0][0], spans[-1][1]
            if word == "where" and where is None:
                where, condition = self.expression(start, end), self.fragment(start, end)
            elif word != "where" and by is None and where is None:
                by = tuple(self.named(*span) for span in spans)
            else:
                raise self.error("at most one `by`, then at most one `where`", start)
        count, wanted = _TAKES[verb]
        if len(items) != count:
            raise self.error(f"`{verb}` takes {wanted}", items[min(count, len(items) - 1)][0])
        along = self.named(*items.pop()) if verb == "fit" else None
        best = self.named(*items.pop()) if verb == "best" else None
        expressions = tuple((self.fragment(*span), self.expression(*span)) for span in items)
        return Question(verb, expressions, along, best, by, where, condition)

    def clauses(
        self, tokens: list[re.Match[str]], divider: str
    ) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        """Yields each keyword and the spans of the items that follow it. After the verb the divider
        of items is `divider`, later it is a comma. Nothing in brackets divides."""
        word, start, spans, depth = tokens[0].group().lower(), tokens[0].end(), [], 0
        for token in tokens[1:]:
            symbol = token.group().lower()
            depth += (symbol in "([{") - (symbol in ")]}")
            is_keyword = symbol in ("by", "per", "where")
            if depth == 0 and (symbol == divider or is_keyword):
                spans.append((start, token.start()))
                start = token.end()
                if is_keyword:
                    yield word, spans
                    word, spans, divider = symbol, [], ","
        yield word, [*spans, (start, len(self.text))]

    def fragment(self, start: int, end: int) -> str:
        """A piece of the question on one line, with single spaces."""
        return " ".join(self.text[start:end].split())

    def named(self, start: int, end: int) -> str:
        """Returns the column that is named between two places of the text. Raises UserError if an
        expression other than a name stands there."""
        node = self.expression(start, end)
        if not isinstance(node, Column):
            raise self.error("write names of columns here, not expressions", start)
        return node.name

    def column(self, name: str, at: int) -> Column:
        """Returns the column of this name, whose case does not matter. Raises UserError if there is
        none."""
        if column := self.names.get(name.lower()):
            return Column(column, self.own.get(column))
        hint = closest(name, self.names.values())
        raise self.error(f'no column `{name}`{hint}; `sweepd sql "DESCRIBE cells"` lists all', at)

    def expression(self, start: int, end: int) -> Node:
        """Returns the expression that stands between two places of the text. Raises UserError if it
        is missing or wrong."""
        whole = self.text[start:end].strip()
        if not whole:
            raise self.error("an expression is missing", start)
        if whole.lower() in self.names:  # it may be a word that SQL reserves, such as `order`
            return self.column(whole, start)
        sql = _SELECT + self.text[start:end]

        def place(offset: int) -> int:
            """Returns the place in the text of a byte of the SQL that DuckDB read."""
            before = sql.encode()[:offset].decode(errors="ignore")
            return start + max(0, len(before) - len(_SELECT))

        try:
            answer = _syntax(self.con, sql)
            if answer["error"]:
                message = answer["error_message"] + self._reserved(self.text[start:end])
                raise self.error(message, place(int(answer.get("position", 0))))
            if _frame(answer) != self.frame:
                raise self.error("one expression is wanted here", start)
            [item] = answer["statements"][0]["node"]["select_list"]
            return _Tree(self, place).node(item)
        except RecursionError:
            raise self.error("too deeply nested", start) from None

    @cached_property
    def frame(self) -> list[Tree]:
        """The frame of a statement that selects one expression."""
        return _frame(_syntax(self.con, _SELECT + "1"))

    def _reserved(self, text: str) -> str:
        """Returns a hint for an expression that SQL cannot read, if it can once the columns are
        quoted that SQL reads in double quotes alone."""

        def wrong(expression: str) -> bool:
            return bool(_syntax(self.con, _SELECT + expression)["error"])

        words = {token.group().lower() for token in TOKEN.finditer(text)}
        reserved = sorted(name for name in words & self.names.keys() if wrong(name))
        if wrong(TOKEN.sub(lambda t: f'"{t[0]}"' if t[0].lower() in reserved else t[0], text)):
            return ""
        return f'; as a column, write it in double quotes: "{self.names[reserved[0]]}"'


class _Tree:
    """Checks one syntax tree. `place` takes the offset of a byte in the SQL and returns its place
    in the text."""

    def __init__(self, parser: _Parser, place: Callable[[int], int]) -> None:
        self.parser, self.place = parser, place

    def node(self, tree: Tree) -> Node:
        """Returns the checked node for one node of the tree and all below it. Raises UserError if a
        question may not contain one of them."""
        if tree.get("alias"):
            raise self.error("one expression is wanted here", tree)
        match tree:
            case {"class": "COLUMN_REF", "column_names": [name]}:
                return self.parser.column(name, self.place(tree.get("query_location", 0)))
            case {"class": "CONSTANT", "literal": {"kind": kind, "text": text}}:
                return self.constant(kind, text, tree)
            case {"class": "COMPARISON", "type": kind, "left": left, "right": right} if (
                kind in _COMPARISONS
            ):
                left, right = self.compared(left, right)
                return self.in_range(Compare(left, _COMPARISONS[kind], right), tree)
            case {"class": "BETWEEN", "input": value, "lower": low, "upper": high}:
                return self.in_range(Between(*self.nodes(value, low, high)), tree)
            case {"class": "CONJUNCTION", "type": kind, "children": parts}:
                return Junction(_JUNCTIONS[kind], self.nodes(*parts))
            case {"class": "OPERATOR", "type": kind, "children": parts}:
                return self.operator(kind, parts, tree)
            case {"class": "CASE", "case_checks": checks, "else_expr": other}:
                parts = [part for c in checks for part in (c["when_expr"], c["then_expr"])]
                whens = "WHEN {} THEN {} " * len(checks)
                return Other(f"(CASE {whens}ELSE {{}} END)", self.nodes(*parts, other))
            case {"class": "CAST"}:
                return self.cast(tree)
            case {"class": "FUNCTION"}:
                return self.call(tree)
        raise self.foreign(tree)

    def nodes(self, *trees: Tree) -> tuple[Node, ...]:
        return tuple(map(self.node, trees))

    def compared(self, first: Tree, *others: Tree) -> tuple[Node, ...]:
        """Returns the nodes of what is compared with one another. A name that is no column, beside
        one that is, is most likely a text without its quotes, and UserError says so. It is not
        taken for a text if it is like a column's name."""

        def column_name(tree: Tree) -> str | None:
            match tree:
                case {"class": "COLUMN_REF", "column_names": [str(name)]}:
                    return name
            return None

        names = [column_name(tree) for tree in (first, *others)]
        unknown = [name is not None and name.lower() not in self.parser.names for name in names]
        if any(name is not None and not odd for name, odd in zip(names, unknown, strict=True)):
            for tree, name, odd in zip((first, *others), names, unknown, strict=True):
                if name and odd and not close_names(name, self.parser.names):
                    raise self.error(f"no column `{name}`; a text stands in quotes: '{name}'", tree)
        return self.nodes(first, *others)

    def constant(self, kind: str, text: str, tree: Tree) -> Node:
        match kind:
            case "STRING":
                return Constant("'" + text.replace("'", "''") + "'")
            case "BOOLEAN" if text in ("true", "false"):
                return Constant(text)
            case "NULL_LITERAL":
                return Constant("NULL")
            case "INTEGER" | "NUMERIC" if _NUMBER.fullmatch(text):
                return numeral(text)
        raise self.error(f"{kind.lower()} constant: not part of a question's expressions", tree)

    def operator(self, kind: str, parts: list[Tree], tree: Tree) -> Node:
        match kind, parts:
            case "OPERATOR_NOT", [part]:
                return negation(self.node(part))
            case _, [part] if kind in _POSTFIX:
                return Other(f"({{}} {_POSTFIX[kind]})", self.nodes(part))
            case "COMPARE_IN", [value, *options]:
                of_value, *of_options = self.compared(value, *options)
                return self.in_range(In(of_value, tuple(of_options)), tree)
            case "OPERATOR_COALESCE", _:
                return Other(f"coalesce({', '.join(['{}'] * len(parts))})", self.nodes(*parts))
        raise self.foreign(tree)

    def cast(self, tree: Tree) -> Node:
        match tree:
            case {"child": child, "type_expr": {"type_name": kind, "children": []}}:
                if kind.upper() not in _TYPES:
                    raise self.error(f"no cast to {kind}; there are {', '.join(_TYPES)}", tree)
                word = "TRY_CAST" if tree["try_cast"] else "CAST"
                return Other(f"{word}({{}} AS {kind.upper()})", self.nodes(child))
        raise self.foreign(tree)

    def call(self, tree: Tree) -> Node:
        name, arguments = tree["function_name"], tree["arguments"]
        plain = not (tree["schema"] or tree["filter"] or tree["distinct"] or tree["catalog"])
        plain = plain and not tree["order_bys"]["orders"]
        plain = plain and not any(argument["name"] for argument in arguments)
        if plain and name in _INFIX and len(arguments) == 2:
            form = f"({{}} {name} {{}})"
        elif plain and name in ("-", "+") and len(arguments) == 1:
            form = f"({name} {{}})"
        elif plain and name in _FUNCTIONS:
            form = f"{name}({', '.join(['{}'] * len(arguments))})"
        else:
            raise self.error(f"no {name}() here; there are {', '.join(_FUNCTIONS)}", tree)
        return Other(form, self.nodes(*(argument["expression"] for argument in arguments)))

    def in_range(self, test: Compare | Between | In, tree: Tree) -> Node:
        """Returns the test. Raises UserError if it compares a share with a number that is not from
        0 to 1."""
        share, numbers = None, []
        for part in test.parts:
            match part:
                case Column(name) if share is None and is_share(part.score):
                    share = name
                case Constant(_, float(number)):
                    numbers.append(number)
                case Other("(- {})", (Constant(_, float(number)),)):
                    numbers.append(-number)
        for number in numbers:
            if share is not None and not 0 <= number <= 1:
                hint = f"; did you mean {number / 100:g}?" if 2 <= number <= 100 else ""
                raise self.error(f"{share} is a share from 0 to 1{hint}", tree)
        return test

    def error(self, message: str, tree: Tree) -> UserError:
        return self.parser.error(message, self.place(tree.get("query_location", 0)))

    def foreign(self, tree: Tree) -> UserError:
        what = str(tree.get("class", "this")).lower()
        return self.error(f"{what}: not part of a question's expressions", tree)


def _syntax(con: duckdb.DuckDBPyConnection, sql: str) -> Tree:
    """Returns DuckDB's syntax tree of a statement, or its error. Nothing is run."""
    try:
        row = con.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    except duckdb.Error as error:
        return {"error": True, "error_message": str(error).partition("\n")[0]}
    assert row is not None
    answer: Tree = json.loads(row[0])
    return answer


def _frame(answer: Tree) -> list[Tree]:
    """Returns a syntax tree with the number of selected items in place of the items. The text of
    one expression has the same frame as `SELECT 1`."""
    nodes = [statement["node"] for statement in answer["statements"]]
    return [{**node, "select_list": len(node.get("select_list", ()))} for node in nodes]
