"""The schema that follows from changes: fields at a path are edited as Paimon's Java does, or refused.

Changes are applied in order, each to the result of the one before. Ids of fields are never given twice. What Java does
and what loses data is refused with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltacli.core.errors import DoubleQuoted, Refused, UsageError, command, format_sql_name, nearest_path
from deltacli.paimon import types
from deltacli.paimon.engines import MIN_PAIMON_OPTION, MIN_PAIMON_VALUES
from deltacli.paimon.evolution import requests
from deltacli.paimon.option_columns import (
    BLOB_OPTIONS,
    FIELDS,
    NESTED_KEY,
    ColumnOption,
    find_options_naming,
    is_indexed,
    parse_column_options,
)
from deltacli.paimon.schema import (
    ALWAYS_IMMUTABLE,
    CURRENT_VERSION,
    IMMUTABLE,
    Schema,
    has_same_value,
    is_true,
    why_files_are_lost,
    why_option_is_refused,
)
from deltacli.paimon.schema_changes import Loss, dotted, judge_cast, judge_change, why_rows_are_misplaced
from deltacli.paimon.snapshots import MAX_NUMBER

# -- editing a schema --------------------------------------------------------------------------------------------------

ELEMENT, KEY, VALUE = "element", "key", "value"

Fields = tuple[types.DataField, ...]
Edit = Callable[[types.DataType, str], types.DataType]
"""Gets the type around the end of a path, and its last name; returns the new type."""


def edit_at(fields: Fields, path: requests.Path, edit: Edit) -> Fields:
    """Return fields with an edit at the end of a path. Raises UsageError for no such path, Refused for keys of maps."""
    edited = _edit(types.RowType(fields), path, 0, edit)
    assert isinstance(edited, types.RowType)
    return edited.fields


def _edit(around: types.DataType, path: requests.Path, place: int, edit: Edit) -> types.DataType:
    name = path[place]
    if place == len(path) - 1:
        return edit(around, name)
    return with_part(around, name, _edit(part_of(around, path[: place + 1]), path, place + 1, edit))


def part_of(around: types.DataType, path: requests.Path) -> types.DataType:
    """Return the type at the last name of a path, which stands in the type around it."""
    name = path[-1]
    match around:
        case types.RowType(fields):
            return field_of(fields, path).type
        case types.ListType(types.Root.ARRAY, element) if name == ELEMENT:
            return element
        case types.MapType(_, value) if name == VALUE:
            return value
        case types.MapType() if name == KEY:
            raise Refused(
                f"{dotted(path)}: the keys of a MAP cannot be changed; Paimon's Java would change the values instead",
                code="alter.map-key",
            )
    raise _no_such_part(around, path)


def field_of(fields: Sequence[types.DataField], path: requests.Path) -> types.DataField:
    """Return the field at the last name of a path. Raises UsageError that names the nearest one."""
    found = next((field for field in fields if field.name == path[-1]), None)
    if found is not None:
        return found
    siblings = [(field.name,) for field in fields]
    near = nearest_path(path[-1:], siblings if path[:-1] else [*siblings, *_nested(fields)])
    more = ", …" if len(fields) > _MOST_NAMED else ""
    facts = {"columns": ", ".join(format_sql_name(field.name) for field in fields[:_MOST_NAMED]) + more}
    hint = command("schema show") or None
    absent = UsageError(f"the column {dotted(path)} does not exist", code="usage.column", facts=facts, hint=hint)
    raise absent.suggest_as_fact(dotted(path), None if near is None else dotted((*path[:-1], *near)))


def _nested(fields: Sequence[types.DataField], above: requests.Path = ()) -> Iterator[requests.Path]:
    for field in fields:
        if above:
            yield (*above, field.name)
        if isinstance(field.type, types.RowType):
            yield from _nested(field.type.fields, (*above, field.name))


_MOST_NAMED = 20


def with_part(around: types.DataType, name: str, part: types.DataType) -> types.DataType:
    """Return a type with another type at a name that `part_of` found."""
    match around:
        case types.RowType(fields):
            changed = (replace(field, type=part) if field.name == name else field for field in fields)
            return replace(around, fields=tuple(changed))
        case types.ListType():
            return replace(around, element=part)
        case types.MapType():
            return replace(around, value=part)
        case _:
            return around


def edit_type(fields: Fields, path: requests.Path, change: Callable[[types.DataType], types.DataType]) -> Fields:
    """Return fields with another type at a path, also of an element or a value."""
    return edit_at(fields, path, lambda around, name: with_part(around, name, change(part_of(around, path))))


def edit_field(fields: Fields, path: requests.Path, change: Callable[[types.DataField], types.DataField]) -> Fields:
    """Return fields with another field at a path."""

    def edit(around: types.DataType, _: str) -> types.DataType:
        row = row_around(around, path)
        chosen = field_of(row.fields, path)
        return replace(row, fields=tuple(change(field) if field is chosen else field for field in row.fields))

    return edit_at(fields, path, edit)


def row_around(around: types.DataType, path: requests.Path) -> types.RowType:
    """Return the ROW that has the field at a path. Raises UsageError for an element, a value, or below a plain type."""
    if isinstance(around, types.RowType):
        return around
    parts = (ELEMENT, VALUE, KEY) if isinstance(around, types.ListType | types.MapType) else ()
    if path[-1] in parts:
        raise UsageError(
            f"{dotted(path)} is not a column: only its type and its nullability can be changed", code="usage.column"
        )
    raise _no_such_part(around, path)


def _no_such_part(around: types.DataType, path: requests.Path) -> UsageError:
    outer = dotted(path[:-1])
    expected = {types.Root.ARRAY: f"{outer}.{ELEMENT}", types.Root.MAP: f"{outer}.{VALUE}"}.get(around.root)
    facts = {"expected": expected} if expected else {"type": str(around.root)}
    reason = "has fields only below that" if expected else "has no fields"
    return UsageError(f"the column {dotted(path)} does not exist: {outer} {reason}", code="usage.column", facts=facts)


def moved(fields: Fields, column: str, to: int) -> Fields:
    """Return fields with a column at another place."""
    others = [field for field in fields if field.name != column]
    chosen = next(field for field in fields if field.name == column)
    return (*others[:to], chosen, *others[to:])


def with_required_keys(data_type: types.DataType) -> types.DataType:
    """Return a type whose MAP keys are NOT NULL, as Arrow and Paimon C++ need them. Spec: Limitations."""
    found = types.map_parts(
        data_type, with_required_keys, lambda field: replace(field, type=with_required_keys(field.type))
    )
    return replace(found, key=types.with_nullability(found.key, False)) if isinstance(found, types.MapType) else found


NESTED = (NESTED_KEY, ".nested-sequence-field")
"""Endings of options of a column whose value names fields of its rows."""


def nested_options(options: Mapping[str, str], path: requests.Path) -> Iterator[str]:
    """Yield the keys of the options that name a field of the rows in an array: `nested_update` finds rows by it."""
    if len(path) == 3 and path[1] == ELEMENT:
        for ending in NESTED:
            key = f"{FIELDS}{path[0]}{ending}"
            if path[2] in options.get(key, "").split(","):
                yield key


def rename_nested(options: HashOrder, path: requests.Path, new_name: str) -> None:
    """Rename a nested field in the options that name it, which Paimon's Java forgets: its scans fail then."""
    for key in list(nested_options(options.as_dict(), path)):
        names = (options.get(key) or "").split(",")
        options.put(key, ",".join(new_name if name == path[2] else name for name in names))


