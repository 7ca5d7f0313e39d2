"""Row ids, identity columns and partition values in files: what is silent, and how findings are told."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.types import PrimitiveType, StructField, StructType
from deltacli.rules.framework.base import Severity
from deltacli.work.rows.row_checks import RowChecks
from tests.rules.corruptions_row_tracking import mark
from tests.rules.corruptions_row_values import IdentityTable, MaterialisedTable, TrackedTable
from tests.rules.data_table import DataTable, rows_of
from tests.rules.table_builder import TableBuilder, column, struct
from tests.rules.test_corruptions import inspect, rules_of
from tests.rules.test_file_contents import told
from tests.support.actions import add, metadata, protocol
from tests.support.builder import TableBuilder as Built
from tests.support.small_vectors import inline

DUPLICATE, BEYOND, MARK, DIFFERS = (
    "rowtracking.materialised-duplicate",
    "rowtracking.materialised-beyond-mark",
    "identity.high-water-mark",
    "data.partition-column-differs",
)


class UpdatedTable(TrackedTable):
    """Version 4 updates the rows 0 and 5 of the file of version 3: they are deleted there, and keep their ids."""

    def __init__(self, ids: list[int | None], deleted: tuple[int, ...] = (0, 5)) -> None:
        features = ["deletionVectors", "domainMetadata", "rowTracking"]
        super().__init__(
            protocol={
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features[:1],
                "writerFeatures": features,
            }
        )
        self.configure({"delta.enableDeletionVectors": "true"})
        older, row_ids = self.add(3), {"baseRowId": 30, "defaultRowCommitVersion": 3}
        marked = older | {"deletionVector": inline(deleted), "stats": json.dumps({"numRecords": 10})}
        version = self.commit(
            self.new_remove("b", 4, 4, size=older["size"], **row_ids),
            {"add": marked},
            self.new_add("b", 5, 4, baseRowId=40, defaultRowCommitVersion=4),
            mark(41),
            operation="UPDATE",
        )
        self.action(version, "commitInfo")["tags"] = {"delta.rowTracking.preserved": "true"}
        self.put_rows(self.add(4, 1), rows_of(5).slice(0, 2), 4)
        rows = self.tables[self.add(4, 1)["path"]]
        self.rewrite(4, rows.append_column("_row-id-col-1", pa.array(ids, pa.int64())), number=1)


def updated(*ids: int | None) -> Callable[[], UpdatedTable]:
    return lambda: UpdatedTable(list(ids))


@pytest.mark.parametrize(
    "make",
    [TrackedTable, IdentityTable, MaterialisedTable, updated(30, 35), updated(30, None), updated(41, 40)],
    ids=["tracked", "identity", "materialised", "updated", "half updated", "exchanged"],
)
def test_a_sound_table_is_silent(make: Callable[[], TableBuilder], tmp_path: Path) -> None:
    found = inspect(make().write(tmp_path / "t"), "data")

    assert [] == told(found)
    assert () == found.not_checked


@pytest.mark.parametrize(("repeated", "ids"), [("34", (30, 34)), ("36", (36, 35)), ("41", (41, None))])
def test_rows_are_counted_with_those_that_are_deleted(
    repeated: str, ids: tuple[int | None, ...], tmp_path: Path
) -> None:
    """34 and 36 are ids of live rows of version 3, and 41 is that of the second row itself."""
    found = inspect(updated(*ids)().write(tmp_path / "t"), "data")

    assert [(DUPLICATE, repeated)] == [(finding.rule.id, finding.seen) for finding in found.findings]


@pytest.mark.parametrize(("highest", "is_told"), [(39, False), (40, True), (2**63 - 1, True)])
def test_stored_ids_are_compared_with_the_mark(highest: int, *, is_told: bool, tmp_path: Path) -> None:
    table = TrackedTable()
    table.store_ids(3, [*range(30, 39), highest])

    found = inspect(table.write(tmp_path / "t"), "data")

    key = table.add(3)["path"]
    message = f"{key} has row ids up to {highest}, but the high-water mark of row ids is 39"
    assert ([(BEYOND, message)] if is_told else []) == told(found)


def test_rows_are_counted_from_row_group_to_row_group(tmp_path: Path) -> None:
    table = UpdatedTable([38, 35])
    table.rewrite(3, rows_of(4), row_group_size=3)
    table.add(4)["size"] = table.add(3)["size"]
    table.action(4, "remove")["size"] = table.add(3)["size"]

    found = inspect(table.write(tmp_path / "t"), "data")

    assert [(DUPLICATE, "38")] == [(finding.rule.id, finding.seen) for finding in found.findings]


def test_values_beyond_the_mark_are_told_once(tmp_path: Path) -> None:
    found = inspect(IdentityTable(mark=25).write(tmp_path / "t"), "data")

    assert [(MARK, "the identity column id has values up to 49 in 3 files, beyond its high-water mark 25")] == told(
        found
    )


def test_where_values_may_be_inserted_the_mark_is_only_noted(tmp_path: Path) -> None:
    table = IdentityTable(explicit=True, mark=48, step=2)
    table.put_rows(table.add(3), rows_of(2), 3)
    table.put_rows(table.add(2), rows_of(4), 2)

    found = inspect(table.write(tmp_path / "t"), "data")

    assert [(MARK, Severity.INFO)] == [(finding.rule.id, finding.severity) for finding in found.findings]


@pytest.mark.parametrize(("mark_at", "rules"), [(20, set()), (21, {MARK})])
def test_a_column_may_go_down(mark_at: int, rules: set[str], tmp_path: Path) -> None:
    table = IdentityTable(mark=mark_at, step=-1)
    schema = json.loads(table.metadata["schemaString"])
    schema["fields"][0]["metadata"]["delta.identity.start"] = 49
    table.metadata["schemaString"] = json.dumps(schema)

    assert rules == rules_of(inspect(table.write(tmp_path / "t"), "data"))


def test_steps_that_cant_be_counted_are_said_not_to_be(tmp_path: Path) -> None:
    found = inspect(IdentityTable(mark=0, step=1 << 62).write(tmp_path / "t"), "data")

    assert set() == rules_of(found)
    assert ("the values of the identity column id: its start or its step is 2^62 or more",) == found.not_checked


@pytest.mark.parametrize(
    ("text", "values", "rules"),
    [
        (None, [None] * 10, set()),
        ("", [None] * 5 + [""] * 5, {"partition.empty-string"}),
        (None, [None] * 5 + [""] * 5, {DIFFERS}),
        ("b", [7] * 10, set()),  # of another type: a matter of footers
    ],
)
def test_nulls_and_types_of_partition_values(
    text: str | None, values: list[str | int | None], rules: set[str], tmp_path: Path
) -> None:
    table = MaterialisedTable()
    table.add(3)["partitionValues"] = {"p": text}
    table.store_values(3, pa.array(values, pa.string()) if values[0] is None else values)

    assert rules == rules_of(inspect(table.write(tmp_path / "t"), "data")) - {"partition.dir-mismatch"}


@pytest.mark.parametrize(
    ("mode", "value", "rules"), [("name", "b", set()), ("name", "c", {DIFFERS}), ("id", "c", {DIFFERS})]
)
def test_partition_values_are_found_under_column_mapping(
    mode: str, value: str, rules: set[str], tmp_path: Path
) -> None:
    columns = [column("id", "long"), column("name", "string"), column("p", "string")]
    for number, (each, physical) in enumerate(zip(columns, ("id", "name", "col-p"), strict=True), start=1):
        each["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    table = DataTable(
        schema=struct(*columns),
        protocol={"minReaderVersion": 2, "minWriterVersion": 7, "writerFeatures": ["columnMapping", "icebergCompatV2"]},
        properties={
            "delta.columnMapping.mode": mode,
            "delta.columnMapping.maxColumnId": "3",
            "delta.enableIcebergCompatV2": "true",
        },
    )
    for version in (1, 2, 3):
        for action in table.commits[version]:
            for fields in action.values():
                if "partitionValues" in fields:
                    fields["partitionValues"] = {"col-p": fields["partitionValues"]["p"]}
    name = "col-p" if mode == "name" else "anything"
    stored = pa.schema(
        [_with_id("id", pa.int64(), 1), _with_id("name", pa.string(), 2), _with_id(name, pa.string(), 3)]
    )
    for version, number, partition in ((1, 1, "b"), (2, 0, "a"), (3, 0, value)):
        rows = table.tables[table.add(version, number)["path"]]
        table.rewrite(version, rows.append_column(name, pa.array([partition] * 10)).cast(stored), number=number)

    found = inspect(table.write(tmp_path / "t"), "data")

    assert rules == {finding.rule.id for finding in found.findings if finding.severity is Severity.ERROR}


def _with_id(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


@pytest.mark.parametrize(("text", "rules"), [("2026-01-01 01:00:00", set()), ("2026-01-01T01:00:00Z", {DIFFERS})])
def test_a_time_without_a_zone_is_no_other_time(text: str, rules: set[str], tmp_path: Path) -> None:
    """The writer's zone may be an hour behind UTC, or before it."""
    features = ["materializePartitionColumns"]
    table = DataTable(
        schema=struct(column("id", "long"), column("name", "string"), column("p", "timestamp")),
        protocol={"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features},
        properties={"delta.enableMaterializePartitionColumnsFeature": "true"},
    )
    for version in (1, 2, 3):
        for action in table.commits[version]:
            for fields in action.values():
                if "partitionValues" in fields:
                    fields["partitionValues"] = {"p": text}
    midnight = pa.array([1_767_225_600_000_000] * 10, pa.timestamp("us", "UTC"))
    rows = table.tables[table.add(3)["path"]]
    table.rewrite(3, rows.append_column("p", midnight))

    assert rules == {DIFFERS} & rules_of(inspect(table.write(tmp_path / "t"), "data"))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([column("name", "string"), column("name", "string")], "two columns name"),
        ([column("x", struct(column("y", "long"), column("y", "long")))], "two columns y"),
        ([column("x", "decimal(40,2)")], "decimal(40,2)"),
    ],
)
def test_where_a_schema_keeps_rows_from_being_read_footers_are_judged(
    fields: list[dict[str, Any]], said: str, tmp_path: Path
) -> None:
    table = DataTable(schema=struct(column("id", "long"), *fields, column("p", "string")))
    table.set_stats(3, table.stats(3) | {"numRecords": 7})

    found = inspect(table.write(tmp_path / "t"), "data")

    assert "stats.num-records-mismatch" in rules_of(found)
    assert any(said in one for one in found.not_checked)


