"""`deltacli history TABLE`."""

from __future__ import annotations

from typing import Annotated

from deltacli.cli.command_tree import HERE
from deltacli.cli.invocation import invocation
from deltacli.cli.options import declared
from deltacli.cli.running.run import Run, settle_limit
from deltacli.cli.running.table_formats import Handle, ask
from deltacli.cli.terminal.suggested_commands import remove_option, repeat_command
from deltacli.core.errors import UsageError
from deltacli.core.request_fields import OF_DELTA, Option

EXIT_CODES = (0, 2, 3, 7, 70)


def history(
    run: Run,
    table: declared.TableHereArgument = HERE,
    limit: declared.LimitOption = None,
    first: Annotated[
        str | None,
        Option(
            "The first version: a number, or the first one committed at or after T.  [default: the oldest]",
            "V|T",
            spelled="--from",
            table_format=OF_DELTA,
        ),
    ] = None,
    last: Annotated[declared.LastOption, OF_DELTA] = None,
    counts: Annotated[
        bool, Option("Read the file actions, too, and count files and bytes.", table_format=OF_DELTA)
    ] = False,
    columns: declared.ColumnsOption = None,
    branch: declared.BranchOption = None,
    refs: declared.RefsOption = True,
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
    most = settle_limit(run, limit)
    ends = {
        name: None if text is None else declared.parse_end(option, text, run.clock)
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

    ask(run, table, show)