def drop_nested(options: HashOrder, path: requests.Path) -> None:
    """Remove a nested field from the options that name it, and an option that names no other one."""
    for key in list(nested_options(options.as_dict(), path)):
        left = [name for name in (options.get(key) or "").split(",") if name != path[2]]
        if left:
            options.put(key, ",".join(left))
        else:
            options.remove(key)


def rename_in_options(options: HashOrder, column: str, new_name: str) -> None:
    def renamed(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new_name if name == column else name for name in names)

    for option in list(parse_column_options(options.as_dict())):
        changed = option.replace_columns(renamed)
        if changed != option:
            _replace(options, option, changed)


def drop_from_options(options: HashOrder, column: str, *, only_blobs: bool = False) -> None:
    """Remove a column from the options that name it, and an option that names no other one.

    With `only_blobs` from those that list BLOB and VECTOR columns, which follow a dropped column by themselves.
    """

    def without(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if name.strip() != column)

    for option in list(parse_column_options(options.as_dict())):
        changed = option.replace_columns(without)
        if changed == option or (only_blobs and option.key not in BLOB_OPTIONS):
            continue
        has_key = bool(changed.key_columns) or not option.key_columns
        has_value = bool(changed.value_columns) or not option.value_columns
        if has_key and has_value:
            _replace(options, option, changed)
        else:
            options.remove(option.key)


