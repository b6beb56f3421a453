"""Checked expressions: a small class for each kind of node, and what a condition means.

`Node.sql` prints an expression. A condition on a score (acc, chain_acc, loss) is three-valued:
what is known of a score is an interval, the columns `<score>_least` and `<score>_most` of
`raw.bounds`. `kleene` prints the condition in SQL that is TRUE or FALSE where every value in the
interval agrees, and NULL where they do not. `falls` and `thresholds` tell what a condition asks of
the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sweepd.grid.metrics import BETTER, Better
from sweepd.grid.options import OPERATORS, Goal
from sweepd.query.cells_sql import EXTREMES, OF_TRIALS, ScoreDirections, least, most, quoted

MIRRORED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The comparisons that an interval can decide. Each has the one that means the same once its two
sides are exchanged."""
OPPOSITE = {
    "=": "<>", "<": ">=", ">": "<=", "IS DISTINCT FROM": "IS NOT DISTINCT FROM"
}  # fmt: skip
OPPOSITE |= {opposite: operator for operator, opposite in OPPOSITE.items()}
"""The comparison that holds where another does not. NULL makes no exception, since a comparison
with it is NULL either way. NaN makes none, since DuckDB orders it above all numbers."""
RISING = {">": 1, ">=": 1, "<": -1, "<=": -1}
"""Which way the left side of a comparison has to move to make it hold: 1 is up, -1 is down."""

Naming = Callable[[str], str]
"""A function from a column to the name that it has in the SQL that is printed."""
ScoreTest = tuple["Column", str, "Node"]
"""A comparison of one score with an expression that has no score: (score, operator, expression)."""


