"""The changes between two schemas, matched by field id, and what becomes of values when a type changes.

Two tables of Java decide: the one that ALTER asks (implicit and explicit casts), and the one of casts that a reader of
old files can execute. A change needs both. "Implicit" does not mean lossless: `DECIMAL(12, 4)` to `DECIMAL(5, 2)` and
`TIMESTAMP` to `DATE` are implicit.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from deltacli.core.errors import format_sql_name
from deltacli.core.typing import Json
from deltacli.paimon.option_columns import OptionComparison
from deltacli.paimon.schema import (
    OF_OLD_ROWS,
    Schema,
    has_same_value,
    is_true,
    why_changed_option_is_refused,
    why_files_are_lost,
    why_option_is_refused,
)
from deltacli.paimon.types import (
    MAX_LENGTH,
    AtomicType,
    DataField,
    DataType,
    ListType,
    MapType,
    Root,
    RowType,
    is_same_but_for_nullability,
    parse_type,
    type_json,
    type_text,
    with_nullability,
)

# -- what Paimon does with a change of a column's type -----------------------------------------------------------------

_INTEGERS = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_NUMBERS = (*_INTEGERS, Root.FLOAT, Root.DOUBLE, Root.DECIMAL)
_TEXTS = (Root.CHAR, Root.VARCHAR)
_BYTES = (Root.BINARY, Root.VARBINARY)
_TIMESTAMPS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)

_DIGITS = {Root.TINYINT: 3, Root.SMALLINT: 5, Root.INT: 10, Root.BIGINT: 19}
_EXACT_IN = {
    Root.FLOAT: (Root.TINYINT, Root.SMALLINT),
    Root.DOUBLE: (Root.TINYINT, Root.SMALLINT, Root.INT, Root.FLOAT),
}
"""The numbers of which a float has every value."""


class Loss(StrEnum):
    """What a change does to values that are already there."""

    LOSSLESS = "lossless"
    LOSSY = "lossy"
    REFUSED = "refused"


class Cast(NamedTuple):
    """The verdict on a change of type. `paimon` is Paimon's own word, `implicit` or `explicit`; None: there is no such
    cast. `reason` says why a change is lossy or refused.
    """

    loss: Loss
    paimon: str | None
    reason: str = ""


EXPLICIT_DISABLED = "it is an explicit cast, and disable-explicit-type-casting is true"
"""Why a change is refused that readers of old files could execute."""


def judge_change(before: DataType, after: DataType, options: Mapping[str, str]) -> Cast:
    """Return the verdict on changing a column of a table with these options from one type to another."""
    found = judge_cast(before, after)
    if (
        found.loss is Loss.REFUSED
        or found.paimon != "explicit"
        or not is_true(options, "disable-explicit-type-casting")
    ):
        return found
    return Cast(Loss.REFUSED, found.paimon, EXPLICIT_DISABLED)


def judge_cast(before: DataType, after: DataType) -> Cast:
    """Return the verdict on changing a column from one type to another."""
    kind = _kind(before.root, after.root)
    if before.nullable and not after.nullable:
        return Cast(Loss.REFUSED, kind, "the column may contain nulls")
    if not isinstance(before, AtomicType) or not isinstance(after, AtomicType):
        if before.root in (Root.ARRAY, Root.MAP, Root.ROW) and after.root in _TEXTS:
            return Cast(Loss.LOSSY, kind, "the values become text")
        return Cast(
            Loss.REFUSED, kind, "Paimon has no such cast; change the type of an element, a value or a field instead"
        )
    if kind is None:
        return Cast(Loss.REFUSED, None, "Paimon has no such cast")
    if not _is_executable(before, after):
        return Cast(Loss.REFUSED, kind, "Paimon cannot execute this cast when it reads old files")
    reason = _why_lossy(before, after)
    return Cast(Loss.LOSSY, kind, reason) if reason else Cast(Loss.LOSSLESS, kind)


def why_rows_are_misplaced(before: DataType, after: DataType, column: str, options: Mapping[str, str]) -> str:
    """Return why rows of old files are not found, or merged otherwise, when a column with this name gets another type,
    although its values can be converted; empty where neither is so.

    Buckets are chosen by the bytes of a value, which only texts and bytes of another length keep. Conversions that lose
    nothing keep the order of values.
    """
    if is_same_but_for_nullability(before, after):
        return ""
    is_same_bytes = any(before.root in roots and after.root in roots for roots in (_TEXTS, _BYTES))
    is_lossless = judge_cast(with_nullability(before, True), with_nullability(after, True)).loss is Loss.LOSSLESS
    if column in options.get("bucket-key", "").split(",") and not (is_same_bytes and is_lossless):
        return BUCKETED
    if not is_lossless and any(column in names for names in _ordering(options)):
        return ORDERED
    return ""


BUCKETED = "it is a bucket key: existing rows stay in the buckets of their old values, where queries miss them"
ORDERED = "it orders rows or says when they expire: by the converted values, older rows can win, or current ones expire"
_MISPLACED = (BUCKETED, ORDERED)

COLUMN_RENAMED = "it names the same columns as before, one of which was renamed"
"""Why an option that may never change has another text."""


def _ordering(options: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the columns by which rows expire, or rows of one key are ordered: as a whole, and each group."""
    yield [options.get("record-level.time-field", "")]
    yield [name.strip() for name in options.get("sequence.field", "").split(",")]
    for key in options:
        if key.startswith("fields.") and key.endswith(".sequence-group"):
            yield key.removeprefix("fields.").removesuffix(".sequence-group").split(",")


