"""Changes of single columns and nested fields, their types included: each edits the schema or is refused.

Files are not touched, so a change must leave what they hold readable.

Spec: Schema Serialization Format; Column Mapping; Default Columns; Delta-Spark: ALTER TABLE; Type Widening; Void Type;
Delta-Spark: char and varchar columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from deltacli.core.errors import UsageError, command, format_sql_name, nearest_name, quote_identifier
from deltacli.core.typing import Json
from deltacli.delta.evolution.draft import (
    Changed,
    Draft,
    Effect,
    Forbidden,
    Settings,
    fields_within,
    forbid,
    metadata_of,
    names_of,
    number_new_field,
    quoted_path,
    require_default_keeps_shape,
    require_field,
    require_free_name,
    require_independent,
    require_lengths_in_place,
    require_mapping,
    require_no_identity,
    require_valid_names,
    text_type_of,
)
from deltacli.delta.evolution.requests import (
    AddColumn,
    ChangeType,
    DropColumn,
    DropNotNull,
    MoveColumn,
    RenameColumn,
    SetComment,
    SetDefault,
    default_fault,
    parse_sql_type,
    sql_text,
)
from deltacli.delta.log.state import TYPE_WIDENING_ENABLED
from deltacli.delta.protocol.features import GENERATED_COLUMNS, READER_FEATURES_VERSION
from deltacli.delta.schema import types
from deltacli.delta.schema.column_path import CODE, ColumnPlace, PathPart, names_in
from deltacli.delta.schema.widened_schema import Widened, at, widen
from deltacli.delta.schema.widening import Caution, plan_widening
from deltacli.delta.sql.stored import DEFAULT_KEY, GENERATION_KEY
from deltacli.delta.stats.schema import STATS_COLUMNS

_USAGE_TRACKED = {"delta.columnMapping.hasDroppedOrRenamed": "true"}
_TRACKING = "columnMappingUsageTracking"
_FEATURES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
_PREVIEWS = {"timestampNtz": "timestampWithoutTimezone", "variantType": "variantType-preview"}


def add_column(draft: Draft, change: AddColumn, settings: Settings) -> Changed:
    """Add a nullable column or field; rows of existing files have null in it."""
    parent, name = draft.finder.find_parent(change.column)
    data_type = parse_sql_type(change.type)
    place_text = quoted_path((*names_of(parent), name))
    assert isinstance(parent.data_type, types.StructType)
    if (known := next((field for field in parent.data_type.fields if field.name == name), None)) is not None:
        return draft, _as_it_is(draft, change, parent, known, place_text)
    require_free_name(draft, parent, name, place_text)
    require_valid_names(draft, [name, *(one.name for one in types.struct_fields(data_type))], place_text)
    if parent.steps:
        require_default_keeps_shape(draft, parent, place_text, "added")
    _require_nullable(data_type, place_text)
    data_type, length = text_type_of(data_type, place_text, is_nested=bool(parent.steps))
    metadata = {**({} if length is None else length), **({} if not change.comment else {"comment": change.comment})}
    field: dict[str, Any] = {
        "name": name,
        "type": _without_entries(types.type_json(data_type)),
        "nullable": True,
        "metadata": metadata,
    }
    recorded = number_new_field(draft, field, settings.new_name)
    root = draft.root()
    fields = at(root, (*parent.address, "fields"))
    place = len(fields) if change.position is None else place_at(fields, change.position, parent)
    fields.insert(place, field)
    words = None if fields[-1] is field else after_words(fields, fields.index(field))
    if words is not None:
        require_lengths_in_place(parent, place_text, "added")
    changed = draft.with_schema(root).with_properties(recorded).needing(list(_features_of(draft, data_type)))
    shown = sql_text(data_type) if length is None else str(length[types.CHAR_VARCHAR_KEY])
    return changed, Effect(change, place_text, None, shown if words is None else f"{shown}, {words}", place_text, words)


def _without_entries(data_type: Json) -> Json:
    """Return a type without what writers keep in the metadata of fields: it is about another table."""
    for field in fields_within(data_type):
        metadata = field.get("metadata") or {}
        field["metadata"] = {key: value for key, value in metadata.items() if not key.startswith(_OF_WRITERS)}
    return data_type


_OF_WRITERS = ("delta.", "CURRENT_DEFAULT", "EXISTS_DEFAULT")


def _as_it_is(draft: Draft, change: AddColumn, parent: ColumnPlace, known: types.StructField, text: str) -> Effect:
    """Return the effect of adding a column that is already there as requested: none. Raises Forbidden for another."""
    wanted, has = (
        sql_text(parse_sql_type(change.type)),
        str(known.metadata.get(types.CHAR_VARCHAR_KEY) or sql_text(known.data_type)),
    )
    if wanted != has or not known.nullable:
        said = f"{text} already exists, as {has}{'' if known.nullable else ' NOT NULL'}"
        forbid("alter.column-exists", said, command("schema show"))
    if change.comment and change.comment != known.metadata.get("comment"):
        forbid("alter.column-exists", f"{text} already exists, with another comment", _way_to("comment", text, "TEXT"))
    if change.position is not None:
        fields = at(draft.root(), (*parent.address, "fields"))
        names = [field["name"] for field in fields]
        move_to(fields, names.index(known.name), change.position, parent)
        if names != [field["name"] for field in fields]:
            forbid(
                "alter.column-exists", f"{text} already exists, in another position", _way_to("move", text, "POSITION")
            )
    return Effect(change, text, has, has, text)


def _way_to(verb: str, column: str, wanted: str) -> str:
    return command("alter", verb, column, wanted) or f"{verb} it instead"


def _require_nullable(data_type: types.DataType, name: str) -> None:
    """Raise Forbidden for NOT NULL within a new type: old rows have no value for it."""
    match data_type:
        case types.StructType(fields):
            for field in fields:
                if not field.nullable:
                    message = f"{name} cannot be added: {field.name} is NOT NULL, and existing rows are null"
                    forbid("alter.not-null", message)
                _require_nullable(field.data_type, name)
        case types.ArrayType(element, contains_null):
            if not contains_null:
                forbid(
                    "alter.not-null", f"{name} cannot be added: no engine enforces NOT NULL for elements of an array"
                )
            _require_nullable(element, name)
        case types.MapType(key, value, contains_null):
            if not contains_null:
                forbid("alter.not-null", f"{name} cannot be added: no engine enforces NOT NULL for values of a map")
            _require_nullable(key, name)
            _require_nullable(value, name)


def _features_of(draft: Draft, data_type: types.DataType) -> Iterator[str]:
    """Yield the features that a type needs, by the names under which the table has them."""
    for one in types.types_within(data_type):
        if isinstance(one, types.PrimitiveType) and one.name in _FEATURES:
            feature = _FEATURES[one.name]
            yield _PREVIEWS[feature] if _PREVIEWS[feature] in draft.config.features else feature


def rename_column(draft: Draft, change: RenameColumn, _: Settings) -> Changed:
    """Give a column another logical name; files, partition values and clustering keep the physical one."""
    place = draft.finder.find(change.column)
    require_field(place, "renamed")
    old, new = place.nearest.name, change.name
    column = quoted_path((*names_of(place)[:-1], new))
    effect = Effect(change, place.text, old, new, column, cautions=_of_reader_version(draft))
    parent = _parent_of(draft, place)
    if old == new or old.lower() == new.lower():
        forbid("alter.column-exists", f"{place.text} cannot be renamed to {new}: the name differs in case at most")
    require_free_name(draft, parent, new, column)
    require_independent(draft, place, "renamed")
    require_mapping(draft, f"{place.text} cannot be renamed")
    root = draft.root()
    field = at(root, place.field_address)
    field["name"] = new
    if isinstance(collations := (field.get("metadata") or {}).get(types.COLLATIONS), dict):
        field["metadata"][types.COLLATIONS] = {
            new + key[len(old) :] if f"{key}.".startswith(f"{old}.") else key: name for key, name in collations.items()
        }
    properties = {**renamed_in_stats(draft, place, new), **_tracked(draft)}
    changed = draft.with_schema(root).with_properties(properties)
    if len(place.steps) == 1:
        columns = [new if name == old else name for name in draft.metadata.get("partitionColumns") or []]
        changed = changed.with_metadata({"partitionColumns": columns})
    return changed, effect


def _of_reader_version(draft: Draft) -> tuple[Caution, ...]:
    protocol = draft.config.protocol
    if protocol is None or protocol.min_reader_version >= READER_FEATURES_VERSION:
        return ()
    message = "deltalake 1.6.6 ignores the mapping of reader version 2 in to_pyarrow_table and returns wrong values"
    return (Caution("alter.reader-version", message),)


def _tracked(draft: Draft) -> dict[str, str]:
    return _USAGE_TRACKED if _TRACKING in draft.config.features else {}


def _parent_of(draft: Draft, place: ColumnPlace) -> ColumnPlace:
    """Return the place of the struct that a field belongs to; the root without steps."""
    if len(place.steps) == 1:
        return ColumnPlace((), (), draft.schema)
    return draft.finder.find(".".join(_quoted(step) for step in names_of(place)[:-1]))


def _quoted(name: str) -> str:
    return name if name in ("element", "key", "value") else quoted_path([name])


def drop_column(draft: Draft, change: DropColumn, _: Settings) -> Changed:
    """Leave a column out of the schema; its values stay in existing files until they are rewritten."""
    place = draft.finder.find(change.column)
    require_field(place, "dropped")
    before, cautions = sql_text(place.data_type), _of_reader_version(draft)
    effect = Effect(change, place.text, before, None, place.text, cautions=cautions)
    parent = _parent_of(draft, place)
    assert isinstance(parent.data_type, types.StructType)
    if len(parent.data_type.fields) == 1:
        of = parent.text if parent.steps else "the table"
        forbid("alter.last-column", f"{place.text} cannot be dropped: it is the only field of {of}")
    partitions = set(draft.metadata.get("partitionColumns") or ())
    if not parent.steps and {one.name for one in parent.data_type.fields} - partitions == {place.nearest.name}:
        forbid("alter.last-column", f"{place.text} cannot be dropped: all other columns are partition columns")
    require_independent(draft, place, "dropped", is_dropped=True)
    if parent.steps:
        require_default_keeps_shape(draft, place, place.text, "dropped")
        require_lengths_in_place(parent, place.text, "dropped")
    require_mapping(draft, f"{place.text} cannot be dropped")
    root = draft.root()
    *above, position = place.field_address
    del at(root, above)[position]
    properties = {**_edited(draft, place, lambda _: None), **_tracked(draft)}
    return draft.with_schema(root).with_properties(properties), effect


def move_column(draft: Draft, change: MoveColumn, _: Settings) -> Changed:
    """Move a column within the table, or a field within its struct."""
    place = draft.finder.find(change.column)
    require_field(place, "moved")
    root = draft.root()
    *above, position = place.field_address
    fields = at(root, above)
    field, before = fields[int(position)], after_words(fields, int(position))
    parent = _parent_of(draft, place)
    move_to(fields, int(position), change.position, parent)
    if len(place.steps) > 1 and fields.index(field) != int(position):
        require_default_keeps_shape(draft, place, place.text, "moved")
        require_lengths_in_place(parent, place.text, "moved")
    after = after_words(fields, next(n for n, one in enumerate(fields) if one["name"] == place.nearest.name))
    return draft.with_schema(root), Effect(change, place.text, before, after, place.text, after)


def comment_column(draft: Draft, change: SetComment, _: Settings) -> Changed:
    """Set or remove the comment of a column."""
    place = draft.finder.find(change.column)
    require_field(place, "commented")
    root = draft.root()
    metadata = metadata_of(root, place)
    before = metadata.get("comment")
    if change.comment is None:
        metadata.pop("comment", None)
    else:
        metadata["comment"] = change.comment
    effect = Effect(change, place.text, None if before is None else str(before), change.comment, place.text)
    return draft.with_schema(root), effect


def drop_not_null(draft: Draft, change: DropNotNull, _: Settings) -> Changed:
    """Allow nulls in a column."""
    place = draft.finder.find(change.column)
    require_field(place, "made nullable")
    is_nullable = place.nearest.nullable
    if not is_nullable:
        require_no_identity(draft, place, "made nullable")
    root = draft.root()
    at(root, place.field_address)["nullable"] = True
    before = "nullable" if is_nullable else "NOT NULL"
    return draft.with_schema(root), Effect(change, place.text, before, "nullable", place.text)


def default_column(draft: Draft, change: SetDefault, _: Settings) -> Changed:
    """Set or remove the default, which writers use for rows that leave the column out."""
    place = draft.finder.find(change.column)
    require_field(place, "given a default")
    before = place.nearest.metadata.get(DEFAULT_KEY)
    if change.default is not None:
        _require_default(draft, place, change.default)
    root = draft.root()
    metadata = metadata_of(root, place)
    if change.default is None:
        metadata.pop(DEFAULT_KEY, None)
    else:
        metadata[DEFAULT_KEY] = change.default
    changed = draft.with_schema(root)
    effect = Effect(change, place.text, None if before is None else str(before), change.default, place.text)
    return changed if change.default is None else changed.needing(["allowColumnDefaults"]), effect


def _require_default(draft: Draft, place: ColumnPlace, text: str) -> None:
    name = place.text
    if len(place.steps) > 1:
        forbid(
            "alter.default", f"{name} cannot have a default: it is a nested field, and defaults are those of columns"
        )
    require_no_identity(draft, place, "given a default")
    if GENERATION_KEY in place.nearest.metadata and not draft.config.is_inert(GENERATED_COLUMNS):
        forbid("alter.default", f"{name} cannot have a default: it is a generated column")
    if (fault := default_fault(name, place.data_type, text)) is not None:
        forbid("alter.default", *fault)


def place_at(fields: list[dict[str, Any]], position: str, parent: ColumnPlace) -> int:
    """Return where a new field of a struct is inserted for a position. Raises UsageError."""
    return _place(fields, *_position(fields, position, parent))


def move_to(fields: list[dict[str, Any]], place: int, position: str, parent: ColumnPlace) -> None:
    """Move a field of a struct to a position. Raises UsageError."""
    field = fields[place]
    word, other = _position(fields, position, parent)
    if other is not field:
        del fields[place]
        fields.insert(_place(fields, word, other), field)


def _position(fields: list[dict[str, Any]], position: str, parent: ColumnPlace) -> tuple[str, dict[str, Any] | None]:
    """Return the word of a position, and the field that it names."""
    word, colon, reference = position.partition(":")
    word = word.lower()
    if word in ("first", "last") and not colon:
        return word, None
    if word not in ("before", "after") or not reference:
        unknown = UsageError(f"{position!r} is not a position", facts={"expected": "first, last, before:X or after:X"})
        near = nearest_name(word, ("before", "after") if colon else ("first", "last"))
        raise unknown.suggest_as_fact(position, near and f"{near}{colon}{reference}")
    return word, fields[_sibling(fields, reference, parent)]


def _place(fields: list[dict[str, Any]], word: str, other: dict[str, Any] | None) -> int:
    if other is None:
        return 0 if word == "first" else len(fields)
    return next(number for number, one in enumerate(fields) if one is other) + (word == "after")


def after_words(fields: list[dict[str, Any]], place: int) -> str:
    """Return where a field is: first, or after another one."""
    return "first" if place == 0 else f"after {_shown(fields[place - 1])}"


def _sibling(fields: list[dict[str, Any]], reference: str, parent: ColumnPlace) -> int:
    *above, name = names_in(reference)
    around = [step.name.lower() for step in parent.steps]
    if above and [one.lower() for one in above] != around:
        message = f"{reference} is in another struct: a field is moved within its own struct only"
        raise UsageError(message, code=CODE, facts={"fields": ", ".join(map(_shown, fields[:40]))})
    found = types.find_name_positions(name, [field["name"] for field in fields])
    if len(found) == 1:
        return found[0]
    absent = UsageError(
        f"there is no field {name} to move before or after",
        code=CODE,
        facts={"fields": ", ".join(map(_shown, fields[:40]))},
    )
    if not found and (near := nearest_name(name, [str(field["name"]) for field in fields], ignores_case=True)):
        absent.suggest_as_fact(reference, ".".join(map(format_sql_name, (*above, near))))
    raise absent


def _shown(field: dict[str, Any]) -> str:
    name = str(field["name"])
    return name if name.isidentifier() else quote_identifier(name)


_PART = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])+")


def renamed_in_stats(draft: Draft, place: ColumnPlace, new: str) -> dict[str, str | None]:
    """Return the property with a column's new name; nothing where it does not name the column."""
    depth = len(place.steps)
    return _edited(draft, place, lambda names: quoted_path((*names[: depth - 1], new, *names[depth:])))


