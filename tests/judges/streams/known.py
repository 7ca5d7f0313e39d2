"""Where `deltacli streams` does not say what the restart of a real query does, by entry of the page of faults.

A line that no longer differs fails its test: whoever mends an entry removes its lines.
"""

from __future__ import annotations

from tests.judges.answers import KnownDifference

_NEWER_SPARK = "0167: Spark 4.1 refuses it, and the Spark that wrote it reads it"
_ODD_JSON = "0167: Spark takes any JSON value, but writes objects"

KNOWN = [
    # Damaged files of a checkpoint directory.
    KnownDifference("commit files", "v2", f"{_NEWER_SPARK}: with stateStore.checkpointFormatVersion=2"),
    KnownDifference("commit files", "v3", _NEWER_SPARK),
    KnownDifference("commit files", "v9", _NEWER_SPARK),
    KnownDifference("commit files", "list", _ODD_JSON),
    KnownDifference("commit files", "number", _ODD_JSON),
    KnownDifference("commit files", "text", _ODD_JSON),
    KnownDifference("damage/newest commit of format 9", "verdict", _NEWER_SPARK),
    KnownDifference("damage/metadata gone", "verdict", "Spark 4.1 goes on with a new id, 4.3 refuses"),
]
