"""Removing row ids: files are added again without the ids of their rows. No data file is read or written.

Spec: Row Tracking; Delta-Spark: ROW TRACKING UNBACKFILL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from deltacli.arrow import compute as pc
from deltacli.delta.log.action_fields import FIELDS
from deltacli.delta.log.body_lines import encoded_files
from deltacli.delta.log.commit_content import Slot
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.row_ids import DOMAIN, ENABLED, MATERIALIZED_NAMES, SUSPENDED
from deltacli.operations.table.version import Snapshot
from deltacli.typing import RecordBatch

OPERATION = "ROW TRACKING UNBACKFILL"
PROPERTIES = (ENABLED, SUSPENDED, *MATERIALIZED_NAMES)
_IDS = ("baseRowId", "defaultRowCommitVersion")


def suspended(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a table whose writers give no ids to new rows any more."""
    return {**configuration, ENABLED: "false", SUSPENDED: "true"}


def files_with_ids(snapshot: Snapshot) -> list[str]:
    """Return the paths of live files whose rows have ids."""

    def found(adds: RecordBatch) -> list[str]:
        paths: list[str] = pc.filter(adds.column("path"), _has_ids(adds)).to_pylist()
        return paths

    batches = snapshot.file_actions.map_actions("add", found, fields=["path", *_IDS])
    return [path for paths in batches for path in paths]


def _has_ids(adds: RecordBatch) -> object:
    return pc.or_(*(pc.is_valid(adds.column(name)) for name in _IDS))


def adds_without_ids(snapshot: Snapshot) -> Callable[[Slot], Iterable[bytes]]:
    """Return the body of a commit that adds these files again without ids."""

    def plain(adds: RecordBatch) -> RecordBatch:
        import pyarrow as pa

        rows = pc.filter(adds, _has_ids(adds))
        columns = {name: rows.column(name) for name in FIELDS["add"] if name not in _IDS}
        columns["dataChange"] = pa.repeat(False, rows.num_rows)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def batches() -> Iterator[tuple[str, RecordBatch]]:
        for rows in snapshot.file_actions.map_actions("add", plain):
            if rows.num_rows:
                yield "add", rows

    return lambda slot: encoded_files(batches, slot)


def domain_removed(snapshot: Snapshot) -> tuple[Action, ...]:
    """Return the action that removes the high-water mark of ids, if there is one."""
    known = [one for one in snapshot.domains if one.domain == DOMAIN]
    return tuple({"domain": DOMAIN, "configuration": one.configuration, "removed": True} for one in known)
