"""What a user can get wrong. Each mistake gives a clear message and the right exit code, and no
traceback. Covers `errors.py`."""

from __future__ import annotations

import pytest
from shell import SharedShell
from trained import run

from sweepd.store.store import Store

GRID = """\
name: fine
task:  {name: lis, n: 2, value_range: 64}
model: {name: standard, d: 4, layers: 1, heads: 1}
train: {steps: 10, batch_size: 4}
evaluate: {check_samples: 16, verdict_samples: 16}
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GRID + "sedes: [0]\n", ["grid.yaml:6", "sedes", "seeds"]),
        (GRID.replace("d: 4", "d: [4, 9]").replace("heads: 1", "heads: 2"), ["grid.yaml:3", "9"]),
        (GRID.replace("name: lis", "name: lsi"), ["grid.yaml:2", "lsi", "lis"]),
        (GRID.replace("n: 2", "n: []"), ["grid.yaml:2", "task.n"]),
        (GRID + "goal: f1 > 0.5\n", ["grid.yaml:6", "f1", "acc"]),
        (GRID + "stop: {success: 0.5}\n", ["grid.yaml:6", "stop.success"]),
        ("a: [\n", ["grid.yaml"]),
        ("- 1\n", ["grid.yaml"]),
    ],
)
def test_wrong_grids(shell: SharedShell, text: str, words: list[str]) -> None:
    shell.write("grid.yaml", text)
    message = shell.run("launch", "grid.yaml", "--yes", exits=2).stderr
    assert all(word in message for word in words), message
    assert not (shell.folder / "sweepd-results").exists()


def test_every_problem_is_reported_at_once(shell: SharedShell) -> None:
    shell.write("grid.yaml", GRID.replace("d: 4", "dd: 4").replace("n: 2", "n: 0") + "x: 1\n")
    message = shell.run("plan", "grid.yaml", exits=2).stderr
    assert all(f"grid.yaml:{line}" in message for line in (2, 3, 6)), message


def test_a_grid_that_is_not_there(shell: SharedShell) -> None:
    assert "nowhere.yaml" in shell.run("plan", "nowhere.yaml", exits=2).stderr


def test_a_results_folder_that_is_not_ours(shell: SharedShell) -> None:
    shell.write("grid.yaml", GRID)
    (shell.folder / "photos").mkdir()
    shell.write("photos/cat.jpg", "meow")
    for command in (["launch", "grid.yaml", "--yes"], ["query", "min d"], ["status"]):
        assert "photos" in shell.run(*command, "--results", "photos", exits=2).stderr
    assert [path.name for path in (shell.folder / "photos").iterdir()] == ["cat.jpg"]


def test_a_results_folder_that_cannot_be_written(shell: SharedShell) -> None:
    shell.write("grid.yaml", GRID)
    shell.write("file", "")
    shell.run("launch", "grid.yaml", "--yes", "--results", "/proc/nowhere", exits=3)
    shell.run("launch", "grid.yaml", "--yes", "--results", "file", exits=2)


def test_a_trial_that_no_machine_could_hold(shell: SharedShell) -> None:
    shell.write("grid.yaml", GRID + "resources: {cpus: 100000}\n")
    for command in (["plan", "grid.yaml"], ["launch", "grid.yaml", "--yes"]):
        message = shell.run(*command, exits=3).stderr
        assert "100000 cores" in message and "resources" in message
    assert shell.rows("status") == []


SEER = """
from dataclasses import dataclass
from sweepd.models.standard import Standard

@dataclass(frozen=True)
class Seer(Standard):
    def build(self, vocab, L, capacity, generator):
        model = super().build(vocab, L, capacity, generator)
        inner = model.logits
        model.logits = lambda x: inner(x + x.mean(-2, keepdim=True))
        return model
"""


def test_a_model_that_sees_the_future(shell: SharedShell) -> None:
    shell.write("seer.py", SEER)
    shell.write("grid.yaml", GRID.replace("standard", "seer.py:Seer"))
    told = shell.run("launch", "grid.yaml", "--yes", exits=2).stderr
    assert f"{shell.folder / 'seer.py'}:7: seer.py:Seer is not causal: changing token" in told
    assert shell.sql("SELECT * FROM attempts") == []
    shell.run("plan", "grid.yaml")


def test_no_results_yet(shell: SharedShell) -> None:
    for command in (["query", "min d"], ["sql", "SELECT 1"], ["status"], ["resume"]):
        assert "sweepd-results" in shell.run(*command, exits=2).stderr


@pytest.fixture(scope="module")
def stored(module_shell: SharedShell) -> SharedShell:
    grid = module_shell.write("grid.yaml", GRID)
    run(Store.create(str(module_shell.folder / "sweepd-results")), grid)
    return module_shell


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("least d where acc>0.9", "least"),
        ("min d where", "where"),
        ("min d where acc>", "acc>"),
        ("min nonsense where acc>0.9", "nonsense"),
        ("min d where acc>0.9; drop table trials", ""),
        ("min d where acc > (select max(acc) from trials)", ""),
        ("min d where exists(select * from read_csv('/etc/passwd'))", ""),
        ("min read_text('/etc/passwd') where acc>0.9", "read_text"),
        ("frontier flops", "frontier"),
    ],
)
def test_wrong_questions(stored: SharedShell, question: str, word: str) -> None:
    assert word in stored.run("query", question, exits=2).stderr


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE trials",
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY (SELECT 1) TO 'out.csv'",
        "ATTACH 'x.db'",
        "INSTALL httpfs",
        "SELECT 1; SELECT 2",
        "SELEC 1",
    ],
)
def test_sql_reads_only_the_views(stored: SharedShell, text: str) -> None:
    before = sorted(path.name for path in stored.folder.rglob("*"))
    stored.run("sql", text, exits=2)
    assert sorted(path.name for path in stored.folder.rglob("*")) == before


def test_usage(stored: SharedShell) -> None:
    stored.run("query", "min d", "--nonsense", exits=2)
    stored.run("nonsense", exits=2)
    stored.run("query", "min d", "--sweep", "nobody", exits=2)
    stored.run("resume", "nobody", exits=2)
    stored.run("logs", "ffff", exits=2)
    stored.run("export", "--out", "trials.xlsx", exits=2)
    stored.run("query", "min d", "--json", "--csv", exits=2)
    stored.run("sample", "lis", "--set", "n=zero", exits=2)
    stored.run("flops", "sparse", "--task", "lis", "--set", "d=8", "--set", "block=999", exits=2)


def test_damaged_files_are_named_skipped_and_left(stored: SharedShell) -> None:
    """This test is the last in its file, since it damages the store."""
    [path] = (stored.folder / "sweepd-results/trials").glob("*.parquet")
    foreign = path.with_name("foreign.parquet")
    foreign.write_bytes(path.read_bytes()[:-10])
    answer = stored.run("query", "min d where acc>=0")
    assert "foreign.parquet" in answer.stderr and "lis" in answer.stdout
    assert foreign.exists()
