"""The data files and deletion vectors that a version needs, in columns, and which of them a store has.

A store is asked for one after the other, or their directories are listed where that takes fewer calls. Spec: Add File
and Remove File.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, Self

from deltacli.arrow import compute as pc
from deltacli.arrow.rows import grouped
from deltacli.core.errors import FileMissing
from deltacli.core.progress import Progress
from deltacli.core.typing import ArrowArray, ArrowTable, RecordBatch
from deltacli.delta.log.file_actions import action_schemas
from deltacli.delta.paths import text_of
from deltacli.delta.stats.record_counts import num_records_column
from deltacli.delta.vacuum.keys import PathKeys
from deltacli.delta.vectors import unique_id_column
from deltacli.engine.base import Engine
from deltacli.storage import ReadStorage
from deltacli.work.files.listing import in_batches

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot

_MOST_ASKED = 500
"""Files that are asked for one by one on a store whose lists have a thousand."""
_ASKED_TOGETHER = 1_000


class FileKind(StrEnum):
    """What a file of a table is."""

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
    """Files below the root of a table, each once, and the vectors in them.

    `files` has `path` (below the root, not encoded, as bytes), `written` (the same path without decoding, for writers
    that do not encode, null where it is the same), `kind`, and `sizeBytes` and `rows`, which are null where the log
    does not say. `vectors` has the `path` of the file of each vector, and its `deletionVector` as in the log. `outside`
    counts the files elsewhere, which belong to other tables.
    """

    files: ArrowTable
    vectors: ArrowTable
    outside: int = 0

    def where(self, mask: ArrowArray) -> Self:
        """Return the files of a mask, with their vectors."""
        files = self.files.filter(mask)
        if not self.vectors.num_rows:
            return self._replace(files=files)
        vectors = self.vectors.filter(pc.is_in(self.vectors["path"], value_set=whole(files["path"])))
        return self._replace(files=files, vectors=vectors)

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the files, as far as they are known."""
        return pc.sum(self.files["sizeBytes"]).as_py() or 0


def needed_files(
    uris: Sequence[str],
    paths: ArrowArray,
    sizes: ArrowArray,
    rows: ArrowArray,
    descriptors: ArrowArray | None = None,
    *,
    kind: FileKind = FileKind.DATA,
) -> NeededFiles:
    """Return the files of a table, whose root has these URIs, by columns of its log: raw paths, bytes, numbers of rows
    (null if unknown) and the structs of deletion vectors.
    """
    import pyarrow as pa

    keys = PathKeys(uris).of_log(whole(paths))
    differs = pc.fill_null(pc.not_equal(keys.keys, keys.written), False)
    files = pa.table(
        {
            "path": keys.keys,
            "written": pc.if_else(differs, keys.written, pa.scalar(None, pa.binary())),
            "kind": pa.repeat(kind.value, len(keys.keys)),
            "sizeBytes": pc.cast(whole(sizes), pa.int64()),
            "rows": pc.cast(whole(rows), pa.int64()),
        }
    ).filter(pc.is_valid(keys.keys))
    outside = len(keys.keys) - files.num_rows
    vectors = _vectors(uris, descriptors)
    of_vectors = pc.unique(whole(vectors["path"]))
    no_number = pa.nulls(len(of_vectors), pa.int64())
    files_of_vectors = pa.table(
        {
            "path": of_vectors,
            "written": pa.nulls(len(of_vectors), pa.binary()),
            "kind": pa.repeat(FileKind.VECTOR.value, len(of_vectors)),
            "sizeBytes": no_number,
            "rows": no_number,
        }
    )
    return NeededFiles(pa.concat_tables([_each_once(files), files_of_vectors]), vectors, outside)


def live_files(snapshot: Snapshot, uris: Sequence[str] = ()) -> NeededFiles:
    """Return the live files of a version, with their vectors. `uris` are those of the root of the table, where its log
    is read from elsewhere. Raises CheckpointUnreadable.
    """
    import pyarrow as pa

    storage = snapshot.table.storage
    uris = uris or (storage.uri, *storage.aliases)

    def columns_of(adds: RecordBatch) -> NeededFiles:
        rows = num_records_column(adds.column("stats"))
        return needed_files(uris, adds.column("path"), adds.column("size"), rows, adds.column("deletionVector"))

    found = list(snapshot.file_actions.map_actions("add", columns_of, fields=("path", "size", "stats")))
    if not found:
        return needed_files(uris, *(pa.array([], kind) for kind in (pa.string(), pa.int64(), pa.int64())))
    return joined(found)


def joined(parts: Sequence[NeededFiles]) -> NeededFiles:
    """Return the files of several parts, data files first."""
    import pyarrow as pa

    every = pa.concat_tables([one.files for one in parts])
    is_data = pc.equal(every["kind"], FileKind.DATA.value)
    files = pa.concat_tables([_each_once(every.filter(mask)) for mask in (is_data, pc.invert(is_data))])
    return NeededFiles(files, pa.concat_tables([one.vectors for one in parts]), sum(one.outside for one in parts))


