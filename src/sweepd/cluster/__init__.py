"""Where a sweep runs: a cluster file, checked before anything starts.

So far there is one kind, `local`: this machine. Each further kind is a file of its own here.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from sweepd.cluster.local import Local
from sweepd.yamlfile import GridError, Problem, parse, read

Cluster = Local

KINDS = ("local",)


def load_cluster(path: Path) -> Cluster:
    """Read a cluster file. GridError with every problem, its line and its key."""
    document = parse(read(path), str(path))
    kind = document.data.get("kind")
    if kind not in KINDS:
        message = f"{kind!r} is no kind of cluster that this version knows: {', '.join(KINDS)}"
        raise GridError([Problem(document.place(("kind",)), ("kind",), message)])
    try:
        return TypeAdapter(Local).validate_python(document.data)
    except ValidationError as error:
        raise GridError(
            [
                Problem(document.place(found["loc"]), found["loc"], found["msg"])
                for found in error.errors()
            ]
        ) from None
