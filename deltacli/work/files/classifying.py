"""Compare listed files with those that a table needs: live, needed for another reason, hidden, recent, or old.

The result has the files that may be deleted, and only hashes and counts of the others.

Spec: Data Files (hidden names).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import FileMissing
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.storage import ReadStorage
from deltacli.work.files.walking import DirectoryWalk, ListedFiles, batch_listed_files
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    from deltacli.delta.listing import HiddenNames, TableRoots
    from deltacli.delta.paths.keys import PathKeys


KNOWN_FILES = "known"
"""The name of the shared value of `classify_directory`."""

_LOOKUPS = 32
"""A search in sorted hashes takes as long as adding so many hashes to a hash table."""


class KnownFiles(NamedTuple):
    """The files that a table needs, with which listed files are compared.

    Paths are compared by 64-bit hashes, so that millions of names are not held. A collision keeps a file that could be
    deleted, and never deletes one that is needed.

    Attributes:
        keys: Computes the hash of a path, the same for each of its spellings.
        names: The rules of hidden names.
        cutoff_ms: The time (epoch milliseconds) before which a file is old.
        live: The hashes (int64) of live files.
        others: The hashes of files that are needed for another reason.
        is_sorted: Whether both are ascending.
    """

    keys: PathKeys
    names: HiddenNames
    cutoff_ms: int
    live: pa.Array
    others: pa.Array
    is_sorted: bool = False

    def sorted(self) -> KnownFiles:
        """Return the same for tasks, which look up few files at a time."""
        live, others = (pc.take(hashes, pc.sort_indices(hashes)) for hashes in (self.live, self.others))
        return self._replace(live=live, others=others, is_sorted=True)

    def find_live(self, hashes: pa.Array) -> pa.Array:
        """Return which files are live."""
        return self._find(hashes, self.live)

    def find_others(self, hashes: pa.Array) -> pa.Array:
        """Return which files are needed for another reason."""
        return self._find(hashes, self.others)

    def _find(self, hashes: pa.Array, known: pa.Array) -> pa.Array:
        if not self.is_sorted or len(hashes) * _LOOKUPS >= len(known):
            from deltacli.delta.paths.keys import is_among

            return is_among(hashes, known)
        values: Any = memoryview(known.buffers()[1]).cast("q")[known.offset : known.offset + len(known)]
        end = len(values)
        positions = ((bisect_left(values, wanted_hash), wanted_hash) for wanted_hash in hashes.to_pylist())
        return pa.array(
            [position < end and values[position] == wanted_hash for position, wanted_hash in positions], pa.bool_()
        )


class ClassifiedFiles(NamedTuple):
    """The classes of some files of a listing.

    Attributes:
        listed: The number of files that were listed.
        live: The number of live files among them.
        hidden: The number of files with hidden names that the table does not need.
        hits: The hashes of needed files.
        young: The hashes of files that are not needed, but recent.
        old: The old files that are not needed: `path`, `sizeBytes`, `modificationTimeMs` and `hash`.
        roots: The tables that unneeded files indicate.
    """

    listed: int
    live: int
    hidden: int
    hits: tuple[ArrowArray, ...]
    young: tuple[Any, ...]
    old: tuple[RecordBatch, ...]
    roots: TableRoots


def classify_files(files: ListedFiles, known: KnownFiles, storage: ReadStorage) -> ClassifiedFiles:
    """Classify listed files, in one pass.

    Each step looks only at the files that the steps before have left: needed files first, because most are, then
    hidden names, and the age last, because some stores need a request for the time of a file.
    """
    from deltacli.delta.listing import TableRoots

    listed = len(files.paths)
    if isinstance(files.paths, list):
        hashes = known.keys.hash_listed_names(files.paths, is_plain=files.is_plain)
    else:
        hashes = known.keys.hash_listed_paths(files.paths)

    is_live = known.find_live(hashes)
    live = pc.sum(is_live).as_py() or 0
    is_needed = pc.or_(is_live, known.find_others(hashes))
    hits = pc.filter(hashes, is_needed)

    is_free = pc.invert(is_needed)
    files = _filter_files(files, is_free)
    hashes = pc.filter(hashes, is_free)
    roots = TableRoots()
    if not files.is_plain:
        roots.take(files.paths)

    # A hidden file that the table needs was found above.
    is_hidden = known.names.mask(files.paths)
    hidden = pc.sum(is_hidden).as_py() or 0
    if hidden:
        files = _filter_files(files, pc.invert(is_hidden))
        hashes = pc.filter(hashes, pc.invert(is_hidden))

    young, old = _divide_by_age(files, hashes, known.cutoff_ms, storage) if len(hashes) else ((), ())
    return ClassifiedFiles(listed, live, hidden, (hits,), young, old, roots)


def _divide_by_age(
    files: ListedFiles, hashes: pa.Array, cutoff_ms: int, storage: ReadStorage
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:  # Any: an array, and a batch
    """Return the hashes of recent files, and the old files."""
    sizes, times = _read_sizes_and_times(files, storage)
    # A file that was deleted meanwhile has neither a size nor a time. The time of others may be before 1970.
    is_there = pc.or_(pc.greater_equal(sizes, 0), pc.greater_equal(times, 0))
    is_old = pc.and_(is_there, pc.less(times, pa.scalar(cutoff_ms, pa.int64())))
    rows = pa.RecordBatch.from_arrays(
        [files.paths, sizes, times, hashes], ["path", "sizeBytes", "modificationTimeMs", "hash"]
    )
    return (pc.filter(hashes, pc.and_not(is_there, is_old)),), (pc.filter(rows, is_old),)


def _read_sizes_and_times(files: ListedFiles, storage: ReadStorage) -> tuple[Any, Any]:  # Any: pyarrow has no types
    if files.sizes is not None and files.modified_ms is not None:
        return files.sizes, files.modified_ms
    path_column: Any = files.paths
    paths = [path.decode("utf-8", "surrogateescape") for path in path_column.to_pylist()]
    sizes, times = storage.stat_many(paths)
    return pa.array(sizes, pa.int64()), pa.array(times, pa.int64())


def _filter_files(files: ListedFiles, mask: ArrowArray) -> ListedFiles:
    """Return the files of a mask. Archive classes are of no interest to their callers, and left out."""
    paths = files.paths
    if isinstance(paths, list):
        from deltacli.delta.paths.keys import encode_paths_as_binary

        selected_paths = encode_paths_as_binary([paths[row] for row in pc.indices_nonzero(mask).to_pylist()])
    else:
        selected_paths = pc.filter(paths, mask)
    columns = (files.sizes, files.modified_ms)
    sizes, times = (None if column is None else pc.filter(column, mask) for column in columns)
    return ListedFiles(selected_paths, sizes, times, files.is_plain)


class DirectoryPiece(NamedTuple):
    """A directory to list; `is_start` is the one where the listing begins, which has to exist."""

    path: str
    is_start: bool = False


class ClassifiedDirectory(NamedTuple):
    """The entries of a directory: files, names of subdirectories and of others, and the time of an empty one."""

    files: ClassifiedFiles
    directories: tuple[str, ...] = ()
    special: tuple[str, ...] = ()
    empty_modified_ms: int | None = None


def classify_directory(piece: DirectoryPiece, context: TaskContext) -> ClassifiedDirectory:
    """List a directory and classify its files. A directory that was deleted meanwhile is empty.

    Raises FileMissing for the start directory, and PermissionRefused.
    """
    known: KnownFiles = context.shared(KNOWN_FILES)
    walk = DirectoryWalk(context.storage, piece.path)
    try:
        parts = [classify_files(files, known, context.storage) for files in batch_listed_files(walk)]
    except FileMissing:
        if piece.is_start:
            raise
        return ClassifiedDirectory(_merge_parts(()))
    return ClassifiedDirectory(
        _merge_parts(parts), tuple(walk.directories), tuple(walk.special), walk.empty_modified_ms
    )


def _merge_parts(parts: Sequence[ClassifiedFiles]) -> ClassifiedFiles:
    """Return the classes of the files of all parts together, without empty arrays."""
    from deltacli.delta.listing import TableRoots

    def every(columns: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
        return tuple(array for column in columns for array in column if len(array))

    roots = TableRoots()
    for part in parts:
        roots.merge(part.roots)
    return ClassifiedFiles(
        sum(part.listed for part in parts),
        sum(part.live for part in parts),
        sum(part.hidden for part in parts),
        every(part.hits for part in parts),
        every(part.young for part in parts),
        every(part.old for part in parts),
        roots,
    )
