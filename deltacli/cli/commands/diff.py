"""`deltacli diff TABLE V1 V2` and `deltacli diff A B`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, BinaryIO, NamedTuple

import typer

from deltacli.cli.command_classes import ClusterCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit, invocation
from deltacli.cli.options.moments import corrected_timestamp, parse_timestamp
from deltacli.cli.options.tables import TableArgument
from deltacli.cli.options.values import join_names, make_text_parser
from deltacli.cli.output.grids import Grid, WriteItems, encode_line, make_batch_grid
from deltacli.cli.output.results import Document, Result
from deltacli.cli.output.sections import NOT_THE_NEWEST, Section
from deltacli.cli.output.surface import Labelled
from deltacli.cli.output.text_tables import make_surface
from deltacli.cli.running.run import CommandContext, note_catalog, note_disputed, note_misnamed_columns
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import count_cells
from deltacli.cli.terminal.suggested_commands import repeat_command, repeat_command_with, repeat_command_with_flags
from deltacli.core.documents import dumps, envelope
from deltacli.core.errors import EXIT_FINDINGS, PaimonTable, UsageError, command, quote_table
from deltacli.core.times import format_moment
from deltacli.core.typing import Json
from deltacli.core.units import format_count, format_size, plural
from deltacli.delta.schema.types import PrimitiveType
from deltacli.operations.diff import Changed, DiffRequest, RowDiff, TableDiff, diff_tables
from deltacli.operations.schemas.described import shown
from deltacli.paimon.schema_changes import Change, ChangeKind
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_errors import attribute_errors_to

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.changing.file_totals import FileTotals
    from deltacli.table.version import Snapshot

app = typer.Typer(add_completion=False)

# -- what differs between two versions as text -------------------------------------------------------------------------

FIXED = ("change", "rowsFrom", "rowsTo", "columns")
_COLUMNS = ("path", "change", "kind", "sizeBytes")
_SIGNS = {ChangeKind.ADD_COLUMN: "+", ChangeKind.DROP_COLUMN: "-"}


@dataclass(eq=False, repr=False)
class _Compared(Result):
    """Its rows may be millions; they are read, and counted, once where they alone are written."""

    found: TableDiff

    def document(self) -> Document:
        return Document(envelope("deltacli.diff", self._uri, complete=self.found.gap is None) | self.found.as_json())

    def lines(self, write_items: WriteItems) -> bool:
        write_items(encode_line({"table": self._uri, **self.found.as_json()}, "diff"))
        return self.found.gap is None

    def grid(self) -> Grid:
        if (rows := self.found.rows) is not None:
            return make_batch_grid([*FIXED, *rows.key], rows.changes())
        return make_batch_grid(_COLUMNS, (batch.select(list(_COLUMNS)) for batch in self.found.file_rows()))

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        return [section for section in diff_sections(self.found) if section.lines]

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        said = self.sections(terminal)
        canvas = make_surface(sink, terminal)
        rows: list[Labelled] = []
        room = canvas.width - max((count_cells(section.label) for section in said), default=0) - 2
        for section in said:
            for number, line in enumerate(section.lines):
                style = _STYLES.get(line[:1], section.style) if line[1:2] == " " else section.style
                rows.append(("" if number else section.label, canvas.text(line, style, room=room)))
        canvas.draw_parts(rows)

    @property
    def _uri(self) -> str:
        return self.found.before.table.uri


def diff_sections(found: TableDiff) -> Iterator[Section]:
    """Yield the sections of a comparison that have lines; a line of a change begins with `+`, `-` or `~`."""
    is_one = found.before.table.uri == found.after.table.uri
    if is_one:
        yield Section("table", [found.before.table.uri])
    yield Section("from", [_point(found.before, named=not is_one)])
    yield Section("to", [_point(found.after, named=not is_one)])
    if found.gap is not None:
        yield Section("incomplete", [NOT_THE_NEWEST], Style.CHANGED)
    if found.is_equal:
        yield Section("differs", ["nothing"])
    yield Section("schema", list(_schema(found)))
    yield Section("partitions", [] if found.partitioning is None else list(_partitions(found.partitioning)))
    yield Section("properties", [_line(one) for one in found.properties])
    yield Section("protocol", [_protocol_line(one) for one in found.protocol])
    yield Section("domains", [_line(one) for one in found.domains])
    yield Section("metadata", [_line(one) for one in found.metadata])
    yield Section("files", list(_files(found)))
    before, after = found.files.totals
    if before.size_bytes != after.size_bytes:
        change = after.size_bytes - before.size_bytes
        signed = f"{'+' if change > 0 else '-'}{format_size(abs(change))}"
        yield Section("size", [f"{format_size(before.size_bytes)} -> {format_size(after.size_bytes)} ({signed})"])
    yield Section("rows", list(_rows(before, after)))
    if found.rows is not None:
        yield Section(f"by {', '.join(found.rows.key)}", list(_by_key(found.rows)))


def _point(side: Snapshot, *, named: bool) -> str:
    table = f"{side.table.uri}, " if named else ""
    committed = "" if side.time is None else f", committed {format_moment(side.time.timestamp_ms)} UTC"
    return f"{table}version {side.version}{committed}"


def _schema(found: TableDiff) -> Iterator[str]:
    yield from map(_change, found.column_changes)


def _change(change: Change) -> str:
    sign = _SIGNS.get(change.kind)
    return f"~ {shown(change)}" if sign is None else f"{sign} {shown(change).partition(' ')[2]}"


def _partitions(change: Changed) -> Iterator[str]:
    old, new = (", ".join(columns) if isinstance(columns, list) else "" for columns in (change.before, change.after))
    yield f"~ {old or 'none'} -> {new or 'none'}"


def _line(change: Changed) -> str:
    if change.before is None:
        return f"+ {change.name} = {_value(change.after)}"
    if change.after is None:
        return f"- {change.name} = {_value(change.before)}"
    return f"~ {change.name}: {_value(change.before)} -> {_value(change.after)}"


def _protocol_line(change: Changed) -> str:
    if isinstance(change.after, bool):
        return f"{'+' if change.after else '-'} {change.name}"
    return _line(change)


def _value(value: Json) -> str:
    if value is None:
        return "(not set)"
    return value if isinstance(value, str) else dumps(value).decode()


def _files(found: TableDiff) -> Iterator[str]:
    for sign, what, amount in (
        ("+", "added", found.files.added),
        ("-", "removed", found.files.removed),
        ("~", "with another deletion vector", found.files.revectored.after),
    ):
        if amount.files:
            yield f"{sign} {_amount(amount, what)}"
    before, after = found.files.totals
    if before.files != after.files:
        yield f"{format_count(before.files)} -> {format_count(after.files)}"


def _amount(amount: FileTotals, what: str) -> str:
    rows = "unknown rows" if amount.rows is None else plural(amount.rows, "row")
    return f"{plural(amount.files, 'file')} {what}, {format_size(amount.size_bytes)}, {rows}"


def _rows(before: FileTotals, after: FileTotals) -> Sequence[str]:
    if before.rows is None or after.rows is None:
        return ["unknown: files without a record count"]
    if before.rows == after.rows:
        return []
    change = after.rows - before.rows
    sign = "+" if change > 0 else "-"
    return [f"{format_count(before.rows)} -> {format_count(after.rows)} ({sign}{format_count(abs(change))})"]


def _by_key(rows: RowDiff) -> Iterator[str]:
    counts = rows.counts
    for sign, what, count in (("+", "added", counts.added), ("-", "removed", counts.removed)):
        if count:
            yield f"{sign} {plural(count, 'key')} {what}"
    if counts.changed:
        names = ", ".join(f"{name} in {format_count(count)}" for name, count in counts.columns.most_common() if count)
        yield f"~ {plural(counts.changed, 'key')} with other values{f': {names}' if names else ''}"
    yield f"{plural(counts.unchanged, 'key')} with the same values"
    if counts.repeated:
        yield f"{plural(counts.repeated, 'key')} in more than one row of a version"
    if rows.not_compared:
        yield f"not compared: {', '.join(rows.not_compared)}"


_STYLES = {"+": Style.ADDED, "-": Style.REMOVED, "~": Style.CHANGED}


# -- `deltacli diff TABLE V1 V2` and `deltacli diff A B` ---------------------------------------------------------------


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
    opened_other = None if other is None else _opened_other(run, other)
    try:
        request = DiffRequest(
            from_version=begin_point.version,
            from_timestamp_ms=begin_point.timestamp_ms,
            to_version=end_point.version,
            to_timestamp_ms=end_point.timestamp_ms,
            other=opened_other,
            rows=rows,
            key=join_names(key, "--key"),
            temp_dir=temp_dir,
        )
        found = diff_tables(opened, request)
    except PaimonTable as fault:
        if other is not None:
            fault.hint = command("schema diff", other, table=table)
        raise
    run.write(_Compared(found))
    note_disputed(run, found.before, found.after)
    if found.rows is not None:
        note_misnamed_columns(run, found.rows.misnamed, opened.address)
    if other is not None:
        note_catalog(run, found.before, found.after)
    if found.gap is not None:
        raise found.gap
    if not found.is_equal:
        if (following := _next(found, table, is_of_two=other is not None)) is not None:
            run.say_next(following)
        raise Exit(EXIT_FINDINGS)


def _opened_other(run: CommandContext, other: str) -> Table:
    name = mask_secrets(other)
    with attribute_errors_to(name):
        return run.table_of(run.open(other), name)


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
