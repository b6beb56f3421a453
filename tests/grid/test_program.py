"""`loop: {program: …}` in a grid: what its block must say, what is refused and where, what a
command becomes, and what makes up the identity of its trials."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.grid.fingerprint import program_files, unknown_files
from sweepd.grid.plan import Plan, plan
from sweepd.grid.program import Program, computed
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial
from sweepd.grid.yamlfile import GridError

GRID = """\
name: mine
loop:
  program: python train.py --width {width} --lr {lr} --ffn={ffn} 'a {name}' --dir {dir} {steps} {n}
  as: mine
  task: digits
  size: n
  metrics: {acc: up, f1: up}
  files: [model/]
  ffn: "{4 * width + steps // 100}"
  params: "{width ** 2}"
  width: [8, 16]
  lr: [1, 1.0e-3]
  name: it's
  steps: 200
  n: 3
goal: f1 > 0.8
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    for name in ("train.py", "helper.py", "model/net.py", "uv.lock"):
        (tmp_path / name).write_text("")
    (tmp_path / "train.py").write_text("import helper, sweepd")
    return tmp_path


def planned(folder: Path, *sets: str, text: str = GRID) -> Plan:
    return plan(parse_grid(text, "grid.yaml", sets, folder))


def test_its_trials(folder: Path) -> None:
    made = planned(folder)
    assert len(made.trials) == 4 and made.size_fields == {"digits": "n"}
    trial = next(t for t in made.trials if t.axes["width"] == 16 and t.axes["lr"] == 1)
    assert (trial.task_name, trial.model_name, trial.size, trial.L) == ("digits", "mine", 3, None)
    assert (trial.params, trial.train.steps, trial.train.extensible) == (256, 200, True)
    assert "ffn" not in trial.axes and isinstance(trial.axes["lr"], float)
    program = trial.program
    assert program and program.arguments(trial.values.loop, {"dir": "/d"}) == [
        *("python", "train.py", "--width", "16", "--lr", "1.0", "--ffn=66"),
        *("a it's", "--dir", "/d", "200", "3"),
    ]


def test_its_frozen_grid_is_the_same_grid(folder: Path) -> None:
    made = planned(folder)
    again = planned(folder, text=made.grid.resolved_text())
    assert {t.id for t in again.trials} == {t.id for t in made.trials}
    assert again.grid.resolved_text() == made.grid.resolved_text()


@pytest.mark.parametrize(
    ("was", "becomes", "says"),
    [
        ("{width} ", "{widht} ", "{widht} names no field (did you mean width?)"),
        ("{width} ", "{width:03d} ", '{width:03d}": in braces stands'),
        ("{width} ", "{4 * width} ", '"{4": in braces stands'),
        ("--lr {lr}", "", "grid.yaml:12: loop.lr: the program never sees lr"),
        ("--ffn={ffn}", "", "the program never sees ffn"),
        ("{4 * width", "{4 * widht", "ffn: widht is no field (did you mean width?)"),
        ("{4 * width", "{__import__(1)", "is no arithmetic over fields"),
        ("{width ** 2}", "{width ** 999}", "is too large"),
        ("{width ** 2}", "{width ** 60}", "params: "),
        ("{width ** 2}", "{width / 0}", "division by zero"),
        ('"{width ** 2}"', "64", "is a cost; derive it"),
        ("size: n", "size: m", "m is no field"),
        ("task: digits", "tusk: digits", "needs task"),
        ("acc: up", "acc: down", "everywhere, acc is 'up'"),
        ("[model/]", "[gone.py]", "there is no"),
        ("[model/]", "[.]", "has all of the grid's folder"),
        ("{dir}", "{dir", '{dir": in braces'),
        ("'a {name}'", "'a {name}", "No closing quotation"),
        ("goal:", "seeds: [0, 1]\ngoal:", "2 seeds, which the program never sees"),
        ("  n: 3", "  n: 3\n  lambda: 3", "no field can be called so"),
    ],
)
def test_what_is_wrong_is_refused(folder: Path, was: str, becomes: str, says: str) -> None:
    assert GRID.count(was) == 1
    with pytest.raises(GridError) as raised:
        planned(folder, text=GRID.replace(was, becomes))
    assert says in str(raised.value)


def trial(folder: Path, *sets: str, text: str = GRID) -> Trial:
    return planned(folder, "loop.width=8", "loop.lr=1", *sets, text=text).trials[0]


def test_what_is_its_identity(folder: Path) -> None:
    before = trial(folder)
    assert trial(folder, "goal='f1 > 0.5'", "resources={cpus: 2}").id == before.id
    assert trial(folder, "loop.steps=400").trunk == before.trunk
    for option in ("loop.steps=400", "loop.n=4", "stop.seconds=9", "loop.metrics={f1: up}"):
        assert trial(folder, option).id != before.id
    for command in ("'a {name}'", "--dir {dir}"):
        assert trial(folder, text=GRID.replace(command, "{name}{dir}")).id != before.id
    for name in ("train.py", "helper.py", "model/net.py", "uv.lock", "model/new.txt"):
        content = (folder / name).read_text() if name != "model/new.txt" else ""
        (folder / name).write_text(content + "\n# more")
        changed = trial(folder).id
        assert changed != before.id, name
        before = trial(folder)
        assert changed == before.id
    (folder / "other.py").write_text("")
    (folder / "model/__pycache__").mkdir()
    (folder / "model/__pycache__/net.pyc").write_text("")
    assert trial(folder).id == before.id


