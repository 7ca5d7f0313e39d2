"""Rules about column mapping, in one metadata and over versions.

Spec: Column Mapping.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta.log.segment import Place
from deltacli.delta.log.state import TableConfiguration, parse_integer_property
from deltacli.delta.schema import types
from deltacli.delta.stats.schema import StatSchema
from deltacli.rules.framework.base import Area, Finding, Fix
from deltacli.rules.framework.views import FilesView, MetadataView, ProtocolView, stats_of
from deltacli.rules.schema.schema import fresh, joined, shown_path
from deltacli.rules.schema.schema_changes import replaces_all_files

MODES = ("none", "name", "id")


class MappedField(NamedTuple):
    """A column or nested field. `physical_path` is None if a name along the path is missing."""

    path: str
    field: types.StructField
    physical_path: tuple[str, ...] | None

    @property
    def id(self) -> int | None:
        value = self.field.metadata.get(types.ID)
        return value if type(value) is int else None

    @property
    def physical_name(self) -> str | None:
        return physical_name_of(self.field)

    @property
    def nested_ids(self) -> dict[str, object]:
        value = self.field.metadata.get(types.NESTED_IDS)
        return value if isinstance(value, dict) else {}


def physical_name_of(field: types.StructField) -> str | None:
    """Return the physical name of a field, or None if it is missing or invalid."""
    physical_name = field.metadata.get(types.PHYSICAL_NAME)
    return physical_name if isinstance(physical_name, str) and physical_name else None


def mapped_fields(schema: types.StructType) -> list[MappedField]:
    """Yield every column and nested field, parents first."""
    return list(_fields(schema, "", ()))


def _fields(data_type: types.DataType, path: str, physical: tuple[str, ...] | None) -> Iterator[MappedField]:
    for part in types.parts_of(data_type):
        is_field = isinstance(data_type, types.StructType)
        name = physical_name_of(part) if is_field else part.name
        own = None if physical is None or name is None else (*physical, name)
        if is_field:
            yield MappedField(joined(path, part.name), part, own)
        yield from _fields(part.data_type, joined(path, part.name), own)


HISTORY_AREA = Area("mapping", spec="Writer Requirements for Column Mapping")

_OLD_VALUES = Fix(
    broken="older files have other values under that id or name, and readers return them for the column",
    advice="commit a metaData in which the column has an unused id and physical name",
    loss="the values of the column in files written since the change",
)

MODE_CHANGE_ILLEGAL = HISTORY_AREA.error(
    "mapping.mode-change-illegal",
    "The column mapping mode changed in another way than from none to name while older files stayed live.",
    broken="columns of older files are searched under another name, or by ids that they do not have",
    repair="commit a metaData with the old mode, or rewrite all files",
    example='"delta.columnMapping.mode":"name" in one metaData, "id" in the next',
)
PHYSICAL_NAME_CHANGED = HISTORY_AREA.error(
    "mapping.physical-name-changed",
    "A field kept its id but got another physical name.",
    broken="the column is not found in older files, so its old values read as null",
    repair="commit a metaData with the old physical name",
    loss="the values of the column in files written since the change",
    example='the id 2 with the physical name "col-b" in one metaData, "col-x" in the next',
)
ID_REUSED = HISTORY_AREA.error(
    "mapping.id-reused",
    "A field got the id of a dropped field.",
    *_OLD_VALUES,
    example="a column with the id 3, dropped; later a column of another physical name with the id 3",
)
PHYSICAL_PATH_REUSED = HISTORY_AREA.error(
    "mapping.physical-path-reused",
    "A field got the physical name of a dropped field.",
    *_OLD_VALUES,
    spec="Column Mapping",
    example='the physical name "col-b" with the id 2, dropped; later with the id 4',
)
MAX_ID_DECREASED = HISTORY_AREA.error(
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


@HISTORY_AREA.check(MetadataView, MODE_CHANGE_ILLEGAL, MAX_ID_DECREASED)
def mappings_change_as_files_allow(view: MetadataView) -> Iterator[Finding]:
    """Compare the mode and the highest id with the previous ones."""
    before, after = view.previous, view.config
    if before is None or not _is_same_table(before, after) or view.raw is not after.raw_metadata:
        return
    old, new = before.mapping_mode, after.mapping_mode
    if old not in MODES or new not in MODES:
        return
    if old != new and (old, new) != ("none", "name") and view.commit and not replaces_all_files(view.commit):
        message = f"the column mapping mode changed from {old} to {new} while older files stayed live"
        yield MODE_CHANGE_ILLEGAL.at(view.place, message, key=types.MODE, seen=new, expected=old)
    was, now = (parse_integer_property(config.properties, types.MAX_COLUMN_ID) for config in (before, after))
    if "none" in (old, new) or was is None or now is None or now >= was:
        return
    used = max((one.id or 0 for one in mapped_fields(after.schema)), default=0) if after.schema else 0
    if now >= used:  # below that, `mapping.max-id-too-small` is more specific
        message = f"{types.MAX_COLUMN_ID} decreased"
        yield MAX_ID_DECREASED.at(view.place, message, key=types.MAX_COLUMN_ID, seen=now, expected=f"at least {was}")


@HISTORY_AREA.check(MetadataView, PHYSICAL_NAME_CHANGED, ID_REUSED, PHYSICAL_PATH_REUSED)
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


# -- rules about column mapping in one metadata ------------------------------------------------------------------------

AREA = Area("mapping", spec="Column Mapping")

PARTITION_KEY_LOGICAL = AREA.error(
    "mapping.partition-key-logical",
    "The partition values of a file have logical names although column mapping is on.",
    spec="Writer Requirements for Column Mapping",
    broken="readers search for the value under the physical name and do not find it",
    repair="commit the add again with physical names in partitionValues and dataChange=false",
    example='"partitionValues":{"country":"de"} for a column with the physical name "col-3"',
)
STATS_KEY_LOGICAL = AREA.warning(
    "mapping.stats-key-logical",
    "The statistics of a file have logical names although column mapping is on.",
    spec="Writer Requirements for Column Mapping",
    broken="the statistics are not found, so no query can skip the file; its columns may have logical names as well, "
    "and are read as null then",
    repair="commit the add again with physical names in stats and dataChange=false",
    example='"stats":"{\\"minValues\\":{\\"price\\":1}}" for a column with the physical name "col-2"',
)


@AREA.check(FilesView, PARTITION_KEY_LOGICAL)
def partition_values_have_physical_names(view: FilesView) -> Iterator[Finding]:
    """Search for the logical names of partition columns in the keys of partition values."""
    physical = view.config.partition_columns
    renamed = {
        column.name: name
        for name, column in physical.items()
        if column is not None and column.name != name and column.name not in physical
    }
    if view.config.mapping_mode == "none" or not renamed:
        return
    values = view.adds.column("partitionValues")
    for row, key in _rows_with_keys(values, list(renamed)):
        message = f"the partition value of {key} has its logical name instead of the physical one"
        yield PARTITION_KEY_LOGICAL.at(view.place(row), message, seen=key, expected=renamed[key])


def _rows_with_keys(maps: pa.Array, wanted: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Return the rows of a map column that have one of some keys, with the key."""
    text = pa.string()
    chosen = pa.array(wanted, text)
    if not pc.any(pc.is_in(maps.keys, value_set=chosen)).as_py():
        return
    entries = pc.cast(maps, pa.list_(pa.struct([("key", text), ("value", text)])))
    keys = pc.struct_field(entries.flatten(), ["key"])
    mask = pc.is_in(keys, value_set=chosen)
    rows = pc.filter(pc.list_parent_indices(entries), mask)
    yield from zip(rows.to_pylist(), pc.filter(keys, mask).to_pylist(), strict=True)


