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

Neither checks the digests of large files (`sweepd doctor --deep` does).

`ended` asks of plans and endings alone: a mean, `min`, `plan`, `status`, and a picture of
`status --watch`. `small` asks a question of a store of 40 trials, beside a process that imports
typer, duckdb and pyarrow and does nothing.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from filled import fill
from processes import SWEEPD, WIDTH, alone, compare, cost
from scale import planned

from sweepd.grid.plan import Plan
from sweepd.grid.trials import Trial

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
from sweepd.cli.progress import View
from sweepd.store.store import Store
view = View(Store.open(sys.argv[1]), "scale")
for _ in range(int(sys.argv[2])):
    view.board({"scale"})
"""


def at_random(trial: Trial, rng: np.random.Generator) -> Mapping[str, float]:
    return {"acc": float(rng.random())}


def ask_of_metrics(address: str, made: Plan, rounds: int) -> None:
    at, files = ("--results", address), str(Path(address, "metrics"))
    some = made.trials[len(made.trials) // 2].id
    for name, text in SQL.items():
        sql = text.format(id=some)
        peer = (sys.executable, "-c", PEER, "metrics", files, sql)
        compare(name, (SWEEPD, "sql", sql, "--csv", *at), peer, rounds)


def ask_of_endings(address: str, rounds: int) -> None:
    at, files = ("--results", address), Path(address, "trials")
    for name, ask, question, sql in (
        ("mean acc by d", "sql", OF_ENDINGS, OF_ENDINGS),
        (MINIMUM, "query", MINIMUM, PEER_MINIMUM),
    ):
        ours = (SWEEPD, ask, question, "--csv", *at)
        peer = (sys.executable, "-c", PEER, "trials", str(files), sql)
        compare(name, ours, peer, rounds)
    grid = Path(address, "sweeps", "scale", "grid.yaml")
    alone("plan", (SWEEPD, "plan", str(grid), *at))
    alone("status", (SWEEPD, "status", *at))
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
    try:
        small = given.part == "small"
        rows, trials = (SMALL * 100, SMALL) if small else (int(given.rows), given.trials)
        address = str(root / "results")
        made = planned(trials)
        fill(address, "scale", made, rows // trials, at_random)
        if small:
            question = (SWEEPD, "query", MINIMUM, "--results", address)
            compare("query, small", question, (sys.executable, "-c", IMPORTS), given.rounds)
        else:
            print(f"{rows:.0e} rows of metrics, {len(made.trials)} trials", flush=True)
            if given.part == "large":
                ask_of_metrics(address, made, given.rounds)
            ask_of_endings(address, given.rounds)
            if given.part == "large":
                grid = Path(address, "sweeps", "scale", "grid.yaml")
                alone("launch", (SWEEPD, "launch", str(grid), "--yes", "--results", address))
    finally:
        if not given.folder:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
