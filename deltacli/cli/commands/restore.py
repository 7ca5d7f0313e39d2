"""`deltacli restore TABLE`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.changing.file_totals import FileTotals
from deltacli.cli.command_classes import ClusterCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.moments import parse_timestamp_option
from deltacli.cli.options.streams import CheckpointsOption
from deltacli.cli.options.tables import CommitMetadataOption, DryRunOption, TableArgument, YesOption
from deltacli.cli.options.values import make_text_parser, parse_whole_number
from deltacli.cli.running.changing import ChangePresentation, Mode, run_change
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.stream_notes import note_streams
from deltacli.core.errors import UsageError, quote_table
from deltacli.core.units import format_size, plural
from deltacli.delta.log.actions import parse_commit_metadata

if TYPE_CHECKING:
    from deltacli.operations.restore.restore import RestoreOutcome, RestorePlan
    from deltacli.operations.streams.streams import StreamsReport

app = typer.Typer(add_completion=False)


@app.command(
    "restore",
    cls=ClusterCommand,
    epilog=exit_codes(
        findings="with --check: the table differs from that version",
        unreadable=True,
        refused=True,
        partly="committed, but files are gone or could not be checked",
        conflict=True,
        storage=True,
        unknown=True,
    ),
)
def restore(
    context: typer.Context,
    table: TableArgument,
    *,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            parser=make_text_parser("--where"),
            help="Restore only partitions that match: \"date >= '2026-01-01'\".",
        ),
    ] = None,
    sources: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="versions|DIRECTORY|URI",
            parser=make_text_parser("--from"),
            help="Where to look for missing files: versions that the store keeps, or a copy of the table. Repeatable.",
        ),
    ] = None,
    trust_listing: Annotated[
        bool, typer.Option("--trust-listing", help="Do not read the footers of files that come back, only their sizes.")
    ] = False,
    allow_removals: Annotated[
        bool, typer.Option("--allow-removals", help="Remove files also where delta.appendOnly is true.")
    ] = False,
    commit_metadata: CommitMetadataOption = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", parser=parse_whole_number, help="Restore this version.")
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp",
            metavar="T",
            help="Restore the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 if something differs, 4 if refused.")
    ] = False,
    checkpoints: CheckpointsOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Bring a table back to an earlier version, in one commit.

    \b
    Rows, schema, partitioning and properties become those of that version; later
    versions stay in the log, so a restore can be undone by another one. Files are
    checked first: the sizes of all, footers and vectors of those that come back.
    Nothing is committed if one is missing or damaged. Features, id counters and the
    longer retention are kept. With --where only the matching
    partitions come back, and the schema and the properties stay as they are.

    \b
    Examples:
      deltacli history ./tbl --limit 5  # which version was good?
      deltacli restore ./tbl --version 12 --dry-run
      deltacli restore ./tbl --version 12
      deltacli restore ./tbl --timestamp 2026-01-31T12:00:00Z --yes
      deltacli restore ./tbl --version 12 --where "day = '2026-01-31'"
      deltacli restore ./tbl --version 12 --from /backups/tbl  # missing files
      deltacli restore ./tbl --version 12 --check  # exit 1 if it differs
    """
    run: CommandContext = context.obj
    at_ms = parse_timestamp_option(version, timestamp)
    if version is None and at_ms is None:
        raise UsageError(
            "the version to restore is missing: --version N or --timestamp T",
            code="usage.version",
            hint=f"deltacli history {quote_table(table)}",
        )
    added_keys = parse_commit_metadata(commit_metadata or [])
    mode = Mode(dry_run, yes, check)
    delta_table = run.open_table(table, writes=not mode.only_plans)
    change = delta_table.prepare_restore(
        version=version,
        timestamp_ms=at_ms,
        where=where,
        sources=tuple(sources or ()),
        trust_listing=trust_listing,
        allow_removals=allow_removals,
        commit_metadata=added_keys,
    )
    streams = note_streams(run, delta_table, checkpoints)
    run_change(run, change, _make_presentation(table, streams), mode)


def _make_presentation(table: str, streams: StreamsReport | None) -> ChangePresentation[RestorePlan, RestoreOutcome]:
    """Return the presentation of a restore. Its notes name the streaming queries of `streams` that it would stop."""
    from deltacli.cli.render.restore import restore_result

    def list_stopped_queries(plan: RestorePlan) -> Iterable[str]:
        if streams is None or plan.is_noop:
            return ()
        return streams.describe_stopped(
            metadata=plan.small.metadata,
            protocol=plan.small.protocol,
            removes_files=bool(plan.difference.removed_amount.files),
        )

    def suggest_history(outcome: RestoreOutcome) -> str | None:
        return None if outcome.committed_version is None else f"deltacli history {quote_table(table)} --limit 3"

    return ChangePresentation(
        build_question=_build_question,
        build_plan_result=lambda plan, is_plan: restore_result(plan, None, is_plan=is_plan),
        build_outcome_result=lambda outcome: restore_result(outcome.plan, outcome, is_plan=False),
        suggest_after_change=suggest_history,
        override_options={"restore.append-only": "--allow-removals"},
        list_notes=list_stopped_queries,
    )


def _build_question(plan: RestorePlan) -> str:
    condition = "" if plan.request.where is None else f" where {plan.request.where}"
    added = _describe_files(plan.difference.added_amount)
    removed = _describe_files(plan.difference.removed_amount)
    question = (
        f"restore version {plan.target.version} of {plan.table.uri}{condition}: bring back {added}, remove {removed}"
    )
    if plan.brought is None:
        return question
    size = format_size(plan.brought.size_bytes)
    return f"{question}, {plural(plan.brought.count, 'file')} ({size}) of which are copied"


def _describe_files(totals: FileTotals) -> str:
    """Return a number of files with their size and rows: `3 files (1.2 MiB, 700 rows)`."""
    if not totals.files:
        return "no file"
    rows = "" if totals.rows is None else f", {plural(totals.rows, 'row')}"
    return f"{plural(totals.files, 'file')} ({format_size(totals.size_bytes)}{rows})"
