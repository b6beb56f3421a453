"""Nuisance axes: `min`, `frontier` and `fit` take the best over them. They are compared with a
brute-force twin. The answer also says which value won, and whether it is at the edge of what was
tried."""

import itertools
import json
import statistics
from collections import defaultdict
from collections.abc import Callable
from math import inf
from typing import Any

import pytest
from fake_store import FakeStore, planned
from hypothesis import given, settings
from hypothesis import strategies as st
from questions import ended, question, ran
from twins import POOL, SEEDS, outcome

from sweepd.grid.axes import canonical


def rule(base: float, **more: float) -> str:
    """An lr rule as it is stored."""
    return canonical({"base": base, "at_d": 32, "power": -0.5, "max": 1e-2} | more)


RATES = {rule(5e-4): (5e-4, -0.5), rule(2e-3): (2e-3, -0.5), "0.001": (1e-3, 0.0)}
"""By stored value: the rate at d = 32, and its power of d / 32."""
WARMUPS = (0, 10, 100)
TUNE = ["train.lr", "train.warmup"]

Point = tuple[str, int, int, str, int]
"""model, size, d, lr, warmup"""
Cells = dict[tuple[str, int, int], dict[tuple[str, int], Any]]
"""By model, size and d: the seeds of each lr and warmup."""


def store_of(points: dict[Point, Any], **info: Any) -> FakeStore:
    """Each point's seeds ended as given (`questions.ended`)."""
    every = [
        planned(n, d, k, model, lr=lr, warmup=warmup)
        for (model, n, d, lr, warmup), seeds in points.items()
        for k in range(len(seeds))
    ]
    return ended(every, *itertools.chain(*points.values()), tune=TUNE, **info)


# The twin


def seen(seeds: Any, pool: str) -> float | None:
    """The accuracy that the seeds show, by the pass rule."""
    accs = [
        0.0 if seed[0] == "diverged" else seed[1]
        for seed in seeds
        if seed and seed[0] not in ("failed", "interrupted")
    ]
    pools: dict[str, Any] = {
        "median": statistics.median, "mean": statistics.mean, "all": min, "any": max
    }  # fmt: skip
    return pools[pool](accs) if accs else None


def cells_of(points: dict[Point, Any]) -> Cells:
    cells: Cells = defaultdict(dict)
    for (*cell, lr, warmup), seeds in points.items():
        cells[tuple(cell)][lr, warmup] = seeds  # type: ignore[index]
    return cells


def best_of(cell: dict[tuple[str, int], Any], pool: str, passes: bool) -> tuple[float, set[Any]]:
    """The best accuracy of the values that pass, else of all, and the values that have it."""
    accs = {
        value: acc
        for value, seeds in cell.items()
        if (acc := seen(seeds, pool)) is not None
        and (not passes or outcome(seeds, pool, lambda a: a > 0.9))
    }
    best = max(accs.values(), default=-inf)
    return best, {value for value, acc in accs.items() if acc == pytest.approx(best, abs=1e-12)}


def edges(cell: dict[tuple[str, int], Any], d: int, won: tuple[str, int], pool: str) -> str:
    tried = [value for value, seeds in cell.items() if seen(seeds, pool) is not None]

    def rate(lr: str) -> float:
        at_32, power = RATES[lr]
        scaled: float = at_32 * (d / 32) ** power
        return min(scaled, 1e-2)

    found = []
    for axis, place in (("lr", lambda v: rate(v[0])), ("warmup", lambda v: v[1])):
        places = sorted({place(value) for value in tried})
        if len(places) > 1 and place(won) in (places[0], places[-1]):
            found.append(axis)
    return ",".join(found)


MODELS = ("a", "b", "c", "d", "e", "f")
"""Each asks another question of the same store: stores take longer to read than to judge."""
POINTS = st.sets(
    st.sampled_from(list(itertools.product((6, 8), (8, 32), RATES, WARMUPS))), min_size=1
)


def drawn(data: st.DataObject, seeds: int) -> dict[Point, Any]:
    seeds_of = st.lists(SEEDS, min_size=seeds, max_size=seeds)
    return {
        (model, *point): data.draw(seeds_of)
        for model in MODELS
        for point in sorted(data.draw(POINTS))
    }


