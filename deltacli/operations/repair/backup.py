"""The backup of a repair: every file that it replaces or moves, byte for byte, with a manifest; and putting it back, by
a plan that asks whether the log can do without what is in the places of its files.

Its directory is hidden from readers and vacuums: `_deltacli_backup/<run>` in the table, or `<table id>/<run>` in a
quarantine. A file is in the manifest before it is touched. Commits are not in it: they are undone by a restore.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from deltacli.changing.base_version import BaseVersion, identify_commit
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.derived_files import annotate_interruption
from deltacli.changing.proofs import Proof, RecordedDigest
from deltacli.core.errors import (
    NOTHING_CHANGED,
    CommitCorrupt,
    DeltacliError,
    FileMissing,
    NotATable,
    Refused,
    StorageFailed,
    Unreadable,
    VersionAbsent,
    command,
)
from deltacli.core.ranges import format_ranges, name_ranges
from deltacli.core.times import format_timestamp
from deltacli.core.units import plural
from deltacli.delta.log.segment import (
    HINT_NAME,
    LOG_DIRECTORY,
    CheckpointInstance,
    LogFileKind,
    LogListing,
    commit_name,
    parse_log_path,
)
from deltacli.delta.paths.keys import PathKeys
from deltacli.operations.log.log_copy import StoredFile, list_whole_log, log_location, versioned
from deltacli.operations.recover.copies import copy_file, refuse_sparse
from deltacli.operations.recover.log_files import fault_of_log_file
from deltacli.operations.recover.sources import FileMap, MappedFile
from deltacli.operations.repair.backup_manifest import (
    MANIFEST,
    BackupFile,
    BackupManifest,
    Past,
    Unrecorded,
    manifest_bytes,
    name_in_backup,
    read_backup_manifest,
)
from deltacli.operations.vacuum.quarantine import open_quarantine
from deltacli.storage import Created, Failed, ReadStorage, Storage
from deltacli.storage.hadoop_checksums import is_checksum_name
from deltacli.storage.optional_interfaces import require_writable
from deltacli.table.file_history import read_live_keys
from deltacli.table.find_log import ListedLog, list_log
from deltacli.table.handle import managed_store
from deltacli.table.rebuild import rebuild_version

if TYPE_CHECKING:
    from deltacli.changing.execution import ChangeExecution
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

BACKUP_DIRECTORY = "_deltacli_backup"
_BLOCK = 8 << 20


def _past_at(table: TableHandle, listing: LogListing, version: int) -> Past:
    file = identify_commit(listing, version)
    return Past(version, file and file.name, file and digest_at(table.storage, log_location(file.name)))


@dataclass(eq=False)
class Backup:
    """The backup of one run; nothing is written before the first file is kept. `newest` is the version at which the
    log ended when the run was planned.
    """

    table: TableHandle
    version: int | None
    newest: int
    store: Storage
    directory: str
    kept: list[BackupFile] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    log_files: list[str] | None = None
    past: Past | None = None
    left: dict[str, str | None] = field(default_factory=dict)
    _copies: list[str] = field(default_factory=list)

    @property
    def uri(self) -> str:
        return f"{self.store.uri}/{self.directory}"

    def keep(self, paths: Iterable[str]) -> None:
        """Copy files before they are replaced or moved, except missing ones. Raises StorageFailed for a wrong copy."""
        names = {one.path for one in self.kept}
        fresh = [one for path in dict.fromkeys(paths) if path not in names and (one := self._copy(path)) is not None]
        if fresh:
            if self.past is None:
                self.past = self._past()
            self.kept += fresh
            self._write_manifest()

    def discard(self, fault: BaseException) -> None:
        """Delete what was kept, as nothing was replaced; an error names the backup that cannot be deleted."""
        undeleted: list[str] = []
        try:
            gone = self.store.delete_many([*self._copies, self.below(MANIFEST)] if self._copies else ())
            undeleted += [path for path, answer in gone if isinstance(answer, Failed)]
            names = [path.split("/") for path in self._copies]
            parents = {"/".join(parts[:count]) for parts in names for count in range(1, len(parts))}
            for directory in sorted(parents, reverse=True):
                self.store.remove_directory(directory)
        except DeltacliError:
            undeleted.append(self.directory)
        if undeleted and isinstance(fault, DeltacliError):
            fault.facts.setdefault("not deleted", self.uri)
        self.kept.clear()

    def note_versions(self, versions: Iterable[int]) -> None:
        """Record versions that this run committed or brought back: they do not prevent that files are put back."""
        self.committed += versions
        if self.kept:
            self.past = self._past()
            self._write_manifest()

    def note_left(self) -> None:
        """Record the newest version that this run knows of, and what is in the places of the kept files now.

        What was replaced belongs to no other past, and goes over no other file. Files of the log are looked at again
        each time, because a later step of the run may replace them once more.
        """
        if not self.kept:
            return
        self.past = self._past()
        for file in self.kept:
            if file.is_of_log or file.path not in self.left:
                self.left[file.path] = digest_at(self.table.storage, file.path)
        self._write_manifest()

    def note_end(self) -> None:
        """Record the files that the log has now: where one is gone later, what was replaced may not be put back."""
        if self.kept:
            self.log_files = sorted(list_whole_log(self.table.storage) or {})
            self._write_manifest()

    def _past(self) -> Past:
        version = max([self.newest, *self.committed])
        return _past_at(self.table, _listed(self.table), version)

    def below(self, name: str) -> str:
        """Return the path of a further file of the backup."""
        return f"{self.directory}/{name}"

    def _copy(self, path: str) -> BackupFile | None:
        origin = self.table.storage
        refuse_sparse(origin, path)
        if (seen := digest_at(origin, path)) is None:
            return None
        stat = origin.stat(path)
        name = name_in_backup(path)
        target = self.below(name)
        self._copies.append(target)
        outcome = copy_file(origin, path, stat.size_bytes, self.store, target=target)
        if not isinstance(outcome, Created) or digest_at(self.store, target) != seen:
            raise StorageFailed(f"{path} could not be kept in {self.uri}", code="repair.backup-differs")
        return BackupFile(path, name, stat.size_bytes, seen, stat.modified_ms)

    def _write_manifest(self) -> None:
        manifest = BackupManifest(
            self.version,
            self.committed,
            self.kept,
            None if self.log_files is None else frozenset(self.log_files),
            self.past,
            self.left,
            is_verified=True,
        )
        self.store.put(self.below(MANIFEST), manifest_bytes(manifest, self.table.uri, self.table.clock()))


def open_backup(
    table: TableHandle, version: int | None, newest: int, table_id: str | None, quarantine: str | None
) -> Backup:
    """Return the backup of a new run. Raises what `open_quarantine` raises."""
    run = f"repair-{format_timestamp(table.clock())[:19].replace(':', '').replace('-', '')}Z-{table.machine.new_hex(4)}"
    if quarantine is None:
        return Backup(table, version, newest, table.writable(), f"{BACKUP_DIRECTORY}/{run}")
    store = open_quarantine(table, quarantine, table_id or "unknown-table")
    return Backup(table, version, newest, store, f"{table_id or 'unknown-table'}/{run}")


def digest_at(storage: ReadStorage, path: str) -> str | None:
    """Return the SHA-256 of a file, None where there is none."""
    import hashlib

    found = hashlib.sha256()
    try:
        with storage.open(path) as reader:
            while block := reader.read(_BLOCK):
                found.update(block)
    except FileMissing:
        return None
    return found.hexdigest()


class PutBack(NamedTuple):
    """What was put back of a backup. `kept` is where the files that it replaced are kept, None without any."""

    files: int = 0
    size_bytes: int = 0
    unchanged: int = 0
    kept: str | None = None

    def describe_progress(self) -> str:
        kept = "" if self.kept is None else f"; what they replaced is kept in {self.kept}"
        return f"{plural(self.files, 'file')} put back{kept}"

    def build_incomplete_error(self) -> None:
        """Return None: an error ends it."""


class Put(NamedTuple):
    """A file to put back, and the SHA-256 of what is in its place, None without one."""

    kept: BackupFile
    proof: Proof
    replaced: str | None


@dataclass(frozen=True, eq=False)
class UndoPlan:
    """What would be put back of the backup at an address, in this order."""

    base_version: BaseVersion
    backup: str
    source: ReadStorage
    puts: tuple[Put, ...]
    unchanged: int

    @property
    def amount(self) -> PutBack:
        return PutBack(len(self.puts), sum(one.kept.size_bytes for one in self.puts), self.unchanged)

    @property
    def is_noop(self) -> bool:
        return not self.puts

    def build_refusal(self) -> None:
        """Return None: what objects to it is an error of the plan."""

    def effects(self) -> Iterator[str]:
        yield from (f"put {one.kept.path} back" for one in self.puts)


@dataclass(frozen=True)
class Undo:
    """Putting back, byte for byte, what a repair replaced or moved, from its backup."""

    kind: ClassVar[ChangeKind] = ChangeKind.RECOVER_FILES

    backup: str

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> UndoPlan:  # noqa: ARG002  (needs no version)
        if (managed := managed_store(table.storage)) is not None:
            managed.refuse("the undo of a repair")
        return plan_undo(table, self.backup)

    def outcome(self, plan: UndoPlan) -> PutBack:
        return PutBack(unchanged=plan.unchanged)

    def execute(self, execution: ChangeExecution[UndoPlan, PutBack]) -> None:
        """Keep what is in the places of the files in a backup of its own, plan again, and put them back. Planning and
        running it again continues.

        Raises what the plan raises, and Refused (`repair.plan-stale`) where others have changed one of the files.
        """
        execution.recheck_table()
        plan, table = execution.plan, execution.table
        agreed = {one.kept.path: one.replaced for one in plan.puts}
        newest = plan.base_version.version
        backup = open_backup(table, newest if newest >= 0 else None, newest, None, None)
        try:
            backup.keep(agreed)
            again = self.plan(table)
            if _paths_without_hint(again) != _paths_without_hint(plan):
                execution.accept_new_plan(again)
            puts = list(_still_right(again, agreed, {one.path: one.sha256 for one in backup.kept}))
        except BaseException as stop:
            backup.discard(stop)
            raise
        execution.outcome = execution.outcome._replace(kept=backup.uri if backup.kept else None)
        for one in puts:
            execution.has_begun = True  # whatever ends it, the file may be there
            try:
                with annotate_interruption(one.kept.path):
                    _put(again.source, one, execution.store)
            except Refused as fault:
                if not execution.outcome.files:
                    execution.has_begun = False
                    backup.discard(fault)
                raise
            so_far = execution.outcome
            execution.outcome = so_far._replace(
                files=so_far.files + 1, size_bytes=so_far.size_bytes + one.kept.size_bytes
            )
        backup.note_left()


def plan_undo(table: TableHandle, uri: str) -> UndoPlan:
    """Return what would be put back of a backup; files that are there unchanged stay, and so do commits away that have
    expired since.

    A hint that others may have written since the repair stays: it is newer than what the repair replaced.

    Raises Unreadable for a directory without a manifest and for a damaged backup; Refused where another writer has
    committed since and the backup has files of the log, or where a file of the log is another one than the repair left
    there (`repair.log-moved-on`), where a data file is another one, or what was left is not known
    (`repair.not-as-left`), where versions could not be rebuilt any more (`repair.undo-loses-versions`), and for the
    backup of another table.
    """
    require_writable(table.storage)
    table, store = table.bind_to_directory(), table.open_other(uri)
    noted = read_backup_manifest(table.storage, store, uri)
    of_log = [one for one in noted.files if one.is_of_log]
    listing = _listed(table)
    newest = listing.newest_version
    if of_log:
        _require_same_past(table, listing, noted)
    oldest = min(listing.reconstructable, default=0)
    present = {
        one.path: digest_at(table.storage, one.path)
        for one in noted.files
        if not _has_expired(one, noted, listing, oldest)
    }
    waiting = list[BackupFile]()
    for one in noted.files:
        if one.path not in present or present[one.path] == one.sha256:
            continue
        if one.path == log_location(HINT_NAME) and _may_be_of_others(noted, one, present[one.path]):
            continue
        _require_as_left(noted, one, present[one.path], uri)
        waiting.append(one)
    # A local store deletes the checksum file of a file that is put back, so these come last.
    waiting.sort(key=lambda one: is_checksum_name(one.path.rpartition("/")[2]))
    _require_no_gap(newest, waiting)
    for one in waiting:
        if digest_at(store, one.kept) != one.sha256:
            raise Unreadable(
                f"{one.kept} of the backup is damaged or missing", code="repair.backup-damaged", facts={"in": uri}
            )
    _require_rebuilt(table, store, noted, [one for one in waiting if one in of_log])
    puts = [Put(one, RecordedDigest(one.sha256), present[one.path]) for one in sorted(waiting, key=_order)]
    base_version = BaseVersion(table, newest, table.clock(), identify_commit(listing, newest))
    return UndoPlan(base_version, uri, store, tuple(puts), len(noted.files) - len(waiting))


def _may_be_of_others(noted: BackupManifest, hint: BackupFile, present: str | None) -> bool:
    """Return True if others may have written the hint since the repair, which then stays.

    An interrupted repair has not recorded what it left. Readers list the log if a hint is missing or behind.
    """
    left = noted.left_at(hint.path)
    return left is Unrecorded.INTERRUPTED or (not isinstance(left, Unrecorded) and left != present)


def _require_as_left(noted: BackupManifest, kept: BackupFile, present: str | None, uri: str) -> None:
    """Require that the place of a file is as the repair left it.

    A manifest that was edited could name any file of the table, also one that nothing is wrong with.

    Args:
        noted: The manifest of the backup.
        kept: The file that was replaced or moved.
        present: The SHA-256 of what is in its place now; None for nothing.
        uri: The address of the backup.

    Raises:
        Refused: If another file is there, or none, or if it is not known what the repair left there.
    """
    left = noted.left_at(kept.path)
    if left is Unrecorded.INTERRUPTED:
        # The digest of the manifest proves that the repair was about to replace this file.
        return
    if left is Unrecorded.OLDER_RELEASE and not kept.is_of_log and present is None:
        # Nothing is replaced, and a data file that no version has is read by nobody.
        return
    if isinstance(left, Unrecorded):
        raise _not_as_left(f"what the repair left at {kept.path} is not known: {left.value}", kept, uri)
    if left == present:
        return
    what = f"{kept.path}, which the repair left, is gone"
    if present is not None:
        what = f"{kept.path} is another file than the repair left"
    raise _log_moved_on(what) if kept.is_of_log else _not_as_left(what, kept, uri)


def _not_as_left(what: str, kept: BackupFile, uri: str) -> Refused:
    """Return the refusal to replace a file of which nothing proves that it is the one of the repair."""
    return Refused(
        what,
        preamble=NOTHING_CHANGED,
        code="repair.not-as-left",
        facts={"kept copy": f"{uri.rstrip('/')}/{kept.kept}"},
        hint=command("validate", level="footers"),
    )


def _has_expired(kept: BackupFile, noted: BackupManifest, listing: LogListing, oldest: int) -> bool:
    """Return True for a commit that was repaired, and has expired since: the log begins later now.

    A repair that was killed has not noted the files of the log. A commit of its backup that is gone, below every
    version that can be rebuilt, stays away too: it would come back damaged, and no version needs it.

    Args:
        kept: A file of the backup.
        noted: The manifest of the backup.
        listing: The log as it is now.
        oldest: The oldest version that can be rebuilt from it.
    """
    name = kept.path.removeprefix(f"{LOG_DIRECTORY}/")
    path = parse_log_path(name)
    if kept.path != log_location(name) or path.kind is not LogFileKind.COMMIT:
        return False
    was_there = noted.log is None or name in noted.log
    return was_there and path.version not in listing.commits and path.version < oldest


def _paths_without_hint(plan: UndoPlan) -> list[str]:
    """Return the files that a plan puts back. Writers may replace the hint at any time, and theirs stays."""
    return [put.kept.path for put in plan.puts if put.kept.path != log_location(HINT_NAME)]


def _still_right(plan: UndoPlan, agreed: Mapping[str, str | None], kept: Mapping[str, str]) -> Iterator[Put]:
    """Yield the files to put, except a hint written since. Raises Refused where another of the files has changed."""
    for one in plan.puts:
        path = one.kept.path
        if {one.replaced} == {agreed.get(path), kept.get(path)}:
            yield one
        elif path != log_location(HINT_NAME):
            raise _changed(path)


def _put(source: ReadStorage, one: Put, storage: Storage) -> None:
    """Put a file in its place, where that is as it was when the plan was made."""
    kept = one.kept
    seen = digest_at(storage, kept.path)
    if seen == kept.sha256:
        return
    if seen != one.replaced:
        raise _changed(kept.path)
    done = copy_file(source, kept.kept, kept.size_bytes, storage, target=kept.path, replace=one.replaced is not None)
    if not isinstance(done, Created) and digest_at(storage, kept.path) != kept.sha256:
        raise StorageFailed(f"{kept.path} could not be put back")


def _changed(path: str) -> Refused:
    return Refused(
        f"{path} is another file than when the plan was made",
        preamble=NOTHING_CHANGED,
        code="repair.plan-stale",
        hint=command("repair", dry_run=True),
    )


def _order(kept: BackupFile) -> tuple[bool, bool, bool]:
    """Return where a file comes: data, then sidecars and commits, then checkpoints, then the hint."""
    is_checkpoint = ".checkpoint." in kept.path
    return kept.path.startswith(f"{LOG_DIRECTORY}/"), is_checkpoint, kept.path == f"{LOG_DIRECTORY}/{HINT_NAME}"


def _listed(table: TableHandle) -> LogListing:
    try:
        return list_log(table.storage)
    except NotATable:
        return LogListing({}, ())


def _require_same_past(table: TableHandle, listing: LogListing, noted: BackupManifest) -> None:
    """Raise Refused where the log does not end as at the end of the repair, or as an undo cut short left it."""
    present, past = listing.newest_version, noted.past
    ended = max([-1 if noted.version is None else noted.version, *noted.committed]) if past is None else past.version
    if present > ended:
        raise _log_moved_on(f"version {present} was committed after the repair, which ended at {ended}")
    if past is None:
        return
    if present < ended:
        raise _log_moved_on(f"the repair ended at version {ended}, and the newest is {present} now: it was rolled back")
    now = _past_at(table, listing, present)
    kept = [(one.path.removeprefix(f"{LOG_DIRECTORY}/"), one.sha256) for one in noted.files]
    if now != past and (now.name, now.sha256) not in kept:
        raise _log_moved_on(f"version {present} is another one than at the end of the repair: the log has another past")


def _require_no_gap(present: int, waiting: Iterable[BackupFile]) -> None:
    """Raise Refused where a commit would come back above a gap: the log was rolled back since the repair."""
    names = (one.path.removeprefix(f"{LOG_DIRECTORY}/") for one in waiting)
    paths = (parse_log_path(name) for name in names)
    for version in sorted(path.version for path in paths if path.kind is LogFileKind.COMMIT):
        if version > present + 1:
            what = (
                f"the repair replaced commit {version}, and the newest is {present} now: the log was rolled back since"
            )
            raise _log_moved_on(what)
        present = max(present, version)


def _log_moved_on(what: str) -> Refused:
    return Refused(
        what,
        preamble=NOTHING_CHANGED,
        code="repair.log-moved-on",
        facts={"why": "a mixture of two pasts of the log would be a state that never existed"},
        hint=command("history", limit=10),
    )


def _require_rebuilt(
    table: TableHandle, store: ReadStorage, noted: BackupManifest, waiting: Sequence[BackupFile]
) -> None:
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
    view = table.replace_storage(FileMap(table.storage.uri, files, table.storage.capabilities.parallel_reads))
    put = {one.path.removeprefix(f"{LOG_DIRECTORY}/") for one in waiting}
    before, listing = versioned(present.values()), versioned(after.values())
    doubtful = set[str]()
    for checkpoint in listing.checkpoints:
        names = {file.name for file in checkpoint.files}
        if names & put and not _is_as_now(table, before, view, checkpoint):
            doubtful |= names
    if noted.log is None or not noted.log.issubset(
        present
    ):  # something of the log expired since, so what is put back is not as it was
        shared = sorted(put & after.keys())
        doubtful |= {name for name in shared if fault_of_log_file(view.storage, after[name]) is not None}
    rest = versioned(file for name, file in after.items() if name not in doubtful)
    broken = set[int]()  # damaged commits that a checkpoint stands in for
    for checkpoint in listing.checkpoints:
        if doubtful.isdisjoint(file.name for file in checkpoint.files):
            continue
        start = max((one.version for one in rest.checkpoints if one.version <= checkpoint.version), default=-1)
        for version in range(start + 1, checkpoint.version + 1):
            file = after.get(commit_name(version))
            if file is not None and file.name not in put and fault_of_log_file(table.storage, file) is not None:
                broken.add(version)
    kept = [
        replace(one, commits={version: file for version, file in one.commits.items() if version not in broken})
        for one in (before, rest)
    ]
    lost = sorted(set(kept[0].reconstructable) - set(kept[1].reconstructable))
    if lost:
        raise Refused(
            f"{name_ranges('version', lost)} could not be rebuilt any more, because "
            f"{min(doubtful & put)} of the backup is damaged and the log does not have the commits to do without it",
            preamble=NOTHING_CHANGED,
            code="repair.undo-loses-versions",
            facts={
                "compared": f"the versions that the log rebuilds now, {format_ranges(before.reconstructable)}, with "
                f"those afterwards, {format_ranges(rest.reconstructable)}"
            },
            hint=command("validate", level="log"),
        )


def _is_as_now(table: TableHandle, before: LogListing, view: TableHandle, checkpoint: CheckpointInstance) -> bool:
    """Return True for a checkpoint that reads as its version does now."""
    keys = PathKeys((table.storage.uri, *table.storage.aliases))
    try:
        theirs = rebuild_version(view, ListedLog(LogListing({}, (checkpoint,))), checkpoint.version)
        now = rebuild_version(table, ListedLog(before), checkpoint.version)
        found, expected = (set(read_live_keys(one, keys).to_pylist()) for one in (theirs, now))
    except (Unreadable, CommitCorrupt, VersionAbsent):
        return False
    return found == expected and (theirs.raw_metadata, theirs.raw_protocol) == (now.raw_metadata, now.raw_protocol)