def _kind(before: Root, after: Root) -> str | None:
    """Return `implicit`, `explicit`, or None for a cast that Paimon does not have."""
    if after in _IMPLICIT.get(before, ()):
        return "implicit"
    return "explicit" if after in _EXPLICIT.get(before, ()) else None


_IMPLICIT: Mapping[Root, tuple[Root, ...]] = {
    Root.BOOLEAN: (Root.BOOLEAN,),
    **{root: (*_INTEGERS[place:], Root.FLOAT, Root.DOUBLE, Root.DECIMAL) for place, root in enumerate(_INTEGERS)},
    Root.FLOAT: (Root.FLOAT, Root.DOUBLE, Root.DECIMAL),
    Root.DOUBLE: (Root.DOUBLE, Root.DECIMAL),
    Root.DECIMAL: (Root.DECIMAL, Root.FLOAT, Root.DOUBLE),
    Root.CHAR: (Root.CHAR, Root.VARCHAR),
    Root.VARCHAR: (Root.VARCHAR,),
    Root.BINARY: (Root.BINARY, Root.VARBINARY),
    Root.VARBINARY: (Root.VARBINARY,),
    Root.DATE: (Root.DATE,),
    Root.TIME: (Root.TIME,),
    Root.TIMESTAMP: (Root.DATE, Root.TIME, *_TIMESTAMPS),
    Root.TIMESTAMP_LTZ: _TIMESTAMPS,
}

_EXPLICIT: Mapping[Root, tuple[Root, ...]] = {
    Root.BOOLEAN: (*_NUMBERS, *_TEXTS),
    **dict.fromkeys(_INTEGERS, (*_NUMBERS, Root.BOOLEAN, *_TEXTS, *_TIMESTAMPS)),
    **dict.fromkeys((Root.FLOAT, Root.DOUBLE, Root.DECIMAL), (*_NUMBERS, *_TEXTS)),
    **dict.fromkeys(_TEXTS, (*_TEXTS, Root.BOOLEAN, *_NUMBERS, *_BYTES, Root.DATE, Root.TIME, *_TIMESTAMPS)),
    **dict.fromkeys(_BYTES, (*_TEXTS, *_BYTES)),
    Root.DATE: (*_TIMESTAMPS, *_TEXTS),
    Root.TIME: (*_TIMESTAMPS, *_TEXTS),
    Root.TIMESTAMP: (*_TEXTS, Root.INT, Root.BIGINT),
    Root.TIMESTAMP_LTZ: (*_TEXTS, Root.DATE, Root.TIME, Root.INT, Root.BIGINT),
    **dict.fromkeys((Root.ARRAY, Root.MAP, Root.ROW), _TEXTS),
}


def _is_executable(before: AtomicType, after: AtomicType) -> bool:
    """Return False for casts that ALTER could accept but that no reader has."""
    pair = (before.root, after.root)
    if pair in ((Root.BOOLEAN, Root.BOOLEAN), (Root.TIME, Root.TIME), (Root.DATE, Root.DATE)):
        return False
    if after.root in _TIMESTAMPS and before.root in (Root.TINYINT, Root.SMALLINT):
        return False
    if after.root in _TEXTS and before.root in (Root.DATE, Root.TIME, *_TIMESTAMPS):
        return after.root is Root.VARCHAR and after.arguments == (MAX_LENGTH,) and after.nullable
    return True


