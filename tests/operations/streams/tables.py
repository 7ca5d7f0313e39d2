"""Tables beside which streams stand: histories of twenty versions whose files are there, with their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from uuid import UUID

from tests.support.actions import Action, Line, add, commit_info, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.reading import NOW_MS
from tests.support.small_vectors import vector_path
from tests.support.vacuum_hazards import DAY_MS, vector_of

NEWEST = 20
_FEATURES = ["deletionVectors"]
Commits = Mapping[int, Sequence[Line]]


def name_of(version: int) -> str:
    """Return the file that a plain commit adds."""
    return f"f{version}.parquet"


def adding(path: str, *, vector: Action | None = None, data_change: bool = True, modified_ms: int = 0) -> Line:
    """Return an add of a file of ten bytes; without a time it is that of its commit."""
    return add(path, size=10, vector=vector, modified_ms=modified_ms, dataChange=data_change)


def removing(
    path: str, *, vector: Action | None = None, data_change: bool = True, deleted_ms: int | None = None
) -> Line:
    """Return a remove; without a time it is that of its commit."""
    return remove(path, vector=vector, deleted_ms=deleted_ms, dataChange=data_change, size=10, partitionValues={})


def changing(path: str) -> Line:
    """Return the action of a change data file."""
    return {"cdc": {"path": path, "partitionValues": {}, "size": 10, "dataChange": False}}


def vector(number: int) -> Action:
    """Return the descriptor of a vector in a file of its own."""
    return vector_of(UUID(int=number))


def vector_file(number: int) -> str:
    """Return the file of that vector."""
    return vector_path(UUID(int=number))


class History:
    """A table of versions 0 to `newest`. Version v adds `fV.parquet`, unless `commits` has others; commits are three
    hours apart, unless `ages` makes one older (days).
    """

    def __init__(
        self,
        commits: Commits | None = None,
        *,
        newest: int = NEWEST,
        ages: Mapping[int, float] | None = None,
        checkpoints: Sequence[int] = (10,),
        properties: Mapping[str, str] | None = None,
        gone: Sequence[str] = (),
    ) -> None:
        self.newest = newest
        self._commits, self._ages = commits or {}, ages or {}
        self._checkpoints, self._gone = checkpoints, gone
        self._properties = {"delta.enableDeletionVectors": "true", **(properties or {})}

    @property
    def has_feed(self) -> bool:
        """Return True if the table records changes."""
        return self._properties.get("delta.enableChangeDataFeed") == "true"

    def time_of(self, version: int) -> int:
        """Return when a version was committed, in epoch milliseconds."""
        days = max([(self.newest - version) / 8, *(age for at, age in self._ages.items() if at >= version)])
        return NOW_MS - int(days * DAY_MS) - (self.newest - version) * 60_000 - 60_000

    def build(self) -> TableBuilder:
        """Return the table."""
        builder = TableBuilder()
        for version in range(self.newest + 1):
            moment = self.time_of(version)
            lines = deepcopy([*self._commits.get(version, [adding(name_of(version))])])
            if version == 0:
                features = [*_FEATURES, "changeDataFeed"]
                start = protocol(3, 7, reader_features=_FEATURES, writer_features=features)
                lines = [start, metadata(configuration=self._properties), *lines]
            for line in lines:
                for kind, field in (("add", "modificationTime"), ("remove", "deletionTimestamp")):
                    if kind in line and not line[kind].get(field):
                        line[kind][field] = moment
            builder.commit(commit_info(timestamp=moment), *lines, modified_ms=moment)
            for line in lines:
                for kind in ("add", "cdc"):
                    if kind in line:
                        self._store(builder, line[kind], moment)
        for version in self._checkpoints:
            builder.checkpoint(version)
        for path in self._gone:
            del builder.files[path]
        return builder

    def write(self, directory: Path) -> Path:
        """Put it into a directory, and return that."""
        return self.build().write(directory)

    def _store(self, builder: TableBuilder, action: Action, moment: int) -> None:
        if action["path"] not in builder.files:
            builder.file(action["path"], b"0123456789", modified_ms=moment)
        if found := action.get("deletionVector"):
            for number in range(100):
                if vector(number)["pathOrInlineDv"] == found["pathOrInlineDv"]:
                    builder.file(vector_file(number), b"0123456789", modified_ms=moment)
