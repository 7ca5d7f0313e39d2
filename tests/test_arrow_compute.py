"""The short way to Arrow's functions gives what the long way gives, and is short."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pyarrow.compute
import pytest

from deltacli import arrow_compute as pc
from tests.support.builder import TableBuilder

TEXT = pa.array(["ab", None, "b"])
NUMBERS = pa.array([1, None, 3])
TRUTH = pa.array([True, False, None])
LISTS = pa.array([["a", "b"], [], None])
ROWS = pa.StructArray.from_arrays([TEXT, NUMBERS], ["t", "n"])
CALLS: dict[str, tuple[tuple[object, ...], dict[str, object]]] = {
    "abs": ((NUMBERS,), {}),
    "add": ((NUMBERS, 1), {}),
    "all": ((TRUTH,), {}),
    "and_": ((TRUTH, TRUTH), {}),
    "and_kleene": ((TRUTH, pa.array([None, False, False])), {}),
    "and_not": ((TRUTH, TRUTH), {}),
    "any": ((TRUTH,), {}),
    "ascii_is_decimal": ((TEXT,), {}),
    "binary_join": ((LISTS, ","), {}),
    "binary_join_element_wise": ((TEXT, "x", TEXT, "-"), {}),
    "binary_length": ((TEXT,), {}),
    "binary_slice": ((TEXT.cast(pa.binary()), 0, 1), {}),
    "bit_wise_and": ((NUMBERS, 1), {}),
    "coalesce": ((TEXT, "z"), {}),
    "dictionary_encode": ((TEXT,), {}),
    "divide": ((NUMBERS, 2), {}),
    "drop_null": ((TEXT,), {}),
    "ends_with": ((TEXT, "b"), {}),
    "equal": ((NUMBERS, 3), {}),
    "extract_regex": ((TEXT, "(?P<first>.)"), {}),
    "fill_null": ((NUMBERS, 0), {}),
    "filter": ((TEXT, TRUTH), {}),
    "find_substring": ((TEXT, "b"), {}),
    "greater": ((NUMBERS, 1), {}),
    "greater_equal": ((NUMBERS, 3), {}),
    "if_else": ((TRUTH, TEXT, "no"), {}),
    "indices_nonzero": ((TRUTH,), {}),
    "index_in": ((TEXT,), {"value_set": pa.array(["b", "ab"])}),
    "invert": ((TRUTH,), {}),
    "is_in": ((TEXT,), {"value_set": pa.array(["b"])}),
    "is_null": ((TEXT,), {}),
    "is_valid": ((TEXT,), {}),
    "less": ((NUMBERS, 2), {}),
    "less_equal": ((NUMBERS, 1), {}),
    "list_element": ((pa.array([["a", "b"], ["c"]]), 0), {}),
    "list_value_length": ((LISTS,), {}),
    "match_substring_regex": ((TEXT, "^a"), {}),
    "max": ((NUMBERS,), {}),
    "min": ((NUMBERS,), {}),
    "min_max": ((NUMBERS,), {}),
    "multiply": ((NUMBERS, 2), {}),
    "not_equal": ((NUMBERS, 3), {}),
    "or_": ((TRUTH, TRUTH), {}),
    "or_kleene": ((TRUTH, pa.array([None, True, True])), {}),
    "replace_substring": ((TEXT, "b", "bb"), {}),
    "replace_substring_regex": ((TEXT, "^a", "x"), {}),
    "replace_with_mask": ((TEXT, pa.array([True, False, False]), pa.array(["new"])), {}),
    "run_end_encode": ((NUMBERS,), {}),
    "scatter": ((TEXT, pa.array([2, 0, 1])), {"max_index": 5}),
    "shift_right": ((NUMBERS, 1), {}),
    "sort_indices": ((TEXT,), {}),
    "split_pattern": ((TEXT, "b"), {}),
    "starts_with": ((TEXT, "a"), {}),
    "struct_field": ((ROWS, ["t"]), {}),
    "subtract": ((NUMBERS, 1), {}),
    "sum": ((NUMBERS,), {}),
    "take": ((TEXT, pa.array([2, 0])), {}),
    "unique": ((TEXT,), {}),
    "utf8_slice_codeunits": ((TEXT, 1), {}),
    "value_counts": ((TEXT,), {}),
}


def test_every_function_is_compared() -> None:
    assert set(pc._FUNCTIONS) == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_a_function_gives_what_pyarrow_gives(name: str) -> None:
    arguments, settings = CALLS[name]

    assert getattr(pyarrow.compute, name)(*arguments, **settings).equals(getattr(pc, name)(*arguments, **settings))


@pytest.mark.parametrize("is_there", [True, False], ids=["found", "moved"])
def test_a_cast_gives_what_pyarrow_gives(is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_there:
        monkeypatch.setattr(pc, "_private", lambda _: None)

    assert pa.array(["1", None]).equals(pc.cast(pa.array([1, None]), pa.string()))
    assert TEXT.cast(pa.binary()).cast(pa.string()).equals(pc.cast(TEXT.cast(pa.binary()), pa.string(), safe=False))
    with pytest.raises(pa.ArrowInvalid):
        pc.cast(pa.array([300]), pa.int8())


def test_functions_come_from_pyarrow_where_a_release_keeps_them_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pc, "_private", lambda _: None)

    assert pyarrow.compute.sum is pc._bound("sum")


def test_a_snapshot_starts_without_the_wrappers(
    table_builder: TableBuilder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = table_builder.commits(12).checkpoint(10).write(tmp_path_factory.mktemp("t"))
    checked = [sys.executable, "-X", "importtime", "-m", "deltacli", "snapshot", str(table), "--json"]

    done = subprocess.run(checked, capture_output=True, text=True, check=True)

    assert "pyarrow.parquet" in done.stderr
    assert "pyarrow.compute" not in done.stderr
