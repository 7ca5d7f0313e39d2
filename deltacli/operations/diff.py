"""`diff`: what differs between two versions: schema, properties, protocol, live files, and rows by key.

Two versions of a table that can be rebuilt from one checkpoint are compared by the commits after it: what neither
version's commits have decided is the same file in both, and only counted. So one checkpoint is read instead of two.

The engine of the first version reads pieces of both, in threads or on a cluster. It keeps of each row what
`deltacli.work.rows.row_comparison` says, in groups by a hash of the key, and compares one group after the other.

A file is the same if path and deletion vector are the same; one whose vector alone differs is changed. In two tables a
path is the same below either root, so that a copy and a shallow clone have the files of their origin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.file_totals import FileTotals
from deltacli.core.errors import DeltacliError, LogIncomplete, Unreadable, UsageError, nearest_name, parameter
from deltacli.core.lock_free_property import cached_property
from deltacli.core.progress import Step
from deltacli.core.short_repr import short_repr
from deltacli.core.times import format_timestamp
from deltacli.core.typing import ArrowArray, Json, RecordBatch
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.schema.to_arrow import build_arrow_schema, find_unsupported_type
from deltacli.delta.schema.type_changes import is_allowed_change
from deltacli.delta.schema.types import NameIndex, PrimitiveType, StructField, StructType, interval_name
from deltacli.engine.base import GroupReading
from deltacli.operations.restore.difference import (
    Difference,
    KeyedLiveFiles,
    amount_of,
    difference_of,
    file_rows,
    joined_files,
)
from deltacli.paimon.schema_changes import Change, ChangeKind
from deltacli.storage.optional_interfaces import is_shared_table
from deltacli.table.api_arguments import VersionBounds
from deltacli.table.api_errors import attribute_errors_to, iterate_naming_table, name_table
from deltacli.table.file_keys import Spelling, hash_narrow_adds
from deltacli.table.find_log import ListedLog, list_log
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_newest_readable, rebuild_version
from deltacli.table.time_travel import find_snapshot
from deltacli.work.outputs.row_outputs import RowsPiece, plan_row_pieces
from deltacli.work.rows.row_comparison import (
    DIFFERENCE_COLUMNS,
    SPEC,
    ComparedColumns,
    CompareRows,
    FingerprintRows,
    RowCounts,
)

if TYPE_CHECKING:
    from deltacli.delta.log.state import Metadata
    from deltacli.delta.schema.misnamed_fields import MisnamedField
    from deltacli.operations.schemas.described import DescribedSchema, SchemaDiff
    from deltacli.table.scan import Scan
    from deltacli.table.version import Snapshot

# -- the request for a comparison --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DiffRequest(VersionBounds):
    """Two versions to compare, each by its number or by a time at which it was the newest.

    Attributes:
        other: The table of the second version, if it is another one.
        rows: True to compare the rows, too. It needs `key`.
        key: Columns that identify a row.
        temp_dir: Directory for temporary files of compared rows. None: that of the system.
    """

    other: TableHandle | None = None
    rows: bool = False
    key: Sequence[str] = ()
    temp_dir: str | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for ends that are given twice, and for a comparison of the newest version with itself."""
        super().__post_init__()
        if isinstance(self.key, str):
            raise UsageError(f"{parameter('diff.key')} is a text, expected a list of columns")
        object.__setattr__(self, "key", tuple(self.key))
        if self.rows != bool(self.key):
            names = parameter("diff.rows", True), parameter("diff.key", "COLUMNS")
            raise UsageError(f"{names[0]} and {names[1]} belong together")
        if self.other is None and self.begin == self.end == (None, None):
            raise UsageError(
                "the newest version is compared with itself", facts={"expected": "two versions, or two tables"}
            )

    @property
    def begin(self) -> tuple[int | None, int | None]:
        """The first version, or its time in epoch milliseconds."""
        return self.from_version, self.from_timestamp_ms

    @property
    def end(self) -> tuple[int | None, int | None]:
        """The second version, or its time."""
        return self.to_version, self.to_timestamp_ms


# -- live files of two versions ----------------------------------------------------------------------------------------

_BYTES_A_ROW = 100
"""The bytes of a checkpoint by its rows: the sizes of sidecars are not listed with the log."""
Batches = Callable[[], Iterator[RecordBatch]]
"""Yields narrow batches of live files, in the same order each time."""


