"""The Python API: what the command line does, as functions that return data.

`open` reads a results folder, `plan` says what a grid would cost, `launch` runs it. Errors are
those of `sweepd.errors`: `UserError` for what the caller can mend, `EnvironmentFailure` for the
rest.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sweepd.errors import UserError
from sweepd.tabular import Table, table_of

if TYPE_CHECKING:
    from sweepd.query.database import Answer, Views
    from sweepd.run.launching import Forecast
    from sweepd.store.store import Store

Code = Literal["current", "all"]
Say = Callable[[str], None]


def open(results: str | os.PathLike[str] = "sweepd-results") -> Results:
    """Open a results folder, or an `s3://` or `gs://` address.

    UserError where there is none.
    """
    from sweepd.store.store import Store

    return Results(Store.open(os.fspath(results)))


class Results:
    """What a results folder holds.

    Every method takes `sweep`: the name of one sweep, or several; by default the whole store. Their
    answers are those of the command line, which asks the same functions.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def address(self) -> str:
        return self.store.address

    def query(
        self,
        question: str,
        *,
        sweep: str | Sequence[str] | None = None,
        seeds: str | None = None,
        code: Code = "current",
    ) -> Table:
        """Answer a question (docs/query.md), such as `min d where acc > 0.9`.

        seeds: median, all, any or mean in place of the grid's own rule. code: count the trials of
        the present code only, or all, with `code` as one more group.
        """
        from sweepd.query.answers import answer

        return _table(answer(self._views(sweep, code, seeds), question))

    def sql(
        self, select: str, *, sweep: str | Sequence[str] | None = None, code: Code = "current"
    ) -> Table:
        """The rows of one DuckDB SELECT over the views trials, attempts, metrics, cells, sweeps."""
        return _table(self._views(sweep, code).sql(select))

    def sweeps(self) -> Table:
        """One row a sweep."""
        return self.sql("SELECT * FROM sweeps")

    def trials(self, *, sweep: str | Sequence[str] | None = None, code: Code = "current") -> Table:
        """One row for each trial that ended."""
        return self.sql("SELECT * FROM trials ORDER BY ALL", sweep=sweep, code=code)

    def cells(self, *, sweep: str | Sequence[str] | None = None, code: Code = "current") -> Table:
        """One row for each cell: the trials that differ only in the seed."""
        return self.sql("SELECT * FROM cells ORDER BY ALL", sweep=sweep, code=code)

    def metrics(self, trial: str) -> Table:
        """The learning curve of a trial, by its id or the beginning of it: one row a logged
        step."""
        from sweepd.query.database import literal

        [id_] = self._ids(trial)
        return self.sql(f"SELECT * FROM metrics WHERE id = {literal(id_)} ORDER BY step", code="all")

    def plot(
        self,
        kind: str,
        *,
        sweep: str | Sequence[str] | None = None,
        where: str | None = None,
        of: str = "d",
        along: Literal["L", "size"] = "L",
        cost: str = "train_flops",
        seeds: str | None = None,
        code: Code = "current",
    ) -> Figure:
        """Draw one of the figures of docs/figures.md. A notebook shows it; `save` writes it."""
        from sweepd.figures.kinds import KINDS, Questions

        if kind not in KINDS:
            raise UserError(f"{kind!r}: a figure is one of {', '.join(KINDS)}")
        views = self._views(sweep, code, seeds)
        asked = Questions(views, where=where, of=of, along=along, cost=cost)
        return Figure(kind, asked)

    def __repr__(self) -> str:
        return f"<sweepd results in {self.address}: {len(self.store.sweeps())} sweeps>"

    def _views(
        self, sweep: str | Sequence[str] | None, code: Code, seeds: str | None = None
    ) -> Views:
        from sweepd.query.current import codes
        from sweepd.query.database import connect

        sweeps = [sweep] if isinstance(sweep, str) else sweep
        return connect(self.store, code=codes(code, self.store), sweeps=sweeps, seeds=seeds)

    def _ids(self, trial: str) -> list[str]:
        """The one trial whose id begins like this. UserError if there is none, or several."""
        known = set(self.store.read_plans().table.column("id").to_pylist())
        known |= set(self.store.read_trials().table.column("id").to_pylist())
        return matching(trial, known, self.address)
