"""The lines of the files that a commit adds and removes. Spec: Add File and Remove File; Row Tracking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from deltacli.delta.log.commit_content import Slot, encode_line
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.stats.record_counts import parse_num_records
from deltacli.errors import Refused

_ROW_FIELDS = ("baseRowId", "defaultRowCommitVersion")


def body_lines(actions: Iterable[Action], slot: Slot) -> Iterator[bytes]:
    """Yield actions, `{"add": …}` and `{"remove": …}`, as lines; adds with row ids where the slot has any.

    Raises Refused for an add that needs ids and has no number of records.
    """
    next_id = slot.first_row_id
    for line in actions:
        add = line.get("add")
        if add is None:
            yield encode_line(line)
        elif next_id is None:
            yield encode_line({"add": {name: value for name, value in add.items() if name not in _ROW_FIELDS}})
        else:
            fresh: Action = {}
            if add.get("baseRowId") is None:
                fresh["baseRowId"] = next_id
                next_id += rows_of(add)
            if add.get("defaultRowCommitVersion") is None:
                fresh["defaultRowCommitVersion"] = slot.version
            yield encode_line({"add": add | fresh})


def rows_of(add: Action) -> int:
    """Return the number of rows in a file, deleted ones included. Raises Refused where it is not known."""
    records = parse_num_records(add.get("stats") or "")
    if records is None or records < 0:
        raise rows_unknown(str(add.get("path")))
    return records


def rows_unknown(path: str) -> Refused:
    """Return the error for an add that needs row ids and has no number of records."""
    return Refused(
        f"{path} has no number of records, and the table gives ids to its rows",
        code="rowtracking.base-row-id-missing",
        facts={"file": path, "needed": "numRecords in its statistics: so many ids are assigned"},
    )
