"""Editing a schema: its fields at a path, where `element` leads into an array and `value` into the values of a map, and
the options that name columns, in the order that they have in a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from deltacli.core.errors import Refused, UsageError
from deltacli.core.hints import command, nearest_path, sql_name
from deltacli.paimon.evolution.requests import Path
from deltacli.paimon.schema_changes import dotted
from deltacli.paimon.types import DataField, DataType, ListType, MapType, Root, RowType, map_parts, with_nullability

ELEMENT, KEY, VALUE = "element", "key", "value"

Fields = tuple[DataField, ...]
Edit = Callable[[DataType, str], DataType]
"""Gets the type around the end of a path, and its last name; returns the new type."""


def edit_at(fields: Fields, path: Path, edit: Edit) -> Fields:
    """Return fields with an edit at the end of a path. Raises UsageError where the path leads nowhere, and Refused for
    the keys of maps.
    """
    edited = _edit(RowType(fields), path, 0, edit)
    assert isinstance(edited, RowType)
    return edited.fields


def _edit(around: DataType, path: Path, place: int, edit: Edit) -> DataType:
    name = path[place]
    if place == len(path) - 1:
        return edit(around, name)
    return with_part(around, name, _edit(part_of(around, path[: place + 1]), path, place + 1, edit))


def part_of(around: DataType, path: Path) -> DataType:
    """Return the type at the last name of a path, which stands in the type around it."""
    name = path[-1]
    match around:
        case RowType(fields):
            return field_of(fields, path).type
        case ListType(Root.ARRAY, element) if name == ELEMENT:
            return element
        case MapType(_, value) if name == VALUE:
            return value
        case MapType() if name == KEY:
            raise Refused(
                f"{dotted(path)}: the keys of a MAP cannot be changed; Paimon's Java would change the values instead",
                code="alter.map-key",
            )
    raise _no_such_part(around, path)


def field_of(fields: Sequence[DataField], path: Path) -> DataField:
    """Return the field at the last name of a path. Raises UsageError that names the nearest one."""
    found = next((field for field in fields if field.name == path[-1]), None)
    if found is not None:
        return found
    siblings = [(field.name,) for field in fields]
    near = nearest_path(path[-1:], siblings if path[:-1] else [*siblings, *_nested(fields)])
    more = ", …" if len(fields) > _MOST_NAMED else ""
    facts = {"columns": ", ".join(sql_name(field.name) for field in fields[:_MOST_NAMED]) + more}
    hint = command("schema show") or None
    absent = UsageError(f"the column {dotted(path)} does not exist", code="usage.column", facts=facts, hint=hint)
    raise absent.meaning(dotted(path), None if near is None else dotted((*path[:-1], *near)))


def _nested(fields: Sequence[DataField], above: Path = ()) -> Iterator[Path]:
    for field in fields:
        if above:
            yield (*above, field.name)
        if isinstance(field.type, RowType):
            yield from _nested(field.type.fields, (*above, field.name))


_MOST_NAMED = 20


def with_part(around: DataType, name: str, part: DataType) -> DataType:
    """Return a type with another type at a name that `part_of` found."""
    match around:
        case RowType(fields):
            changed = (replace(field, type=part) if field.name == name else field for field in fields)
            return replace(around, fields=tuple(changed))
        case ListType():
            return replace(around, element=part)
        case MapType():
            return replace(around, value=part)
        case _:
            return around


def edit_type(fields: Fields, path: Path, change: Callable[[DataType], DataType]) -> Fields:
    """Return fields with another type at a path, also of an element or a value."""
    return edit_at(fields, path, lambda around, name: with_part(around, name, change(part_of(around, path))))


def edit_field(fields: Fields, path: Path, change: Callable[[DataField], DataField]) -> Fields:
    """Return fields with another field at a path."""

    def edit(around: DataType, _: str) -> DataType:
        row = row_around(around, path)
        chosen = field_of(row.fields, path)
        return replace(row, fields=tuple(change(field) if field is chosen else field for field in row.fields))

    return edit_at(fields, path, edit)


def row_around(around: DataType, path: Path) -> RowType:
    """Return the ROW that has the field at a path. Raises UsageError for an element, a value, or below a plain type."""
    if isinstance(around, RowType):
        return around
    parts = (ELEMENT, VALUE, KEY) if isinstance(around, ListType | MapType) else ()
    if path[-1] in parts:
        raise UsageError(
            f"{dotted(path)} is not a column: only its type and its nullability can be changed", code="usage.column"
        )
    raise _no_such_part(around, path)


def _no_such_part(around: DataType, path: Path) -> UsageError:
    outer = dotted(path[:-1])
    expected = {Root.ARRAY: f"{outer}.{ELEMENT}", Root.MAP: f"{outer}.{VALUE}"}.get(around.root)
    facts = {"expected": expected} if expected else {"type": str(around.root)}
    reason = "has fields only below that" if expected else "has no fields"
    return UsageError(f"the column {dotted(path)} does not exist: {outer} {reason}", code="usage.column", facts=facts)


def moved(fields: Fields, column: str, to: int) -> Fields:
    """Return fields with a column at another place."""
    others = [field for field in fields if field.name != column]
    chosen = next(field for field in fields if field.name == column)
    return (*others[:to], chosen, *others[to:])


def with_required_keys(data_type: DataType) -> DataType:
    """Return a type whose MAP keys are NOT NULL, as Arrow and Paimon C++ need them. Spec: Limitations."""
    found = map_parts(data_type, with_required_keys, lambda field: replace(field, type=with_required_keys(field.type)))
    return replace(found, key=with_nullability(found.key, False)) if isinstance(found, MapType) else found


_LISTS = ("bucket-key", "sequence.field", "record-level.time-field", "clustering.columns", "rowkind.field")
_OF_BLOBS = ("blob-field", "blob-descriptor-field", "blob-view-field", "blob-external-storage-field", "vector-field")
_INDEX = re.compile(r"file-index\.[^.]+\.columns")
_FIELDS = "fields."
_GROUPS = (".sequence-group", ".nested-key")
"""Endings of options whose key and value both name columns."""

_SEQUENCE_GROUP, _NESTED_KEY = _GROUPS
NESTED = (_NESTED_KEY, ".nested-sequence-field")
"""Endings of options of a column whose value names fields of its rows."""


class _Named(NamedTuple):
    """An option that names a column: the columns in its key, its ending, and the columns in its value."""

    key: str
    in_key: tuple[str, ...] = ()
    ending: str = ""
    in_value: tuple[str, ...] = ()

    def with_columns(self, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> _Named:
        names = change(self.in_key)
        key = f"{_FIELDS}{','.join(names)}{self.ending}" if self.in_key else self.key
        return _Named(key, names, self.ending, change(self.in_value))


def options_naming(options: Mapping[str, str], column: str) -> Iterator[str]:
    """Yield the keys of the options that name a column of the table."""
    for named in _named(options):
        if column in (*named.in_key, *(name.strip() for name in named.in_value)):
            yield named.key


def is_indexed(options: Mapping[str, str], column: str) -> bool:
    """Return True for a column with an index in data files, which names it."""
    return any(_INDEX.fullmatch(key) for key in options_naming(options, column))


def nested_options(options: Mapping[str, str], path: Path) -> Iterator[str]:
    """Yield the keys of the options that name a field of the rows in an array: `nested_update` finds rows by it."""
    if len(path) == 3 and path[1] == ELEMENT:
        for ending in NESTED:
            key = f"{_FIELDS}{path[0]}{ending}"
            if path[2] in options.get(key, "").split(","):
                yield key


def rename_nested(options: HashOrder, path: Path, new_name: str) -> None:
    """Rename a nested field in the options that name it, which Paimon's Java forgets: its scans fail then."""
    for key in list(nested_options(options.as_dict(), path)):
        names = (options.get(key) or "").split(",")
        options.put(key, ",".join(new_name if name == path[2] else name for name in names))


