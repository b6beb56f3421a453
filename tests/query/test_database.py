"""The views over a store: what each holds, whose trials count, and what `sql` refuses. A query
reaches nothing outside the tables. Real Parquet files are read, one of them damaged."""

from collections.abc import Set
from math import inf
from pathlib import Path
from typing import Any

import duckdb
import pytest
from fake_store import FakeStore, now, planned
from questions import ended

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.query.answers import ask
from sweepd.query.database import CELLS, VIEWS, Views, connect
from sweepd.store.storage import Damaged
from sweepd.store.store import Store


def one_cell(**info: Any) -> tuple[FakeStore, list[dict[str, Any]]]:
    """A store with one sweep of one cell, and its three trials."""
    store = FakeStore()
    trials = [planned(seed=seed) for seed in range(3)]
    store.add_sweep("s", trials, **info)
    return store, trials


def rows(views: Views, text: str) -> list[dict[str, Any]]:
    return views.sql(text).rows


@pytest.mark.parametrize("needed", [VIEWS, CELLS])
def test_settings_are_locked_before_anything_is_asked(needed: Set[str]) -> None:
    views = connect(one_cell()[0], code=now, needed=needed)
    [(threads,)] = views.connection.execute("SELECT current_setting('threads')").fetchall()
    assert needed == VIEWS or threads == 1, "so that Ctrl-C is noticed"
    with pytest.raises(duckdb.InvalidInputException, match="locked"):
        views.connection.execute("SET threads = 3")


def test_untried_cells_are_cells() -> None:
    store, _ = one_cell()
    [cell] = rows(connect(store, code=now), "FROM cells")
    assert (cell["task"], cell["model"], cell["size"], cell["L"], cell["d"]) == (
        ("lis", "standard", 8, 19, 16)
    )
    assert (cell["seeds"], cell["ended"], cell["acc"], cell["completed"]) == (3, 0, None, 0)
    assert (cell["params"], cell["pass"]) == (12 * 16 * 16, "median")
    assert cell["train_flops"] == 3000.0 * 24 * 16 * 16 * 19


def test_trials_from_before_a_field_are_of_the_cell_in_which_it_changes_nothing() -> None:
    store = FakeStore()
    old = [planned(seed=seed) for seed in range(2)]
    other = planned(model="linear")
    new = [planned(seed=2, later=0.5), planned(seed=2, later=0.75)]
    for trial in (*old, other, *new):
        store.end(trial, "completed", 0.95)
    store.add_sweep("old", [*old, other])
    store.add_sweep("new", new, neutral={"task": {}, "model": {"standard": {"later": 0.5}}})
    # A trial that no sweep plans any more, and what a damaged sweep may say.
    store.end(planned(seed=3), "completed", 0.95)
    broken = {"later": "x", "acc": 1.0, "nothing": 2, "d": [1]}
    store.add_sweep("broken", [], neutral={"task": {}, "model": {"standard": broken}})
    cells = rows(connect(store, code="all"), "SELECT model, later, seeds FROM cells ORDER BY ALL")
    assert [tuple(cell.values()) for cell in cells] == [
        ("linear", None, 1), ("standard", 0.5, 4), ("standard", 0.75, 1),
    ]  # fmt: skip
    [row] = ask(store, "min d where acc>0.9 and later=0.5", code="all").rows
    assert row["value"] == 16


def test_a_cell_counts_and_pools_its_trials() -> None:
    a = {"acc": 0.5, "loss": 0.25, "seconds": 2.0, "train_flops": 1.0}
    store = ended([planned(seed=seed) for seed in range(3)], a, "diverged", "failed")
    [cell] = rows(connect(store, code=now), "FROM cells")
    assert (cell["seeds"], cell["ended"]) == (3, 2)
    assert (cell["completed"], cell["diverged"], cell["failed"], cell["solved"]) == (1, 1, 1, 0)
    assert (cell["acc"], cell["acc_min"], cell["acc_max"]) == (0.25, 0.0, 0.5)
    assert (cell["loss"], cell["correct"], cell["total"], cell["seconds"]) == (inf, 50, 100, 2.0)
    assert cell["train_flops"] > 1.0, "planned, not spent"


@pytest.mark.parametrize(
    ("rule", "acc", "loss"),
    [("median", 0.5, 2.0), ("mean", 0.6, 3.0), ("all", 0.4, 6.0), ("any", 0.9, 1.0)],
)
def test_pass_rules_pool_scores(rule: str, acc: float, loss: float) -> None:
    scores = [{"acc": a, "loss": x} for a, x in ((0.9, 1.0), (0.4, 6.0), (0.5, 2.0))]
    store = ended([planned(seed=seed) for seed in range(3)], *scores, **{"pass": rule})
    [cell] = rows(connect(store, code=now), "FROM cells")
    assert (cell["acc"], cell["loss"]) == (pytest.approx(acc), loss)
    store.infos["s"]["pass"] = "median"
    [overridden] = rows(connect(store, code=now, seeds=rule), "FROM cells")
    assert overridden == cell


