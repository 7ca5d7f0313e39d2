"""A vacuum that was requested and is not planned yet, or whose plan was saved to a file."""

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
    """A vacuum that is planned by its request."""

    def __init__(self, change: VacuumChange, table: TableHandle) -> None:
        """Prepare a vacuum of a table."""
        super().__init__(change, table)
        self._request = change.request

    def explain(self, path: str) -> FileExplanation:
        """Return why a file would be deleted or kept, with the commits that name it. Nothing is changed.

        Args:
            path: The file, relative to the table or as a URI.

        Raises:
            UsageError: If it is a directory, or outside of the table.
            DeltacliError: Whatever `plan` raises.
        """
        from deltacli.operations.vacuum.explain import explain_file

        return explain_file(self.table, self._request, path)


class PreparedSavedVacuum(PreparedChange[VacuumPlan, VacuumResult]):
    """A vacuum whose plan was saved to a file. It starts where an earlier run of it stopped."""

    def __init__(self, change: SavedVacuum, table: TableHandle) -> None:
        """Prepare the vacuum of a file on a table."""
        super().__init__(change, table)
        self._saved = change

    @property
    def was_complete(self) -> bool:
        """Whether an earlier run had executed all of the plan. It is known once this one was executed."""
        return self._saved.was_complete
