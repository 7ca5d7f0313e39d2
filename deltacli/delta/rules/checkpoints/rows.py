"""Rules about the rows of a checkpoint that can only be judged while its columns stream by: readable, one action a row,
each file once, and the same files as replay has. The reader that goes through the columns reports them.
"""

from __future__ import annotations

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.log_path import SIDECAR_DIRECTORY
from deltacli.delta.rules.framework.base import Area, Fix, Level, Severity
from deltacli.delta.rules.framework.views import CheckpointView, ListingView

AREA = Area("checkpoints")

UNREADABLE = AREA.rule(
    "checkpoint.unreadable",
    Severity.ERROR,
    Level.CHECKPOINT,
    "A file of a checkpoint can't be read: its footer, a page or a line is damaged.",
    seed="000: Checkpoint Format",
    spec="Checkpoints",
    fix=Fix(
        broken="an engine that opens this checkpoint fails, or falls back to an older one",
        mend="delete the damaged file if the log before it is whole, then write a checkpoint anew",
        loss="nothing while the commits, or an older checkpoint and the commits after it, are there",
    ),
    example="00000000000000000010.checkpoint.parquet ends in the middle of a page",
)

DUPLICATE_KEY = AREA.rule(
    "checkpoint.duplicate-key",
    Severity.ERROR,
    Level.CHECKPOINT,
    "A checkpoint holds one logical file twice: two adds, two removes, or an add and a remove of it.",
    seed="000: Checkpoints",
    spec="Action Reconciliation",
    fix=Fix(
        broken="readers take checkpoint rows as they are: the rows of the file count twice, or a removed file is live",
        mend="write the checkpoint anew",
        loss="nothing",
    ),
    example='{"add":{"path":"part-0.parquet",…}} in two rows of 00000000000000000010.checkpoint.parquet',
)

MULTI_ACTION_ROW = AREA.rule(
    "checkpoint.multi-action-row",
    Severity.ERROR,
    Level.CHECKPOINT,
    "A row of a checkpoint holds no action, or more than one.",
    seed="000: Checkpoint Format",
    spec="Checkpoints",
    fix=Fix(
        broken="readers take one action of such a row and lose the others",
        mend="write the checkpoint anew",
        loss="nothing",
    ),
    example='a row with both "add" and "txn" not null',
)

MISSING_ADD = AREA.rule(
    "checkpoint.missing-add",
    Severity.ERROR,
    Level.CHECKPOINT,
    "A checkpoint lacks a file that is live by the commits.",
    seed="000: Checkpoint Format",
    spec="Checkpoints",
    fix=Fix(
        broken="who starts at this checkpoint does not see the rows of the file",
        mend="delete the checkpoint and write it anew while the commits that tell better are there",
        loss="nothing",
    ),
    example="part-1.parquet, added in version 4, is not in 00000000000000000010.checkpoint.parquet",
)

EXTRA_ADD = AREA.rule(
    "checkpoint.extra-add",
    Severity.ERROR,
    Level.CHECKPOINT,
    "A checkpoint holds a file as live that is not live by the commits.",
    seed="000: Checkpoints",
    spec="Checkpoints",
    fix=Fix(
        broken="who starts at this checkpoint sees rows that were deleted, or fails on a file that is gone",
        mend="delete the checkpoint and write it anew while the commits that tell better are there",
        loss="nothing",
    ),
    example="part-1.parquet, removed in version 4, is an add in 00000000000000000010.checkpoint.parquet",
)

ADD_DIFFERS = AREA.rule(
    "checkpoint.add-differs",
    Severity.ERROR,
    Level.CHECKPOINT,
    "A live file stands in a checkpoint with other values than in the log.",
    seed="000: Checkpoint Format",
    spec="Checkpoints",
    fix=Fix(
        broken="what is known of the file depends on where a reader starts: its partition, its size, its statistics",
        mend="write the checkpoint anew",
        loss="nothing",
    ),
    example='"partitionValues":{"p":"a"} in the commit, {"p":"b"} in the checkpoint',
)

MISSING_TOMBSTONE = AREA.rule(
    "checkpoint.missing-tombstone",
    Severity.WARNING,
    Level.CHECKPOINT,
    "A checkpoint lacks a remove that had not expired when the checkpoint was written.",
    seed="000: Add File and Remove File",
    spec="Add File and Remove File",
    fix=Fix(
        broken="vacuum may delete the removed file before its retention is over, under readers of older versions",
        mend="delete the checkpoint and write it anew while the commits are there; run no vacuum before",
        loss="nothing, if no vacuum has run",
    ),
    example="a remove of two hours ago that 00000000000000000010.checkpoint.parquet does not hold",
)

PARSED_PARTITION_DIFFERS = AREA.rule(
    "checkpoint.parsed-partition-differs",
    Severity.ERROR,
    Level.CHECKPOINT,
    "`partitionValues_parsed` has another value than the map `partitionValues`.",
    seed="000: Checkpoint Format",
    spec="Checkpoints",
    fix=Fix(
        broken="engines that prune by the parsed column skip files that hold matching rows",
        mend="write the checkpoint anew",
        loss="nothing",
    ),
    example='partitionValues {"year":"2024"} beside partitionValues_parsed {"year":2023}',
)

PARSED_STATS_DIFFERS = AREA.rule(
    "checkpoint.parsed-stats-differs",
    Severity.ERROR,
    Level.CHECKPOINT,
    "`stats_parsed` has other values than the JSON text in `stats`.",
    seed="000: Checkpoint Format",
    spec="Checkpoints",
    fix=Fix(
        broken="engines that use one of the two skip files that hold matching rows, or count other rows",
        mend="write the checkpoint anew",
        loss="nothing",
    ),
    example='stats {"numRecords":10} beside stats_parsed {"numRecords":9}',
)

STATS_IN_CHECKPOINTED_REMOVE = AREA.rule(
    "action.stats-in-checkpointed-remove",
    Severity.INFO,
    Level.CHECKPOINT,
    "A remove in a checkpoint carries `stats` or `tags`, which are to be left out there.",
    spec="Checkpoints",
    fix=Fix(
        broken="the checkpoint is larger than it need be; nothing is read wrongly",
        mend="nothing to mend; the next checkpoint may leave them out",
        loss="nothing",
    ),
    example='{"remove":{"path":"part-0.parquet","stats":"{…}",…}} in a checkpoint',
)


def is_in_force(view: ListingView, feature: str, version: int) -> bool:
    """True if the table surely supported the feature when a file of that version was written: the protocol that names
    it is not newer.
    """
    return feature in view.config.features and version >= view.config.protocol_version


def is_sidecar(path: str) -> bool:
    """True for a file of `_delta_log/_sidecars`."""
    return f"{SIDECAR_DIRECTORY}/" in path


def small_actions(view: CheckpointView, kind: str) -> list[Action]:
    """The rows of a kind in the checkpoint's own files; a sidecar has no business with them."""
    return [row for found, row, file in view.small if found == kind and not is_sidecar(file)]
