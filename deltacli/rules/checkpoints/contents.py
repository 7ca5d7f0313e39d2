"""Rules about the rows of a checkpoint that can only be checked while reading its columns: readable, one action per
row, each file once, and the same files as replay. The reader of the columns reports them.
"""

from __future__ import annotations

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.log_path import SIDECAR_DIRECTORY
from deltacli.rules.framework.base import Area
from deltacli.rules.framework.views import CheckpointView, ListingView

AREA = Area("checkpoints", spec="Checkpoints")

UNREADABLE = AREA.error(
    "checkpoint.unreadable",
    "A file of a checkpoint cannot be read because its footer, a page or a line is damaged.",
    broken="an engine that opens this checkpoint fails, or falls back to an older one",
    repair="delete the damaged file if the older part of the log is complete, then write a new checkpoint",
    loss="nothing, as long as the commits, or an older checkpoint and the commits after it, exist",
    example="00000000000000000010.checkpoint.parquet ends in the middle of a page",
)

DUPLICATE_KEY = AREA.error(
    "checkpoint.duplicate-key",
    "A checkpoint has the same logical file twice: two adds, two removes, or an add and a remove.",
    spec="Action Reconciliation",
    broken="readers use checkpoint rows as they are: the rows of the file count twice, or a removed file is live",
    repair="rewrite the checkpoint",
    example='{"add":{"path":"part-0.parquet",…}} in two rows of 00000000000000000010.checkpoint.parquet',
)

MULTI_ACTION_ROW = AREA.error(
    "checkpoint.multi-action-row",
    "A row of a checkpoint has no action, or more than one.",
    broken="readers take one action of such a row and lose the others",
    repair="rewrite the checkpoint",
    example='a row with both "add" and "txn" not null',
)

MISSING_ADD = AREA.error(
    "checkpoint.missing-add",
    "A checkpoint lacks a file that is live according to the commits.",
    broken="readers that start at this checkpoint do not see the rows of the file",
    repair="delete the checkpoint and write a new one while the commits it summarizes still exist",
    example="part-1.parquet, added in version 4, is not in 00000000000000000010.checkpoint.parquet",
)

EXTRA_ADD = AREA.error(
    "checkpoint.extra-add",
    "A checkpoint has a live file that is not live according to the commits.",
    broken="readers that start at this checkpoint see deleted rows, or fail on a missing file",
    repair="delete the checkpoint and write a new one while the commits it summarizes still exist",
    example="part-1.parquet, removed in version 4, is an add in 00000000000000000010.checkpoint.parquet",
)

ADD_DIFFERS = AREA.error(
    "checkpoint.add-differs",
    "The values of a live file in a checkpoint differ from those in the log.",
    broken="the partition, size and statistics of the file depend on where a reader starts",
    repair="rewrite the checkpoint",
    example='"partitionValues":{"p":"a"} in the commit, {"p":"b"} in the checkpoint',
)

MISSING_TOMBSTONE = AREA.warning(
    "checkpoint.missing-tombstone",
    "A checkpoint lacks a remove that had not expired when the checkpoint was written.",
    spec="Add File and Remove File",
    broken="vacuum may delete the removed file before its retention ends, while readers of older versions need it",
    repair="delete the checkpoint and write a new one while the commits exist; do not run vacuum before",
    loss="nothing, if vacuum did not run",
    example="a remove of two hours ago that 00000000000000000010.checkpoint.parquet does not hold",
)

PARSED_PARTITION_DIFFERS = AREA.error(
    "checkpoint.parsed-partition-differs",
    "`partitionValues_parsed` differs from the map `partitionValues`.",
    broken="engines that prune by the parsed column skip files that hold matching rows",
    repair="rewrite the checkpoint",
    example='partitionValues {"year":"2024"} with partitionValues_parsed {"year":2023}',
)

PARSED_STATS_DIFFERS = AREA.error(
    "checkpoint.parsed-stats-differs",
    "`stats_parsed` differs from the JSON text in `stats`.",
    broken="engines that use one of the two skip files with matching rows, or count rows differently",
    repair="rewrite the checkpoint",
    example='stats {"numRecords":10} with stats_parsed {"numRecords":9}',
)

STATS_IN_CHECKPOINTED_REMOVE = AREA.info(
    "action.stats-in-checkpointed-remove",
    "A remove in a checkpoint has `stats` or `tags`, which writers should omit there.",
    broken="the checkpoint is larger than necessary; nothing is read wrongly",
    repair="no repair needed; the next checkpoint may omit them",
    example='{"remove":{"path":"part-0.parquet","stats":"{…}",…}} in a checkpoint',
)


def is_in_force(view: ListingView, feature: str, version: int) -> bool:
    """Return True if the table certainly supported the feature when a file of that version was written, because the
    protocol that names it is not newer.
    """
    return feature in view.config.features and version >= view.config.protocol_version


def is_sidecar(path: str) -> bool:
    """Return True for a file of `_delta_log/_sidecars`."""
    return f"{SIDECAR_DIRECTORY}/" in path


def small_actions(view: CheckpointView, kind: str) -> list[Action]:
    """Return the rows of a kind in the checkpoint's own files, without those in sidecars."""
    return [row for each, row, file in view.small if each == kind and not is_sidecar(file)]
