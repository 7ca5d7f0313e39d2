"""Read which files the commits of a log name: adds, removes and change data, in columns.

Unlike a replay, this does not reconcile anything: each action is one row. `vacuum` and `validate` ask
what any commit has ever named, not what is live.

Spec: Actions; Add File and Remove File; Add CDC File; Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from deltacli.core.errors import CommitCorrupt
from deltacli.core.hints import command
from deltacli.core.typing import Json
from deltacli.delta.data_files import fault_of, unique_id
from deltacli.delta.log.actions import Action
from deltacli.delta.log.segment import LogFile, LogListing
from deltacli.table.commit_contents import read_commit_actions, read_commit_contents
from deltacli.work.commits.reading import is_large_commit

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.handle import TableHandle

_ROWS_PER_BATCH = 65_536
_KINDS = ("add", "remove", "cdc")


class FileReferences(NamedTuple):
    """Files that commits name, one row each.

    Attributes:
        kind: The kind of the actions: `add`, `remove` or `cdc`.
        path: The paths as in the log (string).
        vector: The unique ids of the deletion vectors (string), `""` without one.
        version: The versions of the commits.
        size: The bytes; null if the action has none.
        deletion_timestamp: The times of removal in epoch milliseconds; null if the action has none.
    """

    kind: str
    path: pyarrow.Array
    vector: pyarrow.Array
    version: pyarrow.Array
    size: pyarrow.Array
    deletion_timestamp: pyarrow.Array


class FileReferenceCollector:
    """Collects the files that commits name, in the order in which they are added.

    Attributes:
        metadata: The metaData actions of the commits.
    """

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {kind: [] for kind in _KINDS}  # Any: JSON values, checked
        self.metadata: list[Action] = []

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def take(self, actions: Iterable[tuple[str, Action]], file: LogFile) -> Iterator[FileReferences]:
        """Add the actions of a commit, and yield full batches.

        Args:
            actions: The actions, each with its kind.
            file: The commit.

        Raises:
            CommitCorrupt: If an action does not say which file it is about.
        """
        for count, (kind, action) in enumerate(actions, 1):
            if kind == "metaData":
                self.metadata.append(action)
            # One commit may name more files than fit in memory.
            if count % _ROWS_PER_BATCH == 0:
                yield from self.flush()
            if kind not in _KINDS:
                continue

            path = action.get("path")
            if not isinstance(path, str):
                raise _unnamed_file_error(file, f"{kind}.path is missing or not a string", "action.missing-required")
            vector = action.get("deletionVector")
            fault = None if vector is None else fault_of(vector)
            if fault:
                code, reason = fault
                raise _unnamed_file_error(file, f"{kind}: {reason}", code)
            size = _get_int64(action.get("size"))
            deletion_timestamp = _get_int64(action.get("deletionTimestamp"))
            self._rows[kind].append((path, unique_id(vector), file.version, size, deletion_timestamp))

    def flush(self) -> Iterator[FileReferences]:
        """Yield the collected rows, one batch per kind, and forget them."""
        types = (pa.string(), pa.string(), pa.int64(), pa.int64(), pa.int64())
        for kind, rows in self._rows.items():
            if rows:
                columns = zip(*rows, strict=True)
                arrays = [_build_column(values, data_type) for values, data_type in zip(columns, types, strict=True)]
                yield FileReferences(kind, *arrays)
        self._rows = {kind: [] for kind in _KINDS}


def _build_column(values: tuple[Any, ...], data_type: Any) -> Any:  # Any: JSON values; pyarrow has no types
    try:
        return pa.array(values, data_type)
    except UnicodeEncodeError:  # an unpaired surrogate: no file has such a name
        return pa.array([text.encode("utf-8", "replace").decode() for text in values], data_type)


def _get_int64(value: Json) -> int | None:
    """Return a value if it is an integer of 64 bits; None for anything else, which is judged elsewhere."""
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


def _unnamed_file_error(file: LogFile, reason: str, code: str) -> CommitCorrupt:
    return CommitCorrupt(
        f"{file.name}: {reason}",
        file=file.name,
        code=code,
        facts={"version": str(file.version)},
        hint=command("validate"),
    )


def read_file_references(
    table: TableHandle, listing: LogListing, faults: list[CommitCorrupt], metadata: list[Action]
) -> Iterator[FileReferences]:
    """Yield the files that the commits of a log name, newest first.

    Args:
        table: The table.
        listing: Its log.
        faults: Receives the errors of commits that cannot be read.
        metadata: Receives the metaData actions, at the end.
    """
    commits = [listing.commits[version] for version in sorted(listing.commits)]
    for file in commits:
        if not file.size_bytes:  # what an interrupted write leaves
            faults.append(_empty_commit_error(file))
    collector = FileReferenceCollector()
    # The others are read all the same: whoever asks decides what the lost ones mean.
    commits_with_bytes = [file for file in commits if file.size_bytes]
    yield from read_references_of_commits(table, commits_with_bytes, collector, faults=faults)
    metadata.extend(collector.metadata)


def read_references_of_commits(
    table: TableHandle,
    commits: Sequence[LogFile],
    collector: FileReferenceCollector,
    *,
    kinds: Collection[str] | None = None,
    faults: list[CommitCorrupt] | None = None,
) -> Iterator[FileReferences]:
    """Yield the files that commits name, in batches of bounded size.

    Args:
        table: The table of the commits.
        commits: The commits, in ascending order. They are read from the newest on.
        collector: Collects the files until they fill a batch, and the metaData actions.
        kinds: The kinds of actions to look at, None for all. Faults of others are not reported.
        faults: Receives the errors of commits that cannot be read. None to raise the first one.

    Raises:
        CommitCorrupt: Without `faults`, if a commit is damaged.
        StorageFailed: If a commit cannot be read.
    """
    for file, content in read_commit_contents(table.storage, table.engine, commits, table.progress):
        actions = read_commit_actions(table.storage, file, content)
        if kinds is not None:
            actions = (pair for pair in actions if pair[0] in kinds)
        try:
            yield from collector.take(actions, file)
        except CommitCorrupt as fault:
            if faults is None:
                raise
            faults.append(fault)
        # Small commits share a batch; a large one fills its own.
        if len(collector) >= _ROWS_PER_BATCH or is_large_commit(file):
            yield from collector.flush()
    yield from collector.flush()


def _empty_commit_error(file: LogFile) -> CommitCorrupt:
    return CommitCorrupt(
        f"commit {file.version} is empty, which indicates an interrupted write; repair it first",
        code="commit.empty",
        facts={"file": file.name},
        hint=command("validate"),
    )
