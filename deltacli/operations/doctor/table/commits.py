"""The newest commits of a log: who did what when, and what that did to the files and bytes of the table.

A commit is parsed by Arrow, in columns, and only the fields that are counted. Sizes at older versions are those of now
without what the commits since have added and removed; they end at the first commit that does not tell its sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.errors import CommitCorrupt, FileMissing
from deltacli.core.progress import reported
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import DAY_MS, format_timestamp
from deltacli.delta.encoding.ndjson import parse_ndjson
from deltacli.delta.log.segment import LogFile, LogListing, file_times
from deltacli.delta.log.state import has_in_commit_timestamps
from deltacli.work.commits.provenance import read_provenance
from deltacli.work.commits.reading import is_large, read_commit, stream_commit

if TYPE_CHECKING:
    import pyarrow

    from deltacli.storage import ReadStorage
    from deltacli.table.version import Snapshot

MOST_COMMITS = 1_000
_UNKNOWN = "unknown"


class Amounts(NamedTuple):
    """The files and bytes that a commit adds and removes."""

    added_files: int
    added_bytes: int
    removed_files: int
    removed_bytes: int


class Commit(NamedTuple):
    """A commit. `amounts` are None where it is too large or damaged, or does not have all sizes; `files` and
    `size_bytes` are those of the table at this version, None where unknown.
    """

    version: int
    timestamp_ms: int
    operation: str
    engine: str
    amounts: Amounts | None
    files: int | None = None
    size_bytes: int | None = None

    def as_json(self) -> dict[str, Json]:
        """As in the document."""
        amounts = self.amounts
        return {
            "version": self.version,
            "timestampMs": self.timestamp_ms,
            "timestamp": format_timestamp(self.timestamp_ms),
            "operation": self.operation,
            "engine": self.engine,
            "addedFiles": None if amounts is None else amounts.added_files,
            "addedBytes": None if amounts is None else amounts.added_bytes,
            "removedFiles": None if amounts is None else amounts.removed_files,
            "removedBytes": None if amounts is None else amounts.removed_bytes,
            "files": self.files,
            "sizeBytes": self.size_bytes,
        }


@dataclass(frozen=True, slots=True)
class Growth:
    """How the table grew over the days of the commits that are known; the numbers are per day."""

    days: float
    commits: float
    files: float | None
    size_bytes: float | None
    written_bytes: float | None

    def as_json(self) -> dict[str, Json]:
        """As in the document."""

        def rounded(value: float | None) -> float | None:
            return None if value is None else round(value, 2)

        return {
            "days": round(self.days, 2),
            "commitsPerDay": round(self.commits, 2),
            "filesPerDay": rounded(self.files),
            "bytesPerDay": rounded(self.size_bytes),
            "writtenBytesPerDay": rounded(self.written_bytes),
        }


@dataclass(frozen=True, slots=True)
class Timeline:
    """The newest commits, oldest first; `total` is how many the log has."""

    commits: tuple[Commit, ...]
    total: int

    @property
    def operations(self) -> Counter[str]:
        """How many commits each operation made."""
        return Counter(one.operation for one in self.commits)

    @property
    def engines(self) -> Counter[str]:
        """How many commits each engine made."""
        return Counter(one.engine for one in self.commits)

    @property
    def growth(self) -> Growth | None:
        """The growth per day; None where the commits do not span a day."""
        if len(self.commits) < 2:
            return None
        first, last = self.commits[0], self.commits[-1]
        days = (last.timestamp_ms - first.timestamp_ms) / DAY_MS
        if days < 1:
            return None
        files = size = written = None
        known = [one for one in self.commits if one.size_bytes is not None]
        known_days = (last.timestamp_ms - known[0].timestamp_ms) / DAY_MS if known else 0
        if known_days >= 1:
            begin = known[0]
            files = ((last.files or 0) - (begin.files or 0)) / known_days
            size = ((last.size_bytes or 0) - (begin.size_bytes or 0)) / known_days
        if all(one.amounts is not None for one in self.commits):
            written = sum(one.amounts.added_bytes for one in self.commits[1:] if one.amounts) / days
        return Growth(days, (len(self.commits) - 1) / days, files, size, written)

    def as_json(self) -> dict[str, Json]:
        """As in the document."""
        return {
            "totalCommits": self.total,
            "operations": dict(self.operations.most_common()),
            "engines": dict(self.engines.most_common()),
            "commits": [one.as_json() for one in self.commits],
        }


def read_timeline(snapshot: Snapshot, listing: LogListing, files: int, size_bytes: int) -> Timeline:
    """Return the newest commits up to a version, which has so many live files and bytes. `listing`: the whole log."""
    table = snapshot.table
    versions = sorted(version for version in listing.commits if version <= snapshot.version)
    chosen = [listing.commits[version] for version in versions[-MOST_COMMITS:]]
    times = {version: one.timestamp_ms for version, one in file_times(listing.commits).items()}
    is_stamped = has_in_commit_timestamps(snapshot.protocol, snapshot.metadata)
    read = partial(_read, table.storage, times, is_stamped)
    found = table.engine.run(read, chosen, at_once=table.storage.capabilities.parallel_reads)
    commits = list(reported(found, table.progress, "reading commits", unit="commits", total=len(chosen)))
    return Timeline(tuple(_with_sizes(commits, snapshot.version, files, size_bytes)), len(versions))


def _with_sizes(commits: Sequence[Commit], newest: int, files: int, size_bytes: int) -> list[Commit]:
    """Return the commits with the files and bytes of the table at their versions, as far back as they are known."""
    found: list[Commit] = []
    state: tuple[int, int] | None = (files, size_bytes)
    expected = newest
    for one in reversed(commits):
        if one.version != expected or (state is not None and min(state) < 0):
            state = None
        expected = one.version - 1
        found.append(one if state is None else one._replace(files=state[0], size_bytes=state[1]))
        if state is not None and one.amounts is not None:
            amounts = one.amounts
            state = (
                state[0] - amounts.added_files + amounts.removed_files,
                state[1] - amounts.added_bytes + amounts.removed_bytes,
            )
        else:
            state = None
    return found[::-1]


def _read(storage: ReadStorage, times: Mapping[int, int], is_stamped: bool, file: LogFile) -> Commit:
    try:
        info, amounts = (_large if is_large(file) else _parsed)(storage, file)
    except (CommitCorrupt, FileMissing):
        info, amounts = {}, None
    stamp = info.get("inCommitTimestamp") if is_stamped else None
    return Commit(
        file.version,
        stamp if type(stamp) is int else times[file.version],
        str(info.get("operation") or _UNKNOWN),
        str(info.get("engineInfo") or _UNKNOWN),
        amounts,
    )


_Content = tuple[JsonObject, Amounts | None]
"""The commitInfo of a commit, and what it adds and removes; None where an action has no size."""


def _large(storage: ReadStorage, file: LogFile) -> _Content:
    """Return only the commitInfo of a commit that is too large to be parsed for its sizes."""
    return read_provenance(storage, file).commit_info or {}, None


def _parsed(storage: ReadStorage, file: LogFile) -> _Content:
    import pyarrow as pa

    sized, text = pa.struct([("size", pa.int64())]), pa.string()
    info = pa.struct([("operation", text), ("engineInfo", text), ("inCommitTimestamp", pa.int64())])
    data = read_commit(storage, file)
    parsed = parse_ndjson(data, pa.schema([("add", sized), ("remove", sized), ("commitInfo", info)]))
    if parsed is None:
        return _by_line(storage, file)
    added, removed = (_sized(parsed.column(name).combine_chunks()) for name in ("add", "remove"))
    infos = pc.drop_null(parsed.column("commitInfo").combine_chunks())
    told = infos[0].as_py() if len(infos) else {}
    return told, None if added is None or removed is None else Amounts(*added, *removed)


def _sized(actions: pyarrow.StructArray) -> tuple[int, int] | None:
    given = pc.filter(actions, pc.is_valid(actions))
    sizes = pc.struct_field(given, ["size"])
    return None if sizes.null_count else (len(given), int(pc.sum(sizes).as_py() or 0))


def _by_line(storage: ReadStorage, file: LogFile) -> _Content:
    """Parse a commit line by line: Arrow does not accept all that is JSON."""
    info: JsonObject = {}
    files, sizes, is_sized = Counter[str](), Counter[str](), True
    for kind, action in stream_commit(storage, file):
        if kind in ("add", "remove"):
            size = action.get("size")
            is_sized = is_sized and type(size) is int
            files[kind] += 1
            sizes[kind] += size if type(size) is int else 0
        elif kind == "commitInfo":
            info = action
    return info, Amounts(files["add"], sizes["add"], files["remove"], sizes["remove"]) if is_sized else None
