"""What a question has made of a store is kept for the next one, which answers the same without
reading a plan or an ending, until something changes. A twin with an empty cache answers what must
be answered. Covers `query/source.py`, and `query/filling.py`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest
from fake_store import now, planned
from hypothesis import given, settings
from hypothesis import strategies as st
from object_store import Proxy
from questions import SIZE_FIELDS

from sweepd import cache
from sweepd.errors import UserError
from sweepd.query import filling, kept, loaded
from sweepd.query.answers import ask
from sweepd.query.database import Answer, CodeChoice, connect, named_views
from sweepd.store import store as stores
from sweepd.store.store import Store, SweepInfo

SWEEP = SweepInfo(goal="acc > 0.9", size_fields=SIZE_FIELDS, task_fields={"lis": ("n",)})
TRIALS = [planned(n, d, seed) for n in (4, 8) for d in (8, 16, 32) for seed in range(3)]
QUESTIONS = (
    "min d where acc > 0.9",
    "min d by n",
    "frontier flops, acc by model",
    "fit d ~ L where acc > 0.7",
    "best d",
    "max acc by n",
    "min params where acc > 0.8 and n = 4",
)
SELECTS = (
    "FROM cells",
    "SELECT seed, avg(acc) AS acc FROM trials GROUP BY seed ORDER BY seed",
    "SELECT id, attempt, status FROM attempts ORDER BY ALL",
    "SELECT model, count(*) AS cells FROM cells GROUP BY model",
)


@pytest.fixture(autouse=True)
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No store has just changed, and nothing is kept yet."""
    monkeypatch.setattr(stores, "UNCHANGED_SECONDS", -3600)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def ending(trial: dict[str, Any], acc: float, status: str = "completed", **more: Any) -> Any:
    told = {"attempt": 1000, "sweep": "s", "total": 1024, "correct": round(1024 * acc)}
    return {**trial, **told, "status": status, "acc": acc, **more}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wider models are better, but for one that was interrupted and then done again."""
    made = Store.create(str(tmp_path_factory.mktemp("original") / "results"))
    made.save_sweep("s", "", SWEEP, TRIALS)
    ended = [ending(t, 0.6 + 0.012 * t["d"] - 0.01 * t["n"] + 0.005 * t["seed"]) for t in TRIALS]
    made.write_trials([*ended, ending(TRIALS[0], 0.1, "interrupted", attempt=999)])
    return Path(made.address)


@pytest.fixture
def store(original: Path, tmp_path: Path) -> Store:
    """A copy of it, which a test may change."""
    return Store.open(str(shutil.copytree(original, tmp_path / "results")))


def asked(store: Store, text: str, code: CodeChoice = now, **choices: Any) -> Answer:
    """The answer to a question, or the rows of a SELECT."""
    if text in SELECTS:
        return connect(store, code=code, needed=named_views(text), **choices).sql(text)
    return ask(store, text, code=code, **choices)


def told(answer: Answer) -> tuple[Any, ...]:
    return (answer.columns, answer.rows, answer.notes, answer.damaged, answer.summary)


_by_twins: dict[Any, tuple[Any, ...]] = {}


def by_twin(store: Store, text: str, code: CodeChoice = now, **choices: Any) -> tuple[Any, ...]:
    """What is answered where nothing is kept. Of stores with the same files, one is asked."""
    read = (contents(store), text, code, repr(choices))
    if read in _by_twins:
        return _by_twins[read]
    with patch.object(kept, "recall", return_value=None), patch.object(kept, "keep"):
        answer = asked(store, text, code, **choices)
    if not answer.damaged:  # which names the store
        _by_twins[read] = told(answer)
    return told(answer)


def contents(store: Store) -> tuple[Any, ...]:
    """All files of a store in a folder. Of any other, its address."""
    root = Path(store.address)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return (*((path.relative_to(root), path.read_bytes()) for path in files),) or (root,)


def read(store: Store, text: str, code: CodeChoice = now, **choices: Any) -> bool:
    """Whether a question reads plans or endings. It must answer what its twin does."""
    expected = by_twin(store, text, code, **choices)
    with patch("sweepd.query.filling.load", side_effect=loaded.load) as load:
        assert told(asked(Store.open(store.address), text, code, **choices)) == expected
    return load.called


@pytest.mark.parametrize("text", [QUESTIONS[0], *SELECTS])
def test_the_second_time_nothing_is_read(store: Store, text: str) -> None:
    assert [read(store, text) for _ in range(2)] == [True, False]


def test_one_question_serves_all(store: Store) -> None:
    assert read(store, QUESTIONS[0]) and not any(read(store, text) for text in QUESTIONS)
    assert not read(store, "FROM cells")
    assert read(store, "SELECT id, attempt, status FROM attempts ORDER BY ALL")
    assert not read(store, "SELECT seed, avg(acc) AS acc FROM trials GROUP BY seed ORDER BY seed")


def test_of_other_sweeps_seeds_and_codes_other_things_are_kept(store: Store) -> None:
    store.save_sweep("t", "", SWEEP, [planned(4, 8)])
    choices: list[dict[str, Any]] = [{}, {"sweeps": ["s"]}, {"sweeps": ["t"]}, {"seeds": "all"}]
    choices.append({"code": "all"})
    assert all(read(store, QUESTIONS[0], **choice) for choice in choices)
    assert not any(read(store, QUESTIONS[0], **choice) for choice in choices)
    with pytest.raises(UserError, match="no sweep"):
        asked(store, QUESTIONS[0], sweeps=["u"])


def changed(store: Store, how: str) -> None:
    match how:
        case "an ending":
            store.write_trials([ending(TRIALS[0], 0.99, attempt=1001)])
        case "another plan":
            store.save_sweep("s", "", SWEEP, TRIALS[3:])
        case "another goal":
            store.save_sweep("s", "", replace(SWEEP, goal="acc > 0.5"), TRIALS)
        case "another sweep":
            store.save_sweep("t", "", SWEEP, [planned(6, 8)])
        case "a settled sweep":
            settle = {"factor": 4.0, "least": 1.0, "most": 100.0}
            store.save_sweep("s", "", replace(SWEEP, settle=settle), TRIALS)
        case "a compacted file":
            store.write_trials([ending(TRIALS[0], 0.99, attempt=1001)])
            store.compact()
        case "a file that is gone":
            [file] = Path(store.address, "trials").iterdir()
            file.unlink()


CHANGES = ("an ending", "another plan", "another goal", "another sweep", "a settled sweep",
           "a compacted file", "a file that is gone")  # fmt: skip


@pytest.mark.parametrize("how", CHANGES)
def test_what_changes_a_store_is_seen(store: Store, how: str) -> None:
    texts = ("min d", SELECTS[1]) if how == "an ending" else ("min d",)
    for text in texts:
        read(store, text)
    changed(store, how)
    assert all(read(store, text) for text in texts)
    assert not any(read(store, text) for text in texts)


def test_other_trials_count_once_their_code_does(store: Store) -> None:
    def edited(_task: str, _model: str) -> str:
        return "edited"

    assert read(store, QUESTIONS[0]) and not read(store, QUESTIONS[0])
    assert read(store, QUESTIONS[0], edited)  # the code was changed meanwhile
    assert asked(store, QUESTIONS[0], edited).notes[0].startswith("left out: 18 trials")
    assert not read(store, QUESTIONS[0], edited)
    store.save_sweep("s", "", replace(SWEEP, accepted=("now",)), TRIALS)
    assert read(store, QUESTIONS[0], edited) and not read(store, QUESTIONS[0], edited)
    assert asked(store, QUESTIONS[0], edited).notes == asked(store, QUESTIONS[0]).notes


def test_nothing_is_kept_of_a_store_that_has_just_changed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "UNCHANGED_SECONDS", 3600)
    assert all(read(store, QUESTIONS[0]) for _ in range(2))
    assert not files()


def test_nothing_is_kept_beside_a_damaged_file(store: Store) -> None:
    store.write_trials([ending(TRIALS[1], 0.1, attempt=1001)])
    broken = max(Path(store.address, "trials").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    broken.write_bytes(broken.read_bytes()[:-1])
    assert all(read(store, text) for text in (*QUESTIONS[:1], *SELECTS) for _ in range(2))
    assert [str(broken)] == [one.path for one in asked(store, QUESTIONS[0]).damaged]
    Path(store.address, "sweeps", "s", "sweep.json").write_text("{}")
    assert all(read(store, "FROM cells") for _ in range(2)) and not files()


def files() -> list[Path]:
    below = cache._root() / kept.FOLDER
    return sorted(below.iterdir()) if below.exists() else []


@pytest.mark.parametrize("suffix", ["", ".json"])
def test_what_was_spoilt_is_made_again(store: Store, suffix: str) -> None:
    read(store, QUESTIONS[0])
    [path] = [path for path in files() if path.suffix == suffix]
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert read(store, QUESTIONS[0]) and not read(store, QUESTIONS[0])


def test_what_another_version_kept_is_not_used(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(store, QUESTIONS[0])
    with monkeypatch.context() as patched:
        patched.setattr(kept, "VERSION", "another")
        assert read(store, QUESTIONS[0]) and not read(store, QUESTIONS[0])
    assert read(store, QUESTIONS[0])
    name = next(path for path in files() if path.suffix == ".json").name
    cache.keep(f"{kept.FOLDER}/{name}", b'{"of": "another shape"}')
    assert read(store, QUESTIONS[0])


@pytest.mark.parametrize("how", ["longer", "later", "another"])
def test_other_code_is_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    for room in kept.ROOMS:
        (tmp_path / room).mkdir(exist_ok=True)
    path = tmp_path / "query" / "kept.py"
    path.write_text("now")
    monkeypatch.setattr(kept, "_CODE", tmp_path)
    before, written = kept._version(), path.stat().st_mtime_ns
    path.with_name("kept.py.swp").touch()
    path.with_name(".#kept.py").symlink_to("gone")
    assert kept._version() == before
    match how:
        case "longer":
            path.write_text("later")
            os.utime(path, ns=(written, written))
        case "later":
            os.utime(path, ns=(written + 1, written + 1))
        case "another":
            path.with_name("cells.py").touch()
    assert kept._version() != before


ELSEWHERE = (
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM cells, read_text('{store}/sweeps/s/sweep.json')",
    "SELECT * FROM cells, read_parquet('{store}/sweeps/s/plan.parquet')",
    "ATTACH '{store}/other' AS cells",
    "DROP TABLE kept.cells",
    "CREATE TABLE kept.cells2 AS FROM cells",
    "UPDATE kept.cells SET d = 1",
)


def test_nothing_else_is_reached(store: Store) -> None:
    read(store, "FROM cells")
    before = [path.read_bytes() for path in files()]
    views = connect(store, code=now, needed={"cells"})
    assert "kept" in str(views.connection.execute("SHOW DATABASES").fetchall())
    for text in ELSEWHERE:
        text = text.format(store=store.address)
        with pytest.raises(UserError):
            views.sql(text)
        with pytest.raises(duckdb.Error):
            views.connection.execute(text)
        assert [path.read_bytes() for path in files()] == before, text


def test_one_file_takes_the_place_of_the_last(store: Store) -> None:
    for _ in range(3):
        read(store, QUESTIONS[0])
        changed(store, "an ending")
    assert sorted(path.suffix for path in files()) == ["", ".json"]


def test_all_that_is_kept_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    read(store, QUESTIONS[0])
    size = sum(path.stat().st_size for path in files())
    monkeypatch.setattr(kept, "MOST_BYTES", 4 * size)
    rules = ("median", "all", "any", "mean")
    assert all(read(store, QUESTIONS[0], seeds=rule) for rule in rules)
    assert sum(path.stat().st_size for path in files()) <= kept.MOST_BYTES
    assert not read(store, QUESTIONS[0], seeds="mean") and read(store, QUESTIONS[0])


def test_what_is_too_large_is_not_written_again_and_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MOST_BYTES", 4000)
    with patch.object(cache, "keep_file", side_effect=cache.keep_file) as keep_file:
        assert all(read(store, QUESTIONS[0]) for _ in range(3))
        assert keep_file.call_count == 1
    assert [path.suffix for path in files()] == [".json"]
    monkeypatch.undo()


def test_without_a_cache_folder_questions_are_answered(store: Store) -> None:
    cache._root().parent.mkdir()
    cache._root().write_text("a file in its place")
    assert all(read(store, text) for text in QUESTIONS[:2] for _ in range(2))


FULL = """
import resource, signal, sys
from sweepd.cli import main
from sweepd.store import store
store.UNCHANGED_SECONDS = -3600
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), resource.RLIM_INFINITY))
main()
"""


@pytest.mark.parametrize("room", [40_000, 120_000])
def test_where_there_is_no_room_nothing_is_kept(store: Store, room: int) -> None:
    """A file that grows beyond the room fails as on a full disk."""
    words = ("query", "min d", "--code", "all", "--results", store.address)
    command = [sys.executable, "-c", FULL, str(room), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout, done.stderr
    assert not [path for path in files() if path.suffix != ".json"]
    assert read(store, "min d", "all") and not read(store, "min d", "all")


@pytest.mark.parametrize("when", ["state", "sweeps", "load_sweep", "read_plans", "read_trials"])
def test_what_changes_while_a_question_is_asked_is_seen_by_the_next(
    store: Store, when: str
) -> None:
    read(store, "min d")
    rules, method = iter(["any"]), getattr(Store, when)

    def after_a_change(self: Store, *arguments: Any) -> Any:
        for rule in rules:
            store.save_sweep("s", "", replace(SWEEP, pass_rule=rule), TRIALS)
            break
        return method(self, *arguments)

    with patch.object(Store, when, after_a_change):
        asked(store, "min d")
    assert told(asked(store, "min d")) == by_twin(store, "min d")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) AS n_metrics FROM trials",
        "SELECT d AS d_metrics FROM cells ORDER BY ALL",
        "SELECT acc AS x_flops_to_goal FROM trials ORDER BY ALL",
        "SELECT count(*) AS x_flops_to_goal FROM trials JOIN metrics USING (id)",
        "SELECT trials.id, count(step) FROM trials LEFT JOIN metrics USING (id) GROUP BY ALL "
        "ORDER BY ALL",
        "SELECT count(*) FROM kept.cells",
        "SELECT count(*) AS cells FROM duckdb_tables()",
        "DESCRIBE trials",
        "DESCRIBE attempts",
        "DESCRIBE cells",
    ],
)
def test_sql_says_the_same_with_a_cache_and_without(store: Store, text: str) -> None:
    store.write_metrics([{"id": TRIALS[0]["id"], "attempt": 1000, "step": 1, "loss": 1.0}])

    sweeps = None if "JOIN" in text else ["s"]  # the metrics of one sweep need its plan

    def said() -> Any:
        try:
            views = connect(store, code=now, sweeps=sweeps, needed=named_views(text))
            return told(views.sql(text))
        except UserError as error:
            return str(error)

    first = said()
    assert [said(), said()] == [first, first]


def test_as_many_threads_are_used_with_a_cache_as_without(store: Store) -> None:
    def threads(*needed: str) -> int:
        views = connect(store, code=now, needed=set(needed))
        [(count,)] = views.connection.execute("SELECT current_setting('threads')").fetchall()
        return int(count)

    assert threads("trials") == threads("trials") == threads("cells") == threads("cells") == 1
    assert threads("trials", "metrics") == threads("trials", "metrics")
    assert read(store, QUESTIONS[0]) and not read(store, QUESTIONS[0])


def test_large_stores_are_kept_in_usual_blocks(store: Store) -> None:
    with patch.object(filling, "FEW", 0):
        assert [read(store, text) for text in (*QUESTIONS[:2], *SELECTS[:2])] == (
            [True, False, False, True]
        )
    assert all(path.stat().st_size > 2**18 for path in files() if not path.suffix)


IMPORTED = """
import sys
from sweepd.cli import main
from sweepd.store import store
store.UNCHANGED_SECONDS = -3600
try:
    main()
