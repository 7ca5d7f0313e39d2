"""Rules about which checkpoints exist, and about V2 checkpoints with their sidecars.

Rules about their contents are in the modules imported here. One area holds all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from deltacli.core.ranges import format_ranges, name_ranges
from deltacli.core.texts import add_article
from deltacli.core.times import DAY_MS, format_age
from deltacli.core.units import format_size, plural
from deltacli.delta.checkpoint.layout import (
    ADDS,
    READERS_THAT_FAIL,
    SEVERAL_FORMS,
    SIDECAR_ACTIONS,
    SIDECAR_BYTES,
    SIDECAR_SCHEMA,
    schema_difference,
)
from deltacli.delta.log.segment import LOG_DIRECTORY, SIDECAR_DIRECTORY, CheckpointInstance, LogFile, LogFileKind
from deltacli.delta.log.state import CHECKPOINT_PROTECTION, parse_integer_property
from deltacli.delta.paths.spelling import canonicalize_path, sidecar_location
from deltacli.rules.checkpoints.contents import is_in_force, is_sidecar, small_actions
from deltacli.rules.framework.base import Area, Finding, Severity, from_a_copy
from deltacli.rules.framework.views import CheckpointView, ListingView

V2_AREA = Area("checkpoints", spec="Sidecar File Information")

ADAPTIVE_METADATA = ("adaptiveMetadata", "adaptiveMetadata-preview")
_SIDECARS = f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}"

V2_METADATA_MISSING = V2_AREA.error(
    "checkpoint.v2-metadata-missing",
    "A V2 checkpoint, or one with a UUID name, does not have exactly one checkpointMetadata.",
    spec="V2 Spec",
    broken="readers that need the metadata of a V2 checkpoint refuse it",
    repair="delete the checkpoint and write a new one",
    loss="nothing, as long as an older checkpoint or commit 0 and all later commits exist",
    example="00000000000000000010.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet without checkpointMetadata",
)

V2_VERSION = V2_AREA.error(
    "checkpoint.v2-version",
    "The version in checkpointMetadata differs from the version of the file.",
    spec="Checkpoint Metadata",
    broken="the checkpoint may be of another version: readers would skip commits or apply some twice",
    repair="delete the checkpoint and write a new one",
    loss="nothing, as long as an older checkpoint or commit 0 and all later commits exist",
    example='{"checkpointMetadata":{"version":9}} in a checkpoint of version 10',
)

V2_WITHOUT_FEATURE = V2_AREA.error(
    "checkpoint.v2-without-feature",
    "A checkpoint has a UUID name or V2 content, but the table does not support `v2Checkpoint`.",
    spec="V2 Checkpoint Table Feature",
    broken="readers that follow the protocol do not find the checkpoint, or ignore its sidecars and see fewer files",
    repair="write a classic checkpoint of this or a newer version, or let an engine add the feature",
    example="00000000000000000010.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json with reader version 1",
)

V2_MIXED = V2_AREA.error(
    "checkpoint.v2-mixed",
    "A V2 checkpoint has file actions both in itself and in sidecars.",
    spec="V2 Spec",
    broken="readers that use only one of the two places see fewer files",
    repair="rewrite the checkpoint",
    example="an add row and a sidecar row in the same checkpoint",
)

V2_TAGS = V2_AREA.warning(
    "checkpoint.v2-tags",
    "A count, a size or the schema in a tag of checkpointMetadata differs from the contents of the checkpoint.",
    spec="Checkpoint Metadata",
    broken="engines that plan by the tags, or verify them, plan wrongly, miss columns or refuse the checkpoint",
    repair="rewrite the checkpoint",
    example='"tags":{"numOfAddFiles":"7"} where the sidecars hold 8 adds',
)

SIDECAR_MISSING = V2_AREA.error(
    "sidecar.missing",
    "A sidecar that a checkpoint names does not exist.",
    broken="the checkpoint is unusable, and so is every version that needs it",
    repair=from_a_copy("delete the checkpoint and write a new one, or bring the sidecar back from a copy"),
    loss="nothing, as long as an older checkpoint or commit 0 and all later commits exist",
    example='{"sidecar":{"path":"016ae953-37a9-438e-8683-9a9a4a79a395.parquet",…}} and no such file in _sidecars',
)

SIDECAR_SIZE = V2_AREA.error(
    "sidecar.size-mismatch",
    "The size of a sidecar differs from the size in the checkpoint that names it.",
    broken="readers that use the size read an incomplete footer, or the sidecar was replaced after it was written",
    repair="restore the sidecar from a backup, or delete the checkpoint and write a new one",
    loss="nothing, as long as an older checkpoint or commit 0 and all later commits exist",
    example='"sizeInBytes":2304522 for a sidecar of 1152261 bytes',
)

SIDECAR_OUTSIDE = V2_AREA.error(
    "sidecar.path-outside",
    "The path of a sidecar points outside `_delta_log/_sidecars`.",
    broken="readers search for its name in _sidecars, or follow the path to another file",
    repair="rewrite the checkpoint",
    example='{"sidecar":{"path":"../016ae953-37a9-438e-8683-9a9a4a79a395.parquet",…}}',
)

SIDECAR_CONTENT = V2_AREA.error(
    "sidecar.non-file-action",
    "A sidecar has actions other than add and remove.",
    spec="Sidecar Files",
    broken="readers expect only file actions in sidecars and miss the others",
    repair="rewrite the checkpoint",
    loss="nothing, if the checkpoint itself also has these actions",
    example='{"txn":{"appId":"stream-1","version":42}} in a sidecar',
)

SIDECAR_ORPHAN = V2_AREA.info(
    "sidecar.orphan",
    "A sidecar older than a day is not named by any checkpoint.",
    spec="Metadata Cleanup",
    broken="it takes space; nothing is read wrongly",
    repair="delete the file, unless a writer is creating a checkpoint",
    example="_sidecars/016ae953-37a9-438e-8683-9a9a4a79a395.parquet, of a checkpoint that was cleaned up",
)

AMT_CLASSIC = V2_AREA.error(
    "checkpoint.amt-classic",
    "A table with a metadata tree has a checkpoint that does not refer to the tree.",
    spec="RFC: Iceberg V4 Adaptive Metadata Tree",
    broken="readers of the tree do not expect it; those that start there may miss data that only the tree holds",
    repair="delete the checkpoint after checking that the tree is complete",
    example="00000000000000000010.checkpoint.0000000001.0000000002.parquet with adaptiveMetadata in readerFeatures",
)


@V2_AREA.check(CheckpointView, V2_METADATA_MISSING, V2_VERSION)
def a_v2_checkpoint_describes_itself(view: CheckpointView) -> Iterator[Finding]:
    """V1 content under a UUID name also lacks checkpointMetadata. Spec: V2 Spec; Checkpoint Metadata."""
    rows = small_actions(view, "checkpointMetadata")
    if not view.small_is_whole or not (view.is_v2 or view.instance.kind is LogFileKind.UUID_CHECKPOINT):
        return
    if len(rows) != 1:
        message = f"the checkpoint of version {view.version} has {plural(len(rows), 'checkpointMetadata action')}"
        yield V2_METADATA_MISSING.at(view.place(), message, seen=len(rows), expected=1)
    elif rows[0].get("version") != view.version:
        message = f"the checkpoint of version {view.version} has checkpointMetadata of version {rows[0].get('version')}"
        yield V2_VERSION.at(view.place(), message, seen=rows[0].get("version"), expected=view.version)


@V2_AREA.check(ListingView, V2_WITHOUT_FEATURE)
def uuid_names_need_the_feature(view: ListingView) -> Iterator[Finding]:
    """Checkpoints below the version that brought the protocol are no faults: the feature may have been dropped."""
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


@V2_AREA.check(CheckpointView, V2_WITHOUT_FEATURE)
def v2_content_needs_the_feature(view: CheckpointView) -> Iterator[Finding]:
    """Names other than UUID names. Judged by the protocol in the checkpoint itself."""
    if view.config.protocol is None or view.instance.kind is LogFileKind.UUID_CHECKPOINT:
        return
    if view.is_v2 and not view.config.features.intersection(("v2Checkpoint", *ADAPTIVE_METADATA)):
        message = (
            f"the checkpoint of version {view.version} has V2 content although the table does not support v2Checkpoint"
        )
        yield V2_WITHOUT_FEATURE.at(view.place(), message, seen="V2 content", expected="V1 content")


@V2_AREA.check(CheckpointView, V2_MIXED)
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


@V2_AREA.check(CheckpointView, V2_TAGS)
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
            message = (
                f"the tag {tag} of the checkpoint of version {view.version} is {value}, but the checkpoint has {number}"
            )
            yield V2_TAGS.at(view.place(key=tag), message, seen=value, expected=number)
    for path in sorted(locations & view.schemas.keys()) if tags.get(SIDECAR_SCHEMA) else ():
        differs = schema_difference(tags[SIDECAR_SCHEMA], view.schemas[path])
        if differs is not None:
            recorded, found = differs
            message = (
                f"the tag {SIDECAR_SCHEMA} of the checkpoint of version {view.version} has {recorded}, but a sidecar "
                f"has {found}"
            )
            yield V2_TAGS.at(view.place(path, SIDECAR_SCHEMA), message, seen=recorded, expected=found)


@V2_AREA.check(CheckpointView, SIDECAR_MISSING)
def sidecars_exist(view: CheckpointView) -> Iterator[Finding]:
    """Sidecars are searched by name in `_delta_log/_sidecars`, wherever the path points."""
    for path in view.missing_sidecars:
        message = f"the checkpoint of version {view.version} names the sidecar {path}, which does not exist"
        yield SIDECAR_MISSING.at(view.place(key=path), message, seen="no file", expected=path)


@V2_AREA.check(CheckpointView, SIDECAR_SIZE, SIDECAR_OUTSIDE)
def sidecars_are_as_described(view: CheckpointView) -> Iterator[Finding]:
    """The path may be the bare name, or any path into a `_delta_log/_sidecars`."""
    for row in small_actions(view, "sidecar"):
        path, size = row.get("path"), row.get("sizeInBytes")
        if not isinstance(path, str) or _keeps_a_tree(view):
            continue
        directory = canonicalize_path(path).rpartition("/")[0]
        if not (directory in ("", SIDECAR_DIRECTORY, _SIDECARS) or directory.endswith(f"/{_SIDECARS}")):
            message = f"the sidecar path {path} points outside {_SIDECARS}"
            place = view.place(key=path)
            yield SIDECAR_OUTSIDE.at(place, message, seen=path, expected=sidecar_location(row).rpartition("/")[2])
        actual = view.file_sizes.get(sidecar_location(row))
        if actual is not None and type(size) is int and size != actual:
            message = (
                f"the sidecar {path} has {plural(actual, 'byte')}, but the checkpoint of version {view.version} "
                f"records {size}"
            )
            yield SIDECAR_SIZE.at(view.place(sidecar_location(row)), message, seen=actual, expected=size)


@V2_AREA.check(CheckpointView, SIDECAR_CONTENT)
def sidecars_hold_file_actions(view: CheckpointView) -> Iterator[Finding]:
    """Report one finding per kind and sidecar."""
    counts: dict[tuple[str, str], int] = {}
    for kind, _, file in view.small:
        if is_sidecar(file):
            counts[file, kind] = counts.get((file, kind), 0) + 1
    for (file, kind), count in counts.items():
        message = f"a sidecar of the checkpoint of version {view.version} has {plural(count, f'{kind} action')}"
        yield SIDECAR_CONTENT.at(view.place(file, kind), message, seen=kind, expected="add and remove only")


@V2_AREA.check(ListingView, SIDECAR_ORPHAN)
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


@V2_AREA.check(ListingView, AMT_CLASSIC)
def checkpoints_fit_a_metadata_tree(view: ListingView) -> Iterator[Finding]:
    """A standalone checkpoint has the classic name and is judged by its contents. No other form is allowed."""
    for instance in view.listing.checkpoints:
        if instance.kind is LogFileKind.CLASSIC_CHECKPOINT:
            continue
        if any(is_in_force(view, feature, instance.version) for feature in ADAPTIVE_METADATA):
            yield AMT_CLASSIC.at(
                view.place(instance.files[0].name, instance.version),
                f"version {instance.version} has {add_article(str(instance.kind))} "
                "although the table has a metadata tree",
                seen=instance.kind,
                expected="a checkpoint action in a commit, or a standalone checkpoint",
            )


@V2_AREA.check(CheckpointView, AMT_CLASSIC)
def checkpoints_refer_to_the_tree(view: CheckpointView) -> Iterator[Finding]:
    """A standalone checkpoint has a contentRoot. Spec: RFC, Standalone Checkpoint."""
    if view.instance.kind is not LogFileKind.CLASSIC_CHECKPOINT or not _keeps_a_tree(view):
        return
    if not any("contentRoot" in schema.names for schema in view.schemas.values()):
        message = f"the checkpoint of version {view.version} has no contentRoot although the table has a metadata tree"
        yield AMT_CLASSIC.at(view.place(), message, seen="no contentRoot", expected="a contentRoot")


def _keeps_a_tree(view: CheckpointView) -> bool:
    """Return True if sidecars have another meaning and hold transactions and domains. Spec: RFC, Checkpoint Action."""
    return bool(view.config.features.intersection(ADAPTIVE_METADATA))


# -- rules about which checkpoints exist -------------------------------------------------------------------------------

AREA = Area("checkpoints", spec="Checkpoints")


_CHECKPOINTS = (LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.MULTI_PART_CHECKPOINT, LogFileKind.UUID_CHECKPOINT)
_MOST_PARTS_NAMED = 5

MULTIPART_INCOMPLETE = AREA.warning(
    "checkpoint.multipart-incomplete",
    "A multi-part checkpoint lacks parts.",
    broken="readers ignore the existing parts; without another starting point the table is unreadable",
    repair="restore the missing parts from a backup, or delete the others and write a new checkpoint",
    loss="nothing, as long as an older checkpoint or commit 0 and all later commits exist",
    example="00000000000000000010.checkpoint.0000000001.0000000002.parquet without its part 2",
)

MULTIPART_MIXED = AREA.warning(
    "checkpoint.multipart-mixed",
    "One version has parts of several multi-part checkpoints with different numbers of parts, and none is complete.",
    spec="Problems with multi-part checkpoints",
    broken="readers must ignore all of them; a reader that only counts files may combine them",
    repair="delete these parts, then write a new checkpoint",
    loss="nothing, as long as an older checkpoint or commit 0 and all later commits exist",
    example="part 1 of 2 and part 1 of 3 of version 10, and no others",
)

MULTIPART_FORBIDDEN = AREA.error(
    "checkpoint.multipart-forbidden",
    "A table that supports `v2Checkpoint` has a multi-part checkpoint, which writers must not create.",
    broken="its parts are not written atomically, and parts of two writers may be combined into one checkpoint",
    repair="write a V2 checkpoint of this or a newer version, then delete the parts",
    example="00000000000000000010.checkpoint.0000000001.0000000002.parquet with v2Checkpoint in readerFeatures",
)

MULTIPART_ONE = AREA.warning(
    "checkpoint.multipart-one",
    "A checkpoint with one part is named like a multi-part checkpoint.",
    broken="a multi-part checkpoint has at least two parts; some readers refuse or ignore this name",
    repair="write a classic checkpoint of this or a newer version",
    example="00000000000000000010.checkpoint.0000000001.0000000001.parquet",
)

SEVERAL = AREA.error(
    SEVERAL_FORMS,
    "A version has several complete V1 checkpoints: classic and multi-part, or with different numbers of parts. A "
    "warning if there is a newer checkpoint.",
    spec="Checkpoints; Problems with multi-part checkpoints",
    broken=f"{READERS_THAT_FAIL}, fail because `_last_checkpoint` describes a different form than the one they chose",
    repair="write a checkpoint of a newer version, or delete the form that `_last_checkpoint` does not describe",
    example="00000000000000000010.checkpoint.parquet next to both parts of a checkpoint of version 10",
)

ZERO_LENGTH = AREA.warning(
    "checkpoint.zero-length",
    "A checkpoint file is empty.",
    spec="Delta-Spark: Checkpoints",
    broken="readers ignore it or fail on it; those that ignore it start from older files",
    repair="delete the file, then write a new checkpoint",
    loss="nothing, as long as an older checkpoint or commit 0 and all later commits exist",
    example="00000000000000000010.checkpoint.parquet of 0 bytes",
)

WITHOUT_COMMIT = AREA.error(
    "checkpoint.without-commit",
    "A checkpoint is newer than the newest commit.",
    broken="readers that trust it see a version that was never committed, or fail; a writer may commit it again",
    repair=from_a_copy("delete the checkpoint if its version was never committed; otherwise bring the commits back"),
    loss="the changes of the missing commits, if they were made and cannot be restored",
    example="00000000000000000010.checkpoint.parquet where the newest commit is 8",
)

UNPUBLISHED = AREA.error(
    "checkpoint.unpublished",
    "A catalog-managed table has a checkpoint of a version whose commit is not published.",
    spec="Maintenance Operations",
    broken="the version may not be ratified, or not yet be readable without the catalog",
    repair="publish the commit through the catalog, or delete the checkpoint",
    example="00000000000000000010.checkpoint.parquet and no 00000000000000000010.json, with catalogManaged",
)

V2_COMPAT_MISSING = AREA.info(
    "checkpoint.v2-compat-missing",
    "The log begins with a checkpoint, and all checkpoints have UUID names, which old clients do not recognize.",
    spec="Handling Backward compatibility while moving to UUID-named v2 Checkpoints",
    broken="a client without support for UUID names finds no starting point and reports a damaged log instead of "
    "the feature it lacks",
    repair="write a checkpoint with a classic name of this or a newer version",
    example="00000000000000000010.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json is the oldest file of the log",
)

REPLAY_UNAVAILABLE = AREA.info(
    "checkpoint.replay-unavailable",
    "A checkpoint cannot be compared with its commits because they were deleted.",
    spec="Metadata Cleanup",
    broken="nothing; only contradictions within this checkpoint can be detected",
    repair="no repair needed",
    example="00000000000000000010.checkpoint.parquet is the oldest file of the log",
)

PROTECTED_MISSING = AREA.error(
    "checkpoint.protected-missing",
    "`checkpointProtection` is supported and commits below the protected version exist, but no checkpoint up to it.",
    spec="RFC: Checkpoint Protection",
    broken="a client that lacks a dropped feature has to read commits it does not support",
    repair="restore the checkpoints from a backup, or let an engine clean up all history below the version at once",
    loss="time travel to versions below the protected one, if they are cleaned up",
    example='"delta.requireCheckpointProtectionBeforeVersion":"20" with commits from 5 on and no checkpoint up to 20',
)


@AREA.check(ListingView, ZERO_LENGTH)
def checkpoints_are_not_empty(view: ListingView) -> Iterator[Finding]:
    """Spark and the kernels ignore empty checkpoint files, which a failed upload can leave behind."""
    for file in view.files:
        if file.size_bytes == 0 and file.path.kind in _CHECKPOINTS:
            place = view.place(file.name, file.version)
            yield ZERO_LENGTH.at(place, f"{file.name} is empty", seen="0 bytes", expected="a checkpoint")


@AREA.check(ListingView, MULTIPART_INCOMPLETE, MULTIPART_MIXED)
def multi_part_checkpoints_are_complete(view: ListingView) -> Iterator[Finding]:
    """Report an error if the newest version cannot be read without the missing part. Spec: Checkpoints."""
    for version, sets in _multi_part_sets(view).items():
        lacking = {parts: files for parts, files in sets.items() if not _is_complete(parts, files)}
        severity = Severity.ERROR if lacking and _is_needed(view, version) else None
        if len(lacking) > 1 and len(lacking) == len(sets):
            first = next(iter(lacking.values()))[0]
            yield MULTIPART_MIXED.at(
                view.place(first.name, version),
                f"version {version} has parts of multi-part checkpoints of {_listed(lacking)} parts, but none is "
                "complete",
                seen=", ".join(file.name for file in [files[0] for files in lacking.values()]),
                expected="all parts of one checkpoint",
                severity=severity,
            )
            continue
        for parts, files in lacking.items():
            present = {file.path.part for file in files}
            yield MULTIPART_INCOMPLETE.at(
                view.place(files[0].name, version),
                f"the multi-part checkpoint of version {version} has {_faults_of_parts(parts, present)}",
                seen=f"parts {format_ranges(present)}",
                expected=f"parts 1-{parts}",
                severity=severity,
            )


@AREA.check(ListingView, MULTIPART_FORBIDDEN, MULTIPART_ONE)
def multi_part_checkpoints_are_allowed(view: ListingView) -> Iterator[Finding]:
    """Checkpoints below the version that brought the protocol are skipped: an older protocol may have applied."""
    for instance in view.listing.checkpoints:
        if instance.kind is not LogFileKind.MULTI_PART_CHECKPOINT:
            continue
        name, parts = instance.files[0].name, len(instance.files)
        if is_in_force(view, "v2Checkpoint", instance.version):
            yield MULTIPART_FORBIDDEN.at(
                view.place(name, instance.version),
                f"version {instance.version} has a multi-part checkpoint although the table supports v2Checkpoint",
                seen=plural(parts, "part"),
                expected="a V2 checkpoint, or a classic one",
            )
        elif parts == 1:
            yield MULTIPART_ONE.at(
                view.place(name, instance.version),
                f"{name} is named like a multi-part checkpoint but has one part",
                seen=name,
                expected=f"{instance.version:020d}.checkpoint.parquet",
            )


@AREA.check(ListingView, SEVERAL)
def v1_checkpoints_have_one_form(view: ListingView) -> Iterator[Finding]:
    """The protocol allows several. Readers built on delta-kernel-rs fail on them. Metadata trees have other rules.
    Spec: Checkpoints.
    """
    if not view.config.features.isdisjoint(ADAPTIVE_METADATA):
        return
    by_version: dict[int, list[CheckpointInstance]] = {}
    for instance in view.listing.checkpoints:
        if instance.is_v1:
            by_version.setdefault(instance.version, []).append(instance)
    for version, instances in by_version.items():
        if len(instances) > 1:
            forms = " and ".join(sorted(instance.form for instance in instances))
            message = f"version {version} has complete checkpoints in {len(instances)} forms: {forms}"
            newest = view.newest_checkpoint
            is_replaced = newest is not None and newest.version > version
            severity = Severity.WARNING if is_replaced else None
            place = view.place(instances[0].files[0].name, version)
            yield SEVERAL.at(place, message, seen=forms, expected="one form", severity=severity)


@AREA.check(ListingView, WITHOUT_COMMIT, UNPUBLISHED)
def checkpoints_follow_their_commits(view: ListingView) -> Iterator[Finding]:
    """Another rule reports a log without any commit. Spec: Checkpoints; Maintenance Operations."""
    newest = view.newest_commit
    is_managed = view.config.protocol is not None and view.config.protocol.is_catalog_managed
    for instance in view.listing.checkpoints:
        if newest < 0 or instance.version <= newest:
            continue
        place = view.place(instance.files[0].name, instance.version)
        if is_managed:
            message = f"version {instance.version} has a checkpoint, but the newest published commit is {newest}"
            yield UNPUBLISHED.at(place, message, seen=instance.version, expected=f"at most {newest}")
        else:
            message = f"version {instance.version} has a checkpoint, but the newest commit is {newest}"
            yield WITHOUT_COMMIT.at(place, message, seen=instance.version, expected=f"at most {newest}")


@AREA.check(ListingView, V2_COMPAT_MISSING)
def old_clients_fail_cleanly(view: ListingView) -> Iterator[Finding]:
    """If the log begins with a checkpoint, one with a classic name lets old clients report the feature they lack."""
    oldest = view.oldest_checkpoint
    if oldest is None or 0 in view.listing.commits:
        return
    if all(instance.kind is LogFileKind.UUID_CHECKPOINT for instance in view.listing.checkpoints):
        yield V2_COMPAT_MISSING.at(
            view.place(oldest.files[0].name, oldest.version),
            "the log begins with a checkpoint, but no checkpoint has a name that old clients recognize",
            seen=oldest.files[0].name,
            expected=f"{oldest.version:020d}.checkpoint.parquet, of this or a newer version",
        )


@AREA.check(ListingView, REPLAY_UNAVAILABLE)
def checkpoints_can_be_compared(view: ListingView) -> Iterator[Finding]:
    """Report only logs whose beginning was cleaned up. Other rules report gaps and unreadable commits."""
    commits = view.listing.commits
    if not commits or 0 in commits:
        return
    _, end = view.listing.commit_runs[0]
    versions = {instance.version: instance for instance in view.listing.checkpoints}
    previous: int | None = None
    for version, instance in sorted(versions.items()):
        if version > end:
            return
        if previous is None or any(between not in commits for between in range(previous + 1, version + 1)):
            yield REPLAY_UNAVAILABLE.at(
                view.place(instance.files[0].name, version),
                f"the checkpoint of version {version} cannot be compared with the commits below it because they were "
                "deleted",
                seen=name_ranges("commit", commits),
            )
        previous = version


@AREA.check(ListingView, PROTECTED_MISSING)
def protected_checkpoints_remain(view: ListingView) -> Iterator[Finding]:
    """Check that checkpoints which hide commits of a dropped feature are kept as long as those commits. Spec: RFC."""
    if "checkpointProtection" not in view.config.features:
        return
    boundary = parse_integer_property(view.config.properties, CHECKPOINT_PROTECTION)
    oldest = min(view.listing.commits, default=None)
    if boundary is None or oldest is None or not oldest < boundary <= view.newest_commit:
        return
    if not any(instance.version <= boundary for instance in view.listing.checkpoints):
        yield PROTECTED_MISSING.at(
            view.place(),
            f"commits from {oldest} on exist below the protected version {boundary}, but no checkpoint up to it does",
            seen=_listed(instance.version for instance in view.listing.checkpoints) or "no checkpoint",
            expected=f"a checkpoint of version {boundary} or below",
        )


def _multi_part_sets(view: ListingView) -> dict[int, dict[int, list[LogFile]]]:
    """Return version -> number of parts -> the files with such names, also empty ones, which another rule reports."""
    multi_part_sets: dict[int, dict[int, list[LogFile]]] = {}
    for file in view.files:
        if file.path.kind is LogFileKind.MULTI_PART_CHECKPOINT:
            multi_part_sets.setdefault(file.version, {}).setdefault(file.path.parts, []).append(file)
    return multi_part_sets


def _is_complete(parts: int, files: list[LogFile]) -> bool:
    present = {file.path.part for file in files}
    return len(present) == parts and min(present) == 1 and max(present) == parts


def _faults_of_parts(parts: int, present: set[int]) -> str:
    """Return what parts an incomplete set lacks, in words. Names from untrusted sources may claim billions of them."""
    valid = {part for part in present if 1 <= part <= parts}
    wrong = present - valid
    if len(valid) == parts:
        return f"part {format_ranges(islice(sorted(wrong), _MOST_PARTS_NAMED))} of only {parts}"
    missing = parts - len(valid)
    named = list(islice((part for part in range(1, parts + 1) if part not in valid), _MOST_PARTS_NAMED))
    more = f" and {missing - len(named)} more" if missing > len(named) else ""
    return f"{plural(len(valid), 'part')} of {parts}: missing {format_ranges(named)}{more}"


def _is_needed(view: ListingView, version: int) -> bool:
    """Return True if the newest version can be read only with a complete checkpoint of `version`."""
    listing = view.listing
    newest = max(view.newest_commit, version)
    if newest in listing.reconstructable:
        return False
    return newest == version or any(first <= version + 1 and last == newest for first, last in listing.commit_runs)


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(str(number) for number in sorted(numbers))
