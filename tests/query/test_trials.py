"""The trials of a cell, and their learning curves. A long curve is thinned. A curve is whole where
a trial continued another."""

from typing import Any

from fake_store import FakeStore, now, planned

from sweepd.query.database import Views, connect, curves, trials_of


def recorded(*histories: tuple[dict[str, Any], list[int], str | None]) -> Views:
    """A store of trials with their checks' steps, each continuing another one or none; a check's
    accuracy is its step over a thousand."""
    store = FakeStore()
    store.add_sweep("s", [trial for trial, _, _ in histories])
    for trial, steps, parent in histories:
        store.end(trial, "completed", 0.5, parent=parent, step=steps[-1] if steps else 0)
        for step in steps:
            row = {"id": trial["id"], "attempt": 1000, "step": step, "acc": step / 1000}
            store.steps += [{**row, "loss": 1.0}, {**row, "step": step + 1, "acc": None}]
    views = connect(store, code=now)
    views.prepare("metrics")
    return views


def test_the_trials_of_a_cell_come_by_seed() -> None:
    trials = [planned(seed=1), planned(seed=0), planned(d=8)]
    found = trials_of(recorded(*((trial, [], None) for trial in trials)))
    assert sorted([row["seed"] for row in rows] for rows in found.values()) == [[0], [0, 1]]
    assert {row["id"] for rows in found.values() for row in rows} == {t["id"] for t in trials}


def test_a_curve_has_what_was_measured_before_the_trial_began_on_its_own() -> None:
    first, second, third = planned(steps=100), planned(steps=200), planned(steps=400)
    views = recorded(
        (first, [20, 40, 60, 80, 100], None),
        (second, [80, 120, 160, 200], first["id"]),
        (third, [200, 300, 400], second["id"]),
    )
    assert curves(views, [], "acc", 100) == {}
    found = curves(views, [third["id"]], "acc", 100)
    assert list(found) == [third["id"]]
    steps = [20, 40, 60, 80, 120, 160, 200, 300, 400]
    assert found[third["id"]] == [(step, step / 1000) for step in steps]


def test_curves_are_thinned_evenly_to_their_last_points() -> None:
    lengths = {planned(seed=seed)["id"]: length for seed, length in enumerate((1, 2, 7, 12, 60))}
    trials = [planned(seed=seed) for seed in range(len(lengths))]
    views = recorded(*((t, [*range(10, 10 * lengths[t["id"]] + 1, 10)], None) for t in trials))
    for most in (1, 2, 3, 7, 59, 100):
        for trial, curve in curves(views, lengths, "acc", most).items():
            every = -(-lengths[trial] // most)
            steps = range(10 * lengths[trial], 0, -10 * every)
            assert [step for step, _ in curve] == list(steps)[::-1] and len(curve) <= most
