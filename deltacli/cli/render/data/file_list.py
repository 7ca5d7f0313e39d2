"""Lists of live files and tombstones, millions long: streamed in every format, a column at a time, never held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.cli.output.columns import Column, choose_names
from deltacli.cli.output.grids import (
    BatchGrid,
    EncodedItems,
    Grid,
    RowEncoder,
    WriteItems,
    encode_line,
    encode_texts,
    make_batch_grid,
)
from deltacli.cli.output.results import Document, Result
from deltacli.cli.output.sections import Section, format_file_totals
from deltacli.cli.output.text_tables import write_complete_table, write_sections, write_text_table
from deltacli.cli.render.data.rows import (
    ROWS_PER_SCREEN,
    FramedResult,
    Written,
    cut,
    json_blocks,
    size_texts,
    texts_of,
    timestamp_texts,
    write_aligned,
)
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.core.documents import envelope
from deltacli.core.times import format_moment, format_timestamp
from deltacli.core.typing import Json, RecordBatch
from deltacli.core.units import format_count, format_size, plural
from deltacli.delta.encoding.value_text import json_lines

if TYPE_CHECKING:
    from rich.text import Text

    from deltacli.cli.render.terminal.console import Canvas
    from deltacli.table.scan import Scan
    from deltacli.table.version import Snapshot
    from deltacli.work.outputs.action_outputs import ActionColumns

_LARGEST = "largest size of those shown"
_PATH_CELLS = 56
"""Of a path before other columns than its size are shown: whole paths are worth more than the times."""

Encode = Callable[[str, Any], EncodedItems]
"""The kind of action and a batch in, their rows as bytes out."""


@dataclass(frozen=True, slots=True)
class FileListing:
    """What is listed: kinds (`add`, `remove`), and the fields asked for (None: all)."""

    kinds: tuple[str, ...]
    columns: tuple[str, ...] | None

    @property
    def shape(self) -> ActionColumns:
        from deltacli.work.outputs.action_outputs import ActionColumns

        return ActionColumns(self.kinds, self.columns)

    @classmethod
    def choose(cls, columns: str | None, *, files: bool, tombstones: bool) -> FileListing:
        """Return the listing the options ask for. Raises UsageError for a column that no listed action has."""
        kinds = (*(("add",) if files else ()), *(("remove",) if tombstones else ()))
        if columns is None:
            return cls(kinds, None)
        from deltacli.work.outputs.action_outputs import list_action_fields

        return cls(kinds, tuple(choose_names(columns, list(list_action_fields(kinds)))))


class FilesResult(Result):
    """The files of a snapshot, `limit` of them (0: all)."""

    has_requested_rows = True

    def __init__(self, snapshot: Snapshot, listing: FileListing, limit: int) -> None:
        self._snapshot, self._listing, self._limit = snapshot, listing, limit
        self._cutter = _Cutter(limit)

    @property
    def was_cut(self) -> bool:
        return self._cutter.was_cut

    def document(self) -> Document:
        fields = envelope("deltacli.files", self._snapshot.table.uri, complete=True)
        fields["version"] = self._snapshot.version
        if self._listing.columns is not None:
            fields["columns"] = list(self._listing.columns)
        return Document(fields, self._blocks(partial(_json_block, end="},\n")), self._end)

    def lines(self, write_items: WriteItems) -> bool:
        for block in self._blocks(partial(_json_block, end="}\n")):
            write_items(block)
        return not self.was_cut

    def grid(self) -> Grid:
        listing = self._listing
        names = listing.shape.names
        return BatchGrid(names, lambda form: self._blocks(partial(_grid_block, form, names)))

    def read_batches(self) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
        shape = self._listing.shape
        return shape.schema(), (shape.of(kind, batch) for kind, batch in self._batches())

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Write rows for a terminal, or in columns into a pipe."""
        columns = _screen_columns(self._listing)
        if not terminal.is_drawn:
            columns = [column for column in columns if column.draw_bar is None]
            texts = (texts_of(columns, _shown(columns, kind, batch)) for kind, batch in self._batches())
            write_aligned(sink, columns, texts, keep_empty=False)
        else:
            _write_screens(sink, terminal, columns, self._batches())

    def _batches(self) -> Iterator[tuple[str, RecordBatch]]:
        return self._cutter.cut(_batches(self._snapshot, self._listing))

    def _blocks(self, encode: Encode) -> Iterator[EncodedItems]:
        return _blocks(self._snapshot, self._listing, self._batches() if self._limit else None, encode)

    def _end(self) -> dict[str, Json]:
        return {"complete": not self.was_cut}


