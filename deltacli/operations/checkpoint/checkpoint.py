"""`checkpoint`: its plan with form, columns and whether it is due; writing it, proving it, and only then its hint.

Spec: Checkpoints; Writer Requirements; Last Checkpoint File.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from deltacli.changing.base_version import BaseVersion, identify_commit
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.execution import ChangeExecution
from deltacli.changing.outcome import CompleteOutcome
from deltacli.changing.protocol_checks import require_derived_files_allowed
from deltacli.core.errors import (
    CheckpointUnreadable,
    DeltacliError,
    FileMissing,
    Refusal,
    Refused,
    Unreadable,
    UsageError,
    command,
    parameter,
    suggest_parameters,
)
from deltacli.core.short_repr import short_repr
from deltacli.core.units import plural
from deltacli.delta.checkpoint.content import Columns, live_transactions, stats_type
from deltacli.delta.checkpoint.layout import (
    READERS_THAT_FAIL,
    SEVERAL_FORMS,
    Layout,
    TopFile,
    choose_layout,
    classic_path,
)
from deltacli.delta.log import segment
from deltacli.delta.log.disputed_readings import REPEATED_IN_CHECKPOINT
from deltacli.delta.log.file_actions import FileCounts, TombstoneCounts
from deltacli.delta.log.state import STATS_AS_JSON, STATS_AS_STRUCT, TableConfiguration, is_true
from deltacli.delta.partitions.values import partition_type
from deltacli.delta.paths.engine_readings import RULES_OF_SPELLINGS, SEVERAL_SPELLINGS, AmbiguousFile
from deltacli.delta.paths.spelling import sidecar_location
from deltacli.delta.protocol.known_properties import CODEC
from deltacli.delta.schema.to_arrow import table_schema
from deltacli.operations.checkpoint.file_writer import CheckpointFile, CheckpointWriter, StateRows, WrittenCheckpoint
from deltacli.storage import ReadStorage, Storage
from deltacli.table.ambiguous_files import (
    describe_ambiguous,
    find_ambiguous_files,
    find_differing_live_files,
    find_disagreement_refusal,
)
from deltacli.table.api_arguments import require_known_word, require_optional_version
from deltacli.table.checkpoint_paths import examine_checkpoint_paths
from deltacli.table.checksum_guard import require_matching_checksum
from deltacli.table.find_log import ListedLog, list_log, read_hint_file
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot, rebuild_version, rebuild_without_checkpoint
from deltacli.table.repeated_files import deduplicate_live_files
from deltacli.table.version import Snapshot
from deltacli.work.checkpoints.parquet_files import CheckpointPiece
from deltacli.work.checkpoints.reading import open_checkpoint
from deltacli.work.checkpoints.sidecars import plan_sidecar_pieces
from deltacli.work.parquet_encoding import DEFAULT_CODEC, Encoding, find_unwritable_codec

# -- the plan of a checkpoint ------------------------------------------------------------------------------------------

DEFAULT_ROWS_A_SIDECAR = 200_000


class StatsForm(StrEnum):
    """Columns of the statistics. `keep`: as the properties ask, else as in the last checkpoint."""

    KEEP = "keep"
    JSON = "json"
    STRUCT = "struct"
    BOTH = "both"


class LayoutChoice(StrEnum):
    """A layout, or that of the table's policy."""

    AUTO = "auto"
    CLASSIC = Layout.CLASSIC
    MULTI_PART = Layout.MULTI_PART
    V2 = Layout.V2


MOST_PARTS = 128
"""Parts of a multi-part checkpoint, whose files are all open until the last one is encoded. The lowest usual limit of
open files is 256.
"""


