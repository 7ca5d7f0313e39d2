"""Model writers: other engines as they read a table, write files and create the next version.

Each step is a call of the storage port, where other actors come between; a crash may come out of any of them.
"""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.errors import DeltacliError, FileMissing
from deltacli.storage.base import Storage
from deltacli.storage.outcomes import Created, Unknown
from tests.simulation.promises import Answer, Intent, Witness
from tests.simulation.reading import (
    HIGH_WATER_MARK,
    ROW_ID,
    ROW_VERSION,
    Column,
    Kind,
    Rows,
    Tracked,
    checkpoints_of,
    columns_of,
    configuration_of,
    has_feature,
    is_mapped,
    is_on,
    lines_of,
    name_of,
)
from tests.simulation.snapshots import Snapshot, read_rows, read_snapshot, read_vector
from tests.support.actions import Action, Line, commit_info, domain, to_bytes
from tests.support.actions import add as add_line
from tests.support.actions import remove as remove_line
from tests.support.builder import HINT, LOG, commit_path
from tests.support.checkpoints import CheckpointKind, Shape, write_checkpoint
from tests.support.model import State, identity
from tests.support.small_vectors import inline, vector_file, vector_path
from tests.world.oracle import DEFAULT_RETENTION_MS, Damaged, duration_ms

DAY_MS = 24 * 3_600_000
READER_FEATURES = ("columnMapping", "deletionVectors", "typeWidening", "v2Checkpoint")
LEGACY = ("appendOnly", "invariants")
PROPERTIES: Mapping[str, Mapping[str, str]] = {
    "columnMapping": {"delta.columnMapping.mode": "name"},
    "deletionVectors": {"delta.enableDeletionVectors": "true"},
    "inCommitTimestamp": {"delta.enableInCommitTimestamps": "true"},
    "rowTracking": {"delta.enableRowTracking": "true", ROW_ID: "_row-id", ROW_VERSION: "_row-version"},
    "typeWidening": {"delta.enableTypeWidening": "true"},
    "v2Checkpoint": {"delta.checkpointPolicy": "v2"},
}
"""Feature -> the properties that turn it on."""
LATER = ("deletionVectors", "inCommitTimestamp", "typeWidening", "v2Checkpoint")
"""Features that a table can have from any version on."""
_TYPES = {"integer": pa.int32(), "long": pa.int64(), "string": pa.string()}
_V2 = (CheckpointKind.V2_PARQUET, CheckpointKind.V2_JSON, CheckpointKind.V2_PARQUET_INLINE)
_CLASSIC = (CheckpointKind.CLASSIC, CheckpointKind.MULTI_PART)

Values = dict[str, Any]  # Any: values of a row, by the names of columns in files


class Clock(Protocol):
    """The time of an actor."""

    def now_ms(self) -> int: ...


@dataclass(frozen=True)
class Stored:
    """Rows to be written, with the ids that they keep."""

    values: Values
    row_id: int | None = None
    version: int | None = None


@dataclass
class Change:
    """What a commit is about."""

    operation: str
    lines: list[Line] = field(default_factory=list)
    reads: frozenset[bytes] = frozenset()
    """The files that nobody may have removed since."""
    reads_all: bool = False
    """No file may have been added since."""
    is_blind: bool = False
    data_change: bool = True
    features: tuple[str, ...] = ()
    """That the table has from this commit on."""


