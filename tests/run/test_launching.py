"""What a launch would run, and what is said of it, on real stores without Ray."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from faults import ran
from inprocess import sweepd

from sweepd.cluster import Local
from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid.placement import Resources
from sweepd.grid.plan import Plan, plan
from sweepd.grid.spec import Grid, parse_grid
from sweepd.grid.trials import Trial
from sweepd.grid.yamlfile import parse
from sweepd.run import launching
from sweepd.run.driver import sweep_info
from sweepd.run.launching import cancel, estimate, per_trial, planned, saved_grid
from sweepd.store.store import Store
from sweepd.trial.attempt import ledger_columns
from sweepd.trial.record import changed_settings, record_of

GRID = """
name: small
task: {name: lis, n: [4, 6], value_range: 16}
model: {name: standard, d: [8, 16, 32], layers: 1, heads: 1}
seeds: [0, 1]
"""
LOOP = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Mine:
    hidden: int
    n: int = 2
    steps: int = 10

    task = "t"
    size_field = "n"
    metrics = {"f1": "up"}

    def start(self, seed, device):
        raise AssertionError("a plan trains nothing")

    def cost(self):
        return {"params": 3, %s}
"""
LOOP_GRID = """
name: loops
loop: {name: mine.py:Mine, hidden: [4, 8], n: [2, 3]}
goal: f1 > 0.8
search: {staircase: {minimize: hidden}}
"""
SITE = Local(kind="local")


def grid(*sets: str) -> Grid:
    return parse_grid(GRID, "small.yaml", sets, Path())


def end(
    store: Store, trials: Iterable[Trial], status: str = "completed", **changes: object
) -> None:
    rows = [ledger_columns(trial, 1001, "small") | {"status": status} | changes for trial in trials]
    store.write_trials(rows)


def save(store: Store, made: Plan, **changes: Any) -> None:
    info = replace(sweep_info(made), **changes)
    store.save_sweep(made.grid.name, made.grid.resolved_text(), info, made.rows())


def test_recorded_steps_without_a_gpu_are_named(tmp_path: Path) -> None:
    recorded, plain = (planned(grid(*sets), None) for sets in (["train.compile=true"], []))
    [note] = recorded.notes(Resources(1))
    assert note.startswith("train.compile records steps on a GPU")
    assert not list(recorded.notes(Resources(1, 0.25)))
    assert not list(plain.notes(Resources(1)))
    (tmp_path / "small.yaml").write_text(GRID + "train: {compile: true}\n")
    assert note in sweepd("plan", str(tmp_path / "small.yaml")).err


def test_without_a_store_everything_is_to_be_run() -> None:
    made = planned(grid(), None)
    expected = estimate(made, SITE)
    assert (expected.trials, expected.cells, expected.to_run) == (12, 6, 12)
    assert (expected.done, expected.failed, expected.other_code) == (0, 0, 0)
    assert expected.is_exact and list(made.notes(Resources())) == [
        f"warning: {warning}" for warning in made.plan.warnings
    ]


@pytest.mark.parametrize(
    "stated, train_flops", [("'train_flops': 1e9", 4e9), ("'flops': 5", None)], ids=["stated", "no"]
)
def test_flops_that_a_loop_does_not_state_are_unknown(
    tmp_path: Path, stated: str, train_flops: float | None
) -> None:
    (tmp_path / "mine.py").write_text(LOOP % stated)
    made = planned(parse_grid(LOOP_GRID, "loops.yaml", (), tmp_path), None)
    expected = estimate(made, SITE)
    assert expected.to_run == 4 and expected.bill("grid").train_flops == train_flops
    assert (expected.expected.train_flops is None) == (train_flops is None)
    (tmp_path / "loops.yaml").write_text(LOOP_GRID)
    row = json.loads(sweepd("plan", str(tmp_path / "loops.yaml"), "--json").out)[0]
    assert row["grid_train_flops"] == train_flops and sweepd("plan", str(tmp_path / "loops.yaml"))


def test_a_probe_measures_the_trials_of_the_plan(tmp_path: Path) -> None:
    small = GRID + "train: {steps: 24}\nevaluate: {check_samples: 8, verdict_samples: 16}\n"
    (tmp_path / "small.yaml").write_text(small)
    shell = ("plan", str(tmp_path / "small.yaml"), "--probe", "--results", str(tmp_path / "none"))
    answer = sweepd(*shell, "--json")
    shown = [line for line in answer.err.splitlines() if " ms a step, " in line]
    each = [float(re.findall(r"(\S+) s a trial", line)[0]) for line in shown]
    [row] = json.loads(answer.out)
    assert shown and row["grid_seconds_high"] < 100 * sum(each) * row["grid_trials"]
    assert (
        row["grid_seconds_low"]
        != json.loads(sweepd(*shell[:2], "--json").out)[0]["grid_seconds_low"]
    )
    assert not (tmp_path / "none").exists()

    cards = "{kind: slurm, folder: /a, results: /a, cpus: 1, gpus: 1, per_trial: {gpus: 1}}"
    (tmp_path / "cards.yaml").write_text(cards)
    if not torch.cuda.is_available():
        refused = sweepd(*shell[:3], "--cluster", str(tmp_path / "cards.yaml"))
        assert refused.code == 3 and "no card here to probe" in refused.err
    (tmp_path / "mine.py").write_text(LOOP % "'flops': 5")
    (tmp_path / "loops.yaml").write_text(LOOP_GRID)
    refused = sweepd("plan", str(tmp_path / "loops.yaml"), "--probe")
    assert refused.code == 2 and "nothing to probe" in refused.err


