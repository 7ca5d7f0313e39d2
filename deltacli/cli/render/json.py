"""JSON and NDJSON: bytes, exact, streamed where there are many items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from deltacli.documents import SCHEMA_VERSION, dumps, envelope

__all__ = [
    "SCHEMA_VERSION",
    "EncodedItems",
    "dumps",
    "end_line",
    "envelope",
    "write_document",
    "write_document_with_items",
    "write_encoded_lines",
    "write_lines",
]


def write_document(sink: BinaryIO, document: Mapping[str, Any], *, indent: bool) -> None:
    """Write one document and a final LF."""
    sink.write(dumps(document, indent=indent) + b"\n")


@dataclass(frozen=True, slots=True)
class EncodedItems:
    """A block of items as JSON texts, each followed by `,` and LF."""

    count: int
    data: memoryview


def write_document_with_items(
    sink: BinaryIO,
    document: Mapping[str, Any],
    blocks: Iterable[EncodedItems],
    *,
    was_cut: Callable[[], bool],
    after: Callable[[], Mapping[str, Any]] = dict,
) -> None:
    """Write a document whose `items` arrive in blocks and are never held; `complete` follows them, when it is known,
    and so does what `after` counted meanwhile.
    """
    sink.write(dumps({name: value for name, value in document.items() if name != "complete"})[:-1] + b',"items":[')
    separator = b"\n"
    for block in blocks:
        sink.write(separator)
        sink.write(block.data[:-2])
        separator = b",\n"
    sink.write(b"\n]," + dumps({"complete": not was_cut(), **after()})[1:] + b"\n")


def write_lines(sink: BinaryIO, items: Iterable[Mapping[str, Any]], *, kind: str, complete: bool = True) -> None:
    """Write NDJSON: an item a line with its `type`, then the end line; without it a reader knows that it was cut."""
    count = 0
    for item in items:
        sink.write(dumps({"type": kind, **item}) + b"\n")
        count += 1
    sink.write(end_line(count, complete=complete))


def write_encoded_lines(sink: BinaryIO, blocks: Iterable[EncodedItems], *, was_cut: Callable[[], bool]) -> None:
    """Write NDJSON from blocks of texts that each end in LF."""
    count = 0
    for block in blocks:
        sink.write(block.data)
        count += block.count
    sink.write(end_line(count, complete=not was_cut()))


def end_line(count: int, *, complete: bool) -> bytes:
    """The line that tells a reader the output is whole."""
    return dumps({"type": "end", "complete": complete, "count": count}) + b"\n"
