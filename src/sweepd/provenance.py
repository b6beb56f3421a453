"""Where a launch came from: commit and uncommitted changes, versions, host, command line."""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("sweepd", "ray", "torch", "numpy", "numba", "pyarrow", "duckdb")
LONGEST_DIFF = 1_000_000
ORIGIN = "sweepd-origin.json"
"""The name of a file beside a grid that was handed over to a cluster. It holds the provenance of
the machine that launched the grid, and the grid's folder there as `base`."""


def provenance(folder: Path) -> dict[str, Any]:
    """Returns what is recorded of each launch. Its commit and changes are those of the repository
    that holds `folder`. A launch that was handed over to a cluster has an `origin`, and its commit
    and changes are those of the origin."""
    versions: dict[str, str | None] = dict.fromkeys(PACKAGES)
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    here = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
    }
    if (folder / ORIGIN).exists():
        origin = json.loads((folder / ORIGIN).read_text())
        return {**here, **{name: origin.pop(name) for name in ("commit", "diff")}, "origin": origin}
    return {
        **here,
        "commit": _git(folder, "rev-parse", "HEAD"),
        "diff": (_git(folder, "diff", "HEAD") or "")[:LONGEST_DIFF],
    }


def home(folder: Path) -> str:
    """Returns the folder of a grid where it was launched. That is `folder`, unless the grid was
    handed over to a cluster."""
    handed_over = folder / ORIGIN
    return json.loads(handed_over.read_text())["base"] if handed_over.exists() else str(folder)


def _git(folder: Path, *arguments: str) -> str | None:
    """Returns the output of a git command. Returns None if it fails, as where there is no git or no
    repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # a diff holds the bytes of the user's files, whatever they are
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
