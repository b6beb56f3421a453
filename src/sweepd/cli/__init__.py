"""The command line. Each command group has its own file. Only this package prints or exits."""

import atexit
import gc
import os
import sys
import threading
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from sweepd import __version__
from sweepd.cli.options import examples
from sweepd.cli.output import say, say_everything, stdout_may_end
from sweepd.errors import EnvironmentFailure, SweepdError
from sweepd.statuses import INTERRUPTED_EXIT

SECTIONS: Mapping[str, Mapping[str, tuple[str, str, str]]] = {
    "Begin": {
        "init": (
            "begin",
            "--grid quickstart --out first",
            '--from-command "python train.py --width 8 --seed 0" --out mine',
        ),
        "check": ("check", "mine.py:Mine --set n=8", "train.yaml"),
        "tasks": ("begin", "--json", "--csv"),
        "models": ("begin", "--json", "--csv"),
        "sample": (
            "begin",
            "lis --set n=8 --count 5 --seed 0",
            "arithmetic --set operators=3 --json",
        ),
        "flops": (
            "begin",
            "standard --task lis --set n=8 --set d=64",
            "linear --task arithmetic --set operators=16 --set d=128 --json",
        ),
        "schema": ("begin", "> grid.schema.json", "| less"),
        "doctor": ("begin", "--results runs", "--cluster clusters/aws.yaml"),
    },
    "Run": {
        "plan": (
            "run",
            "grids/quickstart.yaml --set model.d=[8,16]",
            "grid.yaml --cluster clusters/aws.yaml",
        ),
        "launch": ("run", "grids/quickstart.yaml --results runs", "grid.yaml --in-process"),
        "resume": ("run", "quickstart --promote", "quickstart --max-hours 1"),
        "status": ("status", "quickstart --watch", "--json"),
        "logs": ("status", "3f2a", "3f2a --results runs"),
        "show": ("show", "3f2a --against 9c01", "3f2a --out again"),
        "cancel": ("run", "quickstart", "quickstart --results runs"),
    },
    "Ask": {
        "answer": (
            "answer",
            '"min d" grids/quickstart.yaml --max-minutes 5 --json',
            '"best lr by d" grid.yaml --max-minutes 30',
        ),
        "skill": ("answer", "--out .claude/skills/sweepd/SKILL.md", ""),
        "query": ("ask", '"min d where acc > 0.9"', '"fit d ~ n" --sweep quickstart --wide'),
        "plot": ("plot", "heatmap quickstart --out figure1.pdf", "min quickstart --out least.svg"),
        "report": ("plot", "quickstart --out report.html", "--out report.html --results runs"),
        "compare": ("ask", "yang2024 --csv", "claims.yaml"),
        "sql": (
            "ask",
            '"SELECT * FROM cells LIMIT 5" --json',
            '"SELECT model, n, d, seed, status, acc FROM trials ORDER BY ALL"',
        ),
        "export": ("ask", "quickstart --out trials.parquet", "quickstart --to tensorboard"),
    },
    "Keep house": {
        "merge": (
            "housekeeping",
            "../cluster-results --dry-run",
            "../cluster-results --rename s=theirs",
        ),
        "gc": ("housekeeping", "--older-than 30d --dry-run", "--yes"),
        "cluster": ("cluster", "up clusters/aws.yaml", "status clusters/aws.yaml"),
    },
}
"""The sections in which --help lists the commands. For each command, the file of this folder that
has it under its name, and the words of two examples."""
WITH_LAST_WORDS = ("ray", "wandb", "mlflow", "trackio")
"""Libraries that have something to do when a process ends."""
LAST_WORDS_SECONDS = 60.0
"""The most seconds that they are given, and what user code has registered with them."""


class Sections(TyperGroup):
    """Lists the commands by `SECTIONS`."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in SECTIONS.items():
            commands = [self.commands[name] for name in names if name in self.commands]
            room = formatter.width - 4 - max(map(len, names))
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


def application(arguments: Iterable[str] = ()) -> typer.Typer:
    """Returns the command line with only the command that the first argument names, or with all
    commands where it names none. To import and make all of them takes longer than many a command
    runs."""
    every = {name: command for of in SECTIONS.values() for name, command in of.items()}
    asked = next(iter(arguments), "")
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
    for name in [asked] if asked in every else every:
        file, *words = every[name]
        command = getattr(import_module(f"sweepd.cli.{file}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(epilog=examples(*(f"{name} {example}" for example in words)))(command)
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
