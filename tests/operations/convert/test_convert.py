"""Converting Parquet files: their rows, what stands against it, and directories that were tables before."""

from __future__ import annotations

import json
import shutil
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.api.table import Table, open_table
from deltacli.changing.change import execute_change
from deltacli.cli.app import run
from deltacli.core.errors import DeltacliError, NotATable, Refused, UsageError
from deltacli.delta.log.row_ids import MATERIALIZED_NAMES
from deltacli.operations.change.convert import Convert, ConvertRequest, parse_partition
from deltacli.rules.framework.base import Severity
from deltacli.storage import LocalStorage
from tests.docs.test_schemas import faults
from tests.support.faulty import Fault
from tests.support.optimizing import Ids, rows_of
from tests.support.parquet_lake import lake, put
from tests.support.reading import open_at
from tests.support.s3 import S3Server
from tests.support.vacuuming import Killed, MortalStorage

Capture = pytest.CaptureFixture[bytes]


def rows(place: Path, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of the newest version, in an order of their own."""
    found = open_table(place).snapshot().scan(columns=list(columns)).to_arrow().to_pylist()
    return sorted((tuple(row[name] for name in columns) for row in found), key=repr)


def errors(place: Path) -> list[str]:
    """The errors that a validation of every row finds."""
    found = open_table(place).validate(level="data").findings
    return [one.message for one in found if one.severity is Severity.ERROR]


def conflicts(place: Path, **request: Any) -> list[tuple[str, str | None, str]]:
    """What stands against a conversion, which a refusal names as well."""
    plan = open_table(place).plan_convert(**request)
    assert plan.conflicts
    with pytest.raises(Refused) as refused:
        open_table(place).convert(**request)
    assert "convert.conflicts" == refused.value.code
    assert plan.conflicts[0].path in (refused.value.hint or "")
    assert not (place / "_delta_log").exists()
    return [(one.path, one.column, one.seen) for one in plan.conflicts]


def adds_of(place: Path) -> dict[str, Any]:
    """The adds of version 0, by path."""
    lines = map(json.loads, (place / "_delta_log" / f"{0:020}.json").read_text().splitlines())
    return {line["add"]["path"]: line["add"] for line in lines if "add" in line}


def test_rows_partitions_and_types_are_those_of_the_files(tmp_path: Path) -> None:
    place = lake(tmp_path / "t")

    plan = open_table(place).convert()

    assert (6, 7, 2) == (plan.amount.files, plan.amount.rows, plan.hidden)
    assert [("day", "date", True), ("c", "string", True)] == [tuple(one) for one in plan.partitions]
    found = rows(place, "id", "c")
    assert (
        sorted([(1, "A/B"), (2, "A/B"), (3, None), (4, "x y%"), (5, "="), (None, "="), (6, "001")], key=repr) == found
    )
    assert "day=2026-01-02/c=x%20y%2525/c%2520d.parquet" in adds_of(place)
    assert [] == errors(place)


def test_statistics_are_those_of_footers_as_far_as_every_reader_may_trust_them(tmp_path: Path) -> None:
    place = lake(tmp_path / "t")
    open_table(place).convert()

    stats = {path.rpartition("/")[2]: json.loads(add["stats"]) for path, add in adds_of(place).items()}

    assert {"numRecords": 2, "minValues": {"id": 1}, "maxValues": {"id": 2}} == {
        key: value for key, value in stats["a.parquet"].items() if key != "nullCount"
    }
    assert ({"id": 4}, {"id": 0}) == (stats["c%2520d.parquet"]["minValues"], stats["c%2520d.parquet"]["nullCount"])
    moment = "2026-01-01T01:02:03.456Z"
    assert {"id": 6, "at": moment} == stats["g.parquet"]["maxValues"]
    assert {"id": 1, "t": {"a": 1}} == stats["e%20f"]["nullCount"]


def test_null_counts_that_leave_out_values_below_null_structs_are_not_taken(tmp_path: Path) -> None:
    """Arrow writes such a value as null, and counts it as a value; a filter for nulls would skip the file."""
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), pa.array(["a", "z"]))
    hidden = pa.StructArray.from_arrays([words], names=["b"], mask=pa.array([False, True, False]))
    place = tmp_path / "t"
    put(place, "x.parquet", id=[1, 2, 3], t=hidden)

    open_table(place).convert()

    (found,) = adds_of(place).values()
    assert {"numRecords": 3, "minValues": {"id": 1}, "maxValues": {"id": 3}, "nullCount": {"id": 0}} == json.loads(
        found["stats"]
    )


def test_given_types_are_taken_and_checked(tmp_path: Path) -> None:
    place = lake(tmp_path / "t")

    found = conflicts(place, partition="day date, c int")

    assert {("c", "'='"), ("c", "'x y%'")} <= {(column, seen) for _, column, seen in found}
    assert [("a b", "decimal(3,2)"), ("c", "integer")] == [
        (one.name, one.type) for one in parse_partition("`a b` decimal(3, 2), c INT")
    ]
    with pytest.raises(UsageError, match="partition column"):
        open_table(place).plan_convert(partition="day")


@pytest.mark.parametrize(
    ("files", "column", "seen"),
    [
        ({"a": {"v": [1]}, "b": {"v": ["x"]}}, "v", "string"),
        ({"a": {"v": pa.array([1], pa.int32())}, "b": {"v": pa.array([1], pa.int64())}}, "v", "long"),
        ({"a": {"v": pa.array([1], pa.uint32())}}, "v", "uint32"),
        ({"a": {"v": pa.array([1], pa.timestamp("ns"))}}, "v", "timestamp[ns]"),
        ({"a": {"v": [1]}, "b": {"V": [1]}}, "V", "a column V"),
        ({"a": {"v": [{"x": 1}]}, "b": {"v": [{"X": 1}]}}, "v", None),
        ({"a": {"v w": [1]}}, "v w", "'v w'"),
        ({"a": {"v": [{"x": 1, "X": 1}]}}, "v.X", "a column X"),
        ({"a": {"v": [[{"x y": 1}]]}}, "v.element.x y", "'x y'"),
        ({"p=1/a": {"v": [1]}, "b": {"v": [1]}}, None, None),
        ({"p=1/a": {"v": [1]}, "q=1/b": {"v": [1]}}, None, None),
    ],
)
def test_files_that_disagree_are_listed_by_file_and_column(
    files: dict[str, dict[str, Any]], column: str | None, seen: str | None, tmp_path: Path
) -> None:
    for path, columns in files.items():
        put(tmp_path / "t", f"{path}.parquet", **columns)

    ((_, found, text),) = conflicts(tmp_path / "t")

    assert column == found
    assert seen in (None, text)
    assert text != open_table(tmp_path / "t").plan_convert().conflicts[0].expected.partition(", as in ")[0]


_MOST = 9_223_372_036_854_775
"""The last millisecond whose microseconds fit into 64 bits."""


@pytest.mark.parametrize("has_bounds", [True, False])
@pytest.mark.parametrize("unit", ["ms", "s"])
@pytest.mark.parametrize("within", ["v", "v.element", "v.key", "v.value", "v.x"])
def test_times_beyond_64_bits_of_microseconds_are_refused_and_those_before_are_read(
    within: str, unit: str, has_bounds: bool, tmp_path: Path
) -> None:
    """Bounds that are missing do not show that values fit."""
    place, most = tmp_path / "t", _MOST // (1 if unit == "ms" else 1_000)

    def write(path: str, *numbers: int) -> None:
        times, ones = pa.array(numbers, pa.timestamp(unit, "UTC")), pa.array([1] * len(numbers))
        offsets = pa.array(range(len(numbers) + 1), pa.int32())
        columns = {
            "v": times,
            "v.element": pa.ListArray.from_arrays(offsets, times),
            "v.key": pa.MapArray.from_arrays(offsets, times, ones),
            "v.value": pa.MapArray.from_arrays(offsets, ones, times),
            "v.x": pa.StructArray.from_arrays([times], names=["x"]),
        }
        settings = {"write_statistics": has_bounds, "row_group_size": 1}
        put(place, path, settings, w=pa.array([[1, 2]] * len(numbers)), v=columns[within])

    write("fits.parquet", most, 0, -most)
    write("late.parquet", 0, most + 1)
    write("early.parquet", -most - 1)

    found = conflicts(place)

    assert [("early.parquet", within), ("late.parquet", within)] == [(path, column) for path, column, _ in found]
    open_table(place).convert(exclude=("early*", "late*"))
    assert 3 == open_table(place).snapshot().scan(columns=["v"]).to_arrow().num_rows


@pytest.mark.parametrize("within", ["v", "v.element", "v.x"])
def test_int96_times_beyond_64_bits_of_microseconds_are_refused_and_those_before_are_read(
    within: str, tmp_path: Path
) -> None:
    """They have no bounds, and Arrow would give other times instead. A Julian day may be any number of 32 bits."""
    place, epoch, most = tmp_path / "t", 2_440_588, 106_751_991

    def write(path: str, *days: int) -> None:
        written = pa.array([number * 86_400 * 10**6 for number in range(len(days))], pa.timestamp("us"))
        offsets = pa.array(range(len(days) + 1), pa.int32())
        columns = {
            "v": written,
            "v.element": pa.ListArray.from_arrays(offsets, written),
            "v.x": pa.StructArray.from_arrays([written], names=["x"]),
        }
        settings: dict[str, Any] = {"use_deprecated_int96_timestamps": True, "use_dictionary": False}
        put(place, path, {**settings, "compression": "none"}, v=columns[within])
        data = (place / path).read_bytes()
        marks = [struct.pack("<qI", 0, epoch + number) for number in range(len(days))]
        assert all(1 == data.count(mark) for mark in marks)
        for mark, number in reversed([*zip(marks, days, strict=True)]):
            data = data.replace(mark, struct.pack("<qI", 0, (epoch + number) % 2**32))
        (place / path).write_bytes(data)

    write("fits.parquet", most, 0, -epoch)
    write("late.parquet", 0, most + 1)

    ((path, column, seen),) = conflicts(place)

    assert ("late.parquet", within, "a time 9,223,372,108,800 seconds from 1970") == (path, column, seen)
    open_table(place).convert(exclude=("late*",))
    assert 3 == open_table(place).snapshot().scan(columns=["v"]).to_arrow().num_rows


@pytest.mark.parametrize(("day", "is_refused"), [(106_751_991, False), (106_751_992, True), (-106_751_992, True)])
def test_dates_beyond_64_bits_of_microseconds_are_refused_where_the_column_was_widened(
    day: int, is_refused: bool, tmp_path: Path
) -> None:
    place, given = tmp_path / "t", tmp_path / "schema.json"
    put(place, "x.parquet", v=pa.array([day], pa.int32()).view(pa.date32()), w=pa.array([day], pa.int32()))
    changes = {"delta.typeChanges": [{"fromType": "date", "toType": "timestamp_ntz"}]}
    fields = [
        {"name": "v", "type": "timestamp_ntz", "nullable": True, "metadata": changes},
        {"name": "w", "type": "integer", "nullable": True, "metadata": {}},
    ]
    given.write_text(json.dumps({"type": "struct", "fields": fields}))

    if is_refused:
        assert ["v"] == [column for _, column, _ in conflicts(place, schema=str(given))]
    else:
        open_table(place).convert(schema=str(given))
        assert 1 == len(rows(place, "w"))


def test_files_that_cannot_be_read_are_named_and_may_be_left_out(tmp_path: Path) -> None:
    place = lake(tmp_path / "t")
    whole = (place / "day=2026-01-01/c=A%2FB/a.parquet").read_bytes()
    (place / "nothing.parquet").touch()
    (place / "day=2026-01-01/c=A%2FB/writing.parquet").write_bytes(whole[:-20])
    (place / "linked.parquet").symlink_to(place / "day=2026-01-03/c=001/g.parquet")

    found = {path.rpartition("/")[2] for path, _, _ in conflicts(place)}

    assert {"nothing.parquet", "writing.parquet", "linked.parquet"} == found
    (place / "linked.parquet").unlink()
    plan = open_table(place).convert(exclude=("nothing*", "*/writing.parquet"))
    assert (0, 2, 7) == (plan.committed_version, plan.excluded, len(rows(place, "id")))


def test_a_table_is_refused_and_so_is_a_directory_inside_one(tmp_path: Path) -> None:
    place = lake(tmp_path / "t")
    open_table(place).convert()

    (tmp_path / "link").symlink_to(place / "day=2026-01-01")
    for path, code in (
        (place, "convert.is-table"),
        (place / "day=2026-01-01", "convert.inside-table"),
        (tmp_path / "link", "convert.inside-table"),
    ):
        with pytest.raises(Refused) as refused:
            open_table(path).plan_convert()
        assert code == refused.value.code


def test_a_prefix_inside_a_table_of_a_bucket_is_refused(s3: S3Server, tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", v=[1])
    bucket = s3.make_bucket()
    s3.put(bucket, f"lake/t/_delta_log/{0:020}.json", b"{}")
    for path in ("lake/t/x/y/a.parquet", "lake/u/a.parquet"):
        s3.put(bucket, path, (tmp_path / "a.parquet").read_bytes())

    with pytest.raises(Refused) as refused:
        open_table(f"s3://{bucket}/lake/t/x/y").plan_convert()

    assert ("convert.inside-table", f"s3://{bucket}/lake/t") == (refused.value.code, refused.value.facts["table"])
    assert 1 == open_table(f"s3://{bucket}/lake/u").plan_convert().amount.files


def test_directories_that_only_another_format_can_list_are_refused(tmp_path: Path) -> None:
    for path, code in (
        ("metadata/v1.metadata.json", "convert.iceberg"),
        ("_spark_metadata/0", "convert.spark-metadata"),
        (".hoodie/hoodie.properties", "convert.other-format"),
        ("p=1/.hoodie_partition_metadata", "convert.other-format"),
        ("delta_0000001_0000001_0000/000000_0", "convert.other-format"),
        ("p=1/base_0000002/000000_0", "convert.other-format"),
    ):
        place = tmp_path / path.partition("/")[0] / code
        put(place, "a.parquet", v=[1])
        (place / path).parent.mkdir(parents=True)
        (place / path).touch()
        with pytest.raises(Refused) as refused:
            open_table(place).plan_convert()
        assert code == refused.value.code
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotATable, match="no data file"):
        open_table(tmp_path / "empty").plan_convert()


@pytest.mark.parametrize("change", ["arrives", "goes", "grows"])
def test_a_file_that_changes_between_plan_and_commit_is_named(change: str, tmp_path: Path) -> None:
    place = lake(tmp_path / "t")
    table = open_table(place)
    plan = table.plan_convert()
    changed = place / "day=2026-01-03/c=001/g.parquet"
    match change:
        case "arrives":
            put(place, "day=2026-01-03/c=001/late.parquet", id=pa.array([7], pa.int32()))
        case "goes":
            changed.unlink()
        case _:
            changed.write_bytes(changed.read_bytes() + b"x")

    with pytest.raises(Refused) as refused:
        table.execute_convert(plan)

    assert "convert.files-changed" == refused.value.code
    assert "day=2026-01-03/c=001" in refused.value.facts["file 1"]
    assert not (place / "_delta_log").exists()


@pytest.mark.halved
def test_a_run_that_dies_leaves_no_table_or_all_of_it(tmp_path: Path) -> None:
    counting = MortalStorage(LocalStorage(str(lake(tmp_path / "counted"))))
    execute_change(Convert(ConvertRequest()), open_at(counting))
    expected = rows(tmp_path / "counted", "id", "c")

    for at in range(1, len(counting.calls) + 1):
        place = lake(tmp_path / str(at))
        with suppress(Killed):
            dying = MortalStorage(LocalStorage(str(place)), at, Fault.KILLED_BEFORE, dies=True)
            execute_change(Convert(ConvertRequest()), open_at(dying))
        try:
            found = rows(place, "id", "c")
        except DeltacliError:
            # Between making the directory of the log and its draft there is nothing that says whose it is.
            is_unclear = (place / "_delta_log").exists() and not any((place / "_delta_log").iterdir())
            Table(LocalStorage(str(place))).convert(accept_unknowable=is_unclear)
            found = rows(place, "id", "c")
        assert expected == found


def test_another_writer_that_makes_the_table_first_is_not_overwritten(tmp_path: Path) -> None:
    place = lake(tmp_path / "t")
    table = open_table(place)
    plan = table.plan_convert()
    open_table(place).convert()
    first = (place / "_delta_log" / f"{0:020}.json").read_bytes()

    with pytest.raises(Refused):
        table.execute_convert(plan)

    assert first == (place / "_delta_log" / f"{0:020}.json").read_bytes()


def lost(place: Path) -> Path:
    """A table of two files with an id of their own, as tables have them, without its log."""
    Ids(partitioned=False).append(named(1)).append(named(2)).builder.write(place)
    for path in (place / "_delta_log").iterdir():
        path.unlink()
    (place / "_delta_log").rmdir()
    return place


def test_a_table_that_lost_its_log_needs_acceptance(tmp_path: Path, capsysbinary: Capture) -> None:
    place = lost(tmp_path / "t")

    code = run(["convert", str(place), "--yes", "--json"])

    out, err = capsysbinary.readouterr()
    document = json.loads(out)
    assert (4, [], ["removed-files"]) == (
        code,
        faults(document, document["kind"]),
        [one["kind"] for one in document["unknowable"]],
    )
    assert b"--accept-unknowable" in err
    assert b"undelete" in err
    assert 0 == run(["convert", str(place), "--accept-unknowable", "--yes"])


def test_a_lost_log_comes_from_a_copy(tmp_path: Path, capsysbinary: Capture) -> None:
    place, copy = tmp_path / "t", tmp_path / "copy"
    Ids(partitioned=False).append("a.parquet").append("b.parquet").builder.write(place)
    assert 0 == run(["copy", str(place), str(copy), "--replica"])
    before = rows_of(open_table(place))
    shutil.rmtree(place / "_delta_log")
    again = ["convert", str(place), "--from", str(copy), "--yes"]

    capsysbinary.readouterr()
    assert 2 == run([*again, "--exclude", "b.parquet"])
    assert 0 == run([*again, "--dry-run"])
    assert not (place / "_delta_log").exists()
    assert 0 == run(again)

    assert before == rows_of(open_table(place))


def named(number: int, dash: str = "-") -> str:
    return f"part-0000{number}-{number}dbd0cda-2618-42ef-b175-2beb5cf562da{dash}c000.snappy.parquet"


@pytest.mark.parametrize(
    "trace",
    [
        "deletion_vector_8dbd0cda-2618-42ef-b175-2beb5cf562da.bin",
        "_change_data/x",
        f"{named(1, '.')},{named(2, '.')},x.parquet",
        f"{named(1)},{named(2)},x.parquet",
        "col-8dbd0cda-2618-42ef-b175-2beb5cf562da=1/a.parquet",
    ],
)
def test_other_traces_of_a_table_count_too(trace: str, tmp_path: Path) -> None:
    for name in (*trace.split(","), "kept.parquet"):
        put(tmp_path, name, v=[1])

    for excluded in ((), ("*.snappy.parquet", "*.bin", "x.parquet")):
        plan = open_table(tmp_path).plan_convert(exclude=excluded)
        kinds = [one.kind for one in plan.unknowable]
        assert "removed-files" == kinds[0]
        assert ("deletion_vector" in trace) == ("deleted-rows" in kinds)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("io.delta.kernel.default-parquet-writer", "Kernel-Defaults-4.0.0"),
        ("org.apache.spark.sql.parquet.row.metadata", '{"metadata":{"delta.columnMapping.id":1}}'),
    ],
)
def test_footers_tell_of_writers_of_tables(key: str, value: str, tmp_path: Path) -> None:
    rows = pa.table({"v": [1]})
    pq.write_table(rows.replace_schema_metadata({key: value}), tmp_path / "a.parquet")

    (found,) = open_table(tmp_path).plan_convert().unknowable

    assert key in found.evidence


def test_a_variant_is_not_taken_for_a_struct(tmp_path: Path) -> None:
    rows = pa.table({"v": [{"metadata": b"", "value": b""}]})
    told = {"org.apache.spark.sql.parquet.row.metadata": '{"fields":[{"name":"v","type":"variant"}]}'}
    (tmp_path / "t").mkdir()
    pq.write_table(rows.replace_schema_metadata(told), tmp_path / "t" / "a.parquet")
    pq.write_table(rows, tmp_path / "b.parquet")

    assert [("a.parquet", "v", "variant")] == conflicts(tmp_path / "t")
    assert () == open_table(tmp_path).plan_convert(exclude=("t/*",)).conflicts


@pytest.mark.parametrize("left", [f".{0:020}.json.crc", "_staged_commits/", "_sidecars/x"])
def test_what_is_left_of_a_log_is_a_conflict(left: str, tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", v=[1])
    place = tmp_path / "_delta_log" / left
    (place if left.endswith("/") else place.parent).mkdir(parents=True)
    if not left.endswith("/"):
        place.touch()

    plan = open_table(tmp_path).plan_convert()

    assert f"_delta_log/{left.rstrip('/')}" in {one.path for one in plan.conflicts}
    assert ["removed-files"] == [one.kind for one in plan.unknowable]


def test_an_empty_log_stays_evidence_after_a_failed_run(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", v=[1])
    (tmp_path / "_delta_log").mkdir()
    table = open_table(tmp_path)
    plan = table.plan_convert(accept_unknowable=True)
    put(tmp_path, "b.parquet", v=[1])

    with pytest.raises(Refused):
        table.execute_convert(plan)

    assert (tmp_path / "_delta_log").exists()


def test_a_linked_partition_is_a_conflict_and_a_job_at_work_a_caution(tmp_path: Path) -> None:
    put(tmp_path / "t", "_temporary/0/a.parquet", v=[1])
    put(tmp_path / "t", "_p=2/a.parquet", v=[1])
    (tmp_path / "t" / "_p=1").symlink_to(tmp_path / "t" / "_p=2")

    plan = open_table(tmp_path / "t").plan_convert()

    assert ["_p=1"] == [one.path for one in plan.conflicts]
    assert ["_temporary"] == [caution.split()[0] for caution in plan.base_version.warnings]


def test_decimals_of_directories_get_the_digits_that_every_reader_needs(tmp_path: Path) -> None:
    for value in ("1.5", "-20", "0.250"):
        put(tmp_path, f"p={value}/a.parquet", v=[1])

    open_table(tmp_path).convert(partition="p decimal(5,2)")

    assert ["-20.00", "0.25", "1.50"] == sorted(one["partitionValues"]["p"] for one in adds_of(tmp_path).values())
    assert [] == errors(tmp_path)


PHYSICAL = "col-8dbd0cda-2618-42ef-b175-2beb5cf562da"


def like(place: Path, mode: str = "name") -> str:
    """A kept document of a table with a mapped column."""
    mapping = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": PHYSICAL}
    schema = {"type": "struct", "fields": [{"name": "my id", "type": "long", "nullable": True, "metadata": mapping}]}
    metadata = {
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
        "configuration": {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "1", "a": "b"},
    }
    place.write_text(json.dumps({"kind": "deltacli.snapshot", "metadata": metadata}))
    return str(place)


def test_a_kept_document_of_the_table_gives_names_and_types_back(tmp_path: Path) -> None:
    document = like(tmp_path / "snapshot.json")
    put(tmp_path / "t", "a.parquet", **{PHYSICAL: [1, 2], "col-dropped": ["x", "y"]})
    table = open_table(tmp_path / "t")

    assert {"removed-files", "renamed-columns"} == {one.kind for one in table.plan_convert().unknowable}
    unknowable = table.plan_convert(like=document).unknowable
    assert [("removed-files", False), ("dropped-columns", True)] == [
        (one.kind, "col-dropped" in one.message) for one in unknowable
    ]
    table.convert(like=document, accept_unknowable=True)

    assert [(1,), (2,)] == rows(tmp_path / "t", "my id")
    assert [] == errors(tmp_path / "t")


@pytest.mark.parametrize("is_list", [False, True])
def test_fields_of_structs_that_the_table_had_dropped_or_widened_are_no_conflict(is_list: bool, tmp_path: Path) -> None:
    def mapped(name: str, kind: Any, number: int, **metadata: Any) -> dict[str, Any]:
        names = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"c{number}"}
        return {"name": name, "type": kind, "nullable": True, "metadata": names | metadata}

    change = {"fromType": "short", "toType": "double", "tableVersion": 3}
    inner = {"type": "struct", "fields": [mapped("x", "double", 2, **{"delta.typeChanges": [change]})]}
    kind = {"type": "array", "elementType": inner, "containsNull": True} if is_list else inner
    metadata = {
        "schemaString": json.dumps({"type": "struct", "fields": [mapped("s", kind, 1)]}),
        "partitionColumns": [],
        "configuration": {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"},
    }
    document = tmp_path / "snapshot.json"
    document.write_text(json.dumps({"kind": "deltacli.snapshot", "metadata": metadata}))
    stored = pa.struct([("c2", pa.int16()), ("c3", pa.string())])
    value: Any = {"c2": 7, "c3": "dropped"}
    array = pa.array([[value]], pa.list_(stored)) if is_list else pa.array([value], stored)
    put(tmp_path / "t", "a.parquet", c1=array)
    put(tmp_path / "t", "b.parquet", c1=pa.array([[]], pa.list_(stored)) if is_list else pa.array([None], stored))
    table = open_table(tmp_path / "t")

    plan = table.plan_convert(like=str(document))
    table.convert(like=str(document), accept_unknowable=True)

    assert () == plan.conflicts
    place = "s.element.c3" if is_list else "s.c3"
    assert [f"the column {place} of a.parquet"] == [
        one.evidence for one in plan.unknowable if one.kind == "dropped-columns"
    ]
    expected: Any = {"x": 7.0}
    assert {repr(([expected] if is_list else expected,)), repr(([] if is_list else None,))} == {
        repr(row) for row in rows(tmp_path / "t", "s")
    }
    assert [] == errors(tmp_path / "t")


def test_columns_of_row_ids_that_the_document_names_are_no_columns_of_the_table(tmp_path: Path) -> None:
    number = PHYSICAL.removeprefix("col-")
    names = [f"_row-id-col-{number}", f"_row-commit-version-col-{number}"]
    metadata = {
        "schemaString": json.dumps(
            {"type": "struct", "fields": [{"name": "v", "type": "long", "nullable": True, "metadata": {}}]}
        ),
        "partitionColumns": [],
        "configuration": dict(zip(MATERIALIZED_NAMES, names, strict=True)),
    }
    document = tmp_path / "snapshot.json"
    document.write_text(json.dumps({"kind": "deltacli.snapshot", "metadata": metadata}))
    put(tmp_path / "t", "a.parquet", v=[1, 2], **{key: [5, 6] for key in names})
    table = open_table(tmp_path / "t")

    without = table.plan_convert()
    plan = table.plan_convert(like=str(document))
    table.convert(like=str(document), accept_unknowable=True)

    assert ["removed-files", "renamed-columns"] == [one.kind for one in without.unknowable]
    assert () == plan.conflicts
    assert ["removed-files", "dropped-columns", "dropped-columns"] == [one.kind for one in plan.unknowable]
    assert [{"v": 1}, {"v": 2}] == table.snapshot().scan().to_arrow().to_pylist()


def test_a_document_of_another_table_or_of_ids_that_files_lack_is_a_conflict(tmp_path: Path) -> None:
    put(tmp_path / "other", "a.parquet", v=[1])
    put(tmp_path / "t", "a.parquet", **{PHYSICAL: [1, 2]})

    of_other = conflicts(tmp_path / "other", like=like(tmp_path / "name.json"), accept_unknowable=True)
    by_id = conflicts(tmp_path / "t", like=like(tmp_path / "id.json", "id"), accept_unknowable=True)

    assert [("a.parquet", None, "other columns")] == of_other
    assert [("a.parquet", PHYSICAL, "field id none")] == by_id


def test_what_writers_enforce_is_not_taken_with_a_schema(tmp_path: Path) -> None:
    numbers = {"type": "array", "elementType": "long", "containsNull": False}
    inner = {"type": "struct", "fields": [{"name": "b", "type": numbers, "nullable": False, "metadata": {}}]}
    metadata = {"delta.invariants": "x", "delta.identity.start": 1, "delta.generationExpression": "1", "comment": "c"}
    fields = [{"name": "a", "type": inner, "nullable": False, "metadata": metadata}]
    given = tmp_path / "schema.json"
    given.write_text(json.dumps({"type": "struct", "fields": fields}))
    put(tmp_path / "t", "a.parquet", a=[{"b": [1, None]}, {"b": None}])

    plan = open_table(tmp_path / "t").convert(schema=str(given))

    assert '"nullable":false' not in (text := json.dumps(plan.schema, separators=(",", ":")))
    assert '"containsNull":true' in text
    assert {"comment": "c"} == plan.schema["fields"][0]["metadata"]
    assert 3 == len(plan.base_version.warnings)


def test_a_given_schema_decides_and_files_have_to_fit(tmp_path: Path) -> None:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("b", "long"), ("a", "integer"))
    ]
    given = tmp_path / "schema.json"
    given.write_text(json.dumps({"type": "struct", "fields": fields}))
    put(tmp_path / "t", "x.parquet", a=pa.array([1], pa.int16()))

    assert [("x.parquet", "a", "string")] == conflicts_of_other(tmp_path, given)
    open_table(tmp_path / "t").convert(schema=str(given))

    assert [(None, 1)] == rows(tmp_path / "t", "b", "a")


def conflicts_of_other(home: Path, given: Path) -> list[tuple[str, str | None, str]]:
    put(home / "other", "x.parquet", a=["x"])
    return conflicts(home / "other", schema=str(given))


def test_the_command_asks_and_commits_once(tmp_path: Path, capsysbinary: Capture) -> None:
    place = str(lake(tmp_path / "t"))

    codes = [run(["convert", place, *words.split()]) for words in ("--dry-run", "", "--yes", "--yes")]

    assert [0, 4, 0, 4] == codes
    assert b"day date (inferred)" in capsysbinary.readouterr().out


@pytest.mark.parametrize("words", ["repair T --dry-run", "undelete T --dry-run"])
def test_what_brings_a_log_back_names_the_conversion_where_there_is_none(
    words: str, tmp_path: Path, capsysbinary: Capture
) -> None:
    place = lost(tmp_path / "t")

    run(words.replace("T", str(place)).split())

    assert f"deltacli convert {place} --dry-run".encode() in capsysbinary.readouterr().err


# Values of directories that Hive and Spark spell otherwise than Delta


def partition_values(place: Path) -> set[str | None]:
    return {value for add in adds_of(place).values() for value in add["partitionValues"].values()}


RESPELLED = [
    ("01", "int", "1"),
    ("+5", "long", "5"),
    ("True", "boolean", "true"),
    ("2024-1-5", "date", "2024-01-05"),
    ("1.5", "decimal(10,2)", "1.50"),
    ("1E3", "decimal(10,2)", "1000.00"),
    ("-1f", "double", "-1.0"),
    (".5", "float", "0.5"),
    ("inf", "double", "Infinity"),
    ("2025-02-19T13%3A00%3A00", "timestamp_ntz", "2025-02-19 13:00:00"),
    ("2025-02-19", "timestamp_ntz", "2025-02-19 00:00:00"),
    ("2025-02-19T13%3A00+02%3A00", "timestamp", "2025-02-19T11:00:00Z"),
]


@pytest.mark.parametrize(("text", "kind", "written"), RESPELLED)
def test_values_are_written_as_delta_writes_them_and_the_plan_shows_them(
    text: str, kind: str, written: str, tmp_path: Path
) -> None:
    put(tmp_path / "t", f"p={text}/a.parquet", id=[1])

    plan = open_table(tmp_path / "t").convert(partition=f"p {kind}")

    assert {written} == partition_values(tmp_path / "t")
    assert [written] == [one.value for one in plan.respelled]
    assert [] == errors(tmp_path / "t")
    assert 1 == len(rows(tmp_path / "t", "id", "p"))


NOT_VALUES = [
    ("1.5", "int"),
    ("300", "byte"),
    ("1", "boolean"),
    ("2024-02-30", "date"),
    ("1.555", "decimal(10,2)"),
    ("0.-1", "decimal(10,2)"),
    ("2025-02-19 13%3A00%3A00Z", "timestamp_ntz"),
    ("2025-02-19 13%3A00%3A00", "timestamp"),
    ("2025-02-19 13%3A00%3A00 Europe%2FBerlin", "timestamp"),
    ("2025-02-19T13%3A00%3A00.1234567Z", "timestamp"),
]


@pytest.mark.parametrize(("text", "kind"), NOT_VALUES)
def test_what_would_have_to_be_guessed_or_rounded_is_a_conflict(text: str, kind: str, tmp_path: Path) -> None:
    put(tmp_path / "t", f"p={text}/a.parquet", id=[1])

    plan = open_table(tmp_path / "t").plan_convert(partition=f"p {kind}")

    assert ["p"] == [one.column for one in plan.conflicts]
    assert () == plan.respelled


LOCAL_TIMES = [
    ("2025-02-19 13%3A00%3A00.000000", "UTC", "2025-02-19T13:00:00Z"),
    ("2025-02-19 13%3A00%3A00.5", "+02:00", "2025-02-19T11:00:00.500000Z"),
    ("2025-02-19T13%3A00%3A00", "-0330", "2025-02-19T16:30:00Z"),
    ("2025-02-19T13%3A00%3A00Z", "+02:00", "2025-02-19T13:00:00Z"),
    ("9999-12-31 23%3A59%3A59", "-05:00", None),
    ("0001-01-01 00%3A00%3A00", "+02:00", None),
]


@pytest.mark.parametrize(("text", "zone", "written"), LOCAL_TIMES)
def test_local_times_are_times_of_the_zone_that_is_given(
    text: str, zone: str, written: str | None, tmp_path: Path
) -> None:
    put(tmp_path / "t", f"p={text}/a.parquet", id=[1])

    plan = open_table(tmp_path / "t").plan_convert(partition="p timestamp", time_zone=zone)

    assert (written is None) == bool(plan.conflicts)
    if written is not None:
        open_table(tmp_path / "t").convert(partition="p timestamp", time_zone=zone)
        assert {written} == partition_values(tmp_path / "t")


@pytest.mark.parametrize("text", ["2025-03-30 02%3A30%3A00", "2025-10-26 02%3A30%3A00"])
def test_a_time_that_clocks_show_twice_or_never_is_a_conflict(text: str, tmp_path: Path) -> None:
    put(tmp_path / "t", f"p={text}/a.parquet", id=[1])

    plan = open_table(tmp_path / "t").plan_convert(partition="p timestamp", time_zone="Europe/Berlin")

    assert ["p"] == [one.column for one in plan.conflicts]


def test_a_refused_local_time_names_the_option(tmp_path: Path) -> None:
    put(tmp_path / "t", "p=2025-02-19 13%3A00%3A00/a.parquet", id=[1])

    with pytest.raises(Refused) as refused:
        open_table(tmp_path / "t").convert(partition="p timestamp")

    assert "--time-zone" in (refused.value.hint or "")


@pytest.mark.parametrize("zone", ["", "Europe", "../../etc/passwd", "+99:99", "\0", "x" * 100_000])
def test_what_is_not_a_time_zone_is_refused(zone: str, tmp_path: Path) -> None:
    put(tmp_path / "t", "p=2025-02-19/a.parquet", id=[1])

    with pytest.raises(UsageError) as refused:
        open_table(tmp_path / "t").convert(partition="p timestamp", time_zone=zone)

    assert "usage.time-zone" == refused.value.code


def test_two_spellings_of_a_value_are_one_value(tmp_path: Path) -> None:
    put(tmp_path / "t", "p=01/a.parquet", id=[1])
    put(tmp_path / "t", "p=1/a.parquet", id=[2])

    open_table(tmp_path / "t").convert(partition="p int")

    assert [(1, 1), (2, 1)] == rows(tmp_path / "t", "id", "p")


@pytest.mark.parametrize(
    ("text", "value"), [("-1f", -1.0), ("+1D", 1.0), (".5f", 0.5), ("1f", 1.0), ("-inf", -float("inf"))]
)
def test_numbers_with_a_suffix_or_a_sign_are_read(text: str, value: float, tmp_path: Path) -> None:
    put(tmp_path / "t", "p=7/a.parquet", id=[1])
    open_table(tmp_path / "t").convert(partition="p double")
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"p":"7"', f'"p":"{text}"'))

    assert [(1, value)] == rows(tmp_path / "t", "id", "p")


# Columns that are in files and in their directories


OVERRIDDEN = [
    (pa.array([2], pa.int64()), "int", "2"),
    (pa.array([2], pa.int8()), "long", "2"),
    (pa.array(["x"]), "int", "x"),
    (pa.array([None], pa.int32()), "int", "null"),
    (pa.array([2.5]), "int", "double"),
]


@pytest.mark.parametrize(("values", "kind", "seen"), OVERRIDDEN)
def test_a_column_that_contradicts_the_directory_is_named_in_the_plan_and_by_validate(
    values: pa.Array, kind: str, seen: str, tmp_path: Path
) -> None:
    place = tmp_path / "t"
    put(place, "p=1/a.parquet", id=[1], p=values)

    plan = open_table(place).convert(partition=f"p {kind}")
    findings = open_table(place).validate(level="data").findings

    assert [True] == ["p=1/a.parquet" in note and seen in note for note in plan.base_version.warnings]
    found = [one for one in findings if one.rule.id == "data.partition-column-differs"]
    assert [Severity.INFO] == [one.severity for one in found]
    assert [(1, 1)] == rows(place, "id", "p")


SAME = [
    ("p=1", pa.array([1, 1], pa.int32()), "int"),
    ("p=01", pa.array([1, 1], pa.int64()), "int"),
    ("p=x", pa.array(["x", "x"]), "string"),
    ("p=2024-01-05", pa.array([19727, 19727], pa.date32()), "date"),
    ("p=__HIVE_DEFAULT_PARTITION__", pa.array([None, None], pa.int32()), "int"),
]


@pytest.mark.parametrize(("directory", "values", "kind"), SAME)
def test_a_column_that_agrees_with_the_directory_is_not_named(
    directory: str, values: pa.Array, kind: str, tmp_path: Path
) -> None:
    place = tmp_path / "t"
    put(place, f"{directory}/a.parquet", id=[1, 2], p=values)

    plan = open_table(place).convert(partition=f"p {kind}")
    findings = open_table(place).validate(level="data").findings

    assert [] == plan.base_version.warnings
    assert "data.partition-column-differs" not in {one.rule.id for one in findings}


def test_a_date_that_python_does_not_have_is_no_error(tmp_path: Path) -> None:
    place = tmp_path / "t"
    put(place, "p=2024-01-05/a.parquet", id=[1], p=pa.array([2**31 - 1], pa.int32()).cast(pa.date32()))

    assert 1 == len(open_table(place).convert(partition="p date").base_version.warnings)


def test_files_without_columns_are_no_table(tmp_path: Path) -> None:
    put(tmp_path / "t", "a.parquet")

    assert [("a.parquet", None)] == [one[:2] for one in conflicts(tmp_path / "t")]
