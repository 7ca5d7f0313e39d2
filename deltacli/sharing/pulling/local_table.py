"""The target directory of a pull: its actions as those of a table of its own, and its unfinished downloads.

A pulled table has whole data files of the shared one, but neither its log nor its catalog, row ids or change feed.
Features that depend on those are left out.

Several pulls may use the hidden directory at once: each holds a shared lock on it, and the last one removes it. Readers
and writers of tables skip it, because its name begins with a dot.

Spec: Table Features; Add File and Remove File.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard
from uuid import uuid4

from deltacli.core.errors import DeltacliError
from deltacli.core.texts import summarize_names
from deltacli.core.typing import Json
from deltacli.delta.data_files import unique_id
from deltacli.delta.log.actions import Action
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.log.state import read_protocol
from deltacli.delta.protocol.feature_use import constraint_uses, property_uses, schema_uses, upgraded
from deltacli.delta.protocol.features import FEATURES, WRITER_FEATURES_VERSION, stable_name
from deltacli.delta.schema.types import NO_COLUMNS, parse_schema
from deltacli.sharing.client.faults import PullRefused
from deltacli.storage.local_write import replace_file
from deltacli.storage.os_errors import translate_os_error, translate_write_errors
from deltacli.table.api_errors import name_table
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot

if TYPE_CHECKING:
    import pyarrow

APP_ID = "deltacli.share.pull"
"""The transaction whose version is the version of the shared table."""
TAG = "deltacli.share"
"""The tag of files that were pulled; its value is the id of the shared table."""
ENDPOINT, TABLE = "deltacli.share.endpoint", "deltacli.share.table"
"""Properties that name where the table is pulled from."""

_KEPT_FEATURES = frozenset(
    {
        *(
            "columnMapping",
            "deletionVectors",
            "timestampNtz",
            "timestampWithoutTimezone",
            "geospatial",
            "geospatial-dev",
        ),
        *("typeWidening", "typeWidening-preview", "variantType", "variantType-preview", "timestampNanos"),
        *("variantShredding", "variantShredding-preview", "invariants", "checkConstraints", "generatedColumns"),
        *("identityColumns", "allowColumnDefaults", "collations", "collations-preview"),
    }
)
_KEPT_PROPERTIES = frozenset(
    {
        "delta.columnMapping.mode",
        "delta.columnMapping.maxColumnId",
        "delta.enableDeletionVectors",
        "delta.enableTypeWidening",
        "delta.enableVariantShredding",
    }
)
_LEAST_PROTOCOL: Action = {"minReaderVersion": 1, "minWriterVersion": 2}
_CONSTRAINT = "delta.constraints."
_NAMES = uuid.UUID("b0c1a7b8-6f53-4d0c-9a51-0d8f3c1f7e22")


@dataclass(frozen=True, slots=True)
class PullSource:
    """Where a table is pulled from. `table_id` is that of its metadata."""

    endpoint: str
    table: str
    table_id: str

    @property
    def facts(self) -> dict[str, str]:
        """Return it for people, commits and the record of an unfinished pull."""
        return {"table": self.table, "endpoint": self.endpoint, "tableId": self.table_id}

    @property
    def properties(self) -> dict[str, str]:
        return {ENDPOINT: self.endpoint, TABLE: self.table}


def table_id_of(metadata: Action, endpoint: str, table: str) -> str:
    """Return the id of a shared table; for a server that sends none, one made of the address."""
    found = metadata.get("id")
    return found if isinstance(found, str) and found else str(uuid.uuid5(_NAMES, f"{endpoint} {table}"))


def local_protocol(remote: Action, metadata: Action, before: Action | None) -> Action | None:
    """Return the protocol that a local table needs for the metadata; None where it has it already."""
    wanted = _of_versions(remote)
    schema = parse_schema(metadata.get("schemaString") or NO_COLUMNS)
    properties = metadata["configuration"]
    uses = [*schema_uses(schema), *property_uses(properties), *constraint_uses(properties)]
    known = {stable_name(name) for name in read_protocol(wanted, "the shared table").supported_features}
    wanted = upgraded(wanted, _with_required({use.feature for use in uses} - known)) or wanted
    if before is None:
        return wanted
    needed = read_protocol(wanted, "the shared table").supported_features
    lacking = needed - read_protocol(before, "the local table").supported_features
    return upgraded(before, sorted(lacking))


def _of_versions(remote: Action) -> Action:
    """Return the protocol with the features that concern data files and columns."""
    protocol = read_protocol(remote, "the shared table")
    if protocol.min_writer_version < WRITER_FEATURES_VERSION:
        return {"minReaderVersion": protocol.min_reader_version, "minWriterVersion": protocol.min_writer_version}
    kept = _with_required(protocol.supported_features & _KEPT_FEATURES & FEATURES.keys())
    return upgraded(_LEAST_PROTOCOL, kept) or _LEAST_PROTOCOL


def _with_required(names: Iterable[str]) -> list[str]:
    found = set(names)
    return sorted(found | {other for name in found for other in FEATURES[name].requires})


def local_metadata(remote: Action, source: PullSource, before: Action | None, now_ms: int) -> Action:
    """Return the metadata of a local table. Properties that were set on the local table stay."""
    given = {str(key): str(value) for key, value in (remote.get("configuration") or {}).items()}
    own = {} if before is None else before.get("configuration") or {}
    configuration = {key: value for key, value in own.items() if _is_own(key)}
    configuration |= {key: value for key, value in given.items() if _is_kept(key)}
    action = {key: value for key, value in remote.items() if key not in ("version", "size", "numFiles", "location")}
    created = remote.get("createdTime") if before is None else before.get("createdTime")
    return action | {
        "id": source.table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": remote.get("schemaString") or NO_COLUMNS,
        "partitionColumns": remote.get("partitionColumns") or [],
        "configuration": dict(sorted((configuration | source.properties).items())),
        "createdTime": now_ms if created is None else created,
    }


def _is_kept(key: str) -> bool:
    """Return True for a property of the shared table that is one of its data, or of its users."""
    return key in _KEPT_PROPERTIES or key.startswith(_CONSTRAINT) or not key.lower().startswith("delta")


def _is_own(key: str) -> bool:
    """Return True for a property that only the local table can have set."""
    return key.lower().startswith("delta.") and not _is_kept(key)


def key_of(add: Mapping[str, Any]) -> str:
    """Return the identity of a logical file: its path and its deletion vector."""
    return f"{add['path']} {unique_id(add.get('deletionVector'))}"


def list_adds(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Yield live files as dictionaries, without absent fields."""
    for batch in batches:
        for row in batch.to_pylist():
            add = {name: value for name, value in row.items() if value is not None}
            for name in ("partitionValues", "tags"):
                add[name] = dict(add.get(name) or ())
            if (vector := add.get("deletionVector")) is not None:
                add["deletionVector"] = {name: value for name, value in vector.items() if value is not None}
            yield add


