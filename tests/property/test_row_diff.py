"""Rows that differ by key, against a model in Python and against DuckDB, in memory and in parts on disk."""

from __future__ import annotations

import math
import struct
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.engine import base, embedded
from deltacli.operations.diff import TableDiff
from deltacli.work.rows import row_comparison
from tests.support.effort import examples
from tests.support.reading import open_at
from tests.support.rows import parquet_bytes, schema_of, table_of

OTHER_NAN = struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf8\xff")[0]
FLOATS = st.sampled_from([None, 0.0, -0.0, 1.5, math.nan, OTHER_NAN, math.inf])
TEXTS = st.sampled_from([None, "", "a", "b", "ab", "x" * 300])
KINDS = pa.schema(
    [
        ("k", pa.int64()),
        ("f", pa.float64()),
        ("t", pa.string()),
        ("v", pa.float64()),
        ("l", pa.list_(pa.float64())),
        ("n", pa.int32()),
    ]
)
ROW = st.fixed_dictionaries(
    {
        "k": st.one_of(st.none(), st.integers(0, 3)),
        "f": FLOATS,
        "t": TEXTS,
        "v": FLOATS,
        "l": st.one_of(st.none(), st.lists(FLOATS, max_size=2)),
        "n": st.one_of(st.none(), st.integers(-2, 2)),
    }
)
SIDE = st.lists(ROW, max_size=12)
Row = Mapping[str, Any]  # Any: values of a row


def plain(value: Any) -> Any:
    """Return what is equal for values that are equal to Spark."""
    if isinstance(value, list):
        return tuple(map(plain, value))
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def grouped(side: Sequence[Row], key: Sequence[str]) -> dict[Any, Counter[Any]]:
    found: dict[Any, Counter[Any]] = defaultdict(Counter)
    for row in side:
        rest = tuple(plain(value) for name, value in row.items() if name not in key)
        found[tuple(plain(row[name]) for name in key)][rest] += 1
    return found


def expected(before: Sequence[Row], after: Sequence[Row], key: Sequence[str]) -> dict[Any, str]:
    old, new = grouped(before, key), grouped(after, key)
    changes = dict.fromkeys(new.keys() - old.keys(), "add") | dict.fromkeys(old.keys() - new.keys(), "remove")
    return changes | {one: "change" for one in old.keys() & new.keys() if old[one] != new[one]}


def compared(before: Sequence[Row], after: Sequence[Row], key: Sequence[str], kinds: pa.Schema = KINDS) -> TableDiff:
    sides = []
    for rows, schema in ((before, kinds), (after, KINDS)):
        table = pa.Table.from_pylist(list(rows), schema)
        parts = {f"{place}.parquet": parquet_bytes(table.slice(place * 5, 5)) for place in range(3)}
        sides.append(open_at(table_of(parts, schema_of(table)).in_memory()))
    return sides[0].diff(other=sides[1], rows=True, key=key)


def check(before: Sequence[Row], after: Sequence[Row], key: Sequence[str]) -> None:
    found = compared(before, after, key).rows
    assert found is not None

    batches = list(found.changes())

    changes = {tuple(plain(row[name]) for name in key): row["change"] for batch in batches for row in batch.to_pylist()}
    wanted = expected(before, after, key)
    assert wanted == changes
    counts, kinds = found.counts, Counter(wanted.values())
    assert (kinds["add"], kinds["remove"], kinds["change"]) == (counts.added, counts.removed, counts.changed)
    old, new = grouped(before, key), grouped(after, key)
    assert len(old.keys() | new.keys()) == counts.unchanged + len(wanted)
    repeated = {one for side in (old, new) for one, rows in side.items() if rows.total() > 1}
    assert len(repeated) == counts.repeated
    assert found.is_equal is not bool(wanted)


@examples(40)
@given(SIDE, SIDE, st.sampled_from([("k",), ("f",), ("t", "k"), ("k", "f", "t", "v", "n")]), st.booleans())
def test_keys_that_differ_are_those_of_the_model(
    before: list[Row], after: list[Row], key: Sequence[str], in_parts: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if in_parts:
            patch.setattr(base, "GROUP_BYTES", 64)
            patch.setattr(row_comparison, "_BUFFERED_BYTES", 100)
            patch.setattr(embedded, "_MOST_GROUPS", 4)
        check(before, after + before[::2], key)


@examples(15)
@given(SIDE, SIDE)
def test_keys_that_differ_are_those_of_duckdb(before: list[Row], after: list[Row]) -> None:
    """DuckDB compares floats as Spark does: NaN equals NaN, and 0.0 equals -0.0."""
    once = [[*{(row["k"], plain(row["f"])): row for row in side}.values()] for side in (before, after)]
    tables = [pa.Table.from_pylist(list(side), KINDS) for side in once]
    found = compared(once[0], once[1], ["k", "f"]).rows
    assert found is not None

    with duckdb.connect() as session:
        session.register("a", tables[0])
        session.register("b", tables[1])
        on = "a.k is not distinct from b.k and a.f is not distinct from b.f"
        same = " and ".join(f"a.{name} is not distinct from b.{name}" for name in ("t", "v", "l", "n"))
        (counts,) = session.sql(
            f"""select (select count(*) from b where not exists (select 1 from a where {on})),
            (select count(*) from a where not exists (select 1 from b where {on})),
            (select count(*) from a join b on {on} where not ({same})),
            (select count(*) from a join b on {on} where {same})"""
        ).fetchall()

    ours = found.counts
    assert counts == (ours.added, ours.removed, ours.changed, ours.unchanged)


def test_a_wider_type_has_the_same_values_and_the_columns_that_differ_are_named() -> None:
    rows = [{"k": place, "f": 1.0, "t": "a", "v": 0.5, "l": [1.0], "n": -place} for place in range(6)]
    narrow = pa.schema(
        [*[field for field in KINDS if field.name not in ("k", "n")], ("k", pa.int32()), ("n", pa.int16())]
    )
    after = [dict(row) for row in rows]
    after[2] |= {"t": "b", "n": 7}
    after[3] |= {"t": None}

    same = compared(rows, rows, ["k"], narrow).rows
    other = compared(rows, after, ["K"], narrow).rows

    assert same is not None
    assert other is not None
    assert (True, 6) == (same.is_equal, same.counts.unchanged)
    named = {row["k"]: row["columns"] for batch in other.changes() for row in batch.to_pylist()}
    assert {2: {"t", "n"}, 3: {"t"}} == {key: set(text.split(",")) for key, text in named.items()}
    assert {"t": 2, "n": 1} == other.as_json()["columns"]
