"""Putting a backup back: a plan that asks whether the log can do without what is in the places of its files, and what
keeps that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from deltacli.changing.proofs import Noted, Proof
from deltacli.delta.log.log_path import HINT_NAME, LOG_DIRECTORY
from deltacli.delta.log.segment import CheckpointInstance, LogListing
from deltacli.delta.vacuum.keys import PathKeys
from deltacli.errors import (
    CommitCorrupt,
    DeltacliError,
    NotATable,
    OutcomeUnknown,
    PartlyDone,
    Refused,
    StorageFailed,
    Unreadable,
    VersionAbsent,
)
from deltacli.hints import command
from deltacli.operations.log.log_copy import StoredFile, list_whole_log, log_location, versioned
from deltacli.operations.recover.copies import copy_file
from deltacli.operations.recover.log_files import fault_of_log_file
from deltacli.operations.recover.object_versions import FileMap, MappedFile
from deltacli.operations.repair.kept_files import (
    Kept,
    Manifest,
    digest_at,
    digest_of_file,
    open_backup,
    read_manifest,
)
from deltacli.operations.table.file_history import live_keys
from deltacli.operations.table.find_log import Log, list_log
from deltacli.operations.table.rebuild import rebuild
from deltacli.storage import Created, ReadStorage
from deltacli.storage.base import require_writable
from deltacli.units import format_ranges, named_ranges, plural

if TYPE_CHECKING:
    from deltacli.operations.table.handle import TableHandle


class PutBack(NamedTuple):
    """What was put back of a backup. `kept` is where the files that it replaced are kept, None without any."""

    files: int
    size_bytes: int
    unchanged: int
    kept: str | None = None


class Put(NamedTuple):
    """A file to put back, and the SHA-256 of what is in its place, None without one."""

    kept: Kept
    proof: Proof
    replaced: str | None


@dataclass(frozen=True, eq=False)
class UndoPlan:
    """What would be put back of a backup: `puts` in their order, while `newest` is the version of the table."""

    table: TableHandle
    source: ReadStorage
    puts: tuple[Put, ...]
    unchanged: int
    newest: int

    @property
    def amount(self) -> PutBack:
        """Return the files that would be put back."""
        return PutBack(len(self.puts), sum(one.kept.size_bytes for one in self.puts), self.unchanged)


def plan_undo(table: TableHandle, uri: str) -> UndoPlan:
    """Return what would be put back of a backup; files that are there unchanged stay.

    Raises Unreadable for a directory without a manifest and for a damaged backup; Refused where another writer has
    committed since and the backup has files of the log (`repair.log-moved-on`), where versions could not be rebuilt any
    more (`repair.undo-loses-versions`), and for the backup of another table.
    """
    require_writable(table.storage)
    table, store = table.held(), table.open_other(uri)
    noted = read_manifest(table, store, uri)
    of_log = [one for one in noted.files if one.path.startswith(f"{LOG_DIRECTORY}/")]
    newest = _newest(table)
    if of_log:
        _require_no_commit(newest, noted)
    waiting = [one for one in noted.files if digest_at(table.storage, one.path) != one.sha256]
    for one in waiting:
        if digest_of_file(store, one.kept) != one.sha256:
            raise Unreadable(f"{one.kept} of the backup is damaged", code="repair.backup-damaged", facts={"in": uri})
    _require_rebuilt(table, store, noted, [one for one in waiting if one in of_log])
    puts = [Put(one, Noted(one.sha256), digest_at(table.storage, one.path)) for one in sorted(waiting, key=_order)]
    return UndoPlan(table, store, tuple(puts), len(noted.files) - len(waiting), newest)


def execute_undo(plan: UndoPlan, journal: Journal | None = None) -> PutBack:
    """Keep what is in the places of the files of a plan in a backup of its own, then put them back, byte for byte.
    Running it again continues.

    Raises Refused where the table has changed since the plan; PartlyDone for what fails once a file was put.
    """
    table, told = plan.table, journal or Journal()
    if _newest(table) != plan.newest:
        raise _changed("its newest version is another one")
    backup = open_backup(table, plan.newest if plan.newest >= 0 else None, None, None)
    backup.keep([one.kept.path for one in plan.puts])
    if backup.kept:
        told.kept = backup.uri
    try:
        for one in plan.puts:
            _put(plan, one)
            told.files += 1
    except OutcomeUnknown:
        raise
    except DeltacliError as fault:
        if not told.files:
            raise
        raise PartlyDone.after(fault, told.so_far) from fault
    return plan.amount._replace(kept=told.kept)


@dataclass(slots=True)
class Journal:
    """What was put back so far, and where what it replaced is kept."""

    files: int = 0
    kept: str | None = None

    @property
    def so_far(self) -> str:
        """Return it in words."""
        kept = "" if self.kept is None else f"; what they replaced is kept in {self.kept}"
        return f"{plural(self.files, 'file')} put back{kept}"


def put_back(table: TableHandle, uri: str, *, dry_run: bool = False) -> PutBack:
    """Put the files of a backup back in their places. Raises what `plan_undo` and `execute_undo` raise."""
    plan = plan_undo(table, uri)
    return plan.amount if dry_run or not plan.puts else execute_undo(plan)


def _put(plan: UndoPlan, one: Put) -> None:
    """Put a file in its place, where that is as it was when the plan was made."""
    kept, storage = one.kept, plan.table.writable()
    seen = digest_at(storage, kept.path)
    if seen == kept.sha256:
        return
    if seen != one.replaced:
        raise _changed(f"{kept.path} is another file")
    replace = one.replaced is not None
    done = copy_file(plan.source, kept.kept, kept.size_bytes, storage, target=kept.path, replace=replace)
    if not isinstance(done, Created) and digest_at(storage, kept.path) != kept.sha256:
        raise StorageFailed(f"{kept.path} could not be put back")


def _changed(what: str) -> Refused:
    return Refused(
        f"the table has changed since the plan was made: {what}",
        code="repair.plan-stale",
        hint=command("repair", dry_run=True),
    )


def _order(kept: Kept) -> tuple[bool, bool, bool]:
    """Return where a file comes: data, then sidecars and commits, then checkpoints, then the hint."""
    is_checkpoint = ".checkpoint." in kept.path
    return kept.path.startswith(f"{LOG_DIRECTORY}/"), is_checkpoint, kept.path == f"{LOG_DIRECTORY}/{HINT_NAME}"


def _newest(table: TableHandle) -> int:
    try:
        return list_log(table.storage).newest_version
    except NotATable:
        return -1


def _require_no_commit(present: int, noted: Manifest) -> None:
    newest = max([-1 if noted.version is None else noted.version, *noted.committed])
    if present > newest:
        raise Refused(
            f"nothing was changed: version {present} was committed after the repair, which ended at {newest}",
            code="repair.log-moved-on",
            facts={"why": "an older file of the log beside newer commits would be a state that never existed"},
            hint=command("history", limit=10),
        )


def _require_rebuilt(table: TableHandle, store: ReadStorage, noted: Manifest, waiting: Sequence[Kept]) -> None:
    """Raise Refused where versions that can be rebuilt now could not be afterwards, or would be other ones.

    A file that a repair replaced is damaged as a rule. It does no harm beside what the repair rebuilt it from; where
    that has expired since, the file in its place is all there is.
    """
    present = list_whole_log(table.storage) or {}
    after = dict(present)
    files = {
        log_location(name): MappedFile(table.storage, log_location(name), file.size_bytes, file.modified_ms)
        for name, file in present.items()
    }
    for one in waiting:
        stored = StoredFile(one.path.removeprefix(f"{LOG_DIRECTORY}/"), one.size_bytes, one.modified_ms)
        after[stored.name] = stored
        files[one.path] = MappedFile(store, one.kept, one.size_bytes, one.modified_ms)
    view = table.over(FileMap(table.storage.uri, files, table.storage.capabilities.parallel_reads))
    put = {one.path.removeprefix(f"{LOG_DIRECTORY}/") for one in waiting}
    before, listing = versioned(present.values()), versioned(after.values())
    doubtful = set[str]()
    for checkpoint in listing.checkpoints:
        names = {file.name for file in checkpoint.files}
        if names & put and not _is_as_now(table, before, view, checkpoint):
            doubtful |= names
    if not noted.log.issubset(present):  # something of the log expired since, so what is put back is not as it was
        doubtful |= {name for name in put if name in after and fault_of_log_file(view.storage, after[name]) is not None}
    rest = versioned(file for name, file in after.items() if name not in doubtful)
    lost = sorted(set(before.reconstructable) - set(rest.reconstructable))
    if lost:
        raise Refused(
            f"nothing was changed: {named_ranges('version', lost)} could not be rebuilt any more, because "
            f"{min(doubtful & put)} of the backup is damaged and the log does not have the commits to do without it",
            code="repair.undo-loses-versions",
            facts={
                "compared": f"the versions that the log rebuilds now, {format_ranges(before.reconstructable)}, with "
                f"those afterwards, {format_ranges(rest.reconstructable)}",
            },
            hint=command("validate", level="log"),
        )


def _is_as_now(table: TableHandle, before: LogListing, view: TableHandle, checkpoint: CheckpointInstance) -> bool:
    """Return True for a checkpoint that reads as its version does now."""
    keys = PathKeys((table.storage.uri, *table.storage.aliases))
    try:
        theirs = rebuild(view, Log(LogListing({}, (checkpoint,))), checkpoint.version)
        now = rebuild(table, Log(before), checkpoint.version)
        found, expected = (set(live_keys(one, keys).to_pylist()) for one in (theirs, now))
    except (Unreadable, CommitCorrupt, VersionAbsent):
        return False
    return found == expected and (theirs.raw_metadata, theirs.raw_protocol) == (now.raw_metadata, now.raw_protocol)
