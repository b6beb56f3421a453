"""Claims of papers, judged on synthetic stores: what speaks for a claim, and what against it. Only
cells that agree in all settings are compared. Most of them are the claims of Yang et al."""

from collections.abc import Mapping
from typing import Any

import pytest
from fake_store import FakeStore, Row, now
from questions import SIZE_FIELDS, planned_on, ran

from sweepd.query.claim_files import load_claims
from sweepd.query.claims import COLUMNS, ROW_COLUMNS, judged
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


YANG = load_claims("yang2024")
SIZES = YANG.claims[0].at["size"]


def judge(store: FakeStore, says: str) -> Row:
    """What the store says of one claim of Yang et al."""
    [claim] = [one for one in YANG.claims if one.says == says]
    row, *_ = judged(connect(store, code=now), YANG.model_copy(update={"claims": (claim,)}))
    return row


def status_of(store: FakeStore, says: str) -> str:
    return str(judge(store, says)["status"])


def test_nothing_is_judged_by_nothing() -> None:
    for views in (None, connect(FakeStore(), code=now)):
        rows = [*judged(views, YANG)]
        assert len(rows) == 12
        for row in rows:
            assert tuple(row) == COLUMNS
            assert (row["status"], row["evidence"]) == ("not measured", "no row to judge it by")
            assert row["control"] is None and "sweepd plan paper" in row["decides"]


NEEDS = {
    ("lis", "standard", 40): 16, ("lis", "standard", 110): 32,
    ("lis", "linear", 40): 64, ("lis", "linear", 110): 2000,
    ("lis", "sparse", 40): 16, ("lis", "sparse", 110): 16,
}  # fmt: skip


def test_who_needs_more() -> None:
    linear, sparse = (judge(store_of(NEEDS), says) for says in (LINEAR, SPARSE))
    assert linear["status"] == "supported" and linear["decides"] is None
    assert linear["evidence"] == (
        "2 for: linear on lis at size 40: (32, 64] with 10 steps, standard (8, 16] with 10 steps; "
        "linear on lis at size 110: > 1024 with 10 steps, standard (16, 32] with 10 steps"
    )
    assert sparse["status"] == "contradicted"
    assert sparse["evidence"].startswith("1 against: sparse on lis at size 110: (8, 16]")
    assert "1 cannot tell: sparse on lis at size 40: (8, 16]" in sparse["evidence"]


def test_there_is_no_vote() -> None:
    needs = {**NEEDS, ("lis", "linear", 40): 8, ("lis", "sparse", 110): 2000}
    linear, sparse = (judge(store_of(needs), says) for says in (LINEAR, SPARSE))
    assert linear["status"] == sparse["status"] == "cannot tell"
    assert "1 for: " in linear["evidence"] and "1 against: " in linear["evidence"]
    assert "1 for: " in sparse["evidence"] and "1 cannot tell: " in sparse["evidence"]


def test_the_rows_stand_below_their_claim() -> None:
    rows = [*judged(connect(store_of(NEEDS), code=now), YANG)]
    assert {tuple(row) for row in rows} == {COLUMNS, ROW_COLUMNS}
    mine = [row for row in rows if row["kind"] == "row" and row["claim"] == LINEAR]
    assert [(row["side"], row["settings"]) for row in mine] == [("for", "claim")] * 2
    assert mine[0]["row"].endswith("(32, 64] with 10 steps, standard (8, 16] with 10 steps")


@pytest.mark.parametrize(
    "setting", [{"layers": 2}, {"heads": 2}, {"positions": "learned"}, {"positions": None}]
)
def test_a_claim_is_judged_only_at_its_own_settings(setting: dict[str, Any]) -> None:
    row = judge(store_of(NEEDS, **setting), LINEAR)
    assert row["status"] == "at other settings"
    assert row["evidence"].startswith(
        "At other settings: 2 for: linear on lis at size 40: (32, 64]"
    )
    assert "sweepd plan paper" in row["decides"]


def test_a_claim_is_judged_only_at_its_own_sizes() -> None:
    sizes = {(task, model, 8 if n == 40 else n): d for (task, model, n), d in NEEDS.items()}
    mixed = judge(store_of(sizes), LINEAR)
    assert mixed["status"] == "supported"
    own, elsewhere = mixed["evidence"].split(". At other settings: ")
    assert own.startswith("1 for: linear on lis at size 110: > 1024")
    assert elsewhere.startswith("1 for: linear on lis at size 8: (32, 64]")


def test_growth_is_what_fit_says_of_it_beside_the_control() -> None:
    sizes = (40, 110, 175, 250)
    needs = {("lis", "linear", n): n * 1.1 for n in sizes} | {
        ("lis", model, n): 16.0 for n in sizes for model in ("standard", "sparse")
    }
    linear, sparse = (judge(store_of(needs), says) for says in (LINEAR_GROWS, SPARSE_GROWS))
    assert linear["status"] == "supported"
    assert linear["evidence"].startswith("1 for: linear on lis: exponent 1.")
    assert sparse["status"] == "cannot tell"
    assert linear["control"].startswith("1 cannot tell: standard on lis: exponent ")
    two = judge(store_of(NEEDS), LINEAR_GROWS)
    assert (two["status"], "a fit needs 3" in two["evidence"]) == ("cannot tell", True)
    assert "a fit needs 3" in two["decides"] and "sweepd plan paper" in two["decides"]


