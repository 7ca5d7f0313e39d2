"""Methods of a Delta table that a catalog manages: compare the catalog with the log, and publish commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.api.changeable_table import ChangeableTable
from deltacli.table.api_errors import api_method
from deltacli.table.handle import managed_store

if TYPE_CHECKING:
    from deltacli.api.prepared_change import PreparedChange
    from deltacli.operations.catalog import CatalogStatus, PublishOutcome, PublishPlan, StagedFiles


class CatalogMethods(ChangeableTable):
    """The methods of a Delta table whose commits a catalog ratifies."""

    def require_managed(self, address: str) -> None:
        """Require that a catalog manages the commits of this table.

        Args:
            address: The table as it was opened. An address of a catalog may be that of an external table.

        Raises:
            UsageError: If no catalog does.
        """
        if managed_store(self.storage) is None:
            from deltacli.operations.catalog import not_managed

            raise not_managed(self, address)

    @api_method
    def status_catalog(self) -> CatalogStatus:
        """Return how far the catalog and the log are, what the catalog permits, and what differs between both.

        Raises:
            UsageError: If no catalog manages the table.
            CatalogUnavailable: If the catalog does not answer.
            StorageFailed: If the store fails.

        Spec: Catalog-managed tables.
        """
        from deltacli.operations.catalog import catalog_status

        return catalog_status(self)

    @api_method
    def staged_catalog(self) -> StagedFiles:
        """Return the staged commits with what became of each: ratified, lost to another one, or unknown.

        None is deleted. Raises as `status_catalog` does.
        """
        from deltacli.operations.catalog import staged_files

        return staged_files(self)

    @api_method
    def publish_catalog(self, *, dry_run: bool = False) -> PublishOutcome:
        """Copy the ratified commits that are not published into the log, in order, compare them, and report them.

        Args:
            dry_run: True to plan only, and change nothing.

        Raises:
            Refused: If a commit is not what the catalog ratified, or the log has another one (`catalog.diverged`).
            PartlyDone: If the copies are there and the catalog does not know
                (`catalog.published-unreported`), or a later copy failed. Another call continues.
            DeltacliError: Whatever `status_catalog` raises.
        """
        return self.prepare_publish_catalog().carry_out(dry_run=dry_run)

    @api_method
    def plan_publish_catalog(self) -> PublishPlan:
        """Return what `publish_catalog` would do; its refusal is in the plan. Raises as it does."""
        return self.prepare_publish_catalog().plan()

    @api_method
    def execute_publish_catalog(self, plan: PublishPlan) -> PublishOutcome:
        """Publish what a plan of this table names. Raises as `publish_catalog` does."""
        return self.prepare_publish_catalog().execute(plan)

    def prepare_publish_catalog(self) -> PreparedChange[PublishPlan, PublishOutcome]:
        """Return the change of `publish_catalog`, not planned yet."""
        from deltacli.operations.catalog import Publish

        return self._prepare(Publish())
