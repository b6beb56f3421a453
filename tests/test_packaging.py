"""What is installed is what is in the repository. The links resolve. The built wheel, installed
alone, lists every task and model, and answers questions."""

import ast
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sweepd.store.store import Store

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sweepd"

MAY_IMPORT_RAY = {
    "engine",
    "worker",
    "tune_hooks",
    "rules",
    "nodes",
    "jobs",
    "autoscaler",
    "ray_private",
}


def test_links_resolve() -> None:
    for name in ("tasks", "models"):
        link = SOURCE / name
        assert link.is_symlink() and link.resolve() == ROOT / name
        assert (link / "base.py").is_file()
    folders = {"grids": "grids", "claims": "claims", "templates": "docs/examples"}
    for name, there in ((name, ROOT / folder) for name, folder in folders.items()):
        assert (SOURCE / name).is_symlink() and (SOURCE / name).resolve() == there


def test_ray_obstore_and_printing_have_one_place_each() -> None:
    for path in SOURCE.rglob("*.py"):  # a text in one may hold code for another Python
        modules, calls = set(), set()
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names=names):
                    modules |= {alias.name.partition(".")[0] for alias in names}
                case ast.ImportFrom(module=str(module), level=0):
                    modules.add(module.partition(".")[0])
                case ast.Call(func=called):
                    calls.add(ast.unparse(called))
        assert "ray" not in modules or path.stem in MAY_IMPORT_RAY, path
        assert "obstore" not in modules or path.name == "bucket.py", path
        assert not calls & {"print", "sys.exit"} or path.parent.name == "cli", path


IMPORTED = """
import json, sys, sweepd.cli
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["sweepd", *arguments]
    try:
        sweepd.cli.main()
    except SystemExit as end:
        assert end.code in (None, 0, 1), end.code
    heavy = {"torch", "torch._dynamo", "ray", "duckdb", "pyarrow", "numba", "pandas"}
    found = heavy & sys.modules.keys()
    print("imported", *sorted(found), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("commands", "may"),
    [
        ([["--help"]], set()),
        (
            [
                ["status"],
                ["sql", "SELECT 1"],
                ["query", "min d"],
                ["query", "fit d ~ L"],
                ["export", "--out", "trials.csv"],
                ["plot", "min", "--out", "figure.svg"],
                ["report", "--out", "report.html"],
            ],
            {"duckdb", "pyarrow"},
        ),
        (
            [
                ["tasks"],
                ["sample", "lis"],
                ["flops", "standard", "--task", "lis", "--set", "d=8"],
                ["plan", "grid.yaml"],
                ["compare", "paper"],
            ],
            {"duckdb", "pyarrow", "numba", "torch", "pandas"},
        ),
    ],
)
def test_commands_import_no_more_than_they_need(
    tmp_path: Path, commands: list[list[str]], may: set[str]
) -> None:
    """The commands of a list run in one process. So what one imports also counts for those after
    it."""
    shutil.copy(ROOT / "docs" / "examples" / "lstm.py", tmp_path)  # its costs are counted by torch
    models = "[standard, sparse, linear, log_rpe, tmx, lstm.py:Lstm]"
    text = f"task: {{name: lis, n: 4}}\nmodel: {{name: {models}, d: 8}}\n"
    (tmp_path / "grid.yaml").write_text(text)
    Store.create(str(tmp_path / "sweepd-results"))
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, json.dumps(commands)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    imported = [
        set(line.split()[1:]) for line in done.stderr.splitlines() if line[:8] == "imported"
    ]
    assert len(imported) == len(commands)
    for command, found in zip(commands, imported, strict=True):
        assert found <= may, command


PARTS = {
    "import sweepd": ("sweepd.api", "sweepd.errors"),
    "from sweepd.grid.fingerprint import current_code\n"
    "from pathlib import Path\n"
    "assert current_code((('task', 'lis'), ('model', 'linear')), Path())": (
        *("torch", "numpy", "numba", "ray", "pydantic"),
    ),
    "import sweepd.store.store": ("ray", "torch", "duckdb", "obstore", "boto3"),
    "from datetime import UTC, datetime\n"
    "store = sweepd.store.store.Store.create('results')\n"
    "row = {'id': 'a', 'attempt': 1, 'n': 4, 'success': None, 'cot': True}\n"
    "store.write_metrics([{'id': 'a', 'attempt': 1, 'step': 1, 'loss': 0.5, 'seconds': 0.1}])\n"
    "store.write_trials([{**row, 'decay': 0.5, 'started': datetime.now(UTC)}])": ("pandas",),
    "from torch import nn\n"
    "from sweepd.models._meta import on_meta\n"
    "with on_meta():\n"
    "    nn.Embedding(3, 4), nn.Linear(3, 4), nn.init.constant_(nn.LayerNorm(4).weight, 2)": (
        "sympy",
    ),
    "from sweepd.grid.plan import plan\n"
    "from sweepd.grid.spec import parse_grid\n"
    "from sweepd.trial.attempt import started\n"
    "grid = 'task: {name: lis, n: 2}\\nmodel: {name: standard, d: 4, dropout: 0.1}\\n'\n"
    "grid += 'train: {steps: 2, batch_size: 4}'\n"
    "[trial] = plan(parse_grid(grid, 'g', (), Path())).trials\n"
    "for _ in started(trial, Path(), 'cpu').advance(): pass": ("torch._dynamo",),
}
"""What is done one after the other, and what has not been imported after it."""


def test_no_part_imports_more_than_it_needs(tmp_path: Path) -> None:
    program = "import sys\n"
    for does, spared in PARTS.items():
        program += f"{does}\nfound = {set(spared)} & sys.modules.keys()\nassert not found, found\n"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


SAID = """
import contextlib, io, json, sys, sweepd.cli
said = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["sweepd", *arguments]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            sweepd.cli.main()
        except SystemExit as end:
            assert not end.code, arguments
    said.append(out.getvalue())
