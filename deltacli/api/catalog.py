"""What a table handle inherits for tables that a catalog manages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.api.care import Changes
from deltacli.table.api_arguments import named

if TYPE_CHECKING:
    from deltacli.operations.catalog.publish import PublishOutcome, PublishPlan
    from deltacli.operations.catalog.status import CatalogStatus, StagedFiles


class InCatalog(Changes):
    """The part of a table handle that compares log and catalog, and publishes commits."""

    @named
    def status_catalog(self) -> CatalogStatus:
        """Return how far the catalog and the log are, what the catalog permits, and what differs between both.

        Raises UsageError where no catalog manages the table, and what catalog and store raise.
        Spec: Catalog-managed tables.
        """
        from deltacli.operations.catalog.status import catalog_status

        return catalog_status(self)

    @named
    def staged_catalog(self) -> StagedFiles:
        """Return the staged commits with what became of each: ratified, lost to another one, or unknown. None is
        deleted. Raises as `status_catalog`.
        """
        from deltacli.operations.catalog.status import staged_files

        return staged_files(self)

    @named
    def publish_catalog(self, *, dry_run: bool = False) -> PublishOutcome:
        """Copy the ratified commits that are not published into the log, in order, compare them, and report them;
        `dry_run` only plans.

        Raises Refused (`catalog.diverged`) where one is not what the catalog ratified or the log has another one;
        PartlyDone where the copies are there and the catalog was not told (`catalog.published-unreported`), or a later
        one failed: another call continues; and what `status_catalog` raises.
        """
        from deltacli.operations.catalog.publish import Publish

        return self._done(Publish(), dry_run=dry_run)

    @named
    def plan_publish_catalog(self) -> PublishPlan:
        """Return what `publish_catalog` would do; its refusal is in the plan. Raises as it does."""
        from deltacli.operations.catalog.publish import Publish

        return self._plan(Publish())

    @named
    def execute_publish_catalog(self, plan: PublishPlan) -> PublishOutcome:
        """Publish what a plan of this table names. Raises as `publish_catalog` does."""
        from deltacli.operations.catalog.publish import Publish

        return self._execute(Publish(), plan)
