"""`snapshot` of a Paimon table: the schema at a point, the snapshot there, its options and statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

from deltacli.core.errors import FileMissing, Unreadable, VersionAbsent
from deltacli.core.hints import command, nearest_name
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_ranges
from deltacli.engine.base import Engine
from deltacli.operations.paimon.references import BrokenFile, Statistics, read_statistics
from deltacli.operations.paimon.table_files import (
    MetadataFile,
    list_schemas,
    read_limited,
    read_snapshots,
    read_tags,
    require_branch,
    require_paimon,
)
from deltacli.paimon.ddl import create_table
from deltacli.paimon.json_text import read_object
from deltacli.paimon.schema import MAX_SCHEMA_BYTES, Schema, read_schema
from deltacli.paimon.snapshots import SnapshotFile
from deltacli.paimon.table_paths import MAIN_BRANCH, schema_path
from deltacli.storage import ReadStorage
from deltacli.table.handle import TableHandle

_NAMED = 20


class Point(NamedTuple):
    """A point of a branch: a schema, a snapshot or a tag; without one, the newest schema and snapshot."""

    branch: str = MAIN_BRANCH
    schema_id: int | None = None
    snapshot_id: int | None = None
    tag: str | None = None


@short_repr("table", "schema_id", "tags")
@dataclass(frozen=True, slots=True, repr=False)
class PaimonSnapshot:
    """A schema and the snapshot that was asked for, None if a schema was, or if there is no snapshot.

    `written` is the schema file as it is; `schema` has the compatibility defaults.
    """

    table: str
    point: Point
    schema: Schema
    schema_id: int
    written: JsonObject
    schema_ids: tuple[int, ...]
    snapshot: SnapshotFile | None
    tags: tuple[str, ...]
    statistics: Statistics | None
    broken_statistics: BrokenFile | None = None

    @property
    def name(self) -> str:
        """The last part of the table's URI."""
        return unquote(self.table.rstrip("/").rpartition("/")[2], errors="replace") or "t"

    @property
    def ddl(self) -> str:
        """The schema as a CREATE TABLE statement."""
        return create_table(self.schema, self.name)

    def as_json(self) -> dict[str, Json]:
        """Return the content of the document `deltacli.snapshot`."""
        found: dict[str, Any] = {"branch": self.point.branch, "schemaId": self.schema_id}
        found |= {"latestSchemaId": self.schema_ids[-1], "schema": dict(self.written)}
        found |= {"options": dict(self.schema.options), "ddl": self.ddl}
        if self.snapshot is not None:
            found |= {"snapshot": dict(self.snapshot.content), "tags": list(self.tags)}
        if self.statistics is not None:
            found["statistics"] = dict(self.statistics)
        if self.broken_statistics is not None:
            found["problems"] = [self.broken_statistics._asdict()]
        return found


def read_paimon_snapshot(table: TableHandle, point: Point) -> PaimonSnapshot:
    """Return the schema and the snapshot at a point.

    Raises NotATable, VersionAbsent for a schema, snapshot or tag that does not exist, and Unreadable.
    """
    storage, engine = table.storage, table.engine
    require_paimon(storage)
    require_branch(storage, point.branch)
    ids = list_schemas(storage, point.branch).ids
    tags = read_tags(storage, engine, point.branch)
    snapshot = None if point.schema_id is not None else _snapshot_at(storage, engine, point, tags)
    is_newest = snapshot is None or (point.snapshot_id is None and point.tag is None)
    schema_id = point.schema_id
    if schema_id is None:
        schema_id = _newest(ids) if is_newest or snapshot is None else snapshot.schema_id
    schema, written = _schema_at(storage, point.branch, schema_id, ids)
    statistics = None if snapshot is None else read_statistics(storage, snapshot)
    return PaimonSnapshot(
        storage.uri,
        point,
        schema,
        schema_id,
        written,
        ids,
        snapshot,
        tuple(tag.name for tag in tags if snapshot is not None and tag.readable and tag.readable.id == snapshot.id),
        None if isinstance(statistics, BrokenFile) else statistics,
        statistics if isinstance(statistics, BrokenFile) else None,
    )


def _newest(ids: Sequence[int]) -> int:
    if not ids:
        raise Unreadable("the table has snapshots but no schema file", code="paimon.schema-missing")
    return ids[-1]


def _schema_at(storage: ReadStorage, branch: str, schema_id: int, ids: Sequence[int]) -> tuple[Schema, JsonObject]:
    path = schema_path(schema_id, branch)
    try:
        data = read_limited(storage, path, MAX_SCHEMA_BYTES)
    except FileMissing:
        raise VersionAbsent(
            f"schema {schema_id} does not exist",
            code="paimon.schema-missing",
            facts={"schemas": format_ranges(ids)},
            hint=command("history"),
        ) from None
    try:
        return read_schema(data), read_object(data).value
    except Unreadable as fault:
        fault.facts = {"file": path} | fault.facts
        fault.hint = fault.hint or command("history")
        raise


def _snapshot_at(
    storage: ReadStorage, engine: Engine, point: Point, tags: Sequence[MetadataFile]
) -> SnapshotFile | None:
    """Return the snapshot of a point; the newest one where neither a snapshot nor a tag is named, None without any.

    A snapshot that expired is found by its tag.
    """
    if point.tag is not None:
        return _content(_named(tags, point.tag, "tag", [tag.name for tag in tags]))
    snapshots = read_snapshots(storage, engine, point.branch)
    if point.snapshot_id is None:
        return _content(snapshots[-1]) if snapshots else None
    number = point.snapshot_id
    held = [tag for tag in tags if tag.readable is not None and tag.readable.id == number]
    candidates = [*(file for file in snapshots if file.name == str(number)), *held]
    if candidates:
        return _content(candidates[0])
    return _content(_named([], str(number), "snapshot", [format_ranges([int(file.name) for file in snapshots])]))


def _named(files: Sequence[MetadataFile], name: str, what: str, known: Sequence[str]) -> MetadataFile:
    found = next((file for file in files if file.name == name), None)
    if found is None:
        near = nearest_name(name, known) if what == "tag" else None
        raise VersionAbsent(
            f"{what} {name} does not exist",
            code="paimon.no-such-snapshot",
            facts=({"did you mean": near} if near else {}) | {f"{what}s": ", ".join(known[:_NAMED]) or "none"},
            hint=command("history"),
        ).meaning(name, near)
    return found


def _content(file: MetadataFile) -> SnapshotFile:
    if isinstance(file.content, Unreadable):
        raise file.content.__cause__ or file.content
    return file.content
