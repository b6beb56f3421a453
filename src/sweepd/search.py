"""Which trial to try next."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from sweepd.plan import Trial


class GridSearch:
    """Every trial once, in the order given; a failed one again, after the others.

    `next()` hands out a trial, or None when all are out or done; `ended()` takes the outcome.
    """

    def __init__(self, trials: Iterable[Trial], retries: int) -> None:
        self.waiting = deque(trials)
        self.retries = retries
        self.out = 0
        self.tries: Counter[str] = Counter()

    @property
    def finished(self) -> bool:
        return not self.waiting and not self.out

    def next(self) -> Trial | None:
        if not self.waiting:
            return None
        trial = self.waiting.popleft()
        self.out += 1
        self.tries[trial.id] += 1
        return trial

    def ended(self, trial: Trial, status: str) -> None:
        self.out -= 1
        if status == "failed" and self.tries[trial.id] <= self.retries:
            self.waiting.append(trial)
