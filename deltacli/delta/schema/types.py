"""The types of a table schema: parsed from its schemaString, by kind of their values, and names as compared.

Spec: Schema Serialization Format; Primitive Types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from deltacli.core.errors import Unreadable, command
from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import Json, JsonObject


class PrimitiveType(NamedTuple):
    """A type without parts, by its name in the schema: `long`, `decimal(10,2)`. Unrecognized names are kept."""

    name: str


class ArrayType(NamedTuple):
    element: DataType
    contains_null: bool


class MapType(NamedTuple):
    key: DataType
    value: DataType
    value_contains_null: bool


class StructField(NamedTuple):
    """One column or nested field; `metadata` is verbatim."""

    name: str
    data_type: DataType
    nullable: bool
    metadata: JsonObject


class StructType(NamedTuple):
    fields: tuple[StructField, ...]


DataType: TypeAlias = PrimitiveType | ArrayType | MapType | StructType


MAX_DEPTH = 200
"Maximum nesting of types: far more than any engine supports, and few enough for recursion."


NO_COLUMNS = '{"type":"struct","fields":[]}'
"""The schema of a table without columns."""


def parse_schema(schema_string: str) -> StructType:
    """Parse a schemaString. Raises Unreadable (`schema.bad-json`, `schema.field-missing-key`) with the field's path."""
    try:
        value = json.loads(schema_string)
    except RecursionError:
        raise _malformed("", "it is nested too deeply") from None
    except ValueError as fault:
        raise _malformed("", f"it is not JSON: {str(fault)[:200]}") from None
    parsed = _parse_type(value, "", 0)
    if not isinstance(parsed, StructType):
        raise _malformed("", "its root is not a struct")
    return parsed


def _parse_type(value: object, path: str, depth: int) -> DataType:
    if depth > MAX_DEPTH:
        raise _malformed(path, f"types are nested too deeply: more than {MAX_DEPTH} of them")
    if isinstance(value, str):
        return PrimitiveType(value)
    if not isinstance(value, dict):
        raise _malformed(path, f"found {_shown(value)}, expected a type")
    match value.get("type"):
        case "struct":
            fields = _key(value, "fields", path)
            if not isinstance(fields, list):
                raise _malformed(path, "fields is not an array")
            return StructType(tuple(_parse_field(field, path, depth + 1) for field in fields))
        case "array":
            return ArrayType(
                _parse_type(_key(value, "elementType", path), f"{path}.element", depth + 1),
                value.get("containsNull") is not False,
            )
        case "map":
            key = _parse_type(_key(value, "keyType", path), f"{path}.key", depth + 1)
            return MapType(
                key,
                _parse_type(_key(value, "valueType", path), f"{path}.value", depth + 1),
                value.get("valueContainsNull") is not False,
            )
        case other:
            raise _malformed(path, f"unknown type {_shown(other)}")


def _parse_field(value: object, path: str, depth: int) -> StructField:
    if not isinstance(value, dict):
        raise _malformed(path, f"found {_shown(value)}, expected a field")
    name = _key(value, "name", path)
    if not isinstance(name, str):
        raise _malformed(path, f"found {_shown(name)} as the name of a field")
    place = f"{path}.{name}".lstrip(".")
    metadata = value.get("metadata")
    return StructField(
        name,
        _parse_type(_key(value, "type", place), place, depth),
        value.get("nullable") is not False,
        metadata if isinstance(metadata, dict) else {},
    )


def _key(value: JsonObject, key: str, path: str) -> Json:
    if key not in value:
        message = f"the schema is malformed at {_place(path)}: {key} is missing"
        raise Unreadable(message, code="schema.field-missing-key", hint=command("snapshot", json=True))
    return value[key]


def _shown(value: object) -> str:
    """Return a value for an error, shortened."""
    try:
        return repr(value)[:120]
    except RecursionError:
        return "a value nested too deeply to be shown"


def _malformed(path: str, reason: str) -> Unreadable:
    return Unreadable(
        f"the schema is malformed at {_place(path)}: {reason}",
        code="schema.bad-json",
        hint=command("snapshot", json=True),
    )


def _place(path: str) -> str:
    return (path if len(path) <= 120 else f"…{path[-120:]}") or "its root"


def simple_name(data_type: DataType) -> str:
    """Return a type in one or two words: `long`, `array<long>`, `map<string, struct>`, `struct`."""
    match data_type:
        case PrimitiveType(name):
            return name
        case ArrayType(element):
            return f"array<{simple_name(element)}>"
        case MapType(key, value):
            return f"map<{simple_name(key)}, {simple_name(value)}>"
        case StructType():
            return "struct"


def type_json(data_type: DataType) -> Json:
    """Return a type as in a schemaString: `"long"`, `{"type":"array",…}`."""
    match data_type:
        case PrimitiveType(name):
            return name
        case ArrayType(element, contains_null):
            return {"type": "array", "elementType": type_json(element), "containsNull": contains_null}
        case MapType(key, value, value_contains_null):
            parts = {"keyType": type_json(key), "valueType": type_json(value)}
            return {"type": "map", **parts, "valueContainsNull": value_contains_null}
        case StructType(fields):
            return {"type": "struct", "fields": [_field_json(field) for field in fields]}