class _Cutter:
    """Cuts a stream of batches after `limit` rows (0: never) and remembers whether it did."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.was_cut = False

    def cut(self, batches: Iterator[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
        left = self._limit
        for kind, batch in batches:
            if not self._limit:
                yield kind, batch
                continue
            if batch.num_rows > left:
                self.was_cut = True
                if left:
                    yield kind, batch.slice(0, left)
                return
            left -= batch.num_rows
            yield kind, batch


def _blocks(
    snapshot: Snapshot, listing: FileListing, batches: Iterator[tuple[str, Any]] | None, encode: Encode
) -> Iterator[EncodedItems]:
    if batches is not None:
        yield from (encode(kind, batch) for kind, batch in batches)
        return
    for kind in listing.kinds:
        work = partial(_encode_chosen, listing, kind, encode)
        blocks = snapshot.file_actions.map_actions(kind, work, fields=listing.columns)
        yield from (block for block in blocks if block.count)


def _encode_chosen(listing: FileListing, kind: str, encode: Encode, batch: RecordBatch) -> EncodedItems:
    return encode(kind, _chosen(listing, batch)) if batch.num_rows else EncodedItems(0, memoryview(b""))


def _batches(snapshot: Snapshot, listing: FileListing) -> Iterator[tuple[str, RecordBatch]]:
    for kind in listing.kinds:
        for batch in snapshot.files() if kind == "add" else snapshot.tombstones():
            if batch.num_rows:
                yield kind, _chosen(listing, batch)


def _chosen(listing: FileListing, batch: RecordBatch) -> RecordBatch:
    if listing.columns is None:
        return batch
    return batch.select([name for name in listing.columns if name in batch.schema.names])


def _json_block(kind: str, batch: RecordBatch, *, end: str) -> EncodedItems:
    """Encode a batch in columns, `{"type":"add","path":…}` a row, absent fields left out; the rows lie end to end."""
    return encode_texts(json_lines(batch, f'{{"type":"{kind}"', end))


def _grid_block(form: RowEncoder, names: Sequence[str], kind: str, batch: RecordBatch) -> EncodedItems:
    return form.encode_columns([_values(kind, batch, name) for name in names], batch.num_rows)


def _values(kind: str, batch: Any, name: str) -> Any:  # Any: RecordBatch; an Arrow array
    """Return a column of a listing: a field of the action, or what is derived from one; null where it has none."""
    from deltacli.delta.log.file_actions import extract_num_records_column

    if name in batch.schema.names:
        return batch.column(name)
    if name == "type":
        return pa.repeat(kind, batch.num_rows)
    if name == "records" and "stats" in batch.schema.names:
        return extract_num_records_column(batch.column("stats"))
    if name == "deletedRows" and "deletionVector" in batch.schema.names:
        return pc.struct_field(batch.column("deletionVector"), ["cardinality"])
    return pa.nulls(batch.num_rows)


def _shown(columns: Sequence[Column[Any]], kind: str, batch: RecordBatch) -> RecordBatch:
    """Return the columns of a screen but its bar."""
    names = [column.name for column in columns if column.draw_bar is None]
    return pa.RecordBatch.from_arrays([_values(kind, batch, name) for name in names], names)


def _exact_column(name: str) -> Column[dict[str, Any]]:
    return Column(name, lambda row: row.get(name))


def _screen_columns(listing: FileListing) -> list[Column[dict[str, Any]]]:
    if listing.columns is not None:
        return [_exact_column(name) for name in listing.columns]
    columns: list[Column[dict[str, Any]]] = []
    if len(listing.kinds) > 1:
        columns.append(Column("type", lambda row: row["type"], priority=2, min_width=6))
    columns.append(_number_column("size", format_size, priority=1, least=9, texts=size_texts))
    columns.append(_size_bar())
    if "add" in listing.kinds:
        columns.append(_number_column("records", format_count, priority=3))
        columns.append(_number_column("deletedRows", format_count, priority=4, title="deleted"))
        columns.append(_moment_column("modificationTime", "modified (UTC)"))
    if "remove" in listing.kinds:
        columns.append(_moment_column("deletionTimestamp", "deleted (UTC)"))
    columns.append(
        Column("path", lambda row: row["path"], priority=0, min_width=_PATH_CELLS, keep_end=True, wraps=True)
    )
    return columns


def _size_bar() -> Column[dict[str, Any]]:
    """A bar for the size of each file, shown only where rich draws, as long as `largest` in the row says."""

    def picture(row: dict[str, Any], canvas: Canvas, width: int) -> Text:
        from deltacli.cli.render.terminal.tables import make_bar

        return make_bar(canvas, row.get("size") or 0, row.get(_LARGEST) or 0, width)

    return Column(
        _LARGEST,
        lambda _: None,
        text=lambda row: "x" if row.get(_LARGEST) else "",
        draw_bar=picture,
        priority=6,
        min_width=8,
        title=" ",
    )


def _number_column(
    name: str,
    written: Callable[[int], str],
    *,
    priority: int,
    least: int = 7,
    title: str | None = None,
    texts: Callable[[pa.Array], pa.Array] | None = None,
) -> Column[dict[str, Any]]:
    def text(row: dict[str, Any]) -> str:
        found = row.get(name)
        return "" if found is None else written(found)

    return Column(
        name,
        lambda row: row.get(name),
        text,
        align_right=True,
        priority=priority,
        min_width=least,
        title=title,
        format_array=texts,
    )


def _moment_column(name: str, title: str) -> Column[dict[str, Any]]:
    def written(form: Callable[[int], str]) -> Callable[[dict[str, Any]], str]:
        return lambda row: "" if row.get(name) is None else form(row[name])

    return Column(
        name,
        written(format_timestamp),
        text=written(format_moment),
        priority=5,
        min_width=19,
        title=title,
        style=lambda _: Style.QUIET,
        is_rounded=True,
        format_array=timestamp_texts,
    )


def _write_screens(
    sink: BinaryIO, terminal: Terminal, columns: Sequence[Column[dict[str, Any]]], batches: Iterator[tuple[str, Any]]
) -> None:
    """Draw up to a thousand rows; write more of them in screens of a thousand, each aligned by itself."""
    held: list[dict[str, Any]] = []
    first = True
    for kind, batch in batches:
        for start in range(0, batch.num_rows, ROWS_PER_SCREEN):
            shown = _shown(columns, kind, batch.slice(start, ROWS_PER_SCREEN))
            held += shown.to_pylist(maps_as_pydicts="lossy")
            if len(held) > ROWS_PER_SCREEN:
                write_text_table(sink, terminal, columns, held[:ROWS_PER_SCREEN], heading=first, is_part=True)
                held, first = held[ROWS_PER_SCREEN:], False
    if first:
        largest = max((row.get("size") or 0 for row in held), default=0)
        held = [{**row, _LARGEST: largest} for row in held]
    if held or first:
        write_text_table(sink, terminal, columns, held, heading=first, is_part=not first)


# -- what a scan would read --------------------------------------------------------------------------------------------

_NAMES = ("path", "sizeBytes", "records", "kept", "reason")


@dataclass(slots=True)
class ReadAmount:
    """Numbers of some files; `records` is of those whose number is known."""

    files: int = 0
    sizeBytes: int = 0  # noqa: N815  (a field of a document)
    records: int = 0
    filesWithoutRecords: int = 0  # noqa: N815

    def add(self, batch: pa.RecordBatch) -> None:
        """Count files in."""
        records = batch.column("records")
        self.files += batch.num_rows
        self.sizeBytes += pc.sum(batch.column("sizeBytes")).as_py() or 0
        self.records += pc.sum(records).as_py() or 0
        self.filesWithoutRecords += records.null_count

    def sentence(self) -> str:
        known = plural(self.records, "record")
        unknown = f" in all but {plural(self.filesWithoutRecords, 'file')}" if self.filesWithoutRecords else ""
        return f"{format_file_totals(self.files, self.sizeBytes)}, {known}{unknown}"


@dataclass(slots=True)
class Totals:
    """What a scan reads and passes over."""

    kept: ReadAmount = field(default_factory=ReadAmount)
    by_partition: ReadAmount = field(default_factory=ReadAmount)
    by_statistics: ReadAmount = field(default_factory=ReadAmount)

    def counted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the files under their names in documents, and count them."""
        from deltacli.table.scan import BY_PARTITION, BY_STATISTICS

        for part in batches:
            batch = part.rename_columns(list(_NAMES))
            self.kept.add(pc.filter(batch, batch.column("kept")))
            for amount, reason in ((self.by_partition, BY_PARTITION), (self.by_statistics, BY_STATISTICS)):
                amount.add(pc.filter(batch, pc.equal(batch.column("reason"), reason)))
            if batch.num_rows:
                yield batch

    def as_json(self) -> dict[str, Json]:
        skipped = {"partition": asdict(self.by_partition), "statistics": asdict(self.by_statistics)}
        return {"kept": asdict(self.kept), "skipped": skipped}


