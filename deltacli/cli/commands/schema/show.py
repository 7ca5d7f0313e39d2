"""`deltacli schema show TABLE`."""

from __future__ import annotations

from deltacli.cli.options.common_options import TableArgument
from deltacli.cli.options.run import Run
from deltacli.cli.schema_points import SchemaPoint
from deltacli.cli.terminal.shell import quoted_table

EXIT_CODES = (0, 2, 3, 7, 70)


def show(run: Run, table: TableArgument, *, point: SchemaPoint) -> None:
    """Show the schema of a Delta or Paimon table as a tree.

    \b
    The same as snapshot --schema. The JSON document has the schema as the table
    stores it.

    \b
    Examples:
      deltacli schema show ./tbl
      deltacli schema show ./tbl --version 12 --json
      deltacli schema show ./paimon_tbl --branch dev --schema-id 3
    """
    run.write(point.open(run, table, lambda opened: opened.schema(**vars(point))))
    run.say_next(f"deltacli schema convert {quoted_table(table)} --to ddl")
