"""What a pull did, or would do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltacli.cli.render.sections import Section
from deltacli.cli.results import Outcome
from deltacli.units import format_size, plural

if TYPE_CHECKING:
    from deltacli.sharing.pulling.pull import PullResult
    from deltacli.sharing.pulling.row_pull import WrittenRows

_OF_TABLE = ("target", "sharedVersion", "localVersion", "committed", "filesAdded", "filesRemoved")
_OF_ROWS = ("target", "as", "sharedVersion", "rows", "filesWritten", "bytesWritten")
_OF_PLAN = ("target", "sharedVersion", "filesToDownload", "bytesToDownload")


def pull_outcome(table: str, result: PullResult) -> Outcome:
    """Return the outcome of pulling a Delta table."""
    content = {"as": "delta", **result.as_json()}
    columns = _OF_PLAN if result.dry_run else _OF_TABLE
    return Outcome("share-pull", table, content, lambda: _table_sections(table, result), [content], columns)


def rows_outcome(table: str, written: WrittenRows) -> Outcome:
    """Return the outcome of pulling rows."""
    content = written.as_json()
    columns = _OF_PLAN if written.dry_run else _OF_ROWS
    return Outcome("share-pull", table, content, lambda: _row_sections(table, written), [content], columns)


def _table_sections(table: str, result: PullResult) -> Sequence[Section]:
    difference = result.difference
    before = "" if result.before in (None, result.shared_version) else f", before: {result.before}"
    present = f"; {plural(difference.present, 'file')} present" if difference.present else ""
    if result.dry_run:
        files = f"{plural(len(difference.wanted), 'file')} to download, {format_size(difference.wanted_bytes)}"
    else:
        files = f"{plural(len(difference.wanted), 'file')} downloaded, {format_size(result.received_bytes)}"
    if result.decodes:
        present += "; all data decoded" if not result.dry_run else ""
    return [
        Section("table", [table]),
        Section("target", [result.directory]),
        Section("shared version", [f"{result.shared_version}{before}"]),
        Section("files", [files + present]),
        Section("commit", [_commit(result)]),
    ]


def _commit(result: PullResult) -> str:
    difference = result.difference
    changes = f"{plural(difference.added, 'file')} added, {plural(difference.removed, 'file')} removed"
    if result.dry_run:
        removed = f", and remove {plural(difference.removed, 'file')}" if difference.removed else ""
        return f"would add {plural(difference.added, 'file')}{removed}"
    if result.is_committed:
        return f"local version {result.local_version}: {changes}"
    return f"none: local version {result.local_version} has this version of the table"


def _row_sections(table: str, written: WrittenRows) -> Sequence[Section]:
    if written.dry_run:
        files = f"{plural(written.files, 'file')} to read, {format_size(written.size_bytes)}"
    else:
        rows = plural(written.rows or 0, "row")
        files = f"{rows} in {plural(written.files, 'file')}, {format_size(written.size_bytes)}"
    return [
        Section("table", [table]),
        Section("target", [written.target]),
        Section("shared version", [str(written.shared_version)]),
        Section("to read" if written.dry_run else "written", [files]),
    ]
