"""The newest version between the target and now that can be restored, where files of the target are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.file_actions import action_schemas, whole_actions_leniently
from deltacli.delta.log.replay import file_key
from deltacli.operations.restore.difference import Mask
from deltacli.operations.restore.verify import check_files
from deltacli.typing import RecordBatch
from deltacli.work.commits.reading import stream_commit
from deltacli.work.rows.table_files import TableFiles
from deltacli.work.vector_facts import file_of_vector

if TYPE_CHECKING:
    from deltacli.operations.table.version import Snapshot


class _Commit(NamedTuple):
    """The files of a commit, by key."""

    adds: Mapping[str, Action]
    removes: frozenset[str]


def newest_restorable(
    now: Snapshot, target: Snapshot, added: Iterable[RecordBatch], names: Set[str], where: Mask | None
) -> int | None:
    """Return the newest version after the target and before now all of whose files are there; None where there is none,
    or commits are missing.

    `added` are the adds of the target that are not live now, `names` the files and vectors of these that cannot be
    used. Raises what `check_files` and reading commits raise.
    """
    listed = now.listing.commits
    versions = range(target.version + 1, now.version + 1)
    if any(version not in listed for version in versions):
        return None
    commits = {version: _read(now, version) for version in versions}
    between = {key: add for commit in commits.values() for key, add in commit.adds.items()}
    live = set[str]()
    for commit in commits.values():
        live = (live - commit.removes) | commit.adds.keys()
    files = now.table.files()
    broken_since = _broken(now, {key: add for key, add in between.items() if key not in live}, where, files)
    broken = {key for batch in added for key in _using(batch, names, files)}
    newest = None
    for version in versions[:-1]:
        broken = (broken - commits[version].removes) | (commits[version].adds.keys() & broken_since)
        newest = newest if broken else version
    return newest


def _read(now: Snapshot, version: int) -> _Commit:
    adds: dict[str, Action] = {}
    removes: set[str] = set()
    for kind, action in stream_commit(now.table.storage, now.listing.commits[version]):
        if kind == "add":
            adds[file_key(action)] = action
        elif kind == "remove":
            removes.add(file_key(action))
    return _Commit(adds, frozenset(removes))


def _broken(now: Snapshot, adds: Mapping[str, Action], where: Mask | None, files: TableFiles) -> set[str]:
    """Return the keys of adds whose files cannot be used; footers are not read."""
    if not adds:
        return set()
    batch = whole_actions_leniently(list(adds.values()), action_schemas().add)
    if where is not None:
        batch = pc.filter(batch, where(batch))
    found = check_files(now.table, [batch], batch.num_rows, footers=False, vectors=False)
    return _using(batch, {one.path for one in found.problems}, files)


def _using(batch: RecordBatch, names: Set[str], files: TableFiles) -> set[str]:
    """Return the keys of adds that need one of these files."""
    return {
        file_key({name: value for name, value in add.items() if value is not None})
        for add in batch.select(["path", "deletionVector"]).to_pylist()
        if not names.isdisjoint(_names_of(add, files))
    }


def _names_of(add: Action, files: TableFiles) -> set[str | None]:
    path, vector = add["path"], add.get("deletionVector")
    names = {files.inside(path) or path, files.inside_as_written(path)}
    return names if vector is None else names | {file_of_vector(files, vector)}
