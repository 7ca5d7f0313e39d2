"""`snapshot`, `history` and `explain` of a Paimon table: its schemas, and who reads and writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

from deltacli.core.errors import FileMissing, Unreadable, UsageError, VersionAbsent, command, nearest_name
from deltacli.core.ranges import find_gaps, format_ranges
from deltacli.core.short_repr import short_repr
from deltacli.core.times import format_timestamp
from deltacli.core.typing import Json, JsonObject
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.clients import determine_access
from deltacli.engine.base import Engine
from deltacli.operations.explain import Explained, ExplainRequest, Explanation, asked_of
from deltacli.operations.paimon import table_files
from deltacli.paimon.conversions import create_table
from deltacli.paimon.data_evolution import MISSED_ROWS, find_columns_with_missed_rows
from deltacli.paimon.numbers import parse_whole_number
from deltacli.paimon.schema import MAX_SCHEMA_BYTES, Schema, read_object, read_schema
from deltacli.paimon.schema_changes import Change, Loss, changes_between
from deltacli.paimon.snapshots import MAIN_BRANCH, SnapshotFile, schema_path
from deltacli.paimon.traits import (
    SNAPSHOT_NUMBER_AS_TEXT,
    SNAPSHOT_TRAILING_TEXT,
    UNREADABLE_SCHEMA,
    traits_of_schemas,
)
from deltacli.storage import ReadStorage
from deltacli.table.handle import TableHandle
from deltacli.table.known_clients import read_paimon_clients

# -- `snapshot` of a Paimon table --------------------------------------------------------------------------------------

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
    statistics: table_files.Statistics | None
    broken_statistics: table_files.BrokenFile | None = None

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
    """Return the schema and the snapshot at a point. Raises NotATable, VersionAbsent for a wrong point, Unreadable."""
    storage, engine = table.storage, table.engine
    table_files.require_paimon(storage)
    table_files.require_branch(storage, point.branch)
    ids = table_files.list_schemas(storage, point.branch).ids
    tags = table_files.read_tags(storage, engine, point.branch)
    snapshot = None if point.schema_id is not None else _snapshot_at(storage, engine, point, tags)
    is_newest = snapshot is None or (point.snapshot_id is None and point.tag is None)
    schema_id = point.schema_id
    if schema_id is None:
        schema_id = _newest(ids) if is_newest or snapshot is None else snapshot.schema_id
    schema, written = _schema_at(storage, point.branch, schema_id, ids)
    statistics = None if snapshot is None else table_files.read_statistics(storage, snapshot)
    return PaimonSnapshot(
        storage.uri,
        point,
        schema,
        schema_id,
        written,
        ids,
        snapshot,
        tuple(tag.name for tag in tags if snapshot is not None and tag.readable and tag.readable.id == snapshot.id),
        None if isinstance(statistics, table_files.BrokenFile) else statistics,
        statistics if isinstance(statistics, table_files.BrokenFile) else None,
    )


def _newest(ids: Sequence[int]) -> int:
    if not ids:
        raise Unreadable("the table has snapshots but no schema file", code="paimon.schema-missing")
    return ids[-1]


def _schema_at(storage: ReadStorage, branch: str, schema_id: int, ids: Sequence[int]) -> tuple[Schema, JsonObject]:
    path = schema_path(schema_id, branch)
    try:
        data = table_files.read_limited(storage, path, MAX_SCHEMA_BYTES)
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
    storage: ReadStorage, engine: Engine, point: Point, tags: Sequence[table_files.MetadataFile]
) -> SnapshotFile | None:
    """Return the snapshot of a point, the newest by default, None without any. A tag finds an expired one."""
    if point.tag is not None:
        return _content(_named(tags, point.tag, "tag", [tag.name for tag in tags]))
    snapshots = table_files.read_snapshots(storage, engine, point.branch)
    if point.snapshot_id is None:
        return _content(snapshots[-1]) if snapshots else None
    number = point.snapshot_id
    held = [tag for tag in tags if tag.readable is not None and tag.readable.id == number]
    candidates = [*(file for file in snapshots if file.name == str(number)), *held]
    if candidates:
        return _content(candidates[0])
    return _content(_named([], str(number), "snapshot", [format_ranges([int(file.name) for file in snapshots])]))


def _named(
    files: Sequence[table_files.MetadataFile], name: str, what: str, known: Sequence[str]
) -> table_files.MetadataFile:
    found = next((file for file in files if file.name == name), None)
    if found is None:
        near = nearest_name(name, known) if what == "tag" else None
        raise VersionAbsent(
            f"{what} {name} does not exist",
            code="paimon.no-such-snapshot",
            facts=({"did you mean": near} if near else {}) | {f"{what}s": ", ".join(known[:_NAMED]) or "none"},
            hint=command("history"),
        ).suggest_as_fact(name, near)
    return found


def _content(file: table_files.MetadataFile) -> SnapshotFile:
    if isinstance(file.content, Unreadable):
        raise file.content.__cause__ or file.content
    return file.content


# -- `history` of a Paimon table ---------------------------------------------------------------------------------------

_WORST_FIRST = (Loss.REFUSED, Loss.LOSSY, Loss.LOSSLESS)


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of the schema. `compared_with` is the version before it that can be read, None for the first.

    `usage` is None where users were not searched for. `is_unreferenced` is None where that cannot be known.
    """

    id: int
    content: Schema | Unreadable
    compared_with: int | None
    changes: tuple[Change, ...]
    usage: table_files.Usage | None
    is_latest: bool
    is_unreferenced: bool | None

    @property
    def schema(self) -> Schema | None:
        return None if isinstance(self.content, Unreadable) else self.content

    @property
    def time_ms(self) -> int | None:
        return (self.schema.time_ms or None) if self.schema is not None else None

    @property
    def worst(self) -> Loss | None:
        losses = {change.loss for change in self.changes}
        return next((loss for loss in _WORST_FIRST if loss in losses), None)

    def as_json(self) -> dict[str, Json]:
        """Return the version as in the document `deltacli.history`."""
        found: dict[str, Any] = {"id": self.id}
        if self.time_ms is not None:
            found |= {"timeMs": self.time_ms, "timestamp": format_timestamp(self.time_ms)}
        if self.compared_with is not None:
            found["comparedWith"] = self.compared_with
        found["changes"] = [change.as_json() for change in self.changes]
        if self.usage is not None:
            found["usedBy"] = self.usage.as_json()
        found |= {"latest": self.is_latest, "unreferenced": self.is_unreferenced}
        if isinstance(self.content, Unreadable):
            found |= {"problem": self.content.code, "reason": self.content.message}
        return found