class Writer:
    """An engine that writes to a table. Every method reads the newest version first and says how it ended."""

    def __init__(
        self,
        clock: Clock,
        storage: Storage,
        chance: random.Random,
        *,
        name: str = "writer",
        witness: Witness | None = None,
        checksums: bool = False,
    ) -> None:
        self.name = name
        self._clock, self._storage, self._random = clock, storage, chance
        self._witness, self._checksums = witness, checksums

    # What it does

    def act(self) -> Answer:
        """One of all, as an engine's user may do it."""
        steps: list[tuple[int, Callable[[], Answer]]] = [
            (8, self.append),
            (4, self.delete),
            (3, self.update),
            (1, self.overwrite),
            (2, self.rewrite),
            (2, self.add_column),
            (1, self.rename_column),
            (1, self.widen),
            (1, self.set_property),
            (1, self.add_feature),
            (3, self.checkpoint),
            (1, self.clean_log),
        ]
        weights, methods = zip(*steps, strict=True)
        chosen: Callable[[], Answer] = self._random.choices(methods, weights)[0]
        return chosen()

    def create(self, features: Sequence[str] = (), *, is_partitioned: bool = False, **properties: str) -> Answer:
        """Version 0: columns `id`, `n`, `p`, and some rows."""
        configuration = dict(properties)
        for feature in features:
            configuration |= PROPERTIES[feature]
        columns = [("id", "long"), ("n", "integer"), ("p", "string")]
        has_mapping = "columnMapping" in features
        if has_mapping:
            configuration["delta.columnMapping.maxColumnId"] = str(len(columns))
        fields = [self._field(name, kind, number, has_mapping) for number, (name, kind) in enumerate(columns, 1)]
        metadata: Line = {
            "metaData": {
                "id": str(self._uuid()),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": _schema(fields),
                "partitionColumns": ["p"] if is_partitioned else [],
                "configuration": configuration,
                "createdTime": self._clock.now_ms(),
            }
        }
        born = State().after([_protocol([*features]), metadata])
        change = Change("CREATE TABLE AS SELECT", [_protocol([*features]), metadata])
        return self._run(lambda: self._create(Snapshot(-1, born, 0, {}), change))

    def _create(self, born: Snapshot, change: Change) -> Answer:
        rows = self._new_rows(born.state)
        self._intend(change, adds=rows, alters=True)
        change.lines += self._write(born.state, rows)
        return self._commit(replace(born, state=State()), change, born.state)

    def append(self) -> Answer:
        """Add rows, behind whoever commits before."""
        return self._run(self._append)

    def _append(self) -> Answer:
        read = read_snapshot(self._storage)
        rows = self._new_rows(read.state)
        change = Change("WRITE", is_blind=True)
        self._intend(change, adds=rows)
        change.lines = self._write(read.state, rows)
        return self._commit(read, change)

    def overwrite(self) -> Answer:
        """Put other rows in place of all."""
        return self._run(self._overwrite)

    def _overwrite(self) -> Answer:
        read = read_snapshot(self._storage)
        rows = self._new_rows(read.state)
        old = [one for add in read.live for one in read_rows(self._storage, add, read.state)]
        change = Change("WRITE", reads=_paths(read.live), reads_all=True)
        self._intend(change, adds=rows, removes=Counter(one.row for one in old))
        change.lines = [*map(self._remove, read.live), *self._write(read.state, rows)]
        return self._commit(read, change)

    def delete(self, how: str | None = None) -> Answer:
        """Delete some rows of a file or two; `how` is `copy`, `file` or `inline`."""
        return self._run(lambda: self._change_rows("DELETE", how, is_update=False))

    def update(self, how: str | None = None) -> Answer:
        """Change some rows of a file or two."""
        return self._run(lambda: self._change_rows("UPDATE", how, is_update=True))

    def _change_rows(self, operation: str, how: str | None, *, is_update: bool) -> Answer:
        read = read_snapshot(self._storage)
        if not read.live:
            return Answer.NOTHING
        ways = ("copy", "file", "inline") if is_on(read.state, "delta.enableDeletionVectors") else ("copy",)
        how = how or self._random.choice(ways)
        chosen = self._random.sample(read.live, min(len(read.live), self._random.choice((1, 1, 2))))
        kept: list[Stored] = []
        hit: dict[int, list[Tracked]] = {}
        for number, add in enumerate(chosen):
            rows = read_rows(self._storage, add, read.state)
            hit[number] = self._random.sample(rows, self._random.randint(1, len(rows))) if rows else []
            positions = {one.position for one in hit[number]}
            kept += [_kept(one) for one in rows if one.position not in positions] if how == "copy" else []
        gone = [one for rows in hit.values() for one in rows]
        if not gone:
            return Answer.NOTHING
        new = [replace(_kept(one), values=self._changed(one, read.state), version=None) for one in gone if is_update]
        change = Change(operation, reads=_paths(chosen))
        self._intend(change, adds=Counter(_row(one.values) for one in new), removes=Counter(one.row for one in gone))
        change.lines = [self._remove(add) for number, add in enumerate(chosen) if hit[number] or how == "copy"]
        if how != "copy":
            change.lines += self._marked(chosen, hit, is_inline=how == "inline")
        change.lines += self._write_stored(read.state, [*kept, *new])
        return self._commit(read, change)

    def _marked(self, chosen: Sequence[Action], hit: Mapping[int, Sequence[Tracked]], *, is_inline: bool) -> list[Line]:
        """Adds of the files with vectors; not of those of which no row is left."""
        vectors: dict[int, list[int]] = {}
        for number, rows in hit.items():
            old = read_vector(self._storage, chosen[number])
            records = json.loads(chosen[number]["stats"])["numRecords"]
            marked = sorted({*old, *(one.position for one in rows)})
            if rows and len(marked) < records:
                vectors[number] = marked
        if not vectors:
            return []
        name = self._uuid()
        stored = vector_file(vectors.values())
        if not is_inline:
            self._storage.put(vector_path(name), stored.data)
        lines: list[Line] = []
        for place, (number, marked) in enumerate(vectors.items()):
            vector = inline(marked) if is_inline else stored.relative(place, name)
            stats = json.dumps({**json.loads(chosen[number]["stats"]), "tightBounds": False})
            lines.append({"add": {**chosen[number], "deletionVector": vector, "stats": stats, "dataChange": True}})
        return lines

    def rewrite(self) -> Answer:
        """Merge files of one partition into one, as OPTIMIZE does."""
        return self._run(self._rewrite)

    def _rewrite(self) -> Answer:
        read = read_snapshot(self._storage)
        groups: dict[str, list[Action]] = {}
        for add in read.live:
            groups.setdefault(json.dumps(add["partitionValues"]), []).append(add)
        chosen = self._random.choice([*groups.values()])[:4] if groups else []
        if len(chosen) < 2:
            return Answer.NOTHING
        rows = [one for add in chosen for one in read_rows(self._storage, add, read.state)]
        change = Change("OPTIMIZE", reads=_paths(chosen), data_change=False)
        self._intend(change)
        change.lines = [*map(self._remove, chosen), *self._write_stored(read.state, [_kept(one) for one in rows])]
        return self._commit(read, change)

    def add_column(self) -> Answer:
        """Add a column of text."""

        def alter(fields: list[Action], metadata: Action) -> bool:
            mapped = "delta.columnMapping.maxColumnId" in metadata["configuration"]
            number = int(metadata["configuration"].get("delta.columnMapping.maxColumnId", len(fields))) + 1
            fields.append(self._field(f"c{number}", "string", number, mapped))
            if mapped:
                metadata["configuration"]["delta.columnMapping.maxColumnId"] = str(number)
            return True

        return self._run(lambda: self._alter("ADD COLUMNS", alter))

    def rename_column(self) -> Answer:
        """Give a column another name, where a mapping keeps that in files."""

        def alter(fields: list[Action], metadata: Action) -> bool:
            if "delta.columnMapping.maxColumnId" not in metadata["configuration"]:
                return False
            column = next((one for one in fields if one["name"].startswith("n")), None)
            if column is not None:
                column["name"] += "n"
            return column is not None

        return self._run(lambda: self._alter("RENAME COLUMN", alter))

    def widen(self) -> Answer:
        """Make the integers long."""

        def alter(fields: list[Action], metadata: Action) -> bool:
            column = next((one for one in fields if one["type"] == "integer"), None)
            if column is None or metadata["configuration"].get("delta.enableTypeWidening") != "true":
                return False
            column["type"] = "long"
            column["metadata"]["delta.typeChanges"] = [{"fromType": "integer", "toType": "long"}]
            return True

        return self._run(lambda: self._alter("CHANGE COLUMN", alter))

    def set_property(self, name: str | None = None, value: str | None = None) -> Answer:
        """Set a property."""

        def alter(_: list[Action], metadata: Action) -> bool:
            key = name or self._random.choice(
                ("team", "delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
            )
            days = self._random.choice((7, 14, 30))
            metadata["configuration"][key] = value or (f"interval {days} days" if key != "team" else f"team {days}")
            return True

        return self._run(lambda: self._alter("SET TBLPROPERTIES", alter))

    def add_feature(self, name: str | None = None) -> Answer:
        """Turn a feature on."""
        return self._run(lambda: self._add_feature(name))

    def _add_feature(self, name: str | None) -> Answer:
        read = read_snapshot(self._storage)
        missing = [one for one in LATER if not has_feature(read.state, one)] if name is None else [name]
        if not missing:
            return Answer.NOTHING
        feature = self._random.choice(missing)

        def alter(_: list[Action], metadata: Action) -> bool:
            metadata["configuration"] |= PROPERTIES[feature]
            return True

        return self._alter("SET TBLPROPERTIES", alter, (feature,))

    def _alter(
        self, operation: str, alter: Callable[[list[Action], Action], bool], features: tuple[str, ...] = ()
    ) -> Answer:
        read = read_snapshot(self._storage)
        assert read.state.metadata is not None
        metadata: Action = {**read.state.metadata, "configuration": read.properties}
        fields = json.loads(metadata["schemaString"])["fields"]
        if not alter(fields, metadata):
            return Answer.NOTHING
        metadata["schemaString"] = _schema(fields)
        change = Change(operation, [{"metaData": metadata}], features=features)
        if features:
            protocol = read.state.protocol or {}
            had = protocol.get("writerFeatures") or (LEGACY if protocol["minWriterVersion"] >= 2 else ())
            change.lines.insert(0, _protocol([*had, *features]))
        self._intend(change, alters=True)
        return self._commit(read, change)

    def checkpoint(self, kind: CheckpointKind | None = None) -> Answer:
        """Write a checkpoint of the newest version, and the hint."""
        return self._run(lambda: self._checkpoint(kind))

    def _checkpoint(self, kind: CheckpointKind | None) -> Answer:
        read = read_snapshot(self._storage)
        kind = kind or self._random.choice(_V2 if has_feature(read.state, "v2Checkpoint") else _CLASSIC)
        if any(one.version == read.version for one in checkpoints_of(read.listed)):
            return Answer.NOTHING
        self._say(Intent("checkpoint", is_trusting=True))
        kept = duration_ms(read.properties.get("delta.deletedFileRetentionDuration"), DEFAULT_RETENTION_MS)
        cutoff = self._clock.now_ms() - kept
        tombstones = {
            key: one for key, one in read.state.tombstones.items() if one.get("deletionTimestamp", 0) > cutoff
        }
        actions = replace(read.state, tombstones=tombstones).actions()
        if kind is CheckpointKind.MULTI_PART:  # parts of two writers fit together
            actions = sorted(read.state.actions(), key=json.dumps)
        written = write_checkpoint(read.version, actions, kind, Shape(), tag=str(self._random.random()))
        for name, data in (*written.sidecars.items(), *written.top.items()):
            self._storage.put(f"{LOG}/{name}", data)
        hint: dict[str, object] = {"version": read.version, "size": len(actions)}
        if kind is CheckpointKind.MULTI_PART:
            hint["parts"] = len(written.top)
        self._storage.put(HINT, json.dumps(hint).encode())
        return Answer.DONE

    def clean_log(self) -> Answer:
        """Delete what is older than the retention of the log, up to a checkpoint. Spec: Metadata Cleanup."""
        return self._run(self._clean_log)

    def _clean_log(self) -> Answer:
        read = read_snapshot(self._storage)
        kept = duration_ms(read.properties.get("delta.logRetentionDuration"), 30 * DAY_MS)
        cutoff = (self._clock.now_ms() - kept) // DAY_MS * DAY_MS
        old = {
            name_of(path).version
            for path, file in read.listed.items()
            if name_of(path).kind is Kind.COMMIT and file.modified_ms <= cutoff
        }
        starts = [one for one in checkpoints_of(read.listed) if one.version <= max(old, default=-1)]
        if not starts or not self._is_whole(starts[-1].paths):
            return Answer.NOTHING
        first = starts[-1].version
        gone = [
            path
            for path in read.listed
            if (name := name_of(path)).kind in (Kind.COMMIT, Kind.CHECKPOINT, Kind.CHECKSUM, Kind.COMPACTION)
            and name.version < first
        ]
        if not gone:
            return Answer.NOTHING
        self._say(Intent("log cleanup", expires=True, is_trusting=True))
        for _ in self._storage.delete_many(gone):
            pass
        return Answer.DONE

    def _is_whole(self, paths: Iterable[str]) -> bool:
        return all(size > 0 for size in self._storage.stat_many(list(paths))[0])

    # How it commits

    def _run(self, steps: Callable[[], Answer]) -> Answer:
        """The answer of some steps; what stops them is an answer, too, but for a crash."""
        self._txn_id = str(self._uuid())
        self._has_said = False
        try:
            answer = steps()
        except (Damaged, DeltacliError):
            answer = Answer.GAVE_UP
        if self._witness is not None and self._has_said:
            self._witness.judge_answer(self.name, answer)
        return answer

    def _say(self, intent: Intent) -> None:
        self._has_said = True
        if self._witness is not None:
            self._witness.intends(self.name, intent)

    def _intend(
        self, change: Change, *, adds: Rows | None = None, removes: Rows | None = None, alters: bool = False
    ) -> None:
        self._say(
            Intent(
                change.operation,
                adds or Counter(),
                removes or Counter(),
                commits=True,
                alters=alters,
                is_trusting=True,
                txn_id=self._txn_id,
            )
        )

    def _commit(self, read: Snapshot, change: Change, born: State | None = None) -> Answer:
        """Create the next version, behind those who were faster, unless they touched what this one read."""
        while True:
            lines = self._lines(read, change, born)
            data = to_bytes(lines)
            path = commit_path(read.version + 1)
            try:
                outcome = self._storage.put_if_absent(path, data)
            except DeltacliError:
                outcome = Unknown("failed")
            if isinstance(outcome, Created):
                self._committed(read, lines)
                return Answer.DONE
            try:
                winner = self._storage.read(path)
            except FileMissing:
                return Answer.UNKNOWN
            except DeltacliError:
                return Answer.UNKNOWN if isinstance(outcome, Unknown) else Answer.GAVE_UP
            if winner == data:
                self._committed(read, lines)
                return Answer.DONE
            theirs = lines_of(winner)
            if _is_conflict(change, theirs):
                return Answer.GAVE_UP
            read = read.after(theirs, self._storage.stat(path).modified_ms)

    def _lines(self, read: Snapshot, change: Change, born: State | None) -> list[Line]:
        version, now_ms = read.version + 1, self._clock.now_ms()
        lines = [dict(line) for line in change.lines]
        after = read.state.after(lines)
        info: Action = {
            "timestamp": now_ms,
            "operationParameters": {},
            "isBlindAppend": change.is_blind,
            "engineInfo": "model",
            "txnId": self._txn_id,
        }
        if is_on(after, "delta.enableInCommitTimestamps"):
            time_ms = max(now_ms, read.time_ms + 1)
            info = {"inCommitTimestamp": time_ms, **info}
            if "inCommitTimestamp" in change.features:
                for line in lines:
                    if metadata := line.get("metaData"):
                        since = {"Version": str(version), "Timestamp": str(time_ms)}
                        said = {f"delta.inCommitTimestampEnablement{name}": value for name, value in since.items()}
                        line["metaData"] = {**metadata, "configuration": {**metadata["configuration"], **said}}
        if has_feature(after, "rowTracking"):
            lines = _with_row_ids(lines, read.state, version)
        if not change.data_change:
            lines = [
                {kind: {**action, "dataChange": False} if kind in ("add", "remove") else action}
                for line in lines
                for kind, action in line.items()
            ]
        assert born is None or version == 0
        return [commit_info(change.operation, **info), *lines]

    def _committed(self, read: Snapshot, lines: Sequence[Line]) -> None:
        """Write the checksum, where it does that."""
        if not self._checksums:
            return
        made = read.after(tuple(lines), 0)
        live = made.live
        said: Action = {
            "txnId": self._txn_id,
            "tableSizeBytes": sum(add["size"] for add in live),
            "numFiles": len(live),
            "numMetadata": 1,
            "numProtocol": 1,
            "setTransactions": [],
            "domainMetadata": list(made.state.live_domains.values()),
            "metadata": made.state.metadata,
            "protocol": made.state.protocol,
        }
        if is_on(made.state, "delta.enableInCommitTimestamps"):
            said["inCommitTimestampOpt"] = made.time_ms
        self._storage.put_if_absent(f"{LOG}/{made.version:020d}.crc", json.dumps(said).encode())

    # Rows and files

    def _new_rows(self, state: State) -> Rows:
        count = self._random.randint(1, 5)
        part = self._random.choice("ab")
        return Counter(_row(self._values(columns_of(state), part)) for _ in range(count))

    def _values(self, columns: Sequence[Column], part: str) -> Values:
        found: Values = {}
        for column in columns:
            match column.name:
                case "id":
                    found[column.physical] = self._random.getrandbits(40)
                case "p":
                    found[column.physical] = part
                case _ if column.type == "string":
                    found[column.physical] = self._random.choice((None, "x", "yy"))
                case _:
                    found[column.physical] = self._random.choice((None, self._random.randrange(100)))
        return found

    def _changed(self, old: Tracked, state: State) -> Values:
        """A row with another value."""
        values = dict(old.row)
        for column in columns_of(state):
            if column.name not in ("id", "p") and column.type != "string":
                values[column.physical] = self._random.randrange(100, 1_000)
        return values

    def _write(self, state: State, rows: Rows) -> list[Line]:
        return self._write_stored(state, [Stored(dict(row)) for row in rows.elements()])

    def _write_stored(self, state: State, rows: Sequence[Stored]) -> list[Line]:
        """Write files of rows, one for each partition, and return their adds."""
        assert state.metadata is not None
        columns = columns_of(state)
        of_partition = [column for column in columns if column.name in state.metadata["partitionColumns"]]
        stored = [column for column in columns if column not in of_partition]
        groups: dict[tuple[Any, ...], list[Stored]] = {}  # Any: values of columns
        for one in rows:
            groups.setdefault(tuple(one.values.get(column.physical) for column in of_partition), []).append(one)
        lines: list[Line] = []
        for key, group in groups.items():
            values = {column.physical: value for column, value in zip(of_partition, key, strict=True)}
            directory = "".join(f"{column.name}={value}/" for column, value in zip(of_partition, key, strict=True))
            path = f"{directory}part-00000-{self._uuid()}.c000.parquet"
            data = _file(stored, group, state)
            self._storage.put(path, data)
            stats = _statistics(stored, group)
            now_ms = self._clock.now_ms()
            name = quote(path, safe="/=")
            lines.append(add_line(name, size=len(data), stats=stats, partition_values=values, modified_ms=now_ms))
        return lines

    def _remove(self, add: Action) -> Line:
        kept = ("partitionValues", "size", "baseRowId", "defaultRowCommitVersion")
        others = {name: add[name] for name in kept if name in add}
        return remove_line(
            add["path"],
            vector=add.get("deletionVector"),
            deleted_ms=self._clock.now_ms(),
            extendedFileMetadata=True,
            **others,
        )

    def _field(self, name: str, kind: str, number: int, mapped: bool) -> Action:
        metadata: Action = {}
        if mapped:
            physical = f"col-{self._uuid()}"
            metadata = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
        return {"name": name, "type": kind, "nullable": True, "metadata": metadata}

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128), version=4)


