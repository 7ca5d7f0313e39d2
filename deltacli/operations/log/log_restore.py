"""`log restore`: puts back what a backup has and `_delta_log` lacks. Everything is compared before anything is written.

The order decides what a reader sees if the run is cut. First comes the newest commit: from then on the log's newest
version is the final one, which either can't be rebuilt yet or is right, and never an older one that somebody might
build upon. Second comes the commit that a writer at work would create next: who is first there wins, and if it is the
writer, the first one is taken back. Then the rest, newest first; sidecars before checkpoints, and the hint at the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as _replace
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from deltacli.delta.checkpoint.hint import Hint, read_hint
from deltacli.delta.log.commit_lines import read_actions
from deltacli.delta.log.log_path import HINT_NAME, LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFileKind
from deltacli.delta.log.segment import LogListing
from deltacli.engine.base import Engine
from deltacli.errors import CommitCorrupt, FileMissing, Refused, Unreadable
from deltacli.operations.log.backup_list import LIST_NAME, BackedUp, BackupList, differing, read_list
from deltacli.operations.log.log_files import (
    LogAmount,
    StoredFile,
    at_once,
    digest,
    find_table_id,
    list_whole_log,
    log_location,
    versioned,
)
from deltacli.progress import SILENT, Progress, reported
from deltacli.storage import Storage, has_link
from deltacli.storage.base import require_writable
from deltacli.units import format_ranges, format_timestamp

_NAMED = 5
_CHECKPOINTS = (LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.MULTI_PART_CHECKPOINT, LogFileKind.UUID_CHECKPOINT)


class Action(StrEnum):
    """What becomes of a file of the backup that the log does not hold like that."""

    ADD = "add"
    REPLACE = "replace"
    KEEP = "keep"
    """The log has another file of that name, and keeps it."""


@dataclass(frozen=True, slots=True)
class RestoreItem:
    """One file. `seen_sha256` is what lies in the log in its place."""

    action: Action
    file: BackedUp
    seen_sha256: str | None = None

    @property
    def version(self) -> int:
        """The version in the file's name, -1 where it has none."""
        return self.file.stored.path.version

    def as_json(self) -> dict[str, Any]:
        return {"action": self.action.value, **self.file.as_json()}


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What a restore will do: `writes` in the order in which it will, and what stays as it is.

    `claim` is the commit that a writer at work would create next, where the restore creates it, too.
    """

    table: str
    backup: str
    listed: BackupList
    writes: tuple[RestoreItem, ...]
    kept: tuple[RestoreItem, ...]
    unchanged: LogAmount
    only_in_log: LogAmount
    had_log: bool
    newest_before: int
    claim: int | None

    def amount(self, action: Action) -> LogAmount:
        """How many files this becomes of."""
        items = (*self.writes, *self.kept)
        return LogAmount.of(item.file.size_bytes for item in items if item.action is action)

    def as_json(self, *, dry_run: bool) -> dict[str, Any]:
        """The fields of the document `deltacli.log-restore` but its items."""
        known = {"tableId": self.listed.table_id, "version": self.listed.version}
        return {
            "backup": self.backup,
            **{name: value for name, value in known.items() if value is not None},
            "timestampMs": self.listed.taken_ms,
            "timestamp": format_timestamp(self.listed.taken_ms),
            "dryRun": dry_run,
            "files": LogAmount.of(file.size_bytes for file in self.listed.files.values()).as_json(),
            "added": self.amount(Action.ADD).as_json(),
            "replaced": self.amount(Action.REPLACE).as_json(),
            "kept": self.amount(Action.KEEP).as_json(),
            "unchanged": self.unchanged.as_json(),
            "onlyInLog": self.only_in_log.as_json(),
        }

    def items(self) -> list[dict[str, Any]]:
        """What is written, in its order, and what differs and is kept."""
        return [item.as_json() for item in (*self.writes, *self.kept)]


class _Relation(StrEnum):
    """What the log has under the name of a file of the backup."""

    ABSENT = "absent"
    SAME = "same"
    OTHER = "other"
    """Something else; of commits, one that somebody meant to be like that."""
    TORN = "torn"
    """A commit that can't be parsed, or that lacks its end."""
    BETTER = "better"
    """A commit that the backup has only as a torn one."""


