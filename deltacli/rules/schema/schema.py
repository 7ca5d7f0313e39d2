"""Rules about table schemas: a single schemaString in its parts. Changes over versions: `schema_changes`.

`parse_schema` stops at the first fault, but here all parts are visible.

Changes of schemas over versions are in `schema_changes`.

Spec: Schema Serialization Format.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from deltacli.core.errors import LazyText, command
from deltacli.delta.log.segment import Place
from deltacli.delta.schema.type_changes import canonical_name
from deltacli.delta.schema.types import (
    COLLATIONS,
    MAX_DEPTH,
    decimal_digits,
    interval_name,
    is_char,
    is_type_name,
)
from deltacli.rules.framework.base import Area, Finding, Fix
from deltacli.rules.framework.views import MetadataView, TableConfigurationView


class TypePart(NamedTuple):
    """A type within a schema: of the root, of a struct's field, or of a part of an array or a map."""

    path: str
    value: object
    role: str
    """`root`, `field`, `element`, `key` or `value`."""
    is_too_deep: bool = False
    "True if the walk ends because types are nested too deeply."


class NotASchema(NamedTuple):
    """Text that is not a JSON value, and why."""

    reason: str


def decode(view: MetadataView) -> object:
    """Return the JSON value of a metadata's schemaString (the last is cached), NotASchema, or None without a text."""
    text = view.raw.get("schemaString")
    if not isinstance(text, str):
        return None
    known = view.memory.get("schema.decoded")
    if known is not None and known[0] == text:
        value: object = known[1]
        return value
    decoded = _decode(text)
    view.memory["schema.decoded"] = (text, decoded)
    return decoded


def _decode(text: str) -> object:
    try:
        value: object = json.loads(text)
        return NotASchema("it is null") if value is None else value
    except RecursionError:
        return NotASchema("it is nested too deeply")
    except ValueError as fault:
        return NotASchema(f"it is not JSON: {str(fault)[:200]}")


