"""Tables with every kind of checkpoint and log, clustered, cloned, converted, and with features that come and go."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.judges.spark import SparkJudge
from tests.judges.spark_reads.cases.case import Case

ROWS = "INSERT INTO {table} SELECT id, 'v' || id FROM RANGE(0, 5, 1, 1)"

MORE_ROWS = "INSERT INTO {table} SELECT id, 'w' || id FROM RANGE(5, 9, 1, 1)"

DELETE = "DELETE FROM {table} WHERE id = 2"

UPDATE = "UPDATE {table} SET v = 'x' WHERE id = 3"

SEVERAL_COMMITS = (ROWS, MORE_ROWS, DELETE, UPDATE)

OFTEN = "'delta.checkpointInterval' = '2'"

SMALL_PARTS = {"spark.databricks.delta.checkpoint.partSize": "1"}

DAY_SECONDS = 86_400


def expire_commits(spark: SparkJudge, table: Path) -> None:
    """Make all commits old, so that the next checkpoint deletes those that no version within the retention needs."""
    for commit in (table / "_delta_log").glob("*.json"):
        moment = commit.stat().st_mtime - (100 - int(commit.stem)) * DAY_SECONDS
        os.utime(commit, (moment, moment))
    spark.session._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    spark.run(table, "INSERT INTO {table} VALUES (100, 'new')", "INSERT INTO {table} VALUES (101, 'newer')")


def leave_old_file(_: SparkJudge, table: Path) -> None:
    """Leave a file that no commit names, older than the retention, as a writer does that has died."""
    uncommitted = table / "part-00000-of-a-writer-that-died.c000.snappy.parquet"
    shutil.copy(next(table.glob("part-*.parquet")), uncommitted)
    moment = uncommitted.stat().st_mtime - 30 * DAY_SECONDS
    os.utime(uncommitted, (moment, moment))


def append_twice_by_transaction(spark: SparkJudge, table: Path) -> None:
    """Append rows with the number of a transaction, and again with the same number, which writes nothing."""
    rows = spark.session.sql("SELECT 50 AS id, 'once' AS v")
    for _ in range(2):
        writer = rows.write.format("delta").mode("append").option("txnAppId", "app ü").option("txnVersion", "7")
        writer.option("userMetadata", 'say "x"').save(str(table))


def convert_files(spark: SparkJudge, table: Path) -> None:
    """Write Parquet files with Spark and convert their directory."""
    spark.session.sql("SELECT CAST(id AS INT) AS id, 'x' AS v FROM RANGE(0, 6, 1, 1)").write.parquet(str(table))
    spark.sql(f"CONVERT TO DELTA parquet.`{table}`")
    spark.run(table, "DELETE FROM {table} WHERE id = 4")


def convert_partitions(spark: SparkJudge, table: Path) -> None:
    """Write partitioned Parquet files with Spark, one of them with values that Hive escapes, and convert them."""
    rows = spark.session.sql("SELECT id, IF(id = 2, NULL, 'a:b ' || id % 2) AS p FROM RANGE(0, 6, 1, 1)")
    rows.write.partitionBy("p").parquet(str(table))
    spark.sql(f"CONVERT TO DELTA parquet.`{table}` PARTITIONED BY (p STRING)")
    spark.run(table, "DELETE FROM {table} WHERE id = 4")


CASES = (
    Case("checkpoint-classic", "id INT, v STRING", properties=OFTEN, statements=SEVERAL_COMMITS),
    Case(
        "checkpoint-struct-only",
        "id INT, v STRING, s STRUCT<a: DOUBLE>",
        properties=f"{OFTEN}, 'delta.checkpoint.writeStatsAsStruct' = 'true',"
        " 'delta.checkpoint.writeStatsAsJson' = 'false'",
        statements=(
            "INSERT INTO {table} VALUES (1, 'a', struct(DOUBLE('NaN')))",
            "INSERT INTO {table} VALUES (2, NULL, struct(DOUBLE('-Infinity')))",
            "INSERT INTO {table} VALUES (3, 'c', NULL)",
        ),
    ),
    Case(
        "checkpoint-multi-part",
        "id INT, v STRING",
        properties=OFTEN,
        statements=SEVERAL_COMMITS,
        settings=SMALL_PARTS,
    ),
    Case(
        "checkpoint-v2-json",
        "id INT, v STRING",
        properties=f"{OFTEN}, 'delta.checkpointPolicy' = 'v2'",
        statements=SEVERAL_COMMITS,
        settings={"spark.databricks.delta.checkpointV2.topLevelFileFormat": "json"},
    ),
    Case(
        "checkpoint-v2-parquet",
        "id INT, v STRING",
        properties=f"{OFTEN}, 'delta.checkpointPolicy' = 'v2', 'delta.enableDeletionVectors' = 'true'",
        statements=SEVERAL_COMMITS,
        settings={**SMALL_PARTS, "spark.databricks.delta.checkpointV2.topLevelFileFormat": "parquet"},
    ),
    Case(
        "checkpoint-v2-dropped",
        "id INT, v STRING",
        properties=f"{OFTEN}, 'delta.checkpointPolicy' = 'v2'",
        statements=(ROWS, MORE_ROWS, "ALTER TABLE {table} DROP FEATURE v2Checkpoint", DELETE),
    ),
    Case("log-expired", "id INT, v STRING", properties=OFTEN, statements=SEVERAL_COMMITS, finish=expire_commits),
    Case("transactions", "id INT, v STRING", statements=(ROWS,), finish=append_twice_by_transaction),
    Case(
        "in-commit-timestamps",
        "id INT, v STRING",
        properties="'delta.enableInCommitTimestamps' = 'true'",
        statements=(ROWS, DELETE),
    ),
    Case(
        "in-commit-timestamps-later",
        "id INT, v STRING",
        statements=(
            ROWS,
            "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
            MORE_ROWS,
            DELETE,
        ),
    ),
    Case(
        "in-commit-timestamps-disabled",
        "id INT, v STRING",
        properties="'delta.enableInCommitTimestamps' = 'true'",
        statements=(
            ROWS,
            "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'false')",
            MORE_ROWS,
            DELETE,
        ),
    ),
    Case(
        "properties",
        "id INT COMMENT 'of the row', v STRING",
        properties="'key' = 'value', 'delta.appendOnly' = 'true', 'delta.logRetentionDuration' = 'interval 3 days',"
        " 'delta.deletedFileRetentionDuration' = 'interval 2 days'",
        clauses="COMMENT 'a \"table\"'",
        statements=(
            ROWS,
            (
                "ALTER TABLE {table} SET TBLPROPERTIES ('key' = 'it''s', 'ü' = '😀',"
                " 'delta.setTransactionRetentionDuration' = 'interval 1 days')"
            ),
            "ALTER TABLE {table} UNSET TBLPROPERTIES ('delta.appendOnly')",
            "COMMENT ON TABLE {table} IS 'another'",
        ),
    ),
    Case(
        "features-upgraded",
        "id INT, v STRING",
        statements=(
            ROWS,
            "ALTER TABLE {table} SET TBLPROPERTIES ('delta.minReaderVersion' = '1', 'delta.minWriterVersion' = '4')",
            "ALTER TABLE {table} SET TBLPROPERTIES ('delta.feature.vacuumProtocolCheck' = 'supported')",
            "ALTER TABLE {table} SET TBLPROPERTIES ('delta.feature.domainMetadata' = 'supported')",
            MORE_ROWS,
        ),
    ),
    Case(
        "feature-dropped",
        "id INT, v STRING",
        properties="'delta.feature.vacuumProtocolCheck' = 'supported'",
        statements=(ROWS, "ALTER TABLE {table} DROP FEATURE vacuumProtocolCheck", MORE_ROWS),
    ),
    Case(
        "clustered",
        "id INT, v STRING, d DATE",
        clauses="CLUSTER BY (id, d)",
        statements=(
            "INSERT INTO {table} SELECT id, 'v', DATE_ADD(DATE'2026-01-01', CAST(id AS INT)) FROM RANGE(0, 8, 1, 2)",
            "OPTIMIZE {table}",
            "ALTER TABLE {table} CLUSTER BY (v)",
        ),
    ),
    Case(
        "clustered-no-more",
        "id INT, v STRING",
        clauses="CLUSTER BY (id)",
        statements=(ROWS, "ALTER TABLE {table} CLUSTER BY NONE", MORE_ROWS),
    ),
    Case("z-ordered", "id INT, v STRING", statements=(ROWS, MORE_ROWS, "OPTIMIZE {table} ZORDER BY (v, id)", DELETE)),
    Case(
        "optimized-partitions",
        "id INT, p STRING",
        clauses="PARTITIONED BY (p)",
        statements=(
            "INSERT INTO {table} SELECT id, 'p ' || id % 2 FROM RANGE(0, 6, 1, 2)",
            "INSERT INTO {table} VALUES (7, NULL), (8, 'p 1')",
            "OPTIMIZE {table} WHERE p = 'p 1'",
        ),
    ),
    Case(
        "compacted-automatically",
        "id INT, v STRING",
        properties="'delta.autoOptimize.autoCompact' = 'true', 'delta.autoOptimize.optimizeWrite' = 'true'",
        statements=(ROWS, MORE_ROWS),
        settings={"spark.databricks.delta.autoCompact.minNumFiles": "2"},
    ),
    Case(
        "random-prefixes",
        "id INT, p STRING",
        clauses="PARTITIONED BY (p)",
        properties="'delta.randomizeFilePrefixes' = 'true', 'delta.randomPrefixLength' = '3',"
        " 'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true'",
        statements=(
            "INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'b')",
            "UPDATE {table} SET id = 9 WHERE id = 2",
        ),
    ),
    Case(
        "manifests",
        "id INT, p STRING",
        clauses="PARTITIONED BY (p)",
        statements=(
            "INSERT INTO {table} VALUES (1, 'a'), (2, 'b')",
            "GENERATE symlink_format_manifest FOR TABLE {table}",
            "ALTER TABLE {table} SET TBLPROPERTIES ('delta.compatibility.symlinkFormatManifest.enabled' = 'true')",
            "DELETE FROM {table} WHERE id = 1",
        ),
    ),
    Case(
        "iceberg-compatible",
        "id INT, v STRING, l ARRAY<INT>",
        properties="'delta.enableIcebergCompatV2' = 'true', 'delta.columnMapping.mode' = 'name'",
        statements=("INSERT INTO {table} VALUES (1, 'a', array(1))", "UPDATE {table} SET v = 'b' WHERE id = 1"),
    ),
    Case(
        "vacuumed",
        "id INT, v STRING",
        statements=(ROWS, DELETE, "VACUUM {table} RETAIN 0 HOURS", UPDATE),
        settings={
            "spark.databricks.delta.retentionDurationCheck.enabled": "false",
            "spark.databricks.delta.vacuum.logging.enabled": "true",
        },
        finish=leave_old_file,
    ),
    Case(
        "clone",
        statements=(
            "CREATE TABLE {source} (id INT, p STRING) USING delta PARTITIONED BY (p)",
            "INSERT INTO {source} VALUES (1, 'a b'), (2, NULL), (3, 'c')",
            "CREATE TABLE {table} SHALLOW CLONE {source}",
            "INSERT INTO {table} VALUES (4, 'd')",
            "DELETE FROM {table} WHERE id = 3",
        ),
    ),
    Case(
        "clone-of-version-with-vectors",
        statements=(
            (
                "CREATE TABLE {source} (id INT, v STRING) USING delta"
                " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
            ),
            "INSERT INTO {source} SELECT id, 'v' FROM RANGE(0, 10, 1, 1)",
            "DELETE FROM {source} WHERE id = 3",
            "DELETE FROM {source} WHERE id = 4",
            "CREATE TABLE {table} SHALLOW CLONE {source} VERSION AS OF 2 TBLPROPERTIES ('key' = 'value')",
            "UPDATE {table} SET v = 'x' WHERE id = 5",
        ),
    ),
    Case("converted", finish=convert_files),
    Case("converted-partitions", finish=convert_partitions),
)