@dataclass(frozen=True, kw_only=True)
class CheckpointRequest:
    """Which checkpoint to write, and when.

    Attributes:
        version: The version. None: the newest one.
        layout: `classic`, `multi-part` or `v2`. None: as in the policy of the table.
        parts: The number of files of a multi-part checkpoint.
        rows_per_file: The number of actions per sidecar or part.
        v2_top: The format of the main file of a V2 checkpoint: `json` or `parquet`.
        stats: The columns of statistics: `json`, `struct`, `both`, or `keep` for those that the properties ask
            for, or else the last checkpoint has.
        if_behind: Write nothing unless this many commits were made since the last checkpoint.
        force: True to write the checkpoint even if a complete one of this version and layout exists.
        dry_run: True to plan only, and change nothing.
    """

    version: int | None = None
    layout: str | None = None
    parts: int | None = None
    rows_per_file: int | None = None
    v2_top: str = TopFile.JSON
    stats: str = StatsForm.KEEP
    if_behind: int = 0
    force: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError for a version that is no number, and for an unknown word."""
        object.__setattr__(self, "version", require_optional_version(self.version, "version"))
        for words, name in ((Layout, "layout"), (TopFile, "v2_top"), (StatsForm, "stats")):
            if getattr(self, name) is not None or words is not Layout:
                require_known_word(getattr(self, name), name, words)


@short_repr("version=snapshot.version", "behind", "is_due", "notes")
@dataclass(frozen=True, repr=False)
class CheckpointPlan:
    """The state and the files to write; nothing has been done."""

    snapshot: Snapshot
    listing: segment.LogListing
    """The log as it was listed; with `force` the snapshot was rebuilt without the checkpoints of its version."""
    request: CheckpointRequest
    layout: Layout
    columns: Columns
    encoding: Encoding
    config: TableConfiguration
    now_ms: int
    behind: int
    """Commits since the newest complete checkpoint at or below the version."""
    present: segment.CheckpointInstance | None
    """A complete checkpoint of this version and layout; without a requested layout, of any form before V2."""
    notes: tuple[str, ...]
    refusal: Refused | None = None
    """What `force` accepts; the plan is then the one with it."""
    accepted: Refusal | None = None
    """Why engines read other rows from the commits than they will from the checkpoint, which the request accepts."""

    def build_refusal(self) -> Refused | None:
        return self.refusal

    def effects(self) -> Iterator[str]:
        yield f"{self.layout.value} checkpoint of version {self.snapshot.version}"

    @property
    def is_noop(self) -> bool:
        """True where there is nothing to do, not even to name an existing checkpoint in the hint."""
        return not self.is_due and self.present is None

    @property
    def base_version(self) -> BaseVersion:
        """The version, with the commit that the checkpoint follows from."""
        snapshot = self.snapshot
        past = identify_commit(self.listing, snapshot.version)
        return BaseVersion(snapshot.table, snapshot.version, self.now_ms, past, snapshot, snapshot.listed_at)

    @property
    def is_due(self) -> bool:
        """False where there is nothing to do."""
        if self.request.force:
            return True
        return self.present is None and self.behind >= self.request.if_behind


def plan_checkpoint(table: TableHandle, request: CheckpointRequest) -> CheckpointPlan:
    """Rebuild the version and determine what to write.

    Raises UsageError for conflicting options, Refused where the protocol or the state of the log forbids it, and what
    `read_snapshot` raises.
    """
    snapshot = read_snapshot(table, version=request.version)
    was_parsed = snapshot.file_actions.has_parsed_statistics
    if not request.force:
        return plan_for_version(snapshot, snapshot.listing, request, was_parsed=was_parsed)
    from_older_log = _from_older_log(snapshot)
    if from_older_log is not snapshot:
        _require_same_live_files(snapshot, from_older_log)
    return plan_for_version(from_older_log, snapshot.listing, request, was_parsed=was_parsed)


def _from_older_log(snapshot: Snapshot) -> Snapshot:
    """Return the state rebuilt without checkpoints of its version, if it can be: a fault is not repeated then."""
    if snapshot.segment.checkpoint is None or snapshot.segment.checkpoint.version != snapshot.version:
        return snapshot
    table, listing = snapshot.table, snapshot.listing
    if listing.start_version:
        listing = list_log(table.storage, progress=table.progress)
    older = tuple(checkpoint for checkpoint in listing.checkpoints if checkpoint.version != snapshot.version)
    try:
        return rebuild_version(
            table, ListedLog(replace(listing, checkpoints=older), (), snapshot.listed_at), snapshot.version
        )
    except Unreadable:
        return snapshot


def _require_same_live_files(snapshot: Snapshot, from_older_log: Snapshot) -> None:
    """Refuse to replace a checkpoint whose writer has read the several spellings of a path in another way.

    All readers of the version begin with that checkpoint, so it has settled what they read. Rebuilt from the commits,
    a file that they read could be missing, and a vacuum would delete it.

    Args:
        snapshot: The version as it is read, from a checkpoint of it that can be used.
        from_older_log: The version rebuilt without the checkpoints of it.

    Raises:
        Refused: If a file with several spellings is live in one of them only, or with another deletion vector.
    """
    files = find_ambiguous_files(from_older_log)
    checkpoint = snapshot.segment.checkpoint
    while files and checkpoint is not None and checkpoint.version == snapshot.version:
        try:
            differing = find_differing_live_files(files, snapshot, from_older_log)
        except CheckpointUnreadable as fault:
            # No reader can begin with a damaged one, but there may be another checkpoint of the version.
            snapshot = rebuild_without_checkpoint(snapshot, fault.code)
            checkpoint = snapshot.segment.checkpoint
            continue
        if differing:
            raise _settled_otherwise(checkpoint, differing)
        return


def _settled_otherwise(checkpoint: segment.CheckpointInstance, files: Sequence[AmbiguousFile]) -> Refused:
    name = checkpoint.files[0].name
    return Refused(
        f"{name}, with which engines begin, and the commits do not have the same live files: the commits name "
        f"{describe_ambiguous(files)}, and a checkpoint that is rebuilt from them would change what engines read",
        code=SEVERAL_SPELLINGS,
        facts={
            "checkpoint": name,
            **{f"file {number}": " and ".join(file.spellings) for number, file in enumerate(files[:3], 1)},
        },
        hint=command("validate", select=[*RULES_OF_SPELLINGS, "checkpoint.*"]),
    )


def plan_for_version(
    snapshot: Snapshot, listing: segment.LogListing, request: CheckpointRequest, *, was_parsed: bool
) -> CheckpointPlan:
    version = snapshot.version
    require_derived_files_allowed(snapshot)
    if version not in listing.commits:
        raise Refused(
            f"version {version} has no commit file; a checkpoint is written only for an existing commit",
            code="log.checkpoint-commit-missing",
            facts={"missing": f"_delta_log/{version:020d}.json"},
            hint=command("validate"),
        )
    layout = choose_layout(
        snapshot.protocol, snapshot.properties, None if request.layout is None else Layout(request.layout)
    )
    _require_fitting(request, layout)
    forms = _Forms.of(snapshot, listing, request, layout)
    if forms.present is not None:
        layout = next(one for one in Layout if one.file_kind is forms.present.kind)
    config = TableConfiguration(protocol=snapshot.protocol, metadata=snapshot.metadata, schema=_schema_of(snapshot))
    columns, notes = _columns(snapshot, config, StatsForm(request.stats), was_parsed=was_parsed)
    usable = [
        checkpoint for checkpoint in listing.checkpoints if checkpoint.files[0].name not in snapshot.skipped_checkpoints
    ]
    behind = version - max((checkpoint.version for checkpoint in usable if checkpoint.version <= version), default=-1)
    is_written = request.force or (forms.present is None and behind >= request.if_behind)
    accepted: Refusal | None = None
    if is_written:
        notes += forms.notes(version, layout, force=request.force)
        # One pass over the paths of the checkpoint answers both questions.
        checkpoint_paths = examine_checkpoint_paths(snapshot)
        settled = deduplicate_live_files(snapshot, checkpoint_paths)
        if settled is not snapshot:
            notes += (f"the checkpoint that the version is read from has a live file twice [{REPEATED_IN_CHECKPOINT}]",)
        snapshot = settled
        ambiguous = find_ambiguous_files(snapshot, checkpoint_paths)
        accepted = _find_accepted_refusal(snapshot, ambiguous, force=request.force)
        if accepted is not None:
            notes += (f"{accepted.message} [{accepted.code}]", *_notes_of_dot_segments(ambiguous))
        if (codec := find_unwritable_codec(snapshot.properties)) is not None:
            notes += (
                f"{CODEC} is {codec!r}, which cannot be written; the checkpoint is compressed with {DEFAULT_CODEC}",
            )
    return CheckpointPlan(
        snapshot,
        listing,
        request,
        layout,
        columns,
        Encoding.of(snapshot.properties) if is_written else Encoding(),
        config,
        snapshot.table.clock(),
        behind,
        forms.present,
        notes,
        accepted=accepted,
    )


def _notes_of_dot_segments(files: Iterable[AmbiguousFile]) -> Iterator[str]:
    """Yield a note if the checkpoint has a path which an engine cannot open.

    The path is written as the log has it: a writer that has read the commits may remove the file by this text, and
    engines that compare texts would not find it under another one.
    """
    live_paths = [file.live_path for file in files]
    with_dots = [path for path in live_paths if path is not None and not {".", ".."}.isdisjoint(path.split("/"))]
    if with_dots:
        yield (
            f"the checkpoint has {plural(len(with_dots), 'live file')} with a dot segment in the path, such as "
            f"{with_dots[0]}, which deltalake cannot open [path.not-normalised]"
        )


def _find_accepted_refusal(snapshot: Snapshot, files: Sequence[AmbiguousFile], *, force: bool) -> Refusal | None:
    """Return why engines read other rows from the commits than they will from the checkpoint.

    Args:
        snapshot: The version.
        files: Its files with several spellings.
        force: True if the refusal is accepted.

    Returns:
        The refusal that `force` accepts; None if all read the same.

    Raises:
        Refused: If that was not accepted with `force`.
    """
    refusal = find_disagreement_refusal(snapshot, "a checkpoint", files=files)
    if refusal is not None and not force:
        raise Refused.from_refusals(
            [refusal], {**refusal.facts, "to write it anyway": parameter("checkpoint.force", True)}
        )
    return refusal


class _Forms(NamedTuple):
    """The existing checkpoints of a version: `present` has the form to write, `others` are complete V1 ones."""

    present: segment.CheckpointInstance | None
    others: tuple[segment.CheckpointInstance, ...]
    is_usable: bool
    """Return whether one of the others can be read."""

    @staticmethod
    def of(snapshot: Snapshot, listing: segment.LogListing, request: CheckpointRequest, layout: Layout) -> _Forms:
        instances = [one for one in listing.checkpoints if one.version == snapshot.version]
        usable = [one for one in instances if one.files[0].name not in snapshot.skipped_checkpoints]
        same = [one for one in usable if _is_form(one, request, layout)]
        is_v1 = layout is not Layout.V2
        others = tuple(one for one in instances if is_v1 and one.is_v1 and not _is_form(one, request, layout))
        others_usable = [one for one in others if one in usable]
        if not same and request.layout is None and not request.force:
            same = others_usable
        return _Forms(same[0] if same else None, others, bool(others_usable))

    def notes(self, version: int, layout: Layout, *, force: bool) -> tuple[str, ...]:
        """Return a warning about a second form. Raises Refused unless it was requested with `--force`."""
        if not self.others:
            return ()
        there = " and ".join(one.form for one in self.others)
        if self.is_usable and not force:
            raise Refused(
                f"version {version} has a complete checkpoint in another form ({there}); some readers fail if there "
                "are two",
                code=SEVERAL_FORMS,
                facts={
                    "readers that fail": READERS_THAT_FAIL,
                    "to write it anyway": parameter("checkpoint.force", True),
                },
                hint=command("checkpoint"),
            )
        note = (
            f"version {version} gets a {layout.value} checkpoint besides another form ({there}): {READERS_THAT_FAIL}, "
            f"fail until a newer version has a checkpoint or one form is deleted [{SEVERAL_FORMS}]"
        )
        return (note,)


def _is_form(instance: segment.CheckpointInstance, request: CheckpointRequest, layout: Layout) -> bool:
    """Return True for the requested form. Complete parts are never rewritten: `force` adds another number of parts."""
    if instance.kind is not layout.file_kind:
        return False
    if layout is not Layout.MULTI_PART:
        return True
    return not request.force and request.parts in (None, len(instance.files))


def _require_fitting(request: CheckpointRequest, layout: Layout) -> None:
    if request.parts is not None and layout is not Layout.MULTI_PART:
        wanted = parameter("checkpoint.layout", "multi-part")
        raise UsageError(f"{parameter('checkpoint.parts')} requires {wanted}", hint=suggest_parameters(wanted))
    if request.parts is not None and request.parts < 2:
        raise UsageError(
            f"{parameter('checkpoint.parts', request.parts)}: a multi-part checkpoint has two parts or more"
        )
    if request.parts is not None and request.parts > MOST_PARTS:
        raise UsageError(
            f"{parameter('checkpoint.parts', request.parts)}: at most {MOST_PARTS} parts are written",
            hint=command("checkpoint", layout="multi-part", parts=MOST_PARTS),
        )
    if request.v2_top != TopFile.JSON and layout is not Layout.V2:
        raise UsageError(
            f"{parameter('checkpoint.v2_top')} requires {parameter('checkpoint.layout', 'v2')}",
            hint=suggest_parameters(parameter("checkpoint.layout", "v2")),
        )
    if request.rows_per_file is not None and layout is Layout.CLASSIC:
        raise UsageError(
            f"{parameter('checkpoint.rows_per_file')} requires {parameter('checkpoint.layout', 'multi-part')} "
            "or v2; a classic checkpoint is one file"
        )
    if request.rows_per_file is not None and request.rows_per_file < 1:
        raise UsageError(f"{parameter('checkpoint.rows_per_file', request.rows_per_file)} is less than 1")
    if layout is Layout.MULTI_PART and request.parts is None and request.rows_per_file is None:
        raise UsageError(
            f"{parameter('checkpoint.layout', 'multi-part')} requires {parameter('checkpoint.parts')} "
            f"or {parameter('checkpoint.rows_per_file')}"
        )


def _schema_of(snapshot: Snapshot) -> Any:  # Any: a StructType, None where it cannot be read
    try:
        return snapshot.schema
    except DeltacliError:
        return None


def _columns(
    snapshot: Snapshot, config: TableConfiguration, form: StatsForm, *, was_parsed: bool
) -> tuple[Columns, tuple[str, ...]]:
    """Return the columns of statistics: as requested, else by the properties, else as in the last checkpoint."""
    properties = snapshot.properties
    has_json = STATS_AS_JSON not in properties or is_true(properties, STATS_AS_JSON)
    has_struct = is_true(properties, STATS_AS_STRUCT)
    if STATS_AS_STRUCT not in properties:
        has_struct = was_parsed
    if form is not StatsForm.KEEP:
        has_json, has_struct = form is not StatsForm.STRUCT, form is not StatsForm.JSON
    notes = []
    if has_struct and config.schema is None:
        notes.append("the schema cannot be read; statistics are written as JSON")
        has_json, has_struct = True, False
    if not has_json and not has_struct:
        notes.append(
            f"{STATS_AS_JSON} and {STATS_AS_STRUCT} are both false: checkpoints have no statistics, and these are lost "
            f"when the log is cleaned; {parameter('checkpoint.stats', 'json')} keeps them"
        )
    if not has_struct:
        return Columns(has_json), tuple(notes)
    return Columns(has_json, partition_type(config), stats_type(config)), tuple(notes)


# -- write a planned checkpoint, prove it ------------------------------------------------------------------------------

Counts = tuple[FileCounts, TombstoneCounts]


@short_repr("version", "files", "expired_tombstones_dropped", "skipped", "dry_run")
@dataclass(frozen=True, repr=False)
class CheckpointResult(CompleteOutcome):
    """What was done, or would be (`dry_run`); paths are relative to the table."""

    plan: CheckpointPlan
    files: tuple[CheckpointFile, ...]
    actions: Mapping[str, int]
    expired_tombstones_dropped: int
    hint_version: int | None
    """The version that `_last_checkpoint` names afterwards; None where it does not name this one."""
    skipped: bool = False
    dry_run: bool = False
    published: int = 0
    """The files that were written so far."""

    def describe_progress(self) -> str:
        hint = "not updated" if self.hint_version is None else f"names version {self.hint_version}"
        return f"{plural(len(self.files) or self.published, 'file')} of the checkpoint written, _last_checkpoint {hint}"

    @property
    def version(self) -> int:
        return self.plan.snapshot.version

    def as_json(self) -> dict[str, Any]:
        """Return the document `deltacli.checkpoint`, without the envelope."""
        return {
            "version": self.version,
            "layout": self.plan.layout.value,
            "files": [file.as_json() for file in self.files],
            "actions": dict(self.actions),
            "expiredTombstonesDropped": self.expired_tombstones_dropped,
            "hintVersion": self.hint_version,
            "commitsBehind": self.plan.behind,
            "skipped": self.skipped,
            "dryRun": self.dry_run,
        }


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint to write."""

    kind: ClassVar[ChangeKind] = ChangeKind.DERIVE_LOG_FILES

    request: CheckpointRequest

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> CheckpointPlan:  # noqa: ARG002  (by its version)
        """Plan it; a refusal that `force` accepts is part of the plan. Raises what `plan_checkpoint` raises."""
        try:
            return plan_checkpoint(table, self.request)
        except Refused as refused:
            if not self.request.force:
                with suppress(DeltacliError):  # `force` does not accept it: there is no plan
                    forced = plan_checkpoint(table, replace(self.request, force=True))
                    return replace(forced, refusal=refused)
            raise

    def outcome(self, plan: CheckpointPlan) -> CheckpointResult:
        return CheckpointResult(plan, (), {}, 0, None, skipped=plan.is_noop)

    def execute(self, execution: ChangeExecution[CheckpointPlan, CheckpointResult]) -> None:
        """Write it. Raises what `write_checkpoint` raises."""

        def tell(_: str) -> None:
            execution.has_begun = True
            execution.outcome = replace(execution.outcome, published=execution.outcome.published + 1)

        execution.outcome = write_checkpoint(execution.plan, tell=tell)


