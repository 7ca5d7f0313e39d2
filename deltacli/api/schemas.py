"""Compare and convert schemas of Delta, Paimon, Arrow, Parquet and Flink SQL.

`Table.describe_schema` and `Paimon.describe_schema` return the schema of a table, `describe_schema_file` that of a
file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.core.machine import Clock, system_clock

if TYPE_CHECKING:
    from deltacli.operations.schemas.described import Conversion, DescribedSchema, SchemaDiff
    from deltacli.storage import ReadStorage


def describe_schema_file(storage: ReadStorage, name: str) -> DescribedSchema:
    """Return the schema in a file: a Paimon schema, a Delta schemaString, a CREATE TABLE statement of Flink, or the
    schema of a Parquet or Arrow IPC file.

    Args:
        storage: The store of the directory that contains the file.
        name: The name of the file.

    Raises:
        Unreadable: If the file contains none of these schemas.
    """
    from deltacli.operations.schemas.described import describe_file

    return describe_file(storage, name)


def diff_schemas(before: DescribedSchema, after: DescribedSchema) -> SchemaDiff:
    """Return the differences between two schemas, which may have different formats."""
    from deltacli.operations.schemas.described import diff_schemas as diff

    return diff(before, after)


def convert_schema(
    source: DescribedSchema, target: str, *, clock: Clock = system_clock, min_paimon: int | None = None
) -> Conversion:
    """Convert a schema to another format. The result also contains the properties that the format cannot represent.

    Args:
        source: The schema.
        target: The format: `delta`, `paimon`, `arrow` or `ddl`.
        clock: Returns the current time in epoch milliseconds, which is part of a Paimon schema file.
        min_paimon: The lowest major version of Paimon that reads the new table. None uses the option
            `deltacli.min-paimon` of the schema.

    Raises:
        UsageError: If the version of Paimon is unknown.
        Refused: If the file format of a Paimon table does not support a type.
    """
    from deltacli.operations.schemas.described import convert_schema as convert

    return convert(source, target, now_ms=clock(), min_paimon=min_paimon)
