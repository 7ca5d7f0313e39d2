"""Remove duplicates from the live files of a version.

A checkpoint contains the reconciled state of a table, so each logical file should occur once. Some
writers repeat a file. Delta Kernel then returns the rows of the file twice; Delta for Spark and deltacli
return them once:

* A scan skips files that it has read before (`files_once.py`). That only compares the files that the scan
  reads, so it is cheap for a selective scan of a large table.
* Counting files or writing a checkpoint needs all files. `deduplicate_live_files` reads the paths in the
  checkpoint once more to find repeated ones.

If two adds of one file have different partition values, nobody can tell which values are right, and an
error is raised.

Spec: Action Reconciliation; Checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.data_files import unique_id_column
from deltacli.delta.encoding.many_values import find_repeated_hashes, hash_column
from deltacli.delta.log.actions import Action
from deltacli.delta.log.disputed_readings import REPEATED_IN_CHECKPOINT
from deltacli.delta.log.file_actions import (
    FileBatch,
    ReconciledActions,
    build_narrow_batches,
    compute_file_key,
    compute_file_keys,
)
from deltacli.table.segment_contents import SegmentContents
from deltacli.work.rows.files_once import contradictory_adds_error

if TYPE_CHECKING:
    from deltacli.table.checkpoint_paths import CheckpointPaths
    from deltacli.table.version import Snapshot


def deduplicate_live_files(snapshot: Snapshot, checkpoint_paths: CheckpointPaths | None = None) -> Snapshot:
    """Return a snapshot in which every live file occurs once.

    This reads the paths of all files in the checkpoint. If a file is repeated, its last add is used as if a
    commit after the checkpoint contained it, and `checkpoint.duplicate-key` is added to the problems.

    Args:
        snapshot: The version.
        checkpoint_paths: The result of `examine_checkpoint_paths` for the version, if available. It saves
            the pass over the paths.

    Returns:
        The new snapshot, or the given snapshot if no file is repeated.

    Raises:
        Unreadable: `checkpoint.duplicate-key`, if two adds of one file have different partition values.
        CheckpointUnreadable: If the checkpoint cannot be read.
    """
    repeated_keys = _find_repeated_keys(snapshot, checkpoint_paths)
    if not repeated_keys:
        return snapshot
    adds = _read_last_adds(snapshot, repeated_keys)

    # Files that commits add or remove are skipped in the row groups of the checkpoint.
    contents = snapshot.contents
    replayed = copy(contents.replayed)
    replayed.superseded_keys = replayed.superseded_keys | {compute_file_key(add) for add in adds}

    # The adds themselves are passed on together with the lines of a JSON checkpoint.
    json_actions = ReconciledActions([*contents.json_actions.adds, *adds], contents.json_actions.removes)
    narrow_json_actions = FileBatch(*build_narrow_batches(json_actions.adds, json_actions.removes, "the checkpoint"))
    deduplicated = SegmentContents(replayed, json_actions, narrow_json_actions, contents.pieces)
    return replace(snapshot, contents=deduplicated).add_problem(REPEATED_IN_CHECKPOINT)


def _find_repeated_keys(snapshot: Snapshot, checkpoint_paths: CheckpointPaths | None) -> set[bytes]:
    """Return the keys of live files that occur more than once in the row groups of the checkpoint.

    The first pass collects a hash of each key, and the second pass compares the keys with a repeated hash.
    Usually there is none, and the second pass is skipped.
    """
    actions = snapshot.file_actions
    if not actions.pieces:
        return set()
    if checkpoint_paths is None:
        hashes = [hash_column(keys) for keys in actions.map_narrow_adds(_build_keys, with_records=False)]
        repeated_hashes = find_repeated_hashes(pa.concat_arrays([pa.array([], pa.int64()), *hashes]))
    else:
        repeated_hashes = checkpoint_paths.repeated_hashes
    if not len(repeated_hashes):
        return set()

    # Two different keys may have the same hash.
    seen_keys = set[bytes]()
    repeated_keys = set[bytes]()
    for keys in actions.map_narrow_adds(_build_keys, with_records=False):
        has_repeated_hash = pc.is_in(hash_column(keys), value_set=repeated_hashes)
        for key in pc.filter(keys, has_repeated_hash).to_pylist():
            if key in seen_keys:
                repeated_keys.add(key)
            seen_keys.add(key)
    return repeated_keys


def _build_keys(adds: RecordBatch) -> ArrowArray:
    """Return the keys of live files in narrow columns."""
    return compute_file_keys(adds.column("path"), adds.column("dv_id"))


def _read_last_adds(snapshot: Snapshot, keys: set[bytes]) -> list[Action]:
    """Read the last add of each key in the checkpoint.

    Returns:
        The adds as in a commit.

    Raises:
        Unreadable: `checkpoint.duplicate-key`, if two adds of one file have different partition values.
    """
    select_adds = partial(_select_adds, keys=pa.array(sorted(keys), pa.binary()))
    last_adds: dict[str, Action] = {}
    for batch in snapshot.file_actions.map_actions("add", select_adds):
        for row in batch.to_pylist(maps_as_pydicts="strict"):
            add = _drop_null_fields(row)
            key = compute_file_key(add)
            previous_add = last_adds.get(key, add)
            if previous_add.get("partitionValues") != add.get("partitionValues"):
                raise contradictory_adds_error(add["path"])
            last_adds[key] = add
    return list(last_adds.values())


def _select_adds(adds: RecordBatch, keys: ArrowArray) -> RecordBatch:
    """Return the adds of a batch whose key is one of the given keys."""
    keys_of_adds = compute_file_keys(adds.column("path"), unique_id_column(adds.column("deletionVector")))
    return pc.filter(adds, pc.is_in(keys_of_adds, value_set=keys))


def _drop_null_fields(row: Mapping[str, Any]) -> Action:  # Any: values of Arrow
    """Convert a row of an Arrow table to an add action as in a commit, which leaves out null fields."""
    add = {name: value for name, value in row.items() if value is not None}
    vector = add.get("deletionVector")
    if vector is not None:
        add["deletionVector"] = {name: value for name, value in vector.items() if value is not None}
    return add
