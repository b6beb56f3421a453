"""Clusters: up, status, down; and handing a sweep over to one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweepd.cli.options import AsJson, Yes, examples
from sweepd.cli.output import command, confirmed, emit, form_of, say
from sweepd.errors import EnvironmentFailure, UserError
from sweepd.statuses import INTERRUPTED_EXIT

if TYPE_CHECKING:
    from sweepd.cluster import Remote
    from sweepd.cluster.base import Work
    from sweepd.grid.spec import Grid
    from sweepd.store.store import Store

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A cluster file.")]


cluster = typer.Typer(no_args_is_help=True, help="Bring clusters up and down; see the cost.")


@cluster.command(epilog=examples("cluster up clusters/aws.yaml", "cluster up a.yaml --yes"))
def up(file: FileArgument, yes: Yes = False) -> None:
    """Bring a cluster up, or change one that is up to what its file says now.

    A launch does so by itself.
    """
    cluster = _remote(file)
    if confirmed(f"bring up the cluster of {file}?", yes):
        cluster.up(say)


@cluster.command(
    epilog=examples("cluster status clusters/aws.yaml", "cluster status a.yaml --json")
)
def status(file: FileArgument, as_json: AsJson = None) -> None:
    """Show the nodes and jobs of a cluster, and what they cost an hour."""
    form = form_of(as_json)
    rows = _remote(file).status()
    emit(["what", "name", "type", "state", "price"], rows, form)
    if price := _price(rows):
        say(f"${price:.2f} an hour; `sweepd cluster down {file}` ends it")


@cluster.command(epilog=examples("cluster down clusters/aws.yaml", "cluster down a.yaml --yes"))
def down(file: FileArgument, yes: Yes = False) -> None:
    """Take down all of a cluster that costs money. Sweeps that run there can be resumed."""
    cluster = _remote(file)
    if confirmed(f"take down the cluster of {file}?", yes):
        cluster.down(say)


def hand_over(
    cluster: Remote, file: Path, grid: Grid, store: Store, options: Sequence[str], yes: bool
) -> None:
    """Starts a sweep's driver on a cluster, or finds it there, and prints what it prints.

    Exits with the driver's exit code. After Ctrl-C, which leaves the sweep running, it exits with
    0.
    """
    name = grid.name
    end = command("cancel", name, results=store.address)
    try:
        if store.driven_elsewhere([name]):
            job = cluster.find(name, store.address)
            if job is None:
                raise EnvironmentFailure(
                    f"sweep {name}: a driver elsewhere holds it; wait for it, or end it with "
                    f"`{end}`"
                )
            say(f"sweep {name} runs there already, as job {job}: following it")
        elif confirmed(f"run sweep {name} on the cluster of {file}?", yes):
            with packed(cluster, grid, store.address, options) as work:
                job = cluster.start(work, say)
            say(f"sweep {name} was handed over as job {job}; Ctrl-C leaves it running")
        else:
            return
    except KeyboardInterrupt:
        say(f"interrupted before sweep {name} ran; `sweepd cluster status {file}` shows what does")
        raise typer.Exit(INTERRUPTED_EXIT) from None
    try:
        code = cluster.follow(job, say)
    except KeyboardInterrupt:
        look = command("status", name, results=store.address)
        say(
            f"detached: sweep {name} goes on. `{look}` shows it, the same launch follows it again, "
            f"`{end}` ends it"
        )
        return
    if cluster.lasting:
        # The sweep has ended. Without another job, the cluster goes if its file says so.
        try:
            rows = cluster.status()
        except EnvironmentFailure as failure:
            say(str(failure))
            rows = []
        if others := [row["type"] for row in rows if row["what"] == "job" and row.get("type")]:
            say(f"the cluster stays up: {', '.join(others)} runs there")
        elif cluster.after == "down":
            cluster.down(say)
        elif price := _price(rows):
            say(
                f"the cluster stays up, at ${price:.2f} an hour; `sweepd cluster down {file}` "
                "ends it"
            )
    raise typer.Exit(code)


def _price(rows: Sequence[Mapping[str, Any]]) -> float:
    """Returns what these rows cost together, in dollars an hour."""
    return sum(row.get("price") or 0.0 for row in rows)


@contextmanager
def packed(cluster: Remote, grid: Grid, address: str, options: Sequence[str]) -> Iterator[Work]:
    """Within this block, there is a package with which a driver of the sweep can be started."""
    from sweepd.cluster.base import Work
    from sweepd.cluster.package import PLACE, pack

    with TemporaryDirectory(prefix="sweepd-package-") as folder:
        path = pack(grid, cluster, Path(folder))
        where = ("--cluster", PLACE, "--results", address)
        yield Work(grid.name, address, ("launch", path, *where, *options), Path(folder))


def _remote(file: Path) -> Remote:
    from sweepd.cluster import Local, load_cluster

    cluster = load_cluster(file)
    if isinstance(cluster, Local):
        raise UserError(f"{file}: kind local is this machine: there is nothing to bring up or down")
    return cluster
