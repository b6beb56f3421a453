"""Questions' grammar: clauses, quotes, errors that show their place; what is refused; that what
is printed from the checked syntax tree means what was typed; that any text at all is either a
question or a UserError; and that the examples of docs/query.md are questions."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.errors import UserError
from sweepd.query.parser import Question, parse, parse_predicate

COLUMNS = ["task", "model", "size", "L", "d", "heads", "flops", "acc", "chain_acc", "loss", "by x"]


def ask(text: str) -> Question:
    return parse(text, COLUMNS)


def where(predicate: str) -> str:
    return parse_predicate(predicate, COLUMNS).sql()


def test_the_clauses_of_min() -> None:
    question = ask("min d * heads by size, model where acc > 0.9 and model = 'sparse'")
    assert question.verb == "min"
    assert [text for text, _ in question.expressions] == ["d * heads"]
    assert question.by == ("size", "model")
    assert question.where is not None
    assert question.where.columns == {"acc", "model"}


def test_the_clauses_of_frontier() -> None:
    question = ask("frontier flops / 1e9, greatest(acc, chain_acc) per task")
    assert [text for text, _ in question.expressions] == ["flops / 1e9", "greatest(acc, chain_acc)"]
    assert question.by == ("task",)
    assert question.where is None


def test_the_clauses_of_fit() -> None:
    question = ask("fit flops / heads ~ l by model where acc > 0.9 and model ~~ 's%'")
    assert (question.verb, question.along, question.by) == ("fit", "L", ("model",))
    assert [text for text, _ in question.expressions] == ["flops / heads"]
    assert question.where is not None
    assert question.where.columns == {"acc", "model"}
    assert ask("min d where acc > 0.9").along is None


def test_keywords_and_names_in_any_case_and_over_lines() -> None:
    question = ask("MIN D\n  Per SIZE, l\n  WHERE Acc > .9 ")
    assert question.expressions[0][1].column == "d"
    assert question.by == ("size", "L")


def test_keywords_inside_quotes_and_brackets_are_not_clauses() -> None:
    question = ask("""min d where model = ' by x where '' per ' and "by x" = 1""")
    assert question.by is None
    assert question.where is not None
    assert question.where.columns == {"model", "by x"}
    assert ask("min greatest(d, heads)").expressions[0][1].columns == {"d", "heads"}


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("min depth where acc > 0.9", "no column `depth`", "depth"),
        ("min d where ac > 0.9", "did you mean acc", "ac >"),
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


@settings(max_examples=150, deadline=None)
@given(PREDICATES)
def test_what_is_printed_means_what_was_typed(predicate: str) -> None:
    cells = """(VALUES (16, 2, 15, 0.75, 'sparse'), (3, -1, 8, NULL, 'linear'))
        AS cells (d, heads, "L", acc, model)"""
    sql = where(predicate)
    found = duckdb.sql(f"SELECT {sql} FROM {cells}").fetchall()
    assert found == duckdb.sql(f"SELECT {predicate} FROM {cells}").fetchall()


WORDS = [
    *COLUMNS,
    "min",
    "frontier",
    "fit",
    "by",
    "per",
    "where",
    "and",
    "not",
    "in",
    "select",
    "from",
]
PIECES = st.one_of(
    st.sampled_from([*WORDS, *"()[]{},;'\"*+-/=<>!$?:.|\\\n", "--", "/*", "*/", "$$", "{}", "0.9"]),
    st.text(max_size=4),
    st.characters(),
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES).map(" ".join), st.lists(PIECES).map("".join)))
def test_any_text_is_a_question_or_a_user_error(text: str) -> None:
    for start in ("", "min ", "frontier flops, ", "fit d ~ ", "min d where "):
        try:
            question = ask(start + text)
        except UserError:
            continue
        assert all(node.columns <= set(COLUMNS) for _, node in question.expressions)


def test_the_examples_of_the_page_are_questions() -> None:
    page = (Path(__file__).parents[2] / "docs" / "query.md").read_text()
    examples = re.findall(r'sweepd query "(min|frontier|fit)( [^"]+)"', page)
    assert {verb for verb, _ in examples} == {"min", "frontier", "fit"}
    for verb, rest in examples:
        assert ask(verb + rest).verb == verb


def test_lone_surrogates_are_a_user_error() -> None:
    with pytest.raises(UserError):
        ask("min d where \udce9 > 1")


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
    assert parse_predicate(text, [*COLUMNS, "acc_min", "loss_max"]).falling is falling
