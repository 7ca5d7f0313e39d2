"""The data source of PySpark: a version, a stream with limits, restarts and stops, and changes as a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.spark import register
from deltacli.spark.parquet_scan import is_connect
from deltacli.spark.source_options import has_limits
from tests.cluster.gates import wait_until
from tests.cluster.grown_tables import Grown
from tests.cluster.spark_rows import counted, counts_of
from tests.support import corpus
from tests.support.builder import commit_path
from tests.support.effort import sampled
from tests.support.renamed_columns import CHANGES, VERSIONS, in_order, make_renamed
from tests.support.s3 import S3Server, running

Change = Callable[[str, str], None]
SAMPLE = (
    "dat/all_primitive_types",
    "dat/deletion_vectors",
    "dat/column_mapping",
    "dat/nested_types",
    "dat/multi_partitioned_2",
    "dat/timestamp_ntz",
    "kernel-rs/type-widening",
    "duckdb-delta/variant/basic",
)


@pytest.fixture
def source(session: Any) -> Any:  # Any: a SparkSession
    """The session, which knows the data source."""
    register(session)
    return session


@pytest.fixture
def run(source: Any, tmp_path: Path) -> Callable[..., Counter[int]]:
    """Runs a query until all that is there is delivered, and returns all rows that it and earlier ones delivered."""
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"

    def deliver(table: Path, made: Any = None, trigger: str = "availableNow", **options: object) -> Counter[int]:
        frame = made or source.readStream.format("deltacli").options(**options).load(str(table))
        writer = frame.select("id").writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        query = writer.option("path", str(out)).trigger(**{trigger: True}).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return Counter(row["id"] for row in source.read.schema("id long").parquet(str(out)).collect())

    return deliver


def _once(count: int) -> Counter[int]:
    return Counter(range(count))


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_versions_have_the_rows_of_our_own_scan(pushdown: str, source: Any, setting: Change) -> None:
    setting("spark.sql.python.filterPushdown.enabled", pushdown)
    setting("spark.sql.session.timeZone", "Asia/Tokyo")
    for name in SAMPLE:
        uri = str(corpus.table(name).path(corpus.unpacked()))
        rows = open_table(uri).snapshot().scan().to_arrow()

        frame = source.read.format("deltacli").load(uri)

        assert counted(rows) == counts_of(frame), name


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_smoke_filters_select_the_same_rows_with_and_without_pushdown(
    pushdown: str, source: Any, setting: Change
) -> None:
    setting("spark.sql.python.filterPushdown.enabled", pushdown)
    uri = str(corpus.table("dat/multi_partitioned_2").path(corpus.unpacked()))
    whole = source.read.format("deltacli").load(uri)
    column = whole.columns[0]
    value = whole.select(column).first()[0]

    found = whole.where(whole[column] == value)

    assert 0 < found.count() == sum(row[column] == value for row in whole.collect())


def test_a_stream_delivers_each_row_once_over_restarts_and_limits(run: Any, tmp_path: Path) -> None:
    table = Grown(tmp_path / "table")
    table.append(files=3)

    assert _once(9) == run(table.root, maxFilesPerTrigger=2)
    table.append(files=2)
    table.rewrite(table.append()[0])

    assert _once(18) == run(table.root, maxFilesPerTrigger=2)
    assert _once(18) == run(table.root)


def test_a_single_batch_has_all_rows_whatever_the_limits(run: Any, tmp_path: Path) -> None:
    table = Grown(tmp_path / "table")
    table.append(files=3)
    table.append()

    assert _once(12) == run(table.root, trigger="once", maxFilesPerTrigger=1, maxBytesPerTrigger=1)


def test_a_frame_made_before_a_change_of_the_schema_is_refused(source: Any, run: Any, tmp_path: Path) -> None:
    table = Grown(tmp_path / "table")
    table.append()
    assert _once(3) == run(table.root)
    frame = source.readStream.format("deltacli").load(str(table.root))
    table.append()
    table.set_columns(b=pa.string())
    table.append()

    if not is_connect(source):  # there, a frame has no columns before it is used
        with pytest.raises(Exception, match=r"\[stream\.schema-changed\] the frame has other columns"):
            run(table.root, frame)
        frame = None
    assert _once(9) == run(table.root, frame)


def test_rows_before_a_change_of_the_schema_are_delivered_before_the_stop(
    source: Any, run: Any, tmp_path: Path
) -> None:
    table = Grown(tmp_path / "table")
    table.append()
    frame = source.readStream.format("deltacli").option("maxFilesPerTrigger", 1).load(str(table.root))
    out, place = str(tmp_path / "rows"), str(tmp_path / "place")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", place).option("path", out)
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        wait_until(lambda: any(Path(place, "commits").glob("0")))
        table.append(files=3)
        table.set_columns(b=pa.string())
        table.append()

        with pytest.raises(Exception, match=r"\[stream\.schema-changed\] version 3 changes the schema"):
            query.awaitTermination()
    finally:
        query.stop()

    assert _once(12) == Counter(row["id"] for row in source.read.schema("id long").parquet(out).collect())


@pytest.mark.parametrize(
    "option, expected",
    [({"ignoreDeletes": True}, "stream.changes"), ({}, "stream.changes"), ({"skipChangeCommits": True}, None)],
)
def test_commits_that_change_rows_are_refused_or_skipped(
    option: dict[str, object], expected: str | None, run: Any, tmp_path: Path
) -> None:
    table = Grown(tmp_path / "table")
    old = table.append()
    table.append()
    assert _once(6) == run(table.root)
    table.delete(old[0], [1])

    if expected is None:
        assert _once(6) == run(table.root, **option)
    else:
        with pytest.raises(Exception, match=rf"\[{expected}\] version 3 changes rows"):
            run(table.root, **option)


def test_a_file_that_vacuum_deleted_is_named(run: Any, tmp_path: Path) -> None:
    table = Grown(tmp_path / "table")
    (table.root / table.append()[0]["path"]).unlink()

    with pytest.raises(Exception, match=r"\[data\.file-missing\] part-000000\.parquet does not exist"):
        run(table.root)


def test_a_commit_that_is_gone_is_named(run: Any, tmp_path: Path) -> None:
    table = Grown(tmp_path / "table")
    table.append()
    assert _once(3) == run(table.root)
    table.append()
    table.append()
    open_table(table.root).checkpoint()
    (table.root / commit_path(2)).unlink()

    with pytest.raises(Exception, match=r"\[table\.version-absent\] the commit of version 2 is no longer in the log"):
        run(table.root)


def test_unknown_options_are_refused_by_name(source: Any, tmp_path: Path) -> None:
    table = Grown(tmp_path / "table")

    with pytest.raises(Exception, match=r"\[usage\.stream-option\] .* ignoredelete; did you mean: ignoreDeletes"):
        str(source.readStream.format("deltacli").options(ignoreDelete=True).load(str(table.root)).schema)


@pytest.mark.parametrize("reader", ["read", "readStream"])
def test_a_relative_path_is_refused_by_name(reader: str, source: Any) -> None:
    with pytest.raises(Exception, match=r"\[usage\.stream-option\] the path tbl is relative"):
        str(getattr(source, reader).format("deltacli").load("tbl").schema)


def test_options_of_the_store_reach_the_driver_and_executors(
    source: Any, run: Any, s3_server: S3Server, tmp_path: Path
) -> None:
    table, bucket = Grown(tmp_path / "table"), s3_server.make_bucket()
    table.append(files=2)
    for path in table.root.rglob("*.*"):
        s3_server.put(bucket, f"tbl/{path.relative_to(table.root)}", path.read_bytes())
    asked = s3_server.asked("GET", bucket)

    with running() as other:
        options = {"storage.endpoint_url": other.url, "startingVersion": 0}
        rows = run(f"s3://{bucket}/tbl", **options)

        assert other.asked("GET", f"{bucket}/tbl/part-000000.parquet") > 0

    assert _once(6) == rows
    assert asked == s3_server.asked("GET", bucket)


@pytest.mark.parametrize("reader", ["read", "readStream"])
def test_an_option_that_may_be_a_secret_is_refused_and_not_shown(reader: str, source: Any) -> None:
    secret = "nobody-may-see-this"
    frame = getattr(source, reader).format("deltacli").option("storage.secret_access_key", secret)

    with pytest.raises(Exception, match=r"\[cluster\.secret\] the storage option secret_access_key may") as caught:
        str(frame.load("s3://bucket/tbl").schema)

    assert secret not in str(caught.value)


def test_files_outside_the_table_need_a_prefix(run: Any, tmp_path: Path) -> None:
    table, outside = Grown(tmp_path / "table"), tmp_path / "outside" / "other.parquet"
    line = table.file()
    outside.parent.mkdir()
    (table.root / line["add"]["path"]).rename(outside)
    table.commit({"add": line["add"] | {"path": outside.as_uri()}})

    with pytest.raises(Exception, match=r'\[path\.external\].*\.option\("allowExternal", .*outside'):
        run(table.root)
    assert _once(3) == run(table.root, allowExternal=str(outside.parent))


def test_smoke_streams_below_spark_4_2_are_refused_by_name(source: Any, tmp_path: Path) -> None:
    if has_limits(source.version):
        pytest.skip("this Spark has streams")
    table = Grown(tmp_path / "table")
    told = rf"\[usage\.stream-option\] Spark {source.version} cannot follow a table"

    with pytest.raises(Exception, match=told):
        str(source.readStream.format("deltacli").option("maxFilesPerTrigger", 1).load(str(table.root)).schema)
    frame = source.readStream.format("deltacli").load(str(table.root))
    writer = frame.writeStream.format("memory").queryName("none")
    with pytest.raises(Exception, match=told):
        writer.start().awaitTermination()


def test_changes_as_a_stream(source: Any, tmp_path: Path) -> None:
    table = Grown(tmp_path / "table")
    old = table.append()
    table.append()
    table.delete(old[0], [1])
    table.remove(table.append()[0])
    expected = open_table(table.root).changes(from_version=1).to_arrow()

    frame = source.readStream.format("deltacli").options(readChangeFeed=True, startingVersion=1).load(str(table.root))
    writer = frame.writeStream.format("memory").queryName("deltacli_changes")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()

    assert counted(expected) == counts_of(source.table("deltacli_changes"))


def test_frames_have_the_names_of_their_version(source: Any, tmp_path: Path) -> None:
    """Across a rename and a drop: versions, changes with those of change data files, and what a mapping that was
    removed makes unreadable.
    """
    make_renamed(tmp_path)
    reader = source.read.format("deltacli")
    for version in sampled(list(VERSIONS), 3):
        frame = reader.option("versionAsOf", version).load(str(tmp_path))
        assert in_order(VERSIONS[version]) == in_order(frame.toArrow().to_pylist()), version
    feed = source.read.format("deltacli").option("readChangeFeed", True)
    for (first, last), rows in sampled(list(CHANGES.items()), 2):
        frame = feed.option("startingVersion", first).option("endingVersion", last).load(str(tmp_path))
        assert in_order(rows) == in_order(frame.drop("_commit_timestamp").toArrow().to_pylist()), (first, last)

    open_table(tmp_path).drop_features("columnMapping")
    assert in_order(VERSIONS[9]) == in_order(source.read.format("deltacli").load(str(tmp_path)).toArrow().to_pylist())
    with pytest.raises(Exception, match=r"\[changes\.mapping-removed\] version 10 removed column mapping"):
        feed.option("startingVersion", 0).option("endingVersion", 14).load(str(tmp_path)).count()
    stream = source.readStream.format("deltacli").option("startingVersion", 5).load(str(tmp_path))
    query = stream.writeStream.format("memory").queryName("deltacli_unmapped")
    query = query.option("checkpointLocation", str(tmp_path / "_checkpoint")).trigger(availableNow=True).start()
    with pytest.raises(Exception, match=r"\[stream\.schema-changed\] version 5 has .* removed column mapping"):
        query.awaitTermination()
