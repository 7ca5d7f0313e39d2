"""The parts of a vacuum plan that both modes share: refusals, notes, the versions that remain complete, where the next
LITE run begins, and the plan itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from deltacli.arrow import compute as pc
from deltacli.arrow.rows import grouped
from deltacli.changing.plan import Amount
from deltacli.core.errors import Refusal, Refused, StorageFailed, Unreadable
from deltacli.core.hints import command
from deltacli.core.typing import ArrowArray, ArrowTable
from deltacli.core.units import format_duration, format_size, format_spans, format_timestamp, gaps_in, plural
from deltacli.delta.log.segment import CheckpointInstance
from deltacli.delta.manifests import MANIFESTS
from deltacli.delta.protocol.property_values import CHANGE_FEED, is_true
from deltacli.delta.vacuum.keys import is_among
from deltacli.operations.vacuum.candidates import CandidateChoice
from deltacli.operations.vacuum.plan import TimeTravelRange, VacuumPlan
from deltacli.operations.vacuum.plan_context import (
    PlanContext,
    allows_below,
    checksum_refusals,
    clock_refusals,
    doubts,
    limit_refusals,
    log_refusals,
    outer_refusals,
    property_refusals,
    retention_contradictions,
    retention_refusals,
)
from deltacli.operations.vacuum.request import Mode
from deltacli.table.file_history import RULE, NamedKeys, live_keys
from deltacli.table.find_log import Log
from deltacli.table.other_tables import tables_around
from deltacli.table.rebuild import rebuild
from deltacli.table.time_travel import committed_at

if TYPE_CHECKING:
    import pyarrow

    from deltacli.changing.plan import Amount
    from deltacli.operations.vacuum.candidates import CandidateClassifier
    from deltacli.operations.vacuum.plan_context import PlanContext


def choice_of(setting: PlanContext) -> CandidateChoice:
    """Return the requested limit of the candidates."""
    request, selector = setting.request, None
    if request.where is not None:
        from deltacli.delta.vacuum.partition_paths import PartitionSelector

        selector = PartitionSelector(setting.snapshot.config, request.where)
    return CandidateChoice(
        include_foreign=request.include_foreign,
        selector=selector,
        proven_only=not setting.is_proven,
        find_doubts=partial(doubts, setting),
    )


def log_notes(setting: PlanContext) -> Iterator[str]:
    """Return notes on information that the log lacks."""
    references = setting.references
    if not setting.is_proven:
        yield (
            f"the log does not reach back {format_duration(setting.retention_ms)}, to "
            f"{format_timestamp(setting.cutoff_ms)}, and tombstones are kept for "
            f"{format_duration(setting.tombstones_ms)}: files whose removal time is unknown are kept"
        )
    if references.unknown_vector is not None:
        yield (
            "the log names a deletion vector whose file is unknown "
            f"({references.unknown_vector[:60]}): every file of deletion vectors is kept"
        )


def common_refusals(setting: PlanContext) -> Iterator[Refusal]:
    """Return the guards of both modes."""
    yield from retention_refusals(setting.request, setting.retention_ms, setting.own_ms)
    yield from property_refusals(setting.request, setting.snapshot.properties)
    yield from log_refusals(setting.references)
    yield from clock_refusals(setting.snapshot, setting.references, setting.now_ms)
    yield from outer_refusals(tables_around(setting.table), _protected(setting))


def contradiction_refusals(setting: PlanContext, rows: ArrowTable) -> Iterator[Refusal]:
    """Return contradictions to the state, if anything would be deleted."""
    if rows.num_rows:
        yield from retention_contradictions(setting)
        yield from checksum_refusals(setting)


def _protected(setting: PlanContext) -> set[str]:
    """Return the URIs of the tables given by `--protect-from`."""
    stores = map(setting.table.open_other, setting.request.protect_from)
    return {uri for storage in stores for uri in (storage.uri, *storage.aliases)}


def make_plan(
    setting: PlanContext, rows: ArrowTable, live: Amount, refusals: Iterable[Refusal], **parts: Any
) -> VacuumPlan:  # Any: parts of the plan
    """Return the plan of a setting and its candidates, with `refusals` and that of the limit."""
    request = setting.request
    amount = Amount(rows.num_rows, pc.sum(rows.column("sizeBytes")).as_py() or 0)
    return VacuumPlan(
        table=setting.table.uri,
        table_id=setting.snapshot.metadata.id,
        mode=Mode(request.mode),
        snapshot_version=setting.snapshot.version,
        now_ms=setting.now_ms,
        retention_ms=setting.retention_ms,
        own_retention_ms=setting.own_ms,
        cutoff_ms=setting.cutoff_ms,
        candidates=rows,
        refusals=(*refusals, *limit_refusals(request, amount, live)),
        selection=request.where or request.prefix,
        allows_below=allows_below(request, setting.own_ms),
        protected=setting.protected,
        copied_ms=_copied_ms(setting),
        made_from=setting.basis,
        **parts,
    )


def _copied_ms(setting: PlanContext) -> int | None:
    """Return the newest time of a log whose commits are all retained, though the table was created before the cutoff:
    it was copied. None for other logs.
    """
    references = setting.references
    created = [action.get("createdTime") for action in references.metadata]
    is_old = any(isinstance(moment, int) and moment < setting.cutoff_ms for moment in created)
    if references.window.last_before is not None or not is_old:
        return None
    return max((file.modified_ms for file in references.listing.commits.values()), default=None)


def find_reach(setting: PlanContext, judge: CandidateClassifier, candidates: Any) -> TimeTravelRange:
    """Return the remaining range of time travel and change feeds; `candidates` are hashes (Any: an int64 array).

    A version is complete if every file that a later commit removed still exists. Without a listing of the whole table
    only the deletions of this plan count.
    """
    removed = setting.references.removed
    goes = pc.is_in(removed.hashes, value_set=candidates)
    if setting.is_whole:
        lost_before = pc.and_not(pc.invert(judge.removed_stays), goes)
    else:
        lost_before = pc.and_(goes, pc.invert(goes))
    return reach_of(setting, _newest(removed.other, lost_before), _newest(removed.other, goes), candidates)


def reach_of(setting: PlanContext, lost_before: int | None, lost_now: int | None, candidates: Any) -> TimeTravelRange:
    """Return the range from the newest versions that removed a missing file and a candidate; Any: an int64 array."""
    references = setting.references
    oldest = min(references.listing.reconstructable, default=None)
    if oldest is None:
        return TimeTravelRange()
    before = max(oldest, -1 if lost_before is None else lost_before)
    first = max(before, -1 if lost_now is None else lost_now)
    lost_changes = _newest(references.changes.other, pc.is_in(references.changes.hashes, value_set=candidates))
    feed_end = max(-1 if lost_now is None else lost_now, -1 if lost_changes is None else lost_changes)
    has_feed = is_true(setting.snapshot.properties, CHANGE_FEED) or lost_changes is not None
    first_commit = min(references.listing.commits, default=None)
    return TimeTravelRange(
        first_version=first,
        first_ms=committed_at(setting.table, references.listing, first),
        oldest_before=before,
        lost_feed=(first_commit, feed_end)
        if has_feed and first_commit is not None and feed_end >= first_commit
        else None,
        lost=tuple(_lost(setting, candidates, before, first)),
    )


def _lost(setting: PlanContext, candidates: Any, before: int, first: int) -> Iterator[tuple[int, int]]:
    """Yield the versions from `before` up to `first` that need a candidate, as ranges, ascending.

    A file is needed from its first add to its last remove; from `before` on where the log has no such add.
    """
    import pyarrow as pa

    removed = setting.references.removed
    goes = pc.and_(pc.is_in(removed.hashes, value_set=candidates), pc.is_valid(removed.other))
    files, ends = pc.filter(removed.hashes, goes), pc.filter(removed.other, goes)
    begins = pc.fill_null(setting.references.history.first_adds(files), before)
    begins = pc.if_else(pc.less(begins, ends), begins, before)
    spans = grouped(pa.table({"begin": begins, "end": ends}), ["begin", "end"], [])
    start = end = before
    for begin, stop in sorted(zip(*(column.to_pylist() for column in spans.columns), strict=True)):
        if begin > end:
            yield from gaps_in(setting.request.keep_versions, start, end - 1)
            start = begin
        end = max(end, stop)
    yield from gaps_in(setting.request.keep_versions, start, min(end, first) - 1)


def find_horizon(setting: PlanContext, judge: CandidateClassifier) -> int | None:
    """Return the newest version up to which all eligible files are deleted after the plan: below every removal whose
    file is kept although it is not live. None where there is none.
    """
    import pyarrow as pa

    references = setting.references
    end = references.window.last_before
    if end is None or references.unknown_vector is not None:
        return None
    changes = references.changes
    changes_stay = pc.is_in(changes.hashes, value_set=pa.concat_arrays([judge.needed, *judge.young]))
    live = pa.concat_arrays([references.live, references.live_written, references.live_vectors])
    for source, stays in ((references.removed, judge.removed_stays), (changes, changes_stay)):
        is_late = pc.and_(stays, pc.fill_null(pc.less_equal(source.other, end), False))
        late = pc.filter(source.hashes, is_late)
        if not len(late):
            continue
        versions = pc.filter(pc.filter(source.other, is_late), pc.invert(is_among(late, live)))
        first = pc.min(versions).as_py()
        end = end if first is None else min(end, first - 1)
    return end if end >= 0 else None


def _newest(versions: ArrowArray, mask: ArrowArray) -> int | None:
    newest: int | None = pc.max(pc.filter(versions, mask)).as_py()
    return newest


def viewed_notes(setting: PlanContext, needed: ArrowArray) -> Iterator[str]:
    """Yield a note where listed files are kept for a symlink manifest alone; `needed` are hashes of listed files."""
    viewed = setting.references.viewed
    kept = 0 if viewed is None else pc.sum(pc.is_in(viewed, value_set=needed)).as_py() or 0
    if kept:
        yield f"{plural(kept, 'file')} kept, because a manifest in {MANIFESTS} names {'it' if kept == 1 else 'them'}"


def lost_notes(setting: PlanContext, rows: pyarrow.Table) -> Iterator[str]:
    """Return notes on files (columns `path` and `hash`) that are kept although the newest version lacks them."""
    if not rows.num_rows:
        return
    is_unsure = removed_in_gap(setting, rows.column("hash").combine_chunks())
    lost, unsure = pc.filter(rows, pc.invert(is_unsure)), pc.filter(rows, is_unsure)
    if lost.num_rows:
        yield _lost_note(setting, lost)
    if unsure.num_rows:
        yield _gap_note(setting, unsure)


def removed_in_gap(setting: PlanContext, files: pyarrow.Array) -> pyarrow.Array:
    """Return the lost files (hashes) that missing commits may have removed: every add is before a gap of the log."""
    history = setting.references.history
    adds = history.unremoved_adds(files)
    is_after = pc.greater_equal(adds.versions, history.last_run - 1)
    is_sure = pc.is_in(files, value_set=pc.filter(adds.files, is_after))
    return pc.and_not(pc.is_in(files, value_set=adds.files), is_sure)


def missing_commits(setting: PlanContext) -> str:
    """Return the gaps of the log in words."""
    commits = setting.references.listing.commits
    gaps = gaps_in(commits, min(commits), max(commits))
    is_one = len(gaps) == 1 and gaps[0][0] == gaps[0][1]
    return f"{'commit' if is_one else 'commits'} {format_spans(gaps)}"


def missing_notes(setting: PlanContext, lost: Amount) -> Iterator[str]:
    """Return a note on live files that are not in the listing."""
    if lost.files:
        verb = "is" if lost.files == 1 else "are"
        yield (
            f"{plural(lost.files, 'live file')} ({format_size(lost.size_bytes)}) {verb} not in the listing, so version "
            f"{setting.snapshot.version} cannot be read completely: lost, or in a directory that is not mounted; a "
            "vacuum is refused only where more than a tenth is missing; to see the files: "
            f"{command('validate', table=setting.table.uri, level='storage')}; to bring them back: "
            f"{command('undelete', table=setting.table.uri, sources=['COPY'])}"
        )


def unread_note(setting: PlanContext, rows: pyarrow.Table, fault: Unreadable | None) -> str:
    """Return a note on files that were kept because an older checkpoint is damaged."""
    count, (is_are, them) = rows.num_rows, _words(rows)
    reason = "" if fault is None else f": {fault.message} [{fault.code}]"
    return (
        f"{plural(count, 'file')} that the log does not name {is_are} kept ({_example(rows)}), because an older "
        f"checkpoint that may name {them} is damaged{reason}; to see all damage: "
        f"{command('validate', table=setting.table.uri)}"
    )


def _lost_note(setting: PlanContext, rows: pyarrow.Table) -> str:
    is_are, them = _words(rows)
    repair = _repair(setting, rows.column("hash").combine_chunks())
    return (
        f"{plural(rows.num_rows, 'file')} that the log adds and does not remove {is_are} missing from version "
        f"{setting.snapshot.version} and {is_are} kept ({_example(rows)}): a checkpoint lost {them} [{RULE}]; to see "
        f"why: {command('validate', table=setting.table.uri)}{repair}"
    )


def _gap_note(setting: PlanContext, rows: pyarrow.Table) -> str:
    is_are, them = _words(rows)
    return (
        f"{plural(rows.num_rows, 'file')} that the log adds {is_are} missing from version {setting.snapshot.version} "
        f"and {is_are} kept ({_example(rows)}): the log has a gap, and it is not known whether "
        f"{missing_commits(setting)} removed {them} [log.gap]; to see more: "
        f"{command('validate', table=setting.table.uri)}"
    )


def _repair(setting: PlanContext, files: pyarrow.Array) -> str:
    """Return the command that repairs the checkpoints, as the end of a sentence. Empty where no older files are left to
    repair them from, or where that cannot be determined; the plan does not depend on it.
    """
    try:
        wrong = _wrong_checkpoints(setting, files)
        if not wrong or not _is_repairable(setting, wrong[0]):
            return ""
    except (Unreadable, StorageFailed, Refused):
        return ""
    found = command("repair", table=setting.table.uri)
    return f"; to repair the {'checkpoint' if len(wrong) == 1 else 'checkpoints'}: {found}"


def _is_repairable(setting: PlanContext, instance: CheckpointInstance) -> bool:
    """Return True if a checkpoint differs from older files of the log."""
    from deltacli.operations.checkpoint.verify import CheckpointVerdict, verify_checkpoint

    listing = setting.references.listing
    return verify_checkpoint(setting.table, listing, instance).verdict is CheckpointVerdict.DIFFERS


def _wrong_checkpoints(setting: PlanContext, files: pyarrow.Array) -> Sequence[CheckpointInstance]:
    """Return the checkpoints from the first one that lacks one of these files to the newest, ascending. Later
    checkpoints lack a lost file, too, so only few of them are read.
    """
    used = setting.snapshot.segment.checkpoint
    if used is None:
        return ()
    adds = setting.references.history.unremoved_adds(files)
    first = pc.min(adds.versions).as_py()
    every = sorted(
        checkpoint for checkpoint in setting.references.listing.checkpoints if checkpoint.version <= used.version
    )
    later = [checkpoint for checkpoint in every if first is not None and checkpoint.version >= first]
    return later[bisect_left(later, True, key=lambda checkpoint: _lacks(setting, checkpoint, adds)) :]


def _lacks(setting: PlanContext, instance: CheckpointInstance, adds: NamedKeys) -> bool:
    """Return True if a checkpoint lacks one of the files added before it, or cannot be read."""
    listing = setting.references.listing
    others = {checkpoint: "checkpoint.unreadable" for checkpoint in listing.checkpoints if checkpoint != instance}
    try:
        live = live_keys(rebuild(setting.table, Log(listing), instance.version, unusable=others), setting.keys)
    except Unreadable:
        return True
    keys = adds.where(pc.less_equal(adds.versions, instance.version)).keys
    return bool(pc.any(pc.invert(pc.is_in(keys, value_set=live))).as_py())


def _words(rows: pyarrow.Table) -> tuple[str, str]:
    return ("is", "it") if rows.num_rows == 1 else ("are", "them")


def _example(rows: ArrowTable) -> str:
    example: str = rows.column("path")[0].as_py().decode("utf-8", "replace")
    return example
