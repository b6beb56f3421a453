"""Leases: named locks on an object store, where nothing ends by itself when its process dies.

A process that holds any lock has one lease, `leases/<owner>.json`, which a thread renews. One
table for all processes, `leases/held.json`, says which locks each of them holds. So taking locks
is a few requests, however many they are. Lease and table change by compare-and-swap alone. So of
two processes that want the same lock one succeeds and the other looks again.

Anyone may end a lease that was not renewed for `TERM_SECONDS`. Whoever does so puts a last
version in its place, so that its owner's next renewal fails. The age of a lease is the difference
of two times by the store's own clock: its last renewal, and our renewal just now. So machines'
clocks need not agree. Only `held_elsewhere`, in a process that holds nothing and so writes
nothing, has to compare its own clock with the store's.
"""

import json
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Set
from contextlib import suppress

from sweepd.errors import EnvironmentFailure
from sweepd.store.bucket import ObjectFolder
from sweepd.store.storage import to_json

TERM_SECONDS = 30.0
RENEW_SECONDS = 5.0
TRUST_SECONDS = 10.0
"""The seconds for which a renewal is relied on without another one."""
REQUEST_SECONDS = 4.0
"""The seconds that a request to renew in the background may take. It is not tried again before the
next renewal is due."""
POLL_SECONDS = 2.0

FOLDER, TABLE = "leases", "leases/held.json"


