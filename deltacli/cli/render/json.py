"""JSON texts: of values, and of many items in a block."""

from __future__ import annotations

from deltacli.documents import SCHEMA_VERSION, dumps, envelope

__all__ = [
    "SCHEMA_VERSION",
    "EncodedItems",
    "dumps",
    "envelope",
]


class EncodedItems:
    """A block of items as JSON texts, each followed by `,` and LF."""

    def __init__(self, count: int, data: memoryview) -> None:
        self.count, self.data = count, data
