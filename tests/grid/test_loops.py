"""`loop:` in a grid: what its class must give, which settings go with it and which do not. Its
trials: their fields, identity, budgets and costs. Covers `grid/metrics.py`."""

from pathlib import Path

import pytest

from sweepd.grid.plan import Plan, plan
from sweepd.grid.spec import json_schema, parse_grid
from sweepd.grid.trials import Trial
from sweepd.grid.yamlfile import GridError
from sweepd.store.schema import PLAN

LOOP = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Mine:
    hidden: int
    n: int = 2
    steps: int = 10

    task = "t"
    size_field = "n"
    metrics = {"f1": "up", "err": "down", "acc": "up"}

    def start(self, seed, device):
        raise AssertionError("a plan trains nothing")
"""
GRID = """\
loop: {name: mine.py:Mine, hidden: [4, 8], n: [2, 3]}
goal: f1 > 0.8
"""


def planned(folder: Path, *sets: str, text: str = GRID, loop: str = LOOP) -> Plan:
    (folder / "mine.py").write_text(loop)
    return plan(parse_grid(text, "grid.yaml", sets, folder))


def refused(folder: Path, *sets: str, text: str = GRID, loop: str = LOOP) -> str:
    with pytest.raises(GridError) as raised:
        planned(folder, *sets, text=text, loop=loop)
    return str(raised.value)


def test_its_trials(tmp_path: Path) -> None:
    made = planned(tmp_path, "seeds=[0,1]")
    assert len(made.trials) == 8 and made.size_fields == {"t": "n"}
    assert made.task_fields == {"t": ("n",)} and made.metrics == {"f1": "up", "err": "down"}
    trial = made.trials[-1]
    assert (trial.task_name, trial.model_name, trial.size, trial.L) == (
        "t",
        "mine.py:Mine",
        3,
        None,
    )
    assert trial.values.loop == {"hidden": 8, "n": 3, "steps": 10} and trial.train.steps == 10
    assert trial.classes == (("loop", "mine.py:Mine"),)
    assert list(trial.axes)[:4] == ["hidden", "n", "steps", "success"]
    assert "batch_size" not in trial.axes and "check_every" not in trial.axes
    assert (trial.params, trial.flops, trial.train_flops, trial.effort) == (None, None, None, 10)
    assert PLAN.table([{**row, "sweep": "s"} for row in made.rows()]).num_rows == 8


def test_an_alias_is_its_name(tmp_path: Path) -> None:
    assert {t.model_name for t in planned(tmp_path, "loop.as=net").trials} == {"net"}


def test_what_is_its_identity(tmp_path: Path) -> None:
    def ids(*sets: str, loop: str = LOOP) -> tuple[set[str], set[str]]:
        trials = planned(tmp_path, *sets, loop=loop).trials
        return {t.id for t in trials}, {t.config for t in trials}

    before, configs = ids()
    assert ids("stop.seconds=9")[0].isdisjoint(before)
    assert ids("search={staircase: {minimize: hidden}}", "goal=acc > 0.5")[0] == before
    assert ids(loop=f'"""A docstring."""{LOOP}  # and a comment')[0] == before
    changed, same = ids(loop=LOOP.replace("trains nothing", "trains"))
    assert changed.isdisjoint(before) and same == configs


def test_a_grid_written_out_is_the_same(tmp_path: Path) -> None:
    made = planned(tmp_path, "stop.plateau={grace: 5}")
    again = plan(parse_grid(made.grid.resolved_text(), "grid.yaml", [], tmp_path))
    assert again.trials == made.trials


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("(frozen=True)", ""),
            "5: Mine is a dataclass that can be changed: put @dataclass(frozen",
        ),
        (
            ("@dataclass(frozen=True)", ""),
            "Mine is no dataclass: put @dataclass(frozen=True) above",
        ),
        (("def start", "def begin"), "lacks `start`: `start(self, seed, device)`, which returns"),
        (("def start(self, seed, device)", "start = 3\n    def s(self)"), "that cannot be called"),
        (('    task = "t"', ""), "lacks `task`: what it learns, such as `task = 'digits'`"),
        (('size_field = "n"', 'size_field = "m"'), "lacks the field 'm', which its `size_field`"),
        (('size_field = "n"', ""), "lacks `size_field`: the name of the field that makes its"),
        (('{"f1": "up", "err": "down", "acc": "up"}', "('f1',)"), "whether more of f1 is better"),
        (('{"f1": "up", "err": "down", "acc": "up"}', "{}"), "has `metrics` that are no mapping"),
        (('"f1": "up"', '"f1": "high"'), "has the metric f1: 'high'; say 'up' if more is better"),
        (('"f1": "up"', '"F 1": "up"'), "has a metric named 'F 1'; a name has small letters"),
        (('"f1": "up"', '"f1_min": "up"'), "does not end in _min, _max, _least or _most"),
        (('"acc": "up"', '"acc": "down"'), "has the metric acc: 'down'; everywhere, acc is 'up'"),
        (("n: int = 2", "n: int = 2\n    cost: int = 2"), "has a `cost` that cannot be called"),
        (("hidden: int", "hidden: list"), "has a field hidden that is no int, float, str, bool"),
    ],
)
def test_a_class_that_is_no_loop(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in LOOP
    told = refused(tmp_path, loop=LOOP.replace(*change))
    assert f"{tmp_path}/mine.py:5: Mine " in told and message in told


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (["task={name: lis, n: 6}"], "a grid with a loop has no such key"),
        (["train.lr=1"], "a grid with a loop has no such key"),
        (["evaluate.check_every=5"], "a grid with a loop has no such key"),
        (["stop.success=0.9"], "stop.success: nothing confirms the row of a loop"),
        (["stop.tokens=9"], "stop.tokens: nobody counts the tokens of a loop; leave tokens out"),
        (["stop.flops=9"], "give it a field `steps`; leave flops out"),
        (["goal=f2 > 0.8"], "mine.py:Mine reports no f2; it reports f1, err, acc"),
        (["goal=f1 < 0.8"], "for mine.py:Mine, more f1 is better; write f1 > 0.8"),
        (["loop.hidden=x"], "must be a valid integer"),
        (["loop.hiden=4"], "has no such key (did you mean hidden?)"),
        (["loop.steps=0"], "steps = 0: a budget of steps is a whole number from 1 on"),
        (["loop.name=nowhere.py:Mine"], "no loop nowhere.py:Mine: there is no"),
        (["loop.name=lis"], "no loop is named lis; write path/to/file.py:Name or package.module:"),
        (["loop.as=a b"], "an alias has up to 100 letters"),
        (
            ["search=staircase"],
            "d: no field of this grid; write search: {staircase: {minimize: hidden}}",
        ),
        (["tune=[loop.lr]"], "loop.lr is no field of this grid"),
        (
            ["settle={least: 20, most: 80}", "seeds=[0,1,2]"],
            "write search: {staircase: {minimize: hidden}}, or",
        ),
    ],
)
def test_what_does_not_go_with_a_loop(tmp_path: Path, sets: list[str], message: str) -> None:
    assert message in refused(tmp_path, *sets)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"err": "down"', '"seconds": "down"'), "a metric seconds, the name of a column of every"),
        (('"err": "down"', '"solved": "down"'), "a metric solved, the name of a column of every"),
        (('"err": "down"', '"lr": "down"'), "a metric lr, the name of a setting of the built-in"),
        (('"err": "down"', '"hidden": "down"'), "has a field hidden, the name of a metric of"),
        (
            ("n: int = 2", "n: int = 2\n    seeds: int = 1"),
            "has a field seeds, the name of a column",
        ),
        (("n: int = 2", "n: float = 2"), "n = 2.0: it is the size, so a whole number"),
        (('task = "t"', "task = 3"), "task = 3: must be a text, such as 'digits'"),
    ],
)
def test_what_only_a_plan_can_refuse(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert message in refused(tmp_path, loop=LOOP.replace(*change))


def test_what_it_costs(tmp_path: Path) -> None:
    counted = f"{LOOP}\n    def cost(self):\n        return {{'params': 9, 'train_flops': 1e30}}\n"
    trial = planned(tmp_path, loop=counted).trials[0]
    assert (trial.params, trial.train_flops, trial.effort) == (9, 1e30, 1e30)
    for wrong, message in (("{'flop': 1}", "it gives a mapping of some"), ("{'flops': -1}", "-1")):
        text = f"{LOOP}\n    def cost(self):\n        return {wrong}\n"
        assert message in refused(tmp_path, loop=text)


def test_settling_raises_its_steps(tmp_path: Path) -> None:
    sets = [
        "seeds=[0,1,2]",
        "search={staircase: {minimize: hidden}}",
        "settle={least: 20, most: 35}",
    ]
    made = planned(tmp_path, *sets)
    on_demand = {(t.seed, t.train.steps) for t in made.trials if t.on_demand}
    fresh = {(seed, 10) for seed in made.grid.fresh_seeds}
    longer = {(s, n) for s in (*made.grid.seeds, *made.grid.fresh_seeds) for n in (20, 35)}
    assert on_demand == fresh | longer
    [one] = [t for t in made.trials if same(t, made.trials[0], 35)]
    assert one.axes["steps"] == one.values.loop["steps"] == 35 and one.trunk != made.trials[0].trunk
    without = LOOP.replace("    steps: int = 10\n", "")
    assert "has no field `steps`, its budget" in refused(tmp_path, *sets, loop=without)


def same(one: Trial, other: Trial, steps: int) -> bool:
    axes = {**other.axes, "steps": steps}
    return (one.axes, one.seed) == (axes, other.seed)


def test_two_loops_that_do_not_agree(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(LOOP.replace('"err": "down"', '"err": "up"'))
    text = GRID.replace("name: mine.py:Mine", "name: [mine.py:Mine, other.py:Mine]")
    told = refused(tmp_path, text=text)
    assert "err is better up for other.py:Mine and down for mine.py:Mine; rename it" in told


def test_the_schema_knows_it() -> None:
    schema = json_schema()
    assert "loop" in schema["properties"]
    refused = schema["oneOf"][1]["properties"]
    assert [*refused] == ["task", "model", "train", "evaluate", "lengths"]  # always in one order
    assert not any(refused.values())
