"""The base of the classes whose methods change a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from deltacli.table.handle import TableHandle

if TYPE_CHECKING:
    from deltacli.api.prepared_change import PreparedChange
    from deltacli.changing.change import Change
    from deltacli.changing.outcome import Outcome
    from deltacli.changing.plan import Plan

    P = TypeVar("P", bound=Plan)
    O = TypeVar("O", bound=Outcome)  # noqa: E741


class ChangeableTable(TableHandle):
    """A table whose methods change it.

    Each change has four methods. `prepare_…` takes a request and returns a change that is not planned yet; commands
    call it. The others call it, too: `vacuum` acts at once and never asks, `plan_vacuum` and `execute_vacuum` are its
    two halves.
    """

    def _prepare(self, change: Change[P, O], *, writes_table: bool = True) -> PreparedChange[P, O]:
        """Return a change of this table, as `PreparedChange` says."""
        # Methods that only read do not need the code that plans and commits. It takes 8 ms to import.
        from deltacli.api.prepared_change import PreparedChange

        return PreparedChange(change, self, writes_table=writes_table)
