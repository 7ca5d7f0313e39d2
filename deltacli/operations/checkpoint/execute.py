"""Write a planned checkpoint, prove it, and only then update `_last_checkpoint`.

Spec: Checkpoints; Last Checkpoint File; Writer Requirements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from deltacli.changing.acts import Act
from deltacli.changing.derived import require_unchanged
from deltacli.core.errors import CheckpointUnreadable, DeltacliError, FileMissing, Refused, Unreadable, UsageError
from deltacli.core.hints import command
from deltacli.core.short_repr import short_repr
from deltacli.core.units import plural
from deltacli.delta.checkpoint.content import live_transactions
from deltacli.delta.checkpoint.last_checkpoint_content import Hint, make_hint, read_hint
from deltacli.delta.checkpoint.layout import Layout, TopFile, classic_path
from deltacli.delta.log.counts import FileCounts, TombstoneCounts
from deltacli.delta.log.log_path import HINT_NAME, LOG_DIRECTORY
from deltacli.delta.log.segment import LogListing
from deltacli.delta.paths import sidecar_location
from deltacli.delta.schema.to_arrow import table_schema
from deltacli.operations.checkpoint.file_writer import CheckpointFile, CheckpointWriter, WrittenCheckpoint
from deltacli.operations.checkpoint.plan import (
    DEFAULT_ROWS_A_SIDECAR,
    MOST_PARTS,
    CheckpointPlan,
    CheckpointRequest,
    plan_checkpoint,
    plan_of,
)
from deltacli.operations.checkpoint.rows import StateRows
from deltacli.storage import ReadStorage, Storage
from deltacli.table.checksum_guard import require_as_in_checksum
from deltacli.table.find_log import list_log, read_hint_file
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import without_checkpoint
from deltacli.table.version import Snapshot
from deltacli.work.checkpoints.reading import CheckpointPiece, open_checkpoint
from deltacli.work.checkpoints.writing_sidecars import sidecar_pieces

if TYPE_CHECKING:
    from deltacli.changing.gate import Gate

Counts = tuple[FileCounts, TombstoneCounts]


@short_repr("version", "files", "expired_tombstones_dropped", "skipped", "dry_run")
@dataclass(frozen=True, repr=False)
class CheckpointResult:
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

    def so_far(self) -> str:
        """Return how many files were written."""
        return f"{plural(self.published, 'file')} of the checkpoint written, _last_checkpoint not updated"

    def require_complete(self) -> None:
        """Do nothing: an error ends a checkpoint."""

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

    act: ClassVar[Act] = Act.DERIVE

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
        """Return the result before the first file."""
        return CheckpointResult(plan, (), {}, 0, None, skipped=plan.is_noop)

    def execute(self, gate: Gate[CheckpointPlan, CheckpointResult]) -> None:
        """Write it. Raises what `write_checkpoint` raises."""

        def tell(_: str) -> None:
            gate.has_begun = True
            gate.outcome = replace(gate.outcome, published=gate.outcome.published + 1)

        gate.outcome = write_checkpoint(gate.plan, tell=tell)


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
                snapshot = without_checkpoint(plan.snapshot, fault.code)
                was_parsed = plan.columns.stats is not None
                plan = plan_of(snapshot, plan.listing, plan.request, was_parsed=was_parsed)
            except Unreadable:
                raise fault from None


def _written(plan: CheckpointPlan, tell: Callable[[str], None]) -> CheckpointResult:
    snapshot = plan.snapshot
    rows = StateRows(snapshot, plan.columns, plan.config, plan.now_ms)
    is_unusable = classic_path(snapshot.version).rpartition("/")[2] in snapshot.set_aside
    writer = CheckpointWriter(
        snapshot,
        plan.columns,
        plan.encoding,
        rows,
        replace=plan.request.force or is_unusable,
        tell=tell,
        look=partial(require_unchanged, plan.basis),
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
    by_piece = list(snapshot.file_actions.counts_of_pieces(now_ms=plan.now_ms, as_checkpoint=True))
    files, tombstones = _total(counts for _, counts in by_piece)
    if plan.layout is Layout.MULTI_PART:
        _part_count(plan)
    sidecars = _sidecar_count(plan, by_piece) if plan.layout is Layout.V2 else 0
    actions = _actions(plan, (files, tombstones), sidecars=sidecars)
    require_as_in_checksum(snapshot, files.count, files.size_bytes)
    return CheckpointResult(plan, (), actions, tombstones.expired, None, dry_run=True)


def _sidecar_count(plan: CheckpointPlan, by_piece: Sequence[tuple[CheckpointPiece | None, Counts]]) -> int:
    """Return the number of sidecars that the writer makes of these rows."""
    most = plan.request.rows_per_file or DEFAULT_ROWS_A_SIDECAR
    rows = {piece: files.count + tombstones.count - tombstones.expired for piece, (files, tombstones) in by_piece}
    divided = sidecar_pieces(plan.snapshot.file_actions.pieces, most)
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


def _total(counts: Iterable[Counts]) -> Counts:
    files, tombstones = FileCounts(), TombstoneCounts()
    for counted in counts:
        files, tombstones = files + counted[0], tombstones + counted[1]
    return files, tombstones


def update_last_checkpoint(storage: Storage, listing: LogListing, written: WrittenCheckpoint) -> int | None:
    """Update the hint to a checkpoint unless it names a newer one; return the version if the hint names it afterwards.

    A hint that names it already is kept where another writer has created the checkpoint; one that names a newer but
    missing checkpoint is replaced. Raises StorageFailed.
    """
    version = written.version
    known, hinted = _newest(listing), _hinted(storage)
    if hinted > max(known, version):  # of a checkpoint that was created after the listing, or of a missing one
        known = _newest(list_log(storage))
    if known > version:
        return None
    if hinted == version and written.was_there:
        return version
    # A reader may open another checkpoint of the same version with the columns that the hint names.
    is_only = not any(checkpoint.version == version for checkpoint in listing.checkpoints)
    data = make_hint(
        version=version,
        size=written.rows,
        size_bytes=written.size_bytes,
        adds=written.actions.get("add", 0),
        parts=written.parts,
        schema=table_schema(written.schema) if written.schema is not None and is_only else None,
    )
    storage.put(f"{LOG_DIRECTORY}/{HINT_NAME}", data)
    return version


def _newest(listing: LogListing) -> int:
    return max((checkpoint.version for checkpoint in listing.checkpoints), default=-1)


def _hinted(storage: ReadStorage) -> int:
    try:
        hint = read_hint(read_hint_file(storage))
    except FileMissing:
        return -1
    return hint.version if isinstance(hint, Hint) else -1
