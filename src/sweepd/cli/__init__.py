"""The command line: one file a command group; the only place that prints or exits."""

from __future__ import annotations

import sys

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
    try:
        app()
    except SweepdError as error:
        say(f"sweepd: {error}")
        sys.exit(error.exit_code)
