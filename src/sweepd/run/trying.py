"""A program's Python is tried once on each node before its first trial there: with the modules of
others that the program's files import, and on its card. So what a node lacks is told once, with the
node's name, and not by the failures of trials."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from sweepd.grid.program import Program
from sweepd.grid.user_classes import imported_modules

SECONDS = 600.0
"""The seconds that the imports may take: from a slow disk, with other nodes at it."""
NO_CARD = 77
"""The exit code of a Python whose imports work, and whose card does not."""
ONES = "torch.ones(64, 64, device='cuda')"
CARDS = {
    "torch": f"assert ({ONES} @ {ONES}).sum().item() == 64**3, 'a product came out wrong'",
    "jax": "assert jax.devices()[0].platform != 'cpu', 'jax sees no card'",
}
"""What uses a card, by the module with which a program does."""


def command_of(where: str, base: Path, *, card: bool) -> list[str]:
    """Returns the command, to be run in `base`, that tries a program's Python. It is empty where
    the program does not begin with a Python, imports nothing of others, or says by itself where
    modules are looked for."""
    words = Program(where).words
    modules = imported_modules(where, base)
    if not Path(words[0]).name.startswith("python") or not modules:
        return []
    script = next((word for word in words[1:] if word.endswith(".py")), "")
    lines = ["import sys", f"sys.path[0] = {str((base / script).parent if script else base)!r}"]
    lines += [f"import {name}" for name in modules]
    if uses := [use for name, use in CARDS.items() if card and name in modules]:
        lines += ["try:", *(f"    {use}" for use in uses), "except Exception as error:"]
        lines += ["    sys.stderr.write(f'{error}\\n')", f"    raise SystemExit({NO_CARD})"]
    return [words[0], "-c", "\n".join(lines)]


def tried(where: str, base: Path, folder: Path | None, *, card: bool) -> tuple[int, str]:
    """Returns with which exit code a program's Python ends here when it is tried, and the last that
    it says. folder: one of this node in which the answer is kept, so that its other processes need
    not try; without it, each does."""
    command = command_of(where, base, card=card)
    if not command:
        return 0, ""
    if folder is None:
        return _run(command, base)
    name = hashlib.sha256("\0".join(command).encode()).hexdigest()[:16]
    with (folder / f"sweepd-tried-{name}").open("a+") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        kept.seek(0)
        if not (text := kept.read()):
            text = "{} {}".format(*_run(command, base))
            kept.write(text)
    code, _, said = text.partition(" ")
    return int(code), said


def _run(command: list[str], base: Path) -> tuple[int, str]:
    """Runs the command as a program is run: beside this interpreter, and without Ray's settings."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "TUNE_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    python = shutil.which(command[0], path=path) or command[0]
    try:
        done = subprocess.run(
            [python, *command[1:]],
            cwd=base,
            env={**environment, "PATH": path},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    said = done.stderr.strip().splitlines() or [f"{command[0]}: exit code {done.returncode}"]
    return done.returncode, said[-1] if done.returncode else ""
