"""Copying one file between stores: its bytes, and on a local disk its time."""

from __future__ import annotations

import os
import shutil

from deltacli.errors import StorageFailed
from deltacli.storage import Created, Creation, Storage
from deltacli.storage.disk_faults import writing_faults

_LARGEST_IN_MEMORY = 8 << 20
_BYTES_AT_ONCE = 8 << 20


def copy_file(
    origin: Storage, path: str, size_bytes: int, to: Storage, *, replace: bool = False, target: str | None = None
) -> Creation:
    """Copy a file with its time, which stores other than local disks do not keep, to the same path or a `target`.
    Raises StorageFailed.
    """
    target = path if target is None else target
    modified_ms = origin.stat(path).modified_ms
    if size_bytes <= _LARGEST_IN_MEMORY:
        data = origin.read(path)
        _require_size(origin, path, len(data), size_bytes)
        if not replace:
            return to.put_if_absent(target, data, modified_ms=modified_ms)
        to.put(target, data, modified_ms=modified_ms)
        return Created()
    with to.draft(target) as draft, origin.open(path) as reader:
        with writing_faults(draft.place, path), open(draft.place, "wb") as writer:
            shutil.copyfileobj(reader, writer, _BYTES_AT_ONCE)
            _require_size(origin, path, writer.tell(), size_bytes)
        os.utime(draft.place, ns=(modified_ms * 1_000_000,) * 2)
        return draft.publish(replace=replace)


def _require_size(origin: Storage, path: str, seen: int, expected: int) -> None:
    if seen != expected:
        raise StorageFailed(
            f"{path} was changed while it was copied",
            facts={"source": origin.uri, "seen": f"{seen} bytes", "expected": f"{expected} bytes"},
        )
