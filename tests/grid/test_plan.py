"""The trials of a plan: what is part of their identity and what is not, the trunk that they share
with longer runs, duplicates, order, costs and warnings. Also tested is what is refused only because
a model cannot be built. Covers `grid/advice.py` and `grid/trials.py`."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.grid.axes import canonical
from sweepd.grid.costs import costs
from sweepd.grid.fingerprint import current_code
from sweepd.grid.options import RESERVED, column
from sweepd.grid.plan import Plan, plan
from sweepd.grid.registry import find
from sweepd.grid.settings import Evaluate, Stop, Train
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial, competitors
from sweepd.grid.yamlfile import GridError
from sweepd.models.standard import Standard
from sweepd.store.schema import PLAN, TRIALS
from sweepd.tasks.lis import LIS

GRID = """\
name: a
task: {name: lis, n: 6, value_range: 16}
model: {name: standard, d: 8, heads: 2}
"""

MINE = """
from dataclasses import dataclass
from sweepd.tasks.lis import LIS

@dataclass(frozen=True)
class Mine(LIS):
    level: int = 1
"""

MODEL = """
from dataclasses import dataclass
from sweepd.models.standard import Standard

@dataclass(frozen=True)
class Mine(Standard):
    block: int = 4

    def build(self, vocab, L, capacity, generator):
        if self.block > L:
            raise ValueError(f"block = {self.block} is larger than L = {L}")
        return super().build(vocab, L, capacity, generator)
