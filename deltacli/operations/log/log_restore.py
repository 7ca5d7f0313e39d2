"""`log restore`: restores files that `_delta_log` lacks from a backup, after all files were compared.

The order determines what a reader sees after an interrupted run. The newest commit is written first: from then on the
log's newest version is the final one, which either cannot be rebuilt yet or is correct. A writer can therefore not
build on an older version. The second file is the commit that an active writer would create next. If that writer is
faster, the first file is deleted again. The rest follows, newest first; sidecars before checkpoints, the hint last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as _replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, assert_never

from deltacli.changing.base_commit_errors import COMMITS_MISSING
from deltacli.changing.base_version import BaseVersion, identify_commit
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.clone_notes import NOTES_DIRECTORY, CloneNote, resolve_note_uri
from deltacli.changing.file_owners import (
    FileOwners,
    find_external_directories_of_version,
    find_file_owners,
    write_clone_notes,
)
from deltacli.changing.file_totals import FileTotals
from deltacli.changing.outcome import CompleteOutcome
from deltacli.changing.plan import PlanWithoutRefusals, TableUriMixin
from deltacli.core.errors import (
    NOTHING_CHANGED,
    CommitCorrupt,
    ConflictLost,
    FileMissing,
    Refused,
    StorageFailed,
    Unreadable,
    command,
    parameter,
    suggest_parameters,
)
from deltacli.core.progress import Progress, report_items, start_weighed_step
from deltacli.core.ranges import format_ranges, name_ranges
from deltacli.core.short_repr import short_repr
from deltacli.core.times import format_timestamp
from deltacli.core.units import plural
from deltacli.delta.log.actions import read_actions
from deltacli.delta.log.segment import (
    BACKUP_LIST,
    HINT_NAME,
    LOG_DIRECTORY,
    SIDECAR_DIRECTORY,
    Hint,
    LogFileKind,
    LogListing,
    commit_name,
    parse_log_path,
    read_hint,
)
from deltacli.engine.base import Engine
from deltacli.operations.log.log_copy import (
    AMOUNT_NAMES,
    BackedUp,
    BackupList,
    StoredFile,
    at_once,
    differing,
    digest,
    find_table_id,
    list_whole_log,
    log_location,
    read_list,
    versioned,
)
from deltacli.storage import Created, Deleted, Existed, ReadStorage, Storage, Unknown, has_link, is_address_of
from deltacli.storage.optional_interfaces import require_writable
from deltacli.table.find_log import list_log, read_hint_file
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.rebuild import read_snapshot
from deltacli.table.table_directories import require_no_paimon_table
from deltacli.table.version import Snapshot

if TYPE_CHECKING:
    from deltacli.changing.execution import ChangeExecution

# -- `log restore` -----------------------------------------------------------------------------------------------------

_NAMED = 5
_CHECKPOINTS = (LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.MULTI_PART_CHECKPOINT, LogFileKind.UUID_CHECKPOINT)


class Action(StrEnum):
    """The action for a file of the backup that the log lacks or has with other content."""

    ADD = "add"
    REPLACE = "replace"
    KEEP = "keep"
    """The log has another file of that name, which is kept."""


@dataclass(frozen=True, slots=True)
class RestoreItem:
    """One file. `seen_sha256` is the digest of the log's file of that name."""

    action: Action
    file: BackedUp
    seen_sha256: str | None = None

    @property
    def version(self) -> int:
        """Return the version in the file's name, -1 where it has none."""
        return self.file.stored.path.version

    def as_json(self) -> dict[str, Any]:
        return {"action": self.action.value, **self.file.as_json()}