@pytest.mark.parametrize("how", ["no Parquet", "a partition value that is none"])
def test_files_whose_rows_can_not_be_read_are_counted(how: str, tmp_path: Path) -> None:
    schema = struct(column("id", "long"), column("name", "string"), column("p", "date" if "value" in how else "string"))
    table = DataTable(schema=schema)
    table.set_stats(3, table.stats(3) | {"numRecords": 7})
    place = table.write(tmp_path / "t")
    if how == "no Parquet":
        data = place / table.add(3)["path"]
        data.write_bytes(b"x" * data.stat().st_size)

    found = inspect(place, "data")

    assert ("stats.num-records-mismatch" in rules_of(found)) == (how != "no Parquet")
    assert any("that cannot be read" in one for one in found.not_checked)


def test_other_values_in_a_plain_table_are_an_observation(tmp_path: Path) -> None:
    table = DataTable()
    rows = table.tables[table.add(3)["path"]]
    table.rewrite(3, rows.append_column("p", pa.array(["c"] * 10)))

    findings = inspect(table.write(tmp_path / "t"), "data").findings

    assert [Severity.INFO] == [finding.severity for finding in findings if finding.rule.id == DIFFERS]


@pytest.mark.parametrize("text", ["-0044-03-15", "0000-01-01", "+12345-06-07"])
@pytest.mark.parametrize("days", [None, 0, -735_000, 4_000_000])
def test_a_partition_value_outside_of_the_calendar_of_python_is_compared(
    text: str, days: int | None, tmp_path: Path
) -> None:
    schema = {"type": "struct", "fields": [column("id", "long"), column("p", "date")]}
    meta = metadata(schema_string=json.dumps(schema), partition_columns=["p"])
    rows = pa.table({"id": [1, 2]})
    if days is not None:
        rows = rows.append_column("p", pa.array([days] * 2, pa.date32()))
    data = BytesIO()
    pq.write_table(rows, data)
    builder = Built().file("a", data.getvalue())
    builder.commit(protocol(), meta, add("a", size=len(data.getvalue()), records=2, partition_values={"p": text}))

    found = {one.rule.id for one in inspect(builder.write(tmp_path / "t"), "data").findings}

    assert "data.not-parquet" not in found
    assert (DIFFERS in found) == (days is not None)


def test_a_plain_table_does_not_pay() -> None:
    questions = RowChecks.make(
        TableConfiguration(schema=StructType((StructField("id", PrimitiveType("long"), True, {}),)))
    )

    assert ["id"] == questions.wanted.schema.names
    assert {} == questions.more.questions
