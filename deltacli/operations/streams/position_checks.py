"""What the place of a query excludes before any commit is read: a log that was set back, and a checkpoint directory
that was copied or renamed.

The verdict of a query, the point at which it starts over and the protection of a vacuum all depend on these facts.
"""

from __future__ import annotations

import os
import re

from deltacli.delta.data_files import canonical
from deltacli.delta.streams import Position, SchemaEntry, SourceKind, Unread
from deltacli.operations.streams.checkpoints import Finding, SourceOffsets, StreamCheckpoint, Verdict
from deltacli.storage import LocalStorage
from deltacli.storage.base import ReadStorage

_DIRECTORY_OF_SOURCE = re.compile(r"/sources/[^/]+/?\Z")
"""What Spark appends to a checkpoint directory for the metadata of one source."""
_MOUNT_OF_DATABRICKS = re.compile(r"\Adbfs:/+")


def find_position_ahead(source: SourceOffsets, newest_version: int) -> Position | None:
    """Return the newest position of a source if the log does not reach it, or None if it does.

    A query takes its positions from the log. So versions have been removed from a log that is shorter: it was restored
    from a backup, or copied only in part.
    """
    if not source.positions:
        return None
    newest_position = max(source.positions, key=lambda position: position.place)
    # The beginning of the next version is where a query stands that has delivered everything. Anything inside of a
    # version, and its snapshot, needs that version.
    is_inside = newest_position.delivered > 0 or newest_position.is_barrier or newest_position.in_snapshot
    needed_version = newest_position.version if is_inside else newest_position.version - 1
    return newest_position if needed_version > newest_version else None


def find_set_back_log(source: SourceOffsets, newest_version: int) -> Finding | None:
    """Return what a log that was set back does to a source, or None if the log reaches its positions.

    Delta looks for the last version that it has delivered at each start, and fails until the log has passed it. Our own
    source waits instead. Both then continue behind their position, and never deliver the new versions below it.
    """
    position = find_position_ahead(source, newest_version)
    if position is None:
        return None
    skipped = f"versions below {position.version}"
    if position.delivered:
        files = "file" if position.delivered == 1 else f"{position.delivered:,} files"
        skipped += f" and the first {files} of it"
    is_own = position.kind is SourceKind.DELTACLI
    meanwhile = "Nothing is delivered" if is_own else "Each restart fails"
    because = (
        f"the stream is at version {position.version}, after the newest one, {newest_version}: the log was set back. "
        f"{meanwhile} until the log has passed that version, and new {skipped} are never delivered. Start over with a "
        "new checkpoint now"
    )
    return Finding(Verdict.AT_RISK if is_own else Verdict.DEAD, because)


def find_schema_log_problem(
    checkpoint: StreamCheckpoint, entry: SchemaEntry | Unread | None, table_id: str
) -> Finding | None:
    """Return why the newest entry of a schema tracking log prevents each restart, or None if it does not.

    Args:
        checkpoint: The directory of the query that has the log.
        entry: The newest entry; None without a log.
        table_id: The id of the table in its newest version.
    """
    if entry is None:
        return None
    if isinstance(entry, Unread):
        return Finding(Verdict.UNKNOWN, f"its schema tracking log cannot be read: {entry.reason}")
    if entry.table_id != table_id:
        return Finding(Verdict.DEAD, "its schema tracking log is of another table")
    if entry.source_path is None:
        return None
    written_for = _DIRECTORY_OF_SOURCE.sub("", entry.source_path)
    if is_directory_of(checkpoint.storage, written_for):
        return None
    return Finding(
        Verdict.DEAD,
        f"its schema tracking log was written for the checkpoint directory {written_for}: this one was copied or "
        "renamed, and each restart in it fails. Name the other directory if the query still uses that",
    )


def is_directory_of(storage: ReadStorage, hadoop_path: str) -> bool:
    """Return whether a path as Hadoop writes it is the directory of a store.

    Hadoop writes `file:/a b` where we write `file:///a%20b`, and has several schemes for one store. Older versions of
    Spark escape paths, so that both readings of `%` are tried. Symbolic links to a local directory are followed.
    """
    hadoop_path = _MOUNT_OF_DATABRICKS.sub("/dbfs/", hadoop_path)
    spellings = {canonical(text).rstrip("/") for text in (hadoop_path, hadoop_path.replace("%", "%25"))}
    roots = {canonical(uri).rstrip("/") for uri in (storage.uri, *storage.aliases)}
    if isinstance(storage, LocalStorage):
        spellings |= {os.path.realpath(path) for path in spellings if path.startswith("/") and "\0" not in path}
    return bool(spellings & roots)
