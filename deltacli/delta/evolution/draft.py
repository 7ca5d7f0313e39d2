"""A table while it is changed: metaData and protocol, ids of new columns, and what refuses a change.

SQL is parsed, never searched. An expression that is not understood may refer to any column.

Spec: Schema Serialization Format; Change Data Files; Row Tracking; CHECK Constraints; Generated Columns; Column
Invariants; Clustered Table; Delta-Spark: ALTER TABLE, names of columns in Parquet files; Column Mapping.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

from deltacli.core.errors import Refusal, UsageError, command, quote_identifier
from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import Json
from deltacli.delta.clustering.clustering_columns import find_column
from deltacli.delta.evolution.requests import Change, SetMapping, sql_text
from deltacli.delta.log.actions import Action
from deltacli.delta.log.row_ids import MATERIALIZED_NAMES
from deltacli.delta.log.state import CHANGE_FEED, TableConfiguration, configuration_of, parse_integer_property
from deltacli.delta.protocol.feature_use import upgraded, way_to_mapping
from deltacli.delta.protocol.features import IDENTITY_COLUMNS
from deltacli.delta.protocol.property_changes import CHANGE_COLUMNS
from deltacli.delta.schema import types
from deltacli.delta.schema.column_path import ColumnFinder, ColumnPlace, PathPart
from deltacli.delta.schema.type_changes import named_fields
from deltacli.delta.schema.widened_schema import Verbatim, at, read_exactly, write_exactly
from deltacli.delta.schema.widening import IDENTITY_PREFIX, Caution
from deltacli.delta.sql.parser import Form, parse_expression
from deltacli.delta.sql.stored import DEFAULT_KEY, Reference, StoredKind, list_stored_sql, refers_to

Root = Any  # the JSON of a schema, edited in place

ColumnNames = tuple[str, ...]


class _Column(NamedTuple):
    """A top-level column in its forms: as JSON that is not edited any more, its text, and as a field."""

    json: Root
    text: str
    field: types.StructField


@dataclass(frozen=True)
class Draft:
    """A table to be changed. `clustering`: the physical paths of its clustering columns."""

    metadata: Action
    protocol: Action
    clustering: tuple[ColumnNames, ...] = ()
    needed: tuple[str, ...] = ()
    """Features that the changes use and the protocol lacks."""
    known_schema: types.StructType | None = dataclasses.field(default=None, repr=False, compare=False)
    known_root: Root | None = dataclasses.field(default=None, repr=False, compare=False)
    columns: dict[int, _Column] = dataclasses.field(default_factory=dict, repr=False, compare=False)
    """Columns by the identity of their JSON. Most stay as they are, and are read and written once for all drafts: 1,000
    changes of 2,000 columns take seconds, not a minute.
    """

    @cached_property
    def schema(self) -> types.StructType:
        return self.known_schema or types.parse_schema(str(self.metadata["schemaString"]))

    def _column(self, json: Root) -> _Column:
        known = self.columns.get(id(json))
        if known is None or known.json is not json:  # of a copy, such as a pickled one
            text = write_exactly(json)
            (parsed,) = types.parse_schema(f'{{"type":"struct","fields":[{text}]}}').fields
            known = self.columns[id(json)] = _Column(json, text, parsed)
        return known

    @cached_property
    def config(self) -> TableConfiguration:
        """Return the configuration, with the features that are still to be added."""
        return configuration_of(self.metadata, self.protocol, self.schema)

    @cached_property
    def finder(self) -> ColumnFinder:
        return ColumnFinder(self.schema)

    @property
    def configuration(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.metadata.get("configuration") or {}
        return found

    def root(self) -> Root:
        """Return the schema as JSON, of which the parts that `at` returns may be edited."""
        return dict(self.known_root or read_exactly(str(self.metadata["schemaString"])))

    def with_schema(self, root: Root) -> Draft:
        columns = [self._column(one) for one in root["fields"]]
        texts = ",".join([one.text for one in columns])
        text = write_exactly({**root, "fields": Verbatim(f"[{texts}]")})
        schema = types.StructType(tuple([one.field for one in columns]))
        return replace(self, metadata={**self.metadata, "schemaString": text}, known_schema=schema, known_root=root)

    def with_metadata(self, changed: Mapping[str, Json]) -> Draft:
        """Return the draft with some keys of the metaData changed, but not the schema; None removes one."""
        metadata = {key: value for key, value in {**self.metadata, **changed}.items() if value is not None}
        return replace(self, metadata=metadata, known_schema=self.schema)

    def with_properties(self, changed: Mapping[str, str | None]) -> Draft:
        """Return the draft with some properties changed; None removes one."""
        merged = {**self.configuration, **changed}
        return self.with_metadata({"configuration": {key: value for key, value in merged.items() if value is not None}})

    def needing(self, features: Sequence[str]) -> Draft:
        """Return the draft with features that its protocol must get, if it lacks them."""
        lacking = [name for name in features if name not in self.config.features and name not in self.needed]
        return replace(self, needed=(*self.needed, *lacking), known_schema=self.schema)


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be done, and what only the caller knows. `new_name` makes unique physical names."""

    commit_version: int
    new_name: Callable[[], str]
    enable: bool = False
    upgrade_protocol: bool = False
    partition_values: Callable[[str], Any] | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change does: `subject` is the column, as a path, or what else is changed; `before` and `after` are texts
    for people, None where there is nothing. `column`: the path of the column afterwards; `position`: where a new or a
    moved column is then, None: last.
    """

    change: Change
    subject: str
    before: str | None
    after: str | None
    column: str | None = None
    position: str | None = None
    cautions: tuple[Caution, ...] = ()

    @property
    def is_due(self) -> bool:
        return self.before != self.after

    @property
    def name(self) -> str:
        return str(getattr(self.change, "name", "")).strip()


Changed = tuple[Draft, Effect]


class Forbidden(Exception):
    """A change that the table, or the protocol, does not allow."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__(refusals[0].message)
        self.refusals = tuple(refusals)


