"""`convert`: a directory of Parquet files becomes a Delta table in place, by one commit that names them.

Nothing is inferred where files disagree: every conflict is listed by file and column, and none is left to a reader. The
directory is listed again before the commit, so that no file that arrived meanwhile is left out.

Spec: Add File and Remove File; Partition Value Serialization; Per-file Statistics.
"""

from __future__ import annotations

import gc
import glob
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa

from deltacli.changing.base_version import BaseVersion
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.commit import Committed
from deltacli.changing.commit_options import CommitOptions
from deltacli.changing.file_totals import FileTotals
from deltacli.changing.outcome import SingleCommitChange
from deltacli.core.documents import dumps
from deltacli.core.errors import (
    NotATable,
    PaimonTable,
    PermissionRefused,
    Refusal,
    Refused,
    Unreadable,
    UsageError,
    command,
    nearest_type,
    parameter,
    suggest_parameters,
)
from deltacli.core.progress import report_items
from deltacli.core.units import plural
from deltacli.delta.log.commit_content import CommitRequest, encoded_files
from deltacli.delta.log.file_actions import action_schemas
from deltacli.delta.log.row_ids import MATERIALIZED_NAMES
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.partitions.canonical import TIME_WITH_ZONE, CanonicalValue, canonical_value, require_zone
from deltacli.delta.partitions.values import HIVE_DEFAULT, Spelling, is_text, spelling_of
from deltacli.delta.paths.spelling import decode_hive, encode
from deltacli.delta.protocol.feature_use import property_uses, schema_uses, upgraded
from deltacli.delta.schema.type_changes import TYPE_CHANGES_KEY, digits_of_decimal, is_allowed_change
from deltacli.delta.schema.types import ID, MODE, PHYSICAL_NAME, PLAIN_TYPES, parse_schema
from deltacli.operations.change.parquet_directory import Conflict, Listed, list_data_files, require_same_files
from deltacli.operations.change.partition_directories import OverriddenColumns
from deltacli.storage import LocalStorage, ReadStorage
from deltacli.storage.optional_interfaces import is_prefix_store, require_writable
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.missing_log import find_enclosing_table
from deltacli.table.table_directories import require_no_paimon_table
from deltacli.work.foreign_files import PARTS, ForeignFile, list_leaf_types, read_foreign_file

if TYPE_CHECKING:
    from deltacli.changing.execution import ChangeExecution
    from deltacli.core.typing import Json
    from deltacli.table.version import Snapshot

