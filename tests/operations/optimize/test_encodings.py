"""Every file that is written has the codec and the pages of the table properties: data files and checkpoints alike; and
variants in it have both parts, also where they are null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.api.table import Table
from deltacli.core.errors import Refused
from tests.support.actions import add, commit_info, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.optimizing import Ids, data_files, rows_of
from tests.support.reading import open_at

MAPPING = "delta.columnMapping"
ID, PHYSICAL = f"{MAPPING}.id", f"{MAPPING}.physicalName"

CODEC, VERSION = "delta.parquet.compression.codec", "delta.parquet.format.version"


def encoded(data: bytes) -> tuple[str, int]:
    """Return the codec of a file, and the version of its data pages."""
    column = pq.read_metadata(BytesIO(data)).row_group(0).column(0)
    head = data[column.data_page_offset : column.data_page_offset + 2]
    return column.compression, {b"\x15\x00": 1, b"\x15\x06": 2}[head]


@pytest.mark.parametrize(
    ("codec", "expected", "ending"),
    [
        ("uncompressed", "UNCOMPRESSED", "parquet"),
        ("UNCOMPRESSED", "UNCOMPRESSED", "parquet"),
        (" none ", "UNCOMPRESSED", "parquet"),
        ("snappy", "SNAPPY", "snappy.parquet"),
        ("Gzip", "GZIP", "gz.parquet"),
        ("brotli", "BROTLI", "br.parquet"),
        ("lz4", "LZ4", "lz4raw.parquet"),
        ("lz4_raw", "LZ4", "lz4raw.parquet"),
        ("lzo", "ZSTD", "zstd.parquet"),
        ("zip", "ZSTD", "zstd.parquet"),
    ],
)
@pytest.mark.parametrize(("version", "pages"), [("1.0.0", 1), ("2.12.0", 2)])
def test_new_data_files_and_checkpoints_are_encoded_alike(
    codec: str, expected: str, ending: str, version: str, pages: int
) -> None:
    table = Ids(configuration={CODEC: codec, VERSION: version}).append("a", "b").table()
    storage = table.storage
    before = data_files(storage)

    table.optimize()
    table.checkpoint()

    made, checkpoint = sorted(data_files(storage) - before, key=lambda path: path.startswith("_delta_log"))
    assert ending == made.rpartition("/")[2].partition(".")[2]
    assert [(expected, pages)] * 2 == [encoded(storage.read(made)), encoded(storage.read(checkpoint))]


def test_no_data_file_is_written_by_an_invalid_version_of_the_format() -> None:
    table = Ids(configuration={VERSION: "2"}).append("a", "b").table()
    before = data_files(table.storage)

    with pytest.raises(Refused) as refused:
        table.optimize()

    assert ("property.parquet-version", before) == (refused.value.code, data_files(table.storage))


def file_of(rows: pa.Table) -> bytes:
    sink = BytesIO()
    pq.write_table(rows, sink, store_schema=False)
    return sink.getvalue()


@pytest.mark.parametrize("is_required", [False, True])
def test_files_without_a_variant_and_with_null_ones_become_one(is_required: bool) -> None:
    fields = [{"name": name, "nullable": True, "metadata": {}} for name in "vx"]
    fields[0]["type"], fields[1]["type"] = "variant", "long"
    struct = {"name": "s", "type": {"type": "struct", "fields": fields}, "nullable": True, "metadata": {}}
    variant = pa.struct([pa.field(part, pa.binary(), nullable=not is_required) for part in ("metadata", "value")])
    one = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x07"}
    parts = [pa.array([b"", *[one[part]] * 3], pa.binary()) for part in ("metadata", "value")]
    values = pa.StructArray.from_arrays(parts, fields=list(variant), mask=pa.array([True, False, False, False]))
    if not is_required:
        values = pa.array(values.to_pylist(), variant)
    inner = pa.StructArray.from_arrays([values, pa.array([1, 2, 3, 4])], ["v", "x"])
    plain = pa.StructArray.from_arrays([pa.array([5, 6])], ["x"], mask=pa.array([False, True]))
    contents = [pa.table({"s": inner, "v": values, "x": range(4)}), pa.table({"s": plain, "x": [8, 9]})]
    contents.append(pa.table({"x": [10, 11]}))
    builder = TableBuilder().commit(
        commit_info(),
        protocol(3, 7, reader_features=["variantType"], writer_features=["variantType"]),
        metadata(schema_string=json.dumps({"type": "struct", "fields": [struct, *fields]})),
    )
    files = [file_of(rows) for rows in contents]
    for number, data in enumerate(files):
        builder.file(f"f{number}", data)
    table = open_at(builder.commit(*(add(f"f{n}", size=len(data)) for n, data in enumerate(files))).in_memory())
    before = rows_of(table)

    done = table.optimize(min_files=2, verify=True)

    assert (3, 1, []) == (done.files_removed, done.files_added, done.refused)
    assert before == rows_of(table)
    assert 5 == [row[1] for row in before].count(None)
    assert [] == [found for found in table.validate(level="data").findings if found.severity == "error"]


def of_two_files(rows: pa.Table, types: Mapping[str, object], features: Sequence[str]) -> Table:
    """A table of two files with these rows, and columns of these types, which have their names in the files."""
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {PHYSICAL: name, ID: number}}
        for number, (name, kind) in enumerate(types.items(), 1)
    ]
    builder = TableBuilder().commit(
        commit_info(),
        protocol(3, 7, reader_features=features, writer_features=features),
        metadata(
            schema_string=json.dumps({"type": "struct", "fields": fields}),
            configuration={f"{MAPPING}.mode": "name", f"{MAPPING}.maxColumnId": "99"}
            if "columnMapping" in features
            else {},
        ),
    )
    data = file_of(rows)
    for name in "fg":
        builder.file(name, data)
    return open_at(builder.commit(*(add(name, size=len(data)) for name in "fg")).in_memory())


def test_null_variants_within_arrays_and_maps_are_written() -> None:
    variant = pa.struct([pa.field(part, pa.binary()) for part in ("metadata", "value")])
    one = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x07"}
    rows = pa.table(
        {
            "a": pa.array([[one, None], None], pa.list_(variant)),
            "m": pa.array([[("k", one), ("n", None)], []], pa.map_(pa.string(), variant)),
        }
    )
    array = {"type": "array", "elementType": "variant", "containsNull": True}
    mapped = {"type": "map", "keyType": "string", "valueType": "variant", "valueContainsNull": True}
    table = of_two_files(rows, {"a": array, "m": mapped}, ["variantType"])
    before = rows_of(table)

    done = table.optimize(min_files=2, verify=True)

    assert (2, 1, []) == (done.files_removed, done.files_added, done.refused)
    assert before == rows_of(table)


def test_swapped_names_within_arrays_and_maps_are_told_apart() -> None:
    """The names and types in the file are those of the table, but of other fields."""
    struct, others = (
        {
            "type": "struct",
            "fields": [
                {"name": name, "type": "integer", "nullable": True, "metadata": {PHYSICAL: other, ID: number}}
                for number, (name, other) in enumerate((("x", "y"), ("y", "x")), first)
            ],
        }
        for first in (11, 21)
    )
    array = {"type": "array", "elementType": struct, "containsNull": True}
    mapped = {"type": "map", "keyType": "string", "valueType": others, "valueContainsNull": True}
    one = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    values = {"x": 1, "y": 2}
    rows = pa.table(
        {"a": pa.array([[values]], pa.list_(one)), "m": pa.array([[("k", values)]], pa.map_(pa.string(), one))}
    )
    table = of_two_files(rows, {"a": array, "m": mapped}, ["columnMapping"])
    swapped = ([{"x": 2, "y": 1}], [("k", {"x": 2, "y": 1})])

    assert [swapped] * 2 == rows_of(table)

    table.optimize(min_files=2)

    assert [swapped] * 2 == rows_of(table)