@AREA.check(FilesView, STATS_KEY_LOGICAL)
def statistics_have_physical_names(view: FilesView) -> Iterator[Finding]:
    """Search for logical names in unknown columns of statistics, each reported once for files of a configuration."""
    if view.config.mapping_mode == "none" or view.config.schema is None:
        return
    stats = stats_of(view)
    for path, unknown in stats.unknown.items():
        if stats.schema.is_logical(path) and not _may_be_dropped(path, view.config, stats.schema):
            logical, physical = _names_of(path, view.config.schema)
            where = f" in {unknown.files:,} files" if unknown.files > 1 else ""
            message = f"the statistics of {logical} have its logical name instead of the physical one{where}"
            yield STATS_KEY_LOGICAL.at(view.place(unknown.row), message, seen=".".join(path), expected=physical)


def _may_be_dropped(path: Sequence[str], config: TableConfiguration, schema: StatSchema) -> bool:
    """Return whether statistics may have the physical name of a field that was dropped, and added again since."""
    unknown = schema.shortest_unknown(tuple(path))
    return not config.assigned_names.is_complete or unknown is None or config.assigned_names.has(unknown)


def _names_of(path: Sequence[str], schema: types.StructType) -> tuple[str, str | None]:
    """Return the logical path of a column that ends with its logical name, and its physical name."""
    names: list[str] = []
    fields: Sequence[types.StructField] = schema.fields
    for part in path:
        for field in fields:
            if part == (physical_name_of(field) or field.name):
                names.append(field.name)
                fields = field.data_type.fields if isinstance(field.data_type, types.StructType) else ()
                break
        else:
            owner = next((field for field in fields if field.name == part), None)
            return ".".join((*names, part)), physical_name_of(owner) if owner else None
    return ".".join(names), None


