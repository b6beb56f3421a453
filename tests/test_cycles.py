"""Python looks for cycles of garbage as before once imports are over, and not at what they made."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from sweepd import cycles


@pytest.mark.parametrize("enabled", [True, False])
def test_imports_are_not_looked_at(enabled: bool) -> None:
    if not enabled:
        gc.disable()
    try:
        with pytest.raises(ImportError), cycles.importing():
            assert not gc.isenabled()
            raise ImportError
        assert gc.isenabled() == enabled
        assert gc.get_freeze_count() > 1000
    finally:
        gc.enable()


LEAVING = """
import atexit, gc
atexit.register(lambda: print(gc.get_freeze_count() > 1000))
from sweepd import cycles
{also}
cycles.look_seldom()
assert gc.get_threshold() == cycles.SELDOM
"""


@pytest.mark.parametrize(("also", "frozen"), [("", "True"), ("import duckdb", "False")])
def test_what_is_left_at_the_exit_is_not_looked_at_unless_duckdb_needs_it(
    also: str, frozen: str
) -> None:
    program = [sys.executable, "-c", LEAVING.format(also=also)]
    assert subprocess.check_output(program, text=True).strip() == frozen
