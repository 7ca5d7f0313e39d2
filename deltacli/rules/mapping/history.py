"""Rules about column mapping over versions: ids and physical names of fields are assigned once and never reused. Spec:
Column Mapping.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deltacli.delta.log.log_path import Place
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.property_values import parse_integer
from deltacli.delta.schema.names import ID, MAX_COLUMN_ID, MODE, NESTED_IDS, PHYSICAL_NAME
from deltacli.delta.schema.types import DataType, StructField, StructType, parts_of
from deltacli.rules.framework.base import Area, Finding, Fix
from deltacli.rules.framework.views import MetadataView
from deltacli.rules.schema.schema_changes import replaces_all_files
from deltacli.rules.schema.schema_walk import joined, shown_path

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
    for part in parts_of(data_type):
        is_field = isinstance(data_type, StructType)
        name = physical_name_of(part) if is_field else part.name
        own = None if physical is None or name is None else (*physical, name)
        if is_field:
            yield MappedField(joined(path, part.name), part, own)
        yield from _fields(part.data_type, joined(path, part.name), own)


AREA = Area("mapping", spec="Writer Requirements for Column Mapping")

_OLD_VALUES = Fix(
    broken="older files have other values under that id or name, and readers return them for the column",
    advice="commit a metaData in which the column has an unused id and physical name",
    loss="the values of the column in files written since the change",
)

MODE_CHANGE_ILLEGAL = AREA.error(
    "mapping.mode-change-illegal",
    "The column mapping mode changed in another way than from none to name while older files stayed live.",
    broken="columns of older files are searched under another name, or by ids that they do not have",
    repair="commit a metaData with the old mode, or rewrite all files",
    example='"delta.columnMapping.mode":"name" in one metaData, "id" in the next',
)
PHYSICAL_NAME_CHANGED = AREA.error(
    "mapping.physical-name-changed",
    "A field kept its id but got another physical name.",
    broken="the column is not found in older files, so its old values read as null",
    repair="commit a metaData with the old physical name",
    loss="the values of the column in files written since the change",
    example='the id 2 with the physical name "col-b" in one metaData, "col-x" in the next',
)
ID_REUSED = AREA.error(
    "mapping.id-reused",
    "A field got the id of a dropped field.",
    *_OLD_VALUES,
    example="a column with the id 3, dropped; later a column of another physical name with the id 3",
)
PHYSICAL_PATH_REUSED = AREA.error(
    "mapping.physical-path-reused",
    "A field got the physical name of a dropped field.",
    *_OLD_VALUES,
    spec="Column Mapping",
    example='the physical name "col-b" with the id 2, dropped; later with the id 4',
)
MAX_ID_DECREASED = AREA.error(
    "mapping.max-id-decreased",
    "delta.columnMapping.maxColumnId decreased.",
    broken="the next new column may get the id of a dropped one",
    repair="commit a metaData with delta.columnMapping.maxColumnId set to the highest id ever assigned",
    example='"delta.columnMapping.maxColumnId":"7" in one metaData, "5" in the next',
)

_GIVEN = "mapping.given"


@dataclass
class _Given:
    """Everything assigned so far: id -> physical path, physical path -> id; and the ids of the newest schema."""

    paths: dict[int, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    ids: dict[tuple[str, ...], int] = dataclasses.field(default_factory=dict)
    present: frozenset[int] = frozenset()

    def take(self, fields: Sequence[MappedField]) -> None:
        for one in fields:
            if one.id is not None and one.physical_path is not None:
                self.paths[one.id] = one.physical_path
                self.ids[one.physical_path] = one.id
        self.present = frozenset(one.id for one in fields if one.id is not None)


@AREA.check(MetadataView, MODE_CHANGE_ILLEGAL, MAX_ID_DECREASED)
def mappings_change_as_files_allow(view: MetadataView) -> Iterator[Finding]:
    """Compare the mode and the highest id with the previous ones."""
    before, after = view.previous, view.config
    if before is None or not _is_same_table(before, after) or view.raw is not after.raw_metadata:
        return
    old, new = before.mapping_mode, after.mapping_mode
    if old not in MODES or new not in MODES:
        return
    if old != new and (old, new) != ("none", "name") and view.commit and not replaces_all_files(view.commit):
        place = view.place._replace(key=MODE)
        message = f"the column mapping mode changed from {old} to {new} while older files stayed live"
        yield MODE_CHANGE_ILLEGAL.at(place, message, seen=new, expected=old)
    if "none" not in (old, new):
        yield from _decreased(view.place, before, after)


def _decreased(place: Place, before: TableConfiguration, after: TableConfiguration) -> Iterator[Finding]:
    was, now = (parse_integer(config.properties, MAX_COLUMN_ID) for config in (before, after))
    if was is None or now is None or now >= was:
        return
    used = max((one.id or 0 for one in mapped_fields(after.schema)), default=0) if after.schema else 0
    if now >= used:  # below that, `mapping.max-id-too-small` is more specific
        message = f"{MAX_COLUMN_ID} decreased"
        yield MAX_ID_DECREASED.at(place._replace(key=MAX_COLUMN_ID), message, seen=now, expected=f"at least {was}")


@AREA.check(MetadataView, PHYSICAL_NAME_CHANGED, ID_REUSED, PHYSICAL_PATH_REUSED)
def ids_and_names_are_given_once(view: MetadataView) -> Iterator[Finding]:
    """Compare ids and physical names with all that were assigned since the table, its files or its mapping began."""
    config = view.config
    if config.schema is None or view.raw is not config.raw_metadata:
        return
    if config.mapping_mode == "none":
        view.memory.pop(_GIVEN, None)
        return
    given: _Given = view.memory.setdefault(_GIVEN, _Given())
    is_other_table = view.previous is not None and not _is_same_table(view.previous, config)
    if is_other_table or (view.commit is not None and replaces_all_files(view.commit)):
        given = view.memory[_GIVEN] = _Given()
    fields = mapped_fields(config.schema)
    yield from _reused(view.place, fields, given)
    given.take(fields)


def _reused(place: Place, fields: Sequence[MappedField], given: _Given) -> Iterator[Finding]:
    counts = Counter(one.id for one in fields)
    for one in fields:
        path = one.physical_path
        if one.id is None or path is None or counts[one.id] > 1:
            continue
        here, column = place._replace(key=one.path), shown_path(one.path)
        known = given.paths.get(one.id)
        if known is not None and known[-1] != path[-1]:
            if one.id in given.present:
                message = f"the field {column} kept the id {one.id}, but its physical name changed"
                yield PHYSICAL_NAME_CHANGED.at(here, message, seen=path[-1], expected=known[-1])
            else:
                message = f"the field {column} has the id {one.id} of a dropped field"
                yield ID_REUSED.at(here, message, seen=one.id, expected="an unused id")
        elif known is None:
            owner = given.ids.get(path)
            if owner is not None and owner != one.id and owner not in counts:
                message = f"the field {column} has the physical name of the dropped field with the id {owner}"
                yield PHYSICAL_PATH_REUSED.at(here, message, seen=path[-1], expected="an unused name")


def _is_same_table(before: TableConfiguration, after: TableConfiguration) -> bool:
    return before.metadata is not None and after.metadata is not None and before.metadata.id == after.metadata.id
