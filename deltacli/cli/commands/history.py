"""`deltacli history TABLE`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import invocation
from deltacli.cli.options.given import given_options_of_one_format
from deltacli.cli.options.moments import parse_end
from deltacli.cli.options.paimon import BranchOption, RefsOption
from deltacli.cli.options.tables import ColumnsOption, LastVersionOption, LimitOption, TableHereArgument
from deltacli.cli.running.run import CommandContext, settle_limit
from deltacli.cli.running.table_formats import Handle, ask
from deltacli.cli.terminal.suggested_commands import remove_option, repeat_command
from deltacli.core.errors import UsageError

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
    most = settle_limit(run, limit)
    ends = {
        name: None if text is None else parse_end(option, text, run.clock)
        for name, option, text in (("first", "--from", first), ("last", "--to", last))
    }
    begin, end = ends.values()
    if isinstance(begin, int) and isinstance(end, int) and begin > end:
        kept = remove_option(remove_option(invocation.arguments, "--from"), "--to")
        swapped = repeat_command([*kept, "--from", str(end), "--to", str(begin)])
        raise UsageError(f"--to {end} is before --from {begin}", hint=swapped)

    def show(opened: Handle) -> None:
        result = opened.history(limit=most, columns=columns, counts=counts, branch=branch, refs=refs, **ends)
        run.write(result)
        for note in result.notes(table, on_screen=run.is_on_screen):
            run.note(note)

    given_options = given_options_of_one_format(context, delta=("first", "last", "counts"), paimon=("branch", "refs"))
    ask(run, table, show, given=given_options)
