"""The methods of `Table` that read one version: its rows, row count, schema, properties and features."""

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
        items: The properties, sorted by key.
        is_complete: Whether these are all properties. A sharing server may return only some of them.
    """

    snapshot: Snapshot
    items: Sequence[ShownProperty]
    is_complete: bool


class ListedFeatures(NamedTuple):
    """The features of a version.

    Attributes:
        snapshot: The version.
        items: The features, sorted by name. None if a sharing server does not return the protocol.
    """

    snapshot: Snapshot
    items: Sequence[ShownFeature] | None


class VersionMethods(TableHandle):
    """The methods of `Table` that read one version.

    The version is selected by its number, or by a time at which it was the newest one. By default it is the newest
    version.
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
        """Return the rows of a version as an iterable of Arrow batches with the schema of the table.

        This is equivalent to `snapshot(...).scan(...)`, but for a shared table, the condition is sent to the
        server, so that it can omit files without matching rows. The rows are read during the iteration, which
        raises DataUnreadable if a file is missing or damaged.

        Args:
            columns: Names of top-level columns, in the order of the result. None for all columns.
            where: A SQL condition on the rows, such as `country = 'DE' AND amount > 100`. None for all rows.
            row_ids: Whether to add the columns `_row_id` and `_row_commit_version`.
            limit: The maximum number of rows. None for all rows.
            version: The version.
            timestamp: Instead of `version`: the time at which the version was the newest one.
            timestamp_ms: `timestamp` in epoch milliseconds.

        Returns:
            The rows. `snapshot` is the version.

        Raises:
            UsageError: If a column or the condition is invalid, or the version is selected twice.
            Refused: If row ids are requested, and row tracking is not enabled (`rowtracking.not-enabled`).
            Unreadable: If the type of a column is not supported, or the version cannot be read.
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
        """Return the number of rows of a version.

        If the log contains the number of rows of every file, no data file is read. Otherwise one column is read.

        Args:
            where: A SQL condition, such as `country = 'DE'`. Only matching rows are counted, which requires reading
                the data files. None counts all rows.
            version: The version.
            timestamp: Instead of `version`: the time at which the version was the newest one.
            timestamp_ms: `timestamp` in epoch milliseconds.

        Returns:
            The count. Data files are read, if necessary, when the attribute `rows` is accessed for the first time.

        Raises:
            UsageError: If the condition is invalid, or the version is selected twice.
            Unreadable: If the version cannot be read: the log is damaged, or the version needs an unsupported
                feature.
        """
        from deltacli.operations.read.row_count import count_rows

        return count_rows(self._find_snapshot(where, version, timestamp, timestamp_ms), where)

    def find_row_count(self, snapshot: Snapshot) -> int | None:
        """Return the number of rows of a version if the log contains it; None if data files would have to be read."""
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
        """Return the metadata of a version with the numbers of its files, rows and tombstones.

        Args:
            version: The version.
            timestamp: Instead of `version`: the time at which the version was the newest one.
            timestamp_ms: `timestamp` in epoch milliseconds.
            digest: Whether to compute SHA-256 digests of the sets of live files and tombstones, to compare them
                with other tables.

        Raises:
            UsageError: If the version is selected twice.
            Unreadable: If the version cannot be read: the log is damaged, or the version needs an unsupported
                feature.
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
        """Return the metadata of a version from its version checksum file, without replaying the log.

        Args:
            version: The version.
            timestamp: Instead of `version`: the time at which the version was the newest one.
            timestamp_ms: `timestamp` in epoch milliseconds.

        Returns:
            The metadata; or a `ReplayNeeded` with the reason if the file is missing or incomplete.

        Raises:
            NotATable: If the directory contains no Delta log.
            VersionAbsent: If the version does not exist.
            LogIncomplete: If commits of the version are missing.
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
        """Return the schema of a version, for `diff_schemas` and `convert_schema` of `deltacli.api.schemas`.

        Args:
            version: The version.
            timestamp: Instead of `version`: the time at which the version was the newest one.
            timestamp_ms: `timestamp` in epoch milliseconds.

        Raises:
            Unreadable: If the version cannot be read: the log is damaged, or the version needs an unsupported
                feature.
        """
        from deltacli.operations.schemas.described import describe_delta

        return describe_delta(self._find_snapshot(None, version, timestamp, timestamp_ms))

    @api_method
    def list_properties(self) -> ListedProperties:
        """Return the properties of the newest version. Each has its default, its meaning, and whether its value is
        valid.

        Raises the same errors as `snapshot`.
        """
        from deltacli.operations.change.properties_and_features import show_properties
        from deltacli.operations.read.snapshot import knows_protocol

        snapshot = self._find_snapshot(None, None, None, None)
        return ListedProperties(snapshot, show_properties(snapshot), knows_protocol(snapshot))

    @api_method
    def list_features(self) -> ListedFeatures:
        """Return the table features of the newest version, and for each of them whether it is in use, and by what.

        Raises the same errors as `snapshot`.
        """
        from deltacli.operations.change.properties_and_features import list_features
        from deltacli.operations.read.snapshot import knows_protocol

        snapshot = self._find_snapshot(None, None, None, None)
        return ListedFeatures(snapshot, list_features(snapshot) if knows_protocol(snapshot) else None)

    def _find_snapshot(
        self, where: str | None, version: int | None, timestamp: datetime | date | None, timestamp_ms: int | None
    ) -> Snapshot:
        """Return the selected version. For a shared table, the condition is sent to the server."""
        from deltacli.table.time_travel import find_snapshot

        table: TableHandle = self
        if where is not None and is_shared_table(self.storage):
            at_ms = _find_timestamp_ms(timestamp, timestamp_ms)
            table = self.replace_storage(self.storage.expecting(where=where, version=version, at_ms=at_ms))
        return find_snapshot(table, version=version, timestamp=timestamp, timestamp_ms=timestamp_ms)


def _find_timestamp_ms(timestamp: datetime | date | None, timestamp_ms: int | None) -> int | None:
    """Return a time in epoch milliseconds that is passed either as an object or as a number.

    Raises:
        UsageError: If both are passed.
    """
    if timestamp is None:
        return timestamp_ms
    if timestamp_ms is not None:
        raise UsageError("timestamp and timestamp_ms exclude each other")
    return require_timestamp_ms(timestamp, "timestamp")
