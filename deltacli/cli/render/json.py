"""JSON and NDJSON: bytes, exact, streamed where there are many items."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
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


def write_document_with_items(sink: BinaryIO, document: Mapping[str, Any], blocks: Iterable[list[bytes]]) -> None:
    """Write a document whose last field, `items`, arrives in blocks of encoded items and is never held."""
    sink.write(dumps(document)[:-1] + b',"items":[')
    separator = b"\n"
    for block in blocks:
        if block:
            sink.write(separator + b",\n".join(block))
            separator = b",\n"
    sink.write(b"\n]}\n")


def write_lines(sink: BinaryIO, items: Iterable[Mapping[str, Any]], *, kind: str, complete: bool = True) -> None:
    """Write NDJSON: an item a line with its `type`, then the end line; without that line a reader knows that it was
    cut.
    """
    write_encoded_lines(sink, ([dumps({"type": kind, **item})] for item in items), complete=complete)


def write_encoded_lines(sink: BinaryIO, blocks: Iterable[list[bytes]], *, complete: bool = True) -> None:
    """Write NDJSON from encoded items."""
    count = 0
    for block in blocks:
        count += len(block)
        if block:
            sink.write(b"\n".join(block) + b"\n")
    sink.write(end_line(count, complete=complete))


def end_line(count: int, *, complete: bool) -> bytes:
    """The line that tells a reader the output is whole."""
    return dumps({"type": "end", "complete": complete, "count": count}) + b"\n"


def with_type(items: Iterable[Mapping[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    """Put the `type` first."""
    return ({"type": kind, **item} for item in items)
