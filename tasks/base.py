"""What a task is: a seeded distribution of problems, and the rule that keeps its splits apart.

A task is a frozen dataclass; its fields are its parameters (scalars with defaults, so that a
grid may make any of them an axis) and `__post_init__` raises ValueError for impossible values.
This package knows NumPy, numba and this file, nothing else.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Literal, TypeVar, cast, get_args

import numba
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
RealArray = npt.NDArray[np.float32]
HashArray = npt.NDArray[np.uint64]
Rows = npt.NDArray[Any]
"""(B, T): ids (int64) or real numbers (float32)."""
Values = Literal["tokens", "reals"]
F = TypeVar("F", bound=Callable[..., Any])

PAD, SEP, EOS = 0, 1, 2
SPECIALS = ("<pad>", "<sep>", "<eos>")
IGNORE = -1
"""Target at positions that carry no loss; among real numbers that is NaN."""

SHARES = 16
"""Equal shares of hash values that the splits divide among them."""
BLOCK = 256
"""Most rows drawn at a time: they stay in the processor's cache."""


def compiled(function: F) -> F:
    """Compile a row-filling loop to machine code (numba, cached on disk).

    The cache notices changes of the function's own file only: a compiled function may call
    others of its module and `below`, never those of another one.
    """
    return cast(F, numba.njit(cache=True)(function))


@compiled
def below(rng: np.random.Generator, stop: int) -> int:
    """A random integer from 0 to stop - 1; in numba 20 times faster than `rng.integers`.

    Values differ in probability by less than stop / 2**53.
    """
    return int(rng.random() * stop)


def number_words(count: int) -> tuple[str, ...]:
    """Vocabulary entries for the integers 0 to count - 1."""
    return tuple(str(number) for number in range(count))


