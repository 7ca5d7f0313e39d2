"""`deltacli log cat TABLE VERSION`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import TextCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.moments import find_chosen_version, parse_timestamp_option
from deltacli.cli.options.tables import TableArgument, TimestampOption
from deltacli.cli.options.values import parse_whole_number
from deltacli.cli.output.formats import JSON
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import UsageError
from deltacli.core.units import plural

if TYPE_CHECKING:
    from deltacli.operations.read.log_cat import CatSummary

app = typer.Typer(add_completion=False)


@app.command("cat", cls=TextCommand, epilog=exit_codes(unreadable=True, storage=True))
def log_cat(
    context: typer.Context,
    table: TableArgument,
    version: Annotated[
        int | None,
        typer.Argument(metavar="VERSION", parser=parse_whole_number, help="Version whose actions are written."),
    ] = None,
    *,
    timestamp: TimestampOption = None,
    actions: Annotated[
        str | None, typer.Option("--actions", metavar="A,B,…", help="Only actions of these kinds.")
    ] = None,
    checkpoint: Annotated[
        bool, typer.Option("--checkpoint", help="Write the actions of the checkpoint even if there is a commit.")
    ] = False,
    pretty: Annotated[bool, typer.Option("--pretty", help="Indent the JSON of each action, for reading.")] = False,
) -> None:
    """Write the raw actions of a version, one per line.

    \b
    JSON in the log is written byte for byte. Rows of a Parquet checkpoint become
    one action per line, without fields that are null; its sidecars follow. Where
    a version has no commit file, its checkpoint is used. Works on tables that
    cannot be opened. The lines have no "type" and no end line follows; this
    command ignores DELTACLI_FORMAT.

    \b
    Examples:
      deltacli log cat ./tbl 12
      deltacli log cat ./tbl 12 --pretty
      deltacli log cat ./tbl 12 --actions add | jq -r .add.path
      deltacli log cat ./tbl 10 --checkpoint --actions metaData,protocol
      deltacli log cat ./tbl --timestamp 2026-01-09
      deltacli log cat s3://lake/events 40 --output 40.json
    """
    run: CommandContext = context.obj
    if (version is None) == (timestamp is None):
        raise UsageError("pass VERSION or --timestamp", code="usage.version", hint="deltacli log cat --help")
    if version is not None and version < 0:
        raise UsageError(f"version {version} is negative")
    # Report an invalid timestamp before the table is opened.
    parse_timestamp_option(None, timestamp)

    delta_table = run.open_table(table)
    if version is None:
        version = find_chosen_version(delta_table, version, timestamp)
    assert version is not None
    raw_actions = delta_table.read_actions(version, checkpoint=checkpoint, kinds=actions)
    unknown_kinds = ", ".join(raw_actions.unknown_kinds)
    if unknown_kinds:
        run.note(f"note: {unknown_kinds}: not an action that deltacli recognizes; written if the log contains it")

    with run.open_result(content=JSON) as sink:
        if pretty:
            summary = raw_actions.write_to(lambda lines: sink.write(_indent_lines(lines)))
        else:
            summary = raw_actions.write_to(sink.write)
    _note_omitted_actions(run, summary)


def _note_omitted_actions(run: CommandContext, summary: CatSummary) -> None:
    """Note that the actions come from a checkpoint, or that lines of the commit were omitted."""
    if summary.is_checkpoint and not summary.was_asked_for:
        run.note(f"note: version {summary.version} has no commit file; these are the actions of its checkpoint")
    if summary.is_empty:
        run.note("note: the commit file is empty, which indicates an interrupted write")
    if summary.unjudged:
        verb = "was" if summary.unjudged == 1 else "were"
        run.note(f"note: {plural(summary.unjudged, 'line')} could not be parsed and {verb} left out")


_JSON_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[][{},:]|[^][{},:\s"]+|"')
"""A string, a bracket, a comma or colon, or a number or literal. A single quote is part of a broken string."""


def _indent_lines(lines: bytes) -> bytes:
    """Return lines of JSON indented. Lines that are not JSON stay as they are.

    Names and values keep their spelling in the log, such as `1.0e3` and `"\\u00e4"`. Parsing and formatting the JSON
    again would change them.
    """
    return b"".join(_indent_line(line) for line in lines.splitlines(keepends=True))


def _indent_line(line: bytes) -> bytes:
    """Return a line of JSON with one name or value per line, indented by two spaces per level.

    {"add":{"size":1.0e3,"tags":{}}}  ->  {
                                            "add": {
                                              "size": 1.0e3,
                                              "tags": {}
                                            }
                                          }
    """
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return line

    indented = bytearray()
    depth = 0
    previous = b""
    for token in _JSON_TOKEN.findall(line):
        is_opening = token in (b"{", b"[")
        is_closing = token in (b"}", b"]")
        if is_closing:
            depth -= 1

        # A new line begins after each opening bracket and comma, and before each closing bracket. `{}` stays together.
        is_empty_container = is_closing and previous in (b"{", b"[")
        begins_line = is_closing or previous in (b"{", b"[", b",")
        if begins_line and not is_empty_container:
            indented += b"\n" + b"  " * depth
        if previous == b":":
            indented += b" "
        indented += token

        if is_opening:
            depth += 1
        previous = token
    return bytes(indented) + b"\n"
