"""Unfinished downloads: files below hidden names that continue where an earlier pull was cut; and the hidden directory
of a target that has them, and what is being pulled.

Several pulls may use the hidden directory at once: each holds a shared lock on it, and the last one removes it. Readers
and writers of tables skip it, because its name begins with a dot.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeGuard
from uuid import uuid4

from deltacli.core.typing import Json
from deltacli.sharing.client.faults import PullRefused
from deltacli.sharing.pulling.local_actions import PullSource
from deltacli.storage.disk_faults import writing_faults

WORKSPACE = ".deltacli-pull"
_MARKER, _LOCK = "pull.json", "lock"
_MOST_MARKER_BYTES = 64 << 10
_LONGEST_TAG = 500


class Part:
    """An unfinished download, locked by its writer. `tag` is the ETag of the bytes so far, None where unknown."""

    def __init__(self, place: str, name: str, descriptor: int) -> None:
        self.place, self.name, self._descriptor = place, name, descriptor
        self.size_bytes = os.fstat(descriptor).st_size
        self.tag = _read_tag(place) if self.size_bytes else None

    @property
    def can_continue(self) -> bool:
        """Return True where the bytes so far can be continued."""
        return self.size_bytes > 0 and self.tag is not None

    def restart(self, tag: str | None, *, is_large: bool) -> None:
        """Drop the bytes so far. A strong tag is kept, so that a later pull can continue a large file."""
        with writing_faults(self.place, self.name):
            if self.size_bytes:
                os.ftruncate(self._descriptor, 0)
                with suppress(FileNotFoundError):
                    os.unlink(f"{self.place}.tag")
            self.size_bytes, self.tag = 0, None
            if is_large and is_strong_tag(tag):
                with open(f"{self.place}.tag", "w", encoding="utf-8") as file:
                    file.write(tag)
                self.tag = tag

    def write(self, data: bytes) -> None:
        """Append bytes. Raises NoSpace and StorageFailed."""
        with writing_faults(self.place, self.name):
            rest = memoryview(data)
            while rest:
                written = os.pwrite(self._descriptor, rest, self.size_bytes)
                self.size_bytes += written
                rest = rest[written:]

    def stretch(self, size_bytes: int) -> None:
        """Give the file its full length; bytes that were not written are zero. Raises NoSpace and StorageFailed."""
        with writing_faults(self.place, self.name):
            with suppress(FileNotFoundError):
                os.unlink(f"{self.place}.tag")  # with it, the length would be that of the bytes so far
            os.ftruncate(self._descriptor, size_bytes)
            self.size_bytes = size_bytes

    def write_at(self, data: bytes, offset: int) -> None:
        """Write bytes inside the length of the file, from any thread. Raises NoSpace and StorageFailed."""
        with writing_faults(self.place, self.name):
            rest = memoryview(data)
            while rest:
                written = os.pwrite(self._descriptor, rest, offset)
                offset += written
                rest = rest[written:]

    def sync(self) -> None:
        """Write the bytes so far to disk. Raises StorageFailed."""
        with writing_faults(self.place, self.name):
            os.fsync(self._descriptor)

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file."""
        return os.pread(self._descriptor, length, offset)

    def publish(self, target: str) -> None:
        """Sync the file and give it its name. Raises StorageFailed."""
        with writing_faults(target, self.name):
            os.fsync(self._descriptor)
            os.rename(self.place, target)
        for record in ("tag", "ranges"):
            with suppress(OSError):
                os.unlink(f"{self.place}.{record}")


@contextmanager
def open_part(directory: str, name: str) -> Iterator[Part]:
    """Open the unfinished download of a file; another one where a pull that is running has it. Raises StorageFailed."""
    place = f"{directory}/{name}.part"
    with writing_faults(place, name):
        descriptor = _open(place)
        if descriptor is None:
            place = f"{directory}/{name}.{uuid4().hex}.part"
            descriptor = _open(place)
    assert descriptor is not None  # nothing else knows its name
    try:
        yield Part(place, name, descriptor)
    finally:
        os.close(descriptor)


