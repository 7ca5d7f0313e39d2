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
    "A property begins with `delta.` and no engine is known to know it.",
    spec="Delta-Spark: names that begin with delta. are reserved",
    fix=Fix(
        broken="engines ignore it or refuse to alter the table; often it is a slip of the pen",
        mend="commit a metaData action with the right name, or without the property",
        loss="nothing",
    ),
    example='"configuration":{"delta.checkpointIntervall":"10"}',
)
BAD_BOOLEAN = AREA.rule(
    "property.bad-boolean",
    Severity.WARNING,
    Level.LOG,
    "A property that is true or false has another value.",
    spec="Delta-Spark: values of table properties",
    fix=Fix(broken="some engines fail on it, others take it for absent", mend=_CORRECT, loss="nothing"),
    example='"configuration":{"delta.appendOnly":"yes"}',
)
BAD_NUMBER = AREA.rule(
    "property.bad-number",
    Severity.WARNING,
    Level.LOG,
    "A property that is a number has no number, or one out of its range.",
    spec="Delta-Spark: values of table properties",
    fix=Fix(broken="some engines fail on it, others take it for absent", mend=_CORRECT, loss="nothing"),
    example='"configuration":{"delta.checkpointInterval":"0"}',
)
BAD_INTERVAL = AREA.rule(
    "property.bad-interval",
    Severity.ERROR,
    Level.LOG,
    "A retention is no interval: it can't be read, has months or years, or is negative.",
    spec="Delta-Spark: intervals of table properties",
    fix=Fix(
        broken="some engines fail on it, others clean up after their default retention",
        mend="commit a metaData action with an interval such as `interval 30 days`",
        loss="nothing",
    ),
    example='"configuration":{"delta.logRetentionDuration":"interval 1 month"}',
)
INTERVAL_PORTABILITY = AREA.rule(
    "property.interval-portability",
    Severity.WARNING,
    Level.LOG,
    "A retention is an interval for Delta-Spark and means something else to other engines.",
    spec="Delta-Spark: intervals of table properties",
    fix=Fix(
        broken="delta-rs and kernel-rs read only `interval`, one integer and one unit in lower case: of anything else"
        " they take the first part, or their default, and may delete files too early",
        mend="commit a metaData action with an interval of one unit, such as `interval 30 days`",
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
        broken="files are kept for versions that nobody can read any more",
        mend="commit a metaData action with logRetentionDuration not below deletedFileRetentionDuration",
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
        mend="commit a metaData action with `interval 7 days`",
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
        broken="the log and the directory grow with every commit of that time",
        mend="commit a metaData action with the retention that is needed",
        loss="time travel beyond it",
    ),
    example='"configuration":{"delta.logRetentionDuration":"interval 3650 days"}',
)
LEGACY_APPEND_ONLY_KEY = AREA.rule(
    "property.legacy-append-only-key",
    Severity.INFO,
    Level.LOG,
    "The property is called appendOnly, without `delta.`, and has no effect.",
    seed="000: Append-only Tables",
    spec="Append-only Tables",
    fix=Fix(
        broken="the table looks append-only and is not",
        mend="commit a metaData action with delta.appendOnly",
        loss="deletes and updates, if the table is to be append-only",
    ),
    example='"configuration":{"appendOnly":"true"}',
)
STATS_BOTH_OFF = AREA.rule(
    "property.stats-both-off",
    Severity.WARNING,
    Level.LOG,
    "Checkpoints get statistics neither as JSON nor as columns.",
    seed="000: Checkpoints",
    spec="Checkpoint Format",
    fix=Fix(
        broken="after a checkpoint no query can skip a file",
        mend="commit a metaData action with delta.checkpoint.writeStatsAsJson true",
        loss="nothing",
    ),
    example='"delta.checkpoint.writeStatsAsJson":"false","delta.checkpoint.writeStatsAsStruct":"false"',
)
STATS_STRUCT_UNSET = AREA.rule(
    "property.stats-struct-unset",
    Severity.INFO,
    Level.LOG,
    "delta.checkpoint.writeStatsAsStruct is not set, and engines disagree on what that means.",
    seed="000: Checkpoints",
    spec="Checkpoint Format",
    fix=Fix(
        broken="checkpoints have columns of statistics or not, depending on who writes them",
        mend="commit a metaData action with the property set to true or false",
        loss="nothing",
    ),
    example='"configuration":{}',
)
CHECKPOINT_POLICY = AREA.rule(
    "property.checkpoint-policy",
    Severity.ERROR,
    Level.LOG,
    "The checkpoint policy is unknown, or it is v2 and the protocol doesn't support v2Checkpoint.",
    spec="V2 Checkpoint Table Feature",
    fix=Fix(
        broken="engines fail on it, or write checkpoints that others can't read",
        mend="commit a protocol with v2Checkpoint, or a metaData action with the policy classic",
        loss="engines that don't know V2 checkpoints, with the former",
    ),
    example='"delta.checkpointPolicy":"v2" with {"minReaderVersion":1,"minWriterVersion":2}',
)
COMPRESSION_CODEC = AREA.rule(
    "property.compression-codec",
    Severity.WARNING,
    Level.LOG,
    "The codec of data files is no codec of Parquet.",
    spec="Table Properties",
    fix=Fix(broken="writers fail on it, or write with another codec", mend=_CORRECT, loss="nothing"),
    example='"configuration":{"delta.parquet.compression.codec":"zip"}',
)
PARQUET_VERSION = AREA.rule(
    "property.parquet-version",
    Severity.WARNING,
    Level.LOG,
    "The Parquet version of data files is neither 1.0.0 nor 2.x.y.",
    spec="Table Properties",
    fix=Fix(broken="writers fail on it, or write another version", mend=_CORRECT, loss="nothing"),
    example='"configuration":{"delta.parquet.format.version":"2"}',
)
PROTOCOL_IN_CONFIG = AREA.rule(
    "property.protocol-in-config",
    Severity.WARNING,
    Level.LOG,
    "A property belongs into the protocol action and has no effect where it is.",
    spec="Delta-Spark: no properties of the protocol in a metaData action",
    fix=Fix(
        broken="the table looks as if it had the feature or the version; Delta-Spark fails on it",
        mend="commit a metaData action without the property, and a protocol action if the feature is wanted",
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
    fix=Fix(broken="the log grows for ever, and listing it takes longer and longer", mend=_UNSET, loss="old versions"),
    example='"configuration":{"delta.enableExpiredLogCleanup":"false"}',
)
CDF_LEGACY_KEY = AREA.rule(
    "property.cdf-legacy-key",
    Severity.INFO,
    Level.LOG,
    "The change data feed is switched by its former name, delta.enableChangeDataCapture.",
    spec="Delta-Spark: former names of table properties",
    fix=Fix(
        broken="only Delta-Spark knows that name; other writers write no change data",
        mend="commit a metaData action with delta.enableChangeDataFeed",
        loss="nothing",
    ),
    example='"configuration":{"delta.enableChangeDataCapture":"true"}',
)
