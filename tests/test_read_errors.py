"""A read that fails is tried again. If it still fails, the command ends with exit code 3, and never
with an answer that has less. This holds for every command, and for each file and folder of a store
that it reads, of which some are tried here, and all by `make torture`. Damaged is only what was
read and is wrong."""

import errno
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from fake_store import FakeStore, as_present, planned
from hypothesis import settings
from inprocess import Answer, sweepd
from object_store import Proxy
from reading import failing_reads

from sweepd.store.store import Store

REASONS = (errno.ESTALE, errno.EIO, errno.EMFILE, errno.EACCES)
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


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("read")
    return folder, filled(folder)


@pytest.fixture
def here(made: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    monkeypatch.chdir(made[0])
    monkeypatch.setenv("SWEEPD_RESULTS", str(made[0] / "results"))
    return made


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


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_cannot_be_read_ends_a_command_or_changes_nothing(
    command: tuple[str, ...], here: tuple[Path, str]
) -> None:
    folder, trial = here
    root, reasons = str(folder / "results"), random.Random(" ".join(command))
    with failing_reads(lambda path: False) as read:
        whole, written = answered(command, folder, trial)
    assert whole.code == 0, whole
    places = sorted(
        {path for path in read if path.startswith(root)} - {f"{root}/sweepd-store.json"}
    )
    places = [place for place in places if "/locks" not in place]
    for place in reasons.sample(places, min(len(places), settings().max_examples // 25)):
        reason = reasons.choice(REASONS)
        with failing_reads(lambda path, place=place: path == place, reason, times=2):
            once, anew = answered(command, folder, trial)
        assert (once.code, once.out) == (0, whole.out), (place, once)
        assert anew.keys() == written.keys()
        with failing_reads(lambda path, place=place: path == place, reason):
            never, partly = answered(command, folder, trial)
        assert never.code == 3 and place in never.err, (place, never)
        assert not never.out and "Traceback" not in never.err and "damaged" not in never.err
        assert partly.items() <= written.items() or command[0] == "merge"


@pytest.mark.parametrize("command", ["sql", "merge"])
def test_a_bucket_that_fails_ends_a_command_or_changes_nothing(
    command: str, here: tuple[Path, str], s3: Proxy, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, of objects. A fault that lasts is an outage, or a refusal."""
    folder, _ = here
    monkeypatch.setattr("sweepd.store.bucket.RETRY_SECONDS", 0.5)
    address = f"s3://{bucket}/results"
    there, mine = Store.create(address), Store.open(str(folder / "results"))
    for file in mine.folder.files():
        if not file.name.startswith("locks/"):
            there.folder.put(file.name, mine.folder.read(file.name))
    words = {
        "sql": ("sql", *COMMANDS[0][1:], "--results", address),
        "merge": ("merge", address, "--results", "OUT/results"),
    }[command]
    whole, _ = answered(words, folder, "")
    assert whole.code == 0
    for part in ("/trials/", "sweep.json", "launches/", "plan.parquet"):
        left = [2]

        def fault(method: str, path: str, part: str = part, left: list[int] = left) -> str | None:
            if method != "GET" or part not in path or not left[0]:
                return None
            left[0] -= 1
            return "reset"

        s3.fault = fault
        once, _ = answered(words, folder, "")
        assert (once.code, once.out) == (0, whole.out), (part, once)
        for kind in ("forbid", "reset"):
            s3.fault = lambda m, p, part=part, kind=kind: kind if m == "GET" and part in p else None
            never, _ = answered(words, folder, "")
            if command == "merge" or part == "/trials/":
                assert never.code == 3 and not never.out, (part, never)
            else:
                assert (never.code, never.out) in ((3, ""), (0, whole.out))
        s3.fault = lambda method, path: None