@short_repr("backup", "newest_before", "writes", "kept", "unchanged=unchanged.files")
@dataclass(frozen=True, slots=True, repr=False)
class LogRestorePlan(TableUriMixin, PlanWithoutRefusals):
    """`writes` in their order, and files to keep. `claim`: the commit that a writer would create next, if restored."""

    base_version: BaseVersion
    source: Storage
    replaces: bool
    listed: BackupList
    writes: tuple[RestoreItem, ...]
    kept: tuple[RestoreItem, ...]
    unchanged: FileTotals
    only_in_log: FileTotals
    had_log: bool
    newest_before: int
    claim: int | None
    is_readable_after: bool
    """Whether the newest version can be rebuilt once all is written."""
    owners: FileOwners = field(default_factory=FileOwners)
    """The tables whose files the log names by absolute paths, which get a note of this table."""
    notes: tuple[str, ...] = ()

    @property
    def backup(self) -> str:
        return self.source.uri

    @property
    def is_noop(self) -> bool:
        return not self.writes

    def effects(self) -> Iterator[str]:
        yield from (f"{item.action.value} {item.file.name}" for item in self.writes)
        yield from (f"a note in {NOTES_DIRECTORY} of {uri}" for uri in self.owners.uris)

    @property
    def added(self) -> FileTotals:
        """The files that the log lacks."""
        return self.amount(Action.ADD)

    @property
    def replaced(self) -> FileTotals:
        """The files that differ, and are replaced."""
        return self.amount(Action.REPLACE)

    def amount(self, action: Action) -> FileTotals:
        items = (*self.writes, *self.kept)
        return FileTotals.from_sizes(item.file.size_bytes for item in items if item.action is action)

    def as_json(self, *, dry_run: bool) -> dict[str, Any]:
        """Return the fields of the document `deltacli.log-restore` except its items."""
        known = {"tableId": self.listed.table_id, "version": self.listed.version}
        return {
            "backup": self.backup,
            **{name: value for name, value in known.items() if value is not None},
            "timestampMs": self.listed.taken_ms,
            "timestamp": format_timestamp(self.listed.taken_ms),
            "dryRun": dry_run,
            "files": FileTotals.from_sizes(file.size_bytes for file in self.listed.files.values()).as_json(
                **AMOUNT_NAMES
            ),
            "added": self.amount(Action.ADD).as_json(**AMOUNT_NAMES),
            "replaced": self.amount(Action.REPLACE).as_json(**AMOUNT_NAMES),
            "kept": self.amount(Action.KEEP).as_json(**AMOUNT_NAMES),
            "unchanged": self.unchanged.as_json(**AMOUNT_NAMES),
            "onlyInLog": self.only_in_log.as_json(**AMOUNT_NAMES),
            "notes": list(self.notes),
        }

    def items(self) -> list[dict[str, Any]]:
        """Return the files to write, in order, and those that differ and are kept."""
        return [item.as_json() for item in (*self.writes, *self.kept)]


class _Relation(StrEnum):
    """The log's file with the name of a file of the backup."""

    ABSENT = "absent"
    SAME = "same"
    OTHER = "other"
    """Other content; of a commit, a valid one."""
    TORN = "torn"
    """A commit that cannot be parsed or is truncated."""
    BETTER = "better"
    """A commit that is torn in the backup."""


class _Compared(NamedTuple):
    file: BackedUp
    relation: _Relation
    seen_sha256: str | None = None

    @property
    def is_commit(self) -> bool:
        return self.file.stored.path.kind is LogFileKind.COMMIT


