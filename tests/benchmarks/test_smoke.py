"""Each benchmark runs and prints what it is meant to measure. Its size is so small here that the
figures mean nothing. So a benchmark cannot fall behind the code that it measures. `make test` runs
the benchmarks that need only a second of CPU; `make bench-smoke` runs all of them."""

import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import inprocess
import processes
import pytest
from shell import ONE_AT_A_TIME

FOLDER = Path(__file__).parents[2] / "benchmarks"
GRIDS, RESULTS = FOLDER.parent / "grids", FOLDER.parent / "results"
GRID = f"""
name: tiny
task: {{name: lis, n: 4, value_range: 8}}
model: {{name: standard, d: [2, 4], layers: 1, heads: 1, positions: learned}}
train: {{steps: 20, batch_size: 4, warmup: 0}}
evaluate: {{check_samples: 8, verdict_samples: 8}}
seeds: [0, 1, 2]
goal: acc > 0.9
search: staircase
settle: {{factor: 4, least: 20, most: 80}}
resources: {ONE_AT_A_TIME}
"""
DIFFERENCE = r"\d+\.\d\d times \("
"""A ratio with its spread."""
QUICK = [
    ("attention.py --rounds 1 --longest 23", r"sparse +23 .*\n.*linear +23 "),
    ("bucket.py --trials 100", r"first look: 2,000 files.*\nthe next look: .* files"),
    ("inference.py laws --repetitions 2", r"truth +constant(.*\n)+plateau "),
    ("questions.py small --rounds 1", rf"query, small .*{DIFFERENCE}"),
    ("scale.py fleet --trials 50 --nodes 2", r"slots' time trained.*driver busy"),
    ("horizon.py", r"judged by(.*\n)+.* 4S .*fail"),
    ("horizon_simulated.py --truths 1", r"cells by chance"),
    (f"effort.py . --only-ask --trials {RESULTS}/effort/trials.csv", r"median passes(.*\n)+cut "),
    (f"rebuilt.py {GRIDS}/mini.yaml {RESULTS}/mini/trials.csv store", r"434 of 434 trials"),
]
LONG = [
    ("staircase.py --ensemble 1", r"guesses\n\n.*\n"),
    ("data.py --seconds 0.001 --rounds 1", r"Arithmetic operators=16 .*x\n$"),
    (
        "inference.py growth intervals cost --truths 2 --repetitions 2",
        r"grows(.*\n)+.*the search's cost",
    ),
    (
        "overhead.py --trials 30 --rounds 1",
        r"[1-9] of 30 trials kept.*\nmedian: sweepd .* ratio \d",
    ),
    (
        "questions.py --rows 1e4 --trials 100 --rounds 1",
        rf"curve .*{DIFFERENCE}(.*\n)+min d .*{DIFFERENCE}(.*\n)+status (.*\n)+launch ",
    ),
    ("report.py --trials 40 --rounds 1", rf"a report .*{DIFFERENCE}(.*\n)+page .* MB"),
    ("scale.py engine --trials 20 --reports 1 2", r"a report -?\d+\.\d+ ms"),
    ("scale.py slots --slots 8 --trials 80 --reports 2", r"a trial besides -?\d+\.\d+ ms"),
    ("scale.py metrics --files 1000 --rows 1", r"reading all"),
    ("scale.py store --trials 50 --folder .", r"status\n(.*\n)+.*compacting 40 more"),
    ("staircase_real.py results --grid tiny.yaml --set settle=off", r"same least value: 1 of 1"),
    ("stacked.py --widths 4 --sizes 4 --rounds 1", rf"Sparse +d=4 +n=4 +{DIFFERENCE}"),
]
ALONE = [
    (
        "gpu.py launch steps trials stacked --device cpu --widths 8 --n 6 --trials 2 --models 2 "
        "--rounds 1 --seconds 0.05 --steps 400",
        r"1 failed .*allocate[\s\S]*as it must be, after [\s\S]*\n +8 .*\(\d+\.\d\d: [\s\S]*"
        r"\n +8 +2 +recorded [\s\S]*\n +8 +2 +\d",
    ),
    ("programs.py --trials 4 --rounds 1 --seconds 0.1", r"4 programs.*\nmedian: -?\d+\.\d+ s more"),
    (
        "soak.py 0.001 --kill-every 0.03 --trials 300",
        r"SIGKILL(.*\n)+.*none twice, and their count never fell",
    ),
    ("start.py --rounds 1", rf"CPU seconds in all: .*{DIFFERENCE}"),
]
"""Those that take signals, or processes of their own that import them."""
Benchmark = Callable[[str], str]
"""Runs a command line of a benchmark, and returns what it printed."""
LIBRARIES = {
    "curves.py",
    "filled.py",
    "pretended.py",
    "printed.py",
    "processes.py",
    "slopes.py",
    "surfaces.py",
}
"""What other benchmarks import."""


@pytest.fixture
def benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Benchmark:
    """Runs in this process, which imports torch and starts Ray once for all."""

    def run(command: str) -> str:
        program, *arguments = command.split()
        monkeypatch.setattr(sys, "argv", [program, *arguments])
        runpy.run_path(str(FOLDER / program), run_name="__main__")
        return capsys.readouterr().out

    def sweepd(*arguments: str | Path, also: int = 0) -> str:
        answer = inprocess.sweepd(*map(str, arguments))
        assert answer.code in (0, also), answer.err
        return answer.out

    (tmp_path / "tiny.yaml").write_text(GRID)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(processes, "sweepd", sweepd)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # a benchmark may set it: undone here
    return run


@pytest.mark.parametrize(
    ("command", "expected"),
    [*QUICK, *(pytest.param(*each, marks=pytest.mark.long) for each in LONG)],
)
def test_a_benchmark_prints_its_figures(command: str, expected: str, benchmark: Benchmark) -> None:
    printed = benchmark(command)
    assert re.search(expected, printed), printed


@pytest.mark.long
@pytest.mark.parametrize(("command", "expected"), ALONE)
def test_a_benchmark_of_processes_prints_its_figures(
    command: str, expected: str, tmp_path: Path
) -> None:
    program, *arguments = command.split()
    done = subprocess.run(
        [sys.executable, FOLDER / program, *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert re.search(expected, done.stdout), done.stdout


def test_every_benchmark_is_tried() -> None:
    tried = {command.split()[0] for command, _ in QUICK + LONG + ALONE}
    assert tried | LIBRARIES == {path.name for path in FOLDER.glob("*.py")}