_COLUMN_LOST = Fix(
    broken="engines refuse the table, or cannot find the column in its files",
    advice="commit a metaData in which the field has the id and the physical name that its files have",
    loss="nothing, if they are known; the footer of a data file shows both",
)
_TWINS = Fix(
    broken="readers return the values of one column for the other, or refuse the table",
    advice="commit a metaData in which the newer of the two has a unique id and physical name",
    loss="the values of the newer column in files written since the change",
)
_COUNTER = Fix(
    broken="the next new column may get an id that is already used",
    advice="commit a metaData with delta.columnMapping.maxColumnId set to the highest id ever assigned",
)

MODE_INVALID = AREA.error(
    "mapping.mode-invalid",
    "The column mapping mode is not none, name or id.",
    broken="engines refuse the table, or read it without column mapping",
    repair="set delta.columnMapping.mode to the mode with which the files were written",
    example='"delta.columnMapping.mode":"names"',
)
MODE_WITHOUT_PROTOCOL = AREA.error(
    "mapping.mode-without-protocol",
    "The properties enable column mapping, but the protocol does not support it, so readers must ignore the mode.",
    broken="engines disagree about whether files have physical or logical names",
    repair="commit a protocol with columnMapping (reader 2 and writer 5, or the feature)",
    loss="access by readers and writers without support for column mapping",
    example='"delta.columnMapping.mode":"name" under {"minReaderVersion":1,"minWriterVersion":2}',
)
ID_MISSING = AREA.error(
    "mapping.id-missing",
    "Column mapping is on, but a field has no id or an id that is not a whole number.",
    *_COLUMN_LOST,
    example='"metadata":{"delta.columnMapping.physicalName":"col-1"}',
)
NAME_MISSING = AREA.error(
    "mapping.name-missing",
    "Column mapping is on, but a field has no physical name or one that is not text.",
    *_COLUMN_LOST,
    example='"metadata":{"delta.columnMapping.id":1}',
)
ID_DUPLICATE = AREA.error(
    "mapping.id-duplicate",
    "Two fields of the schema have the same id.",
    *_TWINS,
    example='"delta.columnMapping.id":1 in the metadata of two fields',
)
PHYSICAL_PATH_DUPLICATE = AREA.error(
    "mapping.physical-path-duplicate",
    "Two fields of one struct have the same physical name.",
    *_TWINS,
    example='"delta.columnMapping.physicalName":"col-1" in the metadata of two columns',
)
ID_OUT_OF_RANGE = AREA.error(
    "mapping.id-out-of-range",
    "The id of a field is below 1, or too large for the 32 bits of data files.",
    *_COLUMN_LOST,
    example='"delta.columnMapping.id":0',
)
MAX_ID_TOO_SMALL = AREA.error(
    "mapping.max-id-too-small",
    "delta.columnMapping.maxColumnId is below an id that the schema uses.",
    *_COUNTER,
    spec="Writer Requirements for Column Mapping",
    example='"delta.columnMapping.maxColumnId":"2" and a column with the id 3',
)
MAX_ID_MISSING = AREA.warning(
    "mapping.max-id-missing",
    "Column mapping is on, but delta.columnMapping.maxColumnId is missing.",
    *_COUNTER,
    spec="Writer Requirements for Column Mapping",
    example='"configuration":{"delta.columnMapping.mode":"name"}',
)
STRAY_ANNOTATIONS = AREA.warning(
    "mapping.stray-annotations",
    "Fields have ids or physical names although column mapping is off.",
    spec="Delta Kernel: column mapping annotations",
    broken="some engines refuse the table; others use the physical names when mapping is turned on",
    repair="commit a metaData without the ids and names, or with the intended mode",
    loss="the names in files, if they were written with column mapping; the footer of a data file shows them",
    example='"metadata":{"delta.columnMapping.id":1,…} without delta.columnMapping.mode',
)
NESTED_IDS_WRONG = AREA.error(
    "mapping.nested-ids",
    "Iceberg compatibility requires ids for the parts of arrays and maps, but they are missing, wrong or already used.",
    spec="Iceberg Compatibility V2",
    broken="the table cannot be read as an Iceberg table",
    repair="commit a metaData in which delta.columnMapping.nested.ids gives every part a unique id",
    loss="nothing, if files already have the ids; otherwise they must be rewritten",
    example='an array column "col-1" without {"delta.columnMapping.nested.ids":{"col-1.element":7}}',
)
COMPAT_PHYSICAL_NAME = AREA.error(
    "mapping.compat-physical-name",
    "Iceberg writer compatibility requires physical names of `col-` and the id, but a field has another one.",
    spec="IcebergWriterCompatV1 (proposal)",
    broken="Iceberg writers cannot find the column by its id",
    repair="turn the compatibility off, or recreate the table with such names",
    loss="access by Iceberg readers, if the compatibility is turned off",
    example='"delta.columnMapping.id":1,"delta.columnMapping.physicalName":"id"',
)

