"""`deltacli log cat TABLE VERSION`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import TextCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.moments import chosen_version, parse_moment_of
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
    parse_moment_of(None, timestamp)
    opened = run.open_table(table)
    if version is None:
        version = chosen_version(opened, version, timestamp)
    assert version is not None
    found_actions = opened.read_actions(version, checkpoint=checkpoint, kinds=actions)
    unknown_kinds = ", ".join(found_actions.unknown_kinds)
    if unknown_kinds:
        run.note(f"note: {unknown_kinds}: not an action that deltacli recognizes; written if the log contains it")
    with run.open_result(content=JSON) as sink:
        write = (lambda block: sink.write(_indented(block))) if pretty else sink.write
        summary = found_actions.write_to(write)
    _say_what_was_left_out(run, summary)


def _indented(block: bytes) -> bytes:
    """Return lines of JSON over several lines each, with names and values as they are written; others unchanged."""
    return b"".join(map(_indented_line, block.splitlines(keepends=True)))


def _indented_line(line: bytes) -> bytes:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return line
    out, depth, before = bytearray(), 0, b""
    for token in re.findall(rb'"(?:[^"\\]|\\.)*"|[][{},:]|[^][{},:\s"]+|"', line):
        if token in (b"}", b"]"):
            depth -= 1
        is_empty = token in (b"}", b"]") and before in (b"{", b"[")
        if not is_empty and (before in (b"{", b"[", b",") or token in (b"}", b"]")):
            out += b"\n" + b"  " * depth
        out += b" " + token if before == b":" else token
        if token in (b"{", b"["):
            depth += 1
        before = token
    return bytes(out) + b"\n"


def _say_what_was_left_out(run: CommandContext, told: CatSummary) -> None:
    if told.is_checkpoint and not told.was_asked_for:
        run.note(f"note: version {told.version} has no commit file; these are the actions of its checkpoint")
    if told.is_empty:
        run.note("note: the commit file is empty, which indicates an interrupted write")
    if told.unjudged:
        run.note(f"note: {plural(told.unjudged, 'line')} could not be parsed and {_were(told.unjudged)} left out")


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
