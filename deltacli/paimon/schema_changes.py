"""The changes between two schemas, matched by field id: a field with another name was renamed, not replaced."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from deltacli.core.hints import sql_name
from deltacli.core.typing import Json
from deltacli.paimon.casts import Loss, judge_change
from deltacli.paimon.schema import OF_OLD_ROWS, Schema, is_true, why_option_is_refused
from deltacli.paimon.type_objects import parse_type
from deltacli.paimon.types import (
    DataField,
    DataType,
    ListType,
    MapType,
    RowType,
    is_same_but_for_nullability,
    type_json,
    type_text,
)

Path = tuple[str, ...]


class ChangeKind(StrEnum):
    """The kind of a change, as in Paimon's SchemaChange; METADATA is of a Delta table, the last three have no such
    change.
    """

    ADD_COLUMN = "addColumn"
    DROP_COLUMN = "dropColumn"
    RENAME_COLUMN = "renameColumn"
    TYPE = "updateColumnType"
    NULLABILITY = "updateColumnNullability"
    COMMENT = "updateColumnComment"
    METADATA = "updateColumnMetadata"
    DEFAULT = "updateColumnDefaultValue"
    POSITION = "updateColumnPosition"
    SET_OPTION = "setOption"
    REMOVE_OPTION = "removeOption"
    TABLE_COMMENT = "updateComment"
    PRIMARY_KEYS = "primaryKeys"
    PARTITION_KEYS = "partitionKeys"
    HIGHEST_FIELD_ID = "highestFieldId"


class SqlType(str):
    """A type of a Delta table as it is written in SQL, among values of changes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Change:
    """One change. `path` is that of a field, or the key of an option. `before` and `after` are JSON values."""

    kind: ChangeKind
    path: Path = ()
    field_id: int | None = None
    before: Json = None
    after: Json = None
    loss: Loss = Loss.LOSSLESS
    reason: str = ""
    cast: str | None = None
    """Paimon's word for a change of type: `implicit` or `explicit`."""
    key: str = ""
    """The key of the metadata of a column."""

    def as_json(self) -> dict[str, Json]:
        """Return the change as in documents, without absent values."""
        is_option = self.kind in (ChangeKind.SET_OPTION, ChangeKind.REMOVE_OPTION)
        found: dict[str, Any] = {"kind": self.kind.value}
        if self.path:
            found |= {"key": self.path[0]} if is_option else {"field": dotted(self.path)}
        if self.key:
            return found | {"key": self.key, "from": self.before, "to": self.after}
        values = {"fieldId": self.field_id, "from": self.before, "to": self.after}
        found |= {name: value for name, value in values.items() if value is not None}
        found["class"] = self.loss.value
        extra = {"cast": self.cast, "reason": self.reason or None}
        return found | {name: value for name, value in extra.items() if value is not None}


def dotted(path: Path) -> str:
    """Return a path as it is written on the command line: dotted, names in backticks where necessary."""
    return ".".join(map(sql_name, path))


def changes_between(before: Schema, after: Schema, *, has_snapshots: bool = True) -> tuple[Change, ...]:
    """Return what changed from one schema to another. `has_snapshots`: whether the table had a snapshot in between."""
    differ = _Differ(before, after, has_snapshots)
    return (
        *differ.fields(before.fields, after.fields, ()),
        *differ.options(),
        *differ.keys(),
        *differ.table(),
    )


