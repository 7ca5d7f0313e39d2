"""What a scan would read: how much, and each file with the reason where it is passed over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from deltacli.cli.render.aligned import ROWS_PER_SCREEN, texts_of, write_aligned
from deltacli.cli.render.columns import Column
from deltacli.cli.render.data.rows import FramedResult, Written, cut, json_blocks
from deltacli.cli.render.sections import Section, file_amount
from deltacli.cli.render.text_form import write_sections, write_table, write_whole_table
from deltacli.cli.results import Document, Emit, Grid, grid_of, line_of
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.core.documents import envelope
from deltacli.core.typing import Json
from deltacli.core.units import format_count, format_size, plural

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.scan import Scan

_NAMES = ("path", "sizeBytes", "records", "kept", "reason")


@dataclass(slots=True)
class ReadAmount:
    """Numbers of some files; `records` is of those whose number is known."""

    files: int = 0
    sizeBytes: int = 0  # noqa: N815  (a field of a document)
    records: int = 0
    filesWithoutRecords: int = 0  # noqa: N815

    def add(self, batch: pyarrow.RecordBatch) -> None:
        """Count files in."""
        from deltacli.arrow import compute as pc

        records = batch.column("records")
        self.files += batch.num_rows
        self.sizeBytes += pc.sum(batch.column("sizeBytes")).as_py() or 0
        self.records += pc.sum(records).as_py() or 0
        self.filesWithoutRecords += records.null_count

    def sentence(self) -> str:
        """`12 files, 3.2 MiB, 1,200 records`."""
        known = plural(self.records, "record")
        unknown = f" in all but {plural(self.filesWithoutRecords, 'file')}" if self.filesWithoutRecords else ""
        return f"{file_amount(self.files, self.sizeBytes)}, {known}{unknown}"


@dataclass(slots=True)
class Totals:
    """What a scan reads and passes over."""

    kept: ReadAmount = field(default_factory=ReadAmount)
    by_partition: ReadAmount = field(default_factory=ReadAmount)
    by_statistics: ReadAmount = field(default_factory=ReadAmount)

    def counted(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Yield the files under their names in documents, and count them."""
        from deltacli.arrow import compute as pc
        from deltacli.table.scan import BY_PARTITION, BY_STATISTICS

        for part in batches:
            batch = part.rename_columns(list(_NAMES))
            self.kept.add(pc.filter(batch, batch.column("kept")))
            for amount, reason in ((self.by_partition, BY_PARTITION), (self.by_statistics, BY_STATISTICS)):
                amount.add(pc.filter(batch, pc.equal(batch.column("reason"), reason)))
            if batch.num_rows:
                yield batch

    def as_json(self) -> dict[str, Json]:
        """As it stands in documents and lines."""
        skipped = {"partition": asdict(self.by_partition), "statistics": asdict(self.by_statistics)}
        return {"kept": asdict(self.kept), "skipped": skipped}


class ScanResult(FramedResult):
    """The files of a scan, `limit` of them (0: all), and the totals of all of them."""

    lists = True

    def __init__(self, uri: str, scan: Scan, limit: int) -> None:
        self.written, self._totals = Written(), Totals()
        self._uri, self._version = uri, scan.version
        self._counted = self._totals.counted(scan.files())
        self._batches = cut(self._counted, limit, self.written)

    def document(self) -> Document:
        fields = envelope("deltacli.scan-files", self._uri, complete=True) | {"version": self._version}
        return Document(fields, json_blocks(self._batches, opening="{", closing="},\n"), self._end)

    def lines(self, emit: Emit) -> bool:
        for block in json_blocks(self._batches, opening='{"type":"file",', closing="}\n"):
            emit(block)
        emit(line_of({"table": self._uri, "version": self._version, **self._all()}, "scan"))
        return not self.written.was_cut

    def grid(self) -> Grid:
        return grid_of(_NAMES, self._batches)

    def frames(self) -> tuple[pyarrow.Schema, Iterable[pyarrow.RecordBatch]]:
        return _schema(), self._batches

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        """Return the totals, which come first: the files are held, in columns a million of them are 100 MB."""
        shown = list(self._batches)
        _drain(self._counted)
        self._batches = iter(shown)
        return _totals(self._uri, self._version, self._totals)

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        write_sections(sink, terminal, self.sections(terminal))
        _write_screens(sink, terminal, list(self._batches))

    def _all(self) -> dict[str, Json]:
        _drain(self._counted)
        return self._totals.as_json()

    def _end(self) -> dict[str, Json]:
        return {"complete": not self.written.was_cut, **self._all()}


def _drain(batches: Iterator[pyarrow.RecordBatch]) -> None:
    """Count what is not shown."""
    for _ in batches:
        pass


def _schema() -> pyarrow.Schema:
    import pyarrow as pa

    return pa.schema(zip(_NAMES, (pa.string(), pa.int64(), pa.int64(), pa.bool_(), pa.string()), strict=True))


def _totals(uri: str, version: int, totals: Totals) -> list[Section]:
    skipped = (("by partition", totals.by_partition), ("by statistics", totals.by_statistics))
    return [
        Section("table", [uri]),
        Section("version", [str(version)]),
        Section("read", [totals.kept.sentence()]),
        *(Section(f"skipped {how}", [amount.sentence()]) for how, amount in skipped),
    ]


def _write_screens(sink: BinaryIO, terminal: Terminal, batches: Sequence[pyarrow.RecordBatch]) -> None:
    columns = _columns()
    if terminal.width is None and not terminal.colour:
        if batches:
            sink.write(b"\n")
            write_aligned(sink, columns, (texts_of(columns, batch) for batch in batches), keep_empty=True)
        return
    import pyarrow as pa

    files = pa.Table.from_batches(batches, schema=None if batches else _schema())
    is_part = files.num_rows > ROWS_PER_SCREEN
    for start in range(0, files.num_rows, ROWS_PER_SCREEN):
        rows = files.slice(start, ROWS_PER_SCREEN).to_pylist()
        if not start:
            sink.write(b"\n")
        write = write_table if is_part else write_whole_table
        write(sink, terminal, columns, rows, heading=not start, keep_empty=True, is_part=is_part)


def _columns() -> list[Column[dict[str, Any]]]:
    """The path last, because it is longest."""

    def size(row: dict[str, Any]) -> str:
        return format_size(row["sizeBytes"])

    def records(row: dict[str, Any]) -> str:
        return "" if row["records"] is None else format_count(row["records"])

    def looks(row: dict[str, Any]) -> Style:
        return Style.PLAIN if row["kept"] else Style.QUIET

    return [
        Column("sizeBytes", lambda row: row["sizeBytes"], size, right=True, priority=4, least=9, title="size"),
        Column("records", lambda row: row["records"], records, right=True, priority=3, least=7),
        Column("kept", lambda row: row["kept"], lambda row: "yes" if row["kept"] else "no", looks, priority=1, least=4),
        Column("reason", lambda row: row["reason"], style=looks, priority=2, least=10),
        Column("path", lambda row: row["path"], style=looks, priority=0, least=48, folds=True, keep_end=True),
    ]
