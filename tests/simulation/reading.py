"""Commits, checkpoints, vectors and rows out of bytes, by a reader that shares no code with deltacli.

Everything is remembered by its bytes, within bounds: a history asks for the same file many times.
"""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow._parquet import ParquetReader

from tests.support.actions import Action, Line
from tests.support.builder import LOG, Files, StoredFile
from tests.support.model import State, identity, num_records, vector_id
from tests.world.oracle import Damaged, vector_path_of

Row = tuple[tuple[str, object], ...]
"""A row as (physical column, value) pairs without nulls, so that renamed and added columns change nothing."""
Rows = Counter[Row]

ROW_ID, ROW_VERSION = (f"delta.rowTracking.materializedRow{name}ColumnName" for name in ("Id", "CommitVersion"))
HIGH_WATER_MARK = "delta.rowTracking"
_CACHED = 1024
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC, _WITH_RUNS, _ARRAY_MAX = 1681511377, 12347, 4096
_INTEGERS = ("byte", "short", "integer", "long")


class Kind(StrEnum):
    """What a file of a table is."""

    COMMIT = "commit"
    CHECKPOINT = "checkpoint"
    SIDECAR = "sidecar"
    COMPACTION = "compaction"
    CHECKSUM = "checksum"
    OTHER_LOG = "other file of the log"
    DATA = "data"
    HIDDEN = "hidden"


class Name(NamedTuple):
    """What the path of a file says."""

    kind: Kind
    version: int = -1
    last: int = -1
    """The last version of a compaction."""
    instance: str = ""
    """What tells one checkpoint of a version from another."""
    parts: int = 1


_PATTERNS = {
    Kind.COMMIT: re.compile(rf"{LOG}/(?P<version>\d{{20}})\.json"),
    Kind.CHECKPOINT: re.compile(
        rf"{LOG}/(?P<version>\d{{20}})\.checkpoint(?:\.\d{{10}}\.(?P<parts>\d{{10}})|(?P<instance>\.[0-9a-f-]{{36}}))?"
        r"\.(?:parquet|json)"
    ),
    Kind.SIDECAR: re.compile(rf"{LOG}/_sidecars/.*\.parquet"),
    Kind.COMPACTION: re.compile(rf"{LOG}/(?P<version>\d{{20}})\.(?P<last>\d{{20}})\.compacted\.json"),
    Kind.CHECKSUM: re.compile(rf"{LOG}/(?P<version>\d{{20}})\.crc"),
    Kind.OTHER_LOG: re.compile(rf"{LOG}/.*", re.DOTALL),
}


@lru_cache(_CACHED)
def name_of(path: str) -> Name:
    """What a path says about its file."""
    for kind, pattern in _PATTERNS.items():
        if match := pattern.fullmatch(path):
            found = match.groupdict()
            parts = found.get("parts")
            instance = found.get("instance") or (f".{parts}" if parts else "")
            version, last = int(found.get("version") or -1), int(found.get("last") or -1)
            return Name(kind, version, last, instance, int(parts or 1))
    is_hidden = (
        path.startswith(("_", ".")) and not path.startswith("_change_data/") and "=" not in path.partition("/")[0]
    )
    return Name(Kind.HIDDEN if is_hidden else Kind.DATA)


@lru_cache(_CACHED)
def lines_of(data: bytes) -> tuple[Line, ...]:
    """The actions of a commit."""
    try:
        found = tuple(json.loads(line) for line in data.splitlines() if line.strip())
    except ValueError as fault:
        raise Damaged(str(fault)) from fault
    if not found:
        raise Damaged("a commit without actions")
    return found


NOTHING = State()
"""Before version 0."""
_states: dict[tuple[int, bytes], tuple[State, State]] = {}


def state_after(state: State, data: bytes) -> State:
    """The state after one more commit, remembered by the state itself and the bytes: logs are replayed many times."""
    known = _states.get((id(state), data))
    if known is not None:  # it holds the state, so nothing else has its id
        return known[1]
    found = state.after(lines_of(data))
    if len(_states) >= _CACHED:
        _states.clear()
    _states[id(state), data] = state, found
    return found


@lru_cache(_CACHED)
def _parquet(data: bytes) -> tuple[dict[str, Any], ...]:  # Any: values of columns
    try:
        reader = ParquetReader()  # without the tree of names that a ParquetFile makes
        reader.open(pa.BufferReader(data))
        table = reader.read_all(use_threads=False)
    except (OSError, ValueError) as fault:
        raise Damaged(str(fault)) from fault
    return tuple(table.to_pylist(maps_as_pydicts="strict"))


