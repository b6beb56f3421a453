"""Tasks with a chain of thought: rows of `prompt <separator> chain <separator> answer <eos>`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sweepd.tasks._task import (
    BLOCK,
    EOS,
    IGNORE,
    PAD,
    SEP,
    SPECIALS,
    Batch,
    Example,
    HashArray,
    IntArray,
    Split,
    Task,
    estimated_count,
    hash_prompts,
    parts_of,
)

Tokens = str | Sequence[str]
"""Entries of a task's vocab in order, or a single one."""


@dataclass(frozen=True)
class Chains:
    """Rows `prompt, chain of thought, answer, <eos>`, padded with PAD.

    tokens: (B, T) ids. prompts: (B,) tokens up to and including the first separator.
    lengths: (B,) tokens including <eos>.
    """

    tokens: IntArray
    prompts: IntArray
    lengths: IntArray

    def check(self, count: int) -> None:
        """Raises ValueError unless these are `count` rows of the form that the class describes."""
        rows = np.arange(len(self.tokens))
        if not len(rows) == len(self.prompts) == len(self.lengths) == count:
            raise ValueError(f"{count} rows were asked for; tokens are {self.tokens.shape}")
        inside = (self.prompts > 0) & (self.prompts < self.lengths)
        inside &= self.lengths <= self.tokens.shape[1]
        if not inside.all():
            raise ValueError("the task gave prompts that are empty or end outside of their rows")
        if (self.tokens[rows, self.lengths - 1] != EOS).any():
            raise ValueError(f"the task gave rows that do not end in {SPECIALS[EOS]}")

    def batch(self) -> Batch:
        """Returns the rows for next-token prediction. The loss covers what follows the prompt, with
        <eos>."""
        targets = self.tokens[:, 1:].copy()
        position = np.arange(1, self.tokens.shape[1])
        outside = (position < self.prompts[:, None]) | (position >= self.lengths[:, None])
        targets[outside] = IGNORE
        return Batch(self.tokens[:, :-1], targets)

    def without_chain(self, separator: int) -> Chains:
        """Returns the same rows without their chains. The answer, which follows the last separator,
        then comes right behind the prompt."""
        T = self.tokens.shape[1]
        answers = T - (self.tokens[:, ::-1] == separator).argmax(axis=1)
        skipped = answers - self.prompts
        lengths = self.lengths - skipped
        position = np.arange(lengths.max())
        source = position + np.where(position < self.prompts[:, None], 0, skipped[:, None])
        tokens = np.take_along_axis(self.tokens, np.minimum(source, T - 1), axis=1)
        tokens[position >= lengths[:, None]] = PAD
        return Chains(tokens, self.prompts, lengths)


Draw = Callable[["ChainTask", np.random.Generator], tuple[Tokens, Tokens, Tokens]]
Fill = Callable[["ChainTask", np.random.Generator, IntArray], None]


