"""What a test score is made of: loss and accuracy by position, and how many independent answers
its targets are worth."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
DIGITS = 4
"""The number of significant digits that are stored."""


@dataclass(frozen=True, eq=False)
class Profile:
    """Sums over rows at each position, as arrays (T,). count: the number of targets. loss: the sum
    of their losses. right: how many of them were right."""

    count: Array
    loss: Array
    right: Array

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Profile):
            return NotImplemented
        ours, theirs = (self.count, self.loss, self.right), (other.count, other.loss, other.right)
        return all(map(np.array_equal, ours, theirs))

    __hash__ = None  # type: ignore[assignment]  # sums grow

    @classmethod
    def empty(cls, positions: int) -> Profile:
        return cls(*(np.zeros(positions) for _ in range(3)))

    def add(
        self,
        losses: npt.NDArray[np.floating],
        right: Flags | None,
        scored: Flags,
        first: npt.NDArray[np.intp] | None = None,
    ) -> None:
        """Adds rows: (B, T) losses, whether each target is right, and whether there is a target.

        right: None for real numbers. first: (B,) the position of each row that counts as 0; without
        it, a row's first position does.
        """
        row, at = np.nonzero(scored)
        position = at if first is None else at - first[row]
        np.add.at(self.count, position, 1)
        np.add.at(self.loss, position, losses[row, at])
        if right is not None:
            np.add.at(self.right, position, right[row, at])

    def loss_json(self) -> str:
        """Returns a JSON array of the mean loss at each position. It is null where there is no
        target, or where the mean is not finite."""
        return self._json(self.loss)

    def acc_json(self) -> str:
        """Returns a JSON array of the share of targets that were right at each position. It is for
        targets that are ids."""
        return self._json(self.right)

    def _json(self, sums: Array) -> str:
        last = int(np.flatnonzero(self.count).max(initial=-1)) + 1
        means = [
            float(f"{total / count:.{DIGITS}g}") if count else None
            for total, count in zip(sums[:last], self.count[:last], strict=True)
        ]
        return json.dumps([m if m is not None and np.isfinite(m) else None for m in means])


def worth_of(right: npt.NDArray[np.integer], targets: npt.NDArray[np.integer]) -> int:
    """Returns how many independent answers would have the sampling error of these, which is at most
    the number of targets.

    right, targets: (B,) how many targets of each row are right, and how many it has. The error of
    the share is estimated over rows, which are independent, as in the variance of a ratio of sums
    (Cochran 1977, 6.4). Where all targets are right, or none, the rows do not show how far the
    answers within a row depend on each other. Then each row counts as one answer.
    """
    total, rows = int(targets.sum()), int((targets > 0).sum())
    share = right.sum() / total
    if not 0 < share < 1 or rows < 2:
        return rows
    variance = ((right - share * targets) ** 2).sum() / total**2 * rows / (rows - 1)
    return total if variance == 0 else max(1, min(total, int(share * (1 - share) / variance)))
