"""A store's tables as DuckDB views: trials, attempts, metrics, cells, sweeps.

Plans and endings are read through the store (`reading`). DuckDB then reads them in memory, where
they lie. Large files of metrics it scans through the store (`metrics`). `cells_sql` says how cells
are made out of trials. DuckDB reaches no other file, no network and no other Python object. What a
query changes is gone with the connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import duckdb

from sweepd.errors import EnvironmentFailure, SweepdError, UserError
from sweepd.grid.options import PASS_RULES, Goal
from sweepd.query.cells_sql import (
    GOAL_COST,
    MEASURED,
    OF_RAW,
    OF_TRIALS,
    ScoreDirections,
    cells_sql,
    makers_sql,
    members_sql,
    reached_sql,
    sweeps_sql,
)
from sweepd.query.metrics import attach
from sweepd.query.reading import filled
from sweepd.query.sandbox import copy, interruptible
from sweepd.query.selection import CodeChoice, Selection, Source
from sweepd.store.storage import Damaged

if TYPE_CHECKING:
    import pyarrow as pa

VIEWS = frozenset({"trials", "attempts", "metrics", "cells", "sweeps"})
CELLS = frozenset({"cells"})
MADE = frozenset({"raw", "show", "query", "query_table", "information_schema"})
"""Words of SQL with which a text can reach a view, or the tables behind it, without naming it."""
CATALOG = "duckdb_"
"""The beginning of the functions that list all that there is."""
BATCH = 10_000
"""The number of rows that are in memory at once where rows are read in batches."""


@dataclass(frozen=True)
class Summary:
    """What people read above and below the answer to a `min`."""

    least: str
    """What is minimised, as it was typed."""
    condition: str
    """When a cell passes, in the words of the question. The goal comes first if the question says
    nothing about scores."""
    seeds: str
    """How the outcomes of a cell's seeds are combined, such as `median of 3 seeds`."""
    size_fields: Mapping[str, str]
    """The field that is the size of each task, by task."""
    trials: int
    """How many trials have ended."""
    tried: int
    """How many cells have a trial that has ended."""
    cells: int
    """How many cells the question is about."""
    train_flops: float
    """The training FLOPs of the trials that have ended, each counted from its first step."""


@dataclass(frozen=True)
class Answer:
    """Rows of plain values, by column. `notes` say what the rows alone do not show."""

    columns: list[str]
    rows: list[dict[str, Any]]
    notes: list[str]
    damaged: tuple[Damaged, ...]
    verb: str = ""
    """The question's verb. Empty for the rows of SQL."""
    group: tuple[str, ...] = ()
    """The columns that group the rows of an answer to a question."""
    about: frozenset[str] = frozenset()
    """The scores that the question is about: acc, loss, or metrics of users' own tasks and
    loops."""
    goal: Goal | None = None
    """The question's condition as a goal. None unless it compares one score with a number and asks
    nothing else."""
    make_cells: Callable[[], Sequence[Mapping[str, Any]]] = field(default=tuple, compare=False)
    summary: Summary | None = None
    """None for any verb but `min`."""

    @cached_property
    def cells(self) -> Sequence[Mapping[str, Any]]:
        """What figures need to know of cells. For `min` this is what each cell of the grid says
        (`minima.cell_rows`), for `frontier` the `cell` of each row. Empty for other verbs."""
        return self.make_cells()


