"""Tasks with targets at single positions of a row, each of which counts by itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sweepd.tasks._task import (
    BLOCK,
    EOS,
    IGNORE,
    SEP,
    SPECIALS,
    Batch,
    Example,
    HashArray,
    Rows,
    Split,
    Task,
    estimated_count,
    hash_prompts,
    parts_of,
)

Inputs = Sequence[str] | Sequence[float]
Targets = Sequence[str | None] | Sequence[float | None]


@dataclass(frozen=True)
class RowTask(Task):
    """A task of rows of inputs, with a target at some positions.

    A subclass defines `vocab` (empty where rows are real numbers), `length` and `draw`. This class
    makes the rest: padding, the loss mask, and splits that share no row of inputs. `acc` is the
    share of targets that the model predicts at their positions. A task of real numbers has the loss
    alone, and says so: `metrics = ("loss",)`.
    """

    metrics: ClassVar[Sequence[str] | Mapping[str, str]] = ("acc", "loss")

    @property
    @abstractmethod
    def length(self) -> int:
        """The most positions of a row."""

    @property
    def L(self) -> int:  # noqa: N802
        return self.length

    @property
    def capacity(self) -> int:
        return self.length

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> tuple[Inputs, Targets]:
        """Returns one random row: its inputs, and the target of each position, None for none.

        Inputs and targets are entries of `vocab`, or real numbers where there is no vocab. There
        are equally many of both. A target may depend only on the inputs up to its position. All
        randomness comes from `rng`.
        """

    def words(self, ids: Iterable[Any]) -> list[str]:
        """Returns the strings of ids or of real numbers."""
        return super().words(ids) if self.vocab else list(map(str, ids))

    def distinct_inputs(self) -> float:
        """Returns an estimate of the number of different rows of inputs (`estimated_count`)."""
        rng = np.random.default_rng(0)
        return estimated_count(self._block(BLOCK), lambda rows: self._filled(rng, rows))

    def sample(self, rng: np.random.Generator, count: int, split: Split) -> Batch:
        kept = self.drawn(count, split, self._block(BLOCK), lambda rows: self._filled(rng, rows))
        inputs, targets = np.split(kept, 2, axis=1)
        return Batch(np.ascontiguousarray(inputs), np.ascontiguousarray(targets))

    def batch(self, rng: np.random.Generator, count: int, split: Split) -> Batch:
        return self.sample(rng, count, split)

    def examples(self, rng: np.random.Generator, count: int, split: Split) -> Iterator[Example]:
        """Yields rows as `inputs <sep> targets <eos>`, with a dot where there is no target. A model
        sees the inputs alone."""
        batch = self.sample(rng, count, split)
        for inputs, targets, scored in zip(batch.inputs, batch.targets, batch.scored, strict=True):
            answer = [
                self.words([target])[0] if there else "."
                for target, there in zip(targets, scored, strict=True)
            ]
            prompt = [*self.words(inputs), SPECIALS[SEP]]
            yield Example([*prompt, *answer, SPECIALS[EOS]], " ".join(answer), len(prompt))

    def _block(self, rows: int) -> Rows:
        """Returns (rows, 2T) with room for inputs and, behind them, targets."""
        return np.empty((rows, 2 * self.length), dtype=np.int64 if self.vocab else np.float32)

    def _filled(self, rng: np.random.Generator, rows: Rows) -> HashArray:
        """Writes random inputs and targets over all of `rows`. Returns (B,) the inputs' hashes."""
        T = self.length
        rows[:, :T], rows[:, T:] = 0, IGNORE if self.vocab else np.nan
        for row in rows:
            inputs, targets = parts_of(self, self.draw(rng), "inputs", "targets")
            if not len(inputs) == len(targets) <= T:
                raise ValueError(
                    f"{type(self).__name__}.draw: {len(inputs)} inputs and {len(targets)} targets; "
                    f"there must be equally many, and at most length = {T}"
                )
            at = [i for i, target in enumerate(targets) if target is not None]
            wanted: list[Any] = [targets[i] for i in at]
            row[: len(inputs)] = self.ids(inputs) if self.vocab else inputs
            row[T:][at] = self.ids(wanted) if self.vocab else wanted
        return hash_inputs(np.ascontiguousarray(rows[:, :T]))


def hash_inputs(inputs: Rows) -> HashArray:
    """Returns (B,) 64-bit hashes of whole rows (B, T) of ids or of real numbers."""
    bits = inputs.view(np.uint32).astype(np.int64) if inputs.dtype.kind == "f" else inputs
    return hash_prompts(bits, np.full(len(inputs), inputs.shape[1]))
