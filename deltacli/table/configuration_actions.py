"""Read of many commits only the protocol, the metadata and the domains.

Whoever asks how the configuration of a table has changed needs one line of a few commits among
thousands. Lines of file actions are therefore recognized by their first bytes and not parsed.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.core.errors import CommitCorrupt, FileMissing
from deltacli.core.progress import report_items
from deltacli.delta.log.actions import Action, read_actions
from deltacli.delta.log.segment import LogFile
from deltacli.table.handle import TableHandle
from deltacli.work.commits.reading import is_large_commit, read_commit, stream_commit, stream_lines

_KINDS = ("protocol", "metaData", "domainMetadata")
_KEYS = tuple(f'"{kind}"'.encode() for kind in _KINDS)
_KEY_WITHIN_BYTES = 24
"""Bytes at the beginning of a line within which the kind of its action is."""


def read_configuration_actions(
    table: TableHandle, files: list[LogFile]
) -> Iterator[tuple[int, list[tuple[str, Action]] | None]]:
    """Yield the version of each commit with its protocol, metadata and domains.

    Several commits are read at a time where that is faster. The actions are None for a commit that is
    damaged or was deleted since it was listed: the callers look for what they can know without it.

    Args:
        table: The table of the commits.
        files: The commits, in the order in which they are yielded.
    """

    def read(file: LogFile) -> tuple[int, list[tuple[str, Action]] | None]:
        try:
            return file.version, _read_configuration_actions_of(table, file)
        except (CommitCorrupt, FileMissing):
            return file.version, None

    results = table.engine.run(read, files, at_once=table.storage.capabilities.parallel_reads)
    return iter(report_items(results, table.progress, "reading the log", unit="commits", total=len(files)))


def _read_configuration_actions_of(table: TableHandle, file: LogFile) -> list[tuple[str, Action]]:
    """Return the actions of one commit that change protocol, metadata or domains.

    Every writer begins a line with `{"KIND"`. A line that begins otherwise, for example with white
    space, says nothing by its first bytes; then all lines of the commit are parsed.
    """
    if is_large_commit(file):
        lines = stream_lines(table.storage, file)
    else:
        lines = iter(read_commit(table.storage, file).split(b"\n"))

    configuration_lines = []
    for line in lines:
        beginning = line[:_KEY_WITHIN_BYTES]
        if beginning.strip() and not beginning.startswith(b'{"'):
            return [(kind, action) for kind, action in stream_commit(table.storage, file) if kind in _KINDS]
        if any(key in beginning for key in _KEYS):
            configuration_lines.append(line)
    if not configuration_lines:
        return []

    # The key may be one of another action, so that the parsed kind decides.
    actions = read_actions(b"\n".join(configuration_lines), file.name)
    return [(kind, action) for kind, action in actions if kind in _KINDS]
