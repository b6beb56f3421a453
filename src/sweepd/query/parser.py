"""A question's text, parsed and checked.

    min EXPR [by COL, …] [where PREDICATE]
    frontier COST, SCORE [by COL, …] [where PREDICATE]
    fit EXPR ~ COL [by COL, …] [where PREDICATE]

DuckDB parses the expressions; their syntax trees are read against a whitelist, and what is run
is printed from the trees, never pasted from the text.

A condition on a score (acc, chain_acc, loss) is three-valued. What is known of a score is an
interval, the columns `<score>_least` and `<score>_most` of `raw.bounds`: `Node.kleene` is TRUE
or FALSE where every value in the interval agrees, and NULL where they do not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from typing import Any, Literal

import duckdb

from sweepd.errors import UserError
from sweepd.query.cells_sql import FALLING, SCORES, least, most, quoted
from sweepd.query.database import sandbox

GRAMMAR = (
    "a question is `min EXPR [by COL, …] [where PREDICATE]`, "
    "`frontier COST, SCORE [by …] [where …]` or `fit EXPR ~ COL [by …] [where …]`"
)

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
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_OPERATORS = {
    "OPERATOR_NOT": "(NOT {})",
    "OPERATOR_IS_NULL": "({} IS NULL)",
    "OPERATOR_IS_NOT_NULL": "({} IS NOT NULL)",
}
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
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\w+|\S")
_SELECT = "SELECT "

Verb = Literal["min", "frontier", "fit"]
_TAKES: dict[Verb, tuple[int, str]] = {
    "min": (1, "one expression"),
    "frontier": (2, "a cost and a score: COST, SCORE"),
    "fit": (2, "an expression and a column: EXPR ~ COL"),
}
"""How many items each verb takes, and in words."""


@dataclass(frozen=True)
class Node:
    """A checked expression: its SQL, with a {} for each child; a leaf is a column or a constant."""

    form: str
    children: tuple[Node, ...] = ()
    column: str | None = None

    def sql(self, name: Callable[[str], str] = lambda column: column) -> str:
        """The expression in SQL, each column under what `name` calls it."""
        if self.column is not None:
            return quoted(name(self.column))
        if not self.children:
            return self.form
        return self.form.format(*(child.sql(name) for child in self.children))

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the expression mentions."""
        if self.column is not None:
            return frozenset({self.column})
        return frozenset().union(*(child.columns for child in self.children))

    @property
    def scores(self) -> frozenset[str]:
        return self.columns.intersection(SCORES)

    @property
    def about(self) -> frozenset[str]:
        """acc, loss or both: what its scores are of."""
        pools = {score: score.removeprefix("chain_").partition("_")[0] for score in self.scores}
        return frozenset(pools.values()) & {"acc", "loss"}

    @property
    def falling(self) -> bool:
        """Whether better scores may end it and never bring it about, as with acc < 0.5."""
        return self._trend() == -1

    @property
    def conjuncts(self) -> tuple[Node, ...]:
        """What a predicate joins with AND."""
        if self.form.startswith("({} AND {}"):
            return tuple(part for child in self.children for part in child.conjuncts)
        return (self,)

    @property
    def kleene(self) -> str:
        """This predicate in SQL over `cells` joined with `bounds`: NULL where it is undecided."""
        if not self.scores:
            return self.sql()
        if self.form == "({} BETWEEN {} AND {})" and _bare(self.children[0], self.children[1:]):
            score, low, high = self.children
            return f"({_decide(score, '>=', low)} AND {_decide(score, '<=', high)})"
        if comparison := self._comparison():
            return _decide(*comparison)
        if self.form == "(NOT {})" or self.form.startswith(("({} AND {}", "({} OR {}")):
            return self.form.format(*(child.kleene for child in self.children))
        known = " AND ".join(
            f"{quoted(least(score))} = {quoted(most(score))}" for score in sorted(self.scores)
        )
        at_least = self.sql(lambda column: least(column) if column in SCORES else column)
        return f"(CASE WHEN {known} THEN {at_least} END)"

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The numbers that acc must be above, below or equal to for this predicate to hold."""
        found = []
        for part in self.conjuncts:
            comparison = part._comparison()
            if comparison and comparison[0].column == "acc":
                found.append(comparison[2])
            elif part.form == "({} BETWEEN {} AND {})" and part.children[0].column == "acc":
                found.extend(part.children[1:])
        numbers = (node.form.strip("()") for node in found if not node.children)
        return tuple(float(number) for number in numbers if _NUMBER.fullmatch(number))

    def _trend(self) -> int | None:
        """1 if better scores can only help this predicate, -1 if only harm, 0 if they do neither;
        None if it depends."""
        if not self.scores:
            return 0
        if comparison := self._comparison():
            score, operator, _ = comparison
            wants_more = {">": 1, ">=": 1, "<": -1, "<=": -1}.get(operator)
            falling = str(score.column).startswith(FALLING)
            return wants_more and (-wants_more if falling else wants_more)
        if self.form == "(NOT {})":
            trend = self.children[0]._trend()
            return trend and -trend
        if self.form.startswith(("({} AND {}", "({} OR {}")):
            trends = {child._trend() for child in self.children} - {0}
            return trends.pop() if len(trends) == 1 else None
        return None

    def _comparison(self) -> tuple[Node, str, Node] | None:
        """(score, operator, rest) if this compares a bare score with what mentions none."""
        match self.form.split():
            case ["({}", operator, "{})"] if operator in _MIRRORED:
                left, right = self.children
                if _bare(left, (right,)):
                    return left, operator, right
                if _bare(right, (left,)):
                    return right, _MIRRORED[operator], left
        return None


@dataclass(frozen=True)
class Question:
    verb: Verb
    expressions: tuple[tuple[str, Node], ...]
    """Each as it was typed, and as it was understood."""
    along: str | None
    """The column that `fit` fits along."""
    by: tuple[str, ...] | None
    """Columns named by the question; None for the default group."""
    where: Node | None


def parse(text: str, columns: Sequence[str]) -> Question:
    """Read a question over these columns of `cells`. UserError, with the place, if it is wrong."""
    return _Parser(text, columns).question()


def parse_predicate(text: str, columns: Sequence[str]) -> Node:
    """Read a condition on its own, such as a grid's goal."""
    return _Parser(text, columns).expression(0, len(text))


