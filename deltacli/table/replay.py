"""Replay the commits after a checkpoint, from the newest to the oldest.

Action reconciliation keeps the newest action of each file. Because commits are read newest first, the
first action found for a file is the one to keep, and every later one is dropped:

    version 7   remove a            a is a tombstone
    version 6   add a, add b        b is live; the add of a is dropped because version 7 removes a
    version 5   add b (other size)  dropped because version 6 adds b again

So one pass is enough, and commits need not stay in memory. File actions are reduced to narrow columns
(path, deletion vector, size and number of records). If a command needs statistics, partition values or
tags, `reread_commits.py` reads the commits again. Commits that do not fit in memory are handled by
`large_commits.py`. `rebuild.py` combines the result with a checkpoint.

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
    ReconciledActions,
    SupersededFiles,
    build_narrow_batches,
    compute_file_key,
    extract_num_records,
    find_superseded_keys,
    reconcile_commit,
)
from deltacli.delta.log.segment import LogFile
from deltacli.delta.log.state import StateBuilder
from deltacli.delta.paths.spelling import canonicalize_path
from deltacli.engine.base import Engine
from deltacli.storage import ReadStorage
from deltacli.table.commit_contents import read_commit_contents
from deltacli.table.large_commits import LargeCommit, read_large_commit
from deltacli.work.commits.reading import read_commit, stream_commit

if TYPE_CHECKING:
    from deltacli.delta.encoding.many_values import KeyIndex

ACTIONS_PER_BATCH = 8_192
BYTES_PER_BATCH = 32 << 20
"""Size limit of the commits, or of the statistics in them, that are combined into one batch.

