"""Write query results to a directory of Parquet files, in parallel and all or nothing.

A cluster may run a task twice, and a process may be killed at any time. So a directory is written in
these steps:

1. The directory must be empty. A claim file with the id of this run is created atomically, so that a
   second run cannot write to the directory.
2. Tasks write Parquet files. Their names contain the id of the run and of the attempt. The driver keeps
   the files of one attempt of each task.
3. The claim is deleted, then the files of other attempts, and finally `_SUCCESS` is created. As with
   Spark, a directory without `_SUCCESS` is incomplete.

After an error, all files of the run are deleted, and no other file. See
docs/decisions/0089-outputs-are-directories-of-attempts.md.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from deltacli.core.errors import DeltacliError, FileMissing, PermissionRefused, StorageFailed, UsageError
from deltacli.core.texts import summarize_names
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.paths.spelling import canonicalize_root
from deltacli.storage import Existed, Failed, LocalStorage, PathKind, ReadStorage, Storage, Unknown, is_inside
from deltacli.storage.optional_interfaces import require_writable
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_errors import name_table_in_errors
from deltacli.table.handle import TableHandle
from deltacli.table.table_directories import SubdirectoryRecorder
from deltacli.work.outputs import action_outputs, output_files, row_outputs
from deltacli.work.rows.data_files import DataFile, ReadSpec
from deltacli.work.task import Task, TaskContext

if TYPE_CHECKING:
    import pyarrow

    from deltacli.delta.log.file_actions import FileBatch, SupersededFiles
    from deltacli.work.checkpoints.parquet_files import CheckpointPiece

SUCCESS = "_SUCCESS"
_MAX_NAMES = 5
"""Number of file names that an error message lists."""
Piece = TypeVar("Piece", row_outputs.RowsPiece, action_outputs.ActionsPiece)


class ListedActions(Protocol):
    """The file actions of a version.

    `FileActions` implements this. It cannot be imported here, because `Snapshot` imports this module.
    """

    @property
    def table(self) -> TableHandle: ...
    @property
    def pieces(self) -> Sequence[CheckpointPiece]: ...
    @property
    def changed_after_checkpoint(self) -> SupersededFiles: ...
    def read_commit_batches(self) -> Iterator[FileBatch]: ...


@dataclass(frozen=True, slots=True)
class WrittenDirectory:
    """A complete output directory.

    Attributes:
        uri: The URI of the directory.
        files: The Parquet files, in the order of their rows.
        was_cut: True if rows were left out because of the limit.
    """

    uri: str
    files: tuple[output_files.OutputFile, ...]
    was_cut: bool = False

    @property
    def rows(self) -> int:
        """The total number of rows."""
        return sum(file.rows for file in self.files)

    @property
    def size_bytes(self) -> int:
        """The total size of the files."""
        return sum(file.size_bytes for file in self.files)


def write_rows(
    table: TableHandle, directory: str | os.PathLike[str], spec: ReadSpec, files: Iterable[DataFile], limit: int | None
) -> WrittenDirectory:
    """Write the rows of data files to a new or empty directory.

    Args:
        table: The table of the data files.
        directory: A path, or the URI of a store that supports atomic creation.
        spec: The columns and rows to read from each data file.
        files: The data files.
        limit: The maximum number of rows. None for all rows.

    Raises:
        UsageError: If the directory is not empty, or is inside a table.
        NoAtomicCreate: If the store of the directory does not support atomic creation.
        DataUnreadable: If a data file cannot be read.
        StorageFailed: If the directory cannot be written.
    """
    with _open_output_run(table, directory, spec.schema, limit) as run:
        task = row_outputs.WriteRows(run.target)
        run.write_in_tasks(
            task, row_outputs.plan_row_pieces(files), {"spec": spec}, step_name="writing rows", unit="files"
        )
        return run.finish()


def write_actions(
    files: ListedActions, directory: str | os.PathLike[str], columns: action_outputs.ActionColumns, limit: int | None
) -> WrittenDirectory:
    """Write the live files, the tombstones or both of a version to a new or empty directory.

    Args:
        files: The file actions of the version.
        directory: A path, or the URI of a store that supports atomic creation.
        columns: The kinds of actions to write (`add`, `remove`), and their columns.
        limit: The maximum number of actions. None for all actions.

    Raises:
        CheckpointUnreadable: If the checkpoint cannot be read.
        DeltacliError: The same errors as `write_rows`.
    """
    with _open_output_run(files.table, directory, columns.schema(), limit) as run:
        # Actions of commits are in memory of this process. Those of the checkpoint are read by tasks.
        run.write_in_process(_read_actions_of_commits(files, columns))
        task = action_outputs.WriteActions(run.target, columns)
        pieces = action_outputs.plan_action_pieces(files.pieces, first=1)
        total_rows = sum(piece.group.rows for piece in files.pieces)
        shared = {"touched": files.changed_after_checkpoint}
        run.write_in_tasks(task, pieces, shared, step_name="writing file actions", unit="rows", total=total_rows)
        return run.finish()


def _read_actions_of_commits(
    files: ListedActions, columns: action_outputs.ActionColumns
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the file actions of the commits after the checkpoint, and of the lines of a JSON checkpoint."""
    for batch in files.read_commit_batches():
        for kind, actions in (("add", batch.adds), ("remove", batch.removes)):
            if kind in columns.kinds and actions is not None:
                yield columns.of(kind, actions)


