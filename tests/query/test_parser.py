"""The grammar of questions: clauses, quotes, and errors that show their place. Any text at all is
either a question or a UserError. The examples of docs/query.md are questions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sweepd.errors import UserError
from sweepd.query.expressions import Column
from sweepd.query.parser import Question, parse
from sweepd.query.sandbox import sandbox

CON = sandbox()
COLUMNS = [
    "task",
    "model",
    "size",
    "L",
    "d",
    "heads",
    "flops",
    "train_flops",
    "acc",
    "chain_acc",
    "loss",
    "n",
    "by x",
]


def ask(text: str) -> Question:
    return parse(text, COLUMNS, {}, CON)


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
    assert question.expressions[0][1] == Column("d")
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


@settings(max_examples=300)
@given(st.one_of(st.text(), st.lists(PIECES).map(" ".join), st.lists(PIECES).map("".join)))
@example("\x1f?")  # a space to Python, an error to SQL
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
