"""The paper's side: Table 2 from our own counts, claims judged on synthetic stores, the comparison
on the command line, and that every shipped grid plans as its comments say."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fake_store import FakeStore, Row, now, planned
from typer.testing import CliRunner

from sweepd.cli import app
from sweepd.errors import UserError
from sweepd.grid.plan import Plan, plan
from sweepd.grid.spec import load_grid
from sweepd.query.claims import COLUMNS as CLAIM_COLUMNS
from sweepd.query.claims import claims
from sweepd.query.paper import TABLE2, TABLE2_COLUMNS, Measured, table2
from sweepd.query.parser import parse
from sweepd.store.store import Store
from sweepd.tasks.arithmetic import PUBLISHED_L

GRIDS = sorted((Path(__file__).parents[2] / "grids").glob("*.yaml"))
NOTHING = Measured(None, "all")
SIZE_FIELDS = {"lis": "n", "edit_distance": "n", "ed_local": "n", "arithmetic": "operators"}
SPARSE = "sparse needs a larger d than standard"
LINEAR = "linear needs a larger d than standard"
SPARSE_GROWS = "min d of sparse grows with the size"
LINEAR_GROWS = "min d of linear grows with the size"
LOCALITY = "min d grows faster on less local tasks: lis > edit_distance > ed_local"
IMPERFECT = "sparse does not reach 100% on lis with n from 40"
ENOUGH = "standard manages every size with d up to 256"
DEPTH = "5 layers are like 3 on edit_distance"


def trial(task: str, size: int, d: int, model: str, **axes: Any) -> Row:
    """A planned trial of any task."""
    row = planned(size, d, model=model, **{"layers": 3, "heads": 4, "steps": 10} | axes)
    return row | {"task": task, "id": f"{row['id']}-{task}", "config": f"{row['config']}-{task}"}


def store_of(needs: Mapping[tuple[str, str, int], float], **axes: Any) -> FakeStore:
    """A store in which each (task, model, size) needs its own d to pass, of 8 to 1024."""
    store = FakeStore()
    trials = {
        (*key, d): trial(key[0], key[2], d, key[1], **axes)
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


# Table 2


def test_table_2_is_our_count_of_weights_at_the_implied_d() -> None:
    rows = table2(NOTHING)
    assert len(rows) == 12
    for row in rows:
        assert tuple(row) == TABLE2_COLUMNS
        assert 1 < row["ratio"] < 1.06
        assert row["published_gflops"] == pytest.approx(row["ratio"] * row["gflops_weights"])
        assert row["gflops"] > row["gflops_weights"]
        assert row["L"] == PUBLISHED_L[row["operators"]]
        assert row["measured_d"] is row["measured_gflops_weights"] is row["verdict"] is None


def test_no_other_d_of_the_grid_explains_a_published_figure() -> None:
    for published in TABLE2.values():
        for L, (gflops, d) in published.items():
            shares = {w: gflops * 1e9 / (24 * 3 * w * w * L) for w in (32, 64, 128, 256, 512)}
            assert [w for w, share in shares.items() if 1.005 < share < 1.053] == [d]


def test_what_the_store_measured_stands_beside() -> None:
    store = FakeStore()
    trials = [
        trial("arithmetic", 6, d, "linear", operators=6, modulus=modulus, layers=layers) | {"L": 87}
        for d in (64, 128)
        for modulus, layers in ((11, 3), (7, 3), (11, 5))
    ]
    store.add_sweep("s", trials, size_fields=SIZE_FIELDS)
    for row in trials:
        ours = row["modulus"] == 11 and row["layers"] == 3
        store.end(row, "completed", 0.95 if row["d"] >= 128 or not ours else 0.5)
    rows = {(row["model"], row["L"]): row for row in table2(Measured(store, now))}
    found = rows.pop(("linear", 87))
    assert (found["measured_d"], found["verdict"]) == (128, "exact")
    assert found["measured_gflops_weights"] == pytest.approx(0.422 / 4, rel=0.06)
    assert all(row["measured_d"] is row["verdict"] is None for row in rows.values())


# Claims


def test_nothing_is_judged_by_nothing() -> None:
    empty = FakeStore()
    lis_alone = store_of({("lis", "linear", 8): 16})
    for measured in (NOTHING, Measured(empty, now), Measured(lis_alone, now)):
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
    store, row = FakeStore(), trial("lis", n, d, "sparse")
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


# The command line


def test_compare_prints_both_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SWEEPD_RESULTS", raising=False)
    run: Callable[..., Any] = CliRunner().invoke
    printed = run(app, ["compare", "paper"])
    assert printed.exit_code == 0
    assert "nothing measured: there is no sweepd-results" in printed.stderr
    assert "published_gflops" in printed.stdout and SPARSE in printed.stdout
    rows = json.loads(run(app, ["compare", "paper", "--json"]).stdout)
    assert [row["kind"] for row in rows] == ["table2"] * 12 + ["claim"] * 8
    assert len({tuple(row) for row in rows}) == 1
    header, *lines = csv.reader(io.StringIO(run(app, ["compare", "paper", "--csv"]).stdout))
    assert header == list(rows[0])
    assert [line[0] for line in lines] == [row["kind"] for row in rows]
    assert run(app, ["compare", "table3"]).exit_code == 2
    missing = run(app, ["compare", "paper", "--results", "elsewhere"])
    assert isinstance(missing.exception, UserError)
    Store.create(str(tmp_path / "sweepd-results"))
    assert json.loads(run(app, ["compare", "paper", "--json"]).stdout) == rows


# The shipped grids


@cache
def shipped(path: Path) -> Plan:
    return plan(load_grid(path, ["seeds=[0]"]))


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_every_shipped_grid_plans(path: Path) -> None:
    found = shipped(path)
    assert found.grid.name == path.stem
    assert found.warnings == ()
    assert found.trials


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_every_shipped_grid_says_what_it_answers(path: Path) -> None:
    """A question in words, then questions about this sweep in columns that it has."""
    lines = path.read_text().splitlines()
    comment = "\n".join(line for line in lines if line.startswith("#"))
    assert lines[0].startswith("# ")
    asked = re.findall(r'sweepd query "((?:min|frontier|fit) [^"\n]+)', comment)
    assert "?" in comment or "sweepd compare paper" in comment
    assert asked or "sweepd compare paper" in comment
    axes = {name for trial in shipped(path).trials for name in trial.axes}
    columns = [*axes, "task", "model", "size", "L", "params", "flops", "acc", "loss"]
    for text in asked:
        assert set(parse(text, columns).by or ()) <= set(columns)


def paper(name: str) -> Plan:
    [path] = [path for path in GRIDS if path.stem == name]
    return shipped(path)


def test_the_paper_s_grids_are_the_paper_s() -> None:
    widths = {32, 64, 128, 256, 512, 1024}
    for name, layers, ds in (
        ("paper", {3}, widths),
        ("paper_table2", {3}, widths - {1024}),
        ("paper_fig2", {3}, widths),
        ("paper_fig3", {3, 5}, widths),
    ):
        trials = paper(name).trials
        assert {trial.model_name for trial in trials} == {"standard", "linear", "sparse"}
        assert {trial.axes["d"] for trial in trials} == ds
        assert {trial.axes["layers"] for trial in trials} == layers
        for trial in trials:
            assert (trial.axes["heads"], trial.axes["dropout"]) == (4, 0.1)
            assert (trial.train.steps - 1) * 512 < 100 * 10**6 <= trial.train.steps * 512
            assert (trial.train.lr, trial.train.weight_decay) == (1e-4, 0.01)
            assert (trial.train.batch_size, trial.train.beta1, trial.train.beta2) == (
                512,
                0.9,
                0.999,
            )
    lengths = {(trial.task_name, trial.size): trial.L for trial in paper("paper").trials}
    assert [lengths["lis", n] for n in (40, 110, 175, 250)] == [83, 223, 353, 503]
    assert [lengths["edit_distance", n] for n in (6, 12, 16, 20)] == [72, 210, 342, 506]
    assert {trial.L for trial in paper("paper_table2").trials} == set(PUBLISHED_L.values())


def test_parts_of_the_paper_s_grid_are_the_same_trials() -> None:
    whole = {trial.id for trial in paper("paper").trials}
    assert {trial.id for trial in paper("paper_fig2").trials} < whole
    both = paper("paper_fig3").trials
    assert {trial.id for trial in both if trial.axes["layers"] == 3} < whole
    assert sum(trial.axes["layers"] == 5 for trial in both) == len(both) / 2
