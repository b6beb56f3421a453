"""The seam between a search and what runs its trials.

A driver hands a search to a runner. `engine` runs trials side by side on Ray Tune, on a laptop as
on a cluster. `in_process` runs them one after the other in the driver's own process. Both take
bundles of trials from the search, tell it how each trial ended, and tell a listener the same events
in the same words. What must survive is in the store, so neither keeps a state of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from sweepd.grid.placement import Placement
from sweepd.grid.trials import Trial
from sweepd.search.base import Search
from sweepd.store.names import attempt_number
from sweepd.store.store import Store


class Listener(Protocol):
    """Is told what happens to the trials, from the driver's thread."""

    def preparing(self, what: str) -> None:
        """Nothing runs now. `what` says in a few words what takes time."""

    def spent(self, dollars: float, an_hour: float) -> None:
        """What the nodes have cost until now, and cost an hour. Another thread calls this."""

    def running(self, trial: Trial, report: dict[str, Any]) -> None:
        """A trial has trained on. `report` has the `step` and the scores of its latest check."""

    def ended(self, trial: Trial, report: dict[str, Any]) -> None:
        """An attempt has ended. `report` has its `status`, its `error` and the scores it has."""

    def lost_ray(self, reason: str) -> NoReturn:
        """Ray has died. Another thread calls this, and it must end the process."""


@dataclass(frozen=True)
class Bundle:
    """What a runner gives to one process at a time: trials of one shape, which could be trained as
    one stack on a card. It holds one trial for now.

    attempts: the number of the attempt that begins, for each trial. Tune copies a bundle and prints
    it, so it stays one object with a short name.
    """

    trials: tuple[Trial, ...]
    attempts: tuple[int, ...]

    @classmethod
    def next(cls, search: Search, launch: int) -> Bundle | None:
        """Returns what is to be run next, or None while there is nothing."""
        trial = search.next()
        if trial is None:
            return None
        return cls((trial,), (attempt_number(launch, search.tries[trial.id]),))

    def __deepcopy__(self, memo: object) -> Bundle:
        return self

    def __repr__(self) -> str:
        return "+".join(trial.id for trial in self.trials)


class Runner(Protocol):
    """Runs the search of these trials to its end, or until `stopping` is set."""

    def __call__(
        self,
        search: Search,
        trials: Sequence[Trial],
        store: Store,
        launch: int,
        placement: Placement,
        listener: Listener,
        stopping: threading.Event,
    ) -> None:
        """launch: its number. Raises EnvironmentFailure if results can't be written. Whatever runs
        is then interrupted."""


def on_ray(
    search: Search,
    trials: Sequence[Trial],
    store: Store,
    launch: int,
    placement: Placement,
    listener: Listener,
    stopping: threading.Event,
) -> None:
    """The runner that runs trials side by side on Ray Tune, which takes seconds to import."""
    listener.preparing("importing Ray")
    from sweepd.run import engine

    engine.run(search, trials, store, launch, placement, listener, stopping)
