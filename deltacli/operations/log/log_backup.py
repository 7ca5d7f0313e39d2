"""`log backup`: copies new and changed files of `_delta_log` to a directory and never deletes from it.

Files are copied in the order in which the log grew, so an incomplete copy is a log up to some version. A commit never
changes: one that differs from its copy indicates damage or another table, and the copy is not overwritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from deltacli.changing.base_version import BaseVersion, identify_commit
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.file_totals import FileTotals
from deltacli.changing.outcome import CompleteOutcome
from deltacli.changing.plan import PlanWithoutRefusals, TableUriMixin
from deltacli.core import errors
from deltacli.core.progress import report_items, start_weighed_step
from deltacli.core.ranges import format_ranges, name_ranges
from deltacli.core.short_repr import short_repr
from deltacli.core.times import format_timestamp
from deltacli.core.units import plural
from deltacli.delta.log.segment import BACKUP_LIST, HINT_NAME, LOG_DIRECTORY, MAX_HINT_BYTES, LogFile, LogFileKind
from deltacli.operations.log import log_copy
from deltacli.storage import Existed, PathKind, ReadStorage, Storage, is_inside
from deltacli.storage.directory_identity import require_same_directory
from deltacli.storage.optional_interfaces import require_writable
from deltacli.storage.secrets import mask_secrets
from deltacli.table.find_log import list_log, read_hint_file
from deltacli.table.handle import TableHandle
from deltacli.table.table_directories import require_no_paimon_table
from deltacli.table.version import Snapshot
from deltacli.work.commits.reading import require_listed_size

if TYPE_CHECKING:
    from deltacli.changing.execution import ChangeExecution

_NAMED = 5


@dataclass(frozen=True, slots=True)
class BackupPlan(TableUriMixin, PlanWithoutRefusals):
    """The files to copy. `carried` are in the backup already, `missing` those of them that the log lost."""

    base_version: BaseVersion
    destination: Storage
    table_id: str | None
    version: int | None
    full: bool
    copies: tuple[log_copy.StoredFile, ...]
    carried: Mapping[str, log_copy.BackedUp]
    missing: tuple[log_copy.BackedUp, ...]
    is_first: bool
    hint: bytes | None
    """The hint as read before the log was listed, so that the file it names is in the listing."""

    is_noop: ClassVar[bool] = False

    @property
    def backup(self) -> str:
        return self.destination.uri

    def effects(self) -> Iterator[str]:
        return (file.name for file in self.copies)

    def as_planned_result(self) -> BackupResult:
        """Return what a backup would be, with nothing copied."""
        files = (log_copy.BackedUp(one.name, one.size_bytes, "", one.modified_ms) for one in self.copies)
        return _result(self, tuple(files), True)


@short_repr("files=files.files", "copied", "dry_run")
@dataclass(frozen=True, slots=True, repr=False)
class BackupResult(CompleteOutcome):
    """The outcome: the new list, and the copied files. With `dry_run` it is what would be, without digests."""

    plan: BackupPlan
    listed: log_copy.BackupList
    copied: tuple[log_copy.BackedUp, ...]
    dry_run: bool = False
    journal: log_copy.LogJournal = field(default_factory=log_copy.LogJournal)

    def describe_progress(self) -> str:
        return f"{plural(self.journal.written, 'file')} copied"

    @property
    def files(self) -> FileTotals:
        return FileTotals.from_sizes(file.size_bytes for file in self.listed.files.values())

    @property
    def unchanged(self) -> FileTotals:
        gone = {file.name for file in self.plan.missing} | {file.name for file in self.copied}
        return FileTotals.from_sizes(file.size_bytes for name, file in self.listed.files.items() if name not in gone)

    def as_json(self) -> dict[str, Any]:
        """Return the fields of the document `deltacli.log-backup` except its items."""
        known = {"tableId": self.listed.table_id, "version": self.listed.version}
        return {
            "backup": self.plan.backup,
            **{name: value for name, value in known.items() if value is not None},
            "timestampMs": self.listed.taken_ms,
            "timestamp": format_timestamp(self.listed.taken_ms),
            "full": self.plan.full,
            "files": self.files.as_json(**log_copy.AMOUNT_NAMES),
            "copied": FileTotals.from_sizes(file.size_bytes for file in self.copied).as_json(**log_copy.AMOUNT_NAMES),
            "unchanged": self.unchanged.as_json(**log_copy.AMOUNT_NAMES),
            "missing": FileTotals.from_sizes(file.size_bytes for file in self.plan.missing).as_json(
                **log_copy.AMOUNT_NAMES
            ),
            "dryRun": self.dry_run,
        }

    def items(self) -> list[dict[str, Any]]:
        """Return the copied files, and those that are no longer in the log."""
        parts = (("copied", self.copied), ("missing", self.plan.missing))
        return [
            {"action": action, **file.as_json(), "sha256": file.sha256 or None}
            for action, files in parts
            for file in files
        ]


class _Verdict(StrEnum):
    COPY = "copy"
    KEEP = "keep"
    DIVERGED = "diverged"
    GONE = "gone"


class _Judged(NamedTuple):
    file: log_copy.StoredFile
    verdict: _Verdict
    entry: log_copy.BackedUp | None = None


@dataclass(frozen=True, slots=True)
class _Backup:
    """The content of the destination."""

    storage: ReadStorage
    listed: log_copy.BackupList | None
    files: Mapping[str, log_copy.StoredFile]

    def entry(self, name: str) -> log_copy.BackedUp | None:
        return None if self.listed is None else self.listed.files.get(name)


def plan_backup(table: TableHandle, destination: Storage, *, full: bool = False) -> BackupPlan:
    """Find the files to copy, which are new or have another size or time; with `full` all files are compared by digest.

    Raises UsageError, NotATable, and Refused where the destination has other content.
    """
    storage, engine, progress = table.storage, table.engine, table.progress
    if is_inside(destination, storage) or is_inside(storage, destination):
        raise errors.UsageError(
            "a table and its backup cannot contain each other",
            code="usage.backup",
            facts={"table": storage.uri, "backup": destination.uri},
        )
    require_writable(destination)
    if destination.kind_of("") is PathKind.FILE:
        raise errors.UsageError(f"{mask_secrets(destination.uri)} is a file, not a directory", code="usage.output")
    _require_no_paimon_table(destination)
    hint = _read_hint(storage)
    files = log_copy.list_whole_log(storage, progress=progress)
    if not files:
        list_log(storage)  # names what is at the path instead
        raise errors.NotATable("the log is empty; there is nothing to back up")
    backup = _Backup(destination, log_copy.read_list(destination), log_copy.list_whole_log(destination) or {})
    if backup.listed is None and backup.files:
        raise errors.Refused(
            f"{destination.uri} has a {LOG_DIRECTORY} that is not a backup; it may be a table",
            code="backup.not-a-backup",
            facts={"missing": BACKUP_LIST, "found": f"{len(backup.files)} files in {LOG_DIRECTORY}"},
        )
    table_id = log_copy.find_table_id(storage, engine)
    in_order = sorted(files.values(), key=lambda file: log_copy.copying_order(file.name))
    judge = partial(_judge, storage, backup, hint, full=full)
    judged = list(
        report_items(
            engine.run(judge, in_order, at_once=log_copy.at_once(storage, (file.size_bytes for file in in_order))),
            progress,
            "comparing with the backup",
            unit="files",
            total=len(in_order),
        )
    )
    _require_same_table(backup, table_id, judged)
    _require_no_later_ones(backup, files, judged)
    carried = {found.file.name: found.entry for found in judged if found.entry and found.verdict is _Verdict.KEEP}
    listed = {} if backup.listed is None else backup.listed.files
    gone = {found.file.name for found in judged if found.verdict is _Verdict.GONE}
    missing = tuple(entry for name, entry in sorted(listed.items()) if name not in files or name in gone)
    copies = tuple(found.file for found in judged if found.verdict is _Verdict.COPY)
    listing = log_copy.versioned(file for file in files.values() if file.name not in gone)
    newest = listing.newest_version
    return BackupPlan(
        base_version=BaseVersion(table, newest, table.clock(), identify_commit(listing, newest)),
        destination=destination,
        table_id=table_id or (backup.listed.table_id if backup.listed else None),
        version=newest if newest >= 0 else None,
        full=full,
        copies=copies,
        carried={**carried, **{entry.name: entry for entry in missing}},
        missing=missing,
        is_first=backup.listed is None,
        hint=hint,
    )


@dataclass(frozen=True)
class LogBackup:
    """A copy of the log in another store, which is brought up to date."""

    kind: ClassVar[ChangeKind] = ChangeKind.DERIVE_LOG_FILES

    destination: Storage
    full: bool = False

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> BackupPlan:  # noqa: ARG002  (needs no version)
        return plan_backup(table, self.destination, full=self.full)

    def outcome(self, plan: BackupPlan) -> BackupResult:
        return _result(plan, (), False)

    def execute(self, execution: ChangeExecution[BackupPlan, BackupResult]) -> None:
        """Copy the files of the plan, read them back, and write the list last. Running it again is harmless.

        Raises StorageFailed where a copy differs from what was written, and Refused where the log is another one than
        when it was planned, or by the end; the list then describes the previous backup.
        """
        _look(execution)
        plan, destination, storage = execution.plan, self.destination, execution.table.storage
        engine, progress = execution.table.engine, execution.table.progress
        begun = log_copy.BackupList(plan.table, plan.table_id, plan.version, execution.table.clock(), False)
        if plan.is_first and destination.put_if_absent(BACKUP_LIST, begun.to_bytes()) == Existed():
            raise errors.ConflictLost(
                f"another backup to {destination.uri} was started in the meantime", code="backup.conflict"
            )
        execution.has_begun = True
        copied: list[log_copy.BackedUp] = []
        read = partial(_read, storage, hint=plan.hint)
        contents = engine.run(
            read, plan.copies, at_once=log_copy.at_once(storage, (file.size_bytes for file in plan.copies))
        )
        size_bytes = sum(file.size_bytes for file in plan.copies)
        with start_weighed_step(progress, "copying", unit="files", total=len(plan.copies), weight=size_bytes) as step:
            for file, data in zip(plan.copies, contents, strict=True):
                if data is not None:
                    destination.put(log_copy.log_location(file.name), data, modified_ms=file.modified_ms)
                    copied.append(log_copy.BackedUp(file.name, len(data), log_copy.digest(data), file.modified_ms))
                    execution.outcome.journal.written += 1
                step.advance(weight=file.size_bytes)
        wrong = log_copy.differing(destination, copied, engine, "verifying", progress)
        if wrong:
            raise errors.StorageFailed(
                f"{len(wrong)} of {len(copied)} copied files differ from what was written",
                code="backup.copy-differs",
                facts={"backup": destination.uri, "files": ", ".join(wrong[:_NAMED])},
            )
        _look(execution)
        result = _result(plan, tuple(copied), False)
        destination.put(BACKUP_LIST, result.listed.to_bytes())
        execution.outcome = result


def _look(execution: ChangeExecution[BackupPlan, BackupResult]) -> None:
    require_same_directory(execution.table.storage)  # what only reads follows the path
    execution.recheck_table()


def _result(plan: BackupPlan, copied: tuple[log_copy.BackedUp, ...], dry_run: bool) -> BackupResult:
    files = {**plan.carried, **{file.name: file for file in copied}}
    taken_ms = plan.base_version.table.clock()
    return BackupResult(
        plan, log_copy.BackupList(plan.table, plan.table_id, plan.version, taken_ms, True, files), copied, dry_run
    )


def _read_hint(storage: ReadStorage) -> bytes | None:
    """Return the bytes of the hint; None where there is none, or a file that is too large to be one."""
    try:
        data = read_hint_file(storage)
        return data if len(data) <= MAX_HINT_BYTES else None
    except errors.FileMissing:
        return None


def _read(storage: ReadStorage, file: log_copy.StoredFile, *, hint: bytes | None) -> bytes | None:
    """Return the bytes of a log file; None if cleaned up meanwhile. Raises CommitCorrupt for a shortened commit."""
    if file.name == HINT_NAME:
        return hint
    try:
        data = storage.read(log_copy.log_location(file.name))
    except errors.FileMissing:
        return None
    if file.path.kind is LogFileKind.COMMIT:
        require_listed_size(LogFile(file.path, file.size_bytes, file.modified_ms), len(data), file.size_bytes)
    return data


def _judge(
    storage: ReadStorage, backup: _Backup, hint: bytes | None, file: log_copy.StoredFile, *, full: bool
) -> _Judged:
    """Compare a file with its copy, by size and time where that is sufficient, else by digest."""
    entry, copy = backup.entry(file.name), backup.files.get(file.name)
    is_there = copy is not None and (entry is None or copy.size_bytes == entry.size_bytes)
    is_hint = file.name == HINT_NAME
    if entry is None and copy is None:
        return _Judged(file, _Verdict.COPY)
    if entry is not None and is_there and not full and not is_hint and entry.stored == file:
        return _Judged(file, _Verdict.KEEP, entry)
    data = _read(storage, file, hint=hint)
    if data is None:
        return _Judged(file, _Verdict.GONE)
    stored = _digest_of_copy(backup.storage, file.name) if entry is None or full else entry.sha256
    known = stored if entry is None else entry.sha256
    if log_copy.digest(data) == known:
        # The time first recorded is kept: a later one comes from a copy, not from a commit.
        modified_ms = file.modified_ms if entry is None or is_hint else min(entry.modified_ms, file.modified_ms)
        found = log_copy.BackedUp(file.name, len(data), known, modified_ms)
        return _Judged(file, _Verdict.KEEP if is_there and stored == known else _Verdict.COPY, found)
    # Unless the copy is a prefix of the commit, made while a writer without atomic creation was still writing.
    if file.path.kind is LogFileKind.COMMIT and not (
        entry is not None and entry.size_bytes < len(data) and log_copy.digest(data[: entry.size_bytes]) == entry.sha256
    ):
        return _Judged(file, _Verdict.DIVERGED)
    return _Judged(file, _Verdict.COPY)


def _digest_of_copy(storage: ReadStorage, name: str) -> str | None:
    try:
        return log_copy.digest(storage.read(log_copy.log_location(name)))
    except errors.FileMissing:
        return None


def _require_no_paimon_table(destination: ReadStorage) -> None:
    """Refuse to back up into the directory of a Paimon table.

    With a log beside its schemas it would be a table of both formats, which commands refuse.
    """
    try:
        require_no_paimon_table(destination)
    except errors.PaimonTable:
        raise errors.Refused(
            f"{mask_secrets(destination.uri)} is a Paimon table; a backup needs a directory of its own",
            code="backup.not-a-backup",
        ) from None


def _require_same_table(backup: _Backup, table_id: str | None, judged: Sequence[_Judged]) -> None:
    """Raise Refused where the backup is of another table, or of another history of this one."""
    known = None if backup.listed is None else backup.listed.table_id
    commits = [found for found in judged if found.file.path.kind is LogFileKind.COMMIT]
    diverged = [found.file.path.version for found in commits if found.verdict is _Verdict.DIVERGED]
    facts = {"backup": backup.storage.uri}
    # A table may get another id and keep its history.
    shares_a_commit = any(found.verdict is _Verdict.KEEP for found in commits)
    may_mix = table_id is not None or log_copy.versioned(backup.files.values()).commits
    if known is not None and known != table_id and not shares_a_commit and may_mix:
        raise errors.Refused(
            "the backup is of another table"
            if table_id is not None
            else "the log has no table id, and no commit in common with the backup, which may be of another table",
            code="backup.other-table",
            facts={**facts, "table id of the backup": known, "table id of this table": table_id or "not found"},
        )
    if diverged:
        raise errors.Refused(
            f"commit {diverged[0]} of the log differs from the backup",
            code="backup.diverged",
            facts={
                **facts,
                "commits that differ": format_ranges(diverged),
                "why": "commits never change; the log was damaged or rewritten",
                "next": f"log restore {errors.parameter('log restore.replace', True)} repairs "
                "a damaged log; another DEST keeps both",
            },
            hint=errors.command("log cat", diverged[0]),
        )


def _require_no_later_ones(
    backup: _Backup, files: Mapping[str, log_copy.StoredFile], judged: Sequence[_Judged]
) -> None:
    """Raise Refused for new commits below those of a backup ahead of the log, which was rolled back or replaced."""
    listed = {} if backup.listed is None else backup.listed.files
    newest = log_copy.versioned(files.values()).newest_version
    held = log_copy.versioned(entry.stored for entry in listed.values())
    later = sorted(
        version for version in {*held.commits, *(instance.version for instance in held.checkpoints)} if version > newest
    )
    there = [found.file for found in judged if found.verdict is not _Verdict.GONE]
    new = [f.path.version for f in there if f.path.kind is LogFileKind.COMMIT and f.name not in listed]
    if later and new:
        raise errors.Refused(
            f"{name_ranges('version', later)} of the backup {'is' if len(later) == 1 else 'are'} above version "
            f"{newest}, the newest of the log, which has commits that the backup lacks",
            code="backup.diverged",
            facts={
                "backup": backup.storage.uri,
                "commits that it lacks": format_ranges(new),
                "why": "the log was rolled back or replaced; a mixture of both would be a log that never existed",
                "next": "another DEST keeps both",
            },
            hint=errors.command("history"),
        )
