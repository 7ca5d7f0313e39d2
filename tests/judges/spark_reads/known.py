"""Differences between deltacli and Spark about tables that Spark wrote, each with its reason."""

from __future__ import annotations

from tests.judges.answers import KnownDifference

PADDING = "E99: Spark pads CHAR(n) with blanks when it reads, also in conditions; deltacli shows what is stored"

SOURCE_OF_CLONE = "E100: every shallow clone has files of its source, which a vacuum of the source may delete"

SKIPPED_BY_FLOAT = (
    "decision 0022: statistics have the text of a float, 0.1, which is less than the double 0.10000000149011612 that"
    " the widened column has. Spark skips the file and loses the row; deltacli does not, and `validate` warns"
)

COLLATED_CONDITION = "deltacli does not compare by collations, so it refuses the condition instead of losing rows"

COLLATION_UNCHECKED = "Spark writes such a table, without the feature, only while its check of types is off"

BEYOND_RETENTION = "decision 0169: Spark refuses a version older than the retention of deleted files"

WITHOUT_RETENTION = (
    "a warning that is right: the case lets Spark vacuum without retention, which takes files of version 1"
)

IN_MILLISECONDS = "decision 0176: Spark reads the milliseconds that it was told to write; other engines may not"

WIDENED_PARTITIONS = (
    "a warning that is right: Spark leaves the texts of partition values as they are when it widens the column, and"
    " readers built on a Delta kernel do not parse them"
)

BEYOND_NANOSECONDS = "a warning that is right: deltalake and polars read other times from INT96, as the rule says"

KNOWN = (
    KnownDifference("times-far", "validate: data.int96-beyond-nanoseconds", BEYOND_NANOSECONDS),
    KnownDifference("times-rebased-int96", "validate: data.int96-beyond-nanoseconds", BEYOND_NANOSECONDS),
    KnownDifference("widened-partition", "validate: partition.kernel-unreadable", WIDENED_PARTITIONS),
    KnownDifference("types-millis", "validate: data.timestamp-unit", IN_MILLISECONDS),
    KnownDifference("char", "version 1", PADDING),
    KnownDifference("char", "where *", PADDING),
    KnownDifference("partition-char", "version 1", PADDING),
    KnownDifference("partition-char", "where *", PADDING),
    KnownDifference("widened-others", "where `fd` = least, skipping", SKIPPED_BY_FLOAT),
    KnownDifference("widened-others", "validate: typewidening.float-bounds", SKIPPED_BY_FLOAT),
    KnownDifference("collations", "where `c`*", COLLATED_CONDITION),
    KnownDifference("collations", "where `u`*", COLLATED_CONDITION),
    KnownDifference("collations", "validate: feature.used-not-supported", COLLATION_UNCHECKED),
    KnownDifference("log-expired", "version 4", BEYOND_RETENTION),
    KnownDifference("clone", "validate: data.shared-file", SOURCE_OF_CLONE),
    KnownDifference("clone-of-version-with-vectors", "validate: data.shared-file", SOURCE_OF_CLONE),
    KnownDifference("vacuumed", "validate: history.time-travel-broken", WITHOUT_RETENTION),
    KnownDifference("vacuumed", "validate: history.vacuum-short-retention", WITHOUT_RETENTION),
)
