"""JSON texts: of values, and of many items in a block."""

from __future__ import annotations

from dataclasses import dataclass

from deltacli.documents import SCHEMA_VERSION, dumps, envelope

__all__ = [
    "SCHEMA_VERSION",
    "EncodedItems",
    "dumps",
    "envelope",
]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EncodedItems:
    """A block of items as JSON texts, each followed by `,` and LF."""

    count: int
    data: memoryview
