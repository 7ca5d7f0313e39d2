"""The names that the fields of a table with column mapping have, and those that they had before.

A field keeps its physical name for ever, and no other field ever gets it. So the name of a column in a data file either
is a physical name that the table has assigned, perhaps to a field that was dropped since, or the writer of the file did
not map its columns.

Spec: Column Mapping; Writer Requirements for Column Mapping.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from deltacli.delta.schema.types import (
    ID,
    NESTED_IDS,
    PHYSICAL_NAME,
    DataType,
    StructType,
    parts_of,
    struct_fields,
)

PhysicalPath = tuple[str, ...]
"""Physical names from a top-level column on; parts of arrays and maps are `element`, `key` and `value`."""


class MappedSchema(NamedTuple):
    """The schema of one metaData action, and the highest column id that it records, None without one."""

    schema: StructType
    max_column_id: int | None


class AssignedNames(NamedTuple):
    """The names of all fields that a table has or had, as far as its log shows them.

    Attributes:
        physical: The physical path of every field, in lower case, because readers of files ignore case.
        logical: For each physical path, as the schema spells it, the logical names that the field had.
        is_complete: True if no other field ever existed. It is False where columns were dropped and the log no longer
            has the metadata with them.
    """

    physical: frozenset[PhysicalPath]
    logical: Mapping[PhysicalPath, frozenset[str]]
    is_complete: bool

    def has(self, path: PhysicalPath) -> bool:
        """Return whether a field has or had this physical path, in any letter case."""
        return to_lower_case(path) in self.physical


def collect_assigned_names(
    current: MappedSchema, older: Sequence[MappedSchema], *, reaches_back: bool
) -> AssignedNames:
    """Collect the names that a schema and older ones of the same table assign.

    They are complete in two cases. Ids are assigned in order and never again, so a table whose schemas have all ids up
    to the highest one has no other field. Or the log reaches back to the first schema of the table, and that one has no
    gaps: a clone begins with the gaps of its source, and nothing in its own log explains them.

    Args:
        current: The schema of the version that is examined.
        older: Schemas of other versions, oldest first. They may include the current one.
        reaches_back: Whether `older` has every schema since the table was created.
    """
    physical: set[PhysicalPath] = set()
    logical = defaultdict[PhysicalPath, set[str]](set)
    assigned_ids: set[int] = set()
    for schema in (current.schema, *(one.schema for one in older)):
        assigned_ids.update(collect_ids(schema))
        for path, name in _walk_mapped_fields(schema, ()):
            physical.add(to_lower_case(path))
            logical[path].add(name)

    has_every_id = _has_all_ids(assigned_ids, current.max_column_id)
    begins_without_gaps = bool(older) and _begins_without_gaps(older[0])
    return AssignedNames(
        frozenset(physical),
        {path: frozenset(names) for path, names in logical.items()},
        is_complete=has_every_id or (reaches_back and begins_without_gaps),
    )


def collect_ids(schema: StructType) -> set[int]:
    """Return the column ids of a schema, with those of elements, keys and values."""
    ids: set[int] = set()
    for field in struct_fields(schema):
        nested_ids = field.metadata.get(NESTED_IDS)
        nested = nested_ids.values() if isinstance(nested_ids, dict) else ()
        ids.update(number for number in (field.metadata.get(ID), *nested) if type(number) is int)
    return ids


def _has_all_ids(ids: set[int], max_column_id: int | None) -> bool:
    # An id above the highest one shows that a writer did not count: its ids may have been assigned twice.
    if max_column_id is None or max_column_id < 1 or max(ids, default=0) > max_column_id:
        return False
    return ids.issuperset(range(1, max_column_id + 1))


def _begins_without_gaps(first: MappedSchema) -> bool:
    ids = collect_ids(first.schema)
    # Without ids the table began without column mapping, when no column can be dropped.
    return not ids or _has_all_ids(ids, first.max_column_id)


def _walk_mapped_fields(data_type: DataType, path: PhysicalPath) -> Iterator[tuple[PhysicalPath, str]]:
    """Yield the physical path and the logical name of every field that has a physical name, at any depth."""
    for part in parts_of(data_type):
        if isinstance(data_type, StructType):
            physical_name = part.metadata.get(PHYSICAL_NAME)
            if not isinstance(physical_name, str):
                # Below a field without a physical name nothing has a path.
                continue
            own_path = (*path, physical_name)
            yield own_path, part.name
        else:
            own_path = (*path, part.name)
        yield from _walk_mapped_fields(part.data_type, own_path)


def to_lower_case(path: PhysicalPath) -> PhysicalPath:
    """Return a path in lower case."""
    return tuple(name.lower() for name in path)
