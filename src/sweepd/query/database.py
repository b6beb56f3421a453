"""A store's tables as DuckDB views: trials, attempts, metrics, cells, sweeps.

Plans and endings are read through the store and copied into DuckDB. Large files of metrics it
scans through the store (`metrics`). `cells_sql` says how cells are made out of trials. DuckDB
reaches no other file, no network and no other Python object. Nothing outlives the connection.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid.options import OF_CELLS, PASS_RULES, Goal
from sweepd.limits import text_in_column
from sweepd.query import cells_sql
from sweepd.query.cells_sql import GOAL_COST, MEASURED, OF_TRIALS, ScoreDirections
from sweepd.query.evidence import lay_out
from sweepd.query.metrics import attach
from sweepd.query.sandbox import copy, interruptible, sandbox
from sweepd.query.selection import CodeChoice, Selection, Source
from sweepd.store.endings import parted
from sweepd.store.schema import BOOL, METRICS, PLAN, TRIALS, column, with_doubles
from sweepd.store.storage import Damaged
from sweepd.store.sweeps import SweepInfo
from sweepd.store.tables import Read

VIEWS = frozenset({"trials", "attempts", "metrics", "cells", "sweeps"})
CELLS = frozenset({"cells"})
_OF_METRICS = frozenset({"metrics", GOAL_COST})
"""Words of a text that needs the metrics."""
_LOOKS_AROUND = re.compile(r"\b(raw|show|query|query_table|information_schema|duckdb_\w*)\b")
"""Words of SQL with which a text can reach a view, or the tables behind it, without its name."""
BATCH = 10_000
"""The number of rows that are in memory at once where rows are read in batches."""
Curve = Sequence[tuple[int, float]]
"""A learning curve, as steps and the score at each of them."""
_OWN = frozenset({*OF_CELLS, *cells_sql.SCORES})
"""The columns of `raw.cells` that are neither axes nor columns of trials. No axis is named so."""


class Summary(NamedTuple):
    """What people read above and below the answer to a `min`.

    asked: such as `Least d with acc > 0.9`. seeds: how the outcomes of a cell's seeds are combined,
    such as `median of 3 seeds`. size_fields: the field that is the size of each task, by task. ran:
    how many trials have ended, in how many of the cells, and their training FLOPs, each trial's
    counted from its first step.
    """

    asked: str
    seeds: str
    size_fields: Mapping[str, str]
    ran: str


@dataclass(frozen=True)
class Answer:
    """Rows of plain values, by column. `notes` say what the rows alone do not show.

    An answer to a question has more than one of SQL. verb: the question's. group: the columns that
    group its rows. about: the scores that it is about: acc, loss, or metrics of users' own tasks
    and loops. goal: its condition as a goal. None unless it compares one score with a number and
    asks nothing else. find_cells: finds `cells`. summary: None for any verb but `min`.
    """

    columns: list[str]
    rows: list[dict[str, Any]]
    notes: list[str]
    damaged: tuple[Damaged, ...]
    verb: str = ""
    group: tuple[str, ...] = ()
    about: frozenset[str] = frozenset()
    goal: Goal | None = None
    find_cells: Callable[[], Iterable[Mapping[str, Any]]] = field(default=tuple, compare=False)
    summary: Summary | None = None

    @cached_property
    def cells(self) -> Sequence[Mapping[str, Any]]:
        """What figures need to know of cells. For `min` this is what each cell of the grid says
        (`minima.cell_rows`), for `frontier` the `cell` of each row. Empty for other verbs."""
        return tuple(self.find_cells())


@dataclass(frozen=True)
class Views:
    """An in-memory database of the selected sweeps.

    own: the metrics of users' own tasks and loops, which are columns of `trials` and scores of
    `cells`. failures: the errors with which scanned files could not be read. made: has
    `cells` once that view was made.
    """

    connection: duckdb.DuckDBPyConnection
    selection: Selection
    code: CodeChoice
    plan_axes: tuple[str, ...]
    trial_axes: tuple[str, ...]
    own: ScoreDirections
    damaged: tuple[Damaged, ...]
    notes: list[str] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    made: set[str] = field(default_factory=set)

    @property
    def axes(self) -> tuple[str, ...]:
        """Columns of `cells` that hold fields of task, model, train, evaluate and stop."""
        return tuple(dict.fromkeys(self.plan_axes + self.trial_axes))

    @cached_property
    def raw_types(self) -> dict[str, str]:
        """DuckDB's types of the columns of `raw.cells`."""
        return {row[0]: row[1] for row in self.fetch("DESCRIBE raw.cells")}

    @property
    def columns(self) -> list[str]:
        """Columns of `cells`."""
        return [name for name in self.raw_types if name not in cells_sql.OF_RAW]

    @property
    def code_column(self) -> list[str]:
        """`code` where cells differ by it."""
        return ["code"] if isinstance(self.code, str) else []

    @property
    def member(self) -> str:
        """The column that tells the members of a cell apart."""
        return "id" if self.code_column else "config"

    @cached_property
    def identity(self) -> list[str]:
        """All columns that tell cells apart."""
        return ["task", "model", "size", "L", *self.code_column, *self.axes]

    def fetch(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Returns all rows of SQL that sweepd wrote itself, with these parameters for its question
        marks. Raises UserError if the values do not allow it (a text plus one)."""
        with _told_plainly(whole=False):
            self.make_cells()
            with self._only_reading():
                return self.connection.execute(sql, parameters).fetchall()

    def arrays(self, sql: str) -> Mapping[str, Any]:
        """Returns the rows of SQL as `fetch` does, as one NumPy array for each column. No value may
        be null."""
        with _told_plainly(whole=False), self._only_reading():
            return self.connection.execute(sql).fetchnumpy()

    def types(self, *expressions: str) -> list[str]:
        """Returns DuckDB's types of expressions over `cells`."""
        described = self.fetch(f"DESCRIBE SELECT {', '.join(expressions)} FROM cells")
        return [row[1] for row in described]

    def rows(self, view: str, names: Sequence[str], order: str) -> Iterator[Mapping[str, Any]]:
        """Yields the rows of a view with these columns, of which BATCH are fetched at a time.
        Nothing may be asked meanwhile."""
        selected = ", ".join(map(cells_sql.quoted, names))
        with _told_plainly(whole=False), self._only_reading():
            result = self.connection.execute(f"SELECT {selected} FROM {view} ORDER BY {order}")
            while rows := result.fetchmany(BATCH):
                yield from (dict(zip(names, row, strict=True)) for row in rows)

    def sql(self, text: str) -> Answer:
        """Returns the rows of one SELECT (or DESCRIBE, SHOW, VALUES) over the views. Raises
        UserError if the text is anything else, or if DuckDB refuses it."""
        run = self.connection.execute  # which says where a mistake is
        columns, rows, damaged = self._select(text, run, lambda found: found.fetchall())
        by_column = [dict(zip(columns, row, strict=True)) for row in rows]
        return Answer(columns, by_column, self.notes, damaged)

    def arrow(self, text: str) -> tuple[pa.Table, tuple[Damaged, ...]]:
        """Returns the rows that `sql` finds, as an Arrow table, and the files that were skipped."""
        run = self.connection.sql  # `execute` would copy all rows first
        columns, table, damaged = self._select(text, run, lambda found: found.to_arrow_table())
        return table.rename_columns(columns), damaged

    def _select(
        self, text: str, run: Callable[[str], Any], take: Callable[[Any], Any]
    ) -> tuple[list[str], Any, tuple[Damaged, ...]]:
        """The columns of a SELECT, all named apart, its rows by `take`, and skipped files."""
        text = text.encode(errors="replace").decode()  # no lone surrogates
        with _told_plainly(whole=True):
            statements = self.connection.extract_statements(text)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise UserError("one SELECT is wanted: sql only reads")
            named = named_views(text)
            if "cells" in named:
                self.make_cells()
            damaged = (*self.damaged, *self.prepare(text))
            with self._only_reading():
                result = run(text)
                names = [column[0] for column in result.description or ()]
                rows = take(result)
        columns: list[str] = []
        for name in names:
            while name in columns:
                name += ":1"
            columns.append(name)
        return columns, rows, damaged

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
                gone = ": deleted while it was read; ask again"
                is_gone = isinstance(error, FileNotFoundError)
                raise EnvironmentFailure(f"{error}{gone if is_gone else ''}") from error
            raise

    @interruptible()
    def make_cells(self) -> None:
        """Makes the view `cells`, once. Notes how many trials of other codes are left out."""
        if "cells" in self.made:
            return
        con = self.connection
        among, left_out = "", 0
        con.execute("CREATE TABLE raw.counted (task VARCHAR, model VARCHAR, code VARCHAR)")
        made_by = "SELECT task, model, code, count(*) FROM trials GROUP BY ALL"
        for task, model, code, trials in con.execute(made_by).fetchall():
            if self._counts(task, model, code):
                con.execute("INSERT INTO raw.counted VALUES (?, ?, ?)", [task, model, code])
            else:
                left_out += trials
        if left_out:
            among = "SEMI JOIN raw.counted USING (task, model, code)"
            self.notes.append(f"left out: {left_out} trials that another code made (--code all)")
        axes = self.plan_axes, self.trial_axes
        con.execute(cells_sql.members_sql(self.identity, *axes, self.member, among))
        lay_out(con, self.identity, self.member, {**MEASURED, **self.own})
        self.made.add("cells")

    def _counts(self, task: str, model: str, code: str) -> bool:
        """Returns whether a code's trials count: that of the present code, or, of sweeps that were
        asked for by name, the code that the newest of them planned. Notes where these differ."""
        if isinstance(self.code, str):
            return True
        present, infos = self.code(task, model), self.selection.infos.values()
        wanted = {present}
        if not self.selection.whole_store and (plans := self._planned_codes.get((task, model))):
            planned = next((codes for codes in plans if present in codes), plans[0])
            if present not in {None, *planned}:
                note = f"the code of {model} on {task} has changed since: these are the trials that"
                note += " the sweep planned (`sweepd launch` runs the present code)"
                self.notes.extend([] if note in self.notes else [note])
            wanted = {*planned}
        return bool({None, code} & wanted) or any(
            info.accepts(code, counted) for info in infos for counted in wanted if counted
        )

    @cached_property
    def _planned_codes(self) -> Mapping[tuple[str, str], Sequence[Set[str]]]:
        """The codes with which each task and model is planned, a set for each sweep, the newest
        first."""
        plans: defaultdict[tuple[str, str], list[Set[str]]] = defaultdict(list)
        planned = """SELECT plan.task, plan.model, list(DISTINCT plan.code) FROM raw.planned AS plan
            JOIN raw.sweeps AS s ON plan.sweep = s.name
            GROUP BY plan.task, plan.model, s.number ORDER BY s.number DESC"""
        for task, model, codes in self.connection.execute(planned).fetchall():
            plans[task, model].append(set(codes))
        return plans

    @interruptible()
    def prepare(self, text: str) -> tuple[Damaged, ...]:
        """Attaches the metrics if a text names them or GOAL_COST, which `columns` has from then on.
        Returns the files that were skipped. This may take long."""
        if not (words := _words(text) & _OF_METRICS):
            return ()
        con, source = self.connection, self.selection.source
        whole_store, ids = self.selection.whole_store, None
        wanted = "SELECT id FROM raw.planned UNION SELECT id FROM trials"
        parents = ["id", "attempt", "parent", "step"]
        own = f"SELECT {', '.join(parents)} FROM attempts"
        con.execute(f"CREATE TABLE IF NOT EXISTS raw.parents AS {own}")
        if GOAL_COST in words:
            if not whole_store:  # a trial that was continued may be in none of these sweeps
                copy(con, "raw.parents", source.read_trials().table.select(parents))
            # Of these trials, and of all whose checkpoints they have continued.
            more = "SELECT parent FROM ids JOIN raw.parents USING (id) WHERE parent IS NOT NULL"
            wanted = f"WITH RECURSIVE ids AS ({wanted} UNION {more}) FROM ids"
        if not whole_store:
            con.execute(f"CREATE OR REPLACE TABLE raw.wanted AS {wanted}")
            ids = [row[0] for row in con.execute("SELECT id FROM raw.wanted").fetchall()]
        live = source.live_metrics(ids)
        among = "" if ids is None else "raw.wanted"
        with self._scanning():
            attach(con, live, self.failures, among, tuple(self.own))
        if GOAL_COST in words:
            self.make_cells()
            goals, scores = (info.goal for info in self.selection.infos.values()), self.own
            with self._scanning():
                con.execute(cells_sql.reached_sql(goals, self.member, {**MEASURED, **scores}))
            lay_out(con, self.identity, self.member, {**OF_TRIALS, **scores})
            self.__dict__.pop("raw_types", None)
        return live.damaged


def named_views(text: str) -> Set[str]:
    """Returns the views that a SELECT needs: those that it names, or all where that is not
    certain, for example since it names none."""
    named = _words(text) & VIEWS
    unsure = _LOOKS_AROUND.search(text.lower()) or GOAL_COST in _words(text)
    return VIEWS if not named or unsure else named


def needed_by(question: str) -> Set[str]:
    """Returns the views that a question needs."""
    return VIEWS if _words(question) & _OF_METRICS else CELLS


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
    """Returns the views of some sweeps, or of the whole store. `seeds` overrides the pass rule of
    the grids.

    `needed`: the views that will be asked (`named_views`, `needed_by`). What these do not need is
    not read, and the other views may be missing or empty.

    Of named sweeps, the trials are those that these have planned, now or with an earlier code.
    `cells` are the planned ones and, over the whole store, those of trials that no plan has. Where
    all trials of a cell are planned on demand, it is there once one of them is done. A trial whose
    seed is only for close calls, or only confirms a pass, is a member once it is done.

    Raises UserError for an unknown sweep or rule, where sweeps do not agree on a metric, and where
    a field has the name of a column that `cells` has already, or of another field in another case.
    """
    if seeds is not None and seeds not in PASS_RULES:
        raise UserError(f"seeds = {seeds!r}: a pass rule is one of {', '.join(PASS_RULES)}")
    selection = Selection.of(source, sweeps)
    infos, whole_store = selection.infos, selection.whole_store
    plans, trials = Read(PLAN.concat([]), ()), Read(TRIALS.concat([]), ())
    of_cells = not whole_store or bool(needed & {"cells", "sweeps"})
    of_trials = of_cells or needed != {"metrics"}
    # Only the plans tell a metric of a user's own from another sweep's field of that name.
    if of_cells or (of_trials and any(info.metrics for info in infos.values())):
        plans = source.read_plans(None if whole_store else list(infos))
    planned = plans.table
    if of_trials:
        trials = source.read_trials(None if whole_store else set(planned["config"].to_pylist()))
    planned, ended = _filled([planned, trials.table], infos.values())
    if not whole_store:
        ended = ended.filter(column(selection.has_planned(planned, ended), BOOL))
        # The endings of other sweeps lay in the same files, and a field of theirs may have the name
        # of one of these in another spelling.
        spellings = Counter(map(str.lower, {*ended.column_names, *planned.column_names}))
        doubtful = [name for name in ended.column_names if spellings[name.lower()] > 1]
        ended = ended.drop([name for name in doubtful if ended[name].null_count == ended.num_rows])

    plan_axes = tuple(name for name in planned.column_names if name not in PLAN.fixed)
    own = selection.own_metrics(plan_axes)
    known = TRIALS.fixed.keys() | own.keys()
    trial_axes = tuple(name for name in ended.column_names if name not in known)
    if taken := _OWN.intersection((*plan_axes, *trial_axes)):
        raise UserError(
            f"fields named {', '.join(sorted(taken))}: `cells` has such columns; rename them"
        )
    spelled: dict[str, str] = {}
    for name in (*PLAN.fixed, *TRIALS.fixed, *plan_axes, *trial_axes, *own):
        if (other := spelled.setdefault(name.lower(), name)) != name:
            raise UserError(
                f"{other} and {name}: fields and metrics of these names are one column to SQL; ask "
                "one sweep at a time (--sweep)"
            )

    # `trials` has the ending of each trial that counts, `raw.superseded` the other endings.
    con = sandbox()
    copy(con, "raw.planned", planned)
    unscored = {n: ended[n].null_count for n in own if n in ended.column_names}
    ended = with_doubles(ended, own)
    notes = [
        f"left out: {name} of {texts} endings, which is a text and no number"
        for name, nulls in unscored.items()
        if (texts := ended[name].null_count - nulls)
    ]
    counting, superseded = parted(ended)
    copy(con, "trials", counting)
    copy(con, "raw.superseded", superseded)
    con.execute("CREATE VIEW attempts AS FROM trials UNION ALL FROM raw.superseded")
    if "metrics" in needed:  # which `prepare` replaces
        attach(con, Read(METRICS.concat([])), [], own=tuple(own))
    con.execute(
        "CREATE TABLE raw.sweeps (number BIGINT, name VARCHAR, created VARCHAR, goal VARCHAR, "
        "pass VARCHAR, search VARCHAR, extra_seeds BIGINT[], fresh_seeds BIGINT[], settles BOOLEAN)"
    )
    for number, (name, info) in enumerate(infos.items()):  # from the oldest sweep
        row = (number, name, info.created, info.goal, seeds or info.pass_rule, info.search)
        reserve = (list(info.extra_seeds), list(info.fresh_seeds), bool(info.settle))
        con.execute("INSERT INTO raw.sweeps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, *reserve))
    # One thread notices Ctrl-C at once, where several may go on to the end of the question. Over
    # plans and endings it is about as fast. Only metrics have many more rows.
    if "metrics" not in needed:
        con.execute("SET threads = 1")
    con.execute(cells_sql.SWEEPS)
    con.execute("SET lock_configuration = true")
    damaged = (*selection.damaged, *plans.damaged, *trials.damaged)
    return Views(con, selection, code, plan_axes, trial_axes, own, damaged, notes)


def _filled(tables: Sequence[pa.Table], infos: Iterable[SweepInfo]) -> list[pa.Table]:
    """Returns tables of trials in which those from before a field stand at the value at which, as a
    newer sweep says, it changes nothing. So the trials from before and after are of one cell."""
    fields = {field.name: field for table in tables for field in table.schema}
    axes = fields.keys() - PLAN.fixed.keys() - TRIALS.fixed.keys()
    filled = list(tables)
    neutral = (
        (kind, name, axis, value)
        for info in infos
        for kind, names in info.neutral.items()
        for name, columns in names.items()
        for axis, value in columns.items()
        if axis in axes and isinstance(value, int | float | str)
    )
    for kind, name, axis, value in dict.fromkeys(neutral):
        import pyarrow.compute as pc  # which takes a while

        of = fields[axis].type
        try:
            at = pa.scalar(text_in_column(value) if pa.types.is_string(of) else value, of)
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # the column is another field's
            continue
        for i, table in enumerate(filled):
            if axis not in table.column_names:
                table = table.append_column(fields[axis], pa.nulls(table.num_rows, of))
            before = pc.and_(pc.equal(table[kind], name), pc.is_null(table[axis]))
            place = table.column_names.index(axis)
            filled[i] = table.set_column(place, axis, pc.if_else(before, at, table[axis]))
    return filled


@contextmanager
def _told_plainly(whole: bool) -> Iterator[None]:
    """Within this block an error of DuckDB's becomes one that users see. whole: whether they see
    more than its first line, which they need of their own SQL."""
    try:
        with interruptible():
            yield
    except duckdb.Error as error:
        message = str(error) if whole else str(error).partition("\n")[0]
        if isinstance(error, duckdb.OutOfMemoryException):
            less = "ask for less: one sweep (--sweep), or fewer columns"
            raise EnvironmentFailure(f"{message}; {less}") from None
        raise UserError(message) from None


def trials_of(views: Views) -> Mapping[int, Sequence[Mapping[str, Any]]]:
    """Returns the trials of each cell that ended, by the cell's number in `raw.cells`. Each has
    its id, seed, status, scores, also of users' own tasks and loops, step, seconds and error. A
    score that is not finite is None, as that of a trial that diverged may be."""
    names = ("id", "seed", "status", *MEASURED, "step", "seconds", "error", *views.own)
    columns = ", ".join(f"endings.{cells_sql.quoted(name)}" for name in names)
    by_cell: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for cell, *values in views.fetch(
        f"SELECT cell, {columns} FROM raw.members JOIN raw.endings USING ({views.member}) "
        "ORDER BY cell, endings.seed"
    ):
        finite = (None if isinstance(v, float) and not isfinite(v) else v for v in values)
        by_cell[cell].append(dict(zip(names, finite, strict=True)))
    return by_cell


def curves(views: Views, ids: Collection[str], score: str, most: int) -> Mapping[str, Curve]:
    """Returns, by id, what was measured of these trials while they were trained: accuracies at
    checks, losses of training batches. The curve of a trial that continued another one's checkpoint
    begins with what that one had measured before.

    A curve has at most about `most` points, evenly spread. Its last point is always included. The
    metrics must have been read (`Views.prepare`).
    """
    if not ids:
        return {}
    value = cells_sql.measured(cells_sql.quoted(score))
    wanted = ", ".join("'" + id_.replace("'", "''") + "'" for id_ in sorted(ids))
    rows = views.fetch(
        f"""
        WITH RECURSIVE {cells_sql.lineage_sql(f"trials WHERE id IN ({wanted})")}, measured AS (
            SELECT trial, step, {value} AS score,
                row_number() OVER (PARTITION BY trial ORDER BY step DESC) - 1 AS back,
                count(*) OVER (PARTITION BY trial) AS total
            FROM lineage JOIN metrics ON metrics.id = maker AND (until IS NULL OR step < until)
            WHERE {value} IS NOT NULL
        )
        SELECT trial, step, score FROM measured
        WHERE back % ceil(total / {most})::BIGINT = 0 ORDER BY trial, step
        """
    )
    by_id: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for trial, step, value in rows:
        by_id[trial].append((step, value))
    return by_id
