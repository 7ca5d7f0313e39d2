"""Compare the live files of two versions, or of two tables, by fixed-width keys.

A logical file is a path and a deletion vector. Its key is a hash of both, as wide as the question needs:

* 8 bytes (`hash_narrow_adds`) for narrow columns, in half the time,
* 16 bytes (`hash_file_actions`) for file actions that are read again by their keys.

Hashes are those of this process: they must not be stored or sent.

Spec: Action Reconciliation.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import aggregate_rows
from deltacli.core import errors
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.data_files import no_vector_ids, unique_id_column
from deltacli.delta.encoding.many_values import fingerprints
from deltacli.delta.log.actions import FIELDS
from deltacli.delta.log.file_actions import key_column, spelled_keys
from deltacli.table.find_log import list_log
from deltacli.table.partition_condition import Mask

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.version import Snapshot

KEY_BYTES = 16
_BUCKETS = 1 << 16
_BITS_BELOW_BUCKET = 48
"""Bits of a hash below those that are the number of its bucket."""

Spelling = Callable[["pyarrow.Array"], ArrowArray]
"""Returns paths of the log in a form that is equal for equal files, as bytes."""


def hash_file_actions(adds: RecordBatch) -> ArrowArray:
    """Return sixteen bytes for the path and the vector of each file action, equal in one process for equal files."""
    return hash_paths_and_vectors(adds.column("path"), unique_id_column(adds.column("deletionVector")))


def hash_narrow_adds(adds: RecordBatch, spelling: Spelling | None, *, with_vectors: bool = True) -> ArrowArray:
    """Return keys (int64) of narrow live files (see `ActionSchemas`).

    They are the first eight bytes of `hash_file_actions`, a keyed hash, which takes half the time. Of two
    million files two are taken for one once in ten million runs.

    Args:
        adds: The files.
        spelling: Makes paths of two tables comparable. None for paths of one table.
        with_vectors: False if files of one path count as equal whatever their vectors are.
    """
    paths = adds.column("path")
    vector_ids = adds.column("dv_id") if with_vectors else no_vector_ids(adds.num_rows)
    if spelling is None:
        keys = key_column(paths, vector_ids)
    else:
        keys = spelled_keys(spelling(paths), vector_ids)
    return pa.Array.from_buffers(pa.int64(), len(keys), [None, pa.py_buffer(_hash_keys(keys))])


def hash_paths_and_vectors(paths: ArrowArray, vector_ids: ArrowArray) -> ArrowArray:
    """Return sixteen bytes for each path and id of a vector: two independent hashes, one after the other."""
    keys = key_column(paths, vector_ids)
    pairs = array("q", bytes(KEY_BYTES * len(keys)))
    pairs[::2] = _hash_keys(keys)
    if keys:
        values = memoryview(fingerprints(keys).buffers()[1])[: 8 * len(keys)]
        pairs[1::2] = array("q", values.tobytes())
    return pa.Array.from_buffers(pa.binary(KEY_BYTES), len(keys), [None, pa.py_buffer(pairs)])


def _hash_keys(keys: ArrowArray) -> array[int]:
    return array("q", map(hash, keys.to_pylist()))


class UnmatchedKeys(NamedTuple):
    """Masks of the keys that only one side has."""

    only_left: ArrowArray
    only_right: ArrowArray


class _Buckets(NamedTuple):
    """Keys in buckets.

    Attributes:
        bucket_of_key: The bucket of each key.
        sums: For each word of the keys, its sum in each bucket.
    """

    bucket_of_key: ArrowArray
    sums: list[ArrowArray]


def find_unmatched_keys(first: ArrowArray, second: ArrowArray) -> UnmatchedKeys:
    """Return which keys of the first only it has, and which of the second only that has.

    Many keys are put into buckets by their hashes. A bucket whose words have the same sums on both sides has the same
    keys (of keys of sixteen bytes that differ, a bucket has the same sums once in 2**112), so that only keys of other
    buckets are looked up: of two million in 0.1 s instead of 0.9 s where few differ.

    Args:
        first: Keys of 8 or 16 bytes.
        second: Keys of the same width.
    """
    # With fewer keys than buckets, most buckets have one key, and nothing would be saved.
    if min(len(first), len(second)) < _BUCKETS:
        return UnmatchedKeys(_are_absent(first, second), _are_absent(second, first))

    first_buckets = _fill_buckets(first)
    second_buckets = _fill_buckets(second)
    bucket_differs = reduce(pc.or_, map(pc.not_equal, first_buckets.sums, second_buckets.sums))

    # Keys of equal buckets are on both sides; the masks are corrected only for the others.
    only_left = pc.take(bucket_differs, first_buckets.bucket_of_key)
    only_right = pc.take(bucket_differs, second_buckets.bucket_of_key)
    first_candidates = pc.filter(first, only_left)
    second_candidates = pc.filter(second, only_right)
    return UnmatchedKeys(
        pc.replace_with_mask(only_left, only_left, _are_absent(first_candidates, second_candidates)),
        pc.replace_with_mask(only_right, only_right, _are_absent(second_candidates, first_candidates)),
    )


def _are_absent(keys: ArrowArray, others: ArrowArray) -> ArrowArray:
    return pc.invert(pc.is_in(keys, value_set=others))


def _fill_buckets(keys: ArrowArray) -> _Buckets:
    """Put keys into buckets by the upper bits of their first word, and add up the words of each bucket."""
    # The bytes of the keys are read as words of 64 bits, without a copy.
    words_per_key = keys.type.bit_width // 64
    offset = words_per_key * keys.offset
    flat = pa.Array.from_buffers(pa.uint64(), words_per_key * len(keys), [None, keys.buffers()[1]], offset=offset)
    lists = pa.FixedSizeListArray.from_arrays(flat, words_per_key)
    words = {f"word{index}": pc.list_element(lists, index) for index in range(words_per_key)}

    buckets = pc.cast(pc.shift_right(words["word0"], pa.scalar(_BITS_BELOW_BUCKET, pa.uint64())), pa.uint16())
    sums = aggregate_rows(pa.table({"bucket": buckets, **words}), ["bucket"], [(name, "sum") for name in words])
    # Both sides need a sum for each bucket in the same order; an empty bucket has the sum 0.
    rows = pc.index_in(pa.array(range(_BUCKETS), pa.uint16()), value_set=sums["bucket"].combine_chunks())
    zero = pa.scalar(0, pa.uint64())
    return _Buckets(
        buckets, [pc.fill_null(pc.take(sums[f"{name}_sum"].combine_chunks(), rows), zero) for name in words]
    )


def read_selected_adds(
    snapshot: Snapshot, keys: ArrowArray, chosen: ArrowArray, where: Mask | None, fields: Sequence[str] | None = None
) -> Iterator[RecordBatch]:
    """Yield the chosen live files of a version, with all fields or some; see `read_adds_with_mask`."""
    for rows, mask in read_adds_with_mask(snapshot, keys, chosen, where, fields):
        if pc.any(mask).as_py():
            yield pc.filter(rows, mask)


def read_adds_with_mask(
    snapshot: Snapshot, keys: ArrowArray, chosen: ArrowArray, where: Mask | None, fields: Sequence[str] | None = None
) -> Iterator[tuple[RecordBatch, ArrowArray]]:
    """Yield the live files of a version, each batch with a mask of those that are chosen.

    A plan keeps only keys and a mask. Files are read in the same order each time, so the n-th key is that
    of the n-th file as long as the log is the same.

    Args:
        snapshot: The version.
        keys: The keys of its live files, as `hash_file_actions` returned them, in the order of reading.
        chosen: A mask of these keys.
        where: Chooses the files that have keys. None for all.
        fields: The fields that are read. None for all.

    Raises:
        Refused: `plan.other-past`, if the log has changed underneath, so that the files are others by now.
    """
    needed_fields = None
    if fields is not None:
        needed_fields = [*fields] if where is None else [*fields, "partitionValues"]

    def read(adds: RecordBatch) -> tuple[RecordBatch, ArrowArray]:
        rows = adds if where is None else pc.filter(adds, where(adds))
        return rows, hash_file_actions(rows)

    begin = 0
    for rows, keys_of_rows in snapshot.file_actions.map_actions("add", read, fields=needed_fields):
        if not keys_of_rows.equals(keys.slice(begin, len(keys_of_rows))):
            raise _log_changed_error(snapshot)
        mask = chosen.slice(begin, len(keys_of_rows))
        begin += len(keys_of_rows)
        yield rows, mask
    # Fewer files than keys: the last batches are gone.
    if begin != len(keys):
        raise _log_changed_error(snapshot)


def _log_changed_error(snapshot: Snapshot) -> errors.Refused:
    """Return the refusal for a version that has other files than when it was read, with the file that was replaced."""
    checkpoint = snapshot.segment.checkpoint
    commits = snapshot.segment.commits
    start_version = snapshot.version if checkpoint is None else checkpoint.version
    oldest_version = min([start_version, *(commit.version for commit in commits)])
    listing = list_log(snapshot.table.storage, start_version=oldest_version)

    # Files are compared with name, size and time, so that one that was replaced is not in the listing.
    listed_files = {*listing.commits.values()}
    for listed_checkpoint in listing.checkpoints:
        listed_files.update(listed_checkpoint.files)
    checkpoint_files = () if checkpoint is None else checkpoint.files
    changed = [file.name for file in (*checkpoint_files, *commits) if file not in listed_files]
    return errors.Refused(
        f"version {snapshot.version} has other files than when it was read, because its log was rewritten",
        preamble=errors.NOTHING_CHANGED,
        code="plan.other-past",
        facts={"changed": changed[0] if changed else f"files of version {snapshot.version}"},
        hint=errors.command("history", limit=10),
    )


def build_removes(adds: RecordBatch, now_ms: int, *, is_change: bool) -> RecordBatch:
    """Return the removes of some live files, with all that is known of them.

    Args:
        adds: The live files, with all fields that a remove has.
        now_ms: The time of the removal, in epoch milliseconds.
        is_change: True if the rows of the files are removed from the table.
    """
    count = adds.num_rows
    new_columns = {
        "deletionTimestamp": pa.repeat(pa.scalar(now_ms, pa.int64()), count),
        "dataChange": pa.repeat(is_change, count),
        "extendedFileMetadata": pa.repeat(True, count),
    }
    names = list(FIELDS["remove"])
    columns = [new_columns[name] if name in new_columns else adds.column(name) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=names)