def _edited(draft: Draft, place: ColumnPlace, edit: Callable[[tuple[str, ...]], str | None]) -> dict[str, str | None]:
    value = draft.configuration.get(STATS_COLUMNS)
    if not isinstance(value, str) or not value.strip():
        return {}
    own = names_of(place)
    kept, is_changed = [], False
    for part in _PART.findall(value):
        try:
            names = names_of(draft.finder.find(part.strip()))
        except UsageError:
            names = ()
        if names[: len(own)] == own:
            is_changed = True
            text = edit(names)
            kept += [] if text is None else [text]
        else:
            kept.append(part.strip())
    return {STATS_COLUMNS: ",".join(kept) or None} if is_changed else {}


# -- `type` of a column ------------------------------------------------------------------------------------------------

_VOID = types.PrimitiveType("void")
_STRING = types.PrimitiveType("string")


def change_type(draft: Draft, change: ChangeType, settings: Settings) -> Changed:
    """Give a column another type that reads every value of existing files."""
    place = draft.finder.find(change.column)
    if place.data_type == _VOID:
        return _of_void(draft, place, change)
    holder = next((field for field in place.fields if types.CHAR_VARCHAR_KEY in field.metadata), None)
    if holder is not None and place.data_type == _STRING:
        return _of_text(draft, place, change)
    plan = plan_widening(
        draft.config,
        draft.metadata,
        [(change.column, change.type)],
        commit_version=settings.commit_version,
        enable=settings.enable,
        upgrade_protocol=settings.upgrade_protocol,
        partition_values=settings.partition_values,
    )
    planned = plan.changes[0]
    effect = Effect(change, place.text, planned.from_type, planned.to_type, place.text, cautions=plan.warnings)
    if plan.all_refusals:
        raise Forbidden(plan.all_refusals)
    if plan.is_noop:
        return draft, effect
    root = draft.root()
    widen(root, Widened(planned.place, planned.from_type, planned.to_type), plan.table_version)
    enabled = {TYPE_WIDENING_ENABLED: "true"} if plan.enables_property else {}
    changed = draft.with_schema(root).with_properties(enabled)
    return replace(changed, protocol=plan.protocol_after or draft.protocol), effect


