"""What questions need of a store, and what they read of it first: what is known of its sweeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid.metrics import Better
from sweepd.store.storage import Damaged, Unreachable
from sweepd.store.sweeps import SweepInfo

if TYPE_CHECKING:
    from sweepd.store.tables import Live, Read


class Source(Protocol):
    """What questions need of a store."""

    @property
    def address(self) -> str: ...
    def state(self) -> str | None: ...
    def sweeps(self) -> list[str]: ...
    def load_sweep(self, name: str) -> SweepInfo: ...
    def load_grid(self, name: str) -> str: ...
    def read_plans(self, sweeps: list[str] | None) -> Read: ...
    def read_trials(self, configs: Collection[str] | None = None) -> Read: ...
    def live_metrics(self, ids: Collection[str] | None = None) -> Live: ...


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
        """Returns these sweeps, or the whole store if `sweeps` is None.

        Over the whole store a damaged sweep.json is skipped. If its sweep was asked for by name, it
        raises EnvironmentFailure, as does a place that does not answer. Raises UserError for an
        unknown sweep.
        """
        infos: dict[str, SweepInfo] = {}
        damaged = []
        names = source.sweeps()
        if sweeps is not None:
            names = sorted(set(sweeps), key=lambda name: names.index(name) if name in names else -1)
        for name in names:
            try:
                infos[name] = source.load_sweep(name)
            except Unreachable:
                raise  # nothing is known of it, so an answer without it would be wrong
            except EnvironmentFailure as error:
                if sweeps is not None:
                    raise
                damaged.append(Damaged(f"sweep {name}", str(error)))
        return cls(source, infos, tuple(damaged), sweeps is None)


def own_metrics(infos: Mapping[str, SweepInfo], plan_axes: Collection[str]) -> dict[str, Better]:
    """Returns the metrics of users' own tasks and loops, and which way each is better. Raises
    UserError where sweeps do not agree on one."""
    found: dict[str, Better] = {}
    for sweep, info in infos.items():
        for name, better in info.metrics.items():
            if name in plan_axes or found.get(name, better) != better:
                other = "a field" if name in plan_axes else f"better {found[name]}"
                raise UserError(
                    f"{name} is a metric, better {better}, in sweep {sweep} and {other} in "
                    "another: ask one sweep at a time (--sweep)"
                )
            found[name] = "up" if better == "up" else "down"
    return found
