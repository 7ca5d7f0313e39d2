"""JSON texts: of values, and of many items in a block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.documents import SCHEMA_VERSION, dumps, envelope

__all__ = [
    "SCHEMA_VERSION",
    "EncodedItems",
    "block_of",
    "dumps",
    "envelope",
]

if TYPE_CHECKING:
    import pyarrow


class EncodedItems:
    """A block of items as JSON texts, each followed by `,` and LF."""

    def __init__(self, count: int, data: memoryview) -> None:
        self.count, self.data = count, data


def block_of(texts: pyarrow.StringArray) -> EncodedItems:
    """Return a column of texts without nulls as one block, end to end."""
    from deltacli.delta.encoding.row_pieces import text_of

    return EncodedItems(len(texts), text_of(texts))
