"""The digest that proves a file: every value counts, how rows are cut into chunks does not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from deltacli.delta.encoding.digests import RowDigest
from tests.support.effort import examples

TEXT = st.text(max_size=4)
NUMBER = st.integers(-3, 3)
VALUES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {  # Any: Arrow types, and values of them
    "text": (pa.string(), TEXT),
    "binary": (pa.binary(), st.binary(max_size=3)),
    "long": (pa.int64(), NUMBER),
    "byte": (pa.int8(), NUMBER),
    "flag": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates()),
    "moment": (pa.timestamp("us", tz="UTC"), NUMBER),
    "decimal": (pa.decimal128(9, 2), st.integers(-999, 999).map(lambda cents: Decimal(cents) / 100)),
    "double": (pa.float64(), NUMBER.map(float)),
    "texts": (pa.list_(pa.string()), st.lists(st.none() | TEXT, max_size=3)),
    "map": (pa.map_(pa.string(), pa.string()), st.lists(st.tuples(TEXT, st.none() | TEXT), max_size=3)),
}
INNER = pa.struct([(name, kind) for name, (kind, _) in VALUES.items()])
SCHEMA = pa.schema(
    [("add", pa.struct([("path", pa.string()), ("inner", INNER)])), ("txn", pa.struct([("v", pa.int64())]))]
)


def inners() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: st.none() | values for name, (_, values) in VALUES.items()})


def rows() -> st.SearchStrategy[dict[str, Any]]:
    adds = st.fixed_dictionaries({"path": st.none() | TEXT, "inner": st.none() | inners()})
    txns = st.fixed_dictionaries({"v": st.none() | NUMBER})
    return st.fixed_dictionaries({"add": st.none() | adds, "txn": st.none() | txns})


@st.composite
def changed(draw: st.DrawFn, row: dict[str, Any]) -> dict[str, Any]:
    """The row with one value drawn anew, or made null, or a struct made null."""
    part = draw(st.sampled_from(["txn", "add", "path", "inner", "leaf", "leaf", "leaf", "leaf"]))
    if part == "txn":
        return row | {"txn": draw(st.none() | st.fixed_dictionaries({"v": st.none() | NUMBER}))}
    if part == "add" or row["add"] is None:
        return row | {"add": None if row["add"] else {"path": None, "inner": None}}
    if part == "path":
        return row | {"add": row["add"] | {"path": draw(st.none() | TEXT)}}
    if part == "inner" or row["add"]["inner"] is None:
        return row | {"add": row["add"] | {"inner": draw(st.none() | inners())}}
    name = draw(st.sampled_from(list(VALUES)))
    inner = row["add"]["inner"] | {name: draw(st.none() | VALUES[name][1])}
    return row | {"add": row["add"] | {"inner": inner}}


def table(values: list[dict[str, Any]]) -> Any:
    return pa.Table.from_pylist(values, schema=SCHEMA)


def digest_rows(rows: pa.Table) -> tuple[int, ...]:
    digest = RowDigest(rows.schema)
    digest.take(rows)
    return digest.answer()


@examples(100)
@given(st.lists(rows(), min_size=1, max_size=6), st.data())
def test_any_value_that_changes_shows(values: list[dict[str, Any]], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(values) - 1))
    others = [*values]
    others[place] = data.draw(changed(values[place]))
    before, after = table(values), table(others)
    assume(before.to_pylist() != after.to_pylist())

    assert digest_rows(before) != digest_rows(after)


@examples(25)
@given(st.lists(rows(), min_size=2, max_size=6), st.data())
def test_the_order_of_rows_shows(values: list[dict[str, Any]], data: st.DataObject) -> None:
    others = data.draw(st.permutations(values))
    assume(table(values).to_pylist() != table(others).to_pylist())

    assert digest_rows(table(values)) != digest_rows(table(others))


@examples(50)
@given(st.lists(rows(), max_size=8), st.data())
def test_chunks_and_slices_do_not_show(values: list[dict[str, Any]], data: st.DataObject) -> None:
    whole = table(values)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=3)))
    pieces = [whole.slice(start, end - start) for start, end in zip([0, *cuts], [*cuts, len(values)], strict=True)]
    around = data.draw(st.lists(rows(), max_size=2))
    framed = table([*around, *values, *around]).slice(len(around), len(values))
    masked = hidden_values(whole)

    assert {digest_rows(whole)} == {digest_rows(found) for found in (pa.concat_tables(pieces), framed, masked)}
    assert masked.to_pylist() == whole.to_pylist()


def hidden_values(whole: Any) -> Any:
    """The same rows, with other values below the nulls of `add`."""
    column = whole.column("add").combine_chunks()
    column = column if isinstance(column, pa.StructArray) else pa.concat_arrays(column.chunks or [column])
    paths = pa.array(
        [f"hidden {text}" if text is None else text for text in column.field("path").to_pylist()], pa.string()
    )
    inner = column.field("inner")
    visible = pa.array([row is None or row["path"] is not None for row in column.to_pylist()], pa.bool_())
    paths = pa.array(
        [p if v else None for p, v in zip(paths.to_pylist(), visible.to_pylist(), strict=True)], pa.string()
    )
    made = pa.StructArray.from_arrays([paths, inner], fields=list(column.type), mask=column.is_null())
    return whole.set_column(0, whole.schema.field("add"), pa.chunked_array([made], column.type))
