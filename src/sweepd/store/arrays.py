"""Arrow columns of Python values. `pa.array` would import pandas, which takes a seventh of a second
and 26 MiB of its own in every worker."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

Numbers = np.ndarray[Any, np.dtype[Any]]

NULL, BOOL, INT, FLOAT, TEXT = pa.null(), pa.bool_(), pa.int64(), pa.float64(), pa.string()
UTC_TIME = pa.timestamp("us")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Returns values as a column of one of the types above. None is null. A time without a zone is
    UTC. Raises TypeError, ValueError or OverflowError for a value that the type cannot hold."""
    there = [value is not None for value in values]
    if kind == NULL:
        if any(there):
            raise TypeError("a column without a type has no value")
        return pa.nulls(len(values))
    nulls = None
    of_kind, filling = _BUFFERS[kind]
    if not all(there):
        nulls = _bits(there)
        values = [filling if value is None else value for value in values]
    return pa.Array.from_buffers(kind, len(values), [nulls, *of_kind(values)])


def whole_numbers(numbers: Numbers) -> pa.Array:
    """Returns whole numbers as a column."""
    buffer = pa.py_buffer(numbers.astype(np.int64))
    return pa.Array.from_buffers(INT, len(numbers), [None, buffer])


def _bits(values: Iterable[bool]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.array([*values], bool), bitorder="little"))


def _of_bools(values: Sequence[Any]) -> list[pa.Buffer]:
    if not {*map(type, values)} <= {bool}:
        raise TypeError("only true and false are wanted")
    return [_bits(values)]


def _of_ints(values: Sequence[Any]) -> list[pa.Buffer]:
    if bool in {*map(type, values)}:
        raise TypeError("true and false are no whole numbers")
    return [pa.py_buffer(array("q", values))]


def _of_floats(values: Sequence[Any]) -> list[pa.Buffer]:
    return [pa.py_buffer(array("d", values))]


def _of_texts(values: Sequence[Any]) -> list[pa.Buffer]:
    text = "".join(values)
    parts = values if text.isascii() else [value.encode() for value in values]
    ends = accumulate(map(len, parts), initial=0)
    return [pa.py_buffer(array("i", ends)), pa.py_buffer(text.encode())]


def _of_times(values: Sequence[Any]) -> list[pa.Buffer]:
    return _of_ints([*map(_microseconds, values)])


def _microseconds(time: object) -> int:
    if not isinstance(time, datetime):
        raise TypeError(f"{time!r} is not a time")
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND


_BUFFERS: dict[pa.DataType, tuple[Callable[[Sequence[Any]], list[pa.Buffer]], object]] = {
    BOOL: (_of_bools, False),
    INT: (_of_ints, 0),
    FLOAT: (_of_floats, 0.0),
    TEXT: (_of_texts, ""),
    UTC_TIME: (_of_times, EPOCH),
}
"""For each type, what makes Arrow's own buffers of values without nulls, and the value that stands
where there is null."""
