"""A sweep of Hydra becomes a grid: its values, its words, what is said of it."""

from pathlib import Path

import pytest

from sweepd.errors import UserError
from sweepd.grid.hydra import grid_of
from sweepd.grid.plan import plan
from sweepd.grid.spec import parse_grid


def test_its_trials_and_words(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    for name in ("mysql", "pg", "sqlite"):
        (tmp_path / f"conf/db/{name}.yaml").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"conf/db/{name}.yaml").write_text("")
    config = tmp_path / "conf/config.yaml"
    config.write_text(
        "hydra: {mode: MULTIRUN, sweeper: {direction: maximize, params: {lr: '0.1,1e-4', "
        "width: 'choice(8, 16)', beta: 'range(0.5, 1.0, 0.25)', db: 'glob(*, exclude=pg)', "
        "+t: \"'a, b'\", wd: 'tag(log, interval(1e-4, 1))', seed: '1,2'}}}\n"
        "optimized_metric: val/acc\n"
    )
    text, _ = grid_of(config.read_text(), config, "train.py", tmp_path)
    trials = plan(parse_grid(text, "grid.yaml", [], tmp_path)).trials
    axes = {name: {t.axes[name] for t in trials} for name in ("lr", "width", "beta", "db", "wd")}
    assert axes == {
        "lr": {0.1, 0.0001},
        "width": {8, 16},
        "beta": {0.5, 0.75},
        "db": {"mysql", "sqlite"},
        "wd": {0.0001, 0.001, 0.01, 0.1, 1.0},
    }
    assert {t.seed for t in trials} == {1, 2} and trials[0].metrics == {"val_acc": "up"}
    program = trials[0].program
    assert program and program.arguments(trials[0].values.loop, {"seed": 1, "dir": "/d"}) == [
        *("python", "train.py", "lr=0.1", "width=8", "beta=0.5", "db=mysql", "+t='a, b'"),
        *("wd=0.0001", "seed=1", "hydra.mode=RUN", "hydra.run.dir=/d", "hydra.output_subdir=null"),
    ]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    text = "hydra: {sweeper: {params: {a: 'extend(1)', b: '1,2', c: 'glob(*)'}}}"
    grid, notes = grid_of(text, tmp_path / "config.yaml", "train.py", tmp_path)
    assert "b: [1, 2]" in grid
    assert [note.partition(" ")[0] for note in notes if "left out" in note] == ["a", "c"]


@pytest.mark.parametrize("text", ["a: 1", "hydra: {sweeper: 3}", "- a", "a: ["])
def test_what_has_no_sweep_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="config"):
        grid_of(text, Path("config.yaml"), "train.py", Path())
