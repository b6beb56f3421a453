"""The Python API. `sweepd.open` reads what the command line prints, and `import sweepd` is quick.
tests/docs/test_python.py runs what docs/python.md shows, and tests/e2e/test_main_job.py launches a
sweep."""

import tarfile
from pathlib import Path

import numpy as np
import pytest
from inprocess import sweepd as command

import sweepd
from sweepd.errors import UserError
from sweepd.grid.yamlfile import GridError

STORE = Path(__file__).parent / "stores" / "0.2.0.dev0" / "store.tar.xz"
QUESTION = "min d where acc >= 0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small store of an earlier version."""
    folder = tmp_path_factory.mktemp("api")
    with tarfile.open(STORE) as archive:
        archive.extractall(folder, filter="data")
    [address] = [path.parent for path in folder.rglob("sweeps")]
    return address


def printed(folder: Path, *words: str) -> list[dict[str, object]]:
    return command(*words, "--code", "all", "--results", str(folder), "--json", exits=0).rows


def test_questions_are_those_of_the_command_line(folder: Path) -> None:
    results = sweepd.open(folder)
    for sweep in (None, "widths"):
        words = ["--sweep", sweep] if sweep else []
        found = results.query(QUESTION, sweep=sweep, code="all")
        assert found.rows and found.rows == printed(folder, "query", QUESTION, *words)
    select = "SELECT id, d, acc FROM trials ORDER BY ALL"
    assert results.sql(select, code="all").rows == printed(folder, "sql", select)


def test_views(folder: Path) -> None:
    results = sweepd.open(folder)
    trials = results.trials(code="all")
    assert len(trials) == results.sql("SELECT count(*) AS n FROM trials", code="all")["n"][0]
    assert {"task", "model", "d", "acc"} <= set(results.cells(code="all").columns)
    assert sorted(results.sweeps()["name"]) == ["rates", "widths"]
    curve = results.metrics(trials["id"][0][:8])
    assert set(curve["id"]) == {trials["id"][0]} and curve["step"] == sorted(curve["step"])
    with pytest.raises(UserError, match="no trial"):
        results.metrics("nonsense")


def test_figures(folder: Path, tmp_path: Path) -> None:
    figure = sweepd.open(folder).plot("min", where="acc >= 0", code="all")
    figure.save(tmp_path / "min.svg", width="one")
    assert (tmp_path / "min.svg").read_text().startswith("<svg")
    assert figure._repr_svg_().startswith("<svg")
    with pytest.raises(UserError, match="heatmap"):
        sweepd.open(folder).plot("pie")
    with pytest.raises(UserError, match=r"end it in \.svg"):
        figure.save("min.gif")


def test_what_is_wrong_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        sweepd.open(tmp_path / "nowhere")
    with pytest.raises(UserError):
        sweepd.open(folder).query("min width")
    grid = tmp_path / "grid.yaml"
    grid.write_text("task: {name: lis, n: 4}\nmodel: {name: standard, d: 8}\n")
    with pytest.raises(GridError, match="seedz"):
        sweepd.plan(grid, {"seedz": [0]}, results=tmp_path / "results")


def test_a_plan_is_an_estimate(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text("task: {name: lis, n: 4}\nmodel: {name: standard, d: 8}\n")
    found = sweepd.plan(grid, {"model.d": [8, 16], "seeds": [0]}, results=tmp_path / "results")
    assert (found.cells, found.trials, found.done) == (2, 2, 0)
    assert not (tmp_path / "results").exists()


def test_overrides_may_be_numpy_s_and_nothing_that_yaml_cannot_hold(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text("task: {name: lis, n: 4}\nmodel: {name: standard, d: 8}\n")
    widths = {"model.d": 2 ** np.arange(3, 6), "task.n": np.int64(5)}
    assert sweepd.plan(grid, widths, results=tmp_path / "results").cells == 3
    with pytest.raises(UserError, match=r"overrides: seeds: .*\(set\) cannot stand in a grid"):
        sweepd.plan(grid, {"seeds": {1, 2}}, results=tmp_path / "results")


def test_what_it_offers_is_listed() -> None:
    assert {"open", "plan", "launch", "Results", "Table"} <= set(dir(sweepd))
    with pytest.raises(AttributeError):
        _ = sweepd.nonsense
