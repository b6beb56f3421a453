"""What is asked about: which sweeps of a store, what their grids say, and whose code counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from sweepd.errors import UserError
from sweepd.grid.metrics import Better
from sweepd.grid.options import Settle
from sweepd.store.storage import Damaged
from sweepd.store.sweeps import SweepInfo

if TYPE_CHECKING:
    import pyarrow as pa

    from sweepd.store.store import Store
    from sweepd.store.tables import Read

CodeChoice = Callable[[str, str], str | None] | Literal["all"]
"""The code whose trials count. "all" stands for every code, and then cells differ by code.

A function takes the names of a task and of a model, and returns the digest of the code that they
name now. Trials of that code count, and so do trials of the codes that were accepted in its place.
Where the function returns None, since the present code cannot be found, the newest ending of each
trial counts.
"""


class Source(Protocol):
    """What questions need of a store."""

    def sweeps(self) -> list[str]: ...
    def readable_sweeps(self) -> tuple[dict[str, SweepInfo], tuple[Damaged, ...]]: ...
    def load_sweep(self, name: str) -> SweepInfo: ...
    def read_plans(self, sweeps: list[str] | None) -> Read: ...
    def read_trials(self, configs: Collection[str] | None = None) -> Read: ...
    def live_metrics(self, ids: Collection[str] | None = None) -> Read: ...


@dataclass(frozen=True)
class Selection:
    """The sweeps that are asked about: some sweeps of a store, or all that it holds.

    infos: each sweep's sweep.json by its name, the oldest sweep first. damaged: those that cannot
    be read. whole_store: whether trials that are in no sweep's plan are asked about, too.
    """

    source: Source
    infos: Mapping[str, SweepInfo]
    damaged: tuple[Damaged, ...]
    whole_store: bool

    @classmethod
    def of(cls, source: Source, sweeps: Sequence[str] | None) -> Selection:
        """Returns these sweeps, or the whole store if `sweeps` is None, where a damaged sweep.json
        is skipped. Raises EnvironmentFailure if that of a sweep was asked for by name, or if one
        cannot be read, and UserError for an unknown sweep."""
        if sweeps is None:
            infos, damaged = source.readable_sweeps()
            return cls(source, infos, damaged, True)
        order = source.sweeps()
        names = sorted(set(sweeps), key=lambda name: order.index(name) if name in order else -1)
        return cls(source, {name: source.load_sweep(name) for name in names}, (), False)

    def own_metrics(self, plan_axes: Collection[str]) -> dict[str, Better]:
        """Returns the metrics of users' own tasks and loops, and which way each is better. Raises
        UserError where sweeps do not agree on one."""
        metrics: dict[str, Better] = {}
        for sweep, info in self.infos.items():
            for name, better in info.metrics.items():
                if name in plan_axes or metrics.get(name, better) != better:
                    other = "a field" if name in plan_axes else f"better {metrics[name]}"
                    raise UserError(
                        f"{name} is a metric, better {better}, in sweep {sweep} and {other} in "
                        "another: ask one sweep at a time (--sweep)"
                    )
                metrics[name] = "up" if better == "up" else "down"
        return metrics

    def has_planned(self, planned: pa.Table, ended: pa.Table) -> list[bool]:
        """Returns, for each ending, whether one of these sweeps has planned its trial: now, or with
        an earlier code. Others' trials may have the same settings.

        planned: the plans of these sweeps. ended: endings, with `id`, `config` and `code`.
        """
        ids, sweeps = set(planned["id"].to_pylist()), defaultdict[str, set[str]](set)
        plans = (planned[name].to_pylist() for name in ("config", "sweep"))
        for config, sweep in zip(*plans, strict=True):
            sweeps[config].add(sweep)
        codes = {name: {*info.code_files, *info.accepted_for} for name, info in self.infos.items()}
        rows = zip(*(ended[name].to_pylist() for name in ("id", "config", "code")), strict=True)
        return [
            id_ in ids or any(code in codes[sweep] for sweep in sweeps.get(config, ()))
            for id_, config, code in rows
        ]

    @cached_property
    def size_fields(self) -> dict[str, str]:
        """The axis that is each task's size."""
        return {
            task: field for info in self.infos.values() for task, field in info.size_fields.items()
        }

    @cached_property
    def task_fields(self) -> set[str]:
        """Axes that are fields of a task."""
        return {name for i in self.infos.values() for of in i.task_fields.values() for name in of}

    @cached_property
    def tune(self) -> set[str]:
        """Nuisance axes, which grids name as `train.lr`."""
        names = (name for info in self.infos.values() for name in info.tune)
        axes = {name.rpartition(".")[2] for name in names}
        return axes | {"steps"} if self.settles else axes

    @property
    def minimized(self) -> str:
        """The column whose least value the sweeps ask for. Raises UserError where they ask for
        several, or one of them does not say."""
        sweep_of = {info.minimized: name for name, info in self.infos.items()} or {"d": ""}
        if len(sweep_of) == 1 and all(sweep_of):
            return next(iter(sweep_of))
        each = ", ".join(f"{least} ({name})" for least, name in sweep_of.items())
        why = f"The sweeps ask for the least of {each}: name it (--of), or name one sweep"
        if silent := sweep_of.get(""):
            why = (
                f"The grid of sweep {silent} has no d, no staircase, and not just one number that "
                "varies: name it, as in --of hidden, or, where nothing varies, ask "
                '`sweepd query "max acc"`'
            )
        raise UserError(f"what is minimised? {why}")

    @property
    def settles(self) -> bool:
        """Whether a sweep trains the cells that decide its answers for longer."""
        return any(info.settle for info in self.infos.values())

    def settle(self, sweeps: Collection[str]) -> Settle:
        """Returns how long deciding cells must be trained that these sweeps settle. The latest of
        them says so. Without one, the default rule holds, with no largest budget."""
        rules = [info.settle for name, info in self.infos.items() if name in sweeps and info.settle]
        if not rules:
            return Settle(most=2**62)  # for which nobody trains
        return Settle(rules[-1]["factor"], int(rules[-1]["least"]), int(rules[-1]["most"]))


def codes(
    choice: Literal["current", "all"], store: Store, named: Sequence[str] | None = None
) -> CodeChoice:
    """Returns what questions need to tell which code's trials count: those of every code, or of the
    code that a sweep would run now, which is looked for only once a question needs it. named: the
    sweeps that are asked about (all if it is empty or None)."""
    if choice == "all":
        return "all"

    sweeps: list[SweepInfo] | None = None

    def current(task: str, model: str) -> str | None:
        nonlocal sweeps
        from sweepd.grid.fingerprint import current_code  # which takes a while

        # A user's class is looked for where its grid was. Who needs a damaged sweep names it.
        if sweeps is None:
            infos = store.readable_sweeps()[0].items()
            about = [info for name, info in infos if not named or name in named]
            sweeps = sorted(about, key=lambda info: info.base)
        for info in sweeps:
            if code := current_code(info.classes_of(task, model), Path(info.base)):
                return code.digest
        return None

    return current
