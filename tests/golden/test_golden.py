"""Our own code counts by what it does: where that changes, its version must (make.py)."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from golden import make

from sweepd.grid.fingerprint import PACKAGE
from sweepd.grid.plan import plan
from sweepd.grid.spec import parse_grid
from sweepd.trial import training

pytestmark = pytest.mark.skipif(
    make.kept()["made with"] != make.pins(), reason="the numbers are those of the pinned versions"
)
GRID = """
task: [{name: parity, n: 4}, {name: lookup, n: 4}]
model: {name: linear, d: 8}
goal: acc > 0.9
"""
ON_A_COPY = f"""
import json
from pathlib import Path
from golden import make
from sweepd.grid import fingerprint
from sweepd.grid.plan import plan
from sweepd.grid.spec import parse_grid

def ids():
    return [trial.id for trial in plan(parse_grid({GRID!r}, "grid.yaml", [], Path())).trials]

task = fingerprint.PACKAGE / "tasks/parity.py"
found = dict(package=str(fingerprint.PACKAGE), edited=ids())
found["faults"] = [make.fault(f"{{unit}}.py") for unit in ("trial/training", "tasks/parity")]
task.write_text(task.read_text().replace("VERSION = 1", "VERSION = 2"))
fingerprint.stated_versions.cache_clear()
found |= dict(bumped=ids(), again=make.fault("tasks/parity.py"))
print(json.dumps(found))
"""


@pytest.mark.parametrize("unit", make.units())
def test_a_version_says_what_the_code_does(unit: str) -> None:
    assert (fault := make.fault(unit)) is None, fault


def test_what_is_edited_counts_only_by_what_it_does(tmp_path: Path) -> None:
    """On a copy of sweepd, in which a local variable of training.py has another name, and the rows
    of a task are others."""
    package = tmp_path / "sweepd"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for file, before, after in (
        ("trial/training.py", r"\bfed\b", "handed_over"),
        ("tasks/parity.py", r"rng.integers\(2,", "1 - rng.integers(2,"),
    ):
        text, times = re.subn(before, after, (package / file).read_text())
        assert times
        (package / file).write_text(text)
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", ON_A_COPY],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["package"] == str(package)
    ids = [trial.id for trial in plan(parse_grid(GRID, "grid.yaml", [], Path())).trials]
    assert found["edited"] == ids
    same, changed = found["faults"]
    assert same is None
    assert "bump the version of tasks/parity.py" in changed
    # With a new version the trials of this task are others, and only these.
    half = len(ids) // 2
    assert not {*found["bumped"][:half]} & {*ids[:half]}
    assert found["bumped"][half:] == ids[half:]
    assert found["again"] == f"tasks/parity.py has a new version; {make.AGAIN}"


def test_what_training_does_otherwise_is_not_put_down_to_a_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    factor = training.lr_factor
    monkeypatch.setattr(training, "lr_factor", lambda *where: 1.001 * factor(*where))
    for unit in ("trial/training.py", "models/linear.py"):
        fault = make.fault(unit)
        assert fault and "bump the version of trial/training.py" in fault
    with pytest.raises(SystemExit, match="bump the version of"):
        make.write()
    monkeypatch.undo()
    monkeypatch.setattr("sweepd.models.linear.elu_features", lambda x: x.exp())
    monkeypatch.setitem(
        vars(sys.modules["sweepd.models.linear"])["FEATURES"], "elu", lambda x: x**2
    )
    fault = make.fault("models/linear.py")
    assert fault and "bump the version of models/linear.py" in fault