class _Differ:
    def __init__(self, before: Schema, after: Schema, has_snapshots: bool) -> None:
        self._before = before
        self._after = after
        self._has_snapshots = has_snapshots
        self._renamed = {old.name: new.name for old, new in _pairs(before.fields, after.fields) if old.name != new.name}

    def fields(self, before: Sequence[DataField], after: Sequence[DataField], path: Path) -> Iterator[Change]:
        """Yield the changes of the fields of one level, and of those below."""
        pairs = _pairs(before, after)
        kept_old, kept_new = {id(old) for old, _ in pairs}, {id(new) for _, new in pairs}
        for old in before:
            if id(old) not in kept_old:
                yield self._dropped(old, path)
        for old, new in pairs:
            yield from self._changed(old, new, path)
        for new in after:
            if id(new) not in kept_new:
                yield Change(ChangeKind.ADD_COLUMN, (*path, new.name), new.id, after=type_json(new.type))
        yield from _moved(pairs, after, path)

    def _dropped(self, field: DataField, path: Path) -> Change:
        here = (*path, field.name)
        is_key = not path and field.name in (*self._before.primary_keys, *self._before.partition_keys)
        loss, reason = (Loss.REFUSED, "it is a key") if is_key else (Loss.LOSSY, "its values can no longer be read")
        return Change(ChangeKind.DROP_COLUMN, here, field.id, before=type_json(field.type), loss=loss, reason=reason)

    def _changed(self, old: DataField, new: DataField, path: Path) -> Iterator[Change]:
        here = (*path, new.name)
        if old.name != new.name:
            is_partition = not path and old.name in self._before.partition_keys
            loss = Loss.REFUSED if is_partition else Loss.LOSSLESS
            reason = "it is a partition key" if is_partition else ""
            before_path = (*path, old.name)
            yield Change(ChangeKind.RENAME_COLUMN, before_path, old.id, old.name, new.name, loss, reason)
        yield from self._retyped(old.type, new.type, here, new.id)
        if old.description != new.description:
            yield Change(ChangeKind.COMMENT, here, new.id, old.description, new.description)
        if old.default_value != new.default_value:
            yield Change(ChangeKind.DEFAULT, here, new.id, old.default_value, new.default_value)

    def _retyped(self, old: DataType, new: DataType, path: Path, field_id: int) -> Iterator[Change]:
        """Yield the changes of a type; those inside rows, arrays and maps one by one."""
        if old == new:
            return
        match old, new:
            case RowType(), RowType():
                yield from self.fields(old.fields, new.fields, path)
            case ListType(root, length=length), ListType() if root is new.root and length == new.length:
                yield from self._retyped(old.element, new.element, (*path, "element"), field_id)
            case MapType(), MapType():
                yield from self._retyped(old.key, new.key, (*path, "key"), field_id)
                yield from self._retyped(old.value, new.value, (*path, "value"), field_id)
            case _ if not is_same_but_for_nullability(old, new):
                yield self._change_of_type(old, new, path, field_id)
                return
        if old.nullable != new.nullable:
            yield self._change_of_nullability(old, new, path, field_id)

    def _change_of_type(self, old: DataType, new: DataType, path: Path, field_id: int) -> Change:
        verdict = judge_change(old, new, self._before.options)
        loss, reason = verdict.loss, verdict.reason
        name = path[0] if len(path) == 1 else ""
        if self._was_key(name):
            loss, reason = Loss.REFUSED, "it is a key"
        return Change(ChangeKind.TYPE, path, field_id, type_json(old), type_json(new), loss, reason, verdict.paimon)

    def _was_key(self, name: str) -> bool:
        before = next((old for old, new in self._renamed.items() if new == name), name)
        return before in (*self._before.primary_keys, *self._before.partition_keys)

    def _change_of_nullability(self, old: DataType, new: DataType, path: Path, field_id: int) -> Change:
        loss, reason = Loss.LOSSLESS, ""
        if not new.nullable and not (len(path) == 1 and path[0] in self._after.primary_keys):
            may = not is_true(self._before.options, "alter-column-null-to-not-null.disabled", default=True)
            loss = Loss.LOSSY if may else Loss.REFUSED
            reason = "the column may contain nulls"
        return Change(ChangeKind.NULLABILITY, path, field_id, old.nullable, new.nullable, loss, reason)

    def options(self) -> Iterator[Change]:
        """Yield the options that were set or removed. Compatibility defaults are compared as if they were written."""
        old, new = self._before.options, self._after.options
        for key in [*new, *(key for key in old if key not in new)]:
            value = new.get(key)
            if old.get(key) == value:
                continue
            kind = ChangeKind.REMOVE_OPTION if value is None else ChangeKind.SET_OPTION
            refused = why_option_is_refused(old, key, value, has_snapshots=self._has_snapshots)
            loss = Loss.REFUSED if refused else Loss.LOSSLESS
            yield Change(kind, (key,), None, old.get(key), value, loss, refused or "")

    def keys(self) -> Iterator[Change]:
        """Yield changed keys. Those that follow the renaming of a column are lossless."""
        for kind, old, new in (
            (ChangeKind.PRIMARY_KEYS, self._before.primary_keys, self._after.primary_keys),
            (ChangeKind.PARTITION_KEYS, self._before.partition_keys, self._after.partition_keys),
        ):
            if old == new:
                continue
            is_renamed = kind is ChangeKind.PRIMARY_KEYS and tuple(self._renamed.get(name, name) for name in old) == new
            may = is_renamed or (kind is ChangeKind.PRIMARY_KEYS and not self._has_snapshots)
            reason = "" if may else "keys cannot be changed"
            yield Change(kind, (), None, list(old), list(new), Loss.LOSSLESS if may else Loss.REFUSED, reason)

    def table(self) -> Iterator[Change]:
        before, after = self._before, self._after
        if before.comment != after.comment:
            yield Change(ChangeKind.TABLE_COMMENT, (), None, before.comment, after.comment)
        old, new = before.highest_field_id, after.highest_field_id
        if old != new:
            loss, reason = (Loss.LOSSLESS, "") if new > old else (Loss.REFUSED, "highestFieldId never decreases")
            yield Change(ChangeKind.HIGHEST_FIELD_ID, (), None, old, new, loss, reason)


