"""Everything in a Paimon table that needs a schema, over all branches.

This is stricter than the users that `history` lists for a branch. Snapshots of a branch become snapshots of main when
the branch is merged (fast-forward), so the use of a schema in one branch keeps the file of that number in all of them.
Statistics, and manifests that no snapshot names because their commit is not finished, count as users.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from deltacli.core.errors import FileMissing, PermissionRefused, Unreadable
from deltacli.core.progress import SILENT, Progress
from deltacli.core.units import gaps_in
from deltacli.engine.base import Engine
from deltacli.operations.paimon.references import (
    BAD_STATISTICS,
    BranchFiles,
    BrokenFile,
    Usage,
    collect_references,
    read_branch,
    read_statistics,
    schemas_of_manifest_file,
    words_of,
)
from deltacli.operations.paimon.table_files import NO_PERMISSION, list_schemas, read_limited
from deltacli.paimon.json_text import BadJson, read_object
from deltacli.paimon.table_paths import MAIN_BRANCH, MANIFEST_DIRECTORY, SNAPSHOT_DIRECTORY, branch_root
from deltacli.paimon.type_objects import Odd
from deltacli.storage import FileStat, ReadStorage

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
        """Add a user of a schema."""
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
        references = collect_references(storage, engine, files, progress=progress)
        for schema_id, usage in sorted(references.usage.items()):
            if usage:
                found.add(schema_id, _user(usage, branch))
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


def _user(usage: Usage, branch: str) -> str:
    words = words_of(usage)
    return words if branch == MAIN_BRANCH else f"{words} of branch {branch}"


def _missing_snapshots(storage: ReadStorage, branch: str, files: BranchFiles) -> Iterator[Missing]:
    """Yield snapshots that a complete listing would have: holes, and the one that the hint names as the newest.

    Paimon expires snapshots from the oldest on, without holes.
    """
    directory = f"{branch_root(branch)}{SNAPSHOT_DIRECTORY}"
    numbers = [int(file.name) for file in files.snapshots]
    newest = max(numbers, default=0)
    with suppress(FileMissing, ValueError, Unreadable):
        newest = max(newest, int(read_limited(storage, f"{directory}/{_NEWEST_HINT}", 64)))
    gaps = gaps_in(numbers, min(numbers, default=newest), newest) if newest else []
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
    for stat in _listed(storage, directory, _CONSUMER_PREFIX):
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
        if type(content.get("nextSnapshot")) is not int:
            yield BrokenFile(path, BAD_CONSUMER, "nextSnapshot is missing")


def _add_unfinished(storage: ReadStorage, engine: Engine, found: SchemaUsers, read: set[str], cutoff_ms: int) -> None:
    """Add what lists and manifests name that no snapshot names: a commit in flight, or the remains of one."""
    others = {
        stat.name: stat.modified_ms
        for stat in _listed(storage, MANIFEST_DIRECTORY, _MANIFEST_PREFIX)
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


def _listed(storage: ReadStorage, directory: str, prefix: str) -> list[FileStat]:
    try:
        return [stat for stat in storage.list_from(directory, prefix) if stat.name.startswith(prefix)]
    except FileMissing:
        return []