def _protocol(features: Sequence[str]) -> Line:
    if not features:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    wanted = {*features, *LEGACY, *(("domainMetadata",) if "rowTracking" in features else ())}
    readers = sorted(wanted & {*READER_FEATURES})
    writer: Action = {"minWriterVersion": 7, "writerFeatures": sorted(wanted)}
    return {
        "protocol": {"minReaderVersion": 3 if readers else 1, **writer}
        | ({"readerFeatures": readers} if readers else {})
    }


def _schema(fields: Sequence[Action]) -> str:
    return json.dumps({"type": "struct", "fields": list(fields)}, separators=(",", ":"))


def _paths(adds: Iterable[Action]) -> frozenset[bytes]:
    return frozenset(identity(add["path"]) for add in adds)


def _row(values: Values) -> tuple[tuple[str, object], ...]:
    return tuple(sorted((name, value) for name, value in values.items() if value is not None))


def _kept(row: Tracked) -> Stored:
    """A row that is written again: it keeps its id and version, where it has them."""
    return Stored(dict(row.row), *((row.row_id, row.version) if row.row_id >= 0 else ()))


def _is_conflict(change: Change, theirs: Sequence[Line]) -> bool:
    """Whether a commit that was faster touched what this one read. Spark: ConflictChecker."""
    for line in theirs:
        if "metaData" in line or "protocol" in line:
            return True
        if "remove" in line and identity(line["remove"]["path"]) in change.reads:
            return True
        if "add" in line and change.reads_all:
            return True
    return False


