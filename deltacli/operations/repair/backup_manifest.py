"""The manifest of a repair's backup: which files are kept where, and what the repair left in their places.

The manifest decides which files of a table `repair --undo` replaces. It has a digest of its own content, so that one
that was edited or damaged is refused. Manifests of older releases have none; see `BackupManifest.left_at`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from deltacli.changing.recorded_fields import (
    digest_content,
    require_field,
    validate_array,
    validate_object,
    validate_path,
    validate_sha256,
    validate_size_bytes,
    validate_time_ms,
    validate_uri,
    validate_version,
)
from deltacli.core.errors import FileMissing, Refused, Unreadable
from deltacli.core.times import format_timestamp
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.storage import ReadStorage, is_address_of
from deltacli.storage.hadoop_checksums import is_checksum_name

if TYPE_CHECKING:
    from deltacli.core.typing import Json

MANIFEST = "manifest.json"
KIND = "deltacli.repair-backup"
_DIGEST = "sha256"


class BackupFile(NamedTuple):
    """A file in a backup: its path in the table and in the backup, and what it was."""

    path: str
    kept: str
    size_bytes: int
    sha256: str
    modified_ms: int

    @property
    def is_of_log(self) -> bool:
        return self.path.startswith(f"{LOG_DIRECTORY}/")

    def as_json(self) -> dict[str, Json]:
        return {
            "path": self.path,
            "kept": self.kept,
            "sizeBytes": self.size_bytes,
            "sha256": self.sha256,
            "modificationTimeMs": self.modified_ms,
        }


class Past(NamedTuple):
    """The newest version of a log: its number, its commit or checkpoint, and the SHA-256 of that; None without one."""

    version: int
    name: str | None
    sha256: str | None


class Unrecorded(Enum):
    """What is known about the place of a file if the manifest does not say what the repair left there."""

    INTERRUPTED = "the repair was interrupted before it could record it"
    NOT_REPLACED = "the repair replaced no such file"
    OLDER_RELEASE = "the release that made the backup did not record it"


class BackupManifest(NamedTuple):
    """What a repair kept in its backup, and what it left in the table.

    Attributes:
        version: The newest version when the repair was planned; None if there was none.
        committed: The versions that the repair committed or brought back.
        files: The files that were replaced or moved.
        log: The names of the files of the log at the end of the repair; None if it did not get that far.
        past: The newest version that the repair knew of at its end; None in backups of older releases.
        left: The SHA-256 of what the repair left in the places of files; None for nothing.
        is_verified: True if the manifest has a digest, which matches.
    """

    version: int | None
    committed: Sequence[int]
    files: Sequence[BackupFile]
    log: frozenset[str] | None
    past: Past | None
    left: Mapping[str, str | None]
    is_verified: bool

    def left_at(self, path: str) -> str | Unrecorded | None:
        """Return the SHA-256 of what the repair left at a path, None for nothing, or why that is not known."""
        if path in self.left:
            return self.left[path]
        if not self.is_verified:
            return Unrecorded.OLDER_RELEASE
        return Unrecorded.INTERRUPTED if self.log is None else Unrecorded.NOT_REPLACED


def name_in_backup(path: str) -> str:
    """Return the path in a backup of a file of the table. The log's directory has another name there.

    Otherwise programs that look for tables would take the backup for one. A checksum file of Hadoop has another name,
    too: a local store deletes it when the file that it is about is copied beside it.
    """
    name = f"files/{path.replace(LOG_DIRECTORY, 'log', 1) if path.startswith(LOG_DIRECTORY) else path}"
    return f"{name}.kept" if is_checksum_name(path.rpartition("/")[2]) else name


def manifest_bytes(manifest: BackupManifest, table: str, now_ms: int) -> bytes:
    """Return the content of the file."""
    content: dict[str, Json] = {
        "kind": KIND,
        "table": table,
        "version": manifest.version,
        "committedVersions": list(manifest.committed),
        "timestampMs": now_ms,
        "timestamp": format_timestamp(now_ms),
        "files": [file.as_json() for file in manifest.files],
    }
    if manifest.log is not None:
        content["logFiles"] = sorted(manifest.log)
    if manifest.past is not None:
        content |= {"past": manifest.past._asdict(), "left": dict(manifest.left)}
    content[_DIGEST] = digest_content(content)
    return json.dumps(content, indent=2).encode() + b"\n"


def read_backup_manifest(storage: ReadStorage, store: ReadStorage, uri: str) -> BackupManifest:
    """Read the manifest of a backup.

    Args:
        storage: The table to which files are to be put back.
        store: The directory of the backup.
        uri: The address of the backup, for messages.

    Raises:
        Unreadable: If there is no manifest (`repair.backup-missing`), or one that no repair has written
            (`repair.backup-damaged`).
        Refused: If it is the backup of another table (`repair.backup-of-another`).
    """
    try:
        content = json.loads(store.read(MANIFEST))
        manifest, of_table = _parse(content)
    except FileMissing:
        message = f"{uri} is not the backup of a repair: it has no {MANIFEST}"
        raise Unreadable(message, code="repair.backup-missing") from None
    except RecursionError as fault:
        raise _damaged(uri, "it is nested too deeply") from fault
    except (json.JSONDecodeError, UnicodeDecodeError) as fault:
        raise _damaged(uri, f"it is not JSON: {fault}") from fault
    except ValueError as fault:
        raise _damaged(uri, str(fault)) from fault
    if not is_address_of(storage, of_table):
        raise Refused(
            f"{uri} is the backup of another table",
            code="repair.backup-of-another",
            facts={"of": of_table, "this table": storage.uri},
        )
    return manifest


def _damaged(uri: str, reason: str) -> Unreadable:
    return Unreadable(
        f"{MANIFEST} of {uri} is not as a repair has written it",
        code="repair.backup-damaged",
        facts={"reason": reason[:200]},
    )


def _parse(value: Json) -> tuple[BackupManifest, str]:
    """Return the manifest in a JSON value, and the URI of its table. Raises ValueError, naming the field."""
    content = validate_object(value, "the manifest")
    digest = content.pop(_DIGEST, None)
    if digest is not None and digest != digest_content(content):
        raise ValueError("it was changed: its digest does not match")
    kind = require_field(content, "kind")
    if kind != KIND:
        raise ValueError(f"its kind is {str(kind)[:80]}, not {KIND}")

    version = require_field(content, "version")
    committed = validate_array(require_field(content, "committedVersions"), "committedVersions")
    files = [_parse_file(entry) for entry in validate_array(require_field(content, "files"), "files")]
    if len({file.path for file in files}) < len(files):
        raise ValueError("it has a path twice")
    log_files, past = content.get("logFiles"), content.get("past")
    manifest = BackupManifest(
        None if version is None else validate_version(version, "version"),
        [validate_version(number, "committedVersions") for number in committed],
        files,
        None if log_files is None else _parse_names(log_files),
        None if past is None else _parse_past(past),
        _parse_left(content.get("left", {})),
        is_verified=digest is not None,
    )
    return manifest, validate_uri(require_field(content, "table"), "table")


def _parse_names(log_files: Json) -> frozenset[str]:
    return frozenset(validate_path(name, "logFiles") for name in validate_array(log_files, "logFiles"))


def _parse_left(left: Json) -> dict[str, str | None]:
    return {
        validate_path(path, "left"): None if sha256 is None else validate_sha256(sha256, "left")
        for path, sha256 in validate_object(left, "left").items()
    }


def _parse_file(value: Json) -> BackupFile:
    entry = validate_object(value, "files")
    path = validate_path(require_field(entry, "path"), "path")
    kept = require_field(entry, "kept")
    if kept != name_in_backup(path):
        raise ValueError(f"kept is {str(kept)[:80]!r}, not {name_in_backup(path)!r}")
    return BackupFile(
        path,
        kept,
        validate_size_bytes(require_field(entry, "sizeBytes"), "sizeBytes"),
        validate_sha256(require_field(entry, "sha256"), "sha256"),
        validate_time_ms(require_field(entry, "modificationTimeMs"), "modificationTimeMs"),
    )


def _parse_past(value: Json) -> Past:
    past = validate_object(value, "past")
    name, sha256 = require_field(past, "name"), require_field(past, "sha256")
    return Past(
        validate_version(require_field(past, "version"), "past.version", least=-1),
        None if name is None else validate_path(name, "past.name"),
        None if sha256 is None else validate_sha256(sha256, "past.sha256"),
    )
