"""Answers as tables: for people as text and HTML, for programs as Arrow, pandas or polars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from sweepd.listing import Row, cell, listing

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

MOST_SHOWN = 100
"""The most rows that `repr` and a notebook show."""


class Table:
    """Rows and columns of an answer, with what these alone do not show.

    Any library that speaks the Arrow PyCapsule protocol (pandas, polars, DuckDB, pyarrow) takes a
    table as it is.

    arrow: the same as a `pyarrow.Table`. notes: what to know of the rows, in sentences. damaged:
    files of the store that were skipped, and why. shown: what people see in place of the plain
    rows, as lines of text, or as columns and rows.

    >>> found = Table(table_of(["model", "d"], [{"model": "linear", "d": 8}]))
    >>> found
    model   d
    linear  8
    >>> found[0], found["d"]
    ({'model': 'linear', 'd': 8}, [8])
    """

    def __init__(
        self,
        arrow: pa.Table,
        notes: Sequence[str] = (),
        damaged: Sequence[object] = (),
        shown: str | tuple[Sequence[str], Sequence[Row]] | None = None,
    ) -> None:
        self.arrow, self.notes, self.damaged = arrow, tuple(notes), tuple(map(str, damaged))
        self._given = shown

    @property
    def _shown(self) -> str | tuple[Sequence[str], Sequence[Row]]:
        return self._given or (self.columns, self.arrow.slice(0, MOST_SHOWN).to_pylist())

    @property
    def columns(self) -> list[str]:
        return list(self.arrow.column_names)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, each a dict by column."""
        return list(self.arrow.to_pylist())

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, which: int | str) -> Any:
        """Returns a row by its number, or the values of a column by its name."""
        if isinstance(which, int):
            return self.rows[which]
        return self.arrow.column(which).to_pylist()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.arrow.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        frame: pd.DataFrame = self.arrow.to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Returns the rows as a polars DataFrame. Needs the package polars."""
        import polars

        return polars.DataFrame(self.arrow)

    def __repr__(self) -> str:
        if isinstance(self._shown, str):
            return self._shown
        columns, rows = self._shown
        return listing(columns, rows[:MOST_SHOWN])[0] + self._rest()

    def _repr_html_(self) -> str:
        notes = [*self.notes]
        if isinstance(self._shown, str):
            table = f"<pre>{escape(self._shown)}</pre>"
        else:
            columns, rows = self._shown[0], self._shown[1][:MOST_SHOWN]
            notes += filter(None, [self._rest()])
            lines = [("th", {name: name for name in columns})]
            lines += [("td", {name: cell(row.get(name)) for name in columns}) for row in rows]
            texts = {name for name in columns for row in rows if isinstance(row.get(name), str)}
            table = ""
            for tag, line in lines:
                row = ""
                for name, text in line.items():
                    side = "left" if name in texts else "right"
                    row += f'<{tag} style="text-align:{side}">{escape(text)}</{tag}>'
                table += f"<thead><tr>{row}</tr></thead>" if tag == "th" else f"<tr>{row}</tr>"
            table = f"<table>{table}</table>"
        return table + "".join(f"<p>{escape(note)}</p>" for note in notes)

    def _rest(self) -> str:
        more = len(self) - MOST_SHOWN
        return f"\n… and {more} more rows" if more > 0 else ""


def table_of(columns: Sequence[str], rows: Sequence[Row]) -> pa.Table:
    """Returns rows of plain values as an Arrow table. A column of values that no Arrow type holds
    becomes text."""
    import pyarrow as pa

    arrays = {}
    for name in columns:
        values = [row.get(name) for row in rows]
        try:
            arrays[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            arrays[name] = pa.array([None if v is None else str(v) for v in values])
    return pa.table(arrays)
