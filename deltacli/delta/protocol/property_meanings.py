"""Table properties: their meaning, and their defaults. Spec: Table Properties; Delta-Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Guide(NamedTuple):
    """One property: what it does, and its default; None if engines differ or there is none."""

    meaning: str
    default: str | None = None


GUIDE: Mapping[str, Guide] = {
    "delta.appendOnly": Guide("rows can be added but never changed or deleted", "false"),
    "delta.autoOptimize.autoCompact": Guide("writers merge small files after each write"),
    "delta.autoOptimize.optimizeWrite": Guide("writers shuffle rows to write fewer files"),
    "delta.checkpoint.writeStatsAsJson": Guide("checkpoints have statistics as JSON", "true"),
    "delta.checkpoint.writeStatsAsStruct": Guide("checkpoints have statistics as columns"),
    "delta.checkpointInterval": Guide("number of commits between two checkpoints", "10"),
    "delta.checkpointPolicy": Guide("the form of checkpoints", "classic"),
    "delta.columnMapping.maxColumnId": Guide("highest column id assigned so far"),
    "delta.columnMapping.mode": Guide("how columns are found in files", "none"),
    "delta.dataSkippingNumIndexedCols": Guide("leading columns that get statistics", "32"),
    "delta.dataSkippingStatsColumns": Guide("columns that get statistics"),
    "delta.deletedFileRetentionDuration": Guide("how long removed files are kept", "interval 1 week"),
    "delta.enableChangeDataFeed": Guide("writers record row changes", "false"),
    "delta.enableDeletionVectors": Guide("writers may mark rows as deleted", "false"),
    "delta.enableExpiredLogCleanup": Guide("engines delete commits after their retention", "true"),
    "delta.enableInCommitTimestamps": Guide("commits have their own timestamp", "false"),
    "delta.enableRowTracking": Guide("rows keep an id over updates", "false"),
    "delta.enableTypeWidening": Guide("types of columns may be widened", "false"),
    "delta.inCommitTimestampEnablementTimestamp": Guide("time since which commits have their own timestamp"),
    "delta.inCommitTimestampEnablementVersion": Guide("version from which commits have their own timestamp"),
    "delta.isolationLevel": Guide("isolation level of concurrent writers"),
    "delta.logRetentionDuration": Guide("how long commits are kept", "interval 30 days"),
    "delta.parquet.compression.codec": Guide("compression codec of data files"),
    "delta.parquet.format.version": Guide("Parquet version of data files"),
    "delta.randomizeFilePrefixes": Guide("data files get random prefixes instead of partition names", "false"),
    "delta.setTransactionRetentionDuration": Guide("how long application transactions are kept"),
    "delta.targetFileSize": Guide("target size of data files"),
    "delta.universalFormat.enabledFormats": Guide("other formats in which the table is also kept"),
}
