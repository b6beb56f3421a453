"""Which ending of a trial counts, and how the trials of a sweep stand. Both are compared with slow
twins, and with the views `trials` and `sweeps`, of which the latter says the same in SQL. Covers
`statuses.py`."""

from collections import Counter
from typing import Any

from fake_store import FakeStore, now, planned
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.query.database import connect
from sweepd.statuses import DONE, RAN, STATUSES, UNTRIED
from sweepd.store.endings import count_trials, counting

ENDINGS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 9), st.sampled_from(STATUSES)),
    unique_by=lambda ending: ending[:2],
)
"""Which of six trials, which attempt, and how it ended."""


def row(trial: int) -> dict[str, Any]:
    return planned(d=8 << (trial // 3), seed=trial % 3)


def counted(rows: list[dict[str, Any]], id: Any) -> dict[str, Any]:
    """The ending that counts of one trial, slowly."""
    own = sorted((r for r in rows if r["id"] == id), key=lambda r: r["attempt"])
    return next((r for r in reversed(own) if r["status"] in RAN), own[-1])


@settings(max_examples=20)
@given(ENDINGS, st.sets(st.integers(0, 2)), st.sets(st.integers(0, 5)), st.integers(0, 6))
def test_the_views_say_the_same(
    endings: Any, extra: set[int], on_demand: set[int], shared: int
) -> None:
    """Two sweeps share some trials; one keeps seeds for close calls, and some trials on demand."""
    store = FakeStore()
    trials = [row(i) for i in range(6)]
    store.add_sweep("a", trials[:shared])
    mine = [trial | {"on_demand": i in on_demand} for i, trial in enumerate(trials)]
    store.add_sweep("b", mine, extra_seeds=sorted(extra))
    for i, attempt, status in endings:
        store.end(trials[i], status, attempt=attempt)
    views = connect(store, code=now)
    plan, ended = store.read_plans(None).table, store.read_trials().table
    slow = {row(i)["id"]: counted(ended.to_pylist(), row(i)["id"]) for i, _, _ in endings}
    assert {one["id"]: one for one in counting(ended).to_pylist()} == slow
    assert sorted(views.fetch("SELECT id, attempt FROM trials")) == sorted(
        (found["id"], found["attempt"]) for found in counting(ended).to_pylist()
    )
    counts = count_trials(plan, ended, {"a": (), "b": extra})
    shown = {sweep["name"]: sweep for sweep in views.sql("FROM sweeps").rows}
    assert list(shown) == ["a", "b"]
    for name, said in counts.items():
        assert {status: shown[name][status] for status in STATUSES} == {
            status: said[status] for status in STATUSES
        }
        assert shown[name]["trials"] == said.total()
        assert shown[name]["ended"] == sum(said[status] for status in DONE)
        assert set(said) <= {*STATUSES, UNTRIED}

    rows = [{"id": i, "attempt": attempt, "status": how} for i, attempt, how in endings]
    how = {i: counted(rows, i)["status"] for i, _, _ in endings}
    expected = [i for i in range(6) if i in how or not (i in on_demand or i % 3 in extra)]
    assert counts["b"] == Counter(how.get(i, UNTRIED) for i in expected)
