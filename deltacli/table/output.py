"""Writing results as directories of Parquet files, by tasks: the whole result, marked as such, or nothing.

The directory is empty at first and claimed by one run. `_SUCCESS` is written last. After a fault, everything that the
run has written is deleted, and nothing else.
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
from deltacli.delta.paths.spelling import root_of
from deltacli.storage import Existed, Failed, LocalStorage, PathKind, ReadStorage, Storage, Unknown, is_inside
from deltacli.storage.optional_interfaces import require_writable
from deltacli.storage.secrets import without_secrets
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
_NAMED = 5
Piece = TypeVar("Piece", outputs.RowsPiece, outputs.ActionsPiece)


class ListedActions(Protocol):
    """The file actions of a version: `FileActions`, which uses this module and cannot be imported here."""

    @property
    def table(self) -> TableHandle: ...
    @property
    def pieces(self) -> Sequence[CheckpointPiece]: ...
    @property
    def touched(self) -> TouchedFiles: ...
    def batches_of_commits(self) -> Iterator[FileBatch]: ...


@dataclass(frozen=True, slots=True)
class WrittenDirectory:
    """A directory of Parquet files. `was_cut`: there were more rows than the limit."""

    uri: str
    files: tuple[outputs.OutputFile, ...]
    was_cut: bool = False

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def write_rows(
    table: TableHandle, directory: str | os.PathLike[str], spec: ReadSpec, files: Iterable[DataFile], limit: int | None
) -> WrittenDirectory:
    """Write the rows of data files to a new or empty directory.

    Raises UsageError for another directory, or one inside a table; NoAtomicCreate for a store that is read-only;
    DataUnreadable and StorageFailed, with nothing left behind.
    """
    with _output_run(table, directory, spec.schema, limit) as run:
        task = outputs.WriteRows(run.target)
        run.spread(task, outputs.plan_row_pieces(files), {"spec": spec}, what="writing rows", unit="files")
        return run.finish()


def write_actions(
    files: ListedActions, directory: str | os.PathLike[str], columns: outputs.ActionColumns, limit: int | None
) -> WrittenDirectory:
    """Write the live files, the tombstones or both to a new or empty directory. Raises what `write_rows` raises, and
    CheckpointUnreadable.
    """
    with _output_run(files.table, directory, columns.schema(), limit) as run:
        run.write_here(_of_commits(files, columns))
        task = outputs.WriteActions(run.target, columns)
        pieces = outputs.plan_action_pieces(files.pieces, first=1)
        total = sum(piece.group.rows for piece in files.pieces)
        shared = {"touched": files.touched}
        run.spread(task, pieces, shared, what="writing file actions", unit="rows", total=total)
        return run.finish()


def _of_commits(files: ListedActions, columns: outputs.ActionColumns) -> Iterator[pyarrow.RecordBatch]:
    """Yield the actions of the commits, and of the lines of a JSON checkpoint."""
    for batch in files.batches_of_commits():
        for kind, actions in (("add", batch.adds), ("remove", batch.removes)):
            if kind in columns.kinds and actions is not None:
                yield columns.of(kind, actions)


@contextmanager
def _output_run(
    table: TableHandle, directory: str | os.PathLike[str], schema: pyarrow.Schema, limit: int | None
) -> Iterator[_OutputRun]:
    """Claim a directory, and delete what was written there after a fault."""
    try:
        storage = _open(table, directory)
        run = _OutputRun(table, storage, schema, limit)
        try:
            run.claim()
            yield run
        except BaseException as fault:
            left = run.withdraw()
            if left and isinstance(fault, DeltacliError):
                fault.facts["left behind"] = summarize_names(left, _NAMED)
            raise
    except DeltacliError as fault:
        name_table(fault, table.name)
        raise


class _OutputRun:
    """One run that writes to a directory: it takes the files of its pieces in order, up to a number of rows."""

    def __init__(self, table: TableHandle, storage: Storage, schema: pyarrow.Schema, limit: int | None) -> None:
        self.target = outputs.OutputTarget(storage.uri, table.machine.new_hex(8))
        self._table, self._storage, self._schema, self._limit = table, storage, schema, limit
        self._made_directory = storage.capabilities.has_directories and storage.kind_of("") is PathKind.MISSING
        self._files: list[outputs.OutputFile] = []
        self._rows = 0
        self._was_cut = False
        self._claimed = self._succeeded = False

    def claim(self) -> None:
        """Create the claim. Raises UsageError where another run was faster."""
        self._claimed = True
        outcome = self._storage.put_if_absent(outputs.CLAIM, self.target.run.encode())
        if isinstance(outcome, Existed | Unknown) and not self.target.is_claimed(self._storage):
            self._claimed = False
            if isinstance(outcome, Unknown):
                raise StorageFailed(f"{self.target.uri} cannot be written", facts={"why": outcome.cause})
            raise _not_empty(self.target.uri, [outputs.CLAIM])

    def write_here(self, batches: Iterator[pyarrow.RecordBatch]) -> None:
        """Write rows in this process, before all pieces."""
        self._take(self._write_here(self._counted(batches)))

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
        """Write pieces on the engine, as many as the limit needs."""
        if self._was_cut:
            return
        engine, stores, started = self._table.engine, self._table.stores, deque[Piece]()
        most = None if self._limit is None else self._limit - self._rows + 1  # one more shows that rows are left out

        def remembered() -> Iterator[Piece]:
            for piece in pieces:
                started.append(piece)
                yield replace(piece, limit=most)

        results = engine.spread(task, remembered(), stores, shared=shared, weigh=attrgetter("weight"))
        with self._table.progress.step(what, unit=unit, total=total) as step, _closed(results):
            for files in results:
                piece = started.popleft()
                step.advance(piece.amount)
                if self._limit is not None and self._rows + sum(file.rows for file in files) > self._limit:
                    self._was_cut = True
                if self._was_cut:
                    break
                self._take(files)
        if self._was_cut and (left := (self._limit or 0) - self._rows):
            (files,) = engine.spread(task, [replace(piece, limit=left)], stores, shared=shared)
            self._take(files)

    def finish(self) -> WrittenDirectory:
        """End the claim, delete the files of lost attempts, and mark the directory as complete."""
        if not self._files:
            self._take(self._write_here(iter(()), is_needed=True))
        self._delete([outputs.CLAIM])
        self._claimed = False
        found = {file.name: file.size_bytes for file in self._storage.list_from("") if self.target.owns(file.name)}
        listed = {file.name: file.size_bytes for file in self._files}
        self._delete(sorted(found.keys() - listed.keys()))
        if wrong := [name for name, size in listed.items() if found.get(name) != size]:
            raise StorageFailed(
                f"{wrong[0]} is not as it was written",
                facts={"bytes": str(found.get(wrong[0], "missing")), "written": str(listed[wrong[0]])},
            )
        self._succeeded = True
        outcome = self._storage.put_if_absent(SUCCESS, b"")
        if isinstance(outcome, Unknown) and self._storage.kind_of(SUCCESS) is PathKind.MISSING:
            raise StorageFailed(f"{SUCCESS} was not written", facts={"why": outcome.cause})
        return WrittenDirectory(self.target.uri, tuple(self._files), self._was_cut)

    def withdraw(self) -> list[str]:
        """Delete what this run has written, and return what could not be deleted."""
        left: list[str] = []
        names = [SUCCESS] if self._succeeded else []
        with suppress(DeltacliError):
            if self._claimed and self.target.is_claimed(
                self._storage
            ):  # first, so that lost attempts that are still running write nothing more
                left += self._remaining([outputs.CLAIM])
            with suppress(FileMissing):
                names += [file.name for file in self._storage.list_from("") if self.target.owns(file.name)]
            left += self._remaining(names)
            if self._made_directory and not left and isinstance(self._storage, LocalStorage):
                parent, name = os.path.split(self._storage.root)
                LocalStorage(parent).remove_directory(name)
            return left
        return [outputs.CLAIM, *names]

    def _take(self, files: Iterable[outputs.OutputFile]) -> None:
        for file in files:
            self._files.append(file)
            self._rows += file.rows

    def _counted(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Yield rows up to the limit, and note whether there are more."""
        left = self._limit
        for batch in batches:
            if left is not None and batch.num_rows > left:
                self._was_cut = True
                yield batch.slice(0, left)
                return
            left = None if left is None else left - batch.num_rows
            yield batch

    def _write_here(
        self, batches: Iterator[pyarrow.RecordBatch], *, is_needed: bool = False
    ) -> tuple[outputs.OutputFile, ...]:
        context = TaskContext(self._table.stores)
        return outputs.write_batches(context, self.target, 0, self._schema, batches, is_needed=is_needed)

    def _delete(self, names: list[str]) -> None:
        if left := self._remaining(names):
            raise StorageFailed(f"{left[0]} cannot be deleted from {self.target.uri}")

    def _remaining(self, names: list[str]) -> list[str]:
        """Delete files, and return those that could not be deleted."""
        outcomes = self._storage.delete_many(names)
        return [name for name, outcome in outcomes if isinstance(outcome, Failed)]


