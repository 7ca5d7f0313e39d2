"""The names of the files in `_delta_log`.

Spec: Delta Log Entries, Checkpoints, Log Compaction Files, Version Checksum File.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from deltacli.core.patterns import pattern


class Place(NamedTuple):
    """The place of a finding. `path` is relative to the table; `line` counts from 1; `key` names a file, a column or a
    property.
    """

    path: str
    line: int | None = None
    version: int | None = None
    key: str | None = None


LOG_DIRECTORY = "_delta_log"
SIDECAR_DIRECTORY = "_sidecars"
HINT_NAME = "_last_checkpoint"
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


_CHECKPOINT = pattern(
    r"(?P<version>[0-9]{20})\.checkpoint\.(?:"
    r"(?P<part>[0-9]{10})\.(?P<parts>[0-9]{10})\.parquet|(?P<classic>parquet)|(?P<uuid>[^.]+)\.(?P<form>json|parquet))"
)
_COMPACTED = pattern(r"([0-9]{20})\.([0-9]{20})\.compacted\.json")
_UNPADDED = pattern(r"[0-9]+\.(?:json|crc|checkpoint\..*parquet)")


def commit_name(version: int) -> str:
    """The file name of a commit."""
    return f"{version:020d}.json"


def version_prefix(version: int) -> str:
    """The first characters of every log file of `version`: where a listing starts."""
    return f"{version:020d}."


def parse_log_path(name: str) -> LogPath:
    """Parse a file name in `_delta_log`. Names that match no pattern are OTHER, which replay ignores (Protocol
    Evolution).
    """
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
