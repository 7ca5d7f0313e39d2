"""The files of a checkpoint directory of Spark Structured Streaming, as values: where each query is in each source.

Names and contents only. Spec: OffsetSeqLog, CommitLog and StreamMetadata of Spark; DeltaSourceOffset and the schema
tracking log of Delta; the offsets of our own sources (`deltacli/spark/table_log.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from deltacli.core.typing import Json, JsonObject

_LONGEST = (1 << 63) - 1
_WHOLE = -(1 << 63)
_SOURCE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LINE_END = re.compile("\r\n|\r|\n")
_FORMAT = re.compile(r"v\+?(\d{1,20})")
"""The first line of a file of `commits`, as Java parses the number."""
_NEWEST_COMMIT_FORMAT = 3
"""Spark 4.1 writes 1, or 2 for states in the newer format; 3 has been announced."""
_LARGEST_INT = (1 << 31) - 1
_SCHEMA_LOG = "_schema_log_"
_SOURCE_OF_PATH = re.compile(r"/sources/([^/]+)/?\Z")


class SourceKind(StrEnum):
    """What wrote an offset. A checkpoint does not tell reading from the change feed, nor tables from delta shares."""

    DELTA = "delta"
    DELTACLI = "deltacli"
    SHARING = "delta-sharing"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that cannot be read, and why. `is_cut`: no program can read it; else a newer one may."""

    reason: str
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Position:
    """Where a source is: all versions below `version` are delivered, and the first `delivered` files of it.

    `in_snapshot`: those are the live files of the version, which the stream delivers first, else those of its commit.
    Order two positions of one source by `place`.
    """

    kind: SourceKind
    table_id: str
    version: int
    delivered: int = 0
    in_snapshot: bool = False
    is_barrier: bool = False
    """Delta stopped before this commit because of its schema or protocol; none of its files is delivered."""
    begin: tuple[int, bool] | None = None
    """Of our own source, which keeps it: the version and whether its live files were delivered, at batch 0."""

    @property
    def place(self) -> tuple[int, bool, int]:
        """Return what orders the positions of a source."""
        return self.version, not self.in_snapshot, self.delivered

    @property
    def index(self) -> int | None:
        """Return how many files of the version are delivered; None where Delta's index says so by a sentinel."""
        return None if self.kind is SourceKind.DELTA and not self.delivered else self.delivered

    @property
    def first_of_source(self) -> Position | None:
        """Return where batch 0 of the source began; None where the checkpoint does not hold it."""
        if self.begin is None:
            return None
        return Position(self.kind, self.table_id, self.begin[0], in_snapshot=self.begin[1], begin=self.begin)


@dataclass(frozen=True, slots=True)
class OtherOffset:
    """An offset of a source that reads no Delta table, or a table whose history its provider keeps."""

    kind: SourceKind = SourceKind.OTHER


Offset = Position | OtherOffset | Unread | None
"""None: the source has no offset yet."""


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """The content of `offsets/N`: the end of batch N in each source, by position (`"0"`, …) or name, in their order."""

    format: int
    offsets: Mapping[str, Offset]


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """An entry of a schema tracking log.

    Attributes:
        table_id: The table that the log follows.
        version: The version whose schema the entry has.
        source_path: The directory `CHECKPOINT/sources/N` of the source that wrote the entry, as Hadoop writes paths;
            None if the entry has none.
    """

    table_id: str
    version: int
    source_path: str | None = None

    @property
    def source_name(self) -> str | None:
        """Return the name of the source that wrote the entry, `0` for `CHECKPOINT/sources/0`; None if it is unknown."""
        match = _SOURCE_OF_PATH.search(self.source_path or "")
        return match[1] if match is not None else None


# -- names -------------------------------------------------------------------------------------------------------------


def batch_of(name: str) -> int | None:
    """Return the batch of a file in `offsets` or `commits`; None for temporary files, checksums and other names."""
    if not (name.isascii() and name.isdigit() and len(name) <= 64):
        return None
    return number if (number := int(name)) <= _LONGEST else None


def schema_log_of(directory: str, table_id: str) -> bool:
    """Return whether a directory below a checkpoint is a schema tracking log of a table."""
    rest = directory.removeprefix(_SCHEMA_LOG + table_id)
    return rest != directory and (not rest or rest.startswith("_"))


# -- contents ----------------------------------------------------------------------------------------------------------


def read_query_id(data: bytes) -> str | Unread:
    """Return the id of a query from the file `metadata`."""
    value = _json(data)
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str) and found else Unread("it holds no id", is_cut=True)


