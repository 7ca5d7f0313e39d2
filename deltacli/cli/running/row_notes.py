"""Notes of commands that list rows and versions: what was worked around, left out, cut, or decided."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from deltacli.cli.invocation import invocation
from deltacli.cli.options.tables import DEFAULT_ROWS
from deltacli.cli.output.formats import PARQUET, Content
from deltacli.cli.terminal.suggested_commands import (
    repeat_command_with,
    repeat_command_without_limit,
)
from deltacli.core.errors import DeltacliError, Refused, UsageError
from deltacli.core.texts import summarize_names
from deltacli.core.times import format_timestamp
from deltacli.delta.log.disputed_readings import DECISIONS, KEY_IN_OTHER_CASE
from deltacli.storage.base import PathKind
from deltacli.storage.secrets import mask_secrets

if TYPE_CHECKING:
    from deltacli.cli.render.data.rows import Written
    from deltacli.cli.render.fleet.check import FleetListing
    from deltacli.delta.schema.misnamed_fields import MisnamedField
    from deltacli.table.output import WrittenDirectory
    from deltacli.table.scan import ArrowRows
    from deltacli.table.version import Snapshot
    from deltacli.table.version_from_checksum import VersionFromChecksum

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle


from deltacli.cli.running.context import CommandContext

_NAMED = 5

EXPLAINED: Mapping[str, str] = {
    "action.missing-required": "the metaData has no schemaString; read as an empty schema",
    "catalog.unpublished-possible": "a catalog manages this table; newer commits may exist there",
    "checkpoint.multipart-incomplete": "a multi-part checkpoint lacks parts; not used",
    "checkpoint.no-metadata": "a checkpoint has no metaData or two; an older start was used, or the last metaData",
    "checkpoint.no-protocol": "a checkpoint has no protocol or two; an older start was used, or the last protocol",
    "checkpoint.unreadable": "a checkpoint cannot be read; an older start was used",
    "checkpoint.zero-length": "a checkpoint file is empty; not used",
    "commit.empty": "a commit before the checkpoint is empty; it was not needed",
    "compaction.beyond-log": "a log compaction covers versions after the newest commit, which seem to be lost",
    "crc.without-commit": "a version checksum is of a version after the newest commit; commits seem to be lost",
    "hint.ahead-of-log": "_last_checkpoint names a version after the newest commit; commits seem to be lost",
    "hint.bad-json": "_last_checkpoint cannot be read; the log was listed instead",
    "hint.checkpoint-missing": "_last_checkpoint names a missing checkpoint; the log was listed instead",
    "hint.checksum-bad": "_last_checkpoint has a wrong checksum; the log was listed instead",
    "hint.missing-field": "_last_checkpoint names no version; the log was listed instead",
    "ict.missing": "the commit has no in-commit timestamp; the file's time is shown",
    "log.checkpoint-commit-missing": "the commit file of this version is missing; it was rebuilt from its checkpoint",
    "log.name-not-padded": "a log file's version is not 20 digits; not read",
    "sidecar.missing": "a checkpoint names a missing sidecar; an older start was used",
    **DECISIONS,
}


def choose_row_limit(run: CommandContext, wanted: int | None) -> int:
    """Return the number of rows to show, 0 for all: as requested, else the default of the place. Raises UsageError."""
    if wanted is not None:
        if wanted < 0:
            raise UsageError(f"--limit {wanted} is negative", facts={"expected": "0 (all) or more"})
        return wanted
    return DEFAULT_ROWS if run.is_on_screen and run.directory is None else 0


def require_file(run: CommandContext) -> None:
    """Raise UsageError where Parquet would be written neither to a file nor to a directory."""
    if run.format is PARQUET and (run.output is None or run.terminal.is_terminal):
        raise UsageError(
            "--format parquet requires --output FILE or --output DIR/",
            code="usage.output",
            hint=repeat_command_with(invocation.arguments, "--output", "rows.parquet"),
        )


def check_omitted_columns(run: CommandContext, rows: ArrowRows) -> None:
    """Note which columns are left out because of their types. Raises Refused where they would be missing in a file."""
    from deltacli.delta.schema.to_arrow import note_of

    if not rows.left_out:
        return
    if run.output is not None or run.directory is not None:
        require_all_columns(rows)
    run.note(f"note: {note_of(rows.left_out)}")


def note_misnamed_columns(run: CommandContext, fields: Sequence[MisnamedField], table: str) -> None:
    """Note which columns were null because files have them under their logical names.

    Args:
        run: The run that shows the notes.
        fields: The columns and nested fields, once the rows were read.
        table: The address of the table, for the next command.
    """
    from deltacli.core.errors import command
    from deltacli.delta.schema.misnamed_fields import MISNAMED

    for misnamed in fields:
        run.note(f"note: {MISNAMED}: a file {misnamed.description}; it is null in the rows of that file")
    if fields:
        run.note(f"to see which files: {command('validate', table=table, level='footers')}")


def note_padded_columns(run: CommandContext, rows: ArrowRows) -> None:
    """Note which columns Spark shows, and compares, with blanks that files do not have.

    Args:
        run: The run that shows the notes.
        rows: The rows that are read. Columns of a condition count, too.
    """
    from deltacli.delta.schema.types import declared_type, is_padded

    padded = [column for column in rows.read_spec.columns if is_padded(column)]
    if padded:
        names = ", ".join(f"{column.name} ({declared_type(column) or 'char'})" for column in padded)
        run.note(f"note: Spark pads char(n) with blanks; values are shown and compared as files store them: {names}")


def note_rows(run: CommandContext, rows: ArrowRows, table: str, noted: Collection[str] = ()) -> None:
    """Note what was decided about rows that engines read differently, once the rows were read.

    Args:
        run: The run that shows the notes.
        rows: The rows. Columns of a condition count, too.
        table: The address of the table, for the next command.
        noted: The problems that were noted before.
    """
    note_misnamed_columns(run, rows.misnamed, table)
    note_padded_columns(run, rows)
    _note_partition_values(run, rows, table)
    note_problems(run, [rule for rule in rows.disputed if rule not in noted])


def note_disputed(run: CommandContext, *snapshots: Snapshot) -> None:
    """Note what was decided about damages of versions that engines read differently."""
    for decision in dict.fromkeys(decision for snapshot in snapshots for decision in snapshot.decisions):
        run.note(f"note: {decision}")


def note_problems(run: CommandContext, problems: Iterable[str]) -> None:
    """Note problems that were worked around."""
    for problem in problems:
        run.note(f"note: {problem}: {EXPLAINED[problem]}")


def _note_partition_values(run: CommandContext, rows: ArrowRows, table: str) -> None:
    """Note partition columns of which the log has an empty text, or the name in another letter case."""
    from deltacli.core.errors import command

    for column in rows.empty_texts:
        run.note(f"note: partition column {column} is an empty text in the log, which is null; Spark returns the text")
    for column in rows.respelled_keys:
        run.note(f"note: {KEY_IN_OTHER_CASE}: {DECISIONS[KEY_IN_OTHER_CASE]}: {column}")
    found = {"partition.empty-*": rows.empty_texts, KEY_IN_OTHER_CASE: rows.respelled_keys}
    select = [rules for rules, columns in found.items() if columns]
    if select:
        run.note(f"to see which files: {command('validate', table=table, select=select)}")


def require_all_columns(rows: ArrowRows) -> None:
    """Raise Refused where columns are left out because of their types, with the command that names the others."""
    try:
        rows.require_all_columns()
    except Refused as refused:
        names = ",".join(column.name for column in rows.columns)
        refused.hint = repeat_command_with(invocation.arguments, "--columns", names)
        raise


def write_directory(
    run: CommandContext,
    table: str,
    content: str,
    versions: Mapping[str, int],
    write: Callable[[str], WrittenDirectory],
    limit: int,
) -> None:
    """Write rows to the directory of `--output`, and show what was written. `limit`: as in `CommandContext.limit`."""
    from deltacli.cli.render.data.rows import DirectoryResult

    assert run.directory is not None
    written = write(run.directory)
    invocation.outputs = *invocation.outputs, (mask_secrets(run.directory), lambda: True)
    run.write(DirectoryResult(table, content, versions, written))
    if written.was_cut:
        run.note(f"wrote the first {limit:,} rows; to write all: {repeat_command_without_limit(invocation.arguments)}")


def note_omitted_content(run: CommandContext, written: Written, limit: int) -> None:
    """Report rows left out by the limit, and values cut and columns left out for lack of room."""
    if written.left_out or written.cuts_values:
        again = repeat_command_with(invocation.arguments, "--format", "ndjson")
        if written.left_out:
            shown = summarize_names(list(written.left_out), _NAMED)
            cut = ", and values are cut" if written.cuts_values else ""
            run.note(f"no room for {shown}{cut}; select columns with --columns, or show all: {again}")
        else:
            run.note(f"values are cut; to show them whole: {again}")
    if written.was_cut:
        said = "" if run.is_on_screen else f"showing the first {limit:,}; "  # the screen ends with the number
        run.note(f"{said}to show all: {repeat_command_without_limit(invocation.arguments)}")


def note_omitted_rows(run: CommandContext, rows: int, most: int) -> None:
    """Note how many rows a limit leaves out: none if it is 0, nor in formats of findings."""
    if most and rows > most and run.format.content is not Content.FINDINGS:
        run.note(
            f"showing {most:,} of {rows:,} rows; to show all: {repeat_command_without_limit(invocation.arguments)}"
        )


def note_omitted_items(run: CommandContext, result: FleetListing[Any], *, may_repeat: bool = True) -> None:
    """Note what a limit leaves out, in tables, rows or items. `may_repeat`: the command shows the same once more."""
    if result.drawn_screen is None:
        rows = result.items if run.format.errors_are_json else result.rows
        note_omitted_rows(run, len(rows), result.most)
        return
    said, how = result.left_out()
    if said or (how and may_repeat):
        run.note("; ".join(filter(None, (said, f"{how}: {repeat_command_without_limit(invocation.arguments)}"))))


def note_catalog(run: CommandContext, *found: Snapshot, name: str = "") -> None:
    """Note of versions that were read by path that their catalog may have newer ones. `name`: of one of many tables."""
    problem = "catalog.unpublished-possible"
    if any(problem in one.problems for one in found):
        run.note(f"note: {name + ': ' if name else ''}{problem}: {EXPLAINED[problem]}")


def note_staged(run: CommandContext, table: TableHandle, name: str = "") -> None:
    """Note the same of a table of which no version was read, where its log has staged commits."""
    from deltacli.table.handle import managed_store
    from deltacli.table.rebuild import read_snapshot

    storage = table.storage
    if table.is_shared or managed_store(storage) is not None:
        return
    with suppress(DeltacliError):
        if storage.kind_of("_delta_log/_staged_commits") is PathKind.DIRECTORY:
            note_catalog(run, read_snapshot(table), name=name)


def note_findings(run: CommandContext, found: Snapshot | VersionFromChecksum, at_ms: int | None) -> None:
    """Note which problems were worked around, and that a time is later than the newest version."""
    for problem in found.problems:
        files = ", ".join(name for name, rule in found.skipped_checkpoints.items() if rule == problem)
        run.note(f"note: {problem}: {EXPLAINED[problem]}{f' ({files})' if files else ''}")
    is_newest = found.version == found.newest_version and not found.table.is_shared
    if at_ms is not None and is_newest and found.time is not None and at_ms > found.time.timestamp_ms:
        run.note(f"note: version {found.version} is the newest, committed {format_timestamp(found.time.timestamp_ms)}")
