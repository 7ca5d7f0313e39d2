"""Rows and columns of a result, and the blocks of bytes in which formats write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol

from deltacli.cli.output.columns import Column, Row, make_item_columns
from deltacli.core.documents import dumps
from deltacli.core.typing import JsonObject

if TYPE_CHECKING:
    import pyarrow


class EncodedItems:
    """A block of encoded items, end to end.

    Attributes:
        count: The number of items.
        data: Their texts. In a document each is followed by `,` and LF, in NDJSON and CSV by LF.
    """

    def __init__(self, count: int, data: memoryview) -> None:
        self.count = count
        self.data = data


WriteItems = Callable[[EncodedItems], None]
"""Takes lines of NDJSON, a block at a time."""


def encode_texts(texts: pyarrow.StringArray) -> EncodedItems:
    """Return a column of texts without nulls as one block, end to end."""
    from deltacli.delta.encoding.value_text import join_texts  # pyarrow is imported for rows in columns only

    return EncodedItems(len(texts), join_texts(texts))


def encode_line(item: JsonObject, line_type: str) -> EncodedItems:
    """Return an item as a line of NDJSON, with its type as the first field."""
    return EncodedItems(1, memoryview(dumps({"type": line_type, **item}) + b"\n"))


def write_lines(write_items: WriteItems, items: Iterable[JsonObject], line_type: str) -> None:
    """Write items as lines of NDJSON."""
    for item in items:
        write_items(encode_line(item, line_type))


class RowEncoder(Protocol):
    """Encodes rows in a format.

    Attributes:
        is_for_people: Whether people read the format, which has the columns and texts of a screen then.
    """

    is_for_people: bool

    def encode_header(self, names: Sequence[str], align_right: Sequence[bool] = ()) -> bytes:
        """Return the lines before the rows; `align_right` says which columns are numbers."""

    def encode_row(self, values: Sequence[object]) -> bytes:
        """Return one row of Python values."""

    def encode_columns(self, columns: Sequence[pyarrow.Array], rows: int, null: str = "") -> EncodedItems:
        """Return rows of Arrow columns, end to end; formats for people write null values as `null`."""


class Grid(Protocol):
    """Rows and columns."""

    def encode(self, encoder: RowEncoder) -> Iterator[bytes | memoryview]:
        """Yield the header and the rows in a format."""


class RowGrid(NamedTuple, Generic[Row]):
    """Rows that are Python objects.

    Attributes:
        columns: All columns of the result.
        rows: The rows, which may be read once.
        is_chosen: Whether the user named the columns, so that all of them are written.
    """

    columns: Sequence[Column[Row]]
    rows: Iterable[Row]
    is_chosen: bool = False

    def encode(self, encoder: RowEncoder) -> Iterator[bytes | memoryview]:
        """Yield the header and the rows in a format."""
        if encoder.is_for_people:
            yield from self._encode_for_people(encoder)
            return
        columns = [column for column in self._text_columns() if self.is_chosen or column.in_pipe]
        yield encoder.encode_header([column.name for column in columns])
        for row in self.rows:
            yield encoder.encode_row([column.value(row) for column in columns])

    def _encode_for_people(self, encoder: RowEncoder) -> Iterator[bytes]:
        """Yield the texts of a screen; columns without values are left out unless the user chose them."""
        columns = [column for column in self._text_columns() if self.is_chosen or (column.on_screen and column.in_pipe)]
        texts = [[column.format_for_screen(row) for column in columns] for row in self.rows]
        shown = list(range(len(columns)))
        if not self.is_chosen and texts:
            shown = [index for index in shown if any(row[index] for row in texts)]

        # Without rows every column is shown, so that the reader sees what there could be.
        headings = [columns[index].heading() for index in shown]
        yield encoder.encode_header(headings, [columns[index].align_right for index in shown])
        for row in texts:
            yield encoder.encode_row([row[index] for index in shown])

    def _text_columns(self) -> list[Column[Row]]:
        """Return the columns that are not bars."""
        return [column for column in self.columns if column.draw_bar is None]


class BatchGrid(NamedTuple):
    """Any number of rows in Arrow columns.

    Attributes:
        names: The names of the columns.
        encode_blocks: Encodes all rows, possibly in threads.
    """

    names: Sequence[str]
    encode_blocks: Callable[[RowEncoder], Iterable[EncodedItems]]

    def encode(self, encoder: RowEncoder) -> Iterator[bytes | memoryview]:
        """Yield the header and the rows in a format."""
        yield encoder.encode_header(self.names)
        for block in self.encode_blocks(encoder):
            yield block.data


def make_batch_grid(names: Sequence[str], batches: Iterable[pyarrow.RecordBatch], *, null: str = "") -> BatchGrid:
    """Return batches with columns of these names as a grid; formats for people write null values as `null`."""
    from deltacli.arrow.batches import split_batches  # pyarrow is imported for rows in columns only

    def encode_blocks(encoder: RowEncoder) -> Iterator[EncodedItems]:
        for piece in split_batches(batches):
            yield encoder.encode_columns(piece.columns, piece.num_rows, null)

    return BatchGrid(names, encode_blocks)


def make_field_grid(fields: Iterable[tuple[str, object]]) -> Grid:
    """Return a grid of two columns, `field` and `value`, with a row per field of a document."""
    rows = ({"field": name, "value": value} for name, value in fields)
    return RowGrid(make_item_columns(("field", "value")), rows)