def _why_lossy(before: AtomicType, after: AtomicType) -> str:
    """Return why values can change; empty where every value survives."""
    if before.root is after.root:
        if before.root is Root.DECIMAL:
            return _why_digits_are_lost(before.arguments, after)
        if before.root in (*_TEXTS, *_BYTES):
            return _why_shorter(before, after)
        if before.root in (*_TIMESTAMPS, Root.TIME) and _first(after) < _first(before):
            return "digits of the second are lost"
        return ""
    judge = _CROSSINGS.get((before.root, after.root))
    if judge is not None:
        return judge(before, after)
    if after.root in _INTEGERS and before.root in _INTEGERS:
        is_wider = _INTEGERS.index(before.root) < _INTEGERS.index(after.root)
        return "" if is_wider else "larger values overflow"
    if after.root is Root.DECIMAL and before.root in _DIGITS:
        return _why_digits_are_lost((_DIGITS[before.root], 0), after)
    if before.root in _EXACT_IN.get(after.root, ()):
        return ""
    return _LOSSES.get(after.root, "values are converted")


def _why_shorter(before: AtomicType, after: AtomicType) -> str:
    if _first(after) < _first(before):
        return "longer values are cut"
    is_padded = after.root in (Root.CHAR, Root.BINARY) and _first(after) > _first(before)
    return "shorter values are padded" if is_padded else ""


def _why_digits_are_lost(before: tuple[int | str, ...], after: AtomicType) -> str:
    precision, scale = map(int, before)
    new_precision, new_scale = map(int, after.arguments)
    if new_scale < scale:
        return "digits after the point are lost"
    return "larger values become null" if new_precision - new_scale < precision - scale else ""


def _why_time_is_lost(_before: AtomicType, _after: AtomicType) -> str:
    return "the time of day is lost"


def _first(data_type: AtomicType) -> int:
    return int(data_type.arguments[0])


_CROSSINGS: Mapping[tuple[Root, Root], Callable[[AtomicType, AtomicType], str]] = {
    (Root.CHAR, Root.VARCHAR): _why_shorter,
    (Root.BINARY, Root.VARBINARY): _why_shorter,
    (Root.DATE, Root.TIMESTAMP): lambda _before, _after: "",
    (Root.TIMESTAMP, Root.DATE): _why_time_is_lost,
    (Root.TIMESTAMP_LTZ, Root.DATE): _why_time_is_lost,
}
"""Pairs of types whose loss depends on more than the new type."""

_LOSSES: Mapping[Root, str] = {
    Root.FLOAT: "digits are lost",
    Root.DOUBLE: "digits are lost",
    Root.DECIMAL: "digits are lost, and larger values become null",
    Root.CHAR: "values become text",
    Root.VARCHAR: "values become text",
    Root.TIME: "the date is lost",
    Root.TIMESTAMP: "values depend on the time zone of the reader",
    Root.TIMESTAMP_LTZ: "values depend on the time zone of the reader",
    **dict.fromkeys(
        _INTEGERS, "fractions are cut and larger values overflow, or text that is not a number is an error"
    ),
}


# -- the changes between two schemas, matched by field id --------------------------------------------------------------

Path = tuple[str, ...]


class ChangeKind(StrEnum):
    """The kind of a change, as in Paimon's SchemaChange; METADATA and the last three have no such change."""

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

    @property
    def is_of_other_columns(self) -> bool:
        """True if the text is unchanged, but its names are now those of other columns. Nobody has set it."""
        names_columns = (ChangeKind.SET_OPTION, ChangeKind.PRIMARY_KEYS, ChangeKind.PARTITION_KEYS)
        return self.kind in names_columns and self.before == self.after

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
    return ".".join(map(format_sql_name, path))


def changes_between(before: Schema, after: Schema, *, has_snapshots: bool = True) -> tuple[Change, ...]:
    """Return what changed from one schema to another. `has_snapshots`: whether the table had a snapshot in between."""
    differ = _Differ(before, after, has_snapshots)
    return (*differ.fields(before.fields, after.fields, ()), *differ.options(), *differ.keys(), *differ.table())


def find_options_of_other_columns(before: Schema, after: Schema, *, has_snapshots: bool = True) -> tuple[Change, ...]:
    """Return the options that mean something else although their text is the same.

    The columns that they name have swapped their names, or another column has taken the name of one. Nobody has changed
    these options, so they are not among `changes_between`, but for existing rows it is as if somebody had.
    """
    return tuple(_Differ(before, after, has_snapshots).options_of_other_columns())


