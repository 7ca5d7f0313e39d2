"""`type` of a column: wider types as `widen-type`, void columns, and longer or unlimited char and varchar.

Spec: Type Widening; Void Type; Delta-Spark: char and varchar columns.
"""

from __future__ import annotations

from dataclasses import replace

from deltacli.delta.evolution.draft import Changed, Draft, Effect, Forbidden, Settings, at, forbid, metadata_of
from deltacli.delta.evolution.requests import ChangeType
from deltacli.delta.evolution.requirements import require_independent, text_type_of
from deltacli.delta.evolution.sql_types import parse_sql_type, sql_text
from deltacli.delta.schema.column_path import ColumnPlace, PathPart
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, parts_of, type_json
from deltacli.delta.schema.widening_guards import CHAR_VARCHAR_KEY
from deltacli.delta.schema.widening_plan import plan_widening

_VOID = PrimitiveType("void")
_STRING = PrimitiveType("string")


def change_type(draft: Draft, change: ChangeType, settings: Settings) -> Changed:
    """Give a column another type that reads every value of existing files."""
    place = draft.finder.find(change.column)
    if place.data_type == _VOID:
        return _of_void(draft, place, change)
    holder = next((field for field in place.fields if CHAR_VARCHAR_KEY in field.metadata), None)
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
    if plan.metadata_after is None:
        return draft, effect
    protocol = plan.protocol_after or draft.protocol
    return replace(draft, metadata=plan.metadata_after, protocol=protocol), effect


def _of_void(draft: Draft, place: ColumnPlace, change: ChangeType) -> Changed:
    """No file has a value of a void column, so it can get any type."""
    data_type = parse_sql_type(change.type)
    if not isinstance(data_type, PrimitiveType):
        forbid("alter.void", f"{place.text} cannot become {change.type}: only a type without parts can follow void")
    data_type, length = text_type_of(data_type, place.text, is_nested=len(place.steps) > 1)
    require_independent(draft, place, "given a type")
    root = draft.root()
    *above, last = place.address
    at(root, above)[last] = type_json(data_type)
    if length is not None:
        metadata_of(root, place).update(length)
    features = {"timestamp_ntz": ["timestampNtz"], "variant": ["variantType"]}.get(sql_text(data_type), [])
    effect = Effect(change, place.text, "void", sql_text(data_type), place.text)
    return draft.with_schema(root).needing(features), effect


def _of_text(draft: Draft, place: ColumnPlace, change: ChangeType) -> Changed:
    """Give char or varchar more characters, or all."""
    number = next(n for n, field in enumerate(place.fields) if CHAR_VARCHAR_KEY in field.metadata)
    declared = parse_sql_type(str(place.fields[number].metadata[CHAR_VARCHAR_KEY]))
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
        metadata[CHAR_VARCHAR_KEY] = text
    else:
        del metadata[CHAR_VARCHAR_KEY]
    return draft.with_schema(root), effect


def _at(data_type: DataType, way: list[PathPart]) -> DataType:
    for step in way:
        data_type = next((part.data_type for part in parts_of(data_type) if part.name == step.value), data_type)
    return data_type


def _with(data_type: DataType, way: list[PathPart], new: DataType) -> DataType:
    match data_type, way:
        case ArrayType(element, contains_null), [PathPart.ELEMENT, *rest]:
            return ArrayType(_with(element, rest, new), contains_null)
        case MapType(key, value, contains_null), [PathPart.KEY, *rest]:
            return MapType(_with(key, rest, new), value, contains_null)
        case MapType(key, value, contains_null), [PathPart.VALUE, *rest]:
            return MapType(key, _with(value, rest, new), contains_null)
    return new


def _is_longer(before: str, after: str) -> bool:
    if after == "string":
        return True
    return before.endswith(")") and after.startswith("varchar(") and _length(before) <= _length(after)


def _length(text: str) -> int:
    return int(text.partition("(")[2].rstrip(")"))
