"""A long run: does anything grow that should not?

    python benchmarks/soak.py HOURS [--kill-every 10] [--trials 20000] [--folder DIR]

It runs one sweep of many short trials through the command line, kills its driver with SIGKILL every
so many minutes (but not before it has ended a trial), and continues it with the same command.
Meanwhile `status --watch` runs, and `query`, `sql` and `gc` take turns. Every few seconds it
samples

- the resident memory of the driver, of a worker (mean), of Ray's own processes (sum) and of
  `status --watch`, and the open files of the driver and of Ray's own processes;
- the bytes and the files of the store, and the bytes of Ray's session folder.

Whatever grows in a process starts anew with each driver. So each driver's life has slopes of its
own (`slopes.py`), beside the last minute's mean. The store grows with its trials, so its bytes are
also given per trial.

A question asked meanwhile must never show fewer ended trials than the one before. In the end the
last driver is interrupted, `doctor --deep` reads every byte, and no trial may have two endings that
count. If any of this does not hold, the run ends with an error.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from processes import SWEEPD
from slopes import told

GRID = """
name: soak
task: {{name: lis, n: [4, 5], value_range: 16}}
model: {{name: [standard, linear], d: [2, 4, 8], layers: 1, heads: 1, positions: learned}}
train: {{steps: 20, batch_size: 8, warmup: 0}}
evaluate: {{check_every: 10, check_samples: 16, verdict_samples: 16}}
seeds: {seeds}
goal: acc > 0.9
"""
CELLS = 12
COUNT = ("sql", "SELECT count(*) AS ended FROM trials", "--json")
READERS = itertools.cycle(
    [
        COUNT,
        ("query", "min d where acc>0.9", "--json"),
        ("gc", "--older-than", "60s", "--yes"),
        COUNT,
        ("sql", "SELECT id, min(loss) FROM metrics GROUP BY id ORDER BY ALL LIMIT 5", "--json"),
    ]
)
SAMPLE_SECONDS, READ_SECONDS = 5.0, 20.0
SLOWEST_START = 120.0
"""The seconds after which a driver that has ended no trial is given up."""
MIB = 2**20
Sample = Mapping[str, float]


@dataclass
class Life:
    """One driver, from its start to its end. samples: by the second since it started. lived: the
    seconds after which it was sent the signal, or ended by itself."""

    driver: psutil.Popen
    watch: psutil.Popen
    began: float
    samples: list[tuple[float, Sample]] = field(default_factory=list)
    lived: float = 0.0

    def sample(self, store: Path) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):  # one ends while it is looked at
            children = self.driver.children(recursive=True)
            workers = [one for one in children if _name(one).startswith("ray::ResourceTrainable")]
            rays = [one for one in children if one not in workers]
            if not workers:
                return
            [raylet] = [one for one in rays if _name(one).endswith("/raylet")]
            [session] = [w for w in raylet.cmdline() if w.startswith("--session_dir=")]
            files, size = _held(store)
            found = {
                "driver, MiB": _memory(self.driver),
                "a worker, MiB": statistics.mean(map(_memory, workers)),
                "Ray's processes, MiB": sum(map(_memory, rays)),
                "status --watch, MiB": _memory(self.watch),
                "driver, open files": self.driver.num_fds(),
                "Ray's processes, open files": sum(one.num_fds() for one in rays),
                "store, MiB": size / MIB,
                "store, files": files,
                "Ray's session, MiB": _held(Path(session.partition("=")[2]))[1] / MIB,
            }
            self.samples.append((time.monotonic() - self.began, found))

    def slopes(self) -> Iterator[str]:
        for name in self.samples[-1][1] if self.samples else ():
            yield f"  {name:28}{told([(at, found[name]) for at, found in self.samples])}"


def _name(process: psutil.Process) -> str:
    return " ".join(process.cmdline()[:1])


def _memory(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / MIB


def _held(folder: Path) -> tuple[int, int]:
    """Returns the files below a folder, and the bytes that they and all folders there take of the
    disk. What disappears meanwhile does not count."""
    files = size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            size += path.lstat().st_blocks * 512
            files += path.is_file()
    return files, size


class Soak:
    """One sweep in a folder of its own."""

    def __init__(self, folder: Path, trials: int) -> None:
        self.folder, self.store = folder, folder / "results"
        self.told = folder / "told.txt"
        self.folder.mkdir(parents=True, exist_ok=True)
        (folder / "soak.yaml").write_text(GRID.format(seeds=list(range(trials // CELLS))))
        self.environment = {
            **os.environ,
            "SWEEPD_RESULTS": str(self.store),
            "XDG_CACHE_HOME": str(folder / "cache"),
        }
        self.ended = 0
        self.asked = 0

    def start(self, *arguments: str) -> psutil.Popen:
        with self.told.open("ab") as said:
            return psutil.Popen(
                [SWEEPD, *arguments],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

    def live(self, seconds: float, last: signal.Signals) -> Life:
        """Runs one driver for so many seconds, and until it has ended a trial. Then sends it the
        signal. Returns its life."""
        life = Life(self.start("launch", "soak.yaml", "--yes"), self.watch(), time.monotonic())
        next_read, before = READ_SECONDS, self.endings()
        try:
            while life.driver.poll() is None:
                life.lived = time.monotonic() - life.began
                begun = self.endings() != before
                if life.lived >= (seconds if begun else max(seconds, SLOWEST_START)):
                    break
                if life.watch.poll() is not None:  # the driver had not begun
                    life.watch = self.watch()
                life.sample(self.store)
                if life.lived > next_read and life.samples:
                    self.read(*next(READERS))
                    next_read = life.lived + READ_SECONDS
                time.sleep(min(SAMPLE_SECONDS, max(0.2, seconds - life.lived)))
            if life.driver.poll() is None:
                life.driver.send_signal(last)
            if (code := life.driver.wait()) not in (0, 130, -last):
                raise SystemExit(f"the driver ended with {code}: {self.said()}")
        finally:
            for process in (life.driver, life.watch):
                if process.poll() is None:
                    process.kill()
        return life

    def endings(self) -> set[str]:
        """Returns the files that hold how trials ended."""
        return {path.name for path in self.store.glob("trials/*.parquet")}

    def said(self) -> str:
        """Returns the end of what launches and `status --watch` said."""
        return self.told.read_text()[-2000:]

    def watch(self) -> psutil.Popen:
        return self.start("status", "soak", "--watch")

    def read(self, *arguments: str) -> str:
        done = subprocess.run(
            [SWEEPD, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        if done.returncode not in (0, 1) or "Traceback" in done.stderr:
            raise SystemExit(f"sweepd {' '.join(arguments)}: {done.returncode}\n{done.stderr}")
        self.asked += 1
        if found := re.findall(r'"ended": (\d+)', done.stdout):
            [ended] = map(int, found)
            if ended < self.ended:
                raise SystemExit(f"{self.ended} trials had ended, and then {ended}")
            self.ended = ended
        return done.stdout

    def check(self) -> None:
        """Raises SystemExit if anything is damaged, or if a trial has two endings that count."""
        self.read("doctor", "--deep")
        twice = (
            "SELECT id FROM attempts WHERE status IN ('completed', 'solved', 'diverged') "
            "GROUP BY id HAVING count(*) > 1"
        )
        if rows := json.loads(self.read("sql", twice, "--json")):
            raise SystemExit(f"trials that ended more than once: {rows}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("hours", type=float)
    arguments.add_argument("--kill-every", type=float, default=10.0, help="minutes")
    arguments.add_argument("--trials", type=int, default=20_000, help="of the sweep")
    arguments.add_argument("--folder", type=Path, help="where all is left; its path must be short")
    given = arguments.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="soak-"))
    soak = Soak(folder.absolute(), given.trials)
    over = time.monotonic() + 3600 * given.hours
    try:
        for number in itertools.count(1):
            seconds = min(60 * given.kill_every, over - time.monotonic())
            last = signal.SIGINT if seconds < 60 * given.kill_every else signal.SIGKILL
            before = soak.ended
            life = soak.live(seconds, last)
            soak.read(*COUNT)
            print(
                f"driver {number}, {last.name} after {life.lived / 60:.1f} minutes, "
                f"{soak.ended - before} trials ended",
                *life.slopes(),
                sep="\n",
                flush=True,
            )
            if life.driver.returncode != -signal.SIGKILL:
                break
        if not soak.ended:
            raise SystemExit(f"no trial has ended; give it more hours: {soak.said()}")
        soak.check()
        files, size = _held(soak.store)
        print(
            f"{soak.ended} trials ended, none twice, and their count never fell; "
            f"{soak.asked} questions and gcs; "
            f"the store has {files} files, {size / soak.ended:.0f} bytes a trial"
        )
    finally:
        if not given.folder:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
