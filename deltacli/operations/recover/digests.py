"""Comparing files of a source with what was noted of them when they were copied: their SHA-256, or the store's tag."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from deltacli.arrow import compute as pc
from deltacli.delta.paths import text_of
from deltacli.engine.base import Engine
from deltacli.errors import FileMissing
from deltacli.operations.recover.needed import NeededFiles, whole
from deltacli.operations.recover.verify import Fault, Problem
from deltacli.progress import Progress, weighed
from deltacli.storage import Storage
from deltacli.typing import ArrowArray, ArrowTable

_BYTES_AT_ONCE = 8 << 20
_FILES_AT_ONCE = 10_000


class Digests(Protocol):
    """What was noted of the files of a source."""

    def of(self, paths: ArrowArray) -> ArrowTable:
        """Return `path` (as bytes), `sha256` (bytes) and `tag` of some files; both are null where they are unknown."""


class _Noted(NamedTuple):
    row: int
    path: str
    size_bytes: int
    sha256: bytes | None
    tag: str | None


class Compared(NamedTuple):
    """The faults by the row of a file, and the number of those that nothing proves: nothing was noted of them, or the
    object was written again since.
    """

    faults: dict[int, Fault]
    unproven: int


def compare_digests(
    digests: Digests,
    storage: Storage,
    needed: NeededFiles,
    sizes: ArrowArray,
    sound: ArrowArray,
    engine: Engine,
    progress: Progress,
) -> Compared:
    """Compare the files of a mask with what was noted. `sizes` are their bytes in the store. Raises StorageFailed."""
    rows = pc.indices_nonzero(sound)
    paths = pc.take(whole(needed.files["path"]), rows)
    noted = digests.of(paths)
    found = pc.index_in(paths, value_set=whole(noted["path"]))
    sha256, tag = (pc.take(whole(noted[name]), found) for name in ("sha256", "tag"))
    columns = (rows, paths, pc.take(sizes, rows), sha256, tag)
    faults, unproven = dict[int, Fault](), 0

    def compare(file: _Noted) -> bool | None:
        return _is_same(storage, file)

    total = pc.sum(columns[2]).as_py() or 0
    with weighed(progress, "comparing checksums", unit="files", total=len(rows), weight=total) as step:
        for begin in range(0, len(rows), _FILES_AT_ONCE):
            part = zip(*(column.slice(begin, _FILES_AT_ONCE).to_pylist() for column in columns), strict=True)
            files = [_Noted(row, text_of(path), *known) for row, path, *known in part]
            for file, same in zip(files, engine.run(compare, files), strict=True):
                if same is None:
                    unproven += 1
                elif not same:
                    faults[file.row] = (Problem.CHECKSUM, "other bytes than when it was copied")
                step.advance(weight=file.size_bytes)
    return Compared(faults, unproven)


def _is_same(storage: Storage, file: _Noted) -> bool | None:
    """Return whether a file has the noted bytes. None: nothing was noted, or its tag is another one, which need not
    mean other bytes.
    """
    if file.sha256 is not None:
        return sha256_of(storage, file.path, file.size_bytes) == file.sha256
    if file.tag is None:
        return None
    try:
        return storage.stat(file.path).tag == file.tag or None
    except FileMissing:
        return False


def sha256_of(storage: Storage, path: str, size_bytes: int) -> bytes | None:
    """Return the digest of a file, None where it is gone or has another size. Raises StorageFailed."""
    import hashlib

    digest, seen = hashlib.sha256(), 0
    try:
        for begin in range(0, max(size_bytes, 1), _BYTES_AT_ONCE):
            data = storage.read_range(path, begin, _BYTES_AT_ONCE)
            digest.update(data)
            seen += len(data)
    except FileMissing:
        return None
    return digest.digest() if seen == size_bytes else None
