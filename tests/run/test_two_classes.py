"""Two classes of the same name in two files, from the grid to the answer. Each has its own trials,
its own row and its own past. Taking over the trials of earlier code never mixes the two. Covers
`query/selection.py`."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from sweepd.errors import UserError
from sweepd.grid.plan import Plan, plan
from sweepd.grid.spec import parse_grid
from sweepd.query.answers import ask
from sweepd.query.selection import codes
from sweepd.run import driver
from sweepd.run.own_code import refuse_namesakes, refuse_twins
from sweepd.search.ledger import standing
from sweepd.store.store import Store
from sweepd.trial.attempt import ledger_columns

NET = """
from dataclasses import dataclass
from sweepd.models.standard import Standard

@dataclass(frozen=True)
class Net(Standard):
    level: int = 1

    def f(self):
        return VERSION
"""
GRID = """
name: NAME
task: {name: lis, n: 2, value_range: 64}
model: {name: MODELS, d: [4, 8], layers: 1, heads: 1}
"""
ACC = {"v1.py:Net": (0.5, 0.95), "v2.py:Net": (0.95, 0.97)}
"""Of d = 4 and d = 8."""


def write(folder: Path, name: str, version: int) -> None:
    (folder / name).write_text(NET.replace("VERSION", str(version)))


def planned(folder: Path, name: str, models: str) -> Plan:
    text = GRID.replace("NAME", name).replace("MODELS", models)
    return plan(parse_grid(text, "grid.yaml", [], folder))


def launched(store: Store, found: Plan) -> None:
    driver._save(found, store)
    for trial in found.trials:
        acc = ACC.get(trial.model_name, (0.95, 0.95))[trial.axes["d"] == 8]
        score = {"status": "completed", "acc": acc, "correct": round(1000 * acc), "total": 1000}
        row = ledger_columns(trial, 1001, found.grid.name) | score | {"step": 1000}
        store.write_trials([row])


def answers(store: Store, *sweeps: str) -> dict[str, tuple[float | None, float | None]]:
    rows = ask(store, "min d", code=codes("current", store), sweeps=list(sweeps) or None).rows
    return {row["model"]: (row["value"], row["acc"]) for row in rows}


@pytest.fixture(autouse=True)
def versions(tmp_path: Path) -> None:
    for version in (1, 2):
        write(tmp_path, f"v{version}.py", version)


BOTH = {"v1.py:Net": (8, 0.95), "v2.py:Net": (4, 0.95)}


@pytest.mark.parametrize("codes", [1, 2])
def test_one_sweep_over_both_shows_both(store: Store, tmp_path: Path, codes: int) -> None:
    """They are two classes even while their text is still the same."""
    write(tmp_path, "v2.py", codes)
    found = planned(tmp_path, "s", "[v1.py:Net, v2.py:Net]")
    launched(store, found)
    assert len({trial.code for trial in found.trials}) == codes
    for name in ("config", "id", "trunk"):
        assert len({getattr(trial, name) for trial in found.trials}) == len(found.trials) == 4
    assert answers(store) == BOTH


def test_an_edit_of_one_shows_nothing_of_the_other(store: Store, tmp_path: Path) -> None:
    for version in (1, 2):
        launched(store, planned(tmp_path, f"s{version}", f"v{version}.py:Net"))
    assert answers(store) == BOTH
    write(tmp_path, "v1.py", 3)
    driver._save(planned(tmp_path, "s1", "v1.py:Net"), store)
    assert answers(store) == {**BOTH, "v1.py:Net": (None, None)}
    assert answers(store, "s1") == {"v1.py:Net": (None, None)}


def test_what_another_code_did_is_not_the_other_class_s(store: Store, tmp_path: Path) -> None:
    launched(store, planned(tmp_path, "s", "v1.py:Net"))
    second = planned(tmp_path, "t", "v2.py:Net")
    found = standing(second.trials, store.read_trials().table)
    assert not found.other
    write(tmp_path, "v1.py", 3)
    found = standing(planned(tmp_path, "s", "v1.py:Net").trials, store.read_trials().table)
    assert len(found.other) == 2


def test_an_alias_is_found_by_questions(store: Store, tmp_path: Path) -> None:
    launched(store, planned(tmp_path, "s", "v1.py:Net, as: net"))
    assert answers(store) == {"net": (4, 0.95)}
    write(tmp_path, "v1.py", 3)
    driver._save(planned(tmp_path, "s", "v1.py:Net, as: net"), store)
    assert answers(store) == {"net": (None, None)}


def test_another_class_of_one_name_is_refused(store: Store, tmp_path: Path) -> None:
    """The other class is in another folder, or has the same alias. No answer could tell the two
    apart."""
    launched(store, planned(tmp_path, "s", "v1.py:Net"))
    other = tmp_path / "other"
    other.mkdir()
    write(other, "v1.py", 1)
    sweeps, _ = store.readable_sweeps()
    refuse_namesakes(planned(other, "t", "v1.py:Net").grid, sweeps)  # the very same class
    write(other, "v1.py", 2)
    refuse_namesakes(planned(other, "s", "v1.py:Net").grid, sweeps)  # the same sweep, elsewhere
    there = planned(other, "t", "v1.py:Net").grid
    with pytest.raises(
        UserError, match=r"in sweep s, v1.py:Net is another class, that of .*v1.py; tell"
    ):
        refuse_namesakes(there, sweeps)
    refuse_namesakes(planned(other, "t", "v1.py:Net, as: two").grid, sweeps)
    (tmp_path / "v1.py").unlink()
    refuse_namesakes(there, sweeps)  # it has moved


@pytest.mark.parametrize(
    ("theirs", "ours", "refused"),
    [
        ("1", "'1'", True),
        ("1", "1.0", True),
        ("[a, 1]", "1.0", True),
        ("'true'", "[true, 5]", True),
        ("1", "1", False),
        ("1", "[true, x, 1, null]", False),
    ],
)
def test_a_value_of_another_type_that_is_one_in_results(
    store: Store, tmp_path: Path, theirs: str, ours: str, refused: bool
) -> None:
    mixed = NET.replace("level: int", "level: int | float | bool | str | None")
    (tmp_path / "mixed.py").write_text(mixed)
    launched(store, planned(tmp_path, "s", f"'mixed.py:Net', level: {theirs}"))
    again = planned(tmp_path, "t", f"'mixed.py:Net', level: {ours}")
    ended = store.read_trials().table
    says = pytest.raises(UserError, match=r"grid.yaml:4: sweep s has a trial .* type of level")
    with says if refused else nullcontext():
        refuse_twins(again, ended)
