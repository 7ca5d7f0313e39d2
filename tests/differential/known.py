"""Where other engines see another state than deltacli, and why. A difference that is gone must leave this list."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A peer `refuses` a table, `reads` one that we refuse, or sees other `paths`, `sizes` or `records` of files, other
    `columns` or `rows`.
    """

    peer: str
    table: str
    what: str
    versions: str
    """`all`, or `newest` (asked for without a number) and numbers."""
    reason: str


NO_SCHEMA = (
    "metaData has no schemaString: Delta Spark wrote it and reads an empty schema, so do we; delta-kernel-rs refuses"
)
DANGLING_HINT = "_last_checkpoint names a checkpoint that is not there: to us a hint, to delta-kernel-rs an error"
NO_FALLBACK = "the checkpoint cannot be read: we rebuild the version from the commits, delta-kernel-rs gives up"
NO_START = "the log begins at version 1 without a checkpoint: what was before can't be known, so we refuse"
STRUCT_STATISTICS = "the checkpoint holds numRecords in stats_parsed alone: we read it, the peer does not"
CATALOG = "catalog-managed: we read what is published and say so"
RAW_PATHS = (
    "a path is removed by its file: spelling: we compare canonical paths like Delta Spark, the peers compare text"
)
NO_FALLBACK_BY_HINT = (
    "the newest checkpoint has no metaData: we rebuild from the commits; the peers refuse, and older versions, too"
)
TWO_ADDS = (
    "two adds of one path in one commit: the protocol leaves open which counts; we take the last, the peer the first"
)
FEATURE_LISTS = (
    "columnMapping is listed for writers only at reader version 3: against the protocol, but it does not hinder replay"
)
VOID = "a column of type void, which Delta Spark writes and the peer does not know; replay needs no column types"
VECTOR_ABSENT = (
    "the deletion vector's file is not in the corpus: we count by the descriptor and need no file, duckdb opens it"
)

DIFFERENCES: tuple[Known, ...] = (
    Known("deltalake", "kernel-java/catalog-owned-preview", "refuses", "all", CATALOG),
    Known("deltalake", "kernel-rs-uc/catalog_managed_0", "refuses", "all", CATALOG),
    Known("duckdb", "kernel-java/catalog-owned-preview", "refuses", "all", CATALOG),
    Known("duckdb", "kernel-rs-uc/catalog_managed_0", "refuses", "all", CATALOG),
    Known("deltalake", "derived/checkpoint-part-missing-a", "refuses", "newest, 5", DANGLING_HINT),
    Known("deltalake", "derived/last-checkpoint-dangling-a", "refuses", "newest", DANGLING_HINT),
    Known("duckdb", "derived/checkpoint-part-missing-a", "refuses", "newest, 5", DANGLING_HINT),
    Known("duckdb", "derived/last-checkpoint-dangling-a", "refuses", "newest", DANGLING_HINT),
    Known("duckdb", "dat/iceberg_compat_v1", "refuses", "newest, 1-2", FEATURE_LISTS),
    Known("deltalake", "derived/checkpoint-truncated-a", "refuses", "newest, 3-5", NO_FALLBACK),
    Known("deltalake", "derived/sidecar-missing-a", "refuses", "newest, 2", NO_FALLBACK),
    Known("duckdb", "derived/checkpoint-truncated-a", "refuses", "newest, 3-5", NO_FALLBACK),
    Known("duckdb", "derived/sidecar-missing-a", "refuses", "newest, 2", NO_FALLBACK),
    Known(
        "deltalake",
        "golden/deltalog-state-reconstruction-from-checkpoint-missing-metadata",
        "refuses",
        "all",
        NO_FALLBACK_BY_HINT,
    ),
    Known(
        "duckdb",
        "golden/deltalog-state-reconstruction-from-checkpoint-missing-metadata",
        "refuses",
        "all",
        NO_FALLBACK_BY_HINT,
    ),
    Known("deltalake", "delta-rs/delta-live-table", "refuses", "0", NO_SCHEMA),
    Known("deltalake", "golden/canonicalized-paths-normal-a", "refuses", "all", NO_SCHEMA),
    Known("deltalake", "golden/canonicalized-paths-special-b", "refuses", "all", NO_SCHEMA),
    Known("deltalake", "golden/corrupted-last-checkpoint", "refuses", "all", NO_SCHEMA),
    Known("deltalake", "golden/deltalog-commit-info", "refuses", "all", NO_SCHEMA),
    Known("deltalake", "golden/update-deleted-directory", "refuses", "all", NO_SCHEMA),
    Known("duckdb", "delta-rs/delta-live-table", "refuses", "0", NO_SCHEMA),
    Known("duckdb", "golden/canonicalized-paths-normal-a", "refuses", "all", NO_SCHEMA),
    Known("duckdb", "golden/canonicalized-paths-special-b", "refuses", "all", NO_SCHEMA),
    Known("duckdb", "golden/corrupted-last-checkpoint", "refuses", "all", NO_SCHEMA),
    Known("duckdb", "golden/deltalog-commit-info", "refuses", "all", NO_SCHEMA),
    Known("duckdb", "golden/update-deleted-directory", "refuses", "all", NO_SCHEMA),
    Known("deltalake", "derived/first-commit-missing-a", "reads", "all", NO_START),
    Known("duckdb", "derived/first-commit-missing-a", "reads", "all", NO_START),
    Known("deltalake", "kernel-rs-golden/canonicalized-paths-normal-a", "paths", "newest, 1", RAW_PATHS),
    Known("deltalake", "kernel-rs-golden/canonicalized-paths-special-b", "paths", "newest, 1", RAW_PATHS),
    Known("duckdb", "kernel-rs-golden/canonicalized-paths-normal-a", "paths", "newest, 1", RAW_PATHS),
    Known("duckdb", "kernel-rs-golden/canonicalized-paths-special-b", "paths", "newest, 1", RAW_PATHS),
    Known("deltalake", "delta-rs/delta-1.2.1-only-struct-stats", "records", "newest, 10-12", STRUCT_STATISTICS),
    Known("duckdb", "delta-rs/delta-1.2.1-only-struct-stats", "records", "newest, 10-12", STRUCT_STATISTICS),
    Known("duckdb", "delta-rs/delta-checkpoint-stats-optional", "records", "newest, 2", STRUCT_STATISTICS),
    Known("duckdb", "derived/last-checkpoint-dangling-a", "records", "5", STRUCT_STATISTICS),
    Known("duckdb", "kernel-rs/v1-multi-part-partitioned-struct-stats-only", "records", "newest, 5", STRUCT_STATISTICS),
    Known("duckdb", "kernel-rs/v1-single-part-struct-stats-only", "records", "newest, 5", STRUCT_STATISTICS),
    Known("duckdb", "spark/transaction_log_schema_evolvability", "records", "newest, 2-5", STRUCT_STATISTICS),
    Known("deltalake", "derived/two-adds-in-one-commit-a", "sizes", "newest, 1", TWO_ADDS),
    Known("duckdb", "spark/partitioned-table-with-dv-large", "refuses", "newest, 1-4", VECTOR_ABSENT),
    Known("duckdb", "spark/table-with-dv-small", "refuses", "newest, 1", VECTOR_ABSENT),
    Known("duckdb", "spark/table-with-dv-special-char", "refuses", "all", VECTOR_ABSENT),
    Known("duckdb", "derived/void-and-nested-a", "refuses", "all", VOID),
)