@dataclass(frozen=True)
class ChainTask(Task):
    """A task whose rows are `prompt <separator> chain <separator> answer <eos>`.

    A subclass defines `vocab` (which begins with SPECIALS), `prompt_length`, `chain_length` and
    `draw`. This class makes the rest: padding, the loss mask, and splits that share no prompt. A
    task that needs speed may define `fill` instead of `draw`, which writes whole blocks of rows. A
    class that defines one of the two gets the other one made from it.

    With cot = False rows are `prompt <separator> answer <eos>`, of the same problems.
    """

    cot: bool = field(default=True, kw_only=True)
    """whether rows hold the chain of thought"""

    metrics: ClassVar[Sequence[str] | Mapping[str, str]] = ("acc", "chain_acc", "loss")
    separator: ClassVar[int] = SEP
    """Id of the token that first ends the prompt and last precedes the answer."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = vars(cls).keys() & {"draw", "fill"}
        if own == {"fill"}:
            cls.draw = _draw_by(cls.fill)  # type: ignore[method-assign, assignment]
        elif own == {"draw"}:
            cls.fill = _fill_by(cls.draw)  # type: ignore[method-assign, assignment]

    @property
    @abstractmethod
    def prompt_length(self) -> int:
        """The most tokens of a prompt, with the separator that ends it."""

    @property
    def chain_length(self) -> int:
        """The most tokens of a chain, with the separator that ends it. 0 for a task without
        chains."""
        return 0

    @property
    def answer_length(self) -> int:
        """The most tokens of an answer."""
        return 1

    @property
    def L(self) -> int:  # noqa: N802
        chain = self.chain_length if self.cot else 0
        return self.prompt_length + chain + self.answer_length

    @property
    def capacity(self) -> int:
        return self.L + 1

    def draw(self, rng: np.random.Generator) -> tuple[Tokens, Tokens, Tokens]:
        """Returns one random problem: its prompt, its chain of thought and its answer.

        Each is a sequence of entries of `vocab`, or a single entry, without separators around it
        and without <eos>. A chain may hold separators, and may be empty: the answer then follows
        the prompt. All randomness comes from `rng`.
        """
        raise NotImplementedError

    if not TYPE_CHECKING:  # a type checker does not see that `fill` may take its place
        draw = abstractmethod(draw)

    def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
        """Writes one random row, with its chain, into each row of `tokens` (B, T).

        `tokens` has room for the longest row and arrives filled with PAD.
        """
        raise NotImplementedError

    def _joined(self, drawn: tuple[Tokens, Tokens, Tokens]) -> list[int]:
        """Returns the ids of the row that `draw` gave in parts. Raises ValueError if its parts make
        no row."""
        prompt, chain, answer = parts_of(self, drawn, "prompt", "chain (empty for none)", "answer")
        parts = []
        for name, part, most, ended, free in (
            ("prompt", prompt, self.prompt_length, 1, False),
            ("chain", chain, self.chain_length, 1, True),
            ("answer", answer, self.answer_length, 0, False),
        ):
            several = isinstance(part, Iterable) and not (part and isinstance(part, str))
            ids = self.ids(part if several else [part])
            where = f"{type(self).__name__}.draw: the {name}"
            if not (ids or free):
                raise ValueError(f"{where} is empty")
            if {PAD, EOS, *(() if free else (self.separator,))} & set(ids):
                raise ValueError(f"{where} holds a separator, <pad> or <eos>")
            if ids and len(ids) + ended > most:
                counted = f"{len(ids)} tokens" + ended * ", and its separator"
                raise ValueError(f"{where} has {counted}; {name}_length is {most}")
            parts += ids + [self.separator] * bool(ids and ended)
        return [*parts, EOS]

    def _parts(self, row: IntArray) -> tuple[Tokens, Tokens, Tokens]:
        """Returns the prompt, the chain and the answer of a row of ids."""
        words = self.words(row[: _through_first(row[None], EOS)[0] - 1])
        separator = self.vocab[self.separator]
        first, last = words.index(separator), len(words) - words[::-1].index(separator)
        return words[:first], words[first + 1 : last - 1], words[last:]

    def _block(self, rows: int) -> IntArray:
        """Returns (rows, T) filled with PAD, with room for the longest row."""
        room = self.prompt_length + self.chain_length + self.answer_length + 1
        return np.full((rows, room), PAD, dtype=np.int64)

    def _filled(self, rng: np.random.Generator, tokens: IntArray) -> HashArray:
        """Writes random rows over all of `tokens`. Returns (B,) the hashes of their prompts."""
        tokens[:] = PAD
        self.fill(rng, tokens)
        return hash_prompts(tokens, _through_first(tokens, self.separator))

    def distinct_inputs(self) -> float:
        """Returns an estimate of the number of different prompts (`estimated_count`)."""
        rng = np.random.default_rng(0)
        return estimated_count(self._block(BLOCK), lambda tokens: self._filled(rng, tokens))

    def sample(self, rng: np.random.Generator, count: int, split: Split) -> Chains:
        block = self._block(BLOCK)
        kept = self.drawn(count, split, block, lambda tokens: self._filled(rng, tokens))
        lengths = _through_first(kept, EOS)
        chains = Chains(kept[:, : lengths.max()], _through_first(kept, self.separator), lengths)
        return chains if self.cot else chains.without_chain(self.separator)

    def batch(self, rng: np.random.Generator, count: int, split: Split) -> Batch:
        return self.sample(rng, count, split).batch()

    def examples(self, rng: np.random.Generator, count: int, split: Split) -> Iterator[Example]:
        chains = self.sample(rng, count, split)
        for row, prompt, length in zip(chains.tokens, chains.prompts, chains.lengths, strict=True):
            answer = " ".join(self.words(self.answer(row[: length - 1])))
            yield Example(self.words(row[:length]), answer, int(prompt))

    def answer(self, tokens: Sequence[int] | IntArray) -> tuple[int, ...]:
        """Returns the ids of the answer, which follows the last separator of a row without
        <eos>."""
        ids = [int(token) for token in tokens]
        return tuple(ids[len(ids) - ids[::-1].index(self.separator) :])


def _fill_by(draw: Draw) -> Fill:
    """Returns the `fill` of a class that defines `draw`."""

    def fill(self: ChainTask, rng: np.random.Generator, tokens: IntArray) -> None:
        for row in tokens:
            ids = self._joined(draw(self, rng))
            row[: len(ids)] = ids

    return fill


def _draw_by(fill: Fill) -> Draw:
    """Returns the `draw` of a class that defines `fill`."""

    def draw(self: ChainTask, rng: np.random.Generator) -> tuple[Tokens, Tokens, Tokens]:
        tokens = self._block(1)
        fill(self, rng, tokens)
        return self._parts(tokens[0])

    return draw


def _through_first(tokens: IntArray, token: int) -> IntArray:
    """Returns (B,) the number of tokens of each row up to and including its first `token`."""
    position: IntArray = (tokens == token).argmax(axis=1)
    assert (tokens[np.arange(len(tokens)), position] == token).all(), f"a row without id {token}"
    return position + 1