Without this limit, 250 commits with one add and 2 MB of statistics each took 2.5 GB of memory.
"""
_FILE_ACTIONS = ("add", "remove")


class ReplayedCommits:
    """The state that results from the commits after a checkpoint, and the files that these commits change.

    Commits are added from the newest to the oldest. As soon as one of the added commits adds or removes a
    file, older actions for the file are superseded: those in older commits and in the checkpoint are dropped.

    Most commits are small: they are parsed in memory, and the keys of their files are strings in
    `superseded_keys`. Large commits are read in blocks, and their keys are columns (`large_commits.py`).

    Attributes:
        state: The protocol, metadata, transactions and domains.
        adds: Live files, in narrow columns.
        removes: Tombstones, in narrow columns.
        superseded_keys: The keys of the files that small commits add or remove. Older actions for these
            files are superseded.
        large_commits: The part of each large commit that a second reading needs, by version.
        checksums: The CRC-32 of each small commit, by version. A second reading must read the same bytes.
        contradicted_paths: The canonical paths of live files whose add actions in different commits
            disagree on the number of records. Large commits and the checkpoint are not compared.
        paths_with_other_vectors: The canonical paths of live files that a newer commit adds or removes
            with a different deletion vector, or without one. Large commits are not compared.
        paths_with_vectors: The canonical paths that are added or removed with a deletion vector.
        disputed_rules: Ids of `validate` rules for content that engines interpret differently.
        newest_commit_info: The `commitInfo` action of the newest commit, if it has one.
        commit_info_is_first: True if `commitInfo` is the first action of the newest commit. The protocol
            requires this for commits with an in-commit timestamp.
    """

    def __init__(self) -> None:
        self.state = StateBuilder()
        self.adds: list[pa.RecordBatch] = []
        self.removes: list[pa.RecordBatch] = []
        self.superseded_keys: set[str] = set()
        self.large_commits: dict[int, LargeCommit] = {}
        self.checksums: dict[int, int] = {}
        self.contradicted_paths: set[str] = set()
        self.paths_with_other_vectors: set[str] = set()
        self.paths_with_vectors: set[str] = set()
        self.disputed_rules: set[str] = set()
        self.newest_commit_info: Action | None = None
        self.commit_info_is_first = False
        self._record_counts: dict[str, int | None] = {}

    @property
    def keys_of_large_commits(self) -> list[KeyIndex]:
        """The keys of the files that large commits add or remove."""
        return [keys for commit in self.large_commits.values() for keys in commit.keys]

    @property
    def superseded_files(self) -> SupersededFiles:
        """A filter for actions that the added commits supersede.

        The filter is a copy: it does not include commits that are added later.
        """
        return SupersededFiles(self.superseded_keys, self.keys_of_large_commits)

    def add_other_actions(self, actions: Sequence[tuple[str, Action]], source: str) -> None:
        """Add the actions of a commit that are neither `add` nor `remove`.

        Args:
            actions: The actions, each with its kind, such as `("metaData", {...})`.
            source: The file name of the commit, for error messages.

        Raises:
            CommitCorrupt: If an action is invalid.
        """
        for rule in find_repeated_kinds(actions):
            # Two protocol actions in one commit do not matter if a newer commit replaces them.
            newer_action = self.state.protocol if rule == TWO_PROTOCOLS else self.state.metadata
            if newer_action is None:
                self.disputed_rules.add(rule)
        self.state.add_actions(actions, source)

    def compare_record_counts(self, actions: Sequence[tuple[str, Action]], reconciled: ReconciledActions) -> None:
        """Find live files whose add actions in different commits have a different `numRecords`.

        Writers add a file again to change its deletion vector or its statistics. The number of records in
        the data file cannot change, so if two adds disagree, one of them is wrong. Adds of a repair
        (operation `FSCK`) are trusted, because a repair reads the number from the Parquet footer.

        Args:
            actions: All actions of a commit.
            reconciled: The file actions of the commit that no newer commit replaces.
        """
        if self._record_counts:
            for kind, add in actions:
                if kind == "add":
                    self._compare_with_newer_add(add)

        # An add with `dataChange` and without a deletion vector introduces a new file: older commits do
        # not add the same path.
        repeated_adds = [
            add for add in reconciled.adds if add.get("dataChange") is False or add.get("deletionVector") is not None
        ]
        if not repeated_adds:
            return
        if any(kind == "commitInfo" and info.get("operation") == "FSCK" for kind, info in actions):
            return
        for add in repeated_adds:
            self._record_counts.setdefault(canonicalize_path(str(add["path"])), extract_num_records(add.get("stats")))

    def _compare_with_newer_add(self, add: Action) -> None:
        path = canonicalize_path(str(add["path"]))
        if path not in self._record_counts:
            return
        older_count = extract_num_records(add.get("stats"))
        newer_count = self._record_counts[path]
        if older_count is not None and newer_count is not None and older_count != newer_count:
            self.contradicted_paths.add(path)

    def find_adds_with_other_vectors(self, actions: Sequence[tuple[str, Action]]) -> list[Action]:
        """Return the adds of a commit whose path has a different deletion vector in newer commits.

        The protocol identifies a logical file by path and deletion vector, so these are two logical
        files. A correct writer removes the old one in the commit that adds the new one. If the remove is
        missing, the rows of the data file are in the table twice.

        This must be called before the keys of the commit are added to `superseded_keys`, and before
        `record_paths_with_vectors`: both must describe newer commits only.

        Args:
            actions: All actions of the commit.
        """
        # If the path has no deletion vector in either commit, the keys are equal, and `superseded_keys` is
        # enough to drop the older add. So if newer commits have no vectors, adds without one are fine.
        candidates = actions if self.paths_with_vectors else _filter_actions_with_vectors(actions)
        adds: list[Action] = []
        for kind, add in candidates:
            if kind != "add":
                continue
            path = canonicalize_path(str(add.get("path")))
            # The key of a file without a deletion vector is its path.
            newer_has_no_vector = add.get("deletionVector") is not None and path in self.superseded_keys
            if path in self.paths_with_vectors or newer_has_no_vector:
                adds.append(add)
        return adds

    def record_paths_with_vectors(self, actions: Sequence[tuple[str, Action]]) -> None:
        """Add the paths of a commit that have a deletion vector to `paths_with_vectors`."""
        for kind, action in _filter_actions_with_vectors(actions):
            if kind in _FILE_ACTIONS:
                self.paths_with_vectors.add(canonicalize_path(str(action.get("path"))))


def _filter_actions_with_vectors(actions: Sequence[tuple[str, Action]]) -> list[tuple[str, Action]]:
    return [(kind, action) for kind, action in actions if action.get("deletionVector") is not None]


class _OtherActions(NamedTuple):
    """The actions of one commit that are neither `add` nor `remove`.

    Attributes:
        actions: The actions, each with its kind, in the order of the commit.
        starts_with_commit_info: True if `commitInfo` is the first of all actions of the commit.
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
    """Read the commits after a checkpoint once and reconcile their actions.

    Args:
        storage: The store of the table.
        engine: The engine whose threads read and parse the commits.
        commits: The commits, in ascending order of their versions and without gaps.
        has_older_actions: True if a checkpoint precedes the commits. Its rows are filtered by the keys
            of all commits; without a checkpoint the keys of the oldest commit are not needed.
        progress: Receives the number of bytes read.

    Raises:
        CommitCorrupt: If a commit is damaged.
    """
    replayed = ReplayedCommits()
    buffer = _NarrowRowBuffer(replayed, storage)
    for index, (file, content) in enumerate(read_commit_contents(storage, engine, commits, progress)):
        if content is not None:
            other_actions = _replay_small_commit(replayed, buffer, file, content)
        else:
            # The rows of newer small commits precede the rows of this commit.
            buffer.flush()
            remember_keys = has_older_actions or index < len(commits) - 1
            other_actions = _replay_large_commit(
                replayed, storage, engine, file, remember_keys=remember_keys, progress=progress
            )

        # Commits are read newest first.
        if index == 0:
            commit_infos = [action for kind, action in other_actions.actions if kind == "commitInfo"]
            replayed.newest_commit_info = commit_infos[-1] if commit_infos else None
            replayed.commit_info_is_first = other_actions.starts_with_commit_info
    buffer.flush()

    if not has_older_actions:
        # The sets are only used to filter older actions. For a long log they take much memory.
        replayed.superseded_keys.clear()
        replayed.paths_with_vectors.clear()
    return replayed