def walk_parts(root: object) -> Iterator[TypePart]:
    """Yield every type of `root`, parents first, in the order of the text. Missing ones are faults of the parent."""
    waiting = [(TypePart("", root, "root"), 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > MAX_DEPTH:
            yield part._replace(is_too_deep=True)
            continue
        yield part
        waiting.extend((child, depth + 1) for child in reversed(list(_children(part))))


def _children(part: TypePart) -> Iterator[TypePart]:
    value = part.value
    if not isinstance(value, dict):
        return
    match value.get("type"):
        case "struct":
            for position, field in enumerate(fields_of(value)):
                if isinstance(field, dict) and field.get("type") is not None:
                    yield TypePart(field_path(part.path, field, position), field["type"], "field")
        case "array":
            if value.get("elementType") is not None:
                yield TypePart(joined(part.path, "element"), value["elementType"], "element")
        case "map":
            for role in ("key", "value"):
                if value.get(f"{role}Type") is not None:
                    yield TypePart(joined(part.path, role), value[f"{role}Type"], role)


def fields_of(struct: Mapping[str, Any]) -> list[Any]:
    """Return the raw fields of a struct, or none if they are not a list."""
    fields = struct.get("fields")
    return fields if isinstance(fields, list) else []


def field_path(parent: str, field: object, position: int) -> str:
    """Return the place of a field: its name, or its position if it has no name."""
    name = field.get("name") if isinstance(field, dict) else None
    return joined(parent, name if isinstance(name, str) and name else f"fields[{position}]")


def joined(parent: str, name: str) -> str:
    return f"{parent}.{name}" if parent else name


def shown_path(path: str) -> str:
    """Return a path for a message, shortened to its innermost names if it is long."""
    return (path if len(path) <= 120 else f"…{path[-120:]}") or "the root of the schema"


# -- names of types --------------------------------------------------------------------------------------------------


def is_void(value: object) -> bool:
    return value in ("void", "null") if isinstance(value, str) else False


def same_name(name: str) -> str:
    """Return one name for all spellings of a type, so that two schemas can be compared."""
    if name == "null":
        return "void"
    return interval_name(name) or canonical_name(name)


# -- findings over versions ------------------------------------------------------------------------------------------


def fresh(view: MetadataView | TableConfigurationView, name: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Return the findings that the previous metadata did not have. A fault is reported when it begins, and again when
    it returns.
    """
    before = view.memory.get(name, frozenset())
    now = []
    for finding in findings:
        key = (finding.rule.id, finding.place.key, finding.message)
        now.append(key)
        if key not in before:
            yield finding
    view.memory[name] = frozenset(now)


# -- rules about table schemas -----------------------------------------------------------------------------------------

AREA = Area("schema", spec="Struct Field")

_UNREADABLE = Fix(
    broken="engines cannot read the schema, and therefore not the table",
    advice="commit the metaData again with a corrected schemaString; the data files are unchanged",
    loss="nothing, if the right schema is known; the footer of any data file shows it",
)
_REFUSED = Fix(
    broken="some engines refuse the schema, or writes with it",
    advice="commit the metaData again with a corrected schemaString",
)
_UNWRITABLE = Fix(
    broken="files with such a column cannot be written",
    advice="commit a metaData that gives the column its real type or drops it",
    loss="nothing: no file holds a value of it",
)

BAD_JSON = AREA.error(
    "schema.bad-json",
    "A schemaString is not JSON, its root is not a struct, or one of its parts is invalid.",
    *_UNREADABLE,
    spec="Schema Serialization Format",
    example='"schemaString":"{\\"type\\":\\"struct\\",\\"fields\\":["',
)
FIELD_MISSING_KEY = AREA.error(
    "schema.field-missing-key",
    "A field, an array or a map of the schema lacks a required key.",
    *_UNREADABLE,
    example='{"name":"id","type":"long","metadata":{}}',
)
UNKNOWN_TYPE = AREA.error(
    "schema.unknown-type",
    "A column or nested field has a type that Delta does not define.",
    *_UNREADABLE,
    spec="Primitive Types",
    example='{"name":"id","type":"bigint","nullable":true,"metadata":{}}',
)
DECIMAL_BOUNDS = AREA.error(
    "schema.decimal-bounds",
    "A decimal has a precision outside 1 to 38, or a scale outside 0 to its precision.",
    *_UNREADABLE,
    spec="Primitive Types",
    example='"type":"decimal(39,2)"',
)
CHAR_VARCHAR = AREA.error(
    "schema.char-varchar",
    "A schema has char(n) or varchar(n). Such a column must be a string whose metadata names the type.",
    *_REFUSED,
    spec="Delta-Spark: char and varchar columns",
    example='{"name":"code","type":"varchar(10)","nullable":true,"metadata":{}}',
)
DUPLICATE_COLUMN = AREA.error(
    "schema.duplicate-column",
    "Two fields of one struct have names that are equal or differ only in case.",
    spec="Schema Serialization Format",
    broken="engines refuse the table, or return the values of one column for the other",
    repair="commit a metaData without one of the two, or with column mapping and another name for it",
    loss="the values of the dropped column",
    example='"fields":[{"name":"id",…},{"name":"ID",…}]',
)
EMPTY_NAME = AREA.error(
    "schema.empty-name",
    "A column or nested field has an empty name.",
    *_REFUSED,
    example='{"name":"","type":"long","nullable":true,"metadata":{}}',
)
INVALID_CHARS = AREA.warning(  # the protocol allows such names, and so do all engines but one
    "schema.invalid-chars",
    "A name has a space, a tab, a line end or one of ,;{}()= in a table without column mapping.",
    spec="Delta-Spark: names of columns in Parquet files",
    broken="Delta-Spark refuses to write the table, and its older versions refuse to read it",
    repair="enable column mapping (delta.columnMapping.mode=name)",
    loss="access by readers older than reader version 2",
    example='{"name":"unit price","type":"double","nullable":true,"metadata":{}}',
)
EMPTY_STRUCT = AREA.warning(
    "schema.empty-struct",
    "A struct within the schema has no fields, which Parquet cannot store.",
    *_UNWRITABLE,
    spec="Delta-Spark: schemas that cannot be written",
    example='{"name":"s","type":{"type":"struct","fields":[]},"nullable":true,"metadata":{}}',
)
NO_COLUMNS = AREA.error(
    "schema.no-columns",
    "The schema of the table has no columns.",
    broken="Spark, deltalake, DuckDB, polars and chDB refuse to read the table",
    repair=LazyText("add a column: {}", partial(command, "alter", "add", "NAME", "TYPE")),
    example='"schemaString":"{\\"type\\":\\"struct\\",\\"fields\\":[]}"',
)
MAP_KEY_NULL = AREA.warning(
    "schema.map-key-null",
    "The key of a map is or contains a map, or is marked as nullable.",
    *_REFUSED,
    spec="Map Type",
    example='{"type":"map","keyType":{"type":"map",…},"valueType":"long","valueContainsNull":true}',
)
VOID_IN_COMPLEX = AREA.warning(
    "schema.void-in-complex",
    "An array's element, a map's key or value, or every field of a struct or of the table is void, so nothing can be "
    "written.",
    *_UNWRITABLE,
    spec="Void Type",
    example='{"type":"array","elementType":"void","containsNull":true}',
)
METADATA_RESERVED = AREA.warning(
    "schema.metadata-reserved",
    "The metadata of a column has an undefined key that begins with `delta.`.",
    broken="the key has no effect, or a newer feature is used without being listed",
    repair="commit the metaData again with the intended key, or without it",
    example='"metadata":{"delta.generatedExpression":"year(ts)"}',
)
COLLATION_OF_ANOTHER = AREA.warning(
    "schema.collation-of-another",
    "The metadata of a column has the collation of a column with another name, so that engines read it without one.",
    spec="Delta-Spark: collations",
    broken="engines compare and sort the texts of the column by their bytes",
    repair="rename the column to the name in the metadata and back, which `deltacli alter` does with the collation",
    loss="nothing: the files are unchanged",
    example='{"name":"town","type":"string","nullable":true,"metadata":{"__COLLATIONS":{"city":"icu.UNICODE_CI"}}}',
)
INTERVAL_NONCANONICAL = AREA.info(
    "schema.interval-noncanonical",
    "An interval type is narrower than the two that schemas should have.",
    spec="Interval Types (proposal)",
    broken="nothing for engines that support intervals; others may recognize only the two full spellings",
    repair="commit the metaData again with `interval year to month` or `interval day to second`",
    loss="nothing: the files are unchanged",
    example='"type":"interval day to hour"',
)
TOO_WIDE = AREA.info(
    "schema.too-wide",
    "The schema has more than 10,000 leaf columns. Every metadata commit and every reader processes all of them.",
    spec="deltacli",
    broken="nothing",
    repair="no repair needed; splitting the table makes it faster",
    example="a schemaString of 12,000 columns",
)

_WIDEST = 10_000
_FORBIDDEN = frozenset(" ,;{}()\n\t=")
_FIELD_KEYS = ("name", "type", "nullable", "metadata")
_COMPLEX_KEYS: Mapping[str, tuple[str, ...]] = {
    "struct": ("fields",),
    "array": ("elementType", "containsNull"),
    "map": ("keyType", "valueType", "valueContainsNull"),
}
_BOOLEANS = ("containsNull", "valueContainsNull")
_RESERVED = frozenset(
    {
        "delta.columnMapping.id",
        "delta.columnMapping.physicalName",
        "delta.columnMapping.nested.ids",
        "delta.generationExpression",
        "delta.identity.start",
        "delta.identity.step",
        "delta.identity.highWaterMark",
        "delta.identity.allowExplicitInsert",
        "delta.invariants",
        "delta.typeChanges",
    }
)


@AREA.check(
    MetadataView,
    BAD_JSON,
    FIELD_MISSING_KEY,
    UNKNOWN_TYPE,
    DECIMAL_BOUNDS,
    CHAR_VARCHAR,
    DUPLICATE_COLUMN,
    EMPTY_NAME,
    INVALID_CHARS,
    EMPTY_STRUCT,
    NO_COLUMNS,
    MAP_KEY_NULL,
    VOID_IN_COMPLEX,
    METADATA_RESERVED,
    COLLATION_OF_ANOTHER,
    INTERVAL_NONCANONICAL,
    TOO_WIDE,
)
def schemas_are_well_formed(view: MetadataView) -> Iterator[Finding]:
    """Check every type of a schema separately. Each fault is reported with the version that introduces it."""
    yield from fresh(view, "schema.faults", _faults(view))


def _faults(view: MetadataView) -> Iterator[Finding]:
    root = decode(view)
    if root is None:
        return
    if isinstance(root, NotASchema):
        yield BAD_JSON.at(view.place, f"the schema cannot be read: {root.reason}")
        return
    if not isinstance(root, dict) or root.get("type") != "struct":
        seen = _kind(root.get("type") if isinstance(root, dict) else root)
        yield BAD_JSON.at(view.place, "the root of the schema is not a struct", seen=seen, expected="struct")
        return
    leaves = 0
    for part in walk_parts(root):
        leaves += isinstance(part.value, str)
        yield from _part_faults(view, part)
    if leaves > _WIDEST:
        message = f"the schema has {leaves:,} leaf columns"
        yield TOO_WIDE.at(view.place, message, seen=leaves, expected=f"at most {_WIDEST}")


def _part_faults(view: MetadataView, part: TypePart) -> Iterator[Finding]:
    place, value = _at(view, part.path), part.value
    if part.is_too_deep:
        yield BAD_JSON.at(place, f"types are nested too deeply at {shown_path(part.path)}")
    elif isinstance(value, str):
        yield from _name_faults(place, part, value)
    elif not isinstance(value, dict):
        yield BAD_JSON.at(
            place, f"the type of {shown_path(part.path)} is not a type", seen=_kind(value), expected="a type"
        )
    elif value.get("type") is None:
        yield FIELD_MISSING_KEY.at(place, f"the type of {shown_path(part.path)} has no key `type`", expected="type")
    elif value["type"] not in _COMPLEX_KEYS if isinstance(value["type"], str) else True:
        message = f"{shown_path(part.path)} has the type {_kind(value['type'])}, which Delta does not define"
        yield UNKNOWN_TYPE.at(place, message, seen=_kind(value["type"]), expected="a type of the protocol")
    else:
        yield from _complex_faults(view, place, part, value)


def _name_faults(place: Place, part: TypePart, name: str) -> Iterator[Finding]:
    column = shown_path(part.path)
    digits = decimal_digits(name)
    if digits is not None:
        precision, scale = digits
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            message = f"{column} is an invalid decimal: precision {precision}, scale {scale}"
            yield DECIMAL_BOUNDS.at(place, message, seen=name, expected="1 <= precision <= 38, 0 <= scale <= precision")
    elif is_char(name):
        message = f"{column} has the type {name}, which Delta schemas express as a string with metadata"
        yield CHAR_VARCHAR.at(place, message, seen=name, expected="string")
    elif not is_type_name(name):
        message = f"{column} has the type {name[:80]}, which Delta does not define"
        yield UNKNOWN_TYPE.at(place, message, seen=name, expected="a type of the protocol")
    else:
        whole = interval_name(name)
        if whole not in (None, name):
            message = f"{column} has an interval type that is narrower than schemas should have"
            yield INTERVAL_NONCANONICAL.at(place, message, seen=name, expected=whole)


def _complex_faults(view: MetadataView, place: Place, part: TypePart, value: Mapping[str, Any]) -> Iterator[Finding]:
    """Check a struct, an array or a map itself, but not its contents."""
    column, kind = shown_path(part.path), value["type"]
    for key in _COMPLEX_KEYS[kind]:
        if value.get(key) is None:
            yield FIELD_MISSING_KEY.at(place, f"the {kind} {column} has no key `{key}`", expected=key)
        elif key in _BOOLEANS and not isinstance(value[key], bool):
            message = f"`{key}` of {column} is neither true nor false"
            yield BAD_JSON.at(place, message, seen=_kind(value[key]), expected="true or false")
        elif key in ("elementType", "keyType", "valueType") and is_void(value[key]) and _forbids_void(view):
            message = f"the {kind} {column} contains void, so nothing can be written"
            yield VOID_IN_COMPLEX.at(place, message, seen=f"{key} {value[key]}")
    if kind == "map":
        parts = walk_parts(value.get("keyType"))
        if any(isinstance(inner.value, dict) and inner.value.get("type") == "map" for inner in parts):
            yield MAP_KEY_NULL.at(place, f"the key of the map {column} contains a map", seen="map")
        if value.get("keyContainsNull") is True:
            message = f"the key of the map {column} is marked as nullable"
            yield MAP_KEY_NULL.at(place, message, seen="keyContainsNull true", expected="keys are never null")
    if kind == "struct":
        yield from _struct_faults(view, part, value)


def _struct_faults(view: MetadataView, part: TypePart, value: Mapping[str, Any]) -> Iterator[Finding]:
    """Check the fields of a struct, except for their types."""
    place, column = _at(view, part.path), shown_path(part.path)
    if value.get("fields") is not None and not isinstance(value["fields"], list):
        message = f"the fields of {column} are not a list"
        yield BAD_JSON.at(place, message, seen=_kind(value["fields"]), expected="a list")
        return
    fields = fields_of(value)
    if value.get("fields") is not None and not fields:
        if part.role == "root":
            yield NO_COLUMNS.at(place, "the schema has no columns", expected="one column or more")
        else:
            yield EMPTY_STRUCT.at(place, f"the struct {column} has no fields")
    for position, field in enumerate(fields):
        yield from _field_faults(view, field_path(part.path, field, position), field)
    yield from _twin_faults(view, part.path, fields)
    stored = [field for field in fields if isinstance(field, dict)]
    if part.role == "root":
        partitions = view.raw.get("partitionColumns")
        names = partitions if isinstance(partitions, list) else []
        stored = [field for field in stored if field.get("name") not in names]
    if stored and all(is_void(field.get("type")) for field in stored) and _forbids_void(view):
        what = "the table" if part.role == "root" else f"the struct {column}"
        yield VOID_IN_COMPLEX.at(place, f"every column of {what} is void, so nothing can be written", seen="void")


def _field_faults(view: MetadataView, path: str, field: object) -> Iterator[Finding]:
    place, column = _at(view, path), shown_path(path)
    if not isinstance(field, dict):
        yield BAD_JSON.at(place, f"{column} is not a field", seen=_kind(field), expected="an object")
        return
    for key in _FIELD_KEYS:
        if field.get(key) is None:
            yield FIELD_MISSING_KEY.at(place, f"the field {column} has no key `{key}`", expected=key)
    wanted = (("name", str, "text"), ("nullable", bool, "true or false"), ("metadata", dict, "an object"))
    for key, kind, expected in wanted:
        if field.get(key) is not None and not isinstance(field[key], kind):
            message = f"`{key}` of the field {column} is not {expected}"
            yield BAD_JSON.at(place, message, seen=_kind(field[key]), expected=expected)
    name = field.get("name")
    if name == "":
        yield EMPTY_NAME.at(place, f"the field {column} has an empty name")
    elif isinstance(name, str) and not _FORBIDDEN.isdisjoint(name) and not _asks_for_mapping(view):
        message = f"the name of the field {column} requires column mapping, which is off"
        seen = "".join(sorted(_FORBIDDEN.intersection(name)))
        yield INVALID_CHARS.at(place, message, seen=repr(seen), expected="none of space , ; { } ( ) = tab, line end")
    metadata = field.get("metadata")
    for key in metadata if isinstance(metadata, dict) else ():
        if key.startswith("delta.") and key not in _RESERVED:
            yield METADATA_RESERVED.at(place, f"the metadata of {column} has an unknown key `{key}`", seen=key)
    collations = metadata.get(COLLATIONS) if isinstance(metadata, dict) else None
    for key in collations if isinstance(collations, dict) and isinstance(name, str) else ():
        if not f"{key}.".startswith(f"{name}."):
            message = f"the metadata of {column} has a collation of `{key}`"
            yield COLLATION_OF_ANOTHER.at(place, message, seen=key, expected=f"{name}, or {name} with a path")


def _twin_faults(view: MetadataView, parent: str, fields: list[Any]) -> Iterator[Finding]:
    """Report names of one struct that are equal or differ only in case, once per name."""
    named: defaultdict[str, list[str]] = defaultdict(list)
    for field in fields:
        name = field.get("name") if isinstance(field, dict) else None
        if isinstance(name, str) and name:
            named[name.lower()].append(name)
    for twins in named.values():
        if len(twins) > 1:
            where = f"of the struct {shown_path(parent)}" if parent else "of the table"
            message = f"{len(twins)} columns {where} have the name {twins[-1]}, ignoring case"
            place = _at(view, joined(parent, twins[-1]))
            yield DUPLICATE_COLUMN.at(place, message, seen=", ".join(twins), expected="different names")


def _asks_for_mapping(view: MetadataView) -> bool:
    """Return True if the property enables column mapping. Another rule reports a protocol without it."""
    return str(view.config.properties.get("delta.columnMapping.mode") or "none").lower() != "none"


def _forbids_void(view: MetadataView) -> bool:
    return "materializedVoidType" not in view.config.features


def _at(view: MetadataView, path: str) -> Place:
    return view.place._replace(key=path or None)


def _kind(value: object) -> str:
    """Return a JSON value for a finding, short ones in full."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return repr(value)[:80]
        case list():
            return "a list"
        case _:
            return "an object"
