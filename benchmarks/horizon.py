"""Forecasts of `holds_to` beside what longer training did, on recorded trials.

    python benchmarks/horizon.py [--all] [results/horizon/*.csv]

The grids in benchmarks/horizon/ train each cell with three seeds at budgets that double. Of each
cell that fails at a budget S, and was trained to 4S too, the rule of `search.horizon` sees the
trials of up to S steps. Its forecast is then held against the longer ones. A cell counts once, at
its largest such S; with `--all` at each.

CHOSEN are the tasks whose cells were looked at while the rule was chosen. The others judge it. Two
tables are printed: how often a forecast reaches twice and 4 times S, and how often the cell had
passed by then; and every forecast, the wrong ones first.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from printed import share

from sweepd.grid.options import Goal
from sweepd.judge.seeds import of_one
from sweepd.search.horizon import Final, Runs, last_doubling

CHOSEN = ("lis", "lookup", "fixed_memory")
GOAL = Goal("acc", ">", 0.9)
SEEDS = range(3)
FOLDER = Path(__file__).parents[1] / "results" / "horizon"
Cell = tuple[str, ...]
"""Task, model, size, rpe, d and rate."""


@dataclass(frozen=True)
class Judged:
    """One forecast. scores: of the seeds at S. times: how many times S it reaches, or 1. passes:
    whether the median of the seeds had passed with so many times S, by that number; None where it
    was not trained so long."""

    cell: Cell
    steps: int
    scores: Sequence[float]
    times: int
    passes: Mapping[int, bool | None]

    @property
    def wrong(self) -> bool:
        return any(self.passes[times] for times in (2, 4, 8) if times <= self.times)


def read(files: Iterable[Path]) -> dict[Cell, dict[int, dict[int, Final]]]:
    """Returns the final scores by cell, seed and steps."""
    cells: dict[Cell, dict[int, dict[int, Final]]] = defaultdict(lambda: defaultdict(dict))
    for file in files:
        with file.open() as lines:
            for row in csv.DictReader(lines):
                cell = tuple(row[name] for name in ("task", "model", "size", "rpe", "d", "lr"))
                score = 0.0 if row["status"] == "diverged" else float(row["acc"])
                if int(row["seed"]) in SEEDS:
                    final = Final(score, int(row["total"]))
                    cells[cell][int(row["seed"])][int(row["steps"])] = final
    return cells


def judged(cell: Cell, runs: Runs) -> Iterator[Judged]:
    """Yields the forecasts of a cell at each of its budgets at which it fails, and of which 4 times
    as many steps were trained."""
    if len(runs) < len(SEEDS):
        return
    for steps in sorted(set.intersection(*map(set, runs.values()))):
        scores = [runs[seed][steps].score for seed in SEEDS]
        seen = {seed: {s: f for s, f in runs[seed].items() if s <= steps} for seed in SEEDS}
        passes = {times: passed_by(runs, steps, times) for times in (2, 4, 8)}
        failed = not GOAL.met(of_one(scores, "median", "up"))
        if failed and passes[4] is not None and all(len(finals) > 2 for finals in seen.values()):
            told = last_doubling(seen, GOAL, "median")
            times = (told.holds_to or steps) // steps if told else 1
            yield Judged(cell, steps, scores, times, passes)


def passed_by(runs: Runs, steps: int, times: int) -> bool | None:
    """Returns whether most seeds pass with more than `steps` and up to `times` as many."""
    ends = [
        True if any(GOAL.met(f.score) for s, f in finals.items() if steps < s <= times * steps)
        else False if times * steps in finals else None
        for finals in runs.values()
    ]  # fmt: skip
    if 2 * ends.count(True) > len(ends):
        return True
    return None if None in ends else False


def summary(found: Sequence[Judged]) -> Iterator[str]:
    yield f"{'':16}" + "".join(
        f"{f'forecasts to {times}S':>34}{f'passed by {times}S':>34}" for times in (2, 4)
    )
    groups = {task: [one for one in found if one.cell[0] == task] for task in tasks(found)}
    groups["chosen by"] = [one for one in found if one.cell[0] in CHOSEN]
    groups["judged by"] = [one for one in found if one.cell[0] not in CHOSEN]
    groups["all"] = list(found)
    for name, ones in groups.items():
        line = f"{name:16}"
        for times in (2, 4):
            far = [one for one in ones if one.times >= times]
            passed = sum(one.passes[times] is True for one in far)
            for part, total in ((len(far), len(ones)), (passed, len(far))):
                line += f"{part:5} of {total:3}{share(part, total)}"
        yield line


def tasks(found: Sequence[Judged]) -> list[str]:
    return sorted({one.cell[0] for one in found}, key=lambda task: (task not in CHOSEN, task))


def listing(found: Sequence[Judged]) -> Iterator[str]:
    said = {True: "pass", False: "fail", None: "-"}
    yield (
        f"{'task':16}{'model':10}{'size':>5} {'rpe':4}{'d':>4}{'rate':>7}{'S':>7}  "
        f"{'seeds at S':22}{'holds to':>9}{'by 2S':>7}{'4S':>6}{'8S':>6}"
    )
    for one in sorted(found, key=lambda one: (not one.wrong, one.cell, one.steps)):
        task, model, size, rpe, d, rate = one.cell
        scores = ", ".join(f"{score:.3f}" for score in one.scores)
        held = f"{one.times}S" if one.times > 1 else "-"
        yield (
            f"{task:16}{model:10}{size:>5} {rpe:4}{d:>4}{rate:>7}{one.steps:7}  {scores:22}"
            f"{held:>9}" + "".join(f"{said[one.passes[times]]:>6}" for times in (2, 4, 8))
            + ("  WRONG" if one.wrong else "")
        )  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("files", nargs="*", type=Path)
    arguments.add_argument("--all", action="store_true", help="each budget of a cell, not one")
    given = arguments.parse_args()
    found: list[Judged] = []
    for cell, runs in read(given.files or sorted(FOLDER.glob("*.csv"))).items():
        every = list(judged(cell, runs))
        found += every if given.all else every[-1:]
    print("\n".join([*summary(found), "", *listing(found)]))


if __name__ == "__main__":
    main()
