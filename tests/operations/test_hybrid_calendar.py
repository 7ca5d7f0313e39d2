"""Files of Spark in the calendar that was Julian before 1582: all who read values, bounds or copies agree on them."""

from __future__ import annotations

import json
import sys
import zoneinfo
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import Table, open_table
from deltacli.core.errors import DataUnreadable
from deltacli.delta.schema.file_columns import CORRECT_SINCE, VERSION_KEY, Hybrid, is_known_zone, rebased
from deltacli.operations.optimize.plan import plan_optimize
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.operations.repair.repair import plan_repair
from deltacli.operations.validate.findings import ValidateRequest
from deltacli.operations.validate.validate import validate_table
from tests.support.actions import add, commit_info, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.repairing import execute_repair, request
from tests.support.rows import parquet_bytes, schema_of, table_of

DAY = 86_400_000_000
MARKED = {
    "org.apache.spark.version": "3.1.2",
    "org.apache.spark.legacyDateTime": "",
    "org.apache.spark.timeZone": "UTC",
}
SPARK_2 = {"org.apache.spark.version": "2.4.8"}
UNMARKED = {"org.apache.spark.version": "3.1.2"}
FIRST, BEFORE = date(1, 1, 1), -719_164
"""A day, and what it is in the older calendar."""


def julian(year: int, month: int, day: int) -> int:
    """The day of a Julian date since 1970, by the formula of the Julian day number."""
    early = (14 - month) // 12
    years, months = year + 4800 - early, month + 12 * early - 3
    return day + (153 * months + 2) // 5 + 365 * years + years // 4 - 32_083 - 2_440_588


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (BEFORE, FIRST),
        (-141_428, date(1582, 10, 4)),
        (-141_427, date(1582, 10, 15)),
        (julian(1500, 4, 20), date(1500, 4, 20)),
        (julian(1500, 2, 29), date(1500, 3, 1)),  # in the other calendar, 1500 was no leap year
        (julian(1500, 2, 28), date(1500, 2, 28)),
        (julian(1200, 2, 29), date(1200, 2, 29)),
        (julian(100, 3, 1), date(100, 3, 1)),
        (julian(1, 12, 31), date(1, 12, 31)),
        (0, date(1970, 1, 1)),
        (None, None),
    ],
)
def test_a_day_keeps_its_year_month_and_day(stored: int | None, expected: date | None) -> None:
    days = pa.array([stored], pa.int32()).cast(pa.date32())
    times = pa.array([None if stored is None else stored * DAY + 1], pa.int64()).cast(pa.timestamp("us", "UTC"))

    found = rebased(pa.StructArray.from_arrays([days, times], names=["d", "t"]), Hybrid("UTC", True, True))

    (row,) = found.to_pylist()
    exact = None if expected is None else datetime(expected.year, expected.month, expected.day, tzinfo=UTC)
    assert (expected, None if exact is None else exact + timedelta(microseconds=1)) == (row["d"], row["t"])


def test_values_in_lists_and_maps_with_offsets_and_nulls_are_moved() -> None:
    days = pa.array([[BEFORE], None, [0, BEFORE, None], []], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))
    pairs = pa.array([[("a", 0)], None, [("b", BEFORE)]], pa.map_(pa.string(), pa.int32()))
    maps = pairs.cast(pa.map_(pa.string(), pa.date32()))

    moved = [rebased(values.slice(1), Hybrid("UTC", True, True)).to_pylist() for values in (days, maps)]

    assert [[None, [date(1970, 1, 1), FIRST, None], []], [None, [("b", FIRST)]]] == moved


def test_times_keep_their_local_time_in_the_zone_that_wrote_them() -> None:
    """Before 1900, Java's older calendar has the standard offset of today and the other one that of the place."""
    local = datetime(1800, 1, 1, tzinfo=timezone(timedelta(hours=-8)))
    times = pa.array([local], pa.timestamp("us", "UTC"))

    moved = rebased(times, Hybrid("America/Los_Angeles", False, True))

    assert [local - timedelta(minutes=7, seconds=2)] == moved.to_pylist()


def table_at(root: Path, marks: dict[str, str] | None) -> Table:
    """Two files with 0001-01-01 in the older calendar, and statistics as Spark writes them: of the table's calendar."""
    rows = pa.table(
        {
            "id": pa.array([1], pa.int64()),
            "d": pa.array([BEFORE], pa.int32()).cast(pa.date32()),
            "t": pa.array([BEFORE * DAY], pa.int64()).cast(pa.timestamp("us", "UTC")),
        }
    )
    data = parquet_bytes(rows.replace_schema_metadata(marks))
    bounds = {"id": 1, "d": "0001-01-01", "t": "0001-01-01T00:00:00.000Z"}
    stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": dict.fromkeys(bounds, 0)}
    lines = [protocol(), metadata(schema_string=schema_of(rows))]
    table = TableBuilder()
    for name in ("a.parquet", "b.parquet"):
        table.file(name, data)
        lines.append({"add": {**add(name, size=len(data))["add"], "stats": json.dumps(stats)}})
    return open_table(table.commit(*lines).write(root))


