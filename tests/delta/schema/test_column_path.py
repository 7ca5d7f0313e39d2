"""Paths to columns and their parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.core.errors import UsageError
from deltacli.delta.schema.column_path import ColumnFinder, places
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType

LONG = PrimitiveType("long")


def column(name: str, data_type: DataType = LONG) -> StructField:
    return StructField(name, data_type, True, {})


def of(*fields: StructField) -> StructType:
    return StructType(fields)


SCHEMA = of(
    column("id"),
    column("a", of(column("b"), column("B"), column("c.d", of(column("e"))), column("key"))),
    column("Mixed"),
    column("m", MapType(of(column("x")), ArrayType(MapType(LONG, LONG, True), True), True)),
    column("xs", ArrayType(of(column("element", ArrayType(LONG, True))), True)),
    column("a`b"),
)


UNUSABLE = "the column TEXT cannot be used: "


@pytest.mark.parametrize(
    ("text", "canonical", "field_path", "nearest"),
    [
        ("id", "id", None, "id"),
        ("mixed", "Mixed", None, "Mixed"),
        ("a.b", "a.b", None, "b"),
        ("A.B", "a.B", None, "B"),
        ("a.`c.d`.E", "a.`c.d`.e", None, "e"),
        ("a.key", "a.`key`", None, "key"),
        ("m.key.x", "m.key.x", None, "x"),
        ("m.VALUE.element.Key", "m.value.element.key", "value.element.key", "m"),
        ("m.value.element.value", "m.value.element.value", "value.element.value", "m"),
        ("xs.element.element.element", "xs.element.`element`.element", "element", "element"),
        ("`a``b`", "`a``b`", None, "a`b"),
    ],
)
def test_a_path_resolves_to_a_type_and_the_field_that_stores_its_history(
    text: str, canonical: str, field_path: str | None, nearest: str
) -> None:
    place = ColumnFinder(SCHEMA).find(text)

    assert (canonical, field_path, nearest) == (place.text, place.field_path, place.nearest.name)
    assert LONG == place.data_type


@pytest.mark.parametrize(
    ("text", "message", "possible"),
    [
        ("nothing", "there is no column nothing", "id, a, Mixed, m, xs, `a``b`"),
        ("b.c", f"{UNUSABLE}there is no column b", "id, a, Mixed, m, xs, `a``b`"),
        ("a.`C.d`.x", f"{UNUSABLE}a.`c.d` is of type struct and has no x", "e"),
        ("id.x", f"{UNUSABLE}id is of type long and has no x", "nothing: it has no parts"),
        ("m.element", f"{UNUSABLE}m is of type map<struct, array<map<long, long>>> and has no element", "key, value"),
        ("xs.`element`", f"{UNUSABLE}xs is of type array<struct> and has no element", "element"),
    ],
)
def test_an_unknown_path_is_an_error_that_names_the_existing_fields(text: str, message: str, possible: str) -> None:
    with pytest.raises(UsageError, match="column") as refused:
        ColumnFinder(SCHEMA).find(text)

    assert message.replace("TEXT", text) == refused.value.message.partition("; did you mean")[0]
    assert possible == refused.value.facts["possible"]


def test_a_name_that_fits_several_in_another_case_is_refused() -> None:
    with pytest.raises(UsageError, match="aB may be any of ab, AB"):
        ColumnFinder(of(column("ab"), column("AB"))).find("aB")


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "`a", "a`b", "`a`b", "``x"])
def test_a_path_that_is_cut_wrongly_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="a name is missing, or a backtick"):
        ColumnFinder(SCHEMA).find(text)


@pytest.mark.parametrize(("count", "end"), [(100, "c39 and 60 more"), (40, "c39")])
def test_many_names_are_cut(count: int, end: str) -> None:
    wide = of(*(column(f"c{number}") for number in range(count)))

    with pytest.raises(UsageError) as refused:
        ColumnFinder(wide).find("x")

    assert refused.value.facts["possible"].endswith(f", {end}")


NAMES = st.one_of(st.text(max_size=4), st.sampled_from(["key", "VALUE", "element", "a.b", "`", "", "x y"]))


def structs(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[StructType]:
    fields = st.builds(lambda name, kind: StructField(name, kind, True, {}), NAMES, inner)
    return st.lists(fields, max_size=4, unique_by=lambda field: field.name).map(lambda found: StructType(tuple(found)))


TYPES: st.SearchStrategy[DataType] = st.recursive(
    st.sampled_from([LONG, PrimitiveType("date")]),
    lambda inner: st.one_of(
        st.builds(ArrayType, inner, st.just(True)),
        st.builds(MapType, inner, inner, st.just(True)),
        structs(inner),
    ),
    max_leaves=8,
)


@given(structs(TYPES))
def test_every_place_of_any_schema_is_found_again_by_its_path(schema: StructType) -> None:
    for place in places(schema):
        assert place == ColumnFinder(schema).find(place.text)
