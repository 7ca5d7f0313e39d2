"""Executing a restore: one commit with the files of the difference, then another look at the files that came back.

Spec: Add File and Remove File; Row Tracking.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from deltacli.changing.acts import Act
from deltacli.changing.basis import LOOK_SECONDS
from deltacli.changing.commit import Committed
from deltacli.core.errors import DeltacliError, PartlyDone
from deltacli.core.hints import command
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json, RecordBatch
from deltacli.core.units import plural
from deltacli.delta.log.body_lines import encoded_files
from deltacli.delta.log.commit_content import CommitRequest, EveryFile, FilesOfPartitions, Slot
from deltacli.delta.log.conflicts import is_vacuum
from deltacli.operations.restore.plan import RestorePlan, plan_again, plan_restore, request_of
from deltacli.operations.restore.request import RestoreRequest
from deltacli.operations.restore.verify import VERIFIED, ProblemFile, check_sizes
from deltacli.table.keyed_files import PartitionCondition, chosen_actions, removes_of
from deltacli.work.commits.reading import stream_commit

if TYPE_CHECKING:
    from deltacli.changing.gate import Gate
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot


@short_repr(
    "target=plan.target.version",
    "committed_version",
    "added=plan.difference.added_amount.files",
    "removed=plan.difference.removed_amount.files",
    "lost",
    "refusals=plan.refusals",
)
@dataclass(frozen=True, eq=False, repr=False)
class RestoreOutcome:
    """What was done: the plan as it was executed, and the version that was made, None where nothing differs."""

    plan: RestorePlan
    committed_version: int | None = None
    lost: tuple[ProblemFile, ...] = ()
    """Files of the restored version that another program deleted meanwhile."""

    def as_json(self) -> dict[str, Json]:
        """Return the content of the document `deltacli.restore`."""
        return self.plan.as_json(
            committed_version=self.committed_version, dry_run=self.plan.request.dry_run, lost=self.lost
        )

    def so_far(self) -> str:
        """Return what was committed, or put in its place before a commit."""
        if self.committed_version is None:
            return "nothing was committed; files from elsewhere may be in their places"
        return f"version {self.committed_version} was committed"

    def require_complete(self) -> None:
        """Raise PartlyDone where files of the restored version were deleted meanwhile, with the command that undoes the
        restore.
        """
        if not self.lost:
            return
        first, where = self.lost[0], self.plan.request.where
        before = (self.committed_version or 0) - 1
        options = {} if where is None else {"where": where}
        same = "" if where is None else " with the same condition"
        raise PartlyDone(
            f"version {self.committed_version} was committed, but {plural(len(self.lost), 'file')} of it "
            f"{'is' if len(self.lost) == 1 else 'are'} gone by now: another program deletes files of this table",
            code="restore.file-vanished",
            facts={"first": first.path, "why": first.why, "to undo": f"restore version {before}{same}"},
            hint=command("restore", version=before, dry_run=True, **options),
        )


@dataclass(frozen=True)
class Restore:
    """A restore, to be planned and committed."""

    act: ClassVar[Act] = Act.NAME

    request: RestoreRequest

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> RestorePlan:
        """Plan it. Raises as `plan_restore`."""
        return plan_restore(table, self.request, now)

    def outcome(self, plan: RestorePlan) -> RestoreOutcome:
        """Return that nothing was done yet."""
        return RestoreOutcome(plan)

    def execute(self, gate: Gate[RestorePlan, RestoreOutcome]) -> None:
        """Put files from elsewhere in their places, commit, and look at the files that came back once more.

        Raises what `Gate.commit` raises, and PartlyDone where the files cannot be looked at again. Files that are gone
        after the commit are in the outcome.
        """
        attempts = _Attempts(gate)
        done = gate.commit(
            attempts.make,
            plan_again=attempts.plan_again,
            look=attempts.look,
            commit_metadata=self.request.commit_metadata,
            needs_clock=True,
        )
        gate.outcome = RestoreOutcome(gate.plan, done.version if isinstance(done, Committed) else None)
        if isinstance(done, Committed):
            gate.outcome = replace(gate.outcome, lost=_looked_at_again(gate.plan, done.version))


class _Attempts:
    """Attempts to commit a plan whose files another program may delete at any time."""

    def __init__(self, gate: Gate[RestorePlan, RestoreOutcome]) -> None:
        self._gate = gate
        self._checked_at = gate.plan.checked_at if gate.may_plan_again else -math.inf
        self._lacks_files = False

    def make(self, plan: RestorePlan) -> CommitRequest:
        """Return the commit, after files from elsewhere are in their places."""
        if plan.brought is not None:
            from deltacli.operations.recover.sources import Journal

            has_begun, journal = self._gate.has_begun, Journal()
            self._gate.has_begun = True  # nobody knows it of an interruption
            try:
                plan.brought.put(plan.table, journal)
            except DeltacliError:
                self._gate.has_begun = has_begun or journal.files > 0
                raise
        return with_files(plan)

    def plan_again(self, plan: RestorePlan, now: Snapshot) -> RestorePlan:
        """Plan the same on a newer version. All files are checked again where some were gone, after a while, and behind
        a vacuum.
        """
        checks_all = self._lacks_files or self._has_waited or _has_vacuum(plan.now, now)
        found = plan_again(plan, now, checks_all=checks_all)
        if checks_all:
            self._checked_at, self._lacks_files = found.checked_at, False
        return found

    @property
    def _has_waited(self) -> bool:
        return self._gate.table.machine.monotonic() - self._checked_at > LOOK_SECONDS

    def look(self) -> bool:
        """Look at the files that come back after a prompt, or where that was a minute ago; return whether they are
        there.
        """
        if self._has_waited:
            self._checked_at = self._gate.table.machine.monotonic()
            self._lacks_files = bool(_lost(self._gate.plan))
        return not self._lacks_files


def _has_vacuum(before: Snapshot, now: Snapshot) -> bool:
    """Return whether a vacuum began or ended between two versions, as far as the commits are there."""
    storage = now.table.storage
    for version in range(before.version + 1, now.version + 1):
        if (file := now.listing.commits.get(version)) is None:
            return True
        info = next((action for kind, action in stream_commit(storage, file) if kind == "commitInfo"), {})
        if is_vacuum(info):
            return True
    return False


def with_files(plan: RestorePlan) -> CommitRequest:
    """Return the commit of a plan with its files."""
    condition = plan.where
    reads = FilesOfPartitions(condition.chooses) if isinstance(condition, PartitionCondition) else EveryFile()
    return replace(request_of(plan), body=_body(plan), reads=reads, names_files=True)


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
    """Return the files that came back and are gone by now. What prevents it names the version that was committed."""
    try:
        return _lost(plan)
    except DeltacliError as fault:
        raise PartlyDone(
            f"version {version} was committed; its files could not be looked at again",
            code="restore.not-checked",
            facts={"why": fault.message},
            hint=command("validate", level="storage"),
        ) from fault


def _lost(plan: RestorePlan) -> tuple[ProblemFile, ...]:
    """Return the files that came back and are gone by now."""
    found = plan.difference
    count = found.added_amount.files
    if not count:
        return ()
    adds = chosen_actions(plan.target, found.target.keys, found.added, plan.where, VERIFIED)
    return check_sizes(plan.table, adds, count)
