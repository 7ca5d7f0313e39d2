"""Executing a copy: data first, then the log in its order, what was copied is verified, and the note last.

A run that was killed leaves a target that is no table yet, or a readable one; the next one continues with what is
missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from deltacli.changing.base_version import MAX_FILE_CHECK_AGE_SECONDS
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.clone_notes import CloneNote, resolve_note_uri
from deltacli.changing.commit import Committed, commit
from deltacli.changing.file_owners import write_clone_notes
from deltacli.changing.file_totals import FileTotals
from deltacli.changing.rechecks import require_same_base_commit
from deltacli.core import errors
from deltacli.core.open_files import raise_open_file_limit
from deltacli.core.progress import WeighedStep, start_weighed_step
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json
from deltacli.core.units import plural
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.delta.log.segment import HINT_NAME, LogFile, LogFileKind
from deltacli.delta.paths.spelling import decode_path_bytes
from deltacli.operations.copy.note import NOTE_PATH, CopiedCommit, CopyNote, read_note
from deltacli.operations.copy.plan import CopyPlan, Lag, diverged, plan_copy, plan_start, require_state
from deltacli.operations.copy.relative import RelativeLog
from deltacli.operations.copy.request import CopyRequest
from deltacli.operations.copy.verify import Difference, differences, require_equal, require_log
from deltacli.operations.log.log_copy import log_location
from deltacli.operations.recover.copies import copy_file, copy_within_store, refuse_sparse, same_content
from deltacli.storage import Created, Creation, Existed, LocalStorage, PathKind, Storage
from deltacli.storage.base import stat_created
from deltacli.storage.copy_process import CopyProcess
from deltacli.storage.directory_identity import bind_to_directory, require_same_directory
from deltacli.storage.outcomes import Unknown
from deltacli.table.find_log import list_log_files
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.changing.execution import ChangeExecution
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

_GROUP_FILES, _GROUP_BYTES = 2_000, 256 << 20
"""What is synced at once on a disk. Each file keeps a descriptor open until then."""
_OTHER_DESCRIPTORS, _AT_ONCE = 256, 2
_FILES_OF_A_PROCESS = 8_000
"""So many are worth the start of another process."""
_BATCH_ROWS = 10_000
_NOT_MENDED = ("copy.diverged", "copy.differs", "path.external")


@short_repr("plan", "copied=copied.files", "dry_run")
@dataclass(eq=False, repr=False)
class CopyResult:
    """What was copied. `verified` is what was compared with the source; `differences` are what a check found."""

    plan: CopyPlan
    copied: FileTotals = field(default_factory=FileTotals)
    checksums: int = 0
    """How many of the copied files had the checksum that the store of the source reports; the others are compared by
    their sizes, and sent with a checksum where the store takes one."""
    lag: Lag | None = None
    verified: str | None = None
    digest: str | None = None
    """The digest of the state of the last version, equal in source and target."""
    committed_version: int | None = None
    differences: Sequence[Difference] = ()
    dry_run: bool = False
    can_continue: bool | None = None
    """After an error: whether running it again continues the copy."""
    is_out_of_time: bool = False
    """Whether files were left to copy when the time was up."""

    def describe_progress(self) -> str:
        copied = f"{plural(self.copied.files, 'file')} copied"
        if self.can_continue is None and not self.is_out_of_time:
            return copied
        advice = "running it again does not repair this" if self.can_continue is False else errors.CONTINUE
        return f"{copied}; {advice}"

    def build_incomplete_error(self) -> errors.PartlyDone | None:
        """Return that the time was up: an error ends a copy otherwise."""
        return (
            errors.PartlyDone(
                "the time is up",
                code="copy.time-budget",
                facts={"so far": self.describe_progress()},
            )
            if self.is_out_of_time
            else None
        )

    def as_json(self) -> dict[str, Json]:
        """Return the fields of the document `deltacli.copy`."""
        plan = self.plan
        shown = plan.to_copy if self.dry_run else self.copied
        return {
            "source": plan.base_version.table.uri,
            "target": plan.target.uri,
            "versions": [plan.first, plan.last],
            "replica": plan.request.replica if plan.note is None else plan.note.is_replica,
            "files": {
                "copied": shown.files,
                "sizeBytes": shown.size_bytes,
                "skipped": plan.skipped.files,
                "checksums": self.checksums,
            },
            "lag": (self.lag or plan.lag).as_json(),
            "level": str(plan.request.level),
            "verified": self.verified,
            "stateSha256": self.digest,
            "committedVersion": self.committed_version,
            "notes": list(plan.notes),
            "refusals": [one.as_json() for one in plan.refusals],
            "differences": [one.as_json() for one in self.differences],
            "dryRun": self.dry_run,
        }


@dataclass(frozen=True)
class Copy:
    """A copy of a table in another store: made once, or a replica that is brought up to date."""

    kind: ClassVar[ChangeKind] = ChangeKind.DERIVE_LOG_FILES

    target: Storage
    request: CopyRequest

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> CopyPlan:  # noqa: ARG002  (by the log)
        """Plan it; it is executed in this process. Raises what `plan_copy` raises."""
        return plan_copy(table.use_embedded_engine(), self.target, self.request)

    def outcome(self, plan: CopyPlan) -> CopyResult:
        return CopyResult(plan, lag=plan.lag)

    def execute(self, execution: ChangeExecution[CopyPlan, CopyResult]) -> None:
        """Copy the files of the plan and verify them. Running it again is harmless.

        Raises ConflictLost where the source loses a file meanwhile, Refused where the target is changed by others, and
        StorageFailed.
        """
        try:
            _Run(execution).run()
        except errors.DeltacliError as fault:
            execution.outcome.can_continue = fault.code not in _NOT_MENDED
            raise


def check_copy(table: TableHandle, target: Storage, request: CopyRequest) -> CopyResult:
    """Compare a copy with its source by the level of the request. Raises what `plan_copy` raises, and its refusals."""
    table = table.use_embedded_engine()
    plan = plan_copy(table, target, replace(request, check=True))
    if (refusal := plan.build_refusal()) is not None:
        raise refusal
    table = plan.base_version.table
    found = tuple(differences(plan, table))
    plan.release()
    if found:
        return CopyResult(plan, lag=plan.lag, differences=found)
    require_state(table.replace_storage(target), plan.last, plan.digest)
    return CopyResult(plan, lag=plan.lag, verified=str(plan.request.level), digest=plan.digest)


class _Copied(NamedTuple):
    """Files that the target has now, and those of them that it did not have before."""

    found: FileTotals
    new: FileTotals
    checksums: int = 0


class _Run:
    """One execution."""

    def __init__(self, execution: ChangeExecution[CopyPlan, CopyResult]) -> None:
        self._execution, self._plan = execution, execution.plan
        self._table = execution.table
        self._source = execution.table.storage
        self._data = self._source.real if isinstance(self._source, RelativeLog) else self._source
        self._target = self._plan.target
        self._began = self._table.machine.monotonic()
        self._sent = 0
        self._looked_at = self._began
        self._within: Callable[[str, str], Creation] | None = None

    def run(self) -> None:
        """Copy and verify."""
        plan = self._plan
        if plan.needed is None:
            raise errors.UsageError("this plan was executed before: plan the copy again", code="usage.copy")
        self._execution.recheck_table()
        require_same_directory(self._data)
        note = self._begin()
        self._target = bind_to_directory(self._target)
        self._within = copy_within_store(self._table, cast("Storage", self._data), self._target)
        self._copy_data()
        if self._execution.outcome.is_out_of_time:
            return
        self._execution.recheck_table()
        self._looked_at = self._table.machine.monotonic()
        self._require_equal(note)
        begun = replace(note, first_version=plan.first, failed_level=None)
        if not note.is_complete:
            begun = replace(begun, last_version=plan.last, table_id=plan.table_id)
        if begun != note:
            self._target.put(NOTE_PATH, begun.to_bytes())
        if plan.makes_log and (found := list_log_files(self._target)):
            raise diverged(f"{found[-1].name} was written to the target since the plan", self._target)
        self._note_in_owners(begun)
        commits = {**note.commits, **plan.resumed, **self._copy_log()}
        self._execution.recheck_table()
        require_same_directory(self._data)
        require_log(plan, self._target)
        result = self._execution.outcome
        copied = require_state(self._table.replace_storage(self._target), plan.last, plan.digest)
        result.digest, result.verified = plan.digest, str(plan.request.level)
        if note.own_id is not None:
            self._target.put(NOTE_PATH, replace(begun, commits=commits).to_bytes())
            result.committed_version = self._commit_own_id(note.own_id, copied)
        done = replace(begun, last_version=plan.last, table_id=plan.table_id, commits=commits, is_complete=True)
        self._end(replace(done, taken_ms=self._table.clock()))
        result.lag = Lag(0, 0.0)

    def _note_in_owners(self, note: CopyNote) -> None:
        """Note the copy in the tables whose files its log is about to name.

        The note has the id that the copy will have. Until then a vacuum recognizes the copy by its absolute paths.
        """
        owners = self._plan.owners
        if not owners.stores:
            return
        table_id = note.table_id if note.own_id is None else note.own_id
        clone_note = CloneNote(table_id, resolve_note_uri(self._target), self._plan.last, self._table.clock())
        notes = write_clone_notes(owners.stores, clone_note)
        self._plan.notes = (*self._plan.notes, *notes.warnings)

    def _require_equal(self, note: CopyNote) -> None:
        """Verify the data before the log names it, and note a difference."""
        level = str(self._plan.request.level)
        try:
            require_equal(self._plan, self._table, self._target)
        except errors.StorageFailed as fault:
            if fault.code == "copy.differs" and note.failed_level != level:
                self._target.put(NOTE_PATH, replace(note, failed_level=level).to_bytes())
            raise

    def _end(self, done: CopyNote) -> None:
        """Write the note, which another run may have written with a later version meanwhile."""
        now = read_note(self._target)
        if now is not None and now.is_complete:
            latest = max(now, done, key=lambda note: note.last_version)
            done = replace(done, last_version=latest.last_version, table_id=latest.table_id)
            done = replace(done, commits={**now.commits, **done.commits})
        self._target.put(NOTE_PATH, done.to_bytes())

    def _begin(self) -> CopyNote:
        """Return the note of the copy, which is made where there is none. Raises ConflictLost."""
        plan = self._plan
        if plan.note is not None:
            self._execution.has_begun = True
            return plan.note
        own_id = None if plan.request.replica else self._table.machine.new_uuid()
        note = CopyNote(
            self._table.uri,
            plan.table_id,
            plan.request.replica,
            False,
            plan.first,
            plan.last,
            self._table.clock(),
            own_id=own_id,
            is_relative=isinstance(self._source, RelativeLog),
        )
        made = self._target.put_if_absent(NOTE_PATH, note.to_bytes())
        if isinstance(made, Unknown):
            stat_created(self._target, NOTE_PATH, made)
        if made != Created() and self._target.read(NOTE_PATH) != note.to_bytes():
            raise errors.ConflictLost(
                f"another copy to {self._target.uri} was started in the meantime", code="copy.conflict"
            )
        self._execution.has_begun = True
        return note

    # -- data ----------------------------------------------------------------------------------------------------------

    def _copy_data(self) -> None:
        files, progress = self._plan.files, self._table.progress
        total = {"total": files.num_rows, "weight": self._plan.to_copy.size_bytes}
        is_disk = isinstance(self._data, LocalStorage) and isinstance(self._target, LocalStorage)
        with start_weighed_step(progress, "copying", unit="files", **total) as step:
            if is_disk:
                self._copy_groups(step)
            else:
                can = [store.capabilities.parallel_reads for store in (self._data, self._target)]
                at_once = self._plan.request.threads or max(can)
                for one in self._table.engine.run(self._copy_one, self._files(), at_once=at_once):
                    self._count(one, step)

    def _files(self) -> Iterator[tuple[str, int]]:
        """Yield the files to copy, until the time is up."""
        budget = self._plan.request.time_budget_ms
        for batch in self._plan.files.to_batches(max_chunksize=_BATCH_ROWS):
            for path, size in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                if budget is not None and (self._table.machine.monotonic() - self._began) * 1_000 >= budget:
                    self._execution.outcome.is_out_of_time = True
                    return
                yield decode_path_bytes(path), size

    def _copy_groups(self, step: WeighedStep) -> None:
        source, target = self._data, self._target
        assert isinstance(source, LocalStorage)
        assert isinstance(target, LocalStorage)
        at_once = min(self._plan.request.threads or _AT_ONCE, _AT_ONCE)
        most = raise_open_file_limit(at_once * _GROUP_FILES + _OTHER_DESCRIPTORS)
        groups = _groups(self._files(), max(1, min(_GROUP_FILES, (most - _OTHER_DESCRIPTORS) // at_once)))
        is_many = at_once > 1 and self._plan.files.num_rows >= _FILES_OF_A_PROCESS

        def copy(group: Sequence[tuple[str, int]]) -> _Copied:
            self._throttle(sum(size for _, size in group))
            path, size = group[-1]
            if size >= _GROUP_BYTES:
                refuse_sparse(source, path)
            paths = [path for path, _ in group]
            with self._blaming_source(paths):
                made = (beside and beside.copy_group(paths)) or target.copy_group(source, paths)
            return self._done(group, made)

        with CopyProcess(source, target) if is_many else nullcontext() as beside:
            for copied in self._table.engine.run(copy, groups, at_once=at_once):
                self._count(copied, step)
        target.sync()

    def _copy_one(self, file: tuple[str, int]) -> _Copied:
        path, size = file
        self._throttle(size)
        with self._blaming_source([path]):
            if self._within is not None:
                return self._done([file], [self._within(path, path)])
            proofs: list[object] = []
            made = copy_file(self._data, path, size, self._target, proven=lambda: proofs.append(path))
            return self._done([file], [made])._replace(checksums=len(proofs))

    @contextmanager
    def _blaming_source(self, paths: Sequence[str]) -> Iterator[None]:
        """Raise ConflictLost where the source loses a file while it is copied.

        A directory of the target can be lost, too, such as a mount that goes away: then the files of the source are
        still there, and the error is about the target.
        """
        try:
            yield
        except errors.FileMissing as fault:
            sources = (self._source, self._data)
            if all(any(source.kind_of(path) is not PathKind.MISSING for source in sources) for path in paths):
                target = self._target.uri
                raise errors.StorageFailed(f"{target} cannot be written", facts={"why": fault.message}) from fault
            raise errors.ConflictLost(
                f"a file of the source was deleted while it was copied: {fault}", code="copy.source-changed"
            ) from fault

    def _done(self, files: Sequence[tuple[str, int]], made: Sequence[Creation]) -> _Copied:
        """Return what became of copies. Raises Refused where another file has the name of one."""
        for (path, size), one in zip(files, made, strict=True):
            if not isinstance(one, Created) and stat_created(self._target, path, one).size_bytes != size:
                raise _diverged(path, self._target)
        new = (size for (_, size), one in zip(files, made, strict=True) if not isinstance(one, Existed))
        return _Copied(FileTotals.from_sizes(size for _, size in files), FileTotals.from_sizes(new))

    def _count(self, copied: _Copied, step: WeighedStep) -> None:
        self._execution.outcome.copied += copied.new
        if copied.new.files:
            self._execution.outcome.checksums += copied.checksums
        step.advance(copied.found.files, weight=copied.found.size_bytes)

    def _throttle(self, size: int) -> None:
        """Wait until so many more bytes may be sent."""
        rate = self._plan.request.rate
        if isinstance(rate, int):
            self._sent += size
            due = self._began + self._sent / rate - self._table.machine.monotonic()
            if due > 0:
                self._table.machine.sleep(due)

    # -- the log -------------------------------------------------------------------------------------------------------

    def _copy_log(self) -> dict[int, CopiedCommit]:
        plan, progress = self._plan, self._table.progress
        if plan.makes_start:
            self._write_start()
        commits = {}
        weight = sum(file.size_bytes for file in plan.log)
        with start_weighed_step(progress, "copying the log", unit="files", total=len(plan.log), weight=weight) as step:
            for file in plan.log:
                self._look()
                sha256 = self._copy_log_file(file, step)
                if file.path.kind is LogFileKind.COMMIT:
                    commits[file.version] = CopiedCommit(file.version, file.size_bytes, file.modified_ms, sha256)
        if plan.hint is not None and not plan.request.check:
            self._target.put(log_location(HINT_NAME), plan.hint)
        return commits

    def _look(self) -> None:
        """Look at the newest commit of the source again before a file of the log is copied, where the last look does
        not count any more. Raises Refused for another one: the data files of others in its place were not copied.
        """
        is_disk = self._source.capabilities.has_cheap_requests
        if is_disk or self._table.machine.monotonic() - self._looked_at > MAX_FILE_CHECK_AGE_SECONDS:
            require_same_base_commit(self._source, self._plan.base_version.base_commit)
            self._looked_at = self._table.machine.monotonic()

    def _copy_log_file(self, file: LogFile, step: WeighedStep) -> str:
        from hashlib import sha256

        path, digest = log_location(file.name), sha256()
        self._throttle(file.size_bytes)
        with self._blaming_source([path]):
            made = copy_file(self._source, path, file.size_bytes, self._target, digest=digest)
            if not isinstance(made, Created) and not self._is_same(path, file.size_bytes, made):
                if file.path.kind is LogFileKind.COMMIT:
                    raise _diverged(path, self._target)
                made = copy_file(self._source, path, file.size_bytes, self._target, replace=True)
        size = FileTotals(1, file.size_bytes)
        self._count(_Copied(size, FileTotals() if made == Existed() else size), step)
        return digest.hexdigest()

    def _is_same(self, path: str, size: int, made: Creation) -> bool:
        if stat_created(self._target, path, made).size_bytes != size:
            return False
        return same_content(self._source, path, self._target, path, size) is not None

    def _write_start(self) -> None:
        """Write the checkpoint of the first version into the target, from the log of the source."""
        from deltacli.operations.checkpoint.checkpoint import write_checkpoint

        split = cast("Storage", _ReadsFromSource(self._source, self._target))
        write_checkpoint(plan_start(self._table.replace_storage(split), self._plan.first))
        self._execution.outcome.copied += FileTotals(1)

    def _commit_own_id(self, own_id: str, copied: Snapshot) -> int:
        """Commit the id of the copy, unless it has it already, and return the version."""
        plan, read = self._plan, [copied] if copied.listing.newest_version == copied.version else []

        def newest(table: TableHandle) -> Snapshot:
            return read.pop() if read else read_snapshot(table)

        def make(snapshot: Snapshot) -> CommitRequest | None:
            is_own = snapshot.metadata.id == own_id
            if snapshot.version != plan.last + is_own:
                raise diverged(
                    f"another writer has committed version {snapshot.version} to the unfinished copy", self._target
                )
            if is_own:
                return None
            parameters = {"source": self._table.uri, "sourceVersion": plan.last}
            return CommitRequest(
                "COPY", parameters, metadata={**snapshot.raw_metadata, "id": own_id}, assigns_table_id=True
            )

        done = commit(self._table.replace_storage(self._target), make, read=newest)
        return done.version if isinstance(done, Committed) else done.read_version


class _ReadsFromSource:
    """A store that reads from one place and writes to another."""

    def __init__(self, source: Any, target: Storage) -> None:  # Any: a store
        self._source, self._target = source, target

    def __getattr__(self, name: str) -> Any:  # Any: a method of the store
        is_writing = name in ("draft", "put", "put_if_absent", "copy_within", "delete_many", "remove_directory")
        return getattr(self._target if is_writing else self._source, name)


def _groups(files: Iterable[tuple[str, int]], most: int) -> Iterator[list[tuple[str, int]]]:
    group: list[tuple[str, int]] = []
    size_bytes = 0
    for file in files:
        group.append(file)
        size_bytes += file[1]
        if len(group) >= most or size_bytes >= _GROUP_BYTES:
            yield group
            group, size_bytes = [], 0
    if group:
        yield group


def _diverged(path: str, target: Storage) -> errors.Refused:
    return diverged(f"{path} of the target is another file than in the source", target)
