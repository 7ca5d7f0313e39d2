"""`deltacli history TABLE`."""

from __future__ import annotations

from typing import Annotated

from deltacli.cli.options.common_options import BranchOption, RefsOption, TableArgument
from deltacli.cli.options.rows import ColumnsOption, LimitOption, settle_limit
from deltacli.cli.options.run import Run
from deltacli.cli.options.table_formats import Handle, ask
from deltacli.request_fields import OF_DELTA, Option

EXIT_CODES = (0, 2, 3, 7, 70)


def history(
    run: Run,
    table: TableArgument,
    limit: LimitOption = None,
    counts: Annotated[
        bool, Option("Read the file actions, too, and count files and bytes.", table_format=OF_DELTA)
    ] = False,
    columns: ColumnsOption = None,
    branch: BranchOption = None,
    refs: RefsOption = True,
) -> None:
    """Show who changed a table, when and how, newest first.

    \b
    Reads the provenance of each commit only, so it works across gaps, on damaged
    tables and on tables with unknown features. Of a Paimon table it shows the
    versions of the schema, what changed in each, and who still uses it.

    \b
    Examples:
      deltacli history ./tbl
      deltacli history ./tbl --limit 0 --counts
      deltacli history s3://lake/events --json | jq '.items[0].operation'
      deltacli history ./tbl --format csv --columns version,timestamp,operation
      deltacli history ./tbl --columns version,job  # a key of a writer
      deltacli history ./paimon_tbl --branch dev
    """
    most = settle_limit(run, limit)

    def show(opened: Handle) -> None:
        result = opened.history(limit=most, columns=columns, counts=counts, branch=branch, refs=refs)
        run.write(result)
        for note in result.notes(table, on_screen=run.is_on_screen):
            run.note(note)

    ask(run, table, show)
