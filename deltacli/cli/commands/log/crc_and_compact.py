"""`deltacli log crc TABLE` and `deltacli log compact TABLE`, which write files that are derived from commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.moments import find_chosen_version
from deltacli.cli.options.tables import TableArgument, TimestampOption, VersionOption
from deltacli.cli.options.values import parse_whole_number
from deltacli.cli.render.derived_log_files import make_checksum_result, make_compaction_result
from deltacli.cli.running.changing import ChangePresentation, Mode, run_change
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import quote_table

if TYPE_CHECKING:
    from deltacli.operations.log.crc_and_compact import ChecksumReport, Compaction

app = typer.Typer(add_completion=False)


@app.command(
    "crc",
    cls=SharedOptionsCommand,
    epilog=exit_codes(
        findings="the checksum differs from the state, or is unreadable", unreadable=True, refused=True, storage=True
    ),
)
def log_crc(
    context: typer.Context,
    table: TableArgument,
    *,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compare only; write nothing.")] = False,
) -> None:
    """Write a missing version checksum, or compare an existing one.

    \b
    Other engines read protocol and metadata from N.crc, and check their own
    replay against it. Only fields that can be computed exactly from the log are
    written; an existing file is compared with the log and never replaced. To
    compare all of them: deltacli validate TABLE --select 'crc.*'.

    \b
    Examples:
      deltacli log crc ./tbl
      deltacli log crc ./tbl --version 12 --json
    """
    run: CommandContext = context.obj
    delta_table = run.open_table(table, writes=not dry_run)
    validate = f"deltacli validate {quote_table(table)} --select 'crc.*'"
    presentation: ChangePresentation[ChecksumReport, ChecksumReport] = ChangePresentation(
        build_question=None,
        build_plan_result=lambda report, _: make_checksum_result(delta_table.uri, report),
        build_outcome_result=lambda report: make_checksum_result(delta_table.uri, report),
        suggest_after_change=lambda report: validate if report.is_wrong else None,
        suggest_before_change=lambda report: validate if report.is_wrong else None,
        is_finding=lambda report: report.is_wrong,
    )
    change = delta_table.prepare_write_checksum(version=find_chosen_version(delta_table, version, timestamp))
    run_change(run, change, presentation, Mode(dry_run))


@app.command(
    "compact", cls=SharedOptionsCommand, epilog=exit_codes(unreadable=True, refused=True, partly=True, storage=True)
)
def log_compact(
    context: typer.Context,
    table: TableArgument,
    *,
    first: Annotated[
        int, typer.Option("--from", metavar="V", parser=parse_whole_number, help="First commit of the range.")
    ],
    last: Annotated[
        int, typer.Option("--to", metavar="V", parser=parse_whole_number, help="Last commit of the range.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written; write nothing.")] = False,
) -> None:
    """Write a log compaction: one file for the commits X to Y.

    \b
    Readers that support compactions read it in place of its commits. Every
    remove and every removed domain is kept, whatever its age, so that the file is
    correct with any checkpoint. It is read back and compared with the commits.
    An existing file is never replaced.

    \b
    Examples:
      deltacli log compact ./tbl --from 11 --to 14
      deltacli log compact ./tbl --from 11 --to 14 --dry-run
    """
    run: CommandContext = context.obj
    delta_table = run.open_table(table, writes=not dry_run)
    presentation: ChangePresentation[Compaction, Compaction] = ChangePresentation(
        build_question=None,
        build_plan_result=lambda compaction, _: make_compaction_result(delta_table.uri, compaction),
        build_outcome_result=lambda compaction: make_compaction_result(delta_table.uri, compaction),
        suggest_after_change=lambda _: f"deltacli validate {quote_table(table)}",
    )
    run_change(run, delta_table.prepare_compact_log(first, last), presentation, Mode(dry_run))
