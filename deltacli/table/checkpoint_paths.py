"""Examine the paths of all live files in a checkpoint in one pass.

Two checks need every path of a checkpoint: `ambiguous_files.py` searches for files with several
spellings of their path, and `repeated_files.py` for files that the checkpoint contains twice.
Reading the paths takes a fifth of the time of writing the checkpoint, so they are read once for
both checks.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.encoding.many_values import find_repeated_hashes, hash_column
from deltacli.delta.log.file_actions import compute_file_keys
from deltacli.delta.paths.spelling_columns import may_have_spellings
from deltacli.table.rebuild import rebuild_version
from deltacli.table.version import Snapshot


class CheckpointPaths(NamedTuple):
    """The result of one pass over the paths of a checkpoint.

    Attributes:
        start: A snapshot of the version of the checkpoint, rebuilt from the checkpoint alone. None
            if the version was rebuilt from commits only.
        may_have_spellings: True if a path may have another spelling, such as `./a.parquet` or
            `a%20b.parquet`.
        repeated_hashes: Hashes (int64) of the logical files that occur more than once in a Parquet
            checkpoint. They depend on Python's hash seed, and different files may have the same
            hash.
    """

    start: Snapshot | None
    may_have_spellings: bool
    repeated_hashes: ArrowArray


def examine_checkpoint_paths(snapshot: Snapshot) -> CheckpointPaths:
    """Read the paths of the live files in the checkpoint that a version was rebuilt from.

    Files that a newer commit removes are included: the remove may use another spelling of the path.

    Raises:
        CheckpointUnreadable: If the checkpoint cannot be read.
    """
    no_hashes = pa.array([], pa.int64())
    start = rebuild_checkpoint_version(snapshot)
    if start is None:
        return CheckpointPaths(None, False, no_hashes)

    # The live files of a JSON checkpoint are in memory. Those of a Parquet checkpoint are read in
    # row groups.
    batches = [batch.adds for batch in start.file_actions.read_narrow_commit_batches() if batch.adds is not None]
    may_have_other_spellings = any(may_have_spellings(adds.column("path")) for adds in batches)
    hashes = [no_hashes]
    for batch_may_have, batch_hashes in start.file_actions.map_narrow_adds(_examine_batch, with_records=False):
        may_have_other_spellings = may_have_other_spellings or batch_may_have
        hashes.append(batch_hashes)
    return CheckpointPaths(start, may_have_other_spellings, find_repeated_hashes(pa.concat_arrays(hashes)))


def rebuild_checkpoint_version(snapshot: Snapshot) -> Snapshot | None:
    """Rebuild the version of the checkpoint that `snapshot` starts from. Return None if there is no checkpoint."""
    checkpoint = snapshot.segment.checkpoint
    if checkpoint is None:
        return None
    return rebuild_version(snapshot.table, snapshot.log, checkpoint.version, unusable=snapshot.unusable)


def _examine_batch(adds: RecordBatch) -> tuple[bool, ArrowArray]:
    """Return True if a path of the batch may have another spelling, and a hash of each logical file."""
    paths = adds.column("path")
    keys = compute_file_keys(paths, adds.column("dv_id"))
    return may_have_spellings(paths), hash_column(keys)
