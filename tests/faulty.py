"""A user's own tasks that do the worst things. Grids name one as `faulty.py:Name`, and its field
`fault` says what it does."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch

from sweepd.tasks.base import EOS, IGNORE, Batch, Chains, IntArray, Split
from sweepd.tasks.lis import LIS


class Untellable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even its text can be told")


def fail(error: BaseException) -> NoReturn:
    raise error


def endless(depth: int) -> int:
    return endless(depth + 1)


ERRORS: dict[str, Callable[[], Any]] = {
    "exception": lambda: fail(RuntimeError("on purpose")),
    "odd text": lambda: fail(RuntimeError("\ud800\x00 \x1b[31mred\x1b[0m")),
    "untellable": lambda: fail(Untellable()),
    "long text": lambda: fail(RuntimeError("x" * 10**7)),
    "recursion": lambda: endless(0),
    "host memory": lambda: np.empty(2**50),
    "CUDA memory": lambda: fail(torch.cuda.OutOfMemoryError("CUDA out of memory.")),
}
BATCHES: dict[str, Callable[[Batch], Any]] = {
    "nothing": lambda b: None,
    "text": lambda b: "rubbish",
    "lists": lambda b: Batch(b.inputs.tolist(), b.targets.tolist()),
    "tensors": lambda b: Batch(*map(torch.from_numpy, (b.inputs, b.targets))),  # type: ignore[arg-type]
    "objects": lambda b: Batch(b.inputs.astype(object), b.targets),
    "real ids": lambda b: Batch(b.inputs.astype(np.float32), b.targets),
    "unknown ids": lambda b: Batch(b.inputs + 10**6, b.targets),
    "negative ids": lambda b: Batch(b.inputs - 100, b.targets),
    "unknown targets": lambda b: Batch(b.inputs, np.where(b.targets < 0, b.targets, 10**6)),
    "one dimension": lambda b: Batch(b.inputs[0], b.targets[0]),
    "three dimensions": lambda b: Batch(b.inputs[None], b.targets[None]),
    "short targets": lambda b: Batch(b.inputs, b.targets[:, :-1]),
    "few rows": lambda b: Batch(b.inputs[:1], b.targets[:1]),
    "many rows": lambda b: Batch(np.repeat(b.inputs, 3, 0), np.repeat(b.targets, 3, 0)),
    "no rows": lambda b: Batch(b.inputs[:0], b.targets[:0]),
    "no targets": lambda b: Batch(b.inputs, np.full_like(b.targets, IGNORE)),
    "long rows": lambda b: Batch(np.tile(b.inputs, (1, 50)), np.tile(b.targets, (1, 50))),
    "infinite": lambda b: Batch(b.inputs, np.full(b.targets.shape, np.inf, np.float32)),
    "no numbers": lambda b: Batch(np.full(b.inputs.shape, np.nan, np.float32), b.targets),
}
SAMPLES: dict[str, Callable[[Chains], Any]] = {
    "nothing to check": lambda c: None,
    "few chains": lambda c: Chains(c.tokens[:1], c.prompts[:1], c.lengths[:1]),
    "no chains": lambda c: Chains(c.tokens[:0], c.prompts[:0], c.lengths[:0]),
    "unknown tokens": lambda c: Chains(np.where(c.tokens == EOS, EOS, 10**5), c.prompts, c.lengths),
    "too long": lambda c: Chains(c.tokens, c.prompts, c.lengths + 100),
    "no prompts": lambda c: Chains(c.tokens, c.prompts * 0, c.lengths),
    "one prompt": lambda c: Chains(c.tokens, c.prompts[:1], c.lengths),
    "no end": lambda c: Chains(np.where(c.tokens == EOS, 3, c.tokens), c.prompts, c.lengths),
    "no chains at all": lambda c: Batch(c.tokens, np.full_like(c.tokens, IGNORE)),
}


@dataclass(frozen=True)
class Rubbish(LIS):
    """Fails, or gives what is no batch, or no sample to be checked with."""

    fault: str = "exception"

    def batch(self, rng: np.random.Generator, count: int, split: Split) -> Batch:
        batch = super().batch(rng, count, split)
        if self.fault in ERRORS:
            ERRORS[self.fault]()
        return BATCHES[self.fault](batch) if self.fault in BATCHES else batch

    def sample(self, rng: np.random.Generator, count: int, split: Split) -> Chains:
        chains = super().sample(rng, count, split)
        spoilt = self.fault in SAMPLES and split is not Split.TRAIN
        return SAMPLES[self.fault](chains) if spoilt else chains


def trains() -> bool:
    """Whether this process trains trials. If not, a launch inspects the task there."""
    return "default_worker" in sys.argv[0]


@dataclass(frozen=True)
class LateRubbish(Rubbish):
    """Is harmless where a launch inspects it."""

    def batch(self, rng: np.random.Generator, count: int, split: Split) -> Batch:
        kind = Rubbish if trains() else LIS
        return kind.batch(self, rng, count, split)


@dataclass(frozen=True)
class Flood(LIS):
    """Prints a megabyte at each step."""

    def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
        print("flood " * 2**18)  # noqa: T201
        super().fill(rng, tokens)


def stop_for_good() -> None:
    """Holds Python's lock, so that nothing else in the process runs either."""
    ctypes.PyDLL(None).sleep(10**6)


def starve() -> None:
    """Eats until the kernel kills it, in the memory cgroup that the environment names, if any."""
    group = os.environ.get("STARVE_IN")
    assert group, "this would take down the machine"
    Path(group, "cgroup.procs").write_text(str(os.getpid()))
    eat(sys.maxsize)


def hoard() -> None:
    """Eats as much as the environment says, and waits for Ray to kill it."""
    eat(int(os.environ["HOARD_GIB"]) * 2**30)


def eat(size: int) -> None:
    eaten: list[Any] = []
    while True:
        if len(eaten) * 2**27 < size:
            eaten.append(np.ones(2**24))
        else:
            time.sleep(1)


DEATHS: dict[str, Callable[[], Any]] = {
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "terminated": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "segfault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "quit": lambda: os._exit(0),
    "exit": lambda: sys.exit(0),
    "starved": starve,
    "hoards": hoard,
    "hang": stop_for_good,
    "frozen": lambda: os.kill(os.getpid(), signal.SIGSTOP),
}


@dataclass(frozen=True)
class Deadly(LIS):
    """Takes its worker along, or leaves it hanging: once, if there is a folder for `marks`.

    Where a launch inspects it, it is harmless."""

    fault: str = "killed"
    marks: str = ""

    def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
        mark = Path(self.marks, self.fault)
        if trains() and not (self.marks and mark.exists()):
            if self.marks:
                mark.touch()
            DEATHS[self.fault]()
        super().fill(rng, tokens)
