"""`deltacli diff TABLE V1 V2` and `deltacli diff A B`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from deltacli.cli.command_classes import ClusterCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit, invocation
from deltacli.cli.options.moments import corrected_timestamp, parse_timestamp
from deltacli.cli.options.tables import TableArgument
from deltacli.cli.options.values import join_names, make_text_parser
from deltacli.cli.render.diff import Compared
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.problem_notes import note_disputed_damages, note_unpublished_versions
from deltacli.cli.running.row_notes import note_misnamed_columns
from deltacli.cli.terminal.suggested_commands import repeat_command, repeat_command_with, repeat_command_with_flags
from deltacli.core.errors import EXIT_FINDINGS, PaimonTable, UsageError, command, quote_table
from deltacli.core.units import MAX_INT64
from deltacli.delta.schema.types import PrimitiveType
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_errors import attribute_errors_to

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.operations.diff import TableDiff

app = typer.Typer(add_completion=False)


class Point(NamedTuple):
    """A version of a table. Without any value: the newest version.

    Attributes:
        version: The number of the version.
        timestamp_ms: A time in epoch milliseconds. The version is the newest one at that time.
    """

    version: int | None = None
    timestamp_ms: int | None = None


class Sides(NamedTuple):
    """The two sides of a comparison: two versions of one table, or a version of each of two tables.

    Attributes:
        begin: The version on the left.
        end: The version on the right.
        other_table: The table on the right. None: the same table.
    """

    begin: Point
    end: Point
    other_table: str | None


_MAX_VERSION_DIGITS = 19
"""The number of digits of the largest version, which is a 64-bit integer."""


@app.command(
    "diff",
    cls=ClusterCommand,
    epilog=exit_codes(findings="the two versions or tables differ", unreadable=True, refused=True, storage=True),
)
def diff(
    context: typer.Context,
    table: TableArgument,
    first: Annotated[str, typer.Argument(metavar="V1|OTHER", help="Version to compare, or another table.")],
    second: Annotated[
        str | None, typer.Argument(metavar="V2", help="Version to compare it with.  [default: the newest]")
    ] = None,
    *,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="V", help="Version of TABLE, with OTHER.  [default: the newest]")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="V", help="Version of OTHER.  [default: the newest]")
    ] = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="Compare the rows as well, by the key; reads both versions.")
    ] = False,
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="A,B,…", help="Columns that identify a row.")
    ] = None,
    temp_dir: Annotated[
        str | None,
        typer.Option(
            "--temp-dir",
            metavar="DIR",
            parser=make_text_parser("--temp-dir"),
            help="Directory for temporary files of compared rows.  [default: that of the system]",
        ),
    ] = None,
) -> None:
    """Show what differs between two versions, or between two tables; exit 1 if something does.

    \b
    Compares schema, properties, protocol, partitioning, domains, and the live files
    with their bytes and rows. A version is a number, a time (RFC 3339 with offset:
    the newest version then) or a date (midnight UTC). Files are compared by path
    and deletion vector, not by content; CSV lists those that differ. A copy of a
    table, and a shallow clone, have the files of their origin. A table whose name
    is a number is written as ./3. With --rows the rows are compared as well, by
    the columns of --key: NaN equals NaN, 0.0 equals -0.0, and a null in a key
    equals a null. CSV then lists the keys that differ. --engine spark reads and
    compares the rows on executors.

    \b
    Examples:
      deltacli diff ./tbl 3 7
      deltacli diff ./tbl 3  # with the newest version
      deltacli diff ./tbl 2026-01-30 2026-01-31T12:00:00Z
      deltacli diff ./tbl ./copy
      deltacli diff ./tbl ./copy --from 3 --to 3
      deltacli diff ./tbl 3 7 --rows --key trip
      deltacli diff ./tbl 3 7 --format markdown  # for a pull request
      deltacli diff ./tbl 3 7 --format csv  # the files that differ
    """
    run: CommandContext = context.obj
    sides = _parse_sides(first, second, begin, end)
    delta_table = run.open_table(table)
    _require_key(delta_table, rows=rows, key=key)
    other_table = None if sides.other_table is None else _open_other_table(run, sides.other_table)
    try:
        table_diff = delta_table.diff(
            from_version=sides.begin.version,
            from_timestamp_ms=sides.begin.timestamp_ms,
            to_version=sides.end.version,
            to_timestamp_ms=sides.end.timestamp_ms,
            other=other_table,
            rows=rows,
            key=join_names(key, "--key"),
            temp_dir=temp_dir,
        )
    except PaimonTable as error:
        if sides.other_table is not None:
            error.hint = command("schema diff", sides.other_table, table=table)
        raise

    run.write(Compared(table_diff))
    note_disputed_damages(run, table_diff.before, table_diff.after)
    if table_diff.rows is not None:
        note_misnamed_columns(run, table_diff.rows.misnamed, delta_table.address)
    if other_table is not None:
        note_unpublished_versions(run, table_diff.before, table_diff.after)
    if table_diff.gap is not None:
        raise table_diff.gap
    if not table_diff.is_equal:
        next_command = _find_next_command(table_diff, table, has_two_tables=other_table is not None)
        if next_command is not None:
            run.suggest_command(next_command)
        raise Exit(EXIT_FINDINGS)


def _open_other_table(run: CommandContext, other_table: str) -> Table:
    name = mask_secrets(other_table)
    with attribute_errors_to(name):
        return run.make_table(run.open(other_table), name)


def _find_next_command(table_diff: TableDiff, table: str, *, has_two_tables: bool) -> str | None:
    """Return the command that shows the rows that differ between two tables, or the row changes between two versions.

    None if the rows of two tables have been compared.
    """
    if not has_two_tables:
        first_version, last_version = sorted((table_diff.before.version, table_diff.after.version))
        return f"deltacli changes {quote_table(table)} --from {first_version + 1} --to {last_version}"
    if table_diff.rows:
        return None
    return repeat_command_with_flags(invocation.arguments, ["--rows", "--key", "COLUMN"])


def _parse_sides(first: str, second: str | None, begin: str | None, end: str | None) -> Sides:
    """Parse what is compared: `TABLE V1 V2`, `TABLE V1`, or `TABLE OTHER --from V1 --to V2`.

    Args:
        first: The word after the table.
        second: The word after that.
        begin: The value of `--from`.
        end: The value of `--to`.

    Raises:
        UsageError: If a word is not a version, or the forms are mixed.
    """
    version_range = re.fullmatch(r"(\d+)\.{2,3}(\d*)", first)
    if second is None and version_range and not os.path.lexists(first):
        raise _make_range_error(first, version_range[1], version_range[2])

    first_point = _parse_point("V1", first)
    if first_point is None:
        # The first word is a table, so there must not be a second one.
        if second is not None:
            hint = None if _parse_point("V2", second) is None else _suggest_two_tables(second, "--to", first)
            raise _make_no_version_error("V1", first, hint)
        return Sides(_parse_option("--from", begin), _parse_option("--to", end), first)

    if begin is not None or end is not None:
        raise UsageError(
            "--from and --to are versions of two tables", facts={"expected": "TABLE OTHER, or TABLE V1 V2"}
        )
    second_point = Point() if second is None else _parse_point("V2", second)
    if second_point is None:
        raise _make_no_version_error("V2", str(second), _suggest_two_tables(first, "--from", str(second)))
    return Sides(first_point, second_point, None)


def _parse_option(option: str, text: str | None) -> Point:
    """Parse the value of `--from` or `--to`. Raises UsageError."""
    if text is None:
        return Point()
    point = _parse_point(option, text.removeprefix("version:"))
    if point is None:
        raise _make_no_version_error(option, text)
    return point


def _parse_point(name: str, text: str) -> Point | None:
    """Parse a version or a time. None if the text is neither, so that it may be a table.

    Args:
        name: The name of the argument or option, for errors.
        text: The text, such as `12`, `2026-01-09` or `2026-01-09T08:12:44Z`.

    Raises:
        UsageError: If the text looks like a version or a time, and is invalid.
    """
    if text.isascii() and text.isdigit():
        if len(text) > _MAX_VERSION_DIGITS or int(text) > MAX_INT64:
            raise _make_no_version_error(name, text)
        return Point(int(text))
    if not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ]|$)", text):
        return None
    try:
        return Point(None, parse_timestamp(text))
    except UsageError as error:
        raise UsageError(
            f"{name}: {error.message}", code=error.code, facts=error.facts, hint=_suggest_timestamp(text)
        ) from None


def _make_range_error(text: str, first_version: str, last_version: str) -> UsageError:
    """Return the error for `3..7`, which Git accepts. The hint has two versions instead."""
    words = list(invocation.arguments)
    words[words.index(text)] = first_version
    if last_version:
        words.append(last_version)
    return _make_no_version_error("V1", text, repeat_command(words))


def _make_no_version_error(name: str, text: str, hint: str | None = None) -> UsageError:
    return UsageError(
        f"{name} {text!r} is not a version",
        code="usage.version",
        facts={"expected": "a number, a time such as 2026-01-09T08:12:44Z, or a date"},
        hint=hint or _suggest_timestamp(text) or command("history"),
    )


def _suggest_timestamp(text: str) -> str | None:
    """Return the command line with a misspelled time corrected; None if the text is not similar to a time."""
    timestamp = corrected_timestamp(text)
    if timestamp is None:
        return None
    words = [timestamp if word == text else word.replace(f"={text}", f"={timestamp}") for word in invocation.arguments]
    return repeat_command(words)


def _suggest_two_tables(version: str, option: str, word: str) -> str | None:
    """Return the command line for two tables, with the version as an option; None if the word is not a table."""
    if not (os.path.isdir(word) or "://" in word or "#" in word):
        return None
    words = list(invocation.arguments)
    words.remove(version)
    return repeat_command_with(words, option, version)


def _require_key(table: Table, *, rows: bool, key: Sequence[str] | None) -> None:
    """Require that `--rows` and `--key` are used together. The error suggests a column of the table as the key."""
    if key and not rows:
        raise UsageError("--key is for --rows", hint=repeat_command_with_flags(invocation.arguments, ["--rows"]))
    if not rows or key:
        return

    # Columns that cannot be null come first: they are more likely to identify a row.
    schema = table.snapshot().schema
    columns = [] if schema is None else sorted(schema.fields, key=lambda column: column.nullable)
    key_candidates = [
        column.name
        for column in columns
        if isinstance(column.data_type, PrimitiveType) and re.fullmatch(r"\w+", column.name)
    ]
    message = "--rows compares rows by a key: name the columns that identify a row with --key"
    if not key_candidates:
        raise UsageError(message, hint=command("snapshot"))
    raise UsageError(
        message,
        facts={"columns": ", ".join(key_candidates)},
        hint=repeat_command_with(invocation.arguments, "--key", key_candidates[0]),
    )
