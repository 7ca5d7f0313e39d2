"""Batches of rows in a temporary file, compressed, to be read again in any order."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Self

import pyarrow as pa

from deltacli.core.errors import NoSpace, StorageFailed
from deltacli.core.units import format_size
from deltacli.storage.locked_drafts import LockedDraft, remove_abandoned_drafts
from deltacli.storage.os_errors import translate_os_error

_PREFIX = "deltacli-rows-"


def get_free_bytes(directory: str | None) -> int:
    """Return the free space of a directory for temporary files (None: the one of the system). Raises StorageFailed."""
    directory_path = directory or tempfile.gettempdir()
    try:
        file_system = os.statvfs(directory_path)
    except OSError as fault:
        raise translate_os_error(fault, directory_path, directory_path, "used for temporary files") from fault
    return file_system.f_bavail * file_system.f_frsize


def require_space(directory: str | None, needed: int) -> None:
    """Raise NoSpace where temporary files of a size do not fit."""
    free = get_free_bytes(directory)
    if needed > free:
        directory_path = directory or tempfile.gettempdir()
        raise NoSpace(
            f"{directory_path} has no room for the rows to sort",
            facts={"needed": format_size(needed), "free": format_size(free)},
            hint=f"df -h {directory_path}",
        )


class SpillFile:
    """A temporary file of batches of one schema, removed at the end. All methods raise StorageFailed."""

    def __init__(self, directory: str | None, schema: pa.Schema) -> None:
        self._directory = directory or tempfile.gettempdir()
        self._schema = schema
        self._batches = 0
        self._draft: LockedDraft | None = None
        self._writer: Any = None  # Any: Arrow's writer, reader and files
        self._reader: Any = None
        self._file: Any = None

    def __enter__(self) -> Self:
        try:
            # Files of runs that were killed are removed: nobody holds their locks.
            self._draft = LockedDraft(self._directory, _PREFIX, mode=0o600)
            remove_abandoned_drafts(self._directory, _PREFIX, self._draft.changed_ns)
            self._file = pa.OSFile(os.fsencode(self._draft.local_path), "wb")
            codec = "lz4" if pa.Codec.is_available("lz4") else None
            options = pa.ipc.IpcWriteOptions(compression=codec)
            self._writer = pa.ipc.new_file(self._file, self._schema, options=options)
        except OSError as fault:
            self.close()
            raise self._fault(fault, "written") from fault
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the file."""
        for opened in (self._writer, self._file):
            try:
                if opened is not None:
                    opened.close()
            except OSError:  # the disk is full; the file is removed anyway
                pass
        self._writer = self._reader = self._file = None
        if self._draft is not None:
            self._draft.close()
            self._draft = None

    @property
    def size_bytes(self) -> int:
        return int(self._file.tell())

    def add(self, batch: pa.RecordBatch) -> int:
        """Write a batch and return its number."""
        try:
            self._writer.write_batch(batch)
        except OSError as fault:
            raise self._fault(fault, "written") from fault
        self._batches += 1
        return self._batches - 1

    def finish(self) -> None:
        """Finish writing; then batches can be read."""
        try:
            self._writer.close()
            self._file.close()
            self._writer = None
            self._file = pa.OSFile(os.fsencode(self._place), "rb")
            self._reader = pa.ipc.open_file(self._file)
        except OSError as fault:
            raise self._fault(fault, "written") from fault

    def __len__(self) -> int:
        return self._batches

    def read(self, number: int) -> pa.RecordBatch:
        try:
            return self._reader.get_batch(number)
        except (OSError, pa.ArrowException) as fault:
            raise StorageFailed(
                f"temporary rows in {self._place} cannot be read again",
                facts={"reason": " ".join(str(fault).split())[:200]},
            ) from fault

    @property
    def _place(self) -> str:
        return self._draft.local_path if self._draft is not None else self._directory

    def _fault(self, fault: OSError, what: str) -> StorageFailed:
        return translate_os_error(fault, self._place, self._place, what)
