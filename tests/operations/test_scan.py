"""Scans of files that are not what the log says, or lie elsewhere: every row, or an error that names the thing."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.api.table import Table, open_table
from deltacli.core.errors import DataUnreadable, UsageError, VersionAbsent
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.types import NameIndex, StructField, parse_schema
from deltacli.storage import Storage, open_storage
from deltacli.work.table_files import parse_allowed_prefixes
from tests.operations.test_far_tables import upload
from tests.support.actions import Action
from tests.support.builder import LOG, TableBuilder
from tests.support.reading import open_at
from tests.support.rows import parquet_bytes, schema_of, table_of
from tests.support.s3 import S3Server
from tests.support.small_vectors import inline, roaring64
from tests.support.storage import FAR, RecordingStorage

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "name": [f"name {number}" for number in range(10)]})
VECTOR_FILE = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
"""What the text of the sample in the protocol names."""


def rows_of(builder: TableBuilder, **options: object) -> list[dict[str, object]]:
    snapshot = open_at(builder.in_memory()).snapshot()
    return [row for batch in snapshot.scan(**options) for row in batch.to_pylist()]  # type: ignore[arg-type]


def refusal(builder: TableBuilder) -> DataUnreadable:
    with pytest.raises(DataUnreadable) as refused:
        rows_of(builder)
    return refused.value


def test_a_missing_file_is_named() -> None:
    builder = table_of({"part-0.parquet": parquet_bytes(ROWS), "part%201.parquet": b""}, schema_of(ROWS))
    builder.file("part 1.parquet", parquet_bytes(ROWS))
    del builder.files["part%201.parquet"]
    assert 20 == len(rows_of(builder))

    del builder.files["part 1.parquet"]

    error = refusal(builder)
    assert ("data.file-missing", 3) == (error.code, error.exit_code)
    assert "part 1.parquet does not exist" in error.message
    assert "part%201.parquet" == error.facts["in the log"]


def test_an_unencoded_path_is_tried_literally() -> None:
    builder = table_of({"a%20b.parquet": b"", "c%20d.parquet": b""}, schema_of(ROWS))
    builder.file("a%20b.parquet", parquet_bytes(ROWS))
    builder.file("c d.parquet", parquet_bytes(ROWS.slice(0, 3))).file("c%20d.parquet", parquet_bytes(ROWS))

    assert 13 == len(rows_of(builder))


@pytest.mark.parametrize("kept", [0, 3, 100, -1, -8, -200])
def test_a_truncated_file_is_named(kept: int) -> None:
    error = refusal(table_of({"part-0.parquet": parquet_bytes(ROWS)[:kept]}, schema_of(ROWS)))

    assert "data.not-parquet" == error.code
    assert "part-0.parquet" == error.facts["file"]
    assert error.facts["reason"]


def test_a_damaged_page_is_named_by_file_row_group_and_column() -> None:
    rows = pa.table({"id": pa.array(range(4_000), pa.int64()), "name": [f"name {number}" for number in range(4_000)]})
    data = bytearray(parquet_bytes(rows, row_group_size=2_000, compression="zstd", use_dictionary=False))
    chunk = pq.ParquetFile(io.BytesIO(bytes(data))).metadata.row_group(1).column(1)
    start = chunk.data_page_offset
    data[start + 60 : start + 400] = b"\xff" * 340

    error = refusal(table_of({"part-0.parquet": bytes(data)}, schema_of(rows)))

    assert ("part-0.parquet", "1", "name") == tuple(error.facts[name] for name in ("file", "row group", "column"))


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (pa.array([1, 2], pa.int64()), "integer"),
        (pa.array([1.5, 2], pa.float64()), "float"),
        (pa.array(["a", "b"]), "long"),
        (pa.array([1, 2], pa.int64()), "double"),
        (pa.array([1, 2], pa.timestamp("us", tz="UTC")), "timestamp_ntz"),
        (pa.array([1, 2], pa.timestamp("us")), "date"),
        (pa.array([300, 2], pa.int32()), "byte"),
        (pa.array([b"\xff\xfe", b"a"], pa.binary()), "string"),
        (pa.array([[1], [2]]), "string"),
        (pa.array([{"a": 1}]), {"type": "array", "elementType": "long", "containsNull": True}),
    ],
)
def test_a_type_that_the_table_does_not_have_is_refused_by_column(found: pa.Array, wanted: object) -> None:
    rows = pa.table({"x": found})
    field = {"name": "x", "type": wanted, "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [field]})

    error = refusal(table_of({"part-0.parquet": parquet_bytes(rows)}, schema))

    assert ("data.type-mismatch", "x") == (error.code, error.facts["column"])
    assert "part-0.parquet" in error.message


def test_a_column_that_must_not_be_null_is_not_made_up() -> None:
    schema = schema_of(ROWS.append_column("late", pa.array([1] * 10)), late=False)

    error = refusal(table_of({"part-0.parquet": parquet_bytes(ROWS)}, schema))

    assert ("data.column-missing", "late") == (error.code, error.facts["column"])
    assert "nullable late" in str(error.hint)


def vector_file(rows: list[int], **changes: int) -> tuple[Action, bytes]:
    """A descriptor and its file; `changes` to size, sum or cardinality."""
    data = roaring64(rows)
    size = len(data) + changes.get("size", 0)
    file = b"\x01" + struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data) + changes.get("sum", 0))
    count = len(rows) + changes.get("cardinality", 0)
    text = "ab^-aqEH.-t@S}K{vb[*k^"[2:]
    return {
        "storageType": "u",
        "pathOrInlineDv": text,
        "offset": 1,
        "sizeInBytes": size,
        "cardinality": count,
    }, file


def deleted(vector: Action, file: bytes | None) -> TableBuilder:
    builder = table_of({"part-0.parquet": parquet_bytes(ROWS)}, schema_of(ROWS), vectors={"part-0.parquet": vector})
    return builder if file is None else builder.file(VECTOR_FILE, file)


def test_rows_deleted_by_a_vector_are_skipped() -> None:
    assert [0, 1, 2, 4, 6, 7, 8, 9] == [row["id"] for row in rows_of(deleted(*vector_file([3, 5])))]


@pytest.mark.parametrize(
    ("vector", "file", "code"),
    [
        (vector_file([3])[0], None, "dv.file-missing"),
        (vector_file([3])[0], vector_file([3])[1][:-1], "dv.file-too-short"),
        (*vector_file([3], sum=1), "dv.crc-mismatch"),
        (*vector_file([3], size=-1), "dv.size-mismatch"),
        (*vector_file([3], cardinality=1), "dv.cardinality-mismatch"),
        (inline([3]) | {"pathOrInlineDv": "no Z85 at all "}, None, "dv.bad-z85"),
        (inline([3]) | {"storageType": "r"}, None, "dv.bad-descriptor"),
        (inline([3]) | {"cardinality": 2}, None, "dv.cardinality-mismatch"),
    ],
)
def test_a_vector_that_contradicts_its_descriptor_is_refused(vector: Action, file: bytes | None, code: str) -> None:
    error = refusal(deleted(vector, file))

    assert (code, 3) == (error.code, error.exit_code)
    assert "part-0.parquet" == error.facts["file"]


@pytest.mark.parametrize(
    ("values", "code"),
    [({"day": "20260109"}, "partition.unparsable"), ({"Tag": "2026-01-09"}, "partition.key-missing")],
)
def test_an_invalid_partition_value_is_not_null(values: dict[str, str | None], code: str) -> None:
    schema = schema_of(ROWS.append_column("day", pa.array([None] * 10, pa.date32())))
    files, told = {"part-0.parquet": parquet_bytes(ROWS)}, {"part-0.parquet": values}

    error = refusal(table_of(files, schema, partition_columns=["day"], partition_values=told))

    assert (code, "part-0.parquet", False) == (error.code, error.facts["file"], "date32" in error.message)


def test_files_outside_the_table_are_read_where_they_are(tmp_path: Path) -> None:
    source, copy = tmp_path / "a source", tmp_path / "copy"
    table_of({"part-0.parquet": parquet_bytes(ROWS)}, schema_of(ROWS)).write(source)
    outside = f"file://{source}/part-0.parquet".replace(" ", "%20")
    builder = table_of({outside: b""}, schema_of(ROWS))
    builder.files.clear()
    builder = table_of({outside: parquet_bytes(ROWS)}, schema_of(ROWS))
    del builder.files[outside]
    builder.write(copy)

    table = open_table(str(copy), allow_external=[str(source)])

    assert 10 == sum(batch.num_rows for batch in table.snapshot().scan())


def test_files_in_another_bucket_are_opened_with_the_options_of_the_table(s3: S3Server) -> None:
    other = s3.make_bucket()
    s3.put(other, "far/part 1.parquet", parquet_bytes(ROWS))
    builder = table_of({f"s3://{other}/far/part%201.parquet": b""}, schema_of(ROWS))
    uri = upload(TableBuilder().file(*next(iter(_log_of(builder)))), s3)
    asked: list[str] = []

    def open_other(place: str) -> Storage:
        asked.append(place)
        return open_storage(place)

    table = Table(open_storage(uri), open_other=open_other, allowed=parse_allowed_prefixes([f"s3://{other}/far"]))

    assert 10 == sum(batch.num_rows for batch in table.snapshot().scan())
    assert [f"s3://{other}/far"] == asked


def _log_of(builder: TableBuilder) -> Iterator[tuple[str, bytes]]:
    yield from ((path, file.data) for path, file in builder.files.items() if path.startswith(LOG))


def test_a_table_on_s3_reads_as_on_a_disk(s3: S3Server) -> None:
    rows = pa.table({"id": pa.array(range(50_000), pa.int64()), "wide": [f"{number:040}" for number in range(50_000)]})
    files = {f"part-{n}.parquet": parquet_bytes(rows, row_group_size=10_000, use_dictionary=False) for n in range(3)}
    vectors = {"part-1.parquet": inline(range(100, 20_100))}
    storage = RecordingStorage(open_storage(upload(table_of(files, schema_of(rows), vectors=vectors), s3)))
    before = len(s3.requests)

    scan = open_at(storage).snapshot().scan(columns=["id"], where="id < 15000")
    found = sorted(value for batch in scan for value in batch.column("id").to_pylist())

    assert sorted([*range(15_000)] * 2 + [*range(100)]) == found
    # Of each file its length, its footer twice and the columns of two row groups.
    assert len(s3.requests) - before <= 20


def test_a_limit_stops_reading() -> None:
    files = {f"part-{number}.parquet": parquet_bytes(ROWS) for number in range(50)}
    storage = RecordingStorage(table_of(files, schema_of(ROWS)).in_memory(), capabilities=FAR)

    rows = [row for batch in open_at(storage).snapshot().scan(limit=15) for row in batch.to_pylist()]

    assert 15 == len(rows)
    assert len(storage.touched("open")) < 20
    assert [] == [row for batch in open_at(storage).snapshot().scan(limit=0) for row in batch.to_pylist()]


@pytest.mark.parametrize("columns", [["nobody"], [], ["id", "ID"]])
def test_columns_that_cannot_be_given_are_a_usage_error(columns: list[str]) -> None:
    builder = table_of({"part-0.parquet": parquet_bytes(ROWS)}, schema_of(ROWS))

    with pytest.raises(UsageError) as refused:
        rows_of(builder, columns=columns)

    assert "usage.column" == refused.value.code


@pytest.mark.long
def test_long_rows_are_read_few_at_a_time() -> None:
    rows = pa.table({"text": pa.array([str(number) * 100_000 for number in range(10)] * 100)})
    builder = table_of({"part-0.parquet": parquet_bytes(rows, use_dictionary=False)}, schema_of(rows))

    batches = list(open_at(builder.in_memory()).snapshot().scan())

    assert 1_000 == sum(batch.num_rows for batch in batches)
    assert all(batch.nbytes < 100 << 20 for batch in batches)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("^Bg9^0rr910000000000iXQKl0rr91000315c8Xg000f5", None),
        ("^Bg9^0rr910000000000iXQKl0rr91000005c8Xg##093", [3]),
        ("^Bg9^0rr910000000000iXQKl0rr91000005c8Xg##zzz", None),
    ],
)
def test_an_inline_vector_may_end_in_a_short_group_as_one_kernel_writes_it(text: str, rows: list[int] | None) -> None:
    vector = inline([3]) | {"pathOrInlineDv": text, "sizeInBytes": 34}

    if rows is None:
        assert refusal(deleted(vector, None)).code.startswith("dv.")
    else:
        assert [number for number in range(10) if number not in rows] == [
            row["id"] for row in rows_of(deleted(vector, None))
        ]


NESTED = pa.struct([pa.field("inner", pa.int64())])


@pytest.mark.parametrize(
    ("values", "kind", "column"),
    [
        (pa.array([1, None]), "long", "a"),
        (
            pa.array([{"inner": 1}, None, {"inner": None}], NESTED),
            {"type": "struct", "fields": [{"name": "inner", "type": "long", "nullable": False, "metadata": {}}]},
            "a.inner",
        ),
        (pa.array([[1], [1, None]]), {"type": "array", "elementType": "long", "containsNull": False}, "a.element"),
        (
            pa.array([[("k", 1)], [("k", None)]], pa.map_(pa.string(), pa.int64())),
            {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": False},
            "a.value",
        ),
    ],
)
def test_a_null_where_the_schema_allows_none_is_an_error(values: pa.Array, kind: object, column: str) -> None:
    field = {"name": "a", "type": kind, "nullable": kind != "long", "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [field]})
    without = table_of({"part-0.parquet": parquet_bytes(pa.table({"a": values.slice(0, 1)}))}, schema)

    error = refusal(table_of({"part-0.parquet": parquet_bytes(pa.table({"a": values}))}, schema))

    assert ("notnull.violated", column) == (error.code, error.facts["column"])
    assert values.slice(0, 1).to_pylist() == [row["a"] for row in rows_of(without)]


def test_a_dictionary_without_values_below_null_structs_is_nulls() -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array([], pa.string()), safe=False)
    inner = pa.field("inner", texts.type, nullable=False)
    rows = pa.table({"a": pa.StructArray.from_arrays([texts], fields=[inner], mask=pa.array([True, True]))})
    field = {"name": "inner", "type": "string", "nullable": False, "metadata": {}}
    kind = {"type": "struct", "fields": [field]}
    schema = json.dumps({"type": "struct", "fields": [{"name": "a", "type": kind, "nullable": True, "metadata": {}}]})
    files = FileColumns("none", lambda column: column.name)
    (found,) = files.find(rows.schema, parse_schema(schema).fields)

    assert found is not None
    assert found.convert is not None
    assert [None, None] == found.convert(rows["a"].combine_chunks()).to_pylist()


def test_a_name_that_a_file_has_twice_is_refused() -> None:
    rows = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])

    error = refusal(table_of({"part-0.parquet": parquet_bytes(rows)}, schema_of(rows.select([0]))))

    assert ("data.case-mismatch", "id") == (error.code, error.facts["column"])


@pytest.mark.parametrize(
    "kind",
    [pa.list_view(pa.int64()), pa.large_list(pa.int32()), pa.list_(pa.int64(), 2), pa.large_list_view(pa.int8())],
)
def test_lists_in_every_form_of_arrow_are_lists(kind: pa.DataType) -> None:
    rows = pa.table({"a": pa.array([[1, 2], None, [3, 4]], kind)})
    field = {
        "name": "a",
        "type": {"type": "array", "elementType": "long", "containsNull": True},
        "nullable": True,
        "metadata": {},
    }
    builder = table_of({"part-0.parquet": parquet_bytes(rows)}, json.dumps({"type": "struct", "fields": [field]}))

    assert [[1, 2], None, [3, 4]] == [row["a"] for row in rows_of(builder)]


def test_pages_with_fewer_rows_than_the_footer_records_are_an_error() -> None:
    rows = pa.table({"id": pa.array(range(100), pa.int64())})
    data = bytearray(parquet_bytes(rows, use_dictionary=False, compression="none"))
    start = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0).data_page_offset
    position = data.index(b"\x15\xc8\x01", start)  # the header of the only page: 100 values, in Thrift's spelling
    data[position : position + 3] = b"\x15\xe4\x00"  # 50, as long

    for where in (None, "id < 10"):
        with pytest.raises(DataUnreadable) as refused:
            rows_of(table_of({"part-0.parquet": bytes(data)}, schema_of(rows)), where=where)
        assert "0" == refused.value.facts["row group"]


def test_columns_are_found_by_name_and_never_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"c{number}" for number in range(300)]
    table = pa.table({name: pa.array([1], pa.int64()) for name in names})
    snapshot = open_at(table_of({"a.parquet": parquet_bytes(table)}, schema_of(table)).in_memory()).snapshot()
    condition = " AND ".join(f"{name} = 1" for name in names)
    compared, indexes = [], []
    monkeypatch.setattr(StructField, "__eq__", lambda self, _: compared.append(self.name))
    make_index = NameIndex.__init__
    monkeypatch.setattr(NameIndex, "__init__", lambda self, names: indexes.append(1) or make_index(self, names))  # type: ignore[func-returns-value]

    scans = [snapshot.scan(), snapshot.scan(columns=names), snapshot.scan(columns=["c9"], where=condition)]
    rows = [sum(batch.num_rows for batch in scan) for scan in scans]

    assert [1, 1, 1] == rows
    assert [] == compared
    assert len(indexes) < 10


def test_a_column_selected_twice_is_refused_in_any_case() -> None:
    builder = table_of({"a.parquet": parquet_bytes(ROWS)}, schema_of(ROWS))

    with pytest.raises(UsageError, match="column id is named twice"):
        rows_of(builder, columns=["id", "name", "ID"])


def test_changes_from_the_version_after_the_newest_are_empty_until_it_is_committed(table_builder: TableBuilder) -> None:
    """
    A poller asks for the version after the last one that it has seen.
    """
    table = open_at(table_builder.commits(3).in_memory())

    ahead = table.changes(from_version=3)

    assert [] == list(ahead)
    assert ("no version was committed in this range; the last one before it is version 2",) == ahead.notes
    with pytest.raises(VersionAbsent):
        table.changes(from_version=4)