def add_line(add: Mapping[str, Any], source: PullSource, now_ms: int) -> Action:
    """Return the add of a pulled file."""
    action: Action = {
        "path": add["path"],
        "partitionValues": add["partitionValues"],
        "size": add["size"],
        "modificationTime": add.get("modificationTime") or now_ms,
        "dataChange": True,
    }
    optional = {name: add[name] for name in ("stats", "deletionVector") if name in add}
    return {"add": action | optional | {"tags": {TAG: source.table_id}}}


def remove_line(add: Mapping[str, Any], now_ms: int) -> Action:
    """Return the tombstone of a file."""
    action: Action = {
        "path": add["path"],
        "deletionTimestamp": now_ms,
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": add["partitionValues"],
        "size": add["size"],
    }
    optional = {name: add[name] for name in ("deletionVector", "tags") if add.get(name)}
    return {"remove": action | optional}


# -- unfinished downloads ----------------------------------------------------------------------------------------------

WORKSPACE = ".deltacli-pull"
_MARKER, _LOCK = "pull.json", "lock"
_MOST_MARKER_BYTES = 64 << 10
_LONGEST_TAG = 500


class Part:
    """An unfinished download, locked by its writer. `tag` is the ETag of the bytes so far, None where unknown."""

    def __init__(self, place: str, name: str, descriptor: int) -> None:
        self.place, self.name, self._descriptor = place, name, descriptor
        self.size_bytes = os.fstat(descriptor).st_size
        self.tag = _read_tag(place) if self.size_bytes else None

    @property
    def can_continue(self) -> bool:
        return self.size_bytes > 0 and self.tag is not None

    def restart(self, tag: str | None, *, is_large: bool) -> None:
        """Drop the bytes so far. A strong tag is kept, so that a later pull can continue a large file."""
        with translate_write_errors(self.place, self.name):
            if self.size_bytes:
                os.ftruncate(self._descriptor, 0)
                with suppress(FileNotFoundError):
                    os.unlink(f"{self.place}.tag")
            self.size_bytes, self.tag = 0, None
            if is_large and is_strong_tag(tag):
                with open(f"{self.place}.tag", "w", encoding="utf-8") as file:
                    file.write(tag)
                self.tag = tag

    def write(self, data: bytes) -> None:
        """Append bytes. Raises NoSpace and StorageFailed."""
        with translate_write_errors(self.place, self.name):
            rest = memoryview(data)
            while rest:
                written = os.pwrite(self._descriptor, rest, self.size_bytes)
                self.size_bytes += written
                rest = rest[written:]

    def stretch(self, size_bytes: int) -> None:
        """Give the file its full length; bytes that were not written are zero. Raises NoSpace and StorageFailed."""
        with translate_write_errors(self.place, self.name):
            with suppress(FileNotFoundError):
                os.unlink(f"{self.place}.tag")  # with it, the length would be that of the bytes so far
            os.ftruncate(self._descriptor, size_bytes)
            self.size_bytes = size_bytes

    def write_at(self, data: bytes, offset: int) -> None:
        """Write bytes inside the length of the file, from any thread. Raises NoSpace and StorageFailed."""
        with translate_write_errors(self.place, self.name):
            rest = memoryview(data)
            while rest:
                written = os.pwrite(self._descriptor, rest, offset)
                offset += written
                rest = rest[written:]

    def sync(self) -> None:
        """Write the bytes so far to disk. Raises StorageFailed."""
        with translate_write_errors(self.place, self.name):
            os.fsync(self._descriptor)

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file."""
        return os.pread(self._descriptor, length, offset)

    def publish(self, target: str) -> None:
        """Sync the file and give it its name. Raises StorageFailed."""
        with translate_write_errors(target, self.name):
            os.fsync(self._descriptor)
            replace_file(self.place, target)
        for record in ("tag", "ranges"):
            with suppress(OSError):
                os.unlink(f"{self.place}.{record}")


@contextmanager
def open_part(directory: str, name: str) -> Iterator[Part]:
    """Open the unfinished download of a file; another one where a pull that is running has it. Raises StorageFailed."""
    place = f"{directory}/{name}.part"
    with translate_write_errors(place, name):
        descriptor = _open(place)
        if descriptor is None:
            place = f"{directory}/{name}.{uuid4().hex}.part"
            descriptor = _open(place)
    assert descriptor is not None  # nothing else knows its name
    try:
        yield Part(place, name, descriptor)
    finally:
        os.close(descriptor)


def _open(place: str) -> int | None:
    """Return the locked descriptor of a file; None where another process has locked it. Raises OSError."""
    descriptor = None
    while descriptor is None:  # it was published by another pull: the next one is new
        try:
            descriptor = lock_named(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
    return descriptor


def lock_named(place: str, operation: int) -> int | None:
    """Return the locked descriptor of a file, made if missing; None if it has lost its name by then. Raises OSError."""
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    is_named = False
    try:
        fcntl.flock(descriptor, operation)
        with suppress(FileNotFoundError):
            is_named = os.path.samestat(os.fstat(descriptor), os.lstat(place))
    finally:
        if not is_named:
            os.close(descriptor)
    return descriptor if is_named else None


def _read_tag(place: str) -> str | None:
    try:
        with open(f"{place}.tag", encoding="utf-8") as file:
            tag = file.read(_LONGEST_TAG + 1)
    except (OSError, UnicodeDecodeError):
        return None
    return tag if is_strong_tag(tag) else None


def is_strong_tag(tag: object) -> TypeGuard[str]:
    """Return True for an ETag that only equal bytes share."""
    if not isinstance(tag, str) or not 2 <= len(tag) <= _LONGEST_TAG:
        return False
    return tag.startswith('"') and tag.endswith('"') and tag.isascii() and tag.isprintable()


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What an unfinished pull was pulling."""

    source: PullSource
    version: int


