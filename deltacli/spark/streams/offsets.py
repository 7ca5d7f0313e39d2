"""Where a stream is in a table: the next file to deliver.

An offset names all that a replay needs. Batches are replayed after a restart from two offsets alone, and where the
first batch is replayed, its start is the beginning again: so each other offset says how the stream began.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from deltacli.errors import Unreadable

FORMAT = 1
_BEGINNING = -1


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """All files before it are delivered: those of versions below `version`, and the first `index` ones of it.

    `first` is the first version whose commit is delivered. With `has_snapshot`, the files of the version before it were
    delivered first, all that were live. `schema` identifies the columns that the stream had.
    """

    table: str
    schema: str
    first: int = _BEGINNING
    has_snapshot: bool = False
    version: int = _BEGINNING
    index: int = 0

    @classmethod
    def after(cls, table: str, schema: str, version: int, *, with_snapshot: bool) -> Self:
        """Return the offset from which a stream delivers the commits after a version, or the version itself before."""
        start = version if with_snapshot else version + 1
        return cls(table, schema, version + 1, with_snapshot, start)

    @property
    def is_beginning(self) -> bool:
        """Return True before the first batch, when no version has been chosen."""
        return self.version == _BEGINNING

    @property
    def is_in_snapshot(self) -> bool:
        """Return True if the next file is one of the snapshot that a stream begins with."""
        return not self.is_beginning and self.version < self.first

    @property
    def place(self) -> tuple[int, int]:
        """Return what orders the offsets of one stream."""
        return self.version, self.index

    @property
    def begin(self) -> StreamOffset:
        """Return the offset of the first file of this stream."""
        return replace(self, version=self.first - 1 if self.has_snapshot else self.first, index=0)

    @property
    def after_version(self) -> StreamOffset:
        """Return the offset after the last file of this version."""
        return replace(self, version=self.version + 1, index=0)

    def after_files(self, count: int) -> StreamOffset:
        """Return the offset after so many further files of this version."""
        return replace(self, index=self.index + count)

    def as_json(self) -> dict[str, Any]:
        """Return the offset as Spark keeps it in a checkpoint."""
        return {
            "format": FORMAT,
            "table": self.table,
            "schema": self.schema,
            "first": self.first,
            "snapshot": self.has_snapshot,
            "version": self.version,
            "index": self.index,
        }

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Self:
        """Read an offset. Raises Unreadable (`stream.offset`) for one of another format or of another source."""
        found = [value.get(key) for key in ("table", "schema", "first", "snapshot", "version", "index")]
        kinds = (str, str, int, bool, int, int)
        if value.get("format") != FORMAT or any(
            type(item) is not kind for item, kind in zip(found, kinds, strict=True)
        ):
            raise Unreadable(
                "the checkpoint has an offset that deltacli did not write, or that a newer version wrote",
                code="stream.offset",
                facts={"offset": json.dumps(dict(value), default=str)[:200]},
                hint="use another checkpointLocation: the stream begins anew",
            )
        return cls(*found)  # type: ignore[arg-type]
