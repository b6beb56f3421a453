"""Questions as text: their clauses, quotes, errors that show their place, and what no question may
hold. An expression is printed from its checked nodes, and this text means what was typed. Also
tested is what conditions mean."""

import duckdb
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sweepd.errors import UserError
from sweepd.grid.options import Goal
from sweepd.query.expressions import (
    TRUE,
    Node,
    conjunction,
    conjuncts,
    goal_of,
    of_goal,
    thresholds,
    trend,
)
from sweepd.query.parser import Question, parse
from sweepd.query.sandbox import sandbox

CON = sandbox()
COLUMNS = [
    *("task", "model", "size", "L", "d", "heads", "flops", "train_flops"),
    *("acc", "acc_min", "chain_acc", "loss", "loss_max", "n", "by x"),
]


def ask(text: str, *more: str) -> Question:
    return parse(text, [*COLUMNS, *more], {}, CON)


def condition(predicate: str) -> Node:
    found = ask(f"min d where {predicate}").where
    assert found is not None
    return found


# Clauses


@pytest.mark.parametrize(
    ("text", "expressions", "by", "columns"),
    [
        (
            "min d * heads by size, model where acc > 0.9 and model = 'sparse'",
            ["d * heads"], ("size", "model"), {"acc", "model"},
        ),
        (
            "frontier flops / 1e9, greatest(acc, chain_acc) per task",
            ["flops / 1e9", "greatest(acc, chain_acc)"], ("task",), None,
        ),
        (
            "fit flops / heads ~ l by model where acc > 0.9 and model ~~ 's%'",
            ["flops / heads"], ("model",), {"acc", "model"},
        ),
        ("MIN D\n  Per SIZE, l\n  WHERE Acc > .9 ", ["D"], ("size", "L"), {"acc"}),
        (
            """min d where model = ' by x where '' per ' and "by x" = 1""",
            ["d"], None, {"model", "by x"},
        ),
        ("min greatest(d, heads)", ["greatest(d, heads)"], None, None),
    ],
)  # fmt: skip
def test_the_clauses_of_a_question(
    text: str, expressions: list[str], by: tuple[str, ...] | None, columns: set[str] | None
) -> None:
    """In any case, over lines, and with keywords that stand in quotes or brackets."""
    question = ask(text)
    assert question.verb == text.split()[0].lower()
    assert [typed for typed, _ in question.expressions] == expressions
    assert question.along == ("L" if question.verb == "fit" else None)
    assert (question.by, question.where and question.where.columns) == (by, columns)


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("min depth where acc > 0.9", "no column `depth`", "depth"),
        ("mim d where acc > 0.9", "did you mean min?", "mim"),
        ("min d where ac > 0.9", "did you mean acc", "ac >"),
        ("min d where accuracy > 0.9", "did you mean acc?", "accuracy"),
        ("min d where model = linear", "a text stands in quotes: 'linear'", "linear"),
        ("min d where linear = model", "a text stands in quotes: 'linear'", "linear"),
        ("min d where model in ('standard', linear)", "in quotes: 'linear'", "linear)"),
        ("min d where modle = 'linear'", "did you mean model", "modle"),
        ("min d by size, modle", "did you mean model", "modle"),
        ("min d by size + 1", "names of columns", "size + 1"),
        ("min d where acc > 0.9 by size", "then at most one `where`", "size"),
        ("min d by size by model", "at most one `by`", "model"),
        ("min d, heads where acc > 0.9", "one expression", "heads"),
        ("min where acc > 0.9", "missing", "where"),
        ("min d by size, where acc > 0.9", "missing", "where"),
        ("min d where acc > > 0.9", "syntax error", "> 0.9"),
        ("min d where é > 0.9", "no column `é`", "é"),
        ("min d where model = 'é' and é > 0.9", "no column `é`", "é >"),
        ("min (d, heads", "syntax error", None),
        ("frontier flops where acc > 0.9", "COST, SCORE", "flops"),
        ("least d where acc > 0.9", "a question is `min", "least"),
        ("fit d, L", "an expression and a column: EXPR ~ COL", "d, L"),
        ("fit d ~ L ~ size", "an expression and a column: EXPR ~ COL", "size"),
        ("fit d ~ L + 1", "names of columns", "L + 1"),
        ("fit d ~ M", "no column `M`", "M"),
        ("fit ~ L", "missing", "~"),
        ("", "a question is `min", None),
        ("min " + "(" * 5000 + "d" + ")" * 5000, "", None),
    ],
)
def test_errors_show_where(text: str, message: str, place: str | None) -> None:
    with pytest.raises(UserError) as caught:
        ask(text)
    assert message in str(caught.value)
    if place is not None:
        *_, shown, mark = str(caught.value).splitlines()
        assert shown == "  " + text
        assert shown[mark.index("^") :].startswith(place)


# Expressions


