"""Rules about V2 checkpoints and their sidecars, and about checkpoints of tables with a metadata tree."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.core.units import DAY_MS, format_age, format_size, plural
from deltacli.delta.checkpoint.layout import (
    ADDS,
    SIDECAR_ACTIONS,
    SIDECAR_BYTES,
    SIDECAR_SCHEMA,
    schema_difference,
)
from deltacli.delta.log.log_path import LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFileKind
from deltacli.delta.paths import canonical, sidecar_location
from deltacli.rules.checkpoints.contents import is_in_force, is_sidecar, small_actions
from deltacli.rules.framework.base import Area, Finding, from_a_copy
from deltacli.rules.framework.views import CheckpointView, ListingView

AREA = Area("checkpoints", spec="Sidecar File Information")

ADAPTIVE_METADATA = ("adaptiveMetadata", "adaptiveMetadata-preview")
_SIDECARS = f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}"

V2_METADATA_MISSING = AREA.error(
    "checkpoint.v2-metadata-missing",
    "A V2 checkpoint, or one with a UUID name, does not have exactly one checkpointMetadata.",
    spec="V2 Spec",
    broken="readers that need the metadata of a V2 checkpoint refuse it",
    repair="delete the checkpoint and write a new one",
    loss="nothing, as long as an older checkpoint or commit 0 and all later commits exist",
    example="00000000000000000010.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet without checkpointMetadata",
)

V2_VERSION = AREA.error(
    "checkpoint.v2-version",
    "The version in checkpointMetadata differs from the version of the file.",
    spec="Checkpoint Metadata",
    broken="the checkpoint may be of another version: readers would skip commits or apply some twice",
    repair="delete the checkpoint and write a new one",
    loss="nothing, as long as an older checkpoint or commit 0 and all later commits exist",
    example='{"checkpointMetadata":{"version":9}} in a checkpoint of version 10',
)

V2_WITHOUT_FEATURE = AREA.error(
    "checkpoint.v2-without-feature",
    "A checkpoint has a UUID name or V2 content, but the table does not support `v2Checkpoint`.",
    spec="V2 Checkpoint Table Feature",
    broken="readers that follow the protocol do not find the checkpoint, or ignore its sidecars and see fewer files",
    repair="write a classic checkpoint of this or a newer version, or let an engine add the feature",
    example="00000000000000000010.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json with reader version 1",
)

V2_MIXED = AREA.error(
    "checkpoint.v2-mixed",
    "A V2 checkpoint has file actions both in itself and in sidecars.",
    spec="V2 Spec",
    broken="readers that use only one of the two places see fewer files",
    repair="rewrite the checkpoint",
    example="an add row and a sidecar row in the same checkpoint",
)

V2_TAGS = AREA.warning(
    "checkpoint.v2-tags",
    "A count, a size or the schema in a tag of checkpointMetadata differs from the contents of the checkpoint.",
    spec="Checkpoint Metadata",
    broken="engines that plan by the tags, or verify them, plan wrongly, miss columns or refuse the checkpoint",
    repair="rewrite the checkpoint",
    example='"tags":{"numOfAddFiles":"7"} where the sidecars hold 8 adds',
)

SIDECAR_MISSING = AREA.error(
    "sidecar.missing",
    "A sidecar that a checkpoint names does not exist.",
    broken="the checkpoint is unusable, and so is every version that needs it",
    repair=from_a_copy("delete the checkpoint and write a new one, or bring the sidecar back from a copy"),
    loss="nothing, as long as an older checkpoint or commit 0 and all later commits exist",
    example='{"sidecar":{"path":"016ae953-37a9-438e-8683-9a9a4a79a395.parquet",…}} and no such file in _sidecars',
)

SIDECAR_SIZE = AREA.error(
    "sidecar.size-mismatch",
    "The size of a sidecar differs from the size in the checkpoint that names it.",
    broken="readers that use the size read an incomplete footer, or the sidecar was replaced after it was written",
    repair="restore the sidecar from a backup, or delete the checkpoint and write a new one",
    loss="nothing, as long as an older checkpoint or commit 0 and all later commits exist",
    example='"sizeInBytes":2304522 for a sidecar of 1152261 bytes',
)

SIDECAR_OUTSIDE = AREA.error(
    "sidecar.path-outside",
    "The path of a sidecar points outside `_delta_log/_sidecars`.",
    broken="readers search for its name in _sidecars, or follow the path to another file",
    repair="rewrite the checkpoint",
    example='{"sidecar":{"path":"../016ae953-37a9-438e-8683-9a9a4a79a395.parquet",…}}',
)

SIDECAR_CONTENT = AREA.error(
    "sidecar.non-file-action",
    "A sidecar has actions other than add and remove.",
    spec="Sidecar Files",
    broken="readers expect only file actions in sidecars and miss the others",
    repair="rewrite the checkpoint",
    loss="nothing, if the checkpoint itself also has these actions",
    example='{"txn":{"appId":"stream-1","version":42}} in a sidecar',
)

SIDECAR_ORPHAN = AREA.info(
    "sidecar.orphan",
    "A sidecar older than a day is not named by any checkpoint.",
    spec="Metadata Cleanup",
    broken="it takes space; nothing is read wrongly",
    repair="delete the file, unless a writer is creating a checkpoint",
    example="_sidecars/016ae953-37a9-438e-8683-9a9a4a79a395.parquet, of a checkpoint that was cleaned up",
)

AMT_CLASSIC = AREA.error(
    "checkpoint.amt-classic",
    "A table with a metadata tree has a checkpoint that does not refer to the tree.",
    spec="RFC: Iceberg V4 Adaptive Metadata Tree",
    broken="readers of the tree do not expect it; those that start there may miss data that only the tree holds",
    repair="delete the checkpoint after checking that the tree is complete",
    example="00000000000000000010.checkpoint.0000000001.0000000002.parquet with adaptiveMetadata in readerFeatures",
)


@AREA.check(CheckpointView, V2_METADATA_MISSING, V2_VERSION)
def a_v2_checkpoint_describes_itself(view: CheckpointView) -> Iterator[Finding]:
    """V1 content under a UUID name also lacks checkpointMetadata. Spec: V2 Spec; Checkpoint Metadata."""
    rows = small_actions(view, "checkpointMetadata")
    if not view.small_is_whole or not (view.is_v2 or view.instance.kind is LogFileKind.UUID_CHECKPOINT):
        return
    if len(rows) != 1:
        yield V2_METADATA_MISSING.at(
            view.place(),
            f"the checkpoint of version {view.version} has {plural(len(rows), 'checkpointMetadata action')}",
            seen=len(rows),
            expected=1,
        )
    elif rows[0].get("version") != view.version:
        yield V2_VERSION.at(
            view.place(),
            f"the checkpoint of version {view.version} has checkpointMetadata of version {rows[0].get('version')}",
            seen=rows[0].get("version"),
            expected=view.version,
        )


@AREA.check(ListingView, V2_WITHOUT_FEATURE)
def uuid_names_need_the_feature(view: ListingView) -> Iterator[Finding]:
    """Checkpoints below the version that brought the protocol are not faults, because the feature may have been
    dropped.
    """
    if view.config.protocol is None or "v2Checkpoint" in view.config.features:
        return
    for instance in view.listing.checkpoints:
        if instance.kind is LogFileKind.UUID_CHECKPOINT and instance.version >= view.config.protocol_version:
            yield V2_WITHOUT_FEATURE.at(
                view.place(instance.files[0].name, instance.version),
                f"{instance.files[0].name} has a UUID name although the table does not support v2Checkpoint",
                seen=instance.files[0].name,
                expected=f"{instance.version:020d}.checkpoint.parquet",
            )


@AREA.check(CheckpointView, V2_WITHOUT_FEATURE)
def v2_content_needs_the_feature(view: CheckpointView) -> Iterator[Finding]:
    """Names other than UUID names. Judged by the protocol in the checkpoint itself."""
    if view.config.protocol is None or view.instance.kind is LogFileKind.UUID_CHECKPOINT:
        return
    if view.is_v2 and not view.config.features.intersection(("v2Checkpoint", *ADAPTIVE_METADATA)):
        yield V2_WITHOUT_FEATURE.at(
            view.place(),
            f"the checkpoint of version {view.version} has V2 content although the table does not support v2Checkpoint",
            seen="V2 content",
            expected="V1 content",
        )


@AREA.check(CheckpointView, V2_MIXED)
def file_actions_are_in_one_place(view: CheckpointView) -> Iterator[Finding]:
    """Spec: V2 Spec."""
    sidecars = len(small_actions(view, "sidecar"))
    if sidecars and view.inline_file_actions and not _keeps_a_tree(view):
        yield V2_MIXED.at(
            view.place(),
            f"the checkpoint of version {view.version} has {plural(view.inline_file_actions, 'file action')} in "
            f"itself and names {plural(sidecars, 'sidecar')}",
            seen=f"{view.inline_file_actions} inline, {plural(sidecars, 'sidecar')}",
            expected="all inline, or all in sidecars",
        )


@AREA.check(CheckpointView, V2_TAGS)
def tags_describe_what_is_there(view: CheckpointView) -> Iterator[Finding]:
    """Missing, empty and unknown tags are not faults. If a sidecar is missing, nothing can be counted."""
    rows = small_actions(view, "checkpointMetadata")
    tags = rows[0].get("tags") if len(rows) == 1 else None
    if not isinstance(tags, dict) or view.missing_sidecars:
        return
    locations = {sidecar_location(row) for row in small_actions(view, "sidecar")}
    counted = {
        SIDECAR_ACTIONS: sum(view.rows.get(path, 0) for path in locations),
        SIDECAR_BYTES: sum(view.file_sizes.get(path, 0) for path in locations),
        ADDS: view.counts.get("add", 0),
    }
    for tag, number in counted.items():
        value = tags.get(tag)
        if value is not None and str(value) != str(number):
            yield V2_TAGS.at(
                view.place(key=tag),
                f"the tag {tag} of the checkpoint of version {view.version} is {value}, but the checkpoint has "
                f"{number}",
                seen=value,
                expected=number,
            )
    for path in sorted(locations & view.schemas.keys()) if tags.get(SIDECAR_SCHEMA) else ():
        differs = schema_difference(tags[SIDECAR_SCHEMA], view.schemas[path])
        if differs is not None:
            recorded, found = differs
            yield V2_TAGS.at(
                view.place(path, SIDECAR_SCHEMA),
                f"the tag {SIDECAR_SCHEMA} of the checkpoint of version {view.version} has {recorded}, but a sidecar "
                f"has {found}",
                seen=recorded,
                expected=found,
            )


@AREA.check(CheckpointView, SIDECAR_MISSING)
def sidecars_exist(view: CheckpointView) -> Iterator[Finding]:
    """Sidecars are searched by name in `_delta_log/_sidecars`, wherever the path points."""
    for path in view.missing_sidecars:
        yield SIDECAR_MISSING.at(
            view.place(key=path),
            f"the checkpoint of version {view.version} names the sidecar {path}, which does not exist",
            seen="no file",
            expected=path,
        )


@AREA.check(CheckpointView, SIDECAR_SIZE, SIDECAR_OUTSIDE)
def sidecars_are_as_described(view: CheckpointView) -> Iterator[Finding]:
    """The path may be the bare name, or any path into a `_delta_log/_sidecars`."""
    for row in small_actions(view, "sidecar"):
        path, size = row.get("path"), row.get("sizeInBytes")
        if not isinstance(path, str) or _keeps_a_tree(view):
            continue
        if not _is_inside(path):
            yield SIDECAR_OUTSIDE.at(
                view.place(key=path),
                f"the sidecar path {path} points outside {_SIDECARS}",
                seen=path,
                expected=sidecar_location(row).rpartition("/")[2],
            )
        actual = view.file_sizes.get(sidecar_location(row))
        if actual is not None and type(size) is int and size != actual:
            yield SIDECAR_SIZE.at(
                view.place(sidecar_location(row)),
                f"the sidecar {path} has {plural(actual, 'byte')}, but the checkpoint of version {view.version} "
                f"records {size}",
                seen=actual,
                expected=size,
            )


@AREA.check(CheckpointView, SIDECAR_CONTENT)
def sidecars_hold_file_actions(view: CheckpointView) -> Iterator[Finding]:
    """Report one finding per kind and sidecar."""
    counts: dict[tuple[str, str], int] = {}
    for kind, _, file in view.small:
        if is_sidecar(file):
            counts[file, kind] = counts.get((file, kind), 0) + 1
    for (file, kind), count in counts.items():
        yield SIDECAR_CONTENT.at(
            view.place(file, kind),
            f"a sidecar of the checkpoint of version {view.version} has {plural(count, f'{kind} action')}",
            seen=kind,
            expected="add and remove only",
        )


@AREA.check(ListingView, SIDECAR_ORPHAN)
def sidecars_are_named(view: ListingView) -> Iterator[Finding]:
    """A younger sidecar may belong to a checkpoint that is being written. If a checkpoint cannot be read, no sidecar is
    reported. Spec: Metadata Cleanup.
    """
    if view.named_sidecars is None or view.config.features.intersection(ADAPTIVE_METADATA):
        return
    for file in view.sidecars:
        if file.path.startswith(".") or not file.path.endswith(".parquet"):
            continue  # not a sidecar: Hadoop writes `.x.parquet.crc` next to each of them
        if file.path not in view.named_sidecars and view.now_ms - file.modified_ms > DAY_MS:
            yield SIDECAR_ORPHAN.at(
                view.place(f"{SIDECAR_DIRECTORY}/{file.path}"),
                f"the sidecar {file.path} of {format_size(file.size_bytes)}, written "
                f"{format_age(file.modified_ms, view.now_ms)}, is not named by any checkpoint",
                seen="no reference in any checkpoint",
            )


@AREA.check(ListingView, AMT_CLASSIC)
def checkpoints_fit_a_metadata_tree(view: ListingView) -> Iterator[Finding]:
    """A standalone checkpoint has the classic name and is judged by its contents. No other form is allowed."""
    for instance in view.listing.checkpoints:
        if instance.kind is LogFileKind.CLASSIC_CHECKPOINT:
            continue
        if any(is_in_force(view, feature, instance.version) for feature in ADAPTIVE_METADATA):
            yield AMT_CLASSIC.at(
                view.place(instance.files[0].name, instance.version),
                f"version {instance.version} has a {instance.kind} although the table has a metadata tree",
                seen=instance.kind,
                expected="a checkpoint action in a commit, or a standalone checkpoint",
            )


@AREA.check(CheckpointView, AMT_CLASSIC)
def checkpoints_refer_to_the_tree(view: CheckpointView) -> Iterator[Finding]:
    """A standalone checkpoint has a contentRoot. Spec: RFC, Standalone Checkpoint."""
    if view.instance.kind is not LogFileKind.CLASSIC_CHECKPOINT or not _keeps_a_tree(view):
        return
    if not any("contentRoot" in schema.names for schema in view.schemas.values()):
        yield AMT_CLASSIC.at(
            view.place(),
            f"the checkpoint of version {view.version} has no contentRoot although the table has a metadata tree",
            seen="no contentRoot",
            expected="a contentRoot",
        )


def _is_inside(path: str) -> bool:
    """Return True for a bare name, and for a path whose directory is `_sidecars` (in `_delta_log`, if the path names
    it).
    """
    directory = canonical(path).rpartition("/")[0]
    return directory in ("", SIDECAR_DIRECTORY, _SIDECARS) or directory.endswith(f"/{_SIDECARS}")


def _keeps_a_tree(view: CheckpointView) -> bool:
    """Return True if sidecars have another meaning and hold transactions and domains. Spec: RFC, Checkpoint Action."""
    return bool(view.config.features.intersection(ADAPTIVE_METADATA))