print(json.dumps(said))
"""
"""Prints what each of some commands says."""


def test_the_wheel_alone_lists_every_task_and_model(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir"]
    done = subprocess.run([*build, str(tmp_path), str(ROOT)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    for kind in ("tasks", "models"):
        assert {f"sweepd/{kind}/{path.name}" for path in (ROOT / kind).glob("*.py")} <= held
    assert {"sweepd/py.typed", "sweepd/figures/page.html", "sweepd/cluster/slurm.sh"} <= held
    assert {"sweepd/figures/page.css", "sweepd/figures/page.js"} <= held
    for folder in ("grids", "claims"):
        assert {f"sweepd/{folder}/{path.name}" for path in (ROOT / folder).glob("*.yaml")} <= held

    site, empty = tmp_path / "site", tmp_path / "empty"
    zipfile.ZipFile(wheel).extractall(site)
    empty.mkdir()
    listings = [["tasks", "--json"], ["models", "--json"]]
    begin = [["init", "--grid", "quickstart"], ["init", "--own", "task", "--own", "model"]]
    begin += [["init", "--claims"], ["compare", "paper"]]
    done = subprocess.run(
        [sys.executable, "-c", SAID, json.dumps([*listings, *begin])],
        cwd=empty,
        env={"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for (kind, _), said in zip(listings, json.loads(done.stdout), strict=False):
        rows = json.loads(said)
        assert all(row["source"].startswith(str(site)) for row in rows), rows
        found = {row["name"] for row in rows}
        files = {path.stem for path in (ROOT / kind).glob("*.py")}
        assert {"lis", "standard"} & found and found <= files
    for file in ("grids/quickstart.yaml", "docs/examples/parity.py", "docs/examples/claims.yaml"):
        assert (empty / Path(file).name).read_text() == (ROOT / file).read_text()