class Node:
    """An expression whose parts have all been checked."""

    @property
    def parts(self) -> tuple[Node, ...]:
        """The expressions that this one is made of."""
        match self:
            case Compare(left, _, right):
                return left, right
            case Between(value, low, high):
                return value, low, high
            case In(value, options):
                return value, *options
            case Junction(_, conditions):
                return conditions
            case Not(condition):
                return (condition,)
            case Other(_, operands):
                return operands
        return ()

    def sql(self, name: Naming = str) -> str:
        """Returns the expression in SQL, with each column under the name that `name` gives it."""
        parts = [part.sql(name) for part in self.parts]
        match self:
            case Column(column):
                return quoted(name(column))
            case Constant(text):
                return text
            case Compare(_, operator):
                return f"({parts[0]} {operator} {parts[1]})"
            case Between():
                return f"({parts[0]} BETWEEN {parts[1]} AND {parts[2]})"
            case In():
                return f"({parts[0]} IN ({', '.join(parts[1:])}))"
            case Junction(word):
                return "(" + f" {word} ".join(parts) + ")"
            case Not():
                return f"(NOT {parts[0]})"
            case Other(form):
                return form.format(*parts)
        raise NotImplementedError(type(self))

    def walk(self) -> Iterator[Node]:
        """Yields this expression and all that stand within it."""
        yield self
        for part in self.parts:
            yield from part.walk()

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the expression mentions."""
        return frozenset(node.name for node in self.walk() if isinstance(node, Column))

    @property
    def scores(self) -> frozenset[str]:
        """The columns that the expression mentions and that seeds yet to come may change."""
        return frozenset(n.name for n in self.walk() if isinstance(n, Column) and n.better)

    @property
    def about(self) -> frozenset[str]:
        """The metrics that its scores measure: acc, loss, or those of a user's own. `chain_acc`
        counts as acc."""
        columns = (node for node in self.walk() if isinstance(node, Column))
        scores = (column.score for column in columns if column.own or column.score in BETTER)
        return frozenset(score.removeprefix("chain_") for score in scores)


@dataclass(frozen=True)
class Column(Node):
    name: str
    own: Better | None = None
    """Which way the column is better, if it is a metric of a user's own task or loop, or an extreme
    of one. None for any other column."""

    @property
    def score(self) -> str:
        """The score that the column holds, or of which it holds an extreme over seeds. For any
        other column this is its own name."""
        if self.own:
            return self.name.removesuffix("_min").removesuffix("_max")
        return EXTREMES.get(self.name, (self.name,))[0]

    @property
    def better(self) -> Better | None:
        """Which way the column is better. None if it is no score."""
        return self.own or OF_TRIALS.get(self.score)


@dataclass(frozen=True)
class Constant(Node):
    text: str
    """The constant as SQL."""
    number: float | None = None
    """The value of the constant if it is a number, else None."""


@dataclass(frozen=True)
class Compare(Node):
    left: Node
    operator: str
    right: Node


@dataclass(frozen=True)
class Between(Node):
    value: Node
    low: Node
    high: Node


@dataclass(frozen=True)
class In(Node):
    value: Node
    options: tuple[Node, ...]


@dataclass(frozen=True)
class Junction(Node):
    """Two or more conditions joined by AND or by OR."""

    word: Literal["AND", "OR"]
    conditions: tuple[Node, ...]


@dataclass(frozen=True)
class Not(Node):
    """The negation of what `negation` cannot turn around, such as IN."""

    condition: Node


@dataclass(frozen=True)
class Other(Node):
    """A call, a cast, arithmetic, CASE or IS NULL. It has a value once its scores are known."""

    form: str
    """The SQL of the expression, with a {} for each operand."""
    operands: tuple[Node, ...]


TRUE = Constant("true")


def numeral(text: str) -> Constant:
    """Returns a number as it was written. Underscores may group its digits."""
    return Constant(f"({text})" if text.startswith("-") else text, float(text.replace("_", "")))


def negation(condition: Node) -> Node:
    """Returns the condition that holds where this one does not. A comparison is turned around, and
    AND and OR change places, so that `not acc <= 0.9` is the same condition as `acc > 0.9`."""
    match condition:
        case Compare(left, operator, right) if operator in OPPOSITE:
            return Compare(left, OPPOSITE[operator], right)
        case Between(value, low, high):
            return Junction("OR", (Compare(value, "<", low), Compare(value, ">", high)))
        case Junction(word, conditions):
            return Junction("OR" if word == "AND" else "AND", tuple(map(negation, conditions)))
    return Not(condition)


def over_mixed(condition: Node, texts: Collection[str]) -> Node:
    """Returns the condition with columns of texts read as numbers where it compares them with one,
    and true and false as texts. Such a column may be that of a field with values of several types.
    A text that is no number is unequal to each, and neither less nor more."""

    def over(part: Node) -> Node:
        return over_mixed(part, texts)

    match condition:
        case Junction(word, conditions):
            return Junction(word, tuple(map(over, conditions)))
        case Not(negated):
            return Not(over(negated))
        case Between(Column(name) as value, low, high) if name in texts:
            return over(Junction("AND", (Compare(value, ">=", low), Compare(value, "<=", high))))
        case In(Column(name) as value, options) if name in texts:
            return over(Junction("OR", tuple(Compare(value, "=", option) for option in options)))
        case Compare(Constant() as left, operator, Column() as right) if operator in MIRRORED:
            return over(Compare(right, MIRRORED[operator], left))
        case Compare(Column(name) as value, operator, Constant(text, number)) if name in texts:
            if number is None:
                quoted_text = f"'{text}'" if text in ("true", "false") else text
                return Compare(value, operator, Constant(quoted_text))
            form = "TRY_CAST(CASE WHEN {0} NOT IN ('true', 'false') THEN {0} END AS DOUBLE)"
            if operator not in RISING:  # NaN is none of the numbers that a grid can have
                form = f"CASE WHEN {{0}} IS NOT NULL THEN coalesce({form}, 'nan') END"
            return Compare(Other(form, (value,)), operator, Constant(text, number))
    return condition


def conjunction(conditions: Sequence[Node]) -> Node:
    """Returns the condition that all of these hold."""
    if len(conditions) < 2:
        return conditions[0] if conditions else TRUE
    return Junction("AND", tuple(conditions))


def conjuncts(condition: Node) -> tuple[Node, ...]:
    """Returns the conditions that a condition joins with AND, or the condition itself if there are
    none."""
    match condition:
        case Junction("AND", conditions):
            return tuple(part for each in conditions for part in conjuncts(each))
    return (condition,)


def of_goal(goal: Goal, own: ScoreDirections) -> Node:
    """Returns a grid's goal as a condition. own: the metrics of the user's own tasks and loops."""
    return Compare(
        Column(goal.metric, own.get(goal.metric)), goal.comparison, numeral(repr(goal.threshold))
    )


def goal_of(condition: Node) -> Goal | None:
    """Returns the condition as a goal if it compares one score of trials with a number, else
    None."""
    test = _score_test(condition)
    if test is None:
        return None
    score, operator, rest = test
    of_trials = score.name == score.score and (score.own or score.name in BETTER)
    if not of_trials or operator not in OPERATORS or not isinstance(rest, Constant):
        return None
    return None if rest.number is None else Goal(score.name, operator, rest.number)


def kleene(condition: Node) -> str:
    """Returns the condition in SQL over `cells` joined with `bounds`. It is NULL where it is
    undecided. A part without scores is decided: where a cell lacks its column, it does not hold."""
    if not condition.scores:
        return f"coalesce({condition.sql()}, false)"
    if test := _score_test(condition):
        return _decided(*test)
    match condition:
        case Between(Column() as score, low, high) if score.better and not (
            low.scores or high.scores
        ):
            return f"({_decided(score, '>=', low)} AND {_decided(score, '<=', high)})"
        case Junction(word, conditions):
            return "(" + f" {word} ".join(map(kleene, conditions)) + ")"
    scores = condition.scores
    at_least = condition.sql(lambda column: least(column) if column in scores else column)
    return f"(CASE WHEN {known(condition)} THEN {at_least} END)"


def known(node: Node) -> str:
    """Returns the SQL condition that every score of an expression is known. The expression must
    have one."""
    return " AND ".join(
        f"{quoted(least(score))} = {quoted(most(score))}" for score in sorted(node.scores)
    )


def falls(condition: Node) -> bool:
    """Returns whether better scores can make a condition false but never make it true, as with
    acc < 0.5."""
    return _trend(condition) == -1


def thresholds(condition: Node) -> tuple[float, ...]:
    """Returns the numbers with which acc is compared in the parts that a condition joins with
    AND."""
    compared: list[Node] = []
    for part in conjuncts(condition):
        match part:
            case Between(Column("acc"), low, high):
                compared += [low, high]
            case _ if (test := _score_test(part)) and test[0].name == "acc":
                compared.append(test[2])
    numbers = (node.number for node in compared if isinstance(node, Constant))
    return tuple(number for number in numbers if number is not None)


def _score_test(condition: Node) -> ScoreTest | None:
    match condition:
        case Compare(Column() as score, operator, rest) if (
            score.better and operator in MIRRORED and not rest.scores
        ):
            return score, operator, rest
        case Compare(rest, operator, Column() as score) if (
            score.better and operator in MIRRORED and not rest.scores
        ):
            return score, MIRRORED[operator], rest
    return None


def _trend(condition: Node) -> int | None:
    """Returns 1 if better scores can only help the condition, -1 if they can only harm it, and 0 if
    they do neither. None if it depends."""
    if not condition.scores:
        return 0
    if test := _score_test(condition):
        score, operator, _ = test
        trend = RISING.get(operator)
        return trend and (-trend if score.better == "down" else trend)
    match condition:
        case Junction(_, conditions):
            trends = {_trend(each) for each in conditions} - {0}
            return trends.pop() if len(trends) == 1 else None
    return None


def _decided(score: Column, operator: str, rest: Node) -> str:
    """Returns `score operator rest` in SQL. It is NULL where the interval of the score does not
    settle it."""
    low, high, value = quoted(least(score.name)), quoted(most(score.name)), rest.sql()
    match operator:
        case ">" | ">=":
            true, false = f"{low} {operator} {value}", f"NOT {high} {operator} {value}"
        case "<" | "<=":
            true, false = f"{high} {operator} {value}", f"NOT {low} {operator} {value}"
        case "=":
            true = f"{low} = {value} AND {high} = {value}"
            false = f"{value} < {low} OR {value} > {high}"
        case _:
            return f"(NOT {_decided(score, '=', rest)})"
    return f"(CASE WHEN {true} THEN true WHEN {false} THEN false END)"
