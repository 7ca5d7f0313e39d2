"""Executing a restore: one commit with the files of the difference, then another look at the files that came back.

Spec: Add File and Remove File; Row Tracking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deltacli.changing.commit import Committed, commit
from deltacli.delta.log.body_lines import encoded_files
from deltacli.delta.log.commit_content import CommitRequest, EveryFile, FilesOfPartitions, OnConflict, Slot
from deltacli.errors import ConflictLost, DeltacliError, PartlyDone
from deltacli.hints import command
from deltacli.operations.restore.plan import RestorePlan, plan_again, request_of, require_executable
from deltacli.operations.restore.verify import VERIFIED, ProblemFile, check_sizes
from deltacli.operations.table.find_log import list_log
from deltacli.operations.table.keyed_files import PartitionCondition, chosen_actions, removes_of
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.short_repr import short_repr
from deltacli.typing import Json, RecordBatch
from deltacli.units import plural

if TYPE_CHECKING:
    from deltacli.operations.table.handle import TableHandle
    from deltacli.operations.table.version import Snapshot


@short_repr(
    "target=plan.target.version",
    "committed_version",
    "added=plan.difference.added_amount.files",
    "removed=plan.difference.removed_amount.files",
    "lost",
    "refusals=plan.refusals",
)
@dataclass(frozen=True, eq=False)
class RestoreOutcome:
    """What was done: the plan as it was executed, and the version that was made, None where nothing differs."""

    plan: RestorePlan
    committed_version: int | None = None
    lost: tuple[ProblemFile, ...] = ()
    """Files of the restored version that another program deleted meanwhile."""

    def as_json(self) -> dict[str, Json]:
        """Return the content of the document `deltacli.restore`."""
        return self.plan.as_json(committed_version=self.committed_version, dry_run=False, lost=self.lost)


def execute_restore(plan: RestorePlan, *, may_plan_again: bool) -> RestoreOutcome:
    """Put files from elsewhere in their places, commit a plan, and look at its files again.

    `may_plan_again`: where another writer was first, what it committed is undone, too; otherwise ConflictLost is
    raised, because somebody agreed to the plan as it is.

    Raises Refused where the plan has refusals, what `commit` raises, and PartlyDone where the files cannot be looked at
    again. Files that are gone after the commit are in the outcome.
    """
    require_executable(plan)
    if plan.is_noop:
        return RestoreOutcome(plan)
    attempts = _Attempts(plan, may_plan_again)
    done = commit(plan.table, attempts.make, read=attempts.read, commit_metadata=plan.request.commit_metadata)
    if not isinstance(done, Committed):
        return RestoreOutcome(attempts.plan)
    return RestoreOutcome(attempts.plan, done.version, _looked_at_again(attempts.plan, done.version))


class _Attempts:
    """Commits a plan as it is, or as it is made again from a newer version."""

    def __init__(self, plan: RestorePlan, may_plan_again: bool) -> None:
        self.plan = plan
        self._may_plan_again = may_plan_again
        self._was_read = False

    def read(self, table: TableHandle) -> Snapshot:
        """Return the version that the plan was made from, later the newest one, as where the commits after it have
        expired: then its next version is free again, behind those that were built on it.
        """
        if self._was_read:
            return read_snapshot(table)
        self._was_read = True
        now = self.plan.now
        listing = list_log(table.storage, start_version=now.version)
        newest = listing.newest_version
        if listing.can_follow(now.version):
            return now
        if newest > now.version and self._may_plan_again:
            return read_snapshot(table)
        raise ConflictLost(
            f"nothing was committed: the newest version was {now.version} when this was planned and is {newest}",
            hint=command("history", limit=10),
        )

    def make(self, snapshot: Snapshot) -> CommitRequest | None:
        """Return the commit; None where nothing differs any more."""
        if snapshot is not self.plan.now:
            self.plan = plan_again(self.plan, snapshot)
        require_executable(self.plan)
        if self.plan.brought is not None and not self.plan.is_noop:
            self.plan.brought.put(self.plan.table)
        return None if self.plan.is_noop else with_files(self.plan, may_plan_again=self._may_plan_again)


def require_complete(outcome: RestoreOutcome) -> None:
    """Raise PartlyDone where files of the restored version were deleted meanwhile, with the command that undoes the
    restore.
    """
    if not outcome.lost:
        return
    first, where = outcome.lost[0], outcome.plan.request.where
    before = (outcome.committed_version or 0) - 1
    options = {} if where is None else {"where": where}
    same = "" if where is None else " with the same condition"
    raise PartlyDone(
        f"version {outcome.committed_version} was committed, but {plural(len(outcome.lost), 'file')} of it "
        f"{'is' if len(outcome.lost) == 1 else 'are'} gone by now: another program deletes files of this table",
        code="restore.file-vanished",
        facts={"first": first.path, "why": first.why, "to undo": f"restore version {before}{same}"},
        hint=command("restore", version=before, dry_run=True, **options),
    )


def with_files(plan: RestorePlan, *, may_plan_again: bool) -> CommitRequest:
    """Return the commit of a plan with its files."""
    condition = plan.where
    reads = FilesOfPartitions(condition.chooses) if isinstance(condition, PartitionCondition) else EveryFile()
    return replace(
        request_of(plan),
        body=_body(plan),
        reads=reads,
        on_conflict=OnConflict.PLAN_AGAIN if may_plan_again else OnConflict.FAIL,
    )


def _body(plan: RestorePlan) -> Callable[[Slot], Iterator[bytes]]:
    now_ms = plan.table.clock()

    def batches() -> Iterator[tuple[str, RecordBatch]]:
        found, where = plan.difference, plan.where
        if found.added_amount.files:
            adds = chosen_actions(plan.target, found.target.keys, found.added, where)
            yield from (("add", _comes_back(batch, renumbers=plan.renumbers)) for batch in adds)
        if found.removed_amount.files:
            adds = chosen_actions(plan.now, found.now.keys, found.removed, where)
            yield from (("remove", removes_of(batch, now_ms, is_change=True)) for batch in adds)

    return lambda slot: encoded_files(batches, slot)


def _comes_back(adds: RecordBatch, *, renumbers: bool) -> RecordBatch:
    import pyarrow as pa

    fixed = {"dataChange": pa.repeat(True, adds.num_rows)}
    if renumbers:
        fixed |= {name: pa.nulls(adds.num_rows, pa.int64()) for name in ("baseRowId", "defaultRowCommitVersion")}
    columns = [fixed.get(name, adds.column(name)) for name in adds.schema.names]
    return pa.RecordBatch.from_arrays(columns, names=adds.schema.names)


def _looked_at_again(plan: RestorePlan, version: int) -> tuple[ProblemFile, ...]:
    """Return the files that came back and are gone by now. Whatever prevents it names the version committed."""
    try:
        return _lost(plan)
    except DeltacliError as fault:
        raise PartlyDone(
            f"version {version} was committed; its files could not be looked at again",
            code="restore.not-checked",
            facts={"why": fault.message},
            hint=command("validate", level="storage"),
        ) from fault
    except BaseException as stop:
        stop.add_note(f"version {version} was committed")
        raise


def _lost(plan: RestorePlan) -> tuple[ProblemFile, ...]:
    """Return the files that came back and are gone by now."""
    found = plan.difference
    count = found.added_amount.files
    if not count:
        return ()
    adds = chosen_actions(plan.target, found.target.keys, found.added, plan.where, VERIFIED)
    return check_sizes(plan.table, adds, count)