def plan_log_restore(table: TableHandle, source: Storage, *, replace: bool = False) -> LogRestorePlan:
    """Compare a log with its backup, and the backup with its digests.

    Raises Unreadable for a missing or damaged backup, PaimonTable for a Paimon table, and Refused where the backup is
    of another table, or where the result would mix two histories.
    """
    storage, engine, progress = table.storage, table.engine, table.progress
    log = list_whole_log(storage, progress=progress)
    if log is None:
        require_no_paimon_table(storage)
    listed = _require_complete(source)
    require_writable(storage)
    require_real_directories(storage, listed.files)
    present = log or {}
    sizes = (file.size_bytes for file in listed.files.values())
    compare = partial(_compare, storage, source, present)
    compared = list(
        report_items(
            engine.run(compare, listed.files.values(), at_once=at_once(storage, sizes)),
            progress,
            "comparing with the log",
            unit="files",
            total=len(listed.files),
        )
    )
    _require_same_table(storage, source, engine, listed, compared, is_empty=not present)
    _require_one_past(source, compared, replace=replace)
    items = [_item(storage, found, replace=replace) for found in compared if found.relation is not _Relation.SAME]
    # The log's own checkpoint is kept where that of the backup cannot be read or contradicts the backup's commits:
    # the log's one may have been repaired.
    replaced = {item.file.name for item in items if item.action is Action.REPLACE and _group_of(item) == "checkpoint"}
    wrong = _wrong_checkpoints(source, engine, replaced) if replaced else set()
    items = [_replace(item, action=Action.KEEP) if item.file.name in wrong else item for item in items]
    before = versioned(present.values())
    writes = [item for item in items if item.action is not Action.KEEP]
    is_readable_after = _require_readable(before, [*present.values(), *(item.file.stored for item in writes)])
    _require_proofs(storage, listed, compared, writes, before)
    _require_sound(source, writes, engine, progress)
    order, claim = _safe_order(writes, before)
    owners = _find_owners(table, source, writes)
    noted = (f"{uri} gets a note of this table, so that its vacuum keeps the files" for uri in owners.uris)
    return LogRestorePlan(
        base_version=BaseVersion(
            table, before.newest_version, table.clock(), identify_commit(before, before.newest_version)
        ),
        source=source,
        replaces=replace,
        listed=listed,
        writes=tuple(order),
        kept=tuple(item for item in items if item.action is Action.KEEP),
        unchanged=FileTotals.from_sizes(
            found.file.size_bytes for found in compared if found.relation is _Relation.SAME
        ),
        only_in_log=FileTotals.from_sizes(
            file.size_bytes for name, file in present.items() if name not in listed.files
        ),
        had_log=log is not None,
        newest_before=before.newest_version,
        claim=claim,
        is_readable_after=is_readable_after,
        owners=owners,
        notes=(*noted, *owners.warnings),
    )


def _find_owners(table: TableHandle, source: Storage, writes: Sequence[RestoreItem]) -> FileOwners:
    """Return the tables whose files the newest version of the backup names, as the log of a shallow clone does.

    A log that is restored to another place makes a second table that needs these files.
    """
    if not any(item.file.stored.path.version >= 0 for item in writes):
        return FileOwners()
    try:
        snapshot = read_snapshot(table.replace_storage(source).use_embedded_engine())
        directories = find_external_directories_of_version(snapshot, table.storage)
    except Unreadable:
        # The backup alone is not a readable log. It completes one that has these files, and its note, already.
        return FileOwners()
    if not directories:
        return FileOwners()
    return find_file_owners(table, directories, resolve_note_uri(table.storage))


def _require_complete(source: ReadStorage) -> BackupList:
    listed = read_list(source)
    if listed is None:
        raise Unreadable(
            "no backup of a log found",
            code="backup.list-missing",
            facts={"backup": source.uri, "needed": BACKUP_LIST},
            hint=command("undelete", sources=..., dry_run=True),
        )
    if not listed.is_complete:
        raise Unreadable(
            "the backup is incomplete",
            code="backup.unfinished",
            facts={"backup": source.uri, "begun": format_timestamp(listed.taken_ms), "of": listed.table},
        )
    return listed


def require_real_directories(storage: ReadStorage, names: Iterable[str]) -> None:
    """Raise Refused where a directory to write to is a link: the list of a backup is not trusted."""
    for directory in sorted({name.rpartition("/")[0] for name in names} - {""}):
        if has_link(storage, LOG_DIRECTORY, directory):
            raise Refused(
                f"{directory} in the log is or is below a symbolic link; files are not restored through links",
                code="restore.link",
                facts={"table": storage.uri, "directory": log_location(directory)},
                hint="replace the link with a directory, then restore again",
            )


def _compare(storage: ReadStorage, source: ReadStorage, present: Mapping[str, StoredFile], file: BackedUp) -> _Compared:
    """Compare the log's file of a name; a commit is always read, other files only where size or time differ."""
    found = present.get(file.name)
    is_commit = file.stored.path.kind is LogFileKind.COMMIT
    if found is None:
        return _Compared(file, _Relation.ABSENT)
    if found == file.stored and not is_commit:
        return _Compared(file, _Relation.SAME)
    try:
        data = storage.read(log_location(file.name))
    except FileMissing:
        return _Compared(file, _Relation.ABSENT)
    seen = digest(data)
    if seen == file.sha256:
        return _Compared(file, _Relation.SAME, seen)
    return _Compared(file, _relation_of_commits(source, file, data) if is_commit else _Relation.OTHER, seen)