_MAX_ID = 2**31 - 1
_NEEDS_NESTED_IDS = ("icebergCompatV2", "icebergCompatV3")
_NEEDS_PLAIN_NAMES = ("icebergWriterCompatV1", "icebergWriterCompatV3")


@AREA.check(
    MetadataView,
    MODE_INVALID,
    ID_MISSING,
    NAME_MISSING,
    ID_DUPLICATE,
    PHYSICAL_PATH_DUPLICATE,
    ID_OUT_OF_RANGE,
    MAX_ID_TOO_SMALL,
    MAX_ID_MISSING,
    STRAY_ANNOTATIONS,
    NESTED_IDS_WRONG,
    COMPAT_PHYSICAL_NAME,
)
def mappings_are_complete(view: MetadataView) -> Iterator[Finding]:
    """Check ids and physical names of one schema. Each fault is reported with the version that introduces it."""
    yield from fresh(view, "mapping.faults", _faults(view))


@AREA.check(MetadataView, MODE_WITHOUT_PROTOCOL)
def modes_have_their_protocol(view: MetadataView) -> Iterator[Finding]:
    """Report a metadata that enables mapping without support in the protocol."""
    yield from _ignored_mode(view.place, view.config, view.previous)


@AREA.check(ProtocolView, MODE_WITHOUT_PROTOCOL)
def protocols_keep_the_mapping(view: ProtocolView) -> Iterator[Finding]:
    """Report a protocol that drops column mapping while the metadata still enables it."""
    if view.config.metadata_version != view.version:
        yield from _ignored_mode(view.place, view.config, view.previous)


