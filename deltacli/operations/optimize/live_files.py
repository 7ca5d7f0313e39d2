"""The live files of a version as columns: sizes, rows, deleted rows, and which of them may share a file.

Spec: Partition Value Serialization; Clustered Table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.changing.preflight import REMOVED_OTHERWISE, ROW_ID_FIELDS, TWICE, row_ids_of
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.clustering.chosen_files import CUBE_COLUMNS, CUBE_ID, PROVIDER, Z_ORDER_TAG
from deltacli.delta.encoding.digests import codes
from deltacli.delta.encoding.many_keys import repeated
from deltacli.delta.log.row_ids import FEATURE
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.values import partition_columns, with_spelled_keys
from deltacli.delta.schema.to_arrow import unread_type
from deltacli.delta.schema.types import PrimitiveType
from deltacli.delta.stats.record_counts import num_records_column
from deltacli.operations.optimize.select import FilesAtHand
from deltacli.table.keyed_files import Mask, file_keys, narrow_keys

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.version import Snapshot
    from deltacli.work.rows.table_files import TableFiles

ORDER_TAGS = (CUBE_ID, CUBE_COLUMNS, Z_ORDER_TAG)
"""The tags of files whose rows are in some order; files are merged only with others of the same values."""
PACKED_TAG = "deltacli.compactedBytes"
"""The tag of files that were written from more bytes than they have: how many."""
OUTSIDE, FOREIGN_CLUSTERING = "outside", "clustering-provider"
"""Why files are left alone: they are not below the table, another program clusters them."""
LIVE_FIELDS = ("path", "size", "partitionValues", "deletionVector", "stats", "tags", "clusteringProvider")
"""The fields of adds that `LiveReader` needs."""
_ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?|\[.*\]|[A-Za-z]+(/[A-Za-z_]+)*)\s*$"


@dataclass(frozen=True, eq=False)
class LiveFiles:
    """The files in scope as columns, their keys, the numbers of their partitions, their `ORDER_TAGS`, and how many must
    not be rewritten, by reason.
    """

    columns: FilesAtHand
    keys: ArrowArray
    of_partition: ArrowArray
    tags: Mapping[str, ArrowArray]
    partitions: int
    excluded: Mapping[str, int]
    doubted: Mapping[int, str] = field(default_factory=dict)
    """The places of files that break a rule by which they may be in the table twice, and the rule."""
    row_ids: pyarrow.Table | None = None
    """Of all live files, as rules look at them; None where rows have no ids, or where nobody asked."""

    def excluding(self, codes: Mapping[int, str]) -> LiveFiles:
        """Return the same without the files at some places, each with the reason why."""
        import pyarrow as pa

        places = pa.array(range(len(self.keys)), pa.int64())
        is_excluded = pc.is_in(places, value_set=pa.array(list(codes), pa.int64()))
        columns = self.columns._replace(is_excluded=pc.or_(self.columns.is_excluded, is_excluded))
        counts = Counter(self.excluded) + Counter(codes.values())
        return replace(self, columns=columns, excluded=dict(counts))

    def naming(self, is_named: ArrowArray) -> LiveFiles:
        """Return the same with other files that hold something to purge."""
        return replace(self, columns=self.columns._replace(is_named=is_named))


def live_files(snapshot: Snapshot, condition: Mask | None) -> LiveFiles:
    """Return the live files of a version that a condition chooses.

    Raises DataUnreadable (`partition.*`), CommitCorrupt, CheckpointUnreadable, StorageFailed.
    """
    with_ids = FEATURE in snapshot.config.features
    reader = LiveReader(snapshot, condition, with_ids=with_ids)
    fields = [*dict.fromkeys((*LIVE_FIELDS, *(ROW_ID_FIELDS if with_ids else ())))]
    parts = list(snapshot.file_actions.map_actions("add", reader.read, fields=fields))
    found = joined([part for part in parts if part is not None])
    return replace(found, row_ids=reader.row_ids)


class LivePart(NamedTuple):
    """The columns of a batch of live files."""

    sizes: ArrowArray
    packed: ArrowArray
    rows: ArrowArray
    deleted: ArrowArray
    has_vector: ArrowArray
    is_outside: ArrowArray
    is_foreign: ArrowArray
    keys: ArrowArray
    partitions: Sequence[ArrowArray]
    order: Sequence[ArrowArray]
    paths: ArrowArray | None
    """Numbers that are equal for equal paths, where files may have vectors."""
    is_removed: ArrowArray | None
    """Which files were removed with another vector, as far as that is known."""


class LiveReader:
    """Reads batches of adds, in several threads; `joined` makes the files of a version of the parts."""

    def __init__(self, snapshot: Snapshot, condition: Mask | None, *, with_ids: bool = False) -> None:
        self._snapshot, self._config = snapshot, snapshot.config
        self._has_vectors = "deletionVectors" in snapshot.config.features
        self._ids: list[RecordBatch] | None = [] if with_ids else None
        self._files: TableFiles = snapshot.table.files()
        self._condition = condition

    def read(self, adds: RecordBatch) -> LivePart | None:
        import pyarrow as pa

        if self._ids is not None:
            self._ids.append(row_ids_of(adds))
        if self._condition is not None:
            adds = pc.filter(adds, self._condition(adds))
        if not adds.num_rows:
            return None
        vectors, provider = adds.column("deletionVector"), adds.column("clusteringProvider")
        deleted = pc.cast(pc.struct_field(vectors, ["cardinality"]), pa.int64())
        deleted = pc.if_else(pc.is_valid(vectors), deleted, pa.scalar(0, pa.int64()))
        keys = file_keys(adds)
        return LivePart(
            pc.fill_null(adds.column("size"), 0),
            _packed(adds),
            num_records_column(adds.column("stats")),
            deleted,
            pc.is_valid(vectors),
            self._outside(adds.column("path")),
            pc.fill_null(pc.not_equal(provider, PROVIDER), False),
            keys,
            self.partitions(adds),
            [provider, *(_tag(adds.column("tags"), name) for name in ORDER_TAGS)],
            _path_keys(adds, keys) if self._has_vectors else None,
            self._snapshot.of_other_vectors(adds) if self._has_vectors else None,
        )

    @property
    def row_ids(self) -> pyarrow.Table | None:
        """Return the row ids of all batches that were read."""
        import pyarrow as pa

        return pa.Table.from_batches(self._ids) if self._ids else None

    def partitions(self, adds: RecordBatch) -> list[ArrowArray]:
        """Return columns that are equal for files of the same partition. Raises DataUnreadable (`partition.*`)."""
        return list(partition_keys(adds, self._config))

    def _outside(self, paths: ArrowArray) -> ArrowArray:
        import pyarrow as pa

        absolute = pc.match_substring_regex(paths, r"^([A-Za-z][A-Za-z0-9+.-]*:)?/")
        inside = [place for place in pc.indices_nonzero(absolute).to_pylist() if self._is_inside(paths[place].as_py())]
        if not inside:
            return absolute
        return pc.and_not(absolute, pc.is_in(pa.array(range(len(paths)), pa.int64()), value_set=pa.array(inside)))

    def _is_inside(self, path: str) -> bool:
        return self._files.inside(path) is not None or not self._files.is_refused(path)


def partition_keys(adds: RecordBatch, config: TableConfiguration) -> Iterator[ArrowArray]:
    """Yield columns that are equal for file actions of the same partition, whatever the spelling of their values.

    A timestamp without a zone is another value than one with a zone: which it is depends on the session of a reader.
    Values of a type that is not read are equal where their texts are.
    """
    names = list(config.partition_columns)
    unread = {
        name
        for name, column in config.partition_columns.items()
        if column is not None and unread_type(column.data_type)
    }
    values = partition_columns(adds, config, [name for name in names if name not in unread])
    for name in names:
        column = config.partition_columns[name]
        is_timestamp = column is not None and column.data_type == PrimitiveType("timestamp")
        texts = None
        if is_timestamp or name in unread:
            texts = _lookup(with_spelled_keys(adds.column("partitionValues"), names), name)
        yield texts if name in unread else values[name]
        if is_timestamp:
            yield pc.fill_null(pc.match_substring_regex(texts, _ZONE), False)


def _path_keys(adds: RecordBatch, keys: ArrowArray) -> ArrowArray:
    """Return a number for the path of each file: the first half of its key, where that has no vector."""
    import pyarrow as pa

    flat = pa.Array.from_buffers(pa.int64(), 2 * len(keys), [None, keys.buffers()[1]], offset=2 * keys.offset)
    found = pc.list_element(pa.FixedSizeListArray.from_arrays(flat, 2), 0)
    has_vector = pc.is_valid(adds.column("deletionVector"))
    if not pc.any(has_vector).as_py():
        return found
    return pc.replace_with_mask(found, has_vector, narrow_keys(pc.filter(adds, has_vector), None, with_vectors=False))


def _lookup(maps: ArrowArray, key: str) -> ArrowArray:
    import pyarrow as pa

    return pc.map_lookup(maps, query_key=pa.scalar(key), occurrence="first")


def _tag(tags: ArrowArray, name: str) -> ArrowArray:
    import pyarrow as pa

    return pa.nulls(len(tags), pa.string()) if tags.null_count == len(tags) else _lookup(tags, name)


def _packed(adds: RecordBatch) -> ArrowArray:
    """Return the size of each file, or the bytes that it was written from, if they were more."""
    import pyarrow as pa

    sizes, texts = pc.fill_null(adds.column("size"), 0), _tag(adds.column("tags"), PACKED_TAG)
    if texts.null_count == len(texts):
        return sizes
    is_number = pc.fill_null(pc.match_substring_regex(texts, "^[0-9]{1,18}$"), False)
    written_from = pc.cast(pc.if_else(is_number, texts, "0"), pa.int64())
    return pc.if_else(pc.greater(written_from, sizes), written_from, sizes)


def joined(parts: Sequence[LivePart]) -> LiveFiles:
    """Return the files of all parts."""
    import pyarrow as pa

    if not parts:
        kinds = (pa.int64(), pa.int64(), pa.int64(), pa.int64(), pa.bool_(), pa.int32(), pa.bool_(), pa.bool_())
        empty = [pa.array([], kind) for kind in kinds]
        tags = dict.fromkeys(ORDER_TAGS, pa.array([], pa.string()))
        return LiveFiles(FilesAtHand(*empty), pa.array([], pa.binary(16)), pa.array([], pa.int32()), tags, 0, {})
    columns = [pa.concat_arrays([part[place] for part in parts]) for place in range(8)]
    sizes, packed, rows, deleted, has_vector, outside, foreign, keys = columns
    named = pa.repeat(pa.scalar(False), len(sizes))
    by_partition = codes(_transposed([part.partitions for part in parts]), len(sizes))
    by_order = _transposed([part.order for part in parts])
    groups = codes([by_partition, *(column for column in by_order if column.null_count < len(column))], len(sizes))
    excluded = {OUTSIDE: outside, FOREIGN_CLUSTERING: pc.and_not(foreign, outside)}
    counts = {reason: int(pc.sum(mask).as_py() or 0) for reason, mask in excluded.items()}
    return LiveFiles(
        FilesAtHand(sizes, packed, rows, deleted, has_vector, groups, pc.or_(outside, foreign), named),
        keys,
        by_partition,
        dict(zip(ORDER_TAGS, by_order[1:], strict=True)),
        len(pc.unique(by_partition)),
        {reason: count for reason, count in counts.items() if count},
        _doubted(parts),
    )


def _doubted(parts: Sequence[LivePart]) -> dict[int, str]:
    """Return the places of files whose path is live twice, or that were removed with another vector."""
    import pyarrow as pa

    keys = [part.paths for part in parts if part.paths is not None]
    if not keys:
        return {}
    found: dict[int, str] = {}
    begin = 0
    for part in parts:
        if part.is_removed is not None:
            found |= {begin + place: REMOVED_OTHERWISE for place in pc.indices_nonzero(part.is_removed).to_pylist()}
        begin += len(part.sizes)
    paths = pa.concat_arrays(keys)
    twice = repeated(paths)
    if len(twice):
        places = pc.indices_nonzero(pc.is_in(paths, value_set=twice)).to_pylist()
        found |= dict.fromkeys(places, TWICE)
    return found


def _transposed(parts: Sequence[Sequence[ArrowArray]]) -> list[ArrowArray]:
    import pyarrow as pa

    return [pa.concat_arrays(column) for column in zip(*parts, strict=True)]
