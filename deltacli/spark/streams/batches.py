"""From an offset to the end of a batch, and from two offsets to their files: functions of the log alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from deltacli.errors import DeltacliError, Unreadable
from deltacli.spark.streams.offsets import StreamOffset
from deltacli.work.rows.data_files import DataFile


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
