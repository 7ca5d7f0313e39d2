"""Leases: at most one run works on a table at a time, also from several machines.

A lease is a file with a number. Who creates the next number by `put_if_absent` has the lease, so of several exactly one
succeeds. Only the file with the highest number counts, and only lower ones are deleted. A lease ends when its holder
releases it, when it expires, or when its process on the same machine has ended. It expires when it was not renewed for
the time that the policy file gives (`lease`, of `RunSettings`).
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, NamedTuple

from deltacli.core.clock import Clock
from deltacli.core.documents import dumps, loads
from deltacli.core.errors import DeltacliError, FileMissing, StorageFailed
from deltacli.core.typing import JsonObject
from deltacli.core.units import format_timestamp
from deltacli.fleet.names import table_digest
from deltacli.storage.outcomes import Unknown
from deltacli.storage.secrets import without_secrets

if TYPE_CHECKING:
    from deltacli.storage import Storage

_SUFFIX = ".lease"
_NAME = re.compile(r"[0-9]{12}\.lease")
_RENEWALS = 3
"""Number of times that a lease is renewed in the time after which it expires."""


class Holder(NamedTuple):
    """Who holds a lease, as its file says."""

    number: int
    run: str
    host: str
    process: str
    expires_ms: int
    is_released: bool = False

    @property
    def sentence(self) -> str:
        """Return who holds it and how long."""
        return f"run {self.run} on {self.host} holds the lease until {format_timestamp(self.expires_ms)}"


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that this run holds. `stolen` is why it was taken from another run; None where it was free."""

    key: str
    number: int
    stolen: str | None = None
    stolen_from: str | None = None


