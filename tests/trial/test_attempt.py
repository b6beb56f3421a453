"""Attempts on a real store, without Ray: where a trial starts, what it leaves behind for others,
and what its ending says. A trial that was stopped and goes on gives the numbers of one that was
never stopped."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from faults import Runs

from sweepd.grid.settings import Evaluate
from sweepd.grid.trials import Trial
from sweepd.store.names import Checkpoint
from sweepd.trial.attempt import Attempt
from sweepd.trial.checkpoints import outlook
from sweepd.trial.training import Training

GRID = """
task: {name: lis, n: 2, value_range: 16}
model: {name: standard, d: 8, layers: 1, heads: 1, dropout: 0.1}
train: {steps: 60, batch_size: 8, warmup: 5, decay: 0.5}
evaluate: {check_every: 20, check_samples: 16, verdict_samples: 32}
"""


def training_of(attempt: Attempt) -> Training:
    """The training of an attempt that has begun."""
    assert isinstance(attempt.training, Training)
    return attempt.training


class Tried(Runs):
    def curve(self, trial: Trial) -> dict[int, tuple[Any, ...]]:
        """By step, all that was measured but times."""
        names = ("loss", "acc", "chain_acc", "lr", "tokens", "train_flops")
        return self.metrics(trial, *names)

    def checkpoints(self, trial: Trial) -> list[str]:
        return self.store.checkpoints(trial.trunk)

    def lines(self, *trials: Trial) -> list[str]:
        table = self.store.read_trials().table
        return list(outlook(trials, table, self.store.checkpoints).lines())


@pytest.fixture
def runs(tmp_path: Path) -> Tried:
    return Tried(tmp_path / "one", GRID)


@pytest.fixture
def fresh(tmp_path: Path) -> Tried:
    """Another store, in which nothing has run."""
    return Tried(tmp_path / "other", GRID)


SCORES = ("status", "acc", "correct", "chain_acc", "total", "loss", "step", "tokens", "train_flops")


def scores(ending: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(ending[name] for name in SCORES)


@pytest.mark.parametrize("step", [20, 50])
def test_a_trial_given_up_and_then_wanted_in_full(runs: Tried, fresh: Tried, step: int) -> None:
    """At step 20 its state belongs to the trunk, which other trials share. At step 50 it is in the
    decay, and its state is its own alone."""
    trial = runs.trial("train.decay=0.4", "evaluate.check_every=10")
    given_up = runs.at(trial, step)
    given_up.give_up()
    ending = runs.ending(trial)
    assert (ending["status"], ending["step"], ending["train_flops"]) == (
        *("stopped", step),
        trial.effort * step / 60,
    )
    assert ending["tokens"] == training_of(given_up).tokens and ending["seconds"] > 0
    assert [ending[name] for name in ("acc", "chain_acc", "loss", "total")] == [None] * 4
    assert runs.curve(trial)[step][1] is not None
    kept = Checkpoint(step, trial.id, kept=step == 20).name
    assert kept in runs.checkpoints(trial)
    assert runs.lines(trial) == [f"trials that can continue earlier runs, from step {step}: 1"]

    again = runs.run("train.decay=0.4", "evaluate.check_every=10")
    never = fresh.run("train.decay=0.4", "evaluate.check_every=10")
    assert again["status"] == "completed" and again["parent"] is None
    assert scores(again) == scores(never)
    assert runs.curve(trial) == fresh.curve(trial)
    assert all(name.endswith(".keep.pt") for name in runs.checkpoints(trial))


@pytest.mark.parametrize("schedule", ["wsd", "constant"])
def test_more_steps_continue_where_the_shorter_run_was_kept(
    runs: Tried, fresh: Tried, schedule: str
) -> None:
    short, sets = f"train.schedule={schedule}", (f"train.schedule={schedule}", "train.steps=90")
    first = runs.run(short)
    start = 30 if schedule == "wsd" else 60
    longer = runs.trial(*sets)
    assert runs.lines(longer) == [f"trials that can continue earlier runs, from step {start}: 1"]
    ending, never = runs.run(*sets), fresh.run(*sets)
    assert (ending["parent"], never["parent"]) == (first["id"], None)
    assert scores(ending) == scores(never)
    whole = fresh.curve(longer)
    assert runs.curve(longer) == {step: whole[step] for step in whole if step > start}


def test_a_run_cut_twice_keeps_its_parent(runs: Tried) -> None:
    first = runs.run()
    longer = runs.trial("train.steps=90")
    runs.at(longer, 40).interrupt()
    cut = runs.ending(longer)
    assert cut["status"] == "interrupted" and cut["loss"] > 0, "the loss of its last row"
    assert cut["acc"] is cut["total"] is None
    ending = runs.run("train.steps=90")
    assert (ending["status"], ending["parent"]) == ("completed", first["id"])


def test_a_solved_run_answers_at_once_or_trains_on(runs: Tried, fresh: Tried) -> None:
    """The success mark is so low that every check passes it, and so does the verdict."""
    solved = ("stop.success=1e-9", "goal=acc >= 0", "train.lr=0.01")
    first = runs.run(*solved)
    assert first["status"] == "solved" and first["step"] % 20 == 0 and first["step"] <= 30
    assert runs.run(*solved, "train.steps=90")["parent"] == first["id"]
    assert scores(runs.ending(runs.trial(*solved, "train.steps=90"))) == scores(first)
    assert not runs.curve(runs.trial(*solved, "train.steps=90"))

    latest = first
    for mark in ("stop.success=1", "stop.success=null"):  # each goes on where the last was kept
        sets = (*solved, "train.steps=90", mark)
        ending, never = runs.run(*sets), fresh.run(*sets)
        assert (ending["status"], ending["parent"]) == ("completed", latest["id"])
        assert scores(ending) == scores(never)
        latest = ending


def test_a_run_that_was_not_checked_stands_for_none_that_is(runs: Tried, fresh: Tried) -> None:
    """Nobody knows whether the unchecked run would have been solved on its way."""
    runs.run("train.lr=0.01")
    for sets in [("stop.success=1e-9",), ("stop.success=1", "evaluate.check_samples=17")]:
        sets = (*sets, "goal=acc >= 0", "train.steps=90", "train.lr=0.01")
        [line] = runs.lines(runs.trial(*sets))
        assert line.startswith("trials that would start again: 1: this grid's stop rules might")
        ending, never = runs.run(*sets), fresh.run(*sets)
        assert ending["parent"] is None and scores(ending) == scores(never)


def test_a_budget_of_tokens_is_extended(runs: Tried, fresh: Tried) -> None:
    each = runs.run()["tokens"] // 60
    sets = ("seeds=[5]", f"stop.tokens={25 * each - 1}")
    cut = runs.run(*sets)
    assert (cut["status"], cut["step"], cut["tokens"]) == ("completed", 25, 25 * each)
    assert cut["acc"] is not None and runs.curve(runs.trial(*sets))[25][1] == cut["acc"]
    more = ("seeds=[5]", f"stop.tokens={28 * each}")
    ending, never = runs.run(*more), fresh.run(*more)
    assert ending["parent"] == cut["id"] and ending["step"] == 28
    assert scores(ending) == scores(never)
    less = runs.run("seeds=[5]", f"stop.tokens={15 * each}")
    assert (less["parent"], less["step"]) == (None, 15)


def test_a_state_at_the_last_step_needs_a_verdict_alone(runs: Tried, fresh: Tried) -> None:
    sets = ("train.schedule=constant",)
    first = runs.run(*sets)
    other = (*sets, "evaluate.verdict_samples=33")
    ending, never = runs.run(*other), fresh.run(*other)
    assert ending["parent"] == first["id"] and scores(ending) == scores(never)


@pytest.mark.parametrize("lr", ["1e38", "0.01"])
def test_divergence_leaves_no_state_behind(runs: Tried, fresh: Tried, lr: str) -> None:
    """lr = 1e38 diverges at once. The other run is made to diverge in its decay, after the step at
    which its state was kept."""
    sets = (f"train.lr={lr}", "train.warmup=0", "train.clip=1e38")
    trial = runs.trial(*sets)
    attempt = runs.begin(trial)
    training = training_of(attempt)
    while attempt.status is None:
        if training.step == 35:
            for weights in training.model.parameters():
                weights.data.fill_(float("nan"))
        attempt.advance(0.0)
    assert attempt.status == "diverged" and runs.ending(trial)["acc"] is None
    longer = runs.trial(*sets, "train.steps=90")
    if lr == "1e38":
        assert not runs.checkpoints(trial)
        [line] = runs.lines(longer)
        assert line.endswith("1: earlier runs saved no state that they would pass through")
    else:
        assert runs.lines(longer) == ["trials that can continue earlier runs, from step 30: 1"]
    ending, never = (each.run(*sets, "train.steps=90") for each in (runs, fresh))
    assert ending["parent"] == (None if lr == "1e38" else trial.id)
    assert repr(scores(ending)) == repr(scores(never))  # nan is not nan, but reads alike


@pytest.mark.parametrize("damage", [lambda data: data[:-100], lambda data: _flipped(data)])
def test_a_damaged_checkpoint_is_skipped(
    runs: Tried, fresh: Tried, damage: Callable[[bytes], bytes]
) -> None:
    first = runs.trial("train.steps=40")
    runs.run("train.steps=40")
    runs.run()
    assert len(runs.checkpoints(first)) == 2  # kept at steps 20 and 30
    latest = runs.checkpoints(first)[-1]
    folder = Path(runs.store.address) / "checkpoints" / first.trunk
    (folder / latest).write_bytes(damage((folder / latest).read_bytes()))
    ending, never = runs.run("train.steps=90"), fresh.run("train.steps=90")
    assert ending["parent"] == first.id  # from step 20
    assert scores(ending) == scores(never)
    assert "is damaged, trying an older one" in runs.store.read_log(ending["id"])


def _flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


def test_checks_are_handed_out_once_and_again_to_a_later_attempt(runs: Tried) -> None:
    trial = runs.trial()
    attempt = runs.at(trial, 20)
    [first] = attempt.news()
    assert first.step == 20 and not attempt.news()
    while training_of(attempt).step < 45:
        attempt.advance(0.0)
    assert [check.step for check in attempt.news()] == [40]
    attempt.interrupt()
    later = runs.begin(trial)
    assert [check.step for check in later.news()] == [20, 40]
    evaluate = Evaluate(20, check_samples=8, verdict_samples=32)
    longer = runs.begin(replace(trial, values=replace(trial.values, evaluate=evaluate)))
    assert longer.news() == []  # checks of another kind


@pytest.mark.parametrize(
    ("rule", "stops_at", "told"),
    [
        ("stop.asha={grace: 20, reduction: 2}", 20, [20]),
        ("stop.plateau={std: 0.001, checks: 2, grace: 20}", 20, [20]),
        ("stop.success=1.0", 60, [20, 40]),
    ],
)
def test_a_slice_ends_at_a_check_that_a_rule_waits_for(
    runs: Tried, rule: str, stops_at: int, told: list[int]
) -> None:
    """Otherwise the slice goes on, and all its checks are told together. So the driver hears less
    often."""
    attempt = runs.begin(runs.trial(rule))
    attempt.advance(60.0)
    assert training_of(attempt).step == stops_at
    assert [check.step for check in attempt.news()] == told
