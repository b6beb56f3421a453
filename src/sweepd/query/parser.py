"""Parses the text of a question into a `Question` (its grammar: GRAMMAR).

The text is cut into its clauses. DuckDB parses the expressions in them and runs nothing. Its syntax
trees are checked against a whitelist. So the SQL that runs later is printed from checked nodes
(`sweepd.query.expressions`) and never pasted from the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import duckdb

from sweepd.closest import close_names, closest
from sweepd.errors import UserError
from sweepd.grid.metrics import is_share
from sweepd.query.cells_sql import ScoreDirections, extremes
from sweepd.query.expressions import Column, Compare, Constant, Junction, Node, Other, negation

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
    """A question that was parsed.

    expressions: each as it was typed and as it was understood; `answers` gives `best` its score
    here. along: the column along which `fit` fits. best: the column of which `best` asks for the
    best value. by: the columns after `by`, or None where the default columns group its rows.
    where, condition: what follows `where`, checked, and as it was typed but on one line.
    """

    verb: Verb
    expressions: tuple[tuple[str, Node], ...]
    along: str | None
    best: str | None
    by: tuple[str, ...] | None
    where: Node | None
    condition: str = ""


def parse(
    text: str, columns: Sequence[str], own: ScoreDirections, con: duckdb.DuckDBPyConnection
) -> Question:
    """Returns the question that the text asks. It may use these columns of `cells`, among which are
    the metrics of users' `own` tasks and loops. con: a database that parses SQL, in which nothing
    is read or changed. Raises UserError, which shows the place, if the text is wrong."""
    text = text.encode(errors="replace").decode()  # replaces lone surrogates
    own = {**own, **{name: own[score] for name, (score, _) in extremes(own).items()}}
    return _Parser(con, text, own, {column.lower(): column for column in columns}).question()


@dataclass
class _Parser:
    """Reads one question. Places count characters. start, sql: of the expression that is read."""

    con: duckdb.DuckDBPyConnection
    text: str
    own: ScoreDirections
    names: Mapping[str, str]
    start: int = 0
    sql: str = ""

    def error(self, message: str, at: int | Tree) -> UserError:
        """An error that shows the text, with a mark under what begins at a place or at a node."""
        at = at if isinstance(at, int) else self.place(at.get("query_location", 0))
        shown = " ".join(re.split(r"\s", self.text))
        at = len(shown) - len(shown[at:].lstrip())
        return UserError(f"{message}\n  {shown}\n  {' ' * at}^")

    def place(self, offset: int) -> int:
        """The place in the text of a byte of the SQL that DuckDB read."""
        before = self.sql.encode()[:offset].decode(errors="ignore")
        return self.start + max(0, len(before) - len(_SELECT))

    def question(self) -> Question:
        tokens = list(TOKEN.finditer(self.text))
        word = tokens[0].group().lower() if tokens else ""
        verb = next((verb for verb in _TAKES if verb == word), None)
        if verb is None:
            raise self.error(f"{GRAMMAR}{closest(word, _TAKES)}", 0)
        (_, items), *clauses = self.clauses(tokens, "~" if verb == "fit" else ",")
        by, where, condition = None, None, ""
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
        """The column that is named between two places of the text."""
        node = self.expression(start, end)
        if not isinstance(node, Column):
            raise self.error("write names of columns here, not expressions", start)
        return node.name

    def column(self, name: str, at: int | Tree) -> Column:
        """The column of this name, whose case does not matter."""
        if column := self.names.get(name.lower()):
            return Column(column, self.own.get(column))
        hint = closest(name, self.names.values())
        raise self.error(f'no column `{name}`{hint}; `sweepd sql "DESCRIBE cells"` lists all', at)

    def expression(self, start: int, end: int) -> Node:
        """The expression that stands between two places of the text."""
        text = self.text[start:end]
        if not text.strip():
            raise self.error("an expression is missing", start)
        if text.strip().lower() in self.names:  # it may be a word that SQL reserves, as `order`
            return self.column(text.strip(), start)
        self.start, self.sql = start, _SELECT + text
        try:
            answer = _syntax(self.con, self.sql)
            if answer["error"]:
                message = answer["error_message"] + self.reserved(text)
                raise self.error(message, self.place(int(answer.get("position", 0))))
            if _frame(answer) != _frame(_syntax(self.con, _SELECT + "1")):
                raise self.error("one expression is wanted here", start)
            [item] = answer["statements"][0]["node"]["select_list"]
            return self.node(item)
        except RecursionError:
            raise self.error("too deeply nested", start) from None

    def reserved(self, text: str) -> str:
        """A hint for an expression that SQL can read only once its columns stand in quotes."""

        def wrong(expression: str) -> bool:
            return bool(_syntax(self.con, _SELECT + expression)["error"])

        words = {token.group().lower() for token in TOKEN.finditer(text)}
        reserved = sorted(name for name in words & self.names.keys() if wrong(name))
        if wrong(TOKEN.sub(lambda t: f'"{t[0]}"' if t[0].lower() in reserved else t[0], text)):
            return ""
        return f'; as a column, write it in double quotes: "{self.names[reserved[0]]}"'

    def node(self, tree: Tree) -> Node:
        """The checked node for a node of the tree. Raises UserError if no question may have it."""
        if tree.get("alias"):
            raise self.error("one expression is wanted here", tree)
        match tree:
            case {"class": "COLUMN_REF", "column_names": [name]}:
                return self.column(name, tree)
            case {"class": "CONSTANT", "literal": {"kind": kind, "text": text}}:
                return self.constant(kind, text, tree)
            case {"class": "COMPARISON", "type": kind, "left": left, "right": right} if (
                kind in _COMPARISONS
            ):
                first, second = self.compared(tree, left, right)
                return Compare(first, _COMPARISONS[kind], second)
            case {"class": "BETWEEN", "input": value, "lower": low, "upper": high}:
                middle, *ends = self.in_range(tree, self.nodes(value, low, high))
                either = zip((">=", "<="), ends, strict=True)
                return Junction("AND", tuple(Compare(middle, o, end) for o, end in either))
            case {"class": "CONJUNCTION", "type": kind, "children": parts}:
                return Junction("OR" if kind == "CONJUNCTION_OR" else "AND", self.nodes(*parts))
            case {"class": "OPERATOR", "type": "OPERATOR_NOT", "children": [part]}:
                return negation(self.node(part))
            case {"class": "OPERATOR", "type": kind, "children": [part]} if kind in _POSTFIX:
                return Other(f"({{}} {_POSTFIX[kind]})", self.nodes(part))
            case {"class": "OPERATOR", "type": "COMPARE_IN", "children": [_, _, *_] as parts}:
                value, *options = self.compared(tree, *parts)
                return Junction("OR", tuple(Compare(value, "=", option) for option in options))
            case {"class": "OPERATOR", "type": "OPERATOR_COALESCE", "children": parts}:
                return Other(f"coalesce({', '.join(['{}'] * len(parts))})", self.nodes(*parts))
            case {"class": "CASE", "case_checks": checks, "else_expr": other}:
                parts = [part for c in checks for part in (c["when_expr"], c["then_expr"])]
                whens = "WHEN {} THEN {} " * len(checks)
                return Other(f"(CASE {whens}ELSE {{}} END)", self.nodes(*parts, other))
            case {"class": "CAST", "child": child, "type_expr": {"type_name": t, "children": []}}:
                if t.upper() not in _TYPES:
                    raise self.error(f"no cast to {t}; there are {', '.join(_TYPES)}", tree)
                word = "TRY_CAST" if tree["try_cast"] else "CAST"
                return Other(f"{word}({{}} AS {t.upper()})", self.nodes(child))
            case {"class": "FUNCTION"}:
                return self.call(tree)
        what = str(tree.get("class", "this")).lower()
        raise self.error(f"{what}: not part of a question's expressions", tree)

    def nodes(self, *trees: Tree) -> tuple[Node, ...]:
        return tuple(map(self.node, trees))

    def compared(self, tree: Tree, *sides: Tree) -> tuple[Node, ...]:
        """The nodes of what a node of the tree compares. Beside a column, a name that is
        none, and like none, is most likely a text without its quotes, as UserError says."""
        plain = [one for one in sides if len(one.get("column_names", ())) == 1]
        named = [(one["column_names"][0], one) for one in plain]
        known = any(name.lower() in self.names for name, _ in named)
        for name, side in named:
            if known and name.lower() not in self.names and not close_names(name, self.names):
                raise self.error(f"no column `{name}`; a text stands in quotes: '{name}'", side)
        return self.in_range(tree, self.nodes(*sides))

    def in_range(self, tree: Tree, compared: tuple[Node, ...]) -> tuple[Node, ...]:
        """What is compared. Raises UserError for a share beside a number that is not in [0, 1]."""
        share, numbers = None, []
        for part in compared:
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
        return compared

    def constant(self, kind: str, text: str, tree: Tree) -> Node:
        match kind:
            case "STRING":
                return Constant("'" + text.replace("'", "''") + "'")
            case "BOOLEAN" if text in ("true", "false"):
                return Constant(text)
            case "NULL_LITERAL":
                return Constant("NULL")
            case "INTEGER" | "NUMERIC" if _NUMBER.fullmatch(text):
                return Constant.numeral(text)
        raise self.error(f"{kind.lower()} constant: not part of a question's expressions", tree)

    def call(self, tree: Tree) -> Node:
        name, arguments = tree["function_name"], tree["arguments"]
        more = (tree["schema"], tree["filter"], tree["distinct"], tree["catalog"])
        plain = not any((*more, tree["order_bys"]["orders"], *(one["name"] for one in arguments)))
        if plain and name in _INFIX and len(arguments) == 2:
            form = f"({{}} {name} {{}})"
        elif plain and name in ("-", "+") and len(arguments) == 1:
            form = f"({name} {{}})"
        elif plain and name in _FUNCTIONS:
            form = f"{name}({', '.join(['{}'] * len(arguments))})"
        else:
            raise self.error(f"no {name}() here; there are {', '.join(_FUNCTIONS)}", tree)
        return Other(form, self.nodes(*(argument["expression"] for argument in arguments)))


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
