"""What differs between two versions, or two tables, as a result: sections as text, and rows of files or keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from deltacli.cli.output.grids import Grid, WriteItems, encode_line, make_batch_grid
from deltacli.cli.output.results import Document, Result
from deltacli.cli.output.sections import NOT_THE_NEWEST, Section
from deltacli.cli.output.surface import Labelled
from deltacli.cli.output.text_tables import make_surface
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import count_cells
from deltacli.core.documents import dumps, envelope
from deltacli.core.times import format_moment
from deltacli.core.typing import Json
from deltacli.core.units import format_count, format_size, plural
from deltacli.operations.diff import Changed, RowDiff, TableDiff
from deltacli.operations.schemas.described import shown
from deltacli.paimon.schema_changes import Change, ChangeKind

if TYPE_CHECKING:
    from deltacli.changing.file_totals import FileTotals
    from deltacli.table.version import Snapshot

FIXED = ("change", "rowsFrom", "rowsTo", "columns")
_COLUMNS = ("path", "change", "kind", "sizeBytes")
_SIGNS = {ChangeKind.ADD_COLUMN: "+", ChangeKind.DROP_COLUMN: "-"}


@dataclass(eq=False, repr=False)
class Compared(Result):
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