@dataclass(frozen=True)
class Views:
    """An in-memory database of the selected sweeps."""

    connection: duckdb.DuckDBPyConnection
    selection: Selection
    code: CodeChoice
    plan_axes: tuple[str, ...]
    trial_axes: tuple[str, ...]
    own: ScoreDirections
    """The metrics of users' own tasks and loops. They are columns of `trials` and scores of
    `cells`."""
    damaged: tuple[Damaged, ...]
    notes: list[str] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    """The errors with which scanned files could not be read."""
    made: set[str] = field(default_factory=set)
    """The names of those of the views `cells` and `sweeps` that have been made so far."""

    @property
    def axes(self) -> tuple[str, ...]:
        """Columns of `cells` that hold fields of task, model, train, evaluate and stop."""
        return tuple(dict.fromkeys(self.plan_axes + self.trial_axes))

    @property
    def by_code(self) -> bool:
        """Whether cells differ by code."""
        return isinstance(self.code, str)

    @cached_property
    def columns(self) -> list[str]:
        """Columns of `cells`."""
        return [name for name in self.raw_columns if name not in OF_RAW]

    @cached_property
    def raw_columns(self) -> list[str]:
        """Columns of `raw.cells`."""
        return list(self.raw_types)

    @cached_property
    def raw_types(self) -> dict[str, str]:
        """DuckDB's types of the columns of `raw.cells`."""
        return {row[0]: row[1] for row in self.fetch("DESCRIBE raw.cells")}

    @property
    def scores(self) -> ScoreDirections:
        """Scores of trials that cells have."""
        known = {**OF_TRIALS, **self.own}
        return {name: better for name, better in known.items() if name in self.raw_columns}

    @property
    def code_column(self) -> list[str]:
        return ["code"] if self.by_code else []

    @property
    def member(self) -> str:
        """The column that tells the members of a cell apart."""
        return "id" if self.by_code else "config"

    @cached_property
    def identity(self) -> list[str]:
        """All columns that tell cells apart."""
        return ["task", "model", "size", "L", *self.code_column, *self.axes]

    @cached_property
    def same(self) -> dict[str, Any]:
        """The columns of `raw.cells` that have one value in all cells, with that value. Null is a
        value too. Empty where there are no cells."""
        columns = zip(*self.fetch("FROM raw.cells"), strict=True)
        by_name = zip(self.raw_columns, columns, strict=False)  # there are none without cells
        return {name: values[0] for name, values in by_name if len(set(values)) == 1}

    @cached_property
    def apart(self) -> tuple[str, ...]:
        """The columns of `identity` that do not have one value in all cells. These alone tell cells
        apart."""
        return tuple(name for name in self.identity if name not in self.same)

    @interruptible()
    def fetch(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Returns all rows of SQL that sweepd wrote itself, with these parameters for its question
        marks. Raises UserError if the values do not allow it (a text plus one)."""
        try:
            self.make_cells()
            with self._only_reading():
                return self.connection.execute(sql, parameters).fetchall()
        except duckdb.Error as error:
            raise _failure(error, str(error).partition("\n")[0]) from None

    def types(self, expressions: Sequence[str]) -> list[str]:
        """Returns DuckDB's types of expressions over `cells`."""
        sql = f"DESCRIBE SELECT {', '.join(expressions)} FROM cells"
        return [row[1] for row in self.fetch(sql)]

    def batches(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        """Yields the rows of SQL that sweepd wrote itself, up to BATCH at a time. Nothing else may
        be asked meanwhile."""
        try:
            with interruptible(), self._only_reading():
                result = self.connection.execute(sql)
                while rows := result.fetchmany(BATCH):
                    yield rows
        except duckdb.Error as error:
            raise _failure(error, str(error).partition("\n")[0]) from None

    def sql(self, text: str) -> Answer:
        """Returns the rows of one SELECT (or DESCRIBE, SHOW, VALUES) over the views. Raises
        UserError if the text is anything else, or if DuckDB refuses it."""

        def rows_of(select: str) -> tuple[list[str], list[tuple[Any, ...]]]:
            result = self.connection.execute(select)
            return [column[0] for column in result.description or ()], result.fetchall()

        columns, rows, damaged = self._select(text, rows_of)
        found = [dict(zip(columns, row, strict=True)) for row in rows]
        return Answer(columns, found, self.notes, damaged)

    def arrow(self, text: str) -> tuple[pa.Table, tuple[Damaged, ...]]:
        """Returns the rows that `sql` finds, as an Arrow table, and the files that were skipped."""

        def table_of(select: str) -> tuple[list[str], pa.Table]:
            result = self.connection.sql(select)  # `execute` would copy all rows first
            return result.columns, result.to_arrow_table()

        columns, table, damaged = self._select(text, table_of)
        return table.rename_columns(columns), damaged

    @interruptible()
    def _select(
        self, text: str, ask: Callable[[str], tuple[list[str], Any]]
    ) -> tuple[list[str], Any, tuple[Damaged, ...]]:
        """Returns the columns of a SELECT, its rows and the files that were skipped.

        No two columns have the same name. ask: runs the SELECT and returns its columns and rows.
        """
        text = text.encode(errors="replace").decode()  # no lone surrogates
        damaged = self.damaged
        try:
            statements = self.connection.extract_statements(text)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise UserError("one SELECT is wanted: sql only reads")
            named = named_views(text)
            if "cells" in named:
                self.make_cells()
            if "sweeps" in named:
                self._make_sweeps()
            damaged += self.prepare(text)
            with self._only_reading():
                names, taken = ask(text)
        except duckdb.Error as error:
            raise _failure(error, str(error)) from None
        columns: list[str] = []
        for name in names:
            while name in columns:
                name += ":1"
            columns.append(name)
        return columns, taken, damaged

    @contextmanager
    def _only_reading(self) -> Iterator[None]:
        """Within this block nothing can be changed, and large files can be scanned."""
        self.connection.execute("BEGIN TRANSACTION READ ONLY")
        try:
            with self._scanning():
                yield
        finally:
            self.connection.execute("ROLLBACK")

    @contextmanager
    def _scanning(self) -> Iterator[None]:
        """Within this block a scanned file that cannot be read raises EnvironmentFailure."""
        self.failures.clear()
        try:
            yield
        except duckdb.Error:
            for error in self.failures:
                gone = f"{error}: deleted while it was read; ask again"
                raise EnvironmentFailure(
                    gone if isinstance(error, FileNotFoundError) else str(error)
                ) from error
            raise

    @interruptible()
    def make_cells(self) -> None:
        """Makes the view `cells`, once, and notes how many trials are left out because another
        code made them."""
        if "cells" in self.made:
            return
        con = self.connection
        among, left_out = "", 0
        con.execute("CREATE TABLE raw.counted (task VARCHAR, model VARCHAR, code VARCHAR)")
        made_by = "SELECT task, model, code, count(*) FROM trials GROUP BY ALL"
        for task, model, code, trials in con.execute(made_by).fetchall():
            if self.selection.counts(task, model, code, self.code):
                con.execute("INSERT INTO raw.counted VALUES (?, ?, ?)", [task, model, code])
            else:
                left_out += trials
        if left_out:
            among = "SEMI JOIN raw.counted USING (task, model, code)"
            self.notes.append(f"left out: {left_out} trials that another code made (--code all)")
        axes = self.plan_axes, self.trial_axes
        con.execute(members_sql(self.identity, *axes, self.member, among))
        self._fill_cells({**MEASURED, **self.own})
        self.made.add("cells")

    def _make_sweeps(self) -> None:
        """Makes the view `sweeps`, once."""
        if "sweeps" not in self.made:
            self.connection.execute(sweeps_sql())
            self.made.add("sweeps")

    @interruptible()
    def prepare(self, text: str) -> tuple[Damaged, ...]:
        """Attaches the metrics if a text names them or GOAL_COST, and returns the files that were
        skipped. This may take long.

        `columns` has GOAL_COST once a text that names it was here.
        """
        if not reads_metrics(text):
            return ()
        source, whole_store = self.selection.source, self.selection.whole_store
        wanted, ids = "SELECT id FROM raw.planned UNION SELECT id FROM trials", None
        parents = "SELECT id, attempt, parent, step FROM"
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS raw.parents AS {parents} attempts")
        if GOAL_COST in _words(text):
            if (
                not self.selection.whole_store
            ):  # a trial that was continued may be in none of these sweeps
                every = self.selection.source.read_trials().table.select(
                    ["id", "attempt", "parent", "step"]
                )
                copy(self.connection, "raw.parents", every)
            wanted = makers_sql(wanted)
        if not whole_store:
            self.connection.execute(f"CREATE OR REPLACE TABLE raw.wanted AS {wanted}")
            found = self.connection.execute("SELECT id FROM raw.wanted").fetchall()
            ids = [row[0] for row in found]
        live = source.live_metrics(ids)
        among = "" if ids is None else "raw.wanted"
        with self._scanning():
            attach(self.connection, live, self.failures, among, tuple(self.own))
        if GOAL_COST in _words(text):
            self.make_cells()
            goals = [info.goal for info in self.selection.infos.values()]
            with self._scanning():
                measured = {**MEASURED, **self.own}
                self.connection.execute(reached_sql(goals, self.member, measured))
            self._fill_cells({**OF_TRIALS, **self.own})
        return live.damaged

    def _fill_cells(self, scores: ScoreDirections) -> None:
        rules = self.connection.execute("SELECT DISTINCT pass FROM raw.rules ORDER BY 1").fetchall()
        known = [row[0] for row in rules] or PASS_RULES
        self.connection.execute(cells_sql(self.identity, self.member, scores, known))
        for name in ("raw_types", "raw_columns", "columns", "same", "apart"):
            self.__dict__.pop(name, None)  # there are other columns now


def reads_metrics(text: str) -> bool:
    """Returns whether a question, or SQL, may need the metrics."""
    return bool(_words(text) & {"metrics", GOAL_COST})


def named_views(text: str) -> Set[str]:
    """Returns the views that a SELECT needs: those that it names, or all where that is not
    certain, for example since it names none."""
    words = _words(text)
    named = words & VIEWS
    looks_around = any(word.startswith(CATALOG) for word in words)
    return VIEWS if not named or looks_around or words & {*MADE, GOAL_COST} else named


def needed_by(question: str) -> Set[str]:
    """Returns the views that a question needs."""
    return VIEWS if reads_metrics(question) else CELLS


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


@interruptible()
def connect(
    source: Source,
    *,
    code: CodeChoice,
    sweeps: Sequence[str] | None = None,
    seeds: str | None = None,
    needed: Set[str] = VIEWS,
) -> Views:
    """Returns the views of some sweeps, or of the whole store.

    `seeds` overrides the pass rule of the grids.

    `needed`: the views that will be asked (`named_views`, `needed_by`). What these do not need is
    not read, and the other views may be missing or empty.

    `cells` are the planned ones and, over the whole store, those of trials that no plan has. A
    trial whose seed is only for close calls, or only confirms what passed, is a member of its cell
    once it is done. One that failed leaves the cell as decided as it was. A cell whose trials are
    all planned on demand is there once one of them is done.

    Raises UserError for an unknown sweep or rule, where sweeps do not agree on a metric, and where
    a field has the name of a column that `cells` has already.
    """
    if seeds is not None and seeds not in PASS_RULES:
        raise UserError(f"seeds = {seeds!r}: a pass rule is one of {', '.join(PASS_RULES)}")
    selection = Selection.of(source, sweeps)
    database = filled(selection, needed, seeds)
    return Views(
        connection=database.connection,
        selection=selection,
        code=code,
        plan_axes=database.plan_axes,
        trial_axes=database.trial_axes,
        own=database.own,
        damaged=database.damaged,
    )


def _failure(error: duckdb.Error, told: str) -> SweepdError:
    """Returns the error that users see in place of one of DuckDB's. told: what it says."""
    if isinstance(error, duckdb.OutOfMemoryException):
        return EnvironmentFailure(f"{told}; ask for less: one sweep (--sweep), or fewer columns")
    return UserError(told)
