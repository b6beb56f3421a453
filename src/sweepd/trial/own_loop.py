"""A training loop of the user's own (`loop: {name: mine.py:Run, …}`), run as the built-in one is.

What its class gives, and what the object does that its `start` returns, is told in docs/own.md. All
that it hands over is checked here: what is wrong is said with the file and the line.
"""

from __future__ import annotations

import inspect
import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sweepd.errors import UserError
from sweepd.trial.generators import Generators

if TYPE_CHECKING:  # what is imported here is part of the code of every loop's trials
    from sweepd.grid.options import Better
    from sweepd.grid.settings import Stop

TOTAL = "total"
"""What a row may hold besides its metrics."""
LIMITS = {"acc": (0.0, 1.0), "loss": (0.0, math.inf), TOTAL: (0.0, math.inf)}
"""Between which numbers a value lies; any other may be any."""
METHODS = ("advance", "save", "load")
"""Of what `start` returns; the last two may be missing."""
MOST_SHOWN = 60
"""Characters of a wrong value that a message shows."""


@dataclass(frozen=True)
class LoopRow:
    """A row of a loop, at each of its steps. Each is a check."""

    step: int
    seconds: float
    train_flops: float | None
    scores: Mapping[str, float]
    total: int | None
    """on how many test samples acc was counted"""

    def columns(self) -> dict[str, Any]:
        counts = {"step": self.step, "seconds": self.seconds, "train_flops": self.train_flops}
        return {**self.scores, **counts}

    def score(self, metric: str) -> float | None:
        return self.scores.get(metric)


@dataclass(frozen=True)
class LoopResult:
    """How a loop ended: completed, with the scores of its last row, or diverged, without."""

    status: str
    last: LoopRow | None
    error: str | None = None

    def columns(self) -> dict[str, Any]:
        if self.last is None:
            return {}
        scores, total = self.last.scores, self.last.total
        correct = round(scores["acc"] * total) if total and "acc" in scores else None
        return {**scores, "total": total, "correct": correct}


class LoopError(UserError):
    """What the user's code handed over cannot be used. place: file and line of the method that did;
    empty where it was not written in a file."""

    def __init__(self, told: str, place: str) -> None:
        super().__init__(told, place)
        self.told, self.place = told, place

    def __str__(self) -> str:
        return f"{self.place}: {self.told}" if self.place else self.told


