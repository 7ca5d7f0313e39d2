"""`deltacli history TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import invocation
from deltacli.cli.options.given import given_options_of_one_format
from deltacli.cli.options.moments import parse_end
from deltacli.cli.options.paimon import BranchOption, RefsOption
from deltacli.cli.options.tables import ColumnsOption, LastVersionOption, LimitOption, TableHereArgument
from deltacli.cli.output.columns import choose_columns
from deltacli.cli.render.history import HistoryResult, choose_history_columns, make_history_result
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.problem_notes import note_staged_commits
from deltacli.cli.running.row_notes import choose_row_limit
from deltacli.cli.running.table_formats import call_with_table
from deltacli.cli.terminal.suggested_commands import remove_option, repeat_command
from deltacli.core.errors import UsageError

if TYPE_CHECKING:
    from deltacli.api.paimon import Paimon
    from deltacli.api.table import Table
    from deltacli.cli.render.paimon import PaimonHistoryResult

app = typer.Typer(add_completion=False)


@app.command("history", cls=SharedOptionsCommand, epilog=exit_codes(unreadable=True, storage=True))
def history(
    context: typer.Context,
    table: TableHereArgument = ".",
    *,
    limit: LimitOption = None,
    first: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="V|T",
            help="The first version: a number, or the first one committed at or after T.  [default: the oldest]",
        ),
    ] = None,
    last: LastVersionOption = None,
    counts: Annotated[
        bool, typer.Option("--counts", help="Read the file actions, too, and count files and bytes.")
    ] = False,
    columns: ColumnsOption = None,
    branch: BranchOption = None,
    refs: RefsOption = True,
) -> None:
    """Show who changed a table, when and how, newest first.

    \b
    Reads the provenance of each commit only, so it works across gaps, on damaged
    tables and on tables with unknown features. Of a Paimon table it shows the
    snapshots, and the versions of the schema with what changed in each and who
    still uses it.

    \b
    Examples:
      deltacli history ./tbl
      deltacli history ./tbl --limit 0 --counts
      deltacli history ./tbl --from 2026-01-03 --to 2026-01-04
      deltacli history ./tbl --from yesterday
      deltacli history s3://lake/events --json | jq '.items[0].operation'
      deltacli history ./tbl --format csv --columns version,timestamp,operation
      deltacli history ./tbl --columns version,operation,userMetadata
      deltacli history ./paimon_tbl --branch dev
    """
    run: CommandContext = context.obj
    most = choose_row_limit(run, limit)
    begin = parse_end("--from", first, run.clock)
    end = parse_end("--to", last, run.clock)
    if begin.version is not None and end.version is not None and begin.version > end.version:
        other_words = remove_option(remove_option(invocation.arguments, "--from"), "--to")
        swapped = repeat_command([*other_words, "--from", str(end.version), "--to", str(begin.version)])
        raise UsageError(f"--to {end.version} is before --from {begin.version}", hint=swapped)

    def show(result: HistoryResult | PaimonHistoryResult) -> None:
        run.write(result)
        for note in result.notes(table, on_screen=run.is_on_screen):
            run.note(note)

    def show_delta(opened: Table) -> None:
        chosen = choose_history_columns(columns, run.clock, counts=counts)
        found = opened.history(
            from_version=begin.version,
            from_timestamp_ms=begin.timestamp_ms,
            to_version=end.version,
            to_timestamp_ms=end.timestamp_ms,
            limit=most,
            counts=counts,
        )
        result = make_history_result(found, chosen, run.clock)
        # Commits with in-commit timestamps may be those of a catalog, which may have newer ones.
        if any("inCommitTimestamp" in (item.commit_info or ()) for item in found.items[:1]):
            note_staged_commits(run, opened)
        show(result)

    def show_paimon(opened: Paimon) -> None:
        from deltacli.cli.render.paimon import PaimonHistoryResult, paimon_history_columns

        if columns is not None and run.format.errors_are_json:
            raise UsageError("--columns is not available for JSON of a Paimon table", hint="omit --columns")
        chosen = choose_columns(paimon_history_columns(run.clock()), columns)
        found = opened.history(limit=most, with_manifests=refs)
        for note in found.notes:
            run.note(f"note: {note}")
        show(PaimonHistoryResult(found, chosen, is_chosen=bool(columns)))

    options = given_options_of_one_format(context, delta=("first", "last", "counts"), paimon=("branch", "refs"))
    call_with_table(run, table, delta=show_delta, paimon=show_paimon, options=options, branch=branch)