@pytest.mark.parametrize(
    "predicate",
    [
        "\udce9 > 1", "acc > (select 0.9)", "exists (select 1)", "d in (select d from cells)",
        "sum(d) > 1", "count(*) > 1", "row_number() over () = 1",
        "sum(d) over (partition by size) > 1", "list_filter([d], x -> x > 1) = [1]", "acc > ?",
        "acc > $1", "*", "columns('a.*') > 1", "cells.acc > 0.9", "acc > 0.9 as x",
        "acc > 0.9, d > 1", "acc > 0.9; select 1", "acc > 0.9 from cells",
        "acc > 0.9 union select true", "acc > 0.9 limit 1", "distinct d > 1",
        "true) from read_text('/etc/passwd') where (true", "read_text('/etc/passwd') = 'x'",
        "getenv('HOME') = 'x'", "current_setting('threads') = 1", "repeat(model, 1000000000) = 'x'",
        "nextval('x') > 1", "main.abs(d) > 1", "abs(distinct d) > 1", "abs(x := d) > 1",
        "d::blob = 'x'", "d::decimal(3, 1) = 1", "date '2020-01-01' = d", "{'a': d} = d", "[d] = d",
        "d[1] = 1", "x'00' = d",
    ],
)  # fmt: skip
def test_what_no_question_may_hold(predicate: str) -> None:
    with pytest.raises(UserError):
        condition(predicate)


def test_text_cannot_leave_its_quotes() -> None:
    text = "x'') OR {true} --"
    assert condition(f"model = '{text}'").sql() == f"(\"model\" = '{text}')"


