"""What stops steps of a repair: loss without consent, a mount that may be missing, a table that others write to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from deltacli.errors import DeltacliError, NotATable
from deltacli.hints import command, parameter
from deltacli.operations.recover.plan import Refusal
from deltacli.operations.repair.plan import RepairPlan, Step, StepState
from deltacli.operations.table.find_log import list_log
from deltacli.units import format_size, plural
from deltacli.work.commits.provenance import read_provenance

if TYPE_CHECKING:
    from deltacli.delta.log.segment import LogListing
    from deltacli.operations.repair.files import FilesPlan
    from deltacli.operations.table.handle import TableHandle

_IN_USE_MS = 3_600_000
_OWN_OPERATION = "FSCK"
_STOPS_ALL = ("repair.too-much-missing", "repair.listing-differs")


def guarded(plan: RepairPlan, data: FilesPlan, table: TableHandle) -> RepairPlan:
    """Return a plan with the steps refused that a guard objects to."""
    refusals = [*plan.refusals, *_refusals(plan, data)]
    in_use = _in_use(plan, table)
    if in_use is not None:
        refusals.append(in_use)
    stop = next((one for one in refusals if one.code in _STOPS_ALL), None)
    codes = {one.code: one.message for one in refusals}

    def judged(step: Step) -> Step:
        reason = None
        if step.state is not StepState.PLANNED:
            return step
        if stop is not None:
            reason = stop.message
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
    if data.renamed:
        (path, other), *more = data.renamed.items()
        also = f", and {plural(len(more), 'more file')}" if more else ""
        yield Refusal(
            "repair.file-renamed",
            f"{path} is missing, and {other}, which no log names, is what the log says of it{also}: a path in a commit "
            "may be damaged",
            {
                "if it is the file": f"copy {other} to {path}",
                "if it is another one": f"move {other} out of the table",
            },
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
            {
                "limit": f"{limit:.0%}",
                "first": "look whether the right directory is mounted",
                "to list what is missing": command("validate", level="storage"),
                "to give them up nevertheless": parameter("repair.max_missing", "100%"),
            },
        )
    if loss.files and not plan.request.accept_loss:
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
    if plan.request.allow_in_use or not any(plan.work[step.work].is_sensitive for step in plan.planned):
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