def _ignored_mode(place: Place, config: TableConfiguration, previous: TableConfiguration | None) -> Iterator[Finding]:
    mode = _mode(config)
    if config.protocol is None or not _is_ignored(config) or (previous is not None and _is_ignored(previous)):
        return
    message = f"{types.MODE} is {mode}, but the protocol does not support column mapping"
    seen = f"reader {config.protocol.min_reader_version}, writer {config.protocol.min_writer_version}"
    yield MODE_WITHOUT_PROTOCOL.at(place, message, key=types.MODE, seen=seen, expected="columnMapping")


def _is_ignored(config: TableConfiguration) -> bool:
    return _mode(config) in ("name", "id") and "columnMapping" not in config.features


def _mode(config: TableConfiguration) -> str:
    """Return the mode in the properties, whether or not the protocol supports column mapping."""
    return str(config.properties.get(types.MODE) or "none").lower()


def _faults(view: MetadataView) -> Iterator[Finding]:
    config = view.config
    mode = _mode(config)
    if mode not in MODES:
        place = view.place._replace(key=types.MODE)
        yield MODE_INVALID.at(place, f"{types.MODE} is {mode[:80]!r}", seen=mode, expected="none, name or id")
        return
    if config.schema is None:
        return
    fields = mapped_fields(config.schema)
    if mode == "none":
        yield from _stray(view, fields)
    elif "columnMapping" in config.features:
        yield from _field_faults(view, fields)
        yield from _counter_faults(view, fields)
        if _is_on(config, _NEEDS_NESTED_IDS):
            yield from _nested_id_faults(view, fields)


def _stray(view: MetadataView, fields: Sequence[MappedField]) -> Iterator[Finding]:
    stray = [one for one in fields if any(key.startswith("delta.columnMapping.") for key in one.field.metadata)]
    if stray:
        first = shown_path(stray[0].path)
        message = f"{len(stray)} fields have ids or physical names although column mapping is off; the first is {first}"
        if len(stray) == 1:
            message = f"the field {first} has an id or a physical name although column mapping is off"
        yield STRAY_ANNOTATIONS.at(_at(view, stray[0]), message, seen=len(stray), expected=0)


