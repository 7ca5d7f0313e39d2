"""Commands that list rows: how many are shown, where they are written, and the notes about them and their version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from deltacli.cli.formats import PARQUET, Content
from deltacli.cli.invocation import invocation
from deltacli.cli.options.common_options import DEFAULT_ROWS
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.shell import again_with, again_without_limit
from deltacli.core.errors import Refused, UsageError
from deltacli.core.units import format_timestamp, some_of

if TYPE_CHECKING:
    from deltacli.cli.render.data.rows import Written
    from deltacli.table.output import WrittenDirectory
    from deltacli.table.scan import ArrowRows
    from deltacli.table.version import Snapshot

_NAMED = 5

EXPLAINED: Mapping[str, str] = {
    "action.missing-required": "the metaData has no schemaString; read as an empty schema",
    "catalog.unpublished-possible": "a catalog manages this table; newer commits may exist there",
    "checkpoint.multipart-incomplete": "a multi-part checkpoint lacks parts; not used",
    "checkpoint.no-metadata": "a checkpoint has no metaData; an older start was used",
    "checkpoint.no-protocol": "a checkpoint has no protocol; an older start was used",
    "checkpoint.unreadable": "a checkpoint cannot be read; an older start was used",
    "checkpoint.zero-length": "a checkpoint file is empty; not used",
    "commit.empty": "a commit before the checkpoint is empty; it was not needed",
    "compaction.beyond-log": "a log compaction covers versions after the newest commit, which seem to be lost",
    "hint.bad-json": "_last_checkpoint cannot be read; the log was listed instead",
    "hint.checkpoint-missing": "_last_checkpoint names a missing checkpoint; the log was listed instead",
    "hint.checksum-bad": "_last_checkpoint has a wrong checksum; the log was listed instead",
    "hint.missing-field": "_last_checkpoint names no version; the log was listed instead",
    "ict.missing": "the commit has no in-commit timestamp; the file's time is shown",
    "log.checkpoint-commit-missing": "the commit file of this version is missing; it was rebuilt from its checkpoint",
    "log.name-not-padded": "a log file's version is not 20 digits; not read",
    "sidecar.missing": "a checkpoint names a missing sidecar; an older start was used",
}


def settle_limit(run: Run, wanted: int | None) -> int:
    """Return the number of rows to show, 0 for all: the requested one, else the default of a table on a terminal.

    Raises UsageError for a negative number.
    """
    if wanted is not None:
        if wanted < 0:
            raise UsageError(f"--limit {wanted} is negative", facts={"expected": "0 (all) or more"})
        return wanted
    return DEFAULT_ROWS if run.is_on_screen and run.directory is None else 0


def require_file(run: Run) -> None:
    """Raise UsageError where Parquet would be written neither to a file nor to a directory."""
    if run.format is PARQUET and (run.output is None or run.terminal.is_terminal):
        raise UsageError(
            "--format parquet requires --output FILE or --output DIR/",
            code="usage.output",
            hint=again_with(invocation.arguments, "--output", "rows.parquet"),
        )


def judge_left_out(run: Run, rows: ArrowRows) -> None:
    """Note which columns are left out because of their types. Raises Refused where they would be missing in a file."""
    from deltacli.delta.schema.unread_columns import note_of

    if not rows.left_out:
        return
    if run.output is not None or run.directory is not None:
        require_all_columns(rows)
    run.note(f"note: {note_of(rows.left_out)}")


def require_all_columns(rows: ArrowRows) -> None:
    """Raise Refused where columns are left out because of their types, with the command that names the others."""
    try:
        rows.require_all_columns()
    except Refused as refused:
        names = ",".join(column.name for column in rows.columns)
        refused.hint = again_with(invocation.arguments, "--columns", names)
        raise


def write_directory(
    run: Run,
    table: str,
    content: str,
    versions: Mapping[str, int],
    write: Callable[[str], WrittenDirectory],
    limit: int,
) -> None:
    """Write rows to the directory of `--output`, and show what was written. `limit`: as in `Run.limit`."""
    from deltacli.cli.render.data.rows import DirectoryResult

    assert run.directory is not None
    written = write(run.directory)
    run.write(DirectoryResult(table, content, versions, written))
    if written.was_cut:
        run.note(f"wrote the first {limit:,} rows; to write all: {again_without_limit(invocation.arguments)}")


def note_what_is_missing(run: Run, written: Written, limit: int) -> None:
    """Report rows left out by the limit, and values cut and columns left out for lack of room."""
    again = again_with(invocation.arguments, "--format", "ndjson")
    if written.cuts_values and not written.left_out:
        run.note(f"values are cut; to show them whole: {again}")
    if written.left_out:
        shown = some_of(list(written.left_out), _NAMED)
        cut = ", and values are cut" if written.cuts_values else ""
        run.note(f"no room for {shown}{cut}; select columns with --columns, or show all: {again}")
    if written.was_cut:
        said = "" if run.is_on_screen else f"showing the first {limit:,}; "  # the screen ends with the number
        run.note(f"{said}to show all: {again_without_limit(invocation.arguments)}")


def note_the_cut(run: Run, rows: int, most: int) -> None:
    """Note how many rows a limit leaves out: none if it is 0, nor in formats of findings."""
    if most and rows > most and run.format.content is not Content.FINDINGS:
        run.note(f"showing {most:,} of {rows:,} rows; to show all: {again_without_limit(invocation.arguments)}")


def note_findings(run: Run, found: Snapshot, at_ms: int | None) -> None:
    """Note which problems were worked around, and that a time is later than the newest version."""
    from deltacli.storage.base import StoreOfVersions

    for problem in found.problems:
        files = ", ".join(name for name, rule in found.set_aside.items() if rule == problem)
        run.note(f"note: {problem}: {EXPLAINED[problem]}{f' ({files})' if files else ''}")
    is_newest = found.version == found.newest_version and not isinstance(found.table.storage, StoreOfVersions)
    if at_ms is not None and is_newest and found.time is not None and at_ms > found.time.timestamp_ms:
        run.note(f"note: version {found.version} is the newest, committed {format_timestamp(found.time.timestamp_ms)}")