def write_checkpoint(
    plan: CheckpointPlan, *, dry_run: bool = False, tell: Callable[[str], None] = lambda _: None
) -> CheckpointResult:
    """Write the planned checkpoint: encode, read back, publish, and only then update the hint.

    After a fault the remaining files are not a checkpoint for any reader. `tell` is called with the path of each
    published file. If the checkpoint that the version was rebuilt from is corrupt, an older one is used.
    Raises StorageFailed, NoAtomicCreate, Refused where the state contradicts the version's checksum file, and what
    reading the state raises.
    """
    while True:
        try:
            if not plan.is_due:
                return _left_alone(plan, dry_run=dry_run)
            return _foreseen(plan) if dry_run else _written(plan, tell)
        except CheckpointUnreadable as fault:
            if plan.snapshot.segment.checkpoint is None:
                raise
            try:
                snapshot = rebuild_without_checkpoint(plan.snapshot, fault.code)
                was_parsed = plan.columns.stats is not None
                plan = plan_for_version(snapshot, plan.listing, plan.request, was_parsed=was_parsed)
            except Unreadable:
                raise fault from None


def _written(plan: CheckpointPlan, tell: Callable[[str], None]) -> CheckpointResult:
    snapshot = plan.snapshot
    rows = StateRows(snapshot, plan.columns, plan.config, plan.now_ms)
    is_unusable = classic_path(snapshot.version).rpartition("/")[2] in snapshot.skipped_checkpoints
    writer = CheckpointWriter(
        snapshot,
        plan.columns,
        plan.encoding,
        rows,
        plan.base_version,
        replace=plan.request.force or is_unusable,
        tell=tell,
    )
    match plan.layout:
        case Layout.CLASSIC:
            written = writer.write_classic()
        case Layout.MULTI_PART:
            written = writer.write_parts(_part_count(plan))
        case Layout.V2:
            written = writer.write_v2(
                TopFile(plan.request.v2_top), plan.request.rows_per_file or DEFAULT_ROWS_A_SIDECAR
            )
    hint = update_last_checkpoint(snapshot.table.writable(), plan.listing, written)
    return CheckpointResult(
        plan, written.files, written.actions, written.expired_dropped, hint, skipped=written.was_there
    )