def as_count(number: int) -> float:
    """An exact count as a float, infinite where a float cannot hold it."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def require_range(task: Task, name: str, least: int, most: int) -> None:
    """ValueError unless the parameter is from `least` to `most`.

    `most` is far above what anyone trains, and below what would exhaust time or memory.
    """
    value = getattr(task, name)
    if not least <= value <= most:
        raise ValueError(f"{name} = {value}: must be from {least} to {most}")


def require_prime(task: Task, name: str) -> None:
    """ValueError unless the parameter is a prime number below 10,000."""
    value = getattr(task, name)
    if not (1 < value < 10_000 and all(value % k for k in range(2, math.isqrt(value) + 1))):
        raise ValueError(f"{name} = {value}: must be a prime number below 10000")


def inverses(p: int) -> IntArray:
    """(p,) the inverse of each number modulo a prime p; 0 for 0, which has none."""
    return np.array([0] + [pow(number, -1, p) for number in range(1, p)])


class Split(Enum):
    """Which inputs a sample may hold, by a hash of the input: no input is in two splits.

    Of 16 equal shares of hash values, training has 14, checks 1 and the test 1.
    """

    TRAIN = range(14)
    CHECK = range(14, 15)
    TEST = range(15, SHARES)


@dataclass(frozen=True)
class Batch:
    """What a model trains on.

    inputs: (B, T) token ids, or real numbers. targets: (B, T) the id (or the real number) to be
    predicted at each position; IGNORE (or NaN) where there is none.
    """

    inputs: Rows
    targets: Rows

    @property
    def scored(self) -> npt.NDArray[np.bool_]:
        """(B, T) whether there is a target."""
        return ~np.isnan(self.targets) if self.targets.dtype.kind == "f" else self.targets != IGNORE

    def check(self, count: int) -> None:
        """ValueError unless these are `count` rows that can be trained on: rubbish must not pass
        for a model that learns nothing, or diverges."""
        shapes = self.inputs.shape, self.targets.shape
        if shapes[0] != shapes[1] or len(self.inputs) != count:
            raise ValueError(f"{count} rows were asked for; inputs and targets are {shapes}")
        if not self.scored.any():
            raise ValueError("the task gave a batch without a target")
        for name, rows in (("inputs", self.inputs), ("targets", self.targets)):
            if rows.dtype.kind == "f" and np.isinf(rows).any():
                raise ValueError(f"the task gave infinite {name}")
        if self.inputs.dtype.kind == "f" and np.isnan(self.inputs).any():
            raise ValueError("the task gave inputs that are no numbers")


@dataclass(frozen=True)
class Example:
    """A row for people to look at.

    tokens: prompt, what is to be predicted, and <eos>. answer: what counts of that, in words.
    prompt_length: how many of the tokens are given.
    """

    tokens: list[str]
    answer: str
    prompt_length: int


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
        """ValueError unless these are `count` rows of the form that this class tells."""
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
        """Next-token prediction; the loss covers what follows the prompt, through <eos>."""
        targets = self.tokens[:, 1:].copy()
        position = np.arange(1, self.tokens.shape[1])
        outside = (position < self.prompts[:, None]) | (position >= self.lengths[:, None])
        targets[outside] = IGNORE
        return Batch(self.tokens[:, :-1], targets)

    def without_chain(self, separator: int) -> Chains:
        """The same rows with the answer, which follows the last separator, behind the prompt."""
        T = self.tokens.shape[1]
        answers = T - (self.tokens[:, ::-1] == separator).argmax(axis=1)
        skipped = answers - self.prompts
        lengths = self.lengths - skipped
        position = np.arange(lengths.max())
        source = position + np.where(position < self.prompts[:, None], 0, skipped[:, None])
        tokens = np.take_along_axis(self.tokens, np.minimum(source, T - 1), axis=1)
        tokens[position >= lengths[:, None]] = PAD
        return Chains(tokens, self.prompts, lengths)


class Task(ABC):
    """A seeded distribution of problems with a size."""

    size_field: ClassVar[str]
    """Name of the parameter that is the task's own knob for size (n, operators, …)."""
    metrics: ClassVar[tuple[str, ...]]
    """What an evaluation reports, and so what a goal may read; a setting may narrow it."""

    @property
    def size(self) -> int:
        return int(getattr(self, self.size_field))

    @property
    @abstractmethod
    def vocab(self) -> tuple[str, ...]:
        """Token strings; the index is the id. Empty where rows are real numbers."""

    @property
    @abstractmethod
    def L(self) -> int:  # noqa: N802 (the field's own name)
        """Largest number of tokens before <eos> (FACTS: the published value where there is one)."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Length bound of any row, <eos> included: what buffers and positions must hold."""

    def words(self, ids: Iterable[int]) -> list[str]:
        """The token strings of ids."""
        vocab = self.vocab
        return [vocab[token] for token in ids]

    @abstractmethod
    def distinct_inputs(self) -> float:
        """Number of different inputs (or an upper bound), to warn when they are too few."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, count: int, split: Split) -> Chains | Batch:
        """`count` (at least 1) rows whose inputs hash into the split, drawn from `rng` alone.

        ValueError if the split holds next to nothing of what the task draws.
        """

    @abstractmethod
    def batch(self, rng: np.random.Generator, count: int, split: Split) -> Batch:
        """The same rows as what a model trains on."""

    @abstractmethod
    def examples(self, rng: np.random.Generator, count: int, split: Split) -> Iterator[Example]:
        """The same rows for people to look at."""

    def drawn(
        self, count: int, split: Split, block: Rows, draw: Callable[[Rows], HashArray]
    ) -> Rows:
        """`count` rows that hash into the split, in the order of drawing.

        `draw` writes a random row into each row of what it is given, which is part of `block`,
        and returns the hashes of their inputs. ValueError if next to none is in the split.
        """
        if count < 1:
            raise ValueError(f"count = {count}: must be at least 1")
        share = len(split.value) / SHARES
        draws_left = 4096 + math.ceil(16 * count / share)
        kept = np.empty((count, block.shape[1]), dtype=block.dtype)
        missing = count
        while missing > 0:
            if draws_left <= 0:
                raise ValueError(
                    f"{self} has too few distinct inputs (at most {self.distinct_inputs():.3g}): "
                    f"hardly any falls into the {split.name.lower()} split; choose a larger setting"
                )
            # Enough in most cases: two standard deviations more than are missing.
            rows = min(BLOCK, math.ceil((missing + 2 * math.sqrt(missing)) / share))
            draws_left -= rows
            draws = block[:rows]
            shares = draw(draws) % np.uint64(SHARES)
            inside = np.flatnonzero(np.isin(shares, split.value))[:missing]
            start = count - missing
            # Straight into place: with its default mode, take would go through a copy.
            np.take(draws, inside, axis=0, out=kept[start : start + len(inside)], mode="clip")
            missing -= len(inside)
        return kept


@dataclass(frozen=True)
class ChainTask(Task):
    """A task whose rows are `prompt <separator> chain <separator> answer <eos>`.

    With cot = False they are `prompt <separator> answer <eos>`, of the same problems.
    """

    cot: bool = field(default=True, kw_only=True)
    """whether rows hold the chain of thought"""

    metrics: ClassVar[tuple[str, ...]] = ("acc", "chain_acc", "loss")
    separator: ClassVar[int] = SEP
    """Id of the token that first ends the prompt and last precedes the answer."""

    @property
    @abstractmethod
    def prompt_length(self) -> int:
        """Most tokens of a prompt, with the separator that ends it."""

    @property
    @abstractmethod
    def chain_length(self) -> int:
        """Most tokens of a chain, with the separator that ends it."""

    @property
    def answer_length(self) -> int:
        """Most tokens of an answer."""
        return 1

    @property
    def L(self) -> int:  # noqa: N802
        chain = self.chain_length if self.cot else 0
        return self.prompt_length + chain + self.answer_length

    @property
    def capacity(self) -> int:
        return self.L + 1

    @abstractmethod
    def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
        """Write one random row, with its chain, into each row of `tokens` (B, T).

        `tokens` has room for the longest row and arrives all PAD.
        """

    def sample(self, rng: np.random.Generator, count: int, split: Split) -> Chains:
        def draw(tokens: IntArray) -> HashArray:
            tokens[:] = PAD
            self.fill(rng, tokens)
            return hash_prompts(tokens, _through_first(tokens, self.separator))

        room = self.prompt_length + self.chain_length + self.answer_length + 1
        kept = self.drawn(count, split, np.empty((BLOCK, room), dtype=np.int64), draw)
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
        """The answer's ids in a row without <eos>: what follows the last separator."""
        ids = [int(token) for token in tokens]
        return tuple(ids[len(ids) - ids[::-1].index(self.separator) :])


