"""`history` of a Paimon table: the versions of its schema and its snapshots, newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltacli.core.errors import Unreadable, UsageError
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json
from deltacli.core.units import format_timestamp, gaps_in
from deltacli.engine.base import Engine
from deltacli.operations.paimon.references import BrokenFile, SchemaReferences, Usage, collect_references, read_branch
from deltacli.operations.paimon.table_files import (
    NO_PERMISSION,
    MetadataFile,
    list_branches,
    list_schemas,
    read_schemas,
    require_branch,
    require_paimon,
)
from deltacli.paimon.casts import Loss
from deltacli.paimon.schema import Schema
from deltacli.paimon.schema_changes import Change, changes_between
from deltacli.paimon.table_paths import MAIN_BRANCH
from deltacli.storage import ReadStorage
from deltacli.table.handle import TableHandle

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
    usage: Usage | None
    is_latest: bool
    is_unreferenced: bool | None

    @property
    def schema(self) -> Schema | None:
        """The schema, None if it cannot be read."""
        return None if isinstance(self.content, Unreadable) else self.content

    @property
    def time_ms(self) -> int | None:
        """When the schema was written; None if the file has no time."""
        return (self.schema.time_ms or None) if self.schema is not None else None

    @property
    def worst(self) -> Loss | None:
        """The most serious loss of the changes, None without changes."""
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

    file: MetadataFile

    @property
    def id(self) -> int:
        return int(self.file.name)

    @property
    def schema_id(self) -> int | None:
        return None if self.file.readable is None else self.file.readable.schema_id

    @property
    def time_ms(self) -> int | None:
        """When the snapshot was committed; None if it has no time."""
        return (self.file.readable.time_ms or None) if self.file.readable is not None else None

    @property
    def commit_kind(self) -> str | None:
        return (self.file.readable.commit_kind or None) if self.file.readable is not None else None

    def record_count(self, key: str) -> int | None:
        """Return a number of records that the snapshot states, None if it does not."""
        value = self.file.readable.content.get(key) if self.file.readable is not None else None
        return value if type(value) is int else None

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
    broken: tuple[BrokenFile, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        return len(self.events) == self.total and not self.notes

    @property
    def schemas(self) -> list[SchemaVersion]:
        return [event for event in self.events if isinstance(event, SchemaVersion)]

    @property
    def denied(self) -> list[int]:
        """The ids of the schemas without read permission."""
        contents = ((version.id, version.content) for version in self.schemas)
        return [found for found, content in contents if getattr(content, "code", None) == NO_PERMISSION]

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
    require_paimon(storage)
    require_branch(storage, branch)
    listing = list_schemas(storage, branch)
    schemas = read_schemas(storage, engine, listing.ids, branch, progress=progress)
    files = read_branch(storage, engine, branch)
    notes: tuple[str, ...] = ()
    try:
        references = collect_references(storage, engine, files, with_manifests=with_manifests, progress=progress)
    except UsageError as lacking:
        if lacking.code != "usage.missing-extra":
            raise
        references, with_manifests = collect_references(storage, engine, files, with_manifests=False), False
        why = f"{lacking.message}: {lacking.hint}"
        notes = (f"the manifests, which name the users of each schema, were not read: {why}",)
    branches = list_branches(storage)
    if branch == MAIN_BRANCH:
        _add_branches(storage, engine, branches[1:], references, schemas)
    versions = _versions(schemas, references, with_manifests=with_manifests)
    events = timeline(versions, [SnapshotVersion(file) for file in files.snapshots])
    return PaimonHistory(
        storage.uri,
        branch,
        branches,
        tuple(events[:limit] if limit else events),
        len(events),
        tuple(gaps_in(listing.ids, listing.ids[0], listing.ids[-1]) if listing.ids else ()),
        references.missing_among(listing.ids),
        listing.strays,
        references.broken,
        notes,
    )


def _add_branches(
    storage: ReadStorage,
    engine: Engine,
    branches: Sequence[str],
    references: SchemaReferences,
    schemas: Mapping[int, Schema | Unreadable],
) -> None:
    """Add to the users of each schema the branches with a copy of it.

    A branch reads its own copies, so this does not keep a schema of the main branch in use.
    """
    for branch in branches:
        copies = read_schemas(storage, engine, list_schemas(storage, branch).ids, branch)
        for schema_id, copy in copies.items():
            if not isinstance(copy, Unreadable) and schemas.get(schema_id) == copy:
                references.usage.setdefault(schema_id, Usage()).branches.append(branch)


def _versions(
    schemas: Mapping[int, Schema | Unreadable], references: SchemaReferences, *, with_manifests: bool
) -> list[SchemaVersion]:
    """Return the versions, oldest first."""
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
    times = _times_in_order(versions)
    while schemas and older:
        schema, snapshot = schemas[-1], older[-1]
        is_later = (snapshot.time_ms or 0) >= times[len(schemas) - 1]
        needs_it = snapshot.schema_id is not None and snapshot.schema_id >= schema.id
        events.append(older.pop() if needs_it or is_later else schemas.pop())
    return [*events, *reversed(older), *reversed(schemas)]


def _times_in_order(versions: Sequence[SchemaVersion]) -> list[int]:
    """Return the time of each schema, or that of the one before it."""
    times: list[int] = []
    for version in versions:
        times.append(version.time_ms or (times[-1] if times else 0))
    return times
