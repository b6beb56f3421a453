"""What a user can get wrong. Each mistake gives a clear message and the right exit code, and no
traceback. Covers `errors.py`."""

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


def test_every_problem_of_a_grid_is_said_at_once_and_before_anything_is_made(
    shell: SharedShell,
) -> None:
    wrong = GRID.replace("d: 4", "dd: 4").replace("name: lis", "name: lsi") + "sedes: [0]\n"
    shell.write("grid.yaml", wrong)
    message = shell.run("launch", "grid.yaml", "--yes", exits=2).stderr
    for line, words in ((2, ("lsi", "lis")), (3, ("dd",)), (6, ("sedes", "seeds"))):
        assert f"grid.yaml:{line}" in message and all(word in message for word in words), message
    assert not (shell.folder / "sweepd-results").exists()


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


def test_wrong_questions_and_usage_are_refused(stored: SharedShell) -> None:
    """By a message, with exit code 2. More questions are refused in tests/query/test_parser.py,
    more SQL in tests/test_security.py."""
    before = sorted(path.name for path in stored.folder.rglob("*"))
    for words in (
        *(("query", "least d where acc>0.9"), ("query", "min d", "--nonsense")),
        *(("query", "min d", "--sweep", "nobody"), ("sql", "COPY (SELECT 1) TO 'out.csv'")),
        *(("nonsense",), ("plan", "nowhere.yaml"), ("resume", "nobody"), ("logs", "ffff")),
        *(("export", "--out", "trials.xlsx"), ("sample", "lis", "--set", "n=zero")),
    ):
        assert stored.run(*words, exits=2).stderr, words
    assert sorted(path.name for path in stored.folder.rglob("*")) == before


def test_damaged_files_are_named_skipped_and_left(stored: SharedShell) -> None:
    """This test is the last in its file, since it damages the store."""
    [path] = (stored.folder / "sweepd-results/trials").glob("*.parquet")
    foreign = path.with_name("foreign.parquet")
    foreign.write_bytes(path.read_bytes()[:-10])
    answer = stored.run("query", "min d where acc>=0")
    assert "foreign.parquet" in answer.stderr and "lis" in answer.stdout
    assert foreign.exists()
