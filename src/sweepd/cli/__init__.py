"""The command line. Each command group has its own file. Only this package prints or exits."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from sweepd import __version__
from sweepd.cli.output import say, say_everything, stdout_may_end
from sweepd.errors import EnvironmentFailure, SweepdError
from sweepd.statuses import INTERRUPTED_EXIT

SECTIONS = {
    "Begin": ("init", "check", "tasks", "models", "sample", "flops", "schema", "doctor"),
    "Run": ("plan", "launch", "resume", "status", "logs", "show", "cancel"),
    "Ask": ("query", "plot", "report", "compare", "sql", "export"),
    "Keep house": ("merge", "gc", "cluster"),
}
"""The sections in which --help lists the commands."""
GROUPS: Mapping[str, Sequence[str]] = {
    "ask": ("query", "sql", "export", "compare"),
    "begin": ("init", "tasks", "models", "sample", "flops", "schema", "doctor"),
    "check": ("check",),
    "cluster": ("cluster",),
    "housekeeping": ("merge", "gc"),
    "plot": ("plot", "report"),
    "run": ("plan", "launch", "resume", "cancel"),
    "show": ("show",),
    "status": ("status", "logs"),
}
"""The files of commands in this folder, and which commands each of them has."""
WITH_LAST_WORDS = ("ray", "wandb", "mlflow", "trackio")
"""Libraries that have something to do when a process ends."""
LAST_WORDS_SECONDS = 60.0
"""The most seconds that they are given, and what user code has registered with them."""


class Sections(TyperGroup):
    """Lists the commands by `SECTIONS`. Those of no section come last."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        named = [name for names in SECTIONS.values() for name in names]
        rest = tuple(name for name in self.list_commands(ctx) if name not in named)
        for title, names in {**SECTIONS, "More": rest}.items():
            commands = [self.commands[name] for name in names if name in self.commands]
            room = formatter.width - 4 - max(map(len, names), default=0)
            if commands:
                with formatter.section(title):
                    formatter.write_dl(
                        [(command.name, command.get_short_help_str(room)) for command in commands]
                    )


def _tell_version(wanted: bool) -> None:
    if wanted:
        print(f"sweepd {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


def application(words: Iterable[str] = ()) -> typer.Typer:
    """Returns the command line with only the command that the first of these words names, or with
    all commands where it names none. To import and make all of them takes longer than many a
    command runs."""
    asked = next(iter(words), None)
    app = typer.Typer(
        name="sweepd",
        cls=Sections,
        help="Sweep architectures over tasks and sizes, and ask how wide each must be.",
        epilog="Example: sweepd init --grid quickstart --out first",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_root)
    for file in [file for file, names in GROUPS.items() if asked in names] or GROUPS:
        import_module(f"sweepd.cli.{file}").register(app)
    commands = app.registered_commands
    if found := [c for c in commands if getattr(c.callback, "__name__", None) == asked]:
        app.registered_commands = found
    return app


def main() -> None:
    """Runs the command line. Here every error of sweepd's own becomes a message and an exit
    code."""
    say_everything()
    try:
        try:
            Path.cwd()
        except FileNotFoundError:
            told = "the current folder was deleted: go to another one"
            raise EnvironmentFailure(told) from None
        with stdout_may_end():
            application(sys.argv[1:])(prog_name="sweepd")
    except SweepdError as error:
        say(f"sweepd: {error}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:  # before a command runs; later the command line says 130 itself
        sys.exit(INTERRUPTED_EXIT)


def program() -> NoReturn:
    """Runs the command line as a program, which ends at once, as mypy does. Otherwise Python would
    take apart piece by piece what DuckDB, Arrow and torch have made, and wait for each thread that
    user code has started."""
    # A plan or an answer has a million objects that stay. Python's search for cycles among them
    # would take a quarter of a large `sweepd plan`.
    gc.set_threshold(100_000, 50, 10)
    status: Any = 0
    try:
        main()
    except SystemExit as end:
        status = end.code or 0
    if not isinstance(status, int):
        sys.exit(status)
    if any(name in sys.modules for name in WITH_LAST_WORDS):
        # User code may have registered what never ends. Threads that are left do not count.
        words = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
        words.start()
        words.join(LAST_WORDS_SECONDS)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
