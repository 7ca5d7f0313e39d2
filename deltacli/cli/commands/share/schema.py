"""`deltacli share schema TABLE`."""

from __future__ import annotations

from deltacli.cli.options.chosen_version import parse_moment_of
from deltacli.cli.options.common_options import TimestampOption, VersionOption
from deltacli.cli.options.run import Run
from deltacli.cli.options.shared_tables import SharedTableArgument, open_shared

EXIT_CODES = (0, 2, 3, 7, 70)


def schema(
    run: Run, table: SharedTableArgument, version: VersionOption = None, timestamp: TimestampOption = None
) -> None:
    """Show the schema of a shared table, as a tree.

    \b
    Asks for the metadata only, not for the list of files. The output is that of
    deltacli snapshot --schema.

    \b
    Examples:
      deltacli share schema acme.share#sales.main.orders
      deltacli share schema acme.share#sales.main.orders --json
    """
    from deltacli.cli.render.schemas.tree import SchemaResult

    at_ms = parse_moment_of(version, timestamp)
    store = open_shared(run, table).without_files(version=version, at_ms=at_ms)
    run.write(SchemaResult(run.table_of(store).snapshot()))
