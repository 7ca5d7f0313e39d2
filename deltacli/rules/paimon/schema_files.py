"""Rules about one schema file: its content, its fields with ids and defaults, and the keys of the table.

A default value must be a text that can be converted to the type of its column, as Paimon does when writing rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial

from deltacli.core.errors import LazyText, Unreadable, command, parameter
from deltacli.paimon.schema import CURRENT_VERSION, FIRST_SYSTEM_ID
from deltacli.paimon.schema_changes import dotted
from deltacli.paimon.types import (
    AtomicType,
    DataType,
    ListType,
    MapType,
    Odd,
    Oddity,
    Root,
    RowType,
    atomic_text,
    stops_pypaimon,
    types_in,
    walk_fields,
)
from deltacli.rules.framework.base import Area, Finding, Fix, ReadFault, Rule, Severity
from deltacli.rules.paimon.catalogue import Profile, SchemaFileView

AREA = Area("Schema files", spec="Schema")

_PYTHON = partial(parameter, "validate.profile", "python")
_RESTORE = "restore the file from a backup; if no snapshot, tag or data file names this schema, it can be deleted"
_UNREADABLE = Fix("readers of this schema fail", _RESTORE, "nothing if the file is restored")

BAD_JSON = AREA.error(
    "paimon.bad-json",
    "A schema file is a JSON object in UTF-8 without a byte order mark.",
    *_UNREADABLE,
    example='{"version": 3,',
)
MISSING_KEY = AREA.error(
    "paimon.missing-key",
    "A schema file has all required keys, and so has each field.",
    *_UNREADABLE,
    example="a schema without highestFieldId",
)
BAD_VALUE = AREA.error(
    "paimon.bad-value",
    "The keys of a schema file have values of their types.",
    *_UNREADABLE,
    example='"highestFieldId": "three"',
)
BAD_TYPE = AREA.error(
    "paimon.bad-type",
    "The type of each field is a data type of Paimon.",
    *_UNREADABLE,
    example='"type": "DECIMAL(39, 0)"',
)
TOO_LARGE = AREA.error(
    "paimon.file-too-large", "A metadata file has a plausible size.", *_UNREADABLE, example="a schema file of 1 GiB"
)
ID_DIFFERS = AREA.error(
    "paimon.id-differs",
    "The id in a schema file is the number in its name.",
    broken=_UNREADABLE.broken,
    repair="set the id to the number in the file name",
    loss=_UNREADABLE.loss,
    example='"id": 4 in schema-3',
)
NULL_KEY = AREA.warning(
    "paimon.null-key",
    "Required keys are not null; null keys are an error.",
    broken="readers disagree: some fail, others read an empty value",
    repair="write [ ] or { }",
    example='"partitionKeys": null',
)
UNKNOWN_VERSION = AREA.warning(
    "paimon.unknown-version",
    f"The version of a schema file is 1 to {CURRENT_VERSION}.",
    spec="Compatibility",
    broken="readers ignore what a newer version adds",
    repair="use a newer deltacli, or find the program that wrote the file",
    example='"version": 4',
)
DUPLICATE_KEY = AREA.warning(
    "paimon.duplicate-key",
    "A JSON object has each key once.",
    broken="readers can use different ones of the values",
    repair="delete the wrong one; Java uses the last",
    example='"id": 1, "id": 2',
)
TRAILING_TEXT = AREA.warning(
    "paimon.trailing-text",
    LazyText("Nothing follows the JSON object; an error with {}.", _PYTHON),
    broken="strict readers fail; Java ignores the text",
    repair="delete the text",
    example="{ } { }",
)
OPTION_NOT_STRING = AREA.warning(
    "paimon.option-not-string",
    "The values of options are strings.",
    broken="strict readers fail; Java converts the value to text",
    repair="write the value in quotes",
    example='"bucket": 5',
)
WRONG_JSON_TYPE = AREA.warning(
    "paimon.wrong-json-type",
    LazyText("Numbers are written as JSON numbers without decimals; an error with {} for version and id.", _PYTHON),
    broken="pypaimon opens no table with a version in quotes, and writes to none with an id in quotes; Java reads both",
    repair="write the number without quotes and decimals",
    example='"version": "3"',
)
NULLABLE_MAP_KEY = AREA.warning(
    "paimon.map-key-nullable",
    LazyText("The key of a MAP is NOT NULL; an error with {}.", partial(parameter, "validate.profile", "cpp")),
    spec="Limitations; MAP Key Must Be NOT NULL",
    broken="Paimon C++ refuses the whole schema, because Arrow has no nullable map keys",
    repair="write the key as NOT NULL",
    example='{"type": "MAP", "key": "INT", "value": "INT"}',
)
NULLABILITY = AREA.warning(
    "paimon.nullability-contradiction",
    LazyText("A type string and the key nullable agree; an error with {}.", _PYTHON),
    spec="DataField",
    broken="Java trusts the string, pypaimon the key",
    repair="delete the key nullable, and write NOT NULL with one blank",
    example='{"type": "ARRAY NOT NULL", "element": "INT", "nullable": true}',
)
NOT_CANONICAL = AREA.info(
    "paimon.type-not-canonical",
    LazyText("Type strings have the form in which Java writes them; a warning with {}.", _PYTHON),
    spec="DataField",
    broken="pypaimon refuses some other forms and misreads others",
    repair="write the type in its usual form",
    example="INT  NOT  NULL, VARCHAR (10), INT ARRAY",
)
UNKNOWN_KEY = AREA.info(
    "paimon.unknown-key",
    "A schema file has known keys only.",
    broken="nothing: readers ignore the key",
    repair="none needed",
    example='"owner": "me"',
)

_ODDITIES: Mapping[Odd, tuple[Rule, str]] = {
    Odd.NULL_KEY: (NULL_KEY, "{place} is null"),
    Odd.DUPLICATE_KEY: (DUPLICATE_KEY, "the key {place} occurs more than once in an object"),
    Odd.TRAILING_TEXT: (TRAILING_TEXT, "{seen} characters follow the JSON object"),
    Odd.UNKNOWN_KEY: (UNKNOWN_KEY, "unknown key {place}"),
    Odd.OPTION_NOT_STRING: (OPTION_NOT_STRING, "the value of {place} is not a string"),
    Odd.WRONG_JSON_TYPE: (WRONG_JSON_TYPE, "{place} is {seen!r}, expected a JSON number without decimals"),
    Odd.NULLABLE_MAP_KEY: (NULLABLE_MAP_KEY, "the key of the MAP {place} is nullable"),
    Odd.NULLABILITY: (NULLABILITY, "the type of {place} is ambiguous"),
    Odd.NOT_CANONICAL: (NOT_CANONICAL, "the type of {place} has an unusual form"),
}


@AREA.check_faults(SchemaFileView, BAD_JSON, MISSING_KEY, BAD_VALUE, BAD_TYPE, TOO_LARGE)
def check_reading(view: SchemaFileView) -> Iterator[ReadFault]:
    """Report why a file cannot be read."""
    if isinstance(view.content, Unreadable):
        yield ReadFault(view.content.code, view.place(), view.content.message)


@AREA.check(SchemaFileView, *(rule for rule, _ in _ODDITIES.values()))
def check_oddities(view: SchemaFileView) -> Iterator[Finding]:
    """Report what Java reads but does not write."""
    if view.schema is None:
        return
    for oddity in view.schema.oddities:
        rule, message = _ODDITIES[oddity.rule]
        place = view.place(oddity.place or None)
        text = message.format(place=oddity.place, seen=oddity.seen)
        yield rule.at(place, text, seen=oddity.seen, severity=_severity(view.profile, oddity))


def _severity(profile: Profile, oddity: Oddity) -> Severity | None:
    """Return the severity where it is not that of the rule."""
    odd, place = oddity.rule, oddity.place
    if odd is Odd.NOT_CANONICAL and profile is Profile.PYTHON:
        return Severity.WARNING
    is_error = (
        (odd is Odd.NULL_KEY and place in ("partitionKeys", "primaryKeys"))
        or (odd is Odd.NULLABLE_MAP_KEY and profile is Profile.CPP)
        or (odd in (Odd.NULLABILITY, Odd.TRAILING_TEXT) and profile is Profile.PYTHON)
        or (stops_pypaimon(oddity) and profile is Profile.PYTHON)
    )
    return Severity.ERROR if is_error else None


@AREA.check(SchemaFileView, ID_DIFFERS, UNKNOWN_VERSION)
def check_id_and_version(view: SchemaFileView) -> Iterator[Finding]:
    """Compare the id with the file name, and the version with the known ones."""
    if view.schema is None:
        return
    if view.schema.id != view.id:
        message = f"the file has the id {view.schema.id}"
        yield ID_DIFFERS.at(view.place("id"), message, seen=view.schema.id, expected=view.id)
    if not 1 <= view.schema.version <= CURRENT_VERSION:
        message = f"version {view.schema.version} is unknown"
        expected = f"1 to {CURRENT_VERSION}"
        yield UNKNOWN_VERSION.at(view.place("version"), message, seen=view.schema.version, expected=expected)


# -- rules about the fields of a schema, their ids, names and default values -------------------------------------------

FIELD_AREA = Area("Fields and keys", spec="DataField")

_RESERVED = frozenset({"_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "_ROW_ID", "rowkind"})
_RESERVED_PREFIX = "_KEY_"
NO_KEY_TYPES = frozenset(
    {
        *(Root.ARRAY, Root.MAP, Root.ROW, Root.MULTISET, Root.VECTOR),
        *(Root.VARIANT, Root.BLOB, Root.GEOMETRY, Root.GEOGRAPHY),
    }
)
_DIRECTIVES = ("__BLOB", "__VECTOR")
_REFUSED = "Paimon refuses to open or alter the table"


ID_DUPLICATE = FIELD_AREA.error(
    "paimon.field-id-duplicate",
    "Each field has an id of its own, nested fields included.",
    broken="old files are read into the wrong column",
    repair="give the younger field a new id, if no file has it",
    loss="unknown",
    example="two columns with the id 3",
)
HIGHEST_ID = FIELD_AREA.error(
    "paimon.highest-field-id",
    "`highestFieldId` is at least the id of every field, nested fields included.",
    spec="Schema",
    broken="the next added column takes an id in use, and shows the values of another column",
    repair="set highestFieldId to the greatest id of any version",
    example='"highestFieldId": 2 with a field of the id 3',
)
ID_RANGE = FIELD_AREA.error(
    "paimon.field-id-range",
    f"Ids of fields are from 0 to {FIRST_SYSTEM_ID - 1}.",
    broken="the field can be mistaken for a system field",
    repair="give the field a new id, if no file has it",
    loss="unknown",
    example=f"a field with the id {FIRST_SYSTEM_ID}",
)
COLUMN_DUPLICATE = FIELD_AREA.error(
    "paimon.column-duplicate",
    "Columns have different names.",
    broken=_REFUSED,
    repair="rename one of the columns in the file",
    example="two columns named a",
)
RESERVED_NAME = FIELD_AREA.error(
    "paimon.reserved-name",
    "No column has the name of a system field; a nested field is a warning.",
    broken=_REFUSED,
    repair="rename the column in the file",
    example="a column named _VALUE_KIND",
)
BLANK_NAME = FIELD_AREA.error(
    "paimon.blank-name",
    "Each field has a name that is not blank, nested fields included.",
    broken=_REFUSED,
    repair="rename the field in the file",
    example="a column named ''",
)
DIRECTIVE = FIELD_AREA.error(
    "paimon.comment-directive",
    "No comment begins with a directive to SQL engines: they act on it and do not store it.",
    broken="a table that is created like this one is refused, or gets a BLOB or VECTOR in place of the column",
    repair=LazyText("write another comment: {}", partial(command, "alter", "comment", "COLUMN", "TEXT", table="TABLE")),
    example='"description": "__BLOB_FIELD"',
)
DEFAULT_VALUE = FIELD_AREA.error(
    "paimon.default-value",
    "Default values can be converted to the type of their field.",
    broken="writers fail on rows without a value",
    repair=LazyText("set another default: {}", partial(command, "alter", "default", "COLUMN", "VALUE", table="TABLE")),
    example='"defaultValue": "five" of an INT',
)
NO_COLUMNS = FIELD_AREA.error(
    "paimon.no-columns",
    "A schema has columns.",
    spec="Schema",
    broken="engines cannot read the table",
    repair="restore the file from a backup",
    example='"fields": []',
)
KEY_MISSING = FIELD_AREA.error(
    "paimon.key-missing",
    "Each partition key and primary key is a column.",
    spec="Schema",
    broken=_REFUSED,
    repair="restore the column, or its former name",
    example='"primaryKeys": ["id"] without a column id',
)
KEY_DUPLICATE = FIELD_AREA.error(
    "paimon.key-duplicate",
    "Partition keys and primary keys name each column once.",
    spec="Schema",
    broken="engines lay out rows and partitions differently",
    repair="name the column once",
    example='"primaryKeys": ["id", "id"]',
)
KEY_TYPE = FIELD_AREA.error(
    "paimon.key-type",
    "Keys have a type that values can be compared by.",
    spec="Schema",
    broken=_REFUSED,
    repair="restore the former type of the column",
    example="a partition key of the type ARRAY<INT>",
)
KEY_IN_PARTITION = FIELD_AREA.error(
    "paimon.key-within-partition",
    "The primary key has a column that is not a partition key.",
    spec="Schema",
    broken=_REFUSED,
    repair="recreate the table with a longer primary key",
    example='"primaryKeys": ["day"] with "partitionKeys": ["day"]',
)
BLOB = FIELD_AREA.error(
    "paimon.blob",
    "BLOB columns are at the top level, beside other columns, with row tracking and data evolution.",
    broken=_REFUSED,
    repair="set row-tracking.enabled and data-evolution.enabled in a new table",
    example="a BLOB inside a ROW",
)


@FIELD_AREA.check(SchemaFileView, ID_DUPLICATE, ID_RANGE, HIGHEST_ID)
def check_ids(view: SchemaFileView) -> Iterator[Finding]:
    """Check that ids are distinct, in range, and counted by highestFieldId."""
    if view.schema is None:
        return
    names: dict[int, list[str]] = {}
    for path, field in walk_fields(view.schema.fields):
        names.setdefault(field.id, []).append(dotted(path))
    for number, having in names.items():
        if len(having) > 1:
            message = f"{' and '.join(having)} have the same id"
            yield ID_DUPLICATE.at(view.place(having[0]), message, seen=number)
        if not 0 <= number < FIRST_SYSTEM_ID:
            kind = "negative" if number < 0 else "in the range of system fields"
            yield ID_RANGE.at(view.place(having[0]), f"the id of {having[0]} is {kind}", seen=number)
    users = [number for number in names if number < FIRST_SYSTEM_ID]
    if users and max(users) > view.schema.highest_field_id:
        message = f"{names[max(users)][0]} has a greater id"
        seen = view.schema.highest_field_id
        yield HIGHEST_ID.at(view.place("highestFieldId"), message, seen=seen, expected=f"at least {max(users)}")


@FIELD_AREA.check(SchemaFileView, COLUMN_DUPLICATE, RESERVED_NAME, BLANK_NAME, NO_COLUMNS)
def check_names(view: SchemaFileView) -> Iterator[Finding]:
    """Check that there are columns, with distinct names that are not reserved."""
    if view.schema is None:
        return
    names = [field.name for field in view.schema.fields]
    if not names:
        yield NO_COLUMNS.at(view.place("fields"), "the schema has no columns")
    for name, count in Counter(names).items():
        if count > 1:
            yield COLUMN_DUPLICATE.at(view.place(name), f"{count} columns are named {name!r}")
    for path, field in walk_fields(view.schema.fields):
        if not field.name.strip():
            yield BLANK_NAME.at(view.place(dotted(path)), f"the name of the field {field.id} is blank", seen=field.name)
        if field.name in _RESERVED or field.name.startswith(_RESERVED_PREFIX):
            severity = None if len(path) == 1 else Severity.WARNING
            message = f"{field.name} is the name of a system field"
            yield RESERVED_NAME.at(view.place(dotted(path)), message, severity=severity)


@FIELD_AREA.check(SchemaFileView, DIRECTIVE, DEFAULT_VALUE)
def check_texts(view: SchemaFileView) -> Iterator[Finding]:
    """Check comments and default values."""
    for path, field in () if view.schema is None else walk_fields(view.schema.fields):
        name = dotted(path)
        if field.description is not None and field.description.strip().startswith(_DIRECTIVES):
            message = (
                f"the comment of {name} is a directive for SQL engines, which only a new BLOB or VECTOR column has"
            )
            yield DIRECTIVE.at(view.place(name), message, seen=field.description)
        reason = None if field.default_value is None else why_bad_default(field.type, field.default_value)
        if reason is not None:
            message = f"{name} cannot have this default value: {reason}"
            yield DEFAULT_VALUE.at(view.place(name), message, seen=field.default_value)


@FIELD_AREA.check(SchemaFileView, KEY_MISSING, KEY_DUPLICATE, KEY_TYPE, KEY_IN_PARTITION)
def check_keys(view: SchemaFileView) -> Iterator[Finding]:
    """Check the partition keys and the primary keys."""
    schema = view.schema
    if schema is None:
        return
    types = {field.name: field.type for field in schema.fields}
    for keys, key, word in (
        (schema.partition_keys, "partitionKeys", "partition key"),
        (schema.primary_keys, "primaryKeys", "primary key"),
    ):
        for name, count in Counter(keys).items():
            if count > 1:
                yield KEY_DUPLICATE.at(view.place(key), f"the {word} {name} is named {count} times")
            if name not in types:
                yield KEY_MISSING.at(view.place(key), f"the {word} {name} is not a column", seen=name)
            elif types[name].root in NO_KEY_TYPES:
                yield KEY_TYPE.at(view.place(key), f"the {word} {name} has the type {types[name].root}")
    if schema.primary_keys and set(schema.primary_keys) <= set(schema.partition_keys):
        yield KEY_IN_PARTITION.at(view.place("primaryKeys"), "all primary keys are partition keys")


@FIELD_AREA.check(SchemaFileView, BLOB)
def check_blobs(view: SchemaFileView) -> Iterator[Finding]:
    """Check the places of BLOB columns and the options that they need."""
    schema = view.schema
    if schema is None:
        return
    blobs = [field for field in schema.fields if is_blob(field.type)]
    for field in schema.fields:
        if field not in blobs and any(part.root is Root.BLOB for part in types_in(field.type)):
            yield BLOB.at(view.place(field.name), f"{field.name} has a BLOB inside")
    if not blobs:
        return
    if len(blobs) == len(schema.fields):
        yield BLOB.at(view.place(blobs[0].name), "every column is a BLOB")
    needed = ("row-tracking.enabled", "data-evolution.enabled")
    missing = [key for key in needed if schema.options.get(key, "").lower() != "true"]
    if missing:
        yield BLOB.at(view.place(blobs[0].name), f"a BLOB column needs {' and '.join(missing)} to be true")


def is_blob(data_type: DataType) -> bool:
    """Return True for BLOB, ARRAY<BLOB> and MAP<X, BLOB>."""
    match data_type:
        case ListType(Root.ARRAY, element):
            return element.root is Root.BLOB
        case MapType(_, value):
            return value.root is Root.BLOB
        case _:
            return data_type.root is Root.BLOB


_BOOLEANS = frozenset({"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"})
_BITS = {Root.TINYINT: 7, Root.SMALLINT: 15, Root.INT: 31, Root.BIGINT: 63}
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_MAX_EXPONENT = 1_000 + 38
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_TIME = r"([01]?[0-9]|2[0-3])(:[0-5]?[0-9](:[0-5]?[0-9](\.[0-9]{1,9})?)?)?"
_TIME_OF_DAY = re.compile(_TIME)
_TIMESTAMP = re.compile(rf"([0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}})([ T]{_TIME})?")
_DIGITS = re.compile(r"-?[0-9]{1,19}")
"""A number that Java does not take for a date or a time, but for days or for fractions of a second."""

_MAX_DAYS = 1 << 31
_MS_PER_DAY = 86_400_000
_UNITS_PER_DAY = {0: 86_400, 3: _MS_PER_DAY, 6: _MS_PER_DAY * 1_000, 9: _MS_PER_DAY * 1_000_000}
"""How many units of a timestamp a day has, by its precision. Java fails on numbers for other precisions."""


def why_bad_default(data_type: DataType, text: str) -> str | None:
    """Return why a text cannot be the default value of a column, None if it can. Java removes quotes around it."""
    is_quoted = len(text) > 1 and text.startswith("'") and text.endswith("'")
    return _why_bad_value(data_type, text[1:-1] if is_quoted else text)


def _why_bad_value(data_type: DataType, text: str) -> str | None:
    match data_type:
        case AtomicType(root):
            judge = _JUDGES.get(root)
            if judge is None:
                return f"a column of the type {root} cannot have a default value"
            return None if judge(text, data_type) else f"{text!r} cannot be converted to {atomic_text(data_type)}"
        case ListType(Root.ARRAY, element):
            return _why_bad_parts(text, "[]", "an ARRAY is written as [a, b]", lambda _: element)
        case RowType(fields):
            return _why_bad_row(text, [field.type for field in fields])
        case MapType(key, value):
            return _why_bad_map(text, key, value)
        case _:
            return f"a column of the type {data_type.root} cannot have a default value"


def _why_bad_parts(text: str, brackets: str, form: str, type_at: Callable[[int], DataType]) -> str | None:
    parts = _parts(text, brackets)
    if parts is None:
        return f"{text!r} has another form: {form}"
    found = (_why_bad_part(type_at(place), part) for place, part in enumerate(parts))
    return next((reason for reason in found if reason), None)


def _why_bad_part(data_type: DataType, part: str) -> str | None:
    return None if part == "null" else _why_bad_value(data_type, part)


def _why_bad_row(text: str, types: list[DataType]) -> str | None:
    parts = _parts(text, "{}")
    if parts is not None and len(parts) != len(types):
        return f"{text!r} has {len(parts)} values, expected {len(types)}"
    return _why_bad_parts(text, "{}", "a ROW is written as {a, b}", lambda place: types[place])


def _why_bad_map(text: str, key: DataType, value: DataType) -> str | None:
    form = "a MAP is written as {key -> value, key -> value}"
    for entry in _parts(text, "{}") or ([] if _parts(text, "{}") == [] else [""]):
        before, arrow, after = entry.partition("->")
        if not arrow:
            return f"{text!r} has another form: {form}"
        reason = _why_bad_value(key, before.strip()) or _why_bad_part(value, after.strip())
        if reason:
            return reason
    return None


def _parts(text: str, brackets: str) -> list[str] | None:
    """Return what stands between the commas inside brackets; None without the brackets."""
    inner = text.strip()
    if len(inner) < 2 or (inner[0], inner[-1]) != (brackets[0], brackets[1]):
        return None
    inner = inner[1:-1].strip()
    found, depth, start = [], 0, 0
    for place, character in enumerate(inner):
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth == 0:
            found.append(inner[start:place].strip())
            start = place + 1
    return [*found, inner[start:].strip()] if inner else []


def _is_whole(text: str, data_type: AtomicType) -> bool:
    limit = 1 << _BITS[data_type.root]
    return _WHOLE.fullmatch(text.strip()) is not None and -limit <= int(text) < limit


def _is_decimal(text: str, data_type: AtomicType) -> bool:
    """Return True for a number that has the precision after rounding: Java makes others null without an error."""
    precision, scale = map(int, data_type.arguments)
    if not _NUMBER.fullmatch(text):
        return False
    context = Context(prec=len(text) + _MAX_EXPONENT)
    value = Decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, context)
    return not value or value.adjusted() < precision - scale


def _is_day(text: str) -> bool:
    try:
        date(*map(int, text.split("-")))
    except ValueError:
        return False
    return True


def _is_date(text: str, _: AtomicType) -> bool:
    """Return True for a date, and for a number of days since 1970-01-01."""
    if _DIGITS.fullmatch(text):
        return -_MAX_DAYS <= int(text) < _MAX_DAYS
    return _DATE.fullmatch(text.strip()) is not None and _is_day(text.strip())


def _is_time(text: str, _: AtomicType) -> bool:
    """Return True for a time of day, and for a number of milliseconds since midnight.

    Java converts any number. One of another day is written, and no reader makes a time of it.
    """
    if _DIGITS.fullmatch(text):
        return 0 <= int(text) < _MS_PER_DAY
    return _TIME_OF_DAY.fullmatch(text.strip()) is not None


def _is_timestamp(text: str, data_type: AtomicType) -> bool:
    """Return True for a timestamp, and for a number of units of its precision since 1970-01-01 without time zone.

    Numbers that overflow are converted to another time without an error, so they are not accepted.
    """
    if _DIGITS.fullmatch(text):
        units_per_day = _UNITS_PER_DAY.get(int(data_type.arguments[0]))
        if data_type.root is not Root.TIMESTAMP or units_per_day is None:
            return False
        is_long = -(1 << 63) <= int(text) < 1 << 63
        return is_long and -_MAX_DAYS <= int(text) // units_per_day < _MAX_DAYS
    match = _TIMESTAMP.fullmatch(text.strip())
    return match is not None and _is_day(match[1])


_JUDGES: Mapping[Root, Callable[[str, AtomicType], bool]] = {
    Root.BOOLEAN: lambda text, _: text.strip().lower() in _BOOLEANS,
    **dict.fromkeys(_BITS, _is_whole),
    **dict.fromkeys((Root.FLOAT, Root.DOUBLE), lambda text, _: _NUMBER.fullmatch(text.strip()) is not None),
    Root.DECIMAL: _is_decimal,
    **dict.fromkeys((Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY), lambda _text, _: True),
    Root.DATE: _is_date,
    Root.TIME: _is_time,
    **dict.fromkeys((Root.TIMESTAMP, Root.TIMESTAMP_LTZ), _is_timestamp),
}
