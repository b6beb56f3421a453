"""A store in memory, made from rows. It has what `sweepd.query` needs of a store, for tests of
questions."""

import hashlib
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from sweepd.errors import UserError
from sweepd.grid.fingerprint import trial_code
from sweepd.store.schema import METRICS, PLAN, TRIALS
from sweepd.store.storage import Damaged
from sweepd.store.store import Store
from sweepd.store.sweeps import SweepInfo
from sweepd.store.tables import Read

Row = dict[str, Any]


class FakeStore:
    def __init__(self) -> None:
        self.infos: dict[str, Row] = {}
        self.task_fields = {"lis": ["n", "value_range"]}
        self.plan: list[Row] = []
        self.endings: list[Row] = []
        self.steps: list[Row] = []
        self.damaged: tuple[Damaged, ...] = ()
        self.metrics_reads = 0

    def add_sweep(self, name: str, planned: Sequence[Row], **info: Any) -> None:
        defaults = {"goal": "acc > 0.9", "pass": "median", "size_fields": {"lis": "n"}}
        defaults["task_fields"] = self.task_fields
        created = f"2025-01-{len(self.infos) + 1:02d}"
        self.infos[name] = {"created": created, **defaults, **info}
        self.plan += [{**row, "sweep": name} for row in planned]

    def end(self, trial: Row, status: str, acc: float | None = None, **more: Any) -> None:
        """Add an ending of a planned trial."""
        known = {"attempt": 1000, "sweep": "s", "status": status, "acc": acc}
        if acc is not None:
            known |= {"total": 100, "correct": round(100 * acc)}
        self.endings.append({**trial, **known, **more})

    def save(self, address: str) -> Store:
        """Returns a store on a disk with all that this one has."""
        store = Store.create(address)
        store.write_trials(self.endings)
        store.write_metrics(self.steps)
        for name in self.infos:
            rows = [row for row in self.plan if row["sweep"] == name]
            store.save_sweep(name, f"name: {name}", self.load_sweep(name), rows)
        return store

    address = "in memory"

    def sweeps(self) -> list[str]:
        return list(self.infos)

    def readable_sweeps(self) -> tuple[dict[str, SweepInfo], tuple[Damaged, ...]]:
        return {name: self.load_sweep(name) for name in self.infos}, ()

    def load_sweep(self, name: str) -> SweepInfo:
        if name not in self.infos:
            raise UserError(f"no sweep {name!r}")
        return SweepInfo.from_json(self.infos[name])

    def read_plans(self, sweeps: list[str] | None) -> Read:
        rows = [row for row in self.plan if sweeps is None or row["sweep"] in sweeps]
        return Read(PLAN.table(rows), ())

    def read_trials(self, configs: Collection[str] | None = None) -> Read:
        rows = [row for row in self.endings if configs is None or row["config"] in configs]
        return Read(TRIALS.table(rows), self.damaged)

    def live_metrics(self, ids: Collection[str] | None = None) -> Read:
        self.metrics_reads += 1
        rows = [row for row in self.steps if ids is None or row["id"] in ids]
        return Read(METRICS.table(rows))


def planned(
    n: int = 8, d: int = 16, seed: int = 0, model: str = "standard", code: str = "now", **axes: Any
) -> Row:
    """A trial of LIS as it was planned; any other axis by its name."""
    axes = {"n": n, "d": d, "heads": 2, "lr": "0.01"} | axes
    where = {"task": "lis", "model": model, "size": n, "L": 2 * n + 3, "seed": seed}
    text = json.dumps([where, axes], sort_keys=True)
    config = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    flops = 24 * d * d * (2 * n + 3)
    costs: Row = {"params": 12 * d * d, "flops": flops + d, "flops_weights": flops}
    costs |= {"state_bytes": 8 * d * (2 * n + 3), "train_bytes": 192.0 * d * d}
    who = {"id": f"{config}-{code}", "trunk": config, "config": config, "code": code}
    return {**who, **where, **axes, **costs, "train_flops": 3000.0 * flops}


def as_present() -> dict[str, tuple[str, ...]]:
    """What a sweep accepts in which trials of the code `now` count as those of the present one."""
    code = trial_code([("task", "lis"), ("model", "standard")], Path())
    return {"now": (code.digest,)}


def now(_task: str, _model: str) -> str:
    """The current code of every task and model."""
    return "now"
