"""`deltacli share changes TABLE`."""

from __future__ import annotations

from deltacli.cli.commands import changes as local
from deltacli.cli.formats import RowFormat
from deltacli.cli.options.rows import ColumnsOption, LimitOption, WhereOption
from deltacli.cli.options.run import Run
from deltacli.cli.options.shared_tables import SharedTableArgument, require_address

EXIT_CODES = (0, 2, 3, 4, 7, 70)
FORMATS = RowFormat


def changes(
    run: Run,
    table: SharedTableArgument,
    first: local.First,
    last: local.Last = None,
    columns: ColumnsOption = None,
    where: WhereOption = None,
    limit: LimitOption = None,
) -> None:
    """Read how the rows of a shared table changed between two versions.

    \b
    The provider has to share the history of the table, and the table needs a
    change data feed. The output is that of deltacli changes.

    \b
    Examples:
      deltacli share changes acme.share#sales.main.orders --from 12
      deltacli share changes acme.share#sales.main.orders --from 3 --format ndjson
    """
    require_address(table)
    local.changes(run, table, first, last, columns, where, limit)
