"""The files of the log: their names, which of them rebuild a version, and the hint where to begin listing them.

Spec: Delta Log Entries, Checkpoints, Log Compaction Files, Version Checksum File; Checkpoints; Metadata Cleanup; Action
Reconciliation; Last Checkpoint File; JSON checksum.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import quote

from deltacli.core.errors import LogIncomplete, NotATable, VersionAbsent, command
from deltacli.core.lock_free_property import cached_property
from deltacli.core.ranges import find_ranges, format_ranges, name_ranges
from deltacli.core.times import EPOCH, format_timestamp
from deltacli.core.typing import Json
from deltacli.core.units import plural


class Place(NamedTuple):
    """The place of a finding. `path`: relative to the table; `line`: from 1; `key`: a file, a column or a property."""

    path: str
    line: int | None = None
    version: int | None = None
    key: str | None = None


LOG_DIRECTORY = "_delta_log"
SIDECAR_DIRECTORY = "_sidecars"
CLONES_DIRECTORY = "_deltacli_clones"
HINT_NAME = "_last_checkpoint"
BACKUP_LIST = "_delta_log_backup.ndjson"
"""The list of a backup of a log, beside the copied `_delta_log`: a directory with both is no table."""
MAX_VERSION = 2**63 - 1

AFTER_VERSIONED_NAMES = ":"
"The first character above every digit. Names from here on have no version (`_sidecars`, `_last_checkpoint`)."


class LogFileKind(StrEnum):
    COMMIT = "commit"
    CLASSIC_CHECKPOINT = "classic checkpoint"
    MULTI_PART_CHECKPOINT = "multi-part checkpoint"
    UUID_CHECKPOINT = "UUID checkpoint"
    COMPACTED_COMMIT = "log compaction"
    CHECKSUM = "version checksum"
    UNPADDED = "unpadded"
    OTHER = "other"


class LogPath(NamedTuple):
    """The parts of a file name in `_delta_log`. `part` counts from 1; `last_version` is the end of a compaction."""

    name: str
    kind: LogFileKind
    version: int = -1
    part: int = 0
    parts: int = 0
    last_version: int = -1
    is_json: bool = False

    @property
    def newest(self) -> int:
        """The newest version that the file is of."""
        return max(self.version, self.last_version)


_CHECKPOINT = re.compile(
    r"(?P<version>[0-9]{20})\.checkpoint\.(?:"
    r"(?P<part>[0-9]{10})\.(?P<parts>[0-9]{10})\.parquet|(?P<classic>parquet)|(?P<uuid>[^.]+)\.(?P<form>json|parquet))"
)
_COMPACTED = re.compile(r"([0-9]{20})\.([0-9]{20})\.compacted\.json")
_UNPADDED = re.compile(r"[0-9]+\.(?:json|crc|checkpoint\..*parquet)")
_UNPADDED_COMMIT = re.compile(r"([0-9]{1,40})\.json")


def commit_name(version: int) -> str:
    """The file name of a commit."""
    return f"{version:020d}.json"


def checksum_path(version: int) -> str:
    """Return the path relative to the table."""
    return f"{LOG_DIRECTORY}/{version:020d}.crc"


def version_prefix(version: int) -> str:
    """The first characters of every log file of `version`: where a listing starts."""
    return f"{version:020d}."


def parse_log_path(name: str) -> LogPath:
    """Parse a file name in `_delta_log`. Names of no pattern are OTHER, which replay ignores (Protocol Evolution)."""
    if len(name) == 25 and name.endswith(".json"):
        digits = name[:20]
        if digits.isascii() and digits.isdigit() and int(digits) <= MAX_VERSION:
            return LogPath(name, LogFileKind.COMMIT, int(digits), is_json=True)
    elif len(name) == 24 and name.endswith(".crc") and name[:20].isascii() and name[:20].isdigit():
        return LogPath(name, LogFileKind.CHECKSUM, int(name[:20]), is_json=True)
    elif ".checkpoint." in name and (match := _CHECKPOINT.fullmatch(name)) and int(match["version"]) <= MAX_VERSION:
        version = int(match["version"])
        if match["part"]:
            return LogPath(name, LogFileKind.MULTI_PART_CHECKPOINT, version, int(match["part"]), int(match["parts"]))
        if match["classic"]:
            return LogPath(name, LogFileKind.CLASSIC_CHECKPOINT, version)
        return LogPath(name, LogFileKind.UUID_CHECKPOINT, version, is_json=match["form"] == "json")
    elif match := _COMPACTED.fullmatch(name):
        return LogPath(name, LogFileKind.COMPACTED_COMMIT, int(match[1]), last_version=int(match[2]), is_json=True)
    if _UNPADDED.fullmatch(name):
        return LogPath(name, LogFileKind.UNPADDED)
    return LogPath(name, LogFileKind.OTHER)


# -- choosing the log files that rebuild a version ---------------------------------------------------------------------


class LogFile(NamedTuple):
    """One listed file of `_delta_log`."""

    path: LogPath
    size_bytes: int
    modified_ms: int

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def version(self) -> int:
        return self.path.version


class CheckpointInstance(NamedTuple):
    """One complete checkpoint of a version: a classic file, all parts of a multi-part one, or one UUID-named file."""

    version: int
    kind: LogFileKind
    files: tuple[LogFile, ...]

    @property
    def preference(self) -> tuple[int, int, str]:
        """Highest wins at equal version: UUID, then classic, then multi-part (Problems with multi-part checkpoints)."""
        rank = {LogFileKind.UUID_CHECKPOINT: 2, LogFileKind.CLASSIC_CHECKPOINT: 1}.get(self.kind, 0)
        return (self.version, rank, self.files[0].name)

    @property
    def is_v1(self) -> bool:
        """Return True for a classic or a multi-part checkpoint by name."""
        return self.kind is not LogFileKind.UUID_CHECKPOINT

    @property
    def form(self) -> str:
        """Return what distinguishes checkpoints of one version, in words."""
        match self.kind:
            case LogFileKind.MULTI_PART_CHECKPOINT:
                return plural(len(self.files), "part")
            case LogFileKind.UUID_CHECKPOINT:
                return "V2"
            case _:
                return "classic"


@dataclass(frozen=True)
class LogListing:
    """The versioned files of `_delta_log`, from `start_version` on (0: all of them)."""

    commits: dict[int, LogFile]
    checkpoints: tuple[CheckpointInstance, ...]
    start_version: int = 0
    problems: tuple[tuple[int, str], ...] = field(default=())
    "(version, rule id) of unusable checkpoints."
    checksums: tuple[int, ...] = ()
    """The versions that have a checksum file, ascending."""
    last_compacted_version: int = -1
    """The highest version that a log compaction covers; -1 without any."""
    unpadded: Mapping[int, str] = field(default_factory=dict)
    """The names of commits whose version does not have 20 digits, by version. Only some engines read them."""

    @property
    def is_empty(self) -> bool:
        return not self.commits and not self.checkpoints

    def require_versions(self) -> None:
        """Raise NotATable for a log without any version."""
        if self.is_empty:
            raise NotATable("the log has no commit and no complete checkpoint", hint=command("validate"))

    @cached_property
    def newest_version(self) -> int:
        """The highest version that has a commit or a complete checkpoint; -1 without any."""
        return max([*self.commits, *(instance.version for instance in self.checkpoints)], default=-1)

    @property
    def highest_version_in_names(self) -> int:
        """The highest version that a commit, a complete checkpoint, a checksum or a compaction names; -1 without."""
        return max([self.newest_version, *self.checksums, self.last_compacted_version])

    def can_follow(self, version: int) -> bool:
        """Return whether a commit after this version would follow it: it is the newest one, or its successor is there.
        Otherwise newer commits have expired, and the number of the next one is free again.
        """
        return self.newest_version == version or version + 1 in self.commits

    @property
    def has_compaction_of_lost_versions(self) -> bool:
        """Return whether a log compaction covers versions after the newest one: they were committed and are lost."""
        return self.last_compacted_version > self.newest_version

    @property
    def lost_versions_message(self) -> str:
        return (
            f"commits after version {self.newest_version} seem to be lost: a log compaction covers the versions up to "
            f"{self.last_compacted_version}"
        )

    @cached_property
    def commit_runs(self) -> list[tuple[int, int]]:
        """Return contiguous runs of commits as (first, last), ascending."""
        return find_ranges(self.commits)

    @cached_property
    def reconstructable(self) -> list[int]:
        """Return every version that a start (commit 0, or a complete checkpoint) and contiguous commits can rebuild."""
        bases = {instance.version for instance in self.checkpoints} | ({-1} if 0 in self.commits else set())
        firsts = [first for first, _ in self.commit_runs]
        reachable: list[int] = []
        for base in sorted(bases):
            position = bisect_right(firsts, base + 1) - 1
            end = max(base, self.commit_runs[position][1] if position >= 0 else base)
            if not reachable or end > reachable[-1]:
                reachable.extend(range(max(base, 0, reachable[-1] + 1 if reachable else 0), end + 1))
        return reachable

    def readable_without(self, broken: Collection[int]) -> list[int]:
        """Return every version that can be rebuilt without the commits of some versions and without empty ones."""
        sound = {
            version: file for version, file in self.commits.items() if file.size_bytes > 0 and version not in broken
        }
        return replace(self, commits=sound).reconstructable


RULE_NAME_NOT_PADDED = "log.name-not-padded"
"""The rule of a file whose version does not have 20 digits."""
RULE_COMPACTION_AFTER_NEWEST_COMMIT = "compaction.beyond-log"
"""The rule of a log compaction that covers versions after the newest commit."""


class LogSegment(NamedTuple):
    """The files that rebuild `version`: at most one checkpoint and the commits after it, ascending."""

    version: int
    checkpoint: CheckpointInstance | None
    commits: tuple[LogFile, ...]
    problems: tuple[str, ...]


def read_listing(files: Iterable[LogFile], *, start_version: int = 0) -> LogListing:
    """Sort listed files into commits and complete checkpoints.

    Empty commits are kept, and replay refuses them with an error. Empty checkpoints and incomplete multi-part sets are
    not used; both are noted as problems.
    """
    commits: dict[int, LogFile] = {}
    instances: list[CheckpointInstance] = []
    problems: list[tuple[int, str]] = []
    checksums: list[int] = []
    last_compacted_version = -1
    unpadded: dict[int, str] = {}
    parts: dict[tuple[int, int], dict[int, LogFile]] = {}
    for file in files:
        kind = file.path.kind
        if kind is LogFileKind.COMMIT:
            commits[file.version] = file
        elif kind in (LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.UUID_CHECKPOINT, LogFileKind.MULTI_PART_CHECKPOINT):
            if file.size_bytes == 0:
                problems.append((file.version, "checkpoint.zero-length"))
            elif kind is LogFileKind.MULTI_PART_CHECKPOINT:
                parts.setdefault((file.version, file.path.parts), {})[file.path.part] = file
            else:
                instances.append(CheckpointInstance(file.version, kind, (file,)))
        elif kind is LogFileKind.CHECKSUM:
            checksums.append(file.version)
        elif kind is LogFileKind.COMPACTED_COMMIT:
            last_compacted_version = max(last_compacted_version, file.path.last_version)
        elif kind is LogFileKind.UNPADDED:
            problems.append((-1, RULE_NAME_NOT_PADDED))
            if (match := _UNPADDED_COMMIT.fullmatch(file.name)) is not None:
                unpadded[int(match[1])] = file.name
    for (version, count), present in parts.items():
        if len(present) == count and min(present) == 1 and max(present) == count:
            files_in_order = tuple(present[part] for part in sorted(present))
            instances.append(CheckpointInstance(version, LogFileKind.MULTI_PART_CHECKPOINT, files_in_order))
        else:
            problems.append((version, "checkpoint.multipart-incomplete"))
    noted = tuple(sorted(set(problems)))
    checked = tuple(sorted(checksums))
    return LogListing(commits, tuple(instances), start_version, noted, checked, last_compacted_version, unpadded)


def make_log_file(name: str, size_bytes: int, modified_ms: int) -> LogFile:
    """Return a listed file for one entry of a listing."""
    return LogFile(parse_log_path(name), size_bytes, modified_ms)


def choose_segment(
    listing: LogListing, version: int | None = None, *, unusable: Collection[CheckpointInstance] = ()
) -> LogSegment:
    """Choose the files that rebuild `version`, or the newest one: the newest usable checkpoint at or below it and all
    later commits. `unusable` are checkpoints that were opened and found invalid; the next older start is used instead.
    Raises NotATable (nothing listed), VersionAbsent, LogIncomplete (`log.gap`, `log.start-missing`). Spec: Checkpoints;
    Delta Log Entries (versions are contiguous).
    """
    listing.require_versions()
    wanted = listing.newest_version if version is None else version
    if version is not None and not 0 <= version <= listing.newest_version:
        raise _absent(listing, version)
    candidates = [c for c in listing.checkpoints if c.version <= wanted and c not in unusable]
    checkpoint = max(candidates, key=lambda instance: instance.preference, default=None)
    start = checkpoint.version + 1 if checkpoint else 0
    missing = next((v for v in range(start, wanted + 1) if v not in listing.commits), None)
    if missing is not None:
        if version is not None and version not in listing.commits:
            raise _absent(listing, version)
        if checkpoint is None and missing == 0 and listing.commits:
            raise _start_missing(listing, wanted)
        raise _gap(listing, missing, wanted)
    return LogSegment(
        wanted,
        checkpoint,
        tuple(listing.commits[v] for v in range(start, wanted + 1)),
        _worked_around(listing, checkpoint, wanted),
    )


def _worked_around(listing: LogListing, checkpoint: CheckpointInstance | None, wanted: int) -> tuple[str, ...]:
    """Return the rule ids of files that this choice had to skip."""
    floor = checkpoint.version if checkpoint else -1
    rules = {rule for version, rule in listing.problems if version < 0 or floor <= version <= wanted}
    if wanted == listing.newest_version and listing.has_compaction_of_lost_versions:
        rules.add(RULE_COMPACTION_AFTER_NEWEST_COMMIT)
    if checkpoint is not None:
        if checkpoint.version == wanted and wanted not in listing.commits:
            rules.add("log.checkpoint-commit-missing")
        if any(file.size_bytes == 0 for v, file in listing.commits.items() if v <= checkpoint.version):
            rules.add("commit.empty")
    return tuple(sorted(rules))


def _readable_facts(listing: LogListing) -> dict[str, str]:
    return {"readable versions": format_ranges(listing.readable_without(()))}


def _absent(listing: LogListing, version: int) -> VersionAbsent:
    """Return the error for a version that never existed, or for one whose files are missing."""
    if not 0 <= version <= listing.newest_version:
        message = f"version {version} does not exist; the newest is {listing.newest_version}"
    else:
        message = f"version {version} can no longer be rebuilt: its log files are missing"
    nearest = min(listing.readable_without(()), key=lambda readable: abs(readable - version), default=None)
    hint = None if nearest is None else command("snapshot", version=nearest)
    absent = VersionAbsent(message, facts=_readable_facts(listing), hint=hint)
    absent.wanted, absent.nearest = version, nearest
    return absent


def blocked_commit_error(listing: LogListing) -> LogIncomplete:
    """Return the error for a newest commit whose name is taken by a directory, a device or a link to nothing."""
    version = listing.newest_version + 1
    return LogIncomplete(
        f"version {version} cannot be read: {commit_name(version)} is not a file",
        facts={"to repair it": "move it out of the log, then bring the commit back", **_readable_facts(listing)},
        hint=_hint_bring_back(listing),
    )


def _start_missing(listing: LogListing, wanted: int) -> LogIncomplete:
    first = min(listing.commits)
    return LogIncomplete(
        f"version {wanted} cannot be rebuilt: the log starts at commit {first}, and no complete checkpoint covers "
        "what was before",
        code="log.start-missing",
        facts={
            "found": name_ranges("commit", listing.commits),
            "needed": f"{commit_name(0)}, or a complete checkpoint at or below version {wanted}",
            **_readable_facts(listing),
        },
        hint=_hint_bring_back(listing),
    )


def _gap(listing: LogListing, missing: int, wanted: int) -> LogIncomplete:
    return LogIncomplete(
        f"version {wanted} cannot be rebuilt: commit {missing} is missing",
        facts={
            "found": name_ranges("commit", listing.commits)
            + (f", checkpoints {format_ranges(c.version for c in listing.checkpoints)}" if listing.checkpoints else ""),
            "needed": commit_name(missing),
            **_readable_facts(listing),
        },
        hint=_hint_bring_back(listing),
    )


def _hint_bring_back(listing: LogListing) -> str:
    """Return the command that shows the newest version that can be rebuilt, and the one that brings files back."""
    bring_back, readable = command("undelete", sources=[...]), suggest_readable_version(listing)
    return bring_back if readable is None else f"{readable}   # or bring the files back: {bring_back}"


def suggest_readable_version(listing: LogListing, broken: Collection[int] = ()) -> str | None:
    """Return the command that shows the newest version that can be rebuilt, or None if there is none."""
    readable = listing.readable_without(broken)
    return command("snapshot", version=readable[-1]) if readable else None


MAX_TIME_MS = (2**63 - 1) // 1000
"The latest time that engines can represent, in epoch milliseconds: timestamps are microseconds in 64 bits."


def is_representable(timestamp_ms: int) -> bool:
    """Return True if a time in epoch milliseconds fits a timestamp of 64 bits in microseconds."""
    return abs(timestamp_ms) <= MAX_TIME_MS


class TimestampSource(StrEnum):
    IN_COMMIT = "inCommitTimestamp"
    FILE = "fileModificationTime"
    FILE_ADJUSTED = "fileModificationTimeAdjusted"


class CommitTime(NamedTuple):
    """When a version was committed, and the source of that time."""

    timestamp_ms: int
    source: TimestampSource

    @property
    def moment(self) -> datetime | None:
        """Return the same time as a datetime in UTC, or None if it is out of range."""
        try:
            return EPOCH + timedelta(milliseconds=self.timestamp_ms)
        except OverflowError:
            return None


def format_time_as_json(time: CommitTime | None) -> dict[str, Any]:
    """Return the three fields of documents that say when a version was committed."""
    return {
        "timestampMs": None if time is None else time.timestamp_ms,
        "timestamp": None if time is None else format_timestamp(time.timestamp_ms),
        "timestampSource": None if time is None else time.source.value,
    }


def compute_file_times(commits: Mapping[int, LogFile]) -> dict[int, CommitTime]:
    """Return the commit time of every listed commit by file modification time, made strictly increasing.

    Starting at the earliest commit, a file that is not newer than its predecessor gets the predecessor's time plus 1
    ms.
    """
    times: dict[int, CommitTime] = {}
    previous: int | None = None
    for version in sorted(commits):
        modified_ms = commits[version].modified_ms
        if previous is not None and modified_ms <= previous:
            previous += 1
            times[version] = CommitTime(previous, TimestampSource.FILE_ADJUSTED)
        else:
            previous = modified_ms
            times[version] = CommitTime(modified_ms, TimestampSource.FILE)
    return times


# -- `_last_checkpoint`: where to start listing, never an authority ---------------------------------------------------


class Hint(NamedTuple):
    """A trustworthy hint: the version at which to start listing."""

    version: int


class BadHint(NamedTuple):
    """A hint that cannot be trusted, and the rule it violates. It costs a listing from the start, never an error."""

    rule: str


MAX_HINT_BYTES = 16 << 20
"""Maximum size of a hint. Readers get one byte more, and refuse it by its length."""

_MAX_CANONICAL = 64 << 20
"Maximum number of characters to hash: a long key is repeated for each leaf below it."

_MAX_DEPTH = 200
_MAX_SCHEMA = 20_000
"Maximum length of a schema repeated outside its file, as in the reference implementation."


class _DuplicateKeyError(ValueError):
    pass


def parse_hint(data: bytes) -> dict[str, Json] | str:
    """Return the JSON object in `_last_checkpoint`, or the reason why it has none."""
    if len(data) > MAX_HINT_BYTES:
        return f"it is larger than {MAX_HINT_BYTES >> 20} MiB"
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except RecursionError:
        return "it is nested too deeply"
    except _DuplicateKeyError as fault:
        return f"it has the key {fault} twice"
    except ValueError:
        return "it is not a single JSON value"
    return value if isinstance(value, dict) else "it is not an object"


def read_hint(data: bytes) -> Hint | BadHint:
    """Read `_last_checkpoint`. Cut text, duplicate keys, no version, or a wrong checksum make a bad hint."""
    value = parse_hint(data)
    if isinstance(value, str):
        return BadHint("hint.bad-json")
    try:
        return _judge(value)
    except ValueError:  # lone surrogates have no checksum
        return BadHint("hint.bad-json")


def _judge(value: dict[str, Json]) -> Hint | BadHint:
    version = value.get("version")
    if type(version) is not int or not 0 <= version < 2**63:
        return BadHint("hint.missing-field")
    checksum = value.get("checksum")
    if isinstance(checksum, str) and checksum.lower() not in checksums(value):
        return BadHint("hint.checksum-bad")
    return Hint(version)


def make_hint(
    *,
    version: int,
    size: int,
    size_bytes: int,
    adds: int,
    parts: int | None = None,
    schema: dict[str, Json] | None = None,
) -> bytes:
    """Return the bytes of `_last_checkpoint`.

    `size` counts actions, including those in sidecars; `schema` is that of the top-level file. The version comes first,
    so that a partial read by old clients still finds it; the checksum comes last.
    """
    value: dict[str, Any] = {"version": version, "size": size}
    if parts is not None:
        value["parts"] = parts
    value |= {"sizeInBytes": size_bytes, "numOfAddFiles": adds}
    if schema is not None and short_schema(schema) is not None:
        value["checkpointSchema"] = schema
    (checksum,) = checksums(value)  # one, because it contains no array of scalars
    return json.dumps({**value, "checksum": checksum}, separators=(",", ":")).encode()


def short_schema(schema: dict[str, Json]) -> str | None:
    """Return a schema as it is repeated outside its file, or None if it is too long for that."""
    text = json.dumps(schema, separators=(",", ":"))
    return text if len(text) <= _MAX_SCHEMA else None


def checksums(value: dict[str, Any]) -> frozenset[str]:
    """Return the valid MD5 checksums of a hint: pairs sorted by path as in the protocol, and sorted whole as in Spark.

    Raises ValueError if there is none, or if it needs too much text.
    """
    pairs, length = [], 0
    for path, text in _leaves(value, ""):
        length += len(path) + len(text)
        if length > _MAX_CANONICAL:
            raise ValueError("the canonical form is too large")
        if path != '"checksum"':
            pairs.append((path, text))
    by_path = ",".join(f"{path}={text}" for path, text in sorted(pairs, key=lambda pair: pair[0].encode()))
    whole = ",".join(sorted((f"{path}={text}" for path, text in pairs), key=str.encode))
    return frozenset(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() for text in (by_path, whole))


def _leaves(value: object, path: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield (path, canonical value) of each leaf: keys quoted and percent-encoded, positions bare, joined by `+`."""
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    prefix = f"{path}+" if path else ""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f'{prefix}"{quote(key, safe="-._~")}"', depth + 1)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _leaves(item, f"{prefix}{position}", depth + 1)
    elif isinstance(value, str):
        yield path, f'"{quote(value, safe="-._~")}"'
    else:
        yield path, json.dumps(value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise _DuplicateKeyError(key[:80])
        members[key] = value
    return members
