"""Both extremes of every type, in every form in which writers keep the statistics of a file: no row is lost, and a new
checkpoint holds the same bounds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.checkpoint.checkpoint import CheckpointRequest, StatsForm, plan_checkpoint, write_checkpoint
from deltacli.operations.checkpoint.verify import CheckpointVerdict, verify_checkpoints
from deltacli.storage import open_storage
from tests.support.validating import validate_table

LONG = (1 << 63) - 1
YEAR_1, YEAR_9999 = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The first and the last microsecond of the years that have four digits."""
NINES = "9" * 38
JULIAN_DAY_1 = -210_866_716_800_000_000
"""The second day that INT96 counts: the first one stands for null in what Arrow reads."""
MICROS, MICROS_NTZ = pa.timestamp("us", "UTC"), pa.timestamp("us")


class Extremes(NamedTuple):
    """A type of the table with its ends: as values of `arrow`, and as conditions that hold for each of them."""

    name: str
    arrow: Any  # Any: an Arrow type
    values: tuple[Any, Any]
    conditions: tuple[str, str]


def exact(name: str, arrow: Any, low: Any, high: Any) -> Extremes:
    return Extremes(name, arrow, (low, high), (f"c = {low}", f"c = {high}"))


EXTREMES = [
    exact("byte", pa.int8(), -128, 127),
    exact("short", pa.int16(), -(1 << 15), (1 << 15) - 1),
    exact("integer", pa.int32(), -(1 << 31), (1 << 31) - 1),
    exact("long", pa.int64(), -LONG - 1, LONG),
    Extremes("float", pa.float32(), (-3.4028234663852886e38, 1.401298464324817e-45), ("c < -3e38", "c > 0")),
    Extremes("double", pa.float64(), (-1.7976931348623157e308, 5e-324), ("c < -1e308", "c > 0")),
    Extremes("double", pa.float64(), (float("-inf"), float("inf")), ("c < -1e308", "c > 1e308")),
    exact("decimal(38,0)", pa.decimal128(38, 0), Decimal(f"-{NINES}"), Decimal(NINES)),
    exact("decimal(38,38)", pa.decimal128(38, 38), Decimal(f"-0.{NINES}"), Decimal("1E-38")),
    exact("decimal(20,10)", pa.decimal128(20, 10), Decimal("-1E-10"), Decimal("9999999999.9999999999")),
    Extremes("string", pa.string(), ("", "\U0010ffff" * 3), ("c = ''", "c > 'z'")),
    Extremes("date", pa.date32(), (-719_162, 2_932_896), ("c = DATE '0001-01-01'", "c = DATE '9999-12-31'")),
    Extremes("date", pa.date32(), (-(1 << 31), (1 << 31) - 1), ("c < DATE '0001-01-01'", "c > DATE '9999-12-31'")),
    Extremes(
        "timestamp",
        MICROS,
        (YEAR_1, YEAR_9999),
        ("c = TIMESTAMP '0001-01-01T00:00:00Z'", "c = TIMESTAMP '9999-12-31T23:59:59.999999Z'"),
    ),
    Extremes(
        "timestamp",
        MICROS,
        (-LONG - 1, LONG),
        ("c < TIMESTAMP '0001-01-01T00:00:00Z'", "c > TIMESTAMP '9999-12-31T23:59:59.999999Z'"),
    ),
    Extremes(
        "timestamp",
        MICROS,
        (JULIAN_DAY_1, LONG),
        ("c < TIMESTAMP '0001-01-01T00:00:00Z'", "c > TIMESTAMP '9999-12-31T23:59:59.999999Z'"),
    ),
    Extremes(
        "timestamp_ntz",
        MICROS_NTZ,
        (YEAR_1, YEAR_9999),
        ("c = TIMESTAMP_NTZ '0001-01-01T00:00:00'", "c = TIMESTAMP_NTZ '9999-12-31T23:59:59.999999'"),
    ),
    Extremes(
        "timestamp_ntz",
        MICROS_NTZ,
        (-LONG - 1, LONG),
        ("c < TIMESTAMP_NTZ '0001-01-01T00:00:00'", "c > TIMESTAMP_NTZ '9999-12-31T23:59:59.999999'"),
    ),
]
NANOS = (-9_223_372_036_854_775, 9_223_372_036_854_775)
"""The microseconds that nanoseconds in 64 bits reach."""
OF_NANOS = [
    Extremes(
        "timestamp",
        MICROS,
        NANOS,
        ("c < TIMESTAMP '1678-01-01T00:00:00Z'", "c > TIMESTAMP '2262-04-11T00:00:00Z'"),
    ),
    Extremes(
        "timestamp_ntz",
        MICROS_NTZ,
        NANOS,
        ("c < TIMESTAMP_NTZ '1678-01-01T00:00:00'", "c > TIMESTAMP_NTZ '2262-04-11T00:00:00'"),
    ),
]
UNBOUNDED = {"date": (-(1 << 31), (1 << 31) - 1), "timestamp": (-LONG - 1,), "timestamp_ntz": (-LONG - 1,)}
"""What no text of statistics holds: years of seven digits, and the one microsecond that has no opposite."""
INT96 = {"use_deprecated_int96_timestamps": True}
FORMS: Mapping[str, Mapping[str, Any]] = {
    "micros": {},
    "micros-bare": {"store_schema": False},
    "int96": INT96,
    "int96-bare": INT96 | {"store_schema": False},
    "nanos": {"version": "2.6", "unit": "ns"},
    "nanos-bare": {"version": "2.6", "unit": "ns", "store_schema": False},
}


