"""Tries a program: one trial at the smallest size begins, is ended after a row, and goes on."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import redirect_stdout

from sweepd.check.cases import Finding
from sweepd.errors import UserError
from sweepd.grid.fingerprint import is_program
from sweepd.grid.placement import Resources
from sweepd.grid.plan import plan
from sweepd.grid.spec import Grid
from sweepd.trial.program import ProgramRun
from sweepd.trial.runs import StepRow

MOST_SECONDS = 120.0
"""The most seconds until a row."""
MARK_SECONDS = 2.0
"""The most seconds after the first row until the program has saved itself."""


def tried(grid: Grid) -> Iterator[Finding]:
    """Yields what was seen of each program of a grid. One that fails is tried no further."""
    resources = grid.resources if isinstance(grid.resources, Resources) else Resources()
    for block in grid.blocks["loop"]:
        if not is_program(block.where):
            continue
        ours = (trial for trial in plan(grid).planned if trial.model_name == block.name)
        trial = min(ours, key=lambda trial: (trial.size, trial.effort))
        about = (
            block.name,
            f"size {trial.size}, "
            + ", ".join(f"{name} {value}" for name, value in trial.values.loop.items()),
        )
        first, again = (ProgramRun(trial, grid.base, resources, MOST_SECONDS) for _ in range(2))
        try:
            with redirect_stdout(io.StringIO()):
                row = _row(first)
                until = time.monotonic() + MARK_SECONDS
                while not (first.has_marked or first.result) and time.monotonic() < until:
                    time.sleep(0.01)
                first.stop()
                ended = first.result is not None or (first.guard and first.guard.poll() == 0)
                state = None if ended else first.snapshot()
            scores = ", ".join(f"{name} {value:.4g}" for name, value in row.scores.items())
            yield Finding("rows", *about, True, f"step {row.step}: {scores}")
            if ended:
                told = "it ended before it could be interrupted"
            elif state is None:
                told = f"SIGTERM at step {first.step}: nothing is kept in {{dir}}, it starts anew"
            else:
                with redirect_stdout(io.StringIO()):
                    again.restore(again.read(state))
                    step = _row(again).step
                told = f"SIGTERM at step {first.step}, with {len(state):,} bytes in {{dir}}: "
                told += f"its next row is step {step}"
            yield Finding("goes on", *about, True, told)
        except UserError as error:
            yield Finding("rows", *about, False, str(error))
        finally:
            with redirect_stdout(io.StringIO()):
                first.close()
                again.close()


def _row(run: ProgramRun) -> StepRow:
    """Returns the next row of a program. Raises UserError where none comes."""
    until = time.monotonic() + MOST_SECONDS
    for row in run.advance():
        if row is not None:
            return row
        if time.monotonic() > until:
            break
    raise UserError(
        f"no row within {MOST_SECONDS:g} s" if run.result is None else "it ended without a new row"
    )
