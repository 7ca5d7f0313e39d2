"""Tables that grow while they are read: each row has a number of its own."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa

from tests.support.actions import Action, Line, add, metadata, protocol, remove
from tests.support.builder import commit_path
from tests.support.rows import parquet_bytes, schema_of
from tests.support.small_vectors import inline


class Grown:
    """A table on the disk. Each method but `file` commits a version."""

    def __init__(self, root: Path) -> None:
        self.root, self.rows, self.version = root, 0, -1
        features = ["deletionVectors"]
        lines = [protocol(3, 7, reader_features=features, writer_features=[*features, "changeDataFeed"])]
        self.commit(*lines, self._metadata())

    def commit(self, *lines: Line) -> None:
        """Any other commit. It appears at once as a whole."""
        self.version += 1
        place = self.root / commit_path(self.version)
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f".{place.name}")
        draft.write_text("".join(json.dumps(line) + "\n" for line in lines))
        draft.rename(place)

    def append(self, *, files: int = 1, rows: int = 3) -> list[Action]:
        """Add files of new rows, and return the adds."""
        lines = [self.file(rows) for _ in range(files)]
        self.commit(*lines)
        return [line["add"] for line in lines]

    def delete(self, action: Action, rows: Collection[int]) -> None:
        """Delete rows of a file by a vector."""
        deleted = action | {"deletionVector": inline(rows), "stats": json.dumps({"numRecords": 9})}
        self.commit(self._removal(action), {"add": deleted})

    def remove(self, action: Action) -> None:
        """Delete all rows of a file."""
        self.commit(self._removal(action))

    def rewrite(self, action: Action) -> None:
        """Move the rows of a file to another one, as an optimize does."""
        path = f"copy-of-{action['path']}"
        (self.root / path).write_bytes((self.root / action["path"]).read_bytes())
        unchanged = {"dataChange": False}
        removal = self._removal(action)["remove"] | unchanged
        self.commit({"remove": removal}, {"add": action | unchanged | {"path": path}})

    def set_columns(self, **more: pa.DataType) -> None:
        """Set the schema: `id`, and more columns."""
        self.commit(self._metadata(**more))

    def file(self, rows: int = 3) -> Line:
        """Write a file of new rows."""
        data = parquet_bytes(pa.table({"id": pa.array(range(self.rows, self.rows + rows), pa.int64())}))
        path = f"part-{self.rows:06d}.parquet"
        (self.root / path).write_bytes(data)
        self.rows += rows
        return add(path, size=len(data))

    def _metadata(self, **more: pa.DataType) -> Line:
        text = schema_of(pa.schema({"id": pa.int64(), **more}).empty_table())
        return metadata(schema_string=text, configuration={"delta.enableChangeDataFeed": "true"})

    def _removal(self, action: Action) -> Line:
        return remove(action["path"], size=action["size"], partitionValues={})
