"""A store of invented scores. There is something in it for every kind of figure."""

import math

from fake_store import FakeStore, Row
from questions import SIZE_FIELDS, planned_on

from sweepd.store.store import Store

HOSTILE = "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 2'>"
WIDTHS, SIZES = (8, 16, 32, 64), (8, 16, 32, 64)


def needed(model: str, n: int) -> float:
    """The width from which on a model passes."""
    return {"standard": 12.0, "linear": 12 * math.pow(n / 8, 0.8), "sparse": 40.0}[model]


def trials() -> list[Row]:
    return [
        planned_on("lis", n, d, model, seed=seed, steps=100)
        for model in ("standard", "linear", "sparse")
        for n in SIZES
        for d in WIDTHS
        for seed in range(2)
    ]


def store() -> FakeStore:
    """What came out: `sparse` was stopped or failed at the largest size, and not tried below."""
    planned = trials()
    store = FakeStore()
    store.add_sweep("s", planned, size_fields=SIZE_FIELDS)
    for trial in planned:
        n, d, model, seed = trial["n"], trial["d"], trial["model"], trial["seed"]
        logit = 4 * math.log2(d / needed(model, n)) + 2.5 - seed / 4
        acc = round(1 / (1 + math.exp(-logit)), 3)
        if model == "sparse" and n == SIZES[-1]:
            if d == 8:
                store.end(trial, "failed", None, error=HOSTILE, step=0)
            elif d == 16:
                store.end(trial, "stopped", acc, step=50, seconds=1.0)
        elif acc > 0.97:
            store.end(trial, "solved", acc, step=80, seconds=1.0)
        else:
            store.end(trial, "completed", acc, step=100, seconds=1.0)
        for step in (20, 40, 60, 80, 100):
            at = {"id": trial["id"], "attempt": 1000, "step": step, "acc": acc * step / 100}
            store.steps.append({**at, "loss": 1 - acc, "seconds": 0.1})
    return store


def save(address: str) -> Store:
    """The same in a store on a disk."""
    return store().save(address)
