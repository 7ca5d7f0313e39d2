"""Tables of many shapes that Paimon makes, and the rows that it writes into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.judges.paimon.engine import Column, PaimonJudge, PaimonTable

NESTED = {
    "type": "ROW",
    "fields": [{"id": 90, "name": "x", "type": "INT"}, {"id": 91, "name": "y", "type": "STRING"}],
}
NUMBERS = {"type": "ARRAY", "element": "INT"}
PRICES = {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}

COLUMNS: Sequence[Column] = (
    ("id", "INT NOT NULL"),
    ("day", "STRING NOT NULL"),
    ("amount", "INT"),
    ("name", "STRING"),
    ("price", "DECIMAL(10, 2)"),
    ("point", NESTED),
    ("numbers", NUMBERS),
    ("prices", PRICES),
    ("at", "TIMESTAMP(3)"),
)


@dataclass(frozen=True)
class Shape:
    """A kind of table.

    Attributes:
        primary_keys: The primary key; none for an append table.
        partition_keys: The partition key.
        options: Options of the table.
    """

    primary_keys: Sequence[str] = ()
    partition_keys: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def create(self, paimon: PaimonJudge, directory: Path, columns: Sequence[Column] = COLUMNS) -> PaimonTable:
        """Let Paimon create a table of this shape."""
        return paimon.create(
            directory,
            columns,
            primary_keys=self.primary_keys,
            partition_keys=self.partition_keys,
            options=self.options,
        )


_PARTITIONS = ("day",)
_KEY = ("id",)
_KEY_IN_PARTITION = ("id", "day")
_BUCKETS = {"bucket": "2"}
_KEYED_BUCKETS = {**_BUCKETS, "bucket-key": "id"}


def _format(name: str, **others: str) -> dict[str, str]:
    return {"file.format": name} | {key.replace("__", ".").replace("_", "-"): value for key, value in others.items()}


SHAPES: Mapping[str, Shape] = {
    **{f"append/{name}": Shape(options=_format(name)) for name in ("parquet", "orc", "avro")},
    **{f"key/{name}": Shape(_KEY, options=_format(name) | _BUCKETS) for name in ("parquet", "orc", "avro")},
    "append/json": Shape(options=_format("json", file__compression="none")),
    "append/partitioned": Shape((), _PARTITIONS),
    "append/buckets": Shape(options=_KEYED_BUCKETS),
    "append/buckets/partitioned": Shape((), _PARTITIONS, _format("orc") | _KEYED_BUCKETS),
    "append/row-tracking": Shape(options={"row-tracking.enabled": "true"}),
    "append/data-evolution": Shape(options={"row-tracking.enabled": "true", "data-evolution.enabled": "true"}),
    "key/partitioned": Shape(_KEY_IN_PARTITION, _PARTITIONS, _BUCKETS),
    "key/dynamic-bucket": Shape(_KEY),
    "key/deletion-vectors": Shape(_KEY, options=_BUCKETS | {"deletion-vectors.enabled": "true"}),
    "key/deletion-vectors/partitioned": Shape(
        _KEY_IN_PARTITION, _PARTITIONS, _format("avro") | _BUCKETS | {"deletion-vectors.enabled": "true"}
    ),
    **{
        f"key/changelog/{producer}": Shape(_KEY, options=_BUCKETS | {"changelog-producer": producer})
        for producer in ("input", "lookup", "full-compaction")
    },
    "key/first-row": Shape(_KEY, options=_BUCKETS | {"merge-engine": "first-row"}),
    "key/partial-update": Shape(_KEY, options=_BUCKETS | {"merge-engine": "partial-update"}),
    "key/aggregation": Shape(
        _KEY, options=_BUCKETS | {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum"}
    ),
    "key/levels": Shape(_KEY, options=_BUCKETS | {"file.format.per.level": "0:avro,5:orc"}),
}


def values_of(number: int) -> tuple[Any, ...]:
    """Return a row of `COLUMNS` in the order of the columns."""
    return tuple(row_of(number).values())


def row_of(number: int, *, is_empty: bool = False) -> dict[str, Any]:
    """Return a row of `COLUMNS`; an empty one has nulls but for the keys."""
    keys = {"id": number, "day": f"2026-11-{number % 3 + 1:02}"}
    if is_empty:
        return keys | dict.fromkeys((name for name, _ in COLUMNS[2:]), None)
    return keys | {
        "amount": number * 7 - 3,
        "name": f"name {number} ä",
        "price": f"{number}.50",
        "point": (number, f"y{number}"),
        "numbers": [number, None, -number],
        "prices": [(f"k{number}", number), ("none", None)],
        "at": f"2026-11-30T10:11:{number % 60:02}.123",
    }
