"""The results of a command on several tables as one result: a document, lines of NDJSON, or rows of CSV."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from deltacli.cli.output.grids import EncodedItems, Grid, RowEncoder, WriteItems, encode_line
from deltacli.cli.output.results import Document, Result
from deltacli.cli.render.many import TableRow, sum_rows
from deltacli.core.documents import SCHEMA_VERSION, dumps, loads

if TYPE_CHECKING:
    from deltacli.cli.running.table_run import TableRun
    from deltacli.core.typing import JsonObject

_START_OF_LINE = re.compile(rb'^(\{"type":"[a-z-]+",)(?!"table":)', re.MULTILINE)
"""The type of a line of NDJSON that does not name its table yet: `{"type":"file",`."""


class TableRunResults(Result):
    """The results of all tables, in the order of the tables.

    A table that failed contributes its error, after the result of the changes that were made before.
    """

    def __init__(self, table_runs: Sequence[TableRun], *, has_ended: bool) -> None:
        """Collect the results and errors.

        Args:
            table_runs: The runs on the tables. A run without a result and without an error is omitted.
            has_ended: Whether the command has worked on all tables. If it was interrupted, the result is incomplete.
        """
        self._table_runs = [run for run in table_runs if run.error is not None or run.result is not None]
        self._is_complete = has_ended and all(run.error is None for run in self._table_runs)

    def document(self) -> Document:
        """Return the document `deltacli.many`, which contains the documents of all tables."""
        documents: list[JsonObject] = []
        for table_run in self._table_runs:
            if table_run.result is not None:
                documents.append(_build_document(table_run.result))
            if table_run.error is not None:
                documents.append(table_run.error)

        rows = self.make_rows()
        return Document(
            {
                "kind": "deltacli.many",
                "schemaVersion": SCHEMA_VERSION,
                "complete": self._is_complete,
                "documents": documents,
                "tables": [row.as_json() for row in rows],
                "total": sum_rows(rows),
            }
        )

    def make_rows(self) -> list[TableRow]:
        """Return one row per table for the overview."""
        return [table_run.make_row() for table_run in self._table_runs]

    def lines(self, write_items: WriteItems) -> bool:
        """Write the lines of all tables. Each line names its table."""
        for table_run in self._table_runs:
            if table_run.result is not None:
                table_run.result.lines(_TableNameWriter(table_run.uri, write_items))
            if table_run.error is not None:
                fields = {name: value for name, value in table_run.error.items() if name != "type"}
                write_items(encode_line(fields, "error"))
        return self._is_complete

    def grid(self) -> Grid:
        """Return the rows of all tables, with the table in the first column."""
        return _TableRunsGrid([table_run for table_run in self._table_runs if table_run.result is not None])


def _build_document(result: Result) -> JsonObject:
    """Return the whole document of one table, including its items, which are encoded in blocks."""
    document = result.document()
    if document.items is None:
        return document.fields

    blocks = b"".join(bytes(block.data) for block in document.items)
    # Each item ends with ",\n". JSON does not allow the separator after the last item.
    items = loads(b"[" + blocks[:-2] + b"]")
    fields = {name: value for name, value in document.fields.items() if name != "complete"}
    return {**fields, "items": items, **document.make_last_fields()}


class _TableNameWriter:
    """Writes lines of NDJSON with the field `table` after the field `type`.

    {"type":"file","path":"a.parquet"}  ->  {"type":"file","table":"file:///lake/t","path":"a.parquet"}
    """

    def __init__(self, uri: str, write_items: WriteItems) -> None:
        self._table_field = b'"table":' + dumps(uri) + b","
        self._write_items = write_items

    def __call__(self, block: EncodedItems) -> None:
        # A function as the replacement, because a URI may contain backslashes.
        lines = _START_OF_LINE.sub(lambda start: start[1] + self._table_field, bytes(block.data))
        self._write_items(EncodedItems(block.count, memoryview(lines)))


class _TableRunsGrid(NamedTuple):
    """The rows of all tables. Only the first table writes the header."""

    table_runs: Sequence[TableRun]

    def encode(self, encoder: RowEncoder) -> Iterator[bytes | memoryview]:
        for number, table_run in enumerate(self.table_runs):
            if table_run.result is not None:
                table_encoder = _EncoderWithTable(encoder, table_run.uri, has_header=number == 0)
                yield from table_run.result.grid().encode(table_encoder)


class _EncoderWithTable:
    """An encoder that adds the table as the first column."""

    def __init__(self, encoder: RowEncoder, uri: str, *, has_header: bool) -> None:
        self.is_for_people = encoder.is_for_people
        self._encoder = encoder
        self._uri = uri
        self._has_header = has_header

    def encode_header(self, names: Sequence[str], align_right: Sequence[bool] = ()) -> bytes:
        if not self._has_header:
            return b""
        return self._encoder.encode_header(["table", *names], [False, *align_right])

    def encode_row(self, values: Sequence[object]) -> bytes:
        return self._encoder.encode_row([self._uri, *values])

    def encode_columns(self, columns: Sequence[pa.Array], rows: int, null: str = "") -> EncodedItems:
        return self._encoder.encode_columns([pa.repeat(self._uri, rows), *columns], rows, null)
