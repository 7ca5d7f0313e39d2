"""Column mapping: how a column of the schema is named in files. Spec: Column Mapping."""

from __future__ import annotations

from deltacli.delta.schema.types import StructField

PHYSICAL_NAME = "delta.columnMapping.physicalName"


def physical_name(field: StructField, mode: str) -> str:
    """Return the name of a column or nested field in files, statistics and partition values.

    `mode` is the table's mapping mode: `none`, `name` or `id`.
    """
    return field.name if mode == "none" else recorded_name(field)


def recorded_name(field: StructField) -> str:
    """Return the physical name that the schema records for a field, whatever the mode; its own name without one."""
    return str(field.metadata.get(PHYSICAL_NAME) or field.name)