def _replace(options: HashOrder, before: ColumnOption, after: ColumnOption) -> None:
    value = options.get(before.key) or ""
    if after.key != before.key:
        options.remove(before.key)
    options.put(after.key, ",".join(after.value_columns) if before.value_columns else value)


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
        return self._items.pop(key, None)

    def as_dict(self) -> dict[str, str]:
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


# -- the schema that follows from changes ------------------------------------------------------------------------------

_NULLS = "alter-column-null-to-not-null.disabled"


@dataclass(frozen=True, slots=True)
class EvolutionSettings:
    """What decides about changes besides the schema. `used_id` is the greatest id that any schema of the branch has.

    `allow_lossy`: accept changes after which stored values are read back changed. `with_options`: remove a dropped
    column from the options that name it.
    """

    has_snapshots: bool
    used_id: int = -1
    allow_lossy: bool = False
    with_options: bool = False


def evolve(
    schema: Schema, changes: Sequence[requests.SchemaChange], settings: EvolutionSettings, *, time_ms: int
) -> Schema:
    """Return the next version of a schema. Raises Refused, and UsageError for a column that does not exist."""
    draft = _Draft(schema, settings)
    for change in changes:
        draft.apply(change)
    return draft.finished(time_ms)


class _Draft:
    def __init__(self, schema: Schema, settings: EvolutionSettings) -> None:
        self._old, self._settings = schema, settings
        self._fields: Fields = schema.fields
        self._options = HashOrder(schema.options)
        # What options are compared with: those of the old schema, with the new names of columns.
        self._options_before = HashOrder(schema.options)
        self._primary_keys, self._partition_keys = schema.primary_keys, schema.partition_keys
        self._comment = schema.comment
        self._highest = schema.highest_field_id

    def apply(self, change: requests.SchemaChange) -> None:
        _APPLIERS[type(change)](self, change)

    def finished(self, time_ms: int) -> Schema:
        """Return the new schema, in the newest version of the format."""
        if self._old.id >= MAX_NUMBER:
            raise Refused(f"schema {self._old.id} has the greatest number that Paimon can read", code="alter.number")
        return Schema(
            CURRENT_VERSION,
            self._old.id + 1,
            self._with_required_key_columns(),
            self._highest,
            self._partition_keys,
            self._primary_keys,
            self._options.copy().as_dict(),
            self._comment,
            time_ms,
        )

    def _with_required_key_columns(self) -> Fields:
        if is_true(self._options.as_dict(), "primary-key.nullable"):
            return self._fields
        return tuple(
            replace(field, type=types.with_nullability(field.type, False))
            if field.name in self._primary_keys
            else field
            for field in self._fields
        )

    # --- columns ---

    def add(self, change: requests.AddColumn) -> None:
        name = dotted(change.path)
        if not change.type.nullable:
            raise Refused(
                f"{name} cannot be added as NOT NULL: rows of existing files have no value for it",
                code="alter.not-null",
            )
        self._require_free_ids()
        number = self._next_id()
        data_type = with_required_keys(types.numbered(change.type, self._next_id))
        added = types.DataField(number, change.path[-1], data_type, change.comment)

        def edit(around: types.DataType, _: str) -> types.DataType:
            row = row_around(around, change.path)
            self._require_absent(row.fields, change.path)
            place = self._place_of_new(row.fields, change)
            return replace(row, fields=(*row.fields[:place], added, *row.fields[place:]))

        self._fields = edit_at(self._fields, change.path, edit)

    def _require_free_ids(self) -> None:
        """Raise Refused where the next id was given before: old files would show the values of another column."""
        known = max(self._settings.used_id, self._old.greatest_id)
        if known > self._old.highest_field_id:
            raise Refused(
                f"highestFieldId is {self._old.highest_field_id}, but a field had the id {known}: a new column would "
                "show the values of another one in old files",
                code="paimon.highest-field-id",
                facts={"instead": f"set highestFieldId to {known} in the newest schema file, if no writer is running"},
                hint=command("validate", select=[DoubleQuoted("paimon.highest-field-id*")]),
            )

    def _next_id(self) -> int:
        self._highest += 1
        return self._highest

    def _require_absent(self, fields: Fields, path: requests.Path) -> None:
        if any(field.name == path[-1] for field in fields):
            raise Refused(
                f"the column {dotted(path)} exists already", code="alter.column-exists", hint=command("snapshot")
            )

    def _place_of_new(self, fields: Fields, change: requests.AddColumn) -> int:
        move = change.move
        if move is None:
            if len(change.path) > 1 or not is_true(self._old.options, "add-column-before-partition"):
                return len(fields)
            places = (place for place, field in enumerate(fields) if field.name in self._partition_keys)
            return next(places, len(fields))
        if move.column != change.path[-1]:
            names = f"{dotted((move.column,))}, not the new column {dotted(change.path[-1:])}"
            raise UsageError(f"move names {names}", code="usage.change")
        match move.kind:
            case requests.MoveKind.FIRST:
                return 0
            case requests.MoveKind.LAST:
                return len(fields)
        reference = field_of(fields, (*change.path[:-1], move.reference or ""))
        return fields.index(reference) + (move.kind is requests.MoveKind.AFTER)

    def rename(self, change: requests.RenameColumn) -> None:
        """Rename a column or a nested field, also in the keys and options that name it."""
        path, new_name = change.path, change.new_name
        renamed = (*path[:-1], new_name)
        if len(path) == 1:
            self._require_renamable(path[0])

        def edit(around: types.DataType, name: str) -> types.DataType:
            row = row_around(around, path)
            chosen = field_of(row.fields, path)
            if new_name != name:
                self._require_absent(row.fields, renamed)
            changed = (replace(field, name=new_name) if field is chosen else field for field in row.fields)
            return replace(row, fields=tuple(changed))

        self._fields = edit_at(self._fields, path, edit)
        if len(path) == 1 and new_name != path[0]:
            self._primary_keys = tuple(new_name if key == path[0] else key for key in self._primary_keys)
            rename_in_options(self._options, path[0], new_name)
            rename_in_options(self._options_before, path[0], new_name)
        rename_nested(self._options, path, new_name)

    def _require_renamable(self, name: str) -> None:
        if name in self._partition_keys:
            raise _key_refused(name, "renamed", "partition key")
        if field_of(self._fields, (name,)).type.root is types.Root.BLOB:
            raise Refused(f"{name} cannot be renamed: it is a BLOB column", code="alter.blob")
        if is_indexed(self._options.as_dict(), name):
            raise Refused(f"{name} cannot be renamed: data files have an index on it", code="alter.in-options")

    def drop(self, change: requests.DropColumn) -> None:
        """Drop a column or a nested field. Its id is not given again."""
        path = change.path
        if len(path) == 1:
            self._leave_options(path[0])
        else:
            naming = list(nested_options(self._options.as_dict(), path))
            if naming:
                self._require_with_options(path, naming)
                drop_nested(self._options, path)

        def edit(around: types.DataType, _: str) -> types.DataType:
            row = row_around(around, path)
            chosen = field_of(row.fields, path)
            left = tuple(field for field in row.fields if field is not chosen)
            if not left:
                where = f" of {dotted(path[:-1])}" if len(path) > 1 else ""
                raise Refused(
                    f"{dotted(path)} cannot be dropped: it is the last column{where}", code="alter.last-column"
                )
            return replace(row, fields=left)

        self._fields = edit_at(self._fields, path, edit)

    def _leave_options(self, name: str) -> None:
        """Take a column out of the options, or raise Refused where it is a key or an option still names it."""
        for keys, word in ((self._partition_keys, "partition key"), (self._primary_keys, "primary key")):
            if name in keys:
                raise _key_refused(name, "dropped", word)
        field_of(self._fields, (name,))
        drop_from_options(self._options, name, only_blobs=True)
        before = self._options.as_dict()
        naming = list(find_options_naming(before, name))
        if not naming:
            return
        self._require_with_options((name,), naming)
        drop_from_options(self._options, name)
        after = self._options.as_dict()
        for key in naming:
            self._require_option_change(key, after.get(key))

    def _require_with_options(self, path: requests.Path, naming: list[str]) -> None:
        if not self._settings.with_options:
            raise Refused(
                f"{'.'.join(path)} cannot be dropped: options name it",
                code="alter.in-options",
                facts={"options": ", ".join(naming)},
            )

    def move(self, change: requests.UpdatePosition) -> None:
        move = change.move
        names = [field.name for field in self._fields]
        field_of(self._fields, (move.column,))
        place, to = names.index(move.column), self._target(move, names)
        if to is None or (to == place and move.kind in (requests.MoveKind.FIRST, requests.MoveKind.LAST)):
            raise Refused(f"{dotted((move.column,))} is there already", code="alter.move")
        self._fields = moved(self._fields, move.column, to)

    def _target(self, move: requests.Move, names: list[str]) -> int | None:
        """Return the place among the other columns; None for a move relative to the column itself."""
        if move.kind is requests.MoveKind.FIRST:
            return 0
        if move.kind is requests.MoveKind.LAST:
            return len(names) - 1
        field_of(self._fields, (move.reference or "",))
        if move.reference == move.column:
            return None
        others = [name for name in names if name != move.column]
        return others.index(move.reference or "") + (move.kind is requests.MoveKind.AFTER)

    # --- types ---

    def retype(self, change: requests.UpdateType) -> None:
        """Change a type where readers of old files have the cast."""
        path = change.path
        self._require_no_key(path, "get another type")
        self._fields = edit_type(self._fields, path, lambda before: self._retyped(before, change))

    def _retyped(self, before: types.DataType, change: requests.UpdateType) -> types.DataType:
        name = dotted(change.path)
        after = types.with_nullability(change.type, before.nullable) if change.keep_nullability else change.type
        if after == before:
            return before
        if types.Root.BLOB in (before.root, after.root):
            raise Refused(
                f"{name}: the type of a BLOB column cannot be changed, and no column becomes one", code="alter.blob"
            )
        self._require_nullability(name, before, after)
        verdict = judge_change(types.with_nullability(before, after.nullable), after, self._old.options)
        step = f"{name}: {types.type_text(before)} to {types.type_text(after)}"
        if verdict.loss is Loss.REFUSED:
            raise Refused(
                f"{step} is not possible: {verdict.reason}",
                code="alter.cast",
                facts=_cast(verdict.paimon),
                hint=_hint_without_not_null(before, change),
            )
        if self._settings.has_snapshots and len(change.path) == 1:
            misplaced = why_rows_are_misplaced(before, after, change.path[0], self._options.as_dict())
            if misplaced:
                raise Refused(f"{step} is not possible: {misplaced}", code="alter.old-rows")
        if verdict.loss is Loss.LOSSY:
            self._require_consent(step, verdict.reason, verdict.paimon)
        return after

    def set_nullability(self, change: requests.UpdateNullability) -> None:
        path = change.path
        if change.nullable and len(path) == 1 and path[0] in self._primary_keys:
            field_of(self._fields, path)
            raise _key_refused(path[0], "nullable", "primary key")

        def changed(before: types.DataType) -> types.DataType:
            after = types.with_nullability(before, change.nullable)
            self._require_nullability(dotted(path), before, after)
            return after

        self._fields = edit_type(self._fields, path, changed)

    def _require_nullability(self, name: str, before: types.DataType, after: types.DataType) -> None:
        if not before.nullable or after.nullable:
            return
        if is_true(self._old.options, _NULLS, default=True):
            raise Refused(
                f"{name} cannot become NOT NULL: existing rows may contain nulls",
                code="alter.not-null",
                hint=f"{command('alter', 'set', f'{_NULLS}=false')}   # if there are none",
            )
        self._require_consent(f"{name}: nullable to NOT NULL", "existing rows may contain nulls", None)

    def _require_consent(self, step: str, reason: str, cast: str | None) -> None:
        if not self._settings.allow_lossy:
            raise Refused(f"{step} loses data: {reason}", code="alter.lossy", facts=_cast(cast))

    def _require_no_key(self, path: requests.Path, change: str) -> None:
        if len(path) > 1:
            return
        for keys, word in ((self._partition_keys, "partition key"), (self._primary_keys, "primary key")):
            if path[0] in keys:
                raise Refused(f"{dotted(path)} cannot {change}: it is a {word}", code="alter.key")

    # --- texts ---

    def comment(self, change: requests.UpdateComment) -> None:
        self._fields = edit_field(self._fields, change.path, lambda field: replace(field, description=change.comment))

    def default(self, change: requests.UpdateDefault) -> None:
        self._fields = edit_field(self._fields, change.path, lambda field: replace(field, default_value=change.default))

    def table_comment(self, change: requests.UpdateTableComment) -> None:
        self._comment = change.comment

    # --- options and keys ---

    def set_option(self, change: requests.SetOption) -> None:
        """Set an option. `primary-key` and `partition` set keys, where the table has none yet."""
        key, value = change.key, change.value
        if not key.strip() or key.lower() == "path":
            raise Refused(f"the option {key!r} cannot be set", code="alter.option")
        if key == "type" and value.strip().lower() == (self._old.options.get(key) or "table").lower():
            return
        # Java refuses to write -1 where nothing is written. It is the default, so nothing changes.
        if key == "bucket" and key not in self._options and has_same_value({}, key, value):
            return
        if key in ("primary-key", "partition"):
            self._set_keys(key, tuple(name.strip() for name in value.split(",") if name.strip()))
            return
        if key == MIN_PAIMON_OPTION and value not in MIN_PAIMON_VALUES:
            expected = " or ".join(MIN_PAIMON_VALUES)
            raise Refused(f"{key} is {value!r} (expected: {expected})", code="alter.option", facts={"option": key})
        self._require_option_change(key, value)
        self._options.put(key, value)

    def _set_keys(self, key: str, names: tuple[str, ...]) -> None:
        present = self._primary_keys if key == "primary-key" else self._partition_keys
        if present == names:
            return
        self._require_option_change(key, ",".join(names))
        if present:
            raise Refused(f"{key} cannot be changed: the table has it already", code="alter.key")
        for name in names:
            field_of(self._fields, (name,))
        if key == "primary-key":
            self._primary_keys = names
        else:
            self._partition_keys = names

    def remove_option(self, change: requests.RemoveOption) -> None:
        """Remove an option. As in Java, one that cannot change is refused even if it is not set."""
        immutable = IMMUTABLE if self._settings.has_snapshots else ALWAYS_IMMUTABLE
        if change.key in immutable:
            raise Refused(f"{change.key} cannot be removed", code="alter.option", facts={"option": change.key})
        self._require_option_change(change.key, None)
        self._options.remove(change.key)

    def _require_option_change(self, key: str, value: str | None) -> None:
        options = self._options_before.as_dict()
        reason = why_option_is_refused(options, key, value, has_snapshots=self._settings.has_snapshots)
        if reason is not None:
            raise Refused(reason, code="alter.option", facts={"option": key})
        lost = why_files_are_lost(self._old, key, value) if self._settings.has_snapshots else None
        if lost is not None and not self._settings.allow_lossy:  # which is how one that was changed is set back
            raise Refused(lost, code="alter.old-rows", facts={"option": key})

    def drop_primary_key(self, _: requests.DropPrimaryKey) -> None:
        """Drop the primary key of a table that has no snapshot yet."""
        if self._primary_keys and self._settings.has_snapshots:
            raise Refused("the primary key cannot be dropped once the table has a snapshot", code="alter.key")
        self._primary_keys = ()


