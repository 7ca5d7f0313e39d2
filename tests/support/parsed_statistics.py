"""What `stats_parsed` and `partitionValues_parsed` should be, worked out from the JSON texts without deltacli.

Spec: Checkpoint Schema; Per-file Statistics; Partition Value Serialization.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.support.corpus import Document

Path = tuple[str, ...]

TYPES: dict[str, Any] = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
NO_BOUNDS = (pa.bool_(), pa.binary())


class Statistics:
    """The columns of a table that have statistics, by its metaData and protocol as the manifest has them."""

    def __init__(self, metadata: Document, protocol: Document) -> None:
        schema = json.loads(metadata["schema"] or '{"fields":[]}')
        self._properties = metadata["configuration"]
        self._features = protocol["writerFeatures"] or ()
        is_mapped = self._properties.get("delta.columnMapping.mode", "none") != "none"
        self._name = "delta.columnMapping.physicalName" if is_mapped else None
        self._partitions = {column.lower() for column in metadata["partitionColumns"]}
        self._fields = schema["fields"]
        self._order = metadata["partitionColumns"]

    def stats_type(self) -> Any:  # Any: Arrow types
        """The type that `stats_parsed` should have."""
        leaves = self._indexed()
        bounds = [(path, kind) for path, kind in leaves if kind is not None and kind not in NO_BOUNDS]
        fields = [("numRecords", pa.int64())]
        if "deletionVectors" in self._features:
            fields.append(("tightBounds", pa.bool_()))
        if bounds:
            fields += [("minValues", _nested(bounds)), ("maxValues", _nested(bounds))]
        if leaves:
            fields.append(("nullCount", _nested([(path, pa.int64()) for path, _ in leaves])))
        return pa.struct(fields)

    def partition_type(self) -> Any:
        """The type that `partitionValues_parsed` should have; None for a table without partitions."""
        by_name = {field["name"]: field for field in self._fields}
        fields = [(self._physical(by_name[name]), arrow_type(by_name[name]["type"])) for name in self._order]
        return pa.struct(fields) if fields else None

    def _indexed(self) -> list[tuple[Path, Any]]:
        fields = [field for field in self._fields if field["name"].lower() not in self._partitions]
        leaves = list(self._leaves(fields, (), ()))
        named = self._properties.get("delta.dataSkippingStatsColumns")
        if named:
            wanted = [name.strip().strip("`") for name in named.split(",")]
            chosen = [leaf for leaf in leaves if any(f"{leaf[0]}.".startswith(f"{name}.") for name in wanted)]
        else:
            most = int(self._properties.get("delta.dataSkippingNumIndexedCols", "32"))
            chosen = leaves if most < 0 else leaves[:most]
        return [(path, kind) for _, path, kind in chosen]

    def _leaves(self, fields: list[Document], logical: Path, physical: Path) -> Iterator[tuple[str, Path, Any]]:
        for field in fields:
            names, path = (*logical, field["name"]), (*physical, self._physical(field))
            kind = field["type"]
            if isinstance(kind, dict) and kind["type"] == "struct":
                yield from self._leaves(kind["fields"], names, path)
            else:
                yield ".".join(names), path, arrow_type(kind)

    def _physical(self, field: Document) -> str:
        return str(field["metadata"][self._name] if self._name else field["name"])


def arrow_type(kind: Any) -> Any:  # Any: a type of a Delta schema; an Arrow type, None where there is none
    """The Arrow type of a primitive Delta type."""
    if not isinstance(kind, str):
        return None
    if kind.startswith("decimal("):
        precision, scale = kind.removeprefix("decimal(").rstrip(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return TYPES.get(kind)


def _nested(leaves: list[tuple[Path, Any]]) -> Any:
    below: dict[str, list[tuple[Path, Any]]] = {}
    for path, kind in leaves:
        below.setdefault(path[0], []).append((path[1:], kind))
    return pa.struct([(name, rest[0][1] if rest[0][0] == () else _nested(rest)) for name, rest in below.items()])


def parse(text: str | None) -> Document:
    """Statistics as JSON values with exact numbers; empty without a text."""
    found = json.loads(text, parse_float=Decimal) if text else {}
    assert isinstance(found, dict)
    return found


def leaves_of(kind: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The paths and types of the leaves of a struct type."""
    for field in kind:
        if pa.types.is_struct(field.type):
            yield from leaves_of(field.type, (*path, field.name))
        else:
            yield (*path, field.name), field.type


def value_at(value: Any, path: Path) -> Any:  # Any: nested dictionaries
    """The value at a path; None where it ends before."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def typed(value: Any, kind: Any) -> Any:
    """A value of the statistics' JSON, or the text of a partition value, as Arrow gives a value of its type."""
    if value is None or kind == pa.string():
        return value
    if kind == pa.binary():
        return value.encode()
    if kind == pa.bool_():
        return value if isinstance(value, bool) else {"true": True, "false": False}[value.lower()]
    if pa.types.is_date(kind):
        return date.fromisoformat(value)
    if pa.types.is_timestamp(kind):
        moment = datetime.fromisoformat(value)
        if kind.tz is None:
            return moment
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if kind == pa.float32():
        return struct.unpack("f", struct.pack("f", float(value)))[0]
    return float(value) if kind == pa.float64() else int(value)


def same(one: Any, other: Any) -> bool:
    """Equal, or both NaN."""
    return bool(one == other) or (one != one and other != other)  # noqa: PLR0124
