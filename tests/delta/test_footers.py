"""Footers out of their own bytes: what pyarrow says of sound ones, and a fault, nothing else, for all others."""

from __future__ import annotations

import io
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta.footers.columns import read_schema
from deltacli.delta.footers.parse import Footer, FooterReader
from deltacli.delta.footers.thrift import ThriftFaultError
from tests.support.effort import examples

NAMES = ("a", "b", "long name", "ü")
KINDS = (pa.int64(), pa.int32(), pa.float64(), pa.string(), pa.binary(), pa.bool_(), pa.decimal128(20, 3), pa.date32())
VALUES: dict[Any, Any] = {
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.int32(): st.integers(-(1 << 31), (1 << 31) - 1),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=200),
    pa.binary(): st.binary(max_size=200),
    pa.bool_(): st.booleans(),
    pa.decimal128(20, 3): st.decimals(-1000, 1000, places=3),
    pa.date32(): st.dates(),
}


@st.composite
def files(draw: st.DrawFn) -> list[bytes]:
    """Some files of one schema: null in whole columns or not, of several row groups, by several kinds of writers."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=len(NAMES)))
    made = []
    for _ in range(draw(st.integers(1, 4))):
        rows = draw(st.integers(0, 6))
        columns = {}
        for name, kind in zip(NAMES, kinds, strict=False):
            of_column = st.none() if draw(st.booleans()) else st.none() | VALUES[kind]
            columns[name] = pa.array(draw(st.lists(of_column, min_size=rows, max_size=rows)), kind)
        options = {
            "row_group_size": draw(st.sampled_from([1, 3, 100])),
            "write_statistics": draw(st.booleans()),
            "use_dictionary": draw(st.booleans()),
            "compression": draw(st.sampled_from(["none", "snappy", "zstd"])),
            "write_page_index": draw(st.booleans()),
        }
        sink = io.BytesIO()
        pq.write_table(pa.table(columns), sink, **options)
        made.append(sink.getvalue())
    return made


def footer_of(data: bytes) -> bytes:
    length = int.from_bytes(data[-8:-4], "little")
    return data[-8 - length : -8]


LEARNING = st.sampled_from([0, 1, 2, 3, 20])
"""Readings of a part before its shape is learned."""


def facts(footer: Footer) -> Any:
    return footer.rows, footer.groups, footer.is_encrypted


@given(files())
@examples(50)
def test_a_footer_is_parsed_as_by_pyarrow(made: list[bytes]) -> None:
    reader = FooterReader(learn_after=0)
    for data in made:
        footer, metadata = reader.read(footer_of(data)), pq.read_metadata(io.BytesIO(data))

        assert (metadata.num_rows, metadata.num_row_groups) == (footer.rows, len(footer.groups))
        for number, group in enumerate(footer.groups):
            known = metadata.row_group(number)
            assert (known.num_rows, known.num_columns) == (group.rows, len(group.chunks))
            for position, chunk in enumerate(group.chunks):
                column = known.column(position)
                statistics = column.statistics if column.is_stats_set else None
                assert column.num_values == chunk.values
                assert (statistics.null_count if statistics is not None else None) == chunk.nulls
                has_bounds = statistics is not None and statistics.has_min_max
                assert has_bounds == (chunk.low is not None and chunk.high is not None)
                if statistics is not None and has_bounds and column.physical_type == "INT64":
                    assert statistics.min_raw == int.from_bytes(chunk.low or b"", "little", signed=True)
        schema = read_schema(footer.schema)
        assert [metadata.schema.column(index).path for index in range(metadata.num_columns)] == [
            leaf.path for leaf in schema.leaves
        ]


@given(files(), LEARNING)
@examples(25)
def test_a_known_shape_is_read_as_an_unknown_one(made: list[bytes], learn_after: int) -> None:
    remembering = FooterReader(learn_after=learn_after)
    for data in [*made, *made, *reversed(made), *made]:
        assert facts(FooterReader().read(footer_of(data))) == facts(remembering.read(footer_of(data)))


def test_a_footer_that_is_nested_too_deeply_is_one_however_many_came_before_it() -> None:
    """Structs in structs, then lists in lists, in an unknown field after the rows."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2]}), sink)
    sound = footer_of(sink.getvalue())
    deep = sound[:-1] + unknown(structs=5, lists=14) + b"\x00"
    reader = FooterReader(learn_after=2)

    for data in (deep, deep, sound, sound, sound, sound, deep, sound, deep):
        if data is deep:
            with pytest.raises(ThriftFaultError, match="nested too deeply"):
                reader.read(data)
        else:
            assert 2 == reader.read(data).rows
    assert 2 == FooterReader().read(sound[:-1] + unknown(structs=3, lists=3) + b"\x00").rows


def unknown(*, structs: int, lists: int) -> bytes:
    """A field far behind all others: structs within each other, in the last of them lists within each other."""
    of_lists = b"\x19" * (lists - 1) + b"\x05"  # a list of one list, and so on; a list of no integers
    return b"\x0c\xc8\x01" + b"\x1c" * (structs - 1) + b"\x19" + of_lists + b"\x00" * structs


@given(files(), LEARNING, st.randoms(use_true_random=False))
@examples(100)
def test_bytes_that_are_not_a_footer_are_a_fault(made: list[bytes], learn_after: int, chance: random.Random) -> None:
    reader = FooterReader(learn_after=learn_after)
    for data in made:
        reader.read(footer_of(data))
        broken = bytearray(footer_of(data))
        for _ in range(chance.randint(1, 8)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        del broken[chance.randint(len(broken) // 2, len(broken)) :]
        try:
            footer = reader.read(bytes(broken))
            assert footer.rows >= 0
            assert all(group.rows >= 0 for group in footer.groups)
        except ThriftFaultError:
            pass


@pytest.mark.parametrize(
    "data",
    [b"", b"\x00", b"\x15", b"\x15\x02\x19\xfc\xff\xff\xff\xff\x0f", b"\x19" * 100, b"\x1c" * 10_000, b"\x1b" * 100],
)
def test_an_invalid_footer_is_a_fault(data: bytes) -> None:
    with pytest.raises(ThriftFaultError):
        FooterReader().read(data)


def test_a_footer_costs_what_it_has_not_what_it_claims() -> None:
    """Lists that claim a billion elements end where the bytes do."""
    head = b"\x15\x04\x19\x0c\x16\x00"  # version, an empty schema, no rows
    for claim in (b"\x19\xfc\x80\x94\xeb\xdc\x03", b"\x19\x1c\x19\xfc\x80\x94\xeb\xdc\x03"):
        with pytest.raises(ThriftFaultError):
            FooterReader().read(head + claim)


def test_a_footer_that_contradicts_its_row_groups_is_a_fault() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2, 3]}), sink, row_group_size=2)
    data = sink.getvalue()
    footer = bytearray(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])
    schema = len(FooterReader().read(bytes(footer)).schema)
    assert (0x16, 2 * 3) == (footer[schema], footer[schema + 1])  # field 3, an i64, in zigzag
    footer[schema + 1] = 2 * 5

    with pytest.raises(ThriftFaultError, match="records 5 rows, but its row groups have 3"):
        FooterReader().read(bytes(footer))
