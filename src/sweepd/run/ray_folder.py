"""The folder in which a private Ray keeps its sockets and logs.

Whoever can replace one of these sockets runs code as the user who launches, since Ray's processes
unpickle what comes through it. Ray opens what it makes to everybody, so the folder around it is
closed. A lock says that its launch still runs.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from sweepd.errors import EnvironmentFailure

PREFIX = "sweepd-ray-"
LOCK = "lock"
LONGEST_PARENT = 16
"""The most bytes of the path in which the folder is made. The path of a socket may have 107, the
folder's name has 20, and Ray adds up to 70:
`/ray/session_2026-11-26_17-32-17_414003_4194304/sockets/…`."""

held: dict[Path, int] = {}
"""The folders of this process, and the descriptors of their locks, which end with it."""


def new_folder() -> Path:
    """Makes an empty folder that only this user can enter, and removes those of launches that have
    died. The folder lies where RAY_TMPDIR or TMPDIR says, or in /tmp if that path is too long or
    others can replace what lies there. Raises EnvironmentFailure if they can in /tmp, too."""
    usual = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    parents = [Path(name).resolve() for name in (usual, "/tmp")]
    fit = [one for one in parents if len(os.fsencode(one)) <= LONGEST_PARENT and is_guarded(one)]
    if not fit:
        raise EnvironmentFailure(
            f"{' and '.join(map(str, dict.fromkeys(parents)))}: Ray cannot keep its sockets there, "
            f"since other users could replace them or the path has more than {LONGEST_PARENT} "
            "bytes: set RAY_TMPDIR to a folder of yours with a shorter path"
        )
    for past in fit[0].glob(f"{PREFIX}*"):
        _remove_dead(past)
    try:
        while True:
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=fit[0]))
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():  # no other launch has taken it for that of a dead one meanwhile
                held[folder] = lock
                return folder
            os.close(lock)
    except OSError as error:
        raise EnvironmentFailure(f"{fit[0]}: no folder for Ray there: {error.strerror}") from error


def is_guarded(folder: Path) -> bool:
    """Returns whether nobody but this user and root can replace what this user makes in a folder:
    the owners of the folder and of all above it are these, and who else may write there may not
    rename what belongs to others (as in /tmp, by the sticky bit)."""
    try:
        statuses = [one.stat() for one in (folder, *folder.parents)]
        # In a container without root, what is the machine's root's has another owner.
        owners = 0, os.getuid(), Path(os.devnull).stat().st_uid
    except OSError:
        return False
    return all(
        status.st_uid in owners
        and (status.st_mode & stat.S_ISVTX or not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
        for status in statuses
    )


def remove(folder: Path) -> None:
    """Removes a folder. If that fails, its lock stays in it, so that a later launch tries again."""
    with suppress(OSError):
        for left in folder.iterdir():
            if left.name != LOCK:
                shutil.rmtree(left)
        shutil.rmtree(folder)


def _remove_dead(folder: Path) -> None:
    """Removes a folder of this user's whose launch has died. Any other is left as it is."""
    with suppress(OSError):  # another user's, without a lock yet, just removed, or in use
        status = folder.lstat()
        if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode):
            return
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(folder)
        finally:
            os.close(lock)