def _relation_of_commits(source: ReadStorage, file: BackedUp, data: bytes) -> _Relation:
    """Distinguish a commit of another history from damage in the log or in the backup."""
    if not _is_sound(data, file.name):
        return _Relation.TORN
    try:
        copy = source.read(log_location(file.name))
    except FileMissing:
        return _Relation.OTHER
    if copy.startswith(data):
        return _Relation.TORN
    return _Relation.OTHER if _is_sound(copy, file.name) else _Relation.BETTER


def _is_sound(data: bytes, name: str) -> bool:
    """Return True for a commit with actions that can all be parsed."""
    try:
        return len(read_actions(data, name)) > 0
    except CommitCorrupt:
        return False


def _require_same_table(
    storage: ReadStorage,
    source: Storage,
    engine: Engine,
    listed: BackupList,
    compared: Sequence[_Compared],
    *,
    is_empty: bool,
) -> None:
    """Raise Refused for the backup of another table. An id may change in a history; an empty log matches any backup."""
    if is_empty or listed.table_id is None:
        return
    if any(found.relation is _Relation.SAME for found in compared if found.is_commit):
        return
    table_id = find_table_id(storage, engine)
    if table_id is not None and table_id != listed.table_id:
        raise Refused(
            "the backup is of another table",
            code="backup.other-table",
            facts={"backup": source.uri, "table id of the backup": listed.table_id, "table id of this table": table_id},
        )


def _require_one_past(source: ReadStorage, compared: Sequence[_Compared], *, replace: bool) -> None:
    """Raise Refused where a commit of the log differs from the backup's, because all later ones may differ, too.

    With `replace` a commit that cannot be parsed counts as damage, not as another history.
    """
    commits = [found for found in compared if found.is_commit]
    sound = sorted(found.file.stored.path.version for found in commits if found.relation is _Relation.OTHER)
    torn = sorted(found.file.stored.path.version for found in commits if found.relation is _Relation.TORN)
    if sound:
        raise Refused(
            f"commit {sound[0]} of the log differs from the backup: their histories have diverged",
            code="restore.diverged",
            facts={
                "backup": source.uri,
                "commits that differ": format_ranges(sound),
                "why": "a mixture of both would be a state that never existed",
            },
            hint=command("log cat", sound[0]),
        )
    if torn and not replace:
        raise Refused(
            f"commit {torn[0]} of the log is damaged; the backup has it intact",
            code="restore.damaged",
            facts={"backup": source.uri, "damaged commits": format_ranges(torn)},
            hint=suggest_parameters(parameter("log restore.replace", True)),
        )


def _require_proofs(
    storage: ReadStorage,
    listed: BackupList,
    compared: Sequence[_Compared],
    writes: Sequence[RestoreItem],
    before: LogListing,
) -> None:
    """Raise Refused for files above the newest commit that both logs have which nothing proves to be of this table: all
    of another address, as a copy of a table has its id and may have diverged from it; of this very address those above
    a commit that the backup lacks, as a log that was rolled back or replaced has others. An empty log needs no proof.
    """
    if before.newest_version < 0:
        return
    common = max(
        (found.file.stored.path.version for found in compared if found.is_commit and found.relation is _Relation.SAME),
        default=-1,
    )
    paths = (item.file.stored.path for item in writes)
    above = sorted({version for path in paths if (version := path.newest) > common})
    why = "it is the backup of another address, and no later commit is in both"
    reason = "a copy of a table has its id, and may have diverged from it"
    if is_address_of(storage, listed.table):
        alone = [version for version in before.commits if version > common and commit_name(version) not in listed.files]
        above = [version for version in above if alone and version > min(alone)]
        if above:
            why = f"commit {min(alone)} of the log is not in the backup, and no later commit is in both"
        reason = "a log that was rolled back or replaced may have diverged from its backup"
    if above:
        raise Refused(
            f"{name_ranges('version', above)} of the backup {'is' if len(above) == 1 else 'are'} not proven to be of "
            f"this table: {why}",
            code="recover.unproven",
            facts={
                "backup of": listed.table,
                "this table": storage.uri,
                "compared": f"commit {common} is the newest that both have" if common >= 0 else "no commit is in both",
                "why": reason,
            },
            hint=command("undelete", sources=..., accept_commits=format_ranges(above).replace(" ", ""), dry_run=True),
        )


