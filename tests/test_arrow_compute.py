"""The short way to Arrow's functions gives what the long way gives, and is short."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pytest

from deltacli.arrow import compute as pc
from tests.cli.support import ROOT, make_sample

TEXT = pa.array(["ab", None, "b"])
NUMBERS = pa.array([1, None, 3])
TRUTH = pa.array([True, False, None])
LISTS = pa.array([["a", "b"], [], None])
FLOATS = pa.array([1.5, None, float("nan"), float("inf")])
MOMENTS = pa.array([1_234_567, None], pa.timestamp("us", tz="UTC"))
MAPS = pa.array([[("k", 1), ("l", 2)], [], None], pa.map_(pa.string(), pa.int64()))
ROWS = pa.StructArray.from_arrays([TEXT, NUMBERS], ["t", "n"])
CALLS: dict[str, tuple[tuple[object, ...], dict[str, object]]] = {
    "abs": ((NUMBERS,), {}),
    "add": ((NUMBERS, 1), {}),
    "all": ((TRUTH,), {}),
    "and_": ((TRUTH, TRUTH), {}),
    "and_kleene": ((TRUTH, pa.array([None, False, False])), {}),
    "and_not": ((TRUTH, TRUTH), {}),
    "ascii_lower": ((TEXT,), {}),
    "any": ((TRUTH,), {}),
    "ascii_lpad": ((TEXT, 4), {"padding": "0"}),
    "ascii_rpad": ((TEXT, 4), {"padding": "0"}),
    "utf8_length": ((TEXT,), {}),
    "local_timestamp": ((MOMENTS,), {}),
    "utf8_lpad": ((TEXT, 4), {"padding": "0"}),
    "utf8_rpad": ((TEXT, 4), {"padding": "0"}),
    "binary_join": ((LISTS, ","), {}),
    "binary_join_element_wise": ((TEXT, "x", TEXT, "-"), {}),
    "binary_length": ((TEXT,), {}),
    "binary_repeat": ((TEXT, 2), {}),
    "binary_reverse": ((TEXT.cast(pa.binary()),), {}),
    "binary_slice": ((TEXT.cast(pa.binary()), 0, 1), {}),
    "bit_wise_and": ((NUMBERS, 1), {}),
    "bit_wise_not": ((NUMBERS,), {}),
    "bit_wise_or": ((NUMBERS, 4), {}),
    "bit_wise_xor": ((NUMBERS, 1), {}),
    "coalesce": ((TEXT, "z"), {}),
    "cumulative_max": ((NUMBERS,), {}),
    "cumulative_sum": ((NUMBERS,), {}),
    "dictionary_encode": ((TEXT,), {}),
    "divide": ((NUMBERS, 2), {}),
    "drop_null": ((TEXT,), {}),
    "ends_with": ((TEXT, "b"), {}),
    "equal": ((NUMBERS, 3), {}),
    "extract_regex": ((TEXT, "(?P<first>.)"), {}),
    "fill_null": ((NUMBERS, 0), {}),
    "filter": ((TEXT, TRUTH), {}),
    "floor": ((FLOATS.slice(0, 2),), {}),
    "floor_temporal": ((MOMENTS,), {"unit": "millisecond"}),
    "greater": ((NUMBERS, 1), {}),
    "greater_equal": ((NUMBERS, 3), {}),
    "if_else": ((TRUTH, TEXT, "no"), {}),
    "index_in": ((TEXT,), {"value_set": pa.array(["b", "ab"])}),
    "indices_nonzero": ((TRUTH,), {}),
    "invert": ((TRUTH,), {}),
    "is_finite": ((FLOATS,), {}),
    "is_in": ((TEXT,), {"value_set": pa.array(["b"])}),
    "is_nan": ((FLOATS,), {}),
    "is_null": ((TEXT,), {}),
    "is_valid": ((TEXT,), {}),
    "less": ((NUMBERS, 2), {}),
    "less_equal": ((NUMBERS, 1), {}),
    "list_element": ((pa.array([["a", "b"], ["c"]]), 0), {}),
    "list_flatten": ((LISTS,), {}),
    "list_parent_indices": ((LISTS,), {}),
    "list_value_length": ((LISTS,), {}),
    "map_lookup": ((MAPS, "k", "first"), {}),
    "match_substring": ((TEXT, "b"), {}),
    "match_substring_regex": ((TEXT, "^a"), {}),
    "max": ((NUMBERS,), {}),
    "max_element_wise": ((NUMBERS, 2), {}),
    "min_element_wise": ((NUMBERS, 2), {}),
    "min": ((NUMBERS,), {}),
    "min_max": ((NUMBERS,), {}),
    "multiply": ((NUMBERS, 2), {}),
    "multiply_checked": ((NUMBERS, 2), {}),
    "negate": ((NUMBERS,), {}),
    "not_equal": ((NUMBERS, 3), {}),
    "or_": ((TRUTH, TRUTH), {}),
    "or_kleene": ((TRUTH, pa.array([None, True, True])), {}),
    "replace_substring": ((TEXT, "b", "bb"), {}),
    "replace_substring_regex": ((TEXT, "^a", "x"), {}),
    "replace_with_mask": ((TEXT, pa.array([True, False, False]), pa.array(["new"])), {}),
    "round": ((pa.array([0.25, 0.35, None]),), {"ndigits": 1, "round_mode": "half_to_even"}),
    "run_end_encode": ((NUMBERS,), {}),
    "scatter": ((TEXT, pa.array([2, 0, 1])), {"max_index": 5}),
    "shift_left": ((NUMBERS, 1), {}),
    "shift_right": ((NUMBERS, 1), {}),
    "sort_indices": ((TEXT,), {}),
    "split_pattern": ((TEXT, "b"), {}),
    "starts_with": ((TEXT, "a"), {}),
    "struct_field": ((ROWS, ["t"]), {}),
    "subtract": ((NUMBERS, 1), {}),
    "sum": ((NUMBERS,), {}),
    "take": ((TEXT, pa.array([2, 0])), {}),
    "unique": ((TEXT,), {}),
    "utf8_rtrim": ((TEXT, "b"), {}),
    "utf8_slice_codeunits": ((TEXT, 1), {}),
    "value_counts": ((TEXT,), {}),
    "xor": ((TRUTH, TRUTH), {}),
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


@pytest.mark.parametrize("is_there", [True, False], ids=["found", "moved"])
def test_random_numbers_are_those_of_pyarrow(is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_there:
        monkeypatch.setattr(pc, "_private", lambda _: None)

    assert pyarrow.compute.random(3, initializer=5).equals(pc.random(3, initializer=5))


def test_functions_come_from_pyarrow_where_a_release_keeps_them_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pc, "_private", lambda _: None)

    assert pyarrow.compute.sum is pc._bound("sum")


def test_every_function_that_is_called_is_one_of_them() -> None:
    texts = [path.read_text() for path in (ROOT / "deltacli").rglob("*.py")]
    called = {name for text in texts if "import compute as pc" in text for name in re.findall(r"\bpc\.(\w+)", text)}

    assert called == pc._FUNCTIONS.keys() | {"cast", "index", "random"}


@pytest.mark.parametrize("is_there", [True, False], ids=["found", "moved"])
def test_a_value_is_found_where_pyarrow_finds_it(is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_there:
        monkeypatch.setattr(pc, "_private", lambda _: None)

    assert [1, -1, 2] == [pc.index(pa.array([3, 1, 2], pa.int8()), value).as_py() for value in (1, 9, 2)]


@pytest.mark.parametrize(
    "command",
    [
        "snapshot {table} --json",
        "snapshot {table} --files --format ndjson",
        "history {table}",
        "read {table} --where 'trip > 1' --format ndjson",
        "changes {table} --from 1 --to 3",
        "validate {table} --level storage",
        "vacuum {table} --dry-run",
        "checkpoint {table} --dry-run",
        "optimize {table} --min-files 2 --yes",
    ],
    ids=lambda command: command.split()[0],
)
def test_a_command_starts_without_the_wrappers(command: str, tmp_path: Path) -> None:
    table = make_sample(tmp_path / "trips")
    words = shlex.split(command.format(table=table))

    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "deltacli", *words], capture_output=True, text=True, check=False
    )

    assert 0 == done.returncode, done.stderr.splitlines()[-1]
    assert "deltacli.core.errors" in done.stderr
    assert not {"pyarrow.compute", "pyarrow.parquet"} & set(done.stderr.split())