def _replay_small_commit(
    replayed: ReplayedCommits, buffer: _NarrowRowBuffer, file: LogFile, content: bytes
) -> _OtherActions:
    """Parse a commit that is held in memory, and add its actions to the newer commits.

    Args:
        replayed: The newer commits. Receives the state and the keys of this commit.
        buffer: Receives the live files and tombstones of this commit.
        file: The commit.
        content: The bytes of the commit.

    Raises:
        CommitCorrupt: If the commit is damaged. The error contains the line and the byte offset.
    """
    replayed.checksums[file.version] = crc32(content)
    actions = read_actions(content, file.name, disputed_rules=replayed.disputed_rules)
    other_actions = [(kind, action) for kind, action in actions if kind not in _FILE_ACTIONS]
    try:
        # The keys of large commits are stored in columns. Look up the keys of this commit there.
        replayed.superseded_keys |= find_superseded_keys(actions, replayed.keys_of_large_commits, file.name)

        # `reconcile_commit` adds the keys of this commit to `superseded_keys`, so compare the deletion
        # vectors with those of newer commits first.
        adds_with_other_vectors = replayed.find_adds_with_other_vectors(actions)
        replayed.record_paths_with_vectors(actions)
        reconciled = reconcile_commit(
            actions, replayed.superseded_keys, file.name, disputed_rules=replayed.disputed_rules
        )
        if adds_with_other_vectors:
            # Compare by identity: a commit may contain two equal adds, of which only one is live.
            live_ids = {id(add) for add in reconciled.adds}
            replayed.paths_with_other_vectors |= {
                canonicalize_path(str(add["path"])) for add in adds_with_other_vectors if id(add) in live_ids
            }

        replayed.compare_record_counts(actions, reconciled)
        replayed.add_other_actions(other_actions, file.name)
    except CommitCorrupt as corrupt:
        corrupt.facts = {**corrupt.facts, **_locate_invalid_action(corrupt, content, file.name)}
        raise

    buffer.append(file, reconciled)
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
    """Read a large commit in blocks, and add its actions to the newer commits.

    Args:
        replayed: The newer commits. Receives the state, the live files and the tombstones of this commit.
        storage: The store of the table.
        engine: The engine that parses the blocks.
        file: The commit.
        remember_keys: True if older commits or a checkpoint are read after this commit.
        progress: Receives the number of bytes read.

    Raises:
        CommitCorrupt: If the commit is damaged. The error contains the line and the byte offset.
    """
    rows = read_large_commit(
        storage, engine, file, replayed.superseded_files, remember_keys=remember_keys, progress=progress
    )
    replayed.adds += rows.adds
    replayed.removes += rows.removes
    replayed.disputed_rules |= rows.disputed_rules
    replayed.large_commits[file.version] = rows.commit

    first_kind = next((kind for kind, _ in stream_commit(storage, file)), "")
    replayed.add_other_actions(rows.other_actions, file.name)
    return _OtherActions(rows.other_actions, first_kind == "commitInfo")


