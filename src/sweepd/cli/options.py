"""The options and arguments that several commands have."""

from typing import Annotated, Literal

import typer

from sweepd.cli.completion import complete_sweeps

AsJson = Annotated[
    bool | None,
    typer.Option("--json/--csv", help="Print a JSON array of flat objects, or CSV with a header."),
]
Results = Annotated[
    str | None,
    typer.Option(
        "--results",
        metavar="DIR",
        help="Results: a folder, s3:// or gs://. Default: $SWEEPD_RESULTS, else ./sweepd-results.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="key=value",
        help="Set a field, e.g. n=8, or model.d=[32,64] of a grid (repeatable).",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what it would do.")]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask before it costs money or deletes.")
]
TrialId = Annotated[str, typer.Argument(metavar="TRIAL", help="A trial's id, or its start.")]
SweepName = Annotated[
    str | None,
    typer.Argument(metavar="[SWEEP]", show_default=False, autocompletion=complete_sweeps),
]
Sweeps = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="S",
        help="Only this sweep (repeatable). Default: all.",
        autocompletion=complete_sweeps,
    ),
]
CodeOption = Annotated[
    Literal["current", "all"],
    typer.Option(help="Trials of the current code, or all with `code` as one more group."),
]
Seeds = Annotated[
    str | None,
    typer.Option(metavar="RULE", help="median, all, any or mean instead of the grid's rule."),
]


def examples(*commands: str) -> str:
    """Returns what stands at the end of a command's --help: commands, without `sweepd`."""
    return "\n".join(["\b", "Examples:", *(f"  sweepd {words}".rstrip() for words in commands)])
