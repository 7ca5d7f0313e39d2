"""A schemaString with wider types and the changes recorded in it. Spec: Type Widening: Type Change Metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from deltacli.core.errors import Unreadable, UsageError, command, nearest_type
from deltacli.core.texts import is_utf8_encodable
from deltacli.core.typing import Json
from deltacli.delta.schema import type_changes
from deltacli.delta.schema.column_path import ColumnPlace
from deltacli.delta.schema.types import PrimitiveType, StructField

_CODE = "usage.type"
POSSIBLE = f"{type_changes.NUMBER_TYPES}, date, timestamp_ntz"
"""How the types that a column can be widened to are written."""
_NAMES = frozenset({"byte", "short", "integer", "long", "float", "double", "date", "timestamp_ntz"})
_LOOKS_DECIMAL = re.compile(r"\s*(?:decimal|dec|numeric)\s*\(", re.IGNORECASE)
_INSTANTS = frozenset({"timestamp", "timestamp_ltz"})


def parse_type(text: str) -> str:
    """Return the name of a type in schemas: `decimal(20,2)` for `DECIMAL( 20, 2 )`, `long` for `bigint`.

    Raises UsageError (`usage.type`) for invalid types, and for types that no column can be widened to.
    """
    name = type_changes.canonical_name(text)
    if name in _NAMES or type_changes.digits_of_decimal(name) is not None:
        return name
    reason, near = "it is not a type that a column can be widened to", None
    if _LOOKS_DECIMAL.match(text):
        reason = type_changes.OF_DECIMALS if ")" in text else "')' is missing"
    elif name in _INSTANTS:
        reason = "it is a time with a zone; a date can become timestamp_ntz"
    else:
        near = nearest_type(text, (*_NAMES, *_SQL_NAMES))
    raise UsageError(
        f"the type {text!r} cannot be used: {reason}",
        code=_CODE,
        facts={"possible": POSSIBLE},
        hint=type_changes.hint_for_type(text),
    ).suggest(text, near)


_SQL_NAMES = ("tinyint", "smallint", "int", "bigint", "real", "decimal", "numeric")


def possible_targets(from_type: str) -> str:
    """Return what a type can become by widening, in words, or an empty string."""
    name = type_changes.canonical_name(from_type)
    targets = sorted(type_changes.WIDER.get(name, ()), key=_ORDER.index)
    digits = type_changes.INTEGER_DIGITS.get(name)
    if digits is not None:
        targets.append(f"decimal(p,s) with p-s >= {digits}")
    decimal = type_changes.digits_of_decimal(name)
    if decimal is not None and (decimal.precision < type_changes.MAX_DECIMAL_PRECISION):
        targets.append(f"decimal(p,s) with s >= {decimal.scale} and p-s >= {decimal.whole_digits}")
    return " or ".join([", ".join(targets[:-1]), targets[-1]] if len(targets) > 1 else targets)


_ORDER = ("short", "integer", "long", "double", "timestamp_ntz")


class Verbatim(str):
    """The text of a number, or of another value that is already written."""

    __slots__ = ()


def read_exactly(text: str) -> Json:
    """Return the value of a JSON text, numbers as `Verbatim`. Raises Unreadable (`schema.bad-json`)."""
    try:
        return json.loads(text, parse_float=Verbatim, parse_int=Verbatim)
    except (ValueError, RecursionError) as fault:
        message = f"the schema cannot be read: {str(fault)[:200]}"
        raise Unreadable(message, code="schema.bad-json", hint=command("snapshot", json=True)) from None


def write_exactly(value: Json) -> str:
    """Return the JSON text of a value without spaces, with non-ASCII letters unchanged.

    Half a surrogate pair, which UTF-8 cannot encode, makes the text ASCII. Raises Unreadable (`schema.bad-json`).
    """
    try:
        text = _written(value, json.JSONEncoder(ensure_ascii=False).encode)
        return text if is_utf8_encodable(text) else _written(value, json.JSONEncoder().encode)
    except RecursionError:
        raise Unreadable("the schema cannot be written: it is nested too deeply", code="schema.bad-json") from None


def _written(value: Any, quote: Any) -> str:  # Any: JSON values, and what writes a text
    if isinstance(value, Verbatim):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join([f"{quote(key)}:{_written(item, quote)}" for key, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_written(item, quote) for item in value]) + "]"
    return cast(str, quote(value))


class Widened(NamedTuple):
    """One change to be made; types in the spelling of schemas."""

    place: ColumnPlace
    from_type: str
    to_type: str


def widened_schema(schema_string: str, changes: Sequence[Widened], table_version: int | None = None) -> str:
    """Return the schemaString after some changes, everything else unchanged.

    `table_version`: the version of the commit, which entries have if only the preview of the feature is supported.
    """
    root = read_exactly(schema_string)
    for change in changes:
        widen(root, change, table_version)
    return write_exactly(root)


def widen(root: Json, change: Widened, table_version: int | None) -> None:
    """Make one change in the JSON of a schema, and record it."""
    *above, last = change.place.address
    at(root, above)[last] = change.to_type
    _record(at(root, change.place.field_address), change, table_version)


def at(root: Any, address: Sequence[str | int]) -> Any:  # Any: JSON values
    """Return a part of a schema, to be edited: the parts along the way become copies, all others may be shared."""
    part = root
    for step in address:
        part[step] = part[step].copy()
        part = part[step]
    return part


def _record(field: dict[str, Any], change: Widened, table_version: int | None) -> None:
    """Append the change to the history of its field."""
    entry: dict[str, Any] = {"fromType": change.from_type, "toType": change.to_type}
    if change.place.field_path is not None:
        entry["fieldPath"] = change.place.field_path
    if table_version is not None:
        entry["tableVersion"] = table_version
    metadata = {} if field.get("metadata") is None else field["metadata"]
    entries = (metadata.get(type_changes.TYPE_CHANGES_KEY) or []) if isinstance(metadata, dict) else None
    if not isinstance(entries, list):
        raise Unreadable(
            f"the history of {change.place.text} cannot be continued because its metadata does not follow the protocol",
            code="typewidening.bad-entry",
            hint=command("validate", select=["typewidening.*"]),
        )
    field["metadata"] = {**metadata, type_changes.TYPE_CHANGES_KEY: [*entries, entry]}


class History(NamedTuple):
    """The recorded history of one type of a field.

    `fault`: why a further change cannot follow it, or None. `misplaced`: the fieldPaths of entries that were recorded
    in the wrong place and belong to this one (a change of `element.value` as `element.key`).
    """

    entries: tuple[type_changes.TypeChange, ...] = ()
    fault: str | None = None
    misplaced: tuple[str | None, ...] = ()


def history_of(place: ColumnPlace) -> History:
    """Return the recorded changes of a type, in order."""
    own: list[type_changes.TypeChange] = []
    for entry in type_changes.read_type_changes(place.nearest):
        if isinstance(entry, type_changes.BadEntry):
            return History(fault=entry.reason)
        if meant_path(place.nearest, entry) == place.field_path:
            own.append(entry)
    misplaced = tuple(entry.field_path for entry in own if entry.field_path != place.field_path)
    return History(tuple(own), _chain_fault(place, own), misplaced)


def meant_path(field: StructField, entry: type_changes.TypeChange) -> str | None:
    """Return the fieldPath that an entry should have: its own, or the only possible one if that is wrong."""
    target = type_changes.type_at(field.data_type, entry.field_path)
    if isinstance(target, PrimitiveType) and type_changes.can_be(entry.to_type, target.name):
        return entry.field_path
    fitting = [
        path for path, name in type_changes.primitive_paths(field.data_type) if type_changes.can_be(entry.to_type, name)
    ]
    return fitting[0] if len(fitting) == 1 else entry.field_path


def _chain_fault(place: ColumnPlace, entries: Sequence[type_changes.TypeChange]) -> str | None:
    known = entries[0].from_type if entries else None
    for entry in entries:
        if entry.from_type != known:
            return f"it was changed to {known}, but the next change is from {entry.from_type}"
        known = entry.to_type
    if known is None or not isinstance(place.data_type, PrimitiveType):
        return None
    current = type_changes.canonical_name(place.data_type.name)
    return None if known == current else f"its last change is to {known}, but its type is {current}"