def _field_json(field: StructField) -> dict[str, Json]:
    return {
        "name": field.name,
        "type": type_json(field.data_type),
        "nullable": field.nullable,
        "metadata": dict(field.metadata),
    }


def parts_of(data_type: DataType) -> tuple[StructField, ...]:
    """Return what a type consists of: the fields of a struct; the parts of an array or a map, `element`, `key` and
    `value`, as fields.
    """
    match data_type:
        case StructType(fields):
            return fields
        case ArrayType(element, contains_null):
            return (StructField("element", element, contains_null, {}),)
        case MapType(key, value, value_contains_null):
            return StructField("key", key, False, {}), StructField("value", value, value_contains_null, {})
        case PrimitiveType():
            return ()


def types_within(data_type: DataType) -> Iterator[DataType]:
    """Yield a type and those within it."""
    yield data_type
    for part in parts_of(data_type):
        yield from types_within(part.data_type)


TIMESTAMPS = frozenset({"timestamp", "timestamp_ntz"})
"""The types of timestamps in microseconds."""


def has_timestamps(data_type: DataType, names: Collection[str] = TIMESTAMPS) -> bool:
    """Return True for a type of timestamps with one of these names, and for one that contains some."""
    return any(isinstance(one, PrimitiveType) and one.name in names for one in types_within(data_type))


def struct_fields(data_type: DataType) -> Iterator[StructField]:
    """Yield every field of every struct, parents first."""
    for part in parts_of(data_type):
        if isinstance(data_type, StructType):
            yield part
        if type(part.data_type) is not PrimitiveType:  # half the time of a table without nested columns
            yield from struct_fields(part.data_type)


def holds(data_type: DataType, wanted: DataType) -> bool:
    """Return whether a type is another one, or has it as a part."""
    return wanted in types_within(data_type)


def walk(schema: StructType) -> Iterator[tuple[int, StructField]]:
    """Yield every field with its depth, parents first; `element`, `key` and `value` appear where they are structs."""
    yield from _walk(schema, 0)


def _walk(data_type: DataType, depth: int) -> Iterator[tuple[int, StructField]]:
    for part in parts_of(data_type):
        if isinstance(data_type, StructType) or not isinstance(part.data_type, PrimitiveType):
            yield depth, part
            yield from _walk(part.data_type, depth + 1)


# -- the primitive types of a schema by the kind of their values, for predicates ---------------------------------------

WHOLE_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
FIXED_TEXTS = ("char(", "varchar(")
YEAR_MONTH, DAY_SECOND = "interval year to month", "interval day to second"
NANOSECONDS = {"timestamp_nanos": "UTC", "timestamp_ntz_nanos": None, "timestamp_nanos_ntz": None}
"""The names of timestamps of nanoseconds, which are not final, and the zone of their values."""
_INTERVAL = re.compile(r"interval (?P<first>[a-z]+)(?: to (?P<last>[a-z]+))?", re.ASCII)
_INTERVAL_FAMILIES = (("year", "month"), ("day", "hour", "minute", "second"))


class Kind(StrEnum):
    """How values compare: by their number, by their bytes, as doubles; OTHER values do not."""

    WHOLE = "integer"
    DECIMAL = "decimal"
    FLOAT = "floating-point"
    DATE = "date"
    TIMESTAMP = "timestamp"
    NTZ = "timestamp_ntz"
    TEXT = "string"
    BINARY = "binary"
    BOOLEAN = "boolean"
    OTHER = "other"


_KINDS = {
    **dict.fromkeys(("byte", "short", "integer", "long"), Kind.WHOLE),
    **dict.fromkeys(("float", "double"), Kind.FLOAT),
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
    "timestamp_ntz": Kind.NTZ,
    "string": Kind.TEXT,
    "binary": Kind.BINARY,
    "boolean": Kind.BOOLEAN,
}
PLAIN_TYPES = frozenset(_KINDS)
"""The primitive types that have one name and values that compare."""


def value_kind(data_type: DataType) -> Kind:
    """Return how the values of a type compare."""
    if not isinstance(data_type, PrimitiveType):
        return Kind.OTHER
    if decimal_parts(data_type.name):
        return Kind.DECIMAL
    if data_type.name.startswith(FIXED_TEXTS):
        return Kind.TEXT
    return _KINDS.get(data_type.name, Kind.OTHER)


def interval_name(name: str) -> str | None:
    """Return the full name of an interval type: of `interval day`, `interval day to second`."""
    match = _INTERVAL.fullmatch(name)
    if match is None:
        return None
    first, last = match["first"], match["last"] or match["first"]
    for family in _INTERVAL_FAMILIES:
        if first in family and last in family:
            in_order = match["last"] is None or family.index(first) < family.index(last)
            return f"interval {family[0]} to {family[-1]}" if in_order else None
    return None


_MAX_DIGITS = 9
"""Of a precision or scale with leading zeros: Python refuses to read a number of thousands of digits."""


