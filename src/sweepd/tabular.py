"""Answers as tables: for people as text and HTML, for programs as Arrow, pandas or polars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    files of the store that were skipped, and why.

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
        damaged: Iterable[str] = (),
        text: str | None = None,
        shown: Callable[[], tuple[Sequence[str], Sequence[Row]]] | None = None,
    ) -> None:
        """text or shown: what people see in place of the plain rows, as lines of text, or as
        columns and rows."""
        self.arrow = arrow
        self.notes = tuple(notes)
        self.damaged = tuple(damaged)
        self._text, self._shown = text, shown

    @property
    def columns(self) -> list[str]:
        names: list[str] = self.arrow.column_names
        return names

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, each a dict by column."""
        rows: list[dict[str, Any]] = self.arrow.to_pylist()
        return rows

    def __len__(self) -> int:
        rows: int = self.arrow.num_rows
        return rows

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

        frame = polars.from_arrow(self.arrow)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def __repr__(self) -> str:
        if self._text is not None:
            return self._text
        lines, _ = listing(*self._for_people())
        return lines + self._rest()

    def _repr_html_(self) -> str:
        if self._text is not None:
            return f"<pre>{escape(self._text)}</pre>{_paragraphs(self.notes)}"
        columns, rows = self._for_people()
        sides = {
            name: "left" if any(isinstance(row.get(name), str) for row in rows) else "right"
            for name in columns
        }

        def line(tag: str, texts: Mapping[str, str]) -> str:
            cells = (
                f'<{tag} style="text-align:{side}">{escape(texts[name])}</{tag}>'
                for name, side in sides.items()
            )
            return f"<tr>{''.join(cells)}</tr>"

        head = line("th", {name: name for name in columns})
        body = "".join(line("td", {name: cell(row.get(name)) for name in columns}) for row in rows)
        table = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
        return table + _paragraphs((*self.notes, self._rest()))

    def _for_people(self) -> tuple[Sequence[str], Sequence[Row]]:
        """Returns the columns and the first rows that people see."""
        if self._shown is None:
            return self.columns, self.arrow.slice(0, MOST_SHOWN).to_pylist()
        columns, rows = self._shown()
        return columns, rows[:MOST_SHOWN]

    def _rest(self) -> str:
        more = len(self) - MOST_SHOWN
        return f"\n… and {more} more rows" if more > 0 else ""


def _paragraphs(texts: Iterable[str]) -> str:
    return "".join(f"<p>{escape(text)}</p>" for text in texts if text)


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