_LEAST_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
_WHOLE = ("byte", "short", "integer")
_ELEMENTS = tuple(key for key, _ in PARTS)
_INFERRED = ("integer", "long", "date")
_FORBIDDEN = frozenset(" ,;{}()\n\t=")
"""Characters that Spark refuses in the names of columns."""
_AT_ONCE = 1_000
_ENFORCED = ("delta.invariants", "delta.generationExpression", "delta.identity.")
_PHYSICAL = re.compile(
    r"(?:_row-id-|_row-commit-version-)?col-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)
_COLUMN = re.compile(r"\s*(`(?:[^`]|``)+`|[^\s`]+)\s+(.+?)\s*")


@dataclass(frozen=True, slots=True)
class ConvertRequest:
    """Which files become a table, and how their directories are read.

    Attributes:
        partition: The partition columns with their types, such as `day date, country string`. None: as the
            directories name them.
        schema: A file with the columns: a schema string, or a document that contains one.
        like: A document of a snapshot, with columns, partitions and column mapping.
        exclude: Patterns of paths of files that are left out.
        time_zone: The zone of times in directory names that have none, for partition columns of type timestamp.
        accept_unknowable: True to convert a table that has lost its log, although removed rows come back.
        dry_run: True to plan only, and change nothing.
    """

    partition: str | None = None
    schema: str | None = None
    like: str | None = None
    exclude: Sequence[str] = ()
    time_zone: str | None = None
    accept_unknowable: bool = False
    dry_run: bool = False


class Unknowable(NamedTuple):
    """What nobody can know without the log: `removed-files`, `deleted-rows`, `renamed-columns`, `dropped-columns`."""

    kind: str
    message: str
    evidence: str


class PartitionColumn(NamedTuple):
    """A column that the directories name; `inferred` where its type was."""

    name: str
    type: str
    inferred: bool


class RespelledValue(NamedTuple):
    """A partition value that the directories spell otherwise than Delta, and the text that is written."""

    column: str
    directory: str
    value: str


class _Wanted(NamedTuple):
    """The columns that a file of the user names, its partition columns, if any, and the column mapping."""

    fields: tuple[Mapping[str, Any], ...]
    partitions: tuple[str, ...] | None
    configuration: Mapping[str, str]
    file: str
    left_out: tuple[str, ...]
    """What writers have to enforce, which was not enforced for these files."""
    row_columns: frozenset[str]
    """The columns in which files store row ids, which are no columns of the table."""

    @property
    def mode(self) -> str:
        return str(self.configuration.get(MODE, "none")).lower()

    @property
    def is_mapped(self) -> bool:
        return self.mode != "none"

    def physical(self, column: Mapping[str, Any]) -> str:
        name = column.get("metadata", {}).get(PHYSICAL_NAME) if self.is_mapped else None
        return name if isinstance(name, str) else str(column["name"])

    def stored(self, kind: Any) -> Any:
        """Return a type with the names that files have."""
        if isinstance(kind, str):
            return kind
        if kind["type"] == "struct":
            parts = (_field(self.physical(one), self.stored(one["type"])) for one in kind["fields"])
            return {"type": "struct", "fields": list(parts)}
        return kind | {key: self.stored(kind[key]) for key in _ELEMENTS if key in kind}

    def leaves(self) -> Iterator[tuple[str, str]]:
        """Yield the types without parts, by their places in files."""
        for one in self.fields:
            yield from list_leaf_types(self.physical(one), self.stored(one["type"]))

    def fits(self, column: Mapping[str, Any], kind: Any, dropped: list[str]) -> bool:
        """Return whether values of a type in a file are those of a column, whose type may have been widened. `dropped`
        gets the fields of a mapped table that the column does not have.
        """
        return self._fits(column["type"], kind, str(column["name"]), dropped, is_widened=_is_widened(column))

    def _fits(self, kind: Any, stored: Any, place: str, dropped: list[str], *, is_widened: bool) -> bool:
        if isinstance(kind, str) or isinstance(stored, str):
            is_wider = is_widened and isinstance(kind, str) and isinstance(stored, str)
            return _common(kind, stored) == kind or (is_wider and is_allowed_change(stored, kind))
        if kind["type"] != stored["type"]:
            return False
        if kind["type"] != "struct":
            return all(
                self._fits(kind[key], stored[key], f"{place}.{name}", dropped, is_widened=is_widened)
                for key, name in PARTS
                if key in kind
            )
        fields = {self.physical(one): one for one in kind["fields"]}
        others = {name.lower() for name in fields}
        for one in stored["fields"]:
            name, column = one["name"], fields.get(one["name"])
            if column is None and (not self.is_mapped or name.lower() in others):
                return False
            if column is None:
                dropped.append(f"{place}.{name}")
            elif not self._fits(
                column["type"], one["type"], f"{place}.{name}", dropped, is_widened=_is_widened(column)
            ):
                return False
        return True

    def ids(self, fields: Sequence[Mapping[str, Any]], place: str = "") -> Iterator[tuple[str, int | None]]:
        """Yield the id of each field, by its place as in `ForeignFile.ids`."""
        for one in fields:
            below = f"{place}{self.physical(one)}"
            yield below, one.get("metadata", {}).get(ID)
            for path, struct in _structs(below, one["type"]):
                yield from self.ids(struct, f"{path}.")


@dataclass(frozen=True, slots=True)
class ConvertPlan(SingleCommitChange):
    """The table that the files would be, or are."""

    request: ConvertRequest
    schema: Mapping[str, Any] = field(default_factory=dict)  # Any: JSON values
    partitions: tuple[PartitionColumn, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    amount: FileTotals = field(default_factory=FileTotals)
    adds: tuple[pa.RecordBatch, ...] = field(default=(), repr=False)
    hidden: int = 0
    excluded: int = 0
    conflicts: tuple[Conflict, ...] = ()
    unknowable: tuple[Unknowable, ...] = ()
    listed: Listed | None = field(default=None, repr=False)
    respelled: tuple[RespelledValue, ...] = ()

    @property
    def is_noop(self) -> bool:
        """False: a directory that is a table already is refused."""
        return False

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        found = []
        if self.conflicts:
            first = self.conflicts[0]
            place = first.path if first.column is None else f"{first.path}, column {first.column}"
            said = f"{plural(len(self.conflicts), 'conflict')} between the files, the first in {place}: {first.seen}"
            way_out = parameter("convert.exclude", [glob.escape(first.path)])
            if first.expected == TIME_WITH_ZONE:
                way_out = parameter("convert.time_zone", "ZONE")
            found.append(Refusal("convert.conflicts", said, suggest_parameters(way_out)))
        if self.unknowable and not self.request.accept_unknowable:
            evidence = self.unknowable[0].evidence
            said = f"this may be a Delta table whose log is lost, and removed rows may come back: {evidence}"
            copies = command("undelete", sources=["COPY"], dry_run=True)
            found.append(Refusal("convert.lost-log", said, copies, parameter("convert.accept_unknowable", True)))
        return tuple(found)

    def build_refusal(self) -> Refused | None:
        if not self.refusals:
            return None
        found = Refused.from_refusals(self.refusals)
        found.override = self.refusals[0].override
        for number, one in enumerate(self.conflicts[:5], 1):
            where = one.path if one.column is None else f"{one.path}: {one.column}"
            found.facts[f"conflict {number}"] = f"{where}: {one.seen}, expected {one.expected}"
        if found.override:
            found.facts["to accept"] = found.override
        return found

    def effects(self) -> Iterator[str]:
        yield f"{plural(self.amount.files, 'file')}, {self.amount.size_bytes:,} bytes"
        yield dumps(self.schema).decode()
        yield from (f"{one.name} {one.type}" for one in self.partitions)
        yield from (f"{one.column} {one.value}" for one in self.respelled)
        yield from (one.kind for one in self.unknowable)

    def as_json(self, *, dry_run: bool) -> dict[str, Json]:
        """Return the content of the document `deltacli.convert`."""
        return {
            "files": self.amount.as_json(count="files", sizeBytes="size_bytes", rows="rows"),
            "hidden": self.hidden,
            "excluded": self.excluded,
            "schema": dict(self.schema),
            "partitionColumns": [one._asdict() for one in self.partitions],
            "respelledValues": [one._asdict() for one in self.respelled],
            "conflicts": [one._asdict() for one in self.conflicts],
            "unknowable": [one._asdict() for one in self.unknowable],
            "refusals": [one.as_json("wayOut") for one in self.refusals],
            **self.base_version.warnings_json,
            "committedVersion": self.committed_version,
            "dryRun": dry_run,
        }


@dataclass(frozen=True)
class Convert:
    """A table of the Parquet files of a directory, to be planned and committed."""

    kind: ClassVar[ChangeKind] = ChangeKind.REUSE_FILES

    request: ConvertRequest

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> ConvertPlan:
        """Read every footer and plan the commit. Conflicts, and what cannot be known, are part of the plan.

        Raises Refused where the directory is a table, is in one, or has files that only another format can list;
        NotATable where there is none, or no file; UsageError for invalid partition columns; StorageFailed.
        """
        storage = table.storage
        if (managed := managed_store(storage)) is not None:
            managed.refuse("convert")
        if now is None:
            _require_no_table(storage)
        else:
            raise _is_table()
        require_writable(storage)
        given = None if self.request.partition is None else parse_partition(self.request.partition)
        wanted = _read_wanted(self.request)
        listed = list_data_files(storage, self.request.exclude)
        if not listed.files and not listed.conflicts:
            raise NotATable(
                "there is no data file to convert",
                code="convert.no-files",
                facts={"path": storage.uri, "hidden": str(listed.hidden), "excluded": str(listed.excluded)},
            )
        base_version = BaseVersion(table, -1, table.clock())
        return _Converting(table, self.request, listed, given, wanted).plan(base_version)

    def outcome(self, plan: ConvertPlan) -> ConvertPlan:
        return plan

    def execute(self, execution: ChangeExecution[ConvertPlan, ConvertPlan]) -> None:
        """Commit version 0. Raises Refused (`convert.files-changed`), and what `ChangeExecution.commit_plan` raises."""

        def look() -> bool:
            require_same_files(execution.plan.adds, list_data_files(execution.store, self.request.exclude).files)
            return True

        try:
            done = execution.commit_plan(_request, options=CommitOptions(recheck=look))
        except BaseException:
            assert execution.plan.listed is not None
            if (
                not execution.has_begun and not execution.plan.listed.has_log
            ):  # an empty log looks like one that was lost
                execution.store.remove_directory(LOG_DIRECTORY)
            raise
        assert isinstance(done, Committed)
        execution.outcome = replace(execution.plan, committed_version=done.version)


def _respelled(part: str, kind: str) -> str | None:
    """Return a partition column with the type that was probably meant, None without one."""
    near = nearest_type(kind, sorted(PLAIN_TYPES))
    return None if near is None else part.removesuffix(kind) + near


def parse_partition(text: str) -> tuple[PartitionColumn, ...]:
    """Return columns from `day date, country string`. Raises UsageError."""
    found = []
    for part in re.split(r",(?![^(]*\))", text):
        match = _COLUMN.fullmatch(part)
        kind = match[2].lower() if match else ""
        kind = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte", "real": "float"}.get(
            kind, kind
        )
        is_known = kind in PLAIN_TYPES or digits_of_decimal(kind) is not None
        if match is None or not is_known:
            said = "is not a partition column with a type" if match is None else f"has an unknown type: {match[2]!r}"
            raise UsageError(
                f"{part.strip()!r} {said}", code="usage.partition", facts={"expected": "'day date, country string'"}
            ).suggest(part, match and _respelled(part, match[2]))
        name = match[1][1:-1].replace("``", "`") if match[1].startswith("`") else match[1]
        found.append(PartitionColumn(name, kind.replace(" ", ""), inferred=False))
    return tuple(found)


# -- what is in the directory ------------------------------------------------------------------------------------------


def _is_table() -> Refused:
    return Refused("this is a Delta table already", code="convert.is-table", hint=command("snapshot"))


def _require_no_table(storage: ReadStorage) -> None:
    require_no_paimon_table(storage)
    try:
        if list_log(storage).newest_version >= 0:
            raise _is_table()
    except PaimonTable:
        raise
    except NotATable as fault:
        if fault.code in ("table.path-missing", "table.path-is-file", "table.path-is-log"):
            raise
        if (around := _table_around(storage)) is not None:
            raise Refused(
                "the directory is inside a table, whose files would be in two tables",
                code="convert.inside-table",
                facts={"table": around},
                hint=command("snapshot", table=around),
            ) from None


def _table_around(storage: ReadStorage) -> str | None:
    """Return the table that a directory is in, by its path and by the one that links lead to."""
    if is_prefix_store(storage):
        try:
            return storage.find_ancestor_with(LOG_DIRECTORY)
        except PermissionRefused:
            return None  # credentials for the prefix alone
    if not isinstance(storage, LocalStorage):
        return None
    real = os.path.realpath(storage.root)
    return find_enclosing_table(storage) or (None if real == storage.root else find_enclosing_table(LocalStorage(real)))


# -- the plan ----------------------------------------------------------------------------------------------------------


class _Converting:
    def __init__(
        self,
        table: TableHandle,
        request: ConvertRequest,
        listed: Listed,
        given: tuple[PartitionColumn, ...] | None,
        wanted: _Wanted | None,
    ) -> None:
        self._table, self._request, self._listed, self._wanted = table, request, listed, wanted
        self._given = given if wanted is None or given is not None else _partitions_of(wanted)
        self._spelled = {} if wanted is None else {wanted.physical(one): str(one["name"]) for one in wanted.fields}
        """Physical names of the columns that the user names -> their own."""
        self._conflicts = list(listed.conflicts)
        self._schemas: dict[str, str] = {}
        """Each schema of a file -> the first file that has it."""
        self._rows = 0
        self._mark = ""
        """What the footer of a file says about a writer of Delta tables."""
        self._physical: str | None = None
        self._dropped: dict[str, str] = {}
        """Physical names that the user's file does not name -> the first file that has each."""
        self._ids = dict(wanted.ids(wanted.fields)) if wanted is not None and wanted.mode == "id" else {}
        self._types: dict[str, str] = {}
        """Types of partition columns."""
        zone = request.time_zone
        self._zone = None if zone is None else require_zone(zone, parameter("convert.time_zone"))
        self._overridden = OverriddenColumns()
        self._canonical: dict[tuple[str, str], CanonicalValue] = {}
        """Each partition column with a text of a directory -> the value that is written."""

    def plan(self, base_version: BaseVersion) -> ConvertPlan:
        listed = self._listed
        names, values = self._directories()
        partitions = self._partition_columns(names, values)
        self._types = {one.name: one.type for one in partitions}
        batches = list(self._batches(names))
        columns = self._merged() if self._wanted is None else self._as_wanted(self._wanted, names)
        known = {one["name"] for one in columns}
        fields = [*columns, *(_field(one.name, one.type) for one in partitions if one.name not in known)]
        self._judge_names(fields)
        if not fields and not self._conflicts:
            first = next(iter(listed.files))
            self._conflicts.append(Conflict(first, None, "no column, in any file", "at least one column"))
        base_version.warnings.extend(self._overridden.describe())
        if listed.has_temporary:
            base_version.warnings.append(
                "_temporary is there: a job is writing, or one failed and its files are not complete"
            )
        if listed.explained_by_success > 1:
            base_version.warnings.append(
                f"{plural(listed.explained_by_success, 'file')} with different ids in their names are taken for output "
                "of plain Spark because of _SUCCESS: if this was a Delta table, rows that it removed come back"
            )
        base_version.warnings.extend(() if self._wanted is None else self._wanted.left_out)
        schema = {"type": "struct", "fields": fields}
        sizes = [size for size, _ in listed.files.values()]
        return ConvertPlan(
            base_version,
            self._request,
            schema,
            partitions,
            {} if self._wanted is None else self._wanted.configuration,
            FileTotals(len(sizes), sum(sizes), self._rows),
            tuple(batches),
            listed.hidden,
            listed.excluded,
            tuple(self._conflicts),
            tuple(self._unknowable()),
            listed._replace(files={}),  # the adds have them
            tuple(self._respelled()),
        )

    def _respelled(self) -> Iterator[RespelledValue]:
        for (name, text), value in sorted(self._canonical.items()):
            if value.text not in (None, text):
                yield RespelledValue(name, text, str(value.text))

    def _canonical_value(self, name: str, kind: str, text: str) -> CanonicalValue:
        if (name, text) not in self._canonical:
            self._canonical[name, text] = canonical_value(kind, text, self._zone)
        return self._canonical[name, text]

    def _directories(self) -> tuple[tuple[str, ...], list[set[str | None]]]:
        """Return the partition columns of the directories, and their values. A file below other ones is a conflict."""
        shapes: dict[tuple[str, ...], str] = {}
        values: list[set[str | None]] = []
        seen = set[str]()
        wanted = None if self._given is None else tuple(one.name for one in self._given)
        for path in self._listed.files:
            directory = path.rpartition("/")[0]
            if directory in seen:
                continue
            seen.add(directory)
            parts = _values_of(directory)
            if parts is None:
                self._conflicts.append(Conflict(path, None, f"the directory {directory!a}", "UTF-8 names"))
                continue
            names = tuple(self._spelled.get(name, name) for name, _ in parts)
            self._physical = self._physical or next((name for name, _ in parts if _PHYSICAL.fullmatch(name)), None)
            first = shapes.setdefault(names, path)
            expected = wanted if wanted is not None else next(iter(shapes))
            if names != expected:
                if first == path:
                    said = _shape(names), _shape(expected)
                    self._conflicts.append(Conflict(path, None, *said))
                continue
            values = values or [set() for _ in names]
            for place, (_, value) in zip(values, parts, strict=True):
                place.add(value)
        return wanted if wanted is not None else next(iter(shapes), ()), values

    def _batches(self, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the adds, and note the schema of each file."""
        storage, engine = self._table.storage, self._table.engine
        files = self._listed.files
        apart = {*names, *(physical for physical, name in self._spelled.items() if name in names)}
        types = None if self._wanted is None else dict(self._wanted.leaves())

        def read(path: str) -> tuple[str, ForeignFile]:
            return path, read_foreign_file(storage, path, files[path][0], apart, types)

        at_once = storage.capabilities.parallel_reads
        reads = engine.run(read, files, at_once=at_once if at_once > 1 else None)
        found = report_items(reads, self._table.progress, "reading footers", unit="files", total=len(files))
        while part := list(islice(found, _AT_ONCE)):
            yield self._batch(part)
            gc.collect(1)  # pyarrow ties each footer to its schema in a circle: 140 MB for 60,000 files

    def _batch(self, part: Sequence[tuple[str, ForeignFile]]) -> pa.RecordBatch:
        for path, one in part:
            if one.fault:
                expected = "a complete Parquet file"
                self._conflicts.append(Conflict(path, None, one.fault, expected))
            else:
                self._mark = self._mark or (one.mark and f"{path} was written by {one.mark}")
                self._conflicts.extend(self._of_footer(path, one))
                for stored in one.stored_partitions:
                    self._overridden.add(path, stored, dict(self._partition_values(path)).get(stored.column), one.rows)
                self._schemas.setdefault(one.schema, path)
                self._rows += one.rows
        kept = [(path, one) for path, one in part if not one.fault]
        places = [self._listed.files[path] for path, _ in kept]
        columns: dict[str, list[Any]] = {
            "path": [encode(path) for path, _ in kept],
            "partitionValues": [self._partition_values(path) for path, _ in kept],
            "size": [size for size, _ in places],
            "modificationTime": [modified for _, modified in places],
            "dataChange": [True] * len(kept),
            "stats": [one.stats for _, one in kept],
        }
        schema, nothing = action_schemas().add, [None] * len(kept)
        arrays = [pa.array(columns.get(one.name, nothing), one.type) for one in schema]
        return pa.record_batch(arrays, schema=schema)

    def _of_footer(self, path: str, file: ForeignFile) -> Iterator[Conflict]:
        """Yield what the columns of a file have against them that their types do not say."""
        if file.variant:
            yield Conflict(path, file.variant, "variant", "a type whose values this command can name")
        for place, seen in file.beyond:
            yield Conflict(path, place, seen, "times whose microseconds fit into 64 bits")
        for place, found in file.ids if self._ids else ():
            expected = self._ids.get(place, found)
            if found is None or found != expected:
                yield Conflict(path, place, f"field id {found or 'none'}", f"field id {expected or 'of the mapping'}")

    def _partition_values(self, path: str) -> list[tuple[str, str | None]]:
        values = _values_of(path.rpartition("/")[0]) or []
        physical = {name: stored for stored, name in self._spelled.items()}
        found = []
        for name, text in values:
            column = self._spelled.get(name, name)
            value = text
            if text is not None:
                # A text without a canonical form is a conflict, and nothing is written.
                value = self._canonical_value(column, self._types.get(column, "string"), text).text or text
            found.append((physical.get(name, name), value))
        return found

    def _partition_columns(
        self, names: tuple[str, ...], values: Sequence[set[str | None]]
    ) -> tuple[PartitionColumn, ...]:
        """Return the types of partition columns: as given, or the narrowest that every value is written as."""
        found = []
        for place, name in enumerate(names):
            texts = sorted(text for text in values[place] if text is not None) if values else []
            fields = () if self._wanted is None else self._wanted.fields
            of_schema = next((str(one["type"]) for one in fields if one["name"] == name), None)
            if self._given is None and of_schema is None:
                fitting = (kind for kind in _INFERRED if texts and all(_is_plain(kind, text) for text in texts))
                found.append(PartitionColumn(name, next(fitting, "string"), inferred=True))
                continue
            column = self._given[place] if self._given else PartitionColumn(name, str(of_schema), inferred=False)
            found.append(column)
            for text in texts:
                value = self._canonical_value(name, column.type, text)
                if value.text is None:
                    directory = self._first_with(name, text)
                    self._conflicts.append(Conflict(directory, name, repr(text), value.expected))
        return tuple(found)

    def _first_with(self, name: str, text: str) -> str:
        names = {name, *(physical for physical, one in self._spelled.items() if one == name)}
        values = ((path, _values_of(path.rpartition("/")[0]) or ()) for path in self._listed.files)
        return next(path for path, pairs in values if any((one, text) in pairs for one in names))

    def _merged(self) -> list[dict[str, Any]]:
        """Return the columns of all files, in the order of the first one that has each."""
        merged: dict[str, tuple[Any, str]] = {}
        for text, path in self._schemas.items():
            for one in self._fields_of(path, text):
                name, kind = one["name"], one["type"]
                for place, part in list_leaf_types(name, kind):
                    if part not in PLAIN_TYPES and part != "binary" and not _is_decimal(part):
                        self._conflicts.append(Conflict(path, place, part, "a type of Delta tables"))
                if name not in merged:
                    merged[name] = kind, path
                    continue
                before, first = merged[name]
                both = _common(before, kind)
                if both is None:
                    expected = f"{_shown(before)}, as in {first}"
                    self._conflicts.append(Conflict(path, name, _shown(kind), expected))
                else:
                    merged[name] = both, first
        return [_field(name, kind) for name, (kind, _) in merged.items()]

    def _fields_of(self, path: str, schema: str) -> list[dict[str, Any]]:
        """Return the columns of a file; one that it has twice is a conflict."""
        fields: list[dict[str, Any]] = json.loads(schema)["fields"]
        counts = Counter(one["name"] for one in fields)
        twice = (name for name, count in counts.items() if count > 1)
        self._conflicts.extend(Conflict(path, name, f"{counts[name]} columns of this name", "one") for name in twice)
        return fields

    def _as_wanted(self, wanted: _Wanted, partitions: Sequence[str]) -> list[dict[str, Any]]:
        """Return the columns that the user names, if every file fits them."""
        columns = {wanted.physical(one): one for one in wanted.fields}
        stored = {name for name, one in columns.items() if one["name"] not in partitions}
        for text, path in self._schemas.items():
            fields = self._fields_of(path, text)
            if stored and stored.isdisjoint(one["name"] for one in fields):
                expected = f"some of those in {wanted.file}"
                self._conflicts.append(Conflict(path, None, "other columns", expected))
            for one in fields:
                column = columns.get(one["name"])
                if column is None:
                    # The table had dropped it, or this is the schema of another one.
                    if wanted.is_mapped or one["name"] in wanted.row_columns:
                        self._dropped.setdefault(one["name"], path)
                    else:
                        expected = "a column of the schema"
                        self._conflicts.append(Conflict(path, one["name"], _shown(one["type"]), expected))
                    continue
                dropped: list[str] = []
                if not wanted.fits(column, one["type"], dropped):
                    kind = wanted.stored(column["type"])
                    self._conflicts.append(Conflict(path, str(column["name"]), _shown(one["type"]), _shown(kind)))
                for place in dropped:
                    self._dropped.setdefault(place, path)
        return [dict(one) for one in wanted.fields]

    def _judge_names(self, fields: Sequence[Mapping[str, Any]]) -> None:
        """Note names that differ by case alone in a struct, that are there twice, or that engines refuse."""
        is_mapped = self._wanted is not None and self._wanted.is_mapped
        whole = {"type": "struct", "fields": fields}
        for place, struct in _all_structs("", whole):
            first: dict[str, str] = {}
            for name in (str(one["name"]) for one in struct):
                column = f"{place}.{name}" if place else name
                path = self._file_with(str(place.partition(".")[0] or name))
                other = first.get(name.lower())
                first.setdefault(name.lower(), name)
                if other is not None:
                    self._conflicts.append(Conflict(path, column, f"a column {name}", f"no other than {other}"))
                if not name or (_FORBIDDEN.intersection(name) and not is_mapped):
                    expected = "a name without any of ' ,;{}()\\n\\t='"
                    self._conflicts.append(Conflict(path, column, repr(name), expected))

    def _file_with(self, name: str) -> str:
        for text, path in self._schemas.items():
            if any(one["name"] == name for one in json.loads(text)["fields"]):
                return path
        return next(iter(self._listed.files), "")

    def _unknowable(self) -> Iterator[Unknowable]:
        named = dict.fromkeys(match[0] for text in self._schemas for match in _PHYSICAL.finditer(text))
        row_columns = frozenset[str]() if self._wanted is None else self._wanted.row_columns
        physical = self._physical or next((name for name in named if name not in row_columns), None)
        trace = physical or next(iter(named), None)
        is_mapped = self._wanted is not None and self._wanted.is_mapped
        evidence = [*self._listed.evidence, *filter(None, [self._mark, trace and f"the column {trace}"])]
        if self._wanted is not None and is_mapped:
            evidence.append(f"the column mapping of {self._wanted.file}")
        if evidence:
            said = (
                "rows of files that the table had removed come back: updated, deleted and compacted ones, perhaps twice"
            )
            yield Unknowable("removed-files", said, evidence[0])
        if self._listed.vectors:
            said = f"rows that {plural(self._listed.vectors, 'deletion vector')} deleted come back"
            yield Unknowable("deleted-rows", said, f"{plural(self._listed.vectors, 'file')} of deletion vectors")
        if physical is not None and not is_mapped:
            said = "columns have the names that files have, not those of the table, and dropped ones come back"
            yield Unknowable("renamed-columns", said, f"the column {physical}")
        if self._wanted is not None:
            for name, path in self._dropped.items():
                said = f"the values of {name} are in no column: {self._wanted.file} has none of this name"
                yield Unknowable("dropped-columns", said, f"the column {name} of {path}")


def _read_wanted(request: ConvertRequest) -> _Wanted | None:
    """Return the columns of the file that the request names. Raises UsageError."""
    path = request.like or request.schema
    if request.like is not None and request.schema is not None:
        raise UsageError(f"{parameter('convert.schema')} and {parameter('convert.like')} exclude each other")
    if path is None:
        return None
    name = parameter("convert.schema") if request.like is None else parameter("convert.like")
    try:
        with open(path, encoding="utf-8") as source:
            document = json.load(source)
        metadata = document.get("metadata") or document
        if isinstance(metadata, dict) and "schemaString" in metadata:
            document = {"schema": json.loads(metadata["schemaString"]), **metadata}
        schema = document.get("schema", document)
        parse_schema(json.dumps(schema))
        partitions = document.get("partitionColumns")
        if request.like is not None and "schemaString" not in metadata:
            raise ValueError("it is no document of a snapshot")
    except OSError as fault:
        reason = (fault.strerror or str(fault)).lower()
        raise UsageError(f"{name} {path} cannot be read: {reason}", code="usage.schema-file") from fault
    except (ValueError, AttributeError, TypeError, Unreadable) as fault:
        reason = "it is not JSON" if isinstance(fault, json.JSONDecodeError) else " ".join(str(fault).split())[:200]
        raise UsageError(f"{name} {path} has no schema", code="usage.schema-file", facts={"reason": reason}) from fault
    given = metadata.get("configuration") if request.like is not None else None
    mapping = {key: str(value) for key, value in (given or {}).items() if key.startswith("delta.columnMapping.")}
    left_out: dict[str, None] = {}
    fields = _relaxed({"type": "struct", "fields": schema["fields"]}, left_out)["fields"]
    row_columns = frozenset(str(given[key]) for key in MATERIALIZED_NAMES if key in given) if given else frozenset()
    names = None if partitions is None else tuple(partitions)
    return _Wanted(tuple(fields), names, mapping, path, tuple(left_out), row_columns)


def _relaxed(kind: Any, left_out: dict[str, None], place: str = "") -> Any:
    """Return a type without what writers have to enforce: nulls are allowed everywhere. `left_out` gets the rest."""
    if isinstance(kind, str):
        return kind
    if kind["type"] != "struct":
        nulls = {key: True for key in ("containsNull", "valueContainsNull") if key in kind}
        return kind | nulls | {key: _relaxed(kind[key], left_out, place) for key in _ELEMENTS if key in kind}
    fields = []
    for one in kind["fields"]:
        name, metadata = f"{place}{one['name']}", one.get("metadata") or {}
        enforced = [key for key in metadata if key.startswith(_ENFORCED)]
        said = f"of the column {name} is not taken: it was not checked for these files"
        left_out.update((f"{key} {said}", None) for key in enforced)
        taken = {key: value for key, value in metadata.items() if key not in enforced}
        below = _relaxed(one["type"], left_out, f"{name}.")
        fields.append({**one, "type": below, "nullable": True, "metadata": taken})
    return {**kind, "fields": fields}


def _partitions_of(wanted: _Wanted) -> tuple[PartitionColumn, ...] | None:
    """Return the partition columns of a document with their types; None where it names none."""
    if wanted.partitions is None:
        return None
    types = {str(one["name"]): str(one["type"]) for one in wanted.fields}
    return tuple(PartitionColumn(name, types.get(name, "string"), inferred=False) for name in wanted.partitions)


def _values_of(directory: str) -> list[tuple[str, str | None]] | None:
    """Return the partition values that a directory names; None where they are not text."""
    found: list[tuple[str, str | None]] = []
    for part in directory.split("/"):
        name, equals, value = part.partition("=")
        if not equals:
            continue
        try:
            texts = [decode_hive(one.encode("utf-8", "surrogateescape")).decode() for one in (name, value)]
        except UnicodeDecodeError:
            return None
        found.append((texts[0], None if texts[1] in ("", HIVE_DEFAULT) else texts[1]))
    return found


def _shape(names: tuple[str, ...]) -> str:
    return f"partitions {'/'.join(names)}" if names else "no partitions"


def _is_plain(kind: str, text: str) -> bool:
    return is_text(kind) or spelling_of(kind, text) is Spelling.PLAIN


def _is_decimal(kind: str) -> bool:
    digits = digits_of_decimal(kind)
    return digits is not None and digits.precision <= 38


def _is_widened(column: Mapping[str, Any]) -> bool:
    return TYPE_CHANGES_KEY in column.get("metadata", {})


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _common(one: Any, other: Any) -> Any:
    """Return the type that both can be read as: small whole numbers widen, structs have the fields of both."""
    if one == other:
        return one
    if isinstance(one, str) or isinstance(other, str):
        both = [one, other]
        return max(both, key=_WHOLE.index) if all(kind in _WHOLE for kind in both) else None
    if one["type"] != other["type"]:
        return None
    if one["type"] == "struct":
        fields = {part["name"]: part["type"] for part in one["fields"]}
        known = {name.lower() for name in fields}
        for part in other["fields"]:
            if part["name"] not in fields and part["name"].lower() in known:
                return None
            kind = _common(fields[part["name"]], part["type"]) if part["name"] in fields else part["type"]
            if kind is None:
                return None
            fields[part["name"]] = kind
        return {"type": "struct", "fields": [_field(name, kind) for name, kind in fields.items()]}
    found = dict(one)
    for key in _ELEMENTS:
        if key in one:
            found[key] = _common(one[key], other[key])
    return None if None in found.values() else found


def _structs(place: str, kind: Any) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    """Yield the fields of the structs that a type consists of, but not those inside them, by place."""
    if isinstance(kind, str):
        return
    if kind["type"] == "struct":
        yield place, kind["fields"]
    for key, name in PARTS:
        if key in kind:
            yield from _structs(f"{place}.{name}", kind[key])


def _all_structs(place: str, kind: Any) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    for below, fields in _structs(place, kind):
        yield below, fields
        for one in fields:
            yield from _all_structs(f"{below}.{one['name']}" if below else str(one["name"]), one["type"])


def _shown(kind: Any) -> str:
    return kind if isinstance(kind, str) else dumps(kind).decode()


# -- the commit --------------------------------------------------------------------------------------------------------


def _request(plan: ConvertPlan) -> CommitRequest:
    """Return the commit as the reference implementation makes it."""
    table = plan.base_version.table
    schema = dumps(plan.schema).decode()
    uses = (*schema_uses(parse_schema(schema)), *property_uses(plan.configuration))
    features = sorted({use.feature for use in uses})
    metadata = {
        "id": table.machine.new_uuid(),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": [one.name for one in plan.partitions],
        "configuration": dict(plan.configuration),
        "createdTime": table.clock(),
    }
    return CommitRequest(
        "CONVERT",
        {
            "numFiles": plan.amount.files,
            "partitionedBy": [one.name for one in plan.partitions],
            "collectStats": True,
            "catalogTable": None,
            "sourceFormat": "parquet",
        },
        {"numConvertedFiles": plan.amount.files},
        protocol=upgraded(_LEAST_PROTOCOL, features) or _LEAST_PROTOCOL,
        metadata=metadata,
        body=lambda slot: encoded_files(lambda: (("add", batch) for batch in plan.adds), slot),
        adds_existing_files=True,
    )
