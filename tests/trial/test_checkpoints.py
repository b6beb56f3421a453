"""Where trials may start: the names of checkpoints, and which of them are on a trial's way. Also
tested is what is said of this before a launch. The ledger is made up here; test_attempt.py uses a
real one."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sweepd.grid.plan import plan
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial
from sweepd.store.names import Checkpoint
from sweepd.store.schema import TRIALS
from sweepd.trial.attempt import ledger_columns
from sweepd.trial.checkpoints import outlook, reachable

CONTINUED = "trials that can continue earlier runs, from step {}: 1"
GRID = "task: {name: lis, n: 6}\nmodel: {name: standard, d: 8}\n"


def planned(*sets: str) -> Sequence[Trial]:
    return plan(parse_grid(GRID, "grid.yaml", sets, Path())).trials


def only(*sets: str) -> Trial:
    [trial] = planned(*sets)
    return trial


def ended(trial: Trial, status: str = "completed", step: int = 1000) -> dict[str, Any]:
    spent = {"step": step, "tokens": 10 * step, "seconds": 0.01 * step}
    return {**ledger_columns(trial, 1001, "s"), "status": status, **spent}


def lines(
    todo: Sequence[Trial],
    *rows: dict[str, Any],
    kept: Iterable[tuple[Trial, int]] = (),
    other: Iterable[tuple[Trial, int]] = (),
) -> list[str]:
    """kept: (trial, step) of checkpoints kept; other: of checkpoints of a running trial."""
    names: dict[str, list[str]] = {}
    for found, is_kept in ((kept, True), (other, False)):
        for trial, step in found:
            names.setdefault(trial.trunk, []).append(Checkpoint(step, trial.id, is_kept).name)
    table = TRIALS.concat([TRIALS.table(rows)] if rows else [])
    return list(outlook(todo, table, lambda trunk: names.get(trunk, [])).lines())


def test_the_furthest_on_the_way_comes_first() -> None:
    trial, longer = only("train.steps=500"), only("train.steps=1000")  # trunks end at 400 and 800
    names = [
        Checkpoint(*each).name
        for each in [
            (800, longer.id, True), (400, trial.id, True), (300, "x", True), (900, "y", False),
            (450, trial.id, False), (950, longer.id, False),
        ]
    ]  # fmt: skip
    steps = [checkpoint.step for checkpoint in reachable(trial, [*names, "README"])]
    assert steps == [450, 400, 300]
    assert [found.step for found in reachable(longer, names)] == [950, 800, 400, 300]


def test_nothing_is_said_of_a_first_run() -> None:
    assert lines(planned("seeds=[0,1,2]")) == []
    unrelated = [only(change) for change in ("model.d=16", "train.lr=1e-3", "seeds=[9]")]
    assert lines(planned(), *(ended(trial, step=500) for trial in unrelated)) == []


def test_longer_trials_continue_and_say_from_where() -> None:
    short, early = only("train.steps=500"), only("train.steps=500", "seeds=[1]")
    rows = [ended(short, step=500), ended(early, "stopped", 200)]
    kept = [(short, 400), (early, 200)]
    todo = planned("seeds=[0,1,2]")
    said = "trials that can continue earlier runs, from steps 200 to 400: 2"
    assert lines(todo, *rows, kept=kept) == [said]
    assert lines(todo[:1], *rows, kept=kept) == [said.replace("s 200 to", "").replace(": 2", ": 1")]


def test_so_do_interrupted_ones() -> None:
    trial = only()
    found = lines([trial], ended(trial, "interrupted", 70), other=[(trial, 70)])
    assert found == [CONTINUED.format(70)]


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_a_rate_that_depends_on_the_steps_starts_again(schedule: str) -> None:
    sets = (f"train.schedule={schedule}", "seeds=[0,1,2]")
    rows = [ended(trial, step=500) for trial in planned(*sets, "train.steps=500")[:2]]
    assert lines(planned(*sets), *rows) == [
        f"trials that would start again: 2: with schedule: {schedule} the rate at every step "
        "depends on train.steps (wsd or constant can be continued)"
    ]


def test_so_does_one_whose_rate_falls_earlier() -> None:
    short = only("train.steps=500", "train.decay=0")
    [line] = lines([only("train.decay=0.6")], ended(short, step=500), kept=[(short, 500)])
    assert line.endswith(
        "1: their learning rate starts to fall before the step that earlier runs saved"
    )


@pytest.mark.parametrize(
    ("past", "now", "continues"),
    [
        ([], ["stop.success=0.95"], False),
        (["stop.success=0.95"], [], True),
        (["stop.success=0.95"], ["stop.success=0.95"], True),
        (["stop.success=0.95"], ["stop.success=0.99"], True),
        (["stop.success=0.99"], ["stop.success=0.95"], False),
        (["stop.success=0.95"], ["stop.success=0.95", "evaluate.check_every=100"], False),
        ([], ["evaluate.check_every=100"], True),
        ([], ["stop.tokens=4001"], True),
        ([], ["stop.tokens=4000"], False),
        ([], ["stop.seconds=3.9"], False),
        (["stop.flops=1e18"], ["stop.plateau={grace: 9}"], True),
    ],
)
def test_what_ends_a_trial_must_not_have_ended_it_before(
    past: list[str], now: list[str], continues: bool
) -> None:
    """The other run is known up to step 400, where its state was kept."""
    short = only("train.steps=500", *past)
    [line] = lines([only(*now)], ended(short, step=400), kept=[(short, 400)])
    assert ("continue" in line) is continues
    assert continues or "stop rules might have ended the earlier runs" in line


def test_values_are_compared_as_what_they_mean() -> None:
    """If a ledger has rates of both kinds, numbers and rules, its column holds text."""
    short = only("train.steps=500", "train.lr=1e-3")
    rule = ended(only("seeds=[4]"), step=500)
    [line] = lines([only("train.lr=1e-3")], ended(short, step=500), rule, kept=[(short, 400)])
    assert "from step 400" in line


LOOP = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Mine:
    n: int = 2
    steps: int = 10
    task, size_field, metrics = "t", "n", {"acc": "up"}

    def start(self, seed, device):
        raise AssertionError("nothing is trained here")
"""


def test_what_is_said_of_a_loop(tmp_path: Path) -> None:
    """A loop that was interrupted goes on if its state was saved. A loop with more steps runs
    anew."""
    (tmp_path / "mine.py").write_text(LOOP)

    def made(*sets: str) -> Trial:
        return plan(parse_grid("loop: {name: mine.py:Mine}", "g", sets, tmp_path)).trials[0]

    trial, kept = made(), made("stop.seconds=3")
    cut = {**ended(trial, "interrupted", 5), "sweep": "s"}
    assert lines([trial], cut) == [
        "trials that would start again: 1: nothing was saved of them: their loop gives no `save` "
        "and `load`"
    ]
    assert lines([trial], cut, other=[(trial, 5)]) == [CONTINUED.format(5)]
    assert lines([trial], ended(kept, step=5), kept=[(kept, 5)]) == [CONTINUED.format(5)]
    [line] = lines([made("loop.steps=20")], ended(trial, step=10))
    assert line.endswith("so it runs anew with each number")
