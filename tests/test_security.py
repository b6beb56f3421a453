"""What others made is only data. A store, a grid, a checkpoint or a question can run no code, reach
nothing outside the store, and spoil nothing in it."""

import ast
import io
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from fake_store import FakeStore, planned
from hypothesis import given
from hypothesis import strategies as st
from inprocess import sweepd
from torture import tiny

from sweepd.errors import UserError
from sweepd.grid.yamlfile import GridError, parse
from sweepd.query.database import Views, connect
from sweepd.store.store import Store, SweepInfo
from sweepd.store.tables import REPLACES
from sweepd.trial.attempt import Attempt

SOURCE = Path(__file__).parents[1] / "src" / "sweepd"


class Bomb:
    """Unpickled, it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.mark,)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    mark = tmp_path / "went off"
    pickle.loads(pickle.dumps(Bomb(mark)))
    assert mark.exists()
    mark.unlink()
    return mark


# Files of others


def pickled(bomb: Bomb) -> bytes:
    return pickle.dumps(bomb)


def saved_by_torch(bomb: Bomb) -> bytes:
    buffer = io.BytesIO()
    torch.save({"model": bomb, "step": 15}, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("hostile", [pickled, saved_by_torch])
def test_a_checkpoint_is_never_unpickled(
    tmp_path: Path, mark: Path, hostile: Callable[[Bomb], bytes]
) -> None:
    store = Store.create(str(tmp_path / "store"))
    trial = tiny.planned().trials[0]
    store.put_checkpoint(trial.trunk, f"{5:09d}-{trial.id}.pt", hostile(Bomb(mark)))
    attempt = Attempt(store, trial, 1000, "tiny", Path(), "cpu", 1e9)
    attempt.begin()
    while attempt.status is None:
        attempt.advance(60)
    assert attempt.status == "completed"
    assert "damaged" in store.read_log(trial.id)
    assert not mark.exists()


def test_parquet_from_elsewhere_is_data(tmp_path: Path, mark: Path) -> None:
    """The metadata of a Parquet file may name a Python type to unpickle, or files to leave out."""
    store = Store.create(str(tmp_path / "store"))
    store.write_trials([{"id": "ab", "attempt": 1000, "status": "completed"}])
    table = store.read_trials().table
    bomb = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Bomb(mark)),
    }
    ids = pa.field("id", pa.string(), metadata=bomb)
    hostile = table.set_column(0, ids, table["id"])
    folder = tmp_path / "store" / "trials"
    pq.write_table(hostile, folder / "compacted-hostile.parquet")
    outside = tmp_path / "precious"
    outside.write_text("mine")
    for replaces in (b"{", b"3", b'{"a": 1}', b"[[1]]", b'["../../precious", "/etc/passwd"]'):
        metadata = {REPLACES: replaces}
        pq.write_table(table.replace_schema_metadata(metadata), folder / "compacted-bad.parquet")
        assert store.read_trials().table.num_rows == 1
        assert sweepd("sql", "FROM trials", "--results", store.address).code == 0
    assert outside.exists() and not mark.exists()


def test_questions_read_the_code_of_tasks_and_never_run_it(tmp_path: Path, mark: Path) -> None:
    """Which code counts is found out by reading the code, not by running it."""
    (tmp_path / "hostile.py").write_text(f"open({str(mark)!r}, 'w')\nclass Task: ...\n")
    store = Store.create(str(tmp_path / "store"))
    trial = {**planned(), "task": "hostile.py:Task", "code": "x"}
    info = SweepInfo(goal="acc > 0.9", pass_rule="all", base=str(tmp_path))
    grid = "task: {name: hostile.py:Task, n: 1}\nmodel: {name: standard, d: 4}\n"
    store.save_sweep("theirs", grid, info, [trial])
    store.write_trials([{**trial, "attempt": 1000, "status": "completed", "acc": 1.0}])
    for command in (["query", "min d"], ["sql", "FROM cells"], ["status"], ["status", "theirs"]):
        assert sweepd(*command, "--results", store.address).code == 0
    assert not mark.exists()


@pytest.mark.parametrize("name", ["../precious", "/etc/passwd", "a/../../precious", "..", "", "."])
def test_names_in_a_store_are_no_paths(tmp_path: Path, name: str) -> None:
    store = Store.create(str(tmp_path / "store"))
    (tmp_path / "precious.log").write_text("secret")
    trial = {**planned(), "id": name, "trunk": name}
    info = SweepInfo(goal="acc > 0.9", base="/")
    store.save_sweep("theirs", "", info, [trial])
    store.write_trials([{**trial, "attempt": 1000, "status": "completed", "acc": 1.0}])
    answer = sweepd("logs", name or "x", "--results", store.address)
    assert answer.code == 2 and "secret" not in answer.out
    for use in (
        lambda: store.read_log(name),
        lambda: store.append_log(name, "x"),
        lambda: store.checkpoints(name),
        lambda: store.get_checkpoint("trunk", name),
        lambda: store.put_checkpoint(name, "x", b""),
        lambda: store.delete_checkpoint("trunk", name),
        lambda: store.load_sweep(name),
        lambda: store.save_sweep(name, "", info, []),
    ):
        with pytest.raises(UserError, match="a name has"):
            use()
    assert (tmp_path / "precious.log").read_text() == "secret"


# Grids


def laughs(times: int) -> str:
    lines = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, times)]
    return "\n".join(["a0: &a0 [lol, lol]", *lines])


@pytest.mark.parametrize(
    "text",
    [
        laughs(12), "a: &a [*a, *a]", "&a {b: *a, c: *a}", "[" * 100_000, "{a: " * 200_000,
        "- " * 400_000, "? " * 400_000, "\n".join(" " * i + "a:" for i in range(1300)),
        "k" * 900_000 + ": 1", "? " + "k" * 900_000 + "\n: 1",
        "a: !!python/object/apply:os.system [touch sprung]",
        "a: !!python/object/new:os.system [touch sprung]", "!!python/module:os {}",
        "a: !<tag:yaml.org,2002:python/name:os.system> x", "a: 0x" + "f" * 900_000,
        "a: " + "1" * 900_000 + ".5",
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_bombs_in_yaml_do_not_go_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        problems = parse(text, "grid.yaml").problems
    except GridError as error:
        problems = list(error.problems)
        assert len(str(error)) < 10_000
    assert problems or "k" * 900_000 in text
    assert not list(tmp_path.iterdir())


# Questions

SECRET = "hunter2"
ATTEMPTS = """
FROM read_text('{secret}')
FROM read_csv('{secret}')
FROM read_csv_auto('{secret}', header=false)
FROM read_json('{secret}')
FROM read_blob('{secret}')
FROM read_parquet('{secret}')
FROM read_duckdb('{secret}')
FROM sniff_csv('{secret}')
FROM glob('{folder}/*')
FROM '{secret}'
FROM "{secret}"
FROM '{secret}.csv'
FROM 'https://127.0.0.1:1/x.csv'
FROM 's3://bucket/x.parquet'
FROM parquet_metadata('{secret}')
FROM query('FROM read_text(''{secret}'')')
FROM query('COPY (SELECT 1) TO ''{folder}/x''')
FROM query_table('{secret}')
FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{secret}'')'))
FROM enable_logging('QueryLog', storage := 'file', storage_config := {{'path': '{folder}/x'}})
FROM enable_profiling(save_location := '{folder}/x')
FROM import_database('{folder}')
FROM force_checkpoint()
FROM pandas_scan(0::POINTER)
FROM arrow_scan(0::POINTER, 0::POINTER, 0::POINTER)
FROM a_python_variable
FROM duckdb_secrets()
FROM duckdb_extensions()
COPY (SELECT 1) TO '{folder}/x'
COPY trials TO '{folder}/x' (FORMAT parquet)
COPY raw.plans FROM '{secret}'
EXPORT DATABASE '{folder}/x'
ATTACH '{folder}/x.db' AS x
INSTALL httpfs
LOAD httpfs
LOAD '{secret}'
PRAGMA database_list
PRAGMA enable_profiling
SET enable_external_access = true
SET python_enable_replacements = true
SET temp_directory = '{folder}'
RESET enable_external_access
SET VARIABLE x = 1
CREATE TABLE x AS SELECT 1
CREATE MACRO x(a) AS a
CREATE SECRET (TYPE s3)
CREATE PERSISTENT SECRET x (TYPE s3)
DROP TABLE raw.attempts
INSERT INTO raw.attempts FROM raw.attempts
CALL enable_logging()
WITH x AS (DELETE FROM raw.attempts RETURNING *) FROM x
WITH x AS (INSERT INTO raw.attempts FROM raw.attempts RETURNING *) FROM x
COMMIT
ROLLBACK; DROP TABLE raw.attempts
UPDATE raw.attempts SET acc = 1
MERGE INTO raw.plans USING raw.plans AS p ON true WHEN MATCHED THEN DELETE
TRUNCATE raw.attempts
CREATE VIEW t AS SELECT 1
DROP VIEW trials
ALTER TABLE raw.plans ADD COLUMN x INTEGER
IMPORT DATABASE '{folder}'
DETACH memory
USE memory
SET threads = 1
RESET threads
CALL pragma_version()
PREPARE p AS SELECT 1
EXECUTE p
EXPLAIN ANALYZE INSERT INTO raw.plans SELECT * FROM raw.plans
BEGIN
CHECKPOINT
VACUUM
SELECT * FROM query('DROP VIEW trials')
SELECT getenv('HOME')
"""


@st.composite
def disguised(draw: st.DrawFn) -> str:
    """An attempt, perhaps inside of something harmless, with remarks and odd spaces between."""
    text = draw(st.sampled_from(ATTEMPTS.strip().splitlines()))
    wrap = [
        "{}", "{};", "SELECT ({})", "SELECT * FROM ({})", "WITH x AS ({}) SELECT * FROM x",
        "SELECT 1 UNION ALL {}", "SELECT 1; {}", "{}; SELECT 1", "EXPLAIN {}", "DESCRIBE {}",
        "EXPLAIN ANALYZE {}", "SUMMARIZE {}", "PREPARE p AS {}", "VALUES (({}))",
        "SELECT [x FOR x IN ({})]", "SELECT EXISTS({})", "SELECT * FROM trials WHERE acc > ({})",
        "FROM (VALUES (1)) t, LATERAL ({}) u", "SELECT list_transform([1], x -> ({}))",
        "CREATE VIEW v AS {}", "\ufeff{}", "-- \n{}", "/* ; */ {}",
    ]  # fmt: skip
    for _ in range(draw(st.integers(0, 2))):
        form = draw(st.sampled_from(wrap))
        text = form.replace("{}", text)
    space = draw(st.sampled_from([" ", "\n", "\t", "/**/", "\u00a0", "\u2003", " -- x\n", "\r"]))
    if draw(st.booleans()):
        text = text.replace(" ", space)
    swaps: list[Callable[[str], str]] = [
        *(str, str.upper, str.lower),
        lambda t: t.replace("O", "\uff2f"),
    ]
    swap = draw(st.sampled_from(swaps))
    return re.sub(r"'[^']*'|\{.*?\}|\w+", lambda m: m[0] if "{" in m[0] else swap(m[0]), text)


@pytest.fixture(scope="module")
def views() -> Views:
    store = FakeStore()
    trial = planned()
    store.add_sweep("s", [trial])
    store.end(trial, "completed", 0.5)
    return connect(store, code="all")


@pytest.mark.parametrize(
    "text",
    ["", "SELECT ?", "SELECT nothing", "SELEC 1", "SELECT 1; SELECT 2", *ATTEMPTS.split("\n")],
)
def test_sql_refuses_all_else(views: Views, tmp_path: Path, text: str) -> None:
    (tmp_path / "secret").write_text(f"{SECRET},1\n")
    with pytest.raises(UserError) as refused:
        views.sql(text.format(secret=tmp_path / "secret", folder=tmp_path))
    assert "nothing" not in text or "LINE 1: " in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert views.sql("SELECT acc FROM trials").rows == [{"acc": 0.5}]


@given(disguised())
def test_sql_reads_nothing_but_the_views_and_writes_nothing(
    views: Views, tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    a_python_variable = views.connection
    folder = tmp_path_factory.getbasetemp() / "guarded"
    folder.mkdir(exist_ok=True)
    secret = folder / "secret"
    secret.write_text(f"{SECRET},1\n")
    (folder / "secret.csv").write_text(f"{SECRET},1\n")
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    filled = text.replace("{secret}", str(secret)).replace("{folder}", str(folder))
    try:
        assert SECRET not in str(views.sql(filled.replace("{{", "{").replace("}}", "}")).rows)
    except UserError as error:
        assert SECRET not in str(error)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert views.fetch("SELECT count(*), max(acc) FROM trials") == [(1, 0.5)]
    assert a_python_variable


# Our own code


def test_nothing_is_unpickled_evaluated_or_given_to_a_shell() -> None:
    """sweepd uses no function that could run data as code, but for what loads the user's own
    files, as an import does. It gives subprocesses lists of words, never one text for a shell."""
    forbidden = {"eval", "exec", "compile", "__import__"}
    modules = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names=names):
                    assert not modules & {alias.name.partition(".")[0] for alias in names}, path
                case ast.ImportFrom(module=str(module)):
                    assert module.partition(".")[0] not in modules, path
                case ast.Call(func=ast.Name(id=name)):
                    loads = name == "compile" and path.name == "user_files.py"
                    assert loads or name not in forbidden, f"{path}:{node.lineno}"
                case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)) as call:
                    where, words = f"{path}:{node.lineno}", {k.arg for k in call.keywords}
                    if (owner, name) == ("torch", "load"):
                        assert "weights_only" in words, where
                    assert "shell" not in words, where
                    assert (owner, name) not in {("os", "system"), ("os", "popen")}, where
                    assert owner != "yaml" or name in ("safe_load", "dump"), where
