"""The streaming queries of a table as a result: the worst first, with what each needs."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.cli.output.results import SingleResult
from deltacli.cli.output.sections import Section
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.times import DAY_MS, UNITS_MS, format_duration, format_moment
from deltacli.core.units import format_count, format_size, plural
from deltacli.operations.streams.checkpoints import Verdict
from deltacli.operations.streams.streams import (
    COLUMNS,
    Delivery,
    RestartPoint,
    StreamQuery,
    StreamSource,
    StreamsReport,
)

_STYLES = {Verdict.DEAD: Style.PROBLEM, Verdict.UNKNOWN: Style.PROBLEM, Verdict.AT_RISK: Style.WARNING}


def streams_result(report: StreamsReport, table: str) -> SingleResult:
    content = report.as_json()
    return SingleResult("streams", table, content, lambda: list(_sections(report)), list(report.rows()), COLUMNS)


def _sections(report: StreamsReport) -> Iterator[Section]:
    counts = report.verdicts()
    named = ", ".join(f"{counts[one]} {one.value}" for one in [*Verdict][::-1] if counts[one])
    total = plural(len(report.queries), "query") if len(report.queries) == 1 else f"{len(report.queries):,} queries"
    yield Section("found", [f"{total}: {named}" if named else total])
    if report.others:
        yield Section("others", [f"{format_count(report.others)} that read no version of this table"])
    for query in report.queries:
        finding = query.finding
        yield Section(finding.verdict.value, list(_lines(query)), _STYLES.get(finding.verdict, Style.PLAIN))


def _lines(query: StreamQuery) -> Iterator[str]:
    point = query.checkpoint
    batch = "no batch yet" if point.newest is None else f"batch {point.newest}"
    state = "" if point.newest is None or point.is_committed else ", not finished"
    yield f"{query.name}: {batch}{state}"
    yield f"checkpoint {point.name}, query {point.query_id or 'unknown'}"
    said = {query.finding.because, ""}
    if query.finding.because:
        yield query.finding.because
    for source in query.sources:
        yield from _of_source(source, said)


def _of_source(source: StreamSource, said: set[str]) -> Iterator[str]:
    one = source.judgement
    if one is None:
        at = f" at version {source.source.positions[-1].version}" if source.source.positions else ""
        yield f"source {source.source.name}: {source.kind.value}{at}"
    else:
        within = ", in its first snapshot" if one.position.in_snapshot else ""
        behind = "up to date"
        if one.is_ahead_of_log:
            behind = f"ahead of the log, whose newest version is {one.history.newest}"
        elif one.lag.versions:
            size = format_size(one.lag.size_bytes)
            size = f"at least {size}" if one.lacks_commits else size
            behind = f"{plural(one.lag.versions, 'version')} behind, {size}"
        if one.lag.age_ms:
            behind += f", for {format_duration(_coarse(one.lag.age_ms))}"
        ambiguous = ", one of several tables with this id" if one.is_ambiguous else ""
        yield f"source {source.source.name}: {one.history.table.uri}{ambiguous}"
        yield f"  at version {one.position.version}{within}: {behind}"
        first = one.needs.first_version
        last = one.history.newest
        commits = "no commit" if first is None else f"commit{'' if first == last else f's {first} to'} {last}"
        removed = one.feed_needs or one.needs
        files = max(one.needs.files.num_rows, removed.files.num_rows)
        more = f", {plural(removed.change_data.num_rows, 'change file')}" if removed.change_data.num_rows else ""
        yield f"  needs {commits}, {plural(files, 'removed file')}{more}"
        if one.safe_until is not None:
            is_over = one.safe_until.time_ms <= one.history.table.clock()
            yield f"  {'may be deleted since' if is_over else 'kept until'} {format_moment(one.safe_until.time_ms)} UTC"
        if one.feed is not None and one.feed.verdict is not one.rows.verdict:
            yield f"  as a change feed {one.feed.verdict.value}{f': {one.feed.because}' if one.feed.because else ''}"
    if source.finding is not None and source.finding.because not in said:
        yield f"  {source.finding.because}"
    if source.restart is not None:
        yield from _of_restart(source.restart)


def _coarse(age_ms: int) -> int:
    unit = next((one for one in (DAY_MS, UNITS_MS["hour"], UNITS_MS["minute"]) if age_ms >= 2 * one), 1_000)
    return age_ms // unit * unit


def _of_restart(point: RestartPoint) -> Iterator[str]:
    yield f"  start over: startingVersion {point.starting_version}, with a new checkpoint"
    if point.of_feed is not None:
        yield f"  as a change feed: startingVersion {point.of_feed}"
    newest_start = point.starting_version if point.of_feed is None else max(point.starting_version, point.of_feed)
    if point.is_future(newest_start):
        yield f"  version {newest_start} does not exist yet, and Delta refuses it: wait for it"
        yield "  startingVersion latest skips what is committed before the query starts"
    if point.lost.is_unknown:
        yield "  lost: unknown, what was written since the log was set back may not have been delivered"
    for name, delivery in (("lost", point.lost), ("delivered again", point.repeated)):
        if delivery.versions is not None:
            yield f"  {name}: {_format_delivery(delivery, *delivery.versions)}"


def _format_delivery(delivery: Delivery, first: int, last: int) -> str:
    versions = f"version {first}" if first == last else f"versions {first} to {last}"
    if delivery.files is None:
        return f"{versions}, files and rows unknown: the log no longer has them"
    rows = "rows unknown" if delivery.rows is None else plural(delivery.rows, "row")
    return f"{versions}, {plural(delivery.files, 'file')}, {rows}"
