"""Faults for real: a clock that is wrong, a disk that is full, a folder that can't be written."""

from __future__ import annotations

from importlib.resources import files


def faked_clock(offset: str) -> dict[str, str]:
    """Environment of a process whose clock is off, e.g. by `-1d`."""
    library = files("libfaketime") / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
    return {"LD_PRELOAD": str(library), "FAKETIME": offset, "DONT_FAKE_MONOTONIC": "1"}
