"""What is installed is what is here: the links resolve, floors import only downwards, and the
built wheel, installed alone, lists every task and model and answers."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sweepd"

FLOORS = [
    {"errors", "statuses", "options", "frontier", "verdicts"},
    {"tasks", "models", "settings", "code", "yamlfile", "provenance", "rollup"},
    {"registry", "flops", "evaluation", "training"},
    {"blocks", "schema", "storage"},
    {"spec", "tables", "locks", "cluster", "localfolder", "objectfolder"},
    {"plan", "sweeps", "leases", "refuge", "garbage"},
    {"jury"},
    {"search", "store", "ledger", "continuing"},
    {"staircase"},
    {"estimate"},
    {"attempt", "question", "views", "fits", "nodes"},
    {"worker", "cells"},
    {"hooks"},
    {"engine"},
    {"driver", "grouping", "tuning"},
    {"lines"},
    {"answers"},
    {"paper"},
    {"claims"},
    {"cli"},
    {"__main__"},
]
"""Lowest first; a file imports from its own floor or below."""
MAY_IMPORT_RAY = {"engine", "hooks", "worker", "nodes", "jobs", "autoscaler"}


def imports(path: Path) -> set[str]:
    """First names below `sweepd` that a file imports when it runs."""
    tree = ast.parse(path.read_text())
    typing_only = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node not in typing_only:
            parts = node.module.split(".")
            if parts[0] == "sweepd":
                found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
    return found - {"__version__"}


def test_links_resolve():
    for name in ("tasks", "models"):
        link = SOURCE / name
        assert link.is_symlink() and link.resolve() == ROOT / name
        assert (link / "base.py").is_file()


def test_no_file_imports_a_higher_floor():
    height = {name: floor for floor, names in enumerate(FLOORS) for name in names}
    for path in [*SOURCE.glob("*.py"), *SOURCE.glob("cli/*.py")]:
        own = "cli" if path.parent.name == "cli" else path.stem
        if own == "__init__":
            continue
        assert own in height, f"{path.name} has no floor: say in FLOORS where it belongs"
        too_high = {name for name in imports(path) if height[name] > height[own]}
        assert not too_high, f"{path.name} imports {too_high}, which are above it"


def test_tasks_and_models_know_only_their_own_kind():
    for kind in ("tasks", "models"):
        for path in (ROOT / kind).glob("*.py"):
            assert imports(path) <= {kind}, path


def test_ray_obstore_and_printing_have_one_place_each():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        if path.stem not in MAY_IMPORT_RAY:
            assert "import ray" not in text and "from ray" not in text, path
        if path.name != "objectfolder.py":
            assert "import obstore" not in text and "from obstore" not in text, path
        if path.parent.name != "cli":
            assert not re.search(r"\bprint\(|sys\.exit", text), path


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], ["torch", "ray", "duckdb", "pyarrow", "numba"]),
        (["query", "min d"], ["torch", "ray", "numba", "pandas"]),
        (["query", "fit d ~ L"], ["torch", "ray", "numba", "pandas"]),
        (["sql", "SELECT 1"], ["torch", "ray", "numba"]),
        (["status"], ["torch", "ray", "numba"]),
        (["export", "--out", "trials.csv"], ["torch", "ray", "numba"]),
        (["plan", "grid.yaml"], ["ray"]),
        (["tasks"], ["ray"]),
        (["compare", "paper"], ["ray"]),
        (["sample", "lis"], ["ray"]),
        (["flops", "standard", "--task", "lis", "--set", "d=8"], ["ray"]),
    ],
)
def test_commands_import_no_more_than_they_need(tmp_path, arguments, absent):
    (tmp_path / "grid.yaml").write_text("task: {name: lis, n: 4}\nmodel: {name: standard, d: 8}\n")
    program = (
        "import sys, sweepd.store, sweepd.cli\nsweepd.store.Store.create('sweepd-results')\n"
        if arguments[0] != "--help"
        else "import sys, sweepd.cli\n"
    )
    program += (
        f"sys.argv = ['sweepd', *{arguments!r}]\n"
        "try: sweepd.cli.main()\n"
        "except SystemExit as end: code = end.code or 0\n"
        f"found = [name for name in {absent!r} if name in sys.modules]\n"
        "print('imported', found, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert "imported []" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr


def test_the_wheel_alone_lists_every_task_and_model(tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    for kind in ("tasks", "models"):
        assert {f"sweepd/{kind}/{path.name}" for path in (ROOT / kind).glob("*.py")} <= held
    assert "sweepd/py.typed" in held

    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    program = "import sys, sweepd.cli; sys.argv[0] = 'sweepd'; sweepd.cli.main()"
    for command in ("tasks", "models"):
        listed = subprocess.run(
            [sys.executable, "-c", program, command, "--json"],
            cwd=tmp_path,
            env={"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        rows = json.loads(listed.stdout)
        assert all(row["source"].startswith(str(site)) for row in rows), rows
        found = {row["name"] for row in rows}
        files = {path.stem for path in (ROOT / command).glob("*.py")}
        assert {"lis", "standard"} & found and found <= files
