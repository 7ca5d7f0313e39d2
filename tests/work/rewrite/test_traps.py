"""What goes wrong when Parquet files are written anew through Arrow: each trap once, as a file of a table.

A file is rewritten to the same rows, which other engines read as well, or it is refused by name and left as it was.
"""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.table.version import Snapshot
from tests.support.actions import add, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.rewriting import live_adds, rewrite, rewrite_at
from tests.support.small_types import plain

FEATURES = ("deletionVectors", "columnMapping", "timestampNtz", "typeWidening", "variantType", "icebergCompatV2")
NOT_EXACT = "optimize.value-not-exact"

Type = Any  # Any: a type in a schema string


def column(name: str, kind: Type, *, nullable: bool = True, **about: Any) -> dict[str, Any]:  # Any: JSON
    return {"name": name, "type": kind, "nullable": nullable, "metadata": about}


def struct(*fields: dict[str, Any]) -> Type:
    return {"type": "struct", "fields": list(fields)}


def array(kind: Type, *, nullable: bool = True) -> Type:
    return {"type": "array", "elementType": kind, "containsNull": nullable}


def parquet(rows: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, **{"store_schema": False, **options})
    return sink.getvalue()


def one(values: list[Any], kind: Any, name: str = "c", **options: Any) -> bytes:
    return parquet(pa.table({name: pa.array(values, kind)}), **options)


def table(root: Path, columns: list[dict[str, Any]], *files: bytes, properties: dict[str, str] | None = None) -> Path:
    """A table of these files on disk."""
    builder = TableBuilder()
    lines: list[Any] = [
        protocol(3, 7, reader_features=FEATURES[:5], writer_features=FEATURES),
        metadata(schema_string=json.dumps(struct(*columns)), configuration=properties or {}),
    ]
    for number, data in enumerate(files):
        builder.file(f"old-{number}.parquet", data)
        lines.append(add(f"old-{number}.parquet", size=len(data)))
    return builder.commit(*lines).write(root)


def rows_of(snapshot: Snapshot) -> Any:
    return Counter(plain(tuple(row.values())) for batch in snapshot.scan() for row in batch.to_pylist())


def instant(
    year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0, micros: int = 0
) -> datetime:
    return datetime(year, month, day, hour, minute, second, micros, UTC)


FAR = [instant(1, 1, 1), instant(1582, 10, 4), instant(2024, 2, 29, 1, 2, 3, 4), instant(9999, 12, 31), None]
UTC_TIME, ZONELESS = pa.timestamp("us", "UTC"), pa.timestamp("us")
SPARK_2 = {"org.apache.spark.version": "2.4.8"}


def with_footer(values: list[Any], kind: Any, about: dict[str, str], **options: Any) -> bytes:
    rows, sink = pa.table({"c": pa.array(values, kind)}), io.BytesIO()
    with pq.ParquetWriter(sink, rows.schema, store_schema=False, **options) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(about)
    return sink.getvalue()


