"""A field that comes later leaves no trace in an identity at the value at which it changes nothing,
wherever the field is."""

import dataclasses
import json
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any

import pytest

from sweepd.grid import registry, settings, spec
from sweepd.grid.fingerprint import KINDS
from sweepd.grid.plan import plan
from sweepd.grid.registry import NEUTRAL, find, shipped
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial
from sweepd.run.driver import sweep_info
from sweepd.store.sweeps import SweepInfo
from sweepd.trial.attempt import started
from sweepd.trial.training import Training

GRID = """
task: {name: lookup, n: 4}
model: {name: linear, d: 8}
train: {steps: 20, lr: {base: 5.0e-3, at_d: 32}}
stop: {plateau: {grace: 10}}
goal: acc > 0.9
"""
LOOP = "loop: {name: mine.py:Mine, n: 3, steps: 4}\ngoal: acc > 0.9\n"
MINE = """
from dataclasses import dataclass, field

@dataclass(frozen=True)
class Mine:
    n: int = 2
    steps: int = 3
    size_field = "n"
    task = "mine"
    metrics = {"acc": "up"}

    def start(self, seed, device):
        return None
"""

LATER = 'field(default=0.5, metadata={"neutral": 0.5})'


def ids(trial: Trial) -> tuple[str, ...]:
    return trial.id, trial.config, trial.trunk


def trial_of(text: str, *overrides: str, base: Path = Path()) -> Trial:
    [first, *_] = plan(parse_grid(text, "grid.yaml", overrides, base)).trials
    return first


def training_of(trial: Trial) -> Training:
    run = started(trial, Path(), "cpu")
    assert isinstance(run, Training)
    return run


def with_later(kind: Any, declared: dict[str, Any]) -> Any:
    """The class with one more field."""
    later = ("later", float, field(default=0.5, metadata=declared))
    outer = {"__module__": kind.__module__, "__post_init__": kind.__post_init__}
    return make_dataclass(kind.__name__, [later], bases=(kind,), frozen=True, namespace=outer)


@pytest.mark.parametrize("where", ["train", "evaluate", "stop", "task", "model"])
def test_a_later_field_of_ours(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def trial_with(declared: dict[str, Any], value: str = "") -> Trial:
        with monkeypatch.context() as patched:
            if where in spec.SETTINGS:
                made = with_later(spec.SETTINGS[where], declared)
                patched.setitem(spec.SETTINGS, where, made)
            else:
                made = with_later(find("model", "linear", Path()), declared)
                if where == "task":
                    made = with_later(find("task", "lookup", Path()), declared)
                patched.setattr(
                    "sweepd.grid.registry.find",
                    lambda kind, *name: made if kind == where else find(kind, *name),
                )
            return trial_of(GRID, *([f"{where}.later={value}"] if value else []))

    before, neutral = trial_of(GRID), {NEUTRAL: 0.5}
    same = trial_with(neutral)
    assert same.axes["later"] == 0.5
    assert ids(same) == ids(before)
    assert ids(trial_with(neutral, "0.5")) == ids(before)
    assert not {*ids(trial_with(neutral, "0.75"))[:2]} & {*ids(before)}
    assert not {*ids(trial_with({}))[:2]} & {*ids(before)}, "it counts unless it says when not"


def test_a_sweep_says_where_trials_from_before_a_field_stand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later = with_later(settings.Train, {NEUTRAL: 0.5})
    monkeypatch.setitem(spec.SETTINGS, "train", later)
    made = plan(parse_grid(GRID, "grid.yaml", [], Path()))
    assert made.neutral == {"task": {}, "model": {"linear": {"later": 0.5}}}
    assert SweepInfo.from_json(sweep_info(made).to_json()).neutral == made.neutral


def test_a_later_field_of_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """The column of a rule is as before, too: one cell holds the trials from before and after."""
    before = trial_of(GRID)
    later = with_later(settings.LrRule, {NEUTRAL: 0.5})
    monkeypatch.setitem(settings.Train.__annotations__, "lr", float | later)
    registry._types.cache_clear()
    same, other = trial_of(GRID), trial_of(GRID, "train.lr.later=0.75")
    registry._types.cache_clear()
    assert isinstance(same.axes["lr"], str) and same.axes["lr"] == before.axes["lr"]
    assert ids(same) == ids(before)
    assert not {*ids(other)} & {*ids(before)}
    assert json.loads(str(other.axes["lr"]))["later"] == 0.75


def test_a_later_field_of_a_user_s_loop_is_found_again_by_its_settings(tmp_path: Path) -> None:
    """The file has changed, so the id is another. `config`, by which `--accept-code` looks for what
    the earlier file did, is as before."""
    mine = tmp_path / "mine.py"
    mine.write_text(MINE)
    before = trial_of(LOOP, base=tmp_path)
    mine.write_text(MINE.replace("steps: int = 3", f"steps: int = 3\n    later: float = {LATER}"))
    after = trial_of(LOOP, base=tmp_path)
    assert (after.config == before.config, after.id == before.id) == (True, False)
    assert after.axes["later"] == 0.5


def test_what_is_neutral_is_the_default() -> None:
    """A frozen grid from before a field has no value of it, and gets the default."""
    kinds = [find(kind, entry.name, Path()) for kind in KINDS[:2] for entry in shipped(kind)]
    blocks = [settings.Train, settings.Evaluate, settings.Stop, settings.LrRule]
    for kind in (*kinds, *blocks, settings.Plateau, settings.Asha):
        for one in dataclasses.fields(kind):
            if NEUTRAL in one.metadata:
                assert one.default == one.metadata[NEUTRAL], (kind, one.name)


def test_a_checkpoint_from_before_a_field_of_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = trial_of(GRID)
    past = training_of(trial)
    state = past.read(past.snapshot())
    later = with_later(settings.Evaluate, {NEUTRAL: 0.5})
    monkeypatch.setattr("sweepd.trial.training.Evaluate", later)
    run = training_of(trial)
    for value, alike in ((0.5, True), (0.75, False)):
        run.evaluation = later(**dataclasses.asdict(settings.Evaluate()), later=value)
        assert run.is_checked_alike(state) is alike
