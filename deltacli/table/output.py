"""Write results as directories of Parquet files, by tasks: the whole result, marked as such, or nothing.

The protocol of an output directory:

1. It is empty at first. A claim file with the id of the run keeps other runs out.
2. Tasks write files whose names carry the id of the run and of the attempt. A cluster may run a task twice;
   the driver lists only the files of one attempt.
3. At the end the claim is removed, files of lost attempts are deleted, and `_SUCCESS` is written last.

After a fault, everything that the run has written is deleted, and nothing else. See
docs/decisions/0089-outputs-are-directories-of-attempts.md.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from deltacli.core.errors import DeltacliError, FileMissing, PermissionRefused, StorageFailed, UsageError
from deltacli.core.texts import summarize_names
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.paths.spelling import root_of
from deltacli.storage import Existed, Failed, LocalStorage, PathKind, ReadStorage, Storage, Unknown, is_inside
from deltacli.storage.optional_interfaces import require_writable
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_errors import name_table
from deltacli.table.handle import TableHandle
from deltacli.work import outputs
from deltacli.work.rows.data_files import DataFile, ReadSpec
from deltacli.work.task import Task, TaskContext

if TYPE_CHECKING:
    import pyarrow

    from deltacli.delta.log.file_actions import FileBatch, TouchedFiles
    from deltacli.work.checkpoints.reading import CheckpointPiece

SUCCESS = "_SUCCESS"
_MOST_NAMES = 5
"""Files that an error names."""
Piece = TypeVar("Piece", outputs.RowsPiece, outputs.ActionsPiece)


class ListedActions(Protocol):
    """The file actions of a version: `FileActions`, whose version uses this module."""

    @property
    def table(self) -> TableHandle: ...
    @property
    def pieces(self) -> Sequence[CheckpointPiece]: ...
    @property
    def touched(self) -> TouchedFiles: ...
    def read_commit_batches(self) -> Iterator[FileBatch]: ...


@dataclass(frozen=True, slots=True)
class WrittenDirectory:
    """A directory of Parquet files.

    Attributes:
        uri: The URI of the directory.
        files: The files, in the order of their rows.
        was_cut: True if there were more rows than the limit.
    """

    uri: str
    files: tuple[outputs.OutputFile, ...]
    was_cut: bool = False

    @property
    def rows(self) -> int:
        """The number of rows in all files."""
        return sum(file.rows for file in self.files)

    @property
    def size_bytes(self) -> int:
        """The bytes of all files."""
        return sum(file.size_bytes for file in self.files)


def write_rows(
    table: TableHandle, directory: str | os.PathLike[str], spec: ReadSpec, files: Iterable[DataFile], limit: int | None
) -> WrittenDirectory:
    """Write the rows of data files to a new or empty directory. After an error nothing is left behind.

    Args:
        table: The table of the files.
        directory: A path, or a URI of a store that can create atomically.
        spec: The columns and rows to read.
        files: The data files.
        limit: The largest number of rows. None for all.

    Raises:
        UsageError: If the directory is not empty, or is inside a table.
        NoAtomicCreate: If the store is read-only.
        DataUnreadable: If a data file cannot be read.
        StorageFailed: If the directory cannot be written.
    """
    with _open_output_run(table, directory, spec.schema, limit) as run:
        task = outputs.WriteRows(run.target)
        run.spread(task, outputs.plan_row_pieces(files), {"spec": spec}, what="writing rows", unit="files")
        return run.finish()


def write_actions(
    files: ListedActions, directory: str | os.PathLike[str], columns: outputs.ActionColumns, limit: int | None
) -> WrittenDirectory:
    """Write the live files, the tombstones or both to a new or empty directory.

    Args:
        files: The file actions of a version.
        directory: As for `write_rows`.
        columns: The kinds of actions to write, and their columns.
        limit: The largest number of actions. None for all.

    Raises:
        CheckpointUnreadable: If the checkpoint cannot be read.
        DeltacliError: As `write_rows` does.
    """
    with _open_output_run(files.table, directory, columns.schema(), limit) as run:
        run.write_here(_read_actions_of_commits(files, columns))
        task = outputs.WriteActions(run.target, columns)
        pieces = outputs.plan_action_pieces(files.pieces, first=1)
        total = sum(piece.group.rows for piece in files.pieces)
        shared = {"touched": files.touched}
        run.spread(task, pieces, shared, what="writing file actions", unit="rows", total=total)
        return run.finish()


def _read_actions_of_commits(files: ListedActions, columns: outputs.ActionColumns) -> Iterator[pyarrow.RecordBatch]:
    """Yield the actions of the commits, and of the lines of a JSON checkpoint."""
    for batch in files.read_commit_batches():
        for kind, actions in (("add", batch.adds), ("remove", batch.removes)):
            if kind in columns.kinds and actions is not None:
                yield columns.of(kind, actions)


@contextmanager
def _open_output_run(
    table: TableHandle, directory: str | os.PathLike[str], schema: pyarrow.Schema, limit: int | None
) -> Iterator[_OutputRun]:
    """Claim a directory, and delete what was written there after a fault."""
    try:
        storage = _open_empty_directory(table, directory)
        run = _OutputRun(table, storage, schema, limit)
        try:
            run.claim()
            yield run
        except BaseException as fault:
            # BaseException, because a signal is an exception of the main thread, too.
            undeleted = run.withdraw()
            if undeleted and isinstance(fault, DeltacliError):
                fault.facts["left behind"] = summarize_names(undeleted, _MOST_NAMES)
            raise
    except DeltacliError as fault:
        name_table(fault, table.name)
        raise


class _OutputRun:
    """One run that writes to a directory: it takes the files of its pieces in order, up to a number of rows.

    Attributes:
        target: The directory, and the id of the run in the names of its files.
    """

    def __init__(self, table: TableHandle, storage: Storage, schema: pyarrow.Schema, limit: int | None) -> None:
        self.target = outputs.OutputTarget(storage.uri, table.machine.new_hex(8))
        self._table = table
        self._storage = storage
        self._schema = schema
        self._limit = limit
        self._made_directory = storage.capabilities.has_directories and storage.kind_of("") is PathKind.MISSING
        self._files: list[outputs.OutputFile] = []
        self._rows = 0
        self._was_cut = False
        self._claimed = False
        self._succeeded = False

    def claim(self) -> None:
        """Create the claim.

        If the answer of the store was lost, the content of the claim tells whose it is.

        Raises:
            UsageError: If another run was faster.
            StorageFailed: If the store cannot be written.
        """
        self._claimed = True
        outcome = self._storage.put_if_absent(outputs.CLAIM, self.target.run.encode())
        if isinstance(outcome, Existed | Unknown) and not self.target.is_claimed(self._storage):
            self._claimed = False
            if isinstance(outcome, Unknown):
                raise StorageFailed(f"{self.target.uri} cannot be written", facts={"why": outcome.cause})
            raise _not_empty_error(self.target.uri, [outputs.CLAIM])

    def write_here(self, batches: Iterator[pyarrow.RecordBatch]) -> None:
        """Write rows in this process, before all pieces."""
        self._add_files(self._write_batches(self._cut_at_limit(batches)))

    def spread(
        self,
        task: Task[Piece, tuple[outputs.OutputFile, ...]],
        pieces: Iterable[Piece],
        shared: Mapping[str, Any],  # Any: values of the task
        *,
        what: str,
        unit: str,
        total: int | None = None,
    ) -> None:
        """Write pieces on the engine, as many as the limit needs.

        How many rows a piece has is known only when it was written. So each piece may write up to the
        limit, and the first one that exceeds it is written once more with the rows that are left.

        Args:
            task: The task that writes a piece.
            pieces: The pieces, in the order of the result.
            shared: The values that the task needs.
            what: The name of the step that reports progress.
            unit: The unit of progress.
            total: The amount of all pieces, if it is known.
        """
        if self._was_cut:
            return
        engine = self._table.engine
        stores = self._table.stores
        started = deque[Piece]()
        # One row more than the limit shows that rows are left out.
        most_rows = None if self._limit is None else self._limit - self._rows + 1

        def start_pieces() -> Iterator[Piece]:
            for piece in pieces:
                started.append(piece)
                yield replace(piece, limit=most_rows)

        results = engine.spread(task, start_pieces(), stores, shared=shared, weigh=attrgetter("weight"))
        with self._table.progress.step(what, unit=unit, total=total) as step, _close_at_end(results):
            for files in results:
                piece = started.popleft()
                step.advance(piece.amount)
                rows_of_piece = sum(file.rows for file in files)
                if self._limit is not None and self._rows + rows_of_piece > self._limit:
                    self._was_cut = True
                    break
                self._add_files(files)

        rows_left = (self._limit or 0) - self._rows
        if self._was_cut and rows_left:
            (files,) = engine.spread(task, [replace(piece, limit=rows_left)], stores, shared=shared)
            self._add_files(files)

    def finish(self) -> WrittenDirectory:
        """End the claim, delete the files of lost attempts, and mark the directory as complete.

        The claim goes first, so that attempts that still run write nothing more.

        Raises:
            StorageFailed: If a file is not as it was written, or cannot be deleted.
        """
        if not self._files:
            # A result without rows is a file that has the schema.
            self._add_files(self._write_batches(iter(()), is_needed=True))
        self._delete([outputs.CLAIM])
        self._claimed = False

        sizes = {file.name: file.size_bytes for file in self._storage.list_from("") if self.target.owns(file.name)}
        written_sizes = {file.name: file.size_bytes for file in self._files}
        self._delete(sorted(sizes.keys() - written_sizes.keys()))
        differing = [name for name, size_bytes in written_sizes.items() if sizes.get(name) != size_bytes]
        if differing:
            raise StorageFailed(
                f"{differing[0]} is not as it was written",
                facts={
                    "bytes": str(sizes.get(differing[0], "missing")),
                    "written": str(written_sizes[differing[0]]),
                },
            )

        self._succeeded = True
        outcome = self._storage.put_if_absent(SUCCESS, b"")
        if isinstance(outcome, Unknown) and self._storage.kind_of(SUCCESS) is PathKind.MISSING:
            raise StorageFailed(f"{SUCCESS} was not written", facts={"why": outcome.cause})
        return WrittenDirectory(self.target.uri, tuple(self._files), self._was_cut)

    def withdraw(self) -> list[str]:
        """Delete what this run has written, and return what could not be deleted."""
        undeleted: list[str] = []
        names = [SUCCESS] if self._succeeded else []
        with suppress(DeltacliError):
            # First, so that lost attempts that are still running write nothing more.
            if self._claimed and self.target.is_claimed(self._storage):
                undeleted += self._delete_if_possible([outputs.CLAIM])
            with suppress(FileMissing):
                names += [file.name for file in self._storage.list_from("") if self.target.owns(file.name)]
            undeleted += self._delete_if_possible(names)
            if self._made_directory and not undeleted and isinstance(self._storage, LocalStorage):
                parent, name = os.path.split(self._storage.root)
                LocalStorage(parent).remove_directory(name)
            return undeleted
        return [outputs.CLAIM, *names]

    def _add_files(self, files: Iterable[outputs.OutputFile]) -> None:
        for file in files:
            self._files.append(file)
            self._rows += file.rows

    def _cut_at_limit(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Yield rows up to the limit, and note whether there are more."""
        if self._limit is None:
            yield from batches
            return
        rows_left = self._limit
        for batch in batches:
            if batch.num_rows > rows_left:
                self._was_cut = True
                yield batch.slice(0, rows_left)
                return
            rows_left -= batch.num_rows
            yield batch

    def _write_batches(
        self, batches: Iterator[pyarrow.RecordBatch], *, is_needed: bool = False
    ) -> tuple[outputs.OutputFile, ...]:
        context = TaskContext(self._table.stores)
        return outputs.write_batches(context, self.target, 0, self._schema, batches, is_needed=is_needed)

    def _delete(self, names: list[str]) -> None:
        """Delete files. Raises StorageFailed if that is not possible."""
        undeleted = self._delete_if_possible(names)
        if undeleted:
            raise StorageFailed(f"{undeleted[0]} cannot be deleted from {self.target.uri}")

    def _delete_if_possible(self, names: list[str]) -> list[str]:
        """Delete files, and return those that could not be deleted."""
        outcomes = self._storage.delete_many(names)
        return [name for name, outcome in outcomes if isinstance(outcome, Failed)]