NUMBERS = st.recursive(
    st.sampled_from(["d", "heads", "L", "acc", "-2", "0.5", ".5", "3", "1e2", "NULL"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/%"), inner).map(lambda t: f"{t[0]} {t[1]} {t[2]}"),
        inner.map(lambda a: f"({a})"),
        inner.map(lambda a: f"- {a}"),
        inner.map(lambda a: f"abs({a})"),
        st.tuples(inner, inner).map(lambda t: f"greatest({t[0]}, {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"coalesce({t[0]}, {t[1]}, 0)"),
        st.tuples(inner, inner).map(lambda t: f"CASE WHEN {t[0]} > 1 THEN {t[1]} ELSE 2 END"),
        inner.map(lambda a: f"CAST({a} AS DOUBLE)"),
    ),
    max_leaves=6,
)
COMPARISONS = st.one_of(
    st.tuples(NUMBERS, st.sampled_from(["<", "<=", "=", "==", "<>", "!=", ">", ">="]), NUMBERS).map(
        lambda t: f"{t[0]} {t[1]} {t[2]}"
    ),
    st.tuples(NUMBERS, NUMBERS, NUMBERS).map(lambda t: f"{t[0]} not between {t[1]} and {t[2]}"),
    st.tuples(NUMBERS, NUMBERS).map(lambda t: f"{t[0]} in ({t[1]}, 4)"),
    NUMBERS.map(lambda a: f"({a}) is not null"),
    st.tuples(NUMBERS, NUMBERS).map(lambda t: f"({t[0]}) is distinct from ({t[1]})"),
    st.sampled_from(["model like 's%'", "model not ilike '%A_'", "upper(model) = 'SPARSE'"]),
    st.sampled_from(["model || 'x' = 'sparsex'", "model in ('linear', 'it''s')", "not true"]),
)
PREDICATES = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
        inner.map(lambda a: f"not ({a})"),
    ),
    max_leaves=4,
)


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        ("acc > 90", "acc is a share from 0 to 1; did you mean 0.9?"),
        ("d = 8 or not 95 <= acc_min", "acc_min is a share from 0 to 1; did you mean 0.95?"),
        ("chain_acc between 0.5 and 50", "chain_acc is a share from 0 to 1; did you mean 0.5?"),
        ("acc in (0.5, 70)", "acc is a share from 0 to 1; did you mean 0.7?"),
        ("acc is distinct from 1_00", "acc is a share from 0 to 1; did you mean 1?"),
        ("acc > -0.1", "acc is a share from 0 to 1"),
        ("acc > - 90", "acc is a share from 0 to 1"),
        ("acc > 1.01", "acc is a share from 0 to 1"),
        ("acc < 1e400", "acc is a share from 0 to 1"),
    ],
)
def test_numbers_that_no_share_can_be_are_refused(predicate: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        condition(predicate)
    first, shown, mark = str(caught.value).splitlines()
    assert (first, shown) == (message, f"  min d where {predicate}")
    assert mark.index("^") >= shown.index(predicate)


@pytest.mark.parametrize(
    "predicate", ["acc > 0", "acc <= 1", "acc * 100 > 90", "loss > 90", "d > 90", "acc > d"]
)
def test_other_comparisons_of_scores_are_not(predicate: str) -> None:
    assert condition(predicate)


@settings(max_examples=150)
@given(PREDICATES)
def test_what_is_printed_means_what_was_typed(predicate: str) -> None:
    cells = """(VALUES (16, 2, 15, 0.75, 'sparse'), (3, -1, 8, NULL, 'linear'))
        AS cells (d, heads, "L", acc, model)"""
    try:
        sql = condition(predicate).sql()
    except UserError as error:
        assume("is a share" not in str(error))
        raise

    def found(condition: str) -> object:
        try:
            return duckdb.execute(f"SELECT {condition} FROM {cells}").fetchall()
        except duckdb.InvalidInputException:  # a division by zero
            return "no answer"

    assert found(sql) == found(predicate)


@pytest.mark.parametrize("name", ["order", "freeze", "left"])
@pytest.mark.parametrize("question", ["min {} + 1", "min d where {} = 1 and acc > 0.9"])
def test_a_column_that_sql_reserves_is_named_where_it_is_not_quoted(
    question: str, name: str
) -> None:
    with pytest.raises(UserError, match=f'as a column, write it in double quotes: "{name}"'):
        ask(question.format(name), name)
    ask(question.format(f'"{name}"'), name)


@pytest.mark.parametrize(
    "predicate", ["(acc > 0.9 model = 'x')", "model = 'order' d", "acc > 0.9 d order"]
)
def test_no_other_error_is_told_to_quote_a_column(predicate: str) -> None:
    with pytest.raises(UserError) as error:
        ask(f"min d where {predicate}", "order")
    assert "quotes" not in str(error.value)


# What conditions mean


@pytest.mark.parametrize(
    ("text", "falling"),
    [
        ("acc > 0.9", False), ("acc < 0.9", True), ("0.9 >= acc_min", True), ("loss < 0.1", False),
        ("loss_max >= 0.1", True), ("not acc > 0.9", True), ("not not acc > 0.9", False),
        ("acc < 0.9 and loss > 1 and d = 3", True), ("acc < 0.9 or loss < 1", False),
        ("acc < 0.9 and acc > 0.1", False), ("acc = 0.9", False), ("acc between 0 and 1", False),
        ("d < 3", False), ("acc < chain_acc", False),
    ],
)  # fmt: skip
def test_a_falling_condition_is_one_that_better_scores_can_only_end(
    text: str, falling: bool
) -> None:
    assert (trend(condition(text)) == -1) is falling


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("acc > 0.9", (0.9,)), ("0.9 < acc and d > 3", (0.9,)), ("acc between .5 and 1", (0.5, 1)),
        ("acc > 0.9 and (loss < 1 and acc <= 0.95)", (0.9, 0.95)), ("loss < 0.1", ()),
        ("acc > 0.9 or d > 3", ()), ("acc > d / 100", ()), ("acc_min > 0.9", ()),
        ("acc = '0.9'", ()), ("not acc <= 0.9", (0.9,)), ("not (d > 3 and acc > 0.9)", ()),
        ("not (d > 3 or acc < 0.9)", (0.9,)),
    ],
)  # fmt: skip
def test_the_thresholds_of_acc(text: str, found: tuple[float, ...]) -> None:
    assert thresholds(condition(text)) == found


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("not acc <= 0.9", "acc > 0.9"), ("not 0.9 >= acc", "0.9 < acc"),
        ("not not acc = 0.9", "acc = 0.9"), ("not acc <> 0.9", "acc = 0.9"),
        ("not d is distinct from 3", "d is not distinct from 3"),
        ("acc not between 0.1 and d", "acc < 0.1 or acc > d"),
        ("not (acc < 0.9 or not (d = 3 or loss >= 1))", "acc >= 0.9 and (d = 3 or loss >= 1)"),
    ],
)  # fmt: skip
def test_a_negated_condition_is_the_one_that_it_means(text: str, meant: str) -> None:
    assert condition(text) == condition(meant)


def test_conditions_come_apart_at_and_and_together_again() -> None:
    whole = condition("acc > 0.9 and (d > 3 and (loss < 1 or d < 9))")
    parts = conjuncts(whole)
    assert [part.sql() for part in parts] == [
        '("acc" > 0.9)', '("d" > 3)', '(("loss" < 1) OR ("d" < 9))'
    ]  # fmt: skip
    assert conjuncts(conjunction(parts)) == parts
    assert conjunction(parts[:1]) is parts[0]
    assert conjunction([]) is TRUE


@pytest.mark.parametrize("text", ["acc > 0.9", "loss <= 1e-05", "loss > -1.5", "chain_acc >= 1.0"])
def test_a_goal_is_the_condition_that_it_spells(text: str) -> None:
    goal = Goal.parse(text)
    assert str(goal) == text
    assert of_goal(goal, {}) == condition(text)
    assert goal_of(condition(text)) == goal
    assert goal_of(condition(f"not not {text}")) == goal