def _bare(node: Node, rest: Sequence[Node]) -> bool:
    return node.column in SCORES and not any(other.scores for other in rest)


def _decide(score: Node, operator: str, rest: Node) -> str:
    """`score operator rest`, where the interval of the score settles it."""
    assert score.column is not None
    low, high = quoted(least(score.column)), quoted(most(score.column))
    value = rest.sql()
    match operator:
        case ">" | ">=":
            true, false = f"{low} {operator} {value}", f"NOT {high} {operator} {value}"
        case "<" | "<=":
            true, false = f"{high} {operator} {value}", f"NOT {low} {operator} {value}"
        case "=":
            true = f"{low} = {value} AND {high} = {value}"
            false = f"{value} < {low} OR {value} > {high}"
        case _:
            return f"(NOT {_decide(score, '=', rest)})"
    return f"(CASE WHEN {true} THEN true WHEN {false} THEN false END)"


class _Parser:
    def __init__(self, text: str, columns: Sequence[str]) -> None:
        self.text = text.encode(errors="replace").decode()  # no lone surrogates
        self.names = {column.lower(): column for column in columns}

    def question(self) -> Question:
        tokens = list(_TOKEN.finditer(self.text))
        word = tokens[0].group().lower() if tokens else ""
        verb = next((verb for verb in _TAKES if verb == word), None)
        if verb is None:
            raise self.error(GRAMMAR, 0)
        (_, places), *clauses = self.clauses(tokens, "~" if verb == "fit" else ",")
        by: tuple[str, ...] | None = None
        where = None
        for word, divisions in clauses:
            if word == "where" and where is None:
                where = self.expression(divisions[0], divisions[-1])
            elif word != "where" and by is None and where is None:
                by = tuple(self.column(*span) for span in self.items(divisions))
            else:
                raise self.error("at most one `by`, then at most one `where`", divisions[0])
        items = list(self.items(places))
        count, wanted = _TAKES[verb]
        if len(items) != count:
            raise self.error(f"`{verb}` takes {wanted}", items[min(count, len(items) - 1)][0])
        along = self.column(*items.pop()) if verb == "fit" else None
        expressions = tuple((self.fragment(*s), self.expression(*s)) for s in items)
        return Question(verb, expressions, along, by, where)

    def clauses(self, tokens: list[re.Match[str]], divider: str) -> Iterator[tuple[str, list[int]]]:
        """Each keyword and the places that divide what follows it: its start, the verb's dividers
        or the commas of `by`, its end."""
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
        """Spans between dividers."""
        for i, (start, end) in enumerate(pairwise(places)):
            yield start + (i > 0), end

    def fragment(self, start: int, end: int) -> str:
        return " ".join(self.text[start:end].split())

    def column(self, start: int, end: int) -> str:
        node = self.expression(start, end)
        if node.column is None:
            raise self.error("names of columns are wanted here, not expressions", start)
        return node.column

    def expression(self, start: int, end: int) -> Node:
        """The expression that stands between two places of the text."""
        if not self.text[start:end].strip():
            raise self.error("an expression is missing", start)
        sql = _SELECT + self.text[start:end]

        def place(offset: int) -> int:
            """Where in the question a byte of what DuckDB read stands."""
            before = sql.encode()[:offset].decode(errors="ignore")
            return start + max(0, len(before) - len(_SELECT))

        try:
            answer = _syntax(sql)
            if answer["error"]:
                raise self.error(answer["error_message"], place(int(answer.get("position", 0))))
            if _frame(answer) != _frame(_syntax(_SELECT + "1")):
                raise self.error("one expression is wanted here", start)
            [item] = answer["statements"][0]["node"]["select_list"]
            return self.read(item, place)
        except RecursionError:
            raise self.error("too deeply nested", start) from None

    def read(self, node: dict[str, Any], place: Callable[[int], int]) -> Node:
        """Check one node of DuckDB's syntax tree."""

        def children(*nodes: dict[str, Any]) -> tuple[Node, ...]:
            return tuple(self.read(child, place) for child in nodes)

        at = place(node.get("query_location", 0))
        if node.get("alias"):
            raise self.error("one expression is wanted here", at)
        match node:
            case {"class": "COLUMN_REF", "column_names": [name]}:
                return Node("", column=self.known(name, at))
            case {"class": "CONSTANT", "literal": {"kind": kind, "text": text}}:
                return Node(self.constant(kind, text, at))
            case {"class": "COMPARISON", "type": kind, "left": left, "right": right} if (
                kind in _COMPARISONS
            ):
                return Node(f"({{}} {_COMPARISONS[kind]} {{}})", children(left, right))
            case {"class": "BETWEEN", "input": value, "lower": low, "upper": high}:
                return Node("({} BETWEEN {} AND {})", children(value, low, high))
            case {"class": "CONJUNCTION", "type": kind, "children": parts}:
                word = " AND " if kind == "CONJUNCTION_AND" else " OR "
                return Node("(" + word.join(["{}"] * len(parts)) + ")", children(*parts))
            case {"class": "OPERATOR", "type": kind, "children": parts} if kind in _OPERATORS:
                return Node(_OPERATORS[kind], children(*parts))
            case {"class": "OPERATOR", "type": "COMPARE_IN", "children": [value, *options]}:
                return Node(f"({{}} IN {_list(options)})", children(value, *options))
            case {"class": "OPERATOR", "type": "OPERATOR_COALESCE", "children": parts}:
                return Node(f"coalesce{_list(parts)}", children(*parts))
            case {"class": "CASE", "case_checks": checks, "else_expr": other}:
                parts = [part for c in checks for part in (c["when_expr"], c["then_expr"])]
                whens = "WHEN {} THEN {} " * len(checks)
                return Node(f"(CASE {whens}ELSE {{}} END)", children(*parts, other))
            case {
                "class": "CAST",
                "child": child,
                "type_expr": {"type_name": kind, "children": []},
            }:
                if kind.upper() not in _TYPES:
                    raise self.error(f"no cast to {kind}; there are {_listed(_TYPES)}", at)
                word = "TRY_CAST" if node["try_cast"] else "CAST"
                return Node(f"{word}({{}} AS {kind.upper()})", children(child))
            case {"class": "FUNCTION", "function_name": name, "arguments": arguments}:
                plain = not (node["schema"] or node["filter"] or node["distinct"])
                plain = plain and not node["order_bys"]["orders"] and not node["catalog"]
                if plain and not any(argument["name"] for argument in arguments):
                    parts = [argument["expression"] for argument in arguments]
                    if form := _function(name, parts):
                        return Node(form, children(*parts))
                raise self.error(f"no {name}() here; there are {_listed(_FUNCTIONS)}", at)
        what = str(node.get("class", "this")).lower()
        raise self.error(f"{what}: not part of a question's expressions", at)

    def known(self, name: str, at: int) -> str:
        """The column of this name."""
        if column := self.names.get(name.lower()):
            return column
        close = get_close_matches(name.lower(), self.names, n=3)
        hint = f"did you mean {_listed(close)}? " if close else ""
        raise self.error(f"no column `{name}`; {hint}there are {_listed(self.names.values())}", at)

    def constant(self, kind: str, text: str, at: int) -> str:
        match kind:
            case "STRING":
                return "'" + text.replace("'", "''") + "'"
            case "BOOLEAN" if text in ("true", "false"):
                return text
            case "NULL_LITERAL":
                return "NULL"
            case "INTEGER" | "NUMERIC" if _NUMBER.fullmatch(text):
                return f"({text})" if text.startswith("-") else text
        raise self.error(f"{kind.lower()} constant: not part of a question's expressions", at)

    def error(self, message: str, at: int) -> UserError:
        """An error that shows the question, with a mark under what begins at `at`."""
        shown = " ".join(re.split(r"\s", self.text))
        at = len(shown) - len(shown[at:].lstrip())
        return UserError(f"{message}\n  {shown}\n  {' ' * at}^")


def _function(name: str, arguments: Sequence[object]) -> str | None:
    """The form of a call, None if it may not stand in a question."""
    if name in _INFIX and len(arguments) == 2:
        return f"({{}} {name} {{}})"
    if name in ("-", "+") and len(arguments) == 1:
        return f"({name} {{}})"
    return f"{name}{_list(arguments)}" if name in _FUNCTIONS else None


def _list(parts: Sequence[object]) -> str:
    return "(" + ", ".join(["{}"] * len(parts)) + ")"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names, key=str.lower))


def _syntax(sql: str) -> dict[str, Any]:
    """DuckDB's syntax tree of a statement, or its error; nothing is run."""
    try:
        row = _parser().cursor().execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    except duckdb.Error as error:
        return {"error": True, "error_message": str(error).partition("\n")[0]}
    assert row is not None
    answer: dict[str, Any] = json.loads(row[0])
    return answer


def _frame(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """All of a syntax tree but what it selects: that of `SELECT 1` is the only one wanted."""
    nodes = [statement["node"] for statement in answer["statements"]]
    return [{**node, "select_list": len(node.get("select_list", ()))} for node in nodes]


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    return sandbox()
