"""Schema files: JSON as Paimon reads and writes it, versions 1 to 3, and their compatibility defaults.

Readers ignore what follows the value and let the last of several equal keys win, so both are reported beside the
value. Writers print objects with two blanks per level, arrays in one line, and `"key" : value`.

Java's reader accepts more than its writer writes. Such files are read, and what is odd is returned with the schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring
from typing import Any, NamedTuple, NoReturn

from deltacli.core.errors import Unreadable
from deltacli.core.typing import Json, JsonObject
from deltacli.paimon.numbers import parse_whole_number
from deltacli.paimon.types import (
    BadType,
    DataField,
    MissingKey,
    Odd,
    Oddity,
    RequiredIds,
    field_json,
    parse_field,
    walk_fields,
)

# -- JSON as Paimon reads and writes it --------------------------------------------------------------------------------

_SPACE = " \t\r\n"
_TOO_LONG = "a number has too many digits"


class BadJson(ValueError):
    """Bytes that are not JSON; the message is the reason."""


class JsonText(NamedTuple):
    """A JSON value, the keys that occur more than once in one object, and the number of characters after the value."""

    value: Json
    duplicate_keys: tuple[str, ...] = ()
    trailing: int = 0


def read_json(data: bytes) -> JsonText:
    """Return the first JSON value. Raises BadJson with the reason."""
    if not data.strip():
        raise BadJson("the file is empty")
    if data.startswith(b"\xef\xbb\xbf"):
        raise BadJson("the file begins with a byte order mark")
    duplicates: list[str] = []

    def collect(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            duplicates.extend(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        return found

    try:
        text = data.decode()
        start = len(text) - len(text.lstrip(_SPACE))
        value, end = json.JSONDecoder(object_pairs_hook=collect, parse_constant=_refuse).raw_decode(text, start)
    except UnicodeDecodeError as fault:
        raise BadJson(f"byte {fault.start} is not UTF-8") from None
    except RecursionError:
        raise BadJson("it is nested too deeply") from None
    except BadJson:
        raise
    except ValueError as fault:
        reason = _TOO_LONG if "integer string conversion" in str(fault) else str(fault)[:200]
        raise BadJson(f"it is not JSON: {reason}") from None
    return JsonText(value, tuple(dict.fromkeys(duplicates)), len(text[end:].strip(_SPACE)))


def _refuse(constant: str) -> NoReturn:
    raise BadJson(f"it is not JSON: {constant} is not a number")


def read_object(data: bytes) -> JsonText:
    """Return a JSON object. Raises BadJson, also for another JSON value."""
    found = read_json(data)
    if not isinstance(found.value, dict):
        raise BadJson("it is not a JSON object")
    return found


def java_text(value: object) -> str:
    """Return JSON as Java's Paimon writes it."""
    return _printed(value, "")


def _printed(value: object, indent: str) -> str:
    match value:
        case Mapping():
            return _printed_object(value, indent)
        case str():
            return _quoted(value)
        case Sequence():
            return f"[ {', '.join(_printed(item, indent) for item in value)} ]" if value else "[ ]"
        case _:
            return json.dumps(value)


def _printed_object(value: Mapping[str, object], indent: str) -> str:
    if not value:
        return "{ }"
    inner = f"{indent}  "
    lines = ",\n".join(f"{inner}{_quoted(key)} : {_printed(item, inner)}" for key, item in value.items())
    return f"{{\n{lines}\n{indent}}}"


def _quoted(text: str) -> str:
    """Return a JSON string. Java writes the escapes of control characters with upper-case digits. A lone surrogate has
    no form in UTF-8, so it stays an escape.
    """
    written = str(encode_basestring(text))
    if text.isprintable():
        return written
    return "".join(
        f"\\u{ord(character):04X}" if _needs_digits(character) else str(encode_basestring(character))[1:-1]
        for character in text
    ).join('""')


def _needs_digits(character: str) -> bool:
    is_control = character < " " and character not in "\b\f\n\r\t"
    return is_control or "\ud800" <= character <= "\udfff"


# -- schema files ------------------------------------------------------------------------------------------------------

CURRENT_VERSION = 3
FIRST_SYSTEM_ID = 1_073_741_823
"""The smallest id of a system field; ids of columns are below it."""

MAX_SCHEMA_BYTES = 64 << 20
"""Maximum size of a schema file: one of 100,000 columns has 10 MB."""

_KEYS = frozenset(
    {"version", "id", "fields", "highestFieldId", "partitionKeys", "primaryKeys", "options", "comment", "timeMillis"}
)


