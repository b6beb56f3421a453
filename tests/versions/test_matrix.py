"""sweepd as a wheel, on each Python that is here, with the least versions of its dependencies and
with the pinned ones: `make matrix`.

`lowest` has the lower bounds of pyproject.toml. If there is no wheel of such a version for this
Python, it has the next version that has one. `pinned` has constraints.txt. In `lowest`, what a
dependency itself depends on is as new as it can be. In each environment all modules are imported,
and tests of parts run. A sweep goes from `init` to a report in an empty folder.

PyPI's torch for Linux is a build for CUDA, with gigabytes of libraries. Here only a build without
them is taken: that of the lower bound, or else of the pinned version, such as one that
UV_FIND_LINKS or PIP_FIND_LINKS leads to. If there is neither, the test covers what works without
torch.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PYTHONS = ("3.11", "3.12", "3.13")
VERSIONS = ("lowest", "pinned")
EXTRAS = ("aws", "gcp", "tensorboard", "wandb", "mlflow")
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "moto[s3]", "flask", "flask-cors", "libfaketime",
         "psutil", "polars")  # fmt: skip
"""What the tests need."""
NO_TORCH = "torch ; python_version < '3'"
CONSTRAINTS, OVERRIDE = "constraints.txt", "override.txt"
PARTS = (
    "tests/query", "tests/store", "tests/grid", "tests/tasks", "tests/figures", "tests/trackers",
    "tests/cluster", "tests/cli/test_output.py", "tests/test_ray_private.py",
)  # fmt: skip
"""What uses DuckDB and fsspec, pyarrow and obstore, pydantic and PyYAML, numba and NumPy, Altair
and vl-convert, clients of trackers, Ray's launcher and the clouds' libraries, typer and rich."""
QUICKER = "test_tune_is_imported_without_tables_and_finds_them_where_it_needs_them"
"""Ray 2.50 can't be imported without its tables. It is imported with them, and takes longer."""
WITHOUT_TORCH = (
    "tests/query",
    "tests/store",
    "tests/figures",
    "tests/test_ray_private.py",
    *(
        f"--ignore=tests/{file}.py"
        for file in (
            "query/test_paper",
            "query/test_precision",
            "query/test_deciding",
            "store/test_compatibility",
            "store/test_faults",
            "store/test_leases",
        )
    ),
)
"""What is left where torch is not: those files plan a grid, which counts what models cost, or
train."""
IMPORT_ALL = """
import importlib, pkgutil, sys
import sweepd
for found in pkgutil.walk_packages(sweepd.__path__, "sweepd."):
    if found.name.startswith("sweepd.templates"):
        continue
    try:
        importlib.import_module(found.name)
    except ModuleNotFoundError as error:
        if error.name not in sys.argv[1:]:
            raise
"""
GRID = """
name: matrix
task: {name: lis, n: 4, value_range: 16}
model:
- {name: [standard, linear], d: [4, 8], layers: 1, heads: 1}
- {name: lstm.py:Lstm, d: [4, 8], layers: 1}
train: {steps: 20, batch_size: 8}
goal: acc > 0.0
search: staircase
"""


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the wheel. torch: whether it has torch. lowest: whether it has
    the lower bounds."""

    folder: Path
    torch: bool
    lowest: bool

    def install(self, *requirements: str) -> None:
        """Installs something in the versions that are written beside the environment."""
        constraints, override = (self.folder.parent / name for name in (CONSTRAINTS, OVERRIDE))
        uv("pip", "install", "--python", self.folder, "--constraint", constraints,
           "--override", override, *requirements)  # fmt: skip

    def run(self, program: str, *arguments: str, cwd: Path) -> str:
        """What a program of the environment prints. It must end well."""
        done = subprocess.run(
            [self.folder / "bin" / program, *arguments],
            cwd=cwd,
            env={**os.environ, "VIRTUAL_ENV": str(self.folder)},
            capture_output=True,
            text=True,
        )
        said = f"{program} {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, said
        return done.stdout


def uv(*arguments: str | Path, given: str = "") -> str:
    """What uv prints. It looks for wheels where pip is told to look, and downloads no Python."""
    places = {"UV_FIND_LINKS": os.environ.get("PIP_FIND_LINKS", "")}
    command = [BIN / "uv", "--no-python-downloads", *arguments]
    done = subprocess.run(
        command, input=given, env=places | dict(os.environ), capture_output=True, text=True
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stderr}"
    return done.stdout


def resolved(python: str, requirements: str | Path, *options: str | Path, given: str = "") -> str:
    """The versions that uv chooses, wheels only, as lines of constraints."""
    wheels = ("--only-binary", ":all:", "--no-header", "--no-annotate")
    return uv("pip", "compile", requirements, "--python-version", python, *wheels, *options,
              given=given)  # fmt: skip


def torch_for(python: str, versions: str) -> str:
    """The requirement of a torch without CUDA, or `NO_TORCH`."""
    bounds = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    [bound] = [text for text in bounds if text.startswith("torch")]
    [pinned] = re.findall(r"^torch==.*$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    wanted: list[str] = [pinned] if versions == "pinned" else [bound.replace(">=", "=="), pinned]
    for torch in wanted:
        if "nvidia-" not in resolved(python, "-", given=torch):
            return torch
    return NO_TORCH


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    uv("build", "--wheel", "--out-dir", folder, ROOT)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(
    scope="session", params=product(VERSIONS, PYTHONS), ids=lambda which: "-".join(which)
)
def environment(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Environment]:
    versions, python = request.param
    try:
        interpreter = uv("python", "find", "--no-project", "--system", python).strip()
    except AssertionError as error:
        pytest.skip(f"no Python {python} here: {error}")
    folder = tmp_path_factory.mktemp("environment")
    override = folder / OVERRIDE
    torch = torch_for(python, versions)
    override.write_text(torch)
    extras = [option for extra in EXTRAS for option in ("--extra", extra)]
    how = (
        ("--resolution", "lowest-direct")
        if versions == "lowest"
        else ("--constraint", ROOT / "constraints.txt")
    )
    pins = resolved(python, ROOT / "pyproject.toml", *extras, *how, "--override", override)
    (folder / CONSTRAINTS).write_text(pins)
    uv("venv", "--python", interpreter, folder / "venv")
    made = Environment(folder / "venv", torch != NO_TORCH, versions == "lowest")
    made.install(f"sweepd[{','.join(EXTRAS)}] @ {wheel.as_uri()}")
    print(f"\n{versions}, Python {python}, {torch}: {', '.join(pins.split())}")  # noqa: T201
    yield made
    shutil.rmtree(folder)


def test_every_module_is_imported(environment: Environment, tmp_path: Path) -> None:
    may_lack = () if environment.torch else ("torch",)
    environment.run("python", "-c", IMPORT_ALL, *may_lack, cwd=tmp_path)


def test_parts_do_what_their_tests_say(environment: Environment) -> None:
    parts = PARTS if environment.torch else WITHOUT_TORCH
    but = ("--deselect", f"tests/test_ray_private.py::{QUICKER}") if environment.lowest else ()
    environment.install(*TOOLS)
    said = environment.run("pytest", "-q", "-n", "2", *parts, *but, cwd=ROOT)
    print(said.splitlines()[-1])  # noqa: T201


def test_a_sweep_runs_from_a_grid_to_a_report(environment: Environment, tmp_path: Path) -> None:
    if not environment.torch:
        pytest.skip("there is no torch without CUDA for this Python: nothing can be trained")

    def sweepd(*arguments: str) -> str:
        return environment.run("sweepd", *arguments, cwd=tmp_path)

    sweepd("init", "--own", "model")
    (tmp_path / "grid.yaml").write_text(GRID)
    sweepd("launch", "grid.yaml", "--yes")
    values = sweepd("query", "min d where acc >= 0", "--csv").splitlines()
    assert len(values) == 1 + 3
    assert "matrix" in sweepd("status")
    assert int(sweepd("sql", "SELECT count(*) AS rows FROM metrics", "--csv").split()[1]) > 0
    for out in ("figure.png", "figure.svg", "figure.pdf"):
        sweepd("plot", "heatmap", "matrix", "--out", out)
    sweepd("report", "matrix", "--out", "report.html")
    sweepd("export", "--out", "trials.parquet")
    sweepd("doctor")
