"""What differs between two versions: schema, properties, protocol, partitioning, domains, and live files with their
bytes and rows.

A file is the same if path and deletion vector are the same; one whose vector alone differs is changed. In two tables a
path is the same below either root, so that a copy and a shallow clone have the files of their origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.cached import cached_property
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import ArrowArray, Json, RecordBatch
from deltacli.core.units import format_timestamp
from deltacli.operations.diff.files import FileDiff, compare_files
from deltacli.paimon.schema_changes import ChangeKind
from deltacli.storage.base import StoreOfVersions
from deltacli.table.api_arguments import errors_about
from deltacli.table.keyed_files import Spelling
from deltacli.table.rebuild import read_newest_readable
from deltacli.table.time_travel import find_snapshot

if TYPE_CHECKING:
    from deltacli.core.errors import LogIncomplete
    from deltacli.delta.log.state import Metadata
    from deltacli.operations.diff.request import DiffRequest
    from deltacli.operations.diff.rows import RowDiff
    from deltacli.operations.schemas.described import DescribedSchema, SchemaDiff
    from deltacli.paimon.schema_changes import Change
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

_SHOWN_ELSEWHERE = (ChangeKind.TABLE_COMMENT, ChangeKind.PARTITION_KEYS, ChangeKind.HIGHEST_FIELD_ID)


class Changed(NamedTuple):
    """A value that differs; None: there is none."""

    name: str
    before: Json
    after: Json

    def as_json(self, label: str = "name") -> dict[str, Json]:
        """Return the change as in documents."""
        return {label: self.name, "from": self.before, "to": self.after}


@short_repr("before=before.version", "after=after.version", "schema_changes", "properties", "protocol")
@dataclass(frozen=True, eq=False, repr=False)
class TableDiff:
    """Two versions, and what differs from the first to the second."""

    before: Snapshot
    after: Snapshot
    schema: SchemaDiff
    files: FileDiff
    rows: RowDiff | None = None
    """The rows by key, where they were asked for."""
    gap: LogIncomplete | None = None
    """Why a side is not the newest version, which was asked for."""

    @cached_property
    def column_changes(self) -> list[Change]:
        """The changes of columns and of their metadata."""
        return [one for one in self.schema.changes if one.kind not in _SHOWN_ELSEWHERE]

    @property
    def schema_changes(self) -> list[dict[str, Json]]:
        """The changes of columns, as in the document `deltacli.schema-diff`."""
        return [*map(self.schema.change_json, self.column_changes)]

    @cached_property
    def properties(self) -> list[Changed]:
        """The table properties that differ."""
        return _differing(self.before.properties, self.after.properties)

    @cached_property
    def metadata(self) -> list[Changed]:
        """The name and the description, where they differ."""
        return _differing(*({"name": one.name, "description": one.description} for one in self._metadata))

    @cached_property
    def partitioning(self) -> Changed | None:
        """The partition columns, where they differ."""
        old, new = (list(one.partition_columns) for one in self._metadata)
        return None if old == new else Changed("partitionColumns", old, new)

    @property
    def _metadata(self) -> Sequence[Metadata]:
        return self.before.metadata, self.after.metadata

    @cached_property
    def protocol(self) -> list[Changed]:
        """The protocol versions that differ, and the features that one of them supports (true or false)."""
        old, new = self.before.protocol, self.after.protocol
        versions = [
            ("minReaderVersion", old.min_reader_version, new.min_reader_version),
            ("minWriterVersion", old.min_writer_version, new.min_writer_version),
        ]
        features = sorted(old.supported_features ^ new.supported_features)
        return [
            *(Changed(name, was, becomes) for name, was, becomes in versions if was != becomes),
            *(Changed(name, name in old.supported_features, name in new.supported_features) for name in features),
        ]

    @cached_property
    def domains(self) -> list[Changed]:
        """The domains whose configuration differs."""
        return _differing(*({one.domain: one.configuration for one in side.domains} for side in self.sides))

    @property
    def sides(self) -> tuple[Snapshot, Snapshot]:
        """Both versions."""
        return self.before, self.after

    @cached_property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        small = (self.schema_changes, self.properties, self.metadata, self.protocol, self.domains)
        files = self.files.added.files or self.files.removed.files or self.files.revectored.after.files
        if any(small) or self.partitioning or files:
            return False
        return self.rows is None or self.rows.is_equal

    def as_json(self) -> dict[str, Json]:
        """Return the content of the document `deltacli.diff`."""
        before, after = self.files.totals
        changed = self.files.revectored
        return {
            "from": _point(self.before),
            "to": _point(self.after),
            "equal": self.is_equal,
            "matchedBy": self.schema.matched_by,
            "schema": list(self.schema_changes),
            "partitioning": None
            if self.partitioning is None
            else {"from": self.partitioning.before, "to": self.partitioning.after},
            "properties": [one.as_json("key") for one in self.properties],
            "protocol": [one.as_json() for one in self.protocol],
            "domains": [one.as_json("domain") for one in self.domains],
            "metadata": [one.as_json() for one in self.metadata],
            "files": {
                "from": before.files,
                "to": after.files,
                "added": self.files.added.files,
                "removed": self.files.removed.files,
                "changed": changed.after.files,
            },
            "bytes": {
                "from": before.size_bytes,
                "to": after.size_bytes,
                "added": self.files.added.size_bytes,
                "removed": self.files.removed.size_bytes,
            },
            "rows": {
                "from": before.rows,
                "to": after.rows,
                "added": self.files.added.rows,
                "removed": self.files.removed.rows,
                "deletedByVectors": _less(changed.before.rows, changed.after.rows),
            },
            "byKey": None if self.rows is None else self.rows.as_json(),
        }

    def file_rows(self) -> Iterator[RecordBatch]:
        """Yield the files that differ as rows in columns: `path`, `change` (`add`, `remove`, `change`), `kind`,
        `sizeBytes`.

        Raises CommitCorrupt, CheckpointUnreadable and StorageFailed.
        """
        from deltacli.operations.restore.difference import file_rows

        for change, adds in self.files.changes():
            side = self.before if change == "remove" else self.after
            yield file_rows(side.table.storage, adds, change)


def diff_tables(table: TableHandle, request: DiffRequest) -> TableDiff:
    """Return what differs between two versions; in place of a newest one whose commits are missing, of the newest that
    can be rebuilt.

    Raises what `find_snapshot` raises for both; Unreadable for a schema that cannot be parsed.
    """
    from deltacli.operations.schemas.described import diff_schemas

    other = table if request.other is None else request.other
    before, begin_gap = _found(table, *request.begin)
    after, end_gap = _found(other, *request.end)
    schemas = (_described(side) for side in (before, after))
    spelling = None if other.uri == table.uri else _below_either_root(table, other)
    rows = None
    if request.rows:
        from deltacli.operations.diff.rows import RowDiff

        rows = RowDiff(before, after, request.key, request.temp_dir)
    files = compare_files(before, after, spelling)
    return TableDiff(before, after, diff_schemas(*schemas), files, rows, begin_gap or end_gap)


def _found(table: TableHandle, version: int | None, timestamp_ms: int | None) -> tuple[Snapshot, LogIncomplete | None]:
    with errors_about(table.name):
        if version is None and timestamp_ms is None and not isinstance(table.storage, StoreOfVersions):
            found, gap = read_newest_readable(table)
            if gap is not None:
                gap.table = table.name
            return found, gap
        return find_snapshot(table, version=version, timestamp_ms=timestamp_ms), None


def _described(side: Snapshot) -> DescribedSchema:
    from deltacli.operations.schemas.described import describe_delta

    with errors_about(side.table.name):
        return replace(describe_delta(side), properties={})


def _below_either_root(first: TableHandle, second: TableHandle) -> Spelling:
    """Return what spells paths so that they are equal below the roots of two tables."""
    from deltacli.delta.vacuum.keys import PathKeys

    roots = [root for one in (first, second) for root in (one.storage.uri, *one.storage.aliases)]
    keys = PathKeys(tuple(roots))

    def spelled(raw: ArrowArray) -> ArrowArray:
        import pyarrow as pa

        return pc.coalesce(pc.cast(keys.of_log(raw).keys, pa.binary()), pc.cast(raw, pa.binary()))

    return spelled


def _point(side: Snapshot) -> dict[str, Json]:
    time = None if side.time is None else side.time.timestamp_ms
    return {
        "table": side.table.uri,
        "version": side.version,
        "timestampMs": time,
        "timestamp": None if time is None else format_timestamp(time),
    }


def _differing(before: Mapping[str, Json], after: Mapping[str, Json]) -> list[Changed]:
    names = sorted({*before, *after})
    found = (Changed(name, before.get(name), after.get(name)) for name in names)
    return [one for one in found if one.before != one.after]


def _less(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else before - after