class _Differ:
    def __init__(self, before: Schema, after: Schema, has_snapshots: bool) -> None:
        self._before = before
        self._after = after
        self._has_snapshots = has_snapshots
        pairs = _pairs(before.fields, after.fields)
        self._renamed = {old.name: new.name for old, new in pairs if old.name != new.name}
        self._comparison = OptionComparison(before, after, pairs)

    def fields(self, before: Sequence[DataField], after: Sequence[DataField], path: Path) -> Iterator[Change]:
        """Yield the changes of the fields of one level, and of those below."""
        pairs = _pairs(before, after)
        kept_old, kept_new = {id(old) for old, _ in pairs}, {id(new) for _, new in pairs}
        for old in before:
            if id(old) not in kept_old:
                yield self._dropped(old, path)
        for old, new in pairs:
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
        for new in after:
            if id(new) not in kept_new:
                yield Change(ChangeKind.ADD_COLUMN, (*path, new.name), new.id, after=type_json(new.type))
        yield from _moved(pairs, after, path)

    def _dropped(self, field: DataField, path: Path) -> Change:
        here = (*path, field.name)
        is_key = not path and field.name in (*self._before.primary_keys, *self._before.partition_keys)
        loss, reason = (Loss.REFUSED, "it is a key") if is_key else (Loss.LOSSY, "its values can no longer be read")
        return Change(ChangeKind.DROP_COLUMN, here, field.id, before=type_json(field.type), loss=loss, reason=reason)

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
        before = next((old for old, new in self._renamed.items() if new == name), name)
        if before in (*self._before.primary_keys, *self._before.partition_keys):
            loss, reason = Loss.REFUSED, "it is a key"
        elif loss is not Loss.REFUSED and self._has_snapshots and before:
            misplaced = why_rows_are_misplaced(old, new, before, self._before.options)
            loss, reason = (Loss.LOSSY, misplaced) if misplaced else (loss, reason)
        return Change(ChangeKind.TYPE, path, field_id, type_json(old), type_json(new), loss, reason, verdict.paimon)

    def _change_of_nullability(self, old: DataType, new: DataType, path: Path, field_id: int) -> Change:
        loss, reason = Loss.LOSSLESS, ""
        if not new.nullable and not (len(path) == 1 and path[0] in self._after.primary_keys):
            may = not is_true(self._before.options, "alter-column-null-to-not-null.disabled", default=True)
            loss = Loss.LOSSY if may else Loss.REFUSED
            reason = "the column may contain nulls"
        return Change(ChangeKind.NULLABILITY, path, field_id, old.nullable, new.nullable, loss, reason)

    def options(self) -> Iterator[Change]:
        """Yield options with another text. Those that only follow the renaming of a column are lossless."""
        old, new = self._before.options, self._after.options
        for key in [*new, *(key for key in old if key not in new)]:
            value = new.get(key)
            if old.get(key) == value:
                continue
            kind = ChangeKind.REMOVE_OPTION if value is None else ChangeKind.SET_OPTION
            if self._comparison.is_kept(key, is_removed=value is None):
                yield Change(kind, (key,), None, old.get(key), value, Loss.LOSSLESS, COLUMN_RENAMED)
                continue
            refused = why_option_is_refused(old, key, value, has_snapshots=self._has_snapshots)
            loss = Loss.REFUSED if refused else Loss.LOSSLESS
            yield Change(kind, (key,), None, old.get(key), value, loss, refused or "")

    def options_of_other_columns(self) -> Iterator[Change]:
        """Yield options with the same text, whose names are now those of other columns."""
        for key, value in self._after.options.items():
            if self._before.options.get(key) != value or not self._comparison.names_other_columns(key):
                continue
            refused = why_changed_option_is_refused(self._before.options, key, value, has_snapshots=self._has_snapshots)
            reason = f"{refused}, and another column has the name now" if refused else ""
            loss = Loss.REFUSED if refused else Loss.LOSSLESS
            yield Change(ChangeKind.SET_OPTION, (key,), None, value, value, loss, reason)

    def keys(self) -> Iterator[Change]:
        """Yield changed keys. Those that follow the renaming of a column are lossless."""
        for kind, old, new in (
            (ChangeKind.PRIMARY_KEYS, self._before.primary_keys, self._after.primary_keys),
            (ChangeKind.PARTITION_KEYS, self._before.partition_keys, self._after.partition_keys),
        ):
            has_same_columns = self._comparison.are_same_columns(old, new)
            if old == new and has_same_columns:
                continue
            is_renamed = kind is ChangeKind.PRIMARY_KEYS and has_same_columns
            may = is_renamed or (kind is ChangeKind.PRIMARY_KEYS and not self._has_snapshots)
            reason = "" if may else "keys cannot be changed"
            if old == new and not may:
                reason = f"{reason}, and another column has the name now"
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
    """Return the fields of equal id, in the order of `before`; where an id occurs twice, those of equal name."""
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


