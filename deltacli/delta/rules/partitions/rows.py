"""The rows of the rules about partition values."""

from __future__ import annotations

from deltacli.delta.rules.framework.base import Area, Fix, Level, Severity

AREA = Area("partitions")

_ADD = "000: Add File and Remove File"
_SERIAL = "000: Partition Value Serialization"
_SERIALIZATION = "Partition Value Serialization"
_RECOMMIT = "commit the same add again with correct partitionValues and dataChange=false"

KEY_MISSING = AREA.rule(
    "partition.key-missing",
    Severity.ERROR,
    Level.LOG,
    "A file has no value for a partition column.",
    seed="000: Consistency Between Table Metadata and Data Files",
    spec="Consistency Between Table Metadata and Data Files",
    fix=Fix(broken="readers fail, or treat the value as null", repair=_RECOMMIT, loss="nothing"),
    example='{"add":{"path":"part-0.parquet","partitionValues":{},…}} where partitionColumns is ["p"]',
)
KEY_EXTRA = AREA.rule(
    "partition.key-extra",
    Severity.ERROR,
    Level.LOG,
    "A file has a value for a name that is not a partition column.",
    seed=_ADD,
    spec="Add File and Remove File",
    fix=Fix(broken="some readers fail, others ignore the value", repair=_RECOMMIT, loss="nothing"),
    example='"partitionValues":{"p":"a","q":"b"} where partitionColumns is ["p"]',
)
KEY_CASE = AREA.rule(
    "partition.key-case",
    Severity.WARNING,
    Level.LOG,
    "A partition value has a name that differs from its column's name only in case.",
    seed=_ADD,
    spec="Add File and Remove File",
    fix=Fix(broken="case-sensitive readers treat the value as null, or fail", repair=_RECOMMIT, loss="nothing"),
    example='"partitionValues":{"P":"a"} where partitionColumns is ["p"]',
)
UNPARSABLE = AREA.rule(
    "partition.unparsable",
    Severity.ERROR,
    Level.LOG,
    "A partition value is not valid for the type of its column.",
    seed=_SERIAL,
    spec=_SERIALIZATION,
    fix=Fix(broken="readers fail, or treat the value as null", repair=_RECOMMIT, loss="nothing"),
    example='"partitionValues":{"day":"yesterday"} where day is a date',
)
EMPTY_STRING = AREA.rule(
    "partition.empty-string",
    Severity.WARNING,
    Level.LOG,
    "A string partition value is empty. Some engines read null, others an empty string.",
    seed=_SERIAL,
    spec=_SERIALIZATION,
    fix=Fix(
        broken="engines see different values in the same rows",
        repair="commit the same add again with null for the value and dataChange=false",
        loss="the difference between null and an empty string",
    ),
    example='"partitionValues":{"p":""} where p is a string',
)
NULL_IN_NOT_NULL = AREA.rule(
    "partition.null-in-not-null",
    Severity.ERROR,
    Level.LOG,
    "A partition column that must not be null is null in a file.",
    seed="000: Struct Field",
    spec="Struct Field",
    fix=Fix(broken="the rows break the schema", repair="rewrite the file's rows with a value", loss="nothing"),
    example='"partitionValues":{"p":null} where p has "nullable":false',
)
TIMESTAMP_ZONELESS = AREA.rule(
    "partition.timestamp-zoneless",
    Severity.INFO,
    Level.LOG,
    "A timestamp partition value has no time zone, so its meaning depends on the session.",
    seed=_SERIAL,
    spec=_SERIALIZATION,
    fix=Fix(
        broken="readers in another time zone than the writer's see other times",
        repair="commit the same add again with the time in ISO 8601, UTC, and dataChange=false",
        loss="nothing",
    ),
    example='"partitionValues":{"at":"2026-01-01 00:00:00"} where at is a timestamp',
)
NOT_CANONICAL = AREA.rule(
    "partition.noncanonical",
    Severity.INFO,
    Level.LOG,
    "A partition value has an unusual spelling, so one partition may appear as two.",
    spec=_SERIALIZATION,
    fix=Fix(
        broken="tools that compare partitions as text see two partitions instead of one",
        repair=_RECOMMIT,
        loss="nothing",
    ),
    example='"partitionValues":{"year":"02026"} where year is an integer',
)
HIVE_DEFAULT = AREA.rule(
    "partition.hive-default",
    Severity.WARNING,
    Level.LOG,
    "A partition value is Hive's directory name for null.",
    spec=_SERIALIZATION,
    fix=Fix(
        broken="rows that were null now hold this text",
        repair="commit the same add again with null for the value and dataChange=false",
        loss="nothing",
    ),
    example='"partitionValues":{"p":"__HIVE_DEFAULT_PARTITION__"}',
)
DIR_MISMATCH = AREA.rule(
    "partition.dir-mismatch",
    Severity.INFO,
    Level.LOG,
    "A file's directory names a different partition value than the log.",
    seed="000: Data Files",
    spec="Data Files",
    fix=Fix(broken="nothing: the log decides", repair="no repair needed", loss="nothing"),
    example='{"add":{"path":"p=b/part-0.parquet","partitionValues":{"p":"a"},…}}',
)
ON_UNPARTITIONED = AREA.rule(
    "partition.values-on-unpartitioned",
    Severity.WARNING,
    Level.LOG,
    "A file of a table without partitions has partition values.",
    seed=_ADD,
    spec="Add File and Remove File",
    fix=Fix(broken="some readers fail", repair=_RECOMMIT, loss="nothing"),
    example='"partitionValues":{"p":"a"} where partitionColumns is []',
)
CARDINALITY = AREA.rule(
    "partition.cardinality",
    Severity.INFO,
    Level.LOG,
    "The table has so many partitions, or so little data in each file, that reading it is slow.",
    spec="deltacli",
    fix=Fix(
        broken="queries spend most of their time opening files", repair="rewrite with fewer partitions", loss="nothing"
    ),
    example="partitionColumns is [user_id], 2 million files of 40 KiB",
)
NTZ_DATE_ONLY = AREA.rule(
    "partition.ntz-date-only",
    Severity.INFO,
    Level.LOG,
    "A value of a timestamp_ntz partition column is only a date, as after widening from date.",
    spec="Type Widening",
    fix=Fix(
        broken="several engines fail to read the file",
        repair="commit the same add again with 00:00:00 after the date and dataChange=false",
        loss="nothing",
    ),
    example='"partitionValues":{"at":"2026-01-01"} where at is a timestamp_ntz',
)
