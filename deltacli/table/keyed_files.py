"""Live files by their keys, sixteen bytes each instead of a path and a vector, so that the actions of chosen ones among
millions can be read again; and the condition on partition columns that chooses some.

Spec: Partition Value Serialization.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.arrow.rows import grouped
from deltacli.core.errors import NOTHING_CHANGED, CommitCorrupt, DataUnreadable, Refused
from deltacli.core.hints import command
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.encoding.many_keys import fingerprints
from deltacli.delta.log.action_fields import FIELDS
from deltacli.delta.log.replay import key_column, spelled_keys
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.values import partition_columns
from deltacli.delta.vectors import no_vector_ids, unique_id_column
from deltacli.table.find_log import list_log

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.version import Snapshot

KEY_BYTES = 16
_BUCKETS = 1 << 16
_SHIFT = 48
"""Bits of a hash below those of its bucket."""

Mask = Callable[["pyarrow.RecordBatch"], ArrowArray]
"""Returns which file actions are chosen: never null."""
Spelling = Callable[["pyarrow.Array"], ArrowArray]
"""Returns paths of the log in a form that is equal for equal files, as bytes."""


def file_keys(adds: RecordBatch) -> ArrowArray:
    """Return sixteen bytes for the path and the vector of each file action, equal in one process for equal files."""
    return key_digests(adds.column("path"), unique_id_column(adds.column("deletionVector")))


def narrow_keys(adds: RecordBatch, spelling: Spelling | None, *, with_vectors: bool = True) -> ArrowArray:
    """Return the keys of narrow live files (see `ActionSchemas`): only the first eight bytes of `file_keys`, a keyed
    hash, which takes half the time. Of two million files two are taken for one once in ten million runs.

    `spelling` makes paths of two tables comparable. Without `with_vectors`, files with another vector are equal.
    """
    import pyarrow as pa

    paths, ids = adds.column("path"), adds.column("dv_id") if with_vectors else no_vector_ids(adds.num_rows)
    keys = key_column(paths, ids) if spelling is None else spelled_keys(spelling(paths), ids)
    return pa.Array.from_buffers(pa.int64(), len(keys), [None, pa.py_buffer(_hashes(keys))])


def key_digests(paths: ArrowArray, ids: ArrowArray) -> ArrowArray:
    """Return sixteen bytes for each path and id of a vector."""
    import pyarrow as pa

    keys = key_column(paths, ids)
    pairs = array("q", bytes(KEY_BYTES * len(keys)))
    pairs[::2] = _hashes(keys)
    pairs[1::2] = array("q", memoryview(fingerprints(keys).buffers()[1])[: 8 * len(keys)].tobytes()) if keys else pairs
    return pa.Array.from_buffers(pa.binary(KEY_BYTES), len(keys), [None, pa.py_buffer(pairs)])


def _hashes(keys: ArrowArray) -> array[int]:
    return array("q", map(hash, keys.to_pylist()))


def differing_keys(first: ArrowArray, second: ArrowArray) -> tuple[ArrowArray, ArrowArray]:
    """Return which keys of the first only it has, and which of the second only that has.

    Many keys are put into buckets by their hashes. A bucket whose words have the same sums on both sides has the same
    keys (of keys of sixteen bytes that differ, a bucket has the same sums once in 2**112), so that only keys of other
    buckets are looked up: of two million in 0.1 s instead of 0.9 s where few differ.
    """
    if min(len(first), len(second)) < _BUCKETS:
        return _absent(first, second), _absent(second, first)
    (of_first, sums), (of_second, others) = _bucketed(first), _bucketed(second)
    differs = reduce(pc.or_, map(pc.not_equal, sums, others))
    left, right = pc.take(differs, of_first), pc.take(differs, of_second)
    some, more = pc.filter(first, left), pc.filter(second, right)
    return pc.replace_with_mask(left, left, _absent(some, more)), pc.replace_with_mask(
        right, right, _absent(more, some)
    )


def _absent(keys: ArrowArray, others: ArrowArray) -> ArrowArray:
    return pc.invert(pc.is_in(keys, value_set=others))


def _bucketed(keys: ArrowArray) -> tuple[ArrowArray, list[ArrowArray]]:
    """Return the bucket of each key, and for each word of the keys its sum in each bucket."""
    import pyarrow as pa

    width = keys.type.bit_width // 64
    flat = pa.Array.from_buffers(pa.uint64(), width * len(keys), [None, keys.buffers()[1]], offset=width * keys.offset)
    pairs = pa.FixedSizeListArray.from_arrays(flat, width)
    words = {f"word{place}": pc.list_element(pairs, place) for place in range(width)}
    buckets = pc.cast(pc.shift_right(words["word0"], pa.scalar(_SHIFT, pa.uint64())), pa.uint16())
    sums = grouped(pa.table({"bucket": buckets, **words}), ["bucket"], [(name, "sum") for name in words])
    places = pc.index_in(pa.array(range(_BUCKETS), pa.uint16()), value_set=sums["bucket"].combine_chunks())
    nothing = pa.scalar(0, pa.uint64())
    every = [pc.fill_null(pc.take(sums[f"{name}_sum"].combine_chunks(), places), nothing) for name in words]
    return buckets, every


def chosen_actions(
    snapshot: Snapshot,
    keys: ArrowArray,
    chosen: ArrowArray,
    where: Mask | None,
    fields: Sequence[str] | None = None,
) -> Iterator[RecordBatch]:
    """Yield the live files of a version that `chosen` selects among those with these `keys`, with all their fields or
    some.
    """
    for rows, mask in marked_actions(snapshot, keys, chosen, where, fields):
        if pc.any(mask).as_py():
            yield pc.filter(rows, mask)


def marked_actions(
    snapshot: Snapshot,
    keys: ArrowArray,
    chosen: ArrowArray,
    where: Mask | None,
    fields: Sequence[str] | None = None,
) -> Iterator[tuple[RecordBatch, ArrowArray]]:
    """Yield the live files of a version, which have these `keys`, and which of them `chosen` selects.

    Raises Refused (`plan.other-past`) where the log has changed underneath, so that they are others by now.
    """
    named = None if fields is None else [*fields, *(["partitionValues"] if where is not None else [])]

    def read(adds: RecordBatch) -> tuple[RecordBatch, ArrowArray]:
        rows = adds if where is None else pc.filter(adds, where(adds))
        return rows, file_keys(rows)

    begin = 0
    for rows, found in snapshot.file_actions.map_actions("add", read, fields=named):
        if not found.equals(keys.slice(begin, len(found))):
            raise _other_log(snapshot)
        mask = chosen.slice(begin, len(found))
        begin += len(found)
        yield rows, mask
    if begin != len(keys):
        raise _other_log(snapshot)


def _other_log(snapshot: Snapshot) -> Refused:
    """Return the refusal for a version that has other files than when it was read, with the file that was replaced."""
    checkpoint, commits = snapshot.segment.checkpoint, snapshot.segment.commits
    start = snapshot.version if checkpoint is None else checkpoint.version
    listing = list_log(snapshot.table.storage, start_version=min([start, *(file.version for file in commits)]))
    there = {*listing.commits.values(), *(file for one in listing.checkpoints for file in one.files)}
    read = (*(() if checkpoint is None else checkpoint.files), *commits)
    changed = [file.name for file in read if file not in there]
    return Refused(
        f"version {snapshot.version} has other files than when it was read, because its log was rewritten",
        said_first=NOTHING_CHANGED,
        code="plan.other-past",
        facts={"changed": changed[0] if changed else f"files of version {snapshot.version}"},
        hint=command("history", limit=10),
    )


def removes_of(adds: RecordBatch, now_ms: int, *, is_change: bool) -> RecordBatch:
    """Return the removes of some live files, with all that is known of them."""
    import pyarrow as pa

    count = adds.num_rows
    fixed = {
        "deletionTimestamp": pa.repeat(pa.scalar(now_ms, pa.int64()), count),
        "dataChange": pa.repeat(is_change, count),
        "extendedFileMetadata": pa.repeat(True, count),
    }
    columns = {name: fixed[name] if name in fixed else adds.column(name) for name in FIELDS["remove"]}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


class PartitionCondition:
    """Chooses file actions by their partition values. Raises UsageError (`usage.where`) for an invalid condition, and
    for one on other columns. Thread-safe.
    """

    def __init__(self, config: TableConfiguration, where: str) -> None:
        from deltacli.delta.predicate.parse import parse_on_partitions

        self._config = config
        self._predicate, self._needed = parse_on_partitions(config, where)

    def __call__(self, adds: RecordBatch) -> ArrowArray:
        """Return which file actions the condition is true for. Raises DataUnreadable (`partition.*`)."""
        import pyarrow as pa

        if not adds.num_rows:
            return pa.array([], pa.bool_())
        values = partition_columns(adds, self._config, [name for name, _ in self._needed])
        columns = {column.name: values[name] for name, column in self._needed} or {"_": adds.column("path")}
        rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return pc.fill_null(self._predicate.matches(rows), False)

    def chooses(self, values: Mapping[str, str | None]) -> bool:
        """Return whether a file with these partition values is chosen, or may be: they are not valid."""
        from deltacli.delta.log.file_actions import action_schemas, whole_actions

        try:
            one = whole_actions([{"path": "", "partitionValues": dict(values)}], action_schemas().add, "")
            return bool(self(one)[0].as_py())
        except (CommitCorrupt, DataUnreadable):
            return True
