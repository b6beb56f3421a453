"""The paper's claims, judged on synthetic stores: what speaks for them, what against, and that only
what agrees in all settings is compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fake_store import FakeStore, Row, now
from questions import SIZE_FIELDS, planned_on

from sweepd.query.claims import COLUMNS as CLAIM_COLUMNS
from sweepd.query.claims import claims
from sweepd.query.paper import Measured

SPARSE = "sparse needs a larger d than standard"
LINEAR = "linear needs a larger d than standard"
SPARSE_GROWS = "min d of sparse grows with the size"
LINEAR_GROWS = "min d of linear grows with the size"
LOCALITY = "min d grows faster on less local tasks: lis > edit_distance > ed_local"
IMPERFECT = "sparse does not reach 100% on lis with n from 40"
ENOUGH = "standard manages every size with d up to 256"
DEPTH = "5 layers are like 3 on edit_distance"


def store_of(needs: Mapping[tuple[str, str, int], float], **axes: Any) -> FakeStore:
    """A store in which each (task, model, size) needs its own d to pass, of 8 to 1024."""
    store = FakeStore()
    trials = {
        (*key, d): planned_on(key[0], key[2], d, key[1], **axes)
        for key in needs
        for d in (8, 16, 32, 64, 128, 256, 512, 1024)
    }
    store.add_sweep("s", list(trials.values()), size_fields=SIZE_FIELDS)
    for (*key, d), row in trials.items():
        store.end(row, "completed", 0.95 if d >= needs[tuple(key)] else 0.5)  # type: ignore[index]
    return store


def judged(store: FakeStore) -> dict[str, Row]:
    return {row["claim"]: row for row in claims(Measured(store, now))}


def statuses(store: FakeStore) -> dict[str, str]:
    return {claim: row["status"] for claim, row in judged(store).items()}


def test_nothing_is_judged_by_nothing() -> None:
    empty = FakeStore()
    lis_alone = store_of({("lis", "linear", 8): 16})
    for measured in (Measured(None, "all"), Measured(empty, now), Measured(lis_alone, now)):
        rows = claims(measured)
        assert len(rows) == 8
        for row in rows:
            assert tuple(row) == CLAIM_COLUMNS
            assert (row["status"], row["evidence"]) == ("not measured", "no two cells to compare")


def test_who_needs_more_and_what_grows() -> None:
    found = judged(
        store_of(
            {
                ("lis", "standard", 8): 16, ("lis", "standard", 12): 32,
                ("lis", "linear", 8): 64, ("lis", "linear", 12): 2000,
                ("lis", "sparse", 8): 16, ("lis", "sparse", 12): 16,
            }
        )
    )  # fmt: skip
    assert found[LINEAR]["status"] == "supported"
    assert found[LINEAR]["evidence"] == (
        "2 for: linear on lis at size 8: (32, 64], standard (8, 16]; "
        "linear on lis at size 12: > 1024, standard (16, 32]"
    )
    assert (
        found[LINEAR_GROWS]["evidence"] == "1 for: linear on lis, size 8: (32, 64], size 12: > 1024"
    )
    assert found[SPARSE]["status"] == "contradicted"
    assert found[SPARSE]["evidence"] == (
        "1 against: sparse on lis at size 12: (8, 16], standard (16, 32]. "
        "1 undecided: sparse on lis at size 8: (8, 16], standard (8, 16]"
    )
    assert found[SPARSE_GROWS]["status"] == "not measured"


@pytest.mark.parametrize("setting", ["steps", "value_range", "positions"])
def test_only_equal_settings_are_compared(setting: str) -> None:
    store = store_of({("lis", "standard", 8): 16}, **{setting: 10})
    other = store_of({("lis", "linear", 8): 64}, **{setting: 20})
    store.add_sweep("other", other.plan, size_fields=SIZE_FIELDS)
    store.endings += other.endings
    assert statuses(store)[LINEAR] == "not measured"


def test_settings_that_only_one_has_keep_nothing_apart() -> None:
    store = store_of({("lis", "standard", 8): 16})
    other = store_of({("lis", "linear", 8): 64}, feature_map="elu")
    store.add_sweep("other", other.plan, size_fields=SIZE_FIELDS)
    store.endings += other.endings
    assert statuses(store)[LINEAR] == "supported"


def test_evidence_names_the_settings_that_vary() -> None:
    store = FakeStore()
    for steps in (10, 20):
        one = store_of({("lis", "standard", 8): 16, ("lis", "linear", 8): 64}, steps=steps)
        store.add_sweep(f"of {steps}", one.plan, size_fields=SIZE_FIELDS)
        store.endings += one.endings
    assert judged(store)[LINEAR]["evidence"] == (
        "2 for: linear on lis at size 8, steps 10: (32, 64], standard (8, 16]; "
        "linear on lis at size 8, steps 20: (32, 64], standard (8, 16]"
    )


@pytest.mark.parametrize(
    ("need", "status"), [(256, "supported"), (512, "contradicted"), (2000, "contradicted")]
)
def test_the_standard_model_manages(need: int, status: str) -> None:
    assert statuses(store_of({("lis", "standard", 40): need}))[ENOUGH] == status


def law(task: str, exponent: float) -> dict[tuple[str, str, int], float]:
    """The d that linear needs: 8 at n = 10, and from there a power of n."""
    return {(task, "linear", n): 8.1 * (n / 10) ** exponent for n in (10, 20, 40, 80, 160)}


@pytest.mark.parametrize(
    ("lis", "ed", "status"),
    [(1.5, 0.0, "supported"), (0.0, 1.5, "contradicted"), (1.0, 0.9, "not measured")],
)
def test_locality_is_judged_by_exponents(lis: float, ed: float, status: str) -> None:
    row = judged(store_of(law("lis", lis) | law("edit_distance", ed)))[LOCALITY]
    assert row["status"] == status
    assert "linear: lis" in row["evidence"] and "edit_distance" in row["evidence"]


@pytest.mark.parametrize(
    ("n", "most", "d", "status"),
    [
        (40, 0.97, 1024, "supported"),
        (40, 1.0, 1024, "contradicted"),
        (40, 1.0, 64, "contradicted"),
        (40, 0.97, 64, "not measured"),
        (8, 1.0, 1024, "not measured"),
    ],
)
def test_sparse_below_100_percent(n: int, most: float, d: int, status: str) -> None:
    store, row = FakeStore(), planned_on("lis", n, d, "sparse")
    store.add_sweep("s", [row], size_fields=SIZE_FIELDS)
    store.end(row, "completed", most)
    assert statuses(store)[IMPERFECT] == status


@pytest.mark.parametrize(
    ("three", "five", "status"),
    [(16, 16, "supported"), (64, 16, "contradicted"), (2000, 2000, "not measured")],
)
def test_depth(three: int, five: int, status: str) -> None:
    store = store_of({("edit_distance", "linear", 6): three})
    deeper = store_of({("edit_distance", "linear", 6): five}, layers=5)
    store.add_sweep("deeper", deeper.plan, size_fields=SIZE_FIELDS)
    store.endings += deeper.endings
    assert statuses(store)[DEPTH] == status


def test_only_chains_of_thought_count() -> None:
    needs = {("lis", "standard", 8): 16.0, ("lis", "linear", 8): 64.0}
    assert statuses(store_of(needs, cot=True))[LINEAR] == "supported"
    assert statuses(store_of(needs, cot=False))[LINEAR] == "not measured"