def _item(storage: ReadStorage, found: _Compared, *, replace: bool) -> RestoreItem:
    if found.relation is _Relation.ABSENT:
        return RestoreItem(Action.ADD, found.file)
    is_better = found.relation is _Relation.BETTER or (found.file.name == HINT_NAME and _is_hint(storage))
    return RestoreItem(Action.REPLACE if replace and not is_better else Action.KEEP, found.file, found.seen_sha256)


def _wrong_checkpoints(source: Storage, engine: Engine, names: set[str]) -> set[str]:
    """Return the files of checkpoints that cannot be read or that differ from older files of the backup.

    Raises what reading the backup raises, because a checkpoint that could not be compared may be wrong.
    """
    from deltacli.operations.checkpoint.verify import CheckpointVerdict, verify_checkpoint

    table, listing = TableHandle(source, engine=engine), list_log(source)
    wrong: set[str] = set()
    for instance in listing.checkpoints:
        files = {file.name for file in instance.files}
        if not files & names:
            continue
        try:
            verdict = verify_checkpoint(table, listing, instance).verdict
        except Unreadable:
            verdict = CheckpointVerdict.UNREADABLE
        if verdict in (CheckpointVerdict.DIFFERS, CheckpointVerdict.UNREADABLE):
            wrong |= files
    return wrong


def _is_hint(storage: ReadStorage) -> bool:
    """Return True if the log's own hint is valid: it is then newer than that of the backup."""
    try:
        return isinstance(read_hint(read_hint_file(storage)), Hint)
    except FileMissing:
        return False


def _require_readable(before: LogListing, after: Sequence[StoredFile]) -> bool:
    """Return whether a log will be readable. Raises Refused where gaps of the backup would make it unreadable."""
    now = versioned({file.name: file for file in after}.values())
    is_readable = now.newest_version in now.reconstructable
    if is_readable or before.newest_version not in before.reconstructable:
        return is_readable
    raise Refused(
        f"the table would become unreadable: version {now.newest_version} of the backup cannot be rebuilt either",
        code="restore.gap",
        facts={"now": f"version {before.newest_version}", "commits after": format_ranges(now.commits)},
    )


def _require_sound(source: ReadStorage, writes: Sequence[RestoreItem], engine: Engine, progress: Progress) -> None:
    """Raise Unreadable where a file to write differs from its entry in the list."""
    wrong = differing(source, [item.file for item in writes], engine, "checking the backup", progress)
    if wrong:
        raise Unreadable(
            f"the backup is damaged: {len(wrong)} of {len(writes)} files differ from its list",
            code="backup.damaged",
            facts={"backup": source.uri, "files": ", ".join(wrong[:_NAMED])},
        )


def _safe_order(writes: Sequence[RestoreItem], before: LogListing) -> tuple[list[RestoreItem], int | None]:
    """Return the claimed commit and an order of writes in which an interrupted log reads as before or after, or not."""
    by_kind = defaultdict[str, list[RestoreItem]](list)
    for item in sorted(writes, key=lambda item: (-item.version, item.file.name)):
        by_kind[_group_of(item)].append(item)
    newest = before.newest_version
    tail = [item for item in by_kind["commit"] if item.version > newest]
    holes = [item for item in by_kind["commit"] if item.version <= newest]
    claimed = [item for item in tail[1:] if item.version == newest + 1 and newest >= 0]
    between = tail[1:-1] if claimed else tail[1:]
    commits = [*tail[:1], *claimed, *between, *holes, *by_kind["replaced"]]
    above = max([newest, *(item.version for item in tail)])
    newer = [item for item in by_kind["checkpoint"] if item.version > above]
    older = [item for item in by_kind["checkpoint"] if item.version <= above]
    # Where the newest version has no commit, its checkpoint makes the log's newest version the final one.
    start = [*by_kind["sidecar"], *newer, *commits] if newer else [*commits, *by_kind["sidecar"]]
    return [*start, *by_kind["other"], *older, *by_kind["hint"]], newest + 1 if claimed else None