@dataclass(frozen=True, slots=True)
class SnapshotVersion:
    """A snapshot."""

    file: table_files.MetadataFile

    @property
    def id(self) -> int:
        return int(self.file.name)

    @property
    def schema_id(self) -> int | None:
        return None if self.file.readable is None else self.file.readable.schema_id

    @property
    def time_ms(self) -> int | None:
        return (self.file.readable.time_ms or None) if self.file.readable is not None else None

    @property
    def commit_kind(self) -> str | None:
        return (self.file.readable.commit_kind or None) if self.file.readable is not None else None

    def record_count(self, key: str) -> int | None:
        """Return a number of records that the snapshot states, None if it does not."""
        value = self.file.readable.content.get(key) if self.file.readable is not None else None
        return parse_whole_number(value)

    def as_json(self) -> dict[str, Json]:
        """Return the snapshot as in the document `deltacli.history`."""
        values = {
            "id": self.id,
            "schemaId": self.schema_id,
            "commitKind": self.commit_kind,
            "timestampMs": self.time_ms,
            "timestamp": None if self.time_ms is None else format_timestamp(self.time_ms),
            "totalRecordCount": self.record_count("totalRecordCount"),
            "deltaRecordCount": self.record_count("deltaRecordCount"),
        }
        found = {name: value for name, value in values.items() if value is not None}
        if isinstance(self.file.content, Unreadable):
            found |= {"problem": self.file.content.code, "reason": self.file.content.message}
        return found


