"""Where on this machine results wait while their store can't be written."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from sweepd.errors import EnvironmentFailure
from sweepd.store.local import LocalFolder
from sweepd.store.storage import Folder, failure

KINDS = ("metrics", "checkpoints", "trials")
"""The kinds of objects in a spill, in the order in which they are moved to the store: metric rows,
then the states after them, then the endings."""


def place(address: str) -> Path:
    """Returns the spill folder of the store at that address, which need not exist. It lies below
    $SWEEPD_RESCUE, or in a folder for temporary files that no other user can write to. A store has
    one spill, whichever symbolic links lead to it."""
    given = os.environ.get("SWEEPD_RESCUE")
    root = Path(given) if given else Path(tempfile.gettempdir()) / f"sweepd-rescue-{os.getuid()}"
    real = address if "://" in address else os.path.realpath(address)
    return root.absolute() / hashlib.blake2b(real.encode(), digest_size=8).hexdigest()


def make(address: str) -> Path:
    """Returns the spill folder of the store at that address, which it makes if it does not exist.
    Raises EnvironmentFailure if that fails, or if another user made it."""
    folder = place(address)
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise failure("make", str(folder), error.strerror or str(error)) from error
    return _own(folder)


def take_in(folder: Folder) -> int:
    """Moves everything from a folder's spill to where it belongs. Returns how many objects
    besides logs.

    Each object is whole and has a name that tells its content. So several processes may move it
    at once, and it may be there already.
    """
    if not place(folder.address).exists():
        return 0
    spill, moved = LocalFolder(_own(place(folder.address))), 0
    for log in spill.files("logs"):
        with suppress(FileNotFoundError):
            text = spill.read(f"logs/{log.name}").decode(errors="replace")
            folder.append(f"logs/{log.name.removesuffix('.log')}", text)
            folder.flush()
            spill.delete([f"logs/{log.name}"])
    for kind in KINDS:
        for file in spill.files(kind):
            name = f"{kind}/{file.name}"
            with suppress(FileNotFoundError):  # another process has moved it
                folder.create(name, spill.read(name))
                spill.delete([name])
                moved += 1
    return moved


def _own(folder: Path) -> Path:
    """Returns the folder. Raises EnvironmentFailure if another user made it, since results must
    not come from there."""
    if folder.lstat().st_uid != os.getuid():
        raise EnvironmentFailure(f"{folder} belongs to another user: set SWEEPD_RESCUE")
    return folder
