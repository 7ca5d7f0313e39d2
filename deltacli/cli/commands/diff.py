"""`deltacli diff TABLE V1 V2` and `deltacli diff A B`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from deltacli.cli.invocation import invocation
from deltacli.cli.options.common_options import TableArgument, argument
from deltacli.cli.options.moments import corrected_timestamp, parse_timestamp
from deltacli.cli.options.request_options import Asked
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.shell import again, again_with, again_with_flags
from deltacli.core.errors import EXIT_FINDINGS, PaimonTable, UsageError
from deltacli.core.hints import command, quoted_table
from deltacli.core.request_fields import Option
from deltacli.operations.diff.request import DiffRequest
from deltacli.storage.secrets import without_secrets
from deltacli.table.api_arguments import errors_about

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.operations.diff.tables import TableDiff

EXIT_CODES = (0, 1, 2, 3, 4, 7, 70)
RUNS_ON_CLUSTER = True

First = Annotated[str, argument("Version to compare, or another table.", "V1|OTHER")]
Second = Annotated[str | None, argument("Version to compare it with.  [default: the newest]", "V2")]
From = Annotated[str | None, Option("Version of TABLE, with OTHER.  [default: the newest]", "V", spelled="--from")]
To = Annotated[str | None, Option("Version of OTHER.  [default: the newest]", "V", spelled="--to")]


class Point(NamedTuple):
    """A version, or a time at which it was the newest one; neither: the newest version of all."""

    version: int | None = None
    timestamp_ms: int | None = None


def diff(
    run: Run,
    table: TableArgument,
    first: First,
    second: Second = None,
    *,
    begin: From = None,
    end: To = None,
    asked: Asked[DiffRequest],
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
    from deltacli.cli.render.versions.diff import diff_result
    from deltacli.operations.diff.tables import diff_tables

    points, other = _chosen(first, second, begin, end)
    opened = run.open_table(table)
    _require_key(opened, asked.values)
    compared = _of_points(points) | {"other": None if other is None else _opened_other(run, other)}
    try:
        found = diff_tables(opened, Asked(DiffRequest, {**asked.values, **compared}).request())
    except PaimonTable as fault:
        if other is not None:
            fault.hint = command("schema diff", other, table=table)
        raise
    run.write(diff_result(found))
    if found.gap is not None:
        raise found.gap
    if not found.is_equal:
        if (following := _next(found, table, is_of_two=other is not None)) is not None:
            run.say_next(following)
        raise typer.Exit(EXIT_FINDINGS)


def _opened_other(run: Run, other: str) -> Table:
    """Open the second table, which errors about it name."""
    name = without_secrets(other)
    with errors_about(name):
        return run.table_of(run.open(other), name)


def _of_points(points: tuple[Point, Point]) -> dict[str, Any]:  # Any: values of options
    first, last = points
    return {
        "from_version": first.version,
        "from_timestamp_ms": first.timestamp_ms,
        "to_version": last.version,
        "to_timestamp_ms": last.timestamp_ms,
    }


def _next(found: TableDiff, table: str, *, is_of_two: bool) -> str | None:
    """Return the command that shows the rows that differ, or the commits between the versions."""
    if is_of_two:
        return None if found.rows else again_with_flags(invocation.arguments, ["--rows", "--key", "COLUMN"])
    first, last = sorted((found.before.version, found.after.version))
    return f"deltacli changes {quoted_table(table)} --from {first + 1} --to {last}"


def _chosen(
    first: str, second: str | None, begin: str | None, end: str | None
) -> tuple[tuple[Point, Point], str | None]:
    """Return the two points, and the other table where there is one. Raises UsageError."""
    if second is None and (found := re.fullmatch(r"(\d+)\.{2,3}(\d*)", first)) and not os.path.lexists(first):
        words = list(invocation.arguments)
        words[words.index(first)] = found[1]
        raise _no_version("V1", first, again([*words, found[2]] if found[2] else words))
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
    return again([*words])


def _of_other(version: str, option: str, word: str) -> str | None:
    """Return the command line with a version as that of one of two tables; None unless a word looks like a table."""
    if not (os.path.isdir(word) or "://" in word or "#" in word):
        return None
    words = list(invocation.arguments)
    words.remove(version)
    return again_with(words, option, version)


def _require_key(table: Table, values: Mapping[str, Any]) -> None:
    """Raise UsageError for rows without a key, with a column that may be one."""
    if values.get("key") and not values.get("rows"):
        raise UsageError("--key is for --rows", hint=again_with_flags(invocation.arguments, ["--rows"]))
    if values.get("rows") and not values.get("key"):
        from deltacli.delta.schema.types import PrimitiveType

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
            hint=again_with(invocation.arguments, "--key", names[0]) if names else command("snapshot"),
        )
