"""Commands that write rows or long lists: limits, omitted columns, output directories, and notes on these."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltacli.cli.invocation import invocation
from deltacli.cli.options.tables import DEFAULT_ROWS
from deltacli.cli.output.formats import PARQUET, Content
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.problem_notes import note_problems
from deltacli.cli.terminal.suggested_commands import repeat_command_with, repeat_command_without_limit
from deltacli.core.errors import Refused, UsageError, command
from deltacli.core.texts import summarize_names
from deltacli.delta.log.disputed_readings import DECISIONS, KEY_IN_OTHER_CASE
from deltacli.storage.secrets import mask_secrets

if TYPE_CHECKING:
    from deltacli.cli.render.data.rows import Written
    from deltacli.cli.render.fleet.check import FleetListing
    from deltacli.delta.schema.misnamed_fields import MisnamedField
    from deltacli.table.output import WrittenDirectory
    from deltacli.table.scan import ArrowRows

_MAX_NAMES = 5
"""How many columns a note names."""


def choose_row_limit(run: CommandContext, limit: int | None) -> int:
    """Return how many rows to show. 0 means all rows.

    Args:
        run: The run of the command.
        limit: The value of `--limit`. None: a screen shows the default number, other destinations get all rows.

    Raises:
        UsageError: If the limit is negative.
    """
    if limit is None:
        return DEFAULT_ROWS if run.is_on_screen and run.directory is None else 0
    if limit < 0:
        raise UsageError(f"--limit {limit} is negative", facts={"expected": "0 (all) or more"})
    return limit


def require_parquet_output(run: CommandContext) -> None:
    """Require that Parquet is written to a file or a directory. Raises UsageError."""
    if run.format is PARQUET and (run.output is None or run.terminal.is_terminal):
        raise UsageError(
            "--format parquet requires --output FILE or --output DIR/",
            code="usage.output",
            hint=repeat_command_with(invocation.arguments, "--output", "rows.parquet"),
        )


def check_omitted_columns(run: CommandContext, rows: ArrowRows) -> None:
    """Note the columns whose types cannot be read, so that they are omitted from the result.

    Raises:
        Refused: If the rows are written to a file or a directory. A file would lack the columns silently.
    """
    from deltacli.delta.schema.to_arrow import note_of

    if not rows.left_out:
        return
    if run.output is not None or run.directory is not None:
        require_all_columns(rows)
    run.note(f"note: {note_of(rows.left_out)}")


def require_all_columns(rows: ArrowRows) -> None:
    """Require that the types of all columns can be read.

    Raises:
        Refused: If a column has another type. The hint selects the other columns.
    """
    try:
        rows.require_all_columns()
    except Refused as refused:
        names = ",".join(column.name for column in rows.columns)
        refused.hint = repeat_command_with(invocation.arguments, "--columns", names)
        raise


def note_rows(run: CommandContext, rows: ArrowRows, table: str, noted_problems: Collection[str] = ()) -> None:
    """Note where other engines return other values for the rows that were read.

    Args:
        run: The run of the command.
        rows: The rows. Columns of a condition count, too.
        table: The address of the table, for the suggested command.
        noted_problems: The ids of problems that have been noted before.
    """
    note_misnamed_columns(run, rows.misnamed, table)
    _note_padded_columns(run, rows)
    _note_partition_values(run, rows, table)
    note_problems(run, [problem for problem in rows.disputed if problem not in noted_problems])


def note_misnamed_columns(run: CommandContext, fields: Sequence[MisnamedField], table: str) -> None:
    """Note columns that were null because data files contain them under their logical names.

    With column mapping, a data file has to use the physical name of a column. Some writers use the logical name.

    Args:
        run: The run of the command.
        fields: The columns and nested fields.
        table: The address of the table, for the suggested command.
    """
    from deltacli.delta.schema.misnamed_fields import MISNAMED

    for misnamed in fields:
        run.note(f"note: {MISNAMED}: a file {misnamed.description}; it is null in the rows of that file")
    if fields:
        run.note(f"to see which files: {command('validate', table=table, level='footers')}")


def _note_padded_columns(run: CommandContext, rows: ArrowRows) -> None:
    """Note columns of type `char(n)`: Spark shows and compares them with trailing blanks that files do not contain."""
    from deltacli.delta.schema.types import declared_type, is_padded

    padded_columns = [column for column in rows.read_spec.columns if is_padded(column)]
    if padded_columns:
        names = ", ".join(f"{column.name} ({declared_type(column) or 'char'})" for column in padded_columns)
        run.note(f"note: Spark pads char(n) with blanks; values are shown and compared as files store them: {names}")


def _note_partition_values(run: CommandContext, rows: ArrowRows, table: str) -> None:
    """Note partition columns whose values in the log are empty texts, or whose names differ in letter case."""
    for column in rows.empty_texts:
        run.note(f"note: partition column {column} is an empty text in the log, which is null; Spark returns the text")
    for column in rows.respelled_keys:
        run.note(f"note: {KEY_IN_OTHER_CASE}: {DECISIONS[KEY_IN_OTHER_CASE]}: {column}")

    rule_patterns: list[str] = []
    if rows.empty_texts:
        rule_patterns.append("partition.empty-*")
    if rows.respelled_keys:
        rule_patterns.append(KEY_IN_OTHER_CASE)
    if rule_patterns:
        run.note(f"to see which files: {command('validate', table=table, select=rule_patterns)}")


def write_directory(
    run: CommandContext,
    table: str,
    content: str,
    versions: Mapping[str, int],
    write: Callable[[str], WrittenDirectory],
    limit: int,
) -> None:
    """Write rows as Parquet files to the directory of `--output`, and show the files.

    Args:
        run: The run of the command. Its `directory` is not None.
        table: The address of the table.
        content: The kind of the rows, such as `rows` or `changes`.
        versions: The versions for the document, by the name of the field.
        write: Writes the rows to a directory.
        limit: The maximum number of rows. 0: all rows.
    """
    from deltacli.cli.render.data.rows import DirectoryResult

    assert run.directory is not None
    written = write(run.directory)
    invocation.outputs = *invocation.outputs, (mask_secrets(run.directory), lambda: True)
    run.write(DirectoryResult(table, content, versions, written))
    if written.was_cut:
        run.note(f"wrote the first {limit:,} rows; to write all: {repeat_command_without_limit(invocation.arguments)}")


def note_omitted_content(run: CommandContext, written: Written, limit: int) -> None:
    """Note what the result lacks: columns and values for which the screen was too narrow, and rows above the limit.

    Args:
        run: The run of the command.
        written: What was written and what was omitted.
        limit: The maximum number of rows.
    """
    if written.left_out or written.cuts_values:
        show_all = repeat_command_with(invocation.arguments, "--format", "ndjson")
        if written.left_out:
            columns = summarize_names(list(written.left_out), _MAX_NAMES)
            cut_values = ", and values are cut" if written.cuts_values else ""
            run.note(f"no room for {columns}{cut_values}; select columns with --columns, or show all: {show_all}")
        else:
            run.note(f"values are cut; to show them whole: {show_all}")
    if written.was_cut:
        # On a screen the table ends with the number of rows, so the note need not repeat it.
        count = "" if run.is_on_screen else f"showing the first {limit:,}; "
        run.note(f"{count}to show all: {repeat_command_without_limit(invocation.arguments)}")


def note_omitted_rows(run: CommandContext, rows: int, limit: int) -> None:
    """Note how many rows a limit omits. A limit of 0 omits none, and formats of findings ignore limits."""
    if limit and rows > limit and run.format.content is not Content.FINDINGS:
        show_all = repeat_command_without_limit(invocation.arguments)
        run.note(f"showing {limit:,} of {rows:,} rows; to show all: {show_all}")


def note_omitted_items(
    run: CommandContext,
    result: FleetListing[Any],  # Any: a listing of rows of any type
    *,
    can_repeat: bool = True,
) -> None:
    """Note what a limit omits from a listing: tables on a screen, rows in a table, items in a document.

    Args:
        run: The run of the command.
        result: The listing, after it was written.
        can_repeat: Whether the same command shows the same listing again. A command that changes tables does not.
    """
    if result.drawn_screen is None:
        # Nothing was drawn, so the result was a document or CSV.
        rows = result.items if run.format.errors_are_json else result.rows
        note_omitted_rows(run, len(rows), result.most)
        return

    omitted, purpose = result.left_out()
    if omitted or (purpose and can_repeat):
        suggestion = f"{purpose}: {repeat_command_without_limit(invocation.arguments)}"
        run.note(f"{omitted}; {suggestion}" if omitted else suggestion)
