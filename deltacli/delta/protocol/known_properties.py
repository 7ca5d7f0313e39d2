"""Table properties that some engine recognizes: values, meanings, defaults. Spec: Table Properties; Delta-Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from deltacli.delta.log.state import (
    DEFAULT_CHECKPOINT_INTERVAL,
    DEFAULT_RETENTIONS,
    DELETED_FILE_RETENTION,
    IN_COMMIT_KEYS,
    LOG_RETENTION,
    TRANSACTION_RETENTION,
)
from deltacli.delta.protocol.features import FEATURES

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1


class IntegerBounds(NamedTuple):
    """The valid integers of a property."""

    lowest: int
    highest: int


class PropertyKind(StrEnum):
    BOOLEAN = "true or false"
    NUMBER = "an integer"
    INTERVAL = "an interval"
    OTHER = "text"


BOOLEANS = frozenset(
    {
        *(feature.enabled_by for feature in FEATURES.values() if feature.enabled_by),
        "delta.autoOptimize",
        "delta.autoOptimize.optimizeWrite",
        "delta.castIcebergTimeType",
        "delta.checkpoint.writeStatsAsJson",
        "delta.checkpoint.writeStatsAsStruct",
        "delta.columnMapping.hasDroppedOrRenamed",
        "delta.compatibility.symlinkFormatManifest.enabled",
        "delta.enableChangeDataCapture",
        "delta.enableExpiredLogCleanup",
        "delta.enableFullRetentionRollback",
        "delta.parquet.vorder.enabled",
        "delta.randomizeFilePrefixes",
        "delta.rowTrackingSuspended",
        "delta.tuneFileSizesForRewrites",
        "delta.writePartitionColumnsToParquet",
    }
)

NUMBERS: Mapping[str, IntegerBounds] = {
    "delta.checkpointInterval": IntegerBounds(1, MAX_INT),
    "delta.columnMapping.maxColumnId": IntegerBounds(0, MAX_LONG),
    "delta.dataSkippingNumIndexedCols": IntegerBounds(-1, MAX_INT),
    "delta.dataSkippingStringPrefixLength": IntegerBounds(0, MAX_INT),
    **{key: IntegerBounds(0, MAX_LONG) for keys in IN_COMMIT_KEYS.values() for key in (keys.timestamp, keys.version)},
    "delta.lastCommitTimestamp": IntegerBounds(0, MAX_LONG),
    "delta.lastUpdateVersion": IntegerBounds(0, MAX_LONG),
    "delta.randomPrefixLength": IntegerBounds(1, MAX_INT),
    "delta.requireCheckpointProtectionBeforeVersion": IntegerBounds(0, MAX_LONG),
}

INTERVALS = frozenset(
    {
        "delta.checkpointRetentionDuration",
        "delta.dropFeatureTruncateHistory.retentionDuration",
        "delta.sampleRetentionDuration",
        DELETED_FILE_RETENTION,
        LOG_RETENTION,
        TRANSACTION_RETENTION,
    }
)

OTHERS = frozenset(
    {
        "delta.clusterByAuto",
        "delta.dataSkippingStatsColumns",
        "delta.managedDataSkippingStatsColumns",
        "delta.redirectReaderWriter-preview",
        "delta.redirectWriterOnly-preview",
        "delta.universalFormat.compatibility.location",
        "delta.universalFormat.compatibility.targetRefreshInterval",
        "delta.universalFormat.enabledFormats",
        "delta.universalFormat.iceberg.atomicConversion.supported",
        "delta.workloadBasedColumns.optimizerStatistics",
    }
)

FAMILIES = (
    "delta.constraints.",
    "delta.coordinatedCommits.",
    "delta.rowTracking.",
    "delta.universalFormat.config.",
    "delta.universalformat.config.",  # as Delta-Spark stores it
)
"Prefixes that any name may follow."

PROTOCOL_KEYS = frozenset({"delta.minReaderVersion", "delta.minWriterVersion", "delta.ignoreProtocolDefaults"})
PROTOCOL_FAMILY = "delta.feature."
"""Options of CREATE and ALTER TABLE, which become part of the protocol action."""

CODEC, FORMAT_VERSION = "delta.parquet.compression.codec", "delta.parquet.format.version"
UNKNOWN_TO_SPARK = frozenset(
    {CODEC, "delta.parquet.vorder.enabled", "delta.targetFileSize", "delta.tuneFileSizesForRewrites"}
)
"""Properties of Databricks, Fabric and others that Delta for Spark 4.4.0 does not name. Its SET TBLPROPERTIES refuses
them as unknown configurations.
"""
CODECS = frozenset({"uncompressed", "none", "snappy", "gzip", "lzo", "brotli", "lz4", "lz4_raw", "zstd"})
INTEGER = re.compile(r"[+-]?[0-9]+")
SIZE = re.compile(r"0*[1-9][0-9]*\s*(?:[kmgtp]?i?b?)", re.IGNORECASE)
PARQUET_VERSIONS = re.compile(r"1\.0\.0|2\.[0-9]+\.[0-9]+")

CHOICES: Mapping[str, tuple[str, ...]] = {
    "delta.autoOptimize.autoCompact": ("true", "false", "auto", "legacy"),
    "delta.checkpointPolicy": ("classic", "v2"),
    "delta.columnMapping.mode": ("none", "name", "id"),
    "delta.isolationLevel": ("Serializable", "WriteSerializable"),
}
PATTERNS: Mapping[str, tuple[Callable[[str], object], str]] = {
    CODEC: (lambda value: value.lower() in CODECS, "a codec of Parquet, such as zstd"),
    FORMAT_VERSION: (lambda value: PARQUET_VERSIONS.fullmatch(value.strip()), "1.0.0 or 2.x.y"),
    "delta.targetFileSize": (lambda value: SIZE.fullmatch(value.strip()), "bytes, such as 134217728 or 128mb"),
}
"Property -> which values are valid, and how a message names them."

MEANINGS: Mapping[str, tuple[str, str | None]] = {
    "delta.appendOnly": ("rows can be added but never changed or deleted", "false"),
    "delta.autoOptimize.autoCompact": ("writers merge small files after each write", None),
    "delta.autoOptimize.optimizeWrite": ("writers shuffle rows to write fewer files", None),
    "delta.checkpoint.writeStatsAsJson": ("checkpoints have statistics as JSON", "true"),
    "delta.checkpoint.writeStatsAsStruct": ("checkpoints have statistics as columns", None),
    "delta.checkpointInterval": ("number of commits between two checkpoints", str(DEFAULT_CHECKPOINT_INTERVAL)),
    "delta.checkpointPolicy": ("the form of checkpoints", "classic"),
    "delta.columnMapping.maxColumnId": ("highest column id assigned so far", None),
    "delta.columnMapping.mode": ("how columns are found in files", "none"),
    "delta.dataSkippingNumIndexedCols": ("leading columns that get statistics", "32"),
    "delta.dataSkippingStatsColumns": ("columns that get statistics", None),
    DELETED_FILE_RETENTION: ("how long removed files are kept", DEFAULT_RETENTIONS[DELETED_FILE_RETENTION]),
    "delta.dropFeatureTruncateHistory.retentionDuration": (
        "how old versions that a dropped feature needs must be before they are deleted",
        "interval 24 hours",
    ),
    "delta.enableChangeDataFeed": ("writers record row changes", "false"),
    "delta.enableDeletionVectors": ("writers may mark rows as deleted", "false"),
    "delta.enableExpiredLogCleanup": ("engines delete commits after their retention", "true"),
    "delta.enableInCommitTimestamps": ("commits have their own timestamp", "false"),
    "delta.enableRowTracking": ("rows keep an id over updates", "false"),
    "delta.enableTypeWidening": ("types of columns may be widened", "false"),
    "delta.inCommitTimestampEnablementTimestamp": ("time since which commits have their own timestamp", None),
    "delta.inCommitTimestampEnablementVersion": ("version from which commits have their own timestamp", None),
    "delta.isolationLevel": ("isolation level of concurrent writers", None),
    LOG_RETENTION: ("how long commits are kept", DEFAULT_RETENTIONS[LOG_RETENTION]),
    CODEC: ("compression codec of data files", None),
    FORMAT_VERSION: ("Parquet version of data files", None),
    "delta.randomizeFilePrefixes": ("data files get random prefixes instead of partition names", "false"),
    TRANSACTION_RETENTION: ("how long application transactions are kept", None),
    "delta.targetFileSize": ("target size of data files", None),
    "delta.universalFormat.enabledFormats": ("other formats in which the table is also kept", None),
}
"Property -> what it does, and its default; None if engines differ or there is none."

_KINDS: Mapping[str, PropertyKind] = {
    **dict.fromkeys(BOOLEANS, PropertyKind.BOOLEAN),
    **dict.fromkeys(NUMBERS, PropertyKind.NUMBER),
    **dict.fromkeys(INTERVALS, PropertyKind.INTERVAL),
    **dict.fromkeys([*CHOICES, *PATTERNS, *OTHERS], PropertyKind.OTHER),
}
_BY_LOWER_CASE = {key.lower(): key for key in _KINDS}


def property_kind(key: str) -> PropertyKind | None:
    """Return the valid values of a property, or None if no known engine recognizes it."""
    if key in _KINDS:
        return _KINDS[key]
    is_of_family = key.startswith(FAMILIES) or key.endswith(".internal")
    return PropertyKind.OTHER if is_of_family else None


def is_of_protocol(key: str) -> bool:
    """Return True for options that belong in the protocol action."""
    return key in PROTOCOL_KEYS or key.startswith(PROTOCOL_FAMILY)


def known_keys() -> tuple[str, ...]:
    """Return every property that some engine recognizes by its whole name."""
    return tuple(sorted(_KINDS))


def right_spelling(key: str) -> str | None:
    """Return the known property that equals a key ignoring case."""
    return _BY_LOWER_CASE.get(key.lower())
