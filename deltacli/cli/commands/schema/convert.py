"""`deltacli schema convert TABLE --to FORMAT`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from deltacli.cli.confirmation import require_confirmation
from deltacli.cli.options.common_options import TableArgument, YesOption
from deltacli.cli.options.run import Run
from deltacli.cli.schema_points import SchemaPoint
from deltacli.units import plural

NAMES_CHOOSE = False
"""The text is the schema in its own form, which is JSON for most, so `.json` does not ask for the document."""
EXIT_CODES = (0, 2, 3, 4, 7, 70)


class FormatChoice(StrEnum):
    DELTA = "delta"
    PAIMON = "paimon"
    ARROW = "arrow"
    DDL = "ddl"


To = Annotated[
    FormatChoice,
    typer.Option("--to", metavar="|".join(FormatChoice), help="Form of the result.", show_default=False),
]


def convert(
    run: Run,
    table: TableArgument,
    *,
    to: To,
    point: SchemaPoint,
    yes: YesOption = False,
) -> None:
    """Write the schema of a table or file in the form of another format.

    \b
      delta    a schemaString: the JSON in the metaData action
      paimon   a schema file as Java writes it, for a new table
      arrow    an Arrow schema; the JSON document has its IPC message, too
      ddl      CREATE TABLE in Spark SQL (Delta) or Flink SQL (Paimon)

    \b
    What the other format cannot state is listed: lengths, digits of a second,
    types, keys, default values. If something is lost the result is written only
    with --yes. Options of the format itself, and field ids towards Delta, are left
    out: a new table gets its own. Nothing is created or changed.
    TABLE can be a file: a Paimon schema file, a schemaString of Delta, CREATE TABLE
    of Flink SQL, Parquet, or Arrow IPC.

    \b
    Examples:
      deltacli schema convert ./paimon_tbl --to delta
      deltacli schema convert ./tbl --to paimon --output schema-0
      deltacli schema convert ./tbl --version 3 --to arrow --json
      deltacli schema convert ./paimon_tbl --tag first --to ddl --yes
      deltacli schema convert part-0.parquet --to paimon
    """
    from deltacli.cli.render.schemas.conversion import ConversionResult, LossesResult
    from deltacli.operations.schemas.convert import convert_schema

    found = convert_schema(point.describe(run, table), to, now_ms=run.clock())
    if found.lost:
        what = f"write the schema as {to} without {plural(len(found.lost), 'part')} of it"
        require_confirmation(run, what, yes=yes, show_plan=lambda: run.write(LossesResult(found)))
    if run.format.is_for_eyes:
        for loss in found.losses:
            run.note(f"note: {loss.sentence}")
    run.write(ConversionResult(found))
