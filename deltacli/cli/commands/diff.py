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
from deltacli.delta.schema.types import PrimitiveType
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_errors import attribute_errors_to

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.operations.diff import TableDiff

app = typer.Typer(add_completion=False)


class Point(NamedTuple):
    """A version, or a time at which it was the newest one; neither: the newest version of all."""

    version: int | None = None
    timestamp_ms: int | None = None


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
    points, other = _chosen(first, second, begin, end)
    opened = run.open_table(table)
    _require_key(opened, rows=rows, key=key)
    begin_point, end_point = points
    opened_other = None if other is None else _open_other_table(run, other)
    try:
        found = opened.diff(
            from_version=begin_point.version,
            from_timestamp_ms=begin_point.timestamp_ms,
            to_version=end_point.version,
            to_timestamp_ms=end_point.timestamp_ms,
            other=opened_other,
            rows=rows,
            key=join_names(key, "--key"),
            temp_dir=temp_dir,
        )
    except PaimonTable as error:
        if other is not None:
            error.hint = command("schema diff", other, table=table)
        raise
    run.write(Compared(found))
    note_disputed_damages(run, found.before, found.after)
    if found.rows is not None:
        note_misnamed_columns(run, found.rows.misnamed, opened.address)
    if other is not None:
        note_unpublished_versions(run, found.before, found.after)
    if found.gap is not None:
        raise found.gap
    if not found.is_equal:
        following = _next(found, table, is_of_two=other is not None)
        if following is not None:
            run.suggest_command(following)
        raise Exit(EXIT_FINDINGS)


def _open_other_table(run: CommandContext, other: str) -> Table:
    name = mask_secrets(other)
    with attribute_errors_to(name):
        return run.make_table(run.open(other), name)


def _next(found: TableDiff, table: str, *, is_of_two: bool) -> str | None:
    """Return the command that shows the rows that differ, or the commits between the versions."""
    if is_of_two:
        return None if found.rows else repeat_command_with_flags(invocation.arguments, ["--rows", "--key", "COLUMN"])
    first, last = sorted((found.before.version, found.after.version))
    return f"deltacli changes {quote_table(table)} --from {first + 1} --to {last}"


def _chosen(
    first: str, second: str | None, begin: str | None, end: str | None
) -> tuple[tuple[Point, Point], str | None]:
    """Return the two points, and the other table where there is one. Raises UsageError."""
    if second is None and (found := re.fullmatch(r"(\d+)\.{2,3}(\d*)", first)) and not os.path.lexists(first):
        words = list(invocation.arguments)
        words[words.index(first)] = found[1]
        raise _no_version("V1", first, repeat_command([*words, found[2]] if found[2] else words))
    if (old := _read("V1", first)) is not None:
        if begin is not None or end is not None:
            raise UsageError(
                "--from and --to are versions of two tables", facts={"expected": "TABLE OTHER, or TABLE V1 V2"}
            )
        new = Point() if second is None else _read("V2", second)
        if new is None:
            raise _no_version("V2", str(second), _of_other(first, "--from", str(second)))
        return (old, new), None
    if second is not None:
        raise _no_version("V1", first, None if _read("V2", second) is None else _of_other(second, "--to", first))
    return (_of_option("--from", begin), _of_option("--to", end)), first


def _of_option(option: str, text: str | None) -> Point:
    found = Point() if text is None else _read(option, text.removeprefix("version:"))
    if found is None:
        raise _no_version(option, str(text))
    return found


def _read(name: str, text: str) -> Point | None:
    """Return the point that a word names; None for a word that is a table. Raises UsageError for an invalid time."""
    if text.isascii() and text.isdigit():
        if len(text) > 19 or int(text) >= 1 << 63:
            raise _no_version(name, text)
        return Point(int(text))
    if re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ]|$)", text):
        try:
            return Point(None, parse_timestamp(text))
        except UsageError as fault:
            said = f"{name}: {fault.message}"
            raise UsageError(said, code=fault.code, facts=fault.facts, hint=_corrected(text)) from None
    return None


def _no_version(name: str, text: str, hint: str | None = None) -> UsageError:
    return UsageError(
        f"{name} {text!r} is not a version",
        code="usage.version",
        facts={"expected": "a number, a time such as 2026-01-09T08:12:44Z, or a date"},
        hint=hint or _corrected(text) or command("history"),
    )


def _corrected(text: str) -> str | None:
    """Return the command line with the time that was meant; None for a text that is not nearly one."""
    meant = corrected_timestamp(text)
    if meant is None:
        return None
    words = (meant if word == text else word.replace(f"={text}", f"={meant}") for word in invocation.arguments)
    return repeat_command([*words])


def _of_other(version: str, option: str, word: str) -> str | None:
    """Return the command line with a version as that of one of two tables; None unless a word looks like a table."""
    if not (os.path.isdir(word) or "://" in word or "#" in word):
        return None
    words = list(invocation.arguments)
    words.remove(version)
    return repeat_command_with(words, option, version)


def _require_key(table: Table, *, rows: bool, key: Sequence[str] | None) -> None:
    if key and not rows:
        raise UsageError("--key is for --rows", hint=repeat_command_with_flags(invocation.arguments, ["--rows"]))
    if rows and not key:
        schema = table.snapshot().schema
        columns = [] if schema is None else sorted(schema.fields, key=lambda column: column.nullable)
        names = [
            column.name
            for column in columns
            if isinstance(column.data_type, PrimitiveType) and re.fullmatch(r"\w+", column.name)
        ]
        raise UsageError(
            "--rows compares rows by a key: name the columns that identify a row with --key",
            facts={"columns": ", ".join(names)} if names else None,
            hint=repeat_command_with(invocation.arguments, "--key", names[0]) if names else command("snapshot"),
        )