class _Side(NamedTuple):
    """The files of a version that may differ from those of the other."""

    batches: Batches
    files: KeyedLiveFiles


class Revectored(NamedTuple):
    """The files that have another deletion vector: which they are in each version, and before and after."""

    in_before: ArrowArray
    in_after: ArrowArray
    before: FileTotals
    after: FileTotals


@dataclass(frozen=True, eq=False)
class FileDiff:
    """The live files of two versions, without those that are `shared` by both and were only counted."""

    before: _Side
    after: _Side
    shared: FileTotals
    spelling: Spelling | None

    @cached_property
    def found(self) -> Difference:
        return difference_of(self.before.files, self.after.files)

    @cached_property
    def totals(self) -> tuple[FileTotals, FileTotals]:
        """All live files of both versions."""
        before, after = (amount_of(side.files, None) + self.shared for side in (self.before, self.after))
        return before, after

    @cached_property
    def revectored(self) -> Revectored:
        """The files with another deletion vector. Files are read once more only if one that differs has a vector."""
        found = self.found
        with_vectors = (pc.and_(found.removed, found.now.has_vector), pc.and_(found.added, found.target.has_vector))
        if not any(pc.any(one).as_py() for one in with_vectors):
            none = FileTotals(0, 0, 0)
            return Revectored(_nothing(found.removed), _nothing(found.added), none, none)
        old, new = self._path_keys(self.before, found.removed), self._path_keys(self.after, found.added)
        in_before = pc.replace_with_mask(found.removed, found.removed, pc.is_in(old, value_set=new))
        in_after = pc.replace_with_mask(found.added, found.added, pc.is_in(new, value_set=old))
        return Revectored(in_before, in_after, amount_of(found.now, in_before), amount_of(found.target, in_after))

    @cached_property
    def added(self) -> FileTotals:
        return amount_of(self.found.target, pc.and_not(self.found.added, self.revectored.in_after))

    @cached_property
    def removed(self) -> FileTotals:
        return amount_of(self.found.now, pc.and_not(self.found.removed, self.revectored.in_before))

    def changes(self) -> Iterator[tuple[str, RecordBatch]]:
        """Yield the files that differ, `add`, `remove` or `change`, as narrow batches."""
        found, changed = self.found, self.revectored
        yield from (("add", adds) for adds in self._chosen(self.after, pc.and_not(found.added, changed.in_after)))
        yield from (("remove", one) for one in self._chosen(self.before, pc.and_not(found.removed, changed.in_before)))
        yield from (("change", adds) for adds in self._chosen(self.after, changed.in_after))

    def _path_keys(self, side: _Side, chosen: ArrowArray) -> ArrowArray:
        """Return keys of the paths alone of chosen files, in their order."""
        parts = [hash_narrow_adds(adds, self.spelling, with_vectors=False) for adds in self._chosen(side, chosen)]
        return pa.concat_arrays([pa.array([], side.files.keys.type), *parts])

    def _chosen(self, side: _Side, chosen: ArrowArray) -> Iterator[RecordBatch]:
        if not pc.any(chosen).as_py():
            return
        begin = 0
        for adds in side.batches():
            mask = chosen.slice(begin, adds.num_rows)
            if pc.any(mask).as_py():
                if not hash_narrow_adds(adds, self.spelling).equals(side.files.keys.slice(begin, adds.num_rows)):
                    raise AssertionError("the files of a version came in another order")
                yield pc.filter(adds, mask)
            begin += adds.num_rows


def compare_files(before: Snapshot, after: Snapshot, spelling: Spelling | None) -> FileDiff:
    """Return which live files differ. `spelling` makes the paths of two tables comparable; None for one table.

    Raises CommitCorrupt, CheckpointUnreadable, StorageFailed.
    """
    if spelling is None and (pair := _of_one_checkpoint(before, after)) is not None:
        return _compare_commits(*pair)
    sides = [_Side(batches, _collected(batches(), spelling)) for batches in map(_all_of, (before, after))]
    return FileDiff(sides[0], sides[1], FileTotals(0, 0, 0), spelling)


def _all_of(side: Snapshot) -> Batches:
    def batches() -> Iterator[RecordBatch]:
        with attribute_errors_to(side.table.name):
            yield from _of_tail(side)
            yield from side.file_actions.map_narrow_adds(lambda adds: adds)

    return batches


