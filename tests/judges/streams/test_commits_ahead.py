"""Commits that a stopped query has not delivered: which of them end it once, which for good, and which not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judges.answers import Comparison
from tests.judges.spark import SparkJudge, copy_table, name_of
from tests.judges.streams.known import KNOWN
from tests.judges.streams.queries import CHECKPOINT, Queries, copy_checkpoint
from tests.judges.streams.verdicts import streams, verdict_of

COLUMNS = "id BIGINT, v STRING, n INT"
PROPERTIES = "delta.columnMapping.mode = 'name', delta.enableTypeWidening = true, delta.enableChangeDataFeed = true"
INSERT = "INSERT INTO {table} SELECT id, 'a', 1 FROM range(4)"

CHANGES = {
    "append": "INSERT INTO {table} VALUES (10, 'b', 1)",
    "optimize": "OPTIMIZE {table}",
    "delete": "DELETE FROM {table} WHERE id = 1",
    "delete all": "DELETE FROM {table}",
    "update": "UPDATE {table} SET v = 'c' WHERE id = 1",
    "merge that only inserts": (
        "MERGE INTO {table} t USING (SELECT 20L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    ),
    "overwrite": "INSERT OVERWRITE {table} VALUES (30, 'd', 1)",
    "restore": "RESTORE TABLE {table} TO VERSION AS OF 1",
    "add column": "ALTER TABLE {table} ADD COLUMN e INT",
    "rename column": "ALTER TABLE {table} RENAME COLUMN v TO w",
    "drop column": "ALTER TABLE {table} DROP COLUMN v",
    "widen type": "ALTER TABLE {table} ALTER COLUMN n TYPE BIGINT",
    "move column": "ALTER TABLE {table} ALTER COLUMN v FIRST",
    "remove column mapping": "ALTER TABLE {table} SET TBLPROPERTIES (delta.columnMapping.mode = 'none')",
    "comment of a column": "ALTER TABLE {table} ALTER COLUMN v COMMENT 'x'",
    "comment of the table": "COMMENT ON TABLE {table} IS 'x'",
    "own property": "ALTER TABLE {table} SET TBLPROPERTIES ('foo' = 'bar')",
    "property of Delta": "ALTER TABLE {table} SET TBLPROPERTIES (delta.logRetentionDuration = 'interval 60 days')",
    "constraint": "ALTER TABLE {table} ADD CONSTRAINT c CHECK (id >= 0)",
    "feature": "ALTER TABLE {table} SET TBLPROPERTIES (delta.enableDeletionVectors = true)",
}


class Stopped:
    """A table of one commit with rows, and a query that has delivered it and stands after two finished batches."""

    def __init__(self, spark: SparkJudge, queries: Queries, place: Path) -> None:
        self.table, self.checkpoint = place / "table", place / "checkpoint"
        spark.create(self.table, COLUMNS, INSERT, properties=PROPERTIES)
        assert not queries.run(self.table, self.checkpoint).error
        spark.run(self.table, CHANGES["append"])
        assert not queries.run(self.table, self.checkpoint).error


@pytest.fixture(scope="module")
def stopped(spark: SparkJudge, queries: Queries, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """A query that has delivered all of its table."""
    return Stopped(spark, queries, tmp_path_factory.mktemp("ahead"))


@pytest.mark.parametrize("change", CHANGES)
def test_rows(change: str, stopped: Stopped, spark: SparkJudge, queries: Queries, tables: Path) -> None:
    table = copy_table(stopped.table, tables / "table")
    checkpoint = copy_checkpoint(stopped.checkpoint, tables / "query")
    spark.run(table, CHANGES[change])

    verdict = verdict_of(table, checkpoint)
    outcome = queries.restart(table, checkpoint)

    with Comparison(f"ahead/{change}", KNOWN) as comparison:
        comparison.equal("verdict", outcome.verdict, verdict)


@pytest.mark.parametrize("change", ["delete", "update", "overwrite", "add column", "rename column", "drop column"])
def test_the_change_feed(change: str, stopped: Stopped, spark: SparkJudge, queries: Queries, tables: Path) -> None:
    table = copy_table(stopped.table, tables / "table")
    checkpoint = copy_checkpoint(stopped.checkpoint, tables / "query")
    spark.run(table, CHANGES[change])

    (source,) = streams(table, checkpoint)["query"]["sources"]
    outcome = queries.restart(table, checkpoint, readChangeFeed="true")

    with Comparison(f"feed ahead/{change}", KNOWN) as comparison:
        comparison.equal("verdict", outcome.verdict, source["verdictOfFeed"] or source["verdict"])


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ("append", ""),
        ("add column", ""),
        ("rename column", ""),
        ("widen type", ""),
        ("property of Delta", ""),
        ("own property", ""),
        ("drop column", ""),
        ("remove column mapping", ""),
        ("append", "/_schemas/a"),
        ("property of Delta", "/_schemas/a"),
    ],
)
def test_schema_tracking(
    change: str, place: str, stopped: Stopped, spark: SparkJudge, queries: Queries, tables: Path
) -> None:
    """The schema tracking log is in the checkpoint directory, or in a directory below it."""
    table, checkpoint = copy_table(stopped.table, tables / "table"), tables / "query"
    log = {"schemaTrackingLocation": CHECKPOINT + place}
    assert not queries.run(table, checkpoint, **log).error
    spark.run(table, CHANGES["append"])
    assert not queries.run(table, checkpoint, **log).error
    spark.run(table, CHANGES[change])

    verdict = verdict_of(table, checkpoint)
    outcome = queries.restart(table, checkpoint, **log)

    where = "below" if place else "beside"
    with Comparison(f"tracked {where}/{change}", KNOWN) as comparison:
        comparison.equal("verdict", outcome.verdict, verdict)


@pytest.mark.parametrize("damage", ["copied", "entry empty", "entry cut", "log gone"])
def test_a_schema_tracking_log_that_is_damaged(damage: str, stopped: Stopped, queries: Queries, tables: Path) -> None:
    table, checkpoint = copy_table(stopped.table, tables / "table"), tables / "query"
    log = {"schemaTrackingLocation": CHECKPOINT}
    assert not queries.run(table, checkpoint, **log).error
    (directory,) = checkpoint.glob("_schema_log_*")
    entry = directory / max(path.name for path in directory.iterdir() if path.name.isdigit())
    content = entry.read_bytes()
    match damage:
        case "copied":
            checkpoint = copy_checkpoint(checkpoint, tables / "copy")
        case "entry empty":
            entry.write_bytes(b"")
        case "entry cut":
            entry.write_bytes(content[: len(content) // 2])
        case "log gone":
            for path in [*directory.iterdir()]:
                path.unlink()
            directory.rmdir()

    verdict = verdict_of(table, checkpoint)
    outcome = queries.restart(table, checkpoint, **log)

    with Comparison(f"schema log/{damage}", KNOWN) as comparison:
        comparison.equal("verdict", outcome.verdict, verdict)


@pytest.mark.parametrize("name", ["a b", "50%", "a%20b", "ü+#", "link/query"])
def test_a_schema_tracking_log_knows_its_directory(name: str, stopped: Stopped, queries: Queries, tables: Path) -> None:
    """Spark writes the path of the checkpoint directory into the log, in its own spelling."""
    (tables / "target").mkdir()
    (tables / "link").symlink_to(tables / "target")
    table, checkpoint = copy_table(stopped.table, tables / "table"), tables / name
    log = {"schemaTrackingLocation": CHECKPOINT}
    assert not queries.run(table, checkpoint, **log).error

    verdict = verdict_of(table, checkpoint)
    outcome = queries.restart(table, checkpoint, **log)

    with Comparison(f"schema log/in {name}", KNOWN) as comparison:
        comparison.equal("verdict", outcome.verdict, verdict)


def test_a_delta_table_as_sink_has_the_rows_of_a_batch_that_runs_again_once(
    spark: SparkJudge, stopped: Stopped, tables: Path
) -> None:
    """The commit file of the last batch was deleted, as `streams` advises where it is damaged."""
    table, checkpoint = copy_table(stopped.table, tables / "table"), tables / "query"
    frame = spark.session.readStream.format("delta").load(str(table))
    writer = frame.writeStream.format("delta").option("checkpointLocation", str(checkpoint))

    def write() -> None:
        writer.trigger(availableNow=True).start(str(tables / "sink")).awaitTermination()

    write()
    (checkpoint / "commits" / "0").write_bytes(b"")
    verdict = verdict_of(table, checkpoint)
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink()
    write()

    with Comparison("cure/sink", KNOWN) as comparison:
        comparison.equal("verdict", "dead", verdict)
        comparison.equal("rows", spark.rows(table), spark.rows(tables / "sink"))
        comparison.equal("versions", 1, len(spark.sql(f"DESCRIBE HISTORY {name_of(tables / 'sink')}")))
