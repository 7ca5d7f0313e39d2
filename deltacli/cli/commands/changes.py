"""`deltacli changes TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.formats import RowFormat
from deltacli.cli.invocation import invocation
from deltacli.cli.options.chosen_version import note_findings
from deltacli.cli.options.common_options import TableArgument
from deltacli.cli.options.moments import parse_moment
from deltacli.cli.options.rows import (
    ColumnsOption,
    LimitOption,
    WhereOption,
    note_what_is_missing,
    require_file,
    settle_limit,
    split_columns,
    write_directory,
)
from deltacli.cli.options.run import Run

if TYPE_CHECKING:
    from deltacli.operations.table.time_travel import VersionTime

EXIT_CODES = (0, 2, 3, 4, 7, 70)
FORMATS = RowFormat
RUNS_ON_CLUSTER = True
_LONGEST_VERSION = 19
"""Digits of the largest version, 2^63 - 1."""
_CHANGE = ("_change_type", "_commit_version", "_commit_timestamp")

First = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="V|T",
        help="The first version: a number, or the first one committed at or after T.",
        show_default=False,
    ),
]
Last = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="V|T",
        help="The last version: a number, or the last one committed at or before T.  [default: the newest]",
        show_default=False,
    ),
]


def changes(
    run: Run,
    table: TableArgument,
    first: First,
    last: Last = None,
    columns: ColumnsOption = None,
    where: WhereOption = None,
    limit: LimitOption = None,
) -> None:
    """Read how the rows of a table changed between two versions.

    \b
    Each row has the type of its change (_change_type: insert, delete,
    update_preimage, update_postimage), the version (_commit_version) and the time
    (_commit_timestamp). Both ends of the range are included. A range that starts
    one version above the newest is empty, so a poller can ask for the next one.

    \b
    Examples:
      deltacli changes ./tbl --from 12
      deltacli changes ./tbl --from 9 --to 9 --columns trip,day
      deltacli changes ./tbl --from 2026-01-03 --to 2026-01-04 --format ndjson
      deltacli changes ./tbl --from 0 --format parquet --output changes.parquet
      deltacli changes ./tbl --from 0 --output changes/
    """
    from deltacli.cli.render.data.rows import Rows, RowsResult
    from deltacli.delta.schema.types import type_json
    from deltacli.operations.read.changes import read_range
    from deltacli.operations.table.time_travel import find_range

    begin, end = _parse_end("--from", first), None if last is None else _parse_end("--to", last)
    require_file(run)
    chosen = split_columns(columns)
    most = settle_limit(run, limit)
    opened = run.open_table(table)
    span = find_range(opened, begin, end)
    extra = 0 if run.directory is not None else 1  # to find out whether there are more
    found = read_range(opened, span, columns=chosen, where=where, limit=most + extra if most else None)
    note_findings(run, found.snapshot, None)
    if run.directory is not None:
        versions = {"fromVersion": span.first, "toVersion": span.last}
        write_directory(run, opened.uri, "changes", versions, found.write_parquet, most)
        for note in found.notes:
            run.note(f"note: {note}")
        return
    about = {
        "fromVersion": span.first,
        "toVersion": span.last,
        "columns": [{"name": column.name, "type": type_json(column.data_type)} for column in found.columns],
    }
    rows = Rows("deltacli.changes", "change", opened.uri, about, found.schema, found, first=_CHANGE)
    result = RowsResult(rows, most)
    run.write(result)
    for note in found.notes:
        run.note(f"note: {note}")
    note_what_is_missing(run, result.written, most)


def _parse_end(option: str, text: str) -> int | VersionTime:
    """Return a version where the text consists of digits, else a time. Raises UsageError."""
    from deltacli.operations.table.time_travel import VersionTime

    digits = text.strip()
    is_version = digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_VERSION
    return int(digits) if is_version else VersionTime(parse_moment(option, text, invocation.arguments))