def _left_alone(plan: CheckpointPlan, *, dry_run: bool) -> CheckpointResult:
    """Write no checkpoint, but update a hint that does not name the existing one yet."""
    present, snapshot = plan.present, plan.snapshot
    if present is None:
        return CheckpointResult(plan, (), {}, 0, None, skipped=True, dry_run=dry_run)
    files = tuple(CheckpointFile(f"_delta_log/{file.name}", file.size_bytes, None) for file in present.files)
    hint = None
    if present == snapshot.segment.checkpoint and not dry_run:  # it could be read
        written = WrittenCheckpoint(
            snapshot.version,
            (*files, *_sidecar_files(snapshot)),
            _counted(plan, sidecars=snapshot.sidecars, with_expired=True),
            0,
            None,
            len(files) if plan.layout is Layout.MULTI_PART else None,
            was_there=True,
        )
        hint = update_last_checkpoint(snapshot.table.writable(), plan.listing, written)
    return CheckpointResult(plan, files, {}, 0, hint, skipped=True, dry_run=dry_run)


def _sidecar_files(snapshot: Snapshot) -> tuple[CheckpointFile, ...]:
    """Return the sidecars of the checkpoint that a version was rebuilt from, as it records them."""
    if snapshot.segment.checkpoint is None or not snapshot.sidecars:
        return ()
    actions = open_checkpoint(snapshot.table.stores, snapshot.segment.checkpoint).small
    return tuple(
        CheckpointFile(sidecar_location(action), int(action["sizeInBytes"]), None)
        for kind, action in actions
        if kind == "sidecar"
    )


