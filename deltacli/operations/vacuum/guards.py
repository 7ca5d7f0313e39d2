"""Guards that refuse to execute a vacuum. Spec: Protocol Evolution; VACUUM Protocol Check."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from deltacli.delta.log.segment import BEYOND_LOG
from deltacli.delta.protocol.property_values import DELETED_FILE_RETENTION, parse_interval
from deltacli.hints import command, parameter
from deltacli.operations.table.version import Snapshot
from deltacli.operations.vacuum.plan import Amount, Refusal
from deltacli.operations.vacuum.references import References
from deltacli.operations.vacuum.request import DeletionLimit, VacuumRequest
from deltacli.units import CLOCK_SKEW_MS, DAY_MS, duration, format_duration, format_size, format_timestamp, plural

_MISSING_SHARE = 0.1
_NAMED = 3


def retention_refusals(request: VacuumRequest, retention_ms: int, own_ms: int) -> Iterator[Refusal]:
    """Yield a refusal if the retention is shorter than the table's own, unless the user named that."""
    if retention_ms < own_ms and not allows_below(request, own_ms):
        own = format_duration(own_ms)
        yield Refusal(
            "vacuum.retention",
            f"{format_duration(retention_ms)} is less than the table's own retention of {own}: longer running readers, "
            "writers and streams would lose files",
            parameter("vacuum.allow_retention_below_ms", duration(own_ms)),
        )


def property_refusals(request: VacuumRequest, properties: Mapping[str, str]) -> Iterator[Refusal]:
    """Yield a refusal if the table's retention of removed files is invalid, unless another one is given."""
    text = properties.get(DELETED_FILE_RETENTION)
    if text and request.retention_ms is None and parse_interval(text) is None:
        yield Refusal(
            "property.bad-interval",
            f"{DELETED_FILE_RETENTION} is {text!r}, which is not an interval, so the retention of removed files is "
            "unknown",
            parameter("vacuum.retention_ms", duration(30 * DAY_MS)),
            hint=command("properties set", {DELETED_FILE_RETENTION: "interval 30 days"}),
        )


def allows_below(request: VacuumRequest, own_ms: int) -> bool:
    """Return True if the user named the table's own retention, to allow a shorter one."""
    return request.allow_retention_below_ms is not None and request.allow_retention_below_ms >= own_ms


def log_refusals(references: References) -> Iterator[Refusal]:
    """Yield a refusal if the log is damaged or names files that cannot be resolved."""
    for fault in references.faults[:1]:
        more = len(references.faults) - 1
        others = f", and {plural(more, 'more commit')} cannot be read either" if more else ""
        yield Refusal(fault.code, f"the log is damaged: {fault.message}{others}", hint=command("validate"))
    if references.listing.has_lost_newest:
        yield Refusal(
            BEYOND_LOG,
            f"{references.listing.of_lost_newest}, and the files that they named are unknown",
            hint=command("repair", level="log", sources=["COPY"]),
        )
    if references.escaping is not None:
        yield Refusal(
            "path.escapes-root",
            f"the log names {references.escaping}, which leads outside the table: the file that it means is ambiguous",
            hint=command("validate"),
        )


def clock_refusals(snapshot: Snapshot, references: References, now_ms: int) -> Iterator[Refusal]:
    """Yield a refusal if the clocks of this machine, the store and the writers differ too much to judge files by
    age.
    """
    listing = references.listing
    files = [*listing.commits.values(), *(file for one in listing.checkpoints for file in one.files)]
    newest_ms = max((file.modified_ms for file in files), default=0)
    if newest_ms <= 0:
        yield Refusal(
            "vacuum.unknown-clock",
            "the store does not report when files were written, so their age is unknown",
        )
        return
    for moment, what in (
        (newest_ms, "the newest file of the log was written"),
        (snapshot.time.timestamp_ms if snapshot.time else 0, f"version {snapshot.version} was committed"),
    ):
        if moment > now_ms + CLOCK_SKEW_MS:
            yield Refusal(
                "vacuum.clock-skew",
                f"{what} at {format_timestamp(moment)}, but it is {format_timestamp(now_ms)} now: one clock is wrong, "
                "and files may be newer than they appear",
            )
            return


