"""The options of a table: their order in a file, and those that name columns, when a column is renamed or dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

_LISTS = ("bucket-key", "sequence.field", "record-level.time-field", "clustering.columns", "rowkind.field")
_OF_BLOBS = ("blob-field", "blob-descriptor-field", "blob-view-field", "blob-external-storage-field", "vector-field")
_INDEX = re.compile(r"file-index\.[^.]+\.columns")
_FIELDS = "fields."
_GROUPS = (".sequence-group", ".nested-key")
"""Endings of options whose key and value both name columns."""

_SEQUENCE_GROUP, _NESTED_KEY = _GROUPS


class _Named(NamedTuple):
    """An option that names a column: the columns in its key, its ending, and the columns in its value."""

    key: str
    in_key: tuple[str, ...] = ()
    ending: str = ""
    in_value: tuple[str, ...] = ()

    def with_columns(self, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> _Named:
        """Return the option with other columns in its key and its value."""
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
    """Yield the options that name columns."""
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
