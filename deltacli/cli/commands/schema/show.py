"""`deltacli schema show TABLE`."""

from __future__ import annotations

from deltacli.cli.options.common_options import TableArgument, TimestampOption, VersionOption
from deltacli.cli.options.run import Run
from deltacli.cli.options.table_formats import BranchOption, SchemaIdOption, SnapshotIdOption, TagOption
from deltacli.cli.terminal.shell import quoted_table

EXIT_CODES = (0, 2, 3, 7, 70)


def show(
    run: Run,
    table: TableArgument,
    *,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
    schema_id: SchemaIdOption = None,
    snapshot_id: SnapshotIdOption = None,
    tag: TagOption = None,
    branch: BranchOption = None,
) -> None:
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
    from deltacli.cli.render.paimon.snapshot import PaimonSchemaResult
    from deltacli.cli.render.schemas.tree import SchemaResult
    from deltacli.cli.schema_points import SchemaPoint
    from deltacli.operations.paimon.snapshot import PaimonSnapshot

    found = SchemaPoint(version, timestamp, schema_id, snapshot_id, tag, branch).open(run, table)
    run.write(PaimonSchemaResult(found) if isinstance(found, PaimonSnapshot) else SchemaResult(found))
    run.say_next(f"deltacli schema convert {quoted_table(table)} --to ddl")
