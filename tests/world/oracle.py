"""What a table holds, by a reader that shares no code with deltacli: own replay and vectors, Parquet by pyarrow."""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.actions import Action, Line
from tests.support.builder import LOG, Files, commit_path
from tests.support.model import State, identity, vector_id

Rows = Counter[tuple[tuple[str, object], ...]]
"""Rows as (column, value) pairs without nulls, so that an added column changes nothing."""

DEFAULT_RETENTION_MS = 7 * 24 * 3_600_000
_COMMIT = re.compile(r"_delta_log/(\d{20})\.json")
_CHECKPOINT = re.compile(r"_delta_log/(\d{20})\.checkpoint(?:\.[0-9a-f-]{36})?\.(parquet|json)")
_COMPACTION = re.compile(r"_delta_log/(\d{20})\.(\d{20})\.compacted\.json")
_CHECKSUM = re.compile(r"_delta_log/(\d{20})\.crc")
_UNITS = {"second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 7 * 86_400_000}
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


class Damaged(Exception):
    """Something that a version needs is not there, or not what it should be."""


class Reading:
    """The versions of a table in some files."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.commits = {int(match[1]): path for path in files if (match := _COMMIT.fullmatch(path))}
        self.checkpoints = {int(match[1]): path for path in files if (match := _CHECKPOINT.fullmatch(path))}
        self._states: dict[tuple[int, int | None], State] = {}

    @property
    def newest(self) -> int:
        """The newest version."""
        return max([*self.commits, *self.checkpoints], default=-1)

    @cached_property
    def versions(self) -> dict[int, Rows]:
        """The rows of each version that can be read."""
        found = {}
        for version in sorted({*self.commits, *self.checkpoints}):
            try:
                found[version] = self.rows(version)
            except Damaged:
                continue
        return found

    def state(self, version: int, *, without: int | None = None) -> State:
        """The state of a version from the newest checkpoint up to it, but for that of the version `without`."""
        key = (version, without)
        if key not in self._states:
            start, state = self._start(version, without)
            for number in range(start + 1, version + 1):
                state = state.after(self.lines(number))
            if state.protocol is None or state.metadata is None:
                raise Damaged(f"version {version} has no protocol or no metadata")
            self._states[key] = state
        return self._states[key]

    def _start(self, version: int, without: int | None) -> tuple[int, State]:
        """The newest checkpoint that can be read, and its state."""
        for start in sorted(self.checkpoints, reverse=True):
            if start <= version and start != without:
                try:
                    return start, self._of_checkpoint(start)
                except Damaged:
                    continue
        return -1, State()

    def lines(self, version: int) -> list[Line]:
        """The actions of a commit."""
        path = commit_path(version)
        if path not in self.files:
            raise Damaged(f"commit {version} is not there")
        return _lines(self.files[path].data)

    def rows(self, version: int) -> Rows:
        """The rows of a version."""
        state = self.state(version)
        assert state.metadata is not None
        found: Rows = Counter()
        for action in state.live.values():
            found.update(self._rows_of(action, state.metadata["partitionColumns"]))
        return found

    @property
    def retention_ms(self) -> int:
        """How long removed files are kept, by the newest version."""
        return duration_ms(self.properties.get("delta.deletedFileRetentionDuration"), DEFAULT_RETENTION_MS)

    @property
    def log_retention_ms(self) -> int:
        """How long commits are kept, by the newest version."""
        return duration_ms(self.properties.get("delta.logRetentionDuration"), 30 * _UNITS["day"])

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of the newest version."""
        metadata = self.state(self.newest).metadata
        assert metadata is not None
        found: Mapping[str, str] = metadata.get("configuration") or {}
        return found

    def needed(self, now_ms: int) -> dict[str, str]:
        """The files that vacuum may not delete, and why: live ones, and those that were removed lately."""
        state = self.state(self.newest)
        found: dict[str, str] = {}
        for action in state.tombstones.values():
            if action.get("deletionTimestamp", 0) > now_ms - self.retention_ms:
                found |= dict.fromkeys(_paths_of(action), "was removed within the retention")
        for action in state.live.values():
            found |= dict.fromkeys(_paths_of(action), "is live")
        return found

    def named(self) -> set[str]:
        """The files that any commit or checkpoint names."""
        found = set[str]()
        for version in self.commits:
            for line in self.lines(version):
                for action in (line.get("add"), line.get("remove")):
                    found |= _paths_of(action) if action else set()
        for version in self.checkpoints:
            _, state = self._start(version, None)
            for action in (*state.live.values(), *state.tombstones.values()):
                found |= _paths_of(action)
        return found

    def contradictions(self, path: str) -> Iterator[str]:
        """What a derived file of the log says otherwise than the rest of the log."""
        if (match := _CHECKPOINT.fullmatch(path)) is not None:
            version = int(match[1])
            try:
                expected = self.state(version, without=version)
            except Damaged:
                return
            if _told(self._of_checkpoint(version)) != _told(expected):
                yield f"checkpoint {version} is not the state of its version"
        elif (match := _COMPACTION.fullmatch(path)) is not None:
            first, last = int(match[1]), int(match[2])
            try:
                before, expected = self.state(first - 1), self.state(last)
            except Damaged:
                return
            if _told(before.after(_lines(self.files[path].data))) != _told(expected):
                yield f"compaction {first} to {last} is not what its commits are"
        elif (match := _CHECKSUM.fullmatch(path)) is not None:
            version = int(match[1])
            live = self.state(version).live.values()
            stated = json.loads(self.files[path].data)
            if (stated["numFiles"], stated["tableSizeBytes"]) != (len(live), sum(add["size"] for add in live)):
                yield f"the checksum of version {version} is not that of its version"

    def _of_checkpoint(self, version: int) -> State:
        path = self.checkpoints[version]
        data = self.files[path].data
        lines = _lines(data) if path.endswith(".json") else _rows_of_checkpoint(data)
        for line in list(lines):
            if sidecar := line.get("sidecar"):
                place = f"{LOG}/_sidecars/{sidecar['path']}"
                if place not in self.files:
                    raise Damaged(f"{place} is not there")
                lines = [*lines, *_rows_of_checkpoint(self.files[place].data)]
        return State().after(lines)

    def _rows_of(self, action: Action, partition_columns: list[str]) -> Iterator[tuple[tuple[str, object], ...]]:
        path = unquote(action["path"])
        if path not in self.files:
            raise Damaged(f"{path} is not there")
        data = self.files[path].data
        if len(data) != action["size"]:
            raise Damaged(f"{path} has another size")
        own = {name: action["partitionValues"][name] for name in partition_columns}
        gone = self._deleted(action.get("deletionVector"))
        for number, row in enumerate(_rows_of_file(data)):
            if number not in gone:
                yield tuple(sorted((name, value) for name, value in {**row, **own}.items() if value is not None))

    def _deleted(self, vector: Action | None) -> frozenset[int]:
        if vector is None:
            return frozenset()
        path = vector_path_of(vector)
        if path not in self.files:
            raise Damaged(f"{path} is not there")
        return _bitmap(self.files[path].data, vector["offset"], vector["sizeInBytes"])


def duration_ms(text: str | None, default_ms: int) -> int:
    """The value of a property such as `interval 7 days`."""
    if text is None:
        return default_ms
    count, unit = text.removeprefix("interval ").split()
    return int(count) * _UNITS[unit.rstrip("s")]


def vector_path_of(vector: Action) -> str:
    """Where a vector in a file of the table lies. Spec: Deletion Vector Descriptor Schema."""
    text = vector["pathOrInlineDv"]
    assert vector["storageType"] == "u"
    value = b"".join(
        struct.pack(
            ">I", sum(_DIGITS.index(digit) * 85 ** (4 - place) for place, digit in enumerate(text[at : at + 5]))
        )
        for at in range(len(text) - 20, len(text), 5)
    ).hex()
    name = "-".join((value[:8], value[8:12], value[12:16], value[16:20], value[20:]))
    prefix = text[:-20]
    return f"{prefix}/deletion_vector_{name}.bin" if prefix else f"deletion_vector_{name}.bin"


@cache
def _bitmap(data: bytes, offset: int, size: int) -> frozenset[int]:
    """The rows of a vector, of which every container is an array. Spec: Deletion Vector Format."""
    if struct.unpack_from(">I", data, offset)[0] != size:
        raise Damaged("the size of a vector differs")
    body = data[offset + 4 : offset + 4 + size]
    magic, count = struct.unpack_from("<IQ", body)
    assert (magic, count) == (1681511377, 1)
    high, cookie, containers = struct.unpack_from("<III", body, 12)
    assert (high, cookie, containers) == (0, 12346, 1)
    _, last = struct.unpack_from("<HH", body, 24)
    return frozenset(struct.unpack_from(f"<{last + 1}H", body, 32))


@cache
def _rows_of_file(data: bytes) -> tuple[dict[str, Any], ...]:
    try:
        return tuple(pq.read_table(pa.BufferReader(data)).to_pylist())
    except (OSError, ValueError) as fault:
        raise Damaged(str(fault)) from fault


@cache
def _rows_of_checkpoint(data: bytes) -> list[Line]:
    try:
        rows = pq.read_table(pa.BufferReader(data)).to_pylist(maps_as_pydicts="strict")
    except (OSError, ValueError) as fault:
        raise Damaged(str(fault)) from fault
    return [{kind: _present(action) for kind, action in row.items() if action is not None} for row in rows]


@cache
def _lines(data: bytes) -> list[Line]:
    try:
        return [json.loads(line) for line in data.splitlines() if line.strip()]
    except ValueError as fault:
        raise Damaged(str(fault)) from fault


def _present(value: Any) -> Any:  # Any: JSON values
    if isinstance(value, dict):
        return {name: _present(part) for name, part in value.items() if part is not None}
    return [_present(part) for part in value] if isinstance(value, list) else value


def _paths_of(action: Action) -> set[str]:
    vector = action.get("deletionVector")
    return {unquote(action["path"])} | ({vector_path_of(vector)} if vector else set())


def _told(state: State) -> object:
    """What two forms of one state have in common."""
    metadata, protocol = dict(state.metadata or {}), dict(state.protocol or {})
    for name in ("readerFeatures", "writerFeatures"):
        protocol[name] = sorted(protocol.get(name) or ())
    described = {name: metadata.get(name) for name in ("id", "schemaString", "partitionColumns", "configuration")}
    adds = {(identity(action["path"]), vector_id(action), action["size"]) for action in state.live.values()}
    return protocol, described, adds, {name: one["version"] for name, one in state.transactions.items()}
