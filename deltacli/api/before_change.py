"""What a table handle can tell before a change: what differs, how far back it is read, who reads it, what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.core.request_fields import Lazy, takes
from deltacli.table.api_arguments import named
from deltacli.table.handle import TableHandle

if TYPE_CHECKING:
    from deltacli.operations.diff.request import DiffRequest
    from deltacli.operations.diff.tables import TableDiff
    from deltacli.operations.doctor.table.examined import TableReport
    from deltacli.operations.doctor.table.prices import DoctorRequest
    from deltacli.operations.explain.explain import Explanation
    from deltacli.operations.explain.request import ExplainRequest
    from deltacli.operations.reach.request import ReachRequest
    from deltacli.operations.reach.table_reach import TableReach
else:
    DiffRequest = Lazy("deltacli.operations.diff.request", "DiffRequest")
    DoctorRequest = Lazy("deltacli.operations.doctor.table.prices", "DoctorRequest")
    ExplainRequest = Lazy("deltacli.operations.explain.request", "ExplainRequest")
    ReachRequest = Lazy("deltacli.operations.reach.request", "ReachRequest")


class BeforeChange(TableHandle):
    """The part of a table handle that compares and explains; nothing is changed."""

    @named
    @takes(DiffRequest)
    def diff(self, request: DiffRequest) -> TableDiff:
        """Return what differs between two versions, or between this table and another one.

        The parameters are the fields of `DiffRequest`.
        `from_version` or `from_timestamp` choose the first version, `to_version` or `to_timestamp` the second one
        (None: the newest), which is of the table `other` where that is given. With `rows`, rows are compared by the
        columns `key`, and `rows` of the result has the counts and yields the keys that differ; where they do not fit in
        memory they are in `temp_dir`. `is_equal` of the result says whether anything differs; `as_json` returns the
        document `deltacli.diff`, `file_rows` the files that differ.

        Raises UsageError where neither version nor table is given, and what `snapshot` raises.
        """
        from deltacli.operations.diff.tables import diff_tables

        return diff_tables(self, request)

    @named
    @takes(ReachRequest)
    def reach(self, request: ReachRequest) -> TableReach:
        """Return which versions can be read, by what, and until when; nothing is changed.

        The parameters are the fields of `ReachRequest`.
        With `retention_ms`, `retention` of the result says what a log expiry and a vacuum with this retention would
        delete, and the versions that could no longer be read. `ranges` are versions with the same facts, `readable`
        those that can be read; `as_json` returns the document `deltacli.reach`. What is damaged is part of the result.

        Raises NotATable and StorageFailed.
        """
        from deltacli.operations.reach.table_reach import find_reach

        return find_reach(self, request)

    @named
    @takes(ExplainRequest)
    def explain(self, request: ExplainRequest) -> Explanation:
        """Return which clients read and write the newest version, what stops the others, and the ways out.

        The parameters are the fields of `ExplainRequest`.
        `clients` are names (`duckdb`, `trino=480`; default: all that are known), `changes` what is supposed, such as
        `add=deletionVectors`, `drop=columnMapping` or `widen=id:bigint`; nothing is changed. `client(NAME)` of the
        result returns what a client does, `ways_out` the ways out; `as_json` returns the document `deltacli.explain`.

        Raises UsageError for unknown clients and features, Refused for a change that cannot be made, and what
        `snapshot` raises, but for a reader feature that is not known.
        """
        from deltacli.operations.explain.explain import explain

        return explain(self, request)

    @named
    @takes(DoctorRequest)
    def doctor(self, request: DoctorRequest) -> TableReport:
        """Return the state of the newest version in numbers, and advice, what saves most first; nothing is changed.

        The parameters are the fields of `DoctorRequest`.
        Each of `advice` has a `code`, a `message`, the numbers `now` and `after` it is followed, what that `saves`, and
        by `command_for` the command. `prices` are those of the store, as `parse_prices` reads them from a file; without
        `listing` the table is not listed. `as_json` returns the document `deltacli.doctor-table`; `notes` say why
        advice is missing.

        Raises UsageError for a shared table, and what `snapshot` raises.
        """
        from deltacli.operations.doctor.table.examine import examine_table

        return examine_table(self, request)