class Leases:
    """Locks on an object store (see `locks.Locks`). Several threads may use them at once."""

    def __init__(self, folder: ObjectFolder) -> None:
        self._folder = folder
        self._brisk = ObjectFolder(folder.address, REQUEST_SECONDS, retry_seconds=0)
        self._owner = ""
        self._version: str | None = None
        self._beats = 0
        self._renewed = 0.0
        self._held: set[str] = set()
        self._lost: str | None = None
        self._tell: list[Callable[[str], None]] = []
        self._over = threading.Event()
        self._table_guard = threading.RLock()
        self._lease_guard = threading.RLock()  # never held while the table is asked or changed

    def acquire(self, names: Collection[str]) -> set[str]:
        with self._table_guard:
            with self._lease_guard:
                self.confirm()
                if not self._version:  # takes out a lease, which a thread renews
                    self._owner = uuid.uuid4().hex
                    self._renewed = time.monotonic()
                    self._version = self._folder.swap(self._path(), self._content(), None)
                    self._over = threading.Event()
                    threading.Thread(target=self._keep, args=[self._over], daemon=True).start()
            while True:
                table, version = self._read_table()
                others = {owner: held for owner, held in table.items() if owner != self._owner}
                dead = self._dead(others.keys())
                living = {owner: held for owner, held in others.items() if owner not in dead}
                taken = set(names).difference(self._held, *living.values())
                if not (taken or dead) or self._swap_table(
                    {**living, self._owner: self._held | taken}, version
                ):
                    self.confirm()
                    self._held |= taken
                    self._end_if_idle()
                    return taken

    def acquire_or_wait(self, name: str, note: Callable[[str], None]) -> bool:
        seen = None
        while not self.acquire([name]):
            table, _ = self._read_table()
            holder = next((owner for owner, held in table.items() if name in held), None)
            lease = None
            if holder and name not in self._held:
                with suppress(FileNotFoundError):
                    written = json.loads(self._folder.read(self._path(holder)))
                    lease = {"owner": holder, **written}
            if lease is None:
                return bool(self.acquire([name]))
            if seen is None:
                note(
                    f"{name}: waiting at most {TERM_SECONDS:.0f} s to see whether process "
                    f"{lease['pid']} on {lease['host']}, which held it last, still runs"
                )
            elif lease != seen:
                return False  # it renews its lease, or has handed the lock to another
            seen = lease
            time.sleep(POLL_SECONDS)
        return True

    def release(self, names: Collection[str]) -> None:
        with self._table_guard:
            freed = self._held.intersection(names)
            self._held -= freed
            with suppress(EnvironmentFailure):  # what can't be given back now lapses later
                while freed and not self._lost:
                    table, version = self._read_table()
                    if self._swap_table({**table, self._owner: self._held}, version):
                        break
            with suppress(EnvironmentFailure):
                self._end_if_idle()

    def held_elsewhere(self, names: Collection[str]) -> set[str]:
        with self._table_guard:
            table, _ = self._read_table()
            others = {
                owner: held.intersection(names)
                for owner, held in table.items()
                if owner != self._owner and held.intersection(names)
            }
            if self._version:
                gone = self._dead(others.keys())
            else:
                written, since = self._written() if others else {}, time.time() - 2 * TERM_SECONDS
                gone = {owner for owner in others if written.get(owner, 0.0) < since}
            return set().union(*(others[owner] for owner in others.keys() - gone))

    def confirm(self) -> None:
        with self._lease_guard:
            if self._version and time.monotonic() - self._renewed > TRUST_SECONDS:
                self._renew(self._folder)
            if self._lost:
                raise EnvironmentFailure(f"{self._folder.address}: {self._lost}")

    def when_lost(self, tell: Callable[[str], None]) -> None:
        self._tell.append(tell)

    # The lease

    def _keep(self, over: threading.Event) -> None:
        """Renews the lease until it is given up or lost, which all who asked are told."""
        while not over.wait(RENEW_SECONDS):
            with self._lease_guard, suppress(EnvironmentFailure):
                # A renewal that fails does no harm. If another process ends the lease meanwhile,
                # the next renewal that arrives finds that out.
                if not over.is_set():
                    self._renew(self._brisk)
        if self._lost:
            for tell in self._tell:
                tell(self._lost)

    def _renew(self, folder: ObjectFolder) -> None:
        if self._version is None:
            return
        asked = time.monotonic()
        self._beats += 1
        version = folder.swap(self._path(), self._content(), self._version)
        if version is None:  # perhaps an earlier try of ours arrived unknown to us
            with suppress(FileNotFoundError):
                stored = folder.get(self._path())
                if not json.loads(stored.data).get("ended"):
                    version = folder.swap(self._path(), self._content(), stored.version)
        self._version, self._renewed = version, asked
        if version is None:
            self._lost = (
                f"process {os.getpid()} did not reach the store for {TERM_SECONDS:.0f} s, and "
                "another took over what it held: it stops; nothing recorded is lost"
            )
            self._held.clear()
            self._over.set()

    def _end_if_idle(self) -> None:
        with self._lease_guard:
            if self._version and not self._held:
                self._over.set()
                self._version = None
                self._folder.delete([self._path()])

    def _path(self, owner: str | None = None) -> str:
        return f"{FOLDER}/{owner or self._owner}.json"

    def _content(self) -> bytes:
        who = {"host": socket.gethostname(), "pid": os.getpid()}
        return to_json({**who, "beats": self._beats})

    # The others

    def _dead(self, owners: Set[str]) -> set[str]:
        """Returns the owners whose lease is over. A lease that is over stays so. One that was not
        renewed for its term is ended here."""
        if not owners:
            return set()
        with self._lease_guard:
            self._renew(self._folder)
        written = self._written()
        now, dead = written.get(self._owner, 0.0), set(owners) - written.keys()
        for owner in owners & written.keys():
            with suppress(FileNotFoundError):
                lease, ended = self._folder.get(self._path(owner)), to_json({"ended": True})
                if now - lease.written <= TERM_SECONDS:
                    continue
                if self._folder.swap(self._path(owner), ended, lease.version) is None:
                    continue
                self._folder.delete([self._path(owner)])
            dead.add(owner)
        return dead

    def _written(self) -> dict[str, float]:
        """Returns, by owner, when each lease was last renewed, by the store's clock."""
        files = self._folder.files(FOLDER)
        return {file.name.removesuffix(".json"): file.written for file in files}

    # The table

    def _read_table(self) -> tuple[dict[str, set[str]], str | None]:
        """Returns the locks of each owner, and the table's version (None: no table yet)."""
        try:
            stored = self._folder.get(TABLE)
        except FileNotFoundError:
            return {}, None
        held = json.loads(stored.data)["held"]
        return {owner: set(names) for owner, names in held.items()}, stored.version

    def _swap_table(self, table: Mapping[str, set[str]], version: str | None) -> bool:
        """Writes the table if the stored one is still of that version. Returns whether it was."""
        held = {owner: sorted(names) for owner, names in table.items() if names}
        content = to_json({"revision": uuid.uuid4().hex, "held": held})  # no two tables are alike
        if self._folder.swap(TABLE, content, version) is None:
            time.sleep(random.uniform(0, 0.2))
            return False
        return True
