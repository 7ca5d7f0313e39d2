"""The fields of a schema with the ids and physical names of column mapping. Spec: Column Mapping."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from deltacli.delta.rules.schema.schema_walk import joined
from deltacli.delta.schema.names import ID, NESTED_IDS, PHYSICAL_NAME
from deltacli.delta.schema.types import ArrayType, DataType, MapType, StructField, StructType

MODES = ("none", "name", "id")


class MappedField(NamedTuple):
    """A column or nested field. `physical_path` is None if a name along the path is missing."""

    path: str
    field: StructField
    physical_path: tuple[str, ...] | None

    @property
    def id(self) -> int | None:
        value = self.field.metadata.get(ID)
        return value if type(value) is int else None

    @property
    def physical_name(self) -> str | None:
        return physical_name_of(self.field)

    @property
    def nested_ids(self) -> dict[str, object]:
        """Ids of the parts of arrays and maps, by their paths."""
        value = self.field.metadata.get(NESTED_IDS)
        return value if isinstance(value, dict) else {}


def physical_name_of(field: StructField) -> str | None:
    """Return the physical name of a field, or None if it is missing or invalid."""
    physical_name = field.metadata.get(PHYSICAL_NAME)
    return physical_name if isinstance(physical_name, str) and physical_name else None


def mapped_fields(schema: StructType) -> list[MappedField]:
    """Yield every column and nested field, parents first."""
    return list(_fields(schema, "", ()))


def _fields(data_type: DataType, path: str, physical: tuple[str, ...] | None) -> Iterator[MappedField]:
    match data_type:
        case StructType(fields):
            for field in fields:
                name = physical_name_of(field)
                here = None if physical is None or name is None else (*physical, name)
                yield MappedField(joined(path, field.name), field, here)
                yield from _fields(field.data_type, joined(path, field.name), here)
        case ArrayType(element):
            yield from _fields(element, joined(path, "element"), _below(physical, "element"))
        case MapType(key, value):
            yield from _fields(key, joined(path, "key"), _below(physical, "key"))
            yield from _fields(value, joined(path, "value"), _below(physical, "value"))


def _below(physical: tuple[str, ...] | None, part: str) -> tuple[str, ...] | None:
    return None if physical is None else (*physical, part)
