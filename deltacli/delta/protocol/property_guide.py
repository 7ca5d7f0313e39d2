"""What table properties mean, and what holds where they are not set. Spec: Table Properties; Delta-Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Guide(NamedTuple):
    """One property: what it does, and its default; None where engines differ or there is none."""

    meaning: str
    default: str | None = None


GUIDE: Mapping[str, Guide] = {
    "delta.appendOnly": Guide("rows may be added and never changed or deleted", "false"),
    "delta.autoOptimize.autoCompact": Guide("writers merge small files after each write"),
    "delta.autoOptimize.optimizeWrite": Guide("writers shuffle rows to write fewer files"),
    "delta.checkpoint.writeStatsAsJson": Guide("checkpoints hold statistics as JSON", "true"),
    "delta.checkpoint.writeStatsAsStruct": Guide("checkpoints hold statistics as columns"),
    "delta.checkpointInterval": Guide("commits between two checkpoints", "10"),
    "delta.checkpointPolicy": Guide("the form of checkpoints", "classic"),
    "delta.columnMapping.maxColumnId": Guide("the highest id of a column so far"),
    "delta.columnMapping.mode": Guide("how columns of files are found", "none"),
    "delta.dataSkippingNumIndexedCols": Guide("leading columns that get statistics", "32"),
    "delta.dataSkippingStatsColumns": Guide("columns that get statistics"),
    "delta.deletedFileRetentionDuration": Guide("how long removed files are kept", "interval 1 week"),
    "delta.enableChangeDataFeed": Guide("writers record changes of rows", "false"),
    "delta.enableDeletionVectors": Guide("writers may mark rows as deleted", "false"),
    "delta.enableExpiredLogCleanup": Guide("engines delete commits after their retention", "true"),
    "delta.enableInCommitTimestamps": Guide("commits carry their own time", "false"),
    "delta.enableRowTracking": Guide("rows keep an id over updates", "false"),
    "delta.enableTypeWidening": Guide("types of columns may be widened", "false"),
    "delta.inCommitTimestampEnablementTimestamp": Guide("since when commits carry their own time"),
    "delta.inCommitTimestampEnablementVersion": Guide("from which version commits carry their own time"),
    "delta.isolationLevel": Guide("what concurrent writers may do"),
    "delta.logRetentionDuration": Guide("how long commits are kept", "interval 30 days"),
    "delta.parquet.compression.codec": Guide("how data files are compressed"),
    "delta.parquet.format.version": Guide("the version of Parquet of data files"),
    "delta.randomizeFilePrefixes": Guide("data files get random prefixes instead of partition names", "false"),
    "delta.setTransactionRetentionDuration": Guide("how long transactions of applications are kept"),
    "delta.targetFileSize": Guide("the size of data files that engines aim at"),
    "delta.universalFormat.enabledFormats": Guide("other formats the table is also kept as"),
}
