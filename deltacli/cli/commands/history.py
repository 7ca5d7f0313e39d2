"""`deltacli history TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import invocation
from deltacli.cli.options.given import get_format_options
from deltacli.cli.options.moments import parse_range_end
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
    row_limit = choose_row_limit(run, limit)
    begin = parse_range_end("--from", first, run.clock)
    end = parse_range_end("--to", last, run.clock)
    if begin.version is not None and end.version is not None and begin.version > end.version:
        raise _make_reversed_range_error(begin.version, end.version)

    def show_delta(delta_table: Table) -> None:
        """Show the commits of a Delta table."""
        history_columns = choose_history_columns(columns, run.clock, counts=counts)
        table_history = delta_table.history(
            from_version=begin.version,
            from_timestamp_ms=begin.timestamp_ms,
            to_version=end.version,
            to_timestamp_ms=end.timestamp_ms,
            limit=row_limit,
            counts=counts,
        )
        result = make_history_result(table_history, history_columns, run.clock)
        # Every table that a catalog manages has in-commit timestamps. Its catalog may have newer versions.
        if any("inCommitTimestamp" in (item.commit_info or ()) for item in table_history.items[:1]):
            note_staged_commits(run, delta_table)
        _write_history(run, table, result)

    def show_paimon(paimon_table: Paimon) -> None:
        """Show the snapshots and the versions of the schema of a Paimon table."""
        from deltacli.cli.render.paimon import PaimonHistoryResult, paimon_history_columns

        if columns is not None and run.format.errors_are_json:
            raise UsageError("--columns is not available for JSON of a Paimon table", hint="omit --columns")
        history_columns = choose_columns(paimon_history_columns(run.clock()), columns)
        table_history = paimon_table.history(limit=row_limit, with_manifests=refs)
        for note in table_history.notes:
            run.note(f"note: {note}")
        result = PaimonHistoryResult(table_history, history_columns, is_chosen=bool(columns))
        _write_history(run, table, result)

    format_options = get_format_options(context, delta=("first", "last", "counts"), paimon=("branch", "refs"))
    call_with_table(run, table, delta=show_delta, paimon=show_paimon, options=format_options, branch=branch)


def _write_history(run: CommandContext, table: str, result: HistoryResult | PaimonHistoryResult) -> None:
    run.write(result)
    for note in result.notes(table, on_screen=run.is_on_screen):
        run.note(note)


def _make_reversed_range_error(first_version: int, last_version: int) -> UsageError:
    """Return the error for `--from 9 --to 3`. The hint swaps the versions."""
    other_words = remove_option(remove_option(invocation.arguments, "--from"), "--to")
    swapped_range = ["--from", str(last_version), "--to", str(first_version)]
    return UsageError(
        f"--to {last_version} is before --from {first_version}", hint=repeat_command([*other_words, *swapped_range])
    )
