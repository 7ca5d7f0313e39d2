"""The changes that deltacli makes to tables of Spark: command lines, on which tables, and what Spark calls the same.

In a command line `{table}` is the directory of the table, `{other}` one that the change creates, and `{backup}` a copy
of the table as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.judges.spark_continues import accidents
from tests.judges.spark_continues.tables import TABLES


@dataclass(frozen=True)
class Change:
    """A change that deltacli makes.

    Attributes:
        name: The name of the change in the names of tests.
        commands: The command lines, one after the other.
        tables: The names of the tables that are changed so.
        same_as: Statements of Spark that do the same. Spark executes them on a copy of the table of its own, and the
            answers about that copy are expected. Without statements the answers are those before the change.
        prepared_by: Command lines before the accident.
        accident: What happens to the directory of the table before the commands. The commands set it right.
        judged: The table that Spark is asked about after the change.
        keeps_history: Whether older versions, their change feed and a stream can be read as before.
        not_asked: Questions that make no sense after the change.
        finds: Rules of `validate` with warnings that are right after the change.
        fully_on: The names of the tables with which Spark continues with all its statements. With the others it makes
            one MERGE, which updates, deletes and inserts.
    """

    name: str
    commands: tuple[str, ...]
    tables: tuple[str, ...]
    same_as: tuple[str, ...] = ()
    prepared_by: tuple[str, ...] = ()
    accident: Callable[[Path], None] | None = None
    judged: str = "{table}"
    keeps_history: bool = True
    not_asked: tuple[str, ...] = ()
    finds: tuple[str, ...] = ()
    fully_on: tuple[str, ...] = ()


ALL = tuple(table.name for table in TABLES)
FOUND_AFTER_VACUUM = ("history.time-travel-broken", "history.vacuum-short-retention", "cdc.file-missing")
VACUUM = "vacuum {table} --retention 0h --allow-retention-below 168h --max-delete 100% --yes"

REWRITES = (
    Change(
        name="optimize",
        commands=("optimize {table} --verify --yes",),
        tables=ALL,
        fully_on=("extremes", "partitioned", "mapped-by-name", "row-ids", "computed"),
    ),
    Change(
        name="optimize-zorder",
        commands=("optimize {table} --zorder v,n --yes",),
        tables=("vectors", "row-ids", "replaced"),
    ),
    Change(
        name="optimize-zorder",
        commands=("optimize {table} --zorder v --yes",),
        tables=("types", "extremes", "mapped-by-name", "widened"),
    ),
    Change(
        name="optimize-purge",
        commands=("optimize {table} --purge --verify --yes",),
        tables=("vectors", "mapped-by-name", "mapped-by-id", "row-ids", "classic-checkpoints", "everything"),
        fully_on=("vectors",),
    ),
    Change(
        name="optimize-cluster",
        commands=("optimize {table} --cluster --verify --yes",),
        tables=("clustered", "everything"),
        fully_on=("clustered", "everything"),
    ),
    Change(
        name="cluster-and-optimize",
        commands=("alter {table} cluster v --upgrade-protocol --yes", "optimize {table} --cluster --yes"),
        tables=("types", "vectors", "nested"),
    ),
    Change(
        name="optimize-and-vacuum",
        commands=("optimize {table} --yes", VACUUM),
        tables=("partitioned", "mapped-by-name", "v2-checkpoints", "everything"),
        keeps_history=False,
        finds=FOUND_AFTER_VACUUM,
    ),
    Change(
        name="drop-column-mapping",
        commands=(
            "alter {table} rename 'place.`town of, birth`' town --yes",
            "alter {table} rename '`the region`' the_region --yes",
            "features {table} drop columnMapping --yes",
        ),
        tables=("mapped-by-name",),
        same_as=(
            "ALTER TABLE {table} RENAME COLUMN place.`town of, birth` TO town",
            "ALTER TABLE {table} RENAME COLUMN `the region` TO the_region",
        ),
        keeps_history=False,
    ),
    Change(
        name="drop-column-mapping",
        commands=("features {table} drop columnMapping --yes",),
        tables=("mapped-by-id", "everything"),
        keeps_history=False,
    ),
    Change(
        name="drop-vectors",
        commands=("features {table} drop deletionVectors --yes",),
        tables=("vectors", "mapped-by-id", "row-ids"),
        keeps_history=False,
    ),
    Change(
        name="drop-widening",
        commands=("features {table} drop typeWidening --yes",),
        tables=("widened", "everything"),
        keeps_history=False,
    ),
)

UNDONE = (
    Change(
        name="restore",
        commands=("restore {table} --version 2 --yes",),
        tables=("extremes", "partitioned", "change-feed", "row-ids", "clustered", "v2-checkpoints"),
        same_as=("RESTORE TABLE {table} TO VERSION AS OF 2",),
    ),
    Change(
        name="restore",
        commands=("restore {table} --version 4 --yes",),
        tables=("computed", "mapped-by-name", "mapped-by-id", "replaced"),
        same_as=("RESTORE TABLE {table} TO VERSION AS OF 4",),
    ),
    Change(
        name="undelete",
        accident=accidents.lose_data_files,
        commands=("undelete {table} --from {backup} --yes",),
        finds=("history.time-travel-broken",),  # only the files of the newest version come back
        tables=("partitioned", "vectors", "mapped-by-name", "everything"),
    ),
    Change(
        name="undelete-log",
        accident=accidents.lose_log,
        commands=("undelete {table} --from {backup} --yes",),
        tables=("types", "v2-checkpoints", "change-feed"),
    ),
    Change(
        name="repair-checkpoint",
        accident=accidents.cut_checkpoints,
        commands=("repair {table} --allow-in-use --yes",),
        tables=("v2-checkpoints", "classic-checkpoints", "everything"),
    ),
    Change(
        name="repair-hint",
        accident=accidents.cut_hint,
        commands=("repair {table} --allow-in-use --yes",),
        tables=("v2-checkpoints", "classic-checkpoints", "everything"),
    ),
    Change(
        name="repair-checksum",
        accident=accidents.change_version_checksum,
        commands=("repair {table} --allow-in-use --yes",),
        tables=("types", "row-ids", "clustered"),
    ),
    Change(
        name="repair-commit",
        accident=accidents.cut_commit,
        commands=("repair {table} --from {backup} --allow-in-use --yes",),
        tables=("types", "partitioned", "computed"),
    ),
    Change(
        name="repair-files",
        accident=accidents.cut_data_files,
        commands=("repair {table} --level data --from {backup} --allow-in-use --yes",),
        tables=("partitioned", "nested", "vectors"),
    ),
)

LOGS = (
    Change(
        name="checkpoint",
        commands=("checkpoint {table} --force",),
        tables=("types", "row-ids", "commit-times", "classic-checkpoints", "variant", "everything"),
    ),
    Change(
        name="checkpoint-multi-part",
        commands=("checkpoint {table} --layout multi-part --parts 2 --stats both",),
        tables=("extremes", "partitioned", "vectors"),
    ),
    Change(
        name="checkpoint-v2-json",
        commands=(
            "properties {table} set delta.checkpointPolicy=v2 --upgrade-protocol --yes",
            "checkpoint {table} --v2-top json --rows-per-file 2 --force",
        ),
        tables=("partitioned", "mapped-by-name", "clustered"),
    ),
    Change(
        name="checkpoint-v2-parquet",
        commands=(
            "properties {table} set delta.checkpointPolicy=v2 --upgrade-protocol --yes",
            "checkpoint {table} --v2-top parquet --stats both --force",
        ),
        tables=("extremes", "vectors", "v2-checkpoints"),
    ),
    Change(
        name="log-compact",
        commands=("log compact {table} --from 1 --to 3",),
        tables=("vectors", "mapped-by-name", "clustered"),
    ),
    Change(
        name="log-crc",
        accident=accidents.lose_version_checksums,
        commands=("log crc {table}",),
        tables=("types", "row-ids", "everything"),
    ),
    Change(
        name="log-expire",
        accident=accidents.make_old,
        commands=(
            "checkpoint {table} --force",
            "log expire {table} --retention 1d --allow-retention-below 30d --yes",
        ),
        tables=("types", "classic-checkpoints", "v2-checkpoints"),
        keeps_history=False,
    ),
    Change(
        name="log-restore",
        prepared_by=("log backup {table} {other}",),
        accident=accidents.lose_commits,
        commands=("log restore {table} {other} --yes",),
        tables=("types", "vectors", "v2-checkpoints"),
    ),
    Change(
        name="stats",
        commands=("stats {table} --all --read rows --yes",),
        tables=("extremes", "partitioned", "mapped-by-name", "widened", "nested", "everything"),
    ),
    Change(
        name="stats-of-files-without",
        accident=accidents.lose_statistics,
        commands=("stats {table} --read rows --yes",),
        tables=("types", "extremes", "mapped-by-name", "nested"),
    ),
    Change(
        name="vacuum",
        commands=(VACUUM,),
        tables=("partitioned", "vectors", "change-feed", "replaced"),
        keeps_history=False,
        finds=FOUND_AFTER_VACUUM,
    ),
    Change(
        name="vacuum-lite",
        commands=(f"{VACUUM} --mode lite",),
        tables=("vectors", "row-ids", "replaced"),
        keeps_history=False,
        finds=FOUND_AFTER_VACUUM,
    ),
    Change(
        name="manifest",
        commands=("manifest {table} --yes",),
        tables=("types", "partitioned", "change-feed"),
        finds=("data.manifest-stale",),  # Spark's statements do not update them without the property
    ),
)

SCHEMAS = (
    Change(
        name="alter-add",
        commands=("alter {table} add tax 'decimal(10, 2)' --position after:v --yes",),
        tables=("partitioned", "mapped-by-name", "row-ids", "everything"),
        same_as=("ALTER TABLE {table} ADD COLUMN tax DECIMAL(10, 2) AFTER v",),
    ),
    Change(
        name="alter-add-nested",
        commands=("alter {table} add place.country string --yes", "alter {table} comment place.country Where --yes"),
        tables=("nested", "mapped-by-name", "clustered"),
        same_as=("ALTER TABLE {table} ADD COLUMN place.country STRING COMMENT 'Where'",),
    ),
    Change(
        name="alter-rename",
        commands=("alter {table} rename id key --yes", "alter {table} rename key id --yes"),
        tables=("mapped-by-name", "mapped-by-id", "everything"),
        # Spark refuses a change feed over a rename, also its own.
        not_asked=("change feed of the change",),
    ),
    Change(
        name="alter-mapping",
        commands=("alter {table} mapping name --upgrade-protocol --yes",),
        tables=("types", "partitioned", "nested"),
        same_as=("ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",),
    ),
    Change(
        name="alter-drop",
        commands=(
            "alter {table} mapping name --upgrade-protocol --yes",
            "alter {table} add extra string --yes",
            "alter {table} drop extra --yes",
        ),
        tables=("types", "vectors", "variant"),
    ),
    Change(
        name="alter-move",
        commands=("alter {table} move v first --yes",),
        tables=("types", "nested", "mapped-by-id"),
        same_as=("ALTER TABLE {table} ALTER COLUMN v FIRST",),
    ),
    Change(
        name="alter-texts",
        commands=(
            "alter {table} comment v 'A value, \"quoted\"' --yes",
            "alter {table} table-comment 'What it holds' --yes",
            "alter {table} name 'a name' --yes",
        ),
        tables=("variant", "mapped-by-name", "computed"),
    ),
    Change(
        name="alter-default",
        commands=("alter {table} default v \"'set'\" --upgrade-protocol --yes",),
        tables=("partitioned", "mapped-by-id", "vectors"),
        same_as=(
            "ALTER TABLE {table} SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
            "ALTER TABLE {table} ALTER COLUMN v SET DEFAULT 'set'",
        ),
    ),
    Change(
        name="alter-nullability",
        commands=("alter {table} not-null id --yes", "alter {table} nullable id --yes"),
        tables=("extremes", "vectors", "mapped-by-name"),
    ),
    Change(
        name="alter-constraint",
        commands=(
            "alter {table} constraint add small 'id < 1000' --upgrade-protocol --yes",
            "alter {table} constraint add again 'id > -5' --yes",
            "alter {table} constraint drop again --yes",
        ),
        tables=("types", "mapped-by-id", "computed"),
        same_as=("ALTER TABLE {table} ADD CONSTRAINT small CHECK (id < 1000)",),
    ),
    Change(
        name="alter-type",
        commands=("alter {table} type n bigint --enable --upgrade-protocol --yes",),
        tables=("vectors", "row-ids", "everything"),
        same_as=(
            "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
            "ALTER TABLE {table} ALTER COLUMN n TYPE BIGINT",
        ),
        # Spark makes two commits of it, and no change feed spans two schemas.
        not_asked=("change feed of the change",),
    ),
    Change(
        name="widen-type",
        commands=(
            (
                "widen-type {table} whole bigint amount 'decimal(22,5)' single double day timestamp_ntz small int"
                " --enable --upgrade-protocol --yes"
            ),
        ),
        tables=("types",),
        same_as=(
            "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
            "ALTER TABLE {table} ALTER COLUMN whole TYPE BIGINT",
            "ALTER TABLE {table} ALTER COLUMN amount TYPE DECIMAL(22, 5)",
            "ALTER TABLE {table} ALTER COLUMN single TYPE DOUBLE",
            "ALTER TABLE {table} ALTER COLUMN day TYPE TIMESTAMP_NTZ",
            "ALTER TABLE {table} ALTER COLUMN small TYPE INT",
        ),
    ),
    Change(
        name="widen-type",
        commands=("widen-type {table} day timestamp_ntz --enable --upgrade-protocol --yes",),
        tables=("extremes",),
        same_as=(
            "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
            "ALTER TABLE {table} ALTER COLUMN day TYPE TIMESTAMP_NTZ",
        ),
    ),
    Change(
        name="widen-type",
        commands=(
            (
                "widen-type {table} place.at.y bigint list.element.a bigint by.value.a bigint"
                " --enable --upgrade-protocol --yes"
            ),
        ),
        tables=("nested",),
        same_as=(
            "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
            "ALTER TABLE {table} ALTER COLUMN place.at.y TYPE BIGINT",
            "ALTER TABLE {table} ALTER COLUMN list.element.a TYPE BIGINT",
            "ALTER TABLE {table} ALTER COLUMN by.value.a TYPE BIGINT",
        ),
    ),
)

PROTOCOLS = (
    Change(
        name="set-for-writers",
        commands=(
            (
                "properties {table} set delta.enableDeletionVectors=true delta.enableChangeDataFeed=true"
                " delta.enableTypeWidening=true --upgrade-protocol --yes"
            ),
        ),
        tables=("types", "partitioned", "computed"),
    ),
    Change(
        name="set-for-logs",
        commands=(
            (
                "properties {table} set delta.enableInCommitTimestamps=true delta.checkpoint.writeStatsAsStruct=true"
                " delta.dataSkippingNumIndexedCols=2 delta.checkpointInterval=1 --upgrade-protocol --yes"
            ),
        ),
        tables=("extremes", "nested", "clustered", "v2-checkpoints"),
        finds=("stats.clustering-missing",),  # the clustering columns are not among the first two
    ),
    Change(
        name="set-append-only",
        commands=("properties {table} set delta.appendOnly=true --upgrade-protocol --yes",),
        tables=("vectors", "commit-times", "mapped-by-name"),
        same_as=("ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'true')",),
    ),
    Change(
        name="set-row-tracking",
        commands=("properties {table} set delta.enableRowTracking=true --upgrade-protocol --yes",),
        tables=("types", "vectors", "clustered"),
    ),
    Change(
        name="unset",
        commands=(
            "properties {table} set delta.appendOnly=true owner=ops --yes",
            "properties {table} unset delta.appendOnly owner --yes",
        ),
        tables=("types", "row-ids", "everything"),
    ),
    Change(
        name="add-features",
        commands=(
            "features {table} add deletionVectors v2Checkpoint rowTracking inCommitTimestamp --yes",
            "features {table} add typeWidening changeDataFeed checkConstraints columnMapping --yes",
        ),
        tables=("types", "partitioned", "nested"),
    ),
    Change(
        name="add-more-features",
        commands=(
            "features {table} add domainMetadata timestampNtz variantType allowColumnDefaults --yes",
            "features {table} add generatedColumns identityColumns vacuumProtocolCheck appendOnly invariants --yes",
        ),
        tables=("extremes", "vectors", "change-feed"),
    ),
    Change(
        name="drop-v2-checkpoints",
        commands=("features {table} drop v2Checkpoint --yes",),
        tables=("v2-checkpoints", "everything"),
        keeps_history=False,
    ),
    Change(
        name="drop-commit-times",
        commands=("features {table} drop inCommitTimestamp --yes",),
        tables=("commit-times", "everything"),
        keeps_history=False,
    ),
    Change(
        name="drop-row-tracking",
        commands=("features {table} drop rowTracking --yes",),
        tables=("row-ids", "everything"),
        keeps_history=False,
        not_asked=("row ids",),
    ),
    Change(
        name="drop-constraints",
        commands=(
            "alter {table} constraint drop positive --yes",
            "features {table} drop checkConstraints --yes",
        ),
        tables=("computed",),
        same_as=("ALTER TABLE {table} DROP CONSTRAINT positive",),
        keeps_history=False,
    ),
    Change(
        name="add-and-drop-vacuum-check",
        commands=(
            "features {table} add vacuumProtocolCheck --yes",
            "features {table} drop vacuumProtocolCheck --yes",
        ),
        tables=("types", "commit-times", "mapped-by-id"),
        keeps_history=False,
    ),
)

COPIES = (
    Change(
        name="clone",
        commands=("clone {table} {other} --yes",),
        tables=("partitioned", "vectors", "mapped-by-name", "computed", "everything"),
        judged="{other}",
        keeps_history=False,
        # The rows of a clone get ids of its own.
        not_asked=("row ids",),
    ),
    Change(
        name="copy",
        commands=("copy {table} {other} --level data",),
        tables=("vectors", "change-feed", "commit-times", "everything"),
        judged="{other}",
        fully_on=("change-feed",),
    ),
    Change(
        name="copy-newest",
        commands=("copy {table} {other} --newest",),
        tables=("mapped-by-id", "classic-checkpoints", "nested"),
        judged="{other}",
        keeps_history=False,
    ),
    Change(
        name="replica",
        commands=("copy {table} {other} --replica",),
        tables=("extremes", "widened", "clustered", "replaced"),
        judged="{other}",
    ),
    Change(
        name="convert",
        accident=accidents.become_parquet,
        commands=("convert {table} --yes",),
        tables=("types", "nested", "extremes"),
        keeps_history=False,
    ),
)

CHANGES = (*REWRITES, *UNDONE, *LOGS, *SCHEMAS, *PROTOCOLS, *COPIES)
"""All changes. A pair of a name and a table occurs once."""