def test_what_has_ended_is_not_to_be_run_again(store: Store) -> None:
    trials = plan(grid()).trials
    end(store, trials[:3], acc=0.5)
    end(store, trials[3:4], "failed")
    end(store, trials[:1], "interrupted", attempt=2001)  # what has ended counts, not the last
    made = planned(grid(), store)
    expected = estimate(made, SITE)
    assert (expected.done, expected.failed, expected.to_run) == (3, 1, 9)
    assert set(made.search.outcomes) == {trial.id for trial in trials[:3]}


def test_an_estimate_in_one_row() -> None:
    row = estimate(planned(grid("search=staircase"), None), SITE).row()
    assert row["trials"] == row["grid_trials"] == 12
    assert row["to_run"] == round(row["likely_trials"]) <= 12
    assert row["least_trials"] <= row["likely_trials"] <= row["worst_trials"] <= 12
    assert row["train_flops"] == row["likely_train_flops"]
    assert not {type(value) for value in row.values()} - {str, int, float}


def test_trials_of_another_code_are_named_and_counted_once_accepted(store: Store) -> None:
    made = plan(grid())
    [code] = made.codes
    files = {file: "changed" if "lis" in file else d for file, d in made.codes[code].files.items()}
    older = [replace(trial, id=f"old{i}", code="old") for i, trial in enumerate(made.trials[:4])]
    # It was accepted in place of an earlier code, and so of no later one.
    save(store, made, code_files={"old": files}, accepted_for={"old": ("earlier",)})
    end(store, older, acc=0.5)

    found = planned(grid(), store)
    assert (len(found.standing.done), len(found.standing.other), found.changed) == (
        0,
        4,
        ("sweepd/tasks/lis.py",),
    )
    [note] = [note for note in found.notes(Resources()) if "--accept-code" in note]
    assert note.startswith(
        "4 trials were done by another version of the code (changed: sweepd/tasks/lis"
    )

    taken = planned(grid(), store, codes="all")
    assert (len(taken.standing.done), len(taken.standing.other)) == (4, 0)
    save(store, taken.plan)
    assert len(planned(grid(), store).standing.done) == 4
    past = store.load_sweep("small")
    assert sweep_info(made, past).accepted_for == past.accepted_for == {"old": (code,)}


def test_a_promotion_runs_stopped_trials_in_full(store: Store) -> None:
    trials = plan(grid()).trials
    end(store, trials, "stopped")
    assert not planned(grid(), store).search.wanted()
    assert planned(grid(), store, aim="promote").search.wanted()


def test_damaged_files_are_named(store: Store) -> None:
    save(store, plan(grid()))
    end(store, plan(grid()).trials[:1])
    folder = Path(store.address)
    (folder / "sweeps/small/sweep.json").write_text("{")
    [ending] = folder.glob("trials/*.parquet")
    ending.write_bytes(b"PAR1")
    named = {Path(file.path).name for file in planned(grid(), store).damaged}
    assert named == {"sweep.json", ending.name}


def test_what_a_trial_occupies_is_said_by_the_grid_before_the_cluster_file() -> None:
    site = Local(kind="local", per_trial=Resources(2.0))
    assert per_trial(grid(), site) == Resources(2.0)
    assert per_trial(grid("resources={cpus: 0.5}"), site) == Resources(0.5)


def saved(store: Store, sweep: str | None = None) -> Grid:
    with saved_grid(store, sweep, pytest.fail) as found:
        return found


def test_a_saved_grid_is_the_one_that_was_launched(store: Store) -> None:
    with pytest.raises(UserError, match="no sweep was launched here"):
        saved(store)
    made = plan(grid())
    for name in ("small", "other"):
        save(store, replace(made, grid=made.grid.model_copy(update={"name": name})))
        store.new_launch({"sweep": name})
    assert saved(store).name == "other"
    again = plan(saved(store, "small"))
    assert [trial.id for trial in again.trials] == [trial.id for trial in made.trials]
    with pytest.raises(UserError, match="no sweep 'unknown'"):
        saved(store, "unknown")


DRIVER = """
import sys, time
from sweepd.store.store import Store
store = Store.open(sys.argv[1])
assert store.lock_sweep("small", print, print)
number = store.new_launch({"sweep": "small"})
print("driving", flush=True)
while sys.argv[2] == "deaf" or not store.cancel_requested(number):
    time.sleep(0.05)
"""