@settings(max_examples=8)
@given(st.data(), st.sampled_from(list(POOL)), st.integers(1, 2))
def test_min_is_the_slow_twin_s(data: st.DataObject, pool: str, count: int) -> None:
    points = drawn(data, count)
    cells = cells_of(points)
    answer = question(store_of(points, **{"pass": pool}), "min d where acc > 0.9")
    single = {
        key: {value: outcome(seeds, pool, lambda a: a > 0.9) for value, seeds in cell.items()}
        for key, cell in cells.items()
    }
    together = {
        key: True if True in said.values() else None if None in said.values() else False
        for key, said in single.items()
    }
    begun = [key for key, cell in cells.items() if any(map(any, cell.values()))]
    unfinished = [together[key] for key in begun].count(None)
    said = f"unfinished: {unfinished} of {len(cells)} cells"
    assert any(note.startswith(said) for note in answer.notes) == bool(unfinished)
    sizes = {(row["model"], row["size"]) for row in answer.rows}
    assert sizes == {(model, n) for model, n, _ in cells} and len(sizes) == len(answer.rows)
    for row in answer.rows:
        line = {d: key for key in cells if key[:2] == (row["model"], row["size"]) for d in key[2:]}
        ds = sorted(line)
        # What failed at a smaller size fails here if it failed there with all values tried here.
        failed = {
            d
            for d, (model, n, _) in line.items()
            if together[line[d]] is False
            or (
                n > 6
                and all(
                    single.get((model, 6, d), {}).get(value) is False for value in cells[line[d]]
                )
            )
        }
        passed = [d for d in ds if together[line[d]]]
        assert row["value"] == min(passed, default=None)
        smaller = [d for d in ds if not passed or d < passed[0]]
        assert row["fail"] == max(failed.intersection(smaller), default=None)
        if not passed:
            assert row["verdict"] == ("above" if ds[-1] in failed else "open")
        tried = [d for d in ds if any(any(seeds) for seeds in cells[line[d]].values())]
        shown = row["value"] or (tried or ds)[-1]
        acc, winners = best_of(cells[line[shown]], pool, bool(passed))
        if not winners:
            assert (row["at"], row["edge"], row["acc"]) == (None, None, None)
            continue
        assert row["acc"] == pytest.approx(acc)
        at = {"lr": min(RATES), "warmup": min(WARMUPS)} | json.loads(row["at"])
        won = (at["lr"], at["warmup"])
        if json.loads(row["at"]).keys() == {"lr", "warmup"}:
            assert won in winners
            assert row["edge"] == edges(cells[line[shown]], shown, won, pool)


@settings(max_examples=8)
@given(st.data())
def test_the_frontier_is_the_slow_twin_s(data: st.DataObject) -> None:
    points = drawn(data, seeds=1)
    answer = question(store_of(points), "frontier d, acc")
    settled = {}
    for key, cell in cells_of(points).items():
        ran_on = {v: seeds for v, seeds in cell.items() if seeds[0] and seeds[0][0] != "stopped"}
        acc, winners = best_of(ran_on, "median", passes=False)
        if winners:
            settled[key] = acc
    expected = {
        (*key, acc)
        for key, acc in settled.items()
        if not any(
            other[:2] == key[:2] and other[2] <= key[2] and o >= acc and (other, o) != (key, acc)
            for other, o in settled.items()
        )
    }
    found = [(row["model"], row["size"], row["d"], row["acc"]) for row in answer.rows]
    assert set(found) == expected and len(found) == len(expected)


@settings(max_examples=3)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(MODELS), st.just(8), st.sampled_from([8, 16, 32])).flatmap(
            lambda cell: st.sampled_from(list(RATES)).map(lambda lr: (*cell, lr, 0))
        ),
        st.sampled_from([0.2, 0.5, 0.9, 0.95, 1.0]),
        min_size=10,
    )
)
def test_conditions_are_about_the_best_value(points: dict[Point, float]) -> None:
    """This also holds for conditions that ask for a bad score."""
    store = store_of({point: [("completed", acc)] for point, acc in points.items()})
    best: dict[tuple[str, int], float] = {}
    for (model, _, d, _, _), acc in points.items():
        best[model, d] = max(best.get((model, d), 0), acc)
    conditions: dict[str, Callable[[float], bool]] = {
        "acc > 0.9": lambda acc: acc > 0.9,
        "acc < 0.5": lambda acc: acc < 0.5,
        "not acc >= 0.9": lambda acc: acc < 0.9,
        "acc <= 0.9 or acc < 0.3": lambda acc: acc <= 0.9,
        "acc_max < 0.95 and d > 0": lambda acc: acc < 0.95,
        "not (acc < 0.9 or acc < 0.95)": lambda acc: acc >= 0.95,
    }
    for text, holds in conditions.items():
        for row in question(store, f"min d where {text}").rows:
            passing = [d for (model, d), a in best.items() if model == row["model"] and holds(a)]
            assert row["value"] == min(passing, default=None), text