class _NarrowRowBuffer:
    """Combines the file actions of many small commits into few record batches.

    Streaming tables have thousands of commits with one add each. Building a record batch per commit would
    take longer than parsing the commit.
    """

    def __init__(self, replayed: ReplayedCommits, storage: ReadStorage) -> None:
        """Create an empty buffer.

        Args:
            replayed: Receives the record batches.
            storage: The store of the table. A commit with an invalid value is read again to locate it.
        """
        self._replayed = replayed
        self._storage = storage
        self._rows = NarrowRows()
        self._ends: list[tuple[LogFile, tuple[int, int]]] = []
        self._size_bytes = 0

    def append(self, file: LogFile, reconciled: ReconciledActions) -> None:
        """Append the reconciled file actions of a commit, and flush the buffer if it is full."""
        self._rows.append(reconciled.adds, reconciled.removes)
        self._ends.append((file, self._rows.position))
        self._size_bytes += file.size_bytes
        if len(self._rows) >= ACTIONS_PER_BATCH or self._size_bytes >= BYTES_PER_BATCH:
            self.flush()

    def flush(self) -> None:
        """Append the buffered rows to the replayed commits as record batches, and empty the buffer.

        Raises:
            CommitCorrupt: If a value does not fit into its column, such as a size above 64 bits. The error
                contains the file name of the commit, the line and the byte offset.
        """
        rows = self._rows
        ends = self._ends
        self._rows = NarrowRows()
        self._ends = []
        self._size_bytes = 0
        try:
            adds, removes = rows.build_batches("")
        except CommitCorrupt:
            self._raise_for_invalid_commit(rows, ends)
            raise
        if adds.num_rows:
            self._replayed.adds.append(adds)
        if removes.num_rows:
            self._replayed.removes.append(removes)

    def _raise_for_invalid_commit(self, rows: NarrowRows, ends: Sequence[tuple[LogFile, tuple[int, int]]]) -> None:
        """Convert the rows of one commit after the other, and raise for the first invalid commit.

        Args:
            rows: Rows of several commits that could not be converted together.
            ends: For each commit, the positions in the rows after its last add and its last remove.
        """
        start = (0, 0)
        for file, end in ends:
            try:
                rows.slice(start, end).build_batches(file.name)
            except CommitCorrupt as corrupt:
                content = read_commit(self._storage, file)
                corrupt.facts = {**corrupt.facts, **_locate_invalid_action(corrupt, content, file.name)}
                raise
            start = end


def _locate_invalid_action(corrupt: CommitCorrupt, content: bytes, source: str) -> dict[str, str]:
    """Return the line number and byte offset of the action that caused an error.

    Parsed actions do not store their line numbers, because that would slow down every replay. Instead, the
    commit is parsed again line by line until the same error occurs.

    Args:
        corrupt: The error.
        content: The bytes of the commit.
        source: The file name of the commit, which is part of the error message.

    Returns:
        The facts `line` and `byte`; empty if no single line causes the error, because two actions
        contradict each other.
    """
    offset = 0
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            for kind, action in stream_actions([line], source):
                _require_valid_action(kind, action, source)
        except CommitCorrupt as error:
            if error.message == corrupt.message:
                return {"line": str(number), "byte": str(offset)}
        offset += len(line) + 1
    return {}


def _require_valid_action(kind: str, action: Action, source: str) -> None:
    """Raise CommitCorrupt if a replay cannot process an action."""
    if kind not in _FILE_ACTIONS:
        StateBuilder().add_actions([(kind, action)], source)
        return
    compute_file_key(action, source)
    adds = [action] if kind == "add" else []
    removes = [action] if kind == "remove" else []
    build_narrow_batches(adds, removes, source)
