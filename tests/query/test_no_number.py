"""What a score means that is no number (NaN or infinite): metrics in small files, which are read,
and in large ones, which DuckDB scans, give the counts of a plain Python twin. It meets no goal."""

import io
import math
import operator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from fake_store import FakeStore, now, planned
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.grid.options import Goal
from sweepd.query.answers import ask
from sweepd.query.cells_sql import measured
from sweepd.query.database import connect
from sweepd.search.seeds import Outcome
from sweepd.store import tables
from sweepd.store.schema import METRICS, TRIALS
from sweepd.store.store import Store

VALUES = st.sampled_from([None, 0.0, 0.5, 0.9, 1.0, -1.0, math.nan, math.inf, -math.inf])
COMPARISONS = {
    ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "=": operator.eq,
    "!=": operator.ne,
}  # fmt: skip


def ordered(value: float) -> tuple[bool, float]:
    """A number in the order of SQL, in which NaN is equal to itself and above all others."""
    return math.isnan(value), 0.0 if math.isnan(value) else value


def twin(rows: list[dict[str, Any]]) -> dict[str, int]:
    """How many rows fulfil each condition on the loss."""
    there = [row["loss"] for row in rows if row["loss"] is not None]
    counts = {"isnan(loss)": sum(map(math.isnan, there))}
    counts["NOT isnan(loss)"] = len(there) - counts["isnan(loss)"]
    counts["isfinite(loss)"] = sum(map(math.isfinite, there))
    for sign, compare in COMPARISONS.items():
        for number in (0.5, math.nan, math.inf):
            hits = sum(compare(ordered(value), ordered(number)) for value in there)
            counts[f"loss {sign} '{number}'::DOUBLE"] = hits
            counts[f"NOT (loss {sign} '{number}'::DOUBLE)"] = len(there) - hits
        hits = sum(math.isfinite(v) and compare(v, 0.5) for v in there)
        counts[f"{measured('loss')} {sign} 0.5"] = hits
    return counts


def as_before(table: Any) -> bytes:
    """A file as earlier versions wrote it: with the least and greatest value of each column."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="snappy", write_page_checksum=True, row_group_size=3)
    return sink.getvalue()


@settings(max_examples=15, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=12), st.booleans(), st.booleans())
def test_small_and_large_files_answer_as_plain_python(
    losses: list[float | None], large: bool, old: bool
) -> None:
    rows = [
        {"id": "aa", "attempt": 1000, "step": i, "loss": loss, "f1": loss, "seconds": 1.0}
        for i, loss in enumerate(losses)
    ]
    with (
        TemporaryDirectory() as folder,
        patch.object(tables, "SMALL_BYTES", -1 if large else 2**20),
    ):
        store = Store.create(folder)
        with patch.object(tables, "to_parquet", as_before if old else tables.to_parquet):
            store.write_metrics(rows)
        expected = twin(rows)
        counts = ", ".join(f"count(*) FILTER ({c}) AS c{i}" for i, c in enumerate(expected))
        views = connect(store, code="all", needed={"metrics"})
        [together] = views.sql(f"SELECT {counts} FROM metrics").rows
        assert list(together.values()) == list(expected.values())
        alone = " UNION ALL ".join(
            f"SELECT {i} AS i, count(*) AS n FROM metrics WHERE {c}" for i, c in enumerate(expected)
        )
        assert [r["n"] for r in views.sql(f"FROM ({alone}) ORDER BY i").rows] == [
            *expected.values()
        ]
        greatest = views.sql("SELECT loss FROM metrics ORDER BY loss DESC NULLS LAST LIMIT 1").rows
        there = [value for value in losses if value is not None]
        assert repr(greatest[0]["loss"]) == repr(max(there, key=ordered) if there else None)
        assert views.sql("SELECT count(*) AS n FROM metrics WHERE isnan(f1)").rows[0]["n"] == sum(
            map(math.isnan, there)
        )


@pytest.mark.parametrize("layout", [METRICS, TRIALS])
def test_files_have_no_least_and_greatest_value_of_floats(layout: Any) -> None:
    kinds = dict.fromkeys(layout.key, "x") | {"attempt": 1, "step": 1, "loss": math.nan}
    file = pq.ParquetFile(io.BytesIO(tables.to_parquet(layout.table([kinds]))))
    group = file.metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert not columns["loss"].is_stats_set
    assert columns["id"].is_stats_set  # by which a reader finds the rows of a trial


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_it_meets_no_goal(bad: float, tmp_path: Path) -> None:
    store, trials = FakeStore(), [planned(d=d, check_every=1) for d in (8, 16)]
    store.add_sweep("s", trials)
    for trial, end in zip(trials, (bad, 0.95), strict=True):
        steps = [(1, 0.1), (2, end)]
        store.steps += [
            {"id": trial["id"], "attempt": 1000, "step": s, "acc": acc, "train_flops": 10.0 * s}
            for s, acc in steps
        ]
        status = "completed" if math.isfinite(end) else "diverged"
        store.end(trial, status, step=2)
        store.endings[-1]["acc"] = end
    [row] = ask(store, "min flops_to_goal by d where d > 0 and acc > 0.9", code=now).rows
    assert (row["d"], row["value"]) == (16, 20.0)
    [row] = ask(store, "min d where acc > 0.9", code=now).rows
    assert row["value"] == 16


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("goal", ["acc > 0.9", "loss < 0.5", "f1 > 0.9"])
def test_searches_and_answers_take_such_a_score_for_unknown(bad: float, goal: str) -> None:
    asked = Goal.parse(goal)
    assert Outcome("completed", bad).ends(asked) == Outcome("completed").ends(asked)
    if asked.metric == "f1":
        return
    store, trial = FakeStore(), planned()
    store.add_sweep("s", [trial], goal=goal)
    store.end(trial, "completed")
    store.endings[-1][asked.metric] = bad
    [row] = ask(store, f"min d where {goal}", code=now).rows
    assert row["value"] is None and row["verdict"] == "open"


def test_arithmetic_that_gives_no_number_meets_no_condition() -> None:
    store, trial = FakeStore(), planned()
    store.add_sweep("s", [trial])
    store.end(trial, "completed", 0.0, loss=0.0)
    [row] = ask(store, "min d where loss / acc > 0.9", code=now).rows
    assert row["value"] is None
