"""Compare the live files of two versions, or of two tables, by fixed-width keys.

A logical file is a path together with a deletion vector. Comparing millions of them as text would
need gigabytes, so each one is represented by a key, a hash of path and deletion vector id:

* 8 bytes (`hash_narrow_adds`) to report differing files. Computing them takes half the time of 16
  bytes.
* 16 bytes (`hash_file_actions`) to select the files that a commit adds or removes: a collision
  would lose rows.

Keys depend on Python's hash seed: they are equal only within one process, and must not be stored or
sent.

Spec: Action Reconciliation.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import aggregate_rows
from deltacli.core import errors
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.data_files import repeat_empty_vector_id, unique_id_column
from deltacli.delta.encoding.many_values import compute_fingerprints
from deltacli.delta.log.actions import FIELDS
from deltacli.delta.log.file_actions import compute_file_keys, join_paths_and_vector_ids
from deltacli.table.find_log import list_log
from deltacli.table.partition_condition import Mask

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.version import Snapshot

KEY_BYTES = 16
_BUCKETS = 1 << 16
_BUCKET_SHIFT = 48
"""The upper 16 bits of a 64-bit hash are the number of its bucket."""

Spelling = Callable[["pyarrow.Array"], ArrowArray]
"""Converts paths of a log to a form (binary) in which all paths of one file are equal."""


def hash_file_actions(adds: RecordBatch) -> ArrowArray:
    """Return a 16-byte key for each file action, computed from its fields `path` and `deletionVector`."""
    return hash_paths_and_vectors(adds.column("path"), unique_id_column(adds.column("deletionVector")))


def hash_narrow_adds(adds: RecordBatch, spelling: Spelling | None, *, with_vectors: bool = True) -> ArrowArray:
    """Return an 8-byte key (int64) for each live file of a narrow batch (see `ActionSchemas`).

    A key consists of the first eight bytes of `hash_file_actions`. If two tables with a million
    files each are compared, a collision occurs once in ten million comparisons.

    Args:
        adds: The live files.
        spelling: Makes the paths of two different tables comparable. None compares paths of the
            same table.
        with_vectors: False to ignore deletion vectors, so that a file is equal to itself with
            another vector.
    """
    paths = adds.column("path")
    vector_ids = adds.column("dv_id") if with_vectors else repeat_empty_vector_id(adds.num_rows)
    if spelling is None:
        logical_files = compute_file_keys(paths, vector_ids)
    else:
        logical_files = join_paths_and_vector_ids(spelling(paths), vector_ids)
    hashes = pa.py_buffer(_hash_values(logical_files))
    return pa.Array.from_buffers(pa.int64(), len(logical_files), [None, hashes])


def hash_paths_and_vectors(paths: ArrowArray, vector_ids: ArrowArray) -> ArrowArray:
    """Return a 16-byte key for each path and deletion vector id.

    A key consists of two 64-bit words: Python's keyed hash, and a fingerprint that does not depend
    on it.

        words    hash 0, fingerprint 0, hash 1, fingerprint 1, …
        keys     |------ key 0 ------|  |------ key 1 ------|

    Args:
        paths: Paths as written in the log (string).
        vector_ids: Unique ids of the deletion vectors (string), "" for files without one.
    """
    logical_files = compute_file_keys(paths, vector_ids)
    words = array("q", bytes(KEY_BYTES * len(logical_files)))
    words[::2] = _hash_values(logical_files)
    if logical_files:
        fingerprint_bytes = memoryview(compute_fingerprints(logical_files).buffers()[1])[: 8 * len(logical_files)]
        words[1::2] = array("q", fingerprint_bytes.tobytes())
    return pa.Array.from_buffers(pa.binary(KEY_BYTES), len(logical_files), [None, pa.py_buffer(words)])


def _hash_values(values: ArrowArray) -> array[int]:
    return array("q", map(hash, values.to_pylist()))


class UnmatchedKeys(NamedTuple):
    """The result of comparing two arrays of keys.

    Attributes:
        only_left: Mask of the keys in the left array that do not occur in the right array.
        only_right: Mask of the keys in the right array that do not occur in the left array.
    """

    only_left: ArrowArray
    only_right: ArrowArray


class _Buckets(NamedTuple):
    """Keys grouped into buckets by their hashes.

    Attributes:
        bucket_of_key: The number of the bucket of each key (uint16).
        sums: For each word of the keys, an array with the sum of the word in each bucket (uint64).
    """

    bucket_of_key: ArrowArray
    sums: list[ArrowArray]


def find_unmatched_keys(left: ArrowArray, right: ArrowArray) -> UnmatchedKeys:
    """Find the keys that occur only in `left`, and those that occur only in `right`.

    Two versions of a table usually differ in few files. Therefore the keys are first grouped into
    buckets, and for each bucket the keys are added up, word by word. A bucket with the same sums on
    both sides contains the same keys on both sides, except with a probability of 2**-112 for
    16-byte keys. Only the keys of other buckets are looked up. For two million keys with few
    differences, this takes 0.1 s instead of 0.9 s.

    Args:
        left: Keys of 8 or 16 bytes.
        right: Keys of the same width.
    """
    # With fewer keys than buckets, most buckets would contain one key, and grouping would save
    # nothing.
    if min(len(left), len(right)) < _BUCKETS:
        return UnmatchedKeys(_are_absent(left, right), _are_absent(right, left))

    left_buckets = _build_buckets(left)
    right_buckets = _build_buckets(right)
    bucket_differs = reduce(pc.or_, map(pc.not_equal, left_buckets.sums, right_buckets.sums))

    # A key in an equal bucket occurs on both sides. A key in a differing bucket has to be looked
    # up.
    is_left_candidate = pc.take(bucket_differs, left_buckets.bucket_of_key)
    is_right_candidate = pc.take(bucket_differs, right_buckets.bucket_of_key)
    left_candidates = pc.filter(left, is_left_candidate)
    right_candidates = pc.filter(right, is_right_candidate)
    is_left_absent = _are_absent(left_candidates, right_candidates)
    is_right_absent = _are_absent(right_candidates, left_candidates)
    return UnmatchedKeys(
        pc.replace_with_mask(is_left_candidate, is_left_candidate, is_left_absent),
        pc.replace_with_mask(is_right_candidate, is_right_candidate, is_right_absent),
    )


def _are_absent(keys: ArrowArray, value_set: ArrowArray) -> ArrowArray:
    """Return a mask of the keys that do not occur in `value_set`."""
    return pc.invert(pc.is_in(keys, value_set=value_set))


def _build_buckets(keys: ArrowArray) -> _Buckets:
    """Group keys into buckets by the upper bits of their first word, and add up the words of each bucket.

    With two buckets (one upper bit) and keys of one 4-bit word:

        keys            0001  1010  0010  1100
        bucket_of_key      0     1     0     1
        sums[0]         [0011, 0110]             sums wrap around

    Args:
        keys: Keys of 8 or 16 bytes.
    """
    # Read the bytes of the keys as 64-bit words, without a copy.
    words_per_key = keys.type.bit_width // 64
    word_offset = words_per_key * keys.offset
    word_count = words_per_key * len(keys)
    flat_words = pa.Array.from_buffers(pa.uint64(), word_count, [None, keys.buffers()[1]], offset=word_offset)
    words_of_keys = pa.FixedSizeListArray.from_arrays(flat_words, words_per_key)
    words = {f"word{index}": pc.list_element(words_of_keys, index) for index in range(words_per_key)}

    # Add up each word per bucket.
    bucket_numbers = pc.shift_right(words["word0"], pa.scalar(_BUCKET_SHIFT, pa.uint64()))
    bucket_of_key = pc.cast(bucket_numbers, pa.uint16())
    rows = pa.table({"bucket": bucket_of_key, **words})
    sums = aggregate_rows(rows, ["bucket"], [(name, "sum") for name in words])

    # Sort the sums by bucket, so that both sides can be compared. Empty buckets have the sum 0.
    all_buckets = pa.array(range(_BUCKETS), pa.uint16())
    row_of_bucket = pc.index_in(all_buckets, value_set=sums["bucket"].combine_chunks())
    zero = pa.scalar(0, pa.uint64())
    sorted_sums = []
    for name in words:
        sum_of_bucket = pc.take(sums[f"{name}_sum"].combine_chunks(), row_of_bucket)
        sorted_sums.append(pc.fill_null(sum_of_bucket, zero))
    return _Buckets(bucket_of_key, sorted_sums)


def read_selected_adds(
    snapshot: Snapshot, keys: ArrowArray, selected: ArrowArray, where: Mask | None, fields: Sequence[str] | None = None
) -> Iterator[RecordBatch]:
    """Yield the selected live files of a version in batches.

    Takes the same arguments and raises the same errors as `read_adds_with_mask`.
    """
    for adds, mask in read_adds_with_mask(snapshot, keys, selected, where, fields):
        if pc.any(mask).as_py():
            yield pc.filter(adds, mask)


def read_adds_with_mask(
    snapshot: Snapshot, keys: ArrowArray, selected: ArrowArray, where: Mask | None, fields: Sequence[str] | None = None
) -> Iterator[tuple[RecordBatch, ArrowArray]]:
    """Yield the live files of a version in batches, each with a mask of the selected files.

    A plan for millions of files keeps 16 bytes per file instead of whole add actions, and reads the
    actions again when they are needed. Files are always read in the same order, so key `n` belongs
    to file `n` if the log is unchanged. This is checked.

    Args:
        snapshot: The version.
        keys: Keys of its live files, as `hash_file_actions` returned them, in the order of reading.
        selected: A mask of `keys`.
        where: Selects the files that `keys` refers to, for example by partition. None if it refers
            to all files.
        fields: Names of the fields of the adds to read. None reads all fields.

    Raises:
        Refused: `plan.other-past`, if the live files are no longer those that `keys` was computed
            from.
    """
    read_fields = None
    if fields is not None:
        # `where` needs the partition values.
        read_fields = [*fields] if where is None else [*fields, "partitionValues"]

    filter_and_hash = partial(_filter_and_hash, where=where)
    begin = 0
    for adds, batch_keys in snapshot.file_actions.map_actions("add", filter_and_hash, fields=read_fields):
        # A batch with other keys means that the log was rewritten after `keys` was computed.
        expected_keys = keys.slice(begin, len(batch_keys))
        if not batch_keys.equals(expected_keys):
            raise _log_changed_error(snapshot)
        yield adds, selected.slice(begin, len(batch_keys))
        begin += len(batch_keys)
    # The last files are missing if fewer files than keys were read.
    if begin != len(keys):
        raise _log_changed_error(snapshot)


def _filter_and_hash(adds: RecordBatch, where: Mask | None) -> tuple[RecordBatch, ArrowArray]:
    """Return the live files of a batch that `where` selects, and their keys."""
    matching_adds = adds if where is None else pc.filter(adds, where(adds))
    return matching_adds, hash_file_actions(matching_adds)


def _log_changed_error(snapshot: Snapshot) -> errors.Refused:
    """Return the error for a log that was rewritten while a plan used it. It names the first log file that changed."""
    checkpoint = snapshot.segment.checkpoint
    commits = snapshot.segment.commits
    start_version = snapshot.version if checkpoint is None else checkpoint.version
    oldest_version = min([start_version, *(commit.version for commit in commits)])
    listing = list_log(snapshot.table.storage, start_version=oldest_version)

    # Log files are compared by name, size and modification time, so a file that was replaced counts
    # as changed.
    listed_files = {*listing.commits.values()}
    for listed_checkpoint in listing.checkpoints:
        listed_files.update(listed_checkpoint.files)
    checkpoint_files = () if checkpoint is None else checkpoint.files
    changed_names = [file.name for file in (*checkpoint_files, *commits) if file not in listed_files]
    return errors.Refused(
        f"version {snapshot.version} has other files than when it was read, because its log was rewritten",
        preamble=errors.NOTHING_CHANGED,
        code="plan.other-past",
        facts={"changed": changed_names[0] if changed_names else f"files of version {snapshot.version}"},
        hint=errors.command("history", limit=10),
    )


def build_removes(adds: RecordBatch, now_ms: int, *, is_change: bool) -> RecordBatch:
    """Build the remove actions that delete live files, with `extendedFileMetadata`.

    Args:
        adds: Add actions of the live files, with all fields that a remove copies from an add.
        now_ms: The deletion timestamp in epoch milliseconds.
        is_change: The value of `dataChange`: False if the same commit adds the same rows in other
            files.
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
