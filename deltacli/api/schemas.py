"""Schemas of any format, compared and converted.

`Table.describe_schema` and `Paimon.describe_schema` return that of a table, `describe_schema_file` that of a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.core.machine import Clock, system_clock

if TYPE_CHECKING:
    from deltacli.operations.schemas.described import Conversion, DescribedSchema, SchemaDiff
    from deltacli.storage import ReadStorage


def describe_schema_file(storage: ReadStorage, name: str) -> DescribedSchema:
    """Return the schema in a file: of Paimon, a schemaString of Delta, CREATE TABLE of Flink, Parquet or Arrow IPC.

    Args:
        storage: The store of the directory.
        name: The file in it.

    Raises:
        Unreadable: If the file has no schema in one of these forms.
    """
    from deltacli.operations.schemas.described import describe_file

    return describe_file(storage, name)


def diff_schemas(before: DescribedSchema, after: DescribedSchema) -> SchemaDiff:
    """Return what changes from one schema to another, which may be one of the other format."""
    from deltacli.operations.schemas.described import diff_schemas as diff

    return diff(before, after)


def convert_schema(
    source: DescribedSchema, target: str, *, clock: Clock = system_clock, min_paimon: int | None = None
) -> Conversion:
    """Return a schema in the form of another format, with what that cannot state.

    Args:
        source: The schema.
        target: The form: `delta`, `paimon`, `arrow` or `ddl`.
        clock: Returns the time in epoch milliseconds, which a schema file of Paimon contains.
        min_paimon: The oldest major version of Paimon among the engines of the new table. None: the option
            `deltacli.min-paimon` of the schema says it.

    Raises:
        UsageError: If the version is unknown.
        Refused: If the format of the files of a Paimon table lacks a type.
    """
    from deltacli.operations.schemas.described import convert_schema as convert

    return convert(source, target, now_ms=clock(), min_paimon=min_paimon)
