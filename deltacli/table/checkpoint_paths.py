"""Look at all paths of the checkpoint of a version in one pass.

Two questions need all paths of a checkpoint and nothing else of it: whether one of them may be another spelling of a
path (`ambiguous_files.py`), and whether the checkpoint has a file twice (`repeated_files.py`). Reading the paths of a
million files takes a fifth of the time of writing a checkpoint of them, so both are asked in the same pass.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.encoding.many_values import hash_column, repeated
from deltacli.delta.log.file_actions import key_column
from deltacli.delta.paths.spelling_columns import may_have_spellings
from deltacli.table.rebuild import rebuild_version
from deltacli.table.version import Snapshot


class CheckpointPaths(NamedTuple):
    """The findings of one pass over the paths of a checkpoint.

    Attributes:
        start: The version of the checkpoint, rebuilt from it alone; None if the version was rebuilt from commits.
        may_have_spellings: True unless every path of a live file is certainly the name of its file.
        repeated_hashes: The hashes (int64, of this process) of keys of path and deletion vector that row groups of the
            checkpoint have more than once. Different keys may have the same hash.
    """

    start: Snapshot | None
    may_have_spellings: bool
    repeated_hashes: ArrowArray


def examine_checkpoint_paths(snapshot: Snapshot) -> CheckpointPaths:
    """Read the paths of the live files in the checkpoint that a version was rebuilt from.

    Files that newer commits removed count, too: of several spellings of a path each one matters.

    Raises:
        CheckpointUnreadable: If the checkpoint cannot be read.
    """
    nothing = pa.array([], pa.int64())
    start = rebuild_checkpoint_version(snapshot)
    if start is None:
        return CheckpointPaths(None, False, nothing)

    # The lines of a checkpoint in JSON; those of a Parquet checkpoint are in row groups.
    batches = [batch.adds for batch in start.file_actions.read_narrow_commit_batches() if batch.adds is not None]
    may_differ = any(may_have_spellings(adds.column("path")) for adds in batches)
    hashes = [nothing]
    for batch_may_differ, batch_hashes in start.file_actions.map_narrow_adds(_examine_batch, with_records=False):
        may_differ = may_differ or batch_may_differ
        hashes.append(batch_hashes)
    return CheckpointPaths(start, may_differ, repeated(pa.concat_arrays(hashes)))


def rebuild_checkpoint_version(snapshot: Snapshot) -> Snapshot | None:
    """Return the version of the checkpoint that a version was rebuilt from; None without a checkpoint."""
    checkpoint = snapshot.segment.checkpoint
    if checkpoint is None:
        return None
    return rebuild_version(snapshot.table, snapshot.log, checkpoint.version, unusable=snapshot.unusable)


def _examine_batch(adds: RecordBatch) -> tuple[bool, ArrowArray]:
    """Return whether paths may have several spellings, and the hashes of the keys of the files."""
    paths = adds.column("path")
    keys = key_column(paths, adds.column("dv_id"))
    return may_have_spellings(paths), hash_column(keys)