class _Compared(NamedTuple):
    file: BackedUp
    relation: _Relation
    seen_sha256: str | None = None

    @property
    def is_commit(self) -> bool:
        return self.file.stored.path.kind is LogFileKind.COMMIT


def plan_restore(
    storage: Storage, source: Storage, engine: Engine, *, replace: bool = False, progress: Progress = SILENT
) -> RestorePlan:
    """Compare a log with its backup, and the backup with its digests.

    Raises Unreadable for a backup that is none, or damaged, and Refused where it is of another table, or where the
    result would not be one log.
    """
    listed = _require_complete(source)
    require_writable(storage)
    require_real_directories(storage, listed.files)
    log = list_whole_log(storage, progress=progress)
    present = log or {}
    sizes = (file.size_bytes for file in listed.files.values())
    compare = partial(_compare, storage, source, present)
    compared = list(
        reported(
            engine.run(compare, listed.files.values(), at_once=at_once(storage, sizes)),
            progress,
            "comparing with the log",
            unit="files",
            total=len(listed.files),
        )
    )
    _require_same_table(storage, source, listed, compared, is_empty=not present)
    _require_one_past(source, compared, replace=replace)
    items = [_item(storage, found, replace=replace) for found in compared if found.relation is not _Relation.SAME]
    items = _without_wrong_checkpoints(source, items)
    before = versioned(present.values())
    writes = [item for item in items if item.action is not Action.KEEP]
    _require_readable(before, [*present.values(), *(item.file.stored for item in writes)])
    _require_sound(source, writes, engine, progress)
    order, claim = _safe_order(writes, before)
    return RestorePlan(
        table=storage.uri,
        backup=source.uri,
        listed=listed,
        writes=tuple(order),
        kept=tuple(item for item in items if item.action is Action.KEEP),
        unchanged=LogAmount.of(found.file.size_bytes for found in compared if found.relation is _Relation.SAME),
        only_in_log=LogAmount.of(file.size_bytes for name, file in present.items() if name not in listed.files),
        had_log=log is not None,
        newest_before=before.newest_version,
        claim=claim,
    )


def _require_complete(source: Storage) -> BackupList:
    listed = read_list(source)
    if listed is None:
        raise Unreadable(
            "there is no backup of a log",
            code="backup.list-missing",
            facts={"backup": source.uri, "needed": LIST_NAME},
        )
    if not listed.is_complete:
        raise Unreadable(
            "the backup was never finished",
            code="backup.unfinished",
            facts={"backup": source.uri, "begun": format_timestamp(listed.taken_ms), "of": listed.table},
        )
    return listed


def require_real_directories(storage: Storage, names: Iterable[str]) -> None:
    """Raise Refused where a directory inside the log, in which a file of the backup would be written, is a link: the
    list of a backup may come from anybody, and the file would land where the link leads.
    """
    for directory in sorted({name.rpartition("/")[0] for name in names} - {""}):
        if has_link(storage, LOG_DIRECTORY, directory):
            raise Refused(
                f"{directory} in the log is a symbolic link or lies behind one: files are not restored through links",
                code="restore.link",
                facts={"table": storage.uri, "directory": log_location(directory)},
                hint="replace the link by a directory, then restore again",
            )


def _compare(storage: Storage, source: Storage, present: Mapping[str, StoredFile], file: BackedUp) -> _Compared:
    """Look at what the log has under a name; a commit is always read, others only where size or time differ."""
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


def _relation_of_commits(source: Storage, file: BackedUp, data: bytes) -> _Relation:
    """Tell a commit of another past from damage, here or in the backup."""
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
    """True for a commit that holds actions, each of which can be parsed."""
    try:
        return len(read_actions(data, name)) > 0
    except CommitCorrupt:
        return False


def _require_same_table(
    storage: Storage, source: Storage, listed: BackupList, compared: Sequence[_Compared], *, is_empty: bool
) -> None:
    """Raise Refused for the backup of another table. A table may get another id and keep its past; an empty log is
    nobody's.
    """
    if is_empty or listed.table_id is None:
        return
    if any(found.relation is _Relation.SAME for found in compared if found.is_commit):
        return
    table_id = find_table_id(storage)
    if table_id is not None and table_id != listed.table_id:
        raise Refused(
            "the backup is of another table",
            code="backup.other-table",
            facts={"backup": source.uri, "its table id": listed.table_id, "this table's id": table_id},
        )