"""


def planned(*sets: str, text: str = GRID, base: Path = Path()) -> Plan:
    return plan(parse_grid(text, "grid.yaml", sets, base))


def only(*sets: str, text: str = GRID, base: Path = Path()) -> Trial:
    [trial] = planned(*sets, text=text, base=base).trials
    return trial


def problems(*sets: str, text: str = GRID, base: Path = Path()) -> list[str]:
    with pytest.raises(GridError) as caught:
        planned(*sets, text=text, base=base)
    return [str(problem) for problem in caught.value.problems]


def test_a_trial() -> None:
    trial = only("train.steps=10", "seeds=[3]")
    assert (trial.task_name, trial.model_name, trial.size, trial.L, trial.seed) == (
        *("lis", "standard", 6, 15, 3),
    )
    assert trial.values.task == {"cot": True, "n": 6, "value_range": 16}
    assert trial.train == Train(steps=10)
    assert trial.axes["lr"] == '{"at_d":32,"base":0.005,"max":0.01,"power":-0.5}'
    assert trial.axes["success"] is None
    assert list(trial.axes)[:4] == ["cot", "n", "value_range", "d"]
    task = find("task", trial.task_name, Path())(**trial.values.task)
    model = find("model", trial.model_name, Path())(**trial.values.model)
    found = costs(model, len(task.vocab), task.L, task.capacity)
    assert (trial.params, trial.flops) == (found.params, found.flops)
    assert trial.flops_weights == found.flops_weights
    assert trial.state_bytes == found.state_bytes
    assert trial.train_bytes == found.train_bytes(trial.train.batch_size) > 16 * found.params
    assert trial.train_flops == 3 * found.flops * 10 * 64
    assert [len(digest) for digest in (trial.id, trial.trunk, trial.config)] == [20, 20, 20]
    code = current_code((("task", "lis"), ("model", "standard")), Path())
    assert code is not None
    assert trial.code == code.digest
    assert planned().codes == {code.digest: code}
    assert planned().size_fields == {"lis": "n"}


def test_a_trial_s_row_fits_the_store() -> None:
    row = only().row()
    assert PLAN.table([{**row, "sweep": "a"}]).num_rows == 1
    assert row.keys() - PLAN.fixed.keys() == only().axes.keys()


def test_results_have_no_column_that_is_not_reserved() -> None:
    assert set(RESERVED) >= (TRIALS.fixed | PLAN.fixed).keys()


@pytest.mark.parametrize(
    "change",
    [
        *("task.n=7", "task.value_range=17", "model.d=16", "model.heads=4", "model.layers=2"),
        *("model.name=linear", "model.positions=learned", "model.dropout=0.1", "seeds=[1]"),
        *("train.steps=999", "train.batch_size=65", "train.lr=1e-3", "train.lr={base: 1e-3}"),
        *("train.lr.base=5e-3", "train.schedule=cosine", "train.warmup=99", "train.decay=0.3"),
        *("train.floor=0", "train.weight_decay=0", "train.beta1=0.8", "train.beta2=0.99"),
        *("train.clip=2", "evaluate.check_every=100", "evaluate.check_samples=99"),
        *("evaluate.verdict_samples=99", "stop.success=0.95", "stop.tokens=9", "stop.seconds=9"),
        *("stop.flops=1e12", "train.precision=bf16", "train.compile=true"),
        *("stop.plateau={grace: 9}", "stop.asha={grace: 9}"),
    ],
)
def test_what_can_change_the_outcome_changes_the_id(change: str) -> None:
    same = change == "train.lr.base=5e-3"  # what is written out, but is the default
    assert (only(change).config == only().config) is same
    assert (only(change).id == only().id) is same
    ends = ("evaluate.", "stop.", "train.steps", "train.decay")
    assert (only(change).trunk == only().trunk) is (same or change.startswith(ends))


@pytest.mark.parametrize(
    "change",
    [
        *("name=b", "goal=acc >= 0.5", "pass=all", "search=staircase", "resources={cpus: 2}"),
        *("retries=3", "hang_seconds=3", "log_to=[tensorboard]", "tune=[train.lr]", "train={}"),
        *("model.layers=3", "stop={}", "stop.flops=null"),
        "model=[{name: standard, d: 8, heads: 2}]",
    ],
)
def test_what_cannot_change_the_outcome_does_not_change_the_trial(change: str) -> None:
    assert only(change) == only()


@pytest.mark.parametrize("schedule", ["wsd", "constant", "cosine", "linear"])
def test_the_trunk_leaves_out_what_a_longer_run_shares(schedule: str) -> None:
    """Runs of one trunk pass through the same weights up to `trunk_end`."""
    base, longer, decayed = (
        only(f"train.schedule={schedule}", change)
        for change in ("name=x", "train.steps=2000", "train.decay=0.5")
    )
    assert (base.trunk == longer.trunk) is base.train.extensible
    assert base.trunk == decayed.trunk
    assert len({base.id, longer.id, decayed.id}) == 3


def test_a_success_mark_at_the_goal_is_warned_about() -> None:
    assert planned("goal=acc >= 0.9", "stop.success=0.95").warnings == planned().warnings
    [note] = [
        note
        for note in planned("goal=acc >= 0.9", "stop.success=0.9").warnings
        if "stop.success is the goal itself, 0.9" in note
    ]
    assert "one more chance" in note


@pytest.mark.parametrize("schedule", ["wsd", "constant", "cosine", "linear"])
@given(st.integers(1, 3000), st.integers(0, 99))
@settings(max_examples=20)
def test_a_budget_of_flops_is_a_number_of_steps(schedule: str, paid: int, share: int) -> None:
    """Such a trial is the trial of that many steps, except for its id: the trunk and the cost are
    the same."""
    chosen = f"train.schedule={schedule}"
    each = only(chosen, "train.steps=1").effort
    found = only(chosen, "train.steps=1000", f"stop.flops={each * (paid + share / 100)!r}")
    plain = only(chosen, f"train.steps={min(paid, 1000)}")
    assert found.axes["steps"] == 1000 and found.id != plain.id
    assert (found.train, found.train_flops) == (plain.train, plain.train_flops)
    assert (found.trunk, found.train.trunk_end) == (plain.trunk, plain.train.trunk_end)


def test_flops_that_pay_for_no_step() -> None:
    dearest = only("model.d=16", "train.steps=1", "train.batch_size=8").effort
    sets = ("model.d=[8,16]", "train.batch_size=[4,8]")
    assert len(planned(*sets, f"stop.flops={dearest}").trials) == 4
    [problem] = problems(*sets, f"stop.flops=[1e18,{dearest - 1}]")
    assert problem.startswith("(--set stop.flops): stop.flops[1]:")
    assert f"less than the {dearest:.4g} of the dearest step" in problem


def test_competitors_differ_in_nuisance_axes_and_seeds_alone() -> None:
    sets = ("task.n=[6,7]", "model.d=[8,16]", "train.lr=[1e-3,1e-2]", "seeds=[0,1]")
    trials = planned(*sets).trials
    groups = {competitors(trial, ["train.lr"]) for trial in trials}
    assert len(groups) == 4
    assert len({competitors(trial, []) for trial in trials}) == 8
    unwise = ["train.lr", "task.n", "model.d"]
    assert {competitors(trial, unwise)[2:4] for trial in trials} == {
        (n, d) for n in (6, 7) for d in (8, 16)
    }


def test_what_is_written_twice_is_one_trial() -> None:
    blocks = (
        "model=[{name: standard, d: [8, 16], heads: 2}, {name: standard, d: [16, 32], heads: 2}]"
    )
    assert [trial.axes["d"] for trial in planned(blocks).trials] == [8, 16, 32]


def test_seed_by_seed_and_cheap_ones_first() -> None:
    trials = planned("seeds=[5,1]", "model.d=[32,8]", "train.steps=[30,10]").trials
    assert [(t.seed, t.axes["d"], t.axes["steps"]) for t in trials] == [
        *((5, 8, 10), (5, 8, 30), (5, 32, 10), (5, 32, 30)),
        *((1, 8, 10), (1, 8, 30), (1, 32, 10), (1, 32, 30)),
    ]
    for seed in (5, 1):
        spent = [trial.effort for trial in trials if trial.seed == seed]
        assert spent == sorted(spent)


def test_identity_is_hashed_as_one_canonical_text() -> None:
    """Stored trials are found by these hashes: a change here makes every store start again."""
    text = '{"a":{"x":0.1,"y":1.0},"b":[1,null,true,"\\u00e9"]}'
    assert canonical({"b": [1, None, True, "é"], "a": {"y": 1.0, "x": 0.1}}) == text


def mine(folder: Path, name: str, text: str = MINE) -> str:
    """A grid over a task of one's own, in a file below `folder`."""
    path = folder / name.partition(":")[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return GRID.replace("name: lis", f"name: {name}, level: 7")


def test_a_user_s_task_is_known_by_its_code_and_its_place_below_the_grid(tmp_path: Path) -> None:
    found = {}
    for folder in ("a", "b", "c"):
        text = MINE.replace("= 1", "= 2") if folder == "c" else f"# {folder}\n{MINE}"
        written = mine(tmp_path / folder, "tasks/mine.py:Mine", text)
        found[folder] = only(text=written, base=tmp_path / folder)
    assert found["a"].id == found["b"].id
    assert found["a"].config == found["c"].config
    assert found["a"].code != found["c"].code
    assert {found["a"].id, found["a"].trunk}.isdisjoint({found["c"].id, found["c"].trunk})
    assert found["a"].task_name == found["a"].task_where == "tasks/mine.py:Mine"
    assert found["a"].axes["level"] == 7


def test_copies_of_a_file_are_two_tasks(tmp_path: Path) -> None:
    one, two = (
        only(text=mine(tmp_path, f"{name}.py:Mine"), base=tmp_path) for name in ("one", "two")
    )
    assert one.code == two.code
    assert {one.id, one.trunk, one.config}.isdisjoint({two.id, two.trunk, two.config})


@pytest.mark.parametrize("written", ["a/mine.py", "./a/mine.py", "b/../a//mine.py", "ABSOLUTE"])
def test_however_a_file_is_written_it_is_the_same(tmp_path: Path, written: str) -> None:
    (tmp_path / "b").mkdir()
    text = mine(tmp_path, "a/mine.py:Mine")
    plain = only(text=text, base=tmp_path)
    written = written.replace("ABSOLUTE", str(tmp_path / "a/mine.py"))
    found = only(text=text.replace("a/mine.py", written), base=tmp_path)
    assert (found.id, found.task_name) == (plain.id, "a/mine.py:Mine")
    assert found.task_where == f"{written}:Mine"


def test_an_alias_is_the_name_and_the_identity(tmp_path: Path) -> None:
    text = mine(tmp_path, "a/mine.py:Mine, as: short")
    here = only(text=text, base=tmp_path)
    assert (here.task_name, here.task_where) == ("short", "a/mine.py:Mine")
    mine(tmp_path, "b/moved.py:Mine")
    moved = only(text=text.replace("a/mine.py", "b/moved.py"), base=tmp_path)
    assert (moved.id, moved.config) == (here.id, here.config)
    named = only(text=text.replace(", as: short", ""), base=tmp_path)
    assert named.config != here.config
    assert planned(text=text, base=tmp_path).size_fields == {"short": "n"}


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("d", "mine.py:Mine has a field d, the name of a field of"),
        ("steps", "mine.py:Mine has a field steps, the name of a field of train; rename the field"),
        ("success", "the name of a field of stop"),
        ("acc", "mine.py:Mine has a field acc, the name of a column of every result"),
        ("l", "mine.py:Mine has a field l, the name of a column of every result"),
        ("N", "mine.py:Mine has a field N, the name of a field of mine.py:Mine"),
        ("trial", "mine.py:Mine has a field trial, the name of a column of every result"),
        ("acc_min", "mine.py:Mine has a field acc_min, the name of an end of acc"),
    ],
)
def test_fields_that_would_share_a_column(tmp_path: Path, field: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(MINE.replace("level", field))
    found = problems(text=GRID.replace("name: lis", "name: mine.py:Mine"), base=tmp_path)
    assert len(found) == 1
    assert found[0].startswith("grid.yaml:")
    assert message in found[0] or "standard has a field d" in found[0]


def test_a_field_that_answers_use_is_warned_about(tmp_path: Path) -> None:
    """It is not refused, so a sweep that was saved with such a field can still be resumed."""
    (tmp_path / "mine.py").write_text(MINE.replace("level", "verdict"))
    text = GRID.replace("name: lis", "name: mine.py:Mine")
    [warning] = [one for one in planned(text=text, base=tmp_path).warnings if "verdict" in one]
    assert warning.startswith("mine.py:Mine has a field verdict, the name of a column of answers")


def test_what_only_the_length_shows_to_be_impossible(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODEL)
    text = GRID.replace("name: standard", "name: mine.py:Mine, layers: [1, 2], block: [4, 16]")
    assert problems("seeds=[1,2]", text=text, base=tmp_path) == [
        "grid.yaml:3: model.block[1]: block = 16 is larger than L = 15"
    ]


def test_what_cannot_be_counted(tmp_path: Path) -> None:
    [problem] = problems("model.d=4294967296")
    assert problem.endswith("model.d: d = 4294967296: must be from 1 to 1048576")
    [problem] = problems("task.n=1000000000000")
    assert problem.endswith("n = 1000000000000: must be from 1 to 50000")
    (tmp_path / "mine.py").write_text(
        MINE
        + "    @property\n    def capacity(self):\n        raise OSError(f'level {self.level}')\n"
    )
    assert problems(text=GRID.replace("name: lis", "name: mine.py:Mine"), base=tmp_path) == [
        f"grid.yaml:2: task: {tmp_path / 'mine.py'}:10: OSError: level 1"
    ]
    assert problems("train.lr={base: 1, power: 1000}", "model.d=1024") == [
        "(--set train.lr): train.lr: the rate at d = 1024 cannot be computed; choose a milder power"
    ]


def test_warnings_where_inputs_are_too_few() -> None:
    assert planned("task.n=8", "task.value_range=16").warnings == ()
    [few] = planned("task.n=3", "task.value_range=4", "train.steps=1000", "model.d=[8,16]").warnings
    assert few == (
        "lis(cot=True, n=3, value_range=4) has about 64 distinct inputs: a test of 1024 "
        "samples repeats the 4 that it may draw from, so its interval is too narrow; training "
        "sees each of its inputs 1143 times and may memorise them"
    )
    [narrow] = planned("task.n=3", "task.value_range=20", "train.steps=[1,2]").warnings
    assert "interval" in narrow
    assert "memorise" not in narrow
    assert len(planned("task.n=[2,3,8]", "train.steps=[1,2]").warnings) == 2


def test_a_width_that_changes_nothing_is_warned_about(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass, replace\n"
        "from sweepd.models.standard import Standard\n\n\n"
        "@dataclass(frozen=True)\n"
        "class Mine(Standard):\n"
        "    def parts(self, vocab, L):\n"
        "        return Standard(8, heads=2).parts(vocab, L)\n\n"
        "    def build(self, vocab, L, capacity, generator):\n"
        "        return Standard(8, heads=2).build(vocab, L, capacity, generator)\n"
    )
    sets = ("model.d=[8,16,32]", "model.layers=[3,4]")
    [warning] = planned("model.name=mine.py:Mine", *sets, base=tmp_path).warnings
    assert warning.startswith("mine.py:Mine: d = 8 and d = 16 build networks of the same size (")
    assert planned(*sets).warnings == ()


def test_axes_hold_every_field_of_every_block() -> None:
    trial = only()
    written = [
        LIS(6, 16), Standard(d=8, heads=2), trial.train, trial.values.evaluate, trial.values.stop,
    ]  # fmt: skip
    fields = {name for part in written for name in asdict(part)}  # type: ignore[arg-type]
    taken = fields & set(RESERVED)
    assert taken == {"tokens", "seconds", "flops"}
    assert trial.axes.keys() == fields - taken | {f"stop_{name}" for name in taken}


def test_what_decoding_costs_without_a_step(tmp_path: Path) -> None:
    """A note gives the most that decoding may cost: its forward passes as a share of those of
    training. It is given once for each model, not for each width."""
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom dataclasses import dataclass\n"
        "from sweepd.models.base import Architecture\n\n"
        "@dataclass(frozen=True)\nclass Mine(Architecture):\n"
        "    def build(self, vocab, L, capacity, generator):\n"
        "        width = self.d\n"
        "        return torch.nn.Sequential(\n"
        "            torch.nn.Embedding(vocab, width), torch.nn.Linear(width, vocab))\n"
    )
    sets = ["train={steps: 100, batch_size: 10}", "task.n=6"]
    sets += ["evaluate={check_every: 40, check_samples: 5, verdict_samples: 90}"]
    [note] = planned(*sets, "model={name: mine.py:Mine, d: [8, 16]}", base=tmp_path).notes
    decoded = 16 - 7  # tokens of a row with <eos>, without the prompt and its separator
    share = (2 * 5 + 90) * decoded / (3 * 100 * 10)
    assert note.startswith("mine.py:Mine has no `step`") and f"up to {share:.0%} of" in note
    assert planned(*sets).notes == ()


