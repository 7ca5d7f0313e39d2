"""Files of thousands of columns: what each column costs does not depend on how many there are."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.file_columns import FileColumns, number_leaves
from deltacli.delta.schema.types import PrimitiveType, StructField, StructType
from deltacli.delta.stats.collect import Claimed, NestedValues, StatisticsCollector, StatisticsOfRows
from deltacli.delta.stats.schema import StatSchema

NARROW, WIDE = 40, 400


def rows_of(columns: int, *, is_nested: bool) -> pa.RecordBatch:
    fields = {f"c{number}": pa.array([number, None]) for number in range(columns)}
    if is_nested:
        return pa.record_batch({"s": pa.StructArray.from_arrays(list(fields.values()), names=list(fields))})
    return pa.record_batch(fields)


def config_of(columns: int, *, is_nested: bool) -> TableConfiguration:
    fields = tuple(StructField(f"c{number}", PrimitiveType("long"), True, {}) for number in range(columns))
    if is_nested:
        fields = (StructField("s", StructType(fields), True, {}),)
    return TableConfiguration(schema=StructType(fields))


def paths_of(columns: int, *, is_nested: bool) -> list[tuple[str, ...]]:
    return [("s", f"c{number}") if is_nested else (f"c{number}",) for number in range(columns)]


def compute(columns: int, *, is_nested: bool) -> None:
    """Compute the statistics of all columns."""
    rows = rows_of(columns, is_nested=is_nested)
    every = [(path, PrimitiveType("long")) for path in paths_of(columns, is_nested=is_nested)]
    collector = StatisticsCollector(config_of(columns, is_nested=is_nested), rows.schema, columns=every)
    collector.take(rows)
    collector.text()


def compare(columns: int, *, is_nested: bool) -> None:
    """Compare the statistics of all columns with rows, as `validate` does."""
    schema = StatSchema(config_of(columns, is_nested=is_nested))
    claimed = []
    for path in paths_of(columns, is_nested=is_nested):
        column = schema.column(path)
        assert column is not None
        claimed.append(Claimed(column, path, path))
    checks = StatisticsOfRows(claimed)
    checks.take(rows_of(columns, is_nested=is_nested))
    checks.answer()


def find(columns: int, *, is_nested: bool) -> None:
    """Find the leaf of every column."""
    file_schema = rows_of(columns, is_nested=is_nested).schema
    schema = StatSchema(config_of(columns, is_nested=is_nested))
    found = FileColumns("none", lambda field: field.name)
    for path in paths_of(columns, is_nested=is_nested):
        fields = schema.fields_along(path)
        assert fields is not None
        assert found.leaf(file_schema, fields) is not None


def calls_of(act: Callable[[], None]) -> Counter[str]:
    """Count the calls of functions, by their names."""
    calls = Counter[str]()

    def note(frame: FrameType, event: str, argument: Any) -> None:  # Any: of every event another thing
        if event in ("call", "c_call"):
            calls[frame.f_code.co_name if event == "call" else argument.__name__] += 1

    before = sys.getprofile()
    gc.collect()
    gc.disable()  # or the finalizers of what other tests left are counted
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("act", [compute, compare, find])
def test_a_column_costs_the_same_in_a_wide_file(act: Callable[..., None], is_nested: bool) -> None:
    act(2, is_nested=is_nested)  # what is imported or cached once

    narrow, wide = (calls_of(lambda: act(columns, is_nested=is_nested)) for columns in (NARROW, WIDE))  # noqa: B023

    assert wide.total() < 1.3 * narrow.total() * WIDE / NARROW


class Rows:
    """Rows with one struct, which counts how often it is taken apart."""

    def __init__(self, columns: int) -> None:
        self._struct = rows_of(columns, is_nested=True).column("s")
        self.type = self._struct.type
        self.count = 0

    def column(self, _name: str) -> Rows:
        return self

    def flatten(self) -> Any:
        self.count += 1
        return self._struct.flatten()


def test_a_struct_is_taken_apart_once() -> None:
    """
    Arrow visits all fields of a struct for each that it is asked for.
    """
    rows: Any = Rows(WIDE)
    values = NestedValues(rows)

    assert [number for number in range(WIDE) if values.at(("s", f"c{number}"))[0].as_py() != number] == []
    assert 1 == rows.count


def test_fields_of_a_null_struct_are_null() -> None:
    struct = pa.array([{"a": {"b": 1}}, None, {"a": None}])
    values = NestedValues(pa.record_batch({"s": struct}).slice(1))

    assert [None, None] == values.at(("s", "a", "b")).to_pylist()


def test_leaves_are_numbered_as_parquet_does() -> None:
    inside = pa.struct([("k", pa.int64()), ("l", pa.list_(pa.int64())), ("n", pa.struct([("x", pa.int64())]))])
    schema = pa.schema([("m", pa.map_(pa.string(), pa.int64())), ("s", inside), ("a.b", pa.int64())])

    expected = {("m",): 0, ("s",): 2, ("s", "k"): 2, ("s", "l"): 3, ("s", "n"): 4, ("s", "n", "x"): 4, ("a.b",): 5}
    assert expected == number_leaves(schema)
