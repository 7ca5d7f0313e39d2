"""Executing the plan of a vacuum: START, deletions in batches with a check of newer commits before each, END.

Spec: Delta Log Entries; VACUUM Protocol Check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from deltacli.changing.acts import Act
from deltacli.changing.basis import Basis
from deltacli.changing.commit import Committed, commit
from deltacli.core.errors import DeltacliError, NoSpace, Refusal, Refused, StorageFailed, Unreadable, UsageError
from deltacli.core.hints import command, parameter
from deltacli.core.units import CLOCK_SKEW_MS, format_timestamp
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.delta.log.commit_metadata import require_free
from deltacli.delta.log.log_path import LOG_DIRECTORY, commit_name
from deltacli.delta.vacuum.keys import PathKeys
from deltacli.operations.vacuum.deleting import Deletions, Record, is_fresh
from deltacli.operations.vacuum.lite_plan import write_last_vacuum
from deltacli.operations.vacuum.plan import VacuumOutcome, VacuumPlan, VacuumResult
from deltacli.operations.vacuum.rechecking import NewerCommits, adopted
from deltacli.operations.vacuum.request import VacuumRequest
from deltacli.storage import Deleted, folds_names, is_inside
from deltacli.storage.base import StoreWithPlace, other_place
from deltacli.table.find_log import list_log
from deltacli.table.other_tables import tables_above
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.changing.gate import Gate
    from deltacli.operations.vacuum.quarantine.fill import Quarantine
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot


@dataclass(eq=False)
class SavedVacuum:
    """The plan of a file, to be compared with the table and executed from where an earlier run stopped. `tell` gets
    notes on the run.
    """

    act: ClassVar[Act] = Act.DELETE

    path: str
    request: VacuumRequest
    accept_copy: bool = False
    tell: Callable[[str], None] = lambda _: None
    was_complete: bool = False
    """An earlier run has executed the whole plan."""

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> VacuumPlan:
        """Read the plan. That it cannot be executed on this table is among its refusals."""
        from deltacli.operations.vacuum.saved.plan_file import read_plan

        plan = read_plan(self.path)
        if self.request.quarantine is not None:
            plan = with_quarantine(table, plan, self.request.quarantine)
        try:
            return adopted(table, plan, now, accept_copy=self.accept_copy)
        except Refused as refused:
            first = Refusal(refused.code, refused.message, refused.hint, refused.override, facts=refused.facts)
            refusals = (first, *plan.refusals)
            return replace(plan, table=table.uri, refusals=refusals, made_from=Basis(table, -1, plan.now_ms))

    def outcome(self, plan: VacuumPlan) -> VacuumResult:
        """Return the plan, of which nothing was deleted yet."""
        return VacuumResult(plan, VacuumOutcome())

    def execute(self, gate: Gate[VacuumPlan, VacuumResult]) -> None:
        """Delete what the record beside the file does not list as done, and write a report there. Raises what
        `execute_vacuum` and the record raise.
        """
        from deltacli.operations.vacuum.saved.plan_file import write_report
        from deltacli.operations.vacuum.saved.progress_record import ProgressRecord, describe

        with ProgressRecord(self.path, gate.plan) as record:
            gate.outcome = VacuumResult(gate.plan, record.counts)
            if record.is_completed or record.resume_at:
                self.tell(describe(record))
            self.was_complete = record.is_completed
            if self.was_complete:
                return
            execute_by(gate, self.request, record)
        report = write_report(*gate.outcome, self.path, now_ms=gate.table.clock())
        self.tell(f"the report is {report}")


def execute_by(gate: Gate[VacuumPlan, VacuumResult], request: VacuumRequest, record: Record | None = None) -> None:
    """Execute the plan of a gate, and note whether something was committed or deleted."""
    outcome = gate.outcome.outcome
    assert outcome is not None  # it begins with an empty one
    before = outcome.start_version, outcome.deleted
    try:
        execute_vacuum(gate.table, gate.plan, request, outcome=outcome, record=record)
    finally:
        gate.has_begun = before != (outcome.start_version, outcome.deleted)


def note_progress(plan: VacuumPlan) -> None:
    """Record how far the log was examined where there was nothing to delete, so that LITE continues from there."""
    if plan.is_noop:
        _note_horizon(plan.basis.table, plan)


def execute_vacuum(
    table: TableHandle,
    plan: VacuumPlan,
    request: VacuumRequest | None = None,
    *,
    outcome: VacuumOutcome | None = None,
    record: Record | None = None,
) -> VacuumOutcome:
    """Delete the candidates of a plan, except files that a newer version needs. `outcome` is updated meanwhile; with a
    `record` it begins with the record's counts. Where the plan or the request names a quarantine, all of them are
    copied first.

    Raises Refused where the plan has refusals, or is of another table or past (`adopted`, of a saved plan), or where a
    newer version forbids it; what `commit` raises; and StorageFailed. On any error END is committed with the status
    FAILED where that is still possible.
    """
    chosen = request or VacuumRequest()
    found = outcome if outcome is not None else record.counts if record is not None else VacuumOutcome()
    require_free(chosen.commit_metadata)
    require_executable(plan)
    if plan.made_from is None:
        plan = adopted(table, plan)
    table = bound(table, plan)
    if plan.is_noop:
        _note_horizon(table, plan)
        return found
    if chosen.quarantine is not None:
        plan = with_quarantine(table, plan, chosen.quarantine)
    quarantine = None
    if plan.quarantine is not None:
        quarantine = _fill(table, plan, plan.quarantine, found, record)
        table = bound(table, plan)
    was_looked_at = quarantine is None and plan.looked_at is not None
    if not was_looked_at or (table.storage.capabilities.cheap_listing and not is_fresh(plan)):
        _require_no_new_tables(table, plan)
    keys = PathKeys((table.uri, *table.storage.aliases), folds_case=folds_names(table.storage))
    newer = NewerCommits(table, keys, plan)
    deletions = Deletions(table, plan, found, newer, record, chosen.threads, chosen.rate)
    logs = chosen.log_entries and plan.files > 0
    if logs:
        found.start_version = _commit_start(table, plan, newer, chosen.commit_metadata)
    else:
        newer.require_same(read_snapshot(table))
    status = "FAILED"
    try:
        _require_store_clock(table, plan, found)
        deletions.run()
        _remove_directories(table, plan, found)
        status = "FAILED" if found.failed.count else "COMPLETED"
    finally:
        if logs:
            _commit_end(table, found, status, chosen.commit_metadata)
    if quarantine is not None and not found.failed.count:
        quarantine.complete()
    if not found.failed.count and not found.spared:  # LITE would skip files that were spared for their age
        _note_horizon(table, plan)  # before the record is marked as complete
    if record is not None:
        record.finish(found, completed=not found.failed.count)
    return found


def bound(table: TableHandle, plan: VacuumPlan) -> TableHandle:
    """Return the table bound to the directory of a plan. Raises Refused (`plan.other-place`) where it is another."""
    own = plan.basis.table.storage
    if isinstance(own, StoreWithPlace) and isinstance(table.storage, StoreWithPlace):
        return table.held(own.place)
    if not (is_inside(own, table.storage) and is_inside(table.storage, own)):
        raise other_place(table.uri)
    plan.basis.table.held()
    return table


def with_quarantine(table: TableHandle, plan: VacuumPlan, uri: str) -> VacuumPlan:
    """Return the plan with a quarantine. Raises UsageError where it has another one, and what `open_quarantine`
    raises.
    """
    from deltacli.operations.vacuum.quarantine.fill import open_quarantine

    asked = open_quarantine(table, uri)
    if plan.quarantine is not None:
        own = table.open_other(plan.quarantine)
        if not (is_inside(own, asked) and is_inside(asked, own)):
            raise UsageError(
                "the plan was made for another quarantine",
                facts={"of the plan": plan.quarantine, "asked for": asked.uri},
                hint=f"leave out {parameter('vacuum.quarantine')}, or make another plan",
            )
    return replace(plan, quarantine=plan.quarantine or asked.uri)


def _fill(table: TableHandle, plan: VacuumPlan, uri: str, outcome: VacuumOutcome, record: Record | None) -> Quarantine:
    """Copy the files of a plan to its quarantine. Raises what that raises, with nothing deleted."""
    from deltacli.operations.vacuum.quarantine.fill import Quarantine

    quarantine = Quarantine(table, plan, uri)
    quarantine.fill([range(plan.files)] if record is None else record.pending)
    outcome.quarantine = quarantine.uri
    return quarantine


def _require_store_clock(table: TableHandle, plan: VacuumPlan, outcome: VacuumOutcome) -> None:
    """Raise Refused where the store's clock is behind the local one, because files may then be newer than they appear.

    Only where the time is that of the local clock; a given `--now` is accepted.
    """
    version = outcome.start_version
    if version is None or table.has_given_clock:
        return
    now_ms = max(plan.now_ms, table.clock())
    written_ms = table.storage.stat(f"{LOG_DIRECTORY}/{commit_name(version)}").modified_ms
    if 0 < written_ms < now_ms - CLOCK_SKEW_MS:
        raise Refused(
            f"the store's clock is {format_timestamp(written_ms)}, the local clock {format_timestamp(now_ms)}: one is "
            "wrong, and files may be newer than they appear",
            code="vacuum.clock-skew",
            hint="date -u",
        )


def _require_no_new_tables(table: TableHandle, plan: VacuumPlan) -> None:
    """Raise Refused where another table was created in a directory that a plan deletes from."""
    found = tables_above(table, plan.candidates.column("path").combine_chunks())
    new = sorted(directory for directory in found if directory)
    if new:
        raise Refused(
            f"{new[0]} has become a table of its own, whose files would be deleted",
            code="vacuum.nested-table",
            facts={"plan": f"of version {plan.snapshot_version}, {format_timestamp(plan.now_ms)}"},
            hint=command("vacuum", dry_run=True),
        )


def _note_horizon(table: TableHandle, plan: VacuumPlan) -> None:
    """Record the version up to which everything was deleted, from which LITE continues. A failure only affects LITE."""
    if plan.horizon is not None:
        with suppress(StorageFailed, Unreadable, Refused):
            newest = list_log(table.storage, start_version=plan.snapshot_version).newest_version
            write_last_vacuum(table.writable(), plan.horizon, plan.cutoff_ms, newest=newest)


def require_executable(plan: VacuumPlan) -> None:
    """Raise Refused for the first refusal of a plan."""
    if (refusal := plan.objection()) is not None:
        raise refusal


def _commit_start(table: TableHandle, plan: VacuumPlan, newer: NewerCommits, commit_metadata: Mapping[str, str]) -> int:
    def make(snapshot: Snapshot) -> CommitRequest:
        newer.require_same(snapshot)
        parameters: dict[str, object] = {
            "retentionCheckEnabled": not plan.allows_below,
            "defaultRetentionMillis": plan.own_retention_ms,
        }
        if plan.retention_ms != plan.own_retention_ms:
            parameters["specifiedRetentionMillis"] = plan.retention_ms
        return CommitRequest(
            "VACUUM START",
            parameters,
            {"numFilesToDelete": plan.files, "sizeOfDataToDelete": plan.size_bytes},
        )

    try:
        made = commit(table, make, commit_metadata=commit_metadata)
    except NoSpace as fault:
        raise NoSpace(
            f"nothing was deleted, because VACUUM START could not be committed: {fault.message}",
            facts={
                "to free space": f"{parameter('vacuum.log_entries', False)} deletes the same files and commits nothing"
            },
            hint=command("vacuum", log_entries=False),
        ) from fault
    assert isinstance(made, Committed)  # `make` never returns None
    return made.version


def _commit_end(table: TableHandle, outcome: VacuumOutcome, status: str, commit_metadata: Mapping[str, str]) -> None:
    """Commit END. Because the files are deleted already, a failure is recorded in the outcome and not raised."""
    is_complete = status == "COMPLETED"
    metrics = {"numDeletedFiles": outcome.deleted.files, "numVacuumedDirectories": outcome.directories_removed}
    request = CommitRequest("VACUUM END", {"status": status}, metrics if is_complete else {})
    try:
        made = commit(table, lambda _snapshot: request, commit_metadata=commit_metadata)
    except DeltacliError as fault:
        outcome.end_problem = fault.message
    else:
        assert isinstance(made, Committed)  # the request is never None
        outcome.end_version, outcome.end_status = made.version, status


def _remove_directories(table: TableHandle, plan: VacuumPlan, outcome: VacuumOutcome) -> None:
    """Remove empty directories, deepest first; one that contains a file by now is kept."""
    storage = table.writable()
    if not storage.capabilities.has_directories:
        return
    for path in plan.directories:
        with suppress(StorageFailed):
            outcome.directories_removed += isinstance(storage.remove_directory(path), Deleted)
