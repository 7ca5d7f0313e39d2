"""Differences between what Spark says before and after a change of deltacli that are explained.

A case is named `TABLE/CHANGE`, as its test. An entry of the page of faults is named by its letter and number.
"""

from __future__ import annotations

from tests.judges.answers import KnownDifference

_GREATEST = "ids where every column >= greatest"

KNOWN = (
    *(
        KnownDifference(
            case=case,
            question=_GREATEST,
            reason="E101: footers of rewritten files leave NaN out, so Spark skips the row with NaN",
        )
        for case in ("extremes/optimize", "extremes/optimize-zorder")
    ),
    *(
        KnownDifference(
            case=case,
            question="*",
            reason="E102: Spark cannot open a table whose V2 checkpoint has a Parquet file at the top",
        )
        for case in ("extremes/checkpoint-v2-parquet", "vectors/checkpoint-v2-parquet")
    ),
    KnownDifference(
        case="mapped-by-name/stats",
        question="findings",
        reason="stats keeps the statistics of dropped columns, and validate takes them for those of their successors",
    ),
    KnownDifference(
        case="replaced/*",
        question="findings",
        reason="E93: validate calls REPLACE TABLE an error",
    ),
)
