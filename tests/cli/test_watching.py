"""`status --watch` reads nothing but the store. It waits for a launch, shows its board and ends
when the launch ends."""

import threading
import time
from dataclasses import replace
from pathlib import Path

import inprocess
import pytest
from fake_store import FakeStore, planned

from sweepd.cli import progress
from sweepd.cli.board import RUNNING, TrialState, maps
from sweepd.store.store import Store


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "WATCH_SECONDS", 0.05)


def filled(address: str, sweep: str = "s") -> Store:
    """A launch of which one trial ended before it, one in it, and one failed."""
    fake, store = FakeStore(), Store.create(address)
    trials = [planned(d=d, steps=100) for d in (8, 16, 32, 64)]
    store.new_launch({"sweep": sweep})
    now = 1000 * store.new_launch({"sweep": sweep}) + 1
    fake.end(trials[0], "completed", 0.5, attempt=1001, step=100)
    fake.end(trials[1], "completed", 0.95, attempt=now, step=100)
    fake.end(trials[2], "failed", attempt=now, error="no memory\nat all")
    fake.add_sweep(sweep, trials)
    return fake.save(address)


def test_the_board_is_that_of_the_latest_launch(tmp_path: Path) -> None:
    view = progress.View(filled(str(tmp_path)), "s")
    board = view.board({"s"})
    ended = view.board(set())
    assert ended.states == board.states and view.board(set()) is ended, "nothing is read again"
    by_d = {spot.value: board.state(spot) for spot in board.spots.values()}
    assert by_d[8] == TrialState("completed", 100, 0.5, earlier=True)
    assert by_d[16] == TrialState("completed", 100, 0.95)
    assert by_d[64] == TrialState()
    [error] = board.errors
    assert "failed: no memory (`sweepd logs" in error and error[:8] == [*board.spots][2][:8]
    [places] = maps(board).values()
    assert [places[d, 8].mark for d in (8, 16, 32, 64)] == [
        *("failed", "passed", "error", "untried")
    ]


def test_what_runs_is_what_has_recorded_a_step_and_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(str(tmp_path))
    [trial] = store.read_plans(["s"]).table.filter([False, False, False, True])["id"].to_pylist()
    steps = {"loss": 1.0, "acc": None, "seconds": 1.0, "train_flops": 1.0}
    store.write_metrics([{"id": trial, "attempt": 2001, "step": step, **steps} for step in (1, 40)])
    monkeypatch.setattr(Store, "driven_elsewhere", lambda self, names: set(names))
    board = progress.View(store, "s").board({"s"})
    assert board.states[trial] == TrialState(RUNNING, 40, None)


def test_a_launch_with_another_grid_is_seen(tmp_path: Path) -> None:
    """The plan is put together once for all that are shown, and anew when it has changed."""
    store = filled(str(tmp_path))
    view = progress.View(store, "s")
    assert view.board({"s"}).spots is view.board({"s"}).spots
    trials = [planned(d=d, steps=100) for d in (8, 128)]
    store.save_sweep("s", "name: s", store.load_sweep("s"), trials)
    board = view.board({"s"})
    assert [spot.value for spot in board.spots.values()] == [8, 128]
    assert len(board.states) == 1


@pytest.mark.parametrize(
    ("words", "waits_for", "shows"),
    [
        ([], "a sweep in ", "sweep  running"),
        (["s"], "sweep s in ", "s: 2/4 done\n"),
        (["furst"], "sweep furst (did you mean first?)", "furst: 2/4 done\n"),
    ],
)
def test_it_waits_for_a_launch_that_has_not_begun(
    tmp_path: Path, words: list[str], waits_for: str, shows: str
) -> None:
    """The sweep is made, in one case with the store, while the command waits for it."""
    results = str(tmp_path / "results")
    if "furst" in words:
        filled(results, "first")
    timer = threading.Timer(0.5, filled, [results, *(words or ["s"])])
    timer.start()
    answer = inprocess.sweepd("status", *words, "--watch", "--results", results, exits=0)
    timer.join()
    assert answer.out.startswith(shows)
    assert f"waiting for the launch of {waits_for}" in answer.err and results in answer.err


def test_seeds_that_are_kept_back_are_known(tmp_path: Path) -> None:
    store = filled(str(tmp_path))
    info = replace(store.load_sweep("s"), extra_seeds=(0,))
    store.save_sweep("s", "name: s", info, [planned(d=8, steps=100)])
    spots = progress.View(store, "s").board({"s"}).spots
    assert all(spot.in_reserve for spot in spots.values())


def test_what_ends_while_it_is_watched_is_shown_as_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third time that somebody asks, no driver runs the sweep any more."""
    filled(str(tmp_path))
    runs = iter([{"s"}, {"s"}])
    monkeypatch.setattr(Store, "driven_elsewhere", lambda self, names: next(runs, set()))
    shown = list(progress._shown(Store.create(str(tmp_path)), None))
    assert shown == [(["s"], {"s"}), (["s"], {"s"}), (["s"], set())]


def test_a_view_that_takes_long_is_shown_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(str(tmp_path))
    runs, waits = iter([{"s"}] * 3), list[float]()
    monkeypatch.setattr(Store, "driven_elsewhere", lambda self, names: next(runs, set()))
    monkeypatch.setattr(time, "sleep", waits.append)
    for _ in progress._shown(Store.create(str(tmp_path)), None):
        until = time.process_time() + 0.1
        while time.process_time() < until:
            pass
    first, *rest = waits
    assert first == progress.WATCH_SECONDS and all(wait > 0.5 for wait in rest) and len(rest) == 2