@lru_cache(_CACHED)
def _checkpoint_lines(data: bytes, is_json: bool) -> tuple[Line, ...]:
    if is_json:
        return lines_of(data)
    return tuple(
        {kind: _present(action) for kind, action in row.items() if action is not None} for row in _parquet(data)
    )


def _present(value: Any) -> Any:  # Any: JSON values
    if isinstance(value, dict):
        return {name: _present(part) for name, part in value.items() if part is not None}
    return [_present(part) for part in value] if isinstance(value, list) else value


def info_of(lines: Iterable[Line]) -> Action:
    """The commitInfo of a commit, empty without one."""
    return next((line["commitInfo"] for line in lines if line.get("commitInfo")), {})


@dataclass(frozen=True)
class Checkpoint:
    """The files of a checkpoint that is there as a whole."""

    version: int
    paths: tuple[str, ...]
    """Its files at the top."""

    def top_lines(self, files: Files) -> list[Line]:
        """Its actions, but for those of its sidecars."""
        return [line for path in self.paths for line in _checkpoint_lines(files[path].data, path.endswith(".json"))]

    def lines(self, files: Files) -> list[Line]:
        """Its actions, those of its sidecars, too."""
        found = self.top_lines(files)
        for line in list(found):
            if sidecar := line.get("sidecar"):
                place = self.sidecar_path(sidecar)
                if place not in files:
                    raise Damaged(f"{place} is not there")
                found += _checkpoint_lines(files[place].data, False)
        return found

    def state(self, files: Files) -> State:
        """What it says."""
        return State().after(self.lines(files))

    def is_readable(self, files: Files) -> bool:
        """Whether all its files can be read."""
        try:
            return self.state(files).is_readable
        except Damaged:
            return False

    @staticmethod
    def sidecar_path(sidecar: Action) -> str:
        """Where a sidecar lies."""
        return f"{LOG}/_sidecars/{unquote(sidecar['path'])}"


def checkpoints_of(files: Files) -> list[Checkpoint]:
    """The checkpoints of which all files at the top are there, ascending."""
    found: dict[tuple[int, str, int], list[str]] = {}
    for path in files:
        name = name_of(path)
        if name.kind is Kind.CHECKPOINT:
            found.setdefault((name.version, name.instance, name.parts), []).append(path)
    return [
        Checkpoint(version, tuple(sorted(paths)))
        for (version, _, parts), paths in sorted(found.items())
        if len(paths) == parts
    ]


def commits_of(files: Files) -> dict[int, str]:
    """The paths of the commits by their versions, ascending."""
    found = {name.version: path for path in files if (name := name_of(path)).kind is Kind.COMMIT}
    return dict(sorted(found.items()))


class Column(NamedTuple):
    """A column: its name, that in files, and its type."""

    name: str
    physical: str
    type: str


@lru_cache(_CACHED)
def _columns(schema: str, is_mapped: bool) -> tuple[Column, ...]:
    return tuple(
        Column(
            field["name"],
            field["metadata"].get("delta.columnMapping.physicalName", field["name"]) if is_mapped else field["name"],
            field["type"] if isinstance(field["type"], str) else field["type"]["type"],
        )
        for field in json.loads(schema)["fields"]
    )


def configuration_of(state: State) -> Mapping[str, str]:
    """The properties of a version."""
    found: Mapping[str, str] = (state.metadata or {}).get("configuration") or {}
    return found


def is_mapped(state: State) -> bool:
    """Whether the columns of a version have names of their own in files."""
    return configuration_of(state).get("delta.columnMapping.mode", "none") != "none"


def columns_of(state: State) -> tuple[Column, ...]:
    """The columns of a version."""
    return _columns((state.metadata or {})["schemaString"], is_mapped(state))


def has_feature(state: State, name: str) -> bool:
    """Whether writers of a version must support a feature."""
    return name in ((state.protocol or {}).get("writerFeatures") or ())


def is_on(state: State, name: str) -> bool:
    """Whether a property of a version is true."""
    return configuration_of(state).get(name) == "true"


def row_of(values: Mapping[str, object]) -> Row:
    """A row by its columns."""
    return tuple(sorted((name, value) for name, value in values.items() if value is not None))


class Tracked(NamedTuple):
    """A row, its id and the version that wrote it last; -1 where rows are not tracked."""

    row: Row
    row_id: int
    version: int
    position: int
    """Where in its file."""