class Leases:
    """The leases of one run in a directory of a store.

    `steal` is the reason to take leases that others hold; None: they are respected. Raises StorageFailed, and what
    `put_if_absent` raises.
    """

    def __init__(self, store: Storage, run: str, duration_ms: int, clock: Clock, *, steal: str | None = None) -> None:
        self._store, self._run, self._duration_ms, self._clock = store, run, duration_ms, clock
        self._steal = steal
        self._host, self._process = socket.gethostname(), process_identity(os.getpid())
        self._held: dict[str, Lease] = {}
        self._lock = Lock()

    def acquire(self, resource: str) -> Lease | Holder:
        """Return the lease of a table or run, or who holds it."""
        key = table_digest(resource)
        holder = self._newest(key)
        reason = None if holder is None else self._reason_to_take(holder)
        if holder is not None and reason is None:
            return holder
        number = 1 if holder is None else holder.number + 1
        creation = self._store.put_if_absent(_path(key, number), self._content(resource))
        found = self._newest(key)
        if found is None or found.number < number:
            reason = str(creation.cause) if isinstance(creation, Unknown) else "it was deleted"
            raise StorageFailed(f"the lease of {resource} could not be taken: {without_secrets(reason)}")
        # A newer number is there also where we were slow: others took, released and deleted ours meanwhile.
        if (found.number, found.run, found.process) != (number, self._run, self._process):
            return found
        is_stolen = holder is not None and not holder.is_released
        lease = Lease(key, number, reason if is_stolen else None, holder.run if holder and is_stolen else None)
        with self._lock:
            self._held[resource] = lease
        if holder is not None:
            self._delete_older(key, number)
        return lease

    def release(self, resource: str) -> None:
        """End a lease. A fault of the store is not raised: the lease then expires."""
        with self._lock:
            lease = self._held.pop(resource, None)
            if lease is not None:
                with suppress(DeltacliError):
                    self._store.put(_path(lease.key, lease.number), self._content(resource, is_released=True))

    def remove(self, resource: str) -> None:
        """End a lease and delete its file. Only for what no other run can want any more."""
        with self._lock:
            lease = self._held.pop(resource, None)
        if lease is not None:
            with suppress(DeltacliError):
                for _ in self._store.delete_many([_path(lease.key, lease.number)]):
                    self._store.remove_directory(lease.key)

    def is_held(self, resource: str) -> bool:
        """Return True if the lease was not taken by another run meanwhile."""
        lease = self._held.get(resource)
        newest = None if lease is None else self._newest(lease.key)
        return lease is not None and newest is not None and newest.number == lease.number

    def renew(self) -> None:
        """Extend all leases that are still held."""
        for resource, lease in list(self._held.items()):
            with suppress(DeltacliError):
                if self.is_held(resource):
                    self._extend(resource, lease)

    def _extend(self, resource: str, lease: Lease) -> None:
        with self._lock:  # never after its release, which would be undone
            if self._held.get(resource) is lease:
                self._store.put(_path(lease.key, lease.number), self._content(resource))

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew the leases in the background."""
        ended = Event()

        def keep_renewing() -> None:
            while not ended.wait(self._duration_ms / _RENEWALS / 1_000):
                self.renew()

        thread = Thread(target=keep_renewing, name="deltacli-leases", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()

    def _newest(self, key: str) -> Holder | None:
        try:
            names = [stat.name for stat in self._store.list_from(key) if _NAME.fullmatch(stat.name)]
        except FileMissing:
            return None
        for name in reversed(names):
            number = int(name.removesuffix(_SUFFIX))
            try:
                return _read(number, self._store.read(f"{key}/{name}"))
            except FileMissing:
                return self._newest(key)  # a newer one was created, and this one deleted
        return None

    def _reason_to_take(self, holder: Holder) -> str | None:
        """Return why a lease can be taken, None where it must be respected."""
        if holder.is_released:
            return "it was released"
        if holder.expires_ms <= self._clock():
            return f"it expired at {format_timestamp(holder.expires_ms)}"
        if holder.host == self._host and not process_is_alive(holder.process):
            return f"its process {holder.process.partition('@')[0]} has ended"
        return self._steal

    def _content(self, resource: str, *, is_released: bool = False) -> bytes:
        now_ms = self._clock()
        content = {
            "resource": resource,
            "run": self._run,
            "host": self._host,
            "process": self._process,
            "writtenMs": now_ms,
            "expiresMs": now_ms + self._duration_ms,
            "released": is_released,
        }
        return dumps(content) + b"\n"

    def _delete_older(self, key: str, number: int) -> None:
        with suppress(DeltacliError):
            older = [stat.name for stat in self._store.list_from(key) if stat.name < _name(number)]
            for _ in self._store.delete_many([f"{key}/{name}" for name in older]):
                pass


def _name(number: int) -> str:
    return f"{number:012d}{_SUFFIX}"


def _path(key: str, number: int) -> str:
    return f"{key}/{_name(number)}"


def _read(number: int, data: bytes) -> Holder:
    """Return the holder that a file names. A damaged file counts as an expired lease."""
    try:
        content: JsonObject = loads(data)
        return Holder(
            number,
            str(content["run"]),
            str(content["host"]),
            str(content["process"]),
            int(content["expiresMs"]),
            content["released"] is True,
        )
    except (ValueError, KeyError, TypeError):
        return Holder(number, "unknown", "", "", 0)


def process_identity(pid: int) -> str:
    """Return a process as `PID@START@NAMESPACE`, because numbers of processes are used again, and by each container;
    without the last two where the system does not tell them.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            start = file.read().rpartition(b")")[2].split()[19].decode()
        return f"{pid}@{start}@{os.stat('/proc/self/ns/pid').st_ino}"
    except (OSError, IndexError):
        return f"{pid}@"


def process_is_alive(identity: str) -> bool:
    """Return True if a process of this machine still runs, or where that is not known, as of another container."""
    number, _, rest = identity.partition("@")
    namespace, own = rest.partition("@")[2], process_identity(os.getpid()).partition("@")[2].partition("@")[2]
    if not number.isdecimal() or (namespace and namespace != own):
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return process_identity(int(number)) == identity
