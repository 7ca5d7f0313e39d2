"""Live files that a checkpoint has twice, which are read once.

A checkpoint is the reconciled state, in which each logical file is once. Its rows are not reconciled again, because a
table may have millions of files: the kernels return the rows of a file twice that a checkpoint has twice. Delta for
Spark returns them once, and so does deltacli:

* Whoever reads rows leaves out a file that was there before, see `files_once.py`. Only the files that are read are
  compared, so a few rows of a large table do not take longer.
* Whoever counts or writes the whole state asks `deduplicate_live_files` first, which reads the paths of the checkpoint
  once more.

Two adds of one file with other partition values are rows of which nobody knows which ones are right: they are refused.

Spec: Action Reconciliation; Checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.data_files import unique_id_column
from deltacli.delta.encoding.many_values import hash_column, repeated
from deltacli.delta.log.actions import Action
from deltacli.delta.log.disputed_readings import REPEATED_IN_CHECKPOINT
from deltacli.delta.log.file_actions import FileBatch, Survivors, file_key, key_column, narrow_batches
from deltacli.work.rows.files_once import differing_adds

if TYPE_CHECKING:
    from deltacli.table.checkpoint_paths import CheckpointPaths
    from deltacli.table.version import Snapshot


def deduplicate_live_files(snapshot: Snapshot, checkpoint_paths: CheckpointPaths | None = None) -> Snapshot:
    """Return a version in which each live file of its checkpoint is once, and which notes it if that was not so.

    The paths of the checkpoint are read once more, which is why not every reader asks for this.

    Args:
        snapshot: The version.
        checkpoint_paths: What `examine_checkpoint_paths` has returned for the version, if it was called already.

    Raises:
        Unreadable: `checkpoint.duplicate-key`, for a file that the checkpoint has with different partition values.
        CheckpointUnreadable: If the checkpoint cannot be read.
    """
    keys = _find_repeated_keys(snapshot, checkpoint_paths)
    if not keys:
        return snapshot
    adds = _read_newest_adds(snapshot, keys)
    tail = copy(snapshot._replayed)
    tail.decided_keys = tail.decided_keys | {file_key(add) for add in adds}
    inline = Survivors([*snapshot._json_checkpoint_actions.adds, *adds], snapshot._json_checkpoint_actions.removes)
    narrow = FileBatch(*narrow_batches(inline.adds, inline.removes, "the checkpoint"))
    problems = snapshot._problems | {REPEATED_IN_CHECKPOINT}
    return replace(
        snapshot,
        _replayed=tail,
        _json_checkpoint_actions=inline,
        _narrow_json_checkpoint_actions=narrow,
        _problems=problems,
    )


def _find_repeated_keys(snapshot: Snapshot, checkpoint_paths: CheckpointPaths | None) -> set[bytes]:
    """Return the keys of the live files that the row groups of the checkpoint have more than once."""

    def read_keys(adds: RecordBatch) -> ArrowArray:
        return key_column(adds.column("path"), adds.column("dv_id"))

    actions = snapshot.file_actions
    if not actions.pieces:
        return set()
    if checkpoint_paths is None:
        hashes = [hash_column(keys) for keys in actions.map_narrow_adds(read_keys, with_records=False)]
        suspects = repeated(pa.concat_arrays([pa.array([], pa.int64()), *hashes]))
    else:
        suspects = checkpoint_paths.repeated_hashes
    if not len(suspects):
        return set()

    # Different keys may have the same hash.
    seen = set[bytes]()
    repeated_keys = set[bytes]()
    for keys in actions.map_narrow_adds(read_keys, with_records=False):
        for key in pc.filter(keys, pc.is_in(hash_column(keys), value_set=suspects)).to_pylist():
            (repeated_keys if key in seen else seen).add(key)
    return repeated_keys


def _read_newest_adds(snapshot: Snapshot, keys: set[bytes]) -> list[Action]:
    """Return the last add of each of some keys in the checkpoint, as in a commit.

    Raises:
        Unreadable: `checkpoint.duplicate-key`, if adds of one file have different partition values.
    """
    wanted = pa.array(sorted(keys), pa.binary())

    def choose(adds: RecordBatch) -> RecordBatch:
        keys_of_adds = key_column(adds.column("path"), unique_id_column(adds.column("deletionVector")))
        return pc.filter(adds, pc.is_in(keys_of_adds, value_set=wanted))

    newest: dict[str, Action] = {}
    for batch in snapshot.file_actions.map_actions("add", choose):
        for row in batch.to_pylist(maps_as_pydicts="strict"):
            add = _drop_null_fields(row)
            earlier = newest.setdefault(file_key(add), add)
            if earlier.get("partitionValues") != add.get("partitionValues"):
                raise differing_adds(add["path"])
            newest[file_key(add)] = add
    return list(newest.values())


def _drop_null_fields(row: Mapping[str, Any]) -> Action:  # Any: values of Arrow
    """Return an add of columns as in a commit, where an absent field is left out."""
    add = {name: value for name, value in row.items() if value is not None}
    vector = add.get("deletionVector")
    if vector is not None:
        add["deletionVector"] = {name: value for name, value in vector.items() if value is not None}
    return add
