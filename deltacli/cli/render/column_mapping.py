"""What column mapping gave a field, in words."""

from __future__ import annotations

from deltacli.delta.schema.names import PHYSICAL_NAME
from deltacli.delta.schema.types import StructField


def mapping_of(field: StructField) -> str | None:
    """Return the id and the physical name that column mapping gave a field: `id 3, physical name col-1a2b`."""
    number = field.metadata.get("delta.columnMapping.id")
    name = field.metadata.get(PHYSICAL_NAME)
    parts = [f"id {number}"] if number is not None else []
    parts += [f"physical name {name}"] if name is not None else []
    return ", ".join(parts) or None