def rows_of(add: Action, state: State, files: Files) -> tuple[Tracked, ...]:
    """The rows of a live file of a version."""
    path = unquote(add["path"])
    if path not in files:
        raise Damaged(f"{path} is not there")
    configuration = configuration_of(state)
    columns = columns_of(state)
    of_partition = set(state.metadata["partitionColumns"]) if state.metadata else set()
    own = {
        column.physical: _partition_value(add["partitionValues"].get(column.physical), column.type)
        for column in columns
        if column.name in of_partition
    }
    kept = {column.physical for column in columns}
    id_column, version_column = configuration.get(ROW_ID, ""), configuration.get(ROW_VERSION, "")
    base, version = add.get("baseRowId", -1), add.get("defaultRowCommitVersion", -1)
    gone = deleted_rows(add.get("deletionVector"), files)
    found = []
    for number, stored in enumerate(_parquet(files[path].data)):
        if number in gone:
            continue
        values = {name: value for name, value in stored.items() if name in kept} | own
        row_id, row_version = stored.get(id_column), stored.get(version_column)
        found.append(
            Tracked(
                row_of(values),
                (base + number if base >= 0 else -1) if row_id is None else row_id,
                version if row_version is None else row_version,
                number,
            )
        )
    return tuple(found)


def has_logical_names(file: StoredFile, state: State) -> bool:
    """Whether a file has a column under its logical name, where a version maps columns: its values may be nowhere else,
    because every reader has found null instead.
    """
    if not is_mapped(state):
        return False
    columns = columns_of(state)
    physical = {column.physical for column in columns}
    logical = {column.name for column in columns}
    try:
        stored = pq.read_schema(pa.BufferReader(file.data)).names
    except (OSError, ValueError):
        return False
    return bool(set(stored) & (logical - physical))


def physical_records(path: str, files: Files) -> int:
    """How many rows a data file has."""
    return len(_parquet(files[path].data))


def _partition_value(text: str | None, kind: str) -> object:
    if text is None or text == "":
        return None
    return int(text) if kind in _INTEGERS else text


def paths_of(action: Action) -> set[str]:
    """The files of the table that an action needs."""
    vector = action.get("deletionVector")
    found = {unquote(action["path"])}
    return found | {vector_path_of(vector)} if vector and vector["storageType"] == "u" else found


def find_paths_in_manifest(actions: Iterable[Action]) -> set[str]:
    """The files of the table that actions need."""
    return {path for action in actions for path in paths_of(action)}


def deleted_rows(vector: Action | None, files: Files) -> frozenset[int]:
    """The rows that a vector takes from its file. Spec: Deletion Vector Format."""
    if not vector:
        return frozenset()
    try:
        return _deleted(vector, files)
    except (struct.error, IndexError, ValueError) as fault:
        raise Damaged(f"a vector cannot be read: {fault}") from fault


def _deleted(vector: Action, files: Files) -> frozenset[int]:
    if vector["storageType"] == "i":
        return _bitmap(_unzipped(vector["pathOrInlineDv"])[: vector["sizeInBytes"]])
    path = vector_path_of(vector)
    if path not in files:
        raise Damaged(f"{path} is not there")
    data, offset, size = files[path].data, vector["offset"], vector["sizeInBytes"]
    if struct.unpack_from(">I", data, offset)[0] != size:
        raise Damaged("the size of a vector differs")
    return _bitmap(data[offset + 4 : offset + 4 + size])


def _unzipped(text: str) -> bytes:
    """The bytes of a text in Z85."""
    found = b""
    for at in range(0, len(text), 5):
        word = 0
        for digit in text[at : at + 5]:
            word = word * 85 + _Z85.index(digit)
        found += struct.pack(">I", word)
    return found


@lru_cache(_CACHED)
def _bitmap(data: bytes) -> frozenset[int]:
    magic, count = struct.unpack_from("<IQ", data)
    if magic != _MAGIC:
        raise Damaged("a vector has another magic number")
    at, found = 12, set[int]()
    for _ in range(count):
        (high,) = struct.unpack_from("<I", data, at)
        rows, at = _roaring32(data, at + 4)
        found.update((high << 32) + row for row in rows)
    return frozenset(found)


