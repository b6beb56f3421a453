"""The staircase search beside the whole grid, on real training.

    python benchmarks/staircase_real.py RESULTS [--grid grids/mini.yaml] [--set task.n=[4,6,8] …]

Runs the grid twice from the command line, whole and by the staircase, into two results folders
below RESULTS, and asks both the grid's question. A trial's identity, and so its numbers, are the
same in both. If the command is cut short, the same command continues it. Wall times are printed
only if both launches ran without a break.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from processes import sweepd

SEARCHES = ("grid", "staircase")
SPENT = "SELECT id, train_flops, seconds FROM trials WHERE status <> 'failed'"

Rows = list[dict[str, Any]]


def rows(results: Path, *command: str) -> Rows:
    """Returns the rows that a listing command prints. To have none is no failure here."""
    found: Rows = json.loads(sweepd(*command, "--results", results, "--json", also=1))
    return found


def launch(grid: Path, sets: list[str], results: Path) -> float | None:
    """Runs a sweep to its end. Returns its wall time in seconds, or None if it only went on."""
    fresh = not results.exists()
    start = time.monotonic()
    overrides = [part for text in sets for part in ("--set", text)]
    sweepd("launch", grid, *overrides, "--results", results, "--yes")
    return time.monotonic() - start if fresh else None


def answers(found: dict[str, Rows]) -> Iterator[str]:
    """Yields the answers side by side."""
    same = 0
    yield f"{'task':12}{'model':10}{'size':>5}   {'whole grid':28}staircase"
    for whole, ours in zip(*(found[search] for search in SEARCHES), strict=True):
        same += whole["value"] == ours["value"]
        told = "".join(
            f"{row['value'] or '-'!s:>5} {row['verdict']:13}{row['passed']} of {row['seeds']}   "
            for row in (whole, ours)
        )
        yield f"{whole['task']:12}{whole['model']:10}{whole['size']:5} {told}".rstrip()
    yield f"same least value: {same} of {len(found['grid'])}"


def spending(ran: dict[str, Rows], wall: dict[str, float | None]) -> Iterator[str]:
    """Yields what each search took. Also for the trials of the staircase, seconds are those of the
    whole grid's run. So it does not show if the machine was busier during one of the two."""
    seconds = {row["id"]: row["seconds"] for row in ran["grid"]}
    sums = {
        search: (
            len(ran[search]),
            sum(row["train_flops"] for row in ran[search]),
            sum(seconds[row["id"]] for row in ran[search]),
        )
        for search in SEARCHES
    }
    yield f"{'':16}{'whole grid':>12}{'staircase':>12}{'share':>8}"
    for name, whole, ours in zip(
        ("trials", "training FLOPs", "trial seconds"), *(sums[s] for s in SEARCHES), strict=True
    ):
        yield f"{name:16}{whole:12.5g}{ours:12.5g}{ours / whole:8.1%}"
    if None not in wall.values():
        whole, ours = (wall[search] or 0 for search in SEARCHES)
        yield f"{'wall seconds':16}{whole:12.0f}{ours:12.0f}{ours / whole:8.1%}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("results", type=Path, help="a folder for both results folders")
    arguments.add_argument("--grid", type=Path, default=Path("grids/mini.yaml"))
    arguments.add_argument("--set", action="append", metavar="key=value", dest="sets")
    arguments.add_argument("--question", default="min d where acc>0.9")
    given = arguments.parse_args()
    sets = ["task.n=[4,6,8]"] if given.sets is None else given.sets
    folders = {search: given.results / search for search in SEARCHES}
    wall = {s: launch(given.grid, [*sets, f"search={s}"], folders[s]) for s in SEARCHES}
    print(f'$ sweepd query "{given.question}"')
    print("\n".join(answers({s: rows(folders[s], "query", given.question) for s in SEARCHES})))
    print()
    print("\n".join(spending({s: rows(folders[s], "sql", SPENT) for s in SEARCHES}, wall)))


if __name__ == "__main__":
    main()
