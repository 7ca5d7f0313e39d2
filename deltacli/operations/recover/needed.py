"""The data files and deletion vectors that a version needs, in columns. Spec: Add File and Remove File."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Self

from deltacli.arrow import compute as pc
from deltacli.arrow.rows import grouped
from deltacli.delta.log.file_actions import action_schemas
from deltacli.delta.stats.record_counts import num_records_column
from deltacli.delta.vacuum.keys import PathKeys
from deltacli.delta.vectors import unique_id_column
from deltacli.typing import ArrowArray, ArrowTable, RecordBatch

if TYPE_CHECKING:
    from deltacli.operations.table.version import Snapshot


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
