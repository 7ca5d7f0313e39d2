"""Read the commits of a log, newest first, with several requests at a time where that is faster.

Everything that looks into more than one commit gets them here: the replay, the history of files, the
search for names with several spellings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deltacli.core.progress import Progress, report_weighed_items
from deltacli.delta.log.actions import Action, read_actions
from deltacli.delta.log.segment import LogFile
from deltacli.engine.base import Engine
from deltacli.storage import ReadStorage
from deltacli.work.commits.reading import is_large_commit, read_commit, stream_commit

_BYTES_READ_AHEAD = 64 << 20
"""Total bytes of commits that are in memory at the same time."""


def read_commit_contents(
    storage: ReadStorage, engine: Engine, commits: Sequence[LogFile], progress: Progress
) -> Iterator[tuple[LogFile, bytes | None]]:
    """Yield commits with their bytes, the newest first.

    The bytes of a large commit are None: such a commit is never held in memory as a whole, and its
    reader takes it in blocks.

    Args:
        storage: The store of the table.
        engine: The engine whose threads read.
        commits: The commits, in ascending order of their versions.
        progress: Where the bytes that were read are reported.

    Raises:
        CommitCorrupt: If a commit is empty, or shorter than listed.
    """

    def read(file: LogFile) -> tuple[LogFile, bytes | None]:
        if is_large_commit(file):
            return file, None
        return file, read_commit(storage, file)

    # The largest of the small commits decides how many may be in memory at the same time.
    largest_bytes = max((file.size_bytes for file in commits if not is_large_commit(file)), default=0)
    most_in_memory = max(1, _BYTES_READ_AHEAD // max(1, largest_bytes))
    at_once = min(storage.capabilities.parallel_reads, most_in_memory)

    contents = engine.run(read, reversed(commits), at_once=at_once)
    return report_weighed_items(
        contents,
        progress,
        "reading the log",
        unit="commits",
        weights=[file.size_bytes for file in commits],
        weight_of=lambda content: content[0].size_bytes,
    )


def read_commit_actions(storage: ReadStorage, file: LogFile, content: bytes | None) -> Iterator[tuple[str, Action]]:
    """Yield the actions of a commit of any size.

    Args:
        storage: The store of the table.
        file: The commit.
        content: Its bytes if they are known. None to read it here.

    Raises:
        CommitCorrupt: If the commit is damaged.
    """
    if content is None and not is_large_commit(file):
        content = read_commit(storage, file)
    if content is None:
        yield from stream_commit(storage, file)
    else:
        yield from read_actions(content, file.name)
