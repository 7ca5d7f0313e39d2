"""Conditions of a scan: a predicate that can be asked of rows, or a usage error."""

from __future__ import annotations

import contextlib
import json

import pyarrow as pa

from deltacli.core.errors import UsageError
from deltacli.delta.predicate import parse_predicate
from deltacli.delta.schema.to_arrow import build_arrow_schema
from deltacli.delta.schema.types import parse_schema

TYPES = ("long", "string", "date", "timestamp", "timestamp_ntz", "double", "decimal(10,2)", "boolean", "binary")
TOKENS = (
    *(name.encode() for name in ("and ", "or ", "not ", " is null", " in (", " between ", " like '", "cast(", " as ")),
    *(f"{name} ".encode() for name in ("date '2024-01-01'", "timestamp '2024-01-01 00:00:00'", "X'00ff'", "null")),
    b"1e400",
    b"99999999999999999999999999999999999999999",
    b"'NaN'",
    b"`",
    b"s.a",
    b"(" * 90,
    b"'\xed\xa0\x80'",
)


def seeds() -> list[bytes]:
    """One condition or more of every kind."""
    return [
        text.encode()
        for text in (
            "c0 > 5 and not (c1 like 'a%' or c2 is null)",
            "c2 between date '2024-01-01' and '2024-02-01' or c3 < '2024-01-01T00:00:00Z'",
            "c5 in (1, 2.5, 'NaN', null) and c6 <> 1.25 and c7",
            "s.a <=> cast('5' as int) and c8 = X'00ff' and `c1` not in ('a', 'b')",
        )
    ]


def test_one_input(data: bytes) -> None:
    """A condition is refused, or true of some rows and not of others."""
    with contextlib.suppress(UsageError):
        predicate = parse_predicate(data.decode("utf-8", "surrogateescape"), _SCHEMA)
        kept = predicate.matches(_ROWS)
        if len(kept) != _ROWS.num_rows or kept.null_count:
            raise AssertionError(f"{kept} for {_ROWS.num_rows} rows")


_FIELDS = [
    *({"name": f"c{number}", "type": name, "nullable": True, "metadata": {}} for number, name in enumerate(TYPES)),
    {
        "name": "s",
        "type": {"type": "struct", "fields": [{"name": "a", "type": "integer", "nullable": True, "metadata": {}}]},
        "nullable": True,
        "metadata": {},
    },
]
_SCHEMA = parse_schema(json.dumps({"type": "struct", "fields": _FIELDS}))
_ROWS = pa.RecordBatch.from_arrays(
    [pa.nulls(2, field.type) for field in build_arrow_schema(_SCHEMA.fields)], schema=build_arrow_schema(_SCHEMA.fields)
)
