"""Questions over many rows, beside plain DuckDB over the same Parquet files, alternately.

    python benchmarks/questions.py [--rows 1e7] [--trials 10000] [--rounds 5] [--folder DIR]
    python benchmarks/questions.py ended [--trials 100000] [--rounds 5] [--folder DIR]
    python benchmarks/questions.py small [--rounds 9]

It makes a store: a planned grid of so many trials, their endings in one compacted file, and their
metrics in compacted files of `MOST_ROWS` rows, as a driver leaves them. The trials run in waves.
Each wave's rows are spread over four files. Then it asks each question in turn of `sweepd` and of
the peer, a process that imports duckdb and reads the same files itself. It prints the time, the CPU
time and the peak memory of whole processes, and their ratios: the median over rounds, the least and
the greatest. `--folder` keeps the store there, or uses the one that is there. The folder belongs on
a real disk.

The first question of `sweepd` checks each file's digest and remembers it, and the first about
endings or cells keeps what it has made of them. Their time is printed by itself. The rounds that
follow find it kept. Of a store that has just changed nothing is kept. So lines that say "changing"
measure what each question costs while a sweep runs. The peer checks nothing.

`ended` asks of plans and endings alone: a mean, `min`, `plan`, `status`, and a picture of
`status --watch`. `small` asks a question of a store of 40 trials, beside a process that imports
typer, duckdb and pyarrow and does nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from scale import planned

from sweepd.grid.plan import Plan
from sweepd.grid.trials import Trial
from sweepd.query import kept
from sweepd.run.driver import sweep_info
from sweepd.store.schema import METRICS, TRIALS
from sweepd.store.store import Store
from sweepd.store.tables import MOST_ROWS, TableFolder
from sweepd.trial.endings import ledger_columns

SWEEPD = (str(Path(sys.executable).with_name("sweepd")),)
LOG_EVERY, CHECK_EVERY = 10, 100
FILES_A_WAVE = 4
LONG_AGO, SOON = time.time() - 3600, time.time() + 3600
"""When files were written of which something is kept, and of which nothing is, in seconds since
1970."""
WIDTH = 28
"""The width in characters of the name that begins each line."""
SMALL = 40
"""Trials of a small store."""
IMPORTS = "import typer, duckdb, pyarrow"
SQL = {
    "count, avg": "SELECT count(*) AS rows, avg(loss) AS loss FROM metrics",
    "a trial's curve": "SELECT step, loss FROM metrics WHERE id = '{id}' ORDER BY step",
    "least loss by trial": (
        "SELECT id, min(loss) AS least FROM metrics GROUP BY id ORDER BY least LIMIT 5"
    ),
}
"""Of the view `metrics`: the same for both."""
OF_ENDINGS = "SELECT d, avg(acc) AS acc FROM trials GROUP BY d ORDER BY d"
"""Of the view `trials`: the same for both."""
MINIMUM = "min d where acc>0.9"
PEER_MINIMUM = """
    WITH latest AS (
        FROM trials QUALIFY row_number() OVER (PARTITION BY id ORDER BY attempt DESC) = 1
    ), cells AS (
        SELECT task, model, size, L, weight_decay, d, median(acc) AS acc FROM latest GROUP BY ALL
    )
    SELECT task, model, size, L, weight_decay, min(d) FILTER (acc > 0.9) FROM cells GROUP BY ALL
"""
PEER = """
import sys, duckdb
con = duckdb.connect()
con.execute(f"CREATE VIEW {sys.argv[1]} AS FROM read_parquet('{sys.argv[2]}/*.parquet')")
for row in con.execute(sys.argv[3]).fetchall():
    print(*row, sep=",")
"""
WATCHING = """
import sys
from sweepd.cli.watching import View
from sweepd.store.store import Store
view = View(Store.open(sys.argv[1]), "scale")
for _ in range(int(sys.argv[2])):
    view.board({"scale"})
"""

LAUNCHER = """
import os, sys, time
null = os.open(os.devnull, os.O_WRONLY)
began = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,
    file_actions=[(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)])
