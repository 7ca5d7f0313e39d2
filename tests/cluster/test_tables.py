"""Frames of the tables of the corpus have the rows of our own scan, in any zone and with either reader of Spark."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError, VersionAbsent
from deltacli.spark import plan_table, read_changes, read_table, register
from tests.cli.support import make_sample
from tests.cluster.spark_rows import counted, counts_of
from tests.support import corpus

SMOKE = (
    "dat/basic_partitioned",
    "dat/deletion_vectors",
    "dat/column_mapping",
    "dat/nested_types",
    "kernel-rs/type-widening",
)
SAMPLE = (
    *SMOKE,
    "dat/all_primitive_types",
    "dat/multi_partitioned_2",
    "dat/partitioned_with_null",
    "dat/timestamp_ntz",
    "dat/with_checkpoint",
    "dat/with_schema_change",
    "delta-rs/delta-2.2.0-partitioned-types",
    "delta-rs/cdf-table-with-cdc-and-dvs",
    "delta-rs/table_with_column_mapping",
    "delta-rs/table_with_partitioning_mapping",
    "golden/data-reader-date-types-PST",
    "delta-rs/issue-2152",
    "derived/dv-inline-a",
    "derived/void-and-nested-a",
    "kernel-java/column-mapping-id",
    "golden/data-reader-timestamp_ntz-id-mode",
    "golden/data-reader-date-types-Iceland",
    "golden/parquet-decimal-type",
    "duckdb-delta/variant/basic",
    "spark/dbr_8_1_generated_columns",
)
"""Small tables with each feature of the protocol that concerns rows: 25."""
_LARGE = ("delta-rs/COVID-19_NYT", "kernel-rs/300k-add-files-100-col-partitioned")
"""Tables that take minutes to compare, or have no data files."""
_NOT_IN_ARROW = ("delta-rs/spark-shredded-variant-preview-delta", "kernel-java/spark-shredded-variant-preview-delta")
"""Tables with arrays of variants, which no version of PySpark can fetch."""

Change = Callable[[str, str], None]


def _compare(session: Any, names: Iterable[str], *, older: bool = False) -> Counter[str]:
    """Compare tables, and count how each was read: natively, by our own scan, in part, or by neither."""
    found: Counter[str] = Counter()
    for name in names:
        found[_outcome(session, str(corpus.table(name).path(corpus.unpacked())), name, older=older)] += 1
    return found


def _outcome(session: Any, uri: str, name: str, *, older: bool) -> str:
    try:
        newest = open_table(uri).snapshot().version
        version = newest - 1 if older else newest
        snapshot = open_table(uri).snapshot(version=version) if version >= 0 else None
    except DeltacliError:
        return "no version"
    if snapshot is None:
        return "no version"
    try:
        rows = snapshot.scan().to_arrow()
    except DeltacliError:
        return "not read by our own scan"
    plan = plan_table(session, uri, version=version)
    if name in _NOT_IN_ARROW:
        assert rows.num_rows == plan.dataframe().count(), name
    else:
        assert counted(rows) == counts_of(plan.dataframe()), name
    return "mixed" if plan.own_files and plan.native_files else "own" if plan.own_files else "native"


def test_smoke_frames_have_the_rows_of_our_own_scan(session: Any) -> None:
    assert {"native": len(SMOKE)} == _compare(session, SMOKE)


@pytest.mark.parametrize("zone, vectorised", [("UTC", "true"), ("Asia/Tokyo", "false")])
def test_sample_frames_have_the_rows_of_our_own_scan(zone: str, vectorised: str, session: Any, setting: Change) -> None:
    setting("spark.sql.session.timeZone", zone)
    setting("spark.sql.parquet.enableVectorizedReader", vectorised)

    found = _compare(session, SAMPLE)

    assert 25 == len(SAMPLE) == found.total()
    assert found["native"] >= 24  # Spark 4.0 does not read variants of 4.1


@pytest.mark.soak
@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
@pytest.mark.parametrize("vectorised", ["true", "false"])
def test_every_frame_has_the_rows_of_our_own_scan(
    vectorised: str, zone: str, older: bool, session: Any, setting: Change
) -> None:
    setting("spark.sql.session.timeZone", zone)
    setting("spark.sql.parquet.enableVectorizedReader", vectorised)

    found = _compare(session, [entry.id for entry in corpus.tables() if entry.id not in _LARGE], older=older)

    assert found["native"] >= (93 if not older else 60)


def test_smoke_changes_are_those_of_our_own_scan(session: Any, setting: Change) -> None:
    setting("spark.sql.session.timeZone", "Asia/Tokyo")
    for name in ("delta-rs/cdf-table-non-partitioned", "delta-rs/cdf-table-with-cdc-and-dvs", "dat/deletion_vectors"):
        uri = str(corpus.table(name).path(corpus.unpacked()))
        ours = open_table(uri).changes(from_version=0).to_arrow()

        frame = read_changes(session, uri, 0)

        assert counted(ours) == counts_of(frame), name


def test_changes_with_a_condition_and_an_end(session: Any) -> None:
    uri = str(corpus.table("delta-rs/cdf-table-non-partitioned").path(corpus.unpacked()))
    chosen: dict[str, Any] = {"columns": ["id"], "where": "_change_type = 'insert'"}
    ours = open_table(uri).changes(from_version=0, to_version=1, **chosen).to_arrow()

    frame = read_changes(session, uri, 0, 1, **chosen)

    assert ours.num_rows > 0
    assert counted(ours) == counts_of(frame)
    with pytest.raises(VersionAbsent):
        read_changes(session, uri, 0, 999)


def test_the_data_source_reads_columns_rows_changes_and_views(session: Any, tmp_path: Path) -> None:
    register(session)
    path = str(make_sample(tmp_path / "tbl"))
    day = "day = '2026-01-01'"

    some = session.read.format("deltacli").option("columns", "trip").option("where", day).load(path)
    feed = session.read.format("deltacli").option("readChangeFeed", "true").option("startingVersion", 9)
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW of_deltacli USING deltacli OPTIONS (path '{path}', versionAsOf '9')")

    table = open_table(path)
    assert counted(table.snapshot().scan(columns=["trip"], where=day).to_arrow()) == counts_of(some)
    assert counted(table.changes(from_version=9).to_arrow()) == counts_of(feed.load(path))
    assert table.snapshot(version=9).scan().count() == session.sql("select * from of_deltacli").count()


def test_spark_knows_the_size_of_a_table_and_broadcasts_a_small_one(
    session: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = read_table(session, make_sample(tmp_path / "tbl"))

    session.range(10_000_000).withColumnRenamed("id", "trip").join(small, "trip").explain()

    assert re.search(r"BroadcastHashJoin.*BuildRight", capsys.readouterr().out)


def test_smoke_our_own_scan_on_executors_has_the_same_rows(
    session: Any, setting: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting("spark.sql.session.timeZone", "Asia/Tokyo")
    monkeypatch.setattr("deltacli.spark.parquet_scan.hazard_of", lambda _: "a setting of this test")

    assert {"own": len(SMOKE) + 1} == _compare(session, [*SMOKE, "duckdb-delta/variant/basic"])


def test_an_error_on_an_executor_names_its_code(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = corpus.table("dat/with_checkpoint")
    root = tmp_path / "table"
    shutil.copytree(entry.path(corpus.unpacked()), root)
    monkeypatch.setattr("deltacli.spark.parquet_scan.hazard_of", lambda _: "a setting of this test")
    frame = plan_table(session, root).dataframe()
    for path in root.glob("*.parquet"):
        path.unlink()

    with pytest.raises(Exception, match=r"\[data\.file-missing\] .* does not exist"):
        counts_of(frame)


def test_writing_is_an_error_that_names_what_to_use(session: Any, tmp_path: Path) -> None:
    register(session)

    with pytest.raises(Exception, match=r"\[spark\.append-only\] .*; try: frame\.write\.format\(.delta.\)") as caught:
        session.range(3).write.format("deltacli").mode("overwrite").save(str(tmp_path / "t"))

    assert 2 >= str(caught.value).partition("JVM stacktrace")[0].count("File ")
