"""A training loop of the user's own (`loop: {name: mine.py:Run, …}`), run as the built-in one is.

docs/own.md says what its class gives, and what the object does that its `start` returns. All that
they hand over is checked here. An error names the file and the line of what is wrong.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sweepd.trial.generators import Generators
from sweepd.trial.runs import Check, Result, StepRow
from sweepd.trial.user_values import TOTAL, numbers, shown, unusable

if TYPE_CHECKING:
    from sweepd.grid.metrics import Better
    from sweepd.grid.settings import Stop

VERSION = 1
"""The version of how a loop is run, which is part of the code of its trials."""
METHODS = ("advance", "save", "load")
"""The methods of what `start` returns. The last two may be missing."""


class OwnLoop:
    """The training that a loop's `start` has begun. See `loop.Run`.

    steps: the number of rows after which the run is over; with 0 the loop itself says when. Raises
    Unusable where what the user's code hands over cannot be used.
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
            message = (
                f"returned {shown(self.running)}, which has no `advance()`; return an object whose "
                "`advance()` trains on and returns a row"
            )
            raise unusable(loop, "start", message)
        if has["save"] != has["load"]:
            message = (
                f"returned {shown(self.running)}, which has only one of `save()` and `load(data)`; "
                "give it both, or none"
            )
            raise unusable(loop, "start", message)
        self.can_be_saved = has["save"]
        self.checks: list[Check] = []
        """The rows so far, each of which is also a check."""
        self.total: int | None = None
        """The number of test samples on which the acc of the latest row was counted."""
        self.step = 0
        self.seconds = 0.0
        self.tokens: int | None = None
        self.parent: str | None = None
        self.result: Result | None = None

    @property
    def train_flops(self) -> float | None:
        """The training FLOPs so far, as a share of the whole budget's; None where unknown."""
        if self.flops is None or not (self.steps or self.result):
            return None
        return self.flops * (self.step / self.steps if self.steps else 1.0)

    def advance(self) -> Iterator[StepRow | None]:
        """Trains on and yields the row of each step."""
        while self.result is None:
            began = time.perf_counter()
            with self.generators.at_work():
                given = self.running.advance()
            self.seconds += time.perf_counter() - began
            if given is None:
                if not self.checks:
                    raise unusable(
                        self.running, "advance", "returned None before any row; return at least one"
                    )
                self.result = self._completed()
                return
            scores = numbers(self.running, "advance", given, self.metrics, [TOTAL])
            self.total = int(scores.pop(TOTAL)) if TOTAL in scores else None
            self.step += 1
            self.checks.append(Check(self.step, scores))
            costs = {"seconds": self.seconds, "train_flops": self.train_flops}
            if bad := [name for name, value in scores.items() if not math.isfinite(value)]:
                message = f"reported {bad[0]} = {scores[bad[0]]} at step {self.step}"
                error = unusable(self.running, "advance", message)
                self.result = Result("diverged", error=str(error))
            elif self.step == self.steps or self.stop.spent(0, self.seconds):
                self.result = self._completed()
            yield StepRow(self.step, {**scores, "step": self.step, **costs}, scores)

    def _completed(self) -> Result:
        """Returns the result with the scores of the last row."""
        scores, total = self.checks[-1].scores, self.total
        acc = scores.get("acc")
        correct = round(acc * total) if total and acc is not None else None
        return Result("completed", {**scores, "total": total, "correct": correct})

    def snapshot(self) -> bytes | None:
        """Returns a line of JSON with the run's own state, followed by what the loop's `save()`
        returns. Returns None where the loop has no `save`."""
        if not self.can_be_saved:
            return None
        with self.generators.at_work():
            saved = self.running.save()
        if not isinstance(saved, bytes | bytearray):
            message = (
                f"returned {shown(saved)}; it must return bytes: write to an io.BytesIO and return "
                "its getvalue()"
            )
            raise unusable(self.running, "save", message)
        head = {
            "rows": [row.scores for row in self.checks],
            "total": self.total,
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
        self.checks = [Check(step, scores) for step, scores in enumerate(state["rows"], 1)]
        self.step = len(self.checks)
        self.seconds, self.parent, self.total = state["seconds"], state["parent"], state["total"]
        if self.step and self.step == self.steps:
            self.result = self._completed()
