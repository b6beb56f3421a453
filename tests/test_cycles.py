"""Python's search for cyclic garbage. It is off during imports, and as before after them. It does
not look again at the objects that the imports made, unless DuckDB is among them."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from sweepd import cycles


@pytest.mark.parametrize("enabled", [True, False])
def test_there_is_no_look_within_imports_even_if_they_fail(enabled: bool) -> None:
    if not enabled:
        gc.disable()
    try:
        with pytest.raises(ImportError), cycles.importing():
            assert not gc.isenabled()
            raise ImportError
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


IMPORTING = """
import gc
from sweepd import cycles
{also}
with cycles.importing():
    import email.message
print(gc.get_freeze_count() > 1000)
"""
LEAVING = """
import atexit, gc
atexit.register(lambda: print(gc.get_freeze_count() > 1000))
from sweepd import cycles
{also}
cycles.look_seldom()
assert gc.get_threshold() == cycles.SELDOM
"""


@pytest.mark.parametrize("program", [IMPORTING, LEAVING])
@pytest.mark.parametrize(("also", "kept"), [("", "True"), ("import duckdb", "False")])
def test_what_is_there_is_not_looked_at_again_unless_duckdb_wants_it(
    program: str, also: str, kept: str
) -> None:
    command = [sys.executable, "-c", program.format(also=also)]
    assert subprocess.check_output(command, text=True).strip() == kept
