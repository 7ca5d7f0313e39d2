"""The files of a Paimon table: which schemas, snapshots, tags, changelogs and branches there are, and reading them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from deltacli.core.errors import FileMissing, NotATable, PermissionRefused, Unreadable
from deltacli.core.progress import SILENT, Progress, reported
from deltacli.engine.base import Engine
from deltacli.paimon.schema import MAX_SCHEMA_BYTES, Schema, read_schema
from deltacli.paimon.snapshots import MAX_SNAPSHOT_BYTES, SnapshotFile, read_snapshot
from deltacli.paimon.table_paths import (
    BRANCH_DIRECTORY,
    BRANCH_PREFIX,
    CHANGELOG_DIRECTORY,
    CHANGELOG_PREFIX,
    MAIN_BRANCH,
    SCHEMA_DIRECTORY,
    SCHEMA_PREFIX,
    SNAPSHOT_DIRECTORY,
    SNAPSHOT_PREFIX,
    TAG_DIRECTORY,
    TAG_PREFIX,
    branch_root,
    number_of,
    schema_path,
)
from deltacli.storage import PathKind, ReadStorage
from deltacli.table.find_log import is_paimon_directory

NO_PERMISSION = "paimon.no-permission"
_FILES_A_REPORT = 10


class SchemaListing(NamedTuple):
    """The ids of the schema files of a branch, ascending, and the names of other files beside them."""

    ids: tuple[int, ...]
    strays: tuple[str, ...] = ()


class MetadataFile(NamedTuple):
    """A snapshot, tag or changelog: its path, its name (a number or the name of a tag), its content or why it cannot
    be read.
    """

    path: str
    name: str
    content: SnapshotFile | Unreadable

    @property
    def readable(self) -> SnapshotFile | None:
        return None if isinstance(self.content, Unreadable) else self.content


def is_paimon(storage: ReadStorage) -> bool:
    """Return True for a directory with schemas of Paimon, or with snapshots and manifests that need them."""
    return is_paimon_directory(storage, storage.list_directories(""))


def require_paimon(storage: ReadStorage) -> None:
    """Raise NotATable unless the directory is a Paimon table."""
    match storage.kind_of(""):
        case PathKind.MISSING:
            raise NotATable("no such file or directory", code="table.path-missing", facts={"path": storage.uri})
        case PathKind.FILE:
            raise NotATable("this is a file, not a table", code="table.path-is-file", facts={"path": storage.uri})
    if not is_paimon(storage):
        raise NotATable("this is not a Paimon table: the directory has no schema/schema-N", facts={"path": storage.uri})


def list_schemas(storage: ReadStorage, branch: str = MAIN_BRANCH) -> SchemaListing:
    """Return the schema files of a branch; none where there is no such directory."""
    ids, strays = [], []
    for name in _names(storage, f"{branch_root(branch)}{SCHEMA_DIRECTORY}"):
        number = number_of(name, SCHEMA_PREFIX)
        if number is None:
            strays.append(name)
        else:
            ids.append(number)
    return SchemaListing(tuple(sorted(ids)), tuple(strays))


def list_branches(storage: ReadStorage) -> tuple[str, ...]:
    """Return the names of all branches, main first."""
    try:
        names = storage.list_directories(BRANCH_DIRECTORY)
    except FileMissing:
        names = []
    others = (name.removeprefix(BRANCH_PREFIX) for name in names if name.startswith(BRANCH_PREFIX))
    return (MAIN_BRANCH, *sorted(others))


def require_branch(storage: ReadStorage, branch: str) -> tuple[str, ...]:
    """Return the names of all branches. Raises NotATable for a branch that does not exist."""
    branches = list_branches(storage)
    if branch not in branches:
        raise NotATable(
            f"branch {branch!r} does not exist", code="paimon.no-such-branch", facts={"branches": ", ".join(branches)}
        )
    return branches


def read_schemas(
    storage: ReadStorage, engine: Engine, ids: Iterable[int], branch: str = MAIN_BRANCH, *, progress: Progress = SILENT
) -> dict[int, Schema | Unreadable]:
    """Return schemas by id, read in parallel; a file that cannot be read is returned as its error."""
    wanted = list(ids)
    read = partial(_read_schema, storage, branch)
    schemas = engine.run(read, wanted, at_once=storage.capabilities.parallel_reads)
    total = len(wanted)
    told = reported(schemas, progress, "reading schemas", unit="files", total=total, every=_FILES_A_REPORT)
    return dict(zip(wanted, told, strict=True))


def read_newest_if_possible(storage: ReadStorage, engine: Engine, branch: str) -> Schema | None:
    """Return the newest schema of a branch, None where it cannot be read."""
    found = read_schemas(storage, engine, list_schemas(storage, branch).ids[-1:], branch).values()
    return next((schema for schema in found if isinstance(schema, Schema)), None)


def _read_schema(storage: ReadStorage, branch: str, schema_id: int) -> Schema | Unreadable:
    path = schema_path(schema_id, branch)
    try:
        return read_schema(read_limited(storage, path, MAX_SCHEMA_BYTES))
    except Unreadable as fault:
        fault.facts = {"file": path} | fault.facts
        return fault
    except FileMissing:
        return Unreadable("the schema file is missing", code="paimon.schema-missing", facts={"file": path})
    except PermissionRefused as fault:
        return without_permission(path, fault)


def without_permission(path: str, refused: PermissionRefused) -> Unreadable:
    """Return the refusal to read one file as a fault of that file. Its cause is the refusal."""
    fault = Unreadable("no permission to read the file", code=NO_PERMISSION, facts={"file": path})
    fault.__cause__ = refused
    return fault


def read_limited(storage: ReadStorage, path: str, most: int) -> bytes:
    """Return the content of a file. Raises Unreadable (`paimon.file-too-large`) for more than `most` bytes."""
    data = storage.read_range(path, 0, most + 1)
    if len(data) > most:
        raise Unreadable(f"the file has more than {most:,} bytes", code="paimon.file-too-large")
    return data


def read_snapshots(
    storage: ReadStorage,
    engine: Engine,
    branch: str = MAIN_BRANCH,
    *,
    progress: Progress = SILENT,
    foresee: Callable[[int], None] = lambda _: None,
) -> list[MetadataFile]:
    """Return the snapshots of a branch, oldest first; `foresee` is called with their number before they are read."""
    place = f"{branch_root(branch)}{SNAPSHOT_DIRECTORY}"
    numbers = _numbers(storage, place, SNAPSHOT_PREFIX)
    foresee(len(numbers))
    files = [(f"{place}/{SNAPSHOT_PREFIX}{number}", str(number)) for number in numbers]
    return _read_files(storage, engine, files, progress)


def read_changelogs(storage: ReadStorage, engine: Engine, branch: str = MAIN_BRANCH) -> list[MetadataFile]:
    """Return the changelogs of a branch that outlived their snapshots, oldest first."""
    place = f"{branch_root(branch)}{CHANGELOG_DIRECTORY}"
    numbers = _numbers(storage, place, CHANGELOG_PREFIX)
    return _read_files(storage, engine, [(f"{place}/{CHANGELOG_PREFIX}{number}", str(number)) for number in numbers])


def read_tags(storage: ReadStorage, engine: Engine, branch: str = MAIN_BRANCH) -> list[MetadataFile]:
    """Return the tags of a branch by name."""
    directory = f"{branch_root(branch)}{TAG_DIRECTORY}"
    names = [name for name in _names(storage, directory) if name.startswith(TAG_PREFIX)]
    return _read_files(storage, engine, [(f"{directory}/{name}", name.removeprefix(TAG_PREFIX)) for name in names])


def _read_files(
    storage: ReadStorage, engine: Engine, files: Sequence[tuple[str, str]], progress: Progress = SILENT
) -> list[MetadataFile]:
    found = engine.run(partial(_read_file, storage), files, at_once=storage.capabilities.parallel_reads)
    told = reported(found, progress, "reading snapshots", unit="files", total=len(files), every=_FILES_A_REPORT)
    return [file for file in told if file is not None]


def _read_file(storage: ReadStorage, file: tuple[str, str]) -> MetadataFile | None:
    """Return a file that was listed; None if it was deleted meanwhile, as expired snapshots are."""
    path, name = file
    try:
        return MetadataFile(path, name, read_snapshot(read_limited(storage, path, MAX_SNAPSHOT_BYTES)))
    except Unreadable as fault:
        fault.facts = {"file": path} | fault.facts
        return MetadataFile(path, name, fault)
    except PermissionRefused as refused:
        return MetadataFile(path, name, without_permission(path, refused))
    except FileMissing:
        return None


def _numbers(storage: ReadStorage, directory: str, prefix: str) -> list[int]:
    numbers = (number_of(name, prefix) for name in _names(storage, directory))
    return sorted(number for number in numbers if number is not None)


def _names(storage: ReadStorage, directory: str) -> list[str]:
    try:
        return [stat.name for stat in storage.list_from(directory)]
    except FileMissing:
        return []
