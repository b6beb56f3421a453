"""Where a sweep runs: a cluster file, checked before anything starts.

Each kind of cluster is a class here; `base` says what they have in common.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sweepd.cluster.aws import AWS
from sweepd.cluster.base import Check, Local, Remote
from sweepd.cluster.gcp import GCP
from sweepd.cluster.jobs import Address
from sweepd.cluster.kuberay import KubeRay
from sweepd.cluster.launcher import OnPrem
from sweepd.cluster.slurm import Slurm
from sweepd.grid.yamlfile import GridError, Keys, parse, read, refuse_invalid

__all__ = ["Check", "Cluster", "Local", "Remote", "load_cluster"]

Cluster = Local | Remote

KINDS: dict[str, type[Local] | type[Remote]] = {
    "local": Local,
    "address": Address,
    "aws": AWS,
    "gcp": GCP,
    "onprem": OnPrem,
    "kuberay": KubeRay,
    "slurm": Slurm,
}

PLACEHOLDER = re.compile(
    r"\bmy-(bucket|project|registry|shared-folder|partition|head|worker|name)\b|\bami-0{8,}"
)
"""A pattern of the names that stand for the user's own in the ready files."""


def load_cluster(path: Path) -> Cluster:
    """Returns the cluster that a file describes. Raises GridError with every problem of the file,
    its line and its key."""
    document = parse(read(path), str(path))
    kind = document.data.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        document.refuse(("kind",), f"{kind!r} is no kind of cluster: {', '.join(KINDS)}")
        raise GridError(document.problems)
    try:
        cluster = KINDS[kind].model_validate(document.data)
    except ValidationError as error:
        refuse_invalid(document, error, KINDS[kind])
    else:
        for keys, message in cluster.faults():
            document.refuse(keys, message)
        limited = cluster.max_dollars and not document.problems
        if limited and not any(nodes.price for nodes in cluster.types().values()):
            document.refuse(("max_dollars",), "no node has a price here: name what each costs")
    for keys, text in _texts(document.data, ()):
        if name := PLACEHOLDER.search(text):
            document.refuse(keys, f"{name[0]} stands for one of yours: write it in its place")
    if document.problems:
        raise GridError(document.problems)
    return cluster


def _texts(value: Any, keys: Keys) -> Iterator[tuple[Keys, str]]:
    """Yields the texts of a file, each with where it stands."""
    if isinstance(value, str):
        yield keys, value
    elif isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(one, (*keys, key))
