"""Each score that README.md or a page of results/ prints is a row that is committed beside it, or
the mean of the seeds of one cell. Each answer that it shows is that of the store beside it."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import inprocess
import pytest
from pages import ROOT

SCORE = re.compile(r"(?<![\d.])\.\d{3}(?!\d)")
PAGES = [ROOT / "README.md", *sorted((ROOT / "results").glob("*/README.md"))]
WITH_ROWS = (
    "README.md",
    "horizon",
    "lengths",
    "mini",
    "p2",
    "questions",
    "quickstart",
    "trained_on",
)


def scores(folder: Path) -> set[str]:
    """The accuracies and losses of a folder of results, and the means of the seeds of its cells,
    as pages print them."""
    tables = [f"read_csv('{path}')" for path in sorted(folder.rglob("*.csv"))]
    tables += [f"read_parquet('{path}')" for path in sorted(folder.rglob("trials/*.parquet"))]
    found: set[float] = set()
    for table in tables:
        columns = [row[0] for row in duckdb.execute(f"DESCRIBE FROM {table}").fetchall()]
        cell = [n for n in ("task", "model", "n", "size", "d", "lr", "steps") if n in columns]
        for score in {"acc", "loss", "chain_acc"}.intersection(columns):
            value = f"TRY_CAST({score} AS DOUBLE)"
            rows = duckdb.execute(f"SELECT {value} FROM {table}").fetchall()
            if cell:
                by = ", ".join(cell)
                means = f"SELECT avg({value}) FROM {table} GROUP BY {by}"
                rows += duckdb.execute(means).fetchall()
            found |= {one for (one,) in rows if one is not None}
    # A score in the middle between two may be printed either way.
    ends = [f"{one + up:.3f}" for one in found for up in (-1e-9, 1e-9)]
    return {one.removeprefix("0") for one in ends}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_each_score_of_a_page_is_a_row_beside_it(page: Path) -> None:
    text = page.read_text()
    printed = set(SCORE.findall(text))
    linked = {
        page.parent,
        *(ROOT / "results" / name for name in re.findall(r"\(\.\./(\w+)\)", text)),
    }
    if page.parent == ROOT:
        linked = {ROOT / "results" / name for name in re.findall(r"\(results/(\w+)\)", text)}
    known = set().union(*map(scores, linked))
    assert page.parent.name not in WITH_ROWS or known
    if known:
        assert not printed - known, f"no row has these: {sorted(printed - known)}"


@pytest.mark.parametrize("page", [p for p in PAGES if any(p.parent.glob("*/sweepd-store.json"))])
def test_each_answer_of_a_page_is_that_of_the_store_beside_it(page: Path) -> None:
    text, shown = page.read_text(), 0
    for store in page.parent.glob("*/sweepd-store.json"):
        question = ("query", "min d where acc>0.9", "--code", "all")
        answer = inprocess.sweepd(*question, "--results", str(store.parent)).out
        table = answer.partition("\n")[2].partition("\n≤")[0]
        shown += table in text
    assert shown == text.count('sweepd query "min d where acc>0.9" --code all')