FILES = {
    "train.py": "import helper, lib.net",
    "helper.py": "",
    "lib/__init__.py": "",
    "lib/net.py": "from . import parts",
    "lib/parts.py": "",
    "lib/__main__.py": "import helper",
    "job.sh": "#!/bin/sh\nexec python inner.py --config='conf/a.yaml'",
    "inner.py": "",
    "conf/a.yaml": "",
    "conf/b.yaml": "",
    "conf/deep/c.yaml": "",
    "real/script.py": "import besides",
    "real/besides.py": "",
    "hid/.env": "",
    "hid/.git/HEAD": "",
    "names.py": "open('conf/' + 'a.yaml'); open('hid/.env')",
}


@pytest.fixture
def program_folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "link.py").symlink_to("real/script.py")
    return tmp_path


@pytest.mark.parametrize(
    ("block", "files"),
    [
        (
            {"program": "python train.py"},
            "helper.py lib/__init__.py lib/net.py lib/parts.py train.py",
        ),
        ({"program": "torchrun -m lib.net"}, "lib/__init__.py lib/net.py lib/parts.py"),
        ({"program": "python -m lib {w}"}, "helper.py lib/__init__.py lib/__main__.py"),
        ({"program": "python link.py"}, "link.py real/besides.py real/script.py"),
        ({"program": "./job.sh {w}"}, "conf/a.yaml inner.py job.sh"),
        (
            {"program": "x --c=conf/{w}.yaml y=conf/deep/c.yaml"},
            "conf/a.yaml conf/b.yaml conf/deep/c.yaml",
        ),
        ({"program": "env A=1 x -c conf/a.yaml"}, "conf/a.yaml"),
        ({"program": "x {w}.yaml {w}"}, ""),
        ({"program": "x", "files": ["hid"]}, "hid/.env"),
    ],
)
def test_its_files(program_folder: Path, block: dict[str, object], files: str) -> None:
    where = json.dumps({**block, "task": "t", "metrics": {"acc": "up"}})
    assert sorted(program_files(where, program_folder)) == files.split()


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ({"program": "./job.sh"}, ["job.sh starts other programs: name them in `files:`"]),
        ({"program": "python names.py"}, ["names.py names conf, hid/.env, which the identity"]),
        ({"program": "x {w}.yaml"}, ["{w}.yaml is a file that a field alone names"]),
        ({"program": "python names.py", "files": []}, []),
        ({"program": "python helper.py"}, []),
    ],
)
def test_what_nobody_can_find_out_is_said(
    program_folder: Path, block: dict[str, object], says: list[str]
) -> None:
    where = json.dumps({**block, "task": "t", "metrics": {"acc": "up"}})
    told = list(unknown_files(where, program_folder))
    assert len(told) == len(says) and all(map(str.startswith, told, says)), told


def test_a_command_of_which_no_file_is_known_is_refused(folder: Path) -> None:
    text = GRID.replace("python train.py", "seq 1").replace("  files: [model/]\n", "")
    with pytest.raises(GridError, match="none of its files is known"):
        planned(folder, text=text)
    assert planned(folder, text=text.replace("  task:", "  files: []\n  task:")).trials


def test_what_is_kept_and_where_it_runs_is_no_part_of_its_identity(folder: Path) -> None:
    more = GRID.replace("  task:", "  keep: ['*.csv']\n  in_place: true\n  task:")
    assert trial(folder, text=more).id == trial(folder).id
    with pytest.raises(GridError, match="write a list, such as"):
        trial(folder, text=GRID.replace("  task:", "  keep: out\n  task:"))
    with pytest.raises(GridError, match="write true or false"):
        trial(folder, text=GRID.replace("  task:", "  in_place: 1\n  task:"))


def test_a_word_that_is_a_null_alone_is_left_out() -> None:
    where = '{"program": "run {a} x{a} {b}", "task": "t", "metrics": {"acc": "up"}}'
    assert Program(where).arguments({"a": None, "b": True}, {}) == ["run", "xnull", "true"]


@given(st.integers(-99, 99), st.integers(1, 99), st.sampled_from(list("+-*%/")))
def test_a_derived_value_is_what_python_makes_of_it(a: int, b: int, sign: str) -> None:
    text = f"(a {sign} b) * -2 + 1.5"
    assert computed(text, {"a": a, "b": b}) == eval(text, {"a": a, "b": b})


@pytest.mark.parametrize("key", ["as", "task", "size", "metrics", "program", "files"])
@pytest.mark.parametrize("value", ["nan", "1_000", "inf", "0b1"])
def test_what_others_take_for_a_number_is_refused_with_its_place(
    folder: Path, key: str, value: str
) -> None:
    block = {"program": "python train.py {w}", "as": "m", "task": "t", "metrics": "{acc: up}"}
    lines = "".join(f"  {k}: {v}\n" for k, v in (block | {"w": 1, key: value}).items())
    with pytest.raises(GridError, match=rf"(?m):\d+: loop\.{key}.* {value} is no number here"):
        planned(folder, text=f"name: x\nloop:\n{lines}goal: acc > 0.5\n")


@pytest.mark.parametrize("name", ["µ", "ﬁ"])
def test_a_name_that_python_spells_otherwise_is_refused(folder: Path, name: str) -> None:
    text = f"""
name: x
loop:
  program: python train.py {{{name}}}
  as: m
  task: t
  metrics: {{acc: up}}
  {name}: [1, 2]
goal: acc > 0.5
"""
    with pytest.raises(GridError, match=rf"(?m):\d+: loop\.{name}: .* \(NFKC\); write it so"):
        planned(folder, text=text)


def test_a_field_called_size_gets_an_answer(folder: Path) -> None:
    text = """
name: x
loop: {program: "python train.py {size}", as: m, task: t, metrics: {acc: up}, size: [1, 2]}
goal: acc > 0.5
"""
    with pytest.raises(GridError, match=r"loop\.size: .* names the field that makes the task"):
        planned(folder, text=text)
