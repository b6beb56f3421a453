"""Named locks on an object store, where nothing dies with a process: leases.

A process that holds any lock has one lease, `leases/<owner>.json`, which a thread renews. Which
locks it holds is written in one table for all, `leases/held.json`: however many they are, taking
them is a few requests. Both change by compare-and-swap alone, so of two processes that want the
same one succeeds and the other looks again.

A lease that was not renewed for `TERM_SECONDS` may be ended by anyone: by putting a last version
in its place, so that its owner's next renewal fails. Its age is the difference of two times by the
store's own clock (its last renewal, and our renewal just now), so that machines' clocks need not
agree. Only `held_elsewhere`, in a process that holds nothing and so writes nothing, has to compare
its own clock with the store's.
"""

from __future__ import annotations

import json
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from sweepd.errors import EnvironmentFailure
from sweepd.store.bucket import ObjectFolder
from sweepd.store.storage import to_json

TERM_SECONDS = 30.0
RENEW_SECONDS = 5.0
TRUST_SECONDS = 10.0
"""How long a renewal is relied on without renewing again."""
REQUEST_SECONDS = 4.0
"""How long a renewal in the background may take; it is not tried again before the next is due."""
POLL_SECONDS = 2.0

FOLDER, TABLE = "leases", "leases/held.json"


class Leases:
    """See `locks.Locks`. Safe to use from several threads."""

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
            self._begin()
            while True:
                table, version = self._read_table()
                others = {owner: held for owner, held in table.items() if owner != self._owner}
                dead = self._dead(others)
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
        if self.acquire([name]):
            return True
        seen = None if name in self._held else self._lease_of_holder(name)
        if seen:
            note(
                f"{name}: waiting at most {TERM_SECONDS:.0f} s to see whether process "
                f"{seen['pid']} on {seen['host']}, which held it last, still runs"
            )
        while seen:
            time.sleep(POLL_SECONDS)
            if self.acquire([name]):
                return True
            now = self._lease_of_holder(name)
            if now and now != seen:
                return False  # it renews its lease, or has handed the lock to another
            seen = now
        return bool(self.acquire([name]))

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
                gone = self._dead(others)
            else:
                written, now = self._written() if others else {}, time.time()
                gone = {
                    owner for owner in others if now - written.get(owner, 0.0) > 2 * TERM_SECONDS
                }
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

    def _begin(self) -> None:
        """Take out a lease if there is none, and have it renewed."""
        with self._lease_guard:
            self.confirm()
            if self._version:
                return
            self._owner = uuid.uuid4().hex
            self._renewed = time.monotonic()
            self._version = self._folder.swap(self._path(), self._content(), None)
            self._over = threading.Event()
            threading.Thread(target=self._keep, args=[self._over], daemon=True).start()

    def _keep(self, over: threading.Event) -> None:
        """Renew the lease until it is given up or lost."""
        while not over.wait(RENEW_SECONDS):
            with self._lease_guard, suppress(EnvironmentFailure):
                # A try that fails does no harm: nobody can end the lease without a later try,
                # once one arrives, finding that out.
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
        if version is None:  # unless an earlier try of ours arrived without our knowing
            with suppress(FileNotFoundError):
                found = folder.get(self._path())
                if not json.loads(found.data).get("ended"):
                    version = folder.swap(self._path(), self._content(), found.version)
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

    def _dead(self, owners: Collection[str]) -> set[str]:
        """Returns the owners whose lease is over. It stays so."""
        if not owners:
            return set()
        with self._lease_guard:
            self._renew(self._folder)
        written = self._written()
        now = written.get(self._owner, 0.0)
        return {owner for owner in owners if owner not in written or self._evict(owner, now)}

    def _written(self) -> dict[str, float]:
        """When each lease was renewed, by owner and the store's clock."""
        files = self._folder.files(FOLDER)
        return {file.name.removesuffix(".json"): file.written for file in files}

    def _evict(self, owner: str, now: float) -> bool:
        """End a lease that was not renewed for its term. Returns whether it is over."""
        try:
            lease = self._folder.get(self._path(owner))
        except FileNotFoundError:
            return True
        if now - lease.written <= TERM_SECONDS:
            return False
        if self._folder.swap(self._path(owner), to_json({"ended": True}), lease.version) is None:
            return False
        self._folder.delete([self._path(owner)])
        return True

    def _lease_of_holder(self, name: str) -> Mapping[str, Any] | None:
        """What the holder last wrote in its lease, if there is a holder with one."""
        table, _ = self._read_table()
        for owner, held in table.items():
            if name in held:
                try:
                    return {"owner": owner, **json.loads(self._folder.read(self._path(owner)))}
                except FileNotFoundError:
                    return None
        return None

    # The table

    def _read_table(self) -> tuple[dict[str, set[str]], str | None]:
        """The locks of each owner, and the table's version (None: there is none yet)."""
        try:
            found = self._folder.get(TABLE)
        except FileNotFoundError:
            return {}, None
        held = json.loads(found.data)["held"]
        return {owner: set(names) for owner, names in held.items()}, found.version

    def _swap_table(self, table: Mapping[str, set[str]], version: str | None) -> bool:
        """Whether the table still was of that version. Holders of nothing are left out."""
        held = {owner: sorted(names) for owner, names in table.items() if names}
        content = to_json({"revision": uuid.uuid4().hex, "held": held})  # no two alike
        if self._folder.swap(TABLE, content, version) is None:
            time.sleep(random.uniform(0, 0.2))
            return False
        return True
