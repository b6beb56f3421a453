"""What is installed is what is here: the links resolve, rooms import only lower ones, and the
built wheel, installed alone, lists every task and model and answers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sweepd"

MAY_IMPORT_RAY = {"engine", "tune_hooks", "worker", "nodes", "jobs", "autoscaler", "ray_private"}


def test_links_resolve():
    for name in ("tasks", "models"):
        link = SOURCE / name
        assert link.is_symlink() and link.resolve() == ROOT / name
        assert (link / "base.py").is_file()


def test_no_room_imports_a_higher_one():
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ray_obstore_and_printing_have_one_place_each():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        if path.stem not in MAY_IMPORT_RAY:
            assert "import ray" not in text and "from ray" not in text, path
        if path.name != "bucket.py":
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
        "import sys, sweepd.cli\n"
        "from sweepd.store.store import Store; Store.create('sweepd-results')\n"
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