def test_the_median_of_an_even_count_is_the_middle_even_at_infinity() -> None:
    scores = ({"acc": acc, "loss": 1.0} for acc in (0.9, 0.7))
    store = ended([planned(seed=seed) for seed in range(4)], *scores, "diverged", "diverged")
    [cell] = rows(connect(store, code=now), "FROM cells")
    assert (cell["acc"], cell["loss"]) == (0.35, inf)


def test_the_latest_ending_is_the_trial() -> None:
    store, (a, *_) = one_cell()
    store.end(a, "completed", 0.8, attempt=2000)
    store.end(a, "failed", attempt=1001)
    store.end(a, "interrupted", attempt=1000)
    views = connect(store, code=now)
    assert len(rows(views, "FROM attempts")) == 3
    assert [row["status"] for row in rows(views, "FROM trials")] == ["completed"]
    assert rows(views, "SELECT completed, failed FROM cells") == [{"completed": 1, "failed": 0}]


def test_metrics_show_the_newest_attempt_of_each_step_and_are_read_when_asked_for() -> None:
    store, (a, *_) = one_cell()
    for attempt, steps in ((1000, (1, 2, 3)), (2000, (3, 4))):
        store.steps += [{"id": a["id"], "attempt": attempt, "step": step} for step in steps]
    views = connect(store, code=now, sweeps=["s"])
    assert rows(views, "SELECT count(*) AS n FROM trials") == [{"n": 0}]
    assert store.metrics_reads == 0
    found = rows(views, "SELECT step, attempt FROM Metrics ORDER BY step")
    assert [tuple(row.values()) for row in found] == [(1, 1000), (2, 1000), (3, 2000), (4, 2000)]
    assert store.metrics_reads == 1


def test_a_sweep_sees_what_it_planned_whoever_ran_it() -> None:
    store = FakeStore()
    shared, other = planned(d=16), planned(d=32)
    store.add_sweep("first", [shared])
    store.add_sweep("second", [shared, other], goal="acc > 0.5")
    store.end(shared, "completed", 0.9, sweep="first")
    store.end(other, "stopped", 0.1, sweep="second")
    second = connect(store, code=now, sweeps=["second"])
    assert len(rows(second, "FROM trials")) == 2
    assert len(rows(connect(store, code=now, sweeps=["first"]), "FROM trials")) == 1
    found = rows(connect(store, code=now), "FROM sweeps")
    assert [(r["name"], r["trials"], r["ended"], r["stopped"], r["goal"]) for r in found] == [
        ("first", 1, 1, 0, "acc > 0.9"),
        ("second", 2, 2, 1, "acc > 0.5"),
    ]


def test_of_some_sweeps_the_endings_of_other_sweeps_are_left_out() -> None:
    store = FakeStore()
    for name, d in (("one", 8), ("two", 16)):
        store.add_sweep(name, [planned(d=d)])
        store.end(planned(d=d), "completed", 0.5)
    store.end(planned(d=8), "interrupted", attempt=999)
    one = connect(store, code=now, sweeps=["one"])
    attempts = "SELECT d, attempt FROM attempts ORDER BY ALL"
    assert rows(one, attempts) == [{"d": 8, "attempt": 999}, {"d": 8, "attempt": 1000}]
    assert rows(one, "SELECT d, attempt FROM trials") == [{"d": 8, "attempt": 1000}]
    assert len(rows(connect(store, code=now), "FROM trials")) == 2


def test_what_a_question_does_not_need_is_not_read() -> None:
    store, (a, *_) = one_cell()
    store.end(a, "completed", 0.5)
    for needed, of_trials, of_plans in (({"trials"}, 1, 0), ({"metrics"}, 0, 0), (CELLS, 1, 3)):
        views = connect(store, code=now, needed=needed)
        assert rows(views, "SELECT count(*) AS n FROM trials") == [{"n": of_trials}]
        assert views.fetch("SELECT count(*) FROM raw.planned") == [(of_plans,)]


def test_the_newest_sweep_that_plans_a_cell_says_its_pass_rule() -> None:
    store = FakeStore()
    store.add_sweep("old", [planned(seed=0)], **{"pass": "all"})
    store.add_sweep("new", [planned(seed=1)], **{"pass": "any"})
    store.add_sweep("elsewhere", [planned(d=64)], **{"pass": "mean"})
    rule = "SELECT pass, seeds FROM cells WHERE d = 16"
    assert rows(connect(store, code=now), rule) == [{"pass": "any", "seeds": 2}]
    assert rows(connect(store, code=now, sweeps=["old"]), rule) == [{"pass": "all", "seeds": 1}]


