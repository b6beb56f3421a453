"""Tasks with targets at single positions of a row, each of which counts by itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

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
    alone, and says so: `metrics = ("loss",)`. A task that needs speed may define `fill` instead of
    `draw`, which writes whole blocks of rows.
    """

    metrics: ClassVar[Sequence[str] | Mapping[str, str]] = ("acc", "loss")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = vars(cls).keys() & {"draw", "fill"}
        if own == {"fill"}:
            cls.draw = _draw_by_fill  # type: ignore[method-assign]
        elif own == {"draw"}:  # also where a base class defines `fill`
            cls.fill = RowTask.fill  # type: ignore[method-assign]

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

    def draw(self, rng: np.random.Generator) -> tuple[Inputs, Targets]:
        """Returns one random row: its inputs, and the target of each position, None for none.

        Inputs and targets are entries of `vocab`, or real numbers where there is no vocab. There
        are equally many of both. A target may depend only on the inputs up to its position. All
        randomness comes from `rng`.
        """
        raise NotImplementedError

    if not TYPE_CHECKING:  # a type checker does not see that `fill` may take its place
        draw = abstractmethod(draw)

    def fill(self, rng: np.random.Generator, inputs: Rows, targets: Rows) -> None:
        """Writes one random row into each row of `inputs` (B, T), and the target of each position
        into `targets` (B, T).

        Both hold ids, or real numbers where there is no vocab. `inputs` arrives filled with 0 and
        `targets` with IGNORE (NaN among real numbers).
        """
        for row, wanted in zip(inputs, targets, strict=True):
            drawn, answers = parts_of(self, self.draw(rng), "inputs", "targets")
            if not len(drawn) == len(answers) <= self.length:
                raise ValueError(
                    f"{type(self).__name__}.draw: {len(drawn)} inputs and {len(answers)} targets; "
                    f"there must be equally many, and at most length = {self.length}"
                )
            at = [i for i, answer in enumerate(answers) if answer is not None]
            given: list[Any] = [answers[i] for i in at]
            row[: len(drawn)] = self.ids(drawn) if self.vocab else drawn
            wanted[at] = self.ids(given) if self.vocab else given

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
        self.fill(rng, rows[:, :T], rows[:, T:])
        return hash_inputs(np.ascontiguousarray(rows[:, :T]))


def _draw_by_fill(self: RowTask, rng: np.random.Generator) -> tuple[Inputs, Targets]:
    """The `draw` of a class that defines `fill`."""
    inputs, targets = np.split(self._block(1), 2, axis=1)
    inputs[:], targets[:] = 0, IGNORE if self.vocab else np.nan
    self.fill(rng, inputs, targets)
    [scored] = Batch(inputs, targets).scored
    [given], [wanted] = inputs.tolist(), targets.tolist()
    answers = [target if there else None for target, there in zip(wanted, scored, strict=True)]
    if not self.vocab:
        return given, answers
    return self.words(given), [None if id is None else self.words([id])[0] for id in answers]


def hash_inputs(inputs: Rows) -> HashArray:
    """Returns (B,) 64-bit hashes of whole rows (B, T) of ids or of real numbers."""
    bits = inputs.view(np.uint32).astype(np.int64) if inputs.dtype.kind == "f" else inputs
    return hash_prompts(bits, np.full(len(inputs), inputs.shape[1]))
