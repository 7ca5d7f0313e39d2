"""Types of Paimon, Delta, Arrow and SQL: what is converted without a loss comes back the same."""

from __future__ import annotations

import string
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from deltacli.operations.schemas.delta_types import fields_of_delta, fields_of_paimon
from deltacli.operations.schemas.described import read_ddl, with_ids
from deltacli.paimon.conversions import ConversionLoss, arrow_schema, create_table, fields_of_arrow, parse_sql_type
from deltacli.paimon.schema import Schema
from deltacli.paimon.types import (
    MAX_LENGTH,
    AtomicType,
    DataField,
    DataType,
    ListType,
    MapType,
    Root,
    RowType,
    type_text,
    with_nullability,
)
from tests.support.effort import examples

_PLAIN = (
    *(Root.BOOLEAN, Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.FLOAT, Root.DOUBLE, Root.DATE),
    *(Root.VARIANT, Root.BLOB),
)
_LENGTHS = st.one_of(st.integers(1, 40), st.just(MAX_LENGTH))
NAMES = st.text(string.ascii_letters + "_ .`é", min_size=1, max_size=6).filter(str.strip)


def _with(root: Root, arguments: st.SearchStrategy[int]) -> st.SearchStrategy[DataType]:
    return st.builds(lambda number: AtomicType(root, (number,)), arguments)


DECIMALS = st.integers(1, 38).flatmap(
    lambda digits: st.builds(lambda scale: AtomicType(Root.DECIMAL, (digits, scale)), st.integers(0, digits))
)
ATOMS: st.SearchStrategy[DataType] = st.one_of(
    st.sampled_from([AtomicType(root) for root in _PLAIN]),
    DECIMALS,
    *(_with(root, _LENGTHS) for root in (Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY)),
    *(_with(root, st.integers(0, 9)) for root in (Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)),
)


@st.composite
def fields(draw: st.DrawFn, types: st.SearchStrategy[DataType]) -> DataField:
    """Return a field without an id."""
    comment = draw(st.none() | st.text(max_size=5))
    return DataField(-1, draw(NAMES), draw(types), comment, draw(st.none() | st.sampled_from(["1", "it's", "a\\b"])))


def _nullable(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    return st.builds(with_nullability, types, st.booleans())


def _compound(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    rows = st.lists(fields(inner), min_size=1, max_size=3, unique_by=lambda column: column.name)
    vectors = st.sampled_from([Root.INT, Root.FLOAT]).map(lambda root: ListType(Root.VECTOR, AtomicType(root), True, 3))
    return _nullable(
        st.one_of(
            st.builds(ListType, st.sampled_from([Root.ARRAY, Root.MULTISET]), inner),
            vectors,
            st.builds(MapType, inner, inner),
            st.builds(lambda found: RowType(tuple(found)), rows),
        )
    )


TYPES = st.recursive(_nullable(ATOMS), _compound, max_leaves=8)
COLUMNS = st.lists(fields(TYPES), min_size=1, max_size=4, unique_by=lambda column: column.name).map(tuple)


def _ignore(_loss: ConversionLoss) -> None:
    """Ignore what is lost."""


def numbered(columns: tuple[DataField, ...]) -> tuple[DataField, ...]:
    """Return columns with ids, which neither Delta nor a loss depends on."""
    return with_ids(Schema(3, 0, columns, 0)).fields


@examples(150)
@given(COLUMNS)
def test_what_delta_states_comes_back(columns: tuple[DataField, ...]) -> None:
    losses: list[ConversionLoss] = []
    more: list[ConversionLoss] = []

    stored = fields_of_paimon(columns, losses.append)
    again = fields_of_delta(stored, more.append)

    assert [] == more
    if not losses:
        assert columns == again
    twice: list[ConversionLoss] = []
    fields_of_paimon(again, twice.append)
    assert [] == twice


@examples(150)
@given(COLUMNS)
def test_what_arrow_states_comes_back(columns: tuple[DataField, ...]) -> None:
    losses: list[ConversionLoss] = []
    before = numbered(columns)

    again = fields_of_arrow(arrow_schema(before, losses.append), _ignore)

    if not losses:
        assert before == again
    assert [column.name for column in before] == [column.name for column in again]


@examples(150)
@given(COLUMNS, st.none() | st.text(max_size=5), st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2))
def test_what_a_statement_states_comes_back(
    columns: tuple[DataField, ...], comment: str | None, options: dict[str, str]
) -> None:
    keys = (columns[0].name,)
    schema = Schema(3, 0, columns, 0, keys, keys, options, comment or None)

    again = read_ddl(create_table(schema, "a`b"))

    bare = with_ids(replace(schema, fields=without_defaults(columns)))
    assert bare == with_ids(replace(again, highest_field_id=bare.highest_field_id))


def without_defaults(columns: tuple[DataField, ...]) -> tuple[DataField, ...]:
    """Return columns as in a statement: no defaults, which Flink does not have, and no empty comments."""
    return tuple(
        replace(
            column,
            default_value=None,
            description=column.description or None,
            type=_type_without_defaults(column.type),
        )
        for column in columns
    )


def _type_without_defaults(data_type: DataType) -> DataType:
    match data_type:
        case RowType(fields):
            return replace(data_type, fields=without_defaults(fields))
        case ListType(_, element):
            return replace(data_type, element=_type_without_defaults(element))
        case MapType(key, value):
            return replace(data_type, key=_type_without_defaults(key), value=_type_without_defaults(value))
        case _:
            return data_type


@examples(150)
@given(TYPES)
def test_types_in_sql_come_back(data_type: DataType) -> None:
    named = numbered((DataField(-1, "c", data_type),))

    again = numbered((DataField(-1, "c", parse_sql_type(type_text(without_texts(named[0].type)))),))

    assert without_texts(named[0].type) == without_texts(again[0].type)


def without_texts(data_type: DataType) -> DataType:
    """Return a type whose fields have no comments and defaults, which a type in SQL does not state."""
    match data_type:
        case RowType(fields):
            return replace(data_type, fields=tuple(_bare(column) for column in fields))
        case ListType(_, element):
            return replace(data_type, element=without_texts(element))
        case MapType(key, value):
            return replace(data_type, key=without_texts(key), value=without_texts(value))
        case _:
            return data_type


def _bare(column: DataField) -> DataField:
    return DataField(column.id, column.name, without_texts(column.type))
