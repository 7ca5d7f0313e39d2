"""The schema of a Paimon table at a point as a result: sections, tree, DDL, rows and documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from deltacli.cli.render.columns import Column
from deltacli.cli.render.schemas.tree import branches, rooted
from deltacli.cli.render.sections import Section
from deltacli.cli.results import Document, Emit, Grid, Result, RowGrid, emit_lines, field_grid, line_of
from deltacli.cli.terminal.term import Style, Terminal, encoded, visible
from deltacli.core.documents import envelope
from deltacli.core.hints import sql_name
from deltacli.core.typing import Json
from deltacli.core.units import format_count, format_moment, plural
from deltacli.operations.paimon.snapshot import PaimonSnapshot
from deltacli.paimon.schema import Schema
from deltacli.paimon.schema_changes import dotted
from deltacli.paimon.types import (
    DataField,
    DataType,
    RowType,
    parts_of,
    simple_text,
    type_text,
    walk_fields,
)


@dataclass
class PaimonSnapshotResult(Result):
    """The state at a point."""

    found: PaimonSnapshot

    def document(self) -> Document:
        fields = envelope("deltacli.snapshot", self.found.table, complete=True, table_format="paimon")
        return Document(fields | self.found.as_json())

    def lines(self, emit: Emit) -> bool:
        emit(line_of({"table": self.found.table, **self.found.as_json()}, "paimon-state"))
        return True

    def grid(self) -> Grid:
        """Return two columns, `field` and `value`: nested fields with dots, arrays and maps as JSON."""
        return field_grid([("table", self.found.table), *self.found.as_json().items()])

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        found, schema = self.found, self.found.schema
        sections = [
            Section("table", [found.table]),
            Section("branch", [found.point.branch]),
            Section("schema", [_schema_line(found)]),
            *_snapshot_sections(found),
            *([Section("comment", [schema.comment])] if schema.comment else []),
            Section("columns", tree_lines(schema)),
            *_keys("primary key", schema.primary_keys, schema),
            *_keys("partitioned by", schema.partition_keys, schema),
        ]
        if schema.options:
            sections.append(Section("options", [_option(schema, *item) for item in schema.options.items()]))
        return sections


@dataclass
class PaimonSchemaResult(Result):
    """The schema at a point; people see a tree, or with `as_ddl` a CREATE TABLE statement."""

    found: PaimonSnapshot
    as_ddl: bool = False
    lists: bool = True

    def document(self) -> Document:
        fields = envelope("deltacli.schema", self.found.table, complete=True, table_format="paimon")
        content = self.found.as_json()
        names = ("branch", "schemaId", "schema", *(("ddl",) if self.as_ddl else ()))
        return Document(fields | {name: content[name] for name in names})

    def lines(self, emit: Emit) -> bool:
        emit_lines(emit, map(SchemaRow.as_json, schema_rows(self.found.schema)), "paimon-field")
        return True

    def grid(self) -> Grid:
        columns: list[Column[SchemaRow]] = [
            Column("column", lambda row: row.path),
            Column("fieldId", lambda row: row.field_id),
            Column("type", lambda row: row.type),
            Column("nullable", lambda row: row.nullable),
            Column("key", lambda row: row.key),
            Column("default", lambda row: row.default),
            Column("comment", lambda row: row.comment),
        ]
        return RowGrid(columns, schema_rows(self.found.schema))

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if self.as_ddl:
            lines = [visible(line) for line in self.found.ddl.splitlines()]
        else:
            lines = rooted(tree_lines(self.found.schema), terminal)
        sink.write(encoded("\n".join(lines) + "\n"))


class SchemaRow(NamedTuple):
    """A column or a nested field, for programs."""

    path: str
    field_id: int
    type: str
    nullable: bool
    key: str | None
    default: str | None
    comment: str | None

    def as_json(self) -> dict[str, Json]:
        """Return the row as a line of NDJSON, without absent values."""
        named = {
            "path": self.path,
            "fieldId": self.field_id,
            "dataType": self.type,
            "nullable": self.nullable,
            "key": self.key,
            "defaultValue": self.default,
            "description": self.comment,
        }
        return {name: value for name, value in named.items() if value is not None}


def schema_rows(schema: Schema) -> Iterator[SchemaRow]:
    """Yield every field, parents first."""
    for path, field in walk_fields(schema.fields):
        text = type_text(field.type).removesuffix("" if field.type.nullable else " NOT NULL")
        key = _key_of(schema, field) if len(path) == 1 else None
        yield SchemaRow(dotted(path), field.id, text, field.type.nullable, key, field.default_value, field.description)


def tree_lines(schema: Schema) -> list[str]:
    """Return the fields as a tree: name, type, id, key, default, comment."""
    keys = {field.name: key for field in schema.fields if (key := _key_of(schema, field)) is not None}
    return branches(list(_entries(schema.fields, 0, keys)))


def _entries(fields: Sequence[DataField], depth: int, keys: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    for field in fields:
        yield depth, _field_text(field, keys.get(field.name))
        yield from _below(field.type, depth + 1)


def _below(data_type: DataType, depth: int) -> Iterator[tuple[int, str]]:
    """Yield the fields of rows inside a type; the path to a row in a list or map stands in a line of its own."""
    if isinstance(data_type, RowType):
        yield from _entries(data_type.fields, depth, {})
    for name, part in parts_of(data_type):
        if _has_row(part):
            yield depth, f"{name}: {simple_text(part)}"
            yield from _below(part, depth + 1)


def _has_row(data_type: DataType) -> bool:
    return isinstance(data_type, RowType) or any(_has_row(part) for _, part in parts_of(data_type))


def _field_text(field: DataField, key: str | None) -> str:
    text = f"{sql_name(field.name)}: {simple_text(field.type)}  [id {field.id}]"
    text += f"  ({key})" if key else ""
    text += f"  default {field.default_value}" if field.default_value is not None else ""
    return text + (f"  -- {field.description}" if field.description else "")


def _key_of(schema: Schema, field: DataField) -> str | None:
    is_primary, is_partition = field.name in schema.primary_keys, field.name in schema.partition_keys
    named = [name for name, is_key in (("primary key", is_primary), ("partition", is_partition)) if is_key]
    return ", ".join(named) or None


def _schema_line(found: PaimonSnapshot) -> str:
    newest = found.schema_ids[-1]
    parts = [str(found.schema_id), "newest" if found.schema_id == newest else f"newest is {newest}"]
    if found.schema.time_ms:
        parts.append(f"written {format_moment(found.schema.time_ms)} UTC")
    return ", ".join([*parts, f"file version {found.schema.version}"])


def _snapshot_sections(found: PaimonSnapshot) -> Iterator[Section]:
    snapshot = found.snapshot
    if snapshot is None:
        return
    parts = [str(snapshot.id), snapshot.commit_kind, f"schema {snapshot.schema_id}"]
    if snapshot.time_ms:
        parts.append(f"committed {format_moment(snapshot.time_ms)} UTC")
    yield Section("snapshot", [", ".join(part for part in parts if part)])
    counts = [
        f"{format_count(value)} {word}"
        for key, word in (("totalRecordCount", "in total"), ("deltaRecordCount", "in this snapshot"))
        if type(value := snapshot.content.get(key)) is int
    ]
    if counts:
        yield Section("records", [", ".join(counts)])
    if found.tags:
        yield Section("tags", [", ".join(found.tags)])
    if found.statistics is not None:
        columns = found.statistics.get("colStats")
        number = plural(len(columns), "column") if isinstance(columns, dict) else "no columns"
        rows = found.statistics.get("mergedRecordCount")
        yield Section("statistics", [f"{rows} records, {number}" if rows is not None else number])
    if (broken := found.broken_statistics) is not None:
        yield Section("statistics", [f"cannot be read: {broken.path}: {broken.reason}"], Style.PROBLEM)


def _keys(label: str, names: Sequence[str], schema: Schema) -> list[Section]:
    known = {field.name for field in schema.fields}
    shown = [sql_name(name) + ("" if name in known else " (no such column)") for name in names]
    return [Section(label, [", ".join(shown)])] if names else []


def _option(schema: Schema, key: str, value: str) -> str:
    default = f"  (default of file version {schema.version})" if key in schema.defaulted else ""
    return f"{key} = {value}{default}"
