"""A results folder made of a CSV of trials, to ask today's questions of what ran long ago.

    python benchmarks/rebuilt.py GRID.yaml TRIALS.csv RESULTS [--set key=value …]

The grid is planned anew, and each of its trials that has a row in the CSV gets that row's ending.
What the CSV does not tell stays empty; a test sample without its size counts as 1024 answers.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sweepd.grid.plan import plan
from sweepd.grid.spec import load_grid
from sweepd.run.driver import sweep_info
from sweepd.store.store import Store

ENDINGS = ("status", "acc", "loss", "total", "step", "seconds")
SAMPLES = 1024


def key(value: Callable[[str], Any], names: Sequence[str]) -> tuple[str | float | None, ...]:
    def plain(text: Any) -> str | float | None:
        try:
            return float(text)
        except (TypeError, ValueError):
            return text or None

    return tuple(plain(value(name)) for name in names)


def rebuild(grid: Path, trials: Path, results: str, sets: Sequence[str]) -> tuple[int, int]:
    """Returns how many rows the CSV has, and how many trials of the grid they became."""
    planned = plan(load_grid(grid, sets))
    with trials.open() as lines:
        rows = list(csv.DictReader(lines))
    axes = [name for name in rows[0] if name not in (*ENDINGS, "params")]
    ended = {key(row.get, axes): row for row in rows}
    endings = []
    for trial in planned.trials:
        if row := ended.get(key(trial.row().get, axes)):
            told = {name: float(row[name]) for name in ENDINGS[1:] if row.get(name)}
            told = {"total": SAMPLES, "step": trial.train.steps, **told}
            told |= {name: int(told[name]) for name in ("total", "step")}
            own = {"attempt": 1, "sweep": planned.grid.name, "status": row["status"]}
            facts = trial.row()
            if facts.get("train_flops"):  # of all its steps, and some trials ended earlier
                facts["train_flops"] *= told["step"] / trial.train.steps
            endings.append({**facts, **own, **told})
    store = Store.create(results)
    text = planned.grid.resolved_text()
    store.save_sweep(planned.grid.name, text, sweep_info(planned), planned.rows())
    store.write_trials(endings)
    return len(rows), len(endings)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("grid", type=Path)
    arguments.add_argument("trials", type=Path)
    arguments.add_argument("results")
    arguments.add_argument("--set", action="append", default=[], dest="sets")
    given = arguments.parse_args()
    rows, placed = rebuild(given.grid, given.trials, given.results, given.sets)
    print(f"{placed} of {rows} trials are in {given.results}")


if __name__ == "__main__":
    main()