def test_an_extra_seed_is_a_member_once_it_is_done() -> None:
    first, *extra = [planned(seed=seed) for seed in range(4)]
    store = ended([first, *extra], 0.9, None, None, None, extra_seeds=[1, 2, 3])
    members = "SELECT seeds, ended, completed, failed, interrupted, acc_min FROM cells"

    def found() -> tuple[Any, ...]:
        [cell] = rows(connect(store, code=now), members)
        return tuple(cell.values())

    assert found() == (1, 1, 1, 0, 0, 0.9)
    [sweep] = rows(connect(store, code=now), "SELECT trials, ended FROM sweeps")
    assert (sweep["trials"], sweep["ended"]) == (1, 1)
    store.end(extra[0], "failed")
    store.end(extra[1], "interrupted")
    assert found() == (1, 1, 1, 0, 0, 0.9)
    store.end(extra[0], "completed", 0.5, attempt=2000)
    store.end(extra[1], "stopped", 0.1, attempt=2000)
    assert found() == (3, 3, 2, 0, 0, 0.1)
    [sweep] = rows(connect(store, code=now, sweeps=["s"]), "SELECT trials, ended FROM sweeps")
    assert (sweep["trials"], sweep["ended"]) == (3, 3)


def test_an_extra_seed_that_another_code_ran_is_not_yet_a_member() -> None:
    store = ended([planned(seed=0), planned(seed=1)], 0.9, None, extra_seeds=[1])
    store.end(planned(seed=1, code="old"), "completed", 0.1)
    seeds = "SELECT seeds FROM cells"
    assert rows(connect(store, code=now), seeds) == [{"seeds": 1}]
    store.infos["s"]["accepted_for"] = {"old": ["now"]}
    assert rows(connect(store, code=now), seeds) == [{"seeds": 2}]


def test_a_seed_that_one_sweep_plans_outright_is_no_extra_of_that_cell() -> None:
    store = FakeStore()
    here, there = planned(seed=1), planned(d=64, seed=1)
    store.add_sweep("s", [planned(), here, planned(d=64), there], extra_seeds=[1])
    store.add_sweep("outright", [here])
    seeds = "SELECT d, seeds FROM cells ORDER BY d"
    assert [tuple(row.values()) for row in rows(connect(store, code=now), seeds)] == [
        (16, 2),
        (64, 1),
    ]
    alone = rows(connect(store, code=now, sweeps=["s"]), seeds)
    assert [row["seeds"] for row in alone] == [1, 1]


def test_a_field_may_be_named_like_a_column_of_sweeps() -> None:
    store = ended([planned(number=1, goal="x", extra_seeds=7)], None, **{"pass": "all"})
    assert rows(connect(store, code=now), "SELECT pass, number, goal FROM cells") == [
        {"pass": "all", "number": 1, "goal": "x"}
    ]


def test_trials_without_a_plan_are_cells_of_the_whole_store_only() -> None:
    store, _ = one_cell()
    store.end(planned(d=64), "completed", 0.9)
    assert rows(connect(store, code=now), "SELECT d, seeds, pass FROM cells ORDER BY d") == [
        {"d": 16, "seeds": 3, "pass": "median"},
        {"d": 64, "seeds": 1, "pass": "median"},
    ]
    assert rows(connect(store, code=now, sweeps=["s"]), "SELECT d FROM cells") == [{"d": 16}]


def test_trials_of_another_code_count_once_accepted() -> None:
    store, (a, b, _) = one_cell()
    store.end(planned(seed=0, code="old"), "completed", 0.7)
    store.end(b, "completed", 0.9)
    views = connect(store, code=now)
    assert rows(views, "SELECT ended, acc FROM cells") == [{"ended": 1, "acc": 0.9}]
    assert views.notes == ["left out: 1 trials that another code made (--code all)"]
    assert len(rows(views, "FROM trials")) == 2, "trials show their code"

    store.infos["s"]["accepted_for"] = {"old": ["now"]}
    views = connect(store, code=now)
    assert rows(views, "SELECT ended, acc FROM cells") == [{"ended": 2, "acc": 0.8}]
    assert views.notes == []

    store.end(a, "failed", attempt=5000)
    ended = "SELECT ended, failed FROM cells"
    assert rows(connect(store, code=now), ended) == [{"ended": 2, "failed": 0}]
    store.end(a, "completed", 0.3, attempt=6000)
    assert rows(connect(store, code=now), "SELECT acc_min FROM cells") == [{"acc_min": 0.3}]


