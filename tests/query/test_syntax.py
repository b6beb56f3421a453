"""Expressions: what no question may hold, and which numbers no accuracy can have. An expression is
printed from its checked nodes, and this text means what was typed."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sweepd.errors import UserError
from sweepd.query.parser import parse
from sweepd.query.sandbox import sandbox

CON = sandbox()
COLUMNS = ["model", "L", "d", "heads", "acc", "acc_min", "chain_acc", "loss"]


def where(predicate: str) -> str:
    found = parse(f"min d where {predicate}", COLUMNS, {}, CON).where
    assert found is not None
    return found.sql()


@pytest.mark.parametrize(
    "predicate",
    [
        "acc > (select 0.9)",
        "exists (select 1)",
        "d in (select d from cells)",
        "sum(d) > 1",
        "count(*) > 1",
        "row_number() over () = 1",
        "sum(d) over (partition by size) > 1",
        "list_filter([d], x -> x > 1) = [1]",
        "acc > ?",
        "acc > $1",
        "*",
        "columns('a.*') > 1",
        "cells.acc > 0.9",
        "acc > 0.9 as x",
        "acc > 0.9, d > 1",
        "acc > 0.9; select 1",
        "acc > 0.9 from cells",
        "acc > 0.9 union select true",
        "acc > 0.9 limit 1",
        "distinct d > 1",
        "true) from read_text('/etc/passwd') where (true",
        "read_text('/etc/passwd') = 'x'",
        "getenv('HOME') = 'x'",
        "current_setting('threads') = 1",
        "repeat(model, 1000000000) = 'x'",
        "nextval('x') > 1",
        "main.abs(d) > 1",
        "abs(distinct d) > 1",
        "abs(x := d) > 1",
        "d::blob = 'x'",
        "d::decimal(3, 1) = 1",
        "date '2020-01-01' = d",
        "{'a': d} = d",
        "[d] = d",
        "d[1] = 1",
        "x'00' = d",
    ],
)
def test_what_no_question_may_hold(predicate: str) -> None:
    with pytest.raises(UserError):
        where(predicate)


def test_text_cannot_leave_its_quotes() -> None:
    text = "x'') OR {true} --"
    assert where(f"model = '{text}'") == f"(\"model\" = '{text}')"


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
        where(predicate)
    first, shown, mark = str(caught.value).splitlines()
    assert (first, shown) == (message, f"  min d where {predicate}")
    assert mark.index("^") >= shown.index(predicate)


@pytest.mark.parametrize(
    "predicate", ["acc > 0", "acc <= 1", "acc * 100 > 90", "loss > 90", "d > 90", "acc > d"]
)
def test_other_comparisons_of_scores_are_not(predicate: str) -> None:
    assert where(predicate)


@settings(max_examples=150)
@given(PREDICATES)
def test_what_is_printed_means_what_was_typed(predicate: str) -> None:
    cells = """(VALUES (16, 2, 15, 0.75, 'sparse'), (3, -1, 8, NULL, 'linear'))
        AS cells (d, heads, "L", acc, model)"""
    try:
        sql = where(predicate)
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
        parse(question.format(name), [*COLUMNS, name], {}, CON)
    parse(question.format(f'"{name}"'), [*COLUMNS, name], {}, CON)


@pytest.mark.parametrize(
    "predicate", ["(acc > 0.9 model = 'x')", "model = 'order' d", "acc > 0.9 d order"]
)
def test_no_other_error_is_told_to_quote_a_column(predicate: str) -> None:
    with pytest.raises(UserError) as error:
        parse(f"min d where {predicate}", [*COLUMNS, "order"], {}, CON)
    assert "quotes" not in str(error.value)