def _part_count(plan: CheckpointPlan) -> int:
    request = plan.request
    if request.parts is not None:
        parts = request.parts
    else:
        rows = sum(_counted(plan).values())
        parts = -(-rows // (request.rows_per_file or 1))
        if parts < 2:
            raise UsageError(
                f"{rows} rows fit into one file; a multi-part checkpoint has two or more",
                hint=command("checkpoint", layout="classic"),
            )
        if parts > MOST_PARTS:
            raise UsageError(
                f"{rows} rows need {parts:,} parts; at most {MOST_PARTS} are written",
                hint=command("checkpoint", layout="multi-part", rows_per_file=-(-rows // MOST_PARTS)),
            )
    complete = (found for found in plan.listing.checkpoints if found.version == plan.snapshot.version)
    if any(found.kind is Layout.MULTI_PART.file_kind and len(found.files) == parts for found in complete):
        others = parts + (1 if parts < MOST_PARTS else -1)
        raise Refused(
            f"version {plan.snapshot.version} has a checkpoint of {parts} parts, which cannot be replaced at "
            "once: readers would see a mixture",
            code="checkpoint.parts-mix",
            hint=command("checkpoint", layout="multi-part", parts=others, force=True),
        )
    return parts


def _foreseen(plan: CheckpointPlan) -> CheckpointResult:
    """Count the actions that would be written."""
    snapshot = plan.snapshot
    by_piece = list(snapshot.file_actions.count_pieces(now_ms=plan.now_ms, for_checkpoint=True))
    files, tombstones = FileCounts(), TombstoneCounts()
    for _, counted in by_piece:
        files, tombstones = files + counted[0], tombstones + counted[1]
    if plan.layout is Layout.MULTI_PART:
        _part_count(plan)
    sidecars = _sidecar_count(plan, by_piece) if plan.layout is Layout.V2 else 0
    actions = _actions(plan, (files, tombstones), sidecars=sidecars)
    require_matching_checksum(snapshot, files.count, files.size_bytes)
    return CheckpointResult(plan, (), actions, tombstones.expired, None, dry_run=True)


def _sidecar_count(plan: CheckpointPlan, by_piece: Sequence[tuple[CheckpointPiece | None, Counts]]) -> int:
    most = plan.request.rows_per_file or DEFAULT_ROWS_A_SIDECAR
    rows = {piece: files.count + tombstones.count - tombstones.expired for piece, (files, tombstones) in by_piece}
    divided = plan_sidecar_pieces(plan.snapshot.file_actions.pieces, most)
    parts = [[None], *divided] if divided else [list(rows)]
    return sum(-(-sum(rows[piece] for piece in part) // most) for part in parts)


def _counted(plan: CheckpointPlan, *, sidecars: int = 0, with_expired: bool = False) -> dict[str, int]:
    """Return the actions of a checkpoint of the state; `with_expired` includes expired ones."""
    return _actions(plan, plan.snapshot.counts(now_ms=plan.now_ms), sidecars=sidecars, with_expired=with_expired)


def _actions(plan: CheckpointPlan, counts: Counts, *, sidecars: int = 0, with_expired: bool = False) -> dict[str, int]:
    snapshot, (files, tombstones) = plan.snapshot, counts
    transactions = live_transactions(snapshot.transactions, snapshot.properties, plan.now_ms)
    found = {
        "add": files.count,
        "remove": tombstones.count - (0 if with_expired else tombstones.expired),
        "txn": len(snapshot.transactions) if with_expired else len(transactions),
        "domainMetadata": len(snapshot.domains),
        "metaData": 1,
        "protocol": 1,
        "checkpointMetadata": 1 if plan.layout is Layout.V2 else 0,
        "sidecar": sidecars,
    }
    return {kind: count for kind, count in found.items() if count}


def update_last_checkpoint(storage: Storage, listing: segment.LogListing, written: WrittenCheckpoint) -> int | None:
    """Update the hint to a checkpoint unless it names a newer one; return the version if the hint names it afterwards.

    A hint that names it already is kept where another writer has created the checkpoint; one that names a newer but
    missing checkpoint is replaced, unless it is above the log: that proves to `vacuum` and `repair` that commits were
    lost. Raises StorageFailed.
    """
    version = written.version
    known, hinted = _newest(listing), _hinted(storage)
    if hinted > max(known, version):  # of a checkpoint that was created after the listing, or of a missing one
        now = list_log(storage)
        known = max(_newest(now), hinted if hinted > now.newest_version else -1)
    if known > version:
        return None
    if hinted == version and written.was_there:
        return version
    # A reader may open another checkpoint of the same version with the columns that the hint names.
    is_only = not any(checkpoint.version == version for checkpoint in listing.checkpoints)
    data = segment.make_hint(
        version=version,
        size=written.rows,
        size_bytes=written.size_bytes,
        adds=written.actions.get("add", 0),
        parts=written.parts,
        schema=table_schema(written.schema) if written.schema is not None and is_only else None,
    )
    storage.put(f"{segment.LOG_DIRECTORY}/{segment.HINT_NAME}", data)
    return version


def _newest(listing: segment.LogListing) -> int:
    return max((checkpoint.version for checkpoint in listing.checkpoints), default=-1)


def _hinted(storage: ReadStorage) -> int:
    try:
        hint = segment.read_hint(read_hint_file(storage))
    except FileMissing:
        return -1
    return hint.version if isinstance(hint, segment.Hint) else -1
