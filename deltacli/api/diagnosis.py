"""Diagnosis of a table from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.operations.table.api_hints import named
from deltacli.operations.table.handle import TableHandle
from deltacli.request_fields import Lazy, takes

if TYPE_CHECKING:
    from deltacli.operations.doctor.table.examined import TableReport
    from deltacli.operations.doctor.table.request import DoctorRequest
else:
    DoctorRequest = Lazy("deltacli.operations.doctor.table.request", "DoctorRequest")


class Diagnosis(TableHandle):
    """The methods of a table that say what is wrong with it."""

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
