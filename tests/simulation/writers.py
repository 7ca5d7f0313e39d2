"""Model writers: other engines as they read a table, write files and create the next version.

Each step is a call of the storage port, where other actors come between; a crash may come out of any of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from tests.simulation.committing import Change, Committer, paths_of_files
from tests.simulation.promises import Answer, Intent
from tests.simulation.reading import (
    Kind,
    Tracked,
    checkpoints_of,
    has_feature,
    is_on,
    name_of,
    row_of,
)
from tests.simulation.snapshots import Snapshot, read_rows, read_snapshot, read_vector
from tests.simulation.stored import (
    LATER,
    LEGACY,
    PROPERTIES,
    Stored,
    protocol_of,
    schema_of,
    stored_row,
)
from tests.support.actions import Action, Line
from tests.support.builder import HINT, LOG
from tests.support.checkpoints import CheckpointKind, Shape, write_checkpoint
from tests.support.model import State
from tests.support.small_vectors import inline, vector_file, vector_path
from tests.world.oracle import DEFAULT_RETENTION_MS, duration_ms

DAY_MS = 24 * 3_600_000
_V2 = (CheckpointKind.V2_PARQUET, CheckpointKind.V2_JSON, CheckpointKind.V2_PARQUET_INLINE)
_CLASSIC = (CheckpointKind.CLASSIC, CheckpointKind.MULTI_PART)


class Writer(Committer):
    """An engine that writes to a table. Every method reads the newest version first and says how it ended."""

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

    def create(
        self, features: Sequence[str] = (), properties: Mapping[str, str] | None = None, *, is_partitioned: bool = False
    ) -> Answer:
        """Version 0: columns `id`, `n`, `p`, and some rows."""
        configuration = dict(properties or {})
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
                "schemaString": schema_of(fields),
                "partitionColumns": ["p"] if is_partitioned else [],
                "configuration": configuration,
                "createdTime": self._clock.now_ms(),
            }
        }
        born = State().after([protocol_of([*features]), metadata])
        change = Change("CREATE TABLE AS SELECT", [protocol_of([*features]), metadata])
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
        change = Change("WRITE", reads=paths_of_files(read.live), reads_all=True)
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
            kept += [stored_row(one) for one in rows if one.position not in positions] if how == "copy" else []
        gone = [one for rows in hit.values() for one in rows]
        if not gone:
            return Answer.NOTHING
        new = [
            replace(stored_row(one), values=self._changed(one, read.state), version=None) for one in gone if is_update
        ]
        change = Change(operation, reads=paths_of_files(chosen))
        self._intend(change, adds=Counter(row_of(one.values) for one in new), removes=Counter(one.row for one in gone))
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
        change = Change("OPTIMIZE", reads=paths_of_files(chosen), data_change=False)
        self._intend(change)
        change.lines = [*map(self._remove, chosen), *self._write_stored(read.state, [stored_row(one) for one in rows])]
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
        metadata["schemaString"] = schema_of(fields)
        change = Change(operation, [{"metaData": metadata}], features=features)
        if features:
            protocol = read.state.protocol or {}
            had = protocol.get("writerFeatures") or (LEGACY if protocol["minWriterVersion"] >= 2 else ())
            change.lines.insert(0, protocol_of([*had, *features]))
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
        written = write_checkpoint(read.version, actions, kind, self._shape(), tag=str(self._random.random()))
        if len(written.top) > 1 and self._is_whole([f"{LOG}/{min(written.top)}"]):  # parts of others do not fit
            return Answer.NOTHING
        for name, data in (*written.sidecars.items(), *written.top.items()):
            self._storage.put(f"{LOG}/{name}", data)
        hint: dict[str, object] = {"version": read.version, "size": len(actions)}
        if kind is CheckpointKind.MULTI_PART:
            hint["parts"] = len(written.top)
        self._storage.put(HINT, json.dumps(hint).encode())
        return Answer.DONE

    def _shape(self) -> Shape:
        """All columns as Spark has them, or those that are needed, which is quicker."""
        return Shape() if self._random.random() < 0.25 else Shape(absent_columns=True, compression="none")

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
