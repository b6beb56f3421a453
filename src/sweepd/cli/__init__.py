"""The command line: one file a command group; the only place that prints or exits."""

from __future__ import annotations

import atexit
import sys
from gc import freeze

import typer

from sweepd.cli import ask, check, cluster, compare, draw, gc, look, run, show, status
from sweepd.cli.output import say
from sweepd.errors import SweepdError

app = typer.Typer(
    name="sweepd",
    help="Sweep architectures over tasks and sizes, and ask how wide each must be.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for group in (run, status, cluster, ask, draw, compare, look, check, show, gc):
    group.register(app)


def main() -> None:
    """Run the command line. Here every error of sweepd's own becomes a message and an exit code."""
    atexit.register(_leave)
    try:
        app()
    except SweepdError as error:
        say(f"sweepd: {error}")
        sys.exit(error.exit_code)


def _leave() -> None:
    """Keep Python from collecting garbage in all of torch and Ray as it exits: that takes most of
    a second. Where DuckDB is loaded the collection is quick, and DuckDB needs it."""
    if "duckdb" not in sys.modules:
        freeze()