def _roaring32(data: bytes, at: int) -> tuple[list[int], int]:
    """The values of a 32-bit bitmap, and where it ends."""
    (cookie,) = struct.unpack_from("<I", data, at)
    has_runs = cookie & 0xFFFF == _WITH_RUNS
    if has_runs:
        count, at = (cookie >> 16) + 1, at + 4
        flags, at = data[at : at + (count + 7) // 8], at + (count + 7) // 8
    else:
        (count,) = struct.unpack_from("<I", data, at + 4)
        flags, at = b"", at + 8
    heads = [struct.unpack_from("<HH", data, at + 4 * number) for number in range(count)]
    at += 4 * count + (4 * count if not has_runs or count >= 4 else 0)  # offsets of containers
    found: list[int] = []
    for number, (key, last) in enumerate(heads):
        if has_runs and flags[number >> 3] >> (number & 7) & 1:
            (runs,) = struct.unpack_from("<H", data, at)
            pairs = struct.unpack_from(f"<{2 * runs}H", data, at + 2)
            low = [
                value
                for start, length in zip(pairs[::2], pairs[1::2], strict=True)
                for value in range(start, start + length + 1)
            ]
            at += 2 + 4 * runs
        elif last < _ARRAY_MAX:
            low = list(struct.unpack_from(f"<{last + 1}H", data, at))
            at += 2 * (last + 1)
        else:
            low = [value for value in range(1 << 16) if data[at + (value >> 3)] >> (value & 7) & 1]
            at += 1 << 13
        found += [(key << 16) + value for value in low]
    return found, at


def told(state: State) -> dict[str, object]:
    """What two forms of one state have in common; tombstones aside."""
    metadata = state.metadata or {}
    described = ("id", "name", "description", "schemaString", "partitionColumns", "configuration")
    return {
        "protocol": normal_protocol(state.protocol),
        "metadata": {name: metadata.get(name) or None for name in described},
        "files": frozenset(_told_of(add) for add in state.live.values()),
        "transactions": {name: one["version"] for name, one in state.transactions.items()},
        "domains": {name: _configuration(one) for name, one in state.live_domains.items()},
    }


def _configuration(domain: Action) -> object:
    """The configuration of a domain: JSON as a value, whatever its spaces."""
    try:
        return json.dumps(json.loads(domain["configuration"]), sort_keys=True)
    except ValueError:
        return domain["configuration"]


def normal_protocol(protocol: Action | None) -> Action:
    """A protocol in one form."""
    found = dict(protocol or {})
    return found | {name: sorted(found.get(name) or ()) for name in ("readerFeatures", "writerFeatures")}


def _told_of(add: Action) -> tuple[object, ...]:
    values = tuple(sorted(add["partitionValues"].items()))
    numbers = tuple(add.get(name) for name in ("size", "baseRowId", "defaultRowCommitVersion"))
    return identity(add["path"]), vector_id(add), values, numbers


def told_difference(expected: State, found: State) -> str:
    """What two states do not have in common, by its names; empty where they are the same."""
    if expected is found:  # replayed from the same bytes
        return ""
    one, other = told(expected), told(found)
    names = [name for name in one if one[name] != other[name]]
    for key in expected.live.keys() & found.live.keys():
        records = {count for state in (expected, found) if (count := _records(state.live[key])) is not None}
        names += ["numRecords"] if len(records) > 1 else []
    return ", ".join(names)


def _records(add: Action) -> int | None:
    parsed: Action = add.get("stats_parsed") or {}
    return num_records(add) if add.get("stats") else parsed.get("numRecords")


def counted(rows: Iterable[Tracked]) -> Rows:
    """The rows alone."""
    return Counter(row.row for row in rows)


def changed_columns(before: State, after: State) -> Mapping[str, str] | None:
    """What becomes of the names in files from one version to another: those that are gone are left out. None: all stay.

    Without a mapping that was there before, the columns are found by their names.
    """
    old, new = columns_of(before), columns_of(after)
    if {column.physical for column in old} <= {column.physical for column in new}:
        return None
    if is_mapped(before) and not is_mapped(after):
        names: Set[str] = {column.name for column in new}
        return {column.physical: column.name for column in old if column.name in names}
    names = {column.physical for column in new}
    return {column.physical: column.physical for column in old if column.physical in names}


def translated(row: Row, names: Mapping[str, str] | None) -> Row:
    """A row with the columns that `changed_columns` leaves."""
    return row if names is None else tuple(sorted((names[name], value) for name, value in row if name in names))


def shown(row: Row, state: State) -> dict[str, object]:
    """A row by the names of the columns, nulls, too."""
    values = dict(row)
    return {column.name: values.get(column.physical) for column in columns_of(state)}
