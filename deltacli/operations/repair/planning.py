"""Planning a repair: a validation, then a step for each finding that something can be done about.

What readers need to open the table comes first: files of the log, then data files, then what the commits determine. A
plan whose log is incomplete ends there; what follows is planned once it is back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deltacli.delta.protocol.protocol_action import require_committable
from deltacli.delta.rules.framework.base import Severity
from deltacli.delta.rules.framework.repair_steps import Family, row_of
from deltacli.errors import DeltacliError, NotATable, Refused, Unreadable
from deltacli.hints import parameter
from deltacli.operations.log.log_copy import find_table_id, list_whole_log, versioned
from deltacli.operations.repair.bring_log import has_log, plan_log_files
from deltacli.operations.repair.files import FilesPlan, plan_files
from deltacli.operations.repair.log_caches import plan_checkpoints, plan_checksums, plan_compactions, plan_hint
from deltacli.operations.repair.plan import (
    Planned,
    Refusal,
    RepairPlan,
    Step,
    StepState,
    Unrepaired,
    joined,
    left,
)
from deltacli.operations.table.find_log import list_log, missing_log, refuse_paimon
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.operations.validate.request import ValidateRequest
from deltacli.operations.validate.validate import validate_table
from deltacli.storage.base import require_writable
from deltacli.units import format_size, plural
from deltacli.work.commits.provenance import read_provenance

if TYPE_CHECKING:
    from deltacli.delta.log.segment import LogListing
    from deltacli.delta.rules.framework.base import Finding
    from deltacli.operations.repair.request import RepairRequest
    from deltacli.operations.table.handle import TableHandle
    from deltacli.operations.table.version import Snapshot
    from deltacli.operations.validate.validate import Validation

_IN_USE_MS = 3_600_000
_OWN_OPERATION = "FSCK"

Findings = Mapping[Family, Sequence["Finding"]]


def plan_repair(table: TableHandle, request: RepairRequest) -> RepairPlan:
    """Validate a table and return what would be done about the findings.

    Raises PaimonTable, NotATable where neither the table nor a source has a log, Refused for a source that is not one
    of this table, UsageError and StorageFailed.
    """
    require_writable(table.storage)
    if not has_log(table):
        refuse_paimon(table.storage)
        if not request.sources:
            raise missing_log(table.storage)
    validation = _validated(table, request)
    by_family, others = _sorted(() if validation is None else validation.findings)
    files = list_whole_log(table.storage) or {}
    now = _snapshot(table) if validation is not None and validation.is_readable else None
    obstacle = _obstacle(now)
    checkpoints, stuck = plan_checkpoints(table, by_family[Family.CHECKPOINT], files, obstacle, others)
    if validation is None:
        log = plan_log_files(table, request, _no_log(), frozenset(), is_readable=False)
    else:
        log = plan_log_files(table, request, by_family[Family.LOG], stuck, is_readable=now is not None)
    is_partial = bool(log.work) or now is None
    data = FilesPlan(Planned())
    if log.work:
        parts = [log]
    elif now is None:
        parts = [log, checkpoints, plan_hint(by_family[Family.HINT], files, obstacle)]
    else:
        data = plan_files(table, request, by_family[Family.FILES], now, obstacle)
        listing = versioned(files.values())
        parts = [
            log,
            data.planned,
            plan_compactions(by_family[Family.COMPACTION], listing),
            checkpoints,
            plan_checksums(by_family[Family.CHECKSUM], listing, obstacle),
            plan_hint(by_family[Family.HINT], files, obstacle),
        ]
    found = joined(parts)
    unrepaired = [*found.unrepaired, *(left(one, row_of(one.rule.id).reason) for one in others)]
    unrepaired += _waiting(by_family, found, unrepaired, is_readable=now is not None)
    plan = RepairPlan(
        table,
        request,
        None if validation is None else validation.version,
        now.metadata.id if now is not None else find_table_id(table.storage, table.engine) if files else None,
        tuple(found.steps),
        tuple(found.work),
        tuple(one for one in unrepaired if one.severity is not Severity.INFO),
        notes=tuple(found.notes),
        is_partial=is_partial and bool(found.work),
    )
    return _guarded(plan, data, table)


def _no_log() -> Sequence[Finding]:
    from deltacli.delta.log.log_path import LOG_DIRECTORY, Place
    from deltacli.delta.rules.framework.catalogue import CATALOGUE

    return [CATALOGUE.rules["log.not-a-table"].at(Place(LOG_DIRECTORY), "the directory has no log")]


def _validated(table: TableHandle, request: RepairRequest) -> Validation | None:
    """Return the validation, None where there is nothing at the path."""
    asked = ValidateRequest(level=request.level, select=request.select, max_findings=0)
    try:
        return validate_table(table, asked)
    except NotATable:
        return None


def _sorted(findings: Sequence[Finding]) -> tuple[Findings, list[Finding]]:
    """Return the findings by what plans their steps, and those that have none."""
    by_family: dict[Family, list[Finding]] = {family: [] for family in Family}
    others: list[Finding] = []
    for finding in findings:
        family = row_of(finding.rule.id).family
        (others if family is None else by_family[family]).append(finding)
    return by_family, others


def _snapshot(table: TableHandle) -> Snapshot | None:
    try:
        return read_snapshot(table)
    except Unreadable:
        return None


def _obstacle(now: Snapshot | None) -> str | None:
    """Return why nothing may be committed or written for a version, None where it may."""
    if now is None:
        return None
    try:
        require_committable(now.protocol, now.properties, now.version)
    except Refused as fault:
        return fault.message
    return None


def _waiting(
    findings: Findings, found: Planned, unrepaired: Sequence[Unrepaired], *, is_readable: bool
) -> Iterator[Unrepaired]:
    """Yield the findings that can be judged only once the log is back."""
    known = {(one.rule, one.place) for one in found.steps} | {(one.rule, one.place) for one in unrepaired}
    if is_readable and not any(step.rule.startswith("log.") for step in found.steps):
        return
    for finding in (one for group in findings.values() for one in group):
        if (finding.rule.id, finding.place) not in known:
            yield left(finding, "it can be judged only once the newest version can be rebuilt")


def _guarded(plan: RepairPlan, data: FilesPlan, table: TableHandle) -> RepairPlan:
    """Return a plan with the steps refused that a guard objects to."""
    refusals = list(_refusals(plan, data))
    in_use = _in_use(plan, table)
    if in_use is not None:
        refusals.append(in_use)
    stops_all = any(one.code in ("repair.too-much-missing", "repair.listing-differs") for one in refusals)
    codes = {one.code: one.message for one in refusals}

    def judged(step: Step) -> Step:
        reason = None
        if stops_all:
            reason = refusals[0].message
        elif step.loses is not None and "repair.loss-not-accepted" in codes:
            reason = codes["repair.loss-not-accepted"]
        elif in_use is not None and plan.work[step.work].is_sensitive:
            reason = in_use.message
        return step if reason is None else step._replace(state=StepState.REFUSED, reason=reason)

    return replace(plan, steps=tuple(map(judged, plan.steps)), refusals=tuple(refusals))


def _refusals(plan: RepairPlan, data: FilesPlan) -> Iterator[Refusal]:
    if data.returned and data.lost:
        yield Refusal(
            "repair.listing-differs",
            f"{plural(len(data.returned), 'file')} that the listing lacks are there when they are asked for",
            {"first": data.returned[0], "why": "what else is missing may be there, too"},
        )
    if not data.lost:
        return
    loss = plan.loss
    limit = plan.request.max_missing
    if data.lost > limit * data.live or (data.whole_directories and limit < 1):
        whole_ones = f", all of {data.whole_directories[0] or 'the table'}" if data.whole_directories else ""
        yield Refusal(
            "repair.too-much-missing",
            f"{data.lost:,} of {plural(data.live, 'live file')} cannot be read{whole_ones}: the wrong directory may be "
            f"mounted, or a prefix be missing",
            {"limit": f"{limit:.0%}", "to give them up nevertheless": parameter("repair.max_missing", "100%")},
        )
    if not plan.request.accept_loss:
        rows = "an unknown number of rows" if loss.rows is None else plural(loss.rows, "row")
        what = f"{plural(loss.files, 'file')} with {rows} ({format_size(loss.size_bytes)})"
        yield Refusal(
            "repair.loss-not-accepted",
            f"{what} would be given up, because no source has {'it' if loss.files == 1 else 'them'}",
            {
                "to look elsewhere": parameter("repair.sources", "COPY"),
                "to give them up": parameter("repair.accept_loss", True),
            },
        )


def _in_use(plan: RepairPlan, table: TableHandle) -> Refusal | None:
    """Return the refusal for a table to which others committed within the last hour."""
    if plan.request.allow_in_use or not any(plan.work[step.work].is_sensitive for step in plan.steps):
        return None
    try:
        listing = list_log(table.storage)
    except NotATable:
        return None
    newest = _newest_of_others(table, listing)
    if newest is None:
        return None
    return Refusal(
        "repair.table-in-use",
        f"version {newest} was committed within the last hour, so a writer may be active",
        {"to repair nevertheless": parameter("repair.allow_in_use", True)},
    )


def _newest_of_others(table: TableHandle, listing: LogListing) -> int | None:
    """Return the newest version of the last hour that no repair made."""
    since = table.clock() - _IN_USE_MS
    for version in sorted(listing.commits, reverse=True):
        file = listing.commits[version]
        if file.modified_ms < since:
            return None
        try:
            info = read_provenance(table.storage, file).commit_info or {}
        except DeltacliError:
            info = {}
        is_own = info.get("operation") == _OWN_OPERATION and str(info.get("engineInfo")).startswith("deltacli/")
        if not is_own:
            return version
    return None
