"""A small store, and each command that reads one, for tests of what a store may hold and of disks
that fail."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from fake_store import FakeStore, as_present, planned
from inprocess import Answer, sweepd

GRID = """
task:  {name: lis, n: [4, 8], value_range: 16}
model: {name: standard, d: [8, 16], layers: 1, heads: 2}
train: {steps: 60}
evaluate: {check_every: 30}
stop:  {success: 0.98}
seeds: [0, 1]
"""
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("sql", "SELECT count(*) AS n, sum(acc) AS acc FROM trials", "--csv"),
    ("sql", "SELECT count(*) AS n FROM metrics", "--csv"),
    ("sql", "FROM sweeps", "--csv"),
    ("query", "min d", "--csv"),
    ("query", "min d", "--csv", "--sweep", "one"),
    ("query",),
    ("status", "--csv"),
    ("status", "one", "--csv"),
    ("show", "ID"),
    ("logs", "ID"),
    ("export", "one", "--out", "OUT/trials.csv"),
    ("report", "--out", "OUT/page.html"),
    ("plot", "heatmap", "--out", "OUT/map.svg"),
    ("plan", "grid.yaml", "--csv"),
    ("gc", "--dry-run", "--older-than", "0s", "--csv"),
    ("merge", "STORE", "--results", "OUT/results"),
)


def filled(folder: Path) -> str:
    """Makes two sweeps of which some trials have ended. Returns the id of one."""
    made = FakeStore()
    trials = [planned(n=n, d=d, seed=seed) for n in (4, 8) for d in (8, 16) for seed in (0, 1)]
    for name, part in (("one", trials[:5]), ("two", trials[3:])):
        made.add_sweep(name, part, accepted_for=as_present(), base=str(folder))
    store = made.save(str(folder / "results"))
    (folder / "grid.yaml").write_text(GRID)
    for name in ("one", "two"):
        rows = [row for row in made.plan if row["sweep"] == name]
        store.save_sweep(name, GRID, store.load_sweep(name), rows)
        store.new_launch({"sweep": name, "pid": 1, "host": "elsewhere"})
    for number, trial in enumerate(trials[:6]):
        ended = {"attempt": 1000, "sweep": "one", "status": "completed", "acc": 0.9 + number / 100}
        store.write_metrics([{"id": trial["id"], "attempt": 1000, "step": 10, "loss": 1.0}])
        store.write_trials([{**trial, **ended, "loss": 0.1, "correct": 90, "total": 100}])
        store.append_log(trial["id"], "a line\n")
        store.put_checkpoint(trial["trunk"], f"{10:09d}-{trial['id']}.pt", b"state")
    return str(trials[0]["id"])


def answered(command: Sequence[str], folder: Path, trial: str) -> tuple[Answer, dict[str, bytes]]:
    """What a command answers, and what it has written."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    places = {"OUT": str(out), "STORE": str(folder / "results"), "ID": trial}
    words = list(command)
    for short, long in places.items():
        words = [word.replace(short, long) for word in words]
    answer = sweepd(*words)
    # Of a merge that was cut off, what it brought counts, not that it brought all.
    written = {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}
    return answer, {name: data for name, data in written.items() if "locks/" not in name}