def test_where_the_current_code_cannot_be_told_the_newest_ending_counts() -> None:
    store, (a, *_) = one_cell()
    store.end(planned(seed=0, code="old"), "completed", 0.7, attempt=1000)
    store.end(a, "completed", 0.6, attempt=2000)
    assert rows(connect(store, code=lambda *_: None), "SELECT acc FROM cells") == [{"acc": 0.6}]


def test_tasks_with_different_fields_share_the_columns() -> None:
    store = ended([planned(value_range=16), planned(model="sparse", c=1, lr=0.5)], None, None)
    found = rows(connect(store, code=now), "SELECT model, value_range, c, lr FROM cells ORDER BY 1")
    assert [tuple(row.values()) for row in found] == [
        ("sparse", None, 1, "0.5"),
        ("standard", 16, None, "0.01"),
    ]


def test_a_field_named_like_a_column_of_cells_is_refused_and_so_is_an_unknown_pass_rule() -> None:
    with pytest.raises(UserError, match="fields named seeds"):
        connect(ended([planned(seeds=3, d=16)], None), code=now)
    with pytest.raises(UserError, match="median, all, any, mean"):
        connect(one_cell()[0], code=now, seeds="best")


@pytest.fixture(scope="module")
def one() -> Views:
    """The views of one cell, which no text may change."""
    return connect(ended([planned()], 0.5), code=now)


def test_sql_reads(one: Views) -> None:
    select = ("SELECT * FROM trials", "WITH a AS (SELECT d FROM cells) SELECT * FROM a")
    for text in (*select, "FROM cells;", "DESCRIBE cells", "SHOW TABLES", "SUMMARIZE trials"):
        assert one.sql(text).columns and one.sql("VALUES (1)").rows == [{"col0": 1}]


def test_columns_of_one_name_stay_apart() -> None:
    answer = connect(one_cell()[0], code=now).sql("SELECT 1 AS a, 2 AS a, 3 AS a")
    assert answer.columns == ["a", "a:1", "a:1:1"]
    assert answer.rows == [{"a": 1, "a:1": 2, "a:1:1": 3}]


def test_a_damaged_sweep_is_named_and_skipped_unless_it_was_asked_for() -> None:
    class Broken(FakeStore):
        def load_sweep(self, name: str) -> Any:
            if name == "broken":
                raise EnvironmentFailure("sweep.json is damaged")
            return super().load_sweep(name)

        def readable_sweeps(self) -> Any:
            whole = {name: self.load_sweep(name) for name in self.infos if name != "broken"}
            return whole, (Damaged("broken", "sweep.json is damaged"),)

    store = Broken()
    store.add_sweep("broken", [])
    store.add_sweep("s", [planned()])
    views = connect(store, code=now)
    assert [file.reason for file in views.damaged] == ["sweep.json is damaged"]
    assert len(rows(views, "FROM cells")) == 1
    with pytest.raises(EnvironmentFailure):
        connect(store, code=now, sweeps=["broken"])
    with pytest.raises(UserError):
        connect(store, code=now, sweeps=["unknown"])


def test_an_empty_store_has_empty_views() -> None:
    views = connect(FakeStore(), code=now)
    for name in ("trials", "attempts", "metrics", "cells", "sweeps"):
        assert rows(views, f"SELECT count(*) AS n FROM {name}") == [{"n": 0}]


def test_a_damaged_file_of_trials_is_named_and_skipped(tmp_path: Path) -> None:
    store, fake = Store.create(str(tmp_path)), ended([planned(d=16), planned(d=32)], 0.5, 0.5)
    for ending in fake.endings:
        store.write_trials([ending])
    [_, victim] = (tmp_path / "trials").iterdir()
    victim.write_bytes(victim.read_bytes()[:-20])
    views = connect(store, code=now)
    assert [file.path for file in views.damaged] == [str(victim)]
    assert rows(views, "SELECT count(*) AS n FROM trials") == [{"n": 1}]


def test_two_sweeps_that_spell_one_name_in_two_ways_are_asked_one_at_a_time() -> None:
    store = FakeStore()
    first, second = planned(d=8, k=1), {**planned(d=16), "K": 2}
    for name, trial in (("one", first), ("two", second)):  # their endings lie in one file
        store.add_sweep(name, [trial])
        store.end(trial, "completed", 0.95, sweep=name)
    for sweeps in (None, ["one", "two"]):
        with pytest.raises(UserError, match=r"k and K: .* ask one sweep at a time"):
            ask(store, "min d", code=now, sweeps=sweeps)
    assert ask(store, "min d", code=now, sweeps=["one"]).rows[0]["value"] == 8


def test_a_field_that_is_null_throughout_stays_a_column_of_one_sweep_s_trials() -> None:
    views = connect(ended([planned(clip=None)], 0.95), code=now, sweeps=["s"])
    assert views.sql("SELECT clip FROM trials").rows == [{"clip": None}]
