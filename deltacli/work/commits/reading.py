"""Read commits: small ones as a whole, large ones as streams of lines or actions."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.core.errors import CommitCorrupt, command
from deltacli.delta.log.actions import (
    Action,
    read_actions,
    split_lines,
    stream_actions,
)
from deltacli.delta.log.segment import LOG_DIRECTORY, LogFile
from deltacli.storage import ReadStorage

LARGE_COMMIT_BYTES = 32 << 20
"""Commits of at least this many bytes are read in blocks and never held in memory."""

READ_BLOCK_BYTES = 4 << 20


def commit_location(file: LogFile) -> str:
    """Return the location of a commit, relative to the table."""
    return f"{LOG_DIRECTORY}/{file.name}"


def is_large_commit(file: LogFile) -> bool:
    """Return whether the commit is read in blocks."""
    return file.size_bytes >= LARGE_COMMIT_BYTES


def require_not_empty(file: LogFile) -> None:
    """Raise CommitCorrupt for an empty commit, which an interrupted write leaves.

    Skipping it would lose rows or restore deleted ones.
    """
    if file.size_bytes == 0:
        raise CommitCorrupt(
            f"{file.name} is empty (an interrupted write); skipping it would lose rows or restore deleted ones",
            file=file.name,
            code="commit.empty",
            facts={"file": commit_location(file), "size": "0 bytes", "version": str(file.version)},
            hint=command("snapshot", version=file.version - 1) if file.version else command("history"),
        )


def require_listed_size(file: LogFile, actual: int, expected: int) -> None:
    """Raise CommitCorrupt if fewer bytes of a commit were read than expected by its listing.

    The lines that were read may be complete, so that parsing them would not show that others are missing.
    """
    if actual < expected:
        raise CommitCorrupt(
            f"{file.name} was truncated while it was read",
            file=file.name,
            code="commit.shrank",
            facts={"file": commit_location(file), "listed with": f"{file.size_bytes} bytes"},
            hint=command("history"),
        )


def read_commit(storage: ReadStorage, file: LogFile) -> bytes:
    """Return the bytes of a small commit. Raises CommitCorrupt if it is empty or shorter than listed."""
    require_not_empty(file)
    data = storage.read(commit_location(file))
    require_listed_size(file, len(data), file.size_bytes)
    return data


def stream_commit(
    storage: ReadStorage, file: LogFile, *, disputed_rules: set[str] | None = None
) -> Iterator[tuple[str, Action]]:
    """Yield the actions of a commit of any size, in file order.

    Args:
        storage: The store of the table.
        file: The commit.
        disputed_rules: Gets the rules of `validate` for lines that engines read differently.

    Raises:
        CommitCorrupt: If the commit is damaged.
    """
    if is_large_commit(file):
        yield from stream_actions(stream_lines(storage, file), file.name, disputed_rules=disputed_rules)
    else:
        yield from read_actions(read_commit(storage, file), file.name, disputed_rules=disputed_rules)


def stream_lines(storage: ReadStorage, file: LogFile) -> Iterator[bytes]:
    """Yield the lines of a commit of any size. Raises CommitCorrupt for a line above the size limit."""
    return split_lines(read_blocks(storage, file), file.name)


def read_blocks(storage: ReadStorage, file: LogFile) -> Iterator[bytes]:
    """Yield the bytes of a log file in blocks. Raises CommitCorrupt if it is shorter than listed."""
    for offset in range(0, file.size_bytes, READ_BLOCK_BYTES):
        block = storage.read_range(commit_location(file), offset, READ_BLOCK_BYTES)
        require_listed_size(file, len(block), min(READ_BLOCK_BYTES, file.size_bytes - offset))
        yield block
