"""Read the commits after a checkpoint a second time, for the file actions with all their fields.

The first reading (`replay.py`) keeps paths, vectors, sizes and row counts, which is all that most
commands need. Statistics, partition values and tags are ten times as much, and come from here, in
batches of bounded size, whenever a command asks for them.
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
    Survivors,
    TouchedFiles,
    decided_keys,
    reconcile_commit,
    survivors_of_stream,
    texts_of,
    whole_file_batch,
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
"""Over a network, stores tell the time of a file in a listing in milliseconds, alone in seconds."""


def reread_file_actions(
    storage: ReadStorage,
    engine: Engine,
    commits: Sequence[LogFile],
    replayed: ReplayedCommits,
    *,
    partitions: tuple[str, ...],
    progress: Progress = SILENT,
) -> Iterator[FileBatch]:
    """Yield the file actions of commits with all fields, in columns.

    The commits are reconciled once more, by the same rules. That gives the same files only if the
    commits are still the same, so each one is compared with what the first reading saw: a small commit
    by the checksum of its bytes, a large one by size and time.

    Args:
        storage: The store of the table.
        engine: The engine whose threads read.
        commits: The commits after the checkpoint, in ascending order.
        replayed: What `replay_commits` has returned for these commits.
        partitions: The names that the partition columns have in partition values.
        progress: Where the bytes that were read are reported.

    Raises:
        CommitCorrupt: If a commit is damaged.
        Refused: `plan.other-past`, if a commit is another one by now. Actions of both would make a
            third table, which never existed.
    """
    seen: set[str] = set()
    keys_of_large_commits: list[KeyIndex] = []
    buffer = _FileActionBuffer()
    for file, content in read_commit_contents(storage, engine, commits, progress):
        if content is not None:
            if crc32(content) != replayed.checksums[file.version]:
                raise _commit_replaced_error(file)
            actions = read_actions(content, file.name)
            seen |= decided_keys(actions, keys_of_large_commits, file.name)
            yield from buffer.append(file.name, reconcile_commit(actions, seen, file.name), file.size_bytes)
            continue

        # A large commit is filtered by what newer commits decide, and then decides for older ones.
        repeated_hashes, keys = replayed.large_commits[file.version]
        if repeated_hashes:
            # Which action of a repeated key counts is known only at the end of the commit.
            decided = seen.union(*(texts_of(index.keys) for index in keys_of_large_commits))
            for survived in survivors_of_stream(stream_commit(storage, file), decided, repeated_hashes, file.name):
                yield from buffer.append(file.name, survived, _measure_statistics(survived))
        else:
            touched = TouchedFiles(seen, keys_of_large_commits)
            yield from _read_blocks_of_large_commit(storage, engine, file, touched, partitions, progress)
        _require_same_commit(storage, file)
        keys_of_large_commits += keys
    yield from buffer.flush()


def _measure_statistics(survived: Survivors) -> int:
    """Return the characters of the statistics of added files, which are most of their memory."""
    statistics = (add.get("stats") for add in survived.adds)
    return sum(len(text) for text in statistics if isinstance(text, str))


def _read_blocks_of_large_commit(
    storage: ReadStorage,
    engine: Engine,
    file: LogFile,
    touched: TouchedFiles,
    partitions: tuple[str, ...],
    progress: Progress,
) -> Iterator[FileBatch]:
    """Yield the file actions of a large commit in which no key occurs twice.

    Without repeated keys, rows do not depend on each other, so that blocks are parsed in parallel.
    """
    from deltacli.work.commits.blocks import plan_blocks, read_full_block

    read = partial(read_full_block, storage, touched=touched, partitions=partitions)
    plan = plan_blocks(file)
    with progress.step(f"reading commit {file.version} again", unit="bytes", total=file.size_bytes) as step:
        for piece, batch in zip(plan, engine.run(read, plan), strict=True):
            yield batch
            step.advance(min(piece.length, file.size_bytes - piece.offset))


def _require_same_commit(storage: ReadStorage, file: LogFile) -> None:
    """Raise Refused if a large commit, whose bytes are not kept, has another size or time by now."""
    now = storage.stat(commit_location(file))
    if now.size_bytes != file.size_bytes or abs(now.modified_ms - file.modified_ms) > _TIME_TOLERANCE_MS:
        raise _commit_replaced_error(file)


def _commit_replaced_error(file: LogFile) -> Refused:
    return Refused(
        f"{file.name} was replaced while it was read, so the log has another past",
        code="plan.other-past",
        facts={"changed": file.name},
        hint=command("history", limit=10),
    )


class _FileActionBuffer:
    """Collects the file actions of many small commits.

    A batch per commit would cost more than the commit.
    """

    def __init__(self) -> None:
        self._survivors: list[tuple[str, Survivors]] = []
        self._actions = 0
        self._bytes = 0

    def append(self, source: str, survived: Survivors, size_bytes: int) -> Iterator[FileBatch]:
        """Add the file actions of a commit, and yield a batch if the buffer is full.

        Args:
            source: The name of the commit, for errors.
            survived: Its reconciled file actions.
            size_bytes: About the memory that they take.
        """
        self._survivors.append((source, survived))
        self._actions += len(survived.adds) + len(survived.removes)
        self._bytes += size_bytes
        if self._actions >= ACTIONS_PER_BATCH or self._bytes >= BYTES_PER_BATCH:
            yield from self.flush()

    def flush(self) -> Iterator[FileBatch]:
        """Yield what was collected as one batch, and forget it."""
        if self._actions:
            yield build_file_batch(self._survivors)
        self._survivors = []
        self._actions = 0
        self._bytes = 0


def build_file_batch(survivors: Sequence[tuple[str, Survivors]]) -> FileBatch:
    """Return reconciled file actions as columns.

    Args:
        survivors: File actions, each with the name of the commit that they are from.

    Raises:
        CommitCorrupt: If an action does not fit into its columns. The error names the commit.
    """
    adds = [add for _, survived in survivors for add in survived.adds]
    removes = [remove for _, survived in survivors for remove in survived.removes]
    try:
        return whole_file_batch(adds, removes, "")
    except CommitCorrupt:
        # One of many commits is at fault. Converted alone, it raises the same error with its name.
        for source, survived in survivors:
            whole_file_batch(*survived, source)
        raise