def _of_one_checkpoint(before: Snapshot, after: Snapshot) -> tuple[Snapshot, Snapshot] | None:
    """Return both versions rebuilt from one checkpoint; None where they have none, or that would read more."""
    if is_shared_table(before.table.storage):
        return None
    older, newer = sorted((before, after), key=lambda side: side.version)
    start = older.segment.checkpoint
    if start is None or not older.file_actions.pieces:
        return None
    if newer.segment.checkpoint == start:
        return before, after
    listing = older.log.listing
    if listing.newest_version < newer.version or listing.start_version > start.version:
        listing = list_log(older.table.storage)
    between = range(start.version + 1, newer.version + 1)
    other = newer.segment.checkpoint
    if other is None or any(version not in listing.commits for version in between):
        return None
    in_sidecars = _BYTES_A_ROW * sum(piece.group.rows for piece in newer.file_actions.pieces)
    checkpoint_bytes = max(sum(one.size_bytes for one in other.files), in_sidecars)
    if sum(listing.commits[version].size_bytes for version in between) > checkpoint_bytes:
        return None
    later = {one: "" for one in listing.checkpoints if one.preference > start.preference}
    try:
        rebuilt = rebuild_version(newer.table, ListedLog(listing), newer.version, unusable=later)
    except Unreadable:
        return None
    if rebuilt.segment.checkpoint != start:
        return None
    return (before, rebuilt) if newer is after else (rebuilt, after)


def _compare_commits(before: Snapshot, after: Snapshot) -> FileDiff:
    """Return which files differ of two versions that start from one checkpoint."""
    older, newer = sorted((before, after), key=lambda side: side.version)
    parts: list[FileTotals] = []

    def split(adds: RecordBatch) -> RecordBatch:
        """Count the files of a batch that are in both versions, and return the others."""
        kept = newer.file_actions.changed_after_checkpoint.find_current_rows(adds.column("path"), adds.column("dv_id"))
        parts.append(_amount(adds if kept is None else pc.filter(adds, kept)))
        return adds.slice(0, 0) if kept is None else pc.filter(adds, pc.invert(kept))

    def of_older() -> Iterator[RecordBatch]:
        yield from _of_tail(older)
        yield from older.file_actions.map_narrow_adds(split)

    def of_newer() -> Iterator[RecordBatch]:
        yield from _of_tail(newer)

    sides = {
        side: _Side(batches, _collected(batches(), None)) for side, batches in ((older, of_older), (newer, of_newer))
    }
    return FileDiff(sides[before], sides[after], sum(parts, FileTotals(0, 0, 0)), None)


def _of_tail(side: Snapshot) -> Iterator[RecordBatch]:
    return (batch.adds for batch in side.file_actions.read_narrow_commit_batches() if batch.adds is not None)


def _collected(batches: Iterator[RecordBatch], spelling: Spelling | None) -> KeyedLiveFiles:
    """Return live files in columns, without what is known of their row ids."""
    parts = []
    for adds in batches:
        if adds.num_rows:
            has_vector = pc.not_equal(adds.column("dv_id"), "")
            no_row_ids = pa.repeat(pa.scalar(False), adds.num_rows)
            columns = adds.column("size"), _rows(adds), adds.column("num_records")
            parts.append((hash_narrow_adds(adds, spelling), *columns, has_vector, no_row_ids))
    return joined_files(parts, are_keys_narrow=True)


def _rows(adds: RecordBatch) -> ArrowArray:
    return pc.subtract(adds.column("num_records"), pc.fill_null(adds.column("dv_cardinality"), 0))


def _amount(adds: RecordBatch) -> FileTotals:
    rows = _rows(adds)
    return FileTotals(
        adds.num_rows, pc.sum(adds.column("size")).as_py() or 0, None if rows.null_count else pc.sum(rows).as_py() or 0
    )


def _nothing(like: ArrowArray) -> ArrowArray:
    return pa.repeat(pa.scalar(False), len(like))


# -- which rows differ between two versions ----------------------------------------------------------------------------

__all__ = ["DIFFERENCE_COLUMNS", "RowCounts", "RowDiff"]


