"""A schema of any format, at a point of a table or in a file, and `schema convert` into another format.

Two of Delta are compared as they are.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from deltacli.core.errors import Unreadable, quote_identifier
from deltacli.core.typing import Json, JsonObject
from deltacli.delta.schema import types as delta
from deltacli.delta.schema.types import CHAR_VARCHAR_KEY, StructType, parse_schema
from deltacli.delta.sql.stored import DEFAULT_KEY, GENERATION_KEY
from deltacli.operations.paimon.facts import PaimonSnapshot
from deltacli.operations.paimon.new_schemas import require_engine_support, require_supported_types
from deltacli.operations.paimon.table_files import read_limited
from deltacli.operations.schemas.delta_types import (
    delta_changes,
    fields_of_delta,
    fields_of_paimon,
    spark_sql,
    sql_literal,
)
from deltacli.paimon.conversions import (
    ConversionLoss,
    arrow_schema,
    create_table,
    fields_of_arrow,
    left_out,
    parse_sql_type,
    split_parts,
)
from deltacli.paimon.engines import require_paimon_version
from deltacli.paimon.schema import CURRENT_VERSION, MAX_SCHEMA_BYTES, BadJson, Schema, read_object, read_schema
from deltacli.paimon.schema_changes import Change, changes_between, dotted, sentence
from deltacli.paimon.types import BadType, DataField, DataType, ListType, MapType, RowType, numbered, walk_fields
from deltacli.storage import ReadStorage
from deltacli.table.version import Snapshot

# -- the schema of any format ------------------------------------------------------------------------------------------

_MAX_ID = "delta.columnMapping.maxColumnId"
_CLASS_KEYS = ("class", "cast", "reason", "fieldId")


@dataclass(frozen=True, slots=True)
class DescribedSchema:
    """A schema, and where it is from. `losses` are what Paimon's columns cannot state of a Delta schema. `snapshot` is
    the version of a Delta table.
    """

    table: str
    table_format: str
    point: JsonObject
    schema: Schema
    name: str
    losses: tuple[ConversionLoss, ...] = ()
    delta: StructType | None = field(default=None, compare=False)
    properties: Mapping[str, str] = field(default_factory=dict)
    snapshot: Snapshot | None = field(default=None, compare=False)

    @property
    def has_ids(self) -> bool:
        """Whether every field of the table has an id of its own."""
        return all(column.id >= 0 for _, column in walk_fields(self.schema.fields))

    def as_json(self) -> dict[str, Json]:
        return {"table": self.table, "tableFormat": self.table_format, **self.point}


def describe_paimon(found: PaimonSnapshot) -> DescribedSchema:
    """Return the schema of a Paimon table at a point."""
    point = {"branch": found.point.branch, "schemaId": found.schema_id}
    return DescribedSchema(
        found.table, "paimon", point, found.schema, found.name, properties=dict(found.schema.options)
    )


def describe_delta(found: Snapshot) -> DescribedSchema:
    """Return the schema of a Delta table at a version. Raises Unreadable for a schema that cannot be parsed."""
    losses: list[ConversionLoss] = []
    columns = fields_of_delta(found.schema.fields, losses.append)
    properties = dict(found.metadata.configuration)
    greatest = max((column.id for _, column in walk_fields(columns)), default=-1)
    text = properties.get(_MAX_ID, "")
    schema = Schema(
        CURRENT_VERSION,
        0,
        columns,
        max(greatest, int(text)) if text.isascii() and text.isdigit() and len(text) < 10 else greatest,
        tuple(found.metadata.partition_columns),
        comment=found.metadata.description,
    )
    for key, value in properties.items():
        if key.startswith("delta.constraints."):
            losses.append(ConversionLoss("", key, value, "", "Paimon has no CHECK constraints"))
    uri = found.table.uri
    name = uri.rstrip("/").rpartition("/")[2] or "t"
    return DescribedSchema(
        uri, "delta", {"version": found.version}, schema, name, tuple(losses), found.schema, properties, found
    )


def with_ids(schema: Schema) -> Schema:
    """Return a schema in which every field has an id: its own where all have one, else in Paimon's order for a new
    table: a column, then the fields inside it, children before their own field.
    """
    if all(column.id >= 0 for _, column in walk_fields(schema.fields)):
        return schema
    numbers = iter(range(1 << 31))
    columns = []
    for column in schema.fields:
        number = next(numbers)
        columns.append(replace(column, id=number, type=numbered(column.type, partial(next, numbers))))
    return replace(schema, fields=tuple(columns), highest_field_id=next(numbers) - 1)


def _matched(before: Sequence[DataField], after: Sequence[DataField], highest: list[int]) -> tuple[DataField, ...]:
    olds = {column.name: column for column in before}
    found = []
    for column in after:
        old = olds.get(column.name)
        if old is None:
            highest[0] += 1
        number = highest[0] if old is None else old.id
        data_type = _matched_type(None if old is None else old.type, column.type, highest)
        found.append(replace(column, id=number, type=data_type))
    return tuple(found)


def _matched_type(before: DataType | None, after: DataType, highest: list[int]) -> DataType:
    match after:
        case RowType(fields):
            olds = before.fields if isinstance(before, RowType) else ()
            return replace(after, fields=_matched(olds, fields, highest))
        case ListType(_, element):
            old = before.element if isinstance(before, ListType) else None
            return replace(after, element=_matched_type(old, element, highest))
        case MapType(key, value):
            keys = (before.key, before.value) if isinstance(before, MapType) else (None, None)
            return replace(
                after, key=_matched_type(keys[0], key, highest), value=_matched_type(keys[1], value, highest)
            )
        case _:
            return after


_CODE = "schema.not-a-schema"
_ARROW_FILE, _PARQUET = b"ARROW1", b"PAR1"


def describe_file(storage: ReadStorage, name: str) -> DescribedSchema:
    """Return the schema in a file. Raises Unreadable where it has none that is recognized, and StorageFailed."""
    uri = f"{storage.uri}/{name}"
    start = storage.read_range(name, 0, 16)
    try:
        if start.startswith((_PARQUET, _ARROW_FILE)):
            return _of_arrow(storage, name, uri, is_parquet=start.startswith(_PARQUET))
        data = read_limited(storage, name, MAX_SCHEMA_BYTES)
        if data.lstrip()[:1] == b"{":
            return _of_json(data, uri)
        schema = read_ddl(data.decode())
    except (BadType, BadJson, UnicodeDecodeError) as fault:
        raise Unreadable(f"the file has no schema: {fault}", code=_CODE, facts={"expected": _EXPECTED}) from None
    return DescribedSchema(uri, "paimon", {}, schema, _stem(name), properties=dict(schema.options))


_EXPECTED = "a schema file of Paimon, a schemaString of Delta, CREATE TABLE of Flink SQL, Parquet, or Arrow IPC"


def _of_json(data: bytes, uri: str) -> DescribedSchema:
    content = read_object(data).value
    if content.get("type") == "struct":
        losses: list[ConversionLoss] = []
        struct = parse_schema(data.decode())
        columns = fields_of_delta(struct.fields, losses.append)
        schema = Schema(CURRENT_VERSION, 0, columns, max((c.id for _, c in walk_fields(columns)), default=-1))
        return DescribedSchema(uri, "delta", {}, schema, _stem(uri), tuple(losses), struct)
    schema = read_schema(data)
    return DescribedSchema(uri, "paimon", {}, schema, _stem(uri), properties=dict(schema.options))


def _of_arrow(storage: ReadStorage, name: str, uri: str, *, is_parquet: bool) -> DescribedSchema:
    from deltacli.arrow.parquet import ParquetReader

    losses: list[ConversionLoss] = []
    try:
        with storage.open(name) as source:
            found = ParquetReader(source).schema_arrow if is_parquet else pa.ipc.open_file(source).schema
    except (pa.ArrowException, OSError, ValueError) as fault:
        reason = (str(fault).splitlines() or [type(fault).__name__])[0]
        raise Unreadable(f"the file cannot be read: {reason[:200]}", code=_CODE) from fault
    columns = fields_of_arrow(found, losses.append)
    schema = Schema(CURRENT_VERSION, 0, columns, max((c.id for _, c in walk_fields(columns)), default=-1))
    return DescribedSchema(uri, "paimon", {}, schema, _stem(name), tuple(losses))


def _stem(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].partition(".")[0] or "t"


_COMMENT_LINES = re.compile(r"(?:\s*--[^\n]*(?:\n|$))*")
_CREATE = re.compile(
    r"\s*CREATE\s+(?:TEMPORARY\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?((?:`(?:[^`]|``)*`|[\w.$-])+)\s*\(", re.IGNORECASE
)
_KEY = re.compile(r"\s*(?:CONSTRAINT\s+\S+\s+)?PRIMARY\s+KEY\s*\((.*)\)(?:\s+NOT\s+ENFORCED)?\s*", re.IGNORECASE | re.S)
_PARTITIONED = re.compile(r"\s*PARTITIONED\s+BY\s*\(([^()]*)\)", re.IGNORECASE)
_TABLE_COMMENT = re.compile(r"\s*COMMENT\s+'((?:[^']|'')*)'", re.IGNORECASE)
_WITH = re.compile(r"\s*WITH\s*\((.*)\)", re.IGNORECASE | re.S)
_OPTION = re.compile(r"\s*'((?:[^']|'')*)'\s*=\s*'((?:[^']|'')*)'\s*")


def read_ddl(text: str) -> Schema:
    """Return the schema that a CREATE TABLE statement states; its fields have no ids (-1). Raises BadType."""
    plain = text[_COMMENT_LINES.match(text).end() :]  # type: ignore[union-attr]  # it matches nothing, too
    begin = _CREATE.match(plain)
    if begin is None:
        raise BadType("it is not a CREATE TABLE statement")
    end = _end_of(plain, begin.end())
    columns: list[str] = []
    keys: tuple[str, ...] = ()
    for part in split_parts(plain[begin.end() : end]):
        if (key := _KEY.fullmatch(part)) is not None:
            keys = _names(key[1])
        else:
            columns.append(part)
    row = parse_sql_type(f"ROW<{','.join(columns)}>")
    if not isinstance(row, RowType):
        raise BadType("the statement has no columns")
    partitions, comment, options = _ending(plain[end + 1 :])
    fields = tuple(replace(column, id=-1) for column in row.fields)
    return Schema(CURRENT_VERSION, 0, fields, -1, partitions, keys, options, comment)


def _ending(text: str) -> tuple[tuple[str, ...], str | None, dict[str, str]]:
    """Return partition keys, comment and options. Raises BadType for other clauses, such as those of Spark SQL."""
    partitions: tuple[str, ...] = ()
    comment, options = None, {}
    rest = text.strip().removesuffix(";")
    while rest.strip():
        if (match := _PARTITIONED.match(rest)) is not None:
            partitions = _names(match[1])
        elif (match := _TABLE_COMMENT.match(rest)) is not None:
            comment = match[1].replace("''", "'")
        elif (match := _WITH.match(rest)) is not None:
            options = dict(_options(match[1]))
        else:
            raise BadType(f"unexpected {rest.split()[0]!r}: only Flink SQL is read")
        rest = rest[match.end() :]
    return partitions, comment, options


def _options(text: str) -> Iterator[tuple[str, str]]:
    for part in split_parts(text):
        match = _OPTION.fullmatch(part)
        if match is None:
            raise BadType(f"{part.strip()!r} is not an option: 'key' = 'value' is expected")
        yield match[1].replace("''", "'"), match[2].replace("''", "'")


def _names(text: str) -> tuple[str, ...]:
    parts = (part.strip() for part in split_parts(text))
    return tuple(part[1:-1].replace("``", "`") if part[:1] == "`" else part for part in parts)


def _end_of(text: str, start: int) -> int:
    """Return the place of the parenthesis that ends the columns. Raises BadType without one."""
    depth, quote = 1, ""
    for place in range(start, len(text)):
        character = text[place]
        if quote:
            quote = "" if character == quote else quote
        elif character in "'`":
            quote = character
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                return place
    raise BadType("the statement ends too early: ')' is missing")


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """Two schemas and what changes from the first to the second.

    `matched_by` is `id` for two points of one history: there a column with another name was renamed. Elsewhere columns
    of equal name are the same.
    """

    before: DescribedSchema
    after: DescribedSchema
    matched_by: str
    changes: tuple[Change, ...]

    def as_json(self) -> dict[str, Json]:
        """Return the content of the document `deltacli.schema-diff`."""
        changes = [self.change_json(change) for change in self.changes]
        return {
            "from": self.before.as_json(),
            "to": self.after.as_json(),
            "matchedBy": self.matched_by,
            "changes": changes,
        }

    def change_json(self, change: Change) -> dict[str, Json]:
        """Return a change as in documents. What Paimon does with old values matters only within its own tables."""
        found = change.as_json()
        if self.matched_by == "id" and self.after.table_format == "paimon":
            return found
        return {name: value for name, value in found.items() if name not in _CLASS_KEYS}


def diff_schemas(before: DescribedSchema, after: DescribedSchema) -> SchemaDiff:
    """Return what changes: from one Delta schema to another in Delta's own types, else in those of Paimon. Options are
    compared only within one format.
    """
    # Ids mean the same in two versions of one branch, or of one Delta table.
    is_same = (before.table, before.table_format) == (after.table, after.table_format)
    is_same = is_same and before.point.get("branch") == after.point.get("branch")
    is_history = is_same and before.has_ids and after.has_ids
    old = replace(before.schema, options=before.properties, comment=before.schema.comment or None)
    new = replace(after.schema, options=after.properties, comment=after.schema.comment or None)
    if before.table_format != after.table_format:
        old, new = replace(old, options={}), replace(new, options={})
    if not is_history:
        first = with_ids(replace(old, fields=tuple(replace(column, id=-1) for column in old.fields)))
        highest = [first.highest_field_id]
        second = replace(new, fields=_matched(first.fields, new.fields, highest))
        old, new = replace(first, highest_field_id=highest[0]), replace(second, highest_field_id=highest[0])
    if before.table_format == "delta" or after.table_format == "delta":
        old = replace(old, highest_field_id=new.highest_field_id)
    changes: tuple[Change, ...]
    if before.delta is not None and after.delta is not None:
        old, new = (replace(one, fields=()) for one in (old, new))
        columns = delta_changes(before.delta, after.delta, by_id=is_history)
        changes = (*columns, *changes_between(old, new))
    else:
        changes = changes_between(old, new)
    return SchemaDiff(before, after, "id" if is_history else "name", changes)


def shown(change: Change) -> str:
    return sentence(change)


def field_of(change: Change) -> str:
    """Return the column or the option that a change is about."""
    return dotted(change.path)


# -- `schema convert` --------------------------------------------------------------------------------------------------

_NULLABLE = "elements and values in Spark SQL are nullable"


def _create_delta_table(source: DescribedSchema) -> str:
    """Return the statement, without properties of the table."""
    columns = [] if source.delta is None else [f"  {_column(field)}" for field in source.delta.fields]
    ending = ") USING DELTA"
    if source.schema.comment:
        ending += f" COMMENT {sql_literal(source.schema.comment)}"
    if source.schema.partition_keys:
        ending += f" PARTITIONED BY ({', '.join(map(quote_identifier, source.schema.partition_keys))})"
    return "\n".join([f"CREATE TABLE {quote_identifier(source.name)} (", ",\n".join(columns), f"{ending};"])


def _not_in_spark(source: DescribedSchema) -> Iterator[ConversionLoss]:
    for column in () if source.delta is None else source.delta.fields:
        yield from _not_in_type(column.data_type, column.name)
        for key in column.metadata:
            if key.startswith("delta.identity.") or key == "delta.invariants":
                yield ConversionLoss(column.name, key, str(column.metadata[key]), "", "the statement leaves it out")


def _not_in_type(data_type: delta.DataType, path: str) -> Iterator[ConversionLoss]:
    match data_type:
        case delta.ArrayType(element, contains_null):
            if not contains_null:
                yield ConversionLoss(f"{path}.element", "nullability", "NOT NULL", "NULL", _NULLABLE)
            yield from _not_in_type(element, f"{path}.element")
        case delta.MapType(key, value, value_contains_null):
            if not value_contains_null:
                yield ConversionLoss(f"{path}.value", "nullability", "NOT NULL", "NULL", _NULLABLE)
            yield from _not_in_type(key, f"{path}.key")
            yield from _not_in_type(value, f"{path}.value")
        case delta.StructType(fields):
            for field in fields:
                yield from _not_in_type(field.data_type, f"{path}.{field.name}")
        case delta.PrimitiveType():
            return


def _column(field: delta.StructField) -> str:
    metadata = field.metadata
    fixed = metadata.get(CHAR_VARCHAR_KEY)
    text = (
        f"{quote_identifier(field.name)} {str(fixed).upper() if isinstance(fixed, str) else spark_sql(field.data_type)}"
    )
    text += "" if field.nullable else " NOT NULL"
    if (expression := metadata.get(GENERATION_KEY)) is not None:
        text += f" GENERATED ALWAYS AS ({expression})"
    if (default := metadata.get(DEFAULT_KEY)) is not None:
        text += f" DEFAULT {default}"
    comment = metadata.get("comment")
    return text + (f" COMMENT {sql_literal(comment)}" if isinstance(comment, str) else "")


@dataclass(frozen=True, slots=True)
class Conversion:
    """A converted schema: as text, as a JSON value, and what its format cannot state."""

    source: DescribedSchema
    target: str
    text: str
    value: Json
    losses: tuple[ConversionLoss, ...]

    @property
    def lost(self) -> list[ConversionLoss]:
        """The losses that need consent; others only make a type wider."""
        return [loss for loss in self.losses if loss.is_lost]

    def as_json(self, *, with_result: bool) -> dict[str, Json]:
        """Return the content of the document `deltacli.schema-convert`."""
        losses = [loss.as_json() for loss in self.losses]
        found = {"from": self.source.as_json(), "to": self.target, "losses": losses}
        return found | ({"result": self.value, "text": self.text} if with_result else {})


def convert_schema(source: DescribedSchema, target: str, *, now_ms: int, min_paimon: int | None = None) -> Conversion:
    """Return a schema as delta, paimon, arrow or ddl.

    Args:
        source: The schema.
        target: The form of the result.
        now_ms: The time of a schema file of Paimon.
        min_paimon: The oldest major version of Paimon among the engines that will open a table with the schema. With
            None the option `deltacli.min-paimon` of the schema says it, and without that it is 1.

    Raises:
        Unreadable: For a name that is not valid Unicode.
        Refused: If engines of Paimon could not open, write or read a table with the schema.
        UsageError: For an unknown version of Paimon.
    """
    require_paimon_version(min_paimon, "schema convert.min_paimon")
    try:
        return _converted(source, target, now_ms, min_paimon)
    except UnicodeEncodeError as fault:
        raise Unreadable(
            f"a name or comment is not valid Unicode: {fault.object[:80]!r}", code="paimon.bad-value"
        ) from fault


def _converted(source: DescribedSchema, target: str, now_ms: int, min_paimon: int | None) -> Conversion:
    losses: list[ConversionLoss] = []
    is_delta = source.table_format == "delta"
    match target:
        case "delta":
            text, value = _delta(source, losses)
        case "paimon":
            losses += source.losses
            schema = with_ids(source.schema)
            fresh = replace(schema, version=CURRENT_VERSION, id=0, time_ms=now_ms)
            require_supported_types(fresh)
            require_engine_support(fresh, None, min_paimon=min_paimon, operation="schema convert")
            text, value = fresh.encode().decode("utf-8"), fresh.as_json()
        case "arrow":
            losses += source.losses
            text, value = _arrow(source, losses)
        case _:
            text = _create_delta_table(source) if is_delta else create_table(source.schema, source.name)
            losses += _not_in_spark(source) if is_delta else left_out(source.schema)
            value = text
    return Conversion(source, target, text, value, tuple(losses))


def _delta(source: DescribedSchema, losses: list[ConversionLoss]) -> tuple[str, Json]:
    """Return the schemaString of a Delta table. One of a Delta table is returned as it is."""
    if source.delta is not None:
        schema = source.delta
    else:
        schema = delta.StructType(fields_of_paimon(source.schema.fields, losses.append))
        if source.schema.primary_keys:
            keys = ", ".join(source.schema.primary_keys)
            losses.append(ConversionLoss("", "primaryKeys", keys, "", "a Delta table has no primary key"))
    content = {"schema": delta.type_json(schema), "partitionColumns": list(source.schema.partition_keys)}
    return json.dumps(delta.type_json(schema), ensure_ascii=False, separators=(",", ":")), content


def _arrow(source: DescribedSchema, losses: list[ConversionLoss]) -> tuple[str, Json]:
    """Return an Arrow schema in words, and as fields with the bytes of its IPC message."""
    schema = arrow_schema(with_ids(source.schema).fields, losses.append)
    fields = [{"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in schema]
    message = b64encode(schema.serialize().to_pybytes()).decode("ascii")
    text = schema.to_string(show_field_metadata=False, show_schema_metadata=False, truncate_metadata=False)
    return text, {"fields": fields, "ipcBase64": message}
