"""Replay a commit that is too large to be held in memory as Python objects.

Such a commit, for example the first one of a converted table, is read in blocks, and each block
becomes narrow columns at once. Most large commits name no file twice. Then the rows of the blocks,
without those that newer commits have decided, are the result. Whether a key occurs twice is known
only at the end, from the hashes of all keys; only rows with a repeated hash are looked at one by one.

    block 1: add a, add b       hashes 11 22
    block 2: remove a, add c    hashes 11 33      repeated: {11}  ->  the add of a wins

`replay.py` calls this for each large commit, `reread_commits.py` reads the same commits once more
with all their fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import CommitCorrupt
from deltacli.core.progress import Progress
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.log.actions import Action
from deltacli.delta.log.disputed_readings import ADDED_AND_REMOVED, ADDED_TWICE
from deltacli.delta.log.file_actions import TouchedFiles, key_column
from deltacli.delta.log.segment import LogFile
from deltacli.engine.base import Engine
from deltacli.storage import ReadStorage
from deltacli.work.commits.reading import stream_commit

if TYPE_CHECKING:
    from deltacli.delta.encoding.many_values import KeyIndex
    from deltacli.work.commits.blocks import NarrowBlock

_BYTES_JOINED = 1 << 30
"""Bytes of rows that are joined into one batch. A column of Arrow has at most 2 GiB of paths."""


class LargeCommit(NamedTuple):
    """The part of a large commit that is remembered.

    Attributes:
        repeated_hashes: The hashes of keys that occur more than once in the commit. Different keys may
            have the same hash.
        keys: All keys that the commit decides. Empty if nothing older is read.
    """

    repeated_hashes: frozenset[int]
    keys: Sequence[KeyIndex] = ()


class LargeCommitRows(NamedTuple):
    """The reconciled content of a large commit, without the files that newer commits have decided.

    Attributes:
        adds: Live files in narrow columns.
        removes: Tombstones in narrow columns.
        other_actions: The actions that are not about files.
        disputed: The rules of `validate` for what other engines may read differently.
        commit: The part that is remembered.
    """

    adds: list[RecordBatch]
    removes: list[RecordBatch]
    other_actions: list[tuple[str, Action]]
    disputed: set[str]
    commit: LargeCommit


def read_large_commit(
    storage: ReadStorage,
    engine: Engine,
    file: LogFile,
    decided: TouchedFiles,
    *,
    remember_keys: bool,
    progress: Progress,
) -> LargeCommitRows:
    """Read a large commit in blocks and reconcile its actions.

    Args:
        storage: The store of the table.
        engine: The engine that parses the blocks.
        file: The commit.
        decided: The files that newer commits have decided. Their rows are left out.
        remember_keys: True if older commits or a checkpoint are read after this commit, so that the
            files that it decides are left out there.
        progress: Where the bytes that were read are reported.

    Raises:
        CommitCorrupt: If the commit is damaged. The error names line and byte.
    """
    from deltacli.delta.encoding.many_values import KeyIndex, repeated

    blocks, hashes = _read_blocks(storage, engine, file, decided, progress)
    joined_hashes = pa.concat_arrays(hashes)
    hashes.clear()
    repeated_hashes = frozenset(repeated(joined_hashes).to_pylist())

    disputed: set[str] = set()
    disputed.update(*(block.disputed for block in blocks))
    if repeated_hashes:
        blocks = _reconcile_repeated_keys(blocks, repeated_hashes, disputed)

    other_actions = [action for block in blocks for action in block.small]
    adds = [block.adds for block in blocks]
    removes = [block.removes for block in blocks]
    blocks.clear()
    if not remember_keys:
        return LargeCommitRows(adds, removes, other_actions, disputed, LargeCommit(repeated_hashes))

    # An index refers to the paths of a batch instead of copying them, and few large indexes are asked
    # faster than many small ones. So the rows are joined first.
    joined_adds = list(_join_batches(adds))
    joined_removes = list(_join_batches(removes))
    keys = [KeyIndex(key_column(rows.column("path"), rows.column("dv_id"))) for rows in (*joined_adds, *joined_removes)]
    return LargeCommitRows(joined_adds, joined_removes, other_actions, disputed, LargeCommit(repeated_hashes, keys))


def _read_blocks(
    storage: ReadStorage, engine: Engine, file: LogFile, decided: TouchedFiles, progress: Progress
) -> tuple[list[NarrowBlock], list[ArrowArray]]:
    """Return the blocks of a commit, in its order, and apart from them the hashes of all keys.

    Raises:
        CommitCorrupt: If the commit is damaged. The error names line and byte.
    """
    from deltacli.work.commits.blocks import plan_blocks, read_narrow_block

    read = partial(read_narrow_block, storage, touched=decided)
    blocks: list[NarrowBlock] = []
    hashes: list[ArrowArray] = []
    fault: CommitCorrupt | None = None
    try:
        with progress.step(f"reading commit {file.version}", unit="bytes", total=file.size_bytes) as step:
            plan = plan_blocks(file)
            for piece, block in zip(plan, engine.run(read, plan), strict=True):
                hashes += block.hashes
                blocks.append(block._replace(hashes=[]))
                step.advance(min(piece.length, file.size_bytes - piece.offset))
    except CommitCorrupt as corrupt:
        fault = corrupt.with_traceback(None)  # its frames keep the bytes of a line alive

    if fault is not None:
        # A block does not know how many lines are before it. A scan from the start does, and its error
        # names line and byte.
        for _ in stream_commit(storage, file):
            pass
        raise fault
    return blocks, hashes


def _join_batches(batches: list[RecordBatch]) -> Iterator[RecordBatch]:
    """Yield the rows of batches in as few batches as the size of a column allows.

    The list is emptied on the way, so that rows are not in memory twice.
    """
    batches.reverse()
    while batches:
        part: list[RecordBatch] = []
        size_bytes = 0
        while batches and (not part or size_bytes + batches[-1].nbytes <= _BYTES_JOINED):
            part.append(batches.pop())
            size_bytes += part[-1].nbytes
        yield from pa.Table.from_batches(part).combine_chunks().to_batches()


def _reconcile_repeated_keys(
    blocks: list[NarrowBlock], repeated_hashes: frozenset[int], disputed: set[str]
) -> list[NarrowBlock]:
    """Keep the last add of each repeated key, or its last remove if there is no add.

    These are the rules of `reconcile_commit` for small commits.

    Args:
        blocks: The file actions of a commit, in its order.
        repeated_hashes: The hashes of keys that the commit has more than once.
        disputed: Receives the rules of `validate` for what other engines may read differently. Two adds
            of one key count as different, because only their paths and vectors were kept.

    Returns:
        The blocks, without the rows that do not count.
    """
    settled: set[bytes] = set()
    # All adds come before all removes, because an add wins wherever it is in the commit.
    adds = [_keep_last_of_repeated(block.adds, repeated_hashes, settled) for block in reversed(blocks)]
    adds.reverse()
    if sum(rows.num_rows for rows in adds) < sum(block.adds.num_rows for block in blocks):
        disputed.add(ADDED_TWICE)

    added = {file for rows in adds for file in _list_files_with_hashes(rows, repeated_hashes)}
    removed = (file for block in blocks for file in _list_files_with_hashes(block.removes, repeated_hashes))
    if any(file in added for file in removed):
        disputed.add(ADDED_AND_REMOVED)

    removes = [_keep_last_of_repeated(block.removes, repeated_hashes, settled) for block in reversed(blocks)]
    removes.reverse()
    return [
        block._replace(adds=adds_of_block, removes=removes_of_block)
        for block, adds_of_block, removes_of_block in zip(blocks, adds, removes, strict=True)
    ]


def _list_files_with_hashes(rows: RecordBatch, hashes: frozenset[int]) -> list[tuple[str, str | None]]:
    """Return path, as the log has it, and vector of each row whose key has one of these hashes."""
    from deltacli.work.commits.blocks import hash_keys

    chosen = rows.filter(pc.is_in(hash_keys(rows), value_set=pa.array(hashes, pa.int64())))
    return list(zip(chosen.column("path").to_pylist(), chosen.column("dv_id").to_pylist(), strict=True))


def _keep_last_of_repeated(rows: RecordBatch, repeated_hashes: frozenset[int], settled: set[bytes]) -> RecordBatch:
    """Drop, from the end, each row with a repeated key that a later row has settled.

    Args:
        rows: Actions of one kind, in the order of the commit.
        repeated_hashes: The hashes of the keys to look at. All other rows stay.
        settled: The keys that later rows have. Those of the rows that stay are added.
    """
    from deltacli.work.commits.blocks import hash_keys

    keep = [True] * rows.num_rows
    keys = key_column(rows.column("path"), rows.column("dv_id"))
    hashes = hash_keys(rows).to_pylist()
    for index in range(rows.num_rows - 1, -1, -1):
        if hashes[index] in repeated_hashes:
            key = keys[index].as_py()
            keep[index] = key not in settled
            settled.add(key)
    return pc.filter(rows, pa.array(keep, pa.bool_()))
