"""Table properties that some engine recognizes, and their valid values. Spec: Table Properties; Delta-Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from deltacli.delta.protocol.features import FEATURES
from deltacli.delta.protocol.read_property import IN_COMMIT_KEYS
from deltacli.patterns import pattern

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
        "delta.deletedFileRetentionDuration",
        "delta.dropFeatureTruncateHistory.retentionDuration",
        "delta.logRetentionDuration",
        "delta.sampleRetentionDuration",
        "delta.setTransactionRetentionDuration",
    }
)

OTHERS = frozenset(
    {
        "delta.autoOptimize.autoCompact",  # true, false, auto and legacy
        "delta.checkpointPolicy",
        "delta.clusterByAuto",
        "delta.columnMapping.mode",
        "delta.dataSkippingStatsColumns",
        "delta.isolationLevel",
        "delta.managedDataSkippingStatsColumns",
        "delta.parquet.compression.codec",
        "delta.parquet.format.version",
        "delta.redirectReaderWriter-preview",
        "delta.redirectWriterOnly-preview",
        "delta.targetFileSize",  # an integer, or one with a unit
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

CODECS = frozenset({"uncompressed", "none", "snappy", "gzip", "lzo", "brotli", "lz4", "lz4_raw", "zstd"})
INTEGER = pattern(r"[+-]?[0-9]+")
SIZE = pattern(r"0*[1-9][0-9]*\s*(?:[kmgtp]?i?b?)", re.IGNORECASE)
PARQUET_VERSIONS = pattern(r"1\.0\.0|2\.[0-9]+\.[0-9]+")

_KINDS: Mapping[str, PropertyKind] = {
    **dict.fromkeys(BOOLEANS, PropertyKind.BOOLEAN),
    **dict.fromkeys(NUMBERS, PropertyKind.NUMBER),
    **dict.fromkeys(INTERVALS, PropertyKind.INTERVAL),
    **dict.fromkeys(OTHERS, PropertyKind.OTHER),
}
_BY_LOWER_CASE = {key.lower(): key for key in _KINDS}


def kind_of(key: str) -> PropertyKind | None:
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
