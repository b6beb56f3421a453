"""Training FLOPs to reach the goal, as the metrics tell them. They are compared with a slow twin on
random histories, for each pass rule, and through checkpoints of other trials. They are read only
when a question asks for them."""

import statistics
from collections.abc import Sequence
from math import inf
from typing import Any

import pytest
from fake_store import FakeStore, now, planned
from hypothesis import given, settings
from hypothesis import strategies as st
from questions import ended

from sweepd.query.answers import answer, ask
from sweepd.query.database import connect

STEPS, CHECKS = 40, (10, 20, 30, 40)
FLOPS = 7.0
"""of one step"""


def trial(seed: int = 0, **axes: Any) -> dict[str, Any]:
    return planned(seed=seed, steps=STEPS, check_every=10, **axes)


def record(
    store: FakeStore,
    row: dict[str, Any],
    accs: Sequence[float | None],
    attempt: int = 1000,
    after: int = 0,
) -> None:
    """A row every 5 steps, with an accuracy at each check; the loss is what it lacks to 1."""
    for step in range(after + 5, STEPS + 1, 5):
        number = step // 10 - 1
        if step % 10 == 0 and number < len(accs):
            score = {"acc": accs[number], "loss": 1 - (accs[number] or 0)}
        elif (step + 5) // 10 - 1 < len(accs):
            score = {"loss": 0.0}  # between checks, a lucky batch
        else:
            break
        where = {"id": row["id"], "attempt": attempt, "step": step, "train_flops": FLOPS * step}
        store.steps.append({**where, "seconds": float(step), **score})


def completed(
    rows: Sequence[dict[str, Any]], *histories: Sequence[float], **info: Any
) -> FakeStore:
    """A store with a sweep of these trials, which ran to their ends, and their metrics."""
    scores = [{"acc": accs[-1], "loss": 1 - accs[-1], "step": STEPS} for accs in histories]
    store = ended(rows, *scores, **info)
    for row, accs in zip(rows, histories, strict=True):
        record(store, row, accs)
    return store


def reached(store: FakeStore, **choices: Any) -> list[float | None]:
    views = connect(store, code=now, **choices)
    return [row["flops_to_goal"] for row in views.sql("SELECT flops_to_goal FROM cells").rows]


HISTORY = st.tuples(
    st.sampled_from(["completed", "diverged", "stopped", "interrupted", "failed"]),
    st.lists(st.sampled_from([0.2, 0.5, 0.9, 0.91, 1.0]), min_size=4, max_size=4),
    st.integers(1, 4),
)
POOL: dict[str, Any] = {
    "median": statistics.median, "mean": statistics.mean, "all": max, "any": min
}  # fmt: skip


@settings(max_examples=6)
@given(st.lists(st.lists(HISTORY, min_size=3, max_size=3), min_size=6, max_size=6),
       st.sampled_from(list(POOL)))  # fmt: skip
def test_it_is_that_of_the_first_check_that_meets_the_goal(cells: Any, rule: str) -> None:
    store = FakeStore()
    rows = {(i, k): trial(k, d=8 * (i + 1)) for i in range(len(cells)) for k in range(3)}
    store.add_sweep("s", list(rows.values()), **{"pass": rule})
    expected = []
    for i, seeds in enumerate(cells):
        costs, open_ = [], False
        for k, (status, accs, checks) in enumerate(seeds):
            accs = accs if status == "completed" else accs[:checks]
            record(store, rows[i, k], accs)
            last = accs[-1] if status == "completed" else None
            store.end(rows[i, k], status, last, step=10 * len(accs))
            met = [10 * FLOPS * (j + 1) for j, acc in enumerate(accs) if acc > 0.9]
            never = status in ("completed", "diverged")
            costs += met[:1] or [inf] * never
            open_ = open_ or not (met or never)
        pooled = POOL[rule](costs) if costs else inf
        expected.append((None if pooled == inf else pooled, open_))
    assert reached(store) == [pytest.approx(cost) for cost, _ in expected]
    found = {
        row["d"]: row["value"]
        for row in ask(store, "min flops_to_goal by d where d > 0 and acc >= 0", code=now).rows
    }
    for i, (cost, open_) in enumerate(expected):
        if not open_:
            assert found.get(8 * (i + 1)) == pytest.approx(cost)


def test_the_same_views_answer_one_question_after_the_other() -> None:
    texts = "min d where acc > 0.9", "min flops_to_goal where acc > 0.9"
    store = completed([trial(d=d) for d in (8, 16)], (0.5,) * 4, (0.2, 0.95, 0.6, 0.95))
    views = connect(store, code=now)
    for text in (*texts, *texts):
        assert answer(views, text).rows == ask(store, text, code=now).rows
    assert answer(views, texts[1]).rows[0]["value"] == 140


