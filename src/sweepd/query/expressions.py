"""Checked expressions: a small class for each kind of node, and what a condition means.

`Node.sql` prints an expression. A condition on a score (acc, chain_acc, loss) is three-valued:
what is known of a score is an interval, the columns `<score>_least` and `<score>_most` of
`raw.bounds`. `kleene` prints the condition in SQL that is TRUE or FALSE where every value in the
interval agrees, and NULL where they do not. `trend` and `thresholds` tell what it asks of scores.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sweepd.grid.metrics import BETTER, Better
from sweepd.grid.options import OPERATORS, Goal
from sweepd.query.cells_sql import EXTREMES, OF_TRIALS, ScoreDirections, bounds_of, quoted

MIRRORED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The comparisons that an interval can decide, each with its like once the sides are exchanged."""
OPPOSITE = {"=": "<>", "<": ">=", ">": "<=", "IS DISTINCT FROM": "IS NOT DISTINCT FROM"}
OPPOSITE |= {opposite: operator for operator, opposite in OPPOSITE.items()}
"""The comparison that holds where another does not. NULL makes no exception, since a comparison
with it is NULL either way. NaN makes none, since DuckDB orders it above all numbers."""
RISING = {">": 1, ">=": 1, "<": -1, "<=": -1}
"""Which way the left side of a comparison has to move to make it hold: 1 is up, -1 is down."""