class Workspace:
    """The open workspace of one pull."""

    def __init__(self, directory: str, lock: int) -> None:
        self.directory, self._lock = directory, lock

    @property
    def place(self) -> str:
        return f"{self.directory}/{WORKSPACE}"

    def mark(self, source: PullSource, version: int) -> None:
        """Record what is being pulled. Raises PullRefused where another pull is pulling another table."""
        draft, marker = f"{self.place}/{uuid4().hex}", f"{self.place}/{_MARKER}"
        with translate_write_errors(marker, _MARKER):
            with open(draft, "x", encoding="utf-8") as file:
                json.dump({**source.facts, "version": version}, file)
            with suppress(OSError):  # it exists, or the file system has no hard links
                os.link(draft, marker)
            found = read_unfinished(self.directory)
            if found is not None and found.source != source:
                os.unlink(draft)
                message = f"{self.directory} has an unfinished pull of another table"
                hint = "pull into another directory, or delete this one"
                raise PullRefused(message, facts=found.source.facts, hint=hint)
            os.replace(draft, marker)

    def close(self, *, is_done: bool) -> None:
        """Release the workspace; remove it after a finished pull, if no other pull uses it."""
        try:
            if is_done:
                with suppress(OSError):
                    fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(self.place, ignore_errors=True)
        finally:
            os.close(self._lock)


