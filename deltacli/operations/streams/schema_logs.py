"""The schema tracking logs that the sources of a query keep in its checkpoint directory, or anywhere below it.

The option `schemaTrackingLocation` names a directory, in which Delta makes one for the table. Its name is
`_schema_log_` with the id of the table, and with a name of the user where several sources read one table. Each start of
the query reads the newest entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deltacli.core import errors
from deltacli.delta import streams
from deltacli.operations.streams.checkpoints import (
    COMMITS,
    IN_CHECKPOINTS,
    OFFSETS,
    SourceOffsets,
    StreamCheckpoint,
    read_newest_file,
)

LogEntry = streams.SchemaEntry | streams.Unread


def read_schema_logs(checkpoint: StreamCheckpoint, source: SourceOffsets, table_id: str) -> list[LogEntry]:
    """Return the newest entry of each schema tracking log that a source has for a table. Raises StorageFailed.

    An entry names the directory of its source, `CHECKPOINT/sources/N`. An entry that names none of the sources of the
    query, or that cannot be read, counts for all of them.
    """
    names = {one.name for one in checkpoint.sources}
    entries = []
    for directory in _find_schema_logs(checkpoint, table_id):
        content = read_newest_file(checkpoint.storage, directory)
        if content is None:
            continue
        entry = streams.read_schema_entry(content)
        owner = entry.source_name if isinstance(entry, streams.SchemaEntry) else None
        if owner == source.name or owner not in names:
            entries.append(entry)
    return entries


def oldest_entry(entries: Sequence[LogEntry]) -> streams.SchemaEntry | None:
    """Return the entry with the lowest version, or None without a readable one.

    Of two logs of one source only one is in use. A commit counts as followed once both have it.
    """
    readable = [entry for entry in entries if isinstance(entry, streams.SchemaEntry)]
    return min(readable, key=lambda entry: entry.version, default=None)


def _find_schema_logs(checkpoint: StreamCheckpoint, table_id: str) -> Iterator[str]:
    """Yield the directories of the schema tracking logs of a table, as paths in the checkpoint directory.

    Directories of Spark are not searched, and neither are checkpoint directories of other queries below this one:
    their logs were written for them.
    """
    waiting = [""]
    while waiting:
        parent = waiting.pop()
        try:
            names = checkpoint.storage.list_directories(parent)
        except errors.FileMissing:
            continue  # deleted meanwhile
        if parent and {OFFSETS, COMMITS} <= set(names):
            continue
        for name in names:
            path = f"{parent}/{name}" if parent else name
            if streams.schema_log_of(name, table_id):
                yield path
            elif parent or name not in IN_CHECKPOINTS:
                waiting.append(path)
