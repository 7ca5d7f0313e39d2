"""Shredded variants are put together as the text says, and what contradicts it is an error."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.arrow.parquet import ParquetReader
from deltacli.core.errors import DataUnreadable
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.types import PrimitiveType, StructField
from tests.support.variants import (
    ARROW,
    NAMES,
    Schema,
    Value,
    decode,
    encode,
    group_type,
    metadata_of,
    random_schema,
    random_value,
    shredded,
)

NO_NAMES = metadata_of(())
VARIANT = [StructField("v", PrimitiveType("variant"), True, {})]
SEVEN = encode(7, ())


def in_file(column: Any) -> ParquetReader:  # Any: an Arrow array
    """A Parquet file of one column, `v`, written without a schema of Arrow."""
    file = io.BytesIO()
    table = pa.table({"v": column})
    pq.write_table(table, file, store_schema=False)
    return ParquetReader(pa.BufferReader(file.getvalue()))


def converted(stored: Any, column: Any) -> Any:
    """An Arrow array as read; `stored` is the schema of its file."""
    [found] = FileColumns("none", lambda field: field.name).find(stored, VARIANT)
    assert found is not None
    return column if found.convert is None else found.convert(column)


def read(column: Any, *, rows: int = 5) -> list[Mapping[str, bytes] | None]:
    """The variants of a column, as read from a file in batches."""
    file = in_file(column)
    values: list[Mapping[str, bytes] | None] = []
    for batch in file.read_columns(rows, 0, ["v"]):
        values += converted(file.schema_arrow, batch.column(0)).to_pylist()
    return values


def column_of(values: Sequence[Value], schema: Schema, names: Sequence[str] = NAMES) -> Any:
    """A column of variants, "missing" for a null, as a writer shreds them."""
    rows = [
        None if value == "missing" else shredded(value, schema, names) | {"metadata": metadata_of(names)}
        for value in values
    ]
    return pa.array(rows, group_type(schema, is_top=True))


@pytest.mark.parametrize("seed", range(40))
def test_random_variants_are_the_same_after_shredding(seed: int) -> None:
    draw = random.Random(seed)
    values = [draw.choice(("missing", random_value(draw, tuple(ARROW)))) for _ in range(40)]
    schema = random_schema(draw, tuple(ARROW))

    assert values == [decode(one) for one in read(column_of(values, schema))]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.bool_(), True, "04"),
        (pa.bool_(), False, "08"),
        (pa.int8(), -1, "0cff"),
        (pa.int16(), -2, "10feff"),
        (pa.int32(), 3, "1403000000"),
        (pa.int64(), -4, "18fcffffffffffffff"),
        (pa.float64(), 1.5, "1c000000000000f83f"),
        (pa.decimal128(9, 2), Decimal("-1.50"), "20026affffff"),
        (pa.decimal128(18, 3), Decimal("1.5"), "2403dc05000000000000"),
        (pa.decimal128(38, 0), Decimal(-1), "2800" + "ff" * 16),
        (pa.date32(), 1, "2c01000000"),
        (pa.timestamp("us", "UTC"), 2, "300200000000000000"),
        (pa.timestamp("us"), -1, "34ffffffffffffffff"),
        (pa.float32(), 1.5, "380000c03f"),
        (pa.binary(), b"", "3c00000000"),
        (pa.string(), "é", "09c3a9"),
        (pa.string(), "x" * 64, "4040000000" + "78" * 64),
        (pa.time64("us"), 3, "440300000000000000"),
        (pa.timestamp("ns", "UTC"), 4, "480400000000000000"),
        (pa.timestamp("ns"), 5, "4c0500000000000000"),
    ],
    ids=str,
)
def test_a_typed_value_keeps_its_type(kind: Any, value: Any, expected: str) -> None:
    group = {"metadata": NO_NAMES, "value": None, "typed_value": value}

    found = read(pa.array([group, None, group], top(kind)))

    assert [bytes.fromhex(expected), None, bytes.fromhex(expected)] == [one and one["value"] for one in found]


def test_a_typed_value_may_be_a_uuid() -> None:
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(range(16))], pa.binary(16)))
    parts = [pa.array([NO_NAMES], pa.binary()), pa.nulls(1, pa.binary()), uuids]

    [found] = read(pa.StructArray.from_arrays(parts, fields=list(top(pa.uuid()))))

    assert found is not None
    assert b"\x50" + bytes(range(16)) == found["value"]


def test_a_name_that_the_metadata_lacks_is_added() -> None:
    values = [{"a": 1, "b": [2]}, {"b": []}, {}]
    rows = [shredded(value, {"a": "int32", "b": ["int32"]}, ()) | {"metadata": metadata_of(["z"])} for value in values]

    found = read(pa.array(rows, group_type({"a": "int32", "b": ["int32"]}, is_top=True)))

    assert values == [decode(one) for one in found]
    assert metadata_of(["z"]) == (found[2] or {})["metadata"]


def top(typed: Any) -> Any:
    """The type of a shredded variant whose typed value has an Arrow type."""
    fields = [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary())]
    return pa.struct([*fields, pa.field("typed_value", typed)])


def group(typed: Any, *, nullable: bool = False) -> Any:
    """A group of a value and a typed value, as a field `a`."""
    return pa.field("a", pa.struct([("value", pa.binary()), ("typed_value", typed)]), nullable=nullable)


OBJECT = pa.struct([group(pa.int64())])
FIVE = {"a": {"value": None, "typed_value": 5}}
ELEMENTS = pa.list_(pa.field("element", group(pa.int64()).type, nullable=False))


@pytest.mark.parametrize(
    ("kind", "value", "typed", "reason"),
    [
        (pa.int64(), None, None, "both its value and its typed value are null"),
        (pa.int64(), SEVEN, 5, "both a value and a typed value"),
        (OBJECT, encode({"a": 7}, ["a"]), FIVE, "a shredded field is in its value, too"),
        (OBJECT, encode({"b": 7}, ["a", "b"]), FIVE, "a name that is not in the metadata"),
        (OBJECT, SEVEN, FIVE, "its value is not an object"),
        (OBJECT, encode({"a": 7}, ["a"])[:-1], FIVE, "ends too early"),
        (OBJECT, None, {"a": {"value": SEVEN, "typed_value": 5}}, "both a value and a typed value"),
        (pa.struct([group(pa.int64(), nullable=True)]), None, {"a": None}, "null instead of missing"),
        (ELEMENTS, None, [{"value": None, "typed_value": None}], "an element of an array is missing"),
        (ELEMENTS, SEVEN, [], "both a value and a typed value"),
        (pa.uint32(), None, 1, "not a type of variants"),
        (pa.float16(), None, 1.0, "not a type of variants"),
        (pa.binary(16), None, b"x" * 16, "not a type of variants"),
        (pa.timestamp("ms", "UTC"), None, 1, "not a type of variants"),
        (pa.struct([("a", pa.int64())]), None, {"a": 1}, "is not a group"),
        (pa.struct([("a", pa.struct([("x", pa.int64())]))]), None, {"a": {"x": 1}}, "has the fields x"),
    ],
    ids=str,
)
def test_what_contradicts_the_text_is_an_error(kind: Any, value: bytes | None, typed: Any, reason: str) -> None:
    row = {"metadata": metadata_of(["a"]), "value": value, "typed_value": typed}

    with pytest.raises(DataUnreadable, match=reason) as raised:
        read(pa.array([row], top(kind)))

    assert "data.variant-shape" == raised.value.code
    assert "v" == raised.value.facts["column"]


def test_an_unshredded_variant_without_its_value_is_an_error() -> None:
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])

    with pytest.raises(DataUnreadable, match="its metadata or its value is null"):
        read(pa.array([{"metadata": NO_NAMES, "value": None}], kind))


def test_damaged_bytes_are_an_error_or_another_value_but_never_a_crash() -> None:
    draw = random.Random(7)
    whole = encode({"b": [1, {"Z": "x"}], "Z": Decimal("1.5"), "": b"y" * 70}, NAMES)
    for _ in range(2000):
        damaged = bytearray(whole if draw.random() < 0.5 else metadata_of(NAMES))
        damaged[draw.randrange(min(len(damaged), 60))] = draw.randrange(256)
        is_value = bytes(damaged[:1]) != b"\xc1"
        row = {"metadata": metadata_of(NAMES) if is_value else bytes(damaged), "typed_value": FIVE}
        with contextlib.suppress(DataUnreadable):
            column = pa.array([row | {"value": bytes(damaged) if is_value else whole}], top(OBJECT))
            converted(pa.schema([("v", column.type)]), column)