@pytest.mark.parametrize("marks", [MARKED, SPARK_2], ids=["marked", "version-2"])
def test_all_users_have_the_values_as_spark_reads_them(marks: dict[str, str], tmp_path: Path) -> None:
    table = table_at(tmp_path / "t", marks)
    snapshot = table.snapshot()
    expected = [{"id": 1, "d": FIRST, "t": datetime(1, 1, 1, tzinfo=UTC)}] * 2

    def rows_of(batches: object) -> list[dict[str, object]]:
        found = [row for batch in batches for row in batch.to_pylist()]  # type: ignore[attr-defined]
        return [{name: row[name] for name in ("id", "d", "t")} for row in found]

    assert expected == rows_of(snapshot.scan())
    assert expected == rows_of(table.changes(from_version=0))
    for where in ("d = DATE '0001-01-01'", "t = TIMESTAMP '0001-01-01T00:00:00Z'", "d >= DATE '0001-01-01' AND id = 1"):
        assert expected == rows_of(snapshot.scan(where=where)), where
    assert [] == rows_of(snapshot.scan(where="d < DATE '0001-01-01'"))
    snapshot.scan().write_parquet(tmp_path / "out")
    written = pq.read_table(tmp_path / "out")
    assert (expected, True) == (written.to_pylist(), b"legacy" not in b"".join(written.schema.metadata or {}))
    for level in ("log", "footers", "data"):
        found = validate_table(table, ValidateRequest(level=level)).findings
        assert [] == [one.rule.id for one in found if one.rule.id.startswith("stats.")], level
    assert () == plan_repair(table, request()).steps
    assert "optimize.value-not-exact" in str(plan_optimize(table, OptimizeRequest()).skipped)


def test_files_without_a_mark_are_read_as_they_are(tmp_path: Path) -> None:
    table = table_at(tmp_path, UNMARKED)

    found = validate_table(table, ValidateRequest(level="data")).findings

    assert "stats.bounds-not-covering" in {one.rule.id for one in found}


@pytest.mark.parametrize("marks", [MARKED, SPARK_2, UNMARKED, None], ids=["marked", "version-2", "version-3", "none"])
def test_rows_that_a_repair_keeps_of_a_damaged_file_have_its_dates(
    marks: dict[str, str] | None, tmp_path: Path
) -> None:
    days = pa.array([julian(1500, 4, 20)], pa.int32()).cast(pa.date32())
    rows = pa.table({"id": pa.array([1], pa.int64()), "list": pa.array([["a", "b"]]), "d": days})
    data = bytearray(parquet_bytes(pa.concat_tables([rows] * 2).replace_schema_metadata(marks), row_group_size=1))
    before = open_table(table_of({"a.parquet": bytes(data)}, schema_of(rows)).write(tmp_path / "before"))
    expected = before.snapshot().scan().to_arrow().column("d").to_pylist()
    chunk = pq.read_metadata(pa.BufferReader(bytes(data))).row_group(1).column(0)
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    data[begin : begin + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    root = table_of({"a.parquet": bytes(data)}, schema_of(rows)).write(tmp_path / "t")

    plan = plan_repair(open_table(root), request(quarantine=str(tmp_path / "q"), max_missing=1.0))
    execute_repair(plan)

    (kept,) = (tmp_path / "q").rglob("rows/a.parquet")
    opened = pq.ParquetFile(kept)
    assert expected[:1] == opened.read().column("d").to_pylist()
    assert CORRECT_SINCE.encode() == opened.metadata.metadata[VERSION_KEY.encode()]


@pytest.mark.parametrize(
    ("marks", "expected"),
    [(MARKED, "0001-01-05"), (SPARK_2, "0001-01-05"), (UNMARKED, "0001-01-03"), (None, "0001-01-03")],
    ids=["marked", "version-2", "version-3", "none"],
)
def test_bounds_that_only_a_checkpoint_has_are_in_the_calendar_of_the_table(
    marks: dict[str, str] | None, expected: str, tmp_path: Path
) -> None:
    """What is 0001-01-03 in the calendar of today is 0001-01-05 in the older one."""
    rows = pa.table({"d": pa.array([date(1, 1, 3)], pa.date32())})
    bounds = {"d": "0001-01-03"}
    stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"d": 0}}
    root = checkpointed(tmp_path / "t", rows, stats, marks)

    (statistics,) = statistics_of(open_table(root))

    assert (expected, expected) == (statistics["minValues"]["d"], statistics["maxValues"]["d"])