def _group_of(item: RestoreItem) -> str:
    path = item.file.stored.path
    if path.kind is LogFileKind.COMMIT:
        return "commit" if item.action is Action.ADD else "replaced"
    if path.kind in _CHECKPOINTS:
        return "checkpoint"
    if item.file.name.startswith(f"{SIDECAR_DIRECTORY}/"):
        return "sidecar"
    return "hint" if item.file.name == HINT_NAME else "other"


# -- executing a restore -----------------------------------------------------------------------------------------------


@dataclass
class LogRestored(CompleteOutcome):
    """The files of a plan that were written."""

    plan: LogRestorePlan
    written: list[RestoreItem] = field(default_factory=list)

    def describe_progress(self) -> str:
        return f"{plural(len(self.written), 'file')} restored"


@dataclass(frozen=True)
class LogRestore:
    """The restore of what a log lacks from its backup; with `replaces` also of what differs."""

    kind: ClassVar[ChangeKind] = ChangeKind.RECOVER_FILES

    source: Storage
    replaces: bool = False

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> LogRestorePlan:  # noqa: ARG002  (needs no version)
        if (managed := managed_store(table.storage)) is not None:
            managed.refuse("log restore")
        return plan_log_restore(table, self.source, replace=self.replaces)

    def outcome(self, plan: LogRestorePlan) -> LogRestored:
        return LogRestored(plan)

    def execute(self, execution: ChangeExecution[LogRestorePlan, LogRestored]) -> None:
        """Write the files of the plan in order. Planning and running it again continues an interrupted run.

        Raises Refused (`plan.*`) where the log is no longer that of the plan, and ConflictLost where another writer
        created a commit that the backup has, or one between those that it has.
        """
        plan, storage, source, written = execution.plan, execution.store, self.source, execution.outcome.written
        engine, progress = execution.table.engine, execution.table.progress
        listing = versioned((list_whole_log(storage) or {}).values())
        execution.recheck_listed_log(listing)
        _require_absent(plan, storage, listing)
        _require_not_cleaned(plan, listing)
        require_real_directories(storage, [item.file.name for item in plan.writes])
        execution.outcome.plan = _note_in_owners(plan, storage, execution.table.clock())
        read = partial(_read, source)
        sizes = [item.file.size_bytes for item in plan.writes]
        contents = engine.run(read, plan.writes, at_once=at_once(source, sizes))
        with start_weighed_step(progress, "restoring", unit="files", total=len(plan.writes), weight=sum(sizes)) as step:
            for item, data in zip(plan.writes, contents, strict=True):
                try:
                    if _write(plan, storage, item, data, written):
                        written.append(item)
                finally:
                    execution.has_begun = bool(written)
                step.advance(weight=item.file.size_bytes)
        _verify(storage, written, engine, progress)
        _require_alone(plan, storage)


def _note_in_owners(plan: LogRestorePlan, storage: Storage, now_ms: int) -> LogRestorePlan:
    """Note the table in those whose files its log is about to name, and return the plan with what failed."""
    if not plan.owners.stores:
        return plan
    note = CloneNote(plan.listed.table_id or "", resolve_note_uri(storage), plan.listed.version or 0, now_ms)
    return _replace(plan, notes=(*plan.notes, *write_clone_notes(plan.owners.stores, note).warnings))


def _require_absent(plan: LogRestorePlan, storage: Storage, listing: LogListing) -> None:
    """Raise ConflictLost where the log has a commit by now that the plan adds."""
    for item in plan.writes:
        adds = item.action is Action.ADD and item.file.stored.path.kind is LogFileKind.COMMIT
        is_there = adds and item.version in listing.commits
        if is_there and _digest_of(storage, log_location(item.file.name)) != item.file.sha256:
            _give_way(plan, storage, item, [])  # before the first commit is written, which is one above it


def _require_not_cleaned(plan: LogRestorePlan, listing: LogListing) -> None:
    """Raise Refused where commits that the log had are gone by now: what was missing before had expired, too."""
    planned = {item.file.name for item in (*plan.writes, *plan.kept)}
    for name in sorted(plan.listed.files.keys() - planned):
        path = parse_log_path(name)
        if path.kind is LogFileKind.COMMIT and path.version not in listing.commits:
            raise Refused(
                f"{name} was deleted since this was planned",
                preamble=NOTHING_CHANGED,
                code=COMMITS_MISSING,
                facts={"why": "the log is being cleaned up, or loses files"},
                hint=command("log restore", plan.backup, dry_run=True),
            )


