"""List the files that a version needs, and find out which of them a store has.

The files of a million adds are three columns and not a million objects. A store is asked for a few files
one by one; for many files their directories are listed, which takes fewer calls.

Spec: Add File and Remove File; Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core import errors
from deltacli.core.progress import Progress
from deltacli.core.typing import ArrowArray, ArrowTable, RecordBatch
from deltacli.delta.data_files import unique_id_column
from deltacli.delta.encoding.many_values import hash_column, repeated
from deltacli.delta.log.file_actions import action_schemas, num_records_column
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling import key_bytes, key_text
from deltacli.engine.base import Engine
from deltacli.storage import ReadStorage

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot

Result = TypeVar("Result")

_MOST_SINGLE_REQUESTS = 500
"""Files that are asked for one by one on a store whose lists have a thousand."""
_FILES_PER_CALL = 1_000
_MANY_REPEATED = 8
"""Where more than an eighth of the files may be named again, a table of all takes half the time of one of them."""


class FileKind(StrEnum):
    """The kinds of files that a table has."""

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
    """Files below the root of a table, each once, and the deletion vectors in them.

    Attributes:
        files: A table with `path` (below the root, not encoded, as bytes), `written` (the same path without
            decoding, for writers that do not encode; null if it is the same), `kind`, and `sizeBytes` and
            `rows`, which are null if the log does not say.
        vectors: A table with the `path` of the file of each vector, and its `deletionVector` as in the log.
        outside: The number of files elsewhere, which belong to other tables.
    """

    files: ArrowTable
    vectors: ArrowTable
    outside: int = 0

    def where(self, mask: ArrowArray) -> Self:
        """Return the files of a mask, with their vectors."""
        files = pc.filter(self.files, mask)
        if not self.vectors.num_rows:
            return self._replace(files=files)
        vectors = self.vectors.filter(pc.is_in(self.vectors["path"], value_set=combine_chunks(files["path"])))
        return self._replace(files=files, vectors=vectors)

    @property
    def size_bytes(self) -> int:
        """The bytes of the files, as far as they are known."""
        return pc.sum(self.files["sizeBytes"]).as_py() or 0


class LocatedFiles(NamedTuple):
    """Needed files as a store has them.

    Attributes:
        needed: The files, each under the spelling of its path that the store has, with no other left.
        sizes: The bytes of each file (int64), null for those that are missing.
    """

    needed: NeededFiles
    sizes: ArrowArray


def build_needed_files(
    uris: Sequence[str],
    paths: ArrowArray,
    sizes: ArrowArray,
    rows: ArrowArray,
    descriptors: ArrowArray | None = None,
    *,
    kind: FileKind = FileKind.DATA,
) -> NeededFiles:
    """Return the files of a table from columns of its log.

    Args:
        uris: The URIs of the root of the table.
        paths: The paths as in the log.
        sizes: The bytes of the files.
        rows: The numbers of rows, null if unknown.
        descriptors: The structs of deletion vectors, null for files without one.
        kind: The kind of the files.
    """
    keys = PathKeys(uris).of_log(combine_chunks(paths))
    all_files = pa.table(
        {
            "path": keys.keys,
            "written": _clear_equal_paths(keys.keys, keys.written),
            "kind": pa.repeat(kind.value, len(keys.keys)),
            "sizeBytes": pc.cast(combine_chunks(sizes), pa.int64()),
            "rows": pc.cast(combine_chunks(rows), pa.int64()),
        }
    )
    # A file outside of the table has no key.
    files = pc.filter(all_files, pc.is_valid(keys.keys))
    outside = len(keys.keys) - files.num_rows
    hashes = pc.drop_null(keys.hashes) if outside else keys.hashes

    vectors = _locate_vectors(uris, descriptors)
    vector_files = make_unmeasured_files(pc.unique(combine_chunks(vectors["path"])), None, FileKind.VECTOR)
    return NeededFiles(pa.concat_tables([_keep_first(files, hashes), vector_files]), vectors, outside)


def make_unmeasured_files(paths: ArrowArray, written: ArrowArray | None, kind: FileKind) -> ArrowTable:
    """Return the table of `NeededFiles.files` for files of which neither bytes nor rows are known.

    Args:
        paths: Their paths below the root of the table, not encoded, as bytes.
        written: The same paths without decoding. None if they are the same.
        kind: The kind of the files.
    """
    unknown = pa.nulls(len(paths), pa.int64())
    return pa.table(
        {
            "path": paths,
            "written": pa.nulls(len(paths), pa.binary()) if written is None else _clear_equal_paths(paths, written),
            "kind": pa.repeat(kind.value, len(paths)),
            "sizeBytes": unknown,
            "rows": unknown,
        }
    )


def make_no_needed_files(uris: Sequence[str]) -> NeededFiles:
    """Return the files of a table without any."""
    return build_needed_files(uris, *(pa.array([], kind) for kind in (pa.string(), pa.int64(), pa.int64())))


def _clear_equal_paths(paths: ArrowArray, written: ArrowArray) -> ArrowArray:
    """Return the written form of paths, null where decoding does not change it."""
    differs = pc.fill_null(pc.not_equal(paths, written), False)
    return pc.if_else(differs, written, pa.scalar(None, pa.binary()))


def read_live_files(
    snapshot: Snapshot,
    uris: Sequence[str] = (),
    choose: Callable[[NeededFiles], NeededFiles] = lambda files: files,
) -> NeededFiles:
    """Return the live files of a version, with their vectors.

    Args:
        snapshot: The version.
        uris: The URIs of the root of the table, if its log is read from elsewhere.
        choose: Returns the wanted ones of a part of the files. It must be thread-safe.

    Raises:
        CheckpointUnreadable: If the checkpoint cannot be read.
    """
    storage = snapshot.table.storage
    uris = uris or (storage.uri, *storage.aliases)
    parts = list(map_live_columns(snapshot, lambda *columns: choose(build_needed_files(uris, *columns))))
    return join_needed_files(parts) if parts else make_no_needed_files(uris)


def map_live_columns(
    snapshot: Snapshot,
    work: Callable[[ArrowArray, ArrowArray, ArrowArray, ArrowArray | None], Result],
    *,
    with_rows: bool = True,
) -> Iterator[Result]:
    """Yield the result of a function for each batch of live files.

    Commits are not read again if no file has a vector: the narrow columns have everything else.

    Args:
        snapshot: The version.
        work: The function. It receives paths as in the log, bytes, numbers of rows (null if unknown) and
            structs of vectors, and must be thread-safe.
        with_rows: False if the function does not need the numbers of rows, for which the statistics of a
            checkpoint have to be read.
    """
    actions = snapshot.file_actions
    in_memory = [batch.adds for batch in actions.read_narrow_commit_batches() if batch.adds is not None]
    if not actions.pieces and not any(pc.any(pc.not_equal(adds.column("dv_id"), "")).as_py() for adds in in_memory):
        for adds in in_memory:
            yield work(adds.column("path"), adds.column("size"), adds.column("num_records"), None)
        return

    def work_on_adds(adds: RecordBatch) -> Result:
        rows = num_records_column(adds.column("stats")) if with_rows else pa.nulls(adds.num_rows, pa.int64())
        return work(adds.column("path"), adds.column("size"), rows, adds.column("deletionVector"))

    fields = ["path", "size"]
    if with_rows:
        fields.append("stats")
    yield from actions.map_actions("add", work_on_adds, fields=fields)


def join_needed_files(parts: Sequence[NeededFiles]) -> NeededFiles:
    """Return the files of several parts, each once, data files first."""
    all_files = pa.concat_tables([part.files for part in parts])
    is_data = pc.equal(all_files["kind"], FileKind.DATA.value)
    if pc.all(is_data).as_py():
        tables = [all_files]
    else:
        tables = [pc.filter(all_files, mask) for mask in (is_data, pc.invert(is_data))]
    files = pa.concat_tables(map(_keep_first, tables))
    vectors = pa.concat_tables([part.vectors for part in parts])
    return NeededFiles(files, vectors, sum(part.outside for part in parts))


def _locate_vectors(uris: Sequence[str], descriptors: ArrowArray | None) -> ArrowTable:
    """Return the vectors that are in files of the table, with the paths of these files."""
    if descriptors is None or descriptors.null_count == len(descriptors):
        kind = action_schemas().add.field("deletionVector").type
        return pa.table({"path": pa.array([], pa.binary()), "deletionVector": pa.array([], kind)})
    stated = pc.drop_null(combine_chunks(descriptors))
    paths = PathKeys(uris).of_vectors(combine_chunks(unique_id_column(stated))).keys
    return pc.filter(pa.table({"path": paths, "deletionVector": stated}), pc.is_valid(paths))


def _keep_first(files: ArrowTable, hashes: ArrowArray | None = None) -> ArrowTable:
    """Return files without those that are named again.

    Usually none is. A hash table of all paths takes ten times the memory of their sorted hashes, so the
    hashes tell whether any path may be repeated, and only such paths are compared.

    Args:
        files: A table with `path`.
        hashes: A hash of each path, equal for equal paths. None to compute them.
    """
    paths = files["path"]
    hashes = hash_column(paths) if hashes is None else hashes
    repeated_hashes = repeated(hashes)
    if not len(repeated_hashes):
        return files
    # With many repeated paths, a table of all is cheaper than first separating the suspects.
    if len(repeated_hashes) * _MANY_REPEATED > len(paths):
        return pc.take(files, pc.index_in(pc.unique(paths), value_set=paths))

    may_repeat = pc.is_in(hashes, value_set=repeated_hashes)
    suspects = pc.filter(paths, may_repeat)
    rows_of_suspects = pc.indices_nonzero(may_repeat)
    first_rows = pc.take(rows_of_suspects, pc.index_in(pc.unique(suspects), value_set=suspects))
    all_rows = pa.array(range(len(paths)), first_rows.type)
    return pc.filter(files, pc.or_(pc.invert(may_repeat), pc.is_in(all_rows, value_set=first_rows)))


def combine_chunks(column: ArrowArray) -> ArrowArray:
    """Return a column in one piece, without a copy if it is in one."""
    if not hasattr(column, "combine_chunks"):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def locate_files(
    storage: ReadStorage,
    needed: NeededFiles,
    engine: Engine,
    progress: Progress,
    find_listed: Callable[[ArrowArray], ArrowArray] | None = None,
) -> LocatedFiles:
    """Find out which files a store has, and how large they are.

    Some writers do not encode paths. `a%20b` in the log is then the name of the file, and not `a b`. A
    file that is not there under the decoded path is therefore looked for under the written one.

    Args:
        storage: The store of the table.
        needed: The files.
        engine: The engine whose threads ask the store.
        progress: Where the files are reported.
        find_listed: For callers that need no bytes and have a listing: returns which paths are there, null
            where the listing does not tell. The bytes of such files are 0.

    Raises:
        StorageFailed: If the store cannot tell.
    """
    paths = combine_chunks(needed.files["path"])
    written = combine_chunks(needed.files["written"])
    with progress.step("looking for files", unit="files", total=len(paths)) as step:
        sizes = _read_sizes(storage, paths, engine, find_listed)
        may_be_written = pc.and_(pc.is_null(sizes), pc.is_valid(written))
        if pc.any(may_be_written).as_py():
            sizes_of_written = _read_sizes(storage, pc.filter(written, may_be_written), engine, find_listed)
            sizes = pc.replace_with_mask(sizes, may_be_written, sizes_of_written)
            is_written = pc.and_(may_be_written, pc.is_valid(sizes))
            paths = pc.if_else(is_written, written, paths)
        if written.null_count < len(written):
            # A file that was found has one spelling; a missing one may come back under either.
            written = pc.if_else(pc.is_null(sizes), written, pa.scalar(None, pa.binary()))
            other_columns = needed.files.drop_columns(["path", "written"])
            columns = {name: other_columns[name] for name in other_columns.column_names}
            needed = needed._replace(files=pa.table({"path": paths, "written": written, **columns}))
        step.advance(len(paths))
    return LocatedFiles(needed, sizes)


def _read_sizes(
    storage: ReadStorage,
    paths: ArrowArray,
    engine: Engine,
    find_listed: Callable[[ArrowArray], ArrowArray] | None = None,
) -> ArrowArray:
    """Return the bytes of files, null for missing ones; see `locate_files`."""
    if find_listed is not None:
        is_there = find_listed(paths)
        # 0 bytes, because the caller asks only whether the file is there. What the listing does not tell is asked.
        sizes = pc.if_else(is_there, pa.scalar(0, pa.int64()), pa.scalar(None, pa.int64()))
        unknown = pc.is_null(is_there)
        if not pc.any(unknown).as_py():
            return sizes
        return pc.replace_with_mask(sizes, unknown, _read_sizes(storage, pc.filter(paths, unknown), engine))
    if storage.capabilities.cheap_listing or len(paths) <= _MOST_SINGLE_REQUESTS:
        return _ask_for_sizes(storage, paths, engine)
    return _list_sizes(storage, paths)


def _ask_for_sizes(storage: ReadStorage, paths: ArrowArray, engine: Engine) -> ArrowArray:
    """Return the bytes of files by asking for each of them."""

    def ask(start: int) -> ArrowArray:
        names = [key_text(path) for path in paths.slice(start, _FILES_PER_CALL).to_pylist()]
        # A negative size is that of a missing file, or of one behind a link.
        sizes, _ = storage.stat_many(names)
        return pa.array(
            (_read_size_of_link(storage, name) if size < 0 else size for name, size in zip(names, sizes, strict=True)),
            pa.int64(),
        )

    parts = engine.run(ask, range(0, len(paths), _FILES_PER_CALL))
    return pa.concat_arrays([pa.array([], pa.int64()), *parts])


def _read_size_of_link(storage: ReadStorage, path: str) -> int | None:
    """Return the bytes of a file that may be behind a link, None if there is none. Raises PathExternal."""
    if not storage.capabilities.has_directories:
        return None
    try:
        return storage.stat(path).size_bytes
    except errors.FileMissing:
        return None


def _list_sizes(storage: ReadStorage, paths: ArrowArray) -> ArrowArray:
    """Return the bytes of files by listing the directories that they are in."""
    from deltacli.work.files.walking import batch_listed_files

    # Only directories with wanted files are listed: a table may have millions of others.
    parents = [key_text(path) for path in pc.unique(pc.replace_substring_regex(paths, r"/?[^/]*$", "")).to_pylist()]
    # "a/b/c" is entered by way of "a" and "a/b".
    entered = {ancestor for parent in parents for ancestor in accumulate(parent.split("/"), "{}/{}".format)}

    def enter(at: str, names: Sequence[str]) -> list[str]:
        return [name for name in names if (f"{at}/{name}" if at else name) in entered]

    sizes = pa.nulls(len(paths), pa.int64())
    try:
        for files in batch_listed_files(storage.walk("", enter)):
            names = pa.array([key_bytes(name) for name in files.paths], pa.binary())
            rows = pc.index_in(paths, value_set=names)
            listed_sizes = files.sizes
            if listed_sizes is None:  # a local disk lists names without their sizes
                listed_sizes = pa.array(storage.stat_many(files.paths)[0], pa.int64())
            sizes = pc.coalesce(sizes, pc.take(listed_sizes, rows))
    except errors.FileMissing:
        pass  # the table directory is not there, so no file is
    return sizes
