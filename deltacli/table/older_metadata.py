"""Read the metadata of older versions, to find the former names of columns.

With column mapping, dropping a column does not rewrite data files: old files still contain it under its
physical name. But a file may also contain an unknown column because its writer ignored the column mapping
and used a logical name. To distinguish the two cases, a reader needs the names that columns had in older
versions. See docs/decisions/0163-names-of-dropped-columns.md.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING

from deltacli.core.errors import Unreadable
from deltacli.delta.log.actions import Action
from deltacli.delta.log.state import MetadataOfVersion, OlderMetadata
from deltacli.table.configuration_actions import read_configuration_actions
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot


class LogMetadataReader:
    """Reads the metadata of a version and of all older versions. Thread-safe.

    An instance is part of a `TableConfiguration`. It is called when a data file contains a column that the
    schema does not explain, which is rare; the log is read at the first call. When an instance is pickled
    for a task in another process, only metadata that has been read already is included. Without metadata
    a task cannot explain such a column, and a task that rewrites files skips the file.
    """

    def __init__(self, table: TableHandle, version: int, read_metadata: Callable[[int], Action]) -> None:
        """Create a reader. The log is read when the reader is called for the first time.

        Args:
            table: The table.
            version: The last version whose metadata is read.
            read_metadata: Rebuilds a version, such as 7, and returns its metaData action.
        """
        self._table = table
        self._version = version
        self._read_metadata = read_metadata
        self._metadata: OlderMetadata | None = None
        self._lock = Lock()

    def __call__(self) -> OlderMetadata:
        """Return the metadata of all versions whose metaData actions are still in the log.

        Raises:
            StorageFailed: If the log cannot be read.
        """
        with self._lock:
            if self._metadata is None:
                self._metadata = self._read()
            return self._metadata

    def __reduce__(self) -> tuple[type[LoadedMetadata], tuple[OlderMetadata]]:
        """Pickle only the metadata: locks and table handles cannot be pickled."""
        return LoadedMetadata, (self._metadata or OlderMetadata((), reaches_back=False),)

    def _read(self) -> OlderMetadata:
        """Read the metaData actions of all commits up to the version.

        The result is marked as complete if all commits from version 0 on exist and can be parsed.
        """
        listing = list_log(self._table.storage, progress=self._table.progress)
        files = [file for version, file in sorted(listing.commits.items()) if version <= self._version]

        # If the first commits have expired, the oldest version that can be rebuilt has the oldest metadata.
        has_first_commit = bool(files) and files[0].version == 0
        metadata = [] if has_first_commit else self._read_oldest(listing.reconstructable)

        is_complete = [file.version for file in files] == list(range(self._version + 1))
        for version, actions in read_configuration_actions(self._table, files):
            # None means that the commit cannot be parsed.
            if actions is None:
                is_complete = False
                continue
            metadata += [MetadataOfVersion(version, action) for kind, action in actions if kind == "metaData"]
        return OlderMetadata(tuple(metadata), is_complete)

    def _read_oldest(self, versions: list[int]) -> list[MetadataOfVersion]:
        """Return the metadata of the oldest of some versions; empty if that version cannot be rebuilt."""
        if not versions:
            return []
        oldest = min(versions)
        try:
            return [MetadataOfVersion(oldest, self._read_metadata(oldest))]
        except Unreadable:
            return []


def read_column_names_for_tasks(snapshot: Snapshot) -> None:
    """Read the former column names of a table before tasks that rewrite files are sent to other processes.

    Tasks in other processes cannot read the log, see `LogMetadataReader`. Without the names they would not
    rewrite files that contain a dropped column. Nothing is read if tasks run in this process, or if the
    table has no column mapping.

    Args:
        snapshot: The version whose files are rewritten.
    """
    runs_in_other_processes = snapshot.table.engine.may_repeat
    read_older_metadata = snapshot.config.older_metadata
    if runs_in_other_processes and snapshot.config.mapping_mode != "none" and read_older_metadata is not None:
        # The reader keeps the result, and includes it when the configuration is pickled for a task.
        read_older_metadata()


class LoadedMetadata:
    """The metadata that a `LogMetadataReader` had read when it was pickled."""

    def __init__(self, metadata: OlderMetadata) -> None:
        self._metadata = metadata

    def __call__(self) -> OlderMetadata:
        """Return the metadata. It is empty if the reader had not been called."""
        return self._metadata
