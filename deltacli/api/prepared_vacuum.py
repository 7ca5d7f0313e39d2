"""The changes that `Table.prepare_vacuum` and `Table.prepare_saved_vacuum` return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.api.prepared_change import PreparedChange
from deltacli.operations.vacuum.plan import VacuumPlan, VacuumResult

if TYPE_CHECKING:
    from deltacli.operations.vacuum.execute import SavedVacuum
    from deltacli.operations.vacuum.explain import FileExplanation
    from deltacli.operations.vacuum.full_plan import VacuumChange
    from deltacli.table.handle import TableHandle


class PreparedVacuum(PreparedChange[VacuumPlan, VacuumResult]):
    """A vacuum that can be planned and executed, and that can explain its plan."""

    def __init__(self, change: VacuumChange, table: TableHandle) -> None:
        """Create a vacuum of a table."""
        super().__init__(change, table)
        self._request = change.request

    def explain(self, path: str) -> FileExplanation:
        """Return the reason why a file would be deleted or kept, and the commits that reference it.

        Args:
            path: The path of the file relative to the table, or its URI.

        Raises:
            UsageError: If the path is a directory, or outside the table.
            DeltacliError: The errors of `plan`.
        """
        from deltacli.operations.vacuum.explain import explain_file

        return explain_file(self.table, self._request, path)


class PreparedSavedVacuum(PreparedChange[VacuumPlan, VacuumResult]):
    """A vacuum with a plan from a file. An interrupted run is continued."""

    def __init__(self, change: SavedVacuum, table: TableHandle) -> None:
        """Create a vacuum of a table."""
        super().__init__(change, table)
        self._saved = change

    @property
    def was_complete(self) -> bool:
        """Whether an earlier run had already executed the whole plan. Only valid after `execute`."""
        return self._saved.was_complete