@contextmanager
def open_workspace(directory: str) -> Iterator[Workspace]:
    """Make the workspace of a target, and remove it when the block ends without an error. Raises StorageFailed."""
    with translate_write_errors(f"{directory}/{WORKSPACE}", WORKSPACE):
        workspace = Workspace(directory, _locked(directory))
    is_done = False
    try:
        yield workspace
        is_done = True
    finally:
        workspace.close(is_done=is_done)


def _locked(directory: str) -> int:
    """Return the descriptor of a lock file that is still there after it was locked. Raises OSError."""
    while True:
        os.makedirs(f"{directory}/{WORKSPACE}", mode=0o777, exist_ok=True)
        if not stat.S_ISDIR(os.lstat(f"{directory}/{WORKSPACE}").st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), f"{directory}/{WORKSPACE}")
        with suppress(FileNotFoundError):  # another pull has just removed the workspace
            if (descriptor := lock_named(f"{directory}/{WORKSPACE}/{_LOCK}", fcntl.LOCK_SH)) is not None:
                return descriptor


def read_unfinished(directory: str) -> Unfinished | None:
    """Return what an unfinished pull of a target was pulling; None without one."""
    try:
        with open(f"{directory}/{WORKSPACE}/{_MARKER}", "rb") as file:
            found: dict[str, Json] = json.loads(file.read(_MOST_MARKER_BYTES))
        source = PullSource(str(found["endpoint"]), str(found["table"]), str(found["tableId"]))
        return Unfinished(source, int(found["version"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


# -- the target directory of a pull ------------------------------------------------------------------------------------

_NAMED = 5


@dataclass(frozen=True, slots=True)
class PulledTable:
    """A local table and the version of the shared table that it has."""

    snapshot: Snapshot
    source: PullSource
    shared_version: int


@dataclass(frozen=True, slots=True)
class PullTarget:
    """A directory that can take a pull. `table` is None before the first pull is finished."""

    directory: str
    table: PulledTable | None = None
    unfinished: Unfinished | None = None
    has_workspace: bool = False
    """Whether an interrupted pull has left something, which a whole one removes."""


def read_target(handle: TableHandle, directory: str, now: Snapshot | None = None) -> PullTarget:
    """Return what a directory has, with the newest version if that was read already. Raises PullRefused for one that
    has something else than a pull, StorageFailed, and what `read_snapshot` raises.
    """
    found = _entries(directory)
    has_workspace = WORKSPACE in found
    unfinished = read_unfinished(directory) if has_workspace else None
    if _has_commits(directory):
        try:
            return PullTarget(
                directory, pulled_table(now or read_snapshot(handle), directory), unfinished, has_workspace
            )
        except DeltacliError as fault:
            name_table(fault, directory)
            raise
    others = sorted(found - {WORKSPACE, LOG_DIRECTORY})
    if others and unfinished is None:
        some = summarize_names(others, _NAMED)
        raise PullRefused(
            f"{directory} is not empty, and no pull has written to it",
            facts={"found": some, "expected": "a table that was pulled, an empty directory, or none"},
        )
    return PullTarget(directory, None, unfinished, has_workspace)


def _entries(directory: str) -> set[str]:
    try:
        return set(os.listdir(directory))
    except FileNotFoundError:
        return set()
    except NotADirectoryError:
        raise PullRefused(f"{directory} is a file, not a directory") from None
    except OSError as fault:
        raise translate_os_error(fault, directory, directory, "read") from fault


def _has_commits(directory: str) -> bool:
    """Return True where a log has anything but drafts."""
    try:
        return any(not name.startswith(".") for name in os.listdir(f"{directory}/{LOG_DIRECTORY}"))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as fault:
        raise translate_os_error(fault, LOG_DIRECTORY, f"{directory}/{LOG_DIRECTORY}", "read") from fault


def pulled_table(snapshot: Snapshot, directory: str) -> PulledTable:
    """Return what a table was pulled from. Raises PullRefused for a table that was not."""
    properties = snapshot.properties
    version = next((one.version for one in snapshot.transactions if one.app_id == APP_ID), None)
    if version is None or ENDPOINT not in properties or TABLE not in properties:
        raise PullRefused(
            f"{directory} is a table that was not pulled from a share",
            facts={"version": str(snapshot.version), "tableId": snapshot.metadata.id},
            hint="pull into another directory",
        )
    return PulledTable(snapshot, PullSource(properties[ENDPOINT], properties[TABLE], snapshot.metadata.id), version)


def require_same_table(target: PullTarget, source: PullSource) -> None:
    """Raise PullRefused where a directory has another table, finished or not. The endpoint may be another one."""
    for what, known in (("has", target.table), ("has an unfinished pull of", target.unfinished)):
        if known is None or (known.source.table, known.source.table_id) == (source.table, source.table_id):
            continue
        raise PullRefused(
            f"{target.directory} {what} another table",
            facts={
                "there": f"{known.source.table}, table id {known.source.table_id}",
                "asked for": f"{source.table}, table id {source.table_id}",
            },
            hint="pull into another directory",
        )


def require_not_backwards(target: PullTarget, version: int) -> None:
    """Raise PullRefused where a directory has a newer version."""
    table = target.table
    if table is not None and table.shared_version > version:
        raise PullRefused(
            f"{target.directory} has version {table.shared_version} of the shared table, which is newer than {version}",
            facts={"local version": str(table.snapshot.version)},
            hint="pull an older version into another directory",
        )
