"""The command line: one file a command group; the only place that prints or exits."""

from __future__ import annotations

import atexit
import sys
from gc import freeze

import typer

from sweepd.cli import ask, cluster, compare, gc, look, run, status
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
for group in (run, status, cluster, ask, compare, look, gc):
    group.register(app)


def main() -> None:
    """Run the command line; every error of ours becomes text and an exit code here."""
    atexit.register(_leave)
    try:
        app()
    except SweepdError as error:
        say(f"sweepd: {error}")
        sys.exit(error.exit_code)


def _leave() -> None:
    """Spare Python a last look through all of torch and Ray, most of a second. DuckDB wants to be
    looked through, and takes none."""
    if "duckdb" not in sys.modules:
        freeze()