def _open(place: str) -> int | None:
    """Return the locked descriptor of a file; None where another process has locked it. Raises OSError."""
    descriptor = None
    while descriptor is None:  # it was published by another pull: the next one is new
        try:
            descriptor = lock_named(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
    return descriptor


def lock_named(place: str, operation: int) -> int | None:
    """Return the locked descriptor of a file, which is made if it is missing; None where another file, or none, has the
    name by then. Raises OSError.
    """
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    is_named = False
    try:
        fcntl.flock(descriptor, operation)
        with suppress(FileNotFoundError):
            is_named = os.path.samestat(os.fstat(descriptor), os.lstat(place))
    finally:
        if not is_named:
            os.close(descriptor)
    return descriptor if is_named else None


def _read_tag(place: str) -> str | None:
    try:
        with open(f"{place}.tag", encoding="utf-8") as file:
            tag = file.read(_LONGEST_TAG + 1)
    except (OSError, UnicodeDecodeError):
        return None
    return tag if is_strong_tag(tag) else None


def is_strong_tag(tag: object) -> TypeGuard[str]:
    """Return True for an ETag that only equal bytes share."""
    if not isinstance(tag, str) or not 2 <= len(tag) <= _LONGEST_TAG:
        return False
    return tag.startswith('"') and tag.endswith('"') and tag.isascii() and tag.isprintable()


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What an unfinished pull was pulling."""

    source: PullSource
    version: int


class Workspace:
    """The open workspace of one pull."""

    def __init__(self, directory: str, lock: int) -> None:
        self.directory, self._lock = directory, lock

    @property
    def place(self) -> str:
        """The path of the workspace."""
        return f"{self.directory}/{WORKSPACE}"

    def mark(self, source: PullSource, version: int) -> None:
        """Record what is being pulled. Raises PullRefused where another pull is pulling another table."""
        draft, marker = f"{self.place}/{uuid4().hex}", f"{self.place}/{_MARKER}"
        with writing_faults(marker, _MARKER):
            with open(draft, "x", encoding="utf-8") as file:
                json.dump({**source.facts, "version": version}, file)
            with suppress(OSError):  # it exists, or the file system has no hard links
                os.link(draft, marker)
            found = read_unfinished(self.directory)
            if found is not None and found.source != source:
                os.unlink(draft)
                raise unfinished_other(self.directory, found)
            os.replace(draft, marker)

    def close(self, *, is_done: bool) -> None:
        """Release the workspace; remove it after a finished pull, if no other pull uses it."""
        try:
            if is_done:
                with suppress(OSError):
                    fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(self.place, ignore_errors=True)
        finally:
            os.close(self._lock)


@contextmanager
def open_workspace(directory: str) -> Iterator[Workspace]:
    """Make the workspace of a target, and remove it when the block ends without an error. Raises StorageFailed."""
    with writing_faults(f"{directory}/{WORKSPACE}", WORKSPACE):
        workspace = Workspace(directory, _locked(directory))
    is_done = False
    try:
        yield workspace
        is_done = True
    finally:
        workspace.close(is_done=is_done)


def _locked(directory: str) -> int:
    """Return the descriptor of a lock file that is still there after it was locked. Raises OSError."""
    while True:
        os.makedirs(f"{directory}/{WORKSPACE}", mode=0o777, exist_ok=True)
        if not stat.S_ISDIR(os.lstat(f"{directory}/{WORKSPACE}").st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), f"{directory}/{WORKSPACE}")
        with suppress(FileNotFoundError):  # another pull has just removed the workspace
            if (descriptor := lock_named(f"{directory}/{WORKSPACE}/{_LOCK}", fcntl.LOCK_SH)) is not None:
                return descriptor


def read_unfinished(directory: str) -> Unfinished | None:
    """Return what an unfinished pull of a target was pulling; None without one."""
    try:
        with open(f"{directory}/{WORKSPACE}/{_MARKER}", "rb") as file:
            found: dict[str, Json] = json.loads(file.read(_MOST_MARKER_BYTES))
        source = PullSource(str(found["endpoint"]), str(found["table"]), str(found["tableId"]))
        return Unfinished(source, int(found["version"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def unfinished_other(directory: str, found: Unfinished) -> PullRefused:
    """Return the refusal of a target where another table is being pulled."""
    return PullRefused(
        f"{directory} has an unfinished pull of another table",
        facts=found.source.facts,
        hint="pull into another directory, or delete this one",
    )
