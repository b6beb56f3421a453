"""All that a task may build on: `from sweepd.tasks.base import ChainTask, SPECIALS, …`.

Tasks know NumPy, numba and this file, nothing else.
"""

from __future__ import annotations

from sweepd.tasks._chains import Chains, ChainTask, Tokens
from sweepd.tasks._memory import MemoryTask, SumOfMemories, Values
from sweepd.tasks._rows import RowTask
from sweepd.tasks._task import (
    BLOCK,
    EOS,
    IGNORE,
    PAD,
    SEP,
    SHARES,
    SPECIALS,
    Batch,
    Example,
    Flags,
    HashArray,
    IntArray,
    RealArray,
    Rows,
    Split,
    Task,
    hash_prompts,
)
from sweepd.tasks._tools import (
    as_count,
    below,
    compiled,
    inverses,
    number_words,
    require_prime,
    require_range,
)

VERSION = 1
__all__ = [
    "BLOCK",
    "EOS",
    "IGNORE",
    "PAD",
    "SEP",
    "SHARES",
    "SPECIALS",
    "Batch",
    "ChainTask",
    "Chains",
    "Example",
    "Flags",
    "HashArray",
    "IntArray",
    "MemoryTask",
    "RealArray",
    "RowTask",
    "Rows",
    "Split",
    "SumOfMemories",
    "Task",
    "Tokens",
    "Values",
    "as_count",
    "below",
    "compiled",
    "hash_prompts",
    "inverses",
    "number_words",
    "require_prime",
    "require_range",
]
