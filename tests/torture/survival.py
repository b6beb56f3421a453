"""What must be true of a store after a kill, and after the sweep has been continued to its end."""

import io
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torture import tiny
from torture.zygote import Zygote

from sweepd.grid.trials import Trial
from sweepd.statuses import DONE
from sweepd.store.store import Store

TIMES = ("attempt", "seconds", "started", "ended", "host")
"""Columns in which two runs of a trial may differ."""

Rows = list[dict[str, Any]]


def survive(
    zygote: Zygote, folder: Path, kills: Iterable[Mapping[str, Any]], expected: tuple[Rows, Rows]
) -> int:
    """Kill one launch after another, each of `kills` in its way, then finish: how many died."""
    store, told = folder / "store", folder / "told"
    died = 0
    for kill in kills:
        zygote.start(store, told, **kill)
        check(store, told)  # a reader meanwhile
        done, _ = zygote.result()
        died += not done
        check(store, told)
    done, _ = zygote.run(store, told)
    assert done
    check(store, told)
    assert outcome(store) == expected
    return died


def check(root: Path, told: Path) -> None:
    """Holds at any moment: all that was told is there, once, and whole."""
    known = list(tiny.keys_told(told))  # first: what is told meanwhile need not be read
    try:
        store = Store.open(str(root))
    except ValueError:
        assert not known and (not root.exists() or not any(root.glob("[!.]*")))
        return
    lost = set(known) - check_store(store, tiny.planned().trials)
    assert not lost
    assert all(store.load_grid(name) == tiny.GRID for name in store.sweeps())


def check_store(store: Store, trials: Iterable[Trial]) -> set[tuple[Any, ...]]:
    """Nothing is damaged, nothing there twice: the keys of all rows."""
    metrics, endings = store.read_metrics(), store.read_trials()
    assert metrics.damaged == endings.damaged == ()
    keys = _keys(metrics.table, "id", "attempt", "step") + _keys(endings.table, "id", "attempt")
    assert set(Counter(keys).values()) <= {1}
    done = Counter(row["id"] for row in endings.table.to_pylist() if row["status"] in DONE)
    assert set(done.values()) <= {1}
    for name in store.sweeps():
        assert store.load_sweep(name).goal
        assert store.read_plans([name]).damaged == ()
    assert not any("damaged" in launch for launch in store.launches())
    _check_checkpoints(store, trials)
    return set(keys)


def outcome(root: Path) -> tuple[Rows, Rows]:
    """The metrics and final endings that a question would see, in order, without times."""
    store = Store.open(str(root))
    latest: dict[tuple[str, int], dict[str, Any]] = {}
    for row in sorted(store.read_metrics().table.to_pylist(), key=lambda row: row["attempt"]):
        latest[row["id"], row["step"]] = row
    ended = [row for row in store.read_trials().table.to_pylist() if row["status"] in DONE]
    trials = sorted(ended, key=lambda row: row["id"])
    return [_timeless(latest[key]) for key in sorted(latest)], list(map(_timeless, trials))


def _check_checkpoints(store: Store, trials: Iterable[Trial]) -> None:
    for trunk in {trial.trunk for trial in trials}:
        for name in store.checkpoints(trunk):
            try:
                content = store.get_checkpoint(trunk, name)
            except FileNotFoundError:
                continue  # a newer one has taken its place since
            state = torch.load(io.BytesIO(content), weights_only=True)
            assert state["step"] == int(name.partition("-")[0])


def _keys(table: Any, *columns: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def _timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in TIMES}
