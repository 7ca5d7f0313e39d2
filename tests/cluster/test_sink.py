"""Rows of frames and of queries that are appended to a table are in it once, and what it cannot have is refused."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as fn

from deltacli import open_table
from deltacli.spark import read_table, register
from deltacli.spark.source_options import has_stream_writers
from tests.cluster.spark_rows import counts_of
from tests.operations.test_append import _rows as rows_of
from tests.operations.test_append import _schema as schema_string
from tests.operations.test_append import _table as make_table


@pytest.fixture(scope="module", autouse=True)
def source(session: Any) -> None:
    register(session)


def _write(frame: Any, place: Path, **options: object) -> None:
    writer = frame.write.format("deltacli").mode("append")
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save(str(place))


ROW = (
    "id bigint, p string, n struct<a:int,b:array<string>>, m map<string,double>, d decimal(10,2), t timestamp, f float"
)
TYPES = (
    ("id", "long"),
    ("p", "string"),
    (
        "n",
        {
            "type": "struct",
            "fields": [
                {"name": "a", "type": "integer", "nullable": True, "metadata": {}},
                {
                    "name": "b",
                    "type": {"type": "array", "elementType": "string", "containsNull": True},
                    "nullable": True,
                    "metadata": {},
                },
            ],
        },
    ),
    ("m", {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True}),
    ("d", "decimal(10,2)"),
    ("t", "timestamp"),
    ("f", "float"),
)


def test_smoke_rows_of_a_frame_are_appended_in_one_commit(session: Any, tmp_path: Path, setting: Any) -> None:
    setting("spark.sql.session.timeZone", "Asia/Tokyo")
    place = tmp_path / "tbl"
    make_table(place, schema_string(*TYPES), "p")
    frame = session.range(1000).selectExpr(
        "id",
        "case when id % 7 = 0 then null else concat('ü/', id % 3) end as p",
        "named_struct('a', cast(id as int), 'b', array('x', null)) as n",
        "map('k', id / 3) as m",
        "cast(id / 7 as decimal(10,2)) as d",
        "timestamp'2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, id) as t",
        "cast(id as float) as f",
    )

    _write(frame, place, userMetadata="nightly")
    _write(frame.repartition(4), place)
    _write(frame.where("id < 0"), place)

    expected = counts_of(frame)
    assert {row: 2 * count for row, count in expected.items()} == dict(counts_of(read_table(session, place)))
    table = open_table(place)
    history = table.history().items
    assert ["WRITE", "WRITE", "CREATE TABLE"] == [item.operation for item in history]
    assert history[1].commit_info is not None
    assert "nightly" == history[1].commit_info["userMetadata"]
    assert [] == [one for one in table.validate(level="data").findings if one.severity.value != "info"]


@pytest.mark.parametrize(
    "code, options, mode, columns",
    [
        ("spark.append-only", {}, "overwrite", "id"),
        ("append.unknown-column", {}, "append", "id, 1 as other"),
        ("append.type", {}, "append", "cast(id as string) as id"),
        ("usage.stream-option", {"txnAppId": "x"}, "append", "id"),
        ("usage.stream-option", {"versionAsOf": "1"}, "append", "id"),
        ("table.path-missing", {"elsewhere": "none"}, "append", "id"),
        ("append.constraint", {}, "append", "id - 1 as id"),
    ],
)
def test_what_cannot_be_appended_is_one_error_and_leaves_nothing(
    code: str, options: Mapping[str, str], mode: str, columns: str, session: Any, tmp_path: Path
) -> None:
    place = tmp_path / "tbl"
    low = {"delta.constraints.low": "id >= 0"}
    make_table(place, schema_string(("id", "long")), features=("checkConstraints",), configuration=low)
    target = tmp_path / "none" if "elsewhere" in options else place
    rows = session.range(0, 50, numPartitions=1)  # tasks that Spark stops beside a failed one leave files for vacuum
    writer = rows.selectExpr(*columns.split(", ")).write.format("deltacli").mode(mode)
    for name, value in options.items():
        writer = writer if name == "elsewhere" else writer.option(name, value)

    with pytest.raises(Exception, match=rf"\[{code}\]"):
        writer.save(str(target))

    assert 0 == open_table(place).snapshot().version
    assert [] == list(place.rglob("*.parquet"))


def test_a_generated_column_is_judged_in_the_zone_of_the_session_as_its_hint_says(
    session: Any, tmp_path: Path, setting: Any
) -> None:
    setting("spark.sql.session.timeZone", "Australia/Melbourne")
    place = tmp_path / "tbl"
    generated = {"metadata": {"delta.generationExpression": "CAST(t AS DATE)"}}
    schema = schema_string(("t", "timestamp"), ("d", "date"), d=generated)
    make_table(place, schema, "d", features=("generatedColumns",))
    frame = session.sql("select timestamp'2026-03-05 07:06:07' as t")
    with pytest.raises(Exception, match=r"append\.missing-column") as missing:
        _write(frame, place)
    hint = re.search(r"frame\.withColumn\([^\n]*\)", str(missing.value))
    assert hint is not None
    hinted = eval(hint[0], {"frame": frame, "expr": fn.expr})

    if importlib.util.find_spec("duckdb") is None:  # which evaluates expressions
        with pytest.raises(Exception, match=r"append\.constraint-unjudged.*time zone: Australia/Melbourne"):
            _write(hinted, place)
        return
    _write(hinted, place)
    assert [("2026-03-05",)] == [tuple(row) for row in read_table(session, place).selectExpr("string(d)").collect()]


def test_a_batch_with_a_transaction_is_appended_once(session: Any, tmp_path: Path) -> None:
    place = tmp_path / "tbl"
    make_table(place, schema_string(("id", "long")))

    for version in (1, 1, 2, 0):
        _write(session.range(10), place, txnAppId="job", txnVersion=version)

    assert 20 == len(rows_of(open_table(place)))
    assert 2 == open_table(place).snapshot().version
    live = sum(batch.num_rows for batch in open_table(place).snapshot().files())
    assert live == len(list(place.rglob("*.parquet")))


def test_a_query_appends_each_batch_once_also_after_a_lost_checkpoint_entry(session: Any, tmp_path: Path) -> None:
    if not has_stream_writers(session.version):
        pytest.skip("Spark 4.0 has no stream writers for Python")
    source, place, state = tmp_path / "in", tmp_path / "tbl", tmp_path / "state"
    make_table(place, schema_string(("id", "long"), ("v", "decimal(5,1)")))

    def run() -> None:
        rows = session.readStream.schema("id long, v decimal(5,1)").option("maxFilesPerTrigger", 1).parquet(str(source))
        query = (
            rows.writeStream.format("deltacli")
            .option("checkpointLocation", str(state))
            .option("txnAppId", "orders")
            .trigger(availableNow=True)
            .start(str(place))
        )
        query.awaitTermination()

    for start in (0, 100):
        frame = session.range(start, start + 50, numPartitions=1).selectExpr("id", "cast(id / 10 as decimal(5,1)) as v")
        frame.write.mode("append").parquet(str(source))
    run()
    committed = sorted((state / "commits").glob("[0-9]*"))
    committed[-1].unlink()  # as after a crash between our commit and Spark's
    (state / "commits" / f".{committed[-1].name}.crc").unlink(missing_ok=True)
    run()

    rows = Counter(row[0] for row in rows_of(open_table(place)))
    assert Counter([*range(50), *range(100, 150)]) == rows
    assert (0, Decimal("0.0")) in rows_of(open_table(place))
    assert {"STREAMING UPDATE", "CREATE TABLE"} == {item.operation for item in open_table(place).history().items}


def test_a_query_needs_the_name_of_its_application(session: Any, tmp_path: Path) -> None:
    if not has_stream_writers(session.version):
        pytest.skip("Spark 4.0 has no stream writers for Python")
    place = tmp_path / "tbl"
    make_table(place, schema_string(("value", "long")))
    rows = session.readStream.format("rate").load().select("value")

    writer = rows.writeStream.format("deltacli").option("checkpointLocation", str(tmp_path / "state"))

    def run() -> None:
        writer.trigger(availableNow=True).start(str(place)).awaitTermination()

    with pytest.raises(Exception, match=r"\[stream.no-app-id\]"):
        run()

    shutil.rmtree(tmp_path / "state", ignore_errors=True)