@lru_cache(maxsize=256)
def decimal_parts(name: str) -> tuple[int, int] | None:
    """Return precision and scale of `decimal(p,s)`, or None for any other type and for invalid ones."""
    if name == "decimal":
        return 10, 0
    if not (name.startswith("decimal(") and name.endswith(")")):
        return None
    parts = [part.strip() for part in name[len("decimal(") : -1].split(",")]
    if len(parts) not in (1, 2) or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    if any(len(part) > _MAX_DIGITS for part in parts):
        return None
    precision, scale = int(parts[0]), int(parts[1]) if len(parts) == 2 else 0
    return (precision, scale) if 1 <= precision <= 38 and scale <= precision else None


# -- names of primitive types ------------------------------------------------------------------------------------------

_PRIMITIVES = PLAIN_TYPES | {"decimal", "void", "variant"}

_DECIMAL_NAME = re.compile(r"decimal\(\s*(-?\d{1,9})\s*,\s*(-?\d{1,9})\s*\)", re.ASCII)
_CHAR_NAME = re.compile(r"(?:char|varchar)\(\s*\d+\s*\)", re.ASCII)
_OTHER_NAME = re.compile(
    r"(?:geometry|geography)(?:\(.*\))?|timestamp(?:_ntz|_ltz)?\(\s*\d\s*\)|"
    r"timestamp_(?:ltz|nanos|ntz_nanos|nanos_ntz)|string collate \S+",
    re.ASCII,
)
"Types of newer proposals and their engines. Other rules check which feature they need."


def is_type_name(name: str) -> bool:
    """Return True if a primitive type has exactly that name in a schema, or in a proposal for the protocol."""
    return (
        name in _PRIMITIVES
        or name == "null"  # written by Spark 2 for void
        or _DECIMAL_NAME.fullmatch(name) is not None
        or is_char(name)
        or interval_name(name) is not None
        or _OTHER_NAME.fullmatch(name) is not None
    )


def is_char(name: str) -> bool:
    """Return True for `char(n)` and `varchar(n)`."""
    return _CHAR_NAME.fullmatch(name) is not None


def decimal_digits(name: str) -> tuple[int, int] | None:
    """Return precision and scale of a decimal type as written, valid or not."""
    match = _DECIMAL_NAME.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


# -- names of columns and fields as engines compare them ---------------------------------------------------------------

MODE = "delta.columnMapping.mode"
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
ID = "delta.columnMapping.id"
NESTED_IDS = "delta.columnMapping.nested.ids"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
CHAR_VARCHAR_KEY = "__CHAR_VARCHAR_TYPE_STRING"
COLLATIONS = "__COLLATIONS"
"""The key of a field's metadata that names the collations of its strings: of `tags.element` in a field `tags`."""


_PADDED = re.compile(r"(?<!var)char\s*\(")


def declared_type(field: StructField) -> str | None:
    """Return the type by which a field with strings of a length was declared; None for other fields.

    Engines keep it in the metadata, because the type in the schema is `string`: `char(5)`, or `struct<c:char(3)>` of a
    struct.
    """
    declared = field.metadata.get(CHAR_VARCHAR_KEY)
    return declared.strip().lower() if isinstance(declared, str) else None


def is_padded(field: StructField) -> bool:
    """Return whether a field was declared as char(n), or has such a field, whose values Spark pads with blanks."""
    declared = declared_type(field) or simple_name(field.data_type)
    return _PADDED.search(declared) is not None


def physical_name(field: StructField, mode: str) -> str:
    """Return a field's name in files, statistics and partition values. `mode` of mapping: `none`, `name` or `id`."""
    return field.name if mode == "none" else get_recorded_physical_name(field)


def get_recorded_physical_name(field: StructField) -> str:
    """Return the physical name that the schema records for a field, whatever the mode; its own name without one."""
    return str(field.metadata.get(PHYSICAL_NAME) or field.name)


class NameIndex:
    """The positions of names among their siblings (None: not among them): exact matches first, else ignoring case.
    Names are lower-cased, not case-folded: `straße` and `strasse` are two names.
    """

    def __init__(self, names: Iterable[str | None]) -> None:
        self._names = tuple(names)
        self._exact = _places(self._names)

    @cached_property
    def _lower(self) -> dict[str, list[int]]:
        return _places(name if name is None else name.lower() for name in self._names)

    def places_of(self, name: str) -> Sequence[int]:
        """Return all positions of a name, in order."""
        exact = self._exact.get(name)
        return exact if exact is not None else self._lower.get(name.lower(), ())


def _places(names: Iterable[str | None]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        if name is not None:
            found.setdefault(name, []).append(place)
    return found


def find_name_positions(name: str, names: Iterable[str | None]) -> Sequence[int]:
    """Return the position of one name among others, as `NameIndex` finds it."""
    return NameIndex(names).places_of(name)


def ways_to_parts(data_type: DataType, start: str) -> Iterator[str]:
    """Yield the paths to parts of an array or map: `<start>.element`, `<start>.value.key`. Structs start new ones."""
    for part in () if isinstance(data_type, StructType) else parts_of(data_type):
        way = f"{start}.{part.name}"
        yield way
        yield from ways_to_parts(part.data_type, way)
