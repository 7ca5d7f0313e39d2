"""A small model of what Spark's Delta source, and deltacli's, do at a restart: independent of deltacli, it reads the
directories with the standard library and pyarrow, and opens what the source opens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote
from uuid import UUID

import pyarrow.parquet as pq

from tests.support.actions import Action, Line
from tests.support.builder import LOG
from tests.support.small_vectors import Z85, vector_path


class Dies(Exception):
    """The query ends with an error at its restart; the text says what is missing."""


class Position(NamedTuple):
    """How far a source has delivered: all of the versions below, and `files` of the version."""

    version: int
    files: int
    in_snapshot: bool
    is_own: bool = False
    first: int = 0
    began_with_snapshot: bool = False


class Newest(NamedTuple):
    """The two newest offsets of a source, and whether the newest batch is finished."""

    start: Position | None
    end: Position | None
    is_finished: bool
    batch: int


@dataclass
class Log:
    """The log of a table as it is on the disk."""

    root: Path
    snapshots: dict[int, list[Action]] = field(default_factory=dict)

    @cached_property
    def commits(self) -> dict[int, Path]:
        """The commits that are there."""
        return {int(path.stem): path for path in (self.root / LOG).glob("*.json") if path.stem.isdigit()}

    @cached_property
    def checkpoints(self) -> dict[int, Path]:
        """The checkpoints in one file."""
        found = (self.root / LOG).glob("*.checkpoint.parquet")
        return {int(path.name.split(".")[0]): path for path in found if path.name.count(".") == 2}

    @property
    def newest(self) -> int:
        """The newest version."""
        return max([*self.commits, *self.checkpoints])

    def lines(self, version: int) -> list[Line]:
        """Return the actions of a commit."""
        if version not in self.commits:
            raise Dies(f"commit {version} is gone")
        return [json.loads(line) for line in self.commits[version].read_text().splitlines()]

    def snapshot(self, version: int) -> list[Action]:
        """Return the live files of a version, in the order in which a stream counts them."""
        if version not in self.snapshots:
            self.snapshots[version] = self._replayed(version)
        return self.snapshots[version]

    def _replayed(self, version: int) -> list[Action]:
        live: dict[tuple[str, str], Action] = {}
        first = self._begin(version)
        if first is None:
            raise Dies(f"snapshot {version} cannot be loaded")
        if first:
            table = pq.read_table(self.checkpoints[first - 1], columns=["add"])
            for one in table.column("add").to_pylist(maps_as_pydicts="lossy"):
                if one is not None:
                    live[_key(one)] = one
        for number in range(first, version + 1):
            lines = self.lines(number)
            for line in lines:
                if "remove" in line:
                    live.pop(_key(line["remove"]), None)
            for line in lines:
                if "add" in line:
                    live[_key(line["add"])] = line["add"]
        return sorted(live.values(), key=lambda one: (one["modificationTime"], one["path"].encode()))

    def _begin(self, version: int) -> int | None:
        """Return the first commit to replay; None where the version cannot be loaded."""
        for start in sorted((one for one in self.checkpoints if one <= version), reverse=True):
            rest = [number in self.commits for number in range(start, version + 1)]
            if all(rest[1:]) and any(rest):
                return start + 1
        return 0 if all(number in self.commits for number in range(version + 1)) else None


def restart(root: Path, checkpoint: Path, *, feed: bool = False) -> frozenset[str]:
    """Return the files that a query opens when it starts again and delivers all that is there, relative to the table.
    The plain source is one that passes over deletions, or takes them as new files. Raises Dies.
    """
    log = Log(root)
    opened = set[str]()
    for newest in read_checkpoint(checkpoint):
        for unit in _deliver(log, newest, feed=feed):
            for path in unit:
                if not (root / path).exists():
                    raise Dies(f"{path} is gone")
                opened.add(path)
    return frozenset(opened)


def _deliver(log: Log, newest: Newest, *, feed: bool) -> Iterator[tuple[str, ...]]:
    start, end = newest.start, newest.end
    if end is None:
        return
    if end.is_own:
        start = _own_start(log, newest)
    elif end.version - (end.files == 0 and not end.in_snapshot) > log.newest:
        raise Dies("the log was set back")
    elif start is None:
        start = first_start(end)
    if start is not None and start.in_snapshot:
        log.snapshot(start.version)
    if end.in_snapshot:
        log.snapshot(end.version)
    position = end if newest.is_finished else start or end
    begin = start or end
    _require_commits(log, begin.version + begin.in_snapshot)
    if feed:
        for one in {start, end} - {None}:
            if one is not None and one.version <= log.newest:
                log.snapshot(one.version)
    yield from _rest(log, position, feed=feed)


def _rest(log: Log, position: Position, *, feed: bool) -> Iterator[tuple[str, ...]]:
    """Yield the files from a position to the newest version."""
    if position.in_snapshot:
        for one in log.snapshot(position.version)[position.files :]:
            yield _unit(one)
        position = Position(position.version + 1, 0, False)
    for version in range(position.version, log.newest + 1):
        units = _units_of_commit(log.lines(version), feed=feed)
        yield from units[position.files if version == position.version else 0 :]


def _require_commits(log: Log, first: int) -> None:
    there = [version for version in log.commits if version >= first]
    if first <= log.newest and not there:
        return  # silence: no error, no rows
    for version in range(first, log.newest + 1):
        if version not in log.commits:
            raise Dies(f"commit {version} is gone")


def _own_start(log: Log, newest: Newest) -> Position | None:
    """Return where deltacli's source begins: a finished batch needs nothing before its end."""
    end = newest.end
    assert end is not None
    if not any(_is_loadable(log, version) for version in (end.version, end.version - 1)):
        raise Dies(f"neither version {end.version} nor the one before it can be loaded")
    if newest.is_finished:
        return None
    if newest.start is not None:
        return newest.start
    first = end.first - 1 if end.began_with_snapshot else end.first
    return Position(first, 0, end.began_with_snapshot, True)


