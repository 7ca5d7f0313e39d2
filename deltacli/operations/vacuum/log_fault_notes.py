"""Notes on files that a vacuum keeps because the log is inconsistent, with the commands to repair it.

Spec: Checkpoints; Action Reconciliation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.checkpoint.layout import Layout, choose_layout
from deltacli.delta.log.log_path import LogFileKind
from deltacli.delta.log.segment import CheckpointInstance
from deltacli.errors import Refused, StorageFailed, Unreadable
from deltacli.hints import command
from deltacli.operations.table.file_history import RULE, NamedKeys, live_keys
from deltacli.operations.table.find_log import Log
from deltacli.operations.table.rebuild import rebuild
from deltacli.typing import ArrowTable
from deltacli.units import format_size, format_spans, gaps_in, named_ranges, plural

if TYPE_CHECKING:
    import pyarrow

    from deltacli.changing.plan import Amount
    from deltacli.operations.vacuum.plan_context import PlanContext

_COMMANDS = 5


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
    """Return the repair commands, as the end of a sentence. Empty where no older files are left to repair checkpoints
    from, or where that cannot be determined; the plan does not depend on it.
    """
    try:
        wrong = _wrong_checkpoints(setting, files)
        if not wrong or not _is_repairable(setting, wrong[0]):
            return ""
    except (Unreadable, StorageFailed, Refused):
        return ""
    versions = sorted({checkpoint.version for checkpoint in wrong})
    if len(versions) < len(wrong) or any(checkpoint.kind is not LogFileKind.CLASSIC_CHECKPOINT for checkpoint in wrong):
        found = command("checkpoint", table=setting.table.uri, verify=True)
        return f"; to find the wrong checkpoints: {found}" if found else ""
    return _rewriting(setting, versions)


def _is_repairable(setting: PlanContext, instance: CheckpointInstance) -> bool:
    """Return True if a checkpoint differs from older files of the log."""
    from deltacli.operations.checkpoint.verify import CheckpointVerdict, verify_checkpoint

    listing = setting.references.listing
    return verify_checkpoint(setting.table, listing, instance).verdict is CheckpointVerdict.DIFFERS


def _rewriting(setting: PlanContext, versions: Sequence[int]) -> str:
    """Return the commands that rewrite classic checkpoints, oldest first, each from the previous one. Other forms would
    not be replaced.
    """
    snapshot = setting.snapshot
    is_default = choose_layout(snapshot.protocol, snapshot.properties, None) is Layout.CLASSIC
    form = {} if is_default else {"layout": "classic"}
    commands = [
        command("checkpoint", table=setting.table.uri, **form, force=True, version=version) for version in versions
    ]
    what = "checkpoint" if len(commands) == 1 else "checkpoints, oldest first"
    more = f", and the same for {named_ranges('version', versions[_COMMANDS:])}" if versions[_COMMANDS:] else ""
    return f"; to repair the {what}: {' && '.join(commands[:_COMMANDS])}{more}"


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