def _read(source: ReadStorage, item: RestoreItem) -> bytes:
    data = source.read(log_location(item.file.name))
    if digest(data) != item.file.sha256:
        raise Unreadable(
            f"{item.file.name} of the backup was changed while it was read",
            code="backup.damaged",
            facts={"backup": source.uri},
        )
    return data


def _write(plan: LogRestorePlan, storage: Storage, item: RestoreItem, data: bytes, written: list[RestoreItem]) -> bool:
    """Write one file; return False where another writer's file is kept."""
    path, modified_ms = log_location(item.file.name), item.file.modified_ms
    if item.action is Action.REPLACE:
        found = _digest_of(storage, path)
        if found not in (item.seen_sha256, item.file.sha256):
            return _give_way(plan, storage, item, written)
        storage.put(path, data, modified_ms=modified_ms)
        return True
    match storage.put_if_absent(path, data, modified_ms=modified_ms):
        case Created():
            return True
        case Existed():
            return _digest_of(storage, path) == item.file.sha256 or _give_way(plan, storage, item, written)
        case Unknown(cause):
            found = _digest_of(storage, path)
            if found is None:
                raise StorageFailed(f"{path} may not have been written: {cause}")
            return found == item.file.sha256 or _give_way(plan, storage, item, written)
        case other:
            assert_never(other)


def _give_way(plan: LogRestorePlan, storage: Storage, item: RestoreItem, written: list[RestoreItem]) -> bool:
    """Keep another writer's file; stop if it is a commit.

    If it is the commit right after the existing ones, the one file written above it is deleted again. The log is then
    as if the restore had not been started.
    """
    if item.file.stored.path.kind is not LogFileKind.COMMIT:
        return False
    facts = {"commit": str(item.version), "already restored": f"{len(written)} files"}
    if item.version == plan.claim and len(written) == 1:
        above = log_location(written[0].file.name)
        ours = _digest_of(storage, above) == written[0].file.sha256
        outcomes = dict(storage.delete_many([above])) if ours else {}
        facts["deleted again"] = f"{written[0].file.name}: {type(outcomes.get(above)).__name__.lower()}"
        if isinstance(outcomes.get(above), Deleted):
            written.clear()  # the log is as it was
    raise ConflictLost(
        f"another writer created commit {item.version} in the meantime; no further files were restored",
        code="restore.conflict",
        facts=facts,
        hint=command("history"),
    )


def _digest_of(storage: ReadStorage, path: str) -> str | None:
    try:
        return digest(storage.read(path))
    except FileMissing:
        return None


def _verify(storage: ReadStorage, written: Sequence[RestoreItem], engine: Engine, progress: Progress) -> None:
    # Another writer may have updated the hint since.
    expected = [item.file for item in written if item.file.name != HINT_NAME]
    wrong = differing(storage, expected, engine, "verifying", progress)
    if wrong:
        raise StorageFailed(
            f"{len(wrong)} of {len(written)} restored files differ from what was written",
            code="restore.copy-differs",
            facts={"files": ", ".join(wrong[:_NAMED])},
        )


def _require_alone(plan: LogRestorePlan, storage: ReadStorage) -> None:
    """Raise ConflictLost where another writer created a commit of the backup's range, or rolled the log back."""
    restored = [item.version for item in plan.writes if item.file.stored.path.kind is LogFileKind.COMMIT]
    last = max(restored, default=-1)
    now = versioned((list_whole_log(storage) or {}).values())
    others = [v for v in now.commits if plan.newest_before < v < last and commit_name(v) not in plan.listed.files]
    if others:
        raise ConflictLost(
            f"another writer created commit {others[0]} between the restored ones",
            code="restore.conflict",
            facts={"commits of the other writer": format_ranges(others)},
            hint=command("validate"),
        )
    if plan.is_readable_after and now.newest_version not in now.reconstructable:
        raise ConflictLost(
            f"another writer deleted files of the log in the meantime: version {now.newest_version} cannot be rebuilt",
            code="restore.conflict",
            facts={"commits": format_ranges(now.commits)},
            hint=command("validate"),
        )
