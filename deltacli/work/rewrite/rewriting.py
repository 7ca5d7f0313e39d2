"""Rewrite a group of data files: the same rows in new files."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

from deltacli.core.errors import DeltacliError, StorageFailed
from deltacli.core.tempfiles import forget, remember
from deltacli.core.typing import RecordBatch
from deltacli.delta.partitions.values import constants_of
from deltacli.delta.schema.to_arrow import keeps_partition_columns
from deltacli.work.rewrite import pieces
from deltacli.work.rewrite.file_writing import DraftFile, delete_unnamed_files, publish_file, read_back, write_file
from deltacli.work.rewrite.sources import SourceRefusedError, Sources, make_constants
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet


def measure_rewrite(piece: pieces.RewritePiece, context: TaskContext) -> int | None:
    """Return the bytes of the file that the live rows of a piece's files would become, as the shared `RewriteSpec`
    says; None where one of them cannot be read or kept exactly. A task; nothing of the table is written.
    """
    spec: pieces.RewriteSpec = context.shared(pieces.SPEC)
    try:
        return _measure_piece(spec, piece, context)
    except (DeltacliError, SourceRefusedError):
        return None


def _measure_piece(spec: pieces.RewriteSpec, piece: pieces.RewritePiece, context: TaskContext) -> int | None:
    """Return the bytes that the rows of a piece take in a temporary file; None where a source is refused."""
    constants = {}
    if keeps_partition_columns(spec.config):
        constants = constants_of(piece.partition_values.items(), spec.config, piece.sources[0].path)
    sources = Sources(context.files, spec, constants)
    rows = (table for table in sources.tables(piece.sources) if table.num_rows)
    first = next(rows, None)
    size = 0
    if first is not None:
        directory = Path(tempfile.mkdtemp(prefix="deltacli-"))
        remember(directory)
        try:
            size = write_file(spec, str(directory / "sample"), "a temporary file", chain([first], rows)).size_bytes
        finally:
            shutil.rmtree(directory, ignore_errors=True)
            forget(directory)
    return None if sources.refused else size


_SORTING = BoundedSemaphore(2)
"""Sorting takes up to 400 MiB; further pieces of a process use less memory instead of waiting for the store of
another table.
"""
NAMED = "named"
"""The name of the shared `NewFileNames`, if there are any."""


@dataclass(frozen=True, slots=True)
class RewriteFiles:
    """Writes the live rows of a piece's files to new ones as the shared `RewriteSpec` says, and reads them back.

    Nothing that it finds wrong with a source is an error: the source is left alone and listed in the result. Only the
    caller's commit makes new files part of the table. After an error none is left, unless the store does not say
    whether it was created; then vacuum removes it.
    """

    def __call__(self, piece: pieces.RewritePiece, context: TaskContext) -> pieces.Rewritten:
        """Return the new files. Raises StorageFailed, DataUnreadable for a new file, and PermissionRefused."""
        spec: pieces.RewriteSpec = context.shared(pieces.SPEC)
        refused: list[pieces.RefusedFile] = []

        # A file may be found not to be exact after some of its rows have been written. Then all is done again without
        # it, at most once for each file.
        while True:
            without = {each.path for each in refused}
            left = replace(piece, sources=tuple(each for each in piece.sources if each.path not in without))
            try:
                done = _GroupRewrite(spec, left, context).run()
            except SourceRefusedError as fault:
                refused.append(fault.refused)
                continue
            return replace(done, refused=(*refused, *done.refused))


class _GroupRewrite:
    def __init__(self, spec: pieces.RewriteSpec, piece: pieces.RewritePiece, context: TaskContext) -> None:
        self._spec = spec
        self._piece = piece
        self._context = context
        self._sources = Sources(context.files, spec, make_constants(spec, piece))
        self._order = spec.order
        checked = spec.order if spec.reads_back else None
        # Digests of the rows to sort, and of those in the new files. None if rows keep their order.
        self._source_digest = None if checked is None else checked.digest()
        self._file_digest = None if checked is None else checked.digest()
        self._published_paths: list[str] = []
        self._announced_names: pieces.NewFileNames = context.values.get(NAMED) or pieces.NewFileNames()

    def run(self) -> pieces.Rewritten:
        """Write the new files, and return them.

        After an error, files that were published are deleted again.

        Raises:
            SourceRefusedError: If it has to be done again without a file.
        """
        published: list[pieces.NewFile] = []
        # A third piece that sorts does not wait for the first two: they may wait for the store of another table.
        has_memory = self._order is not None and _SORTING.acquire(blocking=False)
        if self._order is not None and not has_memory:
            self._order = self._order.use_less_memory()
        try:
            self._write(published)
        except BaseException:
            delete_unnamed_files(self._context.storage, self._published_paths)
            raise
        finally:
            if has_memory:
                _SORTING.release()
        sources = self._sources
        return pieces.Rewritten(tuple(published), tuple(sources.used), tuple(sources.refused), sources.rows)

    def _write(self, published: list[pieces.NewFile]) -> None:
        """Write, read back and name one file after the other, so that no disk holds more than one draft."""
        spec = self._spec
        context = self._context
        parts = (rows for rows in self._until_cancelled(self._arrange_rows()) if rows.num_rows)
        first = next(parts, None)
        number = 0
        while first is not None:
            path = self._path(number)
            with context.storage.draft(path) as draft:
                written = write_file(spec, draft.local_path, path, chain([first], parts))
                if spec.reads_back:
                    read_back(spec, context.files, draft.local_path, path, written, self._file_digest)
                # Before the file has its name: an answer that is lost must not leave a file that nobody deletes.
                self._published_paths.append(path)
                self._announced_names.paths.append(path)
                published.append(publish_file(context.storage, DraftFile(path, draft, written)))
            first = next(parts, None)
            number += 1

        # The rows of one file have no counterpart in one source after they were sorted, so all are compared together.
        if self._source_digest is None or self._file_digest is None:
            return
        if self._source_digest.answer() != self._file_digest.answer():
            raise StorageFailed("the sorted files have other rows than their sources", code="data.not-as-written")

    def _until_cancelled(self, parts: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Pass rows on. Raises CancelledError once nobody waits for the new files."""
        for rows in parts:
            if self._context.is_cancelled():
                from concurrent.futures import CancelledError

                raise CancelledError
            yield rows

    def _arrange_rows(self) -> Iterator[RecordBatch]:
        """Return the rows of the sources in the order of new files. Raises NoSpace."""
        order = self._order
        tables = self._sources.tables(self._piece.sources)
        if order is None:
            return tables
        order.require_space(self._piece.size_bytes)
        batches = (batch for table in tables for batch in table.to_batches())
        return order.arrange(self._digest_batches(batches), self._spec.schema)

    def _digest_batches(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            if self._source_digest is not None:
                self._source_digest.take(batch)
            yield batch

    def _path(self, number: int) -> str:
        """Return the path of a new file below the table: no other attempt and no other piece has it."""
        piece = self._piece
        name = f"part-{piece.number:05}-{uuid.UUID(self._context.attempt)}-c{number:03}{self._spec.ending}"
        return f"{piece.directory.rstrip('/')}/{name}" if piece.directory else name
