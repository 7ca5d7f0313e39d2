"""List the files that a version references, and look up which of them exist in storage.

Files are rows of Arrow tables and not Python objects, because a table may reference millions of them.
`locate_files` looks up a few files with one request each. For many files it lists their directories, which
needs fewer requests.

Paths in a log are percent-encoded and relative to the table, or absolute. This module converts them to
paths inside the table directory, as bytes and without encoding. Files outside the table directory, such
as those of a shallow clone, are only counted.

Spec: Add File and Remove File; Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core import errors
from deltacli.core.progress import Progress
from deltacli.core.typing import ArrowArray, ArrowTable, RecordBatch
from deltacli.delta.data_files import unique_id_column
from deltacli.delta.encoding.many_values import find_repeated_hashes, hash_column
from deltacli.delta.log.file_actions import action_schemas, extract_num_records_column
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling import decode_path_bytes, encode_path_bytes
from deltacli.engine.base import Engine
from deltacli.storage import ReadStorage

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot

Result = TypeVar("Result")

_MAX_SINGLE_REQUESTS = 500
"""Number of files that are looked up one by one on an object store, whose listings have 1,000 files per page."""
_FILES_PER_CALL = 1_000
"""Number of files per call of `stat_many`. Calls run in parallel."""
_MANY_REPEATED = 8
"""If more than 1/8 of the paths may be repeated, comparing all paths takes half as long as comparing these paths."""


class FileKind(StrEnum):
    """The kinds of files in a table directory."""

    DATA = "data"
    VECTOR = "deletion-vector"
    CHANGE_DATA = "change-data"
    COMMIT = "commit"
    CHECKSUM = "checksum"
    COMPACTION = "compaction"
    SIDECAR = "sidecar"
    CHECKPOINT = "checkpoint"
    HINT = "hint"


class NeededFiles(NamedTuple):
    """Files inside a table directory, without duplicates, and their deletion vectors.

    Attributes:
        files: A table with one row per file and these columns:
            `path` (binary): the path inside the table directory, decoded.
            `undecoded_path` (binary): the path without decoding, for writers that do not percent-encode; null if
            decoding does not change the path.
            `kind` (string): a `FileKind`.
            `sizeBytes`, `rows` (int64): null if the log does not contain the number.
        vectors: A table with one row per deletion vector: the `path` of the file that contains it, and the
            `deletionVector` struct of the log.
        outside: The number of references to files outside the table directory.
    """

    files: ArrowTable
    vectors: ArrowTable
    outside: int = 0

    def where(self, mask: ArrowArray) -> Self:
        """Return the files for which a mask is true, and their deletion vectors."""
        files = pc.filter(self.files, mask)
        if not self.vectors.num_rows:
            return self._replace(files=files)
        vectors = self.vectors.filter(pc.is_in(self.vectors["path"], value_set=combine_chunks(files["path"])))
        return self._replace(files=files, vectors=vectors)

    @property
    def size_bytes(self) -> int:
        """The total size of the files. Files of unknown size are not counted."""
        return pc.sum(self.files["sizeBytes"]).as_py() or 0


class LocatedFiles(NamedTuple):
    """Needed files, and their sizes in storage.

    Attributes:
        needed: The files. `path` of an existing file is its actual path, and `undecoded_path` is null.
        sizes: The size of each file in bytes (int64); null if the file does not exist.
    """

    needed: NeededFiles
    sizes: ArrowArray


class LiveColumns(NamedTuple):
    """Columns of a batch of live files.

    Attributes:
        paths: The paths as in the log (string).
        sizes: The sizes of the files in bytes.
        rows: The number of records of each file; null if unknown.
        descriptors: The `deletionVector` structs, null for files without one. None if no file has one.
    """

    paths: ArrowArray
    sizes: ArrowArray
    rows: ArrowArray
    descriptors: ArrowArray | None


def build_needed_files(
    uris: Sequence[str],
    paths: ArrowArray,
    sizes: ArrowArray,
    rows: ArrowArray,
    descriptors: ArrowArray | None = None,
    *,
    kind: FileKind = FileKind.DATA,
) -> NeededFiles:
    """Convert columns of a log to needed files: the files of the paths, and the files of the deletion vectors.

    Args:
        uris: The URIs of the table directory. Absolute paths that start with one of them are inside it.
        paths: The paths as in the log (string).
        sizes: The sizes of the files in bytes.
        rows: The number of records of each file; null if unknown.
        descriptors: The `deletionVector` structs, null for files without one. None if no file has one.
        kind: The kind of the files.
    """
    keys = PathKeys(uris).compute_keys(combine_chunks(paths))
    all_files = pa.table(
        {
            "path": keys.keys,
            "undecoded_path": _clear_equal_paths(keys.keys, keys.undecoded),
            "kind": pa.repeat(kind.value, len(keys.keys)),
            "sizeBytes": pc.cast(combine_chunks(sizes), pa.int64()),
            "rows": pc.cast(combine_chunks(rows), pa.int64()),
        }
    )

    # The key of a file outside the table directory is null.
    files = pc.filter(all_files, pc.is_valid(keys.keys))
    outside_count = len(keys.keys) - files.num_rows
    hashes = pc.drop_null(keys.hashes) if outside_count else keys.hashes

    vectors = _locate_vectors(uris, descriptors)
    vector_paths = pc.unique(combine_chunks(vectors["path"]))
    vector_files = build_files_of_unknown_size(vector_paths, None, FileKind.VECTOR)
    return NeededFiles(pa.concat_tables([_drop_repeated_paths(files, hashes), vector_files]), vectors, outside_count)


def build_files_of_unknown_size(paths: ArrowArray, undecoded: ArrowArray | None, kind: FileKind) -> ArrowTable:
    """Build the table `NeededFiles.files` for files whose size and number of rows are unknown.

    Args:
        paths: The decoded paths inside the table directory (binary).
        undecoded: The same paths without decoding. None if decoding does not change any of them.
        kind: The kind of the files.
    """
    unknown = pa.nulls(len(paths), pa.int64())
    return pa.table(
        {
            "path": paths,
            "undecoded_path": pa.nulls(len(paths), pa.binary())
            if undecoded is None
            else _clear_equal_paths(paths, undecoded),
            "kind": pa.repeat(kind.value, len(paths)),
            "sizeBytes": unknown,
            "rows": unknown,
        }
    )


def build_empty_needed_files(uris: Sequence[str]) -> NeededFiles:
    """Build `NeededFiles` without any file."""
    no_paths = pa.array([], pa.string())
    no_numbers = pa.array([], pa.int64())
    return build_needed_files(uris, no_paths, no_numbers, no_numbers)


def _clear_equal_paths(paths: ArrowArray, undecoded: ArrowArray) -> ArrowArray:
    """Return `undecoded_path`, with null for paths that decoding does not change."""
    differs = pc.fill_null(pc.not_equal(paths, undecoded), False)
    return pc.if_else(differs, undecoded, pa.scalar(None, pa.binary()))


def read_live_files(
    snapshot: Snapshot, uris: Sequence[str] = (), select: Callable[[NeededFiles], NeededFiles] | None = None
) -> NeededFiles:
    """Return the live files of a version and their deletion vectors.

    Args:
        snapshot: The version.
        uris: The URIs of the table directory. Empty for those of the snapshot; a copy of the log in
            another directory needs the original ones.
        select: Selects files of each batch, to save memory. It must be thread-safe. None for all files.

    Raises:
        CheckpointUnreadable: If the checkpoint cannot be read.
    """
    storage = snapshot.table.storage
    table_uris = uris or (storage.uri, *storage.aliases)

    def build_batch(columns: LiveColumns) -> NeededFiles:
        files = build_needed_files(table_uris, *columns)
        return files if select is None else select(files)

    batches = list(map_live_columns(snapshot, build_batch))
    return join_needed_files(batches) if batches else build_empty_needed_files(table_uris)


def map_live_columns(
    snapshot: Snapshot, work: Callable[[LiveColumns], Result], *, with_rows: bool = True
) -> Iterator[Result]:
    """Yield the result of a function for each batch of live files.

    If the version has no checkpoint and no deletion vectors, the narrow columns in memory are sufficient,
    and the commits are not read again.

    Args:
        snapshot: The version.
        work: The function. It must be thread-safe.
        with_rows: False if the function does not need the numbers of rows. They are part of the
            statistics, which are most of the bytes of a checkpoint.
    """
    actions = snapshot.file_actions
    batches_in_memory = [batch.adds for batch in actions.read_narrow_commit_batches() if batch.adds is not None]
    is_in_memory = not actions.pieces and not any(
        pc.any(pc.not_equal(adds.column("dv_id"), "")).as_py() for adds in batches_in_memory
    )
    if is_in_memory:
        for adds in batches_in_memory:
            yield work(LiveColumns(adds.column("path"), adds.column("size"), adds.column("num_records"), None))
        return

    def work_on_adds(adds: RecordBatch) -> Result:
        return work(_build_live_columns(adds, with_rows=with_rows))

    fields = ["path", "size"]
    if with_rows:
        fields.append("stats")
    yield from actions.map_actions("add", work_on_adds, fields=fields)


def _build_live_columns(adds: RecordBatch, *, with_rows: bool) -> LiveColumns:
    """Build the columns of a batch of add actions. Without `with_rows`, the numbers of rows are null."""
    rows = extract_num_records_column(adds.column("stats")) if with_rows else pa.nulls(adds.num_rows, pa.int64())
    return LiveColumns(adds.column("path"), adds.column("size"), rows, adds.column("deletionVector"))


def join_needed_files(batches: Sequence[NeededFiles]) -> NeededFiles:
    """Concatenate needed files and drop duplicates. Data files precede files of other kinds."""
    all_files = pa.concat_tables([batch.files for batch in batches])
    is_data = pc.equal(all_files["kind"], FileKind.DATA.value)
    # A file is only compared with files of its own kind.
    if pc.all(is_data).as_py():
        tables = [all_files]
    else:
        tables = [pc.filter(all_files, is_data), pc.filter(all_files, pc.invert(is_data))]
    files = pa.concat_tables(map(_drop_repeated_paths, tables))

    vectors = pa.concat_tables([batch.vectors for batch in batches])
    return NeededFiles(files, vectors, sum(batch.outside for batch in batches))


def _locate_vectors(uris: Sequence[str], descriptors: ArrowArray | None) -> ArrowTable:
    """Build the table `NeededFiles.vectors`.

    Deletion vectors that are stored inline in the log, or outside the table directory, are left out.
    """
    if descriptors is None or descriptors.null_count == len(descriptors):
        descriptor_type = action_schemas().add.field("deletionVector").type
        return pa.table({"path": pa.array([], pa.binary()), "deletionVector": pa.array([], descriptor_type)})
    vectors = pc.drop_null(combine_chunks(descriptors))
    paths = PathKeys(uris).compute_vector_keys(combine_chunks(unique_id_column(vectors))).keys
    return pc.filter(pa.table({"path": paths, "deletionVector": vectors}), pc.is_valid(paths))


def _drop_repeated_paths(files: ArrowTable, hashes: ArrowArray | None = None) -> ArrowTable:
    """Keep the first row of each path.

    Usually no path is repeated. A hash table of all paths would take ten times the memory of their sorted
    hashes, so the hashes are sorted to find repeated ones, and only the paths with such a hash, called
    suspects, are compared:

        paths       a   b   a   c
        hashes      1   2   1   2       repeated: 1 and 2, so all four paths are suspects
        first rows  0   1       3       row 2 is dropped

    Args:
        files: A table with the column `path`.
        hashes: A hash of each path, equal for equal paths. None to compute them.
    """
    paths = files["path"]
    hashes = hash_column(paths) if hashes is None else hashes
    repeated_hashes = find_repeated_hashes(hashes)
    if not len(repeated_hashes):
        return files

    # With many suspects, comparing all paths is faster than selecting the suspects first.
    if len(repeated_hashes) * _MANY_REPEATED > len(paths):
        return pc.take(files, pc.index_in(pc.unique(paths), value_set=paths))

    # `index_in` returns the first position of each unique path among the suspects. Convert these positions
    # to row numbers of the table.
    is_suspect = pc.is_in(hashes, value_set=repeated_hashes)
    suspect_paths = pc.filter(paths, is_suspect)
    suspect_rows = pc.indices_nonzero(is_suspect)
    first_positions = pc.index_in(pc.unique(suspect_paths), value_set=suspect_paths)
    first_rows = pc.take(suspect_rows, first_positions)

    all_rows = pa.array(range(len(paths)), first_rows.type)
    is_first = pc.is_in(all_rows, value_set=first_rows)
    return pc.filter(files, pc.or_(pc.invert(is_suspect), is_first))


def combine_chunks(column: ArrowArray) -> ArrowArray:
    """Convert a chunked array to an array. An array, or a single chunk, is returned without copying."""
    if not hasattr(column, "combine_chunks"):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def locate_files(
    storage: ReadStorage,
    needed: NeededFiles,
    engine: Engine,
    progress: Progress,
    check_listing: Callable[[ArrowArray], ArrowArray] | None = None,
) -> LocatedFiles:
    """Look up which files exist in storage, and their sizes.

    The protocol says that paths are percent-encoded. Some writers forget: `a%20b.parquet` in their logs is
    the file `a%20b.parquet`, and not `a b.parquet`. So a file that does not exist under its decoded path is
    looked up under the path without decoding.

    Args:
        storage: The store of the table.
        needed: The files.
        engine: The engine whose threads make the requests.
        progress: Receives the number of files.
        check_listing: For callers that have a listing of the table and do not need sizes: a function that
            returns for each path (binary) whether the file exists, or null if the listing does not cover
            its directory. The size of files that it reports as existing is 0.

    Raises:
        StorageFailed: If the store does not answer.
    """
    paths = combine_chunks(needed.files["path"])
    undecoded = combine_chunks(needed.files["undecoded_path"])
    with progress.step("looking for files", unit="files", total=len(paths)) as step:
        sizes = _read_sizes(storage, paths, engine, check_listing)

        # Look up missing files again under the path without decoding.
        may_be_unencoded = pc.and_(pc.is_null(sizes), pc.is_valid(undecoded))
        if pc.any(may_be_unencoded).as_py():
            unencoded_paths = pc.filter(undecoded, may_be_unencoded)
            sizes_of_unencoded = _read_sizes(storage, unencoded_paths, engine, check_listing)
            sizes = pc.replace_with_mask(sizes, may_be_unencoded, sizes_of_unencoded)
            is_unencoded = pc.and_(may_be_unencoded, pc.is_valid(sizes))
            paths = pc.if_else(is_unencoded, undecoded, paths)

        if undecoded.null_count < len(undecoded):
            # The actual path of an existing file is known now. A missing file may be restored under either
            # path, so it keeps both.
            undecoded = pc.if_else(pc.is_null(sizes), undecoded, pa.scalar(None, pa.binary()))
            other_columns = needed.files.drop_columns(["path", "undecoded_path"])
            columns = {name: other_columns[name] for name in other_columns.column_names}
            needed = needed._replace(files=pa.table({"path": paths, "undecoded_path": undecoded, **columns}))
        step.advance(len(paths))
    return LocatedFiles(needed, sizes)


def _read_sizes(
    storage: ReadStorage,
    paths: ArrowArray,
    engine: Engine,
    check_listing: Callable[[ArrowArray], ArrowArray] | None = None,
) -> ArrowArray:
    """Return the size of each file, or null if it does not exist. The arguments are those of `locate_files`."""
    if check_listing is not None:
        exists = check_listing(paths)
        # The caller only needs to know whether a file exists, so the size is 0.
        sizes = pc.if_else(exists, pa.scalar(0, pa.int64()), pa.scalar(None, pa.int64()))
        is_unknown = pc.is_null(exists)
        if not pc.any(is_unknown).as_py():
            return sizes
        sizes_of_unknown = _read_sizes(storage, pc.filter(paths, is_unknown), engine)
        return pc.replace_with_mask(sizes, is_unknown, sizes_of_unknown)

    if storage.capabilities.has_cheap_requests or len(paths) <= _MAX_SINGLE_REQUESTS:
        return _request_sizes(storage, paths, engine)
    return _list_sizes(storage, paths)


def _request_sizes(storage: ReadStorage, paths: ArrowArray, engine: Engine) -> ArrowArray:
    """Return the size of each file, with one request per file."""
    batches = [paths.slice(start, _FILES_PER_CALL) for start in range(0, len(paths), _FILES_PER_CALL)]
    sizes = engine.run(partial(_request_sizes_of_batch, storage), batches)
    return pa.concat_arrays([pa.array([], pa.int64()), *sizes])


def _request_sizes_of_batch(storage: ReadStorage, paths: ArrowArray) -> ArrowArray:
    names = [decode_path_bytes(path) for path in paths.to_pylist()]
    sizes: list[int | None] = []
    for name, size in zip(names, storage.stat_many(names)[0], strict=True):
        # A negative size means that the file does not exist, or that its path contains a symbolic link.
        sizes.append(_read_size_of_link(storage, name) if size < 0 else size)
    return pa.array(sizes, pa.int64())


def _read_size_of_link(storage: ReadStorage, path: str) -> int | None:
    """Follow symbolic links in a path, and return the size of the file.

    Returns:
        The size in bytes; None if the file does not exist, or the store has no links.

    Raises:
        PathExternal: If a link leads out of the table directory, and the user has not allowed that.
    """
    if not storage.capabilities.has_directories:
        return None
    try:
        return storage.stat(path).size_bytes
    except errors.FileMissing:
        return None


def _list_sizes(storage: ReadStorage, paths: ArrowArray) -> ArrowArray:
    """Return the size of each file, by listing the directories of the files."""
    # Imported here because local tables and small tables are not listed.
    from deltacli.work.files.walking import batch_listed_files

    # Other directories are skipped: the table may have millions of them, such as old partitions.
    directories_of_files = pc.unique(pc.replace_substring_regex(paths, r"/?[^/]*$", ""))
    directories: set[str] = set()
    for directory in directories_of_files.to_pylist():
        # To reach "a/b/c", the walk must enter "a" and "a/b".
        directories.update(accumulate(decode_path_bytes(directory).split("/"), "{}/{}".format))

    def select_subdirectories(directory: str, names: Sequence[str]) -> list[str]:
        prefix = f"{directory}/" if directory else ""
        return [name for name in names if prefix + name in directories]

    sizes = pa.nulls(len(paths), pa.int64())
    try:
        for files in batch_listed_files(storage.walk("", select_subdirectories)):
            listed_paths = pa.array([encode_path_bytes(path) for path in files.paths], pa.binary())
            listed_sizes = files.sizes
            if listed_sizes is None:
                # A local disk does not return sizes in listings.
                listed_sizes = pa.array(storage.stat_many(files.paths)[0], pa.int64())
            rows_in_listing = pc.index_in(paths, value_set=listed_paths)
            sizes = pc.coalesce(sizes, pc.take(listed_sizes, rows_in_listing))
    except errors.FileMissing:
        # The table directory does not exist, so none of its files does.
        pass
    return sizes