def test_never_is_null_and_least_is_least() -> None:
    rows = [trial(d=d, lr=lr) for d in (8, 16, 32) for lr in ("0.1", "0.2")]
    histories = [(0.5,) * 4, (0.2, 0.95, 0.6, 0.5), (0.2, 0.3, 0.95, 0.96)]
    histories += [(0.2, 0.95, 0.95, 0.97), (0.95, 0.96, 0.97, 0.98), (0.5, 0.5, 0.5, 0.95)]
    store = completed(rows, *histories)
    assert reached(store) == [None, 140, 210, 140, 70, 280]
    [low, high] = ask(store, "min flops_to_goal where acc > 0.9", code=now).rows
    assert (low["lr"], low["value"], low["at"]) == ("0.1", 70, '{"d": 32}')
    assert (high["lr"], high["value"], high["fail"], high["verdict"]) == (
        "0.2", 140, None, "at most"
    )  # fmt: skip
    found = ask(store, "frontier flops_to_goal, acc", code=now)
    assert [(row["flops_to_goal"], row["d"]) for row in found.rows] == [(70, 32)]
    assert "left out: 1 cells for which an expression has no value yet" in found.notes
    found = ask(store, "min d where flops_to_goal < 100", code=now)
    told = [(row["value"], row["verdict"]) for row in found.rows]
    assert told == [(32, "exact"), (None, "above")]
    assert found.about == {"acc"}
    assert found.notes == []
    fitted = ask(store, "fit flops_to_goal ~ d where acc > 0.9", code=now)
    assert fitted.rows[0]["reason"] is not None


def test_goals_on_loss_are_read_at_checks() -> None:
    rows = [trial(d=8), trial(d=16)]
    store = completed(rows, (0.5, 0.85, 0.7, 0.9), (0.5,) * 4, goal="loss < 0.2")
    store.add_sweep("old", rows[:1], goal="acc > 0.1")
    store.infos = dict(reversed(store.infos.items()))  # the oldest comes first
    assert reached(store) == [140, None]
    assert reached(store, sweeps=["old"]) == [70]
    [row] = ask(store, "min flops_to_goal", code=now, sweeps=["s"]).rows
    assert (row["value"], row["verdict"], row["loss"]) == (140, "at most", pytest.approx(0.1))


def test_without_a_goal_that_metrics_can_tell_it_is_null() -> None:
    """What is no goal is refused where a sweep is read (tests/test_others_stores.py)."""
    store = completed([trial()], (0.95,) * 4, goal="perplexity < 3")
    assert reached(store) == [None]


def test_a_trial_shares_the_checks_of_those_it_continued() -> None:
    """The second starts at the first one's step 20, the third at the second one's step 30."""
    store = FakeStore()
    first, second, third = (trial(d=d) for d in (8, 16, 32))
    store.add_sweep("s", [third])
    record(store, first, (0.5, 0.95, 0.5, 0.95))
    record(store, second, (0.5, 0.5, 0.95, 0.95), after=20)
    record(store, third, (0.5, 0.5, 0.5, 0.95), attempt=2000, after=30)
    store.end(first, "completed", 0.95, step=STEPS)
    store.end(second, "completed", 0.95, step=STEPS, parent=first["id"])
    store.end(third, "interrupted", attempt=1000, parent=second["id"], step=30)
    store.end(third, "completed", 0.95, attempt=2000, parent=second["id"], step=STEPS)
    assert reached(store, sweeps=["s"]) == [140]
    store.steps = [row for row in store.steps if row["id"] != first["id"] or row["step"] > 20]
    assert reached(store, sweeps=["s"]) == [210], "not from what the first did later"
    # Two that continued each other's trunk at different times.
    store.end(first, "completed", 0.95, attempt=3000, parent=third["id"], step=STEPS)
    store.add_sweep("all", [first, second, third])
    assert reached(store)[1:] == [210, 210]


@pytest.mark.parametrize(
    ("accs", "status", "verdict"),
    [((0.5, 0.5, None), "diverged", "above"), ((0.5, 0.5), "completed", "open")],
)
def test_what_diverged_never_gets_there_and_what_was_not_recorded_may_have(
    accs: Sequence[float | None], status: str, verdict: str
) -> None:
    store = ended([trial()], None)
    record(store, trial(), accs)
    store.end(trial(), status, step=10 * len(accs) if status == "diverged" else STEPS)
    [row] = ask(store, "min d where flops_to_goal < 1e9", code=now).rows
    assert (row["verdict"], reached(store)) == (verdict, [None])


def test_metrics_are_read_for_questions_that_name_it_alone() -> None:
    store = completed([trial()], (0.95,) * 4)
    ask(store, "min d where acc > 0.9", code=now)
    views = connect(store, code=now)
    assert "flops_to_goal" not in views.sql("FROM cells").columns
    assert store.metrics_reads == 0
    assert ask(store, "min Flops_To_Goal", code=now).rows[0]["value"] == 70
    assert store.metrics_reads == 1
    assert views.sql("SELECT FLOPS_TO_GOAL FROM cells").rows == [{"flops_to_goal": 70}]