KEPT: dict[str, Callable[[], tuple[list[dict[str, Any]], list[bytes]]]] = {
    "INT96 beyond nanoseconds": lambda: (
        [column("c", "timestamp")],
        [one(FAR, UTC_TIME, use_deprecated_int96_timestamps=True)],
    ),
    "whole nanoseconds": lambda: (
        [column("c", "timestamp")],
        [one([1_000, -1_000, None], pa.timestamp("ns", "UTC"), version="2.6")],
    ),
    "milliseconds, zone from the table": lambda: (
        [column("c", "timestamp"), column("d", "timestamp_ntz")],
        [
            parquet(
                pa.table({"c": pa.array([1, -1], pa.timestamp("ms")), "d": pa.array([5, None], pa.timestamp("ms"))}),
            )
        ],
    ),
    "dates of today's calendar in an old file": lambda: (
        [column("c", "date")],
        [with_footer([date(1582, 10, 15), date(2024, 1, 1), None], pa.date32(), SPARK_2)],
    ),
    "old dates of a new Spark": lambda: (
        [column("c", "date")],
        [with_footer([date(1, 1, 1)], pa.date32(), {"org.apache.spark.version": "3.5.0"})],
    ),
    "lists of other writers": lambda: (
        [column("c", array("integer"))],
        [
            one([[1, None], [], None, [None]], pa.list_(pa.int32()), use_compliant_nested_type=False),
            one([[1], [], None], pa.large_list(pa.field("array_element", pa.int32()))),
        ],
    ),
    "null, empty and null within": lambda: (
        [column("c", array(struct(column("x", "integer"), column("y", "string"))))],
        [
            one(
                [None, [], [None], [{"x": None, "y": None}], [{"x": 1, "y": ""}]],
                pa.list_(pa.struct({"x": pa.int32(), "y": pa.string()})),
            )
        ],
    ),
    "a null struct and a struct of nulls": lambda: (
        [column("c", struct(column("x", "integer"), column("s", struct(column("y", "string")))))],
        [
            one(
                [None, {"x": None, "s": None}, {"x": 1, "s": {"y": None}}],
                pa.struct({"x": pa.int32(), "s": pa.struct({"y": pa.string()})}),
            )
        ],
    ),
    "required within nullable": lambda: (
        [column("c", struct(column("x", "integer", nullable=False)))],
        [one([{"x": 1}, None], pa.struct([pa.field("x", pa.int32(), nullable=False)]))],
    ),
    "maps with duplicates in order": lambda: (
        [column("c", {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True})],
        [one([[("b", 1), ("a", None), ("b", 2)], [], None], pa.map_(pa.string(), pa.int64()))],
    ),
    "decimals of all physical types": lambda: (
        [column("c", "decimal(9,2)")],
        [
            one([Decimal("1.23"), Decimal("-9999999.99"), None], pa.decimal128(9, 2), store_decimal_as_integer=True),
            one([Decimal("1.23")], pa.decimal128(9, 2)),
            one([Decimal("1.2")], pa.decimal128(5, 1), store_decimal_as_integer=True),
            one([Decimal("0.1")], pa.decimal256(9, 2)),
        ],
    ),
    "narrower types": lambda: (
        [column("c", "long"), column("d", "double"), column("e", "decimal(20,2)"), column("f", "timestamp_ntz")],
        [
            parquet(
                pa.table(
                    {
                        "c": pa.array([1, -128], pa.int8()),
                        "d": pa.array([0.1, math.inf], pa.float32()),
                        "e": pa.array([7, -(2**31)], pa.int32()),
                        "f": pa.array([date(2024, 1, 1), None], pa.date32()),
                    }
                )
            )
        ],
    ),
    "unsigned that fit": lambda: ([column("c", "integer")], [one([2**16 - 1, 0], pa.uint16())]),
    "void and missing columns": lambda: (
        [column("v", "void"), column("c", "integer"), column("n", struct(column("v", "void"), column("x", "long")))],
        [one([1, 2], pa.int32())],
    ),
    "char and varchar": lambda: (
        [
            column("c", "string", __CHAR_VARCHAR_TYPE_STRING="char(5)"),
            column("d", "string", __CHAR_VARCHAR_TYPE_STRING="varchar(2)"),
        ],
        [parquet(pa.table({"c": ["ab", "ab   ", None], "d": ["x ", "", None]}))],
    ),
    "collated texts": lambda: (
        [column("c", "string", __COLLATIONS={"c": "ICU.de_CI"})],
        [one(["straße", "STRASSE", "", None], pa.string())],
    ),
    "bytes": lambda: ([column("c", "binary")], [one([b"", b"\0\xff", None], pa.binary())]),
    "a dictionary": lambda: (
        [column("c", "string")],
        [parquet(pa.table({"c": pa.array(["a", None, "a"]).dictionary_encode()}), store_schema=True)],
    ),
    "large texts": lambda: ([column("c", "string")], [one(["a" * 100, None], pa.large_string(), store_schema=True)]),
    "case, dots and blanks": lambda: (
        [column("Case", "integer"), column("a.b", "integer"), column("é", "integer")],
        [parquet(pa.table({"cASE": pa.array([1], pa.int32()), "a.b": pa.array([2], pa.int32())}))],
    ),
    "floats of every kind": lambda: (
        [column("c", "double"), column("d", "float")],
        [
            parquet(
                pa.table(
                    {
                        "c": pa.array([-0.0, 0.0, math.nan, math.inf, 5e-324], pa.float64()),
                        "d": pa.array([0.1, -0.0, math.nan, -math.inf, None], pa.float32()),
                    }
                )
            )
        ],
    ),
    "many row groups": lambda: ([column("c", "long")], [one(list(range(100)), pa.int64(), row_group_size=7)] * 3),
}
REFUSED: dict[str, Callable[[], tuple[list[dict[str, Any]], bytes, str]]] = {
    "nanoseconds": lambda: ([column("c", "timestamp")], one([1_001], pa.timestamp("ns", "UTC")), NOT_EXACT),
    "nanoseconds within lists": lambda: (
        [column("c", array(struct(column("x", "timestamp_ntz"))))],
        one([None, [{"x": 1_000}, {"x": -1}]], pa.list_(pa.struct({"x": pa.timestamp("ns")}))),
        NOT_EXACT,
    ),
    "old dates of an old Spark": lambda: (
        [column("c", "date")],
        with_footer([date(1582, 10, 4)], pa.date32(), SPARK_2),
        NOT_EXACT,
    ),
    "old dates of a marked file": lambda: (
        [column("c", "date")],
        with_footer(
            [date(1000, 1, 1)],
            pa.date32(),
            {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""},
        ),
        NOT_EXACT,
    ),
    "old INT96 of Spark 3.0": lambda: (
        [column("c", "timestamp")],
        with_footer(FAR, UTC_TIME, {"org.apache.spark.version": "3.0.3"}, use_deprecated_int96_timestamps=True),
        NOT_EXACT,
    ),
    "unsigned beyond": lambda: ([column("c", "integer")], one([2**32 - 1], pa.uint32()), "data.type-mismatch"),
    "a wider decimal": lambda: (
        [column("c", "decimal(5,2)")],
        one([Decimal("1.234")], pa.decimal128(9, 3)),
        "data.type-mismatch",
    ),
    "a null that must not be": lambda: (
        [column("c", "integer", nullable=False)],
        one([1, None], pa.int32()),
        "notnull.violated",
    ),
    "two columns of one name": lambda: (
        [column("Case", "integer")],
        parquet(pa.table({"case": [1], "CASE": [2]})),
        "data.case-mismatch",
    ),
    "a time of day": lambda: ([column("c", "long")], one([1], pa.time64("us")), "data.type-mismatch"),
    "no Parquet": lambda: ([column("c", "long")], b"nothing", "data.not-parquet"),
    "an encrypted footer": lambda: (
        [column("c", "long")],
        b"PARE" + b"\0" * 20 + (20).to_bytes(4, "little") + b"PARE",
        "data.not-parquet",
    ),
    "a damaged page": lambda: (
        [column("c", "string")],
        _damaged(one(["abcdefgh" * 9] * 99, pa.string())),
        "data.not-parquet",
    ),
}