class Node:
    """An expression whose parts have all been checked."""

    @property
    def parts(self) -> tuple[Node, ...]:
        """The expressions that this one is made of."""
        match self:
            case Compare(left, _, right):
                return left, right
            case Junction(_, parts) | Other(_, parts):
                return parts
        return ()

    def sql(self, name: Callable[[str], str] = str) -> str:
        """Returns the expression in SQL, with each column under the name that `name` gives it."""
        parts = [part.sql(name) for part in self.parts]
        match self:
            case Column(column):
                return quoted(name(column))
            case Constant(text):
                return text
            case Compare(_, operator):
                return f"({parts[0]} {operator} {parts[1]})"
            case Junction(word):
                return "(" + f" {word} ".join(parts) + ")"
            case Other(form):
                return form.format(*parts)
        raise NotImplementedError(type(self))

    def walk(self) -> Iterator[Column]:
        """Yields the columns that the expression mentions, one for each place."""
        if isinstance(self, Column):
            yield self
        for part in self.parts:
            yield from part.walk()

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the expression mentions."""
        return frozenset(column.name for column in self.walk())

    @property
    def scores(self) -> frozenset[str]:
        """The columns that the expression mentions and that seeds yet to come may change."""
        return frozenset(column.name for column in self.walk() if column.better)

    @property
    def about(self) -> frozenset[str]:
        """The metrics that its scores measure. `chain_acc` counts as acc."""
        scores = (column.score for column in self.walk() if column.own or column.score in BETTER)
        return frozenset(score.removeprefix("chain_") for score in scores)


@dataclass(frozen=True)
class Column(Node):
    name: str
    own: Better | None = None
    """Which way the column is better, if it is a metric of a user's own task or loop, or an extreme
    of one. None for any other column."""

    @property
    def score(self) -> str:
        """The score that the column holds, or of which it holds an extreme. Else its own name."""
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

    @classmethod
    def numeral(cls, text: str) -> Constant:
        """Returns a number as it was written. Underscores may group its digits."""
        return cls(f"({text})" if text.startswith("-") else text, float(text.replace("_", "")))


@dataclass(frozen=True)
class Compare(Node):
    left: Node
    operator: str
    right: Node


@dataclass(frozen=True)
class Junction(Node):
    """Conditions joined by AND or by OR. BETWEEN and IN are such, too."""

    word: Literal["AND", "OR"]
    conditions: tuple[Node, ...]


@dataclass(frozen=True)
class Other(Node):
    """A call, a cast, arithmetic, CASE, IS NULL, or NOT of one. Its scores must be known."""

    form: str
    """The SQL of the expression, with a {} for each operand."""
    operands: tuple[Node, ...]


TRUE = Constant("true")


def negation(condition: Node) -> Node:
    """Returns the condition that holds where this one does not. A comparison is turned around, and
    AND and OR change places, so that `not acc <= 0.9` is the same condition as `acc > 0.9`."""
    match condition:
        case Compare(left, operator, right):
            return Compare(left, OPPOSITE[operator], right)
        case Junction(word, conditions):
            return Junction("OR" if word == "AND" else "AND", tuple(map(negation, conditions)))
    return Other("(NOT {})", (condition,))


def over_mixed(condition: Node, texts: Collection[str]) -> Node:
    """Returns the condition with columns of texts read as numbers where it compares them with one,
    and true and false as texts. Such a column may be that of a field with values of several types.
    A text that is no number is unequal to each, and neither less nor more."""
    match condition:
        case Junction(word, conditions):
            return Junction(word, tuple(over_mixed(part, texts) for part in conditions))
        case Compare(Constant() as left, operator, Column() as right) if operator in MIRRORED:
            return over_mixed(Compare(right, MIRRORED[operator], left), texts)
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
    """Returns the conditions that a condition joins with AND, else the condition itself."""
    match condition:
        case Junction("AND", conditions):
            return tuple(part for each in conditions for part in conjuncts(each))
    return (condition,)


def of_goal(goal: Goal, own: ScoreDirections) -> Node:
    """Returns a grid's goal as a condition. own: the metrics of the user's own tasks and loops."""
    score = Column(goal.metric, own.get(goal.metric))
    return Compare(score, goal.comparison, Constant.numeral(repr(goal.threshold)))


def goal_of(condition: Node) -> Goal | None:
    """Returns a condition as a goal if it compares one score of trials with a number."""
    match _score_test(condition):
        case Column(name) as score, operator, Constant(_, float(number)) if operator in OPERATORS:
            if name == score.score and (score.own or name in BETTER):
                return Goal(name, operator, number)
    return None


def kleene(condition: Node) -> str:
    """Returns the condition in SQL over `cells` joined with `bounds`. It is NULL where it is
    undecided. A part without scores is decided: where a cell lacks its column, it does not hold."""
    scores = condition.scores
    if not scores:
        return f"coalesce({condition.sql()}, false)"
    if isinstance(condition, Junction):
        return "(" + f" {condition.word} ".join(map(kleene, condition.conditions)) + ")"
    if not (test := _score_test(condition)):

        def least(name: str) -> str:
            return bounds_of(name)[0] if name in scores else name

        at_least = condition.sql(least)
        if isinstance(condition, Compare):  # NaN, as of 0 / 0, meets no condition
            sides = (f"TRY_CAST({side.sql(least)} AS DOUBLE)" for side in condition.parts)
            is_number = (f"NOT coalesce(isnan({side}), false)" for side in sides)
            at_least = f"({' AND '.join([*is_number, at_least])})"
        return f"(CASE WHEN {known(condition)} THEN {at_least} END)"

    # One score against a value: decided as soon as its whole interval lies on one side of that.
    score, operator, rest = test
    (low, high), value = map(quoted, bounds_of(score.name)), rest.sql()
    if operator == "<>":
        return f"(NOT {kleene(Compare(score, '=', rest))})"
    if operator == "=":
        true = f"{low} = {value} AND {high} = {value}"
        false = f"{value} < {low} OR {value} > {high}"
    else:
        worst, best = (low, high) if RISING[operator] > 0 else (high, low)
        true, false = f"{worst} {operator} {value}", f"NOT {best} {operator} {value}"
    return f"(CASE WHEN {true} THEN true WHEN {false} THEN false END)"


def known(node: Node) -> str:
    """Returns the SQL condition that every score of an expression, which has one, is known."""
    return " AND ".join(" = ".join(map(quoted, bounds_of(score))) for score in sorted(node.scores))


def thresholds(condition: Node) -> tuple[float, ...]:
    """Returns the numbers with which `conjuncts` of a condition compare acc."""
    numbers = []
    for part in conjuncts(condition):
        match _score_test(part):
            case Column("acc"), _, Constant(_, float(number)):
                numbers.append(number)
    return tuple(numbers)


def _score_test(condition: Node) -> tuple[Column, str, Node] | None:
    """A comparison of one score with an expression that has none: score, operator, expression."""
    match condition:
        case Compare(left, operator, right) if operator in MIRRORED:
            for score, said, rest in ((left, operator, right), (right, MIRRORED[operator], left)):
                if isinstance(score, Column) and score.better and not rest.scores:
                    return score, said, rest
    return None


def trend(condition: Node) -> int | None:
    """Returns 1 if better scores can only help a condition, -1 if they can only harm it, as with
    acc < 0.5, 0 if they do neither, and None if it depends."""
    if not condition.scores:
        return 0
    if test := _score_test(condition):
        score, operator, _ = test
        rising = RISING.get(operator)
        return rising and (-rising if score.better == "down" else rising)
    if isinstance(condition, Junction):
        trends = {trend(each) for each in condition.conditions} - {0}
        return trends.pop() if len(trends) == 1 else None
    return None
