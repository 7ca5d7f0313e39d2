"""The files of a Paimon table, and everything in it that refers to a schema, over all branches.

Data files name the schema that they were written with, so a schema can be needed although no snapshot names it.

This is stricter than the users that `history` lists for a branch. Snapshots of a branch become snapshots of main when
the branch is merged (fast-forward), so the use of a schema in one branch keeps the file of that number in all of them.
Statistics, and manifests that no snapshot names because their commit is not finished, count as users.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from deltacli.core.errors import FileMissing, NotATable, PermissionRefused, Unreadable
from deltacli.core.progress import SILENT, Progress, report_items
from deltacli.core.ranges import find_gaps
from deltacli.core.texts import summarize_names
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import plural
from deltacli.engine.base import Engine
from deltacli.paimon.numbers import parse_whole_number
from deltacli.paimon.schema import MAX_SCHEMA_BYTES, BadJson, Schema, read_object, read_schema
from deltacli.paimon.snapshots import (
    BRANCH_DIRECTORY,
    BRANCH_PREFIX,
    CHANGELOG_DIRECTORY,
    CHANGELOG_PREFIX,
    MAIN_BRANCH,
    MANIFEST_DIRECTORY,
    MAX_SNAPSHOT_BYTES,
    SCHEMA_DIRECTORY,
    SCHEMA_PREFIX,
    SNAPSHOT_DIRECTORY,
    SNAPSHOT_PREFIX,
    TAG_DIRECTORY,
    TAG_PREFIX,
    SnapshotFile,
    branch_root,
    count_live,
    number_of,
    read_manifest_list,
    read_snapshot,
    read_state,
    schema_path,
)
from deltacli.paimon.traits import UNREADABLE, traits_of_manifest
from deltacli.paimon.types import Odd
from deltacli.storage import FileStat, PathKind, ReadStorage
from deltacli.table.missing_log import build_missing_path_error
from deltacli.table.table_directories import is_paimon_directory

# -- the files of a Paimon table ---------------------------------------------------------------------------------------

NO_PERMISSION = "paimon.no-permission"
_FILES_A_REPORT = 10


class SchemaListing(NamedTuple):
    """The ids of the schema files of a branch, ascending, and the names of other files beside them."""

    ids: tuple[int, ...]
    strays: tuple[str, ...] = ()


class MetadataFile(NamedTuple):
    """A snapshot, tag or changelog: its path, its name (a number or a tag), its content or why it cannot be read."""

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
            raise build_missing_path_error(storage)
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
    told = report_items(schemas, progress, "reading schemas", unit="files", total=total, every=_FILES_A_REPORT)
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


def read_tags(storage: ReadStorage, engine: Engine, branch: str = MAIN_BRANCH) -> list[MetadataFile]:
    """Return the tags of a branch by name."""
    directory = f"{branch_root(branch)}{TAG_DIRECTORY}"
    names = [name for name in _names(storage, directory) if name.startswith(TAG_PREFIX)]
    return _read_files(storage, engine, [(f"{directory}/{name}", name.removeprefix(TAG_PREFIX)) for name in names])


def _read_files(
    storage: ReadStorage, engine: Engine, files: Sequence[tuple[str, str]], progress: Progress = SILENT
) -> list[MetadataFile]:
    found = engine.run(partial(_read_file, storage), files, at_once=storage.capabilities.parallel_reads)
    told = report_items(found, progress, "reading snapshots", unit="files", total=len(files), every=_FILES_A_REPORT)
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


# -- references to schemas ---------------------------------------------------------------------------------------------

_MAX_MANIFEST_BYTES = 1 << 30
_LIST_PREFIX = "manifest-list-"
_HEAD_BYTES = 16 << 10
"""An Avro file begins with its schema."""
_NAMED = 3


@dataclass(slots=True)
class Usage:
    """The users of one schema; it is true if there are any. `manifests` and `files` are numbers: lists of manifests
    that name it, and live data files of the newest snapshot. `has_data_files`: some manifest names a data file with
    this schema. `branches` have a copy of their own, so they need no other.
    """

    snapshots: list[int] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    changelogs: list[int] = field(default_factory=list)
    branches: list[str] = field(default_factory=list)
    manifests: int = 0
    files: int = 0
    has_data_files: bool = False

    def __bool__(self) -> bool:
        named = (self.snapshots, self.tags, self.changelogs, self.manifests, self.files, self.has_data_files)
        return any(named)

    def as_json(self) -> dict[str, Json]:
        return {
            "snapshots": self.snapshots,
            "tags": self.tags,
            "changelogs": self.changelogs,
            "branches": self.branches,
            "manifests": self.manifests,
            "files": self.files,
            "dataFiles": self.has_data_files,
        }


class BrokenFile(NamedTuple):
    """A file that is named, or listed, and cannot be read."""

    path: str
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class BranchFiles:
    """The files of a branch that name schemas."""

    snapshots: Sequence[MetadataFile]
    tags: Sequence[MetadataFile]
    changelogs: Sequence[MetadataFile]

    @property
    def readable(self) -> list[SnapshotFile]:
        files = (*self.snapshots, *self.tags, *self.changelogs)
        return [found for file in files if (found := file.readable) is not None]

    @property
    def needed_lists(self) -> set[str]:
        """The manifest lists that must exist.

        A changelog outlives lists that it names. So does a tag: when Paimon expires the snapshot of a tag, it keeps the
        lists from which the files follow, and deletes the one of the changelog.
        """
        needed = set[str]()
        for snapshot in self.snapshots:
            if snapshot.readable is not None:
                needed.update(snapshot.readable.manifest_lists)
        for tag in self.tags:
            if tag.readable is not None:
                needed.update(tag.readable.state_lists)
        return needed

    @property
    def newest(self) -> SnapshotFile | None:
        return self.snapshots[-1].readable if self.snapshots else None

    @property
    def broken(self) -> list[BrokenFile]:
        files = (*self.snapshots, *self.tags, *self.changelogs)
        return [
            BrokenFile(file.path, file.content.code, str(file.content))
            for file in files
            if isinstance(file.content, Unreadable)
        ]


@dataclass(frozen=True, slots=True)
class SchemaReferences:
    """Who uses each schema of a branch. With `broken` files, no schema counts as unreferenced."""

    files: BranchFiles
    usage: dict[int, Usage]
    broken: tuple[BrokenFile, ...] = ()
    manifests: frozenset[str] = frozenset()
    """The names of the lists and manifests that were read."""

    def of(self, schema_id: int) -> Usage:
        return self.usage.get(schema_id) or Usage()

    def missing_among(self, present: Collection[int]) -> tuple[int, ...]:
        return tuple(sorted(number for number, usage in self.usage.items() if usage and number not in present))


def read_branch(
    storage: ReadStorage,
    engine: Engine,
    branch: str = MAIN_BRANCH,
    *,
    progress: Progress = SILENT,
    foresee: Callable[[int], None] = lambda _: None,
) -> BranchFiles:
    """Return the snapshots, tags and changelogs of a branch; `foresee` is called with the number of snapshots."""
    snapshots = read_snapshots(storage, engine, branch, progress=progress, foresee=foresee)
    tags = read_tags(storage, engine, branch)
    # Listed last, because snapshots that expire meanwhile may live on as changelogs.
    place = f"{branch_root(branch)}{CHANGELOG_DIRECTORY}"
    numbers = _numbers(storage, place, CHANGELOG_PREFIX)
    return BranchFiles(
        snapshots,
        tags,
        _read_files(storage, engine, [(f"{place}/{CHANGELOG_PREFIX}{number}", str(number)) for number in numbers]),
    )


def collect_schema_references(
    storage: ReadStorage,
    engine: Engine,
    files: BranchFiles,
    *,
    with_manifests: bool = True,
    progress: Progress = SILENT,
) -> SchemaReferences:
    """Return who uses each schema of a branch. Raises UsageError where manifests are Avro and fastavro is missing."""
    usage: dict[int, Usage] = {}
    for stored in files.snapshots:
        if stored.readable is not None:
            usage.setdefault(stored.readable.schema_id, Usage()).snapshots.append(stored.readable.id)
    for stored in files.changelogs:
        if stored.readable is not None:
            usage.setdefault(stored.readable.schema_id, Usage()).changelogs.append(stored.readable.id)
    for stored in files.tags:
        if stored.readable is not None:
            usage.setdefault(stored.readable.schema_id, Usage()).tags.append(stored.name)
    broken = files.broken
    read: frozenset[str] = frozenset()
    if with_manifests:
        unreadable, read = _count_manifests(storage, engine, files, usage, progress)
        broken += unreadable
    return SchemaReferences(files, usage, tuple(broken), read)


def _count_manifests(
    storage: ReadStorage, engine: Engine, files: BranchFiles, usage: dict[int, Usage], progress: Progress
) -> tuple[list[BrokenFile], frozenset[str]]:
    """Add what the manifests name, each read once, and return those that cannot be read, and the names of all."""
    named = dict.fromkeys(name for file in files.readable for name in file.manifest_lists)
    lists = _read_all(storage, engine, list(named), read_manifest_list, progress, "reading lists of manifests")
    needed = files.needed_lists
    broken = [
        found
        for name, found in lists.items()
        if isinstance(found, BrokenFile) and (name in needed or found.rule != Odd.MANIFEST_MISSING)
    ]
    entries = {name: found for name, found in lists.items() if not isinstance(found, BrokenFile)}
    for found in entries.values():
        for schema_id in {manifest.schema_id for manifest in found}:
            usage.setdefault(schema_id, Usage()).manifests += 1
    state = (
        []
        if files.newest is None
        else list(dict.fromkeys(m.name for name in files.newest.state_lists for m in entries.get(name, ())))
    )
    others = dict.fromkeys(m.name for found in entries.values() for m in found if m.name not in state)
    counted = _read_all(storage, engine, list(others), _schemas_in, progress, "reading manifests")
    live = _read_all(storage, engine, state, read_state, progress, "reading the newest manifests")
    broken += [found for found in (*counted.values(), *live.values()) if isinstance(found, BrokenFile)]
    ids = {number for found in counted.values() if not isinstance(found, BrokenFile) for number in found}
    states = [found for found in live.values() if not isinstance(found, BrokenFile)]
    for schema_id in ids.union(*(named for _, named in states)):
        usage.setdefault(schema_id, Usage()).has_data_files = True
    for schema_id, count in count_live([state for state, _ in states]).items():
        usage[schema_id].files = count
    return broken, frozenset((*named, *state, *others))


def _schemas_in(data: bytes) -> frozenset[int]:
    return read_state(data)[1]


def _schemas_in_list(data: bytes) -> frozenset[int]:
    return frozenset(manifest.schema_id for manifest in read_manifest_list(data))


def schemas_of_manifest_file(storage: ReadStorage, name: str) -> frozenset[int] | BrokenFile:
    """Return the schemas that a list of manifests or a manifest names, by its name."""
    found: frozenset[int] | BrokenFile = _read_one(
        storage, _schemas_in_list if name.startswith(_LIST_PREFIX) else _schemas_in, name
    )
    return found


def traits_of_manifests(storage: ReadStorage, engine: Engine, snapshot: SnapshotFile) -> frozenset[str]:
    """Return the traits of the manifests from which the files of a snapshot follow, by their first bytes."""
    names = list(snapshot.state_lists)
    lists = _read_all(storage, engine, names, read_manifest_list, SILENT, "")
    manifests = [one.name for found in lists.values() if not isinstance(found, BrokenFile) for one in found]
    heads = engine.run(partial(_read_head, storage), [*names, *manifests], at_once=storage.capabilities.parallel_reads)
    traits = {UNREADABLE for found in lists.values() if isinstance(found, BrokenFile)}
    for name, head in zip([*names, *manifests], heads, strict=True):
        if isinstance(head, BrokenFile):
            traits.add(UNREADABLE)
        else:
            traits.update(traits_of_manifest(head, is_list=name in lists))
    return frozenset(traits)


def _read_head(storage: ReadStorage, name: str) -> bytes | BrokenFile:
    head: bytes | BrokenFile = _read_one(storage, bytes, name, _HEAD_BYTES)
    return head


def words_of(usage: Usage) -> str:
    """Return the users of a schema: `snapshots 1, 2, tag a, 3 live files`."""
    words = []
    if usage.snapshots:
        words.append(f"{'snapshot' if len(usage.snapshots) == 1 else 'snapshots'} {_listed(usage.snapshots)}")
    words += [f"tag {name}" for name in usage.tags[:_NAMED]]
    if usage.changelogs:
        words.append(f"{'changelog' if len(usage.changelogs) == 1 else 'changelogs'} {_listed(usage.changelogs)}")
    if usage.files:
        words.append(plural(usage.files, "live file"))
    elif usage.has_data_files:
        words.append("data files of older snapshots")
    if not words:
        words.append(plural(usage.manifests, "manifest list"))
    return ", ".join(words)


def _listed(numbers: Sequence[int]) -> str:
    return summarize_names([*map(str, numbers)], _NAMED)


def _read_all(
    storage: ReadStorage, engine: Engine, names: Sequence[str], parse: Any, progress: Progress, what: str
) -> dict[str, Any]:  # Any: what `parse` returns, or a BrokenFile
    read = partial(_read_one, storage, parse)
    found = engine.run(read, names, at_once=storage.capabilities.parallel_reads)
    told = report_items(found, progress, what, unit="files", total=len(names), every=_FILES_A_REPORT)
    return dict(zip(names, told, strict=True))


def _read_one(storage: ReadStorage, parse: Any, name: str, head: int = 0) -> Any:  # Any: as in `_read_all`
    path = f"{MANIFEST_DIRECTORY}/{name}"
    if "/" in name or name in ("", ".", ".."):
        return BrokenFile(path, "paimon.bad-manifest", "the name is not that of a file")
    try:
        return parse(storage.read_range(path, 0, head) if head else read_limited(storage, path, _MAX_MANIFEST_BYTES))
    except FileMissing:
        return BrokenFile(path, Odd.MANIFEST_MISSING, "the file is missing")
    except PermissionRefused:
        return BrokenFile(path, NO_PERMISSION, "no permission to read the file")
    except Unreadable as fault:
        return BrokenFile(path, fault.code, str(fault))


Statistics = JsonObject

BAD_STATISTICS = "paimon.bad-statistics"
_DIRECTORY = "statistics"
_MAX_BYTES = 256 << 20


def read_statistics(storage: ReadStorage, snapshot: SnapshotFile) -> Statistics | BrokenFile | None:
    """Return the statistics of a snapshot, None without any, or why they cannot be read."""
    name = snapshot.content.get(_DIRECTORY)
    if name is None:
        return None
    if not isinstance(name, str) or "/" in name or name in ("", ".", ".."):
        return BrokenFile(f"{_DIRECTORY}/{name}", BAD_STATISTICS, "the name is not that of a file")
    path = f"{_DIRECTORY}/{name}"
    try:
        content: Statistics = read_object(read_limited(storage, path, _MAX_BYTES)).value
    except BadJson as fault:
        return BrokenFile(path, BAD_STATISTICS, str(fault))
    except FileMissing:
        return BrokenFile(path, BAD_STATISTICS, "the file is missing")
    except PermissionRefused:
        return BrokenFile(path, NO_PERMISSION, "no permission to read the file")
    except Unreadable as fault:
        return BrokenFile(path, BAD_STATISTICS, fault.message)
    return content


# -- users of schemas in all branches ----------------------------------------------------------------------------------

BAD_CONSUMER = "paimon.bad-consumer"
_CONSUMER_DIRECTORY = "consumer"
_CONSUMER_PREFIX = "consumer-"
_MANIFEST_PREFIX = "manifest-"
_NEWEST_HINT = "LATEST"
_MAX_CONSUMER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Missing:
    """Files that the table should have: their branch, what they are, and their numbers."""

    branch: str
    what: str
    numbers: Sequence[int]


@dataclass(slots=True)
class SchemaUsers:
    """The users of each schema number in words, what is missing, and what cannot be read."""

    named: dict[int, list[str]] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)
    broken: list[BrokenFile] = field(default_factory=list)

    def add(self, schema_id: int, user: str) -> None:
        self.named.setdefault(schema_id, []).append(user)


def find_schema_users(
    storage: ReadStorage, engine: Engine, branches: Sequence[str], *, cutoff_ms: int, progress: Progress = SILENT
) -> SchemaUsers:
    """Return the users of schemas in all branches. Manifests of no snapshot that cannot be read matter only if they
    were written after `cutoff_ms`, because older ones are remains of failed commits.

    Raises UsageError where manifests are Avro and fastavro is missing, and StorageFailed.
    """
    found = SchemaUsers()
    read: set[str] = set()
    for branch in branches:
        files = read_branch(storage, engine, branch)
        references = collect_schema_references(storage, engine, files, progress=progress)
        for schema_id, usage in sorted(references.usage.items()):
            if usage:
                words = words_of(usage)
                found.add(schema_id, words if branch == MAIN_BRANCH else f"{words} of branch {branch}")
        found.broken += references.broken
        read |= references.manifests
        missing = references.missing_among(list_schemas(storage, branch).ids)
        found.missing += [Missing(branch, "schema", missing)] if missing else []
        found.missing += _missing_snapshots(storage, branch, files)
        statistics, broken = schemas_of_statistics(storage, engine, files)
        for schema_id, snapshot_id in statistics:
            found.add(schema_id, f"statistics of snapshot {snapshot_id}")
        found.broken += [*broken, *broken_consumers(storage, branch)]
    _add_unfinished(storage, engine, found, read, cutoff_ms)
    return found


def _missing_snapshots(storage: ReadStorage, branch: str, files: BranchFiles) -> Iterator[Missing]:
    """Yield missing snapshots: holes, which no expiration leaves, and the one that the hint names as the newest."""
    directory = f"{branch_root(branch)}{SNAPSHOT_DIRECTORY}"
    numbers = [int(file.name) for file in files.snapshots]
    newest = max(numbers, default=0)
    with suppress(FileMissing, ValueError, Unreadable):
        newest = max(newest, int(read_limited(storage, f"{directory}/{_NEWEST_HINT}", 64)))
    gaps = find_gaps(numbers, min(numbers, default=newest), newest) if newest else []
    if gaps:
        yield Missing(branch, "snapshot", [first for first, _ in gaps])


def schemas_of_statistics(
    storage: ReadStorage, engine: Engine, files: BranchFiles
) -> tuple[list[tuple[int, int]], list[BrokenFile]]:
    """Return the schemas that the statistics of a branch name, each with the snapshot, and what cannot be read."""
    snapshots = files.readable
    every = engine.run(partial(read_statistics, storage), snapshots, at_once=storage.capabilities.parallel_reads)
    named: list[tuple[int, int]] = []
    broken: dict[str, BrokenFile] = {}
    for snapshot, statistics in zip(snapshots, every, strict=True):
        if isinstance(statistics, BrokenFile):
            broken[statistics.path] = statistics
        elif statistics is not None and type(schema_id := statistics.get("schemaId")) is int:
            named.append((schema_id, snapshot.id))
        elif statistics is not None:
            path = f"statistics/{snapshot.content['statistics']}"
            broken[path] = BrokenFile(path, BAD_STATISTICS, "schemaId is missing")
    return named, list(broken.values())


def broken_consumers(storage: ReadStorage, branch: str) -> Iterator[BrokenFile]:
    """Yield consumers that cannot be read. Others name a snapshot, whose schema is a user of its own."""
    directory = f"{branch_root(branch)}{_CONSUMER_DIRECTORY}"
    for stat in _list_files(storage, directory, _CONSUMER_PREFIX):
        path = f"{directory}/{stat.name}"
        try:
            content = read_object(read_limited(storage, path, _MAX_CONSUMER_BYTES)).value
        except FileMissing:
            continue
        except PermissionRefused:
            yield BrokenFile(path, NO_PERMISSION, "no permission to read the file")
            continue
        except (BadJson, Unreadable) as fault:
            yield BrokenFile(path, BAD_CONSUMER, str(fault))
            continue
        next_snapshot = content.get("nextSnapshot")
        if parse_whole_number(next_snapshot) is None:
            reason = "is missing" if next_snapshot is None else "is not a whole number"
            yield BrokenFile(path, BAD_CONSUMER, f"nextSnapshot {reason}")


def _add_unfinished(storage: ReadStorage, engine: Engine, found: SchemaUsers, read: set[str], cutoff_ms: int) -> None:
    """Add what lists and manifests name that no snapshot names: a commit in flight, or the remains of one."""
    others = {
        stat.name: stat.modified_ms
        for stat in _list_files(storage, MANIFEST_DIRECTORY, _MANIFEST_PREFIX)
        if stat.name not in read
    }
    every = engine.run(
        partial(schemas_of_manifest_file, storage), list(others), at_once=storage.capabilities.parallel_reads
    )
    for (name, modified_ms), answer in zip(others.items(), every, strict=True):
        if not isinstance(answer, BrokenFile):
            for schema_id in sorted(answer):
                found.add(schema_id, f"{name}, which no snapshot names")
        elif modified_ms > cutoff_ms and answer.rule != Odd.MANIFEST_MISSING:
            found.broken.append(answer)


def _list_files(storage: ReadStorage, directory: str, prefix: str) -> list[FileStat]:
    try:
        return [stat for stat in storage.list_from(directory, prefix) if stat.name.startswith(prefix)]
    except FileMissing:
        return []
