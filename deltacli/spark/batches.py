"""Where a stream is in a table, from there to the end of a batch, and from two offsets to their files: functions of the
log alone.

An offset names all that a replay needs. Batches are replayed after a restart from two offsets alone, and where the
first batch is replayed, its start is the beginning again: so each other offset says how the stream began.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from deltacli.core.errors import DeltacliError, Unreadable
from deltacli.work.rows.data_files import DataFile

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


@dataclass(frozen=True, slots=True)
class Limits:
    """What a batch takes at most. The file that exceeds the bytes is the last one of its batch."""

    files: int | None = None
    size_bytes: int | None = None


class StreamLog(Protocol):
    """What the log gives to a stream. The files of a version are always the same, in the same order."""

    is_atomic: bool
    """Commits are delivered whole, whatever the limits."""

    @property
    def table(self) -> str:
        """Return the id of the table."""
        ...

    @property
    def schema(self) -> str:
        """Return the id of the columns that are read."""
        ...

    def snapshot_files(self, version: int) -> Sequence[DataFile]:
        """Return the live files of a version."""
        ...

    def commit_files(self, version: int) -> Sequence[DataFile]:
        """Return the files to deliver of a commit. Raises where the stream must stop before it."""
        ...


@dataclass(slots=True)
class _Quota:
    """What is left of the limits of a batch."""

    files: int | None
    size_bytes: int | None

    @property
    def is_used(self) -> bool:
        return (self.files is not None and self.files <= 0) or (self.size_bytes is not None and self.size_bytes <= 0)

    def take(self, files: Sequence[DataFile], *, whole: bool) -> int:
        """Return how many of the files fit, from the first on, and count them; at least one where any is left."""
        taken = 0
        for file in files:
            if self.is_used and not whole:
                break
            taken += 1
            if self.files is not None:
                self.files -= 1
            if self.size_bytes is not None:
                self.size_bytes -= max(file.size_bytes or 0, 0)
        return taken


def next_offset(log: StreamLog, start: StreamOffset, newest: int, limits: Limits) -> StreamOffset:
    """Return the end of the batch that starts at an offset, which is not the beginning; `start` where nothing is new.

    `newest` is the last version that may be delivered. A fault of a commit ends the batch before it, and is raised
    where the batch would be empty: so what precedes a change of the schema is delivered first.
    """
    require_same_table(log, start)
    quota = _Quota(limits.files, limits.size_bytes)
    position = start
    while position.version <= newest and not quota.is_used:
        try:
            files = _files_of(log, position)
        except DeltacliError:
            if position.place == start.place:
                raise
            break
        rest = files[position.index :]
        taken = quota.take(rest, whole=log.is_atomic and not position.is_in_snapshot)
        position = position.after_version if taken == len(rest) else position.after_files(taken)
    return start if position.place == start.place else replace(position, schema=log.schema)


def files_between(log: StreamLog, start: StreamOffset, end: StreamOffset) -> Iterator[DataFile]:
    """Yield the files from one offset to another. Raises what `StreamLog` raises, and Unreadable (`stream.offset`)."""
    require_same_table(log, end)
    position = end.begin if start.is_beginning else start
    require_same_table(log, position)
    while not end.is_beginning and position.place < end.place:
        files = _files_of(log, position)
        if position.version < end.version:
            yield from files[position.index :]
            position = position.after_version
            continue
        if end.index > len(files):
            raise _not_of_this_log(end, len(files))
        yield from files[position.index : end.index]
        return


def _files_of(log: StreamLog, position: StreamOffset) -> Sequence[DataFile]:
    """Return the files of the version of an offset. Raises Unreadable where it names more of them."""
    version = position.version
    files = log.snapshot_files(version) if position.is_in_snapshot else log.commit_files(version)
    if position.index > len(files):
        raise _not_of_this_log(position, len(files))
    return files


def require_same_table(log: StreamLog, offset: StreamOffset) -> None:
    """Raise Unreadable where an offset is of another table, such as one that was here before."""
    if offset.table != log.table:
        raise Unreadable(
            "the checkpoint of the stream is of another table: this one was created anew, or is at another path",
            code="stream.other-table",
            facts={"table id": log.table, "table id in the checkpoint": offset.table},
            hint="use another checkpointLocation: the stream begins anew",
        )


def _not_of_this_log(offset: StreamOffset, count: int) -> Unreadable:
    return Unreadable(
        f"the checkpoint of the stream is at file {offset.index} of version {offset.version}, which has {count}",
        code="stream.offset",
        facts={"version": str(offset.version)},
        hint="start with the options the stream had before, or use another checkpointLocation",
    )
