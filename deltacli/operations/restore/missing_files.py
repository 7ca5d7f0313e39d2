"""Files that the restored version lacks: brought from where they still are, before the commit; else the newest version
that needs none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import StorageFailed
from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.data_files import unique_id_column
from deltacli.delta.log.actions import Action
from deltacli.delta.log.file_actions import action_schemas, build_action_batch_leniently, compute_file_key
from deltacli.delta.log.segment import LogFile
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling import decode_path_bytes, encode_path_bytes
from deltacli.operations.log.log_copy import list_whole_log
from deltacli.operations.recover.log_files import complete_versions, data_sources, open_sources, require_usable
from deltacli.operations.recover.sources import FoundFiles, Journal, Source, find_in, put_found, tags_of
from deltacli.operations.recover.verify import verify
from deltacli.operations.restore.difference import VERIFIED, Checked, ProblemFile, check_sizes, compare
from deltacli.storage import ReadStorage
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle
from deltacli.table.needed_files import NeededFiles, combine_chunks, locate_files
from deltacli.table.partition_condition import Mask
from deltacli.table.version import Snapshot
from deltacli.work.commits.reading import stream_commit
from deltacli.work.facts.vector_facts import find_vector_file
from deltacli.work.table_files import TableFiles


@dataclass(frozen=True, eq=False)
class Brought:
    """Files that are found elsewhere, their sources, and the tags of the damaged files that are in their places."""

    found: FoundFiles
    sources: Sequence[Source]
    damaged: Mapping[str, str]

    @cached_property
    def count(self) -> int:
        return len(self.found.sources) - int(self.found.sources.null_count)

    @cached_property
    def size_bytes(self) -> int:
        return pc.sum(pc.filter(self.found.sizes, self.found.is_found)).as_py() or 0

    @property
    def names(self) -> list[str]:
        """The sources that have one, as the caller named them."""
        return sorted({self.sources[number].name for number in pc.unique(self.found.sources.drop_null()).to_pylist()})

    def put(self, table: TableHandle, journal: Journal | None = None) -> None:
        """Put the files in their places, and look at them again. A file that is there as it should be stays, so
        running it again continues an interrupted run. Raises StorageFailed.
        """
        put_found(
            self.found, self.sources, table.writable(), table.engine,
            progress=table.progress, journal=journal, damaged=self.damaged,
        )  # fmt: skip
        needed = self.found.needed.where(self.found.is_found)
        found, sizes = locate_files(table.storage, needed, table.engine, table.progress)
        problems = verify(found, sizes, table.stores, table.engine, table.progress).problems
        wrong = pc.filter(combine_chunks(found.files["path"]), pc.is_valid(problems)).to_pylist()
        if wrong:
            raise StorageFailed(
                f"{decode_path_bytes(wrong[0])} was put in its place and cannot be used",
                facts={"files": str(len(wrong))},
            )


def look_elsewhere(
    table: TableHandle, checked: Checked, names: Sequence[str], table_id: str
) -> tuple[tuple[ProblemFile, ...], Brought | None, tuple[str, ...]]:
    """Look for files that cannot be used in sources; return the same problems with the source of each, the files, and
    notes on sources.

    A damaged file is looked for by the spelling of its path that the table has, a missing one by any. Raises Refused
    for the source of another table, UsageError, Unreadable and StorageFailed for one that cannot be opened.
    """
    opened = open_sources(table, names, list_whole_log(table.storage) or {}, table_id)
    notes = require_usable(opened)
    needed = checked.needed
    if needed is None:
        return checked.problems, None, notes
    there, sizes = locate_files(table.storage, needed, table.engine, table.progress)
    sources = data_sources(table, opened, there, table_id)
    found = find_in(sources, there, table.engine, table.progress)
    told = tuple(_told(checked.problems, needed, found, sources))
    if not pc.any(found.is_found).as_py():
        return told, None, notes
    damaged = tags_of(table.storage, pc.filter(combine_chunks(there.files["path"]), pc.is_valid(sizes)), table.engine)
    return told, Brought(found, sources, damaged), (*notes, *found.notes)


def _told(
    problems: Sequence[ProblemFile], needed: NeededFiles, found: FoundFiles, sources: Sequence[Source]
) -> Iterator[ProblemFile]:
    """Yield the problems with the source of each file, or with why the copy that there is cannot be used."""
    columns = (combine_chunks(needed.files["path"]), combine_chunks(needed.files["kind"]), found.sources, found.reasons)
    of_needed = zip(*(column.to_pylist() for column in columns), strict=True)
    known = {(decode_path_bytes(path), kind): (number, reason) for path, kind, number, reason in of_needed}
    for one in problems:
        number, reason = known.get((one.path, one.kind), (None, None))
        if number is not None:
            yield one._replace(source=sources[number].name)
        else:
            yield one if reason is None else one._replace(why=f"{one.why}; its copy: {reason}")


# -- the newest restorable version -------------------------------------------------------------------------------------


class _Commit(NamedTuple):
    """The files of a commit, by key; `changed` are those that add or remove rows of the table."""

    adds: Mapping[str, Action]
    removes: frozenset[str]
    changed: frozenset[str]


def newest_restorable(
    now: Snapshot, target: Snapshot, adds: Iterable[RecordBatch], names: Set[str], where: Mask | None
) -> int | None:
    """Return the newest version before now all of whose files are there, and which has other rows; None where there is
    none, or commits are missing.

    `adds` are the files of the target, `names` the files and vectors of these that cannot be used. Raises what
    `check_sizes` and reading commits raise.
    """
    newer = _newer(now, target, adds, names, where)
    return _older(now, target, names, where) if newer is None else newer


def _newer(
    now: Snapshot, target: Snapshot, adds: Iterable[RecordBatch], names: Set[str], where: Mask | None
) -> int | None:
    """Return the newest of the versions after the target; that of now and the target are not rebuilt for it."""
    listed = list_log(now.table.storage, start_version=target.version).commits
    versions = range(target.version + 1, now.version + 1)
    if any(version not in listed for version in versions):
        return None
    commits = {version: _read(now, listed[version]) for version in versions}
    between = {key: add for commit in commits.values() for key, add in commit.adds.items()}
    broken_since = _broken(now, between, where)
    broken = {key for batch in adds for key in _using(batch, names, now.table)}
    other = _other_than_now(commits)
    newest = None
    for version in versions[:-1]:
        broken = (broken - commits[version].removes) | (commits[version].adds.keys() & broken_since)
        newest = version if not broken and version in other else newest
    return newest


def _older(now: Snapshot, target: Snapshot, names: Set[str], where: Mask | None) -> int | None:
    """Return the newest of the versions before the target; one without files is none that anybody wants back."""
    storage = now.table.storage

    def bytes_of(lost: Iterable[str]) -> ArrowArray:
        return pa.array([encode_path_bytes(name) for name in lost], pa.binary())

    def lost_of(version: Snapshot) -> ArrowArray:
        fields = (*VERIFIED, "partitionValues")
        adds = version.file_actions.map_actions("add", lambda adds: adds, fields=fields)
        every = ((batch if where is None else pc.filter(batch, where(batch))) for batch in adds)
        return bytes_of(one.path for one in check_sizes(now.table, every, 0))

    uris = (storage.uri, *storage.aliases)
    for version in complete_versions(now.table, target.version, bytes_of(names), lost_of, uris):
        found = compare(now, version, where)
        if found.files_after and (found.added_amount.files or found.removed_amount.files):
            return version.version
    return None


def _other_than_now(commits: Mapping[int, _Commit]) -> set[int]:
    """Return the versions before these commits that have other files than the last, but for those that were only
    rewritten: a file is other if the first change of it that follows, and the last one, are both adds or both removes.
    """
    last, other, found = dict[str, bool](), set[str](), set[int]()
    for version in sorted(commits, reverse=True):
        for key in commits[version].changed:
            is_added = key in commits[version].adds
            (other.add if last.setdefault(key, is_added) is is_added else other.discard)(key)
        if other:
            found.add(version - 1)
    return found


def _read(now: Snapshot, file: LogFile) -> _Commit:
    adds: dict[str, Action] = {}
    removes: set[str] = set()
    changed: set[str] = set()
    for kind, action in stream_commit(now.table.storage, file):
        if kind not in ("add", "remove"):
            continue
        key = compute_file_key(action)
        if kind == "add":
            adds[key] = action
        else:
            removes.add(key)
        if action.get("dataChange") is not False:
            changed.add(key)
    return _Commit(adds, frozenset(removes), frozenset(changed))


def _broken(now: Snapshot, adds: Mapping[str, Action], where: Mask | None) -> set[str]:
    """Return the keys of adds whose files cannot be used; footers are not read."""
    if not adds:
        return set()
    batch = build_action_batch_leniently(list(adds.values()), action_schemas().add)
    if where is not None:
        batch = pc.filter(batch, where(batch))
    return _using(batch, {one.path for one in check_sizes(now.table, [batch], batch.num_rows)}, now.table)


def _using(batch: RecordBatch, names: Set[str], table: TableHandle) -> set[str]:
    """Return the keys of adds that need one of these files."""
    if not names:
        return set()
    files = table.files()
    return {
        compute_file_key({name: value for name, value in add.items() if value is not None})
        for add in _may_use(batch.select(["path", "deletionVector"]), names, table.storage).to_pylist()
        if not names.isdisjoint(_names_of(add, files))
    }


def _may_use(batch: RecordBatch, names: Set[str], storage: ReadStorage) -> RecordBatch:
    """Return the few adds that may need one of these files, without a loop over all."""
    wanted = pa.array([encode_path_bytes(name) for name in names], pa.binary())
    keys, paths = PathKeys((storage.uri, *storage.aliases)), batch.column("path")
    of_data = keys.compute_keys(paths)
    of_vectors = keys.compute_vector_keys(unique_id_column(batch.column("deletionVector")))
    columns = (of_data.keys, of_data.undecoded, of_vectors.keys, pc.cast(paths, pa.binary()))
    uses = (pc.is_in(column, value_set=wanted) for column in columns)
    return pc.filter(batch, reduce(pc.or_, uses))


def _names_of(add: Action, files: TableFiles) -> set[str | None]:
    path, vector = add["path"], add.get("deletionVector")
    names = {files.find_path_in_table(path) or path, files.find_undecoded_path_in_table(path)}
    return names if vector is None else names | {find_vector_file(files, vector)}
