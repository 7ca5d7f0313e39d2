"""Reading protocol, metadata and domains of many commits; their files are not parsed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltacli.delta.log.commit_lines import Action, read_actions
from deltacli.errors import CommitCorrupt, FileMissing
from deltacli.progress import reported
from deltacli.work.commits.reading import is_large, read_commit, stream_commit, stream_lines

if TYPE_CHECKING:
    from deltacli.delta.log.segment import LogFile
    from deltacli.operations.table.handle import TableHandle

_KINDS = ("protocol", "metaData", "domainMetadata")
_MARKS = tuple(f'"{kind}"'.encode() for kind in _KINDS)
_MARK_WITHIN = 24
"""Bytes at the beginning of a line within which the kind of its action is."""


def small_actions(table: TableHandle, files: list[LogFile]) -> Iterator[tuple[int, list[tuple[str, Action]] | None]]:
    """Yield the protocol, the metadata and the domains of each commit, None for a damaged one; several commits are read
    at a time where that helps.
    """

    def read(file: LogFile) -> tuple[int, list[tuple[str, Action]] | None]:
        try:
            return file.version, _read(table, file)
        except (CommitCorrupt, FileMissing):
            return file.version, None

    found = table.engine.run(read, files, at_once=table.storage.capabilities.parallel_reads)
    return iter(reported(found, table.progress, "reading the log", unit="commits", total=len(files)))


def _read(table: TableHandle, file: LogFile) -> list[tuple[str, Action]]:
    """Return the actions of a commit that change protocol, metadata or domains. Other lines are not parsed."""
    lines = stream_lines(table.storage, file) if is_large(file) else read_commit(table.storage, file).split(b"\n")
    kept = []
    for line in lines:
        head = line[:_MARK_WITHIN]
        if not head.startswith(b'{"') and head.strip():
            return [one for one in stream_commit(table.storage, file) if one[0] in _KINDS]
        if any(mark in head for mark in _MARKS):
            kept.append(line)
    return [one for one in read_actions(b"\n".join(kept), file.name) if one[0] in _KINDS] if kept else []