def _pairs(before: Sequence[DataField], after: Sequence[DataField]) -> list[tuple[DataField, DataField]]:
    """Return the fields of equal id, in the order of `before`; where an id occurs twice, those of equal name, one by
    one.
    """
    twice = {number for fields in (before, after) for number, count in _counted(fields).items() if count > 1}
    by_key = dict(_keyed(after, twice))
    return [(field, by_key[key]) for key, field in _keyed(before, twice) if key in by_key]


def _keyed(fields: Sequence[DataField], twice: Set[int]) -> Iterator[tuple[tuple[int, str, int], DataField]]:
    """Yield fields with a key that no other one has: the id, and where it occurs twice the name and a number."""
    seen: Counter[tuple[int, str]] = Counter()
    for field in fields:
        name = (field.id, field.name if field.id in twice else "")
        yield (*name, seen[name]), field
        seen[name] += 1


def _counted(fields: Sequence[DataField]) -> Counter[int]:
    return Counter(field.id for field in fields)


def _moved(pairs: Sequence[tuple[DataField, DataField]], after: Sequence[DataField], path: Path) -> Iterator[Change]:
    """Yield a change with the new order of all fields if those that were kept have another order."""
    places = {id(field): place for place, field in enumerate(after)}
    order = [places[id(new)] for _, new in pairs]
    if order != sorted(order):
        yield Change(ChangeKind.POSITION, path, None, [new.name for _, new in pairs], [new.name for new in after])


def sentence(change: Change) -> str:
    """Return a change in words: `rename name to customer`, `set bucket = 4`."""
    return _SENTENCES[change.kind](change, dotted(change.path))


def meaning_for_old_rows(change: Change) -> str | None:
    """Return what the change of an option means for rows that exist; None where it means nothing, or is refused."""
    is_option = change.kind in (ChangeKind.SET_OPTION, ChangeKind.REMOVE_OPTION)
    return OF_OLD_ROWS.get(change.path[0]) if is_option and change.loss is not Loss.REFUSED else None


def _added(word: str, value: object) -> str:
    return f"{word} (removed)" if value is None else word


def _default(change: Change, name: str) -> str:
    return f"default {name} (removed)" if change.after is None else f"default {name} = {change.after}"


def _order(change: Change, name: str) -> str:
    return f"order {f'{name}: ' if name else ''}{', '.join(map(sql_name, change.after))}"


def _keys(word: str) -> Callable[[Change, str], str]:
    return lambda change, _: f"{word} keys ({', '.join(change.before)}) -> ({', '.join(change.after)})"


_SENTENCES: Mapping[ChangeKind, Callable[[Change, str], str]] = {
    ChangeKind.ADD_COLUMN: lambda change, name: f"add {name} {_type(change.after)}",
    ChangeKind.DROP_COLUMN: lambda change, name: f"drop {name} {_type(change.before)}",
    ChangeKind.RENAME_COLUMN: lambda change, name: f"rename {name} to {sql_name(change.after)}",
    ChangeKind.TYPE: lambda change, name: f"type {name} {_type(change.before)} -> {_type(change.after)}",
    ChangeKind.NULLABILITY: lambda change, name: f"{'nullable' if change.after else 'not null'} {name}",
    ChangeKind.COMMENT: lambda change, name: _added(f"comment {name}", change.after),
    ChangeKind.METADATA: lambda change, name: f"{name} {change.key}: {_set(change.before)} -> {_set(change.after)}",
    ChangeKind.DEFAULT: _default,
    ChangeKind.POSITION: _order,
    ChangeKind.SET_OPTION: lambda change, _: f"set {change.path[0]} = {change.after}",
    ChangeKind.REMOVE_OPTION: lambda change, _: f"unset {change.path[0]}",
    ChangeKind.TABLE_COMMENT: lambda change, _: _added("table comment", change.after),
    ChangeKind.PRIMARY_KEYS: _keys("primary"),
    ChangeKind.PARTITION_KEYS: _keys("partition"),
    ChangeKind.HIGHEST_FIELD_ID: lambda change, _: f"highestFieldId {change.before} -> {change.after}",
}


def _type(value: object) -> str:
    return value if isinstance(value, SqlType) else type_text(parse_type(value))


def _set(value: Json) -> str:
    if value is None:
        return "(not set)"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