class ScanResult(FramedResult):
    """The files of a scan, `limit` of them (0: all), and the totals of all of them."""

    has_requested_rows = True

    def __init__(self, uri: str, scan: Scan, limit: int) -> None:
        self.written, self._totals = Written(), Totals()
        self._uri, self._version = uri, scan.version
        self._counted = self._totals.counted(scan.files())
        self._batches = cut(self._counted, limit, self.written)

    def document(self) -> Document:
        fields = envelope("deltacli.scan-files", self._uri, complete=True) | {"version": self._version}
        return Document(fields, json_blocks(self._batches, opening="{", closing="},\n"), self._end)

    def lines(self, write_items: WriteItems) -> bool:
        for block in json_blocks(self._batches, opening='{"type":"file",', closing="}\n"):
            write_items(block)
        write_items(encode_line({"table": self._uri, "version": self._version, **self._all()}, "scan"))
        return not self.written.was_cut

    def grid(self) -> Grid:
        return make_batch_grid(_NAMES, self._batches)

    def read_batches(self) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
        return _schema(), self._batches

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        """Return the totals, which come first: the files are held, in columns a million of them are 100 MB."""
        shown = list(self._batches)
        _drain(self._counted)
        self._batches = iter(shown)
        skipped = (("by partition", self._totals.by_partition), ("by statistics", self._totals.by_statistics))
        return [
            Section("table", [self._uri]),
            Section("version", [str(self._version)]),
            Section("read", [self._totals.kept.sentence()]),
            *(Section(f"skipped {how}", [amount.sentence()]) for how, amount in skipped),
        ]

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        write_sections(sink, terminal, self.sections(terminal))
        _write_scan_screens(sink, terminal, list(self._batches))

    def _all(self) -> dict[str, Json]:
        _drain(self._counted)
        return self._totals.as_json()

    def _end(self) -> dict[str, Json]:
        return {"complete": not self.written.was_cut, **self._all()}


