"""What the place of a query excludes before any commit is read: a log that was set back, and a checkpoint directory
that was copied or renamed.

The verdict of a query, the point at which it starts over and the protection of a vacuum all depend on these facts.
"""

from __future__ import annotations

import re

from deltacli.delta.paths.spelling import canonicalize_path, canonicalize_root, encode_percent_signs, possible_roots
from deltacli.delta.streams import Position, SchemaEntry, SourceKind, Unread
from deltacli.operations.streams.checkpoints import Finding, SourceOffsets, StreamCheckpoint, Verdict
from deltacli.storage import LocalStorage, is_address_of
from deltacli.storage.base import ReadStorage

_DIRECTORY_OF_SOURCE = re.compile(r"/sources/[^/]+/?\Z")
"""What Spark appends to a checkpoint directory for the metadata of one source."""
_SCHEME = re.compile(r"\A([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY = re.compile(r"\A[^/]*//[^/]*")
_MOUNT_OF_DATABRICKS = re.compile(r"\A/(?:dbfs|Volumes)(?:/|\Z)")
"""Local paths below which Databricks shows object stores."""
_STORES_OF_BUCKETS = ("s3", "gs", "abfss", "wasbs")
"""Schemes in which another bucket is another place. A host of other stores, such as HDFS, has several names."""


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


def find_schema_log_problem(checkpoint: StreamCheckpoint, entry: SchemaEntry | Unread, table_id: str) -> Finding | None:
    """Return why the newest entry of a schema tracking log prevents each restart, or None if it does not.

    Args:
        checkpoint: The directory of the query that has the log.
        entry: The newest entry.
        table_id: The id of the table in its newest version.
    """
    if isinstance(entry, Unread):
        verdict = Verdict.DEAD if entry.is_cut else Verdict.UNKNOWN
        return Finding(verdict, f"its schema tracking log cannot be read: {entry.reason}")
    if entry.table_id != table_id:
        return Finding(Verdict.DEAD, "its schema tracking log is of another table")
    if entry.source_path is None:
        return None
    written_for = _DIRECTORY_OF_SOURCE.sub("", entry.source_path)
    if not is_other_directory(checkpoint.storage, written_for):
        return None
    return Finding(
        Verdict.DEAD,
        f"its schema tracking log was written for the checkpoint directory {written_for}: this one was copied or "
        "renamed, and each restart in it fails. Name the other directory if the query still uses that",
    )


def is_other_directory(storage: ReadStorage, hadoop_path: str) -> bool:
    """Return whether a path as Hadoop writes it is certainly another directory than the root of a store.

    Addresses of different kinds are not compared, because one may be a mount of the other: Databricks calls the
    directory of an S3 bucket `dbfs:/mnt/…` or `/Volumes/…`, and a query in it is healthy.

    Hadoop writes `file:/a b` where we write `file:///a%20b`, and has several schemes for one store. Older versions of
    Spark escape paths, so that both readings of `%` are tried. Symbolic links to a local directory are followed.
    """
    scheme = _SCHEME.match(hadoop_path)
    is_local_path = scheme is None or scheme[1].lower() == "file"
    if isinstance(storage, LocalStorage) != is_local_path:
        return False
    spellings = (hadoop_path, encode_percent_signs(hadoop_path))

    if isinstance(storage, LocalStorage):
        paths = [canonicalize_path(spelling) for spelling in spellings]
        if any(_MOUNT_OF_DATABRICKS.match(path) for path in (storage.root, *paths)):
            return False
        addresses = spellings if scheme is not None else [f"file:{spelling}" for spelling in spellings]
        return not any(is_address_of(storage, address) for address in addresses)

    names = possible_roots(hadoop_path)
    roots = set(map(canonicalize_root, (storage.uri, *storage.aliases)))
    is_comparable = not {_name_of_store(name) for name in names}.isdisjoint(map(_name_of_store, roots))
    return is_comparable and names.isdisjoint(roots)


def _name_of_store(uri: str) -> str:
    """Return what two addresses must share to be compared: the scheme, and the host where it is no bucket."""
    scheme = uri.partition(":")[0]
    if scheme in _STORES_OF_BUCKETS:
        return scheme
    authority = _AUTHORITY.match(uri)
    return scheme if authority is None else authority[0]
