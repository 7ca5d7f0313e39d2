"""Taking changes back from Python: `restore`, `undelete`, `repair` and the purge of a quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.api.changes import Changes
from deltacli.core.errors import UsageError
from deltacli.core.request_fields import Lazy, takes
from deltacli.table.api_arguments import named

if TYPE_CHECKING:
    from deltacli.operations.recover.execute import UndeleteResult
    from deltacli.operations.recover.plan import UndeletePlan
    from deltacli.operations.recover.request import UndeleteRequest
    from deltacli.operations.repair.backup import PutBack, UndoPlan
    from deltacli.operations.repair.execute import RepairOutcome
    from deltacli.operations.repair.plan import RepairPlan
    from deltacli.operations.repair.request import RepairRequest
    from deltacli.operations.restore.execute import RestoreOutcome
    from deltacli.operations.restore.plan import RestorePlan
    from deltacli.operations.restore.request import RestoreRequest
    from deltacli.operations.vacuum.quarantine.purge import PurgePlan, PurgeResult, QuarantinePurge
else:
    RepairRequest = Lazy("deltacli.operations.repair.request", "RepairRequest")
    RestoreRequest = Lazy("deltacli.operations.restore.request", "RestoreRequest")
    UndeleteRequest = Lazy("deltacli.operations.recover.request", "UndeleteRequest")


class Undo(Changes):
    """The methods of a table that take changes back."""

    @named
    @takes(UndeleteRequest)
    def undelete(self, request: UndeleteRequest) -> UndeleteResult:
        """Bring back lost files of the newest version, or of `version`, at once; `dry_run=True` returns the plan.

        Returns the plan with what was put in place. Files of the log come back as well.

        The parameters are the fields of `UndeleteRequest`. `sources` are `versions` (what the store keeps of deleted
        objects; the default) or paths and URIs of copies of the table; the first that has a file as the log describes
        it is its source. `prefix` limits the data files to a directory. `accept_commits` are versions that a copy may
        bring although nothing proves that they are of this table. `dry_run` only plans: nothing is put in place,
        and refusals are in the plan.

        Raises Refused, with nothing changed, for a store without versions, the source of another table, an overwritten
        commit, and commits of a copy that nothing proves (`recover.unproven`); PartlyDone where files are in no source
        (`newest_readable` of the plan is the newest version that can be read), and for what fails once a file was put;
        ConflictLost where another writer created a commit that was to come back; StorageFailed; and what `snapshot`
        raises.
        """
        from deltacli.operations.recover.execute import Undelete, UndeleteResult

        change = Undelete(request)
        return UndeleteResult(self._plan(change), None) if request.dry_run else self._carry_out(change)

    @named
    @takes(UndeleteRequest)
    def plan_undelete(self, request: UndeleteRequest) -> UndeletePlan:
        """Return what `undelete` with the same parameters would do; its refusals are in the plan. Raises as it does."""
        from deltacli.operations.recover.execute import Undelete

        return self._plan(Undelete(request))

    @named
    def execute_undelete(self, plan: UndeletePlan) -> UndeleteResult:
        """Put the files of a plan of this table in their places. Raises as `undelete` does."""
        from deltacli.operations.recover.execute import Undelete

        return self._execute(Undelete(plan.request), plan)

    @named
    @takes(RestoreRequest)
    def restore(self, request: RestoreRequest) -> RestoreOutcome:
        """Bring the table back to an earlier version at once, in one commit; `dry_run=True` returns the plan.

        The parameters are the fields of `RestoreRequest`.
        `version`, `timestamp` or `timestamp_ms` choose the version, as for `snapshot`. `where` is a condition on
        partition columns: only these partitions come back, schema and properties stay. Every file that comes back is
        checked first, by its size, its deletion vector and, without `trust_listing`, its footer. `commit_metadata` are
        keys for the commitInfo. `dry_run` only plans: refusals are in the plan, `committed_version` is None, as it is
        where nothing differs. Files that come back are looked at again before a commit a minute later, and after it.

        Raises Refused, with nothing changed, where a guard objects (`restore.*`) or the protocol forbids writing; what
        commits raise; PartlyDone where another program deleted files meanwhile; and what `snapshot` raises.
        Spec: Add File and Remove File.
        """
        from deltacli.operations.restore.execute import Restore

        return self._done(Restore(request), dry_run=request.dry_run)

    @named
    @takes(RestoreRequest)
    def plan_restore(self, request: RestoreRequest) -> RestorePlan:
        """Return what `restore` with the same parameters would do; its refusals are in the plan. Raises as it does."""
        from deltacli.operations.restore.execute import Restore

        return self._plan(Restore(request))

    @named
    def execute_restore(self, plan: RestorePlan, *, may_plan_again: bool = False) -> RestoreOutcome:
        """Commit a plan of this table.

        If another writer was first and the plan no longer fits, it is made again: it is committed if it comes to the
        same, else ConflictLost is raised. With `may_plan_again` it is committed in any case, and undoes those commits,
        too. Raises as `restore` does.
        """
        from deltacli.operations.restore.execute import Restore

        return self._execute(Restore(plan.request), plan, may_plan_again=may_plan_again)

    @named
    def purge_quarantine(self, quarantine: str, *, older_ms: int, dry_run: bool = False) -> PurgeResult:
        """Delete, at once, older files of this table from a quarantine; `dry_run=True` returns the plan.

        Returns the plan with its outcome.

        Only what manifests of this table name is deleted. `dry_run` only plans: directories that are not touched are in
        `refusals` of the plan.

        Raises Refused where a manifest cannot be trusted, or the quarantine is in a table; PartlyDone where files could
        not be deleted; StorageFailed; and what `snapshot` raises.
        """
        from deltacli.operations.vacuum.quarantine.purge import PurgeResult

        change = _purge(quarantine, older_ms)
        return PurgeResult(self._plan(change), None) if dry_run else self._carry_out(change)

    @named
    def plan_purge_quarantine(self, quarantine: str, *, older_ms: int) -> PurgePlan:
        """Return what `purge_quarantine` would delete; its refusals are in the plan. Raises as it does."""
        return self._plan(_purge(quarantine, older_ms))

    @named
    def execute_purge_quarantine(self, plan: PurgePlan) -> PurgeResult:
        """Delete what a plan of this table says. Raises as `purge_quarantine` does."""
        return self._execute(_purge(plan.quarantine, max(0, plan.basis.now_ms - plan.cutoff_ms)), plan)

    @named
    @takes(RepairRequest)
    def repair(self, request: RepairRequest) -> RepairOutcome:
        """Recover and rebuild at once, and give up only what no source has; `dry_run=True` returns the plan.

        The parameters are the fields of `RepairRequest`. `level` and `select` choose the findings. `sources` are
        `versions` or paths and URIs of copies. `accept_commits` are versions that a copy may bring although nothing
        proves that they are of this table. `accept_loss` allows to give up files, at most the share `max_missing`.
        `allow_in_use`: even if others committed lately. `quarantine` is a directory outside of all tables for the
        backup and for readable rows of damaged files. `dry_run` only plans.

        Raises Refused, with nothing changed, where guards object to every step (`repair.*`); PartlyDone where some
        steps were refused or failed; what commits raise; NotATable where no log is found; and StorageFailed.
        """
        from deltacli.operations.repair.execute import Repair

        return self._done(Repair(request), dry_run=request.dry_run)

    @named
    @takes(RepairRequest)
    def plan_repair(self, request: RepairRequest) -> RepairPlan:
        """Return what `repair` with the same parameters would do; its refusals are in the plan. Raises as it does."""
        from deltacli.operations.repair.execute import Repair

        return self._plan(Repair(request))

    @named
    def execute_repair(self, plan: RepairPlan) -> RepairOutcome:
        """Make the changes of a plan of this table, and what follows from them. Raises as `repair` does."""
        from deltacli.operations.repair.execute import Repair

        return self._execute(Repair(plan.request), plan)

    @named
    def undo_repair(self, backup: str, *, dry_run: bool = False) -> PutBack:
        """Put back, at once, the files that a repair replaced or moved; `dry_run=True` returns the plan.

        Raises Refused where others have committed since (`repair.log-moved-on`), where versions could not be rebuilt
        any more (`repair.undo-loses-versions`), and where others change the files meanwhile; Unreadable for a damaged
        backup; PartlyDone for what fails once a file was put.
        """
        from deltacli.operations.repair.backup import Undo

        change = Undo(backup)
        return self._plan(change).amount if dry_run else self._carry_out(change)

    @named
    def plan_undo_repair(self, backup: str) -> UndoPlan:
        """Return what `undo_repair` of a backup would put back; `amount` is how much. Raises as it does."""
        from deltacli.operations.repair.backup import Undo

        return self._plan(Undo(backup))

    @named
    def execute_undo_repair(self, plan: UndoPlan) -> PutBack:
        """Put back what a plan of this table says. Raises as `undo_repair` does."""
        from deltacli.operations.repair.backup import Undo

        return self._execute(Undo(plan.backup), plan)


def _purge(quarantine: str, older_ms: int) -> QuarantinePurge:
    from deltacli.operations.vacuum.quarantine.purge import QuarantinePurge

    if type(older_ms) is not int or older_ms < 0:
        raise UsageError(f"older_ms is {older_ms!r}", facts={"expected": "a number of milliseconds"})
    return QuarantinePurge(quarantine, older_ms)
