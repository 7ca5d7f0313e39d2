"""Replay the commits after a checkpoint, newest first.

The first action that is met for a file decides, because all others are older. So one pass is enough,
and no commit is kept:

    version 7   remove a            a is a tombstone
    version 6   add a, add b        b is live; the add of a is older than its remove and does not count
    version 5   add b (other size)  does not count either

Commits are narrowed at once to columns of paths, vectors, sizes and row counts. `reread_commits.py`
reads all fields when they are needed, `large_commits.py` takes commits that do not fit in memory, and
`rebuild.py` puts the result on top of a checkpoint.

Spec: Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import pyarrow as pa

from deltacli.core.errors import CommitCorrupt
from deltacli.core.progress import SILENT, Progress
from deltacli.delta.log.actions import Action, read_actions, stream_actions
from deltacli.delta.log.disputed_readings import TWO_PROTOCOLS, find_repeated_kinds
from deltacli.delta.log.file_actions import (
    NarrowRows,
    Survivors,
    TouchedFiles,
    decided_keys,
    file_key,
    narrow_batches,
    reconcile_commit,
    stated_records,
)
from deltacli.delta.log.segment import LogFile
from deltacli.delta.log.state import StateBuilder
from deltacli.delta.paths.spelling import canonical
from deltacli.engine.base import Engine
from deltacli.storage import ReadStorage
from deltacli.table.commit_contents import read_commit_contents
from deltacli.table.large_commits import LargeCommit, read_large_commit
from deltacli.work.commits.reading import read_commit, stream_commit

if TYPE_CHECKING:
    from deltacli.delta.encoding.many_values import KeyIndex

ACTIONS_PER_BATCH = 8_192
BYTES_PER_BATCH = 32 << 20
"""Bytes of commits, or of statistics, that become one batch.