@dataclass(frozen=True)
class MemoryTask(Task):
    """A task of a fixed length with a target y_t at every position t that has its memories.

    Inputs x_t are drawn one by one: ids, all equally likely, or, where the vocabulary is empty,
    standard normal numbers. Targets are ids of the same vocabulary, or real numbers.
    """

    length: int = field(default=64, kw_only=True)
    """T, positions in a row"""

    metrics: ClassVar[tuple[str, ...]] = ("acc", "loss")

    def __post_init__(self) -> None:
        require_range(self, "length", 1, 10_000)

    @abstractmethod
    def targets(self, inputs: Rows) -> Rows:
        """The targets of the last positions of each row (B, T); those before lack memories."""

    @property
    def L(self) -> int:  # noqa: N802
        return self.length

    @property
    def capacity(self) -> int:
        return self.length

    def words(self, ids: Iterable[Any]) -> list[str]:
        """The strings of ids or of real numbers."""
        return super().words(ids) if self.vocab else list(map(str, ids))

    def distinct_inputs(self) -> float:
        return as_count(len(self.vocab) ** self.length) if self.vocab else math.inf

    def sample(self, rng: np.random.Generator, count: int, split: Split) -> Batch:
        symbols = len(self.vocab)

        def draw(inputs: Rows) -> HashArray:
            if symbols:
                inputs[:] = rng.integers(symbols, size=inputs.shape)
                bits = inputs
            else:
                rng.standard_normal(dtype=np.float32, out=inputs)
                bits = inputs.view(np.uint32).astype(np.int64)
            return hash_prompts(bits, np.full(len(inputs), self.length))

        block = np.empty((BLOCK, self.length), dtype=np.int64 if symbols else np.float32)
        inputs = self.drawn(count, split, block, draw)
        targets = self.targets(inputs)
        missing = ((0, 0), (self.length - targets.shape[1], 0))
        nothing = IGNORE if symbols else np.nan
        return Batch(inputs, np.pad(targets, missing, constant_values=nothing))

    def batch(self, rng: np.random.Generator, count: int, split: Split) -> Batch:
        return self.sample(rng, count, split)

    def examples(self, rng: np.random.Generator, count: int, split: Split) -> Iterator[Example]:
        """Shown as `inputs <sep> targets <eos>`, with a dot where there is no target. A model
        sees the inputs alone."""
        batch = self.sample(rng, count, split)
        for inputs, targets, scored in zip(batch.inputs, batch.targets, batch.scored, strict=True):
            answer = [
                word if target else "."
                for word, target in zip(self.words(targets), scored, strict=True)
            ]
            prompt = [*self.words(inputs), SPECIALS[SEP]]
            yield Example([*prompt, *answer, SPECIALS[EOS]], " ".join(answer), len(prompt))