finally:
    heavy = {"numpy", "pyarrow", "pandas", "torch"}
    print(*sorted(heavy & sys.modules.keys()), file=sys.stderr)
"""


def test_arrow_and_numpy_are_not_imported_then(store: Store) -> None:
    def imported(*words: str) -> str:
        command = [sys.executable, "-c", IMPORTED, *words, "--results", store.address]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr.splitlines()[-1]

    for words in (("query", "min d", "--code", "all"), ("sql", "SELECT count(*) FROM trials")):
        assert imported(*words) == "numpy pyarrow"
        assert imported(*words) == ""


def test_of_an_object_store_only_what_is_known_of_sweeps_is_fetched(s3: Proxy, bucket: str) -> None:
    store = Store.create(f"s3://{bucket}/results")
    store.save_sweep("s", "", SWEEP, TRIALS)
    store.write_trials([ending(trial, 0.95) for trial in TRIALS])
    assert read(store, QUESTIONS[0])
    s3.requests.clear()
    asked(Store.open(store.address), QUESTIONS[0])
    fetched = [path.rpartition("/results/")[2] for _, path in s3.requests if "list" not in path]
    assert fetched == ["sweepd-store.json", "sweeps/s/sweep.json"]


STATUSES = st.sampled_from(["completed", "solved", "stopped", "diverged", "failed", "interrupted"])
ENDED = st.lists(
    st.tuples(st.sampled_from(TRIALS), STATUSES, st.floats(0, 1), st.integers(1000, 1003)),
    max_size=20,
    unique_by=lambda ended: (ended[0]["id"], ended[3]),
)


@settings(max_examples=4)
@given(ENDED, st.sampled_from(["median", "all", "any", "mean"]), st.booleans())
def test_any_store_is_answered_alike(
    tmp_path_factory: Any, ended: list[tuple[Any, ...]], rule: str, fresh: bool
) -> None:
    store = Store.create(str(tmp_path_factory.mktemp("any") / "results"))
    info = replace(SWEEP, pass_rule=rule, fresh_seeds=(2,) if fresh else ())
    store.save_sweep("s", "", info, TRIALS)
    store.write_trials([ending(t, acc, status, attempt=n) for t, status, acc, n in ended])
    for text in ("min d where acc > 0.6", "FROM cells", SELECTS[2]):
        read(store, text)
        assert not read(store, text)