def test_conditions_on_loss_that_ask_for_a_bad_one() -> None:
    trials = [planned(d=d, lr=lr) for d in (8, 16) for lr in ("0.1", "0.2")]
    store = ended(trials, *({"loss": loss} for loss in (0.1, 0.9, 0.8, 0.9)), tune=["train.lr"])
    for text, value in {"loss > 0.5": 16, "loss < 0.5": 8, "loss between 0.7 and 0.85": 16}.items():
        [row] = question(store, f"min d where {text}").rows
        assert row["value"] == value


def test_one_value_must_meet_the_whole_condition() -> None:
    scores = {"acc": 0.95, "loss": 0.5}, {"acc": 0.5, "loss": 0.1}
    store = ended([planned(lr=lr) for lr in ("0.1", "0.2")], *scores, tune=["train.lr"])
    [row] = question(store, "min d where acc > 0.9 and loss < 0.2").rows
    assert row["verdict"] == "above"


def test_a_fit_counts_what_fails_at_every_rate_and_what_passes_at_the_good_ones() -> None:
    """Where one rate passes, fails at the others say nothing of the width."""
    good = {n: str(0.1 * n) for n in (8, 16, 32, 64)}
    trials = [
        planned(n, d, lr=lr) for n in good for d in (8, 16, 32, 64, 128) for lr in good.values()
    ]
    winners = [one for one in trials if one["lr"] == good[one["n"]]]

    def acc(one: dict[str, Any]) -> float:
        return 0.95 if one in winners and one["d"] >= 2 * one["n"] else 0.5

    tuned, best = ran(trials, acc, tune=["train.lr"]), ran(winners, acc)
    text = "fit d ~ L where acc > 0.9"
    answer = question(tuned, text)
    for row in (*answer.rows, *question(best, text).rows):
        assert row["exponent"] == pytest.approx(1, abs=0.3)
    [note] = [note for note in answer.notes if note.startswith("edge")]
    assert "in 6 of the 8 cells that decide (4 of them failed)" in note
    by_lr = question(tuned, text.replace("where", "by lr where"))
    assert len(by_lr.rows) == 4 and not any(note.startswith("edge") for note in by_lr.notes)


# Which value won, and where it lies

LADDER = [rule(base) for base in (1e-3, 2e-3, 4e-3)]


def one_cell(accs: dict[Any, float], axis: str = "lr", d: int = 32) -> FakeStore:
    trials = [planned(d=d, **{axis: value}) for value in accs]
    return ended(trials, *accs.values(), tune=[f"train.{axis}"])


@pytest.mark.parametrize(
    ("axis", "values", "accs", "edge"),
    [
        ("lr", LADDER, (0.95, 0.97, 0.96), ""),
        ("lr", LADDER, (0.98, 0.97, 0.96), "lr"),
        ("lr", LADDER, (0.2, 0.3, 0.4), "lr"),
        ("lr", LADDER[:1], (0.95,), ""),
        ("lr", ["0.001", rule(2e-3), "0.004"], (0.95, 0.97, 0.96), ""),
        ("lr", [rule(1e-3), rule(2e-3, power=0.0), rule(9e-4)], (0.97, 0.95, 0.96), ""),
        ("lr", [rule(1e-3), rule(5e-2), rule(8e-2)], (0.95, 0.97, 0.96), "lr"),  # max: one rate
        ("lr", [0.001, 0.002, 0.004], (0.95, 0.97, 0.96), ""),
        ("warmup", [10, 9, 100], (0.95, 0.97, 0.96), "warmup"),
        ("warmup", [None, 10, 100], (0.95, 0.97, 0.96), ""),
        ("schedule", ["cosine", "linear", "wsd"], (0.97, 0.95, 0.96), ""),
        ("schedule", ["[]", "{}", '{"base": -1}'], (0.97, 0.95, 0.96), ""),
        ("bias", [False, True], (0.97, 0.95), ""),
    ],
)  # fmt: skip
def test_the_edge(axis: str, values: list[Any], accs: tuple[float, ...], edge: str) -> None:
    scores = dict(zip(values, accs, strict=True))
    answer = question(one_cell(scores, axis), "min d where acc > 0.9")
    [row] = answer.rows
    won = max(values, key=scores.__getitem__)
    assert row["acc"] == scores[won]
    if len(values) > 1:
        assert json.loads(row["at"]).get(axis) == won
    assert row["edge"] == edge
    notes = [note for note in answer.notes if note.startswith("edge")]
    failed = sum(row["value"] is None for row in answer.rows)
    assert notes == [
        f"edge: the best {axis} is at the edge of its tried range in 1 of the 1 cells that decide "
        f"({failed} of them failed): try a wider range"
    ] * bool(edge)
    [row] = question(one_cell(scores, axis), "frontier d, acc").rows
    assert (row["acc"], row["edge"]) == (scores[won], edge)


