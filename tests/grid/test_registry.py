"""How tasks and models are found: ours by name, a user's by file or module. Also every way in which
this can fail. Covers `grid/user_files.py`."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from sweepd.errors import UserError
from sweepd.grid import user_files
from sweepd.grid.plan import plan
from sweepd.grid.registry import REQUIRED, entry, find, shipped
from sweepd.grid.spec import parse_grid
from sweepd.grid.yamlfile import GridError
from sweepd.trial.attempt import started

MODEL = """
from dataclasses import dataclass
from sweepd.models.standard import Standard

@dataclass(frozen=True)
class Mine(Standard):
    '''My own attention.

    More about it.'''
    window: int | None = 3
"""

TASK = """
from __future__ import annotations
from dataclasses import dataclass
from typing import ClassVar, Literal
from sweepd.tasks.lis import LIS

@dataclass(frozen=True)
class Mine(LIS):
    kind: Literal["a", "b"] = "a"
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_shipped() -> None:
    tasks = {task.name: task for task in shipped("task")}
    models = {model.name: model for model in shipped("model")}
    assert {"lis", "edit_distance", "arithmetic"} <= tasks.keys()
    assert {"standard", "sparse", "linear"} <= models.keys()
    assert not {"base", "__init__"} & (tasks.keys() | models.keys())
    assert not any(name.startswith("_") for name in tasks.keys() | models.keys())
    for name, found in (tasks | models).items():
        assert found.source.name == f"{name}.py"
        assert found.summary and found.family
    assert models["standard"].parameters["d"].default is REQUIRED
    assert models["standard"].parameters["heads"].default == 4
    assert models["standard"].parameters["heads"].type is int


def test_one_is_found_without_importing_the_others() -> None:
    script = (
        "import sys; from pathlib import Path; import sweepd.grid.registry as r\n"
        "assert not {'torch', 'numpy', 'numba', 'pydantic'} & sys.modules.keys()\n"
        "r.find('task', 'lis', Path())\n"
        "print([m for m in sys.modules if m.startswith('sweepd.tasks.')], 'torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    names, torch = run.stdout.strip().rsplit(" ", 1)
    shared = {
        f"sweepd.tasks.{name}"
        for name in ("base", "_task", "_tools", "_chains", "_rows", "_memory")
    }
    assert set(eval(names)) == shared | {"sweepd.tasks.lis"}
    assert torch == "False"


def test_a_user_s_file(tmp_path: Path) -> None:
    path = write(tmp_path, "here/mine.py", MODEL)
    found = find("model", "here/mine.py:Mine", tmp_path)
    assert found(d=8).window == 3
    assert find("model", f"{path}:Mine", Path("/")) is found
    described = entry("here/mine.py:Mine", found)
    assert described.summary == "My own attention."
    assert described.source == path
    assert described.parameters["window"].default == 3
    assert sys.modules[found.__module__].__file__ == str(path)


def test_a_changed_file_is_another_module(tmp_path: Path) -> None:
    write(tmp_path, "mine.py", MODEL)
    before = find("model", "mine.py:Mine", tmp_path)
    write(tmp_path, "mine.py", MODEL.replace("= 3", "= 4"))
    after = find("model", "mine.py:Mine", tmp_path)
    assert before(d=8).window == 3
    assert after(d=8).window == 4


def test_a_user_s_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "my_pack_a/__init__.py", "")
    write(tmp_path, "my_pack_a/inner.py", TASK)
    monkeypatch.syspath_prepend(tmp_path)
    assert find("task", "my_pack_a.inner:Mine", Path("/"))(kind="b").size == 40


def test_a_file_with_the_name_of_a_library(tmp_path: Path) -> None:
    write(tmp_path, "mine.py", "import math\n" + MODEL)
    write(tmp_path, "math.py", "")
    with pytest.raises(UserError, match=r"`import math` would not read .*rename the file"):
        find("model", "mine.py:Mine", tmp_path)


