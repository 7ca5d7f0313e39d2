"""Replay a commit that is too large to be held in memory as Python objects.

The first commit of a converted table, for example, may add millions of files. Such a commit is read in
blocks of a few megabytes, and each block is converted to narrow columns (path, deletion vector id, size,
number of records).

In most large commits every file occurs once. Then the concatenated rows are the result. To detect
repeated files, the hashes of all keys are collected; only rows whose hash is repeated are compared:

    block 1   add a, add b       hashes 11 22
    block 2   remove a, add c    hashes 11 33      repeated: {11}  ->  the add of a wins

`replay.py` calls `read_large_commit` for each large commit. `reread_commits.py` reads the same commits
again if all fields of the actions are needed.
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
from deltacli.delta.log.file_actions import SupersededFiles, compute_file_keys
from deltacli.delta.log.segment import LogFile
from deltacli.engine.base import Engine
from deltacli.storage import ReadStorage
from deltacli.work.commits.reading import stream_commit

if TYPE_CHECKING:
    from deltacli.delta.encoding.many_values import KeyIndex
    from deltacli.work.commits.blocks import NarrowBlock

_MAX_BATCH_BYTES = 1 << 30
"""Size limit of a record batch that is joined from several blocks. An Arrow string column has at most 2 GiB."""


class LargeCommit(NamedTuple):
    """The part of a large commit that is kept for reading older commits and for reading the commit again.

    Attributes:
        repeated_hashes: Hashes that occur more than once among the keys of the commit. Usually that means
            a repeated key, but two keys may have the same hash.
        keys: The keys of all files that the commit adds or removes. Empty if no older actions are read.
    """

    repeated_hashes: frozenset[int]
    keys: Sequence[KeyIndex] = ()


class LargeCommitRows(NamedTuple):
    """The reconciled actions of a large commit that no newer commit supersedes.

    Attributes:
        adds: Live files, in narrow columns.
        removes: Tombstones, in narrow columns.
        other_actions: The actions that are neither `add` nor `remove`, each with its kind.
        disputed_rules: Ids of `validate` rules for content that engines interpret differently.
        commit: The part of the commit to keep.
    """

    adds: list[RecordBatch]
    removes: list[RecordBatch]
    other_actions: list[tuple[str, Action]]
    disputed_rules: set[str]
    commit: LargeCommit


def read_large_commit(
    storage: ReadStorage,
    engine: Engine,
    file: LogFile,
    superseded_files: SupersededFiles,
    *,
    remember_keys: bool,
    progress: Progress,
) -> LargeCommitRows:
    """Read a large commit in blocks and reconcile its actions.

    Args:
        storage: The store of the table.
        engine: The engine that parses the blocks.
        file: The commit.
        superseded_files: The files that newer commits add or remove. Their rows are dropped.
        remember_keys: True if older commits or a checkpoint are read after this commit. Their actions for
            files of this commit must be dropped, so the keys are returned.
        progress: Receives the number of bytes read.

    Raises:
        CommitCorrupt: If the commit is damaged. The error contains the line and the byte offset.
    """
    # Imported here because most tables have no large commits.
    from deltacli.delta.encoding.many_values import KeyIndex, find_repeated_hashes

    # Parse the commit, and find the hashes that occur more than once. Lists are cleared as soon as they are
    # not needed: each may hold hundreds of megabytes.
    blocks, hashes = _read_blocks(storage, engine, file, superseded_files, progress)
    joined_hashes = pa.concat_arrays(hashes)
    hashes.clear()
    repeated_hashes = frozenset(find_repeated_hashes(joined_hashes).to_pylist())

    # Keep one action of each repeated file.
    disputed_rules: set[str] = set()
    for block in blocks:
        disputed_rules |= block.disputed_rules
    if repeated_hashes:
        reconciled = _reconcile_repeated_keys(blocks, repeated_hashes)
        blocks = reconciled.blocks
        disputed_rules |= reconciled.disputed_rules

    other_actions = [action for block in blocks for action in block.small]
    adds = [block.adds for block in blocks]
    removes = [block.removes for block in blocks]
    blocks.clear()
    if not remember_keys:
        return LargeCommitRows(adds, removes, other_actions, disputed_rules, LargeCommit(repeated_hashes))

    # A `KeyIndex` refers to the paths of a record batch instead of copying them. Looking up keys in a few
    # large indexes is faster than in many small ones, so join the blocks first.
    joined_adds = list(_join_batches(adds))
    joined_removes = list(_join_batches(removes))
    keys = [
        KeyIndex(compute_file_keys(rows.column("path"), rows.column("dv_id")))
        for rows in (*joined_adds, *joined_removes)
    ]
    return LargeCommitRows(
        joined_adds, joined_removes, other_actions, disputed_rules, LargeCommit(repeated_hashes, keys)
    )


def _read_blocks(
    storage: ReadStorage, engine: Engine, file: LogFile, superseded_files: SupersededFiles, progress: Progress
) -> tuple[list[NarrowBlock], list[ArrowArray]]:
    """Parse the blocks of a commit in parallel.

    Returns:
        The blocks in the order of the commit, without their hashes; and the hashes of all keys. They are
        returned separately because the hashes are released first.

    Raises:
        CommitCorrupt: If the commit is damaged. The error contains the line and the byte offset.
    """
    # Imported here because most tables have no large commits.
    from deltacli.work.commits.blocks import plan_blocks, read_narrow_block

    read_block = partial(read_narrow_block, storage, touched=superseded_files)
    blocks: list[NarrowBlock] = []
    hashes: list[ArrowArray] = []
    error: CommitCorrupt | None = None
    try:
        with progress.step(f"reading commit {file.version}", unit="bytes", total=file.size_bytes) as step:
            plan = plan_blocks(file)
            for piece, block in zip(plan, engine.run(read_block, plan), strict=True):
                hashes += block.hashes
                blocks.append(block._replace(hashes=[]))
                step.advance(min(piece.length, file.size_bytes - piece.offset))
    except CommitCorrupt as corrupt:
        # Without its traceback, because the frames keep the bytes of the block in memory.
        error = corrupt.with_traceback(None)

    if error is not None:
        # The error contains the line number within the block. Reading the commit from its start raises
        # an error with the line number and byte offset within the file.
        for _ in stream_commit(storage, file):
            pass
        raise error
    return blocks, hashes


def _join_batches(batches: list[RecordBatch]) -> Iterator[RecordBatch]:
    """Join record batches into as few as `_MAX_BATCH_BYTES` allows.

    Args:
        batches: The batches. The list is emptied, so that rows are not in memory twice.
    """
    batches.reverse()
    while batches:
        part: list[RecordBatch] = []
        size_bytes = 0
        while batches and (not part or size_bytes + batches[-1].nbytes <= _MAX_BATCH_BYTES):
            part.append(batches.pop())
            size_bytes += part[-1].nbytes
        yield from pa.Table.from_batches(part).combine_chunks().to_batches()


class _ReconciledBlocks(NamedTuple):
    """The blocks of a commit in which every file occurs once.

    Attributes:
        blocks: The blocks in the order of the commit.
        disputed_rules: Ids of `validate` rules for repeated files that engines interpret differently.
    """

    blocks: list[NarrowBlock]
    disputed_rules: set[str]


def _reconcile_repeated_keys(blocks: list[NarrowBlock], repeated_hashes: frozenset[int]) -> _ReconciledBlocks:
    """Keep the last add of each repeated file, or its last remove if the commit does not add it.

    `reconcile_commit` applies the same rules to small commits. Unlike there, two adds of one file always
    count as different, because narrow columns do not contain all of their fields.

    Args:
        blocks: The blocks in the order of the commit.
        repeated_hashes: The hashes that occur more than once among the keys of the commit.
    """
    disputed_rules: set[str] = set()
    row_filter = _LastActionFilter(repeated_hashes)

    # All adds are filtered before the first remove: an add wins even if a remove follows it.
    adds = [row_filter.filter(block.adds) for block in reversed(blocks)]
    adds.reverse()
    if sum(rows.num_rows for rows in adds) < sum(block.adds.num_rows for block in blocks):
        disputed_rules.add(ADDED_TWICE)

    added = {file for rows in adds for file in _list_files_with_hashes(rows, repeated_hashes)}
    removed = (file for block in blocks for file in _list_files_with_hashes(block.removes, repeated_hashes))
    if any(file in added for file in removed):
        disputed_rules.add(ADDED_AND_REMOVED)

    removes = [row_filter.filter(block.removes) for block in reversed(blocks)]
    removes.reverse()
    reconciled_blocks = [
        block._replace(adds=adds_of_block, removes=removes_of_block)
        for block, adds_of_block, removes_of_block in zip(blocks, adds, removes, strict=True)
    ]
    return _ReconciledBlocks(reconciled_blocks, disputed_rules)


def _list_files_with_hashes(rows: RecordBatch, hashes: frozenset[int]) -> list[tuple[str, str | None]]:
    """Return the path and deletion vector id of each row whose key has one of the hashes."""
    from deltacli.work.commits.blocks import hash_keys

    has_hash = pc.is_in(hash_keys(rows), value_set=pa.array(hashes, pa.int64()))
    matches = rows.filter(has_hash)
    return list(zip(matches.column("path").to_pylist(), matches.column("dv_id").to_pylist(), strict=True))


class _LastActionFilter:
    """Drops every action of a repeated file except the last one.

    `filter` must be called for the blocks of a commit from the last to the first: it drops actions of
    files that an earlier call has returned.
    """

    def __init__(self, repeated_hashes: frozenset[int]) -> None:
        """Create a filter.

        Args:
            repeated_hashes: The hashes of keys that may be repeated. Rows with other hashes are kept.
        """
        self._repeated_hashes = repeated_hashes
        self._returned_keys: set[bytes] = set()

    def filter(self, rows: RecordBatch) -> RecordBatch:
        """Return the last row of each repeated key that no earlier call has returned, and all other rows.

        Args:
            rows: Add actions or remove actions, in the order of the commit.
        """
        from deltacli.work.commits.blocks import hash_keys

        is_kept = [True] * rows.num_rows
        keys = compute_file_keys(rows.column("path"), rows.column("dv_id"))
        hashes = hash_keys(rows).to_pylist()
        for index in range(rows.num_rows - 1, -1, -1):
            if hashes[index] in self._repeated_hashes:
                key = keys[index].as_py()
                is_kept[index] = key not in self._returned_keys
                self._returned_keys.add(key)
        return pc.filter(rows, pa.array(is_kept, pa.bool_()))
