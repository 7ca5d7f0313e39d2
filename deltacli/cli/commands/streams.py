"""`deltacli streams [TABLE] --checkpoints GLOB`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit, outside
from deltacli.cli.options.values import make_choice_parser, make_text_parser
from deltacli.cli.output.results import SingleResult
from deltacli.cli.output.sections import Section
from deltacli.cli.running.run import CommandContext
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.errors import EXIT_FINDINGS, NotATable, PaimonTable, command
from deltacli.core.times import DAY_MS, UNITS_MS, format_duration, format_moment
from deltacli.core.units import format_count, format_size, plural
from deltacli.operations.streams.checkpoints import Verdict
from deltacli.operations.streams.streams import (
    COLUMNS,
    Delivery,
    FailOn,
    RestartPoint,
    StreamQuery,
    StreamSource,
    StreamsReport,
    StreamsRequest,
    find_streams,
    refuse_paimon,
)
from deltacli.storage import Storage
from deltacli.table.discover import find_tables, note_log_backups
from deltacli.table.handle import TableHandle

app = typer.Typer(add_completion=False)

_STYLES = {Verdict.DEAD: Style.PROBLEM, Verdict.UNKNOWN: Style.PROBLEM, Verdict.AT_RISK: Style.WARNING}


@app.command(
    "streams",
    cls=SharedOptionsCommand,
    epilog=exit_codes(
        findings="a query is dead; with --fail-on at-risk: one is not ok", unreadable=True, refused=True, storage=True
    ),
)
def streams(
    context: typer.Context,
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", parser=outside, help="Table directory: a path or URI. Shows its queries only."),
    ] = None,
    *,
    checkpoints: Annotated[
        list[str] | None,
        typer.Option(
            "--checkpoints",
            metavar="GLOB",
            parser=make_text_parser("--checkpoints"),
            help="Checkpoint directories of the queries, also patterns such as 'chk/*'. Repeatable.",
        ),
    ] = None,
    restart_point: Annotated[
        str | None,
        typer.Option(
            "--restart-point",
            metavar="CHECKPOINT",
            help="Show where the query of this checkpoint can start over, and what is lost.",
        ),
    ] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--tables", metavar="GLOB", help="Tables that the queries may read, found by id; also patterns. Repeatable."
        ),
    ] = None,
    fail_on: Annotated[
        FailOn,
        typer.Option(
            "--fail-on",
            metavar="dead|at-risk",
            parser=make_choice_parser(FailOn),
            help="Exit with 1 if a query is dead, or not ok.",
        ),
    ] = FailOn.DEAD,
) -> None:
    """Show which Spark queries can continue, and what they still need.

    \b
    Reads the checkpoint directories of Structured Streaming queries. For each
    source: where a restart begins, how far it is behind, which commits and removed
    files it needs, and until when they are kept. A query is ok, at-risk, unknown
    or dead: a restart fails. A checkpoint names a table by its id only, so name
    TABLE, or tables with --tables. Nothing is changed.

    \b
    What a command writes to stdout and stderr: deltacli help output-streams.

    \b
    Examples:
      deltacli streams ./tbl --checkpoints './chk/*'
      deltacli streams --checkpoints './chk/*' --tables './lake/**'
      deltacli streams ./tbl --restart-point ./chk/orders  # start over
      deltacli streams ./tbl --checkpoints './chk/*' --fail-on at-risk -q
    """
    run: CommandContext = context.obj
    request = StreamsRequest(checkpoints=tuple(checkpoints or ()), restart_point=restart_point)
    try:
        opened = [] if table is None else [run.open_table(table)]
    except PaimonTable as fault:
        raise refuse_paimon(fault) from fault
    named = [*opened, *_found(run, tables or ())]
    report = find_streams(
        request, named, run.open_other, run.engine, is_one_table=table is not None and not tables, progress=run.progress
    )
    run.write(streams_result(report, opened[0].uri if opened else ""))
    if report.fails(fail_on):
        raise Exit(EXIT_FINDINGS)
    if run.is_on_screen and table is not None and request.checkpoints:
        protected = [str(name) for name in request.checkpoints]
        run.say_next(command("vacuum", table=table, protect_streams=protected, dry_run=True))


def _found(run: CommandContext, names: list[str] | tuple[()]) -> Iterator[TableHandle]:
    """Yield the Delta tables at and below paths and patterns. Raises the first fault where a name has no table."""
    if not names:
        return

    def open_(name: str) -> Storage:
        return run.open_other(name)

    targets = find_tables(names, open_, progress=run.progress)
    if not targets.tables and targets.failures:
        raise targets.failures[0][1]
    note_log_backups(run.note, targets.log_backups)
    for name, fault in targets.failures:
        run.note(f"note: {name}: {fault.message}")
    for target in targets.tables:
        if not target.is_paimon:
            yield run.table_of(target.storage, name=target.name)
    if all(target.is_paimon for target in targets.tables):
        raise NotATable("no Delta table is at or below the paths of --tables")


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