HELPERS = {
    "aids_c/__init__.py": "",
    "aids_c/gain.py": "from aids_c.inner import WIDTH",
    "aids_c/inner.py": "WIDTH = 0",
    "aids_d/gain.py": "from .inner import WIDTH",  # a package without __init__.py
    "aids_d/inner.py": "WIDTH = 0",
    "aids_e.py": "import os, aids_g\nWIDTH = aids_g.WIDTH",
    "aids_g.py": "WIDTH = 0",
}
USES = {
    "deep": "from aids_c.gain import WIDTH",
    "dotted": "import aids_d.gain\nWIDTH = aids_d.gain.WIDTH",
    "renamed": "import math, aids_d.gain as gain, aids_e\nWIDTH = gain.WIDTH and aids_e.WIDTH",
    "asked": "import importlib\nWIDTH = importlib.import_module('aids_e').WIDTH",
    "late": "def width():\n    from aids_g import WIDTH\n    return WIDTH\nWIDTH = width()",
    "star": "from __future__ import annotations\nfrom aids_e import *",
}


def test_helpers_of_one_name_in_two_folders(tmp_path: Path) -> None:
    """Each file runs those beside it, however it imports them, and in a new process as well."""
    folders = {"one": 7, "two": 8, "three/four": 9}
    for folder, width in folders.items():
        for name, text in HELPERS.items():
            write(tmp_path, f"{folder}/{name}", text.replace("= 0", f"= {width}"))
        for name, text in USES.items():
            write(tmp_path, f"{folder}/{name}.py", text + MODEL.replace("= 3", "= WIDTH"))
    made, before = [], [*sys.path]
    for name in USES:
        for folder, width in folders.items():
            made.append(find("model", f"{folder}/{name}.py:Mine", tmp_path)(d=8))
            assert made[-1].window == width, (folder, name)
    assert sys.path == before
    # What is pickled by reference is found in another process.
    code = "import pickle, sys, sweepd.grid.user_files\n"
    code += "print([one.window for one in pickle.load(sys.stdin.buffer)])"
    ran = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(made), capture_output=True
    )
    assert ran.stdout.decode() == f"{[*folders.values()] * len(USES)}\n", ran.stderr


ADDS_A_FOLDER = "import os, sys\nsys.path.append(os.path.dirname(__file__) + '/lib_f')\n"
COMPUTED = "import importlib\nimportlib.import_module('aids' + '_NAME')\n"


def test_helpers_of_one_name_that_cannot_be_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    for folder in ("one", "two"):
        write(tmp_path, f"{folder}/adds.py", f"{ADDS_A_FOLDER}import aids_f\n{MODEL}")
        write(tmp_path, f"{folder}/lib_f/aids_f.py", "")
        write(tmp_path, f"{folder}/hidden.py", COMPUTED.replace("NAME", "i") + MODEL)
        write(tmp_path, f"{folder}/aids_i.py", "")
        both = COMPUTED.replace("NAME", "h") + "import aids_h\n" + MODEL
        write(tmp_path, f"{folder}/both.py", both)
        write(tmp_path, f"{folder}/aids_h.py", "")
    for name, helper in (("adds", "aids_f"), ("hidden", "aids_i")):
        find("model", f"one/{name}.py:Mine", tmp_path)
        with pytest.raises(UserError, match=rf"`import {helper}` would not read .*rename"):
            find("model", f"two/{name}.py:Mine", tmp_path)
        user_files._public.clear()
    find("model", "one/both.py:Mine", tmp_path)
    assert sys.modules["aids_h"] is sys.modules[sys.modules["aids_h"].__name__]
    with pytest.raises(UserError, match=r"both.py:2: .*aids_h is beside files .*one and .*two"):
        find("model", "two/both.py:Mine", tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "lsi",
            r"no task is named lsi \(did you mean lis\?\); there are .*lis.*path/to/file.py:Name",
        ),
        ("base", "no task is named base"),
        ("_chains", "no task is named _chains"),
        ("", "no task is named"),
        ("../lis", "no task is named"),
        ("none.py:X", r"no task none.py:X: there is no /.*none.py"),
        ("no.such.module:X", "there is no module no.such.module"),
        ("mine.py:Wrong", r"mine.py has no task named Wrong .*sweepd.tasks.base.Task.*: Mine"),
        ("mine.py:dataclass", "has no task named dataclass"),
        ("mine.py:", "has no task named"),
    ],
)
def test_not_found(tmp_path: Path, name: str, message: str) -> None:
    write(tmp_path, "mine.py", TASK)
    with pytest.raises(UserError, match=message):
        find("task", name, tmp_path)


