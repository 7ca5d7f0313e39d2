"""Writing the rows of a shared table to a file or a directory, as `read --output` does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from deltacli.cli.formats import FORMATS
from deltacli.cli.options.global_options import ColourChoice
from deltacli.cli.options.run import Run
from deltacli.cli.options.targets import directory_of, require_directory, require_target
from deltacli.cli.terminal.term import detect_terminal
from deltacli.errors import UsageError
from deltacli.sharing.pulling.row_pull import RowRequest, WrittenRows

if TYPE_CHECKING:
    import pyarrow

    from deltacli.operations.read.scan import Scan
    from deltacli.sharing.client.tables.share_storage import ShareStorage


def write_rows(run: Run, shared: ShareStorage, to: str, request: RowRequest, *, dry_run: bool) -> WrittenRows:
    """Write rows to a file or directory, complete or not at all. Raises UsageError, and what scans raise."""
    directory = _require_place(to, request.form)
    store = shared.expecting(where=request.where, limit=request.limit, version=request.version, at_ms=request.at_ms)
    if dry_run:
        urls = store.shared.urls
        sizes = [size for name in urls.names() if (size := urls.size_of(name)) is not None]
        found = WrittenRows(to, request.form, store.shared.version, len(sizes), sum(sizes), dry_run=True)
        return replace(found, is_directory=directory is not None)
    opened = run.table_of(store)
    scan = opened.snapshot().scan(columns=request.columns, where=request.where, limit=request.limit)
    if directory is not None:
        written = scan.write_parquet(directory)
        return WrittenRows(
            to, request.form, scan.version, len(written.files), written.size_bytes, written.rows, is_directory=True
        )
    rows = _write_file(run, opened.uri, scan, to, request.form)
    return WrittenRows(to, request.form, scan.version, 1, os.stat(to).st_size, rows)


def _require_place(to: str, form: str) -> str | None:
    """Return the directory that rows are written to; None for a file. Raises UsageError and StorageFailed."""
    directory = directory_of(to)
    if to in ("", "-"):
        raise UsageError("--to is not a file or directory", facts={"found": to or "an empty text"})
    if directory is not None and form != "parquet":
        raise UsageError(f"--as {form} writes one file, but --to {to} is a directory")
    if directory is None or "://" not in directory:
        place = to.rstrip("/") or "/"
        require_target(place, "--to")
        require_directory(place)
    return directory


def _write_file(run: Run, uri: str, scan: Scan, to: str, form: str) -> int:
    """Write one file and return its rows."""
    from deltacli.cli.render.data.rows import Rows, RowsResult

    rows = 0

    def counted() -> Iterator[pyarrow.RecordBatch]:
        nonlocal rows
        for batch in scan:
            rows += batch.num_rows
            yield batch

    about = {"version": scan.version}
    result = RowsResult(Rows("deltacli.read", "row", uri, about, scan.schema, counted()), 0)
    terminal = detect_terminal(ColourChoice.NEVER, to_file=True)
    replace(run, format=FORMATS[form], output=to, terminal=terminal).write(result)
    return rows
