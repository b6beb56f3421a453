"""Kills through the whole program, with real Ray. The driver, a worker, the raylet and the head of
a sweep are killed by signals at random moments, launch after launch. Then the nodes, the driver and
the head of a cluster are killed. In the end the numbers and the answer are those of a sweep that
nothing disturbed."""

import contextlib
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from e2e.conftest import Raylets, raylets  # noqa: F401 (a fixture)
from inprocess import sweepd
from shell import SWEEPD, TASKS
from torture.survival import check_store, outcome
from waiting import wait_until

from sweepd.grid.plan import plan
from sweepd.grid.spec import load_grid
from sweepd.statuses import DONE
from sweepd.store.store import Store

GRID = """
name: whole
task: {name: mine.py:Slow, n: 2, value_range: 64, nap: 0.06}
model: {name: [standard, linear], d: [4, 8], layers: 1, heads: 2, dropout: 0.1}
train: {steps: 40, batch_size: 4, warmup: 5}
evaluate: {check_every: 10, check_samples: 8, verdict_samples: 8}
seeds: [0, 1, 2]
checkpoint_seconds: 0.3
retries: 9
"""
PATIENCE = 240
"""Seconds after which a launch counts as stuck."""
WORKER = "ray::ResourceTrainable"
VICTIMS = {"worker": WORKER, "raylet": "raylet", "head": "gcs_server"}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
ENDS = {
    "driver": {130, *(-number for number in SIGNALS)},  # the latter before it could prepare
    "worker": set[int](),
    # SIGTERM to the raylet makes Ray end its driver at once, with this code.
    "raylet": {1, 3},
    "head": {1, 3},
}
"""How a launch may end whose victim was killed, besides by finishing the sweep."""
KILLS = Counter[str]()


class Sweep:
    """A folder with a grid, its task and its results."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.results = folder, folder / "results"
        shutil.copy(TASKS, folder)
        (folder / "grid.yaml").write_text(GRID)
        self.trials = plan(load_grid(folder / "grid.yaml", [])).trials
        self.seen: set[tuple[object, ...]] = set()

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """What it says goes to a file."""
        with (self.folder / "told").open("ab") as told:
            return subprocess.Popen(
                [SWEEPD, *arguments],
                cwd=self.folder,
                env={**os.environ, "OMP_NUM_THREADS": "1", "SWEEPD_RESULTS": str(self.results)},
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=told,
                start_new_session=True,
            )

    def run(self, *arguments: str) -> int:
        return self.start(*arguments).wait(PATIENCE)

    def check(self) -> None:
        """Nothing seen before is lost, nothing is there twice."""
        if (self.results / "sweepd-store.json").exists():
            now = check_store(Store.open(str(self.results)), self.trials)
            assert self.seen <= now
            self.seen = now

    def all_done(self) -> bool:
        statuses = Store.open(str(self.results)).read_trials().table["status"].to_pylist()
        return sum(status in DONE for status in statuses) == len(self.trials)

    def outcome(self) -> tuple[object, ...]:
        answer = sweepd("query", "min d where acc>0.5", "--json", "--results", str(self.results))
        assert answer.out.startswith("[")
        return *outcome(self.results), answer.out

    def told(self) -> str:
        return (self.folder / "told").read_text(errors="replace")[-3000:]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[object, ...]]:
    """What two undisturbed runs agree on."""
    outcomes = []
    for name in ("one", "two"):
        sweep = Sweep(tmp_path_factory.mktemp(name))
        assert sweep.run("launch", "grid.yaml", "--yes") == 0, sweep.told()
        outcomes.append(sweep.outcome())
    assert outcomes[0] == outcomes[1]
    yield outcomes[0]
    print(f"\nkills: {dict(KILLS)}")  # noqa: T201


def below(root: int, name: str) -> list[psutil.Process]:
    """Those that a process has started, or what it has started, whose names begin so."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for one in psutil.Process(root).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if one.name().startswith(name):
                    found.append(one)
    return found


def kill(launch: subprocess.Popen[bytes], who: str, number: signal.Signals, after: float) -> None:
    """Some time after there is one to be killed, unless the launch has ended before."""

    def victims() -> list[int]:
        if launch.poll() is not None:
            return []
        if who == "driver":
            return [launch.pid]
        return [one.pid for one in below(launch.pid, VICTIMS[who])]

    wait_until(lambda: launch.poll() is not None or bool(victims()), PATIENCE)
    time.sleep(after)
    with contextlib.suppress(ProcessLookupError):
        for victim in victims()[:1]:
            os.kill(victim, number)
            KILLS[f"{who} {number.name}"] += 1


ALL = [*itertools.product(ENDS, SIGNALS)]
ORDERS = [random.Random(seed).sample(ALL, k=len(ALL)) for seed in range(2)]
ROUNDS = [order[start : start + 4] for order in ORDERS for start in range(0, len(ALL), 4)]


@pytest.mark.parametrize("number", range(len(ROUNDS)))
def test_killed_again_and_again(tmp_path: Path, expected: tuple[object, ...], number: int) -> None:
    """One launch after another is hit by kills until it ends."""
    sweep = Sweep(tmp_path)
    rng, blows = random.Random(number), list(ROUNDS[number])
    while blows:
        launch, hit = sweep.start("launch", "grid.yaml", "--yes"), set[int]()
        while blows and launch.poll() is None:
            who, how = blows.pop()
            kill(launch, who, how, rng.uniform(0, 20 if who == "driver" else 6))
            hit |= ENDS[who]
            with contextlib.suppress(subprocess.TimeoutExpired):
                launch.wait(3.0)
        code = launch.wait(PATIENCE)
        assert code in hit or (code == 0 and sweep.all_done()), (code, sweep.told())
        sweep.check()
    assert sweep.run("launch", "grid.yaml", "--yes") == 0, sweep.told()
    sweep.check()
    assert sweep.outcome() == expected


CLUSTER = """
kind: address
address: {address}
python: {python}
results: {results}
"""


def test_driver_worker_node_and_head_of_a_cluster(
    tmp_path: Path,
    expected: tuple[object, ...],
    raylets: Raylets,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When the head is gone, the rest of the sweep is done without a cluster."""
    cluster, address, _, token = raylets
    for name, value in token.items():
        monkeypatch.setenv(name, value)
    sweep = Sweep(tmp_path)
    (tmp_path / "cluster.yaml").write_text(
        CLUSTER.format(address=address, python=sys.executable, results=sweep.results)
    )

    def workers() -> list[psutil.Process]:
        return below(cluster.pid, WORKER)

    def die(*deaths: Callable[[], psutil.Process]) -> None:
        """In one launch, one after another, each while trials run."""
        client = sweep.start("launch", "grid.yaml", "--yes", "--cluster", "cluster.yaml")
        for victim in deaths:
            wait_until(lambda: bool(workers()), PATIENCE)
            time.sleep(1.0)
            victim().kill()
            KILLS["in a cluster"] += 1
        assert client.wait(PATIENCE) != 0, sweep.told()
        sweep.check()

    store = Store.create(str(sweep.results))
    die(lambda: psutil.Process(store.launches()[-1]["pid"]))
    die(
        lambda: workers()[0],
        lambda: workers()[0].parent(),  # its node
        lambda: below(cluster.pid, VICTIMS["head"])[0],
    )
    wait_until(lambda: not store.driven_elsewhere(["whole"]), PATIENCE)
    assert sweep.run("launch", "grid.yaml", "--yes") == 0, sweep.told()
    sweep.check()
    assert sweep.outcome() == expected
