"""Comparing Hadoop's checksum files with the files beside them, for tables on local disks.

Files of the log are compared completely. Of data files, which may be many and large, the length and the last chunk are
compared: the last chunk of a Parquet file has the end of its footer, so one that was replaced by another file shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from deltacli.core.errors import FileMissing, StorageFailed
from deltacli.delta.log.segment import LOG_DIRECTORY, SIDECAR_DIRECTORY
from deltacli.operations.validate.inspect_storage import STAGED_DIRECTORY, WholeLog, WholeTable
from deltacli.rules.framework.views import HadoopChecksumsView, UnfitChecksum
from deltacli.storage.hadoop_checksums import (
    CHECKSUM_BYTES,
    HEADER_BYTES,
    HadoopChecksum,
    get_checksum_path,
    get_checksummed_path,
    has_enough_checksums,
)

if TYPE_CHECKING:
    from deltacli.engine.base import Engine
    from deltacli.storage import ReadStorage

_LARGEST_CHUNK_BYTES = 64 << 20
"""Of a file whose chunks are larger, only the length is compared. By default they have 512 bytes."""
_READ_BYTES = 1 << 20


class UnreadChecksum(str):
    """The path of a checksum file that could not be compared."""

    __slots__ = ()


def compare_checksums(
    storage: ReadStorage, engine: Engine, log: WholeLog, listed: WholeTable | None, not_checked: list[str]
) -> HadoopChecksumsView:
    """Compare the checksum files of a table with their files.

    Args:
        storage: The store of the table. Hadoop keeps checksum files only where it is a local disk.
        engine: Runs the comparisons.
        log: The listing of the log.
        listed: The listing of the table, or None where it was not listed.
        not_checked: Gets a sentence for each checksum file that could not be compared.

    Returns:
        The checksum files that Hadoop would not accept.
    """
    if not storage.uri.startswith("file:"):
        return HadoopChecksumsView(())

    with_checksum = _find_pairs(_names_of_log(log))
    results = list(engine.run(partial(_compare, storage, is_whole=True), with_checksum))
    if listed is not None:
        # The files of a nested table are those of another table.
        nested = tuple(f"{directory}/" for directory in listed.nested_logs)
        paths = (path for path in listed.files if not path.startswith(nested))
        with_checksum = _find_pairs(paths)
        results += engine.run(partial(_compare, storage, is_whole=False), with_checksum)

    not_checked.extend(f"{result}, which could not be read" for result in results if isinstance(result, UnreadChecksum))
    return HadoopChecksumsView(tuple(result for result in results if isinstance(result, UnfitChecksum)))


def find_unfit_checksum(storage: ReadStorage, checksum: str, *, is_whole: bool) -> UnfitChecksum | None:
    """Return what is wrong with a checksum file; None if it fits its file, or if one of them is gone.

    Raises:
        StorageFailed: One of them cannot be read.
    """
    try:
        unfit = _look(storage, checksum, is_whole=is_whole)
        # Spark replaces a file first and then its checksum file: what it has just written may not fit for a moment.
        return None if unfit is None else _look(storage, checksum, is_whole=is_whole)
    except FileMissing:
        return None


def _names_of_log(log: WholeLog) -> Iterator[str]:
    """Yield the paths of the files of the log below the table."""
    yield from (f"{LOG_DIRECTORY}/{file.name}" for file in log.files)
    yield from (f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}/{file.path}" for file in log.sidecars)
    yield from (f"{LOG_DIRECTORY}/{STAGED_DIRECTORY}/{file.path}" for file in log.staged)


def _find_pairs(paths: Iterable[str]) -> list[str]:
    """Return the paths of the checksum files whose files are among the paths, too."""
    present = set(paths)
    checksums = (get_checksum_path(path) for path in sorted(present))
    return [checksum for checksum in checksums if checksum in present and checksum is not None]


def _compare(storage: ReadStorage, checksum: str, *, is_whole: bool) -> UnfitChecksum | UnreadChecksum | None:
    try:
        return find_unfit_checksum(storage, checksum, is_whole=is_whole)
    except StorageFailed:
        return UnreadChecksum(checksum)


def _look(storage: ReadStorage, checksum: str, *, is_whole: bool) -> UnfitChecksum | None:
    """Compare a checksum file with its file once. Raises FileMissing and StorageFailed."""
    path = get_checksummed_path(checksum)
    if is_whole:
        content = HadoopChecksum.parse(storage.read(checksum))
        mismatch = None if content is None else content.find_mismatch(_blocks(storage, path))
    else:
        mismatch = _find_mismatch_at_ends(storage, path, checksum)
    return None if mismatch is None else UnfitChecksum(checksum, path, mismatch)


def _blocks(storage: ReadStorage, path: str) -> Iterator[bytes]:
    with storage.open(path) as reader:
        while block := reader.read(_READ_BYTES):
            yield block


def _find_mismatch_at_ends(storage: ReadStorage, path: str, checksum: str) -> int | None:
    """Return where a large file does not fit its checksum file, as far as its first and its last chunk show it.

    Of a checksum file, too, only the parts that are needed are read: it has 8 MiB for a file of 1 GiB.
    """
    header = HadoopChecksum.parse(storage.read_range(checksum, 0, HEADER_BYTES))
    if header is None:
        return None
    chunk_bytes = header.chunk_bytes
    size_bytes = storage.stat(path).size_bytes
    checksums_bytes = storage.stat(checksum).size_bytes - HEADER_BYTES
    is_long_enough = has_enough_checksums(checksums_bytes, chunk_bytes, size_bytes)
    if not 0 < chunk_bytes <= _LARGEST_CHUNK_BYTES or size_bytes == 0:
        return None if is_long_enough else 0

    for number in sorted({0, (size_bytes - 1) // chunk_bytes}):
        expected = storage.read_range(checksum, HEADER_BYTES + number * CHECKSUM_BYTES, CHECKSUM_BYTES)
        chunk = storage.read_range(path, number * chunk_bytes, chunk_bytes)
        if not HadoopChecksum(chunk_bytes, expected).matches_chunk(0, chunk):
            return number * chunk_bytes
    return None if is_long_enough else size_bytes
