"""What the engine adds to a trial: sweepd beside plain Ray Tune, in one run.

    python benchmarks/overhead.py [--trials 500] [--rounds 3]

Each round runs no-op trials through sweepd's engine, and then the peer. A no-op trial of ours only
writes the row that ends its attempt, durably, as every attempt must. The peer is a Ray Tune
function trainable that reports once and records nothing, with Tune's fast settings: loggers off,
actors reused. The cost of a trial is wall time over trials. The start-up of actors is left out of
both.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from sweepd.grid.placement import Placement, Resources
from sweepd.grid.plan import plan
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial
from sweepd.run import engine
from sweepd.search.base import GridSearch
from sweepd.store.store import Store
from sweepd.trial.attempt import REPORTED, Attempt, ledger_columns

from ray.tune.experiment import Trial as TuneTrial  # isort: skip (the engine makes Ray's settings)

GRID = """
name: no-op
task: {{name: lis, n: 4}}
model: {{name: standard, d: 4, layers: 1, heads: 1}}
seeds: {seeds}
"""
WARM_UP = 20
"""Trials left out at the beginning: actors are starting."""


class NoOp(Attempt):
    """An attempt that records its ending, and does nothing else."""

    def begin(self) -> None:
        """There is nothing to build."""

    def advance(self, seconds: float) -> None:
        columns = ledger_columns(self.trial, self.number, self.sweep)
        row = {**dict.fromkeys(REPORTED), **columns, "status": "completed", "step": 0}
        self.store.write_trials([row])
        self.ending = row

    def interrupt(self) -> None:
        """There is never anything to save."""


class Clock:
    """Notes when each trial ended, and how many Tune still keeps when the last one ends."""

    def __init__(self, trials: int = 0) -> None:
        self.trials, self.kept = trials, 0
        self.ends: list[float] = []

    def preparing(self, what: str) -> None:
        pass

    def spent(self, dollars: float, an_hour: float) -> None:
        """Nothing costs."""

    def running(self, trial: Trial, report: dict[str, Any]) -> None:
        """A no-op never reports before its end."""

    def ended(self, trial: Trial, report: dict[str, Any]) -> None:
        self.ends.append(time.perf_counter())
        if len(self.ends) == self.trials:
            self.kept = sum(type(one) is TuneTrial for one in gc.get_objects())

    def lost_ray(self, reason: str) -> NoReturn:
        print(reason)
        os._exit(3)


def milliseconds_a_trial(ends: list[float]) -> float:
    steady = ends[WARM_UP:]
    return 1000 * (steady[-1] - steady[0]) / (len(steady) - 1)


def ours(trials: int) -> tuple[float, int]:
    """Returns the milliseconds that a trial takes, and how many trials Tune keeps to the end."""
    clock = Clock(trials)
    gc.collect()  # what the peer has left
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        planned = plan(parse_grid(GRID.format(seeds=list(range(trials))), "no-op", [], base))
        store = Store.create(str(base / "results"))
        search = GridSearch(planned)
        search.learn({}, {trial.id for trial in planned.trials})
        where, stopping = Placement(Resources()), threading.Event()
        engine.run(search, planned.trials, store, 1, where, clock, stopping, NoOp)
        assert store.read_trials().table.num_rows == trials
    return milliseconds_a_trial(clock.ends), clock.kept


def plain_tune(trials: int) -> float:
    from ray import tune

    ends: list[float] = []

    class Ends(tune.Callback):
        def on_trial_complete(self, *_: Any, **__: Any) -> None:
            ends.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        tune.Tuner(
            tune.with_resources(lambda _config: {"value": 1}, {"cpu": 1}),
            tune_config=tune.TuneConfig(num_samples=trials, reuse_actors=True),
            run_config=tune.RunConfig(storage_path=folder, verbose=0, callbacks=[Ends()]),
        ).fit()
    return milliseconds_a_trial(ends)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--trials", type=int, default=500)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    pairs = []
    for round_ in range(given.rounds):
        milliseconds, kept = ours(given.trials)
        pair = milliseconds, plain_tune(given.trials)
        print(
            f"round {round_}: sweepd {pair[0]:.1f} ms a trial, plain Tune {pair[1]:.1f} ms; "
            f"{kept} of {given.trials} trials kept in the driver's memory"
        )
        pairs.append(pair)
    us, tune_ = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"median: sweepd {us:.1f} ms, plain Tune {tune_:.1f} ms, ratio {us / tune_:.2f}")


if __name__ == "__main__":
    main()
