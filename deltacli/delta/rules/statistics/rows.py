"""The rows of the rules about statistics."""

from __future__ import annotations

from deltacli.delta.rules.framework.base import Area, Fix, Level, Severity

AREA = Area("statistics")

_SEED = "000: Per-file Statistics"
_SPEC = "Per-file Statistics"
_RECOMMIT = "commit the same add again with correct statistics, or without any, and dataChange=false"

BAD_JSON = AREA.rule(
    "stats.bad-json",
    Severity.WARNING,
    Level.LOG,
    "The statistics of a file are not a JSON object.",
    seed=_SEED,
    spec=_SPEC,
    fix=Fix(broken="no query can skip the file, and some engines fail to plan", repair=_RECOMMIT, loss="nothing"),
    example='{"add":{"path":"part-0.parquet","stats":"{\\"numRecords\\":10",…}}',
)
NUM_RECORDS_MISSING = AREA.rule(
    "stats.num-records-missing",
    Severity.INFO,
    Level.LOG,
    "The statistics of a file do not have numRecords.",
    seed=_SEED,
    spec=_SPEC,
    fix=Fix(broken="counting rows requires opening the file", repair=_RECOMMIT, loss="nothing"),
    example='{"add":{"path":"part-0.parquet","stats":"{\\"minValues\\":{\\"id\\":1}}",…}}',
)
NUM_RECORDS_NEGATIVE = AREA.rule(
    "stats.num-records-negative",
    Severity.ERROR,
    Level.LOG,
    "The numRecords of a file is negative.",
    seed=_SEED,
    spec=_SPEC,
    fix=Fix(broken="row counts from statistics are wrong", repair=_RECOMMIT, loss="nothing"),
    example='{"add":{"path":"part-0.parquet","stats":"{\\"numRecords\\":-1}",…}}',
)
CARDINALITY_EXCEEDS = AREA.rule(
    "stats.cardinality-exceeds",
    Severity.ERROR,
    Level.LOG,
    "A deletion vector deletes more rows than the file has records.",
    spec="Deletion Vectors",
    fix=Fix(
        broken="the record count or the vector is wrong, and so is every row count",
        repair="commit the same add again with the number of rows in the file's footer",
        loss="nothing",
    ),
    example='{"add":{…,"deletionVector":{…,"cardinality":11},"stats":"{\\"numRecords\\":10}"}}',
)
NULL_COUNT_RANGE = AREA.rule(
    "stats.null-count-range",
    Severity.ERROR,
    Level.LOG,
    "A null count is negative, or greater than the number of records in the file.",
    seed=_SEED,
    spec=_SPEC,
    fix=Fix(broken="queries for nulls, or for other values, may skip the file", repair=_RECOMMIT, loss="nothing"),
    example='"stats":"{\\"numRecords\\":10,\\"nullCount\\":{\\"id\\":11}}"',
)
NULL_COUNT_WIDE = AREA.rule(
    "stats.null-count-wide",
    Severity.INFO,
    Level.LOG,
    "With wide bounds, a null count other than 0 and numRecords has no meaning.",
    spec=_SPEC,
    fix=Fix(broken="nothing: readers ignore the number", repair="no repair needed", loss="nothing"),
    example='"stats":"{\\"numRecords\\":10,\\"tightBounds\\":false,\\"nullCount\\":{\\"id\\":3}}"',
)
MIN_GREATER_MAX = AREA.rule(
    "stats.min-greater-max",
    Severity.ERROR,
    Level.LOG,
    "The minimum of a column is above its maximum.",
    seed=_SEED,
    spec=_SPEC,
    fix=Fix(
        broken="queries skip rows that are in the file, so results are silently wrong",
        repair=_RECOMMIT,
        loss="nothing",
    ),
    example='"stats":"{\\"numRecords\\":10,\\"minValues\\":{\\"id\\":9},\\"maxValues\\":{\\"id\\":1}}"',
)
TIMESTAMP_PRECISION = AREA.rule(
    "stats.timestamp-precision",
    Severity.INFO,
    Level.LOG,
    "The maximum of a timestamp column was truncated to milliseconds and is therefore below its minimum.",
    spec="Per-file Statistics, footnote 1",
    fix=Fix(
        broken="readers that do not add a millisecond to the maximum skip the file",
        repair="no repair needed for readers that follow the protocol",
        loss="nothing",
    ),
    example='"minValues":{"at":"2026-01-01T00:00:00.000700Z"},"maxValues":{"at":"2026-01-01T00:00:00.000Z"}',
)
UNKNOWN_COLUMN = AREA.rule(
    "stats.unknown-column",
    Severity.WARNING,
    Level.LOG,
    "The statistics of a file have a column that is not in the schema.",
    seed=_SEED,
    spec=_SPEC,
    fix=Fix(
        broken="queries on the intended column, if there is one, cannot skip the file", repair=_RECOMMIT, loss="nothing"
    ),
    example='"stats":"{\\"numRecords\\":10,\\"minValues\\":{\\"no_such_column\\":1}}"',
)
PARTITION_COLUMN = AREA.rule(
    "stats.partition-column",
    Severity.INFO,
    Level.LOG,
    "The statistics of a file have a partition column.",
    spec="Per-file Statistics; materialized partition columns (RFC)",
    fix=Fix(broken="nothing: readers use partitionValues", repair=_RECOMMIT, loss="nothing"),
    example='"partitionColumns":["p"] and "stats":"{\\"numRecords\\":10,\\"minValues\\":{\\"p\\":\\"a\\"}}"',
)
TYPE_MISMATCH = AREA.rule(
    "stats.type-mismatch",
    Severity.WARNING,
    Level.LOG,
    "A value in the statistics of a file does not have the type of its column.",
    seed=_SEED,
    spec=_SPEC,
    fix=Fix(broken="queries cannot skip the file, or an engine fails to plan", repair=_RECOMMIT, loss="nothing"),
    example='"stats":"{\\"numRecords\\":10,\\"minValues\\":{\\"id\\":\\"one\\"}}" where id is a long',
)
INTERVAL_BOUNDS = AREA.rule(
    "stats.interval-bounds",
    Severity.WARNING,
    Level.LOG,
    "The statistics of a file have bounds for an interval column.",
    spec="Interval types (RFC)",
    fix=Fix(
        broken="bounds of intervals have no defined order, so rows may be skipped", repair=_RECOMMIT, loss="nothing"
    ),
    example='"minValues":{"span":"INTERVAL \'1-0\' YEAR TO MONTH"}',
)
VARIANT_ENCODING = AREA.rule(
    "stats.variant-encoding",
    Severity.WARNING,
    Level.LOG,
    "The bounds of a variant column are not z85 text.",
    spec="Statistics for Variant Columns",
    fix=Fix(broken="queries cannot skip the file, or readers fail to decode it", repair=_RECOMMIT, loss="nothing"),
    example='"minValues":{"v":"{\\"a\\": 1}"} where v is a variant',
)
TIGHT_WITH_VECTOR = AREA.rule(
    "stats.tight-with-dv",
    Severity.WARNING,
    Level.LOG,
    "A file with a deletion vector claims tight bounds, although deleted rows may have made them wide.",
    spec="Per-file Statistics",
    fix=Fix(
        broken="minima and maxima from statistics may be those of deleted rows",
        repair="commit the same add again with tightBounds=false in its statistics",
        loss="nothing",
    ),
    example='{"add":{…,"deletionVector":{…},"stats":"{…,\\"tightBounds\\":true,\\"minValues\\":{…}}"}}',
)
NULL_COUNTS_SPELLING = AREA.rule(
    "stats.nullcounts-spelling",
    Severity.INFO,
    Level.CHECKPOINT,
    "A checkpoint has the parsed null counts as `nullCounts`, but the name is `nullCount`.",
    seed="000: Appendix, checkpoint schema",
    spec="Checkpoint Schema",
    fix=Fix(broken="readers do not find the null counts", repair="write a new checkpoint", loss="nothing"),
    example="add.stats_parsed.nullCounts in 00000000000000000010.checkpoint.parquet",
)
NUM_RECORDS_MISMATCH = AREA.rule(
    "stats.num-records-mismatch",
    Severity.ERROR,
    Level.FOOTERS,
    "The number of records in the statistics of a file differs from its rows.",
    seed=_SEED,
    spec=_SPEC,
    fix=Fix(broken="row counts from statistics are wrong", repair=_RECOMMIT, loss="nothing"),
    example='"numRecords":10 in the statistics of a file of 12 rows',
)
NULL_COUNT_MISMATCH = AREA.rule(
    "stats.null-count-mismatch",
    Severity.WARNING,
    Level.FOOTERS,
    "The null count of a column in the statistics of a file differs from its rows.",
    seed=_SEED,
    spec=_SPEC,
    fix=Fix(
        broken="filters for nulls, or for other values, may skip the file and lose rows; value counts are wrong",
        repair=_RECOMMIT,
        loss="nothing",
    ),
    example='"nullCount":{"id":0} in the statistics of a file in which id is null twice',
)
BOUNDS_NOT_COVERING = AREA.rule(
    "stats.bounds-not-covering",
    Severity.ERROR,
    Level.FOOTERS,
    "A column has values below the minimum, or above the maximum, in the statistics of its file.",
    seed=_SEED,
    spec="Per-file Statistics, footnote 1",
    fix=Fix(
        broken="filters skip the file and silently lose rows",
        repair=_RECOMMIT,
        loss="nothing",
    ),
    example='"maxValues":{"id":9} in the statistics of a file in which id is 12',
)
BOUNDS_NOT_TIGHT = AREA.rule(
    "stats.bounds-not-tight",
    Severity.INFO,
    Level.FOOTERS,
    "The bounds of a column claim to be tight, but do not occur in any row.",
    spec=_SPEC,
    fix=Fix(broken="minima and maxima from statistics are wrong", repair=_RECOMMIT, loss="nothing"),
    example='"tightBounds":true and "maxValues":{"id":20} in the statistics of a file in which id is at most 12',
)
