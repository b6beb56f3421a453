"""What a trial costs beyond its training: sweepd's engine beside plain Ray Tune, in one run.

    python benchmarks/overhead.py [--trials 500] [--rounds 3]

Each round runs a sweep of trials that do next to nothing (one step of the smallest model, one
test row; building, saving and recording are all real) and then a Ray Tune function trainable that
reports once, with loggers off and actors reused: Tune's own fast settings. The cost of a trial is
wall time over trials, the first trials (actors starting) left out of both.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

GRID = """
name: noop-{round}
task: {{name: lis, n: 2, value_range: 64}}
model: {{name: standard, d: 4, layers: 1, heads: 1}}
train: {{steps: 1, batch_size: 1}}
evaluate: {{check_samples: 1, verdict_samples: 1}}
seeds: [{seeds}]
"""
WARM_UP = 10


class Clock:
    """Notes when each trial ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def running(self, trial: Any, report: dict[str, Any]) -> None: ...

    def ended(self, trial: Any, report: dict[str, Any]) -> None:
        assert report["status"] == "completed", report
        self.ends.append(time.perf_counter())


def milliseconds_a_trial(ends: list[float]) -> float:
    steady = ends[WARM_UP:]
    return 1000 * (steady[-1] - steady[0]) / (len(steady) - 1)


def ours(trials: int, round_: int) -> float:
    from sweepd import driver
    from sweepd.plan import plan
    from sweepd.spec import Resources, parse_grid
    from sweepd.store import Store

    text = GRID.format(round=round_, seeds=", ".join(map(str, range(trials))))
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        grid = parse_grid(text, "noop.yaml", [], Path(folder))
        store = Store.create(str(Path(folder) / "results"))
        driver.launch(plan(grid), store, Resources(), threading.Event(), clock, print)
    return milliseconds_a_trial(clock.ends)


def plain_tune(trials: int) -> float:
    from ray import tune

    ends: list[float] = []

    class Ends(tune.Callback):
        def on_trial_complete(self, *_: Any, **__: Any) -> None:
            ends.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        tune.Tuner(
            tune.with_resources(lambda config: {"value": 1}, {"cpu": 1}),
            tune_config=tune.TuneConfig(num_samples=trials, reuse_actors=True),
            run_config=tune.RunConfig(storage_path=folder, verbose=0, callbacks=[Ends()]),
        ).fit()
    return milliseconds_a_trial(ends)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--trials", type=int, default=500)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    from sweepd import engine

    engine.start_ray()
    pairs = []
    for round_ in range(given.rounds):
        pair = ours(given.trials, round_), plain_tune(given.trials)
        print(f"round {round_}: sweepd {pair[0]:.1f} ms a trial, plain Tune {pair[1]:.1f} ms")
        pairs.append(pair)
    us, tune_ = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"median: sweepd {us:.1f} ms, plain Tune {tune_:.1f} ms, ratio {us / tune_:.2f}")


if __name__ == "__main__":
    main()