def test_a_task_is_no_model(tmp_path: Path) -> None:
    write(tmp_path, "mine.py", TASK)
    with pytest.raises(UserError, match=r"Mine is no model: write .*Architecture"):
        find("model", "mine.py:Mine", tmp_path)
    with pytest.raises(UserError, match="no model is named lis"):
        find("model", "lis", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = (\n", r"mine\.py:2: .*never closed"),
        ("x = 1\n\n1 / 0\n", r"mine\.py:3: ZeroDivisionError: division by zero"),
        ("import nowhere_at_all\n", r"mine\.py:1: ModuleNotFoundError: .*nowhere_at_all"),
        ("import sys\nsys.exit(3)\n", r"mine\.py:2: SystemExit: 3"),
        (TASK.replace("@dataclass(frozen=True)", ""), "Mine is no dataclass"),
        (TASK.replace('Literal["a", "b"]', "list[int]"), "a field kind that is no int, float"),
        (TASK.replace('Literal["a", "b"]', "Unknown"), "types cannot be read.*Unknown"),
        (TASK.replace("kind:", "name:"), "has a field `name`"),
        (TASK + "    size_field: ClassVar[str] = 'm'\n", "lacks the field 'm', which its `size_f"),
        (TASK + "    size_field: str = 'n'\n", "gives size_field a type, which makes it a field"),
        (TASK.replace("kind:", "words:"), "a field words, which hides the method Task.words"),
        (TASK + "    metrics: dict = {}\n", "mutable default .*has no type"),
        (TASK + "    metrics: ClassVar[tuple[str, ...]] = ()\n", "lacks `metrics`"),
        (
            "from sweepd.tasks.base import ChainTask\nclass Mine(ChainTask): pass\n",
            "lacks draw, prompt_length, vocab",
        ),
    ],
)
def test_unusable(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, "mine.py", text)
    for _ in range(2):  # a module that failed leaves no half of itself behind
        with pytest.raises(UserError, match=message):
            find("task", "mine.py:Mine", tmp_path)


def test_a_model_needs_no_d(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from torch import nn\n"
        "from sweepd.models.base import Model\n"
        "@dataclass(frozen=True)\n"
        "class Net(Model):\n"
        "    width: int = 8\n"
        "    def build(self, vocab, L, capacity, generator):\n"
        "        embedding = nn.Embedding(vocab, self.width)\n"
        "        return nn.Sequential(embedding, nn.Linear(self.width, vocab))\n"
    )
    text = (
        "task: {name: lis, n: 4, value_range: 16}\n"
        "model: {name: mine.py:Net, width: [4, 8]}\n"
        "search: {staircase: {minimize: width}}\n"
    )
    rated = f"{text}train: {{lr: 1e-3, steps: 2}}\n"
    trials = plan(parse_grid(rated, "grid.yaml", [], tmp_path)).trials
    assert [trial.values.model for trial in trials] == [{"width": 4}, {"width": 8}]
    with pytest.raises(
        GridError, match=r"train: a rule goes by d, which mine.py:Net does not have"
    ):
        plan(parse_grid(text, "grid.yaml", [], tmp_path))
    run = started(trials[0], tmp_path, "cpu")
    assert [row.step for row in run.advance() if row] == [2]
    assert run.result is not None and run.result.status == "completed"


PICKLING = """
import pickle, sys
from pathlib import Path
from sweepd.grid.registry import find

kept, loop = Path(sys.argv[2]), find("loop", "here/mine.py:Loop", Path(sys.argv[1]))()
if kept.exists():
    assert pickle.loads(kept.read_bytes()) == loop
else:
    kept.write_bytes(pickle.dumps(loop))
"""


def test_what_a_user_s_file_pickles_is_read_after_an_edit_and_a_move(tmp_path: Path) -> None:
    loop = "from dataclasses import dataclass\n\n@dataclass(frozen=True)\nclass Loop:\n"
    loop += "    task, size_field, metrics = 'guest', 'n', {'acc': 'up'}\n    n: int = 2\n"
    loop += "    def start(self, seed, device): ...\n"
    for folder, text in (("one", loop), ("two", f"# edited\n{loop}")):
        write(tmp_path, f"{folder}/here/mine.py", text)
        command = [sys.executable, "-c", PICKLING, str(tmp_path / folder), str(tmp_path / "kept")]
        subprocess.run(command, check=True)