class RowDiff:
    """The rows of two versions by key, read by each call of `changes`. Raises UsageError for columns of no key."""

    def __init__(self, before: Snapshot, after: Snapshot, key: Sequence[str], temp_dir: str | None = None) -> None:
        self._sides = before, after
        self._temp_dir = temp_dir
        self.fields, self.not_compared = _compared_fields(before.schema, after.schema, key)
        names, types = zip(*((one.name, one.type) for one in build_arrow_schema(self.fields)), strict=True)
        self.columns = ComparedColumns(names[: len(key)], names[len(key) :], types)
        self._counts: RowCounts | None = None
        self._scans: list[Scan] = []

    @property
    def misnamed(self) -> tuple[MisnamedField, ...]:
        """The fields that files had under logical names, so that their values were compared as null."""
        return tuple(dict.fromkeys(field for scan in self._scans for field in scan.misnamed))

    @property
    def key(self) -> tuple[str, ...]:
        return self.columns.key

    @property
    def counts(self) -> RowCounts:
        """How many rows differ. Raises what `changes` raises."""
        if self._counts is None:
            for _ in self._compared(lists=False):
                pass
        assert self._counts is not None
        return self._counts

    @property
    def is_equal(self) -> bool:
        return not (self.counts.added or self.counts.removed or self.counts.changed)

    def as_json(self) -> dict[str, Json]:
        found = self.counts
        return {
            "key": list(self.key),
            "added": found.added,
            "removed": found.removed,
            "changed": found.changed,
            "unchanged": found.unchanged,
            "repeatedKeys": found.repeated,
            "columns": {name: found.columns[name] for name in self.columns.others if found.columns[name]},
            "notCompared": list(self.not_compared),
        }

    def changes(self) -> Iterator[RecordBatch]:
        """Yield the keys that differ: `change` (`add`, `remove` or `change`), the number of rows with the key in each
        version, the columns that differ where both have one, and the columns of the key.

        Raises DataUnreadable, StorageFailed and NoSpace, and what a cluster raises.
        """
        yield from self._compared(lists=True)

    def _compared(self, *, lists: bool) -> Iterator[RecordBatch]:
        table, counts = self._sides[0].table, RowCounts()
        try:
            with table.progress.step("reading rows", unit="files") as step:
                readings = self.readings(step)
                merge = CompareRows(self.columns, lists)
                kept = self.columns.fingerprint_schema
                for found, rows in table.engine.merge_groups(readings, merge, kept, self.kept_bytes(), self._temp_dir):
                    counts.add(found)
                    if rows is not None:
                        yield rows
        except DeltacliError as fault:
            name_table(fault, table.name)
            raise
        self._counts = counts

    def kept_bytes(self) -> int:
        """About the bytes that are kept of the rows of both versions."""
        files = [side.counts()[0] for side in self._sides]
        rows = sum(one.records + (one.size_bytes // 8 if one.files_without_records else 0) for one in files)
        return rows * (8 * len(self.columns.others) + 24 * len(self.key))

    def readings(self, step: Step | None = None) -> list[GroupReading]:
        """Return how both versions are read."""
        found = []
        self._scans = []
        for side in self._sides:
            name = side.table.name
            with attribute_errors_to(name):
                scan = side.scan(columns=[*self.key, *self.columns.others])
            self._scans.append(scan)
            pieces = iterate_naming_table(plan_row_pieces(scan.data_files()), name)
            task = FingerprintRows(self.columns, name)
            noted = pieces if step is None else _noted(pieces, step)
            found.append(GroupReading(task, noted, side.table.stores, {SPEC: scan.read_spec}))
        return found


def _noted(pieces: Iterator[RowsPiece], step: Step) -> Iterator[RowsPiece]:
    """Yield the pieces, and count a piece once the next one is taken."""
    for piece in pieces:
        yield piece
        step.advance(piece.amount)


def _compared_fields(
    before: StructType, after: StructType, key: Sequence[str]
) -> tuple[tuple[StructField, ...], tuple[str, ...]]:
    """Return the columns that are compared, those of the key first, in the types in which they are; and the names of
    the columns that only one schema has, or whose types cannot be compared. Raises UsageError.
    """
    olds = {column.name: column for column in before.fields}
    common = [(olds[new.name], new) for new in after.fields if new.name in olds]
    types = {new.name: _common(old, new) for old, new in common}
    names = tuple(_named(name, before, after) for name in key)
    for name in names:
        if not isinstance(types[name], PrimitiveType) or types[name] == PrimitiveType("variant"):
            raise UsageError(f"column {name} cannot be a key: its values cannot be compared", code="usage.column")
    compared = [*names, *(name for name, kind in types.items() if kind is not None and name not in names)]
    every = dict.fromkeys(column.name for column in (*before.fields, *after.fields))
    fields = tuple(StructField(name, types[name], True, {}) for name in compared)
    return fields, tuple(name for name in every if name not in compared)


def _named(name: str, *schemas: StructType) -> str:
    """Return a column of both schemas as it is written there. Raises UsageError."""
    found = name
    for schema in schemas:
        index = NameIndex(column.name for column in schema.fields)
        places = index.places_of(name)
        if len(places) != 1:
            names = [column.name for column in schema.fields]
            near = nearest_name(name, names)
            facts = {} if near else {"columns": ", ".join(names)}
            what = f"{parameter('diff.key', name)}: a version has no such column"
            raise UsageError(what, code="usage.column", facts=facts).suggest_as_fact(name, near)
        found = schema.fields[places[0]].name
    return found


def _common(old: StructField, new: StructField) -> Any:  # Any: a type of Delta, or None
    """Return the type in which the values of a column are compared; None where there is none."""
    if find_unsupported_type(old.data_type) or find_unsupported_type(new.data_type):
        return None
    if _shape(old.data_type) == _shape(new.data_type):
        return new.data_type
    if isinstance(old.data_type, PrimitiveType) and isinstance(new.data_type, PrimitiveType):
        if is_allowed_change(old.data_type.name, new.data_type.name):
            return new.data_type
        if is_allowed_change(new.data_type.name, old.data_type.name):
            return old.data_type
    return None


def _shape(data_type: Any) -> Any:  # Any: a type of Delta, a type of Arrow
    """Return a type without what does not matter to values: nullability, comments, metadata."""
    if isinstance(data_type, PrimitiveType) and (interval := interval_name(data_type.name)):
        return interval  # not the number that it is stored as
    found = build_arrow_schema((StructField("c", data_type, True, {}),)).field(0).type
    return str(found).replace(" not null", "")


# -- what differs between two versions ---------------------------------------------------------------------------------

_SHOWN_ELSEWHERE = (ChangeKind.TABLE_COMMENT, ChangeKind.PARTITION_KEYS, ChangeKind.HIGHEST_FIELD_ID)


class Changed(NamedTuple):
    """A value that differs; None: there is none."""

    name: str
    before: Json
    after: Json

    def as_json(self, label: str = "name") -> dict[str, Json]:
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
        return [one for one in self.schema.changes if one.kind not in _SHOWN_ELSEWHERE]

    @property
    def schema_changes(self) -> list[dict[str, Json]]:
        """The changes of columns, as in the document `deltacli.schema-diff`."""
        return [*map(self.schema.change_json, self.column_changes)]

    @cached_property
    def properties(self) -> list[Changed]:
        return _differing(self.before.properties, self.after.properties)

    @cached_property
    def metadata(self) -> list[Changed]:
        return _differing(*({"name": one.name, "description": one.description} for one in self._metadata))

    @cached_property
    def partitioning(self) -> Changed | None:
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
        return _differing(*({one.domain: one.configuration for one in side.domains} for side in self.sides))

    @property
    def sides(self) -> tuple[Snapshot, Snapshot]:
        return self.before, self.after

    @cached_property
    def is_equal(self) -> bool:
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
        rows = RowDiff(before, after, request.key, request.temp_dir)
    files = compare_files(before, after, spelling)
    return TableDiff(before, after, diff_schemas(*schemas), files, rows, begin_gap or end_gap)


def _found(table: TableHandle, version: int | None, timestamp_ms: int | None) -> tuple[Snapshot, LogIncomplete | None]:
    with attribute_errors_to(table.name):
        if version is None and timestamp_ms is None and not is_shared_table(table.storage):
            found, gap = read_newest_readable(table)
            if gap is not None:
                gap.table = table.name
            return found, gap
        return find_snapshot(table, version=version, timestamp_ms=timestamp_ms), None


def _described(side: Snapshot) -> DescribedSchema:
    from deltacli.operations.schemas.described import describe_delta

    with attribute_errors_to(side.table.name):
        return replace(describe_delta(side), properties={})


def _below_either_root(first: TableHandle, second: TableHandle) -> Spelling:
    """Return what spells paths so that they are equal below the roots of two tables."""
    roots = [root for one in (first, second) for root in (one.storage.uri, *one.storage.aliases)]
    keys = PathKeys(tuple(roots))

    def spelled(raw: ArrowArray) -> ArrowArray:
        return pc.coalesce(pc.cast(keys.compute_keys(raw).keys, pa.binary()), pc.cast(raw, pa.binary()))

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
