"""Read the commits after a checkpoint a second time, to get all fields of their file actions.

The first reading (`replay.py`) only keeps the path, deletion vector, size and number of records of each
file. That is enough for most commands. Statistics, partition values and tags take about ten times as much
memory, so they are not kept: commands that need them read the commits again through this module, in
batches of limited size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

from deltacli.core.errors import CommitCorrupt, Refused
from deltacli.core.hints import command
from deltacli.core.progress import SILENT, Progress
from deltacli.delta.log.actions import read_actions
from deltacli.delta.log.file_actions import (
    FileBatch,
    ReconciledActions,
    SupersededFiles,
    build_full_batch,
    decode_file_keys,
    find_superseded_keys,
    reconcile_commit,
    reconcile_streamed_commit,
)
from deltacli.delta.log.segment import LogFile
from deltacli.engine.base import Engine
from deltacli.storage import ReadStorage
from deltacli.table.commit_contents import read_commit_contents
from deltacli.table.replay import ACTIONS_PER_BATCH, BYTES_PER_BATCH, ReplayedCommits
from deltacli.work.commits.reading import commit_location, stream_commit

if TYPE_CHECKING:
    from deltacli.delta.encoding.many_values import KeyIndex

_TIME_TOLERANCE_MS = 1_000
"""Allowed difference between two modification times of one file.