def _hint_without_not_null(before: types.DataType, change: requests.UpdateType) -> str | None:
    """Return the command for a type that the column can have if it does not keep its NOT NULL."""
    nullable = types.with_nullability(change.type, True)
    loss = judge_cast(types.with_nullability(before, True), nullable).loss
    if before.nullable or not change.keep_nullability or loss is Loss.REFUSED:
        return None
    words = "type", dotted(change.path), types.type_text(nullable)
    return command("alter", *words, allow_lossy=True) if loss is Loss.LOSSY else command("alter", *words)


def _key_refused(name: str, change: str, word: str) -> Refused:
    return Refused(f"{dotted((name,))} cannot be {change}: it is a {word}", code="alter.key")


def _cast(paimon: str | None) -> dict[str, str]:
    return {"cast in Paimon": paimon or "none"}


_APPLIERS: Mapping[type, Callable[[_Draft, Any], None]] = {  # Any: the change of that type
    requests.AddColumn: _Draft.add,
    requests.RenameColumn: _Draft.rename,
    requests.DropColumn: _Draft.drop,
    requests.UpdateType: _Draft.retype,
    requests.UpdateNullability: _Draft.set_nullability,
    requests.UpdateComment: _Draft.comment,
    requests.UpdateDefault: _Draft.default,
    requests.UpdatePosition: _Draft.move,
    requests.SetOption: _Draft.set_option,
    requests.RemoveOption: _Draft.remove_option,
    requests.UpdateTableComment: _Draft.table_comment,
    requests.DropPrimaryKey: _Draft.drop_primary_key,
}
