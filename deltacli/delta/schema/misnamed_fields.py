"""Finds columns that a data file has under their logical names, in a table with column mapping.

A writer that ignores column mapping names the columns of its files as the schema does. Readers look for physical names,
do not find the column, and return null, as for a column that was added after the file. The values are in the file all
the same, so that nothing may rewrite or delete it.

A file with the column that was dropped and added again looks alike: it has the physical name of the dropped column,
which is often its logical name. `AssignedNames` tells the two apart.

Spec: Column Mapping; Reader Requirements for Column Mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from deltacli.core.typing import ArrowField
from deltacli.delta.schema.assigned_names import AssignedNames, PhysicalPath, collect_ids
from deltacli.delta.schema.types import (
    ID,
    ArrayType,
    DataType,
    MapType,
    NameIndex,
    PrimitiveType,
    StructField,
    StructType,
)

MISNAMED = "mapping.file-with-logical-names"
"""The rule that such a file breaks, and the code of errors about it."""
_FIELD_ID = b"PARQUET:field_id"


class MappedTable(Protocol):
    """The configuration of a table: `TableConfiguration`."""

    @property
    def mapping_mode(self) -> str: ...
    @property
    def schema(self) -> StructType | None: ...
    @property
    def partition_columns(self) -> dict[str, StructField | None]: ...
    @property
    def max_column_id(self) -> int | None: ...
    @property
    def assigned_names(self) -> AssignedNames: ...
    def physical_name(self, column: StructField) -> str: ...


class MisnamedField(NamedTuple):
    """A field of the table that a file has under a logical name, and that is read as null.

    Attributes:
        column: The top-level column that is, or contains, the field.
        path: The logical path of the field, such as address.street or stops.element.city.
        name_in_file: The name that the file has instead of the physical one: the logical name of now, or an older one.
        physical_name: The name that column mapping demands.
        is_certain: False if the name may also be the physical name of a dropped column, of which the log has nothing.
    """

    column: str
    path: str
    name_in_file: str
    physical_name: str
    is_certain: bool

    @property
    def description(self) -> str:
        """Return what is wrong with a file, as the end of a sentence that begins with it."""
        if self.is_certain:
            return (
                f"has the column {self.path} under the name {self.name_in_file}, but column mapping calls it "
                f"{self.physical_name}"
            )
        return (
            f"has a column {self.name_in_file}: this may be the column {self.path}, which column mapping calls "
            f"{self.physical_name}, or a dropped column, whose metadata the log does not have any more"
        )


def find_misnamed_fields(
    file_fields: Iterable[ArrowField], table: MappedTable, *, with_former_names: bool = True
) -> list[MisnamedField]:
    """Find the fields of a table that a file has under logical names.

    Args:
        file_fields: The columns of the file, as the Arrow schema of its footer has them.
        table: The configuration by which the file is read. Its log is only read if the file has a column that the
            table does not have, and lacks one that it has.
        with_former_names: Whether names count that a field had before it was renamed. Without them, the log is only
            read if the file has a column whose name is that of a missing one.

    Returns:
        The fields, parents before siblings; none without column mapping.
    """
    if table.mapping_mode == "none" or table.schema is None:
        return []
    search = _Search(table, with_former_names=with_former_names)
    partition_columns = [column for column in table.partition_columns.values() if column is not None]
    # Values of partition columns come from the log, so that their names in files do not matter.
    search.search_struct(file_fields, table.schema.fields, ignored=partition_columns)
    return search.misnamed


def has_only_known_fields(file_fields: Iterable[ArrowField], table_fields: Sequence[StructField]) -> bool:
    """Return whether a file has no column or nested field but those of a schema without column mapping."""
    index = NameIndex(field.name for field in table_fields)
    for stored in file_fields:
        positions = index.places_of(stored.name)
        if not positions or not _has_only_known_parts(stored.type, table_fields[positions[0]].data_type):
            return False
    return True


def _has_only_known_parts(stored: Any, known: DataType) -> bool:
    while isinstance(stored, pa.BaseExtensionType):
        stored = stored.storage_type
    match known:
        case StructType(fields) if pa.types.is_struct(stored):
            return has_only_known_fields(stored, fields)
        case ArrayType(element) if pa.types.is_nested(stored) and hasattr(stored, "value_type"):
            return _has_only_known_parts(stored.value_type, element)
        case MapType(key, value) if pa.types.is_map(stored):
            has_known_keys = _has_only_known_parts(stored.key_type, key)
            return has_known_keys and _has_only_known_parts(stored.item_type, value)
        case _:
            return True


class _Place(NamedTuple):
    """A struct of the table: the column that contains it (None for the top), its logical and its physical path."""

    column: str | None = None
    logical: tuple[str, ...] = ()
    physical: PhysicalPath = ()

    def enter(self, logical_name: str, physical_name: str) -> _Place:
        """Return the place of a field, or of an element, key or value."""
        column = logical_name if self.column is None else self.column
        return _Place(column, (*self.logical, logical_name), (*self.physical, physical_name))


class _StructInFile:
    """The fields of one struct of a file, found as readers find them."""

    def __init__(self, fields: Iterable[ArrowField], *, by_id: bool) -> None:
        self.fields = list(fields)
        self.ids = [_field_id(field) for field in self.fields]
        self._by_id = by_id
        # Where ids decide, only a field without an id is found by its name.
        numbered = zip(self.fields, self.ids, strict=True)
        self._names = NameIndex(None if by_id and number is not None else field.name for field, number in numbered)

    def positions_of(self, field: StructField, physical_name: str) -> Sequence[int]:
        """Return where a field of the table is; several positions if its name is ambiguous."""
        column_id = field.metadata.get(ID)
        if self._by_id and column_id is not None and column_id in self.ids:
            return (self.ids.index(column_id),)
        return self._names.places_of(physical_name)


class _Search:
    """Collects the misnamed fields of one file."""

    def __init__(self, table: MappedTable, *, with_former_names: bool) -> None:
        self.misnamed: list[MisnamedField] = []
        self._table = table
        self._with_former_names = with_former_names
        self._current_ids = frozenset() if table.schema is None else collect_ids(table.schema)

    def search_struct(
        self,
        file_fields: Iterable[ArrowField],
        table_fields: Sequence[StructField],
        place: _Place = _Place(),  # noqa: B008  (a tuple)
        ignored: Sequence[StructField] = (),
    ) -> None:
        """Search one struct of the file, and the structs within it."""
        in_file = _StructInFile(file_fields, by_id=self._table.mapping_mode == "id")
        taken: set[int] = set()
        missing: list[StructField] = []
        for field in table_fields:
            positions = in_file.positions_of(field, self._table.physical_name(field))
            taken.update(positions)
            if len(positions) == 1:
                own_place = place.enter(field.name, self._table.physical_name(field))
                self._search_type(in_file.fields[positions[0]].type, field.data_type, own_place)
            elif not positions and field not in ignored and field.data_type != PrimitiveType("void"):
                missing.append(field)

        unexplained = [position for position in range(len(in_file.fields)) if position not in taken]
        if missing and unexplained:
            unexplained = [at for at in unexplained if not self._is_dropped_by_id(in_file, at, table_fields)]
            self.misnamed.extend(self._match(in_file, unexplained, missing, place))

    def _search_type(self, stored: Any, wanted: DataType, place: _Place) -> None:
        """Search the structs within a column, element, key or value that the file has."""
        while isinstance(stored, pa.BaseExtensionType):
            stored = stored.storage_type
        match wanted:
            case StructType(fields) if pa.types.is_struct(stored):
                self.search_struct(stored, fields, place)
            case ArrayType(element) if pa.types.is_nested(stored) and hasattr(stored, "value_type"):
                self._search_type(stored.value_type, element, place.enter("element", "element"))
            case MapType(key, value) if pa.types.is_map(stored):
                self._search_type(stored.key_type, key, place.enter("key", "key"))
                self._search_type(stored.item_type, value, place.enter("value", "value"))
            case _:
                pass

    def _match(
        self, in_file: _StructInFile, unexplained: Sequence[int], missing: Sequence[StructField], place: _Place
    ) -> Iterator[MisnamedField]:
        """Yield the missing fields of a struct whose logical names unexplained fields of the file have."""
        by_name: dict[str, str] = {}
        for position in unexplained:
            name = in_file.fields[position].name
            by_name.setdefault(name.lower(), name)

        for field in missing:
            own_place = place.enter(field.name, self._table.physical_name(field))
            for logical_name in self._logical_names(field, own_place.physical):
                name = by_name.get(logical_name.lower())
                if name is None or self._was_assigned((*place.physical, name)):
                    continue
                yield MisnamedField(
                    own_place.column or field.name,
                    ".".join(own_place.logical),
                    name,
                    self._table.physical_name(field),
                    is_certain=self._table.assigned_names.is_complete,
                )
                break

    def _logical_names(self, field: StructField, path: PhysicalPath) -> Iterable[str]:
        """Return the logical names of a field that count, the current one first."""
        if not self._with_former_names:
            return (field.name,)
        former = self._table.assigned_names.logical.get(path, frozenset()) - {field.name}
        return (field.name, *sorted(former))

    def _was_assigned(self, path: PhysicalPath) -> bool:
        """Return whether a field of the table has or had a physical path."""
        return self._table.assigned_names.has(path)

    def _is_dropped_by_id(self, in_file: _StructInFile, position: int, table_fields: Sequence[StructField]) -> bool:
        """Return whether the ids in a file show that one of its fields was dropped from the table.

        A writer that maps columns writes their ids, too. So the writer of this file has mapped its columns if every
        field that is found has the id of the table, and this field has an id that was assigned and is no longer used.
        """
        number = in_file.ids[position]
        max_column_id = self._table.max_column_id
        if number is None or max_column_id is None or number > max_column_id or number in self._current_ids:
            return False
        has_any = False
        for field in table_fields:
            for found in in_file.positions_of(field, self._table.physical_name(field)):
                if in_file.ids[found] != field.metadata.get(ID):
                    return False
                has_any = True
        return has_any


def _field_id(field: ArrowField) -> int | None:
    text = (field.metadata or {}).get(_FIELD_ID)
    return int(text) if text else None