@contextmanager
def _close_at_end(items: Iterator[object]) -> Iterator[None]:
    """Close an iterator at the end, which cancels the requests and pieces that are still running."""
    try:
        yield
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


def _open_empty_directory(table: TableHandle, directory: str | os.PathLike[str]) -> Storage:
    """Return the store of a new or empty directory outside of all tables.

    Raises:
        UsageError: `usage.output`, for any other directory.
        NoAtomicCreate: If the store is read-only.
    """
    name = os.fspath(directory)
    if not name:
        raise UsageError("the output directory is an empty string", code="usage.output")
    storage = table.stores.other(table.open_other(name).uri)
    require_writable(storage)

    enclosing_table = _find_table_above(table, storage)
    if enclosing_table is not None:
        raise UsageError(
            f"the output directory {mask_secrets(name)} is inside a table",
            code="usage.output",
            facts={"table": enclosing_table, "why": "its files would be mixed with data files"},
        )
    content = _list_some_content(storage)
    if content:
        raise _not_empty_error(storage.uri, content)
    return storage


def _find_table_above(table: TableHandle, storage: ReadStorage) -> str | None:
    """Return the table that contains a directory, or is it; None if there is none.

    Unlike `find_enclosing_table`, this asks remote stores, too: here it is not for a hint.
    """
    output_root = root_of(storage.uri)
    table_root = root_of(table.storage.uri)
    if is_inside(storage, table.storage) or f"{output_root}/".startswith(f"{table_root}/"):
        return mask_secrets(table.uri)

    if isinstance(storage, LocalStorage):
        top = "/"
        path = os.path.realpath(storage.root).strip("/")
    else:
        scheme, _, host_and_path = storage.uri.partition("://")
        host, _, path = host_and_path.partition("/")
        top = f"{scheme}://{host or '/'}"
    top_storage = table.open_other(top)
    parts = path.split("/")
    for depth in range(len(parts), -1, -1):
        ancestor = "/".join(parts[:depth])
        with suppress(PermissionRefused):  # access may end above the directory
            if top_storage.kind_of(f"{ancestor}/{LOG_DIRECTORY}".lstrip("/")) is PathKind.DIRECTORY:
                return mask_secrets(f"{top.rstrip('/')}/{ancestor}")
    return None


def _list_some_content(storage: ReadStorage) -> list[str]:
    """Return names of what is in a directory; empty for one that does not exist. Raises UsageError for a file."""
    match storage.kind_of(""):
        case PathKind.MISSING:
            return []
        case PathKind.FILE:
            raise UsageError(f"{mask_secrets(storage.uri)} is a file, not a directory", code="usage.output")
    content: list[str] = []

    def enter_none(_: str, names: Sequence[str]) -> Iterable[str]:
        content.extend(f"{name}/" for name in names)
        return ()

    entries = storage.walk("", enter_none)
    with _close_at_end(entries):
        for entry in entries:
            content += filter(None, (*entry.names, *entry.special))
            if len(content) > _MOST_NAMES:
                break
    return sorted(content)


def _not_empty_error(uri: str, content: Sequence[str]) -> UsageError:
    return UsageError(
        f"the output directory {mask_secrets(uri)} is not empty",
        code="usage.output",
        facts={
            "found": summarize_names(content, _MOST_NAMES),
            "expected": "a directory that is empty or does not exist",
        },
    )