def _drain(batches: Iterator[pa.RecordBatch]) -> None:
    for _ in batches:
        pass


def _schema() -> pa.Schema:
    return pa.schema(zip(_NAMES, (pa.string(), pa.int64(), pa.int64(), pa.bool_(), pa.string()), strict=True))


def _write_scan_screens(sink: BinaryIO, terminal: Terminal, batches: Sequence[pa.RecordBatch]) -> None:
    columns = _columns()
    if terminal.width is None and not terminal.colour:
        if batches:
            sink.write(b"\n")
            write_aligned(sink, columns, (texts_of(columns, batch) for batch in batches), keep_empty=True)
        return
    files = pa.Table.from_batches(batches, schema=None if batches else _schema())
    is_part = files.num_rows > ROWS_PER_SCREEN
    for start in range(0, files.num_rows, ROWS_PER_SCREEN):
        rows = files.slice(start, ROWS_PER_SCREEN).to_pylist()
        if not start:
            sink.write(b"\n")
        write = write_text_table if is_part else write_complete_table
        write(sink, terminal, columns, rows, heading=not start, keep_empty=True, is_part=is_part)


def _columns() -> list[Column[dict[str, Any]]]:
    def size(row: dict[str, Any]) -> str:
        return format_size(row["sizeBytes"])

    def records(row: dict[str, Any]) -> str:
        return "" if row["records"] is None else format_count(row["records"])

    def looks(row: dict[str, Any]) -> Style:
        return Style.PLAIN if row["kept"] else Style.QUIET

    return [
        Column(
            "sizeBytes", lambda row: row["sizeBytes"], size, align_right=True, priority=4, min_width=9, title="size"
        ),
        Column("records", lambda row: row["records"], records, align_right=True, priority=3, min_width=7),
        Column(
            "kept", lambda row: row["kept"], lambda row: "yes" if row["kept"] else "no", looks, priority=1, min_width=4
        ),
        Column("reason", lambda row: row["reason"], style=looks, priority=2, min_width=10),
        Column("path", lambda row: row["path"], style=looks, priority=0, min_width=48, wraps=True, keep_end=True),
    ]