def cases() -> list[Any]:  # Any: parameters of pytest
    """Every type by every form that can hold its ends."""
    found = []
    for extremes in (*EXTREMES, *OF_NANOS):
        for form in FORMS:
            is_time = pa.types.is_timestamp(extremes.arrow)
            if (not is_time and form != "micros") or (form.startswith("nanos") and extremes.values != NANOS):
                continue
            if form.startswith("int96") and extremes.values[0] < JULIAN_DAY_1:
                continue
            found.append(pytest.param(extremes, form, id=f"{extremes.name}-{str(extremes.values[1])[:12]}-{form}"))
    return found


def array_of(extremes: Extremes, value: Any) -> pa.Array:
    if pa.types.is_timestamp(extremes.arrow):
        return pa.array([value], pa.int64()).view(extremes.arrow)
    if pa.types.is_date(extremes.arrow):
        return pa.array([value], pa.int32()).view(extremes.arrow)
    return pa.array([value], extremes.arrow)


def write_table(root: Path, extremes: Extremes, form: str) -> None:
    """Two files of one row each; their statistics stand in a checkpoint alone."""
    log = root / "_delta_log"
    log.mkdir()
    columns = [array_of(extremes, value) for value in extremes.values]
    for index, column in enumerate(columns):
        pq.write_table(pa.table({"c": column}), root / f"{index}.parquet")
    schema = {"type": "struct", "fields": [{"name": "c", "type": extremes.name, "nullable": True, "metadata": {}}]}
    names = ["timestampNtz"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": names, "writerFeatures": names}
    metadata = {
        "id": "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "format": {"provider": "parquet"},
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
    }
    rows = pa.table(
        {
            "protocol": [protocol, None, None, None],
            "metaData": [None, metadata, None, None],
            "add": pa.concat_arrays(
                [pa.nulls(2, type_of_add(extremes, form)), adds_of(root, columns, type_of_add(extremes, form))]
            ),
        }
    )
    options = {name: value for name, value in FORMS[form].items() if name != "unit"}
    pq.write_table(rows, log / f"{0:020d}.checkpoint.parquet", **options)
    commit = {"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "WRITE"}}
    (log / f"{1:020d}.json").write_text(json.dumps(commit) + "\n")


def type_of_add(extremes: Extremes, form: str) -> Any:  # Any: an Arrow type
    unit = FORMS[form].get("unit")
    bound = pa.struct([("c", pa.timestamp(unit, extremes.arrow.tz) if unit else extremes.arrow)])
    stats = [
        ("numRecords", pa.int64()),
        ("minValues", bound),
        ("maxValues", bound),
        ("nullCount", pa.struct([("c", pa.int64())])),
    ]
    return pa.struct(
        [
            ("path", pa.string()),
            ("partitionValues", pa.map_(pa.string(), pa.string())),
            ("size", pa.int64()),
            ("modificationTime", pa.int64()),
            ("dataChange", pa.bool_()),
            ("stats_parsed", pa.struct(stats)),
        ]
    )


def adds_of(root: Path, columns: list[pa.Array], kind: Any) -> pa.Array:  # Any: an Arrow type
    stats = kind.field("stats_parsed").type
    bound = stats.field("minValues").type
    values = pa.StructArray.from_arrays([pa.concat_arrays(columns).cast(bound.field("c").type)], ["c"])
    records, counts = pa.array([1, 1]), pa.array([{"c": 0}] * 2, stats.field("nullCount").type)
    fields = [
        pa.array(["0.parquet", "1.parquet"]),
        pa.array([[], []], kind.field("partitionValues").type),
        pa.array([os.path.getsize(root / f"{index}.parquet") for index in range(2)]),
        pa.array([1_700_000_000_000] * 2),
        pa.array([True, True]),
        pa.StructArray.from_arrays([records, values, values, counts], fields=list(stats)),
    ]
    return pa.StructArray.from_arrays(fields, fields=list(kind))


def values_read(root: Path, condition: str) -> list[Any]:  # Any: plain numbers and texts
    scan = open_table(str(root)).snapshot().scan(where=condition)
    return [plain(value) for batch in scan for value in batch.column("c")]


def plain(value: Any) -> Any:  # Any: an Arrow scalar
    return value.value if pa.types.is_temporal(value.type) else value.as_py()


@pytest.mark.parametrize(("extremes", "form"), cases())
def test_bounds_at_the_ends_of_a_type_lose_no_row(tmp_path: Path, extremes: Extremes, form: str) -> None:
    write_table(tmp_path, extremes, form)

    found = [values_read(tmp_path, condition) for condition in extremes.conditions]

    assert [[plain(array_of(extremes, value)[0])] for value in extremes.values] == found


@pytest.mark.parametrize(("extremes", "form"), cases())
def test_a_new_checkpoint_has_the_bounds_of_the_last_one(tmp_path: Path, extremes: Extremes, form: str) -> None:
    write_table(tmp_path, extremes, form)
    table = open_table(str(tmp_path))

    write_checkpoint(plan_checkpoint(table, CheckpointRequest(stats=StatsForm.STRUCT)))

    rows = pq.read_table(tmp_path / "_delta_log" / f"{1:020d}.checkpoint.parquet")
    add = rows.column("add").combine_chunks().drop_null()
    for part in ("minValues", "maxValues"):
        found = [plain(value) for value in add.field("stats_parsed").field(part).field("c")]
        assert [
            None if value in UNBOUNDED.get(extremes.name, ()) else plain(array_of(extremes, value)[0])
            for value in extremes.values
        ] == found


@pytest.mark.parametrize("form", ["int96", "int96-bare"])
def test_int96_bounds_agree_with_the_texts_of_the_commits(tmp_path: Path, form: str) -> None:
    extremes = next(one for one in EXTREMES if one.name == "timestamp")
    write_table(tmp_path, extremes, form)
    checkpoint = pq.read_table(tmp_path / "_delta_log" / f"{0:020d}.checkpoint.parquet")
    write_commit(tmp_path, checkpoint)

    rules = ["checkpoint.add-differs", "checkpoint.parsed-*"]
    found = validate_table(open_storage(str(tmp_path)), EmbeddedEngine(), select=rules, now_ms=0).findings
    (verified,) = verify_checkpoints(open_table(str(tmp_path)))

    assert [] == list(found)
    assert CheckpointVerdict.AGREES == verified.verdict


def write_commit(root: Path, checkpoint: pa.Table) -> None:
    """Write the commit of version 0 as its checkpoint has it, with the statistics as text."""
    times = ["0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"]
    lines = [
        {kind: row[kind]}
        for row in checkpoint.select(["protocol", "metaData"]).to_pylist()
        for kind in row
        if row[kind]
    ]
    for index, time in enumerate(times):
        bounds = {part: {"c": time} for part in ("minValues", "maxValues")}
        size = os.path.getsize(root / f"{index}.parquet")
        stats = json.dumps({"numRecords": 1, **bounds, "nullCount": {"c": 0}})
        add = {"path": f"{index}.parquet", "partitionValues": {}, "size": size, "modificationTime": 1_700_000_000_000}
        lines.append({"add": add | {"dataChange": True, "stats": stats}})
    (root / "_delta_log" / f"{0:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
