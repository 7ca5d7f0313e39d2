"""Names of columns and fields as engines compare them. Spec: Schema Serialization Format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from deltacli.delta.schema.types import DataType, StructField, StructType, parts_of

MODE = "delta.columnMapping.mode"
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
ID = "delta.columnMapping.id"
NESTED_IDS = "delta.columnMapping.nested.ids"
PHYSICAL_NAME = "delta.columnMapping.physicalName"


def physical_name(field: StructField, mode: str) -> str:
    """Return the name of a column or nested field in files, statistics and partition values.

    `mode` is the table's mapping mode: `none`, `name` or `id`.
    """
    return field.name if mode == "none" else recorded_name(field)


def recorded_name(field: StructField) -> str:
    """Return the physical name that the schema records for a field, whatever the mode; its own name without one."""
    return str(field.metadata.get(PHYSICAL_NAME) or field.name)


class NameIndex:
    """The positions of names among their siblings (None: not among them): exact matches first, else ignoring case.
    Names are lower-cased, not case-folded: `straße` and `strasse` are two names.
    """

    def __init__(self, names: Iterable[str | None]) -> None:
        self._exact: dict[str, list[int]] = {}
        self._lower: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            if name is not None:
                self._exact.setdefault(name, []).append(place)
                self._lower.setdefault(name.lower(), []).append(place)

    def places_of(self, name: str) -> Sequence[int]:
        """Return all positions of a name, in order."""
        exact = self._exact.get(name)
        return exact if exact is not None else self._lower.get(name.lower(), ())


def places_of(name: str, names: Iterable[str | None]) -> Sequence[int]:
    """Return the position of one name among others, as `NameIndex` finds it."""
    return NameIndex(names).places_of(name)


def ways_to_parts(data_type: DataType, start: str) -> Iterator[str]:
    """Yield the paths to the parts of an array or a map: `<start>.element`, `<start>.value.key`. A struct starts a new
    path.
    """
    for part in () if isinstance(data_type, StructType) else parts_of(data_type):
        way = f"{start}.{part.name}"
        yield way
        yield from ways_to_parts(part.data_type, way)