def drop_nested(options: HashOrder, path: Path) -> None:
    """Remove a nested field from the options that name it, and an option that names no other one."""
    for key in list(nested_options(options.as_dict(), path)):
        left = [name for name in (options.get(key) or "").split(",") if name != path[2]]
        if left:
            options.put(key, ",".join(left))
        else:
            options.remove(key)


def rename_in_options(options: HashOrder, column: str, new_name: str) -> None:
    """Rename a column in the options that name it."""

    def renamed(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new_name if name == column else name for name in names)

    for named in list(_named(options.as_dict())):
        changed = named.with_columns(renamed)
        if changed != named:
            _replace(options, named, changed)


def drop_from_options(options: HashOrder, column: str, *, only_blobs: bool = False) -> None:
    """Remove a column from the options that name it, and an option that names no other one.

    With `only_blobs` from those that list BLOB and VECTOR columns, which follow a dropped column by themselves.
    """

    def without(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if name.strip() != column)

    for named in list(_named(options.as_dict())):
        changed = named.with_columns(without)
        if changed == named or (only_blobs and named.key not in _OF_BLOBS):
            continue
        is_left = (not named.in_key or changed.in_key) and (not named.in_value or changed.in_value)
        if is_left:
            _replace(options, named, changed)
        else:
            options.remove(named.key)


