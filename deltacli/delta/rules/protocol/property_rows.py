"""The rows of the catalogue about table properties."""

from __future__ import annotations

from deltacli.delta.rules.framework.base import Area, Fix, Level, Severity

AREA = Area("properties")

_UNSET = "commit a metaData action without the property"
_CORRECT = "commit a metaData action with a valid value"

UNKNOWN_DELTA_KEY = AREA.rule(
    "property.unknown-delta-key",
    Severity.WARNING,
    Level.LOG,
    "A property begins with `delta.`, but no known engine recognizes it.",
    spec="Delta-Spark: names that begin with delta. are reserved",
    fix=Fix(
        broken="engines ignore it or refuse to alter the table; it is often a typo",
        repair="commit a metaData action with the correct name, or without the property",
        loss="nothing",
    ),
    example='"configuration":{"delta.checkpointIntervall":"10"}',
)
BAD_BOOLEAN = AREA.rule(
    "property.bad-boolean",
    Severity.WARNING,
    Level.LOG,
    "A boolean property has a value other than true or false.",
    spec="Delta-Spark: values of table properties",
    fix=Fix(broken="some engines fail on it, others ignore it", repair=_CORRECT, loss="nothing"),
    example='"configuration":{"delta.appendOnly":"yes"}',
)
BAD_NUMBER = AREA.rule(
    "property.bad-number",
    Severity.WARNING,
    Level.LOG,
    "A numeric property is not a number, or is out of range.",
    spec="Delta-Spark: values of table properties",
    fix=Fix(broken="some engines fail on it, others ignore it", repair=_CORRECT, loss="nothing"),
    example='"configuration":{"delta.checkpointInterval":"0"}',
)
BAD_INTERVAL = AREA.rule(
    "property.bad-interval",
    Severity.ERROR,
    Level.LOG,
    "A retention is not a valid interval: it cannot be parsed, has months or years, or is negative.",
    spec="Delta-Spark: intervals of table properties",
    fix=Fix(
        broken="some engines fail on it, others use their default retention",
        repair="commit a metaData action with an interval such as `interval 30 days`",
        loss="nothing",
    ),
    example='"configuration":{"delta.logRetentionDuration":"interval 1 month"}',
)
INTERVAL_PORTABILITY = AREA.rule(
    "property.interval-portability",
    Severity.WARNING,
    Level.LOG,
    "A retention is an interval for Delta-Spark, but other engines read it differently.",
    spec="Delta-Spark: intervals of table properties",
    fix=Fix(
        broken=(
            "delta-rs and kernel-rs read only `interval`, one integer and one lower-case unit; for anything else "
            "they use the first part, or their default, and may delete files too early"
        ),
        repair="commit a metaData action with an interval of one unit, such as `interval 30 days`",
        loss="nothing",
    ),
    example='"configuration":{"delta.deletedFileRetentionDuration":"30 days"}',
)
RETENTION_ORDER = AREA.rule(
    "property.retention-order",
    Severity.WARNING,
    Level.LOG,
    "The log is kept for a shorter time than deleted files.",
    spec="Delta-Spark: retention of the log and of deleted files",
    fix=Fix(
        broken="files are kept for versions that can no longer be read",
        repair="commit a metaData action with logRetentionDuration not below deletedFileRetentionDuration",
        loss="nothing",
    ),
    example='"delta.logRetentionDuration":"interval 5 days","delta.deletedFileRetentionDuration":"interval 7 days"',
)
RETENTION_SHORT = AREA.rule(
    "property.retention-short",
    Severity.WARNING,
    Level.LOG,
    "Deleted files are kept for less than a day.",
    seed="000: Add File and Remove File",
    spec="Add File and Remove File",
    fix=Fix(
        broken="a VACUUM deletes files that running readers and writers still need",
        repair="commit a metaData action with `interval 7 days`",
        loss="nothing",
    ),
    example='"configuration":{"delta.deletedFileRetentionDuration":"interval 0 hours"}',
)
RETENTION_LONG = AREA.rule(
    "property.retention-long",
    Severity.INFO,
    Level.LOG,
    "The log or deleted files are kept for more than a year.",
    spec="Delta-Spark: retention of the log and of deleted files",
    fix=Fix(
        broken="the log and the directory grow with every commit in that time",
        repair="commit a metaData action with the required retention",
        loss="time travel beyond it",
    ),
    example='"configuration":{"delta.logRetentionDuration":"interval 3650 days"}',
)
LEGACY_APPEND_ONLY_KEY = AREA.rule(
    "property.legacy-append-only-key",
    Severity.INFO,
    Level.LOG,
    "The property is named appendOnly, without `delta.`, and has no effect.",
    seed="000: Append-only Tables",
    spec="Append-only Tables",
    fix=Fix(
        broken="the table looks append-only but is not",
        repair="commit a metaData action with delta.appendOnly",
        loss="deletes and updates, if the table should be append-only",
    ),
    example='"configuration":{"appendOnly":"true"}',
)
STATS_BOTH_OFF = AREA.rule(
    "property.stats-both-off",
    Severity.WARNING,
    Level.LOG,
    "Checkpoints have no statistics, neither as JSON nor as columns.",
    seed="000: Checkpoints",
    spec="Checkpoint Format",
    fix=Fix(
        broken="no query can skip a file after a checkpoint",
        repair="commit a metaData action with delta.checkpoint.writeStatsAsJson true",
        loss="nothing",
    ),
    example='"delta.checkpoint.writeStatsAsJson":"false","delta.checkpoint.writeStatsAsStruct":"false"',
)
STATS_STRUCT_UNSET = AREA.rule(
    "property.stats-struct-unset",
    Severity.INFO,
    Level.LOG,
    "delta.checkpoint.writeStatsAsStruct is not set, and engines have different defaults.",
    seed="000: Checkpoints",
    spec="Checkpoint Format",
    fix=Fix(
        broken="whether checkpoints have columns of statistics depends on the engine that writes them",
        repair="commit a metaData action with the property set to true or false",
        loss="nothing",
    ),
    example='"configuration":{}',
)
CHECKPOINT_POLICY = AREA.rule(
    "property.checkpoint-policy",
    Severity.ERROR,
    Level.LOG,
    "The checkpoint policy is invalid, or it is v2 and the protocol does not support v2Checkpoint.",
    spec="V2 Checkpoint Table Feature",
    fix=Fix(
        broken="engines fail on it, or write checkpoints that others cannot read",
        repair="commit a protocol with v2Checkpoint, or a metaData action with the policy classic",
        loss="with the former, engines without support for V2 checkpoints",
    ),
    example='"delta.checkpointPolicy":"v2" with {"minReaderVersion":1,"minWriterVersion":2}',
)
COMPRESSION_CODEC = AREA.rule(
    "property.compression-codec",
    Severity.WARNING,
    Level.LOG,
    "The codec of data files is not a Parquet codec.",
    spec="Table Properties",
    fix=Fix(broken="writers fail on it, or use another codec", repair=_CORRECT, loss="nothing"),
    example='"configuration":{"delta.parquet.compression.codec":"zip"}',
)
PARQUET_VERSION = AREA.rule(
    "property.parquet-version",
    Severity.WARNING,
    Level.LOG,
    "The Parquet version of data files is neither 1.0.0 nor 2.x.y.",
    spec="Table Properties",
    fix=Fix(broken="writers fail on it, or use another version", repair=_CORRECT, loss="nothing"),
    example='"configuration":{"delta.parquet.format.version":"2"}',
)
PROTOCOL_IN_CONFIG = AREA.rule(
    "property.protocol-in-config",
    Severity.WARNING,
    Level.LOG,
    "A property belongs in the protocol action and has no effect as a property.",
    spec="Delta-Spark: no properties of the protocol in a metaData action",
    fix=Fix(
        broken="the table appears to have the feature or the version; Delta-Spark fails on it",
        repair="commit a metaData action without the property, and a protocol action if the feature is wanted",
        loss="nothing",
    ),
    example='"configuration":{"delta.feature.deletionVectors":"supported"}',
)
LOG_CLEANUP_OFF = AREA.rule(
    "property.log-cleanup-off",
    Severity.INFO,
    Level.LOG,
    "Old commits are never cleaned up.",
    spec="Metadata Cleanup",
    fix=Fix(
        broken="the log grows without limit, and listing it takes longer and longer", repair=_UNSET, loss="old versions"
    ),
    example='"configuration":{"delta.enableExpiredLogCleanup":"false"}',
)
CDF_LEGACY_KEY = AREA.rule(
    "property.cdf-legacy-key",
    Severity.INFO,
    Level.LOG,
    "The change data feed is set by its former property name, delta.enableChangeDataCapture.",
    spec="Delta-Spark: former names of table properties",
    fix=Fix(
        broken="only Delta-Spark recognizes that name; other writers write no change data",
        repair="commit a metaData action with delta.enableChangeDataFeed",
        loss="nothing",
    ),
    example='"configuration":{"delta.enableChangeDataCapture":"true"}',
)
