"""A report of many trials, beside the least that any such page costs, alternately.

    python benchmarks/report.py [--trials 10000] [--rounds 5] [--folder DIR]

It makes a store: one task, ten sizes, four models, ten widths, with as many seeds as it takes. Each
trial has a hundred rows of metrics, ten of them checks. Then it runs `sweepd report` and a peer in
turn. Of whole processes with their children it prints the time by the clock, the CPU time and the
peak memory, as `processes.py` does, and then the size of the page.

The peer imports duckdb and altair, reads the same Parquet files, and asks for the least d and for
learning curves with the same number of points. It makes one figure of each in plain Altair, and
one page of both and of the scripts of vl-convert. It looks at no code, tests no digest, judges no
seed, fits no law, and leaves out the rest of the report.

The first report also puts the scripts of the page together, and keeps them for the next
(`sweepd.figures.render`). Its cost is printed by itself. The time by the clock depends on what else
the machine does. CPU seconds depend on it less.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from filled import fill
from processes import SWEEPD, alone, compare

from sweepd.grid.plan import plan
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial

GRID = """
name: large
task: {{name: lis, n: [4, 6, 8, 10, 12, 14, 16, 18, 20, 22], value_range: 64}}
model:
  name: [standard, linear, lin_rpe, log_rpe]
  d: [4, 8, 12, 16, 24, 32, 48, 64, 96, 128]
  layers: 1
  heads: 1
seeds: {seeds}
"""
CELLS = 400
ROWS_A_TRIAL = 100
GROWTH = {"standard": 0.5, "linear": 1.0, "lin_rpe": 0.7, "log_rpe": 0.8}
"""The exponent with which each model's least d grows."""
PEER = """
import json, sys
import altair as alt, duckdb, vl_convert
con = duckdb.connect()
for name in ("trials", "metrics"):
    con.execute(f"CREATE VIEW {name} AS FROM read_parquet('{sys.argv[1]}/{name}/*.parquet')")
cells = con.execute('''
    SELECT model, n, d, median(acc) AS acc FROM (
        FROM trials QUALIFY row_number() OVER (PARTITION BY id ORDER BY attempt DESC) = 1
    ) GROUP BY ALL ORDER BY ALL
''').fetchall()
curves = con.execute(f'''
    SELECT id, step, acc FROM metrics WHERE isfinite(acc)
    QUALIFY row_number() OVER (PARTITION BY id ORDER BY step DESC) <= {sys.argv[2]}
    ORDER BY id, step
''').fetchall()
map = alt.Chart(alt.NamedData("cells")).mark_rect().encode(x="n:O", y="d:O", color="acc:Q")
line = alt.Chart(alt.NamedData("curves")).mark_line().encode(x="step:Q", y="acc:Q", detail="id:N")
data = {
    "cells": [dict(zip(("model", "n", "d", "acc"), row)) for row in cells],
    "curves": [dict(zip(("id", "step", "acc"), row)) for row in curves],
}
specifications = [map.facet("model:N").to_dict(), line.to_dict()]
page = [json.dumps(specifications), json.dumps(data), vl_convert.javascript_bundle()]
open(sys.argv[3], "w").write("<script>".join(page))
"""


def scores(trial: Trial, rng: np.random.Generator) -> Mapping[str, float]:
    """Returns the scores with which a trial ends whose model needs more width at a larger size."""
    needed = 6 * (trial.axes["n"] / 4) ** GROWTH[trial.model_name]
    logit = 2.2 + 4 * math.log2(trial.axes["d"] / needed) + rng.normal(0, 0.4)
    correct = round(1024 / (1 + math.exp(-logit)))
    return {
        "correct": correct,
        "acc": correct / 1024,
        "loss": 1 - correct / 1024,
        "seconds": 60.0,
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--trials", type=int, default=10_000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--folder", type=Path, help="where the store is made and left, or lies")
    given = arguments.parse_args()
    root = given.folder or Path(tempfile.mkdtemp(prefix="sweepd-report-"))
    os.environ["XDG_CACHE_HOME"] = str(root / "cache")
    shutil.rmtree(root / "cache", ignore_errors=True)
    try:
        address, page, other = (str(root / name) for name in ("results", "page.html", "peer.html"))
        seeds = list(range(max(1, given.trials // CELLS)))
        made = plan(parse_grid(GRID.format(seeds=seeds), "report.yaml", [], Path()))
        fill(address, "large", made, ROWS_A_TRIAL, scores)
        points = str(max(1, 60_000 // len(made.trials)))
        ours = (SWEEPD, "report", "large", "--out", page, "--results", address)
        peer = (sys.executable, "-c", PEER, address, points, other)
        print(f"{len(made.trials)} trials, load {os.getloadavg()[0]:.1f}", flush=True)
        alone("the first report", ours)
        compare("a report", ours, peer, given.rounds)
        print(f"load {os.getloadavg()[0]:.1f}")
        print(
            *(
                f"{Path(path).stem} {Path(path).stat().st_size / 1e6:.2f} MB"
                for path in (page, other)
            )
        )
    finally:
        if not given.folder:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