def _replace(options: HashOrder, before: _Named, after: _Named) -> None:
    value = options.get(before.key) or ""
    if after.key != before.key:
        options.remove(before.key)
    options.put(after.key, ",".join(after.in_value) if before.in_value else value)


def _named(options: Mapping[str, str]) -> Iterator[_Named]:
    for key, value in options.items():
        if key in _LISTS or key in _OF_BLOBS or _INDEX.fullmatch(key):
            yield _Named(key, in_value=tuple(value.split(",")))
        elif key.startswith(_FIELDS):
            yield from _named_in_key(key, value)


def _named_in_key(key: str, value: str) -> Iterator[_Named]:
    middle = key.removeprefix(_FIELDS)
    ending = next((ending for ending in _GROUPS if middle.endswith(ending)), None)
    if ending is None:
        name, dot, last = middle.rpartition(".")
        # `fields.default-aggregate-function` names no column; options of maps have an ending of two words.
        if name.endswith(".map"):
            name, last = name.removesuffix(".map"), f"map.{last}"
        if dot:
            yield _Named(key, (name,), f".{last}")
        return
    names = tuple(middle.removesuffix(ending).split(","))
    # The value of nested-key names fields inside the column, not columns.
    in_value = tuple(value.split(",")) if ending == _SEQUENCE_GROUP else ()
    yield _Named(key, names, ending, in_value)


_LOAD = 0.75
_SMALLEST = 16


class HashOrder:
    """A map of strings that is iterated like Java's HashMap with the same history of copies and insertions, so that our
    files have Java's bytes.
    """

    def __init__(self, items: Mapping[str, str]) -> None:
        self._items: dict[str, str] = {}
        self._buckets = _buckets_of_copy(len(items))
        self._items = {key: items[key] for key in self._ordered(items)}

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def get(self, key: str) -> str | None:
        """Return a value, None without the key."""
        return self._items.get(key)

    def put(self, key: str, value: str) -> None:
        """Set a value; a new key is the last one of its bucket."""
        is_new = key not in self._items
        self._items[key] = value
        if is_new:
            while len(self._items) > _LOAD * self._buckets:
                self._buckets *= 2
            self._items = {name: self._items[name] for name in self._ordered(self._items)}

    def remove(self, key: str) -> str | None:
        """Remove a key and return its value, None without the key."""
        return self._items.pop(key, None)

    def as_dict(self) -> dict[str, str]:
        """Return the items in their order."""
        return dict(self._items)

    def copy(self) -> HashOrder:
        """Return a copy as Java makes it, which can have another order."""
        return HashOrder(self._items)

    def _ordered(self, keys: Iterable[str]) -> list[str]:
        return sorted(keys, key=lambda key: _spread(key) & (self._buckets - 1))


def _buckets_of_copy(count: int) -> int:
    """Return the number of buckets of the copy of a map: the smallest power of two that its items do not overload."""
    if count == 0:
        return _SMALLEST
    least = int(count / _LOAD + 1)
    return 1 << (least - 1).bit_length()


def _spread(text: str) -> int:
    """Return the hash of a string, with its upper half mixed into its lower one."""
    units = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for place in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[place : place + 2])) & 0xFFFFFFFF
    return found ^ (found >> 16)