def meaning_for_old_rows(change: Change, before: Schema, after: Schema) -> str | None:
    """Return what the change of an option, or of the type of a column that an option names, means for rows that exist;
    None where it means nothing, or is refused.
    """
    if change.kind is ChangeKind.TYPE:
        return change.reason if change.reason in _MISPLACED else None
    if change.kind not in (ChangeKind.SET_OPTION, ChangeKind.REMOVE_OPTION) or change.loss is Loss.REFUSED:
        return None
    if change.reason == COLUMN_RENAMED:
        return None
    key = change.path[0]
    value = None if change.after is None else str(change.after)
    if not change.is_of_other_columns and has_same_value(before.options, key, value):
        return None
    if key == "ignore-delete" and before.primary_keys and is_true(after.options, key):
        return "deletions that no compaction has merged yet are ignored from now on, so that deleted rows come back"
    if _merges(change, before, after):
        return "rows that exist and that no compaction has merged yet are merged by it from now on, to other values"
    return OF_OLD_ROWS.get(key) or why_files_are_lost(before, key, value)


def _merges(change: Change, before: Schema, after: Schema) -> bool:
    """Return True for an option by which rows of a key are merged, unless it comes or goes with a column."""
    key = change.path[0]
    if key == "sequence.field.sort-order":
        return bool(before.options.get("sequence.field"))
    name, _, ending = key.removeprefix("fields.").rpartition(".")
    if before.options.get("merge-engine", "").lower() not in ("aggregation", "partial-update"):
        return False
    if key == "fields.default-aggregate-function":
        return True
    if not key.startswith("fields.") or ending not in ("aggregate-function", "sequence-group"):
        return False

    # A key that was removed has the names of the earlier schema.
    is_removed = change.kind is ChangeKind.REMOVE_OPTION
    named, other = (before, after) if is_removed else (after, before)
    ids_by_name = {field.name: field.id for field in named.fields}
    other_ids = {field.id for field in other.fields}
    return all(ids_by_name.get(column) in other_ids for column in name.split(","))


def _added(word: str, value: object) -> str:
    return f"{word} (removed)" if value is None else word


def _default(change: Change, name: str) -> str:
    return f"default {name} (removed)" if change.after is None else f"default {name} = {change.after}"


def _order(change: Change, name: str) -> str:
    return f"order {f'{name}: ' if name else ''}{', '.join(map(format_sql_name, change.after))}"


def _keys(word: str) -> Callable[[Change, str], str]:
    def describe(change: Change, _: str) -> str:
        names = ", ".join(change.after)
        if change.is_of_other_columns:
            return f"{word} keys ({names}) are other columns now"
        return f"{word} keys ({', '.join(change.before)}) -> ({names})"

    return describe


def _option(change: Change, _: str) -> str:
    key, value = change.path[0], change.after
    return f"{key} = {value} is about other columns now" if change.is_of_other_columns else f"set {key} = {value}"


_SENTENCES: Mapping[ChangeKind, Callable[[Change, str], str]] = {
    ChangeKind.ADD_COLUMN: lambda change, name: f"add {name} {_type(change.after)}",
    ChangeKind.DROP_COLUMN: lambda change, name: f"drop {name} {_type(change.before)}",
    ChangeKind.RENAME_COLUMN: lambda change, name: f"rename {name} to {format_sql_name(change.after)}",
    ChangeKind.TYPE: lambda change, name: f"type {name} {_type(change.before)} -> {_type(change.after)}",
    ChangeKind.NULLABILITY: lambda change, name: f"{'nullable' if change.after else 'not null'} {name}",
    ChangeKind.COMMENT: lambda change, name: _added(f"comment {name}", change.after),
    ChangeKind.METADATA: lambda change, name: f"{name} {change.key}: {_set(change.before)} -> {_set(change.after)}",
    ChangeKind.DEFAULT: _default,
    ChangeKind.POSITION: _order,
    ChangeKind.SET_OPTION: _option,
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
