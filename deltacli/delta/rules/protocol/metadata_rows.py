"""The rows of the catalogue about metaData actions."""

from __future__ import annotations

from deltacli.delta.rules.framework.base import Area, Fix, Level, Severity

AREA = Area("metadata")

_REWRITE = "rewrite the table as a new one"

ID_NOT_GUID = AREA.rule(
    "metadata.id-not-guid",
    Severity.WARNING,
    Level.LOG,
    "The table id is not a GUID.",
    seed="000: Change Metadata",
    spec="Change Metadata",
    fix=Fix(
        broken="engines that parse the id fail, and two tables may have the same id",
        repair="commit a metaData action with a GUID before streams and shares refer to the table",
        loss="streams that identify the table by its old id",
    ),
    example='{"metaData":{"id":"my-table",…}}',
)
ID_CHANGED = AREA.rule(
    "metadata.id-changed",
    Severity.ERROR,
    Level.LOG,
    "The table id differs from that of the previous metaData action.",
    seed="000: Change Metadata",
    spec="Change Metadata",
    fix=Fix(
        broken="another table was written over this one, or an engine created a new id; streams and caches stop",
        repair="nothing, if the change was intended; otherwise restore the previous version",
        loss="later commits, if the previous version is restored",
    ),
    example='version 0: {"metaData":{"id":"8e1a6ad6-…"}}, version 4: {"metaData":{"id":"0c5d2f44-…"}}',
)
FORMAT_NOT_PARQUET = AREA.rule(
    "metadata.format-not-parquet",
    Severity.ERROR,
    Level.LOG,
    "The format of the files is not parquet, or has options.",
    seed="000: Format Specification",
    spec="Format Specification",
    fix=Fix(
        broken="no engine reads data files other than Parquet, and none recognizes options",
        repair='commit a metaData action with {"provider":"parquet","options":{}} if the files are Parquet',
        loss="nothing",
    ),
    example='"format":{"provider":"orc","options":{}}',
)
CREATED_TIME = AREA.rule(
    "metadata.created-time",
    Severity.INFO,
    Level.LOG,
    "The metaData action has no createdTime, or a different one than the previous action.",
    seed="000: Change Metadata",
    spec="Change Metadata",
    fix=Fix(
        broken="engines show it as the creation time of the table",
        repair="commit a metaData action with the time of version 0",
        loss="nothing",
    ),
    example='version 0: "createdTime":1767981600000, version 4: "createdTime":1767981840000',
)
PARTITION_COLUMN_UNKNOWN = AREA.rule(
    "metadata.partition-column-unknown",
    Severity.ERROR,
    Level.LOG,
    "A partition column is not in the schema.",
    seed="000: Change Metadata",
    spec="Change Metadata",
    fix=Fix(
        broken="the type of its values is unknown, so engines refuse the table",
        repair="commit a metaData action whose schema has the column, spelled as in partitionColumns",
        loss="nothing",
    ),
    example='"partitionColumns":["day"] and no column day',
)
PARTITION_COLUMN_DUPLICATE = AREA.rule(
    "metadata.partition-column-duplicate",
    Severity.ERROR,
    Level.LOG,
    "A partition column is named twice, ignoring case.",
    spec="Change Metadata",
    fix=Fix(
        broken="engines refuse the table or build paths with the column twice",
        repair="commit a metaData action that names the column once",
        loss="nothing",
    ),
    example='"partitionColumns":["day","Day"]',
)
PARTITION_COLUMN_TYPE = AREA.rule(
    "metadata.partition-column-type",
    Severity.ERROR,
    Level.LOG,
    "A partition column has a type whose values cannot be written as text: array, map, struct or void.",
    seed="000: Partition Value Serialization",
    spec="Partition Value Serialization",
    fix=Fix(broken="its values in partitionValues have no meaning for readers", repair=_REWRITE, loss="the history"),
    example='"partitionColumns":["tags"] with tags of type array<string>',
)
PARTITION_COLUMN_NESTED = AREA.rule(
    "metadata.partition-column-nested",
    Severity.ERROR,
    Level.LOG,
    "A partition column is a field inside another column.",
    spec="Change Metadata",
    fix=Fix(
        broken="only top-level columns can be partition columns; engines refuse the table",
        repair=_REWRITE,
        loss="the history",
    ),
    example='"partitionColumns":["address.country"]',
)
ALL_COLUMNS_PARTITIONED = AREA.rule(
    "metadata.all-columns-partitioned",
    Severity.WARNING,
    Level.LOG,
    "Every column is a partition column.",
    spec="Delta-Spark: no table may be partitioned by all of its columns",
    fix=Fix(
        broken="the data files would have no column, and Delta-Spark refuses to write them",
        repair=_REWRITE,
        loss="the history",
    ),
    example='"partitionColumns":["p"] and p is the only column',
)
PARTITIONING_CHANGED = AREA.rule(
    "metadata.partitioning-changed",
    Severity.WARNING,
    Level.LOG,
    "The partition columns changed while files with the old partitioning stayed in the table.",
    seed="000: Change Metadata",
    spec="Consistency Between Table Metadata and Data Files",
    fix=Fix(
        broken="these files have no values for the new columns, so readers fail or return nulls",
        repair="restore the previous version, or replace all files",
        loss="later commits, if the previous version is restored",
    ),
    example='version 0: "partitionColumns":["p"], version 4: "partitionColumns":["p","q"] and no remove',
)
