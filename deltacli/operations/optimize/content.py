"""What the commits of an optimization contain, as the reference implementation writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.file_actions import action_schemas, whole_actions
from deltacli.delta.schema.file_schema import iceberg_compat
from deltacli.operations.optimize.live import PACKED_TAG
from deltacli.typing import RecordBatch
from deltacli.work.rewrite.pieces import NewFile

if TYPE_CHECKING:
    from deltacli.operations.optimize.open_bins import OpenBin
    from deltacli.operations.optimize.plan import OptimizePlan


def parameters_of(plan: OptimizePlan) -> tuple[str, Mapping[str, object]]:
    """Return the operation and its parameters."""
    predicate = [] if plan.request.where is None else [plan.request.where]
    if plan.rules.purge:
        return "REORG", {"predicate": predicate, "applyPurge": True}
    by = {"zOrderBy": plan.z_order_by, "clusterBy": plan.cluster_by}
    full = {"isFull": False} if plan.cluster_by else {}
    return "OPTIMIZE", {"predicate": predicate, **by, "auto": False, **full}


def size_metrics(removed: Sequence[RecordBatch], added: Sequence[NewFile]) -> dict[str, int | str]:
    """Return the metrics of a commit."""
    sizes = sorted(file.size_bytes for file in added)
    quartiles = {f"p{25 * part}FileSize": sizes[len(sizes) * part // 4] for part in (1, 2, 3)} if sizes else {}
    bounds = {"minFileSize": sizes[0], "maxFileSize": sizes[-1]} if sizes else {}
    return {
        "numRemovedFiles": sum(adds.num_rows for adds in removed),
        "numRemovedBytes": sum(pc.sum(adds.column("size")).as_py() or 0 for adds in removed),
        "numAddedFiles": len(sizes),
        "numAddedBytes": sum(sizes),
        **bounds,
        **quartiles,
        "numDeletionVectorsRemoved": sum(adds.num_rows - adds.column("deletionVector").null_count for adds in removed),
    }


def _tags(own: Action, file: NewFile, written_from: int) -> Action:
    """Return the tags with the bytes that a file was written from, where it has become smaller."""
    if written_from <= file.size_bytes:
        return {}
    return {"tags": {**own.get("tags", {}), PACKED_TAG: str(written_from)}}


def added_files(plan: OptimizePlan, opened: OpenBin, files: Sequence[NewFile], used_bytes: int) -> RecordBatch:
    """Return the adds of the new files of a bin, of whose bytes so many were used. They get row ids when they are
    committed.
    """
    compat = iceberg_compat(plan.snapshot.config)
    own = dict(opened.own_fields)
    if compat >= 2:
        own["tags"] = {**own.get("tags", {}), "ICEBERG_COMPAT_VERSION": str(compat)}
    written_from = opened.bin.packed_bytes * used_bytes // max(opened.bin.size_bytes, 1)
    if len(files) > 1:
        written_from = max(written_from, plan.rules.target_bytes)
    actions = [
        {
            "path": file.path,
            "partitionValues": dict(opened.piece.partition_values),
            "size": file.size_bytes,
            "modificationTime": file.modification_ms,
            "dataChange": False,
            "stats": file.stats,
            **own,
            **_tags(own, file, written_from),
        }
        for file in files
    ]
    return whole_actions(actions, action_schemas().add, "")
