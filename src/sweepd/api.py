"""The Python API: what the command line does, as functions that return data.

`open` reads a results folder, `plan` says what a grid would cost, and `launch` runs it. Errors are
those of `sweepd.errors`: `UserError` for what the caller can mend, and `EnvironmentFailure` for the
rest.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.replacing import write
from sweepd.statuses import INTERRUPTED_EXIT
from sweepd.tabular import Table, table_of

if TYPE_CHECKING:
    from sweepd.figures.kinds import Questions
    from sweepd.query.database import Views
    from sweepd.run.launching import Estimate
    from sweepd.store.store import Store

WhichCode = Literal["current", "all"]
"""Whose trials count: those of the code that a sweep would run now, or those of every code."""
Sweeps = str | Sequence[str] | None
"""The names of one sweep or of several; None stands for all sweeps of the store."""
MOST_TOLD = 20
"""The number of last lines of a failed launch that its error shows."""


def open(results: str | os.PathLike[str] = "sweepd-results") -> Results:
    """Returns the results in a folder, or at an `s3://` or `gs://` address.

    Raises UserError where there are none.

    >>> import sweepd
    >>> sweepd.open("sweepd-results").sweeps()["name"]
    ['mini', 'small', 'from_500', 'quickstart']
    """
    from sweepd.store.store import Store

    return Results(Store.open(os.fspath(results)))


@dataclass(frozen=True, repr=False)
class Results:
    """What a results folder holds.

    A method's `sweep` is the name of one sweep, or several. By default it stands for the whole
    store. The answers are those of the command line, which asks the same functions.
    """

    store: Store

    @property
    def address(self) -> str:
        return self.store.address

    def query(
        self,
        question: str,
        *,
        sweep: Sweeps = None,
        seeds: str | None = None,
        code: WhichCode = "current",
    ) -> Table:
        """Returns the answer to a question (docs/query.md), such as `min d where acc > 0.9`.

        seeds: median, all, any or mean in place of the grid's own rule. code: "current" counts the
        trials of the present code only; "all" counts all, with `code` as one more group. Raises
        UserError if the question, a sweep or the rule is wrong.

        >>> answer = open().query("min d where acc > 0.9", sweep="quickstart")
        >>> answer["model"][:2], answer["size"][:2]
        (['linear', 'standard'], [4, 4])
        >>> open().query("min width")
        Traceback (most recent call last):
        ...
        sweepd.errors.UserError: ...
        """
        from sweepd.query.answers import answer
        from sweepd.query.database import needed_by
        from sweepd.query.readable import lines, rows_for_people

        found = answer(self._views(sweep, code, seeds, needed_by(question)), question)
        arrow = table_of(found.columns, found.rows)
        if not (found.summary and found.rows):
            return Table(arrow, found.notes, found.damaged, rows_for_people(found))
        text = "\n".join("".join(piece for piece, _ in line) for line in lines(found, None))
        return Table(arrow, found.notes, found.damaged, text)

    def compare(
        self, claims: str | os.PathLike[str], *, sweep: Sweeps = None, code: WhichCode = "current"
    ) -> Table:
        """Returns how the results judge the claims of a file, or of a paper that ships: a row for
        each claim, and after it one for each row on which it rests (docs/query.md). Raises
        GridError if the file is wrong.

        >>> open().compare("bhattamishra2024")["status"][0]  # see what decides it
        'cannot tell'
        """
        from sweepd.query.claim_files import load_claims
        from sweepd.query.claims import COLUMNS, ROW_COLUMNS, judged

        views = self._views(sweep, code)
        rows = [*judged(views, load_claims(os.fspath(claims), views.columns))]
        columns = list(dict.fromkeys([*COLUMNS, *ROW_COLUMNS]))
        return Table(table_of(columns, rows), views.notes, views.damaged)

    def sql(self, select: str, *, sweep: Sweeps = None, code: WhichCode = "current") -> Table:
        """Returns the rows of one DuckDB SELECT over the views trials, attempts, metrics, cells and
        sweeps. Raises UserError if `select` is something else, or wrong.

        >>> open().sql("SELECT model, max(d) AS d FROM trials GROUP BY model ORDER BY model")
        model      d
        linear    16
        sparse     8
        standard  16
        """
        from sweepd.query.database import named_views

        views = self._views(sweep, code, needed=named_views(select))
        arrow, damaged = views.arrow(select)
        return Table(arrow, views.notes, damaged)

    def sweeps(self) -> Table:
        """Returns one row for each sweep."""
        return self.sql("SELECT * FROM sweeps")

    def trials(self, *, sweep: Sweeps = None, code: WhichCode = "current") -> Table:
        """Returns one row for each trial that ended."""
        return self.sql("SELECT * FROM trials ORDER BY ALL", sweep=sweep, code=code)

    def cells(self, *, sweep: Sweeps = None, code: WhichCode = "current") -> Table:
        """Returns one row for each cell. A cell is the trials that differ only in the seed."""
        return self.sql("SELECT * FROM cells ORDER BY ALL", sweep=sweep, code=code)

    def metrics(self, trial: str) -> Table:
        """Returns the learning curve of a trial, with one row for each logged step. trial: its id,
        or the beginning of its id.

        >>> results = open()
        >>> curve = results.metrics(results.trials()["id"][0])
        >>> curve["step"][-1]
        10
        """
        id_ = self.store.find_trial(trial)
        return self.sql(f"SELECT * FROM metrics WHERE id = '{id_}' ORDER BY step", code="all")

    def plot(
        self,
        kind: str,
        *,
        sweep: Sweeps = None,
        where: str | None = None,
        of: str = "",
        along: Literal["L", "size", ""] = "",
        cost: str = "train_flops",
        seeds: str | None = None,
        code: WhichCode = "current",
    ) -> Figure:
        """Returns one of the figures of docs/figures.md. A notebook shows it, and `save` writes it.
        Raises UserError if there is no such kind of figure.

        >>> open().plot("heatmap", sweep="quickstart").save("heatmap.svg", width="one")
        """
        from sweepd.figures.kinds import KINDS, Questions

        if kind not in KINDS:
            raise UserError(f"{kind!r}: a figure is one of {', '.join(KINDS)}")
        views = self._views(sweep, code, seeds)
        asked = Questions(views, where=where, of=of, along=along, cost=cost)
        return Figure(kind, asked)

    def __repr__(self) -> str:
        return f"<sweepd results in {self.address}: {len(self.store.sweeps())} sweeps>"

    def _views(
        self,
        sweep: Sweeps,
        code: WhichCode,
        seeds: str | None = None,
        needed: Set[str] | None = None,
    ) -> Views:
        from sweepd.query.database import VIEWS, connect
        from sweepd.query.selection import codes

        sweeps = [sweep] if isinstance(sweep, str) else sweep
        counted = codes(code, self.store, sweeps)
        return connect(self.store, code=counted, sweeps=sweeps, seeds=seeds, needed=needed or VIEWS)


class Figure:
    """A figure of what sweeps have found. A notebook shows it as it is."""

    def __init__(self, kind: str, asked: Questions) -> None:
        from sweepd.figures.kinds import KINDS

        self.kind = kind
        self.notes = asked.notes
        """What the figure does not show, in sentences."""
        self._title = KINDS[kind].shows
        self._draw = KINDS[kind].draw(asked)

    def save(self, file: str | os.PathLike[str], *, width: Literal["one", "two"] = "two") -> None:
        """Writes a .svg, .png, .pdf or .html file, as wide as one or two columns of a paper."""
        from sweepd.figures.render import drawn, form_of

        out = Path(file)
        write(out, drawn(self._draw, self._title, form_of(out), width))

    def svg(self, *, width: Literal["one", "two"] = "two") -> str:
        from sweepd.figures.render import drawn

        return drawn(self._draw, self._title, "svg", width).decode()

    _repr_svg_ = svg

    def __repr__(self) -> str:
        return f"<sweepd figure {self.kind}: {self._title}>"


def plan(
    grid: str | os.PathLike[str],
    overrides: Mapping[str, Any] | None = None,
    *,
    results: str | os.PathLike[str] = "sweepd-results",
) -> Estimate:
    """Returns what a grid would run on this machine, how much of it is done, and what the rest
    costs. This runs no trial and spends nothing.

    overrides: fields in place of those of the file, such as `{"model.d": [8, 16]}`. Raises
    GridError if the grid is wrong.

    >>> estimate = plan("grids/quickstart.yaml", {"model.d": [2, 4]})
    >>> estimate.cells, estimate.trials, estimate.done
    (16, 48, 0)
    """
    from sweepd.cluster import Local
    from sweepd.grid.spec import load_grid
    from sweepd.run.launching import estimate, planned
    from sweepd.store.store import Store

    asked = load_grid(Path(grid), _settings(overrides))
    return estimate(planned(asked, Store.find(os.fspath(results))), Local(kind="local"))


@dataclass(frozen=True)
class Launch:
    """How a launch ended."""

    results: Results
    completed: bool
    """Whether all trials of the launch have ended without failing."""
    interrupted: bool
    lines: tuple[str, ...]
    """The lines that the launch wrote for people."""


def launch(
    grid: str | os.PathLike[str],
    overrides: Mapping[str, Any] | None = None,
    *,
    results: str | os.PathLike[str] = "sweepd-results",
    cluster: str | os.PathLike[str] | None = None,
    accept_code: bool = False,
    max_flops: float | None = None,
    max_hours: float | None = None,
    say: Callable[[str], None] | None = None,
) -> Launch:
    """Runs a grid to its end, and returns how it ended. The same call again continues it.

    It runs `sweepd launch` in a process of its own, so that Ray's signals and threads stay out of
    the caller's. An interrupt (Ctrl-C, or a notebook's stop button) saves the trials that run and
    ends the launch.

    say: is called with each line that the launch says, for example `print`. The other arguments are
    those of the command. Raises UserError and EnvironmentFailure as the command does.
    """
    options = [part for text in _settings(overrides) for part in ("--set", text)]
    if cluster is not None:
        options += ["--cluster", os.fspath(cluster)]
    for name, value in (("--max-flops", max_flops), ("--max-hours", max_hours)):
        options += [] if value is None else [name, repr(value)]
    options += ["--accept-code"] if accept_code else []
    command = [sys.executable, "-m", "sweepd", "launch", os.fspath(grid), "--yes"]
    process = subprocess.Popen(
        [*command, "--results", os.fspath(results), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # an interrupt reaches it once, and from here
    )
    assert process.stderr is not None
    lines: list[str] = []
    while True:
        try:
            for line in process.stderr:
                lines.append(line.rstrip("\n"))
                if say is not None:
                    say(lines[-1])
            code = process.wait()
            break
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
    told = "\n".join(line.removeprefix("sweepd: ") for line in lines[-MOST_TOLD:])
    if code == UserError.exit_code:
        raise UserError(told)
    if code not in (0, 1, INTERRUPTED_EXIT):
        raise EnvironmentFailure(told)
    return Launch(open(results), code == 0, code == INTERRUPTED_EXIT, tuple(lines))


def _settings(overrides: Mapping[str, Any] | None) -> list[str]:
    """Returns overrides as `--set` has them: JSON is YAML too. Raises UserError for a value that no
    grid can hold."""

    def plain(value: object) -> object:
        """Returns a NumPy number or array, or a path, as JSON can hold it."""
        if isinstance(value, Path):
            return str(value)
        if callable(as_list := getattr(value, "tolist", None)):
            return as_list()
        raise UserError(
            f"overrides: {key}: {value!r} ({type(value).__name__}) cannot stand in a grid; give "
            "what YAML can hold"
        )

    texts = []
    for key, value in (overrides or {}).items():
        texts.append(f"{key}={json.dumps(value, default=plain)}")
    return texts
