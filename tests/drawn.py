"""A slow and obvious way to draw a task's rows: one by one. Tests compare it with the compiled loop
that fills many rows at once."""

from __future__ import annotations

import numpy as np

from sweepd.tasks.base import PAD, ChainTask


def assert_rows_are_equal(fills: ChainTask, draws: ChainTask, seed: int, rows: int = 20) -> None:
    """`fills` writes each row by itself, for what a loop carries from row to row is no law."""
    room = fills.prompt_length + fills.chain_length + fills.answer_length + 1
    fast, slow = (np.full((rows, room), PAD, dtype=np.int64) for _ in range(2))
    rng = np.random.default_rng(seed)
    for row in fast:
        fills.fill(rng, row[None])
    draws.fill(np.random.default_rng(seed), slow)
    assert np.array_equal(fast, slow)