def _field_faults(view: MetadataView, fields: Sequence[MappedField]) -> Iterator[Finding]:
    ids: defaultdict[int, list[str]] = defaultdict(list)
    paths: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for one in fields:
        if one.id is not None:
            ids[one.id].append(shown_path(one.path))
        if one.physical_path is not None:
            paths[one.physical_path].append(shown_path(one.path))
    reported: set[object] = set()
    has_plain_names = _is_on(view.config, _NEEDS_PLAIN_NAMES)
    for one in fields:
        place, column = _at(view, one), shown_path(one.path)
        if one.id is None:
            yield ID_MISSING.at(
                place, f"the field {column} has no id", seen=one.field.metadata.get(types.ID), expected=types.ID
            )
        elif not 1 <= one.id <= _MAX_ID:
            message = f"the id of the field {column} is out of range"
            yield ID_OUT_OF_RANGE.at(place, message, seen=one.id, expected=f"1 to {_MAX_ID}")
        elif len(ids[one.id]) > 1 and one.id not in reported:
            reported.add(one.id)
            twins = ", ".join(ids[one.id])
            yield ID_DUPLICATE.at(place, f"several fields have the id {one.id}: {twins}", seen=one.id)
        if one.physical_name is None:
            seen = one.field.metadata.get(types.PHYSICAL_NAME)
            yield NAME_MISSING.at(
                place, f"the field {column} has no physical name", seen=seen, expected=types.PHYSICAL_NAME
            )
        elif len(paths.get(one.physical_path or (), ())) > 1 and one.physical_path not in reported:
            reported.add(one.physical_path)
            path = one.physical_path or ()
            # Within a struct that has the same id or name as another everything is duplicated.
            if not any(len(paths.get(path[:length], ())) > 1 for length in range(1, len(path))):
                twins = ", ".join(paths[one.physical_path or ()])
                message = f"several fields have the physical name {one.physical_name}: {twins}"
                yield PHYSICAL_PATH_DUPLICATE.at(place, message, seen=one.physical_name)
        elif has_plain_names and one.id is not None and one.physical_name != f"col-{one.id}":
            message = f"the physical name of the field {column} is not derived from its id"
            yield COMPAT_PHYSICAL_NAME.at(place, message, seen=one.physical_name, expected=f"col-{one.id}")


def _counter_faults(view: MetadataView, fields: Sequence[MappedField]) -> Iterator[Finding]:
    """Check that the highest id is recorded, because the next id is derived from it."""
    properties, place = view.config.properties, view.place._replace(key=types.MAX_COLUMN_ID)
    if types.MAX_COLUMN_ID not in properties:
        yield MAX_ID_MISSING.at(place, f"column mapping is on, but {types.MAX_COLUMN_ID} is missing")
        return
    limit = parse_integer_property(properties, types.MAX_COLUMN_ID)
    nested = [number for one in fields for number in one.nested_ids.values() if type(number) is int]
    used = max([*nested, *(one.id for one in fields if one.id is not None)], default=0)
    if limit is not None and limit < used <= _MAX_ID:
        message = f"{types.MAX_COLUMN_ID} is below the highest id in use"
        yield MAX_ID_TOO_SMALL.at(place, message, seen=limit, expected=f"at least {used}")


def _nested_id_faults(view: MetadataView, fields: Sequence[MappedField]) -> Iterator[Finding]:
    taken = {one.id: one.path for one in fields if one.id is not None}
    for one in fields:
        if one.physical_name is None:
            continue
        place, column = _at(view, one), shown_path(one.path)
        wanted = list(types.ways_to_parts(one.field.data_type, one.physical_name))
        absent = [way for way in wanted if type(one.nested_ids.get(way)) is not int]
        if absent:
            message = f"parts of the field {column} have no id: {', '.join(absent)}"
            yield NESTED_IDS_WRONG.at(place, message, seen=one.nested_ids or None, expected=", ".join(wanted))
        strange = [way for way in one.nested_ids if way not in wanted]
        if strange and not absent:
            message = f"the field {column} has ids for parts that do not exist: {', '.join(strange)}"
            yield NESTED_IDS_WRONG.at(place, message, seen=", ".join(strange), expected=", ".join(wanted) or "none")
        for way in wanted:
            number = one.nested_ids.get(way)
            if type(number) is int:
                if number in taken:
                    message = f"the id {number} of {way} is already used by {shown_path(taken[number])}"
                    yield NESTED_IDS_WRONG.at(place, message, seen=number, expected="a unique id")
                taken[number] = way


def _is_on(config: TableConfiguration, features: Sequence[str]) -> bool:
    """Return True if one of the features is supported and its property is true."""
    return any(
        name in config.features and config.is_on(f"delta.enable{name[:1].upper()}{name[1:]}") for name in features
    )


def _at(view: MetadataView, one: MappedField) -> Place:
    return view.place._replace(key=one.path)
