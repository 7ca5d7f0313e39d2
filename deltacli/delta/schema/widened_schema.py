"""A schemaString with wider types and the changes recorded in it. Spec: Type Widening: Type Change Metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from deltacli.delta.schema.allowed_widenings import canonical_name
from deltacli.delta.schema.column_path import ColumnPlace
from deltacli.delta.schema.exact_json import read_exactly, write_exactly
from deltacli.delta.schema.type_changes import (
    TYPE_CHANGES_KEY,
    BadEntry,
    TypeChange,
    can_be,
    primitive_paths,
    read_type_changes,
    type_at,
)
from deltacli.delta.schema.types import PrimitiveType, StructField
from deltacli.errors import Unreadable
from deltacli.hints import command
from deltacli.typing import Json


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
        _replace_type(root, change)
        _record(_at(root, change.place.field_address), change, table_version)
    return write_exactly(root)


def _at(root: Json, address: Sequence[str | int]) -> Json:
    part = root
    for step in address:
        part = part[step]
    return part


def _replace_type(root: Any, change: Widened) -> None:
    *above, last = change.place.address
    _at(root, above)[last] = change.to_type


def _record(field: dict[str, Any], change: Widened, table_version: int | None) -> None:
    """Append the change to the history of its field."""
    entry: dict[str, Any] = {"fromType": change.from_type, "toType": change.to_type}
    if change.place.field_path is not None:
        entry["fieldPath"] = change.place.field_path
    if table_version is not None:
        entry["tableVersion"] = table_version
    metadata = field.get("metadata")
    if metadata is None:
        metadata = field["metadata"] = {}
    entries = (metadata.get(TYPE_CHANGES_KEY) or []) if isinstance(metadata, dict) else None
    if not isinstance(entries, list):
        raise Unreadable(
            f"the history of {change.place.text} cannot be continued because its metadata does not follow the protocol",
            code="typewidening.bad-entry",
            hint=command("validate", select=["typewidening.*"]),
        )
    metadata[TYPE_CHANGES_KEY] = [*entries, entry]


class History(NamedTuple):
    """The recorded history of one type of a field.

    `fault`: why a further change cannot follow it, or None. `misplaced`: the fieldPaths of entries that were recorded
    in the wrong place and belong to this one (a change of `element.value` as `element.key`).
    """

    entries: tuple[TypeChange, ...] = ()
    fault: str | None = None
    misplaced: tuple[str | None, ...] = ()


def history_of(place: ColumnPlace) -> History:
    """Return the recorded changes of a type, in order."""
    own: list[TypeChange] = []
    for entry in read_type_changes(place.nearest):
        if isinstance(entry, BadEntry):
            return History(fault=entry.reason)
        if meant_path(place.nearest, entry) == place.field_path:
            own.append(entry)
    misplaced = tuple(entry.field_path for entry in own if entry.field_path != place.field_path)
    return History(tuple(own), _chain_fault(place, own), misplaced)


def meant_path(field: StructField, entry: TypeChange) -> str | None:
    """Return the fieldPath that an entry should have: its own, or the only possible one if that is wrong."""
    target = type_at(field.data_type, entry.field_path)
    if isinstance(target, PrimitiveType) and can_be(entry.to_type, target.name):
        return entry.field_path
    fitting = [path for path, name in primitive_paths(field.data_type) if can_be(entry.to_type, name)]
    return fitting[0] if len(fitting) == 1 else entry.field_path


def _chain_fault(place: ColumnPlace, entries: Sequence[TypeChange]) -> str | None:
    known = entries[0].from_type if entries else None
    for entry in entries:
        if entry.from_type != known:
            return f"it was changed to {known}, but the next change is from {entry.from_type}"
        known = entry.to_type
    if known is None or not isinstance(place.data_type, PrimitiveType):
        return None
    current = canonical_name(place.data_type.name)
    return None if known == current else f"its last change is to {known}, but its type is {current}"
