"""Names of new and renamed columns: which are free, which are valid, and which writers reserve.

Spec: Schema Serialization Format; Change Data Files; Row Tracking; Delta-Spark: names of columns in Parquet files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltacli.delta.evolution.draft import Draft, forbid
from deltacli.delta.evolution.sql_types import sql_text
from deltacli.delta.log.row_ids import MATERIALIZED_NAMES
from deltacli.delta.protocol.property_refusals import CHANGE_COLUMNS
from deltacli.delta.protocol.upgrade import way_to_mapping
from deltacli.delta.schema.column_path import ColumnPlace
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructType
from deltacli.delta.schema.widening_guards import CHAR_VARCHAR_KEY

FORBIDDEN = " ,;{}()\n\t="
"""The characters that names of columns in files cannot have."""
_CHANGE_FEED = "delta.enableChangeDataFeed"


def require_free_name(draft: Draft, parent: ColumnPlace, name: str, text: str) -> None:
    """Raise Forbidden for a name that a field of the struct has, in any case, or that writers reserve."""
    assert isinstance(parent.data_type, StructType)
    if not name.strip():
        forbid("alter.name", "a column without a name cannot be made")
    known = next((field.name for field in parent.data_type.fields if field.name.lower() == name.lower()), None)
    if known is not None:
        differs = "" if known == name else f" as {known}; names that differ only in case are equal"
        forbid("alter.column-exists", f"{text} already exists{differs}")
    if parent.steps:
        return
    if draft.config.is_on(_CHANGE_FEED) and name.lower() in CHANGE_COLUMNS:
        forbid("alter.reserved-name", f"{name} is reserved: the change data of the table has a column of that name")
    if name.lower() in [(draft.configuration.get(key) or "").lower() for key in MATERIALIZED_NAMES]:
        forbid("alter.reserved-name", f"{name} is reserved: files keep the row ids or commit versions of rows under it")


def require_valid_names(draft: Draft, names: Sequence[str], text: str) -> None:
    """Raise Forbidden for characters that names of columns in files cannot have."""
    if draft.config.mapping_mode != "none":
        return
    wrong = [name for name in names if any(character in FORBIDDEN for character in name)]
    if wrong:
        listed = ", ".join(map(repr, wrong))
        forbid(
            "alter.name",
            f"{text} cannot be added: without column mapping, names have no spaces and none of ,;{{}}()=, as {listed} "
            "does",
            way_to_mapping(draft.protocol) or "enable column mapping first",
        )


def text_type_of(data_type: DataType, text: str, *, is_nested: bool) -> tuple[DataType, dict[str, Any] | None]:
    """Return a type with char and varchar as strings, and the metadata that keeps their lengths, if there are any.

    Raises Forbidden where no engine looks for that metadata.
    """
    plain = as_strings(data_type)
    if plain == data_type:
        return data_type, None
    if is_nested or isinstance(data_type, StructType):
        forbid(
            "alter.char-varchar", f"{text} cannot be added: char and varchar within a struct have no effect; use string"
        )
    return plain, {CHAR_VARCHAR_KEY: sql_text(data_type)}


def as_strings(data_type: DataType) -> DataType:
    """Return a type with `string` for char and varchar."""
    match data_type:
        case PrimitiveType(name):
            return PrimitiveType("string") if name.startswith(("char(", "varchar(")) else data_type
        case ArrayType(element, contains_null):
            return ArrayType(as_strings(element), contains_null)
        case MapType(key, value, contains_null):
            return MapType(as_strings(key), as_strings(value), contains_null)
        case StructType(fields):
            return StructType(tuple(field._replace(data_type=as_strings(field.data_type)) for field in fields))
