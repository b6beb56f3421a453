"""What Yang et al. published: their Table 2 from our own counts, and `sweepd compare paper`. Every
shipped grid has the plan that its comments describe."""

import csv
import io
import re
from functools import cache
from pathlib import Path

import pytest
from fake_store import Row, now
from inprocess import sweepd
from questions import SIZE_FIELDS, planned_on, ran

from sweepd.grid.plan import Plan, plan
from sweepd.grid.settings import Train
from sweepd.grid.spec import load_grid
from sweepd.query.claim_files import load_claims
from sweepd.query.claims import published
from sweepd.query.database import connect
from sweepd.query.parser import parse
from sweepd.query.sandbox import sandbox
from sweepd.store.store import Store
from sweepd.tasks.arithmetic import PUBLISHED_L

GRIDS = sorted((Path(__file__).parents[2] / "grids").glob("*.yaml"))


# Table 2

YANG = load_claims("yang2024")
[TABLE2] = YANG.tables


def test_table_2_is_our_count_of_weights_at_the_implied_d() -> None:
    rows = [*published(None, TABLE2)]
    assert len(rows) == 12
    for row in rows:
        assert 1 < row["ratio"] < 1.06
        assert row["published_gflops"] == pytest.approx(row["ratio"] * row["gflops_weights"])
        assert row["gflops"] > row["gflops_weights"]
        assert row["L"] == PUBLISHED_L[row["operators"]]
        assert row["measured_d"] is row["measured_gflops_weights"] is row["verdict"] is None
    assert YANG.claims[0].at["size"]["arithmetic"] == [*PUBLISHED_L]


def test_no_other_d_of_the_grid_explains_a_published_figure() -> None:
    for row in published(None, TABLE2):
        flops = 24 * 3 * row["L"]
        shares = {
            w: row["published_gflops"] * 1e9 / (flops * w**2) for w in (32, 64, 128, 256, 512)
        }
        assert [w for w, share in shares.items() if 1.005 < share < 1.053] == [row["d"]]


def test_what_the_store_measured_stands_beside() -> None:
    trials = [
        planned_on("arithmetic", 6, d, "linear", operators=6, modulus=modulus, layers=layers)
        | {"L": 87}
        for d in (64, 128)
        for modulus, layers in ((11, 3), (7, 3), (11, 5))
    ]  # fmt: skip

    def acc(row: Row) -> float:
        ours = row["modulus"] == 11 and row["layers"] == 3
        return 0.95 if row["d"] >= 128 or not ours else 0.5

    store = ran(trials, acc, size_fields=SIZE_FIELDS)
    measured = published(connect(store, code=now), TABLE2)
    rows = {(row["model"], row["L"]): row for row in measured}
    found = rows.pop(("linear", 87))
    assert (found["measured_d"], found["verdict"]) == (128, "exact")
    assert found["measured_gflops_weights"] == pytest.approx(0.422 / 4, rel=0.06)
    assert all(row["measured_d"] is row["verdict"] is None for row in rows.values())


# The command line


def test_compare_prints_both_parts(folder: Path) -> None:
    printed = sweepd("compare", "paper", exits=0)
    assert "nothing measured: there is no sweepd-results" in printed.err
    assert "published_gflops" in printed.out
    assert "not measured: sparse needs a larger d than standard" in printed.out
    rows = sweepd("compare", "yang2024", "--json").rows
    assert [row["kind"] for row in rows] == ["table"] * 12 + ["claim"] * 12
    assert len({tuple(row) for row in rows}) == 1
    header, *lines = csv.reader(io.StringIO(sweepd("compare", "paper", "--csv").out))
    assert header == list(rows[0])
    assert [line[0] for line in lines] == [row["kind"] for row in rows]
    sweepd("compare", "paper", "--results", "elsewhere", exits=2)
    Store.create(str(folder / "sweepd-results"))
    assert sweepd("compare", "paper", "--json").rows == rows


# The shipped grids


@cache
def shipped(path: Path) -> Plan:
    return plan(load_grid(path, ["seeds=[0]", "settle=off"]))


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_every_shipped_grid_plans_and_says_what_it_answers(path: Path) -> None:
    """Its comment has a question in words. After it come questions about this sweep, in columns
    that it has."""
    found = shipped(path)
    assert (found.grid.name, found.warnings) == (path.stem, ()) and found.trials
    lines = path.read_text().splitlines()
    comment = "\n".join(line for line in lines if line.startswith("#"))
    assert lines[0].startswith("# ")
    asked = re.findall(r'sweepd query "((?:min|frontier|fit) [^"\n]+)', comment)
    assert "?" in comment or "sweepd compare paper" in comment
    assert asked or "sweepd compare paper" in comment
    axes = {name for trial in found.trials for name in trial.axes}
    columns = [*axes, "task", "model", "size", "L", "params", "flops", "state_bytes"]
    columns += ["train_flops", "acc", "loss"]
    for text in asked:
        assert set(parse(text, columns, {}, sandbox()).by or ()) <= set(columns)


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
            assert isinstance(trial.train, Train)
            train = trial.train
            assert (train.lr, train.weight_decay, train.batch_size) == (1e-4, 0.01, 512)
            assert (train.beta1, train.beta2) == (0.9, 0.999)
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
