"""`manifest`: the symlink manifests of the newest version. Spec: Delta-Spark: GENERATE symlink_format_manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.manifests import ManifestsOutcome, ManifestsPlan, plan_manifests, write_manifests
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle, managed_store

if TYPE_CHECKING:
    from deltacli.changing.execution import ChangeExecution
    from deltacli.table.version import Snapshot


@dataclass(frozen=True)
class Manifests:
    """The manifests of the newest version, to be compared and written."""

    kind: ClassVar[ChangeKind] = ChangeKind.DERIVE_LOG_FILES

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> ManifestsPlan:
        """Compare those in the directory with the version. Raises as `plan_manifests`."""
        if (managed := managed_store(table.storage)) is not None:
            managed.refuse("manifest")
        return plan_manifests(table, now)

    def outcome(self, plan: ManifestsPlan) -> ManifestsOutcome:
        return ManifestsOutcome(plan)

    def execute(self, execution: ChangeExecution[ManifestsPlan, ManifestsOutcome]) -> None:
        """Write those that differ, of the newest version. Raises Refused (`plan.*`), ConflictLost where the files of
        another version were agreed to, and what the storage raises.
        """
        execution.recheck_table()
        version = execution.plan.base_version.version
        if list_log(execution.store, start_version=version).newest_version != version:
            execution.accept_new_plan(self.plan(execution.table))
            execution.outcome.plan = execution.plan
        execution.has_begun = True
        write_manifests(execution.store, execution.outcome)