def _of_void(draft: Draft, place: ColumnPlace, change: ChangeType) -> Changed:
    """No file has a value of a void column, so it can get any type."""
    data_type = parse_sql_type(change.type)
    if not isinstance(data_type, types.PrimitiveType):
        forbid("alter.void", f"{place.text} cannot become {change.type}: only a type without parts can follow void")
    data_type, length = text_type_of(data_type, place.text, is_nested=len(place.steps) > 1)
    require_independent(draft, place, "given a type")
    root = draft.root()
    *above, last = place.address
    at(root, above)[last] = types.type_json(data_type)
    if length is not None:
        metadata_of(root, place).update(length)
    features = {"timestamp_ntz": ["timestampNtz"], "variant": ["variantType"]}.get(sql_text(data_type), [])
    effect = Effect(change, place.text, "void", sql_text(data_type), place.text)
    return draft.with_schema(root).needing(features), effect


def _of_text(draft: Draft, place: ColumnPlace, change: ChangeType) -> Changed:
    number = next(n for n, field in enumerate(place.fields) if types.CHAR_VARCHAR_KEY in field.metadata)
    declared = parse_sql_type(str(place.fields[number].metadata[types.CHAR_VARCHAR_KEY]))
    of_fields = [n for n, step in enumerate(place.steps) if step.part is PathPart.FIELD]
    way = place.steps[of_fields[number] + 1 :]
    if number != len(place.fields) - 1:
        forbid(
            "alter.char-varchar", f"{place.text} cannot become {change.type}: it is within a struct of char or varchar"
        )
    parts = [step.part for step in way]
    before, after = _at(declared, parts), parse_sql_type(change.type)
    effect = Effect(change, place.text, sql_text(before), sql_text(after), place.text)
    if before == after:
        return draft, effect
    if not _is_longer(sql_text(before), sql_text(after)):
        forbid(
            "alter.char-varchar",
            f"{place.text} cannot become {change.type}: {sql_text(before)} can become string or a varchar of at least "
            "as many characters",
        )
    require_independent(draft, place, "given another length")
    root = draft.root()
    metadata = metadata_of(root, place)
    text = sql_text(_with(declared, parts, after))
    if "char(" in text:
        metadata[types.CHAR_VARCHAR_KEY] = text
    else:
        del metadata[types.CHAR_VARCHAR_KEY]
    return draft.with_schema(root), effect


def _at(data_type: types.DataType, way: list[PathPart]) -> types.DataType:
    for step in way:
        data_type = next((part.data_type for part in types.parts_of(data_type) if part.name == step.value), data_type)
    return data_type


def _with(data_type: types.DataType, way: list[PathPart], new: types.DataType) -> types.DataType:
    match data_type, way:
        case types.ArrayType(element, contains_null), [PathPart.ELEMENT, *rest]:
            return types.ArrayType(_with(element, rest, new), contains_null)
        case types.MapType(key, value, contains_null), [PathPart.KEY, *rest]:
            return types.MapType(_with(key, rest, new), value, contains_null)
        case types.MapType(key, value, contains_null), [PathPart.VALUE, *rest]:
            return types.MapType(key, _with(value, rest, new), contains_null)
    return new


def _is_longer(before: str, after: str) -> bool:
    if after == "string":
        return True
    return before.endswith(")") and after.startswith("varchar(") and _length(before) <= _length(after)


def _length(text: str) -> int:
    return int(text.partition("(")[2].rstrip(")"))