def _vectors(uris: Sequence[str], descriptors: ArrowArray | None) -> ArrowTable:
    """Return the vectors in files of the table, with the paths of these files."""
    import pyarrow as pa

    if descriptors is None or descriptors.null_count == len(descriptors):
        kind = action_schemas().add.field("deletionVector").type
        return pa.table({"path": pa.array([], pa.binary()), "deletionVector": pa.array([], kind)})
    stated = whole(descriptors).drop_null()
    places = PathKeys(uris).of_vectors(whole(unique_id_column(stated))).keys
    return pa.table({"path": places, "deletionVector": stated}).filter(pc.is_valid(places))


def _each_once(files: ArrowTable) -> ArrowTable:
    """Return the files without those that are named again."""
    import pyarrow as pa

    paths = whole(files["path"])
    if len(pc.unique(paths)) == len(paths):
        return files
    first = pa.table({"path": paths, "row": pa.array(range(len(paths)), pa.int64())})
    rows = grouped(first, ["path"], [("row", "min")])["row_min"]
    return files.take(rows)


def whole(column: ArrowArray) -> ArrowArray:
    """Return a column as one array."""
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def look_for(
    storage: ReadStorage,
    needed: NeededFiles,
    engine: Engine,
    progress: Progress,
    listed: Callable[[ArrowArray], ArrowArray] | None = None,
) -> tuple[NeededFiles, ArrowArray]:
    """Return the files, each under the spelling of its path that the store has, with no other left, and their bytes
    (int64), null for those that are missing.

    `listed` is for callers that need no bytes: it returns which paths are there as is known already, null where it is
    not known. Their bytes are 0.
    """
    import pyarrow as pa

    paths, written = (whole(needed.files[name]) for name in ("path", "written"))
    with progress.step("looking for files", unit="files", total=len(paths)) as step:
        sizes = _sizes_of(storage, paths, engine, listed)
        may_be_written = pc.and_(pc.is_null(sizes), pc.is_valid(written))
        if pc.any(may_be_written).as_py():
            others = _sizes_of(storage, pc.filter(written, may_be_written), engine, listed)
            sizes = pc.replace_with_mask(sizes, may_be_written, others)
            is_written = pc.and_(may_be_written, pc.is_valid(sizes))
            paths = pc.if_else(is_written, written, paths)
        if written.null_count < len(written):
            written = pc.if_else(pc.is_null(sizes), written, pa.scalar(None, pa.binary()))
            files = needed.files.drop_columns(["path", "written"])
            columns = {name: files[name] for name in files.column_names}
            needed = needed._replace(files=pa.table({"path": paths, "written": written, **columns}))
        step.advance(len(paths))
    return needed, sizes


def _sizes_of(
    storage: ReadStorage, paths: ArrowArray, engine: Engine, listed: Callable[[ArrowArray], ArrowArray] | None = None
) -> ArrowArray:
    if listed is not None:
        import pyarrow as pa

        is_there = listed(paths)
        sizes = pc.if_else(is_there, pa.scalar(0, pa.int64()), pa.scalar(None, pa.int64()))
        unknown = pc.is_null(is_there)
        if not pc.any(unknown).as_py():
            return sizes
        return pc.replace_with_mask(sizes, unknown, _sizes_of(storage, pc.filter(paths, unknown), engine))
    if storage.capabilities.cheap_listing or len(paths) <= _MOST_ASKED:
        return _asked(storage, [text_of(path) for path in paths.to_pylist()], engine)
    return _listed(storage, paths)


def _asked(storage: ReadStorage, paths: Sequence[str], engine: Engine) -> ArrowArray:
    import pyarrow as pa

    def ask(part: Sequence[str]) -> list[int | None]:
        sizes, _ = storage.stat_many(part)
        return [_linked(storage, path) if size < 0 else size for path, size in zip(part, sizes, strict=True)]

    parts = [paths[start : start + _ASKED_TOGETHER] for start in range(0, len(paths), _ASKED_TOGETHER)]
    found = engine.run(ask, parts)
    return pa.array([size for part in found for size in part], pa.int64())


def _linked(storage: ReadStorage, path: str) -> int | None:
    """Return the bytes of a file that may be behind a link, None where there is none. Raises PathExternal."""
    if not storage.capabilities.has_directories:
        return None
    try:
        return storage.stat(path).size_bytes
    except FileMissing:
        return None


def _listed(storage: ReadStorage, paths: ArrowArray) -> ArrowArray:
    """Return the bytes of files by listing the directories that they are in."""
    import pyarrow as pa

    directories = pc.unique(pc.replace_substring_regex(paths, r"/?[^/]*$", "")).to_pylist()
    entered = {above for one in directories for above in accumulate(text_of(one).split("/"), "{}/{}".format)}

    def enter(at: str, names: Sequence[str]) -> list[str]:
        return [name for name in names if (f"{at}/{name}" if at else name) in entered]

    sizes = pa.nulls(len(paths), pa.int64())
    try:
        for files in in_batches(storage.walk("", enter)):
            names = pa.array([name.encode("utf-8", "surrogateescape") for name in files.paths], pa.binary())
            found = pc.index_in(paths, value_set=names)
            of_batch = pa.array(storage.stat_many(files.paths)[0], pa.int64()) if files.sizes is None else files.sizes
            sizes = pc.coalesce(sizes, pc.take(of_batch, found))
    except FileMissing:
        pass  # nothing is there
    return sizes
