"""Count how many rows a commit adds to a table according to its log. Spec: Add File and Remove File; Deletion
Vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.rules.framework.views import TouchedFile
from deltacli.delta.stats.record_counts import parse_num_records


def rows_added(added: Sequence[TouchedFile], removed: Sequence[TouchedFile]) -> int | None:
    """Return the rows of added files with `dataChange` minus those of removed files, or None if unknown.

    Actions that only move rows are not counted. A removed file has as many rows as its live add records.
    """
    total = 0
    for sign, files in ((1, added), (-1, removed)):
        for file in files:
            action = file.placed.action
            if not action.get("dataChange"):
                continue
            rows = _live_rows(action) if sign > 0 else _rows_before(file)
            if rows is None:
                return None
            total += sign * rows
    return total


def _rows_before(file: TouchedFile) -> int | None:
    """Return the live rows of a file before its removal, or 0 if it was not live."""
    if file.live is None or file.dv_id is None:
        return None
    adds = [live.add for live in file.live if live.dv_id == file.dv_id]
    return _live_rows(adds[0]) if len(adds) == 1 else None


def _live_rows(add: Action) -> int | None:
    stats, vector = add.get("stats"), add.get("deletionVector")
    records = parse_num_records(stats) if isinstance(stats, str) and stats else add.get("num_records")
    deleted = vector.get("cardinality") if isinstance(vector, dict) else 0
    if not isinstance(records, int) or not isinstance(deleted, int) or not 0 <= deleted <= records:
        return None
    return records - deleted