def listing_refusals(listed: int, expected: Amount, actual: Amount) -> Iterator[Refusal]:
    """Yield a refusal if the listing lacks files that the log names."""
    if not expected.files:
        return
    missing = Amount(expected.files - actual.files, expected.size_bytes - actual.size_bytes)
    if not listed:
        yield Refusal(
            "vacuum.empty-listing",
            f"the listing is empty, but the log has {plural(expected.files, 'live file')}",
            hint=command("validate", level="storage"),
        )
    elif missing.files > _MISSING_SHARE * expected.files or missing.size_bytes > _MISSING_SHARE * expected.size_bytes:
        yield Refusal(
            "vacuum.live-files-missing",
            f"{missing.files:,} of {plural(expected.files, 'live file')} ({format_size(missing.size_bytes)} of "
            f"{format_size(expected.size_bytes)}) are not in the listing, which is therefore incomplete",
            hint=command("validate", level="storage"),
        )


def limit_refusals(request: VacuumRequest, candidates: Amount, live: Amount) -> Iterator[Refusal]:
    """Yield a refusal if more would be deleted than the limit."""
    limit = DeletionLimit.parse(request.max_delete)
    what = f"{plural(candidates.files, 'file')} ({format_size(candidates.size_bytes)})"
    shares = (
        (candidates.files, candidates.files + live.files, "files"),
        (candidates.size_bytes, candidates.size_bytes + live.size_bytes, "bytes"),
    )
    enough = next(percent for percent in range(101) if all(part <= percent / 100 * whole for part, whole, _ in shares))
    override = parameter("vacuum.max_delete", f"{enough}%")
    if limit.size_bytes is not None and candidates.size_bytes > limit.size_bytes:
        yield Refusal(
            "vacuum.max-delete",
            f"{what} would be deleted, above the limit of {limit.text}{' B' if limit.text.isdecimal() else ''}",
            override,
        )
    if limit.share is None:
        return
    for gone, all_of_it, noun in shares:
        if gone > limit.share * all_of_it and all_of_it > 0:
            share = f"{100 * gone / all_of_it:.0f}%"
            message = f"{what}, {share} of all {noun}, would be deleted, above the limit of {limit.text}"
            yield Refusal("vacuum.max-delete", message, override)
            return


def shared_refusals(tables: Iterable[tuple[str, str]], own: Collection[str]) -> Iterator[Refusal]:
    """Yield a refusal if the directory is also a table of another format. `tables`: directory ('': the root) and
    format; `own`: formats that the table itself is kept readable as.
    """
    for shared in sorted({kind for directory, kind in tables if not directory and kind.lower() not in own}):
        yield Refusal(
            "vacuum.shared-directory",
            f"the directory is also a {shared} table, whose files the log does not name",
        )


def outer_refusals(outer: Iterable[str], protected: Collection[str]) -> Iterator[Refusal]:
    """Yield a refusal if the directory is inside another table whose files are not protected."""
    for uri in outer:
        if uri not in protected:
            yield Refusal(
                "vacuum.inside-table",
                f"it is inside the directory of another table, {uri}, whose files here would count as unreferenced",
                f"{parameter('vacuum.protect_from')} {shlex.quote(uri)}",
            )
            return


def nested_refusals(request: VacuumRequest, directories: Sequence[str], in_nested: int) -> Iterator[Refusal]:
    """Yield a refusal if the directory contains other tables."""
    nested = sorted(directories)
    if nested and not request.skip_nested_tables:
        named = ", ".join(nested[:_NAMED]) + (f" and {len(nested) - _NAMED:,} more" if len(nested) > _NAMED else "")
        looks = f"; {plural(in_nested, 'file')} there would count as unreferenced" if in_nested else ""
        yield Refusal(
            "vacuum.nested-table",
            f"{'another table is' if len(nested) == 1 else f'{len(nested):,} tables are'} below it: {named}{looks}",
            parameter("vacuum.skip_nested_tables", True),
        )
