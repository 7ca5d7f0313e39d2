"""Statistics, partition values and Parquet files as writers of all kinds make them from the rows of a file."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from deltacli.delta.predicate.row_groups import PredicateLeaf
from deltacli.delta.schema.types import decimal_parts
from tests.support.predicates import (
    DAY,
    FLOATS,
    WHOLE,
    Leaf,
    Maker,
    Row,
    array_of,
    day_text,
    moment_text,
    shortest_single,
    single,
)

TIE_BREAKERS = ("\U0010ffff", "\uffff", "\ufffd", "\u07ff", "\x7f")
ODD_TEXTS = (None, "", "{}", "null", '{"numRecords":1', "[]", ' {"numRecords":0,"nullCount":{}} ')


def stats_text(maker: Maker, rows: list[Row], leaves: list[Leaf], physical: Mapping[str, str]) -> str | None:
    """The statistics of a file with these rows."""
    if maker.chance(0.08):
        return maker.random.choice(ODD_TEXTS)
    is_wide = maker.chance(0.3)
    parts: dict[str, dict[tuple[str, ...], str]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for leaf in leaves:
        path = tuple(physical.get(name, name) for name in leaf.path)
        ends = bounds(maker, leaf, rows, is_wide=is_wide)
        for part, end in zip(("minValues", "maxValues"), ends, strict=True):
            if end is not None and maker.chance(0.92):
                parts[part][path] = end
        if maker.chance(0.9):
            parts["nullCount"][path] = str(null_count(maker, leaf, rows, is_wide=is_wide))
    fields = [f'"numRecords":{len(rows)}'] if maker.chance(0.95) else []
    fields += ['"tightBounds":false'] if is_wide else []
    fields += [f'"{part}":{nested(values)}' for part, values in parts.items()]
    if maker.chance(0.1):
        fields.append('"other":{"é":[1,{}]}')
    return "{" + ",".join(fields) + "}"


def nested(values: Mapping[tuple[str, ...], str]) -> str:
    """JSON by paths of at most two names."""
    tops: dict[str, dict[str, str] | str] = {}
    for path, text in values.items():
        if len(path) == 1:
            tops[path[0]] = text
        else:
            below = tops.setdefault(path[0], {})
            assert isinstance(below, dict)
            below[path[1]] = text
    shown = {
        name: text
        if isinstance(text, str)
        else "{" + ",".join(f"{json.dumps(key)}:{one}" for key, one in text.items()) + "}"
        for name, text in tops.items()
    }
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{text}" for name, text in shown.items()) + "}"


def null_count(maker: Maker, leaf: Leaf, rows: list[Row], *, is_wide: bool) -> int:
    nulls = sum(row[leaf.path] is None for row in rows)
    if len(leaf.path) == 2 and maker.chance(0.5):
        nulls = sum(row[leaf.path] is None and row[("s",)] for row in rows)  # a null struct is not counted
    if is_wide and len(rows) > 1 and maker.chance(0.5):
        return maker.random.randint(1, len(rows) - 1)
    return nulls


def bounds(maker: Maker, leaf: Leaf, rows: list[Row], *, is_wide: bool) -> tuple[str | None, str | None]:
    """The bounds of a column as JSON, None where the writer has none."""
    values = [row[leaf.path] for row in rows if row[leaf.path] is not None]
    if not values or leaf.type_name == "binary":
        return None, None
    name = leaf.type_name
    if name in FLOATS:
        return float_bounds(maker, name, values)
    if name == "boolean":
        return (str(min(values)).lower(), str(max(values)).lower()) if maker.chance(0.3) else (None, None)
    if name == "string":
        return string_bounds(maker, values)
    low, high = min(values), max(values)
    if name in WHOLE:
        if is_wide and -100 < low and high < 100:
            low, high = low - 2, high + 2
        return (str(low), f"{high}.0") if maker.chance(0.03) else (str(low), str(high))
    if decimal_parts(name):
        style = maker.random.randrange(3)
        return decimal_bound(style, low), decimal_bound(style, high)
    return tuple(time_bound(maker, name, end) for end in (low, high))  # type: ignore[return-value]


def decimal_bound(style: int, value: Decimal) -> str:
    return (f"{value:f}", repr(float(value)), f'"{value}"')[style]


def float_bounds(maker: Maker, name: str, values: list[float]) -> tuple[str | None, str | None]:
    has_nan = any(math.isnan(value) for value in values)
    numbers = [value for value in values if not math.isnan(value)]
    if not numbers:
        return ('"NaN"', '"NaN"') if maker.chance(0.5) else (None, None)
    was_float = name == "float" or (all(single(value) == value for value in numbers) and maker.chance(0.5))

    def spelled(value: float) -> str:
        if math.isinf(value):
            return '"Infinity"' if value > 0 else '"-Infinity"'
        return shortest_single(value) if was_float else repr(value)

    high = '"NaN"' if has_nan and maker.chance(0.5) else spelled(max(numbers))
    return spelled(min(numbers)), high


def string_bounds(maker: Maker, values: list[str]) -> tuple[str, str]:
    low, high = (end(values, key=lambda value: value.encode()) for end in (min, max))
    length = maker.random.choice((1, 2, 3, 32, 100))
    if len(high) > length:
        marks = [mark for mark in TIE_BREAKERS if (high[:length] + mark).encode() >= high.encode()]
        high = high[:length] + (maker.random.choice(marks) if marks and maker.chance(0.6) else "")
    return json.dumps(low[:length], ensure_ascii=maker.chance(0.5)), json.dumps(high, ensure_ascii=maker.chance(0.5))


def time_bound(maker: Maker, name: str, value: int) -> str:
    if name == "date":
        return f'"{day_text(value)}"'
    if maker.chance(0.7):
        towards_zero = value < 0 and maker.chance(0.5)
        value = -(-value // 1000) * 1000 if towards_zero else value // 1000 * 1000
    if name == "timestamp_ntz":
        if value % DAY == 0 and maker.chance(0.5):
            return f'"{day_text(value // DAY)}"'
        return f'"{moment_text(value, "T")}"'
    style = maker.random.randrange(6)
    if style == 0:
        return f'"{moment_text(value + 7_200_000_000, " ")}"'  # in the writer's zone, which nobody knows
    if style == 1:
        return f'"{moment_text(value + 7_200_000_000, "T")}+02:00"'
    if style == 2:
        return f'"{moment_text(value + 3_600_000_000, " ")} Europe/Berlin"'
    return f'"{moment_text(value, "T")}Z"'


# -- partition values -------------------------------------------------------------------------------------------------


def partition_text(maker: Maker, name: str, value: Any) -> str | None:
    """The text of a partition value."""
    if value is None:
        return maker.random.choice((None, ""))
    if value == "":
        return ""
    if name in FLOATS:
        if math.isnan(value) or math.isinf(value):
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        return shortest_single(value) if name == "float" else repr(value)
    match name:
        case "boolean":
            return str(value).lower()
        case "date":
            return day_text(value)
        case "timestamp" if maker.chance(0.5):
            return moment_text(value, "T") + "Z"
        case "timestamp_ntz" if value % DAY == 0 and maker.chance(0.5):
            return day_text(value // DAY)
        case "timestamp" | "timestamp_ntz":
            return moment_text(value)
        case "string":
            return str(value)
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


# -- files ------------------------------------------------------------------------------------------------------------


def parquet_file(
    maker: Maker, rows: list[Row], leaves: list[Leaf]
) -> tuple[bytes, dict[tuple[str, ...], PredicateLeaf]]:
    """A file of columns, some in the narrower type that they had when it was written, and where its leaves are."""
    arrays: dict[str, Any] = {}
    below: dict[str, Any] = {}
    for leaf in leaves:
        column = narrowed(maker, leaf.type_name, array_of(leaf.type_name, [row[leaf.path] for row in rows]))
        (arrays if len(leaf.path) == 1 else below)[leaf.path[-1]] = column
    if below:
        mask = pa.array([not row[("s",)] for row in rows], pa.bool_())
        arrays["s"] = pa.StructArray.from_arrays(list(below.values()), list(below), mask=mask)
    sink = io.BytesIO()
    pa.parquet.write_table(
        pa.table(arrays),
        sink,
        row_group_size=maker.random.choice((2, 5, 100)),
        store_decimal_as_integer=maker.chance(0.5),
        use_deprecated_int96_timestamps=maker.chance(0.2),
        write_statistics=maker.chance(0.95),
    )
    paths = [leaf.path for leaf in leaves if len(leaf.path) == 1] + [
        leaf.path for leaf in leaves if len(leaf.path) == 2
    ]
    found: dict[tuple[str, ...], PredicateLeaf] = {}
    for index, path in enumerate(paths):
        kind = arrays[path[0]].type if len(path) == 1 else below[path[1]].type
        found[path] = PredicateLeaf(index, kind)
    return sink.getvalue(), found


def narrowed(maker: Maker, name: str, column: Any) -> Any:
    """A column in a type that may become its own, where the values fit and chance will have it."""
    narrower: dict[str, Any] = {
        "long": pa.int32(),
        "integer": pa.int16(),
        "double": pa.float32(),
        "timestamp_ntz": pa.date32(),
    }
    kind = narrower.get(name)
    parts = decimal_parts(name)
    if parts and parts[0] - parts[1] >= 10:
        kind = pa.int32() if maker.chance(0.5) else pa.decimal128(parts[0] - 1, max(parts[1] - 1, 0))
    if kind is None or maker.chance(0.4):
        return column
    try:
        cast = column.cast(kind)
        return cast if cast.cast(column.type).equals(column) else column
    except pa.ArrowException:
        return column


def is_partitionable(name: str) -> bool:
    return name != "binary"
