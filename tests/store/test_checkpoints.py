"""The names of checkpoints: a name that is written is read back, and no other name is read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sweepd.store.names import Checkpoint


@given(st.integers(0, 10**9), st.text("0123456789abcdef", min_size=1), st.booleans())
def test_names_are_read_as_they_are_written(step: int, trial: str, kept: bool) -> None:
    checkpoint = Checkpoint(step, trial, kept)
    assert Checkpoint.parse(checkpoint.name) == checkpoint
    for name in (f"{checkpoint.name}x", f"x{checkpoint.name}", checkpoint.name[:-3]):
        assert Checkpoint.parse(name) is None