def test_values_that_nobody_tried_are_no_range() -> None:
    store = one_cell(dict.fromkeys(LADDER, 0.95))
    store.endings = store.endings[1:2]
    [row] = question(store, "min d where acc > 0.9").rows
    assert (json.loads(row["at"]), row["edge"]) == ({"lr": LADDER[1]}, "")
    store.endings = []
    [row] = question(store, "min d where acc > 0.9").rows
    assert (row["verdict"], row["at"], row["edge"]) == ("open", None, None)
    store.end(planned(d=32, lr=LADDER[1]), "failed")
    store.add_sweep("smaller", [planned(d=16, lr=value) for value in LADDER], tune=["train.lr"])
    store.end(planned(d=16, lr=LADDER[1]), "completed", 0.5)
    [row] = question(store, "min d where acc > 0.9").rows
    assert (row["verdict"], row["acc"], row["at"], row["edge"]) == ("open", None, None, None)


def test_a_cell_fails_once_all_its_values_have() -> None:
    points: dict[Point, Any] = {
        ("a", 8, d, lr, 0): [("completed", 0.5)] for d in (8, 16) for lr in RATES
    }
    store = store_of(points)
    assert question(store, "min d where acc > 0.9").rows[0]["verdict"] == "above"
    del store.endings[-1]
    answer = question(store, "min d where acc > 0.9")
    assert (answer.rows[0]["verdict"], answer.rows[0]["fail"]) == ("open", 8)
    assert "unfinished: 1 of 2 cells" in answer.notes
    answer = question(store, "frontier d, acc")
    assert answer.rows[0]["d"] == 8 and not any("partial" in note for note in answer.notes)
    store.endings = store.endings[1:2]
    answer = question(store, "frontier d, acc")
    assert any("partial: 1 of 1 cells" in note for note in answer.notes)


def test_an_axis_that_the_question_names_is_no_nuisance() -> None:
    scores = {"0.001": 0.95, "0.002": 0.5, "0.004": 0.97}
    store = one_cell(scores)
    rows = question(store, "min d by lr where acc > 0.9").rows
    assert [row["value"] for row in rows] == [32, None, 32]
    where = question(store, "min d where acc > 0.9 and lr <> '0.004'").rows[0]
    assert (where["acc"], where["edge"], json.loads(where["at"])) == (0.95, "lr", {"lr": "0.001"})
    [row] = question(store, "min cast(lr as double) where acc > 0.9").rows
    assert (row["value"], row["verdict"], row["edge"]) == (0.001, "not monotone", "")


def test_a_cost_that_depends_on_a_nuisance_axis_is_still_a_cost() -> None:
    trials = [planned(steps=steps) | {"train_flops": 10.0 * steps} for steps in (1, 2, 3)]
    store = ended(trials, 0.5, 0.95, 0.97, tune=["train.steps"])
    [row] = question(store, "min train_flops where acc > 0.9").rows
    assert (row["value"], row["fail"], row["verdict"]) == (20.0, 10.0, "exact")
    rows = question(store, "frontier train_flops, acc").rows
    assert [row["train_flops"] for row in rows] == [10, 20, 30]
    [row] = question(store, "min d where acc > 0.9").rows
    assert (row["acc"], row["edge"]) == (0.97, "steps")
