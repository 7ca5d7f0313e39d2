"""Read the metadata of all versions in a log, to find out which names the columns of a table have had.

A column that was dropped or renamed is still in old data files under its old name. Without the older
metadata it could not be told from a column that a writer named wrongly. See
docs/decisions/0163-names-of-dropped-columns.md.
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
    """The metadata of a version and of all versions before it that the log has. The log is read at the first call.

    It is part of a configuration, and tasks ask it when they see a suspicious file, several at a time. Another process
    gets what has been read before, and otherwise nothing: then files whose names only the log explains stay in doubt.
    """

    def __init__(self, table: TableHandle, version: int, read_metadata: Callable[[int], Action]) -> None:
        """Prepare reading the metadata.

        Args:
            table: The table.
            version: The version up to which metadata is read.
            read_metadata: Returns the metaData action of a version that is rebuilt from a checkpoint.
        """
        self._table = table
        self._version = version
        self._read_metadata = read_metadata
        self._known: OlderMetadata | None = None
        self._lock = Lock()

    def __call__(self) -> OlderMetadata:
        """Return the metadata. Raises StorageFailed."""
        with self._lock:
            if self._known is None:
                self._known = self._read()
            return self._known

    def __reduce__(self) -> tuple[type[LoadedMetadata], tuple[OlderMetadata]]:
        return LoadedMetadata, (self._known or OlderMetadata((), reaches_back=False),)

    def _read(self) -> OlderMetadata:
        listing = list_log(self._table.storage, progress=self._table.progress)
        files = [file for version, file in sorted(listing.commits.items()) if version <= self._version]
        # Metadata of expired commits is only known as far as the oldest checkpoint repeats it.
        has_all_commits = bool(files) and files[0].version == 0
        metadata = [] if has_all_commits else self._read_oldest(listing.reconstructable)

        is_complete = [file.version for file in files] == list(range(self._version + 1))
        for version, actions in read_configuration_actions(self._table, files):
            if actions is None:
                is_complete = False
                continue
            metadata += [MetadataOfVersion(version, action) for kind, action in actions if kind == "metaData"]
        return OlderMetadata(tuple(metadata), is_complete)

    def _read_oldest(self, versions: list[int]) -> list[MetadataOfVersion]:
        """Return the metadata of the oldest version that can be rebuilt; none if that fails."""
        if not versions:
            return []
        try:
            return [MetadataOfVersion(min(versions), self._read_metadata(min(versions)))]
        except Unreadable:
            return []


def read_column_names_for_tasks(snapshot: Snapshot) -> None:
    """Read the names that columns have had, if tasks that rewrite files run in other processes, which cannot do that.

    Without the names, a file with a dropped column would be left alone there.
    """
    if snapshot.table.engine.may_repeat and snapshot.config.mapping_mode != "none":
        _ = snapshot.config.assigned_names


class LoadedMetadata:
    """The metadata of other versions that was read before."""

    def __init__(self, known: OlderMetadata) -> None:
        self._known = known

    def __call__(self) -> OlderMetadata:
        """Return the metadata."""
        return self._known
