"""The references to the schemas of a Paimon table: snapshots, tags, changelogs, branches, manifests and data files.

Data files name the schema that they were written with, so a schema can be needed although no snapshot names it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from deltacli.core.errors import FileMissing, PermissionRefused, Unreadable
from deltacli.core.progress import SILENT, Progress, reported
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import plural, some_of
from deltacli.engine.base import Engine
from deltacli.operations.paimon.table_files import (
    NO_PERMISSION,
    MetadataFile,
    read_changelogs,
    read_limited,
    read_snapshots,
    read_tags,
)
from deltacli.paimon.json_text import BadJson, read_object
from deltacli.paimon.snapshots import ManifestFile, SnapshotFile, count_live, read_manifest_list, read_state
from deltacli.paimon.table_paths import MAIN_BRANCH, MANIFEST_DIRECTORY
from deltacli.paimon.traits import UNREADABLE, traits_of_manifest
from deltacli.paimon.type_objects import Odd
from deltacli.storage import ReadStorage

_MAX_MANIFEST_BYTES = 1 << 30
_FILES_A_REPORT = 10
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
        """Return the usage as in documents."""
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
        """All of them that can be read."""
        files = (*self.snapshots, *self.tags, *self.changelogs)
        return [found for file in files if (found := file.readable) is not None]

    @property
    def of_snapshots(self) -> list[SnapshotFile]:
        """The readable snapshots and tags: all of their lists exist. A changelog outlives lists that it names."""
        return [found for file in (*self.snapshots, *self.tags) if (found := file.readable) is not None]

    @property
    def newest(self) -> SnapshotFile | None:
        """The newest snapshot, if it can be read."""
        return self.snapshots[-1].readable if self.snapshots else None

    @property
    def broken(self) -> list[BrokenFile]:
        """Those that cannot be read."""
        files = (*self.snapshots, *self.tags, *self.changelogs)
        return [
            BrokenFile(file.path, file.content.code, str(file.content))
            for file in files
            if isinstance(file.content, Unreadable)
        ]


@dataclass(frozen=True, slots=True)
class SchemaReferences:
    """Who uses each schema of a branch. Where `broken` files keep some users from being known, no schema counts as
    unreferenced.
    """

    files: BranchFiles
    usage: dict[int, Usage]
    broken: tuple[BrokenFile, ...] = ()
    manifests: frozenset[str] = frozenset()
    """The names of the lists and manifests that were read."""

    def of(self, schema_id: int) -> Usage:
        """Return the users of a schema."""
        return self.usage.get(schema_id) or Usage()

    def missing_among(self, present: Collection[int]) -> tuple[int, ...]:
        """Return the schemas in use that are not among those present, ascending."""
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
    return BranchFiles(
        read_snapshots(storage, engine, branch, progress=progress, foresee=foresee),
        read_tags(storage, engine, branch),
        read_changelogs(storage, engine, branch),
    )


def collect_references(
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
    needed = {name for file in files.of_snapshots for name in file.manifest_lists}
    broken = [
        found
        for name, found in lists.items()
        if isinstance(found, BrokenFile) and (name in needed or found.rule != Odd.MANIFEST_MISSING)
    ]
    entries = {name: found for name, found in lists.items() if not isinstance(found, BrokenFile)}
    for found in entries.values():
        for schema_id in {manifest.schema_id for manifest in found}:
            usage.setdefault(schema_id, Usage()).manifests += 1
    state = _state_manifests(files.newest, entries)
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


def _state_manifests(newest: SnapshotFile | None, lists: Mapping[str, Iterable[ManifestFile]]) -> list[str]:
    """Return the manifests from which the live files of a snapshot follow."""
    if newest is None:
        return []
    return list(dict.fromkeys(m.name for name in newest.state_lists for m in lists.get(name, ())))


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
    return some_of([*map(str, numbers)], _NAMED)


def _read_all(
    storage: ReadStorage, engine: Engine, names: Sequence[str], parse: Any, progress: Progress, what: str
) -> dict[str, Any]:  # Any: what `parse` returns, or a BrokenFile
    read = partial(_read_one, storage, parse)
    found = engine.run(read, names, at_once=storage.capabilities.parallel_reads)
    told = reported(found, progress, what, unit="files", total=len(names), every=_FILES_A_REPORT)
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