@dataclass(frozen=True, slots=True)
class Schema:
    """One version of a table's schema. `options` contain the compatibility defaults, whose keys are in `defaulted`."""

    version: int
    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_ms: int = 0
    defaulted: tuple[str, ...] = field(default=(), compare=False)
    oddities: tuple[Oddity, ...] = field(default=(), compare=False)

    def as_json(self) -> dict[str, Json]:
        """Return the schema as the content of a file, with the compatibility defaults."""
        found: dict[str, Any] = {
            "version": self.version,
            "id": self.id,
            "fields": [field_json(column) for column in self.fields],
            "highestFieldId": self.highest_field_id,
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": dict(self.options),
        }
        if self.comment is not None:
            found["comment"] = self.comment
        return found | {"timeMillis": self.time_ms}

    def encode(self) -> bytes:
        """Return the schema file as Java writes it."""
        return java_text(self.as_json()).encode()

    @property
    def greatest_id(self) -> int:
        return max((column.id for _, column in walk_fields(self.fields)), default=-1)


def read_schema(data: bytes) -> Schema:
    """Return the schema in a file.

    Raises Unreadable (`paimon.bad-json`, `paimon.missing-key`, `paimon.bad-type`, `paimon.bad-value`).
    """
    try:
        text = read_object(data)
    except BadJson as fault:
        raise Unreadable(str(fault), code="paimon.bad-json") from None
    oddities = [Oddity(Odd.DUPLICATE_KEY, key) for key in text.duplicate_keys]
    if text.trailing:
        oddities.append(Oddity(Odd.TRAILING_TEXT, "", text.trailing))
    return _Reader(text.value, oddities).read()


class _Reader:
    def __init__(self, content: JsonObject, oddities: list[Oddity]) -> None:
        self._content = content
        self._oddities = oddities

    def read(self) -> Schema:
        self._oddities += [Oddity(Odd.UNKNOWN_KEY, key) for key in self._content if key not in _KEYS]
        version = self._number("version", 1)
        options, defaulted = with_defaults(version, self._options())
        comment = self._content.get("comment")
        return Schema(
            version,
            self._number("id"),
            self._fields(),
            self._number("highestFieldId"),
            self._names("partitionKeys"),
            self._names("primaryKeys"),
            options,
            None if comment is None else str(comment),
            self._number("timeMillis", 0),
            defaulted,
            tuple(self._oddities),
        )

    def _note(self, rule: Odd, place: str, seen: object) -> None:
        self._oddities.append(Oddity(rule, place, seen))

    def _number(self, key: str, default: int | None = None) -> int:
        value = self._content.get(key, default)
        if value is None:
            raise _missing(key)
        number = parse_whole_number(value)
        if number is None:
            raise _bad_value(key, "not a whole number")
        if type(value) is not int:
            self._note(Odd.WRONG_JSON_TYPE, key, value)
        return number

    def _list(self, key: str) -> list[Json]:
        if key not in self._content:
            raise _missing(key)
        value = self._content[key]
        if not isinstance(value, list):
            raise _bad_value(key, "not an array")
        return value

    def _names(self, key: str) -> tuple[str, ...]:
        if key in self._content and self._content[key] is None:
            self._note(Odd.NULL_KEY, key, None)
            return ()
        names = self._list(key)
        if not all(isinstance(name, str) for name in names):
            raise _bad_value(key, "not an array of strings")
        return tuple(names)

    def _fields(self) -> tuple[DataField, ...]:
        try:
            return tuple(parse_field(value, RequiredIds(), note=self._note) for value in self._list("fields"))
        except MissingKey as fault:
            place = fault.place or "fields"
            raise Unreadable(f"{fault.key} is missing at {place}", code="paimon.missing-key") from None
        except BadType as fault:
            raise Unreadable(str(fault), code="paimon.bad-type") from None

    def _options(self) -> dict[str, str]:
        if "options" not in self._content:
            raise _missing("options")
        value = self._content["options"]
        if value is None:
            self._note(Odd.NULL_KEY, "options", None)
            return {}
        if not isinstance(value, dict):
            raise _bad_value("options", "not an object")
        for key, option in value.items():
            if not isinstance(option, str):
                self._note(Odd.OPTION_NOT_STRING, f"options.{key}", option)
        return {key: _option_text(option) for key, option in value.items()}