def checkpointed(root: Path, rows: pa.Table, stats: dict[str, object], marks: dict[str, str] | None) -> Path:
    """Write a table of one file whose statistics are in a checkpoint only, with these marks in its footer."""
    data = parquet_bytes(rows)
    action = {"add": {**add("a.parquet", size=len(data))["add"], "stats": json.dumps(stats)}}
    configuration = {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"}
    table = TableBuilder().file("a.parquet", data)
    table.commit(protocol(), metadata(schema_string=schema_of(rows), configuration=configuration), action)
    table.commit(commit_info("WRITE")).write(root)
    open_table(root).checkpoint(version=0)
    (checkpoint,) = (root / "_delta_log").glob("*.checkpoint.parquet")
    pq.write_table(pq.read_table(checkpoint).replace_schema_metadata(marks), checkpoint)
    (root / "_delta_log" / f"{0:020}.json").unlink()
    return root


def statistics_of(table: Table) -> list[dict[str, dict[str, object]]]:
    return [json.loads(row["stats"]) for batch in table.snapshot().files() for row in batch.to_pylist()]


ZONE = "org.apache.spark.timeZone"
OLD_TIME = datetime(1800, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "hours"), [("+01:00", 1), ("-0230", -2.5), ("GMT+3", 3), ("UTC-18:00", -18), ("+00:00:30", 1 / 120)]
)
def test_an_offset_is_the_same_at_all_times(zone: str, hours: float) -> None:
    """The local day decides: at an hour at which UTC has another one, the calendars may differ by a day more."""
    local = julian(1500, 3, 1) * DAY
    times = pa.array([local - int(hours * 3600) * 1_000_000], pa.int64()).cast(pa.timestamp("us", "UTC"))

    (moved,) = rebased(times, Hybrid(zone, False, True)).to_pylist()

    assert datetime(1500, 3, 1, tzinfo=UTC) - timedelta(hours=hours) == moved


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "+19:00", "+01:75", "America", "../etc/passwd", "a\0b", "", "é" * 300]
)
def test_times_of_an_unknown_zone_are_refused_and_dates_are_not(zone: str) -> None:
    days = pa.array([BEFORE], pa.int32()).cast(pa.date32())
    times = pa.array([OLD_TIME, None], pa.timestamp("us", "UTC"))
    new_times = pa.array([datetime(1900, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))

    with pytest.raises(DataUnreadable) as raised:
        rebased(times, Hybrid(zone, True, True))

    assert raised.value.code == "data.time-zone-unknown"
    assert [FIRST] == rebased(days, Hybrid(zone, True, True)).to_pylist()
    assert new_times == rebased(new_times, Hybrid(zone, True, True))


def test_names_are_unknown_on_a_machine_without_time_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tzdata", None)
    zoneinfo.reset_tzpath(to=["/nonexistent"])
    zoneinfo.ZoneInfo.clear_cache()
    try:
        known = {zone for zone in ("America/Los_Angeles", "UTC", "+01:00") if is_known_zone(zone)}
    finally:
        zoneinfo.reset_tzpath()
        zoneinfo.ZoneInfo.clear_cache()

    assert {"UTC", "+01:00"} == known


def test_a_data_file_of_an_unknown_zone_is_reported_and_left_alone(tmp_path: Path) -> None:
    table = table_at(tmp_path / "t", MARKED | {ZONE: "Mars/Olympus"})

    with pytest.raises(DataUnreadable, match=r"[ab]\.parquet") as raised:
        list(table.snapshot().scan())

    assert raised.value.code == "data.time-zone-unknown"
    findings = validate_table(table, ValidateRequest(level="data")).findings
    assert [] == [finding.rule.id for finding in findings if finding.rule.id.startswith("stats.")]
    assert () == plan_repair(table, request()).steps
    assert [{"id": 1, "d": FIRST}] * 2 == [
        row for batch in table.snapshot().scan(columns=["id", "d"]) for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("zone", ["Mars/Olympus", "+01:00"])
def test_bounds_of_a_checkpoint_never_hide_rows(zone: str, tmp_path: Path) -> None:
    """Bounds that cannot be rebased are left out, and the others stay."""
    times = [datetime(1800, 1, 1, tzinfo=UTC), datetime(2000, 1, 1, tzinfo=UTC)]
    rows = pa.table({"id": pa.array([1, 2]), "t": pa.array(times, pa.timestamp("us", "UTC"))})
    bounds = [{"id": 1, "t": "1800-01-01T00:00:00.000Z"}, {"id": 2, "t": "2000-01-01T00:00:00.000Z"}]
    stats = {"numRecords": 2, "minValues": bounds[0], "maxValues": bounds[1], "nullCount": {"id": 0, "t": 0}}
    root = checkpointed(tmp_path / "t", rows, stats, {"org.apache.spark.legacyDateTime": "", ZONE: zone})
    table = open_table(root)

    (statistics,) = statistics_of(table)

    assert {"id", "t"} == statistics["maxValues"].keys()
    assert 1 == statistics["minValues"]["id"]
    assert ("t" in statistics["minValues"]) == (zone == "+01:00")
    found = [
        row["id"]
        for batch in table.snapshot().scan(where="t < TIMESTAMP '1801-01-01T00:00:00Z'")
        for row in batch.to_pylist()
    ]
    assert [1] == found
    findings = validate_table(table, ValidateRequest(level="data")).findings
    errors = {finding.rule.id for finding in findings if finding.severity.value == "error"}
    assert set() == errors - {"log.checkpoint-commit-missing"}
