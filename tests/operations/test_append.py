"""Appended rows are the rows that were given, for other engines too, or they are refused by name with nothing left."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.changing.change import plan_change
from deltacli.core.errors import ConflictLost, Refused
from deltacli.operations.change.append import Append, AppendBaseVersion, Transaction, plan_append
from deltacli.spark.source_options import WriteOptions
from deltacli.spark.source_plans import _Plan, abort_sink, commit_sink, open_source
from tests.support import corpus
from tests.support.actions import commit_info, metadata, protocol
from tests.support.altering import table_of
from tests.support.appending import append, committed, written
from tests.support.builder import TableBuilder
from tests.support.effort import is_soaking

MOMENT = datetime(2026, 3, 4, 5, 6, 7, 890123, tzinfo=UTC)
VALUES: Mapping[str, tuple[Any, pa.DataType, list[Any]]] = {
    "string": ("string", pa.string(), ["a", "ü/=%: x", None, ""]),
    "long": ("long", pa.int64(), [0, -(1 << 63), (1 << 63) - 1, None]),
    "byte": ("byte", pa.int8(), [-128, 127, 0, None]),
    "double": ("double", pa.float64(), [1.5, -0.0, 1e300, None]),
    "boolean": ("boolean", pa.bool_(), [True, False, None, True]),
    "date": ("date", pa.date32(), [date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 10), None]),
    "timestamp": ("timestamp", pa.timestamp("us", "UTC"), [MOMENT, datetime(1900, 1, 1, tzinfo=UTC), None, MOMENT]),
    "timestamp_ntz": (
        "timestamp_ntz",
        pa.timestamp("us"),
        [MOMENT.replace(tzinfo=None), None, datetime(2, 1, 1), None],
    ),
    "decimal": (
        "decimal(20,3)",
        pa.decimal128(20, 3),
        [Decimal("0.001"), Decimal("-12345678901234567.890"), None, Decimal(0)],
    ),
    "binary": ("binary", pa.binary(), [b"\x00\xff", b"", None, b"x"]),
}
NESTED = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string())), ("c", pa.map_(pa.string(), pa.int32()))])


def _schema(*columns: tuple[str, Any], **more: Mapping[str, Any]) -> str:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}, **more.get(name, {})} for name, kind in columns
    ]
    return json.dumps({"type": "struct", "fields": fields})


def _table(
    place: Path,
    schema: str,
    *partitions: str,
    features: tuple[str, ...] = (),
    configuration: Mapping[str, str] | None = None,
) -> Table:
    readers = [name for name in features if name in ("columnMapping", "timestampNtz")]
    TableBuilder().commit(
        commit_info("CREATE TABLE", inCommitTimestamp=1),
        protocol(3, 7, reader_features=readers, writer_features=list(features)),
        metadata(configuration=dict(configuration or {}), partition_columns=list(partitions), schema_string=schema),
    ).write(place)
    return open_table(str(place))


def _rows(table: Table) -> list[tuple[Any, ...]]:
    read = open_table(table.uri).snapshot().scan().to_arrow()
    return sorted(zip(*(column.to_pylist() for column in read.columns), strict=True), key=repr)


@pytest.mark.parametrize("partition", [None, *(name for name in VALUES if name != "binary")])
def test_every_type_is_kept_as_a_column_and_as_a_partition_value(partition: str | None, tmp_path: Path) -> None:
    schema = _schema(("id", "long"), *((name, kind) for name, (kind, _, _) in VALUES.items()))
    table = _table(tmp_path / "tbl", schema, *([partition] if partition else []), features=("timestampNtz",))
    columns = {name: pa.array(values, kind) for name, (_, kind, values) in VALUES.items()}
    rows = pa.table({"id": pa.array(range(4), pa.int64()), **columns})

    append(table, rows)
    append(table, rows.select(rows.column_names[::-1]))

    expected = [list(row.values()) for row in rows.to_pylist()] * 2
    if partition == "string":  # an empty text means null there
        expected = [[None if value == "" else value for value in row] for row in expected]
    assert sorted(map(tuple, expected), key=repr) == _rows(table)
    assert () == _findings(table)


def test_rows_of_one_batch_in_many_partitions_by_many_columns(tmp_path: Path) -> None:
    """Combinations of twelve columns with 60 values each have no number of 64 bits."""
    names = [f"p{number}" for number in range(12)]
    table = _table(tmp_path / "tbl", _schema(("id", "long"), *((name, "integer") for name in names)), *names)
    rows = pa.table({"id": range(60), **{name: pa.array(range(60), pa.int32()) for name in names}})

    append(table, rows)

    assert [(number,) * 13 for number in range(60)] == sorted(_rows(table))


def _findings(table: Table) -> tuple[str, ...]:
    found = open_table(table.uri).validate(level="data").findings
    return tuple(finding.message for finding in found if finding.severity.value != "info")


def test_nested_values_by_physical_names_with_row_ids(tmp_path: Path) -> None:
    kinds = {
        "type": "struct",
        "fields": [
            {"name": "a", "type": "long", "nullable": True, "metadata": _mapped(3)},
            {
                "name": "b",
                "type": {"type": "array", "elementType": "string", "containsNull": True},
                "nullable": True,
                "metadata": _mapped(4),
            },
            {
                "name": "c",
                "type": {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True},
                "nullable": True,
                "metadata": _mapped(5),
            },
        ],
    }
    schema = _schema(("id", "long"), ("n", kinds), id={"metadata": _mapped(1)}, n={"metadata": _mapped(2)})
    properties = {
        "delta.columnMapping.mode": "name",
        "delta.columnMapping.maxColumnId": "5",
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "_ids",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_versions",
    }
    features = ("columnMapping", "rowTracking", "domainMetadata")
    table = _table(tmp_path / "tbl", schema, features=features, configuration=properties)
    values: list[Any] = [{"a": 1, "b": ["x", None], "c": [("k", 1)]}, None, {"a": None, "b": None, "c": []}]
    rows = pa.table({"ID": pa.array([1, 2, 3], pa.int32()), "n": pa.array(values, NESTED)})

    append(table, rows)
    append(table, rows)

    assert 6 == len(_rows(table))
    assert [(1, values[0])] * 2 == [row for row in _rows(table) if row[0] == 1]
    adds = [add for batch in table.snapshot().files() for add in batch.to_pylist()]
    assert [(0, 1), (3, 2)] == sorted((add["baseRowId"], add["defaultRowCommitVersion"]) for add in adds)
    assert () == _findings(table)


def _mapped(number: int) -> dict[str, Any]:
    return {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}


EXPRESSION = {"delta.invariants": '{"expression":{"expression":"a > 2"}}'}
REFUSED = [
    ("append.unknown-column", "long", {}, {"a": [1], "b": [1]}),
    ("append.unknown-column", "long", {}, {"a": [1], "A": [1]}),
    ("append.type", "integer", {}, {"a": pa.array([1], pa.int64())}),
    ("append.type", "long", {}, {"a": ["1"]}),
    ("append.type", "timestamp", {}, {"a": pa.array([0], pa.timestamp("us"))}),
    ("append.type", "decimal(5,2)", {}, {"a": pa.array([1], pa.int64())}),
    ("append.missing-column", "long", {"nullable": False}, {}),
    ("append.missing-column", "long", {"metadata": {"CURRENT_DEFAULT": "abs(1)"}}, {}),
    ("append.missing-column", "long", {"metadata": {"delta.generationExpression": "id + 1"}}, {}),
    ("append.constraint", "long", {"nullable": False}, {"a": pa.array([None, 1], pa.int64())}),
    ("append.constraint", "long", {"metadata": EXPRESSION}, {"a": [3, 2]}),
    ("append.constraint", "long", {"metadata": {"delta.generationExpression": "id + 1"}}, {"a": [2]}),
    ("append.identity", "long", {"metadata": {"delta.identity.start": 1, "delta.identity.step": 1}}, {"a": [1]}),
    ("append.type", "string", {"metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}}, {"a": ["x"]}),
    ("append.value", "string", {"metadata": {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}}, {"a": ["four"]}),
]


@pytest.mark.parametrize("code, kind, more, rows", REFUSED)
def test_rows_that_the_table_cannot_have_are_refused_by_name(
    code: str, kind: str, more: Any, rows: Any, tmp_path: Path
) -> None:
    features = ("invariants", "checkConstraints", "generatedColumns", "identityColumns", "allowColumnDefaults")
    table = _table(tmp_path / "tbl", _schema(("id", "long"), ("a", kind), a=more), features=features)
    given = {"id": pa.array(range(len(rows.get("a", [0]))), pa.int64()), **rows}

    with pytest.raises(Refused) as refused:
        append(table, pa.table(given))

    assert code == refused.value.code
    assert 0 == table.snapshot().version
    assert code.startswith("append.constraint") or not list((tmp_path / "tbl").rglob("*.parquet"))


MELBOURNE = "Australia/Melbourne"
EVENING = datetime(2026, 3, 4, 20, 6, 7, tzinfo=UTC)
"""The fifth of March in Melbourne."""
ZONED: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "date": ("CAST(t AS DATE)", {}),
    "hour": ("t IS NOT NULL", {"delta.constraints.early": "hour(t) = 7"}),
    "literal": ("t IS NOT NULL", {"delta.constraints.late": "t > TIMESTAMP '2026-03-05 07:00:00'"}),
    "text": ("t IS NOT NULL", {"delta.constraints.text": "date_format(t, 'yyyy-MM-dd HH:mm') = '2026-03-05 07:06'"}),
}


@pytest.mark.parametrize("name", ZONED)
def test_what_depends_on_a_time_zone_is_judged_in_that_of_the_session(name: str, tmp_path: Path) -> None:
    expression, constraints = ZONED[name]
    kind = "date" if name == "date" else "boolean"
    schema = _schema(("t", "timestamp"), ("g", kind), g={"metadata": {"delta.generationExpression": expression}})
    features = ("generatedColumns", "checkConstraints")
    table = _table(tmp_path / "tbl", schema, features=features, configuration=constraints)
    given = pa.array([date(2026, 3, 5)] if name == "date" else [True])

    def rows(zone: str) -> pa.Table:
        return pa.table({"t": pa.array([EVENING], pa.timestamp("us", zone)), "g": given})

    append(table, rows(MELBOURNE), rows("GMT+11:00"))
    with pytest.raises(Refused, match="rows break") as refused:
        append(table, rows("UTC"))

    assert "UTC" == refused.value.facts["time zone"]
    assert 2 == table.snapshot().scan().to_arrow().num_rows


def test_times_as_numbers_are_not_judged_beside_what_depends_on_a_time_zone(tmp_path: Path) -> None:
    check = {"delta.constraints.odd": "CAST(t AS BIGINT) > 0 AND hour(t) = 7"}
    table = _table(tmp_path / "tbl", _schema(("t", "timestamp")), features=("checkConstraints",), configuration=check)

    with pytest.raises(Refused, match="it cannot be judged") as refused:
        append(table, pa.table({"t": pa.array([EVENING], pa.timestamp("us", MELBOURNE))}))

    assert "append.constraint-unjudged" == refused.value.code


def test_literal_defaults_and_constraints_are_kept(tmp_path: Path) -> None:
    defaults = {"b": {"metadata": {"CURRENT_DEFAULT": "-7"}}, "c": {"metadata": {"CURRENT_DEFAULT": "'it''s'"}}}
    schema = _schema(("a", "long"), ("b", "integer"), ("c", "string"), **defaults)
    features = ("allowColumnDefaults", "checkConstraints")
    table = _table(tmp_path / "tbl", schema, features=features, configuration={"delta.constraints.low": "a < 10"})

    append(table, pa.table({"a": [1, 9]}))

    assert [(1, -7, "it's"), (9, -7, "it's")] == _rows(table)
    with pytest.raises(Refused, match="low"):
        append(table, pa.table({"a": [1, 10]}))


def test_clustering_columns_have_statistics_whatever_the_properties_say(tmp_path: Path) -> None:
    """Clustered Table: writers collect per-file statistics of the clustering columns."""
    properties = {"delta.dataSkippingNumIndexedCols": "0"}
    builder = table_of(
        "a bigint, s struct<x: bigint, y: bigint>",
        properties=properties,
        features=["clustering", "domainMetadata"],
        clustering=[["s", "y"]],
    )
    table = open_table(builder.write(tmp_path / "table"))
    for number in range(2):
        append(table, pa.table({"a": [number], "s": [{"x": 1, "y": number}]}))
    appended = [json.loads(one)["minValues"] for one in _stats(table)]
    table.optimize(cluster=True)

    assert [{"s": {"y": 0}}, {"s": {"y": 1}}] == appended
    assert [{"s": {"y": 1}}] == [json.loads(one)["maxValues"] for one in _stats(table)]


def test_files_of_an_append_have_the_size_of_the_property_as_optimize_reads_it(tmp_path: Path) -> None:
    builder = table_of("a bigint", properties={"delta.targetFileSize": "128mb"})
    spec = plan_append(open_table(builder.write(tmp_path / "table")).snapshot(), pa.schema([("a", pa.int64())]))

    assert 128 << 20 == spec.rewrite.target_bytes


def _stats(table: Table) -> list[str]:
    return sorted(text for batch in table.snapshot().files() for text in batch.column("stats").to_pylist())


def test_a_transaction_is_appended_once(tmp_path: Path) -> None:
    table = _table(tmp_path / "tbl", _schema(("a", "long")))
    rows = pa.table({"a": [1]})

    made = append(table, rows, transaction=Transaction("job", 4))

    assert made == 1
    assert append(table, rows, transaction=Transaction("job", 4)) is None
    assert append(table, rows, transaction=Transaction("job", 3)) is None
    append(table, rows, transaction=Transaction("other", 0))
    assert 2 == len(_rows(table))
    info = table.history(limit=1).items[0].commit_info
    assert info is not None
    assert (True, "WRITE") == (info["isBlindAppend"], info["operation"])


def test_files_of_another_schema_are_not_committed(tmp_path: Path) -> None:
    table = _table(tmp_path / "tbl", _schema(("a", "long")), features=("checkConstraints",))
    plan = plan_change(Append(pa.schema([("a", pa.int64())])), table)
    files = written(table, plan.spec, pa.table({"a": [50]}).to_batches())
    append(table, pa.table({"a": [1]}))
    table.alter([{"change": "add-constraint", "name": "low", "expression": "a < 10"}])

    with pytest.raises(ConflictLost) as lost:
        committed(plan, files)

    assert "append.table-changed" == lost.value.code
    assert [(1,)] == _rows(table)


@pytest.mark.halved
def test_rows_of_real_tables_can_be_appended_to_them(tmp_path: Path) -> None:
    outcomes: dict[str, list[str]] = {}
    for entry in corpus.tables()[::7]:
        if entry.id == "delta-rs/COVID-19_NYT" and not is_soaking():
            continue  # a million rows take most of the time
        outcomes.setdefault(_appended_again(entry, tmp_path), []).append(entry.id)

    assert 8 < len(outcomes["appended"]), outcomes
    assert {"appended", "unreadable", "refused"} >= set(outcomes), outcomes


def _appended_again(entry: Any, tmp_path: Path) -> str:
    from shutil import copytree, rmtree

    from deltacli.core.errors import DeltacliError

    place = tmp_path / "copy"
    rmtree(place, ignore_errors=True)
    copytree(entry.path(corpus.unpacked()), place)
    table = open_table(str(place))
    try:
        before = table.snapshot().scan().to_arrow()
    except DeltacliError:
        return "unreadable"
    try:
        append(table, before)
    except Refused:
        return "refused"
    after = open_table(str(place)).snapshot().scan().to_arrow()
    assert 2 * before.num_rows == after.num_rows, entry.id
    twice = pa.concat_tables([before, before]).to_pylist()
    assert sorted(map(repr, twice)) == sorted(map(repr, after.to_pylist())), entry.id
    return "appended"


def test_files_of_an_append_go_only_where_it_was_certainly_not_committed(tmp_path: Path) -> None:
    table = _table(tmp_path / "tbl", _schema(("a", "long")))
    plan, message = _sink(tmp_path / "tbl")

    committed = message()
    commit_sink(plan, [committed])
    abort_sink(plan, [committed])  # as Spark does where the answer of the commit was lost
    assert [(1,)] == _rows(table)

    abort_sink(plan, [message(), None])
    assert 1 == len(list((tmp_path / "tbl").rglob("*.parquet")))


def _sink(place: Path) -> tuple[bytes, Callable[[], bytes]]:
    """The plan of a write to a table, and what makes the message of a task of it."""
    options = WriteOptions(str(place))
    made = plan_change(Append(pa.schema([("a", pa.int64())])), open_source(options))
    plan = pickle.dumps(_Plan(options, made.spec, b"", False, AppendBaseVersion.of(made.base_version)))
    return plan, lambda: pickle.dumps(written(made.base_version.table, made.spec, pa.table({"a": [1]}).to_batches()))


def test_rows_are_committed_in_the_directory_where_their_files_are(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    _table(tmp_path / "first", _schema(("a", "long")))
    shutil.copytree(tmp_path / "first", copy)
    link = tmp_path / "tbl"
    link.symlink_to(tmp_path / "first")
    plan, message = _sink(link)
    files = [message()]
    link.unlink()
    link.symlink_to(copy)

    with pytest.raises(RuntimeError, match=r"plan\.other-place"):
        commit_sink(plan, files)
    with pytest.raises(RuntimeError, match=r"plan\.other-place"):
        abort_sink(plan, [*files, None])

    assert 0 == open_table(copy).snapshot().version


def _rewritten(log: Path) -> None:
    (log / f"{1:020d}.json").write_text('{"commitInfo":{}}\n')


def _rolled_back(log: Path) -> None:
    (log / f"{1:020d}.json").unlink()


@pytest.mark.parametrize("code, event", [("plan.other-past", _rewritten), ("plan.newer", _rolled_back)])
def test_rows_for_a_log_that_was_replaced_are_not_committed(
    code: str, event: Callable[[Path], None], tmp_path: Path
) -> None:
    table = _table(tmp_path / "tbl", _schema(("a", "long")))
    append(table, pa.table({"a": [5]}))
    plan, message = _sink(tmp_path / "tbl")
    files = [message()]
    event(tmp_path / "tbl" / "_delta_log")

    with pytest.raises(RuntimeError, match=code.replace(".", r"\.")):
        commit_sink(plan, files)

    assert not list((tmp_path / "tbl" / "_delta_log").glob(f"{2:020d}.json"))


def test_a_query_goes_on_after_the_log_was_cleaned_past_its_plan(tmp_path: Path) -> None:
    table = _table(tmp_path / "tbl", _schema(("a", "long")))
    plan, message = _sink(tmp_path / "tbl")
    commit_sink(plan, [message()])
    table.checkpoint()
    (tmp_path / "tbl" / "_delta_log" / f"{0:020d}.json").unlink()

    commit_sink(plan, [message()])

    assert [(1,), (1,)] == _rows(table)