Event = SchemaVersion | SnapshotVersion


@short_repr("table", "branch", "events", "total", "gaps", "missing", "broken", "notes")
@dataclass(frozen=True, slots=True, repr=False)
class PaimonHistory:
    """The events of a branch, newest first; `total` is their number, more than the events if a limit cut the list.

    `missing` are schemas that are in use and have no file; `notes` are about what could not be read.
    """

    table: str
    branch: str
    branches: tuple[str, ...]
    events: tuple[Event, ...]
    total: int
    gaps: tuple[tuple[int, int], ...]
    missing: tuple[int, ...]
    strays: tuple[str, ...]
    broken: tuple[table_files.BrokenFile, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        return len(self.events) == self.total and not self.notes

    @property
    def schemas(self) -> list[SchemaVersion]:
        return [event for event in self.events if isinstance(event, SchemaVersion)]

    @property
    def denied(self) -> list[int]:
        contents = ((version.id, version.content) for version in self.schemas)
        return [found for found, content in contents if getattr(content, "code", None) == table_files.NO_PERMISSION]

    @property
    def snapshots(self) -> list[SnapshotVersion]:
        return [event for event in self.events if isinstance(event, SnapshotVersion)]


def read_paimon_history(
    table: TableHandle, branch: str = MAIN_BRANCH, *, limit: int = 0, with_manifests: bool = True
) -> PaimonHistory:
    """Return the newest `limit` events of a branch (0: all). Schemas and snapshots that cannot be read have a problem;
    without the package that reads manifests, users of schemas are missing, with a note. Raises NotATable.
    """
    storage, engine, progress = table.storage, table.engine, table.progress
    table_files.require_paimon(storage)
    table_files.require_branch(storage, branch)
    listing = table_files.list_schemas(storage, branch)
    schemas = table_files.read_schemas(storage, engine, listing.ids, branch, progress=progress)
    files = table_files.read_branch(storage, engine, branch)
    notes: tuple[str, ...] = ()
    try:
        references = table_files.collect_schema_references(
            storage, engine, files, with_manifests=with_manifests, progress=progress
        )
    except UsageError as lacking:
        if lacking.code != "usage.missing-extra":
            raise
        references, with_manifests = (
            table_files.collect_schema_references(storage, engine, files, with_manifests=False),
            False,
        )
        why = f"{lacking.message}: {lacking.hint}"
        notes = (f"the manifests, which name the users of each schema, were not read: {why}",)
    branches = table_files.list_branches(storage)
    if branch == MAIN_BRANCH:
        # A branch reads its own copies of schemas, so it does not keep one of the main branch in use.
        for other in branches[1:]:
            copies = table_files.read_schemas(storage, engine, table_files.list_schemas(storage, other).ids, other)
            for schema_id, copy in copies.items():
                if not isinstance(copy, Unreadable) and schemas.get(schema_id) == copy:
                    references.usage.setdefault(schema_id, table_files.Usage()).branches.append(other)
    versions = _versions(schemas, references, with_manifests=with_manifests)
    events = timeline(versions, [SnapshotVersion(file) for file in files.snapshots])
    return PaimonHistory(
        storage.uri,
        branch,
        branches,
        tuple(events[:limit] if limit else events),
        len(events),
        tuple(find_gaps(listing.ids, listing.ids[0], listing.ids[-1]) if listing.ids else ()),
        references.missing_among(listing.ids),
        listing.strays,
        references.broken,
        notes,
    )


def _versions(
    schemas: Mapping[int, Schema | Unreadable], references: table_files.SchemaReferences, *, with_manifests: bool
) -> list[SchemaVersion]:
    first_use = min((schema_id for schema_id, usage in references.usage.items() if usage), default=None)
    latest = max(schemas, default=None)
    knows_users = with_manifests and not references.broken
    versions: list[SchemaVersion] = []
    before: Schema | None = None
    for schema_id, content in schemas.items():
        changes: tuple[Change, ...] = ()
        compared = None
        usage = references.of(schema_id)
        if not isinstance(content, Unreadable):
            if before is not None:
                has_snapshots = first_use is not None and first_use <= before.id
                changes, compared = changes_between(before, content, has_snapshots=has_snapshots), before.id
            before = content
        is_used = schema_id == latest or bool(usage)
        is_unreferenced = False if is_used else True if knows_users else None
        versions.append(
            SchemaVersion(schema_id, content, compared, changes, usage, schema_id == latest, is_unreferenced)
        )
    return versions


def timeline(versions: Sequence[SchemaVersion], snapshots: Sequence[SnapshotVersion]) -> list[Event]:
    """Merge schemas and snapshots, both oldest first, into one list, newest first.

    A schema stands before the first snapshot that uses it, whatever the clocks of the writers were. One without a time
    stands after the one before it.
    """
    events: list[Event] = []
    schemas, older = list(versions), list(snapshots)
    times: list[int] = []
    for version in versions:
        times.append(version.time_ms or (times[-1] if times else 0))
    while schemas and older:
        schema, snapshot = schemas[-1], older[-1]
        is_later = (snapshot.time_ms or 0) >= times[len(schemas) - 1]
        needs_it = snapshot.schema_id is not None and snapshot.schema_id >= schema.id
        events.append(older.pop() if needs_it or is_later else schemas.pop())
    return [*events, *reversed(older), *reversed(schemas)]


# -- `explain` of a Paimon table ---------------------------------------------------------------------------------------


class TableTraits(NamedTuple):
    """The newest schema of a branch, and each trait with the schema since which the table has it; None: unknown.

    `warnings` are about rows that some engines do not see, as code and sentence.
    """

    schema_id: int
    since: Mapping[str, int | None]
    warnings: tuple[tuple[str, str], ...] = ()


def table_traits(table: TableHandle, branch: str = MAIN_BRANCH) -> TableTraits:
    """Return the traits of a table. Raises NotATable, Unreadable and what `read_paimon_snapshot` raises."""
    newest = read_paimon_snapshot(table, Point(branch))
    read = table_files.read_schemas(table.storage, table.engine, newest.schema_ids, branch, progress=table.progress)
    schemas = {schema_id: one for schema_id, one in read.items() if not isinstance(one, Unreadable)}
    since: dict[str, int | None] = {}
    for number, traits in zip(schemas, traits_of_schemas(schemas.values()), strict=True):
        first = number if number == 0 or number - 1 in schemas else None  # it may be older where a schema is missing
        since = {trait: since.get(trait, first) for trait in traits}
    if len(schemas) < len(read):
        since[UNREADABLE_SCHEMA] = None
    warnings: tuple[tuple[str, str], ...] = ()
    if newest.snapshot is not None:
        found = table_files.traits_of_manifests(table.storage, table.engine, newest.snapshot)
        since |= {trait: since.get(trait) for trait in found}
        if newest.snapshot.has_trailing_text:
            since[SNAPSHOT_TRAILING_TEXT] = None
        if newest.snapshot.has_numbers_as_text:
            since[SNAPSHOT_NUMBER_AS_TEXT] = None
        warnings = tuple((MISSED_ROWS, missed.message) for missed in find_columns_with_missed_rows(schemas))
    return TableTraits(newest.schema_id, since, warnings)


def explain_paimon(table: TableHandle, request: ExplainRequest, branch: str = MAIN_BRANCH) -> Explanation:
    """Return which clients read and write the newest schema and snapshot of a branch, and what stops the others.

    Raises UsageError for supposed changes and for clients of other tables, and what `table_traits` raises.
    """
    if request.supposed:
        raise UsageError("changes can be examined on Delta tables only", code="usage.table-format")
    found = table_traits(table, branch)
    does = [
        determine_access(client, found.since.keys(), version)
        for client, version in asked_of(read_paimon_clients(), request)
    ]
    clients = tuple(Explained(one, one, found.since, "schema") for one in does)
    traits = frozenset(found.since)
    return Explanation(
        table,
        found.schema_id,
        TableConfiguration(),
        clients,
        (),
        (),
        (),
        paimon_traits=traits,
        warnings=found.warnings,
    )
