"""Represent the rows of a result, and encode them in a format such as CSV or Markdown.

A `Grid` has rows and columns: `RowGrid` for Python objects, `BatchGrid` for Arrow record batches. A `RowEncoder`
converts them to bytes of a format. Rows of a table may be many gigabytes, so they are encoded in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol

from deltacli.cli.output.columns import Column, Row, make_item_columns
from deltacli.core.documents import dumps
from deltacli.core.typing import JsonObject

if TYPE_CHECKING:
    import pyarrow


class EncodedItems:
    """A block of encoded items.

    Attributes:
        count: The number of items.
        data: The concatenated items. In a JSON document, each item ends with `,` and LF; in NDJSON and CSV, with LF.
    """

    def __init__(self, count: int, data: memoryview) -> None:
        self.count = count
        self.data = data


WriteItems = Callable[[EncodedItems], None]
"""A function that writes a block of NDJSON lines."""


def encode_texts(texts: pyarrow.StringArray) -> EncodedItems:
    """Concatenate encoded items in an Arrow column without nulls."""
    # Only rows in Arrow columns need pyarrow, whose import is slow.
    from deltacli.delta.encoding.value_text import join_texts

    return EncodedItems(len(texts), join_texts(texts))


def encode_line(item: JsonObject, line_type: str) -> EncodedItems:
    """Encode an item as a line of NDJSON. The type of the line is its first field."""
    return EncodedItems(1, memoryview(dumps({"type": line_type, **item}) + b"\n"))


def write_lines(write_items: WriteItems, items: Iterable[JsonObject], line_type: str) -> None:
    """Write items as lines of NDJSON."""
    for item in items:
        write_items(encode_line(item, line_type))


class RowEncoder(Protocol):
    """Encodes rows in a format.

    Attributes:
        is_for_people: Whether the format is for people. Then rows have the columns and texts of a terminal, such as
            `2.0 MiB` instead of 2097152.
    """

    is_for_people: bool

    def encode_header(self, names: Sequence[str], align_right: Sequence[bool] = ()) -> bytes:
        """Return the lines before the first row.

        Args:
            names: The names of the columns.
            align_right: For each column, whether it contains numbers. Formats without alignment ignore it.
        """

    def encode_row(self, values: Sequence[object]) -> bytes:
        """Return a row of Python values."""

    def encode_columns(self, columns: Sequence[pyarrow.Array], rows: int, null: str = "") -> EncodedItems:
        """Return rows in Arrow columns.

        Args:
            columns: The columns, of the same length.
            rows: The number of rows. There may be no columns.
            null: The text for null values in formats for people.
        """


class Grid(Protocol):
    """The rows and columns of a result."""

    def encode(self, encoder: RowEncoder) -> Iterator[bytes | memoryview]:
        """Encode the header and the rows. Yield them in blocks."""


class RowGrid(NamedTuple, Generic[Row]):
    """Rows that are Python objects.

    Attributes:
        columns: All columns of the result.
        rows: The rows. They are iterated only once.
        is_chosen: Whether the user chose the columns by `--columns`. Then all of them are written.
    """

    columns: Sequence[Column[Row]]
    rows: Iterable[Row]
    is_chosen: bool = False

    def encode(self, encoder: RowEncoder) -> Iterator[bytes | memoryview]:
        """Encode the header and the rows. Yield them row by row."""
        if encoder.is_for_people:
            yield from self._encode_for_people(encoder)
            return
        columns = [column for column in self._text_columns() if self.is_chosen or column.in_pipe]
        yield encoder.encode_header([column.name for column in columns])
        for row in self.rows:
            yield encoder.encode_row([column.value(row) for column in columns])

    def _encode_for_people(self, encoder: RowEncoder) -> Iterator[bytes]:
        """Encode the texts that a terminal shows. Columns without values are omitted unless the user chose them."""
        columns = [column for column in self._text_columns() if self.is_chosen or (column.on_screen and column.in_pipe)]
        texts = [[column.format_for_screen(row) for column in columns] for row in self.rows]
        shown = list(range(len(columns)))
        if not self.is_chosen and texts:
            shown = [index for index in shown if any(row[index] for row in texts)]

        # If there are no rows, all columns are shown, so that the header is complete.
        headings = [columns[index].heading() for index in shown]
        yield encoder.encode_header(headings, [columns[index].align_right for index in shown])
        for row in texts:
            yield encoder.encode_row([row[index] for index in shown])

    def _text_columns(self) -> list[Column[Row]]:
        """Return the columns without those that consist of bars, which only terminals can show."""
        return [column for column in self.columns if column.draw_bar is None]


class BatchGrid(NamedTuple):
    """Rows in Arrow columns. They are encoded block by block, so that they may be larger than memory.

    Attributes:
        names: The names of the columns.
        encode_blocks: A function that encodes all rows with an encoder. It may use threads.
    """

    names: Sequence[str]
    encode_blocks: Callable[[RowEncoder], Iterable[EncodedItems]]

    def encode(self, encoder: RowEncoder) -> Iterator[bytes | memoryview]:
        """Encode the header and the rows. Yield them in blocks."""
        yield encoder.encode_header(self.names)
        for block in self.encode_blocks(encoder):
            yield block.data


def make_batch_grid(names: Sequence[str], batches: Iterable[pyarrow.RecordBatch], *, null: str = "") -> BatchGrid:
    """Create a grid of Arrow record batches.

    Args:
        names: The names of the columns.
        batches: The batches. They are iterated only once.
        null: The text for null values in formats for people.
    """
    # Only rows in Arrow columns need pyarrow, whose import is slow.
    from deltacli.arrow.batches import split_batches

    def encode_blocks(encoder: RowEncoder) -> Iterator[EncodedItems]:
        for piece in split_batches(batches):
            yield encoder.encode_columns(piece.columns, piece.num_rows, null)

    return BatchGrid(names, encode_blocks)


def make_field_grid(fields: Iterable[tuple[str, object]]) -> Grid:
    """Create a grid with a row per field of a document, and the columns `field` and `value`."""
    rows = ({"field": name, "value": value} for name, value in fields)
    return RowGrid(make_item_columns(("field", "value")), rows)
