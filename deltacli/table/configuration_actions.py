"""Read the protocol, metadata and domain metadata actions of many commits.

The history of a table's configuration consists of a few lines in thousands of commits. To find them
quickly, lines of file actions are recognized by their first bytes (`{"add":`) and are not parsed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from deltacli.core.errors import CommitCorrupt, FileMissing
from deltacli.core.progress import report_items
from deltacli.delta.log.actions import Action, read_actions
from deltacli.delta.log.segment import LogFile
from deltacli.table.handle import TableHandle
from deltacli.work.commits.reading import is_large_commit, read_commit, stream_commit, stream_lines

_KINDS = ("protocol", "metaData", "domainMetadata")
_KEYS = tuple(f'"{kind}"'.encode() for kind in _KINDS)
_KEY_WITHIN_BYTES = 24
"""Number of bytes at the start of a line that contain the kind of the action, as in `{"domainMetadata":`."""


def read_configuration_actions(
    table: TableHandle, files: list[LogFile]
) -> Iterator[tuple[int, list[tuple[str, Action]] | None]]:
    """Yield the version of each commit together with its protocol, metaData and domainMetadata actions.

    Args:
        table: The table that the commits belong to.
        files: The commits, in the order in which to yield them.

    Yields:
        Pairs of version and actions. The actions are None if the commit is damaged, or was deleted
        after the log was listed.
    """

    read_commit_actions = partial(_read_actions_if_undamaged, table)
    results = table.engine.run(read_commit_actions, files, at_once=table.storage.capabilities.parallel_reads)
    return iter(report_items(results, table.progress, "reading the log", unit="commits", total=len(files)))


def _read_actions_if_undamaged(table: TableHandle, file: LogFile) -> tuple[int, list[tuple[str, Action]] | None]:
    """Return the version of a commit and its actions; None instead of the actions if it cannot be read."""
    try:
        return file.version, _parse_configuration_lines(table, file)
    except (CommitCorrupt, FileMissing):
        return file.version, None


def _parse_configuration_lines(table: TableHandle, file: LogFile) -> list[tuple[str, Action]]:
    """Return the protocol, metaData and domainMetadata actions of one commit.

    All known writers start a line with `{"KIND":`. If a line starts with anything else, such as
    white space, the kind of its action cannot be recognized by the first bytes, and the whole
    commit is parsed.
    """
    if is_large_commit(file):
        lines = stream_lines(table.storage, file)
    else:
        lines = iter(read_commit(table.storage, file).split(b"\n"))

    configuration_lines = []
    for line in lines:
        start_of_line = line[:_KEY_WITHIN_BYTES]
        if start_of_line.strip() and not start_of_line.startswith(b'{"'):
            return [(kind, action) for kind, action in stream_commit(table.storage, file) if kind in _KINDS]
        if any(key in start_of_line for key in _KEYS):
            configuration_lines.append(line)
    if not configuration_lines:
        return []

    # The bytes may also be part of another action, so the kind is checked again after parsing.
    actions = read_actions(b"\n".join(configuration_lines), file.name)
    return [(kind, action) for kind, action in actions if kind in _KINDS]