def _is_loadable(log: Log, version: int) -> bool:
    return log._begin(version) is not None and version <= log.newest


def first_start(end: Position) -> Position:
    """Return where a first batch began: with the snapshot that its end is in, or is the version after."""
    return Position(end.version if end.in_snapshot else end.version - 1, 0, True)


def _units_of_commit(lines: Sequence[Line], *, feed: bool) -> list[tuple[str, ...]]:
    """Return the files of a commit that are delivered, each with its vector, in order."""
    if not feed:
        return [_unit(line["add"]) for line in lines if line.get("add", {}).get("dataChange")]
    info: Action = next((line["commitInfo"] for line in lines if "commitInfo" in line), {})
    metrics = info.get("operationMetrics") or {}
    counts = [metrics.get(f"numTargetRows{verb}") for verb in ("Inserted", "Updated", "Deleted")]
    if info.get("operation") == "MERGE" and counts == ["0"] * 3:
        return []
    if changes := [line["cdc"] for line in lines if "cdc" in line]:
        return [_unit(one) for one in changes]
    both = [line.get("add") or line.get("remove") or {} for line in lines]
    return [_unit(one) for one in both if one.get("dataChange")]


def _unit(action: Action) -> tuple[str, ...]:
    path = unquote(action["path"])
    vector = action.get("deletionVector")
    if not vector or vector["storageType"] != "u":
        return (path,)
    return path, vector_file_of(vector)


def vector_file_of(vector: Action) -> str:
    """Return the file of a vector, relative to the table."""
    text = vector["pathOrInlineDv"]
    prefix, encoded = text[:-20], text[-20:]
    number = 0
    for begin in range(0, 20, 5):
        word = 0
        for character in encoded[begin : begin + 5]:
            word = word * 85 + Z85.index(character)
        number = number << 32 | word
    return vector_path(UUID(int=number), prefix)


def _key(action: Action) -> tuple[str, str]:
    vector = action.get("deletionVector")
    return action["path"], "" if not vector else f"{vector['pathOrInlineDv']}@{vector.get('offset')}"


def read_checkpoint(directory: Path) -> list[Newest]:
    """Return the newest batches of the Delta sources of a checkpoint. Raises Dies where Spark cannot start from it."""
    if not (directory / "metadata").exists():
        raise Dies("no metadata")
    _require_query_id(directory / "metadata")
    offsets, commits = (_numbers(directory / name) for name in ("offsets", "commits"))
    if not offsets:
        return []
    newest = max(offsets)
    finished = max(commits, default=-1)
    if commits:
        _require_readable_commit(commits[finished])
    if finished > newest:
        raise Dies("a batch was finished that was never planned")
    if newest and newest - 1 not in offsets:
        raise Dies(f"batch {newest - 1} does not exist")
    ends = _sources(offsets[newest])
    starts = _sources(offsets[newest - 1]) if newest else {}
    return [
        Newest(_position(starts.get(source)), _position(offset), finished >= newest, newest)
        for source, offset in ends.items()
    ]


def _require_query_id(path: Path) -> None:
    """Raise Dies if the file `metadata` has no id of the query."""
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise Dies("metadata is cut") from error
    if not isinstance(found, dict) or not found.get("id"):
        raise Dies("metadata has no id")


def _numbers(directory: Path) -> dict[int, Path]:
    paths = directory.iterdir() if directory.exists() else ()
    return {int(path.name): path for path in paths if path.name.isdigit() and path.is_file()}


def _require_readable_commit(path: Path) -> None:
    """Raise Dies if the newest file of `commits` is not one that Spark writes. Older ones are not read."""
    lines = path.read_text().splitlines()
    if not lines or lines[0] not in ("v1", "v2", "v3"):
        raise Dies(f"{path.name} is incomplete, or of an unknown version")
    try:
        json.loads(lines[1] if len(lines) > 1 else "{}")
    except ValueError as error:
        raise Dies(f"{path.name} is cut") from error


def _sources(path: Path) -> dict[str, str]:
    lines = path.read_text().splitlines()
    if len(lines) < 2:
        raise Dies("incomplete log file")
    if lines[0] == "v1":
        return {str(number): text for number, text in enumerate(lines[2:]) if text != "-"}
    if lines[0] == "v2":
        return {name: text for name, text in (line.split(":", 1) for line in lines[2:]) if text != "-"}
    raise Dies(f"unknown log version {lines[0]}")


def _position(text: str | None) -> Position | None:
    try:
        found: Any = None if text is None else json.loads(text)
    except ValueError as error:
        raise Dies("an offset is cut") from error
    if not isinstance(found, dict):
        return None
    if "format" in found:
        is_inside = found["version"] < found["first"]
        return Position(found["version"], found["index"], is_inside, True, found["first"], found["snapshot"])
    if "reservoirVersion" not in found:
        return None
    if found.get("sourceVersion") not in (1, 3) or (found["sourceVersion"], found["index"]) == (3, -1):
        raise Dies("unknown source version, or an index that it does not have")
    if "reservoirId" not in found:
        raise Dies("the offset is of another table")
    return Position(found["reservoirVersion"], max(found["index"], -1) + 1, found["isStartingVersion"])
