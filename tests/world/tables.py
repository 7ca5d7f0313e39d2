"""The table whose world changes, what lies beside it, and steps of other writers on its files."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from functools import cache
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.actions import Action, Line, commit_info, protocol, remove, to_bytes
from tests.support.actions import add as add_line
from tests.support.builder import LOG, Files, StoredFile, commit_path
from tests.support.checkpoints import CheckpointKind, Shape, write_checkpoint
from tests.support.small_vectors import vector_file, vector_path
from tests.world.oracle import Reading

DAY_MS = 24 * 3_600_000
TABLE_ID = "3b1f0c9e-6f3f-4f0e-9a51-6f3a1f2c7d10"
VECTOR_ID = uuid.UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
NEWEST, TARGET, CHECKPOINT, LOST = 8, 5, 3, 4
"""The newest version of the table, the one to restore, that of its checkpoint, and the commit that is lost."""
LOST_FILE = "p=a/a6.parquet"
ORPHAN = "p=a/orphan.parquet"
VECTORS = vector_path(VECTOR_ID)
FEATURES = ("appendOnly", "deletionVectors", "invariants")

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (("id", "long"), ("n", "integer"), ("p", "string"))
        ],
    }
)


@cache
def data_bytes(first: int, count: int = 3) -> bytes:
    """A data file with rows of these ids."""
    ids = range(first, first + count)
    rows = pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array([one % 7 for one in ids], pa.int32())})
    file = BytesIO()
    pq.write_table(rows, file)
    return file.getvalue()


class Writer:
    """Another engine that writes to a table: each step is one on its files, which are changed in place."""

    def __init__(self, files: Files, now_ms: int) -> None:
        self.files, self.now_ms = files, now_ms

    @property
    def reading(self) -> Reading:
        """The table as it is now."""
        return Reading(self.files)

    def put(self, path: str, data: bytes, *, age_ms: int = 0) -> None:
        """Write a file."""
        self.files[path] = StoredFile(data, self.now_ms - age_ms)

    def commit(self, operation: str, lines: Iterable[Line], *, age_ms: int = 0) -> int:
        """Commit the next version."""
        version, at_ms = self.reading.newest + 1, self.now_ms - age_ms
        info = commit_info(
            operation,
            timestamp=at_ms,
            engineInfo="other",
            txnId=str(uuid.uuid5(VECTOR_ID, f"{operation}{version}{at_ms}")),
        )
        self.put(commit_path(version), to_bytes([info, *lines]), age_ms=age_ms)
        return version

    def add(self, path: str, first: int, *, age_ms: int = 0) -> Line:
        """Write a data file and return its action."""
        data = data_bytes(first)
        self.put(path, data, age_ms=age_ms)
        return self.action_of(path, age_ms=age_ms)

    def action_of(self, path: str, *, age_ms: int = 0) -> Line:
        """The add of a file that is there."""
        values = {"p": path[2]}
        at_ms = self.now_ms - age_ms
        size = len(self.files[path].data)
        return add_line(path, size=size, records=3, partition_values=values, modified_ms=at_ms)

    def remove(self, path: str, *, age_ms: int = 0) -> Line:
        """The remove of a live file."""
        at_ms = self.now_ms - age_ms
        size = len(self.files[path].data) if path in self.files else 0
        return remove(path, deleted_ms=at_ms, size=size, partitionValues={"p": path[2]}, extendedFileMetadata=True)

    def metadata(self, *, fields: Sequence[Action] = (), **properties: str) -> Line:
        """The metadata of now with more columns and properties; names of properties have `_` for `.`."""
        now = self.reading.state(self.reading.newest).metadata
        assert now is not None
        schema = json.loads(now["schemaString"])
        schema["fields"] += fields
        added = {name.replace("_", "."): value for name, value in properties.items()}
        return {"metaData": {**now, "schemaString": json.dumps(schema), "configuration": now["configuration"] | added}}

    def checkpoint(self, version: int | None = None, *, age_ms: int = 0) -> None:
        """Write a checkpoint of a version, by default the newest."""
        version = self.reading.newest if version is None else version
        actions = self.reading.state(version).actions()
        for name, data in write_checkpoint(version, actions, CheckpointKind.CLASSIC, Shape()).all.items():
            self.put(f"{LOG}/{name}", data, age_ms=age_ms)
        self.put(f"{LOG}/_last_checkpoint", json.dumps({"version": version, "size": len(actions)}).encode())

    def compaction(self, first: int, last: int) -> None:
        """Write a compaction of commits."""
        kept: dict[object, Line] = {}
        for version in range(first, last + 1):
            for line in self.reading.lines(version):
                kind, action = next(iter(line.items()))
                if kind != "commitInfo":
                    vector = json.dumps(action.get("deletionVector"))
                    kept[(action["path"], vector) if kind in ("add", "remove") else kind] = line
        self.put(f"{LOG}/{first:020d}.{last:020d}.compacted.json", to_bytes([*kept.values()]))

    def delete(self, *paths: str) -> None:
        """Delete files."""
        for path in paths:
            self.files.pop(path, None)


def begun(now_ms: int) -> Writer:
    """A table of five versions; what is the same in the table and in a copy that went its own way."""
    writer = Writer({}, now_ms)

    def age(days: int) -> int:
        return days * DAY_MS

    metadata: Line = {
        "metaData": {
            "id": TABLE_ID,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": SCHEMA,
            "partitionColumns": ["p"],
            "configuration": {"delta.enableDeletionVectors": "true"},
            "createdTime": now_ms - age(50),
        }
    }
    first = [
        writer.add(f"p={p}/{p}{number}.parquet", ids, age_ms=age(50))
        for p, number, ids in (("a", 0, 0), ("b", 1, 10), ("a", 2, 20))
    ]
    writer.commit(
        "WRITE",
        [protocol(3, 7, reader_features=["deletionVectors"], writer_features=list(FEATURES)), metadata, *first],
        age_ms=age(50),
    )  # fmt: skip
    writer.commit("WRITE", [writer.add("p=b/b3.parquet", 30, age_ms=age(49))], age_ms=age(49))
    gone = [writer.remove("p=a/a0.parquet", age_ms=age(45)), writer.remove("p=b/b1.parquet", age_ms=age(45))]
    writer.commit("DELETE", gone, age_ms=age(45))
    writer.commit("WRITE", [writer.add("p=b/b4.parquet", 40, age_ms=age(42))], age_ms=age(42))
    writer.checkpoint(age_ms=age(42))
    vectors = vector_file([[1]])
    writer.put(VECTORS, vectors.data, age_ms=age(20))
    marked = writer.action_of("p=a/a2.parquet", age_ms=age(50))
    marked["add"]["deletionVector"] = vectors.relative(0, VECTOR_ID)
    writer.commit("DELETE", [writer.remove("p=a/a2.parquet", age_ms=age(20)), marked], age_ms=age(20))
    writer.put(ORPHAN, data_bytes(900), age_ms=age(20))
    return writer


def the_table(now_ms: int) -> Files:
    """The table: files to vacuum, to expire, to rewrite and to restore."""
    writer = begun(now_ms)
    for days, removed, added in (
        (10, "p=b/b3.parquet", {"p=b/b5.parquet": 50}),
        (3, "p=b/b4.parquet", {LOST_FILE: 60}),
        (2, None, {"p=a/a7.parquet": 70, "p=b/b7.parquet": 75}),
        (1, None, {"p=a/a8.parquet": 80}),
    ):
        age_ms = days * DAY_MS
        lines = [writer.add(path, first, age_ms=age_ms) for path, first in added.items()]
        writer.commit("WRITE", [*lines, *([writer.remove(removed, age_ms=age_ms)] if removed else [])], age_ms=age_ms)
    return writer.files


def a_diverged_copy(now_ms: int) -> Files:
    """A copy that went its own way from version 5 on: there, files are live that the table removed."""
    writer = begun(now_ms)
    for number, days in ((5, 11), (6, 4), (7, 3), (8, 2), (9, 1)):
        age = days * DAY_MS
        path = f"p={'ab'[number % 2]}/copy{number}.parquet"
        lines = [writer.add(path, 500 + 10 * number, age_ms=age)]
        if number == 6:
            lines.append(writer.action_of("p=a/a0.parquet", age_ms=age))
        writer.commit("WRITE", lines, age_ms=age)
    return writer.files


def a_copy_that_went_on(now_ms: int, after: int) -> Files:
    """A copy that is the table up to a version, and has another commit of its own."""
    writer = Writer(the_table(now_ms), now_ms)
    writer.delete(*(commit_path(version) for version in range(after + 1, NEWEST + 1)))
    writer.commit("WRITE", [writer.add("p=b/own.parquet", 600)])
    return writer.files