def test_sizes_of_the_paper_and_others_are_not_fitted_together() -> None:
    needs = {("lis", "linear", n): n * 1.1 for n in (10, 20, 30, 40, 110, 175, 250)}
    evidence = judge(store_of(needs), LINEAR_GROWS)["evidence"]
    own, elsewhere = evidence.split(". At other settings: ")
    assert own.startswith("1 for: linear on lis") and "linear on lis" in elsewhere


@pytest.mark.parametrize("setting", ["steps", "value_range", "dropout"])
def test_only_equal_settings_are_compared_of_those_that_both_have(setting: str) -> None:
    store = store_of({("lis", "standard", 40): 16}, **{setting: 10})
    for value, status in ((20, "not measured"), (10, "supported")):
        other = store_of({("lis", "linear", 40): 64}, feature_map="elu", **{setting: value})
        assert status_of(together(store, other), LINEAR) == status


def test_evidence_names_the_settings_that_vary() -> None:
    needs = {("lis", "standard", 40): 16.0, ("lis", "linear", 40): 64.0}
    store = together(*(store_of(needs, steps=steps) for steps in (10, 20)))
    evidence = judge(store, LINEAR)["evidence"]
    for steps in (10, 20):
        assert f"linear on lis at size 40, steps {steps}: (32, 64] with {steps} steps" in evidence


@pytest.mark.parametrize(
    ("need", "status"), [(256, "supported"), (512, "cannot tell"), (2000, "cannot tell")]
)
def test_the_standard_model_manages_every_size(need: int, status: str) -> None:
    needs = {("lis", "standard", n): 64.0 for n in (40, 110, 175)} | {
        ("lis", "standard", 250): need
    }
    assert status_of(store_of(needs), ENOUGH) == status
    del needs["lis", "standard", 250]
    row = judge(store_of(needs), ENOUGH)
    assert row["status"] == "cannot tell"
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
    [(1.5, 0.0, "supported"), (0.0, 1.5, "contradicted"), (1.0, 0.9, "cannot tell")],
)
def test_locality_is_judged_by_differences_of_exponents(lis: float, ed: float, status: str) -> None:
    row = judge(store_of(law("lis", lis) | law("edit_distance", ed)), LOCALITY)
    assert row["status"] == status
    assert "linear on lis: exponent" in row["evidence"]
    assert ", edit_distance exponent" in row["evidence"]
    assert row["control"] is None
    needs = law("lis", lis, "standard") | law("edit_distance", ed, "standard")
    control = judge(store_of(needs), LOCALITY)
    assert (control["status"], control["control"] is None) == ("not measured", False)


def test_locality_is_also_the_level_of_d() -> None:
    needs = {("edit_distance", "linear", 6): 64, ("ed_local", "linear", 6): 16}
    assert status_of(store_of(needs), EASIER) == "supported"
    control = {(task, "standard", n): d for (task, _, n), d in needs.items()}
    row = judge(store_of({**needs, **control}), EASIER)
    assert row["control"].startswith("1 for: standard on edit_distance at size 6: (32, 64]")
    assert "ed_local (8, 16]" in row["control"]


@pytest.mark.parametrize(
    ("n", "most", "d", "status"),
    [
        (40, 0.97, 1024, "supported"), (40, 1.0, 1024, "contradicted"),
        (40, 1.0, 64, "contradicted"), (40, 0.97, 64, "cannot tell"),
        (50, 0.97, 1024, "at other settings"), (8, 1.0, 1024, "not measured"),
    ],
)  # fmt: skip
def test_sparse_below_100_percent(n: int, most: float, d: int, status: str) -> None:
    row = planned_on("lis", n, d, "sparse", positions="sinusoidal")
    assert status_of(ran([row], lambda _: most, size_fields=SIZE_FIELDS), IMPERFECT) == status


@pytest.mark.parametrize(
    ("three", "five", "status"),
    [(16, 16, "supported"), (64, 16, "contradicted"), (2000, 2000, "cannot tell")],
)
def test_depth(three: int, five: int, status: str) -> None:
    store = store_of({("edit_distance", "linear", 6): three})
    deeper = store_of({("edit_distance", "linear", 6): five}, layers=5)
    assert status_of(together(store, deeper), DEPTH) == status


def test_only_chains_of_thought_count() -> None:
    needs = {("lis", "standard", 40): 16.0, ("lis", "linear", 40): 64.0}
    assert status_of(store_of(needs, cot=True), LINEAR) == "supported"
    assert status_of(store_of(needs, cot=False), LINEAR) == "not measured"
