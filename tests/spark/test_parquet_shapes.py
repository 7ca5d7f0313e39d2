"""Shapes of files, without Spark."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import partial

import pyarrow as pa

from deltacli.delta.schema.types import PrimitiveType, StructField
from deltacli.spark.parquet_schema import FileShapes


def calls_of(action: Callable[[], object]) -> int:
    """How many functions an action calls. The garbage of other tests is not collected meanwhile: it calls some, too."""
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def finder() -> FileShapes:
    return FileShapes("none", lambda column: column.name, is_case_sensitive=False)


def columns_of(count: int) -> tuple[StructField, ...]:
    return tuple(StructField(f"c{number}", PrimitiveType("long"), True, {}) for number in range(count))


def schema_of(count: int) -> pa.Schema:
    return pa.schema([(column.name, pa.int64()) for column in columns_of(count)])


def test_the_shape_of_a_file_takes_time_in_proportion_to_its_columns() -> None:
    few, many = (
        calls_of(partial(finder().shape_of, schema_of(count), frozenset(), columns_of(count))) for count in (200, 800)
    )

    assert many < 4.5 * few


def test_files_that_are_alike_have_one_shape() -> None:
    found, columns = finder(), columns_of(800)
    first = found.shape_of(schema_of(800), frozenset(), columns)
    schema = schema_of(800)

    assert 20 > calls_of(lambda: found.shape_of(schema, frozenset(), columns))
    assert first is found.shape_of(schema, frozenset(), columns)
    assert first != found.shape_of(schema.set(0, pa.field("c0", pa.int32())), frozenset(), columns)
