"""Hints of recipients. The first byte of an input is its language: an even number JSON, an odd one SQL."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

import pyarrow as pa

from deltacli.delta.log.state import TableConfiguration
from deltacli.sharing.hints.file_selection import Hints, select_files
from fuzz.mutate import JSON_TOKENS
from tests.delta.predicate.support import adds_of, config_of, schema_of

COLUMNS = {
    "i": "integer", "l": "long", "f": "float", "d": "double", "n": "decimal(20,3)", "t": "string", "b": "boolean",
    "x": "binary", "day": "date", "ts": "timestamp", "ntz": "timestamp_ntz", "p": "timestamp",
}  # fmt: skip
VALUES: dict[str, Any] = {
    "i": 5, "l": 1 << 40, "f": 0.1, "d": 1e300, "n": 1.5, "t": "text", "day": "2024-01-05",
    "ts": "2024-01-05T06:07:08.009Z", "ntz": "2024-01-05T06:07:08.009",
}  # fmt: skip
TOKENS = (
    *JSON_TOKENS, b'{"op":"not","children":[', b'{"op":"and","children":[', b'{"op":"or","children":[',
    b'{"op":"isNull","children":[', b'{"op":"in"}', b'"valueType":"timestamp"', b'"valueType":"float"', b"NaN",
    b"1e309", b"-Infinity", b"99999999999999999999", b"' AND i = '", b" IS NOT NULL", b" IN (1, 2)", b" <=> NULL",
    b"TIMESTAMP '2024-01-01'", b"::date", b"1e400", b"1.5D", b" BETWEEN ", b"NOT ", b"i = l", b"b = (i > 3)",
    b"p >= '2024-01-01 00:00:00'",
)  # fmt: skip
_NET = re.compile(r"skipped: [A-Za-z]*(?:Error|Exception|Invalid|Fault)\b")


@lru_cache(maxsize=1)
def _table() -> tuple[pa.RecordBatch, TableConfiguration]:
    stats = {"numRecords": 4, "minValues": VALUES, "maxValues": VALUES, "nullCount": dict.fromkeys(COLUMNS, 0)}
    adds = adds_of(
        [stats, None, {**stats, "nullCount": {}}], [{"p": text} for text in ("2024-01-05 00:00:00", "", "?")]
    )
    return adds, config_of(schema_of(COLUMNS), ["p"])


def seeds() -> list[bytes]:
    """Comparisons of every column with a literal, in both languages."""
    found = []
    for name, kind in COLUMNS.items():
        value = str(VALUES.get(name, "true"))
        value_type = {"integer": "int", "boolean": "bool", "timestamp_ntz": "timestamp"}.get(kind, kind)
        sides = [
            {"op": "column", "name": name, "valueType": value_type},
            {"op": "literal", "value": value, "valueType": value_type},
        ]
        part = {"op": "lessThan", "children": sides}
        found.append(b"\0" + json.dumps({"op": "not", "children": [{"op": "or", "children": [part, part]}]}).encode())
        literal = value if kind in ("integer", "long", "float", "double", "decimal(20,3)") else f"'{value}'"
        found.append(f"\1NOT ({name} < {literal} OR {literal} >= {name}) AND {name} IS NOT NULL".encode())
    return found


def test_one_input(data: bytes) -> None:
    """A hint is used, or skipped for a reason that someone has thought of; a file without statistics is always kept."""
    text = data[1:].decode("utf-8", "replace")
    adds, config = _table()
    hints = Hints(sql=(text,), limit=3) if data[:1] and data[0] % 2 else Hints(json=text)
    found = select_files(adds, config, hints)
    if not found.reason.isascii() or not found.reason.isprintable() or _NET.search(found.reason):
        raise AssertionError(found.reason)
    if found.kept is not None and hints.limit is None and found.kept.null_count:
        raise AssertionError("an answer is null")