def with_defaults(version: int, options: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return options with the defaults of old versions, and the keys that were added. Spec: Compatibility."""
    defaults = {}
    if version <= 1:
        defaults["bucket"] = "1"
    if version <= 2:
        defaults["file.format"] = "orc"
    added = tuple(key for key in defaults if key not in options)
    return {**options, **{key: defaults[key] for key in added}}, added


def _option_text(value: object) -> str:
    """Return the value of an option as Java reads it: numbers, booleans and null become text."""
    match value:
        case str():
            return value
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            return ""


def _missing(key: str) -> Unreadable:
    return Unreadable(f"{key} is missing", code="paimon.missing-key")


def _bad_value(key: str, reason: str) -> Unreadable:
    return Unreadable(f"{key} is {reason}", code="paimon.bad-value")


ALWAYS_IMMUTABLE = frozenset({"type"})

IMMUTABLE = frozenset(
    {
        *ALWAYS_IMMUTABLE,
        *("bucket-key", "bucket-function.type", "data-file.path-directory", "merge-engine"),
        *("sequence.snapshot-ordering", "aggregation.remove-record-on-delete"),
        *("partial-update.remove-record-on-delete", "partial-update.remove-record-on-sequence-group"),
        *("rowkind.field", "primary-key", "primary-key.nullable", "partition", "dynamic-bucket.initial-buckets"),
        *("force-lookup", "row-tracking.enabled", "data-evolution.enabled", "index-file-in-data-file-dir"),
        *("blob-field", "blob-descriptor-field", "blob-view-field", "pk-clustering-override"),
    }
)
"""Options that Java refuses to change once the table has a snapshot."""

_ONE_WAY = ("ignore-delete", "ignore-update-before")
"""Options that stay true."""


def is_true(options: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    """Return the value of a boolean option."""
    value = options.get(key)
    return default if value is None else value.strip().lower() == "true"


def why_option_is_refused(
    options: Mapping[str, str], key: str, value: str | None, *, has_snapshots: bool
) -> str | None:
    """Return why Java refuses to set an option (None: to remove it) on a table with these options; else None."""
    if options.get(key) == value or (value is not None and has_same_value(options, key, value)):
        return None
    return why_changed_option_is_refused(options, key, value, has_snapshots=has_snapshots)


def why_changed_option_is_refused(
    options: Mapping[str, str], key: str, value: str | None, *, has_snapshots: bool
) -> str | None:
    """Return why Java refuses an option that is known to have changed; None if it allows the change.

    The texts are not compared: an option with the same text has changed, too, if the columns that it names are others
    now.

    Args:
        options: The options before the change.
        key: The option.
        value: Its new value; None if it is removed.
        has_snapshots: Whether the table has a snapshot, before which more may change.
    """
    before = options.get(key)
    if key in ALWAYS_IMMUTABLE:
        return f"{key} cannot be changed"
    if not has_snapshots:
        return None
    if key in IMMUTABLE:
        return f"{key} cannot be changed once the table has a snapshot"
    if key == "bucket":
        return _why_bucket_is_refused(before or "-1", value)
    was_true, becomes_true = is_true(options, key), is_true({} if value is None else {key: value}, key)
    if key == "deletion-vectors.enabled" and was_true != becomes_true:
        may = is_true(options, "deletion-vectors.modifiable")
        return None if may else "deletion-vectors.enabled can be changed only with deletion-vectors.modifiable=true"
    if key in _ONE_WAY and was_true and not becomes_true:
        return f"{key} cannot be disabled once the table has a snapshot"
    return None


OF_OLD_ROWS: Mapping[str, str] = {
    "bucket": "partitions that exist keep their number of buckets, and Paimon refuses to write to them until an INSERT "
    "OVERWRITE has rewritten them",
    "changelog-producer": "snapshots that exist keep the changelog that they have or lack, which streaming readers get",
    "sequence.field": "rows that exist are merged by the other field from now on, so that other values can win",
}
"""Options that may change although rows exist, and what that means for these rows."""

_PARTITION = "partition."
_OF_FILES = {
    f"{_PARTITION}default-name": "__DEFAULT_PARTITION__",
    f"{_PARTITION}legacy-name": "true",
    "manifest.format": "avro",
}
"""Options by which files are found and read whenever they were written -> their defaults."""


_DEFAULTS = {
    "bucket": "-1",
    "changelog-producer": "none",
    "sequence.field.sort-order": "ascending",
    **_OF_FILES,
}
"""Options whose change matters to existing rows or files -> the value of a table that does not set them."""


def has_same_value(options: Mapping[str, str], key: str, value: str | None) -> bool:
    """Return True if an option keeps its value, also where the default is written out (value None: removed).

    Options whose default is not known here are compared as text.
    """
    default = _DEFAULTS.get(key)
    before, after = options.get(key, default), default if value is None else value
    if before is None or after is None or default is None:
        return before == after
    return _comparable(key, before) == _comparable(key, after)


def _parse_int(text: str) -> int | None:
    """Return a number in the value of an option, where Java allows no blanks; None for another text."""
    return parse_whole_number(text) if text == text.strip() else None


def _comparable(key: str, value: str) -> str | int:
    """Return a value as Java compares it: a number of buckets, the name of an enum in any case, or a text."""
    if key == "bucket":
        number = _parse_int(value)
        return value if number is None else number
    return value if key == f"{_PARTITION}default-name" else value.lower()


def why_files_are_lost(schema: Schema, key: str, value: str | None) -> str | None:
    """Return why files are lost once an option has another value (None: its default); None where they are not."""
    if key not in _OF_FILES or has_same_value(schema.options, key, value):
        return None
    if key == "manifest.format":
        return "Paimon reads all manifests in the format of manifest.format, so that it fails on those that exist"
    if not schema.partition_keys:
        return None
    return f"{key} is part of the paths of files, so that those of partitions that exist are not found, and scans fail"


def _why_bucket_is_refused(before: str, after: str | None) -> str | None:
    if after is None:
        return "bucket cannot be removed once the table has a snapshot"
    number = _parse_int(after)
    if number is None:
        return f"bucket={after} is not a whole number"
    number_before = _parse_int(before)
    if -1 in (number_before, number) and number_before != number:
        return "bucket cannot be changed to or from -1 once the table has a snapshot"
    return None