@dataclass(frozen=True)
class SumOfMemories(MemoryTask):
    """A task whose target is the sum of M memories: of ids modulo `symbols`, of real numbers
    divided by sqrt(M), so that targets have variance 1."""

    memories: int = 2
    """M"""
    values: Values = field(default="tokens", kw_only=True)
    """what inputs and targets are"""
    symbols: int = field(default=8, kw_only=True)
    """different ids"""

    size_field: ClassVar[str] = "memories"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range(self, "memories", 1, 10_000)
        require_range(self, "symbols", 2, 10_000)
        if self.values not in get_args(Values):
            raise ValueError(f"values = {self.values!r}: must be tokens or reals")
        if self.values == "reals":  # of the class's metrics, which are those of ids
            object.__setattr__(self, "metrics", ("loss",))

    @property
    def vocab(self) -> tuple[str, ...]:
        return number_words(self.symbols) if self.values == "tokens" else ()

    def total(self, memories: Sequence[Rows]) -> Rows:
        """The targets where these are the memories, each (B, T)."""
        found: Rows = np.sum(memories, axis=0)
        if self.values == "tokens":
            return found % self.symbols
        return found / np.float32(np.sqrt(self.memories))


@compiled
def hash_prompts(tokens: IntArray, prompts: IntArray) -> HashArray:
    """(B,) 64-bit hashes of the first prompts[b] ids of each row, and of nothing else.

    The splits rest on these values: changing them makes every stored result incomparable.
    Each id goes through the finaliser of SplitMix64 (Steele, Lea & Flood 2014).
    """
    hashes = np.empty(len(tokens), dtype=np.uint64)
    for row in range(len(tokens)):
        state = np.uint64(prompts[row])
        for column in range(prompts[row]):
            state = (state ^ np.uint64(tokens[row, column])) + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state ^= state >> np.uint64(31)
        hashes[row] = state
    return hashes


def _through_first(tokens: IntArray, token: int) -> IntArray:
    """(B,) how many tokens of each row end with its first `token`."""
    position: IntArray = (tokens == token).argmax(axis=1)
    assert (tokens[np.arange(len(tokens)), position] == token).all(), f"a row without id {token}"
    return position + 1