@contextmanager
def _open_output_run(
    table: TableHandle, directory: str | os.PathLike[str], schema: pyarrow.Schema, limit: int | None
) -> Iterator[_OutputRun]:
    """Claim an output directory for the body of a `with` statement.

    If the body raises, all files that it has written are deleted. The names of files that cannot be deleted
    are added to the error.

    Args:
        table: The table whose content is written.
        directory: A path, or the URI of a store that supports atomic creation.
        schema: The schema of the Parquet files.
        limit: The maximum number of rows. None for all rows.
    """
    with name_table_in_errors(table.name):
        storage = _open_empty_directory(table, directory)
        run = _OutputRun(table, storage, schema, limit)
        try:
            run.claim_directory()
            yield run
        except BaseException as error:
            # BaseException includes KeyboardInterrupt and the exceptions that signals raise.
            undeleted = run.roll_back()
            if undeleted and isinstance(error, DeltacliError):
                error.facts["left behind"] = summarize_names(undeleted, _MAX_NAMES)
            raise


class _OutputRun:
    """One run that writes to an output directory.

    Call `claim_directory` first, then the methods that write, and `finish` at the end. After an error, call
    `roll_back` instead. `_open_output_run` calls `claim_directory` and `roll_back`.

    Attributes:
        target: The URI of the directory and the id of the run, which is part of all file names.
    """

    def __init__(self, table: TableHandle, storage: Storage, schema: pyarrow.Schema, limit: int | None) -> None:
        """Generate the id of the run. Nothing is written before `claim_directory` is called.

        Args:
            table: The table whose content is written.
            storage: The store of the output directory.
            schema: The schema of the Parquet files.
            limit: The maximum number of rows. None for all rows.
        """
        self.target = output_files.OutputTarget(storage.uri, table.machine.new_hex(8))
        self._table = table
        self._storage = storage
        self._schema = schema
        self._limit = limit
        self._creates_directory = storage.capabilities.has_directories and storage.kind_of("") is PathKind.MISSING
        self._files: list[output_files.OutputFile] = []
        self._row_count = 0
        self._was_cut = False
        self._is_claimed = False
        self._has_success_file = False

    def claim_directory(self) -> None:
        """Create the claim file.

        If the response of the store is lost, the content of the file shows whether this run has created it.

        Raises:
            UsageError: If another run has claimed the directory.
            StorageFailed: If the store cannot be written.
        """
        self._is_claimed = True
        outcome = self._storage.put_if_absent(output_files.CLAIM, self.target.run.encode())
        if isinstance(outcome, Existed | Unknown) and not self.target.is_claimed(self._storage):
            self._is_claimed = False
            if isinstance(outcome, Unknown):
                raise StorageFailed(f"{self.target.uri} cannot be written", facts={"why": outcome.cause})
            raise _not_empty_error(self.target.uri, [output_files.CLAIM])

    def write_in_process(self, batches: Iterator[pyarrow.RecordBatch]) -> None:
        """Write rows in this process. These rows precede those of `write_in_tasks`."""
        self._add_files(self._write_batches(self._limit_rows(batches)))

    def write_in_tasks(
        self,
        task: Task[Piece, tuple[output_files.OutputFile, ...]],
        pieces: Iterable[Piece],
        shared: Mapping[str, Any],  # Any: values of the task
        *,
        step_name: str,
        unit: str,
        total: int | None = None,
    ) -> None:
        """Write pieces in tasks of the engine, until the limit is reached.

        The number of rows of a piece is unknown until it has been written, because rows may be filtered.
        So every task may write as many rows as the limit allows. The piece that exceeds the limit is
        written again with the number of rows that remain, and later pieces are cancelled.

        Args:
            task: The task that writes a piece.
            pieces: The pieces, in the order of their rows.
            shared: Values that every task needs.
            step_name: The name of the progress step, such as `writing rows`.
            unit: The unit of progress.
            total: The amount of progress of all pieces; None if unknown.
        """
        if self._was_cut:
            return
        engine = self._table.engine
        stores = self._table.stores
        # One row more than the limit shows that there are more rows.
        rows_per_piece = None if self._limit is None else self._limit - self._row_count + 1
        started_pieces = _StartedPieces(pieces, rows_per_piece)

        # Add the files of the pieces, in their order, up to the piece that exceeds the limit.
        cut_piece: Piece | None = None
        results = engine.run_tasks(task, started_pieces, stores, shared=shared, weigh=attrgetter("weight"))
        with self._table.progress.step(step_name, unit=unit, total=total) as step, _close_at_end(results):
            for files in results:
                piece = started_pieces.pop_oldest()
                step.advance(piece.amount)
                rows_of_piece = sum(file.rows for file in files)
                if self._limit is not None and self._row_count + rows_of_piece > self._limit:
                    self._was_cut = True
                    cut_piece = piece
                    break
                self._add_files(files)

        # Write that piece again, without the surplus rows. Its first files are deleted by `finish`.
        remaining_rows = (self._limit or 0) - self._row_count
        if cut_piece is not None and remaining_rows:
            (files,) = engine.run_tasks(task, [replace(cut_piece, limit=remaining_rows)], stores, shared=shared)
            self._add_files(files)

    def finish(self) -> WrittenDirectory:
        """Delete the claim and the files of other attempts, and mark the directory as complete.

        The claim is deleted first: an attempt that is still running checks it, and stops writing.

        Raises:
            StorageFailed: If a file does not have the size that was written, or cannot be deleted.
        """
        if not self._files:
            # Readers need at least one Parquet file to get the schema.
            self._add_files(self._write_batches(iter(()), is_needed=True))
        self._delete([output_files.CLAIM])
        self._is_claimed = False

        # Attempts that the engine repeated have left files that are not part of the result.
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

        self._has_success_file = True
        # If the response of the store was lost, look whether the file exists.
        outcome = self._storage.put_if_absent(SUCCESS, b"")
        if isinstance(outcome, Unknown) and self._storage.kind_of(SUCCESS) is PathKind.MISSING:
            raise StorageFailed(f"{SUCCESS} was not written", facts={"why": outcome.cause})
        return WrittenDirectory(self.target.uri, tuple(self._files), self._was_cut)

    def roll_back(self) -> list[str]:
        """Delete all files of this run, and the directory if this run has created it.

        The claim file is deleted first. Other attempts of a task may still be running on a cluster: each of them
        checks the claim before it writes a file, and stops if the claim does not exist.

        Returns:
            The names of files that could not be deleted, or that may exist because the store failed.
        """
        names = [SUCCESS] if self._has_success_file else []
        undeleted: list[str] = []
        try:
            if self._is_claimed and self.target.is_claimed(self._storage):
                undeleted += self._delete_if_possible([output_files.CLAIM])
            with suppress(FileMissing):
                names += [file.name for file in self._storage.list_from("") if self.target.owns(file.name)]
            undeleted += self._delete_if_possible(names)
            if self._creates_directory and not undeleted and isinstance(self._storage, LocalStorage):
                # A store cannot remove its own root directory, so open the parent directory.
                parent, name = os.path.split(self._storage.root)
                LocalStorage(parent).remove_directory(name)
        except DeltacliError:
            return [output_files.CLAIM, *names]
        return undeleted

    def _add_files(self, files: Iterable[output_files.OutputFile]) -> None:
        for file in files:
            self._files.append(file)
            self._row_count += file.rows

    def _limit_rows(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Yield rows until the limit is reached, and set `_was_cut` if there are more rows."""
        if self._limit is None:
            yield from batches
            return
        remaining_rows = self._limit
        for batch in batches:
            if batch.num_rows > remaining_rows:
                self._was_cut = True
                yield batch.slice(0, remaining_rows)
                return
            remaining_rows -= batch.num_rows
            yield batch

    def _write_batches(
        self, batches: Iterator[pyarrow.RecordBatch], *, is_needed: bool = False
    ) -> tuple[output_files.OutputFile, ...]:
        context = TaskContext(self._table.stores)
        return output_files.write_batches(context, self.target, 0, self._schema, batches, is_needed=is_needed)

    def _delete(self, names: list[str]) -> None:
        """Delete files of the output directory.

        Raises:
            StorageFailed: If a file cannot be deleted.
        """
        undeleted = self._delete_if_possible(names)
        if undeleted:
            raise StorageFailed(f"{undeleted[0]} cannot be deleted from {self.target.uri}")

    def _delete_if_possible(self, names: list[str]) -> list[str]:
        """Delete files of the output directory, and return the names of files that could not be deleted."""
        outcomes = self._storage.delete_many(names)
        return [name for name, outcome in outcomes if isinstance(outcome, Failed)]


class _StartedPieces(Generic[Piece]):
    """Passes pieces to the engine, and stores each piece until its result arrives.

    The engine consumes the iterator a few pieces ahead of the results, and returns results in the order of
    the pieces. So the oldest stored piece belongs to the next result.
    """

    def __init__(self, pieces: Iterable[Piece], row_limit: int | None) -> None:
        """Wrap an iterable of pieces.

        Args:
            pieces: The pieces.
            row_limit: The maximum number of rows that the task of each piece writes. None for all rows.
        """
        self._pieces: Iterable[Piece] = pieces
        self._row_limit = row_limit
        self._started: deque[Piece] = deque()

    def __iter__(self) -> Iterator[Piece]:
        for piece in self._pieces:
            self._started.append(piece)
            yield replace(piece, limit=self._row_limit)

    def pop_oldest(self) -> Piece:
        """Return the piece that belongs to the next result, without its row limit."""
        return self._started.popleft()


@contextmanager
def _close_at_end(items: Iterator[object]) -> Iterator[None]:
    """Close a generator when the block ends, which cancels its running requests and tasks.

    Iterators that are not generators have no `close` and are left alone.
    """
    try:
        yield
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


def _open_empty_directory(table: TableHandle, directory: str | os.PathLike[str]) -> Storage:
    """Open the store of an output directory, and check that the directory may be written.

    Raises:
        UsageError: `usage.output`, if the directory is not empty, is a file, or is inside a table.
        NoAtomicCreate: If the store does not support atomic creation.
    """
    name = os.fspath(directory)
    if not name:
        raise UsageError("the output directory is an empty string", code="usage.output")
    storage = table.stores.open_output(table.open_other(name).uri)
    require_writable(storage)

    enclosing_table = _find_table_containing(table, storage)
    if enclosing_table is not None:
        raise UsageError(
            f"the output directory {mask_secrets(name)} is inside a table",
            code="usage.output",
            facts={"table": enclosing_table, "why": "its files would be mixed with data files"},
        )
    names = _list_first_names(storage)
    if names:
        raise _not_empty_error(storage.uri, names)
    return storage


def _find_table_containing(table: TableHandle, storage: ReadStorage) -> str | None:
    """Return the URI of the table that contains an output directory; None if no table does.

    `find_enclosing_table` guesses from the path on remote stores. This function requests every parent
    directory, because a wrong guess would mix result files with the data files of a table.

    Args:
        table: The table whose rows are written. It is checked first, without a request.
        storage: The store of the output directory.
    """
    output_root = canonicalize_root(storage.uri)
    table_root = canonicalize_root(table.storage.uri)
    if is_inside(storage, table.storage) or f"{output_root}/".startswith(f"{table_root}/"):
        return mask_secrets(table.uri)

    # Split the location into the top of the store, such as `s3://bucket`, and the path inside it.
    if isinstance(storage, LocalStorage):
        top = "/"
        path = os.path.realpath(storage.root).strip("/")
    else:
        scheme, _, host_and_path = storage.uri.partition("://")
        host, _, path = host_and_path.partition("/")
        top = f"{scheme}://{host or '/'}"

    top_storage = table.open_other(top)
    segments = path.split("/")
    for depth in range(len(segments), -1, -1):
        ancestor = "/".join(segments[:depth])
        # The credentials may not cover the parent directories.
        with suppress(PermissionRefused):
            if top_storage.kind_of(f"{ancestor}/{LOG_DIRECTORY}".lstrip("/")) is PathKind.DIRECTORY:
                return mask_secrets(f"{top.rstrip('/')}/{ancestor}")
    return None


def _list_first_names(storage: ReadStorage) -> list[str]:
    """Return the first names of files and subdirectories of a directory, sorted.

    Returns:
        A few names; empty if the directory is empty or does not exist.

    Raises:
        UsageError: If the path is a file.
    """
    match storage.kind_of(""):
        case PathKind.MISSING:
            return []
        case PathKind.FILE:
            raise UsageError(f"{mask_secrets(storage.uri)} is a file, not a directory", code="usage.output")

    subdirectories = SubdirectoryRecorder()
    file_names: list[str] = []
    entries = storage.walk("", subdirectories)
    with _close_at_end(entries):
        for entry in entries:
            # On object stores, the name of the marker object of the directory itself is empty.
            file_names += filter(None, (*entry.names, *entry.special))
            if len(file_names) + len(subdirectories.names) > _MAX_NAMES:
                break
    return sorted([*file_names, *(f"{name}/" for name in subdirectories.names)])


def _not_empty_error(uri: str, names: Sequence[str]) -> UsageError:
    return UsageError(
        f"the output directory {mask_secrets(uri)} is not empty",
        code="usage.output",
        facts={
            "found": summarize_names(names, _MAX_NAMES),
            "expected": "a directory that is empty or does not exist",
        },
    )
