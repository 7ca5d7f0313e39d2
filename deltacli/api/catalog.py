"""The methods of `Table` for catalog-managed tables.

The catalog of such a table decides which commits are valid. A writer stages a commit as a file in
`_delta_log/_staged_commits`, the catalog ratifies it, and later it is published: copied to its final name in
`_delta_log`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.api.changeable_table import ChangeableTable
from deltacli.table.api_errors import api_method
from deltacli.table.handle import managed_store

if TYPE_CHECKING:
    from deltacli.api.prepared_change import PreparedChange
    from deltacli.operations.catalog import CatalogStatus, PublishOutcome, PublishPlan, StagedFiles


class CatalogMethods(ChangeableTable):
    """The methods of `Table` for tables whose commits a catalog ratifies."""

    def require_managed(self, address: str) -> None:
        """Check that a catalog manages the commits of this table.

        Args:
            address: The address from which the table was opened, for the error. Even `uc://…` may refer to a table
                that the catalog does not manage.

        Raises:
            UsageError: If no catalog manages the table.
        """
        if managed_store(self.storage) is None:
            from deltacli.operations.catalog import not_managed

            raise not_managed(self, address)

    @api_method
    def status_catalog(self) -> CatalogStatus:
        """Compare the newest version of the catalog with that of the published log.

        The result also contains the operations that the catalog allows, and other differences between the catalog
        and the log.

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
        """Return the staged commits, and the state of each: ratified, superseded by another commit, or unknown.

        Raises:
            DeltacliError: The errors of `status_catalog`.
        """
        from deltacli.operations.catalog import staged_files

        return staged_files(self)

    @api_method
    def publish_catalog(self, *, dry_run: bool = False) -> PublishOutcome:
        """Publish the ratified commits: copy them to the log, in their order, verify the copies, and report them to
        the catalog.

        Args:
            dry_run: Whether to return the plan without changing anything.

        Raises:
            Refused: If a staged file differs from the ratified commit, or the log already contains another commit
                of that version (`catalog.diverged`).
            PartlyDone: If the commits were copied but could not be reported to the catalog
                (`catalog.published-unreported`), or a later copy failed. Another call continues.
            DeltacliError: The errors of `status_catalog`.
        """
        return self.prepare_publish_catalog().carry_out(dry_run=dry_run)

    @api_method
    def plan_publish_catalog(self) -> PublishPlan:
        """Return the plan of `publish_catalog` without changing anything.

        Takes the same arguments and raises the same errors as `publish_catalog`, except that refusals are part of
        the plan.
        """
        return self.prepare_publish_catalog().plan()

    @api_method
    def execute_publish_catalog(self, plan: PublishPlan) -> PublishOutcome:
        """Publish the commits of a plan that `plan_publish_catalog` returned for this table.

        Raises the same errors as `publish_catalog`.
        """
        return self.prepare_publish_catalog().execute(plan)

    def prepare_publish_catalog(self) -> PreparedChange[PublishPlan, PublishOutcome]:
        """Return `publish_catalog` as a change that can be planned, shown and executed."""
        from deltacli.operations.catalog import Publish

        return self._prepare(Publish())
