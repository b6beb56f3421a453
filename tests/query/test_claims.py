"""The paper's claims, judged on synthetic stores: what speaks for a claim, and what against it.
Only cells that agree in all settings are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fake_store import FakeStore, Row, now
from questions import SIZE_FIELDS, planned_on, ran

from sweepd.query.claims import COLUMNS as CLAIM_COLUMNS
from sweepd.query.claims import SIZES, Measured, claims
from sweepd.query.database import connect

SPARSE = "sparse needs a larger d than standard"
LINEAR = "linear needs a larger d than standard"
SPARSE_GROWS = "min d of sparse grows with the size"
LINEAR_GROWS = "min d of linear grows with the size"
LOCALITY = "min d grows faster on less local tasks: lis > edit_distance > ed_local"
IMPERFECT = "sparse does not reach 100% on lis with n from 40"
ENOUGH = "standard manages every size with d up to 256"
DEPTH = "5 layers are like 3 on edit_distance"
EASIER = "linear and sparse need a smaller d on ed_local than on edit_distance"


def store_of(needs: Mapping[tuple[str, str, int], float], **axes: Any) -> FakeStore:
    """A store in which each (task, model, size) needs its own d to pass, of 8 to 1024."""
    trials = [
        planned_on(task, size, 2**octave, model, **{"positions": "sinusoidal"} | axes)
        for task, model, size in needs
        for octave in range(3, 11)
    ]

    def acc(row: Row) -> float:
        return 0.95 if row["d"] >= needs[row["task"], row["model"], row["size"]] else 0.5

    return ran(trials, acc, size_fields=SIZE_FIELDS)


def together(*stores: FakeStore) -> FakeStore:
    """One store with the sweeps of these."""
    whole = FakeStore()
    for number, store in enumerate(stores):
        whole.add_sweep(f"s{number}", store.plan, size_fields=SIZE_FIELDS)
        whole.endings += store.endings
    return whole


def judged(store: FakeStore) -> dict[str, Row]:
    return {row["claim"]: row for row in claims(Measured(connect(store, code=now)))}


def statuses(store: FakeStore) -> dict[str, str]:
    return {claim: row["status"] for claim, row in judged(store).items()}


def test_nothing_is_judged_by_nothing() -> None:
    empty = FakeStore()
    for measured in (Measured(None), Measured(connect(empty, code=now))):
        rows = claims(measured)
        assert len(rows) == 9
        for row in rows:
            assert tuple(row) == CLAIM_COLUMNS
            assert (row["status"], row["evidence"]) == ("not measured", "no two cells to compare")
            assert row["control"] is None


NEEDS = {
    ("lis", "standard", 40): 16, ("lis", "standard", 110): 32,
    ("lis", "linear", 40): 64, ("lis", "linear", 110): 2000,
    ("lis", "sparse", 40): 16, ("lis", "sparse", 110): 16,
}  # fmt: skip


def test_who_needs_more() -> None:
    found = judged(store_of(NEEDS))
    assert found[LINEAR]["status"] == "supported"
    assert found[LINEAR]["evidence"] == (
        "2 for: linear on lis at size 40: (32, 64], standard (8, 16]; "
        "linear on lis at size 110: > 1024, standard (16, 32]"
    )
    assert found[SPARSE]["status"] == "contradicted"
    assert found[SPARSE]["evidence"] == (
        "1 against: sparse on lis at size 110: (8, 16], standard (16, 32]. "
        "1 undecided: sparse on lis at size 40: (8, 16], standard (8, 16]"
    )


def test_there_is_no_vote() -> None:
    needs = {**NEEDS, ("lis", "linear", 40): 8, ("lis", "sparse", 110): 2000}
    found = statuses(store_of(needs))
    assert found[LINEAR] == "mixed"
    assert found[SPARSE] == "partly supported"


@pytest.mark.parametrize(
    "setting", [{"layers": 2}, {"heads": 2}, {"positions": "learned"}, {"positions": None}]
)
def test_a_claim_is_judged_only_at_its_own_settings(setting: dict[str, Any]) -> None:
    row = judged(store_of(NEEDS, **setting))[LINEAR]
    assert row["status"] == "at other settings"
    assert row["evidence"].startswith(
        "At other settings: 2 for: linear on lis at size 40: (32, 64]"
    )


def test_a_claim_is_judged_only_at_its_own_sizes() -> None:
    sizes = {(task, model, 8 if n == 40 else n): d for (task, model, n), d in NEEDS.items()}
    mixed = judged(store_of(sizes))[LINEAR]
    assert mixed["status"] == "supported"
    assert mixed["evidence"] == (
        "1 for: linear on lis at size 110: > 1024, standard (16, 32]. "
        "At other settings: 1 for: linear on lis at size 8: (32, 64], standard (8, 16]"
    )


def test_growth_is_what_fit_says_of_it_beside_the_control() -> None:
    sizes = (40, 110, 175, 250)
    needs = {("lis", "linear", n): n * 1.1 for n in sizes} | {
        ("lis", model, n): 16.0 for n in sizes for model in ("standard", "sparse")
    }
    found = judged(store_of(needs))
    assert found[LINEAR_GROWS]["status"] == "supported"
    assert found[LINEAR_GROWS]["evidence"].startswith("1 for: linear on lis: ")
    assert found[SPARSE_GROWS]["status"] == "undecided"
    assert found[LINEAR_GROWS]["control"].startswith("1 undecided: standard on lis: ")
    two = judged(store_of(NEEDS))[LINEAR_GROWS]
    assert (two["status"], "a fit needs 3" in two["evidence"]) == ("undecided", True)


def test_sizes_of_the_paper_and_others_are_not_fitted_together() -> None:
    needs = {("lis", "linear", n): n * 1.1 for n in (10, 20, 30, 40, 110, 175, 250)}
    evidence = judged(store_of(needs))[LINEAR_GROWS]["evidence"]
    own, elsewhere = evidence.split(". At other settings: ")
    assert own.startswith("1 for: linear on lis") and "linear on lis" in elsewhere


@pytest.mark.parametrize("setting", ["steps", "value_range", "dropout"])
def test_only_equal_settings_are_compared(setting: str) -> None:
    store = store_of({("lis", "standard", 40): 16}, **{setting: 10})
    other = store_of({("lis", "linear", 40): 64}, **{setting: 20})
    assert statuses(together(store, other))[LINEAR] == "not measured"


def test_settings_that_only_one_has_keep_nothing_apart() -> None:
    store = store_of({("lis", "standard", 40): 16})
    other = store_of({("lis", "linear", 40): 64}, feature_map="elu")
    assert statuses(together(store, other))[LINEAR] == "supported"


def test_evidence_names_the_settings_that_vary() -> None:
    needs = {("lis", "standard", 40): 16.0, ("lis", "linear", 40): 64.0}
    store = together(*(store_of(needs, steps=steps) for steps in (10, 20)))
    assert judged(store)[LINEAR]["evidence"] == (
        "2 for: linear on lis at size 40, steps 10: (32, 64], standard (8, 16]; "
        "linear on lis at size 40, steps 20: (32, 64], standard (8, 16]"
    )


@pytest.mark.parametrize(("need", "status"), [(256, "supported"), (512, "mixed"), (2000, "mixed")])
def test_the_standard_model_manages_every_size(need: int, status: str) -> None:
    needs = {("lis", "standard", n): 64.0 for n in (40, 110, 175)} | {
        ("lis", "standard", 250): need
    }
    assert statuses(store_of(needs))[ENOUGH] == status
    del needs["lis", "standard", 250]
    row = judged(store_of(needs))[ENOUGH]
    assert row["status"] == "partly supported"
    assert "standard on lis was not measured at size 250" in row["evidence"]


def law(task: str, exponent: float, model: str = "linear") -> dict[tuple[str, str, int], float]:
    """The d that a model needs: 16 at the least size, and from there a power of L."""
    sizes = SIZES[task]
    L = [2 * n + 3 if task == "lis" else n * n + 5 * n + 6 for n in sizes]
    return {
        (task, model, n): 16.1 * (at / L[0]) ** exponent for n, at in zip(sizes, L, strict=True)
    }


@pytest.mark.parametrize(
    ("lis", "ed", "status"),
    [(1.5, 0.0, "supported"), (0.0, 1.5, "contradicted"), (1.0, 0.9, "undecided")],
)
def test_locality_is_judged_by_differences_of_exponents(lis: float, ed: float, status: str) -> None:
    row = judged(store_of(law("lis", lis) | law("edit_distance", ed)))[LOCALITY]
    assert row["status"] == status
    assert "linear on lis" in row["evidence"] and "less linear on edit_distance" in row["evidence"]
    assert row["control"] is None
    needs = law("lis", lis, "standard") | law("edit_distance", ed, "standard")
    control = judged(store_of(needs))[LOCALITY]
    assert (control["status"], control["control"] is None) == ("not measured", False)


def test_locality_is_also_the_level_of_d() -> None:
    needs = {("edit_distance", "linear", 6): 64, ("ed_local", "linear", 6): 16}
    assert statuses(store_of(needs))[EASIER] == "supported"
    control = {(task, "standard", n): d for (task, _, n), d in needs.items()}
    row = judged(store_of({**needs, **control}))[EASIER]
    assert (
        row["control"] == "1 for: standard on edit_distance at size 6: (32, 64], ed_local (8, 16]"
    )


@pytest.mark.parametrize(
    ("n", "most", "d", "status"),
    [
        (40, 0.97, 1024, "supported"), (40, 1.0, 1024, "contradicted"),
        (40, 1.0, 64, "contradicted"), (40, 0.97, 64, "undecided"),
        (50, 0.97, 1024, "at other settings"), (8, 1.0, 1024, "not measured"),
    ],
)  # fmt: skip
def test_sparse_below_100_percent(n: int, most: float, d: int, status: str) -> None:
    row = planned_on("lis", n, d, "sparse", positions="sinusoidal")
    assert statuses(ran([row], lambda _: most, size_fields=SIZE_FIELDS))[IMPERFECT] == status


@pytest.mark.parametrize(
    ("three", "five", "status"),
    [(16, 16, "supported"), (64, 16, "contradicted"), (2000, 2000, "undecided")],
)
def test_depth(three: int, five: int, status: str) -> None:
    store = store_of({("edit_distance", "linear", 6): three})
    deeper = store_of({("edit_distance", "linear", 6): five}, layers=5)
    assert statuses(together(store, deeper))[DEPTH] == status


def test_only_chains_of_thought_count() -> None:
    needs = {("lis", "standard", 40): 16.0, ("lis", "linear", 40): 64.0}
    assert statuses(store_of(needs, cot=True))[LINEAR] == "supported"
    assert statuses(store_of(needs, cot=False))[LINEAR] == "not measured"