def _with_row_ids(lines: Sequence[Line], before: State, version: int) -> list[Line]:
    """Give fresh ids to new files, above the mark, and move the mark."""
    found = before.domains.get(HIGH_WATER_MARK)
    mark = start = -1 if found is None else int(json.loads(found["configuration"])["rowIdHighWaterMark"])
    known = {path for path, _ in before.live}
    result: list[Line] = []
    for line in lines:
        if (add := line.get("add")) is not None and identity(add["path"]) not in known:
            line = {"add": {**add, "baseRowId": mark + 1, "defaultRowCommitVersion": version}}
            mark += int(json.loads(add["stats"])["numRecords"])
        result.append(line)
    if mark != start:
        result.append(domain(HIGH_WATER_MARK, json.dumps({"rowIdHighWaterMark": mark})))
    return result


def _file(columns: Sequence[Column], rows: Sequence[Stored], state: State) -> bytes:
    """A data file; with the columns of row ids where rows have them already."""
    arrays = {
        column.physical: pa.array([one.values.get(column.physical) for one in rows], _TYPES[column.type])
        for column in columns
    }
    names = configuration_of(state)
    if ROW_ID in names and any(one.row_id is not None for one in rows):
        arrays[names[ROW_ID]] = pa.array([one.row_id for one in rows], pa.int64())
        arrays[names[ROW_VERSION]] = pa.array([one.version for one in rows], pa.int64())
    table = pa.table(arrays)
    if is_mapped(state):
        numbers = {
            one["metadata"]["delta.columnMapping.physicalName"]: str(one["metadata"]["delta.columnMapping.id"])
            for one in json.loads((state.metadata or {})["schemaString"])["fields"]
        }
        fields = [
            one.with_metadata({"PARQUET:field_id": numbers[one.name]}) if one.name in numbers else one
            for one in table.schema
        ]
        table = table.cast(pa.schema(fields))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression="none", use_dictionary=False) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _statistics(columns: Sequence[Column], rows: Sequence[Stored]) -> str:
    low: Values = {}
    high: Values = {}
    nulls: Values = {}
    for column in columns:
        values = [value for one in rows if (value := one.values.get(column.physical)) is not None]
        nulls[column.physical] = len(rows) - len(values)
        if values:
            low[column.physical], high[column.physical] = min(values), max(values)
    return json.dumps({"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": nulls})
