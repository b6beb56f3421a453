"""The ready files of clusters, filled in as a user would."""

import os
from pathlib import Path

import pytest

CLUSTERS = Path(__file__).parents[2] / "clusters"
OURS = {
    "my-bucket": "ours",
    "my-project": "ours",
    "my-registry": "ours",
    "my-shared-folder": "shared/ours",
    "my-partition": "main",
    "my-head": "192.168.1.10",
    "my-worker-1": "192.168.1.11",
    "my-worker-2": "192.168.1.12",
    "my-name": "me",
    "ami-00000000000000000": "ami-12345678901234567",
}


def filled(kind: str) -> str:
    text = (CLUSTERS / f"{kind}.yaml").read_text()
    for name, ours in OURS.items():
        text = text.replace(name, ours)
    return text


def written(folder: Path, kind: str, old: str = "", new: str = "") -> Path:
    """The path of a ready file in a folder, filled in and with one change."""
    text = filled(kind)
    assert not old or text.count(old) == 1
    path = folder / f"{kind}.yaml"
    path.write_text(text.replace(old, new) if old else text)
    return path


def program(path: Path, text: str) -> None:
    """Writes a script that can be run."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def have_commands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts an ssh and an rsync on the PATH, which are only looked for: a machine may have none."""
    for name in ("ssh", "rsync"):
        program(folder / "commands" / name, "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", f"{folder / 'commands'}:{os.environ['PATH']}")
