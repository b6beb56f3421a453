"""Where the results of an attempt go when its store can't be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sweepd.errors import EnvironmentFailure

if TYPE_CHECKING:
    from sweepd.trial.attempt import Attempt


class Spiller:
    """Saves on this machine what an attempt holds in memory when its store can't be written.

    The next launch on this machine takes what it saved to the store (`sweepd.store.spill`).
    """

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.failure: EnvironmentFailure | None = None

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Guards the block against a store that can't be written. An EnvironmentFailure in it saves
        the attempt on this machine, and is raised with a note of where its results are now. The
        attempt is then over, so every later use raises the failure again."""
        if self.failure:
            raise self.failure
        try:
            yield
        except EnvironmentFailure as error:
            self.failure = EnvironmentFailure(f"{error}; {self._spill()}")
            raise self.failure from error

    def _spill(self) -> str:
        """Saves the attempt on this machine if it has something to save. Returns what has become of
        the trial, for the message."""
        attempt, store = self.attempt, self.attempt.store
        trial = f"trial {attempt.trial.id}"
        if attempt.status is not None or attempt.training is None:
            return f"nothing of {trial} is lost"
        try:
            attempt.store = store.spill_store()
            attempt.save_all()
        except EnvironmentFailure as error:
            return f"{trial} continues from its last checkpoint: {error}"
        return (
            f"{trial} is saved in {attempt.store.address}, and the next launch or resume on this "
            f"machine takes it to {store.address}"
        )