Object stores report milliseconds in a listing, but whole seconds in the response for a single object.
"""


def reread_file_actions(
    storage: ReadStorage,
    engine: Engine,
    commits: Sequence[LogFile],
    replayed: ReplayedCommits,
    *,
    partitions: tuple[str, ...],
    progress: Progress = SILENT,
) -> Iterator[FileBatch]:
    """Yield the reconciled file actions of commits with all their fields, as record batches.

    The commits are reconciled again with the rules of `replay_commits`. The result matches the first
    reading only if nobody has replaced a commit since. So a small commit must have the same checksum as
    before, and a large commit the same size and modification time.

    Args:
        storage: The store of the table.
        engine: The engine whose threads read.
        commits: The commits after the checkpoint, in ascending order of their versions.
        replayed: The result of `replay_commits` for these commits.
        partitions: The physical names of the partition columns.
        progress: Receives the number of bytes read.

    Raises:
        CommitCorrupt: If a commit is damaged.
        Refused: `plan.other-past`, if a commit was replaced after the first reading. Combining actions of
            the old and the new commit would produce a version that never existed.
    """
    superseded_keys: set[str] = set()
    keys_of_large_commits: list[KeyIndex] = []
    buffer = _FileActionBuffer()
    for file, content in read_commit_contents(storage, engine, commits, progress):
        if content is not None:
            if crc32(content) != replayed.checksums[file.version]:
                raise _commit_replaced_error(file)
            actions = read_actions(content, file.name)
            superseded_keys |= find_superseded_keys(actions, keys_of_large_commits, file.name)
            yield from buffer.append(file.name, reconcile_commit(actions, superseded_keys, file.name), file.size_bytes)
            continue

        # The commit is too large to be held in memory. Drop the actions that newer commits supersede.
        repeated_hashes, keys = replayed.large_commits[file.version]
        if repeated_hashes:
            # The last action of a repeated key wins, so such actions are held back until the end.
            all_superseded_keys = superseded_keys.union(
                *(decode_file_keys(index.keys) for index in keys_of_large_commits)
            )
            actions_of_commit = stream_commit(storage, file)
            for reconciled in reconcile_streamed_commit(
                actions_of_commit, all_superseded_keys, repeated_hashes, file.name
            ):
                yield from buffer.append(file.name, reconciled, _measure_statistics(reconciled))
        else:
            superseded_files = SupersededFiles(superseded_keys, keys_of_large_commits)
            yield from _read_blocks_of_large_commit(storage, engine, file, superseded_files, partitions, progress)
        _require_same_commit(storage, file)

        # Actions for the files of this commit are superseded in older commits.
        keys_of_large_commits += keys
    yield from buffer.flush()


def _measure_statistics(reconciled: ReconciledActions) -> int:
    """Return the total length of the statistics of added files, which take most of their memory."""
    statistics = (add.get("stats") for add in reconciled.adds)
    return sum(len(text) for text in statistics if isinstance(text, str))


def _read_blocks_of_large_commit(
    storage: ReadStorage,
    engine: Engine,
    file: LogFile,
    superseded_files: SupersededFiles,
    partitions: tuple[str, ...],
    progress: Progress,
) -> Iterator[FileBatch]:
    """Yield the file actions of a large commit in which every key is unique.

    Without repeated keys, the result for a row does not depend on other rows. So the blocks of the commit
    are parsed in parallel.

    Args:
        storage: The store of the table.
        engine: The engine that parses the blocks.
        file: The commit.
        superseded_files: The files that newer commits add or remove. Their rows are dropped.
        partitions: The physical names of the partition columns.
        progress: Receives the number of bytes read.
    """
    # Imported here because most tables have no large commits.
    from deltacli.work.commits.blocks import plan_blocks, read_full_block

    read_block = partial(read_full_block, storage, touched=superseded_files, partitions=partitions)
    blocks = plan_blocks(file)
    with progress.step(f"reading commit {file.version} again", unit="bytes", total=file.size_bytes) as step:
        for block, batch in zip(blocks, engine.run(read_block, blocks), strict=True):
            yield batch
            step.advance(min(block.length, file.size_bytes - block.offset))


def _require_same_commit(storage: ReadStorage, file: LogFile) -> None:
    """Check that the size and modification time of a large commit are those of the first listing.

    A checksum is not available: the bytes of a large commit are not held in memory.

    Raises:
        Refused: `plan.other-past`, if the size or the time differs.
    """
    current = storage.stat(commit_location(file))
    time_difference_ms = abs(current.modified_ms - file.modified_ms)
    if current.size_bytes != file.size_bytes or time_difference_ms > _TIME_TOLERANCE_MS:
        raise _commit_replaced_error(file)


def _commit_replaced_error(file: LogFile) -> Refused:
    return Refused(
        f"{file.name} was replaced while it was read, so the log has another past",
        code="plan.other-past",
        facts={"changed": file.name},
        hint=command("history", limit=10),
    )


class _FileActionBuffer:
    """Combines the file actions of many small commits into few record batches.

    Building a record batch per commit would take longer than parsing the commit.
    """

    def __init__(self) -> None:
        self._commits: list[tuple[str, ReconciledActions]] = []
        self._action_count = 0
        self._size_bytes = 0

    def append(self, source: str, reconciled: ReconciledActions, size_bytes: int) -> Iterator[FileBatch]:
        """Append the reconciled file actions of a commit. Yields a batch if the buffer is full.

        Args:
            source: The file name of the commit, for error messages.
            reconciled: The reconciled file actions.
            size_bytes: An estimate of their size in memory.
        """
        self._commits.append((source, reconciled))
        self._action_count += len(reconciled.adds) + len(reconciled.removes)
        self._size_bytes += size_bytes
        if self._action_count >= ACTIONS_PER_BATCH or self._size_bytes >= BYTES_PER_BATCH:
            yield from self.flush()

    def flush(self) -> Iterator[FileBatch]:
        """Yield the buffered file actions as one batch, and empty the buffer."""
        if self._action_count:
            yield build_file_batch(self._commits)
        self._commits = []
        self._action_count = 0
        self._size_bytes = 0


def build_file_batch(commits: Sequence[tuple[str, ReconciledActions]]) -> FileBatch:
    """Convert reconciled file actions to record batches.

    Args:
        commits: The file name of each commit, for error messages, and its reconciled file actions.

    Raises:
        CommitCorrupt: If a value does not fit into its column. The error contains the name of the commit.
    """
    adds = [add for _, reconciled in commits for add in reconciled.adds]
    removes = [remove for _, reconciled in commits for remove in reconciled.removes]
    try:
        return build_full_batch(adds, removes, "")
    except CommitCorrupt:
        # The error does not tell which commit is invalid. Converting the commits one by one raises the
        # same error with the name of the commit.
        for source, reconciled in commits:
            build_full_batch(*reconciled, source)
        raise
