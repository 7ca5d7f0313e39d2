"""The plan of a checkpoint: what is asked for, which form and columns it gets, and whether it is due.

Spec: Checkpoints; Writer Requirements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from deltacli.changing.basis import Basis, past_of
from deltacli.changing.derived import require_derivable
from deltacli.core.errors import DeltacliError, Refused, Unreadable, UsageError
from deltacli.core.hints import adding, command, parameter
from deltacli.core.request_fields import Kind, option, require_word
from deltacli.core.short_repr import short_repr
from deltacli.delta.checkpoint.content import Columns
from deltacli.delta.checkpoint.layout import READERS_THAT_FAIL, SEVERAL_FORMS, Layout, TopFile, choose_layout
from deltacli.delta.checkpoint.parsed_columns import partition_type, stats_type
from deltacli.delta.log.segment import CheckpointInstance, LogListing
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.known_properties import CODEC
from deltacli.delta.protocol.property_values import STATS_AS_JSON, STATS_AS_STRUCT, is_true
from deltacli.table.api_arguments import optional_version
from deltacli.table.find_log import Log, list_log
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot, rebuild
from deltacli.table.version import Snapshot
from deltacli.work.parquet_encoding import DEFAULT_CODEC, Encoding, unwritable_codec

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
    """A request for a checkpoint. `if_behind`: do nothing unless this many commits were made since the last
    checkpoint.
    """

    version: int | None = None
    layout: str | None = option(
        "Layout of the checkpoint; auto follows the table's policy.  [default: auto]",
        "auto|classic|multi-part|v2",
        Kind.CHOICE,
        choices=LayoutChoice,
    )
    parts: int | None = option("Number of files of a multi-part checkpoint.", "N")
    rows_per_file: int | None = option(
        f"Actions per sidecar or part.  [default: {DEFAULT_ROWS_A_SIDECAR} per sidecar]", "N"
    )
    v2_top: str = option(
        "Format of the main file of a V2 checkpoint.  [default: json]",
        "json|parquet",
        Kind.CHOICE,
        default=TopFile.JSON,
        choices=TopFile,
    )
    stats: str = option(
        "Columns of statistics; keep: as the properties ask, else as in the last checkpoint.  [default: keep]",
        "keep|json|struct|both",
        Kind.CHOICE,
        default=StatsForm.KEEP,
        choices=StatsForm,
    )
    if_behind: int = option("Do nothing unless N commits were made since the last checkpoint.", "N", default=0)
    force: bool = option("Write it even if a complete one of this version and layout exists.", default=False)
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError for a version that is no number, and for an unknown word."""
        object.__setattr__(self, "version", optional_version(self.version, "version"))
        for words, name in ((Layout, "layout"), (TopFile, "v2_top"), (StatsForm, "stats")):
            if getattr(self, name) is not None or words is not Layout:
                require_word(getattr(self, name), name, words)


@short_repr("version=snapshot.version", "behind", "is_due", "notes")
@dataclass(frozen=True, repr=False)
class CheckpointPlan:
    """The state and the files to write; nothing has been done."""

    snapshot: Snapshot
    listing: LogListing
    """The log as it was listed; with `force` the snapshot was rebuilt without the checkpoints of its version."""
    request: CheckpointRequest
    layout: Layout
    columns: Columns
    encoding: Encoding
    config: TableConfiguration
    now_ms: int
    behind: int
    """Commits since the newest complete checkpoint at or below the version."""
    present: CheckpointInstance | None
    """A complete checkpoint of this version and layout; without a requested layout, of any form before V2."""
    notes: tuple[str, ...]
    refusal: Refused | None = None
    """What `force` accepts; the plan is then the one with it."""

    def objection(self) -> Refused | None:
        """Return the refusal."""
        return self.refusal

    def effects(self) -> Iterator[str]:
        """Yield the form of the checkpoint."""
        yield f"{self.layout.value} checkpoint of version {self.snapshot.version}"

    @property
    def is_noop(self) -> bool:
        """True where there is nothing to do, not even to name an existing checkpoint in the hint."""
        return not self.is_due and self.present is None

    @property
    def basis(self) -> Basis:
        """The version, with the commit that the checkpoint follows from."""
        snapshot = self.snapshot
        past = past_of(self.listing, snapshot.version)
        return Basis(snapshot.table, snapshot.version, self.now_ms, past, snapshot, snapshot.listed_at)

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
        return plan_of(snapshot, snapshot.listing, request, was_parsed=was_parsed)
    return plan_of(_from_older_log(snapshot), snapshot.listing, request, was_parsed=was_parsed)


def _from_older_log(snapshot: Snapshot) -> Snapshot:
    """Return the same state, rebuilt without the checkpoints of its own version where older files suffice, so that a
    rewritten checkpoint does not repeat a fault.
    """
    if snapshot.segment.checkpoint is None or snapshot.segment.checkpoint.version != snapshot.version:
        return snapshot
    table, listing = snapshot.table, snapshot.listing
    if listing.start_version:
        listing = list_log(table.storage, progress=table.progress)
    older = tuple(checkpoint for checkpoint in listing.checkpoints if checkpoint.version != snapshot.version)
    try:
        return rebuild(table, Log(replace(listing, checkpoints=older), (), snapshot.listed_at), snapshot.version)
    except Unreadable:
        return snapshot


def plan_of(snapshot: Snapshot, listing: LogListing, request: CheckpointRequest, *, was_parsed: bool) -> CheckpointPlan:
    version = snapshot.version
    require_derivable(snapshot)
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
    usable = [checkpoint for checkpoint in listing.checkpoints if checkpoint.files[0].name not in snapshot.set_aside]
    behind = version - max((checkpoint.version for checkpoint in usable if checkpoint.version <= version), default=-1)
    is_written = request.force or (forms.present is None and behind >= request.if_behind)
    if is_written:
        notes += forms.notes(version, layout, force=request.force)
        if (codec := unwritable_codec(snapshot.properties)) is not None:
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
    )


class _Forms(NamedTuple):
    """The existing checkpoints of a version to be written: `present` has the same form, `others` are complete V1
    checkpoints of another form.
    """

    present: CheckpointInstance | None
    others: tuple[CheckpointInstance, ...]
    is_usable: bool
    """Return whether one of the others can be read."""

    @staticmethod
    def of(snapshot: Snapshot, listing: LogListing, request: CheckpointRequest, layout: Layout) -> _Forms:
        instances = [one for one in listing.checkpoints if one.version == snapshot.version]
        usable = [one for one in instances if one.files[0].name not in snapshot.set_aside]
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


def _is_form(instance: CheckpointInstance, request: CheckpointRequest, layout: Layout) -> bool:
    """Return True if a checkpoint has the requested form. Complete parts are never rewritten: parts that --force writes
    in addition have another number of parts.
    """
    if instance.kind is not layout.file_kind:
        return False
    if layout is not Layout.MULTI_PART:
        return True
    return not request.force and request.parts in (None, len(instance.files))


def _require_fitting(request: CheckpointRequest, layout: Layout) -> None:
    if request.parts is not None and layout is not Layout.MULTI_PART:
        wanted = parameter("checkpoint.layout", "multi-part")
        raise UsageError(f"{parameter('checkpoint.parts')} requires {wanted}", hint=adding(wanted))
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
            hint=adding(parameter("checkpoint.layout", "v2")),
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