def slow_identity(trial: Trial) -> tuple[str, str, str]:
    """(id, trunk, config) of a trial whose axes are those of the grid: each hashed as a whole."""

    def digest(data: object) -> str:
        return hashlib.sha256(canonical(data).encode()).hexdigest()[:20]

    def axes(kind: type) -> dict[str, object]:
        names = ((column(kind.__name__.lower(), field.name)) for field in fields(kind))
        return {name: trial.axes[name] for name in names}

    def named(name: str, where: Mapping[str, object]) -> dict[str, object]:
        return {"name": name, **{key: trial.axes[key] for key in where}}

    train = axes(Train)
    stop = {name: value for name, value in axes(Stop).items() if value is not None}
    weights: dict[str, object] = {
        "task": named(trial.task_name, trial.values.task),
        "model": named(trial.model_name, trial.values.model),
        "seed": trial.seed,
    }
    judged = {"evaluate": axes(Evaluate), "stop": {"success": None, **stop}}
    config = digest({**weights, **judged, "train": train})
    parting = {"steps", "decay"} if trial.train.extensible else {"decay"}
    common = {**train, "steps": trial.train.steps}
    shared = {name: value for name, value in common.items() if name not in parting}
    trunk = digest([{**weights, "train": shared}, trial.code])
    return digest([config, trial.code]), trunk, config


@pytest.mark.parametrize("schedule", ["constant", "cosine", "wsd"])
def test_identities_put_together_by_cell_are_those_of_each_trial(schedule: str) -> None:
    made = planned(
        f"train.schedule={schedule}",
        "model.name=[standard, linear]",
        "train.lr=[1e-3, {base: 1}]",
        "stop.success=[null, .95]",
        "stop.flops=[null, 1e12]",
        "seeds=[0, 7]",
    )
    assert len(made.trials) == 32
    for trial in made.trials:
        assert (trial.id, trial.trunk, trial.config) == slow_identity(trial)
