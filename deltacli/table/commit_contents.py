"""Read the commits of a log, newest first.

On object stores, several commits are requested at the same time. The replay, the history of files
and the search for ambiguous paths all read commits with the functions of this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from deltacli.core.progress import Progress, report_weighed_items
from deltacli.delta.log.actions import Action, read_actions
from deltacli.delta.log.segment import LogFile
from deltacli.engine.base import Engine
from deltacli.storage import ReadStorage
from deltacli.work.commits.reading import is_large_commit, read_commit, stream_commit

_BYTES_READ_AHEAD = 64 << 20
"""Maximum total size of the commits that are in memory at the same time."""


def read_commit_contents(
    storage: ReadStorage, engine: Engine, commits: Sequence[LogFile], progress: Progress
) -> Iterator[tuple[LogFile, bytes | None]]:
    """Yield each commit with its content, newest first.

    The content of a large commit is None, because it may not fit in memory: read it in blocks with
    `read_commit_actions` or `stream_lines`.

    Args:
        storage: The store of the table.
        engine: Provides the threads that read.
        commits: The commits in ascending order of versions.
        progress: Receives the number of bytes read.

    Raises:
        CommitCorrupt: If a commit is empty, or shorter than listed.
    """
    # The number of parallel requests is limited by the store and by the memory for their results.
    largest_bytes = max((file.size_bytes for file in commits if not is_large_commit(file)), default=0)
    max_in_memory = max(1, _BYTES_READ_AHEAD // max(1, largest_bytes))
    at_once = min(storage.capabilities.parallel_reads, max_in_memory)

    read_content = partial(_read_content_unless_large, storage)
    contents = engine.run(read_content, reversed(commits), at_once=at_once)
    return report_weighed_items(
        contents,
        progress,
        "reading the log",
        unit="commits",
        weights=[file.size_bytes for file in commits],
        weight_of=_get_commit_size,
    )


def _read_content_unless_large(storage: ReadStorage, file: LogFile) -> tuple[LogFile, bytes | None]:
    """Return a commit with its content; None instead of the content of a large commit."""
    if is_large_commit(file):
        return file, None
    return file, read_commit(storage, file)


def _get_commit_size(commit: tuple[LogFile, bytes | None]) -> int:
    return commit[0].size_bytes


def read_commit_actions(storage: ReadStorage, file: LogFile, content: bytes | None) -> Iterator[tuple[str, Action]]:
    """Yield the actions of a commit as pairs of action kind and action.

    Args:
        storage: The store of the table.
        file: The commit.
        content: The content of the commit, or None to read it from the store. A large commit is
            read in blocks.

    Raises:
        CommitCorrupt: If the commit is damaged.
    """
    if content is None and not is_large_commit(file):
        content = read_commit(storage, file)
    if content is None:
        yield from stream_commit(storage, file)
    else:
        yield from read_actions(content, file.name)
