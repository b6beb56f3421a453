"""Questions to stores in memory, for tests: stores with given cells, and what the answers say."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fake_store import FakeStore, Row, now, planned

from sweepd.query.answers import answer, ask
from sweepd.query.cells_sql import GOAL_COST
from sweepd.query.database import Answer, Views, connect
from sweepd.store.store import Store

SIZE_FIELDS = {"lis": "n", "edit_distance": "n", "ed_local": "n", "arithmetic": "operators"}


def question(store: FakeStore | Store, text: str, **choices: Any) -> Answer:
    """What `sweepd query` answers. One question after another to a store in memory whose rows stay
    the same is answered from the same views, as in a report: they take most of the time."""
    if isinstance(store, Store) or GOAL_COST in text.lower():  # which is added to the views
        found = ask(store, text, code=now, **choices)
    else:
        found = answer(_views(store, choices), text)
    assert all(list(row) == found.columns for row in found.rows)
    return found


_latest: dict[bytes, Views] = {}
"""The views of the latest question, by all that they are made of."""


def _views(store: FakeStore, choices: Mapping[str, Any]) -> Views:
    made_of = pickle.dumps(({**vars(store), "metrics_reads": 0}, choices))
    if made_of not in _latest:
        _latest.clear()
        _latest[made_of] = connect(store, code=now, **choices)
    return _latest[made_of]


def ended(trials: Sequence[Row], *outcomes: Any, **info: Any) -> FakeStore:
    """A store with a sweep of these trials. Each ended as its outcome says: an accuracy, a status,
    (status, accuracy), or columns of a completed trial. None was not tried."""
    store = FakeStore()
    store.add_sweep("s", trials, **info)
    for trial, found in zip(trials, outcomes, strict=True):
        match found:
            case None:
                continue
            case str():
                store.end(trial, found)
            case tuple():
                store.end(trial, *found)
            case dict():
                store.end(trial, "completed", **found)
            case _:
                store.end(trial, "completed", found)
    return store


def grid(cells: Mapping[tuple[int, int], Any], **info: Any) -> FakeStore:
    """A store with a cell for each (n, d), whose one seed ended so (`ended`)."""
    return ended([planned(n, d) for n, d in cells], *cells.values(), **info)


def ran(trials: Sequence[Row], acc: Callable[[Row], float], **info: Any) -> FakeStore:
    """A store with a sweep of these trials. Each is completed with the accuracy that `acc` says."""
    return ended(trials, *map(acc, trials), **info)


def verdicts(store: FakeStore, text: str = "min d where acc > 0.9") -> list[tuple[Any, ...]]:
    columns = ("verdict", "value", "fail", "inferred")
    return [tuple(row[name] for name in columns) for row in question(store, text).rows]


def mixed() -> FakeStore:
    """Two models, two sizes, two widths and two counts of heads; accuracy rises with d · heads."""
    trials = [
        planned(n, d, model=model, heads=heads)
        for n in (6, 8)
        for d in (16, 32)
        for model in ("linear", "standard")
        for heads in (2, 4)
    ]
    needed = {"linear": 128, "standard": 64}
    return ran(trials, lambda t: 0.95 if t["d"] * t["heads"] >= needed[t["model"]] else 0.5)


def planned_on(task: str, size: int, d: int, model: str, **axes: Any) -> Row:
    """A planned trial of any task."""
    row = planned(size, d, model=model, **{"layers": 3, "heads": 4, "steps": 10} | axes)
    return row | {"task": task, "id": f"{row['id']}-{task}", "config": f"{row['config']}-{task}"}