def forbid(code: str, message: str, way_out: str = "") -> NoReturn:
    """Raise Forbidden for one reason."""
    raise Forbidden([Refusal(code, message, way_out)])


def fields_within(part: Root) -> Iterator[dict[str, Any]]:
    """Yield the fields within a type, parents first, to be edited."""
    match part:
        case {"type": "struct", "fields": [*fields]}:
            for field in fields:
                yield field
                yield from fields_within(field["type"])
        case {"type": "array", "elementType": element}:
            yield from fields_within(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            yield from fields_within(key)
            yield from fields_within(value)


def metadata_of(root: Root, place: ColumnPlace) -> dict[str, Any]:
    """Return the metadata of a field in the JSON of a schema, to be edited."""
    field = at(root, place.field_address)
    known = field.get("metadata")
    found: dict[str, Any] = dict(known) if isinstance(known, dict) else {}
    field["metadata"] = found
    return found


def require_field(place: ColumnPlace, verb: str) -> None:
    """Raise Forbidden for an element, a key or a value, which have no entry of their own in a schema."""
    if place.steps[-1].part is not PathPart.FIELD:
        forbid(
            "alter.part",
            f"{place.text} cannot be {verb}: it is the {place.steps[-1].part} of a collection, which has no "
            "name, comment, default or nullability of its own to change",
        )


def names_of(place: ColumnPlace) -> ColumnNames:
    """Return the logical names along a path."""
    return tuple(step.name for step in place.steps)


def physical_path(config: TableConfiguration, place: ColumnPlace) -> ColumnNames:
    """Return the names of the fields along a path in files."""
    return tuple(config.physical_name(field) for field in place.fields)


def quoted_path(names: Sequence[str]) -> str:
    """Return a path for the commitInfo, with names in backticks where they are needed."""
    return ".".join(name if name.isidentifier() else quote_identifier(name) for name in names)


# -- what refuses a change of a column ---------------------------------------------------------------------------------

FORBIDDEN = " ,;{}()\n\t="
"""The characters that names of columns in files cannot have."""


def require_free_name(draft: Draft, parent: ColumnPlace, name: str, text: str) -> None:
    """Raise Forbidden for a name that a field of the struct has, in any case, or that writers reserve."""
    assert isinstance(parent.data_type, types.StructType)
    if not name.strip():
        forbid("alter.name", "a column without a name cannot be made")
    known = next((field.name for field in parent.data_type.fields if field.name.lower() == name.lower()), None)
    if known is not None:
        differs = "" if known == name else f" as {known}; names that differ only in case are equal"
        forbid("alter.column-exists", f"{text} already exists{differs}")
    if parent.steps:
        return
    if draft.config.is_on(CHANGE_FEED) and name.lower() in CHANGE_COLUMNS:
        forbid("alter.reserved-name", f"{name} is reserved: the change data of the table has a column of that name")
    if name.lower() in [(draft.configuration.get(key) or "").lower() for key in MATERIALIZED_NAMES]:
        forbid("alter.reserved-name", f"{name} is reserved: files keep the row ids or commit versions of rows under it")


def require_valid_names(draft: Draft, names: Sequence[str], text: str) -> None:
    """Raise Forbidden for characters that names of columns in files cannot have."""
    if draft.config.mapping_mode != "none":
        return
    wrong = [name for name in names if any(character in FORBIDDEN for character in name)]
    if wrong:
        listed = ", ".join(map(repr, wrong))
        forbid(
            "alter.name",
            f"{text} cannot be added: without column mapping, names have no spaces and none of ,;{{}}()=, as {listed} "
            "does",
            way_to_mapping(draft.protocol) or "enable column mapping first",
        )


def text_type_of(
    data_type: types.DataType, text: str, *, is_nested: bool
) -> tuple[types.DataType, dict[str, Any] | None]:
    """Return a type with char and varchar as strings, and the metadata that keeps their lengths, if there are any.

    Raises Forbidden where no engine looks for that metadata.
    """
    plain = as_strings(data_type)
    if plain == data_type:
        return data_type, None
    if is_nested or isinstance(data_type, types.StructType):
        forbid(
            "alter.char-varchar", f"{text} cannot be added: char and varchar within a struct have no effect; use string"
        )
    return plain, {types.CHAR_VARCHAR_KEY: sql_text(data_type)}


def as_strings(data_type: types.DataType) -> types.DataType:
    """Return a type with `string` for char and varchar."""
    match data_type:
        case types.PrimitiveType(name):
            return types.PrimitiveType("string") if name.startswith(("char(", "varchar(")) else data_type
        case types.ArrayType(element, contains_null):
            return types.ArrayType(as_strings(element), contains_null)
        case types.MapType(key, value, contains_null):
            return types.MapType(as_strings(key), as_strings(value), contains_null)
        case types.StructType(fields):
            return types.StructType(tuple(field._replace(data_type=as_strings(field.data_type)) for field in fields))


_BLOOM_FILTER = "delta.bloomFilter"
_WAYS_OUT = {
    StoredKind.CONSTRAINT: "drop the constraint first, and add it again in the new form",
    StoredKind.INVARIANT: "commit a metaData without delta.invariants of {name} first",
    StoredKind.GENERATION: "drop the generated column {name} first",
}
_CODES = {
    StoredKind.CONSTRAINT: "alter.check-constraint",
    StoredKind.INVARIANT: "alter.invariant",
    StoredKind.GENERATION: "alter.generated-column",
}


def require_independent(draft: Draft, place: ColumnPlace, verb: str, *, is_dropped: bool = False) -> None:
    """Raise Forbidden with everything that depends on a column and would not follow it. `verb`: renamed, dropped."""
    found = list(_of_layout(draft, place)) if is_dropped else []  # a partitioning cannot be changed
    found += [*_of_sql(draft, place, verb, is_dropped=is_dropped), *_of_indexes(place, verb)]
    if found:
        raise Forbidden(found)


def _of_sql(draft: Draft, place: ColumnPlace, verb: str, *, is_dropped: bool) -> Iterator[Refusal]:
    own = ".".join(names_of(place))
    for stored in list_stored_sql(draft.config):
        is_own = stored.kind is not StoredKind.CONSTRAINT and (stored.name == own or stored.name.startswith(f"{own}."))
        if is_dropped and is_own:
            continue  # it goes with the column
        reference = refers_to(stored.text, draft.schema, place)
        if reference is not Reference.NO:
            message = f"{place.text} cannot be {verb}: {stored.verdict(reference)}"
            yield Refusal(_CODES[stored.kind], message, _WAYS_OUT[stored.kind].format(name=stored.name))


def _of_indexes(place: ColumnPlace, verb: str) -> Iterator[Refusal]:
    if any(key.startswith(_BLOOM_FILTER) for key in place.nearest.metadata):
        message = f"{place.text} cannot be {verb}: it has a Bloom filter index, whose files have its name"
        yield Refusal("alter.bloom-filter", message, "drop the index first, with the engine that made it")


def _of_layout(draft: Draft, place: ColumnPlace) -> Iterator[Refusal]:
    config, path = draft.config, physical_path(draft.config, place)
    if path[0] in config.partition_columns:
        message = f"{place.text} cannot be dropped: the table is partitioned by it"
        yield Refusal("alter.partition-column", message, "rewrite the table with other partitions")
    for columns in draft.clustering:
        length = min(len(columns), len(path))
        if columns[:length] == path[:length]:
            message = f"{place.text} cannot be dropped: the table is clustered by {'.'.join(columns)}"
            yield Refusal("alter.clustering-column", message, "cluster the table by other columns first")


def require_default_keeps_shape(draft: Draft, place: ColumnPlace, text: str, verb: str) -> None:
    """Raise Forbidden for a change within a column whose default is a value for its current fields: writers would
    fail, or after a move write values into other fields. `place`: the nested field, or the struct that gets one.
    """
    column = place.column
    default = column.metadata.get(DEFAULT_KEY)
    if default is None or draft.config.is_inert("allowColumnDefaults"):
        return
    root = parse_expression(str(default)).root
    if root is None or root.form is not Form.NULL:
        message = f"{text} cannot be {verb}: {column.name} has a default for its current fields, {default}"
        way_out = command("alter", "default", quoted_path([column.name]), drop=True) or "remove the default first"
        forbid("alter.default", message, way_out)


def require_lengths_in_place(parent: ColumnPlace, text: str, verb: str) -> None:
    """Raise Forbidden for a change within a struct whose lengths of char and varchar are kept as text: writers count
    its fields, so they would measure another one.
    """
    holder = next(
        (field for field in parent.fields if "char(" in str(field.metadata.get(types.CHAR_VARCHAR_KEY))), None
    )
    if holder is not None:
        message = f"{text} cannot be {verb}: {holder.name} keeps the lengths of its fields by their positions"
        forbid("alter.char-varchar", message, f"let an engine make those of {holder.name} strings")


def require_no_identity(draft: Draft, place: ColumnPlace, verb: str) -> None:
    """Raise Forbidden for an identity column, whose type, default and nullability are fixed."""
    if draft.config.is_inert(IDENTITY_COLUMNS):
        return
    if any(key.startswith(IDENTITY_PREFIX) for key in place.nearest.metadata):
        message = f"{place.text} cannot be {verb}: it is an identity column"
        raise Forbidden([Refusal("alter.identity", message, "")])


# -- ids and physical names of column mapping --------------------------------------------------------------------------

FEATURE = "columnMapping"
_LARGEST_ID = 2**31 - 1
_NEEDS_NESTED_IDS = ("delta.enableIcebergCompatV2", "delta.enableIcebergCompatV3")
_PREFIX = "delta.columnMapping."
_NEEDS_PLAIN_NAMES = ("delta.enableIcebergWriterCompatV1", "delta.enableIcebergWriterCompatV3")


def enable_mapping(draft: Draft, change: SetMapping, _: Settings) -> tuple[Draft, Effect]:
    """Give every field an id and its own name as physical name, so that existing files fit.

    Raises UsageError for a mode that is not `name`, and Forbidden for a table that cannot get it.
    """
    if change.mode != "name":
        message = f"column mapping cannot be set to {change.mode!r}: existing files have no field ids"
        raise UsageError(message, facts={"expected": "name"})
    now = draft.config.mapping_mode
    effect = Effect(change, types.MODE, now, "name")
    if now == "name":
        return draft, effect
    if now == "id":
        forbid(
            "alter.mapping-mode", f"{types.MODE} cannot be changed from id to name: existing files were written for ids"
        )
    stray = [one.path for one in named_fields(draft.schema) if _is_mapped(one.field.metadata)]
    if stray or str(draft.configuration.get(types.MODE) or "none").lower() != "none":
        where = f"the columns {', '.join(stray[:5])}" if stray else f"the property {types.MODE}"
        message = f"column mapping cannot be enabled: {where} already have entries of a mapping that is off"
        forbid("alter.mapping-exists", message, "commit a metaData without delta.columnMapping entries")
    root = read_exactly(str(draft.metadata["schemaString"]))
    highest = _number(
        root, parse_integer_property(draft.config.properties, types.MAX_COLUMN_ID) or 0, lambda name, _: name
    )
    mapped = draft.with_schema(root).with_properties({types.MODE: "name", types.MAX_COLUMN_ID: str(highest)})
    # With the versions (2,5) alone fewer clients would lose access. But deltalake 1.6.6 reads such tables into Arrow by
    # its logical names, which gives wrong values without an error; a listed feature it refuses.
    return replace(mapped, protocol=upgraded(draft.protocol, [FEATURE]) or draft.protocol), effect


def _is_mapped(metadata: Any) -> bool:
    return any(key.startswith(_PREFIX) for key in metadata)


def uses_mapping(config: TableConfiguration) -> bool:
    """Return True if the metadata of a table has anything of column mapping."""
    if str(config.properties.get(types.MODE) or "none").lower() != "none":
        return True
    return any(_is_mapped(one.field.metadata) for one in named_fields(config.schema or types.StructType(())))


def without_mapping(draft: Draft) -> Draft:
    """Return the table without column mapping. Raises Forbidden for names that columns in files cannot have."""
    wrong = [one.path for one in named_fields(draft.schema) if any(mark in FORBIDDEN for mark in one.field.name)]
    if wrong:
        forbid(
            "alter.name",
            f"column mapping cannot be removed: without it, names have no spaces and none of ,;{{}}()=, as "
            f"{', '.join(map(repr, wrong))} {'does' if len(wrong) == 1 else 'do'}",
            command("alter", "rename", f"`{wrong[0]}`", "NAME") or "rename these columns first",
        )
    root = read_exactly(str(draft.metadata["schemaString"]))
    for field in fields_within(root):
        known = field.get("metadata")
        if isinstance(known, dict):
            field["metadata"] = {key: value for key, value in known.items() if not key.startswith(_PREFIX)}
    dropped = dict.fromkeys(key for key in draft.configuration if key.startswith(_PREFIX))
    found = [find_column(draft.config, draft.schema, path) for path in draft.clustering]
    clustering = tuple(tuple(field.name for field in one.fields) or one.path for one in found)
    return replace(draft.with_schema(root).with_properties(dropped), clustering=clustering)


def _number(root: Root, highest: int, name_of: Callable[[str, int], str]) -> int:
    """Give all fields within a type ids after `highest`, and return the highest id then."""
    for field in fields_within(root):
        highest += 1
        _require_room(highest)
        known = field.get("metadata")
        name = name_of(field["name"], highest)
        field["metadata"] = {**(known if isinstance(known, dict) else {}), types.ID: highest, types.PHYSICAL_NAME: name}
    return highest


def _require_room(highest: int) -> None:
    if highest > _LARGEST_ID:
        forbid("alter.ids", f"no column id is left: ids are at most {_LARGEST_ID:,}")


def number_new_field(draft: Draft, field: dict[str, Any], new_name: Callable[[], str]) -> dict[str, str | None]:
    """Give a new field and its parts ids and physical names; return the property of the highest id, with mapping."""
    config = draft.config
    if config.mapping_mode == "none":
        return {}
    is_plain = any(map(config.is_on, _NEEDS_PLAIN_NAMES))
    struct = {"type": "struct", "fields": [field]}
    highest = _number(struct, highest_id(config), lambda _, number: f"col-{number if is_plain else new_name()}")
    if any(map(config.is_on, _NEEDS_NESTED_IDS)):
        highest = _number_parts(struct, highest)
    return {types.MAX_COLUMN_ID: str(highest)}


def _number_parts(struct: Root, highest: int) -> int:
    """Give the parts of arrays and maps ids, as Iceberg needs them."""
    for field in fields_within(struct):
        data_type = types.parse_schema(write_exactly({"type": "struct", "fields": [field]})).fields[0].data_type
        ways = list(types.ways_to_parts(data_type, field["metadata"][types.PHYSICAL_NAME]))
        if ways:
            field["metadata"][types.NESTED_IDS] = {way: highest + number for number, way in enumerate(ways, 1)}
            highest += len(ways)
            _require_room(highest)
    return highest


def highest_id(config: TableConfiguration) -> int:
    """Return the highest id that was ever assigned, as far as the schema and its property record it."""
    known = [parse_integer_property(config.properties, types.MAX_COLUMN_ID) or 0]
    for one in types.struct_fields(config.schema or types.StructType(())):
        nested = one.metadata.get(types.NESTED_IDS)
        numbers = [one.metadata.get(types.ID), *(nested.values() if isinstance(nested, dict) else ())]
        known += [number for number in numbers if type(number) is int]
    return max(known)


def require_mapping(draft: Draft, what: str) -> None:
    """Raise Forbidden for a table whose columns have the same names in its files."""
    if draft.config.mapping_mode == "none":
        message = f"{what}: the table has no column mapping, so its files have the columns under their names"
        forbid("alter.mapping-needed", message, way_to_mapping(draft.protocol) or "enable column mapping first")
