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
    """The base class of `Table` and `Paimon`, for methods that change the table.

    There are four methods for each change, such as `vacuum`, `plan_vacuum`, `execute_vacuum` and `prepare_vacuum`.
    The first three are built on the last one, and so is the command line.
    """

    def _prepare(self, change: Change[P, O], *, writes_table: bool = True) -> PreparedChange[P, O]:
        """Return a change of this table that can be planned and executed."""
        # Methods that only read do not need the code that plans and commits. It takes 8 ms to import.
        from deltacli.api.prepared_change import PreparedChange

        return PreparedChange(change, self, writes_table=writes_table)
