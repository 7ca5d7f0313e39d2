"""Rules about which checkpoints exist, based on the names and sizes of their files. Rules about their contents are in
the modules imported here. One area holds all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from deltacli.core.units import format_ranges, named_ranges, plural
from deltacli.delta.checkpoint.layout import READERS_THAT_FAIL, SEVERAL_FORMS
from deltacli.delta.log.log_path import LogFileKind
from deltacli.delta.log.segment import CheckpointInstance, LogFile
from deltacli.delta.protocol.property_values import CHECKPOINT_PROTECTION, parse_integer
from deltacli.rules.checkpoints.contents import (
    is_in_force,
)
from deltacli.rules.checkpoints.v2 import ADAPTIVE_METADATA
from deltacli.rules.framework.base import Area, Finding, Severity, from_a_copy
from deltacli.rules.framework.views import ListingView

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

SEVERAL = AREA.warning(
    SEVERAL_FORMS,
    "A version has several complete V1 checkpoints: classic and multi-part, or with different numbers of parts.",
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
            yield ZERO_LENGTH.at(
                view.place(file.name, file.version),
                f"{file.name} is empty",
                seen="0 bytes",
                expected="a checkpoint",
            )


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
    """Checkpoints below the version that brought the protocol are skipped, because an older protocol may have
    applied.
    """
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
            yield SEVERAL.at(
                view.place(instances[0].files[0].name, version),
                f"version {version} has complete checkpoints in {len(instances)} forms: {forms}",
                seen=forms,
                expected="one form",
            )


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
            yield UNPUBLISHED.at(
                place,
                f"version {instance.version} has a checkpoint, but the newest published commit is {newest}",
                seen=instance.version,
                expected=f"at most {newest}",
            )
        else:
            yield WITHOUT_COMMIT.at(
                place,
                f"version {instance.version} has a checkpoint, but the newest commit is {newest}",
                seen=instance.version,
                expected=f"at most {newest}",
            )


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
                seen=named_ranges("commit", commits),
            )
        previous = version


@AREA.check(ListingView, PROTECTED_MISSING)
def protected_checkpoints_remain(view: ListingView) -> Iterator[Finding]:
    """Check that checkpoints which hide commits of a dropped feature are kept as long as those commits. Spec: RFC."""
    if "checkpointProtection" not in view.config.features:
        return
    boundary = parse_integer(view.config.properties, CHECKPOINT_PROTECTION)
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
    """Return version -> number of parts -> the files with such names, including empty ones, which another rule
    reports.
    """
    multi_part_sets: dict[int, dict[int, list[LogFile]]] = {}
    for file in view.files:
        if file.path.kind is LogFileKind.MULTI_PART_CHECKPOINT:
            multi_part_sets.setdefault(file.version, {}).setdefault(file.path.parts, []).append(file)
    return multi_part_sets


def _is_complete(parts: int, files: list[LogFile]) -> bool:
    present = {file.path.part for file in files}
    return len(present) == parts and min(present) == 1 and max(present) == parts


def _faults_of_parts(parts: int, present: set[int]) -> str:
    """Return what is wrong with the parts of an incomplete set, in words. Names from untrusted sources may claim
    billions of parts.
    """
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
