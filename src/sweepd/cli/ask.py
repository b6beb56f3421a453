"""Questions about what is stored: query, sql, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sweepd.cli.output import AsCsv, AsJson, Results, emit, results_address, say, table
from sweepd.errors import UserError

Sweeps = Annotated[
    list[str] | None,
    typer.Option("--sweep", metavar="S", help="Only this sweep (repeatable). Default: all."),
]