def _require_one_past(source: Storage, compared: Sequence[_Compared], *, replace: bool) -> None:
    """Raise Refused where a commit of the log is another than the backup's: all that came after it may be, too.

    With `replace` a commit that can't be parsed is damage, and no other past.
    """
    commits = [found for found in compared if found.is_commit]
    sound = sorted(found.file.stored.path.version for found in commits if found.relation is _Relation.OTHER)
    torn = sorted(found.file.stored.path.version for found in commits if found.relation is _Relation.TORN)
    if sound:
        raise Refused(
            f"commit {sound[0]} of the log is another than in the backup: they went different ways",
            code="restore.diverged",
            facts={
                "backup": source.uri,
                "commits that differ": format_ranges(sound),
                "why": "a mixture of both would be a table that never was",
            },
            hint=f"deltacli log cat {{table}} {sound[0]}",
        )
    if torn and not replace:
        raise Refused(
            f"commit {torn[0]} of the log is damaged, and the backup has it whole",
            code="restore.damaged",
            facts={"backup": source.uri, "damaged commits": format_ranges(torn), "to replace them": "--replace"},
        )


def _item(storage: Storage, found: _Compared, *, replace: bool) -> RestoreItem:
    if found.relation is _Relation.ABSENT:
        return RestoreItem(Action.ADD, found.file)
    is_better = found.relation is _Relation.BETTER or (found.file.name == HINT_NAME and _is_hint(storage))
    return RestoreItem(Action.REPLACE if replace and not is_better else Action.KEEP, found.file, found.seen_sha256)


def _without_wrong_checkpoints(source: Storage, items: list[RestoreItem]) -> list[RestoreItem]:
    """Keep the log's own checkpoint where that of the backup can't be read or contradicts the commits of the backup:
    replacing it could destroy the one that was repaired.
    """
    replaced = {item.file.name for item in items if item.action is Action.REPLACE and _group_of(item) == "checkpoint"}
    wrong = _wrong_checkpoints(source, replaced) if replaced else set()
    return [_replace(item, action=Action.KEEP) if item.file.name in wrong else item for item in items]


def _wrong_checkpoints(source: Storage, names: set[str]) -> set[str]:
    """Which files of a backup belong to a checkpoint that can't be read, or that differs from what older files of the
    backup say. Raises what reading the backup raises: what could not be compared for want of memory, or by a fault of
    the store, may be wrong.
    """
    from deltacli.operations.checkpoint.verify import CheckpointVerdict, verify_checkpoint
    from deltacli.operations.table.handle import TableHandle
    from deltacli.operations.table.log import list_log

    table, listing = TableHandle(source), list_log(source)
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


def _is_hint(storage: Storage) -> bool:
    """True if the log's own hint can be believed: whoever wrote it knew the log better than an older backup does."""
    try:
        return isinstance(read_hint(storage.read(log_location(HINT_NAME))), Hint)
    except FileMissing:
        return False


def _require_readable(before: LogListing, after: Sequence[StoredFile]) -> None:
    """Raise Refused where a log that can be read would no longer be, because the backup has holes itself."""
    now = versioned({file.name: file for file in after}.values())
    if before.newest_version not in before.reconstructable or now.newest_version in now.reconstructable:
        return
    raise Refused(
        f"the table could no longer be read: version {now.newest_version} of the backup can't be rebuilt either",
        code="restore.gap",
        facts={"now": f"version {before.newest_version}", "commits then": format_ranges(now.commits)},
    )


def _require_sound(source: Storage, writes: Sequence[RestoreItem], engine: Engine, progress: Progress) -> None:
    """Raise Unreadable where a file that would be written is not what the list says."""
    wrong = differing(source, [item.file for item in writes], engine, "checking the backup", progress)
    if wrong:
        raise Unreadable(
            f"the backup is damaged: {len(wrong)} of {len(writes)} files are not what its list says",
            code="backup.damaged",
            facts={"backup": source.uri, "files": ", ".join(wrong[:_NAMED])},
        )


def _safe_order(writes: Sequence[RestoreItem], before: LogListing) -> tuple[list[RestoreItem], int | None]:
    """The order in which a cut leaves a log that reads as before, as after, or not at all; and the claimed commit."""
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
    # Where the newest version has no commit, its checkpoint is what makes the log's newest version the final one.
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
