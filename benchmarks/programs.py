"""What sweepd adds to a trial that is a program, beside the same program run by hand.

    python benchmarks/programs.py [--trials 40] [--rounds 3] [--seconds 0.2]

The program is a Python script that sleeps for so many seconds and prints a row. Each round runs its
trials by `sweepd launch` on Ray, two at once, and then as often by `xargs -P2`. A launch is timed
from the start of its first attempt to the end of its last one, so without the start of Ray. What is
printed is what a trial takes longer: twice the difference of both times over the trials.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from processes import sweepd

AT_ONCE = 2
SCRIPT = """
import sys, time
time.sleep(float(sys.argv[1]))
print('{"step": 1, "acc": 1.0}')
"""
GRID = """
name: sleeper
loop:
  program: python sleeper.py {{pause}} {{number}}
  as: sleeper
  task: none
  metrics: {{acc: up}}
  pause: {seconds}
  number: {numbers}
goal: acc > 0.5
resources: {{cpus: {cpus}}}
"""
SPAN = "SELECT epoch(max(ended)) - epoch(min(started)) AS seconds, count(*) AS n FROM trials"


def by_sweepd(trials: int, folder: Path) -> float:
    """Returns the seconds of a launch from the start of its first attempt to its last end."""
    results = str(folder / "results")
    sweepd("launch", str(folder / "grid.yaml"), "--results", results)
    [row] = json.loads(sweepd("sql", SPAN, "--json", "--results", results))
    assert row["n"] == trials, row
    return float(row["seconds"])


def by_hand(trials: int, seconds: float, folder: Path) -> float:
    """Returns the seconds that the same runs take by xargs."""
    began = time.perf_counter()
    subprocess.run(
        ["xargs", f"-P{AT_ONCE}", "-n1", sys.executable, "sleeper.py", str(seconds)],
        input="\n".join(map(str, range(trials))),
        cwd=folder,
        stdout=subprocess.DEVNULL,
        check=True,
        text=True,
    )
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.2)
    options = parser.parse_args()
    added = []
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "sleeper.py").write_text(SCRIPT)
            (folder / "grid.yaml").write_text(
                GRID.format(
                    seconds=options.seconds,
                    numbers=[*range(options.trials)],
                    cpus=(os.cpu_count() or AT_ONCE) / AT_ONCE,
                )
            )
            ours = by_sweepd(options.trials, folder)
            hand = by_hand(options.trials, options.seconds, folder)
        added.append(AT_ONCE * (ours - hand) / options.trials)
        print(
            f"round {number}: {options.trials} programs, {AT_ONCE} at once: sweepd {ours:.1f} s, "
            f"xargs {hand:.1f} s, {added[-1]:.3f} s more a trial",
            flush=True,
        )
    print(
        f"median: {statistics.median(added):.3f} s more a trial ({min(added):.3f} to "
        f"{max(added):.3f}, {options.rounds} rounds)"
    )


if __name__ == "__main__":
    main()
