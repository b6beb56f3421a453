"""Whether settled answers depend on where training started, on real training.

    python benchmarks/settled_real.py RESULTS [--grid benchmarks/settled_real.yaml]
                                      [--bases 500 1000 2000] [--set key=value …]

Runs the grid once from each base budget, as sweeps of one results folder, and asks each the same
question. A trial's numbers are a function of its settings and its seed. So the next sweep uses what
one sweep has trained, and training it again would change nothing. If the command is cut short, the
same command continues it.

Printed are the answers from each base, and how many of the rows that settled from two bases or more
say the same. `--only-ask` prints this of what has been run.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from processes import sweepd

GRID = Path(__file__).with_suffix(".yaml")
QUESTION = "min d where acc>0.9"

Row = dict[str, Any]
Key = tuple[str, str, int]


def sweep(base: int) -> str:
    return f"from_{base}"


def launch(grid: Path, base: int, sets: Sequence[str], results: Path) -> None:
    overrides = [f"name={sweep(base)}", f"train.steps={base}", *sets]
    options = [part for text in overrides for part in ("--set", text)]
    sweepd("launch", grid, *options, "--results", results, "--yes")


def ask(base: int, results: Path) -> dict[Key, Row]:
    """Returns the answers from one base, by task, model and size."""
    asked = ("query", QUESTION, "--sweep", sweep(base), "--results", results, "--json")
    found: list[Row] = json.loads(sweepd(*asked))
    return {(row["task"], row["model"], row["size"]): row for row in found}


def listing(answers: Mapping[int, Mapping[Key, Row]]) -> Iterator[str]:
    yield (
        f"{'task':6}{'model':10}{'size':>4}  {'base':>5} {'value':>6} {'verdict':13}"
        f"{'steps':>6} {'failed':>7} {'gain':>7} {'missing':>8}  settled"
    )
    for key in next(iter(answers.values())):
        for base, found in answers.items():
            row = found[key]
            gain, missing = (
                "" if row[name] is None else f"{row[name]:.3f}" for name in ("gain", "missing")
            )
            value = "-" if row["value"] is None else row["value"]
            yield (
                f"{key[0]:6}{key[1]:10}{key[2]:4}  {base:5} {value!s:>6} {row['verdict']:13}"
                f"{row['steps'] or ''!s:>6} {row['fail_steps'] or ''!s:>7} {gain:>7} {missing:>8}"
                f"  {row['settled']}: {row['why']}"
            )


def agreement(answers: Mapping[int, Mapping[Key, Row]], widths: Sequence[float]) -> Iterator[str]:
    """Yields how far apart settled answers of one row are, in steps of the grid's widths. An answer
    above the grid counts as the step after its largest width."""
    apart: Counter[int] = Counter()
    pairs: Counter[int] = Counter()
    for key in next(iter(answers.values())):
        settled = [
            len(widths) if row["value"] is None else widths.index(row["value"])
            for found in answers.values()
            if (row := found[key])["settled"] == "yes"
        ]
        if len(settled) > 1:
            apart[max(settled) - min(settled)] += 1
            pairs.update(abs(a - b) for a, b in combinations(settled, 2))
    rows = len(next(iter(answers.values())))
    yield f"rows: {rows}; settled from two bases or more: {apart.total()}"
    for name, counted in (("rows", apart), ("pairs of bases", pairs)):
        told = ", ".join(f"{n} {_steps(by)}" for by, n in sorted(counted.items())) or "none"
        yield f"of these {name}: {told}"
    for base, found in answers.items():
        marks = Counter(row["settled"] for row in found.values())
        yield f"from {base}: " + ", ".join(f"{n} {mark}" for mark, n in sorted(marks.items()))


def _steps(by: int) -> str:
    return "equal" if by == 0 else f"{by} step{'s' * (by > 1)} of d apart"


def widths_of(results: Path) -> list[float]:
    """Returns the widths of which something was run."""
    select = "SELECT DISTINCT d FROM trials ORDER BY d"
    return [row["d"] for row in json.loads(sweepd("sql", select, "--results", results, "--json"))]


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("results", type=Path, help="a results folder")
    arguments.add_argument("--grid", type=Path, default=GRID)
    arguments.add_argument("--bases", type=int, nargs="+", default=[500, 1000, 2000])
    arguments.add_argument("--set", action="append", metavar="key=value", dest="sets", default=[])
    arguments.add_argument("--only-ask", action="store_true", help="launch nothing")
    given = arguments.parse_args()
    if not given.only_ask:
        for base in given.bases:
            launch(given.grid, base, given.sets, given.results)
    answers = {base: ask(base, given.results) for base in given.bases}
    print(f'$ sweepd query "{QUESTION}"')
    print("\n".join(listing(answers)))
    print()
    print("\n".join(agreement(answers, widths_of(given.results))))


if __name__ == "__main__":
    main()
