"""The audit log: a JSON object per line for each request that is served, written before its first byte.

Several processes append to one file. Each line is written under a lock on the file, so that a full disk leaves no part
of a line, and no line is written to a file that another process is rotating away.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from deltacli.sharing.configuration.private_files import MODE
from deltacli.sharing.configuration.settings import Audit
from deltacli.storage.disk_faults import writing_faults
from deltacli.typing import JsonObject

Entry = JsonObject


class AuditTrail(Protocol):
    """Where requests are recorded."""

    def write(self, entry: Entry) -> None:
        """Record an entry durably enough to survive the process. Raises StorageFailed."""


class NoAudit:
    """Records nothing: no audit log is configured."""

    def write(self, entry: Entry) -> None:
        """Do nothing."""


class AuditFile:
    """An audit log in a file that is rotated at a size: `audit.log.1` is the newest old one."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._descriptor = -1
        self._lock = threading.Lock()

    def open(self) -> None:
        """Open or create the file, to find faults before the first request. Raises StorageFailed."""
        with self._lock, self._faults():
            self._reopen()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()

    def write(self, entry: Entry) -> None:
        """Append an entry, completely or not at all. Raises StorageFailed."""
        line = json.dumps(entry, separators=(",", ":")).encode("ascii") + b"\n"  # some readers split at U+2028
        with self._lock, self._faults(), self._exclusive() as descriptor:
            if os.fstat(descriptor).st_size + len(line) > self._audit.rotate_bytes and os.fstat(descriptor).st_size:
                self._rotate()
                descriptor = self._descriptor
            _append(descriptor, line)

    @contextmanager
    def _exclusive(self) -> Iterator[int]:
        """Hold the lock of the file that has the name at the moment."""
        while True:
            if self._descriptor < 0:
                self._reopen()
            locked = self._descriptor
            fcntl.flock(locked, fcntl.LOCK_EX)
            if _has_name(locked, self._audit.file):
                break
            self._close()  # rotated by another process, or moved: releases the lock
        try:
            yield locked
        finally:
            if self._descriptor >= 0:  # else a rotation failed
                with suppress(OSError):
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _rotate(self) -> None:
        """Rename the file and its older ones, drop the oldest, and begin an empty one, whose lock is then held."""
        name = os.fspath(self._audit.file)
        for number in range(self._audit.keep - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(f"{name}.{number}", f"{name}.{number + 1}")
        os.replace(name, f"{name}.1")
        old, self._descriptor = self._descriptor, -1
        try:
            self._reopen()
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        finally:
            os.close(old)  # only now others may continue, with the file that has the name

    def _reopen(self) -> None:
        self._close()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._audit.file, flags, MODE)

    def _close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        place = os.path.abspath(self._audit.file)
        with writing_faults(place, f"the audit log {place}"):
            yield


def open_audit(audit: Audit | None, *, must_open: bool = True) -> AuditTrail:
    """Return the audit log of a configuration. Raises StorageFailed where it cannot be opened; without `must_open`, the
    requests that cannot be recorded are refused instead.
    """
    if audit is None:
        return NoAudit()
    file = AuditFile(audit)
    if must_open:
        file.open()
    return file


def _append(descriptor: int, line: bytes) -> None:
    """Write a line; on a fault, remove the part that was written. Raises OSError."""
    before = os.fstat(descriptor).st_size
    rest = memoryview(line)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, before)
        raise


def _has_name(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
