"""Shares in Spark against our own server: the rows of a direct scan, changes, streams, and no token in what is sent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.engine.spark.engine import SparkEngine
from deltacli.spark import read_share, register
from deltacli.spark.data_source import SHARES, source_class
from deltacli.spark.source_options import has_limits
from tests.cluster.grown_tables import Grown
from tests.cluster.share_server import serving, serving_directory
from tests.cluster.spark_rows import counted, counts_of
from tests.support import corpus
from tests.support.row_counts import Rows, count_rows

BOTH = (
    "dat/all_primitive_types",
    "dat/nested_types",
    "dat/multi_partitioned_2",
    "dat/basic_partitioned",
    "dat/with_checkpoint",
)
DELTA_ONLY = (
    "dat/deletion_vectors",
    "dat/column_mapping",
    "dat/timestamp_ntz",
    "kernel-rs/type-widening",
    "duckdb-delta/variant/basic",
)
"""Tables with features that the parquet format cannot express."""


@pytest.fixture(scope="module")
def source(session: Any) -> Any:  # Any: a SparkSession
    """The session, which knows the data sources."""
    register(session)
    return session


@pytest.fixture
def table(tmp_path: Path) -> Grown:
    """A table with inserts, a delete by a vector, and a removed file."""
    table = Grown(tmp_path / "table")
    first, _ = table.append(files=2)
    table.delete(first, [1])
    table.remove(table.append()[0])
    table.append(files=3)
    return table


@pytest.fixture
def address(table: Grown, tmp_path: Path) -> Iterator[str]:
    with serving(tmp_path / "server", {"t": table.root}) as begin:
        yield f"{begin}t"


def _direct(path: Path) -> Rows:
    rows = open_table(str(path)).snapshot().scan().to_arrow()
    return counted(rows)


def test_versions_have_the_rows_of_our_own_scan_in_both_formats(source: Any, tmp_path: Path) -> None:
    paths = {
        f"t{number}": corpus.table(name).path(corpus.unpacked()) for number, name in enumerate((*BOTH, *DELTA_ONLY))
    }
    with serving(tmp_path / "server", paths) as begin:
        for number, (name, path) in enumerate(paths.items()):
            for form in ("delta", "parquet") if number < len(BOTH) else ("delta",):
                frame = source.read.format("deltacli_share").option("responseFormat", form).load(f"{begin}{name}")

                assert _direct(path) == counts_of(frame), (path, form)


def test_frames_of_the_driver_push_columns_and_conditions_down(source: Any, table: Grown, address: str) -> None:
    newest = read_share(source, address)
    some = read_share(source, address, version=1, columns=["id"], where="id >= 4")
    changes = read_share(source, address, changes_from=1)

    expected = open_table(table.root).changes(from_version=1).to_arrow()
    assert _direct(table.root) == counts_of(newest)
    assert Counter({(4,): 1, (5,): 1}) == counts_of(some)
    assert counted(expected) == counts_of(changes)


def test_smoke_a_change_feed_is_that_of_changes(source: Any, table: Grown, address: str) -> None:
    expected = open_table(table.root).changes(from_version=1, to_version=3).to_arrow()

    reader = source.read.format("deltacli_share").options(readChangeFeed=True, startingVersion=1, endingVersion=3)

    assert counted(expected) == counts_of(reader.load(address))


@pytest.fixture
def run(source: Any, address: str, tmp_path: Path) -> Callable[..., Rows]:
    """Runs a query until all that is there is delivered, and returns all rows that it and earlier ones delivered."""
    if not has_limits(source.version):
        pytest.skip("streams need Spark 4.2")
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")

    def deliver(**options: object) -> Rows:
        frame = source.readStream.format("deltacli_share").options(**options).load(address)
        writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint).option("path", out)
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return counts_of(source.read.schema(frame.schema).parquet(out))

    return deliver


def test_a_stream_delivers_each_row_once_over_restarts(run: Callable[..., Rows], table: Grown) -> None:
    first = run(maxFilesPerTrigger=2, maxVersionsPerRpc=1)
    table.append(files=3)
    table.append()
    second = run(maxFilesPerTrigger=2, maxVersionsPerRpc=1)
    last = table.append()[0]
    table.delete(last, [0])

    with pytest.raises(Exception, match=r"\[stream\.changes\] version 9"):
        run()
    assert Rows({(row,): 1 for row in (0, *range(2, 6), *range(9, 18))}) == first
    assert first + Rows({(row,): 1 for row in range(18, 30)}) == second


def test_a_stream_of_changes_is_that_of_changes(run: Callable[..., Rows], table: Grown) -> None:
    expected = open_table(table.root).changes(from_version=1).to_arrow()

    assert count_rows([expected], expected.schema.names) == run(readChangeFeed=True, startingVersion=1)


def test_options_are_refused_by_name(source: Any, address: str) -> None:
    reader = source.readStream if has_limits(source.version) else source.read

    with pytest.raises(Exception, match=r"\[usage\.stream-option\].*queryTableVersionIntervalSeconds"):
        str(reader.format("deltacli_share").option("queryTableVersionIntervalSeconds", "9").load(address).schema)


def test_nothing_that_is_sent_has_a_token(source: Any, address: str) -> None:
    from pyspark.cloudpickle import dumps

    token = json.loads(Path(address.partition("#")[0]).read_text())["bearerToken"].encode()
    made = source_class(source.version, SHARES)({"path": address})
    reader = made.reader(made.schema())

    sent = [dumps(made), dumps(reader), *(dumps(partition) for partition in reader.partitions())]

    assert 3 <= len(sent)
    assert not [content for content in sent if token in content]


def test_a_directory_is_read_with_credentials_that_tasks_renew(
    source: Any, spark_engine: SparkEngine, table: Grown, tmp_path: Path
) -> None:
    """No task takes credentials that end within 10 seconds. It asks for others where the profile is."""
    with serving_directory(tmp_path / "server", table.root, 9_900) as (address, options):
        late = read_share(source, address, access="dir", storage_options=options)

        frame = read_share(source, address, access="dir", storage_options=options)
        opened = open_table(address, access="dir", storage_options=options, engine=spark_engine)

        assert _direct(table.root) == counts_of(frame)
        checked = [one.validate(level="footers").findings for one in (opened, open_table(table.root))]
        by_cluster, here = ({found.rule.id for found in findings} for findings in checked)
        assert by_cluster - here <= {"log.mtime-order"}
        Path(address.partition("#")[0]).unlink()
        with pytest.raises(Exception, match=r"\[share\.credential-ended\]") as raised:
            late.collect()
        assert "a-vended-secret" not in str(raised.value)


def test_a_stream_follows_a_directory(source: Any, table: Grown, tmp_path: Path) -> None:
    if not has_limits(source.version):
        pytest.skip("streams need Spark 4.2")
    out = str(tmp_path / "out")
    with serving_directory(tmp_path / "server", table.root, 3_600_000) as (address, options):
        given = {f"storage.{name}": value for name, value in options.items()} | {"access": "dir"}
        frame = source.readStream.format("deltacli_share").options(**given).load(address)
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(out)
        try:
            query.awaitTermination()
        finally:
            query.stop()

        assert _direct(table.root) == counts_of(source.read.schema(frame.schema).parquet(out))
