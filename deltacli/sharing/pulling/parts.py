"""Unfinished downloads: files below hidden names that continue where an earlier pull was cut."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TypeGuard
from uuid import uuid4

from deltacli.storage.disk_faults import writing_faults

CONTINUED_BYTES = 1 << 20
"""Smaller files begin anew: a request for the rest takes as long as one for the whole."""
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
    while True:
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.lstat(place)):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass  # it was published by another pull: the next one is new
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


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
