"""Open a data file once for `validate`, and pass its footer and its rows to all checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from deltacli.core.errors import DataUnreadable, FileMissing, PathExternal, StorageFailed
from deltacli.delta.footers.parse import Footer
from deltacli.delta.schema.file_columns import ZONE_UNKNOWN
from deltacli.rules.framework.data_file_views import FileFault
from deltacli.work.facts.footer_files import (
    FooterPool,
    make_reading_fault,
    make_refused_fault,
    make_unreadable_fault,
    measure_footer,
    read_footer,
)
from deltacli.work.rows import data_files
from deltacli.work.rows.row_reader import read_opened
from deltacli.work.table_files import TableFiles


class FileFacts(NamedTuple):
    """The result for one file.

    `footer` is None if it could not be read. `answers` is present if rows were requested and all of them could be read.
    """

    row: int
    footer: Footer | None
    fault: FileFault | None = None
    answers: Mapping[str, Any] = {}  # Any: the answer of each question about the file
    rows: int = 0
    """Number of rows read."""
    is_unread: bool = False
    """True if the rows cannot be read although the footer can."""

    @property
    def is_refused(self) -> bool:
        """True for a file outside the table that may not be opened."""
        return self.fault is not None and self.fault.code == PathExternal.code


class RowCheck(Protocol):
    """One question about one file.

    Batches arrive in order, in the columns and types of the table, without deleted rows. Every column may be null in
    them.
    """

    def take(self, batch: pa.RecordBatch) -> None:
        """Process a batch of rows."""

    def answer(self) -> Any:  # Any: the result of a check
        """Return the result. Called after the last batch."""


class ReadsExtraColumns:
    """A question whose batches also contain the columns of `ReadSpec.beside`, after the columns of the table."""


class OpenFileContext(NamedTuple):
    """A file whose rows are about to be read.

    `add` is its row of `action_schemas().add`. `data_file` has the partition values, in the types of the table. A
    question may read more of the `opened` file until it has given its answer.
    """

    add: Mapping[str, Any]  # Any: values of the columns
    data_file: data_files.DataFile
    footer: Footer
    stored: pa.Schema
    """The Arrow schema of the file itself."""
    opened: data_files.OpenDataFile


RowCheckFactory = Callable[[OpenFileContext], RowCheck | None]
"""Start a question for a file; None if the file cannot answer it."""


def read_file_facts(
    files: TableFiles,
    wanted: data_files.ReadSpec,
    row: int,
    add: Mapping[str, Any],  # Any: values of the columns
    data_file: data_files.DataFile,
    questions: Mapping[str, RowCheckFactory],
    pool: FooterPool,
) -> FileFacts:
    """Open a file once, and read its footer and then its rows, which are passed to all questions."""
    footer = None
    fault = None
    rows = 0
    answers: dict[str, Any] = {}  # Any: what the questions answer
    try:
        with data_files.open_data_file(files, data_file) as opened, pool.reader() as reader:
            footer, fault = read_footer(opened.source, reader)
            if footer is not None and fault is None:
                context = OpenFileContext(add, data_file, footer, opened.schema, opened)
                started = {name: question(context) for name, question in questions.items()}
                checks = {name: check for name, check in started.items() if check is not None}
                for batch in read_opened(files, wanted, data_file, opened):
                    rows += batch.num_rows
                    has_extra_columns = batch.num_columns != wanted.table_column_count
                    table_batch = batch.select(range(wanted.table_column_count)) if has_extra_columns else batch
                    for check in checks.values():
                        check.take(batch if isinstance(check, ReadsExtraColumns) else table_batch)
                answers = {name: check.answer() for name, check in checks.items()}
    except PathExternal as refusal:
        return FileFacts(row, None, make_refused_fault(files, data_file.path, refusal))
    except StorageFailed as failed:
        return FileFacts(row, footer, fault or make_unreadable_fault(data_file.path, failed), rows=rows, is_unread=True)
    except DataUnreadable as unreadable:
        # The file is sound: another machine may know the time zone.
        if unreadable.code == ZONE_UNKNOWN:
            return FileFacts(row, footer, make_unreadable_fault(data_file.path, unreadable), rows=rows, is_unread=True)
        # Without a footer, the bytes at the end say more than Arrow: encrypted, truncated, or not Parquet.
        if fault is None and footer is None:
            fault = find_fault_at_end(files, data_file.path)
        if fault is None:
            part = "pages" if footer is not None else "footer"
            fault = make_reading_fault(data_file.path, unreadable, part)
        return FileFacts(row, footer, fault, rows=rows)
    return FileFacts(row, footer, fault, answers, rows)


def find_fault_at_end(files: TableFiles, path: str) -> FileFault | None:
    """Return the fault in the end of an unopenable file (encrypted, truncated, not Parquet); None if it is valid."""
    storage, inner = files.locate(path)
    try:
        size = storage.stat(inner).size_bytes
        fault, _ = measure_footer(storage.read_range(inner, max(size - 8, 0), min(size, 8)), size)
    except (FileMissing, StorageFailed):
        return None
    return fault
