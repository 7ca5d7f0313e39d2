"""`deltacli schema diff A B`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options.common_options import TableArgument
from deltacli.cli.options.run import Run
from deltacli.errors import EXIT_FINDINGS, UsageError

EXIT_CODES = (0, 1, 2, 3, 7, 70)

Other = Annotated[
    str | None,
    typer.Argument(metavar="[OTHER]", help="Table to compare with.  [default: TABLE]", show_default=False),
]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="POINT", help="Point of TABLE.  [default: the newest schema]", show_default=False),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="POINT", help="Point of OTHER.  [default: the newest schema]", show_default=False),
]


def diff(run: Run, table: TableArgument, other: Other = None, *, first: From = None, last: To = None) -> None:
    """Show what changes from one schema to another; exit 1 if something does.

    \b
    The tables may have different formats; types are named as in SQL. A POINT is
    version:N of a Delta table, and schema:N, snapshot:N, tag:T or branch:B of a
    Paimon table; branch:B,schema:N is a schema of a branch. Columns of one
    history are matched by their ids, so that a renamed column is not a dropped
    and an added one. Columns of different tables and branches are matched by name.
    Options are compared only if both tables have the same format. Either can be a
    file, as in schema convert.

    \b
    Examples:
      deltacli schema diff ./tbl --from version:3
      deltacli schema diff ./paimon_tbl --from schema:0 --to tag:first
      deltacli schema diff ./paimon_tbl --to branch:dev
      deltacli schema diff ./tbl ./paimon_tbl --json
    """
    from deltacli.cli.render.schemas.conversion import diff_result
    from deltacli.cli.schema_points import parse_point
    from deltacli.operations.schemas.diff import diff_schemas

    begin, end = parse_point(first, "--from"), parse_point(last, "--to")
    if other is None and begin == end:
        raise UsageError("the schema is compared with itself", facts={"expected": "OTHER, --from POINT or --to POINT"})
    found = diff_schemas(begin.describe(run, table), end.describe(run, other or table))
    run.write(diff_result(found))
    if found.changes:
        raise typer.Exit(EXIT_FINDINGS)
    run.note("note: the schemas are equal")