def read_offsets(data: bytes) -> OffsetEntry | Unread:
    """Return the content of `offsets/N`, of format 1 or 2; a damaged offset is Unread in its place."""
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        return Unread("it is not text", is_cut=True)
    lines = [line.removesuffix("\r") for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        return Unread("it is empty", is_cut=True)
    first = lines[0]
    if first not in ("v1", "v2"):
        is_newer = first[:1] == "v" and batch_of(first[1:]) is not None
        reason = f"its format, {first}, is not known" if is_newer else "it does not begin with a format"
        return Unread(reason, is_cut=not is_newer)
    if len(lines) > 1 and lines[1] and not isinstance(_json(lines[1]), dict):
        return Unread("its second line is not a JSON object", is_cut=True)
    if len(lines) == 1 or (first == "v1" and len(lines) == 2):
        return Unread("it is cut off: no source follows", is_cut=True)
    if first == "v1":
        return OffsetEntry(1, {str(place): read_offset(line) for place, line in enumerate(lines[2:])})
    found: dict[str, Offset] = {}
    if _SOURCE_NAME.fullmatch(lines[-1]):
        return Unread("it is cut off within the name of a source", is_cut=True)
    for line in lines[2:]:
        name, colon, text = line.partition(":")
        if not colon or not _SOURCE_NAME.fullmatch(name):
            return Unread("a line does not begin with the name of a source and a colon")
        if name in found:
            return Unread(f"it names the source {name} twice")
        found[name] = read_offset(text)
    return OffsetEntry(2, found)


def read_commit(data: bytes) -> Unread | None:
    """Return why the newest file of `commits` prevents every restart, or None if Spark can read it.

    Only what Spark 4.1 refuses is `is_cut`. What it ignores is ignored here, too: lines after the second one, and text
    after the JSON value. A file that grew at a power loss without being written ends in NUL characters.

    Spec: CommitLog of Spark.
    """
    try:
        lines = _LINE_END.split(data.decode())
    except UnicodeDecodeError:
        return Unread("it is not text", is_cut=True)
    if not lines[-1]:
        lines.pop()  # a line end closes the last line and begins no other
    if not lines:
        return Unread("it is empty", is_cut=True)

    first = _trim_as_java(lines[0])
    match = _FORMAT.fullmatch(first)
    if match is None or not 0 < int(match[1]) <= _LARGEST_INT:
        return Unread("it does not begin with a format", is_cut=True)
    if int(match[1]) > _NEWEST_COMMIT_FORMAT:
        return Unread(f"its format, {first}, is not known")

    # The second line is optional: the oldest versions of Spark wrote the format only.
    return _read_watermark(lines[1]) if len(lines) > 1 else None


def _trim_as_java(text: str) -> str:
    """Return a text without the characters up to U+0020 at both ends, which also NUL is one of."""
    return text.strip("".join(map(chr, range(33))))


def _read_watermark(line: str) -> Unread | None:
    """Return why the second line of a file of `commits` cannot be read, or None if it can."""
    try:
        pairs, _ = _PAIRS_DECODER.raw_decode(line.lstrip(" \t"))
    except (ValueError, RecursionError):
        return Unread("its second line is not JSON", is_cut=True)
    if pairs is None:
        return Unread("its second line is null", is_cut=True)
    if not isinstance(pairs, _Pairs):
        # Spark takes any other value for an object without fields, but does not write one.
        return Unread("its second line is not a JSON object")

    watermarks = [value for key, value in pairs if key == "nextBatchWatermarkMs"]
    if len(watermarks) > 1:
        return Unread("it has nextBatchWatermarkMs twice", is_cut=True)
    if any(value is not None and type(value) not in (int, float) for value in watermarks):
        return Unread("nextBatchWatermarkMs is not a number", is_cut=True)
    return None


class _Pairs(list[tuple[str, Json]]):
    """The fields of a JSON object, each time that one is written."""


def _refuse_constant(text: str) -> Json:
    raise ValueError(f"{text} is not JSON")


_PAIRS_DECODER = json.JSONDecoder(object_pairs_hook=_Pairs, parse_constant=_refuse_constant)


def read_offset(text: str) -> Offset:
    """Return the offset of one source."""
    text = text.strip()
    if text == "-":
        return None
    value = _json(text)
    if isinstance(value, dict):
        return _read_object(value)
    leading = _read_leading_object(text)
    if leading is None:
        is_damaged = not text or text.startswith("{") or "\0" in text
        # Offsets of some sources are numbers or words. Those are intact.
        return Unread("it is not JSON", is_cut=True) if is_damaged else OtherOffset()
    # Delta ignores what follows its JSON object, such as the NUL characters of a file that grew at a power loss without
    # being written. Python, in which our own source parses offsets, does not.
    return _read_delta(leading) if _KEYS_OF_DELTA & leading.keys() else Unread("other text follows its JSON object")


def _read_object(value: JsonObject) -> Offset:
    if "tableVersion" in value:
        return OtherOffset(SourceKind.SHARING)
    if _KEYS_OF_DELTA & value.keys():
        return _read_delta(value)
    if value.keys() >= _KEYS_OF_OURS:
        return _read_ours(value)
    return OtherOffset()


def _read_leading_object(text: str) -> JsonObject | None:
    """Return the JSON object at the beginning of a text, or None if it does not begin with one."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_schema_entry(data: bytes) -> SchemaEntry | Unread:
    """Return an entry of a schema tracking log."""
    version, _, rest = data.partition(b"\n")
    number = batch_of(version.strip().decode("latin-1").removeprefix("v"))
    if version.startswith(b"v") and number is not None and number > 1:
        return Unread(f"its format, v{number}, is not known")
    value = _json(rest)
    if version.strip() != b"v1" or not isinstance(value, dict):
        return Unread("it is not an entry of a schema tracking log of format 1", is_cut=True)
    table_id, committed = value.get("tableId"), _long(value, "deltaCommitVersion")
    if not isinstance(table_id, str) or committed is None:
        return Unread("tableId or deltaCommitVersion is missing", is_cut=True)
    source_path = value.get("sourceMetadataPath")
    return SchemaEntry(table_id, committed, source_path if isinstance(source_path, str) else None)


def _json(text: str | bytes) -> Json:
    """Return the value of a JSON text; None for what is not JSON."""
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _long(value: JsonObject, key: str) -> int | None:
    found = value.get(key)
    # One less than the longest: it must be possible to name what follows a position.
    return found if type(found) is int and _WHOLE <= found < _LONGEST else None


# -- offsets, by what wrote them ---------------------------------------------------------------------------------------

_BASES = {1: -1, 3: -100}
"""`sourceVersion` -> the index that says that nothing of the version is delivered."""
_INDEXED_VERSION = 3
"""The `sourceVersion` since which no index is -1."""
_BARRIERS = (-20, -19)
_KEYS_OF_DELTA = frozenset({"sourceVersion", "reservoirId", "reservoirVersion", "isStartingVersion"})
_KEYS_OF_OURS = frozenset({"format", "table", "schema"})


def _read_delta(value: JsonObject) -> Offset:
    written_as = value.get("sourceVersion")
    if written_as is None:
        return Unread("sourceVersion is missing", is_cut=True)
    if type(written_as) is not int:
        return Unread("sourceVersion is not a number")
    if written_as not in _BASES:
        what = "is not valid" if written_as < 1 else "is reserved" if written_as == 2 else "is of a newer Delta"
        return Unread(f"sourceVersion {written_as} {what}", is_cut=written_as <= 2)
    table_id, version, index = value.get("reservoirId"), _long(value, "reservoirVersion"), _long(value, "index")
    in_snapshot = value.get("isStartingVersion")
    if table_id is None:
        return Unread("reservoirId is missing", is_cut=True)
    if not isinstance(table_id, str) or version is None or index is None or not isinstance(in_snapshot, bool):
        return Unread("reservoirId, reservoirVersion, index or isStartingVersion is missing or invalid")
    if written_as == _INDEXED_VERSION and index == _BASES[1]:
        return Unread(f"index {index} is not valid with sourceVersion {written_as}", is_cut=True)
    if version < 0 or (index < 0 and index != _BASES[written_as] and index not in _BARRIERS):
        return Unread(f"version {version} with index {index} is not valid")
    return Position(SourceKind.DELTA, table_id, version, max(index + 1, 0), in_snapshot, index in _BARRIERS)


def _read_ours(value: JsonObject) -> Offset:
    written_as = value.get("format")
    if type(written_as) is not int or written_as != 1:
        return Unread(f"format {written_as!r} is not one that deltacli knows")
    table_id, has_snapshot = value.get("table"), value.get("snapshot")
    first, version, index = (_long(value, key) for key in ("first", "version", "index"))
    if not isinstance(table_id, str) or not isinstance(has_snapshot, bool):
        return Unread("table or snapshot is missing or invalid")
    if first is None or version is None or index is None or min(first, version) < -1 or index < 0:
        return Unread("first, version or index is missing or invalid")
    if version < 0:
        return None  # before the first batch: no version is chosen
    in_snapshot = has_snapshot and version < first
    begin = (first - 1, True) if has_snapshot else (first, False)
    return Position(SourceKind.DELTACLI, table_id, version, index, in_snapshot, begin=begin)
