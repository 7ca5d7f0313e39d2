"""JSON and NDJSON: bytes, exact, streamed where there are many items."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import orjson

SCHEMA_VERSION = 1


def dumps(value: object, *, indent: bool = False) -> bytes:
    """JSON in UTF-8; what orjson refuses (lone surrogates, NaN, integers beyond 64 bits) is written by the standard
    library.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None)
    except (TypeError, ValueError):
        return json.dumps(value, indent=2 if indent else None, separators=None if indent else (",", ":")).encode()


def envelope(kind: str, table: str, *, complete: bool) -> dict[str, Any]:
    """The fields every document begins with."""
    return {"kind": kind, "schemaVersion": SCHEMA_VERSION, "table": table, "tableFormat": "delta", "complete": complete}


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
