"""Read the files that the commits of a log reference, as columns: adds, removes and change data.

In contrast to a replay, actions are not reconciled: each action is one row, even if a newer commit
replaces it. `vacuum` and `validate` need every file that any commit has ever referenced, not only
the live ones.

    {"add": {"path": "a.parquet", "size": 10}}   ->   kind "add", path "a.parquet", vector "", version 3, size 10

Spec: Actions; Add File and Remove File; Add CDC File; Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from deltacli.core.errors import CommitCorrupt
from deltacli.core.hints import command
from deltacli.core.typing import Json
from deltacli.delta.data_files import find_descriptor_fault, unique_id
from deltacli.delta.log.actions import Action
from deltacli.delta.log.segment import LogFile, LogListing
from deltacli.table.commit_contents import read_commit_actions, read_commit_contents
from deltacli.work.commits.reading import is_large_commit

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.handle import TableHandle

_ROWS_PER_BATCH = 65_536
_KINDS = ("add", "remove", "cdc")
_MISSING_PATH_RULE = "action.missing-required"


class FileReferences(NamedTuple):
    """A batch of file references. Each array has one row per action.

    Attributes:
        kind: Kind of all actions of the batch: `add`, `remove` or `cdc`.
        path: Paths as written in the log (string).
        vector: Unique ids of the deletion vectors (string), `""` for actions without one.
        version: Versions of the commits that contain the actions (int64).
        size: File sizes in bytes (int64), null for actions without a size.
        deletion_timestamp: Deletion timestamps of removes in epoch milliseconds (int64), null if
            missing.
    """

    kind: str
    path: pyarrow.Array
    vector: pyarrow.Array
    version: pyarrow.Array
    size: pyarrow.Array
    deletion_timestamp: pyarrow.Array


class FileReferenceCollector:
    """Converts the file actions of commits into batches of `FileReferences`.

    Call `add_commit` for each commit, then `flush` for the rows that did not fill a batch. `len()`
    is the number of rows that have not been returned yet.

    Attributes:
        metadata: The metaData actions of all commits added so far, in the order of the commits.
    """

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {kind: [] for kind in _KINDS}  # Any: JSON values, checked
        self.metadata: list[Action] = []

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def add_commit(self, actions: Iterable[tuple[str, Action]], file: LogFile) -> Iterator[FileReferences]:
        """Add the actions of a commit and yield the batches that are full.

        This is a generator: the actions are added while it is iterated.

        Args:
            actions: Pairs of action kind and action. Actions without files are ignored.
            file: The commit that contains the actions.

        Raises:
            CommitCorrupt: If an action has no path, or an invalid deletion vector.
        """
        for count, (kind, action) in enumerate(actions, 1):
            if kind == "metaData":
                self.metadata.append(action)
            # One commit may reference more files than fit in memory.
            if count % _ROWS_PER_BATCH == 0:
                yield from self.flush()
            if kind not in _KINDS:
                continue

            path = action.get("path")
            if not isinstance(path, str):
                raise _invalid_reference_error(file, f"{kind}.path is missing or not a string", _MISSING_PATH_RULE)
            vector = action.get("deletionVector")
            fault = None if vector is None else find_descriptor_fault(vector)
            if fault:
                rule, reason = fault
                raise _invalid_reference_error(file, f"{kind}: {reason}", rule)
            size = _get_int64(action.get("size"))
            deletion_timestamp = _get_int64(action.get("deletionTimestamp"))
            self._rows[kind].append((path, unique_id(vector), file.version, size, deletion_timestamp))

    def flush_if_full(self, file: LogFile) -> Iterator[FileReferences]:
        """Yield the remaining rows, and clear the collector, if they are enough for a batch.

        Small commits share a batch. A large commit fills at least one batch of its own.

        Args:
            file: The commit that was added last.
        """
        if len(self) >= _ROWS_PER_BATCH or is_large_commit(file):
            yield from self.flush()

    def flush(self) -> Iterator[FileReferences]:
        """Yield the remaining rows, one batch per kind of action, and clear the collector."""
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
    except UnicodeEncodeError:
        # JSON allows unpaired surrogates, Arrow strings do not. No file has such a name, so a
        # replacement is harmless.
        return pa.array([text.encode("utf-8", "replace").decode() for text in values], data_type)


def _get_int64(value: Json) -> int | None:
    """Return an integer that fits into 64 bits, and None for any other value. `validate` reports invalid values."""
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


def _invalid_reference_error(file: LogFile, reason: str, rule: str) -> CommitCorrupt:
    return CommitCorrupt(
        f"{file.name}: {reason}",
        file=file.name,
        code=rule,
        facts={"version": str(file.version)},
        hint=command("validate"),
    )


class FileReferenceReader:
    """Reads the files that the commits of a log reference, newest commit first.

    Damaged commits are skipped and reported in `errors`. Each caller decides whether it can do
    without them: a plan that deletes files cannot, an explanation can.

    Attributes:
        errors: One error per damaged commit. Complete when `read` is exhausted.
        metadata: The metaData actions of the commits. Complete when `read` is exhausted.
    """

    def __init__(self, table: TableHandle, listing: LogListing) -> None:
        self._table = table
        self._listing = listing
        self._collector = FileReferenceCollector()
        self.errors: list[CommitCorrupt] = []

    @property
    def metadata(self) -> list[Action]:
        return self._collector.metadata

    def read(self) -> Iterator[FileReferences]:
        """Yield the references in batches of bounded size. Call this once.

        Raises:
            StorageFailed: If a commit cannot be read because of the store.
        """
        commits = [self._listing.commits[version] for version in sorted(self._listing.commits)]
        # An interrupted write leaves an empty file.
        self.errors.extend(_empty_commit_error(commit) for commit in commits if not commit.size_bytes)
        nonempty_commits = [commit for commit in commits if commit.size_bytes]

        table = self._table
        for file, content in read_commit_contents(table.storage, table.engine, nonempty_commits, table.progress):
            actions = read_commit_actions(table.storage, file, content)
            try:
                yield from self._collector.add_commit(actions, file)
            except CommitCorrupt as error:
                self.errors.append(error)
            yield from self._collector.flush_if_full(file)
        yield from self._collector.flush()


def read_references_of_commits(
    table: TableHandle,
    commits: Sequence[LogFile],
    collector: FileReferenceCollector,
    *,
    kinds: Collection[str] | None = None,
) -> Iterator[FileReferences]:
    """Yield the files that some commits reference, newest commit first, in batches of bounded size.

    Args:
        table: The table that the commits belong to.
        commits: The commits in ascending order of versions.
        collector: Builds the batches, and collects the metaData actions.
        kinds: Kinds of actions to read, such as `("add", "remove")`. Errors in other actions are
            not detected. None reads all kinds.

    Raises:
        CommitCorrupt: If a commit is damaged.
        StorageFailed: If a commit cannot be read because of the store.
    """
    for file, content in read_commit_contents(table.storage, table.engine, commits, table.progress):
        actions = read_commit_actions(table.storage, file, content)
        if kinds is not None:
            actions = (pair for pair in actions if pair[0] in kinds)
        yield from collector.add_commit(actions, file)
        yield from collector.flush_if_full(file)
    yield from collector.flush()


def _empty_commit_error(file: LogFile) -> CommitCorrupt:
    return CommitCorrupt(
        f"commit {file.version} is empty, which indicates an interrupted write; repair it first",
        code="commit.empty",
        facts={"file": file.name},
        hint=command("validate"),
    )
