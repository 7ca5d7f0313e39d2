"""Random histories of a table that got row tracking: each row keeps one id, which no other row ever has."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from deltacli.api.table import Table
from deltacli.delta.log.commit_content import CommitRequest, body_lines
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.storage import Storage
from tests.support.actions import Line, add, commit_info, metadata, protocol, remove
from tests.support.builder import EPOCH_MS, TableBuilder
from tests.support.committing import run
from tests.support.effort import examples
from tests.support.file_commits import live_files
from tests.support.reading import open_at
from tests.support.rows import parquet_bytes
from tests.support.small_vectors import inline

FEATURES = ["columnMapping", "deletionVectors"]
COLUMN = "delta.columnMapping.id", "delta.columnMapping.physicalName"


class History:
    """A table of rows with a key, and what is known of it: the id of each key, and the live keys of each version."""

    def __init__(self, *, is_mapped: bool, sizes: list[int]) -> None:
        self.names = ("col-1", "col-2") if is_mapped else ("key", "p")
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": dict(zip(COLUMN, (at, stored), strict=True))}
            for at, (name, kind, stored) in enumerate(zip(("key", "p"), ("long", "string"), self.names, strict=True), 1)
        ]
        mode = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"} if is_mapped else {}
        self._born: list[Line] = [
            protocol(3, 7, reader_features=FEATURES, writer_features=FEATURES),
            metadata(
                schema_string=json.dumps({"type": "struct", "fields": fields}),
                partition_columns=["p"],
                configuration={**mode, "delta.enableDeletionVectors": "true"},
            ),
        ]
        self._keys, self.live = 0, set[int]()
        builder = TableBuilder()
        files = [self._file(builder.file, size, str(at % 2)) for at, size in enumerate(sizes)]
        builder.commit(commit_info(), *self._born, *files)
        self.store: Storage = builder.in_memory()
        self.table.set_properties({"delta.enableRowTracking": "true"}, upgrade_protocol=True)
        self.first = self.table.snapshot().version
        self.known: dict[int, tuple[int, int]] = {}
        self.states: dict[int, frozenset[int]] = {}

    @property
    def table(self) -> Table:
        return open_at(self.store, engine=EmbeddedEngine(1))

    def _file(self, put: Any, size: int, partition: str) -> Line:  # Any: a method of a builder or of a store
        keys = range(self._keys, self._keys + size)
        path = f"f{self._keys}-{size}-{partition}"
        self._keys += size
        content = parquet_bytes(pa.table({self.names[0]: pa.array(keys, pa.int64())}), row_group_size=2)
        put(path, content)
        self.live.update(keys)
        values = {self.names[1]: partition}
        return add(path, size=len(content), records=size, partition_values=values, modified_ms=EPOCH_MS)

    # -- what happens to it -------------------------------------------------------------------------------------------

    def append(self, draw: Any) -> None:  # Any: `st.DataObject.draw`, here and below
        size = draw(st.integers(1, 4))
        action = self._file(self.store.put_if_absent, size, draw(st.sampled_from("01")))["add"]
        lines = [{"add": action}]
        run(self.store, lambda _: CommitRequest("WRITE", body=lambda slot: body_lines(lines, slot), new_rows=size))

    def delete(self, draw: Any) -> None:
        """Delete rows of a file by a vector, as an engine does: the add keeps its ids. Its tag names the rows, too."""
        files = sorted(live_files(self.table.snapshot()).values(), key=lambda one: str(one["path"]))
        file = draw(st.sampled_from(files))
        keys = pq.read_table(io.BytesIO(self.store.read(file["path"])))[self.names[0]].to_pylist()
        gone = draw(st.sets(st.integers(0, len(keys) - 1), min_size=1))
        had = set(json.loads(file.get("tags", {}).get("deleted", "[]")))
        if gone <= had:
            return
        every = sorted(gone | had)
        again = {
            **file,
            "stats": json.dumps({"numRecords": len(keys), "tightBounds": False}),
            "deletionVector": inline(every),
            "tags": {"deleted": json.dumps(every)},
            "dataChange": True,
        }
        lines: list[Line] = [remove(file["path"], vector=file.get("deletionVector")), {"add": again}]
        run(self.store, lambda _: CommitRequest("DELETE", body=lambda slot: body_lines(lines, slot)))
        self.live -= {keys[row] for row in gone}

    def optimize(self, draw: Any) -> None:
        self.table.optimize(purge=draw(st.booleans()))

    def restore(self, draw: Any) -> None:
        version = draw(st.sampled_from(sorted(self.states)))
        self.table.restore(version=version)
        self.live = set(self.states[version])

    # -- what must hold -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        snapshot = self.table.snapshot()
        self.states[snapshot.version] = frozenset(self.live)
        rows = snapshot.scan(row_ids=True).to_arrow().to_pylist()
        found = {row["key"]: (row["_row_id"], row["_row_commit_version"]) for row in rows}
        assert len(rows) == len(found)
        assert self.live == found.keys()
        for key, ids in found.items():
            assert ids == self.known.setdefault(key, ids), key
        every = [one for one, _ in self.known.values()]
        assert len(every) == len({*every})
        marks = {one.domain: one.configuration for one in snapshot.domains}
        assert max(every, default=-1) <= json.loads(marks["delta.rowTracking"])["rowIdHighWaterMark"]


STEPS = st.lists(st.sampled_from(["append", "delete", "optimize", "restore"]), max_size=6)


@given(st.booleans(), st.lists(st.integers(1, 5), min_size=1, max_size=4), STEPS, st.data())
@examples(25)
def test_each_row_keeps_its_id(is_mapped: bool, sizes: list[int], steps: list[str], data: st.DataObject) -> None:
    """
    Over appends, vectors, optimize with and without a purge, and restores, of a partitioned table, with mapped names.
    """
    history = History(is_mapped=is_mapped, sizes=sizes)
    history.check()
    for step in steps:
        if history.live or step != "delete":
            getattr(history, step)(data.draw)
            history.check()
