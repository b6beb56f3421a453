"""A program's Python is tried on a node before its first trial there. Covers `run/trying.py`."""

import json
import sys
from pathlib import Path

import pytest
from cluster.ready import program

from sweepd.run.trying import NO_CARD, tried

PROGRAM = "python train.py --width {width}"
FAKES = {
    "jax.py": "class Cpu:\n    platform = 'cpu'\ndef devices():\n    return [Cpu()]\n",
    "torch.py": "def ones(*shape, device):\n    raise AssertionError('no CUDA here')\n",
}
"""A jax and a torch as they are on a machine without a card."""


def where(command: str = PROGRAM) -> str:
    return json.dumps({"program": command, "task": "t", "metrics": {"acc": "max"}})


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("import numpy, json, beside\nfrom pathlib import Path\n", 0, ""),
        ("import numpy, nowhere.at_all\n", 1, "No module named 'nowhere'"),
        ("import broken\n", 1, "ImportError: libof.so.1: cannot open shared object file"),
        ("try:\n    import nowhere\nexcept ImportError:\n    pass\nimport numpy\n", 0, ""),
        ("import sys\nsys.path.insert(0, 'src')\nimport nowhere\n", 0, ""),
        ("import beside, pkg.part\n", 0, ""),
    ],
)
def test_what_a_program_imports_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, code: int, said: str
) -> None:
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "beside.py").write_text("import numpy\n")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/part.py").write_text("")
    (tmp_path / "site").mkdir()
    broken = "raise ImportError('libof.so.1: cannot open shared object file')\n"
    (tmp_path / "site/broken.py").write_text(broken)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    found = tried(where(), tmp_path, None, card=False)
    assert found[0] == code and said in found[1], found


@pytest.mark.parametrize("module", ["jax", "torch"])
def test_a_card_is_used_where_one_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    (tmp_path / "train.py").write_text(f"import {module}\n")
    (tmp_path / "site").mkdir()
    (tmp_path / f"site/{module}.py").write_text(FAKES[f"{module}.py"])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    assert tried(where(), tmp_path, None, card=False) == (0, "")
    code, said = tried(where(), tmp_path, None, card=True)
    assert code == NO_CARD and said in ("no CUDA here", "jax sees no card")


@pytest.mark.parametrize("command", ["./run.sh {width}", "env A=1 python train.py {width}"])
def test_what_begins_with_no_python_is_not_tried(tmp_path: Path, command: str) -> None:
    (tmp_path / "train.py").write_text("import nowhere\n")
    (tmp_path / "run.sh").write_text("")
    assert tried(where(command), tmp_path, None, card=True) == (0, "")


def test_a_python_of_its_own_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import numpy\n")
    code, said = tried(where(".venv/bin/python train.py {width}"), tmp_path, None, card=False)
    assert code and ".venv/bin/python" in said
    program(tmp_path / "own", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / "own").rename(tmp_path / ".venv/bin/python")
    assert tried(where(".venv/bin/python train.py {width}"), tmp_path, None, card=False) == (0, "")


def test_each_node_tries_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("import counted, nowhere\n")
    (tmp_path / "site").mkdir()
    count = f"open({str(tmp_path / 'count')!r}, 'a').write('x')\n"
    (tmp_path / "site/counted.py").write_text(count)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    (tmp_path / "node").mkdir()
    answers = {tried(where(), tmp_path, tmp_path / "node", card=False) for _ in range(3)}
    assert answers == {(1, "ModuleNotFoundError: No module named 'nowhere'")}
    assert (tmp_path / "count").read_text() == "x"