_, ended, used = os.wait4(pid, 0)
print(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(ended != 0)
"""
"""Runs a program from a small process: Linux counts the memory of who starts it as its own."""


@dataclass(frozen=True)
class Cost:
    """The cost of one whole process. seconds: by the clock. cpu: seconds of all its threads, which
    other load on the machine disturbs less. memory: its greatest resident set, in MiB."""

    seconds: float
    cpu: float
    memory: float


def cost(program: Sequence[str]) -> Cost:
    done = subprocess.run([sys.executable, "-S", "-c", LAUNCHER, *program], stdout=subprocess.PIPE)
    assert done.returncode == 0, program
    seconds, cpu, kibibytes = map(float, done.stdout.split())
    return Cost(seconds, cpu, kibibytes / 1024)


# The store


Scores = Callable[[Trial, np.random.Generator], Mapping[str, float]]
"""Columns of scores with which a trial ends."""


def fill(address: str, name: str, made: Plan, rows: int, scores: Scores) -> None:
    """Makes a store of a plan's trials, all ended, each with `rows` rows of metrics. A store that
    is there already is left as it is."""
    store = Store.create(address)
    if store.sweeps():
        return
    store.save_sweep(name, made.grid.resolved_text(), sweep_info(made), made.rows())
    rng = np.random.default_rng(0)
    with patch.object(os, "fsync"):  # no reader pays for it
        ended = [
            {
                **ledger_columns(trial, 1000, name),
                "status": "completed",
                "total": 1024,
                "step": rows * LOG_EVERY,
                **scores(trial, rng),
            }
            for trial in made.trials
        ]
        _put(store._trials, TRIALS.table(ended))
        for table in waves([trial.id for trial in made.trials], rows, rng):
            _put(store._metrics, table)
    date(Path(address), LONG_AGO)  # nothing is kept of files that were just written


def date(folder: Path, written: float) -> None:
    """Says of all files of a folder that they were written then, in seconds since 1970."""
    for path in folder.rglob("*.*"):
        os.utime(path, (written, written))


def at_random(trial: Trial, rng: np.random.Generator) -> Mapping[str, float]:
    return {"acc": float(rng.random())}


def _put(folder: TableFolder, table: pa.Table) -> None:
    folder.add(folder.pack(table))


def waves(ids: Sequence[str], steps: int, rng: np.random.Generator) -> Iterator[pa.Table]:
    """Yields the metrics of each file: a quarter of the steps of as many trials as make it full."""
    at_once = max(1, MOST_ROWS * FILES_A_WAVE // steps)
    for start in range(0, len(ids), at_once):
        for share in np.array_split(np.arange(1, steps + 1), FILES_A_WAVE):
            yield metrics(ids[start : start + at_once], share * LOG_EVERY, rng)


def metrics(ids: Sequence[str], steps: np.ndarray, rng: np.random.Generator) -> pa.Table:
    step = np.tile(steps, len(ids))
    count = len(step)
    which = pa.array(np.repeat(np.arange(len(ids), dtype=np.int32), len(steps)))
    loss = 3 * np.exp(-step / 5000) * rng.uniform(0.9, 1.1, count)
    columns = {
        "id": pa.DictionaryArray.from_arrays(which, pa.array(ids)).cast(pa.string()),
        "attempt": np.full(count, 1000),
        "step": step,
        "loss": loss.astype(np.float32).astype(np.float64),
        "acc": pa.array(rng.integers(0, 1025, count) / 1024, mask=step % CHECK_EVERY != 0),
        "chain_acc": pa.nulls(count, pa.float64()),
        "lr": 5e-3 * np.minimum(1.0, step / 1000),
        "tokens": step * 64 * 19,
        "seconds": step * 0.004 + rng.uniform(0, 0.01, count),
        "train_flops": step * 1.4e9,
    }
    return pa.table(columns, schema=pa.schema(METRICS.fixed.items()))


# Measuring


def compare(name: str, ours: Sequence[str], peer: Sequence[str], rounds: int) -> None:
    pairs = [(cost(ours), cost(peer)) for _ in range(rounds)]
    shown = [name.ljust(WIDTH)]
    for what, unit in (("seconds", "s"), ("cpu", "s of CPU"), ("memory", "MiB")):
        both = [(getattr(a, what), getattr(b, what)) for a, b in pairs]
        ratios = sorted(a / b for a, b in both)
        mine, theirs = (statistics.median(side) for side in zip(*both, strict=True))
        shown.append(
            f"{mine:8.2f} {unit} beside {theirs:7.2f} {unit}: {statistics.median(ratios):.2f} times"
            f" ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )
    print("  ".join(shown), flush=True)


def alone(name: str, program: Sequence[str]) -> None:
    found = cost(program)
    print(
        f"{name.ljust(WIDTH)} {found.seconds:8.2f} s  {found.cpu:8.2f} s of CPU  "
        f"{found.memory:8.0f} MiB",
        flush=True,
    )


def ask_of_metrics(address: str, made: Plan, rounds: int) -> None:
    at, files = ("--results", address), str(Path(address, "metrics"))
    alone("first question", (*SWEEPD, "sql", SQL["count, avg"], *at))
    some = made.trials[len(made.trials) // 2].id
    for name, text in SQL.items():
        sql = text.format(id=some)
        peer = (sys.executable, "-c", PEER, "metrics", files, sql)
        compare(name, (*SWEEPD, "sql", sql, "--csv", *at), peer, rounds)


def ask_of_endings(address: str, rounds: int) -> None:
    at, files = ("--results", address), Path(address, "trials")
    for name, ask, question, sql in (
        ("mean acc by d", "sql", OF_ENDINGS, OF_ENDINGS),
        (MINIMUM, "query", MINIMUM, PEER_MINIMUM),
    ):
        ours = (*SWEEPD, ask, question, "--csv", *at)
        peer = (sys.executable, "-c", PEER, "trials", str(files), sql)
        shutil.rmtree(Path(os.environ["XDG_CACHE_HOME"], "sweepd", kept.FOLDER), ignore_errors=True)
        alone(f"first {name}", ours)
        compare(name, ours, peer, rounds)
        date(files, SOON)
        compare(f"{name}, changing", ours, peer, rounds)
        date(files, LONG_AGO)
    grid = Path(address, "sweeps", "scale", "grid.yaml")
    alone("plan", (*SWEEPD, "plan", str(grid), *at))
    alone("status", (*SWEEPD, "status", *at))
    watching = (sys.executable, "-c", WATCHING, address)
    one, more = (cost((*watching, str(pictures))).cpu for pictures in (1, 11))
    each = (more - one) / 10
    print(f"{'status --watch'.ljust(WIDTH)} {each:8.2f} s of CPU for each further picture")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("part", nargs="?", choices=["large", "ended", "small"], default="large")
    arguments.add_argument("--rows", type=float, default=1e7, help="of metrics")
    arguments.add_argument("--trials", type=int, default=10_000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--folder", type=Path, help="where the store is made and left, or lies")
    given = arguments.parse_args()
    root = given.folder or Path(tempfile.mkdtemp(prefix="sweepd-questions-"))
    os.environ["XDG_CACHE_HOME"] = str(root / "cache")
    try:
        small = given.part == "small"
        rows, trials = (SMALL * 100, SMALL) if small else (int(given.rows), given.trials)
        address = str(root / "results")
        made = planned(trials)
        fill(address, "scale", made, rows // trials, at_random)
        if small:
            question = (*SWEEPD, "query", MINIMUM, "--results", address)
            compare("query, small", question, (sys.executable, "-c", IMPORTS), given.rounds)
        else:
            print(f"{rows:.0e} rows of metrics, {len(made.trials)} trials", flush=True)
            if given.part == "large":
                ask_of_metrics(address, made, given.rounds)
            ask_of_endings(address, given.rounds)
            if given.part == "large":
                grid = Path(address, "sweeps", "scale", "grid.yaml")
                alone("launch", (*SWEEPD, "launch", str(grid), "--yes", "--results", address))
    finally:
        if not given.folder:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