@contextmanager
def _closed(items: Iterator[object]) -> Iterator[None]:
    """Close an iterator at the end, which cancels the requests and pieces that are still running."""
    try:
        yield
    finally:
        if (close := getattr(items, "close", None)) is not None:
            close()


def _open(table: TableHandle, directory: str | os.PathLike[str]) -> Storage:
    """Return the store of a new or empty directory outside of all tables. Raises UsageError and NoAtomicCreate."""
    name = os.fspath(directory)
    if not name:
        raise UsageError("the output directory is an empty string", code="usage.output")
    storage = table.stores.other(table.open_other(name).uri)
    require_writable(storage)
    if (around := _table_around(table, storage)) is not None:
        raise UsageError(
            f"the output directory {without_secrets(name)} is inside a table",
            code="usage.output",
            facts={"table": around, "why": "its files would be mixed with data files"},
        )
    if found := _content(storage):
        raise _not_empty(storage.uri, found)
    return storage


def _table_around(table: TableHandle, storage: ReadStorage) -> str | None:
    """Return the table that contains a directory, or is it; None if there is none."""
    inner, outer = (root_of(store.uri) for store in (storage, table.storage))
    if is_inside(storage, table.storage) or f"{inner}/".startswith(f"{outer}/"):
        return without_secrets(table.uri)
    if isinstance(storage, LocalStorage):
        top, place = "/", os.path.realpath(storage.root).strip("/")
    else:
        scheme, _, rest = storage.uri.partition("://")
        host, _, place = rest.partition("/")
        top = f"{scheme}://{host or '/'}"
    above, parts = table.open_other(top), place.split("/")
    for depth in range(len(parts), -1, -1):
        path = "/".join(parts[:depth])
        with suppress(PermissionRefused):  # access may end above the directory
            if above.kind_of(f"{path}/_delta_log".lstrip("/")) is PathKind.DIRECTORY:
                return without_secrets(f"{top.rstrip('/')}/{path}")
    return None


def _content(storage: ReadStorage) -> list[str]:
    """Return names of what is in a directory; empty for one that does not exist. Raises UsageError for a file."""
    match storage.kind_of(""):
        case PathKind.MISSING:
            return []
        case PathKind.FILE:
            raise UsageError(f"{without_secrets(storage.uri)} is a file, not a directory", code="usage.output")
    found: list[str] = []

    def enter(_: str, names: Sequence[str]) -> Iterable[str]:
        found.extend(f"{name}/" for name in names)
        return ()

    entries = storage.walk("", enter)
    with _closed(entries):
        for entry in entries:
            found += filter(None, (*entry.names, *entry.special))
            if len(found) > _NAMED:
                break
    return sorted(found)


def _not_empty(uri: str, found: Sequence[str]) -> UsageError:
    return UsageError(
        f"the output directory {without_secrets(uri)} is not empty",
        code="usage.output",
        facts={"found": summarize_names(found, _NAMED), "expected": "a directory that is empty or does not exist"},
    )
