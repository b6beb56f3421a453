"""What a row holds: fixed columns of fixed types, and axes, whose types come from their values.

Axes are the fields of task, model, train, evaluate and stop, so files differ in which they have.
Tables are put together by name, and an axis takes the narrowest type that holds all its values:

    null < bool < text        null < whole number < number < text

No value is changed on the way, since whole numbers of axes stay within ±2^53, which a float64
holds exactly. So the result does not depend on which tables were put together first.

Columns are made of Arrow's own buffers. `pa.array` would import pandas, which takes a seventh of a
second and 80 MiB in every worker. To refuse it pandas for that one call would break `pa.array` of a
user's own pandas Series later in the process (tried).
"""

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, reduce
from itertools import accumulate, chain
from typing import Any

import numpy as np
import pyarrow as pa

from sweepd.limits import LARGEST_INT, text_in_column
from sweepd.listing import Row
from sweepd.statuses import STATUSES

Numbers = np.ndarray[Any, np.dtype[Any]]
NULL, BOOL, INT, FLOAT, TEXT = pa.null(), pa.bool_(), pa.int64(), pa.float64(), pa.string()
UTC_TIME = pa.timestamp("us")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
RANGES: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("acc", "chain_acc", "commonest"), (0.0, 1.0)),
    **dict.fromkeys(("started", "ended"), (0, 253_402_300_799_999_999)),
}
"""The least and the greatest value of columns of endings. Times are in microseconds since 1970, up
to the year 9999."""
LONGEST_NAME = 200
"""The most characters of a column's name."""


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Returns values as a column of one of the types above. None is null. A time without a zone is
    UTC. Raises TypeError, ValueError or OverflowError for a value that the type cannot hold."""
    there = [value is not None for value in values]
    types = {type(value) for value in values if value is not None}
    if (kind == NULL and types) or (kind == BOOL and types - {bool}):
        names = ", ".join(sorted(one.__name__ for one in types))
        raise TypeError(f"{kind} does not hold {names}")
    if kind == INT and bool in types:
        raise TypeError("true and false are no whole numbers")
    if kind == NULL:
        return pa.nulls(len(values))
    if kind == BOOL:
        buffers = [_bits(map(bool, values))]
    elif kind == TEXT:
        texts = [b"" if value is None else str.encode(value) for value in values]
        ends = array("i", accumulate(map(len, texts), initial=0))
        buffers = [pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    else:
        if kind == UTC_TIME:
            values = [None if value is None else _microseconds(value) for value in values]
        code = "d" if kind == FLOAT else "q"
        numbers = array(code, (0 if value is None else value for value in values))
        buffers = [pa.py_buffer(numbers)]
    nulls = None if all(there) else _bits(there)
    return pa.Array.from_buffers(kind, len(values), [nulls, *buffers])


def _bits(values: Iterable[bool]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.array([*values], bool), bitorder="little"))


def _microseconds(time: object) -> int:
    if not isinstance(time, datetime):
        raise TypeError(f"{time!r} is not a time")
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND


@dataclass(frozen=True)
class Layout:
    """The columns of one kind of table. First come `before`, then the axes, then `after`."""

    name: str
    before: Mapping[str, pa.DataType]
    after: Mapping[str, pa.DataType]
    key: tuple[str, ...]
    """The columns that together identify a row. They are never null."""
    first_by: str
    """The column that decides among rows of one key. The row with the least value counts, and null
    comes last."""
    filed_by: str
    """The column by whose values rows are asked for. Files are named by it."""
    added: frozenset[str] = frozenset()
    """The fixed columns that were added later. Files that were written before lack them, and they
    are null there."""

    @cached_property
    def fixed(self) -> dict[str, pa.DataType]:
        return {**self.before, **self.after}

    def table(self, rows: Sequence[Row]) -> pa.Table:
        """Returns rows as a table. An absent value is null. Raises ValueError for what a column
        cannot hold, and for a row that lacks a part of its key."""
        types = dict(self.before)
        for name in dict.fromkeys(name for row in rows for name in row):
            if name not in self.fixed:
                types[name] = reduce(_join, (_axis_type(name, row.get(name)) for row in rows))
        types |= self.after
        columns = {}
        for name, kind in types.items():
            values = [row.get(name) for row in rows]
            try:
                if kind == FLOAT:
                    values = [None if value is None else float(value) for value in values]
                elif kind == TEXT:
                    values = [None if value is None else text_in_column(value) for value in values]
                columns[name] = column(values, kind)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise ValueError(f"column {name}, of type {kind}: {error}") from error
        table = pa.table(columns)
        self.check_key(table)
        return table

    def conform(self, table: pa.Table) -> pa.Table:
        """Returns a table from anywhere with this layout's types. Raises ValueError if it is
        something else.

        The table's own metadata is kept.
        """
        self.check_names(table.column_names)
        if missing := self.fixed.keys() - self.added - set(table.column_names):
            raise ValueError(f"not a file of {self.name}: no column {', '.join(sorted(missing))}")
        # An axis may come with another type, such as int8, from a file that others wrote.
        types = {}
        for field in table.schema:
            is_int, is_float = pa.types.is_integer(field.type), pa.types.is_floating(field.type)
            other = INT if is_int else FLOAT if is_float else TEXT
            types[field.name] = field.type if field.type in (NULL, BOOL) else other
        types |= self.fixed
        conforming = _cast(table, types)
        self.check_key(conforming)
        return conforming.replace_schema_metadata(table.schema.metadata)

    def concat(self, tables: Iterable[pa.Table]) -> pa.Table:
        """Returns conforming tables as one, put together by name, always with the fixed columns."""
        by_schema: dict[pa.Schema, list[pa.Table]] = {}
        for table in tables:
            by_schema.setdefault(table.schema.remove_metadata(), []).append(table)
        axes: dict[str, pa.DataType] = {}
        for field in (field for schema in by_schema for field in schema):
            if field.name not in self.fixed:
                axes[field.name] = _join(axes.get(field.name, NULL), field.type)
        types = {**self.before, **axes, **self.after}
        parts = [_cast(pa.concat_tables(part), types) for part in by_schema.values()]
        empty = pa.Table.from_batches([], pa.schema(types.items()))  # pa.array imports pandas
        return pa.concat_tables([empty, *parts]).combine_chunks()

    def unique(self, table: pa.Table) -> pa.Table:
        """Returns one row of each key, which is the one that counts (`first_by`)."""
        if len(_first_rows(table, self.key)) == table.num_rows:
            return table
        table = table.sort_by(self.first_by)
        rows = _first_rows(table, self.key)
        return table.take(pa.Array.from_buffers(INT, len(rows), [None, pa.py_buffer(rows)]))

    def check_names(self, names: Sequence[str]) -> None:
        """Raises ValueError if two columns have one name, which letters' case does not tell apart
        in SQL, or if one is too long or holds what no name does."""
        if len(set(map(str.lower, names))) < len(names):
            twice = [name for name, n in Counter(map(str.lower, names)).items() if n > 1]
            raise ValueError(f"several columns are called {twice[0]}")
        for name in names:
            if not (0 < len(name) <= LONGEST_NAME and name.isprintable()):
                raise ValueError(f"a column is called {name[:LONGEST_NAME]!r}")

    def check_key(self, table: pa.Table) -> None:
        """Raises ValueError if a row lacks a part of its key."""
        for name in self.key:
            if table[name].null_count:
                raise ValueError(f"a row of {self.name} has no {name}")

    def sound(self, table: pa.Table) -> tuple[pa.Table, str]:
        """Returns the rows of a conforming table that can be counted, and what is wrong with the
        others. An ending has one of `STATUSES`, and values in `RANGES`."""
        if "status" not in self.fixed:
            return table, ""
        bad: set[int] = set()
        wrong, statuses = "", table["status"].to_pylist()
        if unknown := set(statuses).difference(STATUSES):
            bad = {row for row, status in enumerate(statuses) if status in unknown}
            wrong = f"a status {min(map(str, unknown))!r}"
        for name, (least, most) in RANGES.items():
            values = chain.from_iterable(map(_numbers, table[name].chunks))
            absurd = {
                i: v for i, v in enumerate(values) if v is not None and (v < least or v > most)
            }
            if absurd:
                bad |= absurd.keys()
                wrong = f"{name} = {min(absurd.values())}"
        if not bad:
            return table, ""
        kept = table.filter(column([row not in bad for row in range(len(table))], BOOL))
        return kept, f"{len(bad)} of its {len(table)} rows do not count: {wrong}"


def _numbers(values: pa.Array) -> list[Any]:
    """Returns numbers, or times in microseconds. (Arrow's own cast takes a while to import.)"""
    if values.type == UTC_TIME:
        values = pa.Array.from_buffers(INT, len(values), values.buffers(), offset=values.offset)
    return list(values.to_pylist())


def _first_rows(table: pa.Table, key: Sequence[str]) -> Numbers:
    """Returns the numbers of the rows before which none has the same key. (Arrow's own grouping,
    and most ways out of Arrow, would import pandas.)"""
    if not table.num_rows:
        return np.arange(0)
    columns = (table[name].combine_chunks() for name in key)
    # The number of a text in a dictionary tells equal texts from unequal ones.
    numbers = [
        np.from_dlpack(one.dictionary_encode().indices if one.type == TEXT else one)
        for one in columns
    ]
    order = np.lexsort(numbers)  # which leaves rows of one key in their order
    differs = [np.diff(number[order]) != 0 for number in numbers]
    return np.sort(order[np.append(True, np.logical_or.reduce(differs))])


def with_doubles(table: pa.Table, names: Collection[str]) -> pa.Table:
    """Returns the table with these columns as doubles. One that it lacks is null, and so is a text
    that is no number, which somebody else has written."""
    for name in names:
        if name in table.column_names and table[name].type == TEXT:
            at = table.column_names.index(name)
            values = [_number(value) for value in table[name].to_pylist()]
            table = table.set_column(at, name, column(values, FLOAT))
    types = {field.name: field.type for field in table.schema}
    return _cast(table, types | dict.fromkeys(names, FLOAT))


def _number(value: str | None) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def _join(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Returns the narrowest type that holds the values of both."""
    if a == b or b == NULL:
        return a
    if a == NULL:
        return b
    return FLOAT if {a, b} == {INT, FLOAT} else TEXT


def _axis_type(name: str, value: object) -> pa.DataType:
    match value:
        case None:
            return NULL
        case bool():
            return BOOL
        case int() if abs(value) <= LARGEST_INT:
            return INT
        case float():
            return FLOAT
        case str():
            return TEXT
        case _:
            raise ValueError(
                f"{name} = {value!r}: an axis holds text, true or false, numbers, "
                "and whole numbers up to 2^53"
            )


def _cast(table: pa.Table, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Returns the columns in the order and types given. A column that the table lacks is null."""
    schema = pa.schema(types.items())
    if table.schema == schema:
        return table
    columns = []
    for name, kind in types.items():
        if name not in table.column_names:
            columns.append(pa.nulls(table.num_rows, kind))
        elif table[name].type == kind:
            columns.append(table[name])
        elif kind == TEXT and table[name].type in (BOOL, INT, FLOAT):
            values = table[name].to_pylist()
            texts = [None if one is None else text_in_column(one) for one in values]
            columns.append(column(texts, TEXT))
        else:  # a float64 takes the nearest number
            columns.append(table[name].cast(kind, safe=kind != FLOAT))
    return pa.table(columns, schema=schema)


_WHO = {"id": TEXT, "trunk": TEXT, "config": TEXT, "code": TEXT}
_WHERE = {"task": TEXT, "model": TEXT, "size": INT, "L": INT, "seed": INT}
_COST = {
    **dict.fromkeys(("params", "flops", "flops_weights", "state_bytes"), INT),
    **dict.fromkeys(("train_bytes", "train_flops"), FLOAT),
}
"""The columns of costs. train_flops is a float64, since it passes 2^63 within the papers' own
grids."""
TRIALS = Layout(
    "trials",
    before={**_WHO, "attempt": INT, "sweep": TEXT, **_WHERE},
    after={
        "status": TEXT,
        **dict.fromkeys(("acc", "loss", "chain_acc"), FLOAT),
        **dict.fromkeys(("correct", "chain_correct", "total", "independent"), INT),
        "commonest": FLOAT,
        **dict.fromkeys(("loss_at", "acc_at"), TEXT),
        **dict.fromkeys(("step", "tokens"), INT),
        **_COST,
        "seconds": FLOAT,
        **dict.fromkeys(("parent", "error", "host", "torch"), TEXT),
        "threads": INT,
        "card": TEXT,
        **dict.fromkeys(("started", "ended"), UTC_TIME),
    },
    key=("id", "attempt"),
    first_by="ended",
    filed_by="config",
    added=frozenset({"card"}),
)
"""The table of endings, with one row for each attempt that ended. `trial.evaluation.Score` says
what the columns of a test score are, from `acc` to `acc_at`. `card` is the kind of GPU on
which it trained, and null on a CPU. `started` and `ended` are UTC. If an attempt wrote its own
ending and was then reported lost, by a row without `ended`, its own ending counts."""
METRICS = Layout(
    "metrics",
    before={"id": TEXT, "attempt": INT, "step": INT},
    after={
        **dict.fromkeys(("loss", "acc", "chain_acc", "lr"), FLOAT),
        "tokens": INT,
        **dict.fromkeys(("seconds", "train_flops"), FLOAT),
    },
    key=("id", "attempt", "step"),
    first_by="seconds",
    filed_by="id",
)
"""The table of learning curves, with one row for each trial, attempt and step. acc is null where no
check was made."""
PLAN = Layout(
    "plan",
    before={"sweep": TEXT, **_WHO, **_WHERE},
    after={**_COST, "on_demand": BOOL},
    key=("sweep", "id"),
    first_by="id",
    filed_by="sweep",
)
"""The table of plans, with one row for each planned trial of a sweep. on_demand: whether the trial
runs only where an answer depends on it."""
