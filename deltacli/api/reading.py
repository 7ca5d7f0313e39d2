"""Methods of a Delta table that read, compare and explain. They change nothing."""

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
    """The methods of a Delta table that read it."""

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
        """Return commits of the table, newest first.

        Args:
            from_version: The first version.
            from_timestamp: Instead of `from_version`: the first version committed at or after this time, a
                datetime with its time zone, or a date, which is midnight UTC.
            from_timestamp_ms: The same in epoch milliseconds.
            to_version: The last version. None: the newest one.
            to_timestamp: Instead of `to_version`: the last version committed at or before this time.
            to_timestamp_ms: The same in epoch milliseconds.
            limit: The number of commits, the newest of the range. 0: all of them.
            counts: True to count the files and bytes that each commit adds and removes.

        Raises:
            UsageError: If an end is given twice, or the versions are in the wrong order.
            NotATable: If there is no table.
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
        """Rebuild a version of the table: its metadata at once, its files and rows when they are asked for.

        At most one argument is given. Without one, the newest version is rebuilt.

        Args:
            version: The version.
            timestamp: The newest version committed at or before this time, a datetime with its time zone, or a date,
                which is midnight UTC.
            timestamp_ms: The same in epoch milliseconds.

        Raises:
            UsageError: If an argument is of a wrong type, or more than one is given.
            NotATable: If there is no table.
            VersionAbsent: If the version was never written, or can no longer be rebuilt.
            LogIncomplete: If commits are missing.
            CommitCorrupt: If a commit cannot be parsed.
            CheckpointUnreadable: If no checkpoint that is needed can be read.
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
        """Return the changes of rows in a range of versions, both ends included, as an iterable of Arrow batches.

        The columns are followed by `_change_type` (`insert`, `delete`, `update_preimage`, `update_postimage`),
        `_commit_version` and `_commit_timestamp` (microseconds, UTC). `where` may use these three. With `row_ids`,
        `_row_id` and `_row_commit_version` follow, which are null in rows of change data files.

        The result is empty if `from_version` is one above the newest version, and no end is given. Iterating raises
        DataUnreadable for a damaged file, and Refused (`rowtracking.not-enabled`) at a version without row tracking.

        Args:
            from_version: The first version.
            from_timestamp: Instead of `from_version`: the first version committed at or after this time, a
                datetime with its time zone, or a date, which is midnight UTC.
            from_timestamp_ms: The same in epoch milliseconds.
            to_version: The last version. None: the newest one.
            to_timestamp: Instead of `to_version`: the last version committed at or before this time.
            to_timestamp_ms: The same in epoch milliseconds.
            columns: Names of top-level columns of the table. None: all of them. Those of the change follow.
            where: A condition in SQL that the rows have to meet. None: all rows.
            row_ids: True to add the columns `_row_id` and `_row_commit_version` behind the others. `where` may
                use them.
            limit: The largest number of rows. None: all rows.

        Raises:
            UsageError: If the range has no begin, an end is given twice, or columns or the condition are invalid.
            VersionAbsent: If the commit of a version is missing.
            Unreadable: If a version cannot be rebuilt, as `snapshot` raises it.
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
        """Check the table against the rules of a level. It works on tables that cannot be opened, too.

        Args:
            level: What is checked: `log`, `storage` (also a listing of the table), `footers` (also footers of
                data files) or `data` (also their rows).
            sample: The share of the data files to check, above 0 and at most 1. The sample differs per version.
            where: A condition. Only data files that may contain matching rows are checked.
            select: Globs over the ids of rules. Empty: all rules.
            ignore: Globs over the ids of rules to skip.
            max_findings: The largest number of findings per rule. 0: all of them.
            on_finding: Receives each finding when it is made, in no particular order.

        Raises:
            UsageError: If arguments are invalid, or do not fit the table.
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
        """Compare two versions of this table, or a version of it with one of another table.

        Args:
            from_version: The first version. None: the newest one.
            from_timestamp: Instead of `from_version`: the version that was the newest one at this time, a
                datetime with its time zone, or a date, which is midnight UTC.
            from_timestamp_ms: The same in epoch milliseconds.
            to_version: The second version. None: the newest one.
            to_timestamp: Instead of `to_version`: the version that was the newest one at this time.
            to_timestamp_ms: The same in epoch milliseconds.
            other: The table of the second version, if it is another one.
            rows: True to compare the rows, too. It needs `key`.
            key: Columns that identify a row.
            temp_dir: Directory for temporary files of compared rows. None: that of the system.

        Returns:
            The differences. `is_equal` tells whether there are none, `file_rows` are the files that differ, and `rows`
            has the counts of rows and yields the keys that differ. `as_json` returns the document `deltacli.diff`.

        Raises:
            UsageError: If neither a version nor a table is given, or `rows` and `key` are not given together.
            Unreadable: If a version cannot be rebuilt, as `snapshot` raises it.
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
        """Return which versions can be read, by what, and until when.

        Args:
            retention_ms: A retention, in milliseconds, whose effects are to be shown: what a log expiry and a
                vacuum would delete. None: no effects are shown.

        Returns:
            The versions. `ranges` are those with the same facts, `readable` those that can be read, and `retention` is
            what `retention_ms` would delete and make unreadable. Damage is part of the result. `as_json` returns the
            document `deltacli.reach`.

        Raises:
            NotATable: If there is no table.
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
        """Return the streaming queries of Spark that read this table, and whether each can continue.

        Args:
            checkpoints: Checkpoint directories of queries, and patterns of them, relative to the current
                directory.
            restart_point: Instead of `checkpoints`: the checkpoint directory of one query. Where it can start
                over is part of the result.

        Returns:
            The queries, the worst first. Each has a `finding` with verdict and reason, and `sources` with their
            `judgement`: position, needs, lag. `as_json` returns the document `deltacli.streams`.

        Raises:
            Refused: If no query is found (`streams.none-found`).
            Unreadable: If a directory is not a checkpoint of a query (`streams.not-a-checkpoint`).
            UsageError: If neither or both of the arguments are given.
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
        """Return which clients read and write the newest version, what stops the others, and ways out.

        Args:
            clients: Names of clients, each with a version or without: `duckdb`, `trino=480`. Empty: all that
                are known.
            changes: Changes to suppose, in their order: `add=FEATURE`, `drop=FEATURE` or `widen=COLUMN:TYPE`.
                Nothing is changed.

        Returns:
            The explanation. `client(NAME)` returns what a client does, `ways_out` the ways out, and `as_json` the
            document `deltacli.explain`.

        Raises:
            UsageError: If a client or feature is unknown.
            Refused: If a supposed change cannot be made.
            Unreadable: If the version cannot be rebuilt. A reader feature that is not known is not an error here.
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
        """Return the state of the newest version in numbers, and advice, what saves most first.

        Args:
            prices: Prices of the store, as `parse_prices` reads them from a file. None: the built-in ones, if
                there are any.
            listing: False to not list the files of the table. Nothing is known of unreferenced files then.

        Returns:
            The report. Each `advice` has a `code`, a `message`, the numbers `now` and `after` it is followed, what it
            `saves`, and `command_for` returns the command. `notes` say why advice is missing. `as_json` returns the
            document `deltacli.doctor-table`.

        Raises:
            UsageError: If the table is one of a share.
            Unreadable: If the version cannot be rebuilt, as `snapshot` raises it.
        """
        from deltacli.operations.doctor.advice import DoctorRequest
        from deltacli.operations.doctor.table import examine_table

        return examine_table(self, DoctorRequest(prices=prices, listing=listing))
