"""The methods of `Table` that read and examine the table. They do not change it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from functools import partial
from typing import TYPE_CHECKING

from deltacli.table.api_errors import api_method
from deltacli.table.handle import TableHandle

if TYPE_CHECKING:
    from deltacli.operations.diff import TableDiff
    from deltacli.operations.doctor.advice import PriceTable
    from deltacli.operations.doctor.examined import TableReport
    from deltacli.operations.explain import Explanation
    from deltacli.operations.reach import TableReach
    from deltacli.operations.read.changes import Changes
    from deltacli.operations.read.history import History
    from deltacli.operations.streams.streams import StreamsReport
    from deltacli.operations.validate.validate import Validation
    from deltacli.rules.framework.base import Finding
    from deltacli.table.version import Snapshot


class ReadingMethods(TableHandle):
    """The methods of `Table` that read and examine the table."""

    @api_method
    def history(
        self,
        *,
        from_version: int | None = None,
        from_timestamp: datetime | date | None = None,
        from_timestamp_ms: int | None = None,
        to_version: int | None = None,
        to_timestamp: datetime | date | None = None,
        to_timestamp_ms: int | None = None,
        limit: int = 0,
        counts: bool = False,
    ) -> History:
        """Return the commits of the table, newest first.

        Args:
            from_version: The first version.
            from_timestamp: Instead of `from_version`: the first version that was committed at or after this time. A
                datetime with a time zone, or a date, which means midnight UTC.
            from_timestamp_ms: The timestamp in epoch milliseconds.
            to_version: The last version. None for the newest version.
            to_timestamp: Instead of `to_version`: the last version that was committed at or before this time.
            to_timestamp_ms: The timestamp in epoch milliseconds.
            limit: The maximum number of commits. The newest ones are returned. 0 for no maximum.
            counts: Whether to count the files and bytes that each commit adds and removes.

        Raises:
            UsageError: If both a version and a timestamp are passed for one end of the range, or the range is
                reversed.
            NotATable: If the path is not a Delta table.
            VersionAbsent: If a version does not exist yet.
        """
        from deltacli.operations.read.history import read_history
        from deltacli.table.scan_requests import HistoryRequest

        request = HistoryRequest(
            from_version=from_version,
            from_timestamp=from_timestamp,
            from_timestamp_ms=from_timestamp_ms,
            to_version=to_version,
            to_timestamp=to_timestamp,
            to_timestamp_ms=to_timestamp_ms,
            limit=limit,
            counts=counts,
        )
        is_range = request.first is not None or request.last is not None
        between = None
        if is_range:
            # Only a range needs Arrow: versions are rebuilt to find out which ones can be read.
            from deltacli.table.time_travel import find_commit_range

            between = partial(find_commit_range, self, first=request.first, last=request.last)
        history = read_history(
            self.storage,
            self.engine,
            limit=request.limit,
            counts=request.counts,
            progress=self.progress,
            between=between,
        )
        # The newest version is known only where the list begins with it.
        if not is_range:
            self.note_version(history.items[0].version if history.items else None)
        return history

    @api_method
    def snapshot(
        self, *, version: int | None = None, timestamp: datetime | date | None = None, timestamp_ms: int | None = None
    ) -> Snapshot:
        """Return a version of the table. Its schema and properties are read now, its files and rows when they are
        requested.

        At most one argument can be passed. Without an argument, the newest version is returned.

        Args:
            version: The version.
            timestamp: A time. The result is the newest version that was committed at or before it. A datetime with
                a time zone, or a date, which means midnight UTC.
            timestamp_ms: `timestamp` in epoch milliseconds.

        Raises:
            UsageError: If more than one argument is passed, or an argument has the wrong type.
            NotATable: If the path is not a Delta table.
            VersionAbsent: If the version does not exist yet, or its commits have expired.
            LogIncomplete: If commits are missing.
            CommitCorrupt: If a commit cannot be parsed.
            CheckpointUnreadable: If a checkpoint is damaged, and the commits before it have expired.
            ProtocolUnsupported: If the version needs a reader feature that is not supported.
        """
        from deltacli.table.time_travel import find_snapshot

        return find_snapshot(self, version=version, timestamp=timestamp, timestamp_ms=timestamp_ms)

    @api_method
    def changes(
        self,
        *,
        from_version: int | None = None,
        from_timestamp: datetime | date | None = None,
        from_timestamp_ms: int | None = None,
        to_version: int | None = None,
        to_timestamp: datetime | date | None = None,
        to_timestamp_ms: int | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        row_ids: bool = False,
        limit: int | None = None,
    ) -> Changes:
        """Return the rows that were inserted, updated and deleted by a range of versions (the change data feed), as
        Arrow batches.

        The columns of the table are followed by `_change_type` (`insert`, `delete`, `update_preimage`,
        `update_postimage`), `_commit_version` and `_commit_timestamp` (microseconds, UTC). With `row_ids`, the
        columns `_row_id` and `_row_commit_version` are added. They are null in rows of change data files.

        The result is empty if `from_version` is the next version after the newest one, so that a consumer can ask
        for new changes repeatedly. The rows are read during the iteration, which raises DataUnreadable for a
        damaged file, and Refused (`rowtracking.not-enabled`) for a version without row tracking.

        Args:
            from_version: The first version.
            from_timestamp: Instead of `from_version`: the first version that was committed at or after this time. A
                datetime with a time zone, or a date, which means midnight UTC.
            from_timestamp_ms: The timestamp in epoch milliseconds.
            to_version: The last version. None for the newest version.
            to_timestamp: Instead of `to_version`: the last version that was committed at or before this time.
            to_timestamp_ms: The timestamp in epoch milliseconds.
            columns: Names of top-level columns of the table. None for all columns. The columns of the change are
                always added.
            where: A SQL condition on the rows, such as `country = 'DE' AND amount > 100`. None for all rows.
            row_ids: Whether to add the columns `_row_id` and `_row_commit_version`.
            limit: The maximum number of rows. None for all rows.

        Raises:
            UsageError: If no first version is passed, or an argument is invalid.
            VersionAbsent: If a commit of the range does not exist, or has expired.
            Unreadable: If a version cannot be read: the log is damaged, or the version needs an unsupported
                feature.
        """
        from deltacli.operations.read.changes import read_changes
        from deltacli.table.scan_requests import ChangesRequest

        request = ChangesRequest(
            from_version=from_version,
            from_timestamp=from_timestamp,
            from_timestamp_ms=from_timestamp_ms,
            to_version=to_version,
            to_timestamp=to_timestamp,
            to_timestamp_ms=to_timestamp_ms,
            columns=columns,
            where=where,
            row_ids=row_ids,
            limit=limit,
        )
        return read_changes(self, request)

    @api_method
    def validate(
        self,
        *,
        level: str = "log",
        sample: float = 1.0,
        where: str | None = None,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        max_findings: int = 100,
        on_finding: Callable[[Finding], None] | None = None,
    ) -> Validation:
        """Check the table against the rules of `deltacli validate`. This also works for damaged tables that cannot
        be read.

        Args:
            level: What to check. `log` only reads the log. `storage` also lists the directory of the table,
                `footers` also reads the footers of data files, and `data` also their rows.
            sample: The share of the data files to check, above 0 and at most 1. Each version of the table has
                another sample.
            where: A SQL condition. Data files whose statistics show that they contain no matching rows are not
                checked.
            select: Glob patterns of rule ids to check, such as `checkpoint.*`. An empty sequence selects all rules.
            ignore: Glob patterns of rule ids to skip.
            max_findings: The maximum number of findings per rule. 0 for no maximum.
            on_finding: Called with each finding as soon as it is found, in no particular order.

        Raises:
            UsageError: If an argument is invalid, or does not match the table.
            NotATable: If the path does not exist.
        """
        from deltacli.operations.validate.findings import ValidateRequest
        from deltacli.operations.validate.validate import validate_table

        request = ValidateRequest(
            level=level,
            sample=sample,
            where=where,
            select=select,
            ignore=ignore,
            max_findings=max_findings,
        )
        return validate_table(self, request, on_finding=on_finding)

    @api_method
    def diff(
        self,
        *,
        from_version: int | None = None,
        from_timestamp: datetime | date | None = None,
        from_timestamp_ms: int | None = None,
        to_version: int | None = None,
        to_timestamp: datetime | date | None = None,
        to_timestamp_ms: int | None = None,
        other: TableHandle | None = None,
        rows: bool = False,
        key: Sequence[str] = (),
        temp_dir: str | None = None,
    ) -> TableDiff:
        """Compare two versions of this table, or a version of this table with a version of another table.

        Args:
            from_version: The first version. None for the newest version.
            from_timestamp: Instead of `from_version`: the time at which the first version was the newest one. A
                datetime with a time zone, or a date, which means midnight UTC.
            from_timestamp_ms: The timestamp in epoch milliseconds.
            to_version: The second version. None for the newest version.
            to_timestamp: Instead of `to_version`: the time at which the second version was the newest one.
            to_timestamp_ms: The timestamp in epoch milliseconds.
            other: The table of the second version. None for this table.
            rows: Whether to compare the rows, too. Requires `key`.
            key: The columns that identify a row.
            temp_dir: The directory for temporary files. None uses that of the system.

        Returns:
            The differences. `is_equal` is True if there are none. `file_rows` yields the files that differ: added,
            removed, or changed, for example by a deletion vector. `rows` contains the numbers of different rows,
            and yields their keys. `as_json` returns the JSON document `deltacli.diff`.

        Raises:
            UsageError: If neither a version nor another table is passed, or only one of `rows` and `key`.
            Unreadable: If a version cannot be read: the log is damaged, or the version needs an unsupported
                feature.
        """
        from deltacli.operations.diff import DiffRequest, diff_tables

        request = DiffRequest(
            from_version=from_version,
            from_timestamp=from_timestamp,
            from_timestamp_ms=from_timestamp_ms,
            to_version=to_version,
            to_timestamp=to_timestamp,
            to_timestamp_ms=to_timestamp_ms,
            other=other,
            rows=rows,
            key=key,
            temp_dir=temp_dir,
        )
        return diff_tables(self, request)

    @api_method
    def reach(
        self,
        *,
        retention_ms: int | None = None,
    ) -> TableReach:
        """Return which versions can be read by time travel, and until when.

        Args:
            retention_ms: A retention in milliseconds. The result then contains the effects of `expire_log` and
                `vacuum` with this retention. None to leave them out.

        Returns:
            The report. `ranges` contains consecutive versions with the same properties. `readable` contains the
            versions that can be read. `retention` contains the effects of `retention_ms`. Damaged files are part of
            the report, and no errors. `as_json` returns the JSON document `deltacli.reach`.

        Raises:
            NotATable: If the path is not a Delta table.
            StorageFailed: If the store fails.
        """
        from deltacli.operations.reach import ReachRequest, find_reach

        return find_reach(self, ReachRequest(retention_ms=retention_ms))

    @api_method
    def streams(
        self,
        *,
        checkpoints: Sequence[str] = (),
        restart_point: str | None = None,
    ) -> StreamsReport:
        """Return the Spark streaming queries that read this table, and whether each of them can continue.

        Args:
            checkpoints: Paths, URIs or glob patterns of the checkpoint directories of the queries, such as
                `s3://jobs/*/checkpoint`.
            restart_point: Instead of `checkpoints`: the checkpoint directory of one query that cannot continue. The
                result contains the version from which it can be restarted.

        Returns:
            The report. `queries` begins with those that cannot continue. `finding` of a query is the verdict and
            its reason. `sources` contains the position, the required files and the lag for each table that the
            query reads. `as_json` returns the JSON document `deltacli.streams`.

        Raises:
            Refused: If no query is found (`streams.none-found`).
            Unreadable: If a directory is not a checkpoint of a query (`streams.not-a-checkpoint`).
            UsageError: If not exactly one of the arguments is passed.
            StorageFailed: If the store fails.
        """
        from deltacli.operations.streams.streams import StreamsRequest, find_streams

        request = StreamsRequest(
            checkpoints=checkpoints,
            restart_point=restart_point,
        )
        return find_streams(request, [self], self.open_other, self.engine, is_one_table=True, progress=self.progress)

    @api_method
    def explain(
        self,
        *,
        clients: Sequence[str] = (),
        changes: Sequence[str] = (),
    ) -> Explanation:
        """Return for each client, such as DuckDB or Trino, whether it can read and write the newest version, and
        why not.

        Args:
            clients: Names of clients with an optional version, such as `duckdb` and `trino=480`. An empty sequence
                selects all known clients.
            changes: Hypothetical changes: `add=FEATURE`, `drop=FEATURE` or `widen=COLUMN:TYPE`. The result
                describes the table after these changes. The table itself is not changed.

        Returns:
            The explanation. `client(NAME)` returns the result for one client. `ways_out` contains changes that make
            the table accessible for more clients, with their commands and effects. `as_json` returns the JSON
            document `deltacli.explain`.

        Raises:
            UsageError: If a client or a feature is unknown.
            Refused: If a hypothetical change is not possible.
            Unreadable: If the newest version cannot be read. An unsupported reader feature is no error.
        """
        from deltacli.operations.explain import ExplainRequest, explain

        return explain(self, ExplainRequest(clients=clients, changes=changes))

    @api_method
    def doctor(
        self,
        *,
        prices: PriceTable | None = None,
        listing: bool = True,
    ) -> TableReport:
        """Return statistics about the newest version, and recommendations that save space, requests or time.

        Args:
            prices: The prices of the store, as returned by `deltacli.api.stores.parse_prices`. None uses the
                built-in prices, which exist for some stores.
            listing: Whether to list the directory of the table, to find unreferenced files.

        Returns:
            The report. `advice` contains the recommendations, the most useful one first. Each has a `code`, a
            `message`, the numbers `now` and `after` the recommended change, and the savings (`saves`).
            `command_for` returns the command. `notes` are the reasons why recommendations are missing. `as_json`
            returns the JSON document `deltacli.doctor-table`.

        Raises:
            UsageError: If the table is a shared table, whose directory is not accessible.
            Unreadable: If the version cannot be read: the log is damaged, or the version needs an unsupported
                feature.
        """
        from deltacli.operations.doctor.advice import DoctorRequest
        from deltacli.operations.doctor.table import examine_table

        return examine_table(self, DoctorRequest(prices=prices, listing=listing))