def _damaged(data: bytes) -> bytes:
    return data[:8] + bytes(40) + data[48:]


@pytest.mark.parametrize("name", KEPT)
def test_rows_are_kept(name: str, tmp_path: Path) -> None:
    columns, files = KEPT[name]()
    opened = open_table(str(table(tmp_path / "t", columns, *files)))
    before = rows_of(opened.snapshot())
    (result,) = rewrite(opened)

    assert (len(result.files), len(result.used), result.refused) == (1, len(files), ())
    assert before == rows_of(opened.snapshot())
    assert sum(before.values()) == result.rows == result.files[0].rows
    assert [] == [
        finding.rule.id
        for finding in opened.validate(level="data").findings
        if str(finding.rule.id).startswith(("stats.", "data.type", "schema.file", "file."))
        and "warn" not in str(finding.severity)
    ]


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_cannot_be_kept_is_left_alone_and_named(name: str, tmp_path: Path) -> None:
    columns, bad, code = REFUSED[name]()
    kinds = {"integer": pa.int32(), "long": pa.int64()}
    good = parquet(
        pa.table({each["name"]: pa.nulls(3, kinds.get(str(each["type"]), pa.null())) for each in columns})
        if columns[0]["nullable"]
        else pa.table({"c": pa.array([7, 8, 9], pa.int32())})
    )
    path = table(tmp_path / "t", columns, good, bad, good)
    (result,) = rewrite_at(path)

    assert [("old-1.parquet", code)] == [(each.path, each.code) for each in result.refused]
    assert {"old-0.parquet", "old-2.parquet"} == set(result.used)
    assert 6 == result.rows == sum(file.rows for file in result.files)
    assert bad == (path / "old-1.parquet").read_bytes()
    assert {"old-1.parquet", result.files[0].path} == {
        each["path"] for each in live_adds(open_table(str(path)).snapshot())
    }
