"""A results folder that somebody else gave one. What lies in it besides regular files is neither
followed nor waited for. What no version of sweepd writes is skipped and named, each command goes
on, and so does a launch. A changed bit changes no answer."""

import io
import json
import os
import random
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import COMMANDS, GRID, answered, filled
from fake_store import FakeStore, as_present, planned
from hypothesis import settings
from inprocess import Answer, sweepd

from sweepd.errors import EnvironmentFailure
from sweepd.store.storage import digest
from sweepd.store.store import LAUNCH, Store

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
PRIVATE = "nobody else may read or change this"
MOST_FLIPS = 2000
ASKED = [command for command in COMMANDS if command[0] not in ("report", "plot")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("made")
    return folder, filled(folder)


@pytest.fixture
def there(made: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a store that each test may spoil, with a private file beside it."""
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "diary").write_text(PRIVATE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWEEPD_RESULTS", str(tmp_path / "results"))
    return tmp_path


def asked(folder: Path, trial: str, commands: list[tuple[str, ...]] = ASKED) -> list[Answer]:
    """What each command answers. None raises, hangs, or tells or copies what is private."""
    answers = []
    for command in commands:
        answer, written = answered(command, folder, trial)
        assert answer.code in (0, 1, 2, 3), (command, answer)
        assert answer.err or answer.code in (0, 1), (command, answer)
        assert PRIVATE not in answer.out + answer.err, command
        assert not any(PRIVATE.encode() in data for data in written.values()), command
        answers.append(answer)
    return answers


# Links and special files


def link(path: Path) -> None:
    path.symlink_to(path.parents[2] / "private" / "diary")


def bind(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path has 108 characters at most
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**42)


SPECIAL: dict[str, Callable[[Path], object]] = {
    "link": link,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "pipe": os.mkfifo,
    "socket": bind,
    "folder": Path.mkdir,
    "huge": sparse,
}
PLACES = (
    "trials/*.parquet", "metrics/*.parquet", "launches/*.json", "checkpoints/*/*.pt",
    "sweeps/one/sweep.json", "sweeps/one/plan.parquet", "sweeps/one/grid.yaml", "logs/*.log",
)  # fmt: skip


@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_regular_file_is_skipped_and_named(
    special: str, place: str, there: Path, made: tuple[Path, str]
) -> None:
    root, trial = there / "results", made[1]
    for path in root.glob(place):
        path.unlink()
        SPECIAL[special](path)
    rng = random.Random(special + place)
    answers = asked(
        there, trial, rng.sample(ASKED, min(len(ASKED), 3 * settings().max_examples // 100))
    )
    answers += asked(there, trial, [("sql", "SELECT count(*) FROM trials, metrics, sweeps")])
    parts = place.split("/")
    seen = special != "folder" or parts[-1] in ("plan.parquet", "grid.yaml")
    if seen and (parts[0] in ("trials", "metrics") or parts[-1] in ("sweep.json", "plan.parquet")):
        assert "skipped a damaged file" in answers[-1].err, answers[-1]
    if seen and parts[0] in ("launches", "sweeps"):
        assert "damaged" in sweepd("doctor").out
    store = Store.open(str(root))
    if parts[0] == "logs":
        told = store.read_log(trial)
        assert PRIVATE not in told and (special in ("huge", "folder") or "no regular file" in told)
    if special in ("link", "endless", "pipe", "socket"):
        with pytest.raises(EnvironmentFailure, match="cannot write"):
            log = root / "logs" / "new.log"
            SPECIAL[special](log)
            store.append_log("new", "mine")
        log.unlink()
    sweepd("gc", "--yes", "--older-than", "0s")
    assert (there / "private" / "diary").read_text() == PRIVATE


@pytest.mark.parametrize("folder", ["trials", "metrics", "checkpoints", "sweeps", "logs", "locks"])
def test_a_folder_that_is_a_link_is_not_followed(
    folder: str, there: Path, made: tuple[Path, str]
) -> None:
    root, private = there / "results", there / "private"
    shutil.rmtree(root / folder, ignore_errors=True)
    files = ["000000001-x.pt", ".aside-1", "x.parquet", "one.log", "3f"]
    for name in files:
        (private / name).write_text(PRIVATE)
    (root / folder).symlink_to(private)
    asked(there, made[1])
    answer = sweepd("gc", "--yes", "--older-than", "0s")
    assert answer.code == 3 or folder == "logs"
    assert answer.code == 0 or "is a symbolic link, which is not followed" in answer.err
    store = Store.open(str(root))
    for write in (
        lambda: store.append_log("one", "mine"),
        lambda: store.put_checkpoint("t", "000000002-x.pt", b""),
        lambda: store.write_trials([{"id": "x", "attempt": 1, "status": "failed"}]),
        lambda: store.write_metrics([{"id": "x", "attempt": 1, "step": 1}]),
        lambda: store.folder.delete([f"{folder}/x.parquet"]),
        lambda: store.lock_sweep("one", print, print),
    ):
        try:
            write()
        except EnvironmentFailure as error:
            assert "symbolic link" in str(error)
    assert sorted(path.name for path in private.iterdir()) == sorted([*files, "diary"])
    assert {path.read_text() for path in private.iterdir()} == {PRIVATE}


def test_a_linked_folder_of_one_sweep_or_trunk_is_named_or_left_alone(
    there: Path, made: tuple[Path, str]
) -> None:
    root, private = there / "results", there / "private"
    shutil.move(root / "sweeps" / "two", private / "two")
    (root / "sweeps" / "two").symlink_to(private / "two")
    (private / "000000001-x.pt").write_text(PRIVATE)
    (root / "checkpoints" / "trunk").symlink_to(private)
    answer = sweepd("status", "--json")
    assert [row["sweep"] for row in answer.rows] == [
        "one"
    ] and "sweeps/two: no folder" in answer.err
    assert sweepd("gc", "--yes", "--older-than", "0s").code == 0
    assert (private / "000000001-x.pt").read_text() == PRIVATE
    asked(there, made[1])


# What no version writes


def ending(**more: Any) -> dict[str, Any]:
    row = {**planned(n=8, d=16, seed=1), "attempt": 1000, "sweep": "one", "status": "completed"}
    return {**row, "acc": 0.5, "loss": 0.1, "correct": 50, "total": 100, **more}


def put(root: Path, table: pa.Table, name: str = "1-x", below: str = "trials") -> None:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    (root / below / f"{name}-{digest(sink.getvalue())}.parquet").write_bytes(sink.getvalue())


def twice(table: pa.Table, name: str) -> pa.Table:
    return table.append_column(name, table["acc"])


def valued(name: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        at, kind = table.column_names.index(name), table.schema.field(name).type
        values = pa.array([value] * len(table))
        return table.set_column(at, name, values.cast(kind) if name == "ended" else values)

    return change


ABSURD: dict[str, Callable[[pa.Table], pa.Table]] = {
    "a column twice": lambda table: twice(table, "acc"),
    "a column twice but for case": lambda table: twice(table, "D"),
    "a column without a name": lambda table: twice(table, ""),
    "a name that a terminal obeys": lambda table: twice(table, "\x1b[2J"),
    "a long name": lambda table: twice(table, "x" * 10_000),
    "an unknown status": valued("status", "finished"),
    "no status": lambda table: valued("status", None)(table),
    "an infinite score": valued("acc", float("inf")),
    "a score above 1": valued("acc", 1.5),
    "an impossible time": valued("ended", 2**62),
    "a list": valued("d", [1, 2]),
    "millions of rows": lambda table: pa.concat_tables([table] * 2).take([0] * 6_000_000),
}


@pytest.mark.parametrize("absurd", ABSURD)
def test_endings_that_no_version_writes_are_skipped_and_named(
    absurd: str, there: Path, made: tuple[Path, str]
) -> None:
    root, trial = there / "results", made[1]
    before = sweepd("sql", "SELECT count(*), sum(acc) FROM attempts", "--csv")
    elsewhere = Store.create(str(there / "elsewhere"))
    elsewhere.write_trials([ending()])
    if absurd == "millions of rows":
        some = elsewhere.read_trials().table.select(["id", "attempt"])
        wide = pa.table({f"c{i}": some["attempt"] for i in range(60)}).take([0] * 5_000_000)
        put(root, wide)
    else:
        put(root, ABSURD[absurd](elsewhere.read_trials().table))
    answers = asked(there, trial, ASKED if absurd == "an unknown status" else ASKED[:1])
    answers += [sweepd("sql", "SELECT count(*), sum(acc) FROM attempts", "--csv")]
    assert answers[-1].out == before.out
    assert "skipped a damaged file: " in answers[-1].err and "\x1b" not in answers[-1].err
    plan = sweepd("plan", "grid.yaml", exits=0)
    assert "1-x-" in plan.err


def test_rows_that_do_not_count_are_never_compacted_away(there: Path) -> None:
    store = Store.open(str(there / "results"))
    store.write_trials([ending(id="a" * 20, status="finished"), ending(id="b" * 20)])
    store.compact()
    read = store.read_trials()
    assert "b" * 20 in read.table["id"].to_pylist()
    [wrong] = read.damaged
    assert "1 of its 2 rows do not count: a status 'finished'" in wrong.reason
    replaced = {store.folder.where(f"trials/{file.name}") for file in store.trials.replaced(1e12)}
    assert wrong.path not in replaced


@pytest.mark.parametrize(
    "record",
    ['{"sweep": 3}', '{"sweep": "one", "command": "sweepd launch"}', "[1]", '{"sweep": ["one"]}',
     '{"sweep": "one", "versions": [1]}', '{"sweep": "one", "commit": 7, "pid": "x"}'],
)  # fmt: skip
def test_records_of_launches_with_other_types_are_named(record: str, there: Path) -> None:
    (there / "results" / "launches" / "9.json").write_text(record)
    answer = sweepd("report", "--out", "page.html", exits=0)
    assert "skipped a damaged file: " in answer.err and "launches/9.json" in answer.err
    assert "launches/9.json" in sweepd("doctor").out


@pytest.mark.parametrize("grid", ["", "{}", "task: 3", "[1]", GRID.replace("task:", "tasks:")])
def test_a_grid_without_what_grids_have(grid: str, there: Path, made: tuple[Path, str]) -> None:
    store = Store.open(str(there / "results"))
    rows = store.read_plans(["one"]).table.to_pylist()
    store.save_sweep("one", grid, store.load_sweep("one"), rows)
    answer = sweepd("show", made[1])
    assert answer.code in (2, 3) and "grid.yaml" in answer.err
    asked(there, made[1])


def test_metrics_of_a_sweep_are_names_and_no_sql(there: Path, made: tuple[Path, str]) -> None:
    path = there / "results" / "sweeps" / "one" / "sweep.json"
    metrics = {"acc_least) AS x, (SELECT 1) AS (y": "up"}
    info = {"goal": "acc > 0.9", "created": "2026-01-01", "metrics": metrics}
    path.write_text(json.dumps(info))
    asked(there, made[1])
    told = sweepd("query", "min d", exits=0).err
    assert "sweeps/one/sweep.json: " in told


@pytest.mark.parametrize(
    "text", ["\x1b]0;owned\x07", "\x9b2J", "\rsweepd: all is well", "\u202e", "a\nb"]
)
def test_what_a_terminal_obeys_is_shown_as_text(text: str, tmp_path: Path) -> None:
    store, trial = FakeStore(), planned(n=4, d=8)
    store.add_sweep("one", [trial], accepted_for=as_present())
    store.end(trial, "failed", error=text, host=text, card=text)
    saved = store.save(str(tmp_path / "results"))
    saved.append_log(str(trial["id"]), f"{text}\n")
    saved.new_launch({"sweep": "one", "host": text, "pid": 1, "command": [f"x{text}", text]})
    (tmp_path / "results" / "trials" / f"{text.replace('/', '')}.parquet").write_text("")
    for command in (
        ("sql", "SELECT error, host FROM trials"), ("sql", "SELECT error FROM trials", "--csv"),
        ("sql", "SELECT error FROM trials", "--json"), ("status", "one"),
        ("status", "one", "--csv"), ("logs", str(trial["id"])),
        ("show", str(trial["id"])), ("status",), ("query", "min d"),
        ("sql", f"SELECT * FROM trials WHERE error = '{text}' AND nothing"),
    ):  # fmt: skip
        answer = sweepd(*command, "--results", saved.address)
        assert not OBEYED.search(answer.out + answer.err), (command, answer)


def test_a_report_quotes_what_it_tells_one_to_repeat(tmp_path: Path) -> None:
    store, trial = FakeStore(), planned(n=4, d=8)
    store.add_sweep("one", [trial], accepted_for=as_present())
    store.end(trial, "completed", 1.0)
    saved = store.save(str(tmp_path / "results"))
    saved.new_launch({
        "sweep": "one", "host": "x", "pid": 1, "commit": "HEAD; touch owned",
        "command": ["/bin/sweepd", "launch", "grid.yaml; touch owned", "$(touch owned)"],
    })  # fmt: skip
    sweepd("report", "--out", str(tmp_path / "page.html"), "--results", saved.address, exits=0)
    page = (tmp_path / "page.html").read_text()
    assert "&#x27;grid.yaml; touch owned&#x27; &#x27;$(touch owned)&#x27;" in page
    assert "git checkout" not in page


# Changed bits


@pytest.mark.parametrize("file", ["sweep.json", "grid.yaml", "plan.parquet", "launch"])
def test_a_changed_bit_is_named_or_changes_nothing(
    file: str, there: Path, made: tuple[Path, str]
) -> None:
    root = there / "results"
    path = (
        next(root.glob("launches/*.json")) if file == "launch" else root / "sweeps" / "one" / file
    )
    whole, rng = path.read_bytes(), random.Random(file)
    questions: tuple[tuple[str, ...], ...] = (
        ("query", "min d", "--csv"), ("sql", "SELECT * FROM cells", "--csv"),
    )  # fmt: skip
    before = [sweepd(*question).out for question in questions]
    store = Store.open(str(root))
    said = store.inspected()
    assert said == ([], 0)
    records = [{k: v for k, v in one.items() if k in LAUNCH} for one in store.launches()]
    grid, info = store.load_grid("one"), store.load_sweep("one")
    for _ in range(min(settings().max_examples, MOST_FLIPS)):
        spoilt = bytearray(whole)
        bit = rng.randrange(8 * len(whole))
        spoilt[bit // 8] ^= 1 << bit % 8
        path.write_bytes(spoilt)
        damaged, old = store.inspected()
        if not damaged:
            assert old in (0, 1), bit
            now = [{k: v for k, v in one.items() if k in LAUNCH} for one in store.launches()]
            assert (now, store.load_grid("one")) == (records, grid)
            assert store.load_sweep("one") == info
    path.write_bytes(spoilt)
    for question, answer in zip(questions, before, strict=True):
        told = sweepd(*question)
        assert told.out == answer or told.code == 3 or "skipped a damaged file" in told.err
    path.write_bytes(whole.replace(b"0.9", b"0.1").replace(b"elsewhere", b"somewhere"))
    if path.read_bytes() != whole:
        assert "damaged" in sweepd("doctor").out


def test_files_without_digests_are_read_and_doctor_counts_them(there: Path) -> None:
    root = there / "results"
    for path in [*root.glob("sweeps/*/sweep.json"), *root.glob("launches/*.json")]:
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*lines[:-3], lines[-3].rstrip(","), "}"]))
    for path in root.glob("sweeps/*/grid.yaml"):
        path.write_text(GRID)
    answer = sweepd("doctor", "--json")
    [digests] = [row for row in answer.rows if row["check"] == "digests"]
    assert digests["detail"] == "6 files of an earlier version hold none" and digests["ok"]
    told = sweepd("query", "min d", exits=0)
    assert "digest" not in told.err and "damaged" not in told.err


def test_a_cut_grid_is_noticed(there: Path) -> None:
    path = there / "results" / "sweeps" / "one" / "grid.yaml"
    path.write_bytes(path.read_bytes()[:60])
    assert "grid.yaml" in sweepd("doctor").out
    with pytest.raises(EnvironmentFailure, match=r"grid\.yaml is damaged: truncated or changed"):
        Store.open(str(there / "results")).load_grid("one")


@pytest.mark.parametrize("mark", ["-5", "0", "true", '"1"', "1.0", "null"])
def test_a_format_that_there_is_not(mark: str, there: Path) -> None:
    (there / "results" / "sweepd-store.json").write_text(f'{{"format": {mark}}}')
    answer = sweepd("status", exits=2)
    assert "sweepd-store.json is damaged" in answer.err
