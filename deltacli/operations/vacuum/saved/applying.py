"""Applying a saved plan: whether it may still be executed, and its execution, which continues an earlier one.

The execution reads only commits made after the plan, so the plan's assumptions must still hold: the same table with
the same history, a log with every commit since, and a retention that has not become longer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.changing.basis import Basis, past_of
from deltacli.delta.log.segment import LogListing
from deltacli.delta.paths import text_of
from deltacli.delta.protocol.property_values import DELETED_FILE_RETENTION, deleted_file_retention_ms
from deltacli.delta.vacuum.keys import PathKeys
from deltacli.errors import FileMissing, Refusal, Refused
from deltacli.hints import command, parameter
from deltacli.operations.log.log_copy import digest, log_location
from deltacli.operations.table.find_log import list_log
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.operations.vacuum.execute import execute_by, with_quarantine
from deltacli.operations.vacuum.plan import VacuumOutcome, VacuumPlan, VacuumResult
from deltacli.operations.vacuum.rechecking import NewerCommits
from deltacli.operations.vacuum.saved.plan_file import read_plan, write_report
from deltacli.operations.vacuum.saved.progress_record import ProgressRecord, describe
from deltacli.storage import folds_names, is_address_of
from deltacli.storage.base import OTHER_PLACE
from deltacli.units import format_duration, format_spans, format_timestamp, gaps_in, plural

if TYPE_CHECKING:
    from deltacli.changing.gate import Gate
    from deltacli.operations.table.handle import TableHandle
    from deltacli.operations.table.version import Snapshot
    from deltacli.operations.vacuum.request import VacuumRequest


@dataclass(eq=False)
class SavedVacuum:
    """The plan of a file, to be compared with the table and executed from where an earlier run stopped. `tell` gets
    notes on the run.
    """

    path: str
    request: VacuumRequest
    accept_copy: bool = False
    tell: Callable[[str], None] = lambda _: None
    was_complete: bool = False
    """An earlier run has executed the whole plan."""

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> VacuumPlan:
        """Read the plan. That it cannot be executed on this table is among its refusals."""
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


def digest_commit(table: TableHandle, listing: LogListing, version: int) -> str | None:
    """Return the SHA-256 of a commit file, which identifies a history of the table; None where there is none."""
    file = listing.commits.get(version)
    if file is None:
        return None
    try:
        return digest(table.storage.read(log_location(file.name)))
    except FileMissing:
        return None


def with_past(table: TableHandle, plan: VacuumPlan) -> VacuumPlan:
    """Return the plan with the digest of the commit that it was made from, for saving."""
    version = plan.snapshot_version
    listing = list_log(table.storage, start_version=version, progress=table.progress)
    return replace(plan, snapshot_sha256=digest_commit(table, listing, version))


def adopted(
    table: TableHandle, plan: VacuumPlan, snapshot: Snapshot | None = None, *, accept_copy: bool = False
) -> VacuumPlan:
    """Return the plan of another process, or of a copy with the same past, as one of this table, to be executed.

    Commits after the plan's version may have made some of its candidates live again: the execution spares these.
    Raises Refused, with nothing changed, where the plan cannot be executed on the newest version, and of a copy unless
    that is accepted.
    """
    table = table.held()
    if plan.snapshot_sha256 is None and plan.made_from is not None:
        plan = with_past(plan.made_from.table, plan)
    snapshot = snapshot or read_snapshot(table)
    version, listing = plan.snapshot_version, snapshot.listing
    _require_same_table(plan, snapshot)
    _require_not_newer(plan, snapshot)
    now_ms = table.clock()
    _require_later(plan, now_ms)
    _require_retention(plan, snapshot, now_ms)
    if listing.start_version > version:
        listing = list_log(table.storage, start_version=version, progress=table.progress)
    _require_log_since(table, plan, snapshot, listing)
    if not (accept_copy or is_address_of(table.storage, plan.table)):
        raise _is_elsewhere(table, plan)
    basis = Basis(table, version, plan.now_ms, past_of(listing, version), looked_at=snapshot.listed_at)
    found = replace(plan, table=table.uri, made_from=basis)
    _require_unneeded(found, snapshot)
    return found


def _is_elsewhere(table: TableHandle, plan: VacuumPlan) -> Refused:
    override = parameter("vacuum.accept_copy", True)
    refused = Refused(
        "the plan was made for a table at another address, of which this one is a copy",
        code=OTHER_PLACE,
        facts={"planned for": plan.table, "this table": table.uri},
        hint=f"add {override}",
    )
    refused.override = override
    return refused


def _require_unneeded(plan: VacuumPlan, snapshot: Snapshot) -> None:
    """Raise Refused where a plan names files of the newest version that no commit since the plan has named: no vacuum
    plans that, so the plan was made by something else, or of another log.
    """
    table = snapshot.table
    keys = PathKeys((table.uri, *table.storage.aliases), folds_case=folds_names(table.storage))
    paths = plan.candidates.column("path").combine_chunks()
    candidates = keys.of_listing(paths)
    is_live = pc.is_null(candidates)
    for batch in snapshot.file_actions.narrow():
        if batch.adds is not None and batch.adds.num_rows:
            for found in (keys.of_log(batch.adds.column("path")), keys.of_vectors(batch.adds.column("dv_id"))):
                is_live = pc.or_(is_live, pc.is_in(candidates, value_set=pc.drop_null(found.hashes)))
    if not pc.any(is_live).as_py():
        return
    named = pc.filter(paths, pc.and_not(is_live, NewerCommits(table, keys, plan).needed(paths)))
    if len(named):
        raise Refused(
            f"the plan deletes {plural(len(named), 'file')} of the newest version",
            code="vacuum.plan-names-live",
            facts={"first": text_of(named[0].as_py()), "newest": f"version {snapshot.version}"},
            hint=command("vacuum", save_plan="plan.parquet"),
        )


def _require_same_table(plan: VacuumPlan, snapshot: Snapshot) -> None:
    if snapshot.metadata.id != plan.table_id:
        raise Refused(
            "the plan is of another table",
            code="vacuum.plan-other-table",
            facts={
                "planned for": plan.table,
                "table id of the plan": plan.table_id,
                "table id of this table": snapshot.metadata.id,
            },
            hint=command("vacuum", save_plan="plan.parquet"),
        )


def _require_not_newer(plan: VacuumPlan, snapshot: Snapshot) -> None:
    if plan.snapshot_version > snapshot.version:
        raise Refused(
            f"the plan is of version {plan.snapshot_version}, but the newest of the table is {snapshot.version}",
            code="vacuum.plan-newer",
            facts={"why": "the log was restored from a backup, or the table was replaced", "next": "make a new plan"},
            hint=command("vacuum", save_plan="plan.parquet"),
        )


def _require_later(plan: VacuumPlan, now_ms: int) -> None:
    if now_ms < plan.now_ms:
        raise Refused(
            "the clock is before the time of the plan",
            code="vacuum.clock-skew",
            facts={
                "planned at": format_timestamp(plan.now_ms),
                "now": format_timestamp(now_ms),
                "next": "set the clock, or make a new plan",
            },
            hint=command("vacuum", save_plan="plan.parquet"),
        )


def _require_retention(plan: VacuumPlan, snapshot: Snapshot, now_ms: int) -> None:
    """Raise Refused where the table's own retention is longer than the one that the user named to go below it."""
    own_ms = deleted_file_retention_ms(snapshot.properties)
    is_consented = plan.allows_below and own_ms <= plan.own_retention_ms
    if plan.cutoff_ms > now_ms - own_ms and not is_consented:
        raise Refused(
            "the plan deletes files that the table's retention now protects",
            code="vacuum.plan-retention",
            facts={
                "planned up to": format_timestamp(plan.cutoff_ms),
                "allowed up to": format_timestamp(now_ms - own_ms),
                DELETED_FILE_RETENTION: f"{format_duration(own_ms)}, was {format_duration(plan.own_retention_ms)}",
                "next": "make a new plan",
            },
            hint=command("vacuum", save_plan="plan.parquet"),
        )


def _require_log_since(table: TableHandle, plan: VacuumPlan, snapshot: Snapshot, listing: LogListing) -> None:
    """Raise Refused unless every commit since the plan exists, and that of the plan's version is unchanged."""
    version = plan.snapshot_version
    digest = digest_commit(table, listing, version)
    is_known = digest is not None or plan.snapshot_sha256 is None
    missing = gaps_in(listing.commits, version + 1 if is_known else version, snapshot.version)
    if missing:
        raise Refused(
            "commits since the plan are no longer in the log, so the files they need are unknown",
            code="vacuum.plan-too-old",
            facts={
                "planned at": f"version {version}, {format_timestamp(plan.now_ms)}",
                "newest": str(snapshot.version),
                "missing commits": format_spans(missing),
                "next": "make a new plan",
            },
            hint=command("vacuum", save_plan="plan.parquet"),
        )
    if plan.snapshot_sha256 not in (None, digest):
        raise Refused(
            f"commit {version} has changed since the plan was made: the table has another history",
            code="vacuum.plan-other-past",
            facts={"why": "the log was restored from a backup and then changed", "next": "make a new plan"},
            hint=command("vacuum", save_plan="plan.parquet"),
        )
