"""Methods of a Delta table that read one version: its rows, their number, its schema, properties and features."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, NamedTuple

from deltacli.core.errors import UsageError
from deltacli.storage.optional_interfaces import is_shared_table
from deltacli.table.api_arguments import require_timestamp_ms
from deltacli.table.api_errors import api_method
from deltacli.table.handle import TableHandle

if TYPE_CHECKING:
    from deltacli.delta.protocol.feature_changes import ShownFeature
    from deltacli.operations.change.properties_and_features import ShownProperty
    from deltacli.operations.read.row_count import RowCount
    from deltacli.operations.read.snapshot import SnapshotSummary
    from deltacli.operations.schemas.described import DescribedSchema
    from deltacli.table.version import Snapshot
    from deltacli.table.version_from_checksum import ReplayNeeded, VersionFromChecksum
    from deltacli.table.version_scan import VersionScan


class ListedProperties(NamedTuple):
    """The properties of a version.

    Attributes:
        snapshot: The version.
        items: The properties, by key.
        is_complete: False for a version of a share whose answer does not have all of them.
    """

    snapshot: Snapshot
    items: Sequence[ShownProperty]
    is_complete: bool


class ListedFeatures(NamedTuple):
    """The features of a version.

    Attributes:
        snapshot: The version.
        items: The features, by name. None for a version of a share whose answer has no protocol.
    """

    snapshot: Snapshot
    items: Sequence[ShownFeature] | None


class VersionMethods(TableHandle):
    """The methods of a Delta table that read one version of it.

    Each takes the version, or a time at which it was the newest one; without both it reads the newest version.
    """

    @api_method
    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        row_ids: bool = False,
        limit: int | None = None,
        version: int | None = None,
        timestamp: datetime | date | None = None,
        timestamp_ms: int | None = None,
    ) -> VersionScan:
        """Return the rows of a version as an iterable of Arrow batches in the table's exact schema.

        It is `snapshot(...).scan(...)`, but the server of a shared table is sent the condition, so that it can leave
        out files without such rows. Iterating raises DataUnreadable for a missing or damaged file.

        Args:
            columns: Names of top-level columns, in the order wanted. None: all columns.
            where: A condition in SQL that the rows have to meet. None: all rows.
            row_ids: True to add the columns `_row_id` and `_row_commit_version` behind the others. `where` may use
                them.
            limit: The largest number of rows. None: all rows.
            version: The version.
            timestamp: The newest version committed at or before this time.
            timestamp_ms: The same in epoch milliseconds.

        Returns:
            The rows. `snapshot` is the version that they are of.

        Raises:
            UsageError: If columns or the condition are invalid, or more than one version is given.
            Refused: If the version has no row ids (`rowtracking.not-enabled`).
            Unreadable: If the type of a column is not supported, or the version cannot be rebuilt.
        """
        from deltacli.table.scan_requests import ScanRequest
        from deltacli.table.version_scan import VersionScan

        request = ScanRequest(columns=columns, where=where, row_ids=row_ids, limit=limit)
        return VersionScan(self._find_snapshot(where, version, timestamp, timestamp_ms), request)

    @api_method
    def count_rows(
        self,
        *,
        where: str | None = None,
        version: int | None = None,
        timestamp: datetime | date | None = None,
        timestamp_ms: int | None = None,
    ) -> RowCount:
        """Return the number of rows of a version: by the log if it has that of every file, else by reading a column.

        Args:
            where: A condition in SQL. Only the rows that meet it are counted, by reading. None: all rows.
            version: The version.
            timestamp: The newest version committed at or before this time.
            timestamp_ms: The same in epoch milliseconds.

        Returns:
            The count. Rows that have to be read are read when its `rows` are asked for first.

        Raises:
            UsageError: If the condition is invalid, or more than one version is given.
            Unreadable: If the version cannot be rebuilt, as `snapshot` raises it.
        """
        from deltacli.operations.read.row_count import count_rows

        return count_rows(self._find_snapshot(where, version, timestamp, timestamp_ms), where)

    def find_row_count(self, snapshot: Snapshot) -> int | None:
        """Return how many rows a version has, if its log says it at once and can be trusted; else None."""
        from deltacli.operations.read.row_count import find_row_count

        return find_row_count(snapshot)

    @api_method
    def summarize(
        self,
        *,
        version: int | None = None,
        timestamp: datetime | date | None = None,
        timestamp_ms: int | None = None,
        digest: bool = False,
    ) -> SnapshotSummary:
        """Return a version with its files, rows and tombstones counted.

        Args:
            version: The version.
            timestamp: The newest version committed at or before this time.
            timestamp_ms: The same in epoch milliseconds.
            digest: True to compute SHA-256 digests of the live files and tombstones, too.

        Raises:
            UsageError: If more than one version is given.
            Unreadable: If the version cannot be rebuilt, as `snapshot` raises it.
        """
        from deltacli.operations.read.snapshot import summarize

        at_ms = _find_timestamp_ms(timestamp, timestamp_ms)
        return summarize(self, version=version, timestamp_ms=at_ms, digest=digest)

    @api_method
    def read_checksum(
        self,
        *,
        version: int | None = None,
        timestamp: datetime | date | None = None,
        timestamp_ms: int | None = None,
    ) -> VersionFromChecksum | ReplayNeeded:
        """Return a version as its checksum file states it, without a replay of the log.

        Args:
            version: The version.
            timestamp: The newest version committed at or before this time.
            timestamp_ms: The same in epoch milliseconds.

        Returns:
            The version, or the reason why only a replay can tell.

        Raises:
            NotATable: If there is no log.
            VersionAbsent: If the version does not exist.
            LogIncomplete: If commits are missing that the version needs.
        """
        from deltacli.table.version_from_checksum import read_version_from_checksum

        at_ms = _find_timestamp_ms(timestamp, timestamp_ms)
        return read_version_from_checksum(self, version=version, timestamp_ms=at_ms)

    @api_method
    def describe_schema(
        self,
        *,
        version: int | None = None,
        timestamp: datetime | date | None = None,
        timestamp_ms: int | None = None,
    ) -> DescribedSchema:
        """Return the schema of a version, to be compared with others or converted (`deltacli.api.schemas`).

        Args:
            version: The version.
            timestamp: The newest version committed at or before this time.
            timestamp_ms: The same in epoch milliseconds.

        Raises:
            Unreadable: If the version cannot be rebuilt, as `snapshot` raises it.
        """
        from deltacli.operations.schemas.described import describe_delta

        return describe_delta(self._find_snapshot(None, version, timestamp, timestamp_ms))

    @api_method
    def list_properties(self) -> ListedProperties:
        """Return the properties of the newest version, each with what is known about it. Raises as `snapshot` does."""
        from deltacli.operations.change.properties_and_features import show_properties
        from deltacli.operations.read.snapshot import knows_protocol

        snapshot = self._find_snapshot(None, None, None, None)
        return ListedProperties(snapshot, show_properties(snapshot), knows_protocol(snapshot))

    @api_method
    def list_features(self) -> ListedFeatures:
        """Return the features of the newest version: which are listed, which are active, and why.

        Raises as `snapshot` does.
        """
        from deltacli.operations.change.properties_and_features import list_features
        from deltacli.operations.read.snapshot import knows_protocol

        snapshot = self._find_snapshot(None, None, None, None)
        return ListedFeatures(snapshot, list_features(snapshot) if knows_protocol(snapshot) else None)

    def _find_snapshot(
        self, where: str | None, version: int | None, timestamp: datetime | date | None, timestamp_ms: int | None
    ) -> Snapshot:
        """Return a version. The server of a shared table is sent the condition on the rows that are wanted."""
        from deltacli.table.time_travel import find_snapshot

        table: TableHandle = self
        if where is not None and is_shared_table(self.storage):
            at_ms = _find_timestamp_ms(timestamp, timestamp_ms)
            table = self.replace_storage(self.storage.expecting(where=where, version=version, at_ms=at_ms))
        return find_snapshot(table, version=version, timestamp=timestamp, timestamp_ms=timestamp_ms)


def _find_timestamp_ms(timestamp: datetime | date | None, timestamp_ms: int | None) -> int | None:
    """Return a time that is given in one of two forms in epoch milliseconds.

    Raises:
        UsageError: If it is given in both.
    """
    if timestamp is None:
        return timestamp_ms
    if timestamp_ms is not None:
        raise UsageError("timestamp and timestamp_ms exclude each other")
    return require_timestamp_ms(timestamp, "timestamp")