def test_cancel_waits_for_the_end_of_the_driver(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "CANCEL_POLL_SECONDS", 0.05)
    with pytest.raises(UserError, match="no sweep 'small'"):
        cancel(store, "small")
    save(store, plan(grid()))
    assert not cancel(store, "small")
    for manner in ("obedient", "deaf"):
        program = [sys.executable, "-c", DRIVER, store.address, manner]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as driver:
            try:
                assert driver.stdout is not None
                assert driver.stdout.readline() == "driving\n"
                if manner == "obedient":
                    assert cancel(store, "small")
                    assert driver.wait(30) == 0
                else:
                    monkeypatch.setattr(launching, "CANCEL_SECONDS", 0.2)
                    with pytest.raises(EnvironmentFailure, match="told to stop but still runs"):
                        cancel(store, "small")
            finally:
                driver.kill()


def test_lengths_that_are_added_leave_what_is_done_and_take_it_up(store: Store) -> None:
    """A trial with scores at other lengths is a new trial. It takes up what is done, and trains
    only the decay again."""
    small = ("task.n=4", "model.d=8", "seeds=[0]", "train.steps=20", "evaluate.verdict_samples=16")
    asked = (*small, "lengths=[1.5, 2]")
    [before] = trained(store, small, 1000)
    notes = planned(grid(*asked), store).notes(Resources())
    [note] = [note for note in notes if "without scores" in note]
    assert note.startswith("trials that are done without scores at these lengths: 1; they stay as")
    made = planned(grid(*asked), store)
    assert not made.standing.done and len(made.standing.unscored) == 1
    assert "trials that can continue earlier runs, from step 16: 1" in list(made.notes(Resources()))
    kept, after = trained(store, asked, 2000)
    assert kept == {**kept, **before} and after["parent"] == before["id"] != after["id"]
    same = ("acc", "loss", "chain_acc", "correct", "total", "loss_at", "acc_at", "step", "trunk")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert 0 <= after["acc_1_5x"] <= 1 and 0 <= after["acc_2x"] <= 1
    for sets in (small, asked):  # each is done, beside the other
        standing = planned(grid(*sets), store).standing
        assert len(standing.done) == 1 and not standing.unscored

    told = record_of(store, after["id"])
    assert told.lengths == "[1.5, 2]" and told.outcome["acc_2x"] == after["acc_2x"]
    assert list(changed_settings(told, record_of(store, before["id"]))) == [
        ("", "lengths", "[1.5, 2]", None)
    ]
    for row, factors in ((before, []), (after, [1.5, 2])):
        alone = record_of(store, row["id"])
        assert parse(alone.grid, "grid.yaml").data["lengths"] == factors
        again = plan(parse_grid(alone.grid, "grid.yaml", [], Path()))
        assert [t.id for t in again.trials] == [row["id"]]
        shown = sweepd("show", row["id"], "--results", store.address).out
        assert ("lengths: [1.5, 2]" in shown) == bool(factors)

    rows = sweepd("query", "min d where acc_2x >= 0", "--json", "--results", store.address).out
    found = {row["score_lengths"]: row for row in json.loads(rows)}
    assert (found["[1.5, 2]"]["value"], found[None]["value"]) == (8, None)
    assert found["[1.5, 2]"]["acc_2x"] == after["acc_2x"]


def trained(store: Store, sets: Sequence[str], number: int) -> list[dict[str, Any]]:
    """Train the one trial of a grid to its end; returns all endings of the store, oldest first."""
    made = plan(grid(*sets))
    save(store, made)
    store.new_launch({"sweep": "small"})
    ran(store, made.trials[0], number, sweep="small")
    return sorted(store.read_trials().table.to_pylist(), key=lambda row: int(row["attempt"]))


@pytest.mark.parametrize("search", ["grid", "staircase"])
def test_settling_is_priced_before_there_is_a_store(store: Store, search: str) -> None:
    settling = ["seeds=[0, 1, 2]", "settle={least: 2000, most: 4000}", f"search={search}"]
    grid = parse_grid(GRID, "small.yaml", settling, Path())
    without = estimate(planned(grid, None), SITE).row()
    with_empty = estimate(planned(grid, store), SITE).row()
    assert without == with_empty
    assert without["settle_most_trials"] > 0


def test_a_grid_without_a_name_does_not_replace_that_of_another_folder(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path / "store"))

    def grid_of(folder: str, name: str = "", d: int = 8) -> Grid:
        (tmp_path / folder).mkdir(exist_ok=True)
        text = GRID.replace("name: small", name).replace("[8, 16, 32]", f"[{d}]")
        return parse_grid(text, "grid.yaml", [], tmp_path / folder)

    first = plan(grid_of("one"))
    store.save_sweep("grid", "", sweep_info(first), first.rows())
    with pytest.raises(UserError, match=r"^grid\.yaml: it has no `name:`, and .* sweep grid of "):
        planned(grid_of("two", d=16), store)
    planned(grid_of("one", d=16), store)  # it was edited
    planned(grid_of("two"), store)  # the same trials: it has moved
    planned(grid_of("two", "name: grid", d=16), store)  # it is meant
