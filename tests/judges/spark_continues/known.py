"""Differences between what Spark says before and after a change of deltacli that are explained.

A case is named `TABLE/CHANGE`, as its test. An entry of the page of faults is named by its letter and number.
"""

from __future__ import annotations

from tests.judges.answers import KnownDifference

KNOWN = (
    *(
        KnownDifference(
            case=f"{table}/clone",
            question="finding data.shared-file",
            reason="E100: validate reports the files that a clone shares with its source",
        )
        for table in ("mapped-by-name", "vectors", "computed", "partitioned", "everything")
    ),
    KnownDifference(
        case="change-feed/copy",
        question="stream",
        reason="decision 0174: a stream that begins below the commit of the copy finds two ids",
    ),
)