250 commits with one add and 2 MB of statistics each took 2.5 GB without this limit.
"""
_FILE_ACTIONS = ("add", "remove")


class ReplayedCommits:
    """State that the commits after a checkpoint lead to, and the files that they have decided.

    Commits are added from the newest to the oldest. What is called decided here is decided by the
    commits that were added so far.

    Attributes:
        state: The protocol, metadata, transactions and domains.
        adds: Live files, in narrow columns.
        removes: Tombstones, in narrow columns.
        decided_keys: The keys of all files that small commits add or remove.
        large_commits: What is remembered of large commits, by version.
        checksums: The CRC-32 of the bytes of each small commit, by version. A second reading must find
            the same bytes.
        contradicted_paths: The canonical paths of live files whose older adds have another number of
            records. Large commits are not compared, nor what a checkpoint hides.
        paths_with_other_vectors: The canonical paths of live files that a newer commit added or removed
            under another deletion vector, or without one. Large commits are not compared.
        paths_with_vectors: The canonical paths that were added or removed with a deletion vector.
        disputed: The rules of `validate` for what engines may read differently in these commits.
        newest_commit_info: The `commitInfo` of the newest commit, if it has one.
        commit_info_is_first: True if that is the first action of its commit, as it has to be for its
            in-commit timestamp to count.
    """

    def __init__(self) -> None:
        self.state = StateBuilder()
        self.adds: list[pa.RecordBatch] = []
        self.removes: list[pa.RecordBatch] = []
        self.decided_keys: set[str] = set()
        self.large_commits: dict[int, LargeCommit] = {}
        self.checksums: dict[int, int] = {}
        self.contradicted_paths: set[str] = set()
        self.paths_with_other_vectors: set[str] = set()
        self.paths_with_vectors: set[str] = set()
        self.disputed: set[str] = set()
        self.newest_commit_info: Action | None = None
        self.commit_info_is_first = False
        self._records_by_path: dict[str, int | None] = {}

    @property
    def keys_of_large_commits(self) -> list[KeyIndex]:
        """The keys of all files that large commits add or remove."""
        return [keys for commit in self.large_commits.values() for keys in commit.keys]

    @property
    def decided_files(self) -> TouchedFiles:
        """The files that the commits added so far have decided. It must not be kept while commits are added."""
        return TouchedFiles(self.decided_keys, self.keys_of_large_commits)

    def add_other_actions(self, actions: Sequence[tuple[str, Action]], source: str) -> None:
        """Add the actions of a commit that are not about files.

        Args:
            actions: The actions, each with its kind.
            source: The name of the commit, for errors.

        Raises:
            CommitCorrupt: If one of them is invalid.
        """
        for rule in find_repeated_kinds(actions):
            # Two protocols in one commit do not matter if a newer commit has one.
            newer = self.state.protocol if rule == TWO_PROTOCOLS else self.state.metadata
            if newer is None:
                self.disputed.add(rule)
        self.state.take(actions, source)

    def compare_record_counts(self, actions: Sequence[tuple[str, Action]], survived: Survivors) -> None:
        """Find live files whose older adds state another number of records.

        A file is added again to give it another deletion vector or other statistics. The number of
        records in the file cannot change by that, so if the two adds disagree, one of them is wrong.
        What a repair (`FSCK`) has written is right: it counted in the footers.

        Args:
            actions: All actions of a commit.
            survived: Those that no newer commit has decided.
        """
        if self._records_by_path:
            for kind, add in actions:
                if kind == "add":
                    self._compare_with_newer_add(add)

        # An add with data change and without a vector is of a new file, which has no older adds.
        again = [
            add for add in survived.adds if add.get("dataChange") is False or add.get("deletionVector") is not None
        ]
        if not again or any(kind == "commitInfo" and info.get("operation") == "FSCK" for kind, info in actions):
            return
        for add in again:
            self._records_by_path.setdefault(canonical(str(add["path"])), stated_records(add.get("stats")))

    def _compare_with_newer_add(self, add: Action) -> None:
        path = canonical(str(add["path"]))
        if path not in self._records_by_path:
            return
        older = stated_records(add.get("stats"))
        newer = self._records_by_path[path]
        if older is not None and newer is not None and older != newer:
            self.contradicted_paths.add(path)

    def find_adds_with_other_vectors(self, actions: Sequence[tuple[str, Action]]) -> list[Action]:
        """Return the adds of a commit whose path newer commits have decided under another deletion vector.

        For the protocol these are two logical files. In a sound log the older one is removed in the
        commit that adds the newer one. If that remove is missing, the rows are in the table twice.

        This must be called before the keys of the commit are added to `decided_keys`; the paths of the
        commit that have vectors are remembered.

        Args:
            actions: All actions of a commit.
        """
        with_vector = [pair for pair in actions if pair[1].get("deletionVector") is not None]
        if not with_vector and not self.paths_with_vectors:
            return []

        # A path without a vector on both sides has the same key, so `decided_keys` covers it. Without
        # vectors in newer commits only the adds with one are of interest.
        candidates = actions if self.paths_with_vectors else with_vector
        adds: list[Action] = []
        for kind, add in candidates:
            if kind != "add":
                continue
            path = canonical(str(add.get("path")))
            # The key of a file without a vector is its path.
            was_without_vector = add.get("deletionVector") is not None and path in self.decided_keys
            if path in self.paths_with_vectors or was_without_vector:
                adds.append(add)

        for kind, action in with_vector:
            if kind in _FILE_ACTIONS:
                self.paths_with_vectors.add(canonical(str(action.get("path"))))
        return adds


class _OtherActions(NamedTuple):
    """The actions of one commit that are not about files.

    Attributes:
        actions: The actions, each with its kind, in the order of the commit.
        starts_with_commit_info: True if the first action of the whole commit is `commitInfo`.
    """

    actions: list[tuple[str, Action]]
    starts_with_commit_info: bool


def replay_commits(
    storage: ReadStorage,
    engine: Engine,
    commits: Sequence[LogFile],
    *,
    has_older_actions: bool,
    progress: Progress = SILENT,
) -> ReplayedCommits:
    """Read the commits after a checkpoint once and return what they lead to.

    Args:
        storage: The store of the table.
        engine: The engine whose threads read and parse.
        commits: The commits, in ascending order of their versions and without gaps.
        has_older_actions: True if a checkpoint will be put below the result. Its rows are filtered by the
            files that the commits decide, so that the keys of the oldest commit are needed, too.
        progress: Where the bytes that were read are reported.

    Raises:
        CommitCorrupt: If a commit is damaged.
    """
    replayed = ReplayedCommits()
    buffer = _NarrowRowBuffer(replayed, storage)
    for index, (file, content) in enumerate(read_commit_contents(storage, engine, commits, progress)):
        if content is not None:
            other_actions = _replay_small_commit(replayed, buffer, file, content)
        else:
            buffer.flush()  # rows stay in the order of the commits
            remember_keys = has_older_actions or index < len(commits) - 1
            other_actions = _replay_large_commit(
                replayed, storage, engine, file, remember_keys=remember_keys, progress=progress
            )
        if index == 0:
            commit_infos = [action for kind, action in other_actions.actions if kind == "commitInfo"]
            replayed.newest_commit_info = commit_infos[-1] if commit_infos else None
            replayed.commit_info_is_first = other_actions.starts_with_commit_info
    buffer.flush()

    if not has_older_actions:
        # Nothing is filtered by them any more, and of a long log they are large.
        replayed.decided_keys.clear()
        replayed.paths_with_vectors.clear()
    return replayed


def _replay_small_commit(
    replayed: ReplayedCommits, buffer: _NarrowRowBuffer, file: LogFile, content: bytes
) -> _OtherActions:
    """Add a commit that is held in memory to what newer commits have led to.

    Raises:
        CommitCorrupt: If the commit is damaged. The error names line and byte.
    """
    replayed.checksums[file.version] = crc32(content)
    actions = read_actions(content, file.name, disputed=replayed.disputed)
    other_actions = [(kind, action) for kind, action in actions if kind not in _FILE_ACTIONS]
    try:
        # Large commits keep their keys in columns. Those that this commit has, too, count as decided.
        replayed.decided_keys |= decided_keys(actions, replayed.keys_of_large_commits, file.name)
        # Asked before the keys of this commit are added, so that only newer commits count.
        with_other_vectors = replayed.find_adds_with_other_vectors(actions)
        survived = reconcile_commit(actions, replayed.decided_keys, file.name, disputed=replayed.disputed)
        if with_other_vectors:
            # The reconciled adds are the same objects. Two adds of one commit may be equal.
            live = {id(add) for add in survived.adds}
            replayed.paths_with_other_vectors |= {
                canonical(str(add["path"])) for add in with_other_vectors if id(add) in live
            }
        replayed.compare_record_counts(actions, survived)
        replayed.add_other_actions(other_actions, file.name)
    except CommitCorrupt as corrupt:
        corrupt.facts = {**corrupt.facts, **_locate_fault(corrupt, content, file.name)}
        raise

    buffer.append(file, survived)
    starts_with_commit_info = bool(actions) and actions[0][0] == "commitInfo"
    return _OtherActions(other_actions, starts_with_commit_info)


def _replay_large_commit(
    replayed: ReplayedCommits,
    storage: ReadStorage,
    engine: Engine,
    file: LogFile,
    *,
    remember_keys: bool,
    progress: Progress,
) -> _OtherActions:
    """Add a commit that is read in blocks to what newer commits have led to.

    Raises:
        CommitCorrupt: If the commit is damaged. The error names line and byte.
    """
    rows = read_large_commit(
        storage, engine, file, replayed.decided_files, remember_keys=remember_keys, progress=progress
    )
    replayed.adds += rows.adds
    replayed.removes += rows.removes
    replayed.disputed |= rows.disputed
    replayed.large_commits[file.version] = rows.commit

    first_kind = next((kind for kind, _ in stream_commit(storage, file)), "")
    replayed.add_other_actions(rows.other_actions, file.name)
    return _OtherActions(rows.other_actions, first_kind == "commitInfo")


class _NarrowRowBuffer:
    """Collects the file actions of several small commits.

    A batch per commit would cost more than the commit.
    """

    def __init__(self, replayed: ReplayedCommits, storage: ReadStorage) -> None:
        self._replayed = replayed
        self._storage = storage
        self._rows = NarrowRows()
        self._ends: list[tuple[LogFile, tuple[int, int]]] = []
        self._bytes = 0

    def append(self, file: LogFile, survived: Survivors) -> None:
        """Add the reconciled file actions of a commit. A full buffer becomes a batch of the replayed commits."""
        self._rows.take(survived.adds, survived.removes)
        self._ends.append((file, self._rows.position))
        self._bytes += file.size_bytes
        if len(self._rows) >= ACTIONS_PER_BATCH or self._bytes >= BYTES_PER_BATCH:
            self.flush()

    def flush(self) -> None:
        """Append the collected rows to the replayed commits, and forget them.

        Raises:
            CommitCorrupt: If an action does not fit into its columns. The error names the commit, line
                and byte.
        """
        rows = self._rows
        ends = self._ends
        self._rows = NarrowRows()
        self._ends = []
        self._bytes = 0
        try:
            adds, removes = rows.batches("")
        except CommitCorrupt:
            self._raise_for_commit_at_fault(rows, ends)
            raise
        if adds.num_rows:
            self._replayed.adds.append(adds)
        if removes.num_rows:
            self._replayed.removes.append(removes)

    def _raise_for_commit_at_fault(self, rows: NarrowRows, ends: Sequence[tuple[LogFile, tuple[int, int]]]) -> None:
        """Convert the rows of each commit alone, and raise for the first one that fails.

        Args:
            rows: Rows of several commits that cannot be converted together.
            ends: Each commit, and where its adds and removes end in the rows.
        """
        start = (0, 0)
        for file, end in ends:
            try:
                rows.part(start, end).batches(file.name)
            except CommitCorrupt as corrupt:
                content = read_commit(self._storage, file)
                corrupt.facts = {**corrupt.facts, **_locate_fault(corrupt, content, file.name)}
                raise
            start = end


def _locate_fault(corrupt: CommitCorrupt, content: bytes, source: str) -> dict[str, str]:
    """Return, as facts, the line with the action that an error is about, and the byte where it begins.

    Errors are rare and commits many, so actions do not carry their lines: the commit is parsed once
    more, line by line, until the same error is met. The facts are empty if it is not met, as for an
    error that only two actions together cause.

    Args:
        corrupt: The error.
        content: The commit.
        source: The name of the commit, which is in the message of the error.
    """
    offset = 0
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            for kind, action in stream_actions([line], source):
                _require_valid_action(kind, action, source)
        except CommitCorrupt as fault:
            if fault.message == corrupt.message:
                return {"line": str(number), "byte": str(offset)}
        offset += len(line) + 1
    return {}


def _require_valid_action(kind: str, action: Action, source: str) -> None:
    """Raise CommitCorrupt for an action that the state of a table cannot hold."""
    if kind not in _FILE_ACTIONS:
        StateBuilder().take([(kind, action)], source)
        return
    file_key(action, source)
    adds = [action] if kind == "add" else []
    removes = [action] if kind == "remove" else []
    narrow_batches(adds, removes, source)
