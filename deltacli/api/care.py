"""What a table handle inherits: how methods change a table, looks before a change, care of the log, ways back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from deltacli.core.errors import UsageError
from deltacli.core.request_fields import Lazy, takes
from deltacli.core.short_repr import short_repr
from deltacli.table.api_arguments import named, optional_version, version_number
from deltacli.table.handle import TableHandle

# -- planning and execution --------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from deltacli.changing.change import Change, Outcome, Plan

    class PlanWithOutcome(Plan, Outcome, Protocol):
        """A plan whose outcome has the same type."""

    P = TypeVar("P", bound=Plan)
    PO = TypeVar("PO", bound=PlanWithOutcome)
    O = TypeVar("O", bound=Outcome)  # noqa: E741


class Changes(TableHandle):
    """What the methods of a table that change it have in common. They act at once, without a question; `plan_…` and
    `execute_…` are their two halves.
    """

    def _made(self, change: Change[PO, PO], *, dry_run: bool, refuses: bool = False) -> PO:
        """Carry out a change whose outcome is one of its plan, or only plan it; `refuses`: raise what objects to it."""
        found = self._plan(change) if dry_run else self._carry_out(change)
        if refuses and (refusal := found.objection()) is not None:
            raise refusal
        return found

    def _done(self, change: Change[P, O], *, dry_run: bool) -> O:
        """Carry out a change, or return the outcome of a plan of which nothing is done."""
        return change.outcome(self._plan(change)) if dry_run else self._carry_out(change)

    def _plan(self, change: Change[P, O]) -> P:
        """Plan a change. What objects to it is in the plan."""
        from deltacli.changing.change import plan_change

        self.require_writable(dry_run=True)
        return plan_change(change, self)

    def _carry_out(self, change: Change[P, O]) -> O:
        from deltacli.changing.change import carry_out

        self.require_writable()
        return carry_out(change, self)

    def _execute(self, change: Change[P, O], plan: P, *, writes: bool = True, may_plan_again: bool = False) -> O:
        """Execute a plan of this table and nothing else, unless it may be made again behind other writers; `writes`: it
        writes to the table.
        """
        from deltacli.changing.change import execute_plan

        self.require_writable(dry_run=not writes)
        self._require_own(plan.basis.table.uri)
        return execute_plan(change, self, plan, may_plan_again=may_plan_again)

    def _require_own(self, uri: str) -> None:
        if uri != self.uri:
            raise UsageError("the plan is one of another table", facts={"plan": uri, "table": self.uri})


# -- log, files and costs ----------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from deltacli.operations.diff import DiffRequest, TableDiff
    from deltacli.operations.doctor.advice import DoctorRequest
    from deltacli.operations.doctor.examined import TableReport
    from deltacli.operations.explain import ExplainRequest, Explanation
    from deltacli.operations.reach import ReachRequest, TableReach
    from deltacli.operations.streams.streams import StreamsReport, StreamsRequest
else:
    DiffRequest = Lazy("deltacli.operations.diff", "DiffRequest")
    DoctorRequest = Lazy("deltacli.operations.doctor.advice", "DoctorRequest")
    ExplainRequest = Lazy("deltacli.operations.explain", "ExplainRequest")
    ReachRequest = Lazy("deltacli.operations.reach", "ReachRequest")
    StreamsRequest = Lazy("deltacli.operations.streams.streams", "StreamsRequest")


class BeforeChange(TableHandle):
    """The part of a table handle that compares and explains; nothing is changed."""

    @named
    @takes(DiffRequest)
    def diff(self, request: DiffRequest) -> TableDiff:
        """Return what differs between two versions, or between this table and another one.

        The parameters are the fields of `DiffRequest`.
        `from_version` or `from_timestamp` choose the first version, `to_version` or `to_timestamp` the second one
        (None: the newest), which is of the table `other` where that is given. With `rows`, rows are compared by the
        columns `key`, and `rows` of the result has the counts and yields the keys that differ; where they do not fit in
        memory they are in `temp_dir`. `is_equal` of the result says whether anything differs; `as_json` returns the
        document `deltacli.diff`, `file_rows` the files that differ.

        Raises UsageError where neither version nor table is given, and what `snapshot` raises.
        """
        from deltacli.operations.diff import diff_tables

        return diff_tables(self, request)

    @named
    @takes(ReachRequest)
    def reach(self, request: ReachRequest) -> TableReach:
        """Return which versions can be read, by what, and until when; nothing is changed.

        The parameters are the fields of `ReachRequest`.
        With `retention_ms`, `retention` of the result says what a log expiry and a vacuum with this retention would
        delete, and the versions that could no longer be read. `ranges` are versions with the same facts, `readable`
        those that can be read; `as_json` returns the document `deltacli.reach`. What is damaged is part of the result.

        Raises NotATable and StorageFailed.
        """
        from deltacli.operations.reach import find_reach

        return find_reach(self, request)

    @named
    @takes(StreamsRequest)
    def streams(self, request: StreamsRequest) -> StreamsReport:
        """Return the queries of Spark that read this table, and whether each can continue; nothing is changed.

        The parameters are the fields of `StreamsRequest`.
        `checkpoints` are directories and patterns, relative to the current directory. `queries` of the result have a
        `finding` with verdict and reason, and `sources` with their `judgement`: position, needs, lag; the worst come
        first. With `restart_point`, the checkpoint of one query, its sources also have where it can start over.
        `as_json` returns the document `deltacli.streams`.

        Raises Refused (`streams.none-found`), Unreadable (`streams.not-a-checkpoint`), UsageError and StorageFailed.
        """
        from deltacli.operations.streams.streams import find_streams

        return find_streams(request, [self], self.open_other, self.engine, is_one_table=True, progress=self.progress)

    @named
    @takes(ExplainRequest)
    def explain(self, request: ExplainRequest) -> Explanation:
        """Return which clients read and write the newest version, what stops the others, and the ways out.

        The parameters are the fields of `ExplainRequest`.
        `clients` are names (`duckdb`, `trino=480`; default: all that are known), `changes` what is supposed, such as
        `add=deletionVectors`, `drop=columnMapping` or `widen=id:bigint`; nothing is changed. `client(NAME)` of the
        result returns what a client does, `ways_out` the ways out; `as_json` returns the document `deltacli.explain`.

        Raises UsageError for unknown clients and features, Refused for a change that cannot be made, and what
        `snapshot` raises, but for a reader feature that is not known.
        """
        from deltacli.operations.explain import explain

        return explain(self, request)

    @named
    @takes(DoctorRequest)
    def doctor(self, request: DoctorRequest) -> TableReport:
        """Return the state of the newest version in numbers, and advice, what saves most first; nothing is changed.

        The parameters are the fields of `DoctorRequest`.
        Each of `advice` has a `code`, a `message`, the numbers `now` and `after` it is followed, what that `saves`, and
        by `command_for` the command. `prices` are those of the store, as `parse_prices` reads them from a file; without
        `listing` the table is not listed. `as_json` returns the document `deltacli.doctor-table`; `notes` say why
        advice is missing.

        Raises UsageError for a shared table, and what `snapshot` raises.
        """
        from deltacli.operations.doctor.table import examine_table

        return examine_table(self, request)


# -- maintenance of the log from Python --------------------------------------------------------------------------------

if TYPE_CHECKING:
    from deltacli.changing.manifests import ManifestsOutcome, ManifestsPlan
    from deltacli.operations.change.convert import ConvertPlan, ConvertRequest
    from deltacli.operations.checkpoint.checkpoint import CheckpointPlan, CheckpointRequest, CheckpointResult
    from deltacli.operations.log.crc_and_compact import ChecksumReport, Compaction
    from deltacli.operations.log.expire import ExpiryOutcome, ExpiryPlan, ExpiryRequest
    from deltacli.operations.log.log_backup import BackupPlan, BackupResult
    from deltacli.operations.log.log_restore import LogRestorePlan

else:
    CheckpointRequest = Lazy("deltacli.operations.checkpoint.checkpoint", "CheckpointRequest")
    ConvertRequest = Lazy("deltacli.operations.change.convert", "ConvertRequest")
    ExpiryRequest = Lazy("deltacli.operations.log.expire", "ExpiryRequest")


@short_repr("plan", "outcome")
class ExpiryResult(NamedTuple):
    """A plan and its outcome; None where it was not executed."""

    plan: ExpiryPlan
    outcome: ExpiryOutcome | None


@short_repr("plan", "was_executed")
class RestoreResult(NamedTuple):
    """A plan, and whether it was executed."""

    plan: LogRestorePlan
    was_executed: bool


class LogCare(Changes):
    """The methods of a table that maintain its `_delta_log`. They act at once, without a question; `plan_…` and
    `execute_…` are their two halves.
    """

    @named
    @takes(CheckpointRequest)
    def checkpoint(self, request: CheckpointRequest) -> CheckpointResult:
        """Write a checkpoint of the newest version, or of `version`, and return what was done.

        `layout`: `classic`, `multi-part` (with `parts`, or `rows_per_file`) or `v2` (with at most `rows_per_file`
        actions in a sidecar, and `v2_top` `json` or `parquet`); None: as in the table's policy. `stats`: the columns of
        statistics, `keep`, `json`, `struct` or `both`. `if_behind`: do nothing unless this many commits were made since
        the last checkpoint. `force` rewrites an existing one. `dry_run` only counts.

        In the result, `skipped` is True where nothing had to be done, `files` are paths relative to the table with
        their size in bytes and their rows, `actions` are counts by kind, `hint_version` is the version that
        `_last_checkpoint` names afterwards, None where it does not name this one.

        Raises UsageError for conflicting arguments; Refused where the protocol, the state of the log or
        the version's checksum file forbids it or the commit was rewritten meanwhile, among them NoAtomicCreate for a
        store that is read-only; PartlyDone where an error came after a file was published; StorageFailed, with nothing
        published where the file does not read back as expected (`checkpoint.not-proven`); and what
        `snapshot` raises.
        """
        from deltacli.changing.change import carry_out, plan_change
        from deltacli.operations.checkpoint.checkpoint import Checkpoint, write_checkpoint

        self.require_writable(dry_run=request.dry_run)
        plan = plan_change(Checkpoint(request), self)
        if request.dry_run and plan.refusal is None:
            return write_checkpoint(plan, dry_run=True)
        return carry_out(Checkpoint(request), self, plan=plan)

    @named
    @takes(CheckpointRequest)
    def plan_checkpoint(self, request: CheckpointRequest) -> CheckpointPlan:
        """Return the plan of `checkpoint` with the same parameters; its `refusal` is what `force` accepts. Raises as it
        does.
        """
        from deltacli.operations.checkpoint.checkpoint import Checkpoint

        return self._plan(Checkpoint(request))

    @named
    def execute_checkpoint(self, plan: CheckpointPlan) -> CheckpointResult:
        """Write a planned checkpoint of this table. Raises as `checkpoint` does."""
        from deltacli.operations.checkpoint.checkpoint import Checkpoint

        return self._execute(Checkpoint(plan.request), plan)

    @named
    @takes(ExpiryRequest)
    def expire_log(self, request: ExpiryRequest) -> ExpiryResult:
        """Delete, at once, the files of the log that no kept version needs; `dry_run=True` returns the plan.

        `retention_ms` (default: the table's own) keeps newer commits; a shorter one than the table's own needs
        `allow_retention_below_ms` with the table's value. `keep_versions` remain readable, whatever their age.
        `dry_run` only plans: the outcome is None, and refusals are in the plan.

        Raises Refused, with nothing deleted, where a guard objects (`expire.*`) or the table is no longer as planned
        (`plan.*`); PartlyDone where files could not be deleted, or an error ended the deletion; StorageFailed; and what
        `snapshot` raises. Spec: Metadata Cleanup.
        """
        from deltacli.changing.change import carry_out, plan_change
        from deltacli.operations.log.expire import LogExpiry

        self.require_writable(dry_run=request.dry_run)
        change = LogExpiry(request, proves=request.dry_run)
        plan = plan_change(change, self)
        is_executed = not (request.dry_run or plan.is_noop)
        return ExpiryResult(plan, carry_out(change, self, plan=plan) if is_executed else None)

    @named
    @takes(ExpiryRequest)
    def plan_expire_log(self, request: ExpiryRequest) -> ExpiryPlan:
        """Return what `expire_log` would do with the same parameters; refusals are in the plan. Raises as it does."""
        from deltacli.operations.log.expire import LogExpiry

        return self._plan(LogExpiry(request))

    @named
    def execute_expire_log(self, plan: ExpiryPlan) -> ExpiryResult:
        """Delete the files of a plan of this table. Raises as `expire_log` does."""
        from deltacli.operations.log.expire import LogExpiry

        return ExpiryResult(plan, self._execute(LogExpiry(plan.request), plan))

    @named
    def compact_log(self, first: int, last: int, *, dry_run: bool = False) -> Compaction:
        """Write a log compaction of the commits `first` to `last`, both included, and return what was written.

        An existing file is never replaced: `skipped` is True where the same compaction exists. `dry_run` only counts.

        Raises UsageError for fewer than two commits, VersionAbsent where one is missing, Refused where the protocol or
        the size forbids it or a commit was rewritten meanwhile, StorageFailed, and what `snapshot` raises.
        Spec: Log Compaction Files.
        """
        from deltacli.operations.log.crc_and_compact import LogCompaction

        return self._made(LogCompaction(version_number(first, "first"), version_number(last, "last")), dry_run=dry_run)

    @named
    def plan_compact_log(self, first: int, last: int) -> Compaction:
        """Return what `compact_log` would write. Raises as it does."""
        return self.compact_log(first, last, dry_run=True)

    @named
    def execute_compact_log(self, plan: Compaction) -> Compaction:
        """Write a planned compaction of this table. Raises as `compact_log` does."""
        from deltacli.operations.log.crc_and_compact import LogCompaction

        return self._execute(LogCompaction(plan.first, plan.last), plan)

    @named
    def write_checksum(self, *, version: int | None = None, dry_run: bool = False) -> ChecksumReport:
        """Write the checksum file of the newest version, or of `version`, where it is missing; return its state.

        An existing file is compared with the log and never replaced: `status` is `agrees`, `differs` (with
        `differences`) or `unreadable`. `dry_run` only compares.

        Raises Refused where the version has no commit file, the protocol forbids writing or the commit was rewritten
        meanwhile, StorageFailed, and what `snapshot` raises. Spec: Version Checksum File.
        """
        from deltacli.operations.log.crc_and_compact import Checksum

        return self._made(Checksum(optional_version(version, "version")), dry_run=dry_run)

    @named
    def plan_write_checksum(self, *, version: int | None = None) -> ChecksumReport:
        """Return what `write_checksum` would find or write. Raises as it does."""
        return self.write_checksum(version=version, dry_run=True)

    @named
    def execute_write_checksum(self, plan: ChecksumReport) -> ChecksumReport:
        """Write a planned checksum file of this table. Raises as `write_checksum` does."""
        from deltacli.operations.log.crc_and_compact import Checksum

        return self._execute(Checksum(plan.version), plan)

    @named
    def backup_log(self, destination: str, *, full: bool = False, dry_run: bool = False) -> BackupResult:
        """Copy the log to a directory (a path or URI) that a later run adds to, and return what was copied.

        Copies are read back and compared. `full` compares every file by digest instead of by size and time. `dry_run`
        copies nothing.

        Raises UsageError where one of table and backup contains the other, Refused where the directory has other
        content, StorageFailed, and NotATable.
        """
        from deltacli.changing.change import carry_out
        from deltacli.operations.log.log_backup import LogBackup, planned_backup

        if dry_run:
            return planned_backup(self.plan_backup_log(destination, full=full))
        return carry_out(LogBackup(self.open_other(destination), full), self)

    @named
    def plan_backup_log(self, destination: str, *, full: bool = False) -> BackupPlan:
        """Return what `backup_log` would copy. Raises as it does."""
        from deltacli.changing.change import plan_change
        from deltacli.operations.log.log_backup import LogBackup

        return plan_change(LogBackup(self.open_other(destination), full), self)

    @named
    def execute_backup_log(self, plan: BackupPlan) -> BackupResult:
        """Copy the files of a plan of this table. Raises as `backup_log` does."""
        from deltacli.operations.log.log_backup import LogBackup

        return self._execute(LogBackup(plan.destination, plan.full), plan, writes=False)

    @named
    def restore_log(self, source: str, *, replace: bool = False, dry_run: bool = False) -> RestoreResult:
        """Add, at once, the files of a backup that the log lacks; `dry_run=True` returns the plan.

        Returns the plan with whether it was executed. `replace` also replaces files that differ.

        Raises Unreadable for a directory without a backup, or with a damaged one; Refused, with nothing written, where
        it is of another table or the result would mix two histories; ConflictLost where a writer was first;
        StorageFailed.
        """
        from deltacli.changing.change import carry_out
        from deltacli.operations.log.log_restore import LogRestore

        self.require_writable(dry_run=dry_run)
        plan = self.plan_restore_log(source, replace=replace)
        if dry_run or plan.is_noop:
            return RestoreResult(plan, was_executed=False)
        carry_out(LogRestore(plan.source, replace), self, plan=plan)
        return RestoreResult(plan, was_executed=True)

    @named
    def plan_restore_log(self, source: str, *, replace: bool = False) -> LogRestorePlan:
        """Return what `restore_log` would write. Raises as it does."""
        from deltacli.operations.log.log_restore import LogRestore

        return self._plan(LogRestore(self.open_other(source), replace))

    @named
    def execute_restore_log(self, plan: LogRestorePlan) -> RestoreResult:
        """Write the files of a plan of this table. Raises as `restore_log` does."""
        from deltacli.operations.log.log_restore import LogRestore

        self._execute(LogRestore(plan.source, plan.replaces), plan)
        return RestoreResult(plan, was_executed=not plan.is_noop)

    @named
    def manifest(self, *, dry_run: bool = False) -> ManifestsOutcome:
        """Write the symlink manifests of the newest version at once; `dry_run=True` only compares.

        `differences` of the outcome's `plan` are the manifests that were missing, differed or were of partitions
        without files; refusals are in a plan that is not executed. `as_json` returns the document `deltacli.manifest`.

        Raises Refused (`manifests.*`) for tables with column mapping, and with deleted rows in their files; PartlyDone
        where manifests could not be deleted; and what `snapshot` raises.
        """
        from deltacli.operations.change.manifest import Manifests

        return self._done(Manifests(), dry_run=dry_run)

    @named
    def plan_manifest(self) -> ManifestsPlan:
        """Return how the manifests differ from the newest version; its refusals are in the plan."""
        from deltacli.operations.change.manifest import Manifests

        return self._plan(Manifests())

    @named
    def execute_manifest(self, plan: ManifestsPlan) -> ManifestsOutcome:
        """Write the manifests of a plan of this table. Raises as `manifest` does."""
        from deltacli.operations.change.manifest import Manifests

        return self._execute(Manifests(), plan)

    @named
    @takes(ConvertRequest)
    def convert(self, request: ConvertRequest) -> ConvertPlan:
        """Make a Delta table of the Parquet files of this directory at once; `dry_run=True` only plans.

        The parameters are the fields of `ConvertRequest`.
        `partition` are the partition columns with their types, as `day date, country string` (None: as the directories
        name them). `schema` and `like` are files with the columns. `exclude` are patterns of files that are left out.
        `conflicts` of the plan are files that do not fit, `unknowable` what is lost with the log of a former table,
        which `accept_unknowable` accepts; `committed_version` is 0 once it is made.

        Raises Refused, with nothing changed, where files do not fit together, or the directory is a table; NotATable
        without a data file; UsageError; StorageFailed; and what commits raise.
        """
        from deltacli.operations.change.convert import Convert

        return self._made(Convert(request), dry_run=request.dry_run)

    @named
    @takes(ConvertRequest)
    def plan_convert(self, request: ConvertRequest) -> ConvertPlan:
        """Return what `convert` with the same parameters would do; its refusals are in the plan. Raises as it does."""
        from deltacli.operations.change.convert import Convert

        return self._plan(Convert(request))

    @named
    def execute_convert(self, plan: ConvertPlan) -> ConvertPlan:
        """Commit a plan of this directory. Raises as `convert` does."""
        from deltacli.operations.change.convert import Convert

        return self._execute(Convert(plan.request), plan)


# -- copies elsewhere --------------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from deltacli.operations.copy.execute import CopyResult
    from deltacli.operations.copy.plan import CopyPlan
    from deltacli.operations.copy.request import CopyRequest
else:
    CopyRequest = Lazy("deltacli.operations.copy.plan", "CopyRequest")


class Elsewhere(Changes):
    """The methods of a table that make one in another place of it."""

    @named
    @takes(CopyRequest)
    def copy(self, request: CopyRequest) -> CopyResult:
        """Copy the table to the directory `target`, and return what was copied; `dry_run=True` copies nothing.

        The parameters are the fields of `CopyRequest`. `target` is a path or URI. The copy gets a table id of its own,
        but as a `replica` it keeps id and commits, and a later call brings it up to date. `versions` are a range such
        as `5-12`, `newest` copies one version. `check` compares, and copies nothing: `differences` of the result are
        what the copy lacks or has otherwise. `level` is `storage`, `footers` or `data`. `keep_external` accepts files
        outside of the table, which are not copied. `threads` files are copied at a time, `rate` bytes per second, and
        none is begun after `time_budget_ms`.

        Raises UsageError where one of both is in the other; Refused for a target that is no copy of this table
        (`copy.not-a-replica`), a source that was rewritten since (`copy.source-rewritten`) or is incomplete
        (`copy.source-incomplete`); ConflictLost where the source loses files meanwhile; PartlyDone where something was
        copied before an error; StorageFailed; and what `snapshot` raises.
        """
        from deltacli.changing.change import carry_out
        from deltacli.operations.copy.execute import Copy, CopyResult, check_copy

        change = Copy(self.open_other(request.target), request)
        if request.check:
            return check_copy(self, change.target, request)
        if request.dry_run:
            return CopyResult(self.plan_copy(**vars(request)), dry_run=True)
        return carry_out(change, self)

    @named
    @takes(CopyRequest)
    def plan_copy(self, request: CopyRequest) -> CopyPlan:
        """Return what `copy` with the same parameters would copy; its refusals are in the plan. Raises as it does."""
        from deltacli.changing.change import plan_change
        from deltacli.operations.copy.execute import Copy

        return plan_change(Copy(self.open_other(request.target), request), self)

    @named
    def execute_copy(self, plan: CopyPlan) -> CopyResult:
        """Copy the files of a plan of this table. Raises as `copy` does."""
        from deltacli.operations.copy.execute import Copy

        return self._execute(Copy(plan.target, plan.request), plan, writes=False)


# -- taking changes back from Python -----------------------------------------------------------------------------------

if TYPE_CHECKING:
    from deltacli.operations.recover.plan import UndeletePlan, UndeleteRequest
    from deltacli.operations.recover.undelete import UndeleteResult
    from deltacli.operations.repair.backup import PutBack, UndoPlan
    from deltacli.operations.repair.plan import RepairPlan, RepairRequest
    from deltacli.operations.repair.repair import RepairOutcome
    from deltacli.operations.restore.restore import RestoreOutcome, RestorePlan, RestoreRequest
    from deltacli.operations.vacuum.quarantine import PurgePlan, PurgeResult, QuarantinePurge
else:
    RepairRequest = Lazy("deltacli.operations.repair.plan", "RepairRequest")
    RestoreRequest = Lazy("deltacli.operations.restore.restore", "RestoreRequest")
    UndeleteRequest = Lazy("deltacli.operations.recover.plan", "UndeleteRequest")


class Undo(Changes):
    """The methods of a table that take changes back."""

    @named
    @takes(UndeleteRequest)
    def undelete(self, request: UndeleteRequest) -> UndeleteResult:
        """Bring back lost files of the newest version, or of `version`, at once; `dry_run=True` returns the plan.

        Returns the plan with what was put in place. Files of the log come back as well.

        The parameters are the fields of `UndeleteRequest`. `sources` are `versions` (what the store keeps of deleted
        objects; the default) or paths and URIs of copies of the table; the first that has a file as the log describes
        it is its source. `prefix` limits the data files to a directory. `accept_commits` are versions that a copy may
        bring although nothing proves that they are of this table. `dry_run` only plans: nothing is put in place,
        and refusals are in the plan.

        Raises Refused, with nothing changed, for a store without versions, the source of another table, an overwritten
        commit, and commits of a copy that nothing proves (`recover.unproven`); PartlyDone where files are in no source
        (`newest_readable` of the plan is the newest version that can be read), and for what fails once a file was put;
        ConflictLost where another writer created a commit that was to come back; StorageFailed; and what `snapshot`
        raises.
        """
        from deltacli.operations.recover.undelete import Undelete, UndeleteResult

        change = Undelete(request)
        return UndeleteResult(self._plan(change), None) if request.dry_run else self._carry_out(change)

    @named
    @takes(UndeleteRequest)
    def plan_undelete(self, request: UndeleteRequest) -> UndeletePlan:
        """Return what `undelete` with the same parameters would do; its refusals are in the plan. Raises as it does."""
        from deltacli.operations.recover.undelete import Undelete

        return self._plan(Undelete(request))

    @named
    def execute_undelete(self, plan: UndeletePlan) -> UndeleteResult:
        """Put the files of a plan of this table in their places. Raises as `undelete` does."""
        from deltacli.operations.recover.undelete import Undelete

        return self._execute(Undelete(plan.request), plan)

    @named
    @takes(RestoreRequest)
    def restore(self, request: RestoreRequest) -> RestoreOutcome:
        """Bring the table back to an earlier version at once, in one commit; `dry_run=True` returns the plan.

        The parameters are the fields of `RestoreRequest`.
        `version`, `timestamp` or `timestamp_ms` choose the version, as for `snapshot`. `where` is a condition on
        partition columns: only these partitions come back, schema and properties stay. Every file that comes back is
        checked first, by its size, its deletion vector and, without `trust_listing`, its footer. `commit_metadata` are
        keys for the commitInfo. `dry_run` only plans: refusals are in the plan, `committed_version` is None, as it is
        where nothing differs. Files that come back are looked at again before a commit a minute later, and after it.

        Raises Refused, with nothing changed, where a guard objects (`restore.*`) or the protocol forbids writing; what
        commits raise; PartlyDone where another program deleted files meanwhile; and what `snapshot` raises.
        Spec: Add File and Remove File.
        """
        from deltacli.operations.restore.restore import Restore

        return self._done(Restore(request), dry_run=request.dry_run)

    @named
    @takes(RestoreRequest)
    def plan_restore(self, request: RestoreRequest) -> RestorePlan:
        """Return what `restore` with the same parameters would do; its refusals are in the plan. Raises as it does."""
        from deltacli.operations.restore.restore import Restore

        return self._plan(Restore(request))

    @named
    def execute_restore(self, plan: RestorePlan, *, may_plan_again: bool = False) -> RestoreOutcome:
        """Commit a plan of this table.

        If another writer was first and the plan no longer fits, it is made again: it is committed if it comes to the
        same, else ConflictLost is raised. With `may_plan_again` it is committed in any case, and undoes those commits,
        too. Raises as `restore` does.
        """
        from deltacli.operations.restore.restore import Restore

        return self._execute(Restore(plan.request), plan, may_plan_again=may_plan_again)

    @named
    def purge_quarantine(self, quarantine: str, *, older_ms: int, dry_run: bool = False) -> PurgeResult:
        """Delete, at once, older files of this table from a quarantine; `dry_run=True` returns the plan.

        Returns the plan with its outcome.

        Only what manifests of this table name is deleted. `dry_run` only plans: directories that are not touched are in
        `refusals` of the plan.

        Raises Refused where a manifest cannot be trusted, or the quarantine is in a table; PartlyDone where files could
        not be deleted; StorageFailed; and what `snapshot` raises.
        """
        from deltacli.operations.vacuum.quarantine import PurgeResult

        change = _purge(quarantine, older_ms)
        return PurgeResult(self._plan(change), None) if dry_run else self._carry_out(change)

    @named
    def plan_purge_quarantine(self, quarantine: str, *, older_ms: int) -> PurgePlan:
        """Return what `purge_quarantine` would delete; its refusals are in the plan. Raises as it does."""
        return self._plan(_purge(quarantine, older_ms))

    @named
    def execute_purge_quarantine(self, plan: PurgePlan) -> PurgeResult:
        """Delete what a plan of this table says. Raises as `purge_quarantine` does."""
        return self._execute(_purge(plan.quarantine, max(0, plan.basis.now_ms - plan.cutoff_ms)), plan)

    @named
    @takes(RepairRequest)
    def repair(self, request: RepairRequest) -> RepairOutcome:
        """Recover and rebuild at once, and give up only what no source has; `dry_run=True` returns the plan.

        The parameters are the fields of `RepairRequest`. `level` and `select` choose the findings. `sources` are
        `versions` or paths and URIs of copies. `accept_commits` are versions that a copy may bring although nothing
        proves that they are of this table. `accept_empty_commits` are versions whose commit has 0 bytes and is written
        as one that changed nothing. `accept_loss` allows giving up files, at most the share `max_missing`.
        `allow_in_use`: even if others committed lately. `quarantine` is a directory outside of all tables for the
        backup and for readable rows of damaged files. `dry_run` only plans.

        Raises Refused, with nothing changed, where guards object to every step (`repair.*`); PartlyDone where some
        steps were refused or failed; what commits raise; NotATable where no log is found; and StorageFailed.
        """
        from deltacli.operations.repair.repair import Repair

        return self._done(Repair(request), dry_run=request.dry_run)

    @named
    @takes(RepairRequest)
    def plan_repair(self, request: RepairRequest) -> RepairPlan:
        """Return what `repair` with the same parameters would do; its refusals are in the plan. Raises as it does."""
        from deltacli.operations.repair.repair import Repair

        return self._plan(Repair(request))

    @named
    def execute_repair(self, plan: RepairPlan) -> RepairOutcome:
        """Make the changes of a plan of this table, and what follows from them. Raises as `repair` does."""
        from deltacli.operations.repair.repair import Repair

        return self._execute(Repair(plan.request), plan)

    @named
    def undo_repair(self, backup: str, *, dry_run: bool = False) -> PutBack:
        """Put back, at once, the files that a repair replaced or moved; `dry_run=True` returns the plan.

        Raises Refused where others have committed since (`repair.log-moved-on`), where a file is not known to be what
        the repair left (`repair.not-as-left`), where versions could not be rebuilt any more
        (`repair.undo-loses-versions`), and where others change the files meanwhile; Unreadable for a damaged backup;
        PartlyDone for what fails once a file was put.
        """
        from deltacli.operations.repair.backup import Undo

        change = Undo(backup)
        return self._plan(change).amount if dry_run else self._carry_out(change)

    @named
    def plan_undo_repair(self, backup: str) -> UndoPlan:
        """Return what `undo_repair` of a backup would put back; `amount` is how much. Raises as it does."""
        from deltacli.operations.repair.backup import Undo

        return self._plan(Undo(backup))

    @named
    def execute_undo_repair(self, plan: UndoPlan) -> PutBack:
        """Put back what a plan of this table says. Raises as `undo_repair` does."""
        from deltacli.operations.repair.backup import Undo

        return self._execute(Undo(plan.backup), plan)


# -- tables that a catalog manages -------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from deltacli.operations.catalog import CatalogStatus, PublishOutcome, PublishPlan, StagedFiles


class InCatalog(Changes):
    """The part of a table handle that compares log and catalog, and publishes commits."""

    @named
    def status_catalog(self) -> CatalogStatus:
        """Return how far the catalog and the log are, what the catalog permits, and what differs between both.

        Raises UsageError where no catalog manages the table, and what catalog and store raise.
        Spec: Catalog-managed tables.
        """
        from deltacli.operations.catalog import catalog_status

        return catalog_status(self)

    @named
    def staged_catalog(self) -> StagedFiles:
        """Return the staged commits with what became of each: ratified, lost to another one, or unknown. None is
        deleted. Raises as `status_catalog`.
        """
        from deltacli.operations.catalog import staged_files

        return staged_files(self)

    @named
    def publish_catalog(self, *, dry_run: bool = False) -> PublishOutcome:
        """Copy the ratified commits that are not published into the log, in order, compare them, and report them;
        `dry_run` only plans.

        Raises Refused (`catalog.diverged`) where one is not what the catalog ratified or the log has another one;
        PartlyDone where the copies are there and the catalog was not told (`catalog.published-unreported`), or a later
        one failed: another call continues; and what `status_catalog` raises.
        """
        from deltacli.operations.catalog import Publish

        return self._done(Publish(), dry_run=dry_run)

    @named
    def plan_publish_catalog(self) -> PublishPlan:
        """Return what `publish_catalog` would do; its refusal is in the plan. Raises as it does."""
        from deltacli.operations.catalog import Publish

        return self._plan(Publish())

    @named
    def execute_publish_catalog(self, plan: PublishPlan) -> PublishOutcome:
        """Publish what a plan of this table names. Raises as `publish_catalog` does."""
        from deltacli.operations.catalog import Publish

        return self._execute(Publish(), plan)


def _purge(quarantine: str, older_ms: int) -> QuarantinePurge:
    from deltacli.operations.vacuum.quarantine import QuarantinePurge

    if type(older_ms) is not int or older_ms < 0:
        raise UsageError(f"older_ms is {older_ms!r}", facts={"expected": "a number of milliseconds"})
    return QuarantinePurge(quarantine, older_ms)
