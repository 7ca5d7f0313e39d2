"""What refuses a change of a column: its new name, and what depends on it (SQL that the table keeps, defaults,
partitioning, clustering, identities, indexes).

SQL is parsed, never searched. An expression that is not understood may refer to any column. Spec: Schema Serialization
Format; Change Data Files; Row Tracking; CHECK Constraints; Generated Columns; Column Invariants; Clustered Table;
Delta-Spark: ALTER TABLE, names of columns in Parquet files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from deltacli.core.errors import Refusal
from deltacli.core.hints import command
from deltacli.delta.evolution.draft import Draft, Forbidden, forbid, names_of, physical_path, quoted_path
from deltacli.delta.evolution.sql_types import sql_text
from deltacli.delta.log.row_ids import MATERIALIZED_NAMES
from deltacli.delta.protocol.features import IDENTITY_COLUMNS
from deltacli.delta.protocol.property_refusals import CHANGE_COLUMNS
from deltacli.delta.protocol.property_values import CHANGE_FEED
from deltacli.delta.protocol.upgrade import way_to_mapping
from deltacli.delta.schema.column_path import ColumnPlace
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructType
from deltacli.delta.schema.widening_guards import CHAR_VARCHAR_KEY, IDENTITY_PREFIX
from deltacli.delta.sql.nodes import Form
from deltacli.delta.sql.parser import parse_expression
from deltacli.delta.sql.stored import DEFAULT_KEY, Reference, StoredKind, refers_to, stored_sql

FORBIDDEN = " ,;{}()\n\t="
"""The characters that names of columns in files cannot have."""


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
    if draft.config.is_on(CHANGE_FEED) and name.lower() in CHANGE_COLUMNS:
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


_BLOOM_FILTER = "delta.bloomFilter"
_WAYS_OUT = {
    StoredKind.CONSTRAINT: "drop the constraint first, and add it again in the new form",
    StoredKind.INVARIANT: "commit a metaData without delta.invariants of {name} first",
    StoredKind.GENERATION: "drop the generated column {name} first",
}
_CODES = {
    StoredKind.CONSTRAINT: "alter.check-constraint",
    StoredKind.INVARIANT: "alter.invariant",
    StoredKind.GENERATION: "alter.generated-column",
}


def require_independent(draft: Draft, place: ColumnPlace, verb: str, *, is_dropped: bool = False) -> None:
    """Raise Forbidden with everything that depends on a column and would not follow it. `verb`: renamed, dropped."""
    found = list(_of_layout(draft, place)) if is_dropped else []  # a partitioning cannot be changed
    found += [*_of_sql(draft, place, verb, is_dropped=is_dropped), *_of_indexes(place, verb)]
    if found:
        raise Forbidden(found)


def _of_sql(draft: Draft, place: ColumnPlace, verb: str, *, is_dropped: bool) -> Iterator[Refusal]:
    own = ".".join(names_of(place))
    for stored in stored_sql(draft.config):
        is_own = stored.kind is not StoredKind.CONSTRAINT and (stored.name == own or stored.name.startswith(f"{own}."))
        if is_dropped and is_own:
            continue  # it goes with the column
        reference = refers_to(stored.text, draft.schema, place)
        if reference is not Reference.NO:
            message = f"{place.text} cannot be {verb}: {stored.verdict(reference)}"
            yield Refusal(_CODES[stored.kind], message, _WAYS_OUT[stored.kind].format(name=stored.name))


def _of_indexes(place: ColumnPlace, verb: str) -> Iterator[Refusal]:
    if any(key.startswith(_BLOOM_FILTER) for key in place.nearest.metadata):
        message = f"{place.text} cannot be {verb}: it has a Bloom filter index, whose files have its name"
        yield Refusal("alter.bloom-filter", message, "drop the index first, with the engine that made it")


def _of_layout(draft: Draft, place: ColumnPlace) -> Iterator[Refusal]:
    config, path = draft.config, physical_path(draft.config, place)
    if path[0] in config.partition_columns:
        message = f"{place.text} cannot be dropped: the table is partitioned by it"
        yield Refusal("alter.partition-column", message, "write the table anew with other partitions")
    for columns in draft.clustering:
        length = min(len(columns), len(path))
        if columns[:length] == path[:length]:
            message = f"{place.text} cannot be dropped: the table is clustered by {'.'.join(columns)}"
            yield Refusal("alter.clustering-column", message, "cluster the table by other columns first")


def require_default_keeps_shape(draft: Draft, place: ColumnPlace, text: str, verb: str) -> None:
    """Raise Forbidden for a change within a column whose default is a value for its current fields: writers would
    fail, or after a move write values into other fields. `place`: the nested field, or the struct that gets one.
    """
    column = place.column
    default = column.metadata.get(DEFAULT_KEY)
    if default is None or draft.config.is_inert("allowColumnDefaults"):
        return
    root = parse_expression(str(default)).root
    if root is None or root.form is not Form.NULL:
        message = f"{text} cannot be {verb}: {column.name} has a default for its current fields, {default}"
        way_out = command("alter", "default", quoted_path([column.name]), drop=True) or "remove the default first"
        forbid("alter.default", message, way_out)


def require_no_identity(draft: Draft, place: ColumnPlace, verb: str) -> None:
    """Raise Forbidden for an identity column, whose type, default and nullability are fixed."""
    if draft.config.is_inert(IDENTITY_COLUMNS):
        return
    if any(key.startswith(IDENTITY_PREFIX) for key in place.nearest.metadata):
        message = f"{place.text} cannot be {verb}: it is an identity column"
        raise Forbidden([Refusal("alter.identity", message, "")])