class OwnLoop:
    """The training that a loop's `start` has begun. See `loop.Run`.

    steps: after so many rows it is over; 0: when it says so. LoopError for what the user's code
    hands over and cannot be used.
    """

    def __init__(
        self,
        loop: Any,
        metrics: Mapping[str, Better],
        steps: int,
        stop: Stop,
        seed: int,
        flops: float | None,
        device: str,
    ) -> None:
        self.loop, self.metrics, self.steps, self.stop = loop, metrics, steps, stop
        self.flops = flops
        self.generators = Generators(seed)
        with self.generators.at_work():
            self.running = loop.start(seed, device)
        has = {name: callable(getattr(self.running, name, None)) for name in METHODS}
        if not has["advance"]:
            told = f"returned {_shown(self.running)}, which has no `advance()`"
            raise self.wrong(loop, "start", told)
        if has["save"] != has["load"]:
            told = (
                f"returned {_shown(self.running)}, which has only one of `save()` and `load(data)`"
            )
            raise self.wrong(loop, "start", told)
        self.can_be_saved = has["save"]
        self.checks: list[LoopRow] = []
        self.step = 0
        self.seconds = 0.0
        self.tokens: int | None = None
        self.parent: str | None = None
        self.result: LoopResult | None = None

    @property
    def train_flops(self) -> float | None:
        """Training FLOPs so far: a share of those of its whole budget; None where nobody knows."""
        if self.flops is None or not (self.steps or self.result):
            return None
        return self.flops * (self.step / self.steps if self.steps else 1.0)

    def advance(self) -> Iterator[LoopRow | None]:
        """Train on, yielding the row of each step."""
        while self.result is None:
            began = time.perf_counter()
            with self.generators.at_work():
                given = self.running.advance()
            self.seconds += time.perf_counter() - began
            if given is None:
                if not self.checks:
                    raise self.wrong(self.running, "advance", "returned None before any row")
                self.result = LoopResult("completed", self.checks[-1])
                return
            scores = self.read_row(given)
            count = int(scores.pop(TOTAL)) if TOTAL in scores else None
            self.step += 1
            row = LoopRow(self.step, self.seconds, self.train_flops, scores, count)
            self.checks.append(row)
            if bad := [name for name, value in scores.items() if not math.isfinite(value)]:
                told = f"reported {bad[0]} = {scores[bad[0]]} at step {self.step}"
                self.result = LoopResult(
                    "diverged", None, str(self.wrong(self.running, "advance", told))
                )
            elif self.step == self.steps or self.stop.spent(0, self.seconds):
                self.result = LoopResult("completed", row)
            yield row

    def read_row(self, given: object) -> dict[str, float]:
        """What `advance` returned, as numbers by their names."""
        if not isinstance(given, Mapping):
            raise self.wrong(
                self.running,
                "advance",
                f"returned {_shown(given)}; it must return a mapping of its metrics "
                f"({', '.join(self.metrics)}), or None at its end",
            )
        known = {*self.metrics, TOTAL}
        if unknown := [name for name in given if name not in known]:
            more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            told = f"reported {_shown(unknown[0])}{more}, which its `metrics` do not name"
            raise self.wrong(self.running, "advance", told)
        if missing := [name for name in self.metrics if name not in given]:
            raise self.wrong(self.running, "advance", f"did not report {' and '.join(missing)}")
        return {name: self.number(name, value) for name, value in given.items()}

    def number(self, name: str, value: Any) -> float:
        """A value of a row: a number, or what holds a single one, as NumPy's and torch's do."""
        try:
            if isinstance(value, str | bytes | bool):
                raise TypeError
            number = float(value)
        except (TypeError, ValueError, RuntimeError):  # torch's of several numbers
            told = f"reported {name} = {_shown(value)}; it must be one number"
            raise self.wrong(self.running, "advance", told) from None
        if name == TOTAL and not number.is_integer():
            raise self.wrong(self.running, "advance", f"reported {name} = {number}; it is a count")
        low, high = LIMITS.get(name, (-math.inf, math.inf))
        if not math.isnan(number) and not low <= number <= high:
            told = f"reported {name} = {number:g}; it lies between {low:g} and {high:g}"
            raise self.wrong(self.running, "advance", told)
        return number

    def snapshot(self) -> bytes | None:
        """What `save()` returns, behind a line of JSON with the rest; None without `save`."""
        if not self.can_be_saved:
            return None
        with self.generators.at_work():
            saved = self.running.save()
        if not isinstance(saved, bytes | bytearray):
            raise self.wrong(
                self.running, "save", f"returned {_shown(saved)}; it must return bytes"
            )
        head = {
            "rows": [list(vars(row).values()) for row in self.checks],
            "seconds": self.seconds,
            "parent": self.parent,
            "generators": self.generators.to_json(),
        }
        return json.dumps(head).encode() + b"\n" + saved

    def read(self, snapshot: bytes) -> dict[str, Any]:
        head, _, saved = snapshot.partition(b"\n")
        return {**json.loads(head), "saved": saved}

    def passes(self, state: dict[str, Any]) -> bool:
        return not self.stop.spent(0, state["seconds"])

    def restore(self, state: dict[str, Any]) -> None:
        self.generators.from_json(state["generators"])
        with self.generators.at_work():
            self.running.load(state["saved"])
        self.checks = [LoopRow(*row) for row in state["rows"]]
        self.step = len(self.checks)
        self.seconds, self.parent = state["seconds"], state["parent"]
        if self.step and self.step == self.steps:
            self.result = LoopResult("completed", self.checks[-1])

    def wrong(self, owner: Any, method: str, told: str) -> LoopError:
        """An error that says where the method stands which did something wrong."""
        found: Any = getattr(type(owner), method, type(owner))
        told = f"{type(owner).__name__}.{method} {told}"
        try:
            line = inspect.getsourcelines(found)[1]
            return LoopError(told, f"{inspect.getsourcefile(found)}:{line}")
        except (OSError, TypeError):  # what was not written in a file
            return LoopError(told, "")


def _shown(value: object) -> str:
    """A value, shortened, with its kind."""
    try:
        text = repr(value)
    except Exception:  # a user's class may do anything
        text = "a value"
    text = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
    return f"{text} ({type(value).__name__})"
