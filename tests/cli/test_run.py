"""What `launch` says of a sweep whose trials have all ended."""

from pathlib import Path

import pytest
from inprocess import sweepd
from simulated import drive

from sweepd.grid.plan import plan
from sweepd.grid.spec import load_grid
from sweepd.grid.trials import Trial
from sweepd.run.driver import sweep_info
from sweepd.search.seeds import Outcome
from sweepd.search.staircase import search_of
from sweepd.store.store import Store

GRID = """
name: moves
task: {name: lis, n: 4, value_range: 16}
model: {name: standard, d: [4, 8], layers: 1, heads: 1}
train: {steps: 1000}
seeds: [0, 1, 2]
search: staircase
settle: {factor: 4, least: 2000, most: 16000, share: 100}
"""


def ended(trial: Trial) -> Outcome:
    """The seeds of the grid pass at d = 4 with more steps. The fresh ones do not."""
    passes = trial.axes["d"] == 8 or (trial.seed < 3 and trial.train.steps > 1000)
    return Outcome("completed", 0.95 if passes else 0.5, 1024)


def filled(folder: Path, *sets: str) -> None:
    """Makes a store in which all trials have ended that the search wants."""
    grid = folder / "grid.yaml"
    grid.write_text(GRID)
    made = plan(load_grid(grid, sets))
    ledger, _, _ = drive(lambda: search_of(made), ended)
    store = Store.create(str(folder / "sweepd-results"))
    store.save_sweep("moves", grid.read_text(), sweep_info(made), made.rows())
    for row in made.rows():
        if found := ledger.get(row["id"]):
            del row["on_demand"]  # the plan alone has it
            told = {"attempt": 1000, "status": found.status, "acc": found.score}
            store.write_trials([{**row, **told, "step": row["steps"], "total": found.total}])


def test_a_cell_that_fresh_seeds_contradict_fails_and_is_trained_for_longer(folder: Path) -> None:
    filled(folder)
    told = sweepd("launch", "grid.yaml").err
    assert "nothing to do" in told and "give_up" not in told
    [row] = sweepd("query", "min d", "--json").rows
    assert (row["value"], row["holds_to"], row["fail_steps"]) == (8, None, 16000)
    assert (row["least_any"], row["least_median"], row["least_all"]) == (4, 8, 8)


def test_who_wants_to_know_more_of_larger_sizes_is_told_how(folder: Path) -> None:
    sets = ("task.n=[4, 6]", "model.d=[4]")
    filled(folder, *sets)
    told = sweepd("launch", "grid.yaml", *(f"--set={one}" for one in sets)).err
    assert "nothing to do" in told
    assert "1 cell waits for a smaller size, at which nothing passes yet; " in told
    assert "`--set settle.give_up=false` trains on, up to 16000 steps" in told

    filled(folder, *sets, "settle.give_up=false")
    told = sweepd("launch", "grid.yaml", *(f"--set={one}" for one in sets),
                  "--set", "settle.give_up=false").err  # fmt: skip
    assert "nothing to do" in told and "give_up" not in told


def test_who_wants_to_pay_for_a_dear_trial_is_told_how(folder: Path) -> None:
    filled(folder, "settle.share=0.01")
    told = sweepd("launch", "grid.yaml", "--set", "settle.share=0.01").err
    assert "nothing to do" in told
    assert "1 cell waits: the next trial costs more than `settle.share` allows; " in told
    assert "`--set settle.share=1` allows" in told
    assert "waits" not in sweepd("launch", "grid.yaml", "--dry-run").err


@pytest.mark.parametrize("command", ["plan grid.yaml", "launch grid.yaml", "doctor", "status"])
def test_an_empty_results_option_is_refused(folder: Path, command: str) -> None:
    """A variable without a value may have left it. The default would be another store."""
    (folder / "grid.yaml").write_text(GRID)
    assert "--results is empty" in sweepd(*command.split(), "--results=", exits=2).err
