"""Executing an optimization: files are rewritten bin by bin and committed group by group.

The winners that a commit has followed are not read again for the commits after it, so every path in them is remembered
when they are first read. A winner that changed protocol or metadata leads to a newer version, whose live files are
compared with those of the plan once.

Each commit removes the old files of its bins and adds the new ones. Another writer's commit never fails because of it:
bins whose files were touched meanwhile are dropped, and their new files deleted. New files are deleted only where their
commit certainly did not happen.

Spec: Add File and Remove File; Row Tracking.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.commit import Committed, Dropped, wait_before_retry
from deltacli.changing.commit_options import CommitOptions
from deltacli.core.errors import (
    NOTHING_CHANGED,
    DeltacliError,
    OutcomeUnknown,
    PartlyDone,
    Refused,
    StorageFailed,
    Unreadable,
    command,
)
from deltacli.core.progress import start_weighed_step
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import ArrowArray, Json, RecordBatch
from deltacli.core.units import plural
from deltacli.delta.log.commit_content import (
    CommitRequest,
    NextVersion,
    OnConflict,
    TouchedFiles,
    WatchedFiles,
    encoded_files,
)
from deltacli.delta.log.state import deleted_file_retention_ms
from deltacli.delta.paths.spelling import decode
from deltacli.operations.optimize.plan import (
    Find,
    OpenBin,
    OptimizePlan,
    added_files,
    breaks_rule,
    is_unreadable,
    open_groups,
    parameters_of,
    plan_optimize,
    size_metrics,
    weight_of,
)
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.table.file_keys import KEY_BYTES, build_removes, hash_file_actions
from deltacli.work.rewrite.pieces import SPEC, NewFileNames, RefusedFile, RewritePiece, RewriteSpec, Rewritten

if TYPE_CHECKING:
    from deltacli.changing.execution import ChangeExecution
    from deltacli.operations.optimize.verify import VerifiedRows
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

# -- files touched by other writers ------------------------------------------------------------------------------------


class Watch:
    """The files that were touched: by path in the commits that were read, by place in the plan in versions."""

    def __init__(self, plan: OptimizePlan) -> None:
        self._plan = plan
        self._seen = plan.snapshot
        self.touched = TouchedFiles()
        self._is_gone: ArrowArray | None = None

    def look_again(self, snapshot: Snapshot) -> bool:
        """Compare a version with the plan, unless it is the last one that was compared; return whether it was."""
        if snapshot is self._seen:
            return False
        self._seen, keys = snapshot, self._plan.live.keys
        if not _fits(self._plan, snapshot):
            self._is_gone = pa.repeat(pa.scalar(True), len(keys))
            return True
        parts = list(snapshot.file_actions.map_actions("add", hash_file_actions, fields=("path", "deletionVector")))
        live = pa.concat_arrays([pa.array([], pa.binary(KEY_BYTES)), *parts])
        self._is_gone = pc.invert(pc.is_in(keys, value_set=live))
        return True

    def is_touched(self, opened: OpenBin) -> bool:
        """Return whether another writer has removed a file of a bin, or given it another vector."""
        if self.touched and any(map(self.touched.has, opened.paths)):
            return True
        if self._is_gone is None:
            return False
        places = self._plan.selection.order.slice(opened.bin.start, opened.bin.files)
        return bool(pc.any(pc.take(self._is_gone, places)).as_py())


def _fits(plan: OptimizePlan, snapshot: Snapshot) -> bool:
    """Return whether files written by the plan are what a newer version would have written."""
    ours, now = plan.snapshot.config, snapshot.config
    try:
        spec = RewriteSpec.make(now, target_bytes=plan.rules.target_bytes)
    except Unreadable:
        return False
    return (
        spec.schema.equals(plan.spec.schema, check_metadata=True)
        and spec.row_columns == plan.spec.row_columns
        and now.mapping_mode == ours.mapping_mode
        and list(now.partition_columns) == list(ours.partition_columns)
    )


# -- executing an optimization -----------------------------------------------------------------------------------------

TIME_BUDGET, CONFLICT, FAILED = "time-budget", "conflict", "failed"
"""Why files were left alone: no time was left, another writer touched them or files of their bin, an error."""
_SHORT = 2
"""The pauses stop growing here: the longer the pause, the more versions others have made in it."""


@short_repr(
    "removed=files_removed",
    "added=files_added",
    "committed_version",
    "failed",
    "refused",
    "bins=plan.selection.bins",
    "dry_run=plan.request.dry_run",
)
@dataclass(eq=False, repr=False)
class OptimizeOutcome:
    """What was done so far."""

    plan: OptimizePlan
    versions: list[int] = field(default_factory=list)
    dropped: int = 0
    failed: int = 0
    files_removed: int = 0
    files_added: int = 0
    bytes_removed: int = 0
    bytes_added: int = 0
    rows: int = 0
    vectors: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    refused: list[RefusedFile] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)
    """New files that no version has and that were not deleted."""
    verified: VerifiedRows | None = None
    difference: StorageFailed | None = None
    """What `verify` found: other rows than before."""

    def __post_init__(self) -> None:
        self.refused += self.plan.damaged

    @property
    def committed_version(self) -> int | None:
        return self.versions[-1] if self.versions else None

    @property
    def deletable_from_ms(self) -> int:
        """The time in epoch milliseconds from which a vacuum may delete the old files, if they were removed now."""
        return self.plan.table.clock() + deleted_file_retention_ms(self.plan.snapshot.properties)

    def as_json(self) -> dict[str, Json]:
        """Return the content of the document `deltacli.optimize`."""
        skipped = dict(Counter(self.plan.skipped) + self.skipped)
        return self.plan.as_json() | {
            "committedVersions": list(self.versions),
            "groups": {
                "planned": len(self.plan.groups),
                "done": len(self.versions),
                "dropped": self.dropped,
                "failed": self.failed,
            },
            "files": {"removed": self.files_removed, "added": self.files_added, "skipped": sum(skipped.values())},
            "bytes": {"removed": self.bytes_removed, "added": self.bytes_added},
            "rows": self.rows,
            "vectorsPurged": self.vectors,
            "skipped": skipped,
            "refused": [one._asdict() for one in self.refused],
            "leftBehind": list(self.left_behind),
            "verified": None if self.verified is None else self.verified.as_json(),
            "dryRun": self.plan.request.dry_run,
        }

    @property
    def summary(self) -> str:
        if not self.versions:
            return "nothing was committed"
        first, last = self.versions[0], self.versions[-1]
        which = f"version {first}" if first == last else f"{len(self.versions)} versions, {first} to {last}"
        done = f"{plural(self.files_removed, 'file')} became {self.files_added:,}"
        return f"{which} committed: {done}"

    def describe_progress(self) -> str:
        return self.summary

    def build_incomplete_error(self) -> DeltacliError | None:
        """Return that `verify` found other rows (`optimize.rows-differ`), or which files could not be read, with the
        command that says what is wrong with them. If nothing was committed, that is an error with which nothing was
        changed: another run would not continue anything.
        """
        if self.difference is not None:
            return self.difference
        if damaged := [one for one in self.refused if is_unreadable(one)]:
            first, way = damaged[0], self.plan.way_out_for(damaged)
            facts = {"first": first.path, "why": first.reason, "so far": self.summary}
            return self._left(
                first.code,
                f"{plural(len(damaged), 'file')} could not be read and {'was' if len(damaged) == 1 else 'were'} left "
                "alone",
                {**facts, "before another run": way} if way else facts,
                command("validate", level="data"),
            )
        if broken := [one for one in self.refused if breaks_rule(one)]:
            are = "breaks a rule and was" if len(broken) == 1 else "break a rule and were"
            return self._left(
                broken[0].code,
                f"{plural(len(broken), 'file')} {are} left alone",
                {"first": broken[0].path, "why": broken[0].reason, "so far": self.summary},
                command("validate", level="data", select=[broken[0].code]),
            )
        return None

    def _left(self, code: str, message: str, facts: Mapping[str, str], hint: str) -> DeltacliError | None:

        if self.versions:
            return PartlyDone(
                message,
                code=code,
                facts=facts,
                hint=hint,
            )
        return Refused(message, preamble=NOTHING_CHANGED, code=code, facts=facts, hint=hint)


@dataclass(frozen=True)
class Optimize:
    """An optimization, to be planned and committed. `find` says what a purge is for besides deleted rows."""

    kind: ClassVar[ChangeKind] = ChangeKind.ADD_FILES

    request: OptimizeRequest
    find: Find | None = None

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> OptimizePlan:
        return plan_optimize(table, self.request, now, find=self.find)

    def outcome(self, plan: OptimizePlan) -> OptimizeOutcome:
        return OptimizeOutcome(plan)

    def execute(self, execution: ChangeExecution[OptimizePlan, OptimizeOutcome]) -> None:
        """Rewrite and commit, group by group. Bins whose files another writer has touched are dropped, so the plan is
        not made again.

        Raises what `ChangeExecution.commit_plan` raises, StorageFailed and what tasks raise, with the new files that
        are left behind as facts; with `verify` what `verify_rows` raises.
        """
        plan, outcome = execution.plan, execution.outcome
        execution.recheck_clock()
        execution.recheck_table()
        _Run(execution).run()
        if plan.request.verify:
            from deltacli.operations.optimize.verify import ROWS_DIFFER, verify_rows

            try:
                outcome.verified = verify_rows(
                    plan, outcome.versions, files=outcome.files_removed + outcome.files_added
                )
            except StorageFailed as fault:
                if fault.code != ROWS_DIFFER:
                    raise
                outcome.difference = fault


class _Ready(NamedTuple):
    """A bin that was rewritten and waits for its commit, with the actions of the files whose rows it has."""

    opened: OpenBin
    result: Rewritten
    adds: RecordBatch

    @property
    def size_bytes(self) -> int:
        return pc.sum(self.adds.column("size")).as_py() or 0


class _Run:
    """One execution of a plan."""

    def __init__(self, execution: ChangeExecution[OptimizePlan, OptimizeOutcome]) -> None:
        from deltacli.changing.new_files import NewFiles

        self._execution = execution
        self._plan, self._outcome = execution.plan, execution.outcome
        self._table = execution.table
        self._opened: deque[list[OpenBin]] = deque()
        self._finished: list[Rewritten] = []
        self._since = 0.0
        """When the first of them was written."""
        self._named, self._new = NewFileNames(), NewFiles(execution.table)
        execution.outcome.left_behind = self._new.left_behind
        self._watch = Watch(execution.plan)
        self._last: Committed | None = None
        budget = self._plan.request.time_budget_ms
        self._deadline_ms = None if budget is None else self._table.clock() + budget

    def run(self) -> None:
        """Rewrite the groups one after the other, several files at once, and commit each when it is complete."""
        from deltacli.work.rewrite.rewriting import NAMED, RewriteFiles

        table, plan = self._table, self._plan
        sizes = {
            "total": plan.selection.files,
            "weight": sum(weight_of(plan.table, one) for one in plan.selection.bins),
        }
        if plan.spec.order is not None and not table.engine.may_repeat:  # on a cluster, tasks look for themselves
            plan.spec.order.require_space(max(one.size_bytes for one in plan.selection.bins))
        shared = {SPEC: plan.spec, NAMED: self._named}
        results = table.engine.run_tasks(
            RewriteFiles(), self._pieces(), table.stores, shared=shared, weigh=attrgetter("weight")
        )
        try:
            with start_weighed_step(table.progress, "rewriting files", unit="files", **sizes) as step:
                for result in results:
                    done = self._opened[0][len(self._finished)].bin
                    self._since = self._since if self._finished else table.machine.monotonic()
                    self._finished.append(result)
                    step.advance(done.files, weight=weight_of(table, done))
                    if len(self._finished) == len(self._opened[0]):
                        finished, self._finished = self._finished, []
                        self._commit(list(map(self._ready, self._opened.popleft(), finished)))
        except BaseException as stop:
            if isinstance(results, Generator):
                results.close()  # waits for the tasks in flight, which end early
            found = {decode(file.path) for result in self._finished for file in result.files}
            self._new.delete_unsettled(found.union(self._named.paths))
            self._outcome.failed += 1
            if isinstance(stop, DeltacliError):
                stop.facts |= self._new.left_behind_facts
            elif self._new.left_behind and not isinstance(stop, Exception):
                stop.add_note(
                    f"{plural(len(self._new.left_behind), 'new file')} may be in no version (vacuum deletes them then)"
                )
            raise

    def _pieces(self) -> Iterator[RewritePiece]:
        """Yield the bins of all groups, those of a group only while there is time."""
        groups = self._plan.groups
        for place, group in enumerate(open_groups(self._plan, groups)):
            if self._deadline_ms is not None and self._table.clock() >= self._deadline_ms:
                self._outcome.skipped[TIME_BUDGET] += sum(one.files for late in groups[place:] for one in late)
                return
            self._opened.append(group)
            yield from (one.piece for one in group)

    def _ready(self, opened: OpenBin, result: Rewritten) -> _Ready:
        adds = opened.adds
        if len(result.used) < adds.num_rows:
            used = pa.array(result.used, pa.string())
            adds = pc.filter(adds, pc.is_in(adds.column("path"), value_set=used))
        self._outcome.refused += result.refused
        self._outcome.skipped.update(one.code for one in result.refused)
        return _Ready(opened, result, adds)

    # -- one commit -----------------------------------------------------------------------------------------------

    def _commit(self, group: list[_Ready]) -> None:
        """Commit the bins of a group. Those whose files were touched are dropped, one by one."""
        left = []
        for one in group:
            if _is_worth_it(one, self._plan):
                left.append(one)
            else:
                self._new.delete(_paths([one]))
                self._outcome.skipped[FAILED] += one.adds.num_rows
        if not left:
            self._outcome.failed += 1
            return
        while left := self._without_touched(left):
            made = _Made(self._plan, left, self._watch)
            done = self._try(made)
            if isinstance(done, Committed):
                self._last = done
                self._note(made.ready, done.version)
                self._drop(made.dropped)
                return
            if isinstance(done, Dropped) and not any(self._watch.is_touched(one.opened) for one in left):
                break
        self._drop(left)
        self._outcome.dropped += 1

    def _try(self, made: _Made) -> object:
        self._new.keep(_paths(made.ready))  # until it is certain that they were not committed
        try:
            return self._execution.commit_step(
                made.request,
                previous_step=self._last,
                options=CommitOptions(
                    recheck=lambda: self._new.require_present(_sizes(made.ready), self._since),
                    metadata=self._plan.request.commit_metadata,
                    pause=lambda repetition: wait_before_retry(self._table.machine, min(repetition, _SHORT)),
                ),
            )
        except DeltacliError as fault:
            self._new.delete(_paths(made.dropped))
            if isinstance(fault, OutcomeUnknown):
                self._new.leave_behind(_paths(made.ready))
            else:
                self._new.delete(_paths(made.ready))
            raise
        except BaseException:  # what was sent may still be committed
            self._new.leave_behind(_paths((*made.ready, *made.dropped)))
            raise

    def _without_touched(self, ready: list[_Ready]) -> list[_Ready]:
        self._drop([one for one in ready if self._watch.is_touched(one.opened)])
        return [one for one in ready if not self._watch.is_touched(one.opened)]

    def _drop(self, ready: Sequence[_Ready]) -> None:
        for one in ready:
            self._new.delete(_paths([one]))
            self._outcome.skipped[CONFLICT] += one.adds.num_rows

    def _note(self, ready: Sequence[_Ready], version: int) -> None:
        outcome = self._outcome
        outcome.versions.append(version)
        for one in ready:
            outcome.files_removed += one.adds.num_rows
            outcome.bytes_removed += one.size_bytes
            outcome.vectors += one.adds.num_rows - one.adds.column("deletionVector").null_count
            outcome.files_added += len(one.result.files)
            outcome.bytes_added += sum(file.size_bytes for file in one.result.files)
            outcome.rows += one.result.rows


def _paths(ready: Iterable[_Ready]) -> list[str]:
    """Return the paths of the new files of bins, below the table."""
    return list(_sizes(ready))


def _sizes(ready: Iterable[_Ready]) -> dict[str, int]:
    """Return the bytes of the new files of bins by their paths."""
    return {decode(file.path): file.size_bytes for one in ready for file in one.result.files}


def _is_worth_it(one: _Ready, plan: OptimizePlan) -> bool:
    """Return whether a bin still saves files, purges rows or sorts them, after some of its files were refused."""
    count, vectors, purge = one.adds.num_rows, one.adds.column("deletionVector"), plan.rules.purge
    if plan.order is not None:
        return plan.order.is_new_for(one.adds)
    return count > len(one.result.files) or (count > 0 and (purge or vectors.null_count < count))


class _Made:
    """The request of one commit, made again for newer versions; `ready` are its bins, `dropped` those it had before."""

    def __init__(self, plan: OptimizePlan, ready: list[_Ready], watch: Watch) -> None:
        self._plan, self._watch = plan, watch
        self.ready, self.dropped = ready, list[_Ready]()

    def request(self, snapshot: Snapshot) -> CommitRequest | None:
        """Return the commit after a version; None if that has none of the bins unchanged."""
        if self._watch.look_again(snapshot):
            self.dropped += [one for one in self.ready if self._watch.is_touched(one.opened)]
            self.ready = [one for one in self.ready if not self._watch.is_touched(one.opened)]
        if not self.ready:
            return None

        operation, parameters = parameters_of(self._plan)
        new = [file for one in self.ready for file in one.result.files]
        paths = (path for one in self.ready for path in one.result.used)
        return CommitRequest(
            operation,
            parameters,
            size_metrics([one.adds for one in self.ready], new),
            body=self._body(),
            new_rows=sum(file.rows for file in new),
            reads=WatchedFiles(paths, self._watch.touched),
            on_conflict=OnConflict.DROP,
        )

    def _body(self) -> Callable[[NextVersion], Iterator[bytes]]:
        ready, now_ms = self.ready, self._plan.table.clock()

        def batches() -> Iterator[tuple[str, RecordBatch]]:
            for one in ready:
                yield "remove", build_removes(one.adds, now_ms, is_change=False)
                if one.result.files:
                    yield "add", added_files(self._plan, one.opened, one.result.files, one.size_bytes)

        return lambda slot: encoded_files(batches, slot)
