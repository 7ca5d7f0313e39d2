"""Executing an optimization: files are rewritten bin by bin and committed group by group.

Each commit removes the old files of its bins and adds the new ones. Another writer's commit never fails because of it:
bins whose files were touched meanwhile are dropped, and their new files deleted. New files are deleted only where their
commit certainly did not happen.

Spec: Add File and Remove File; Row Tracking.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.changing.commit import Committed, Dropped, commit, jittered_pause
from deltacli.delta.log.body_lines import encoded_files
from deltacli.delta.log.commit_content import CommitRequest, OnConflict, Slot
from deltacli.delta.paths import decode
from deltacli.errors import DeltacliError, OutcomeUnknown, PartlyDone
from deltacli.hints import command
from deltacli.operations.optimize.open_bins import OpenBin, added_files, open_groups, parameters_of, size_metrics
from deltacli.operations.optimize.plan import OptimizePlan, weight_of
from deltacli.operations.optimize.verify import Verified, verify_rows
from deltacli.operations.optimize.watching import Watch, WatchedFiles
from deltacli.operations.table.keyed_files import removes_of
from deltacli.progress import weighed
from deltacli.short_repr import short_repr
from deltacli.storage import Failed
from deltacli.typing import Json, RecordBatch
from deltacli.units import plural
from deltacli.work.rewrite.exactness import SPEC
from deltacli.work.rewrite.pieces import NamedFiles, RefusedFile, RewritePiece, Rewritten
from deltacli.work.rewrite.rewrite_files import NAMED, RewriteFiles

if TYPE_CHECKING:
    from deltacli.operations.table.version import Snapshot

TIME_BUDGET, CONFLICT, FAILED = "time-budget", "conflict", "failed"
"""Why files were left alone: no time was left, another writer touched them or files of their bin, an error."""
_NAMED = 10
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
@dataclass(eq=False)
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
    verified: Verified | None = None

    def __post_init__(self) -> None:
        self.refused += self.plan.damaged

    @property
    def committed_version(self) -> int | None:
        """The version of the last commit; None where nothing was committed."""
        return self.versions[-1] if self.versions else None

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
            "dryRun": False,
        }

    @property
    def summary(self) -> str:
        """Return in words what was committed."""
        if not self.versions:
            return "nothing was committed"
        first, last = self.versions[0], self.versions[-1]
        which = f"version {first}" if first == last else f"{len(self.versions)} versions, {first} to {last}"
        done = f"{plural(self.files_removed, 'file')} became {self.files_added:,}"
        return f"{which} committed: {done}"


def execute_optimize(plan: OptimizePlan, outcome: OptimizeOutcome | None = None) -> OptimizeOutcome:
    """Rewrite and commit; `outcome` has what was done, also after an error.

    Raises what `commit` raises, StorageFailed and what tasks raise; PartlyDone instead where something was committed
    before; OutcomeUnknown with the new files as facts; with `verify` what `verify_rows` raises.
    """
    outcome = outcome or OptimizeOutcome(plan)
    if plan.is_noop:
        return outcome
    try:
        _Run(plan, outcome).run()
    except OutcomeUnknown as fault:
        fault.facts |= _left(outcome) | {"so far": outcome.summary}
        raise
    except DeltacliError as fault:
        fault.facts |= _left(outcome)
        if not outcome.versions:
            raise
        facts = fault.facts | {"so far": outcome.summary}
        raise PartlyDone(fault.message, code=fault.code, facts=facts, hint=fault.hint) from fault
    if plan.request.verify:
        outcome.verified = verify_rows(plan, outcome.versions, files=outcome.files_removed + outcome.files_added)
    return outcome


def require_complete(outcome: OptimizeOutcome) -> None:
    """Raise PartlyDone where files could not be read, with the command that says what is wrong with them."""
    damaged = [one for one in outcome.refused if not one.code.startswith("optimize.")]
    if damaged:
        first, repair = damaged[0], command("repair", dry_run=True)
        are = "was left alone; it needs" if len(damaged) == 1 else "were left alone; they need"
        facts = {"first": first.path, "why": first.reason, "so far": outcome.summary}
        raise PartlyDone(
            f"{plural(len(damaged), 'file')} could not be read and {are} a repair before another run",
            code=first.code,
            facts={**facts, "repair": repair} if repair else facts,
            hint=command("validate", level="data"),
        )


def _left(outcome: OptimizeOutcome) -> dict[str, str]:
    left = outcome.left_behind
    named = {f"new file {number}": path for number, path in enumerate(left[:_NAMED], 1)}
    return named | ({"more": plural(len(left) - _NAMED, "new file")} if len(left) > _NAMED else {})


class _Ready(NamedTuple):
    """A bin that was rewritten and waits for its commit, with the actions of the files whose rows it has."""

    opened: OpenBin
    result: Rewritten
    adds: RecordBatch

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the files."""
        return pc.sum(self.adds.column("size")).as_py() or 0


class _Run:
    """One execution of a plan."""

    def __init__(self, plan: OptimizePlan, outcome: OptimizeOutcome) -> None:
        self._plan, self._outcome = plan, outcome
        self._table = plan.table
        self._opened: deque[list[OpenBin]] = deque()
        self._finished: list[Rewritten] = []
        self._named, self._kept = NamedFiles(), set[str]()
        """The new files of tasks, and those that a commit has or may have, or that were deleted."""
        self._watch = Watch(plan)
        self._last: Committed | None = None
        budget = plan.request.time_budget_ms
        self._deadline_ms = None if budget is None else plan.table.clock() + budget

    def run(self) -> None:
        """Rewrite the groups one after the other, several files at once, and commit each when it is complete."""
        table, plan = self._table, self._plan
        sizes = {
            "total": plan.selection.files,
            "weight": sum(weight_of(plan.table, one) for one in plan.selection.bins),
        }
        self._require_space()
        shared = {SPEC: plan.spec, NAMED: self._named}
        results = table.engine.spread(
            RewriteFiles(), self._pieces(), table.stores, shared=shared, weigh=attrgetter("weight")
        )
        try:
            with weighed(table.progress, "rewriting files", unit="files", **sizes) as step:
                for result in results:
                    done = self._opened[0][len(self._finished)].bin
                    self._finished.append(result)
                    step.advance(done.files, weight=weight_of(table, done))
                    if len(self._finished) == len(self._opened[0]):
                        finished, self._finished = self._finished, []
                        self._commit(list(map(self._ready, self._opened.popleft(), finished)))
        except BaseException:
            if isinstance(results, Generator):
                results.close()  # waits for the tasks in flight, which end early
            found = {decode(file.path) for result in self._finished for file in result.files}
            self._delete(sorted(found.union(self._named.paths) - self._kept))
            self._outcome.failed += 1
            raise

    def _require_space(self) -> None:
        """Raise NoSpace where there is no room to sort the largest bin. On a cluster, tasks look for themselves."""
        order, bins = self._plan.spec.order, self._plan.selection.bins
        if order is not None and not self._table.engine.may_repeat:
            order.require_space(max(one.size_bytes for one in bins))

    def _pieces(self) -> Iterator[RewritePiece]:
        """Yield the bins of all groups, those of a group only while there is time."""
        groups = self._plan.groups
        for place, group in enumerate(open_groups(self._plan, groups)):
            if self._deadline_ms is not None and self._table.clock() >= self._deadline_ms:
                self._outcome.skipped[TIME_BUDGET] += sum(one.files for late in groups[place:] for one in late)
                return
            self._opened.append(group)
            for one in group:
                yield one.piece

    def _ready(self, opened: OpenBin, result: Rewritten) -> _Ready:
        adds = opened.adds
        if len(result.used) < adds.num_rows:
            import pyarrow as pa

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
                self._delete(_paths([one]))
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
        table = self._table
        self._kept.update(_paths(made.ready))  # until it is certain that they were not committed
        try:
            if self._last is not None and not self._watch.can_follow(self._last.version):
                self._last = None
            return commit(
                table,
                made.request,
                read=self._watch.read,
                after=self._last,
                commit_metadata=self._plan.request.commit_metadata,
                pause=_short_pause,
            )
        except DeltacliError as fault:
            self._delete(_paths(made.dropped))
            if isinstance(fault, OutcomeUnknown):
                self._outcome.left_behind += _paths(made.ready)
            else:
                self._delete(_paths(made.ready))
            raise
        except BaseException:  # what was sent may still be committed
            self._outcome.left_behind += _paths((*made.ready, *made.dropped))
            raise

    def _without_touched(self, ready: list[_Ready]) -> list[_Ready]:
        self._drop([one for one in ready if self._watch.is_touched(one.opened)])
        return [one for one in ready if not self._watch.is_touched(one.opened)]

    def _drop(self, ready: Sequence[_Ready]) -> None:
        for one in ready:
            self._delete(_paths([one]))
            self._outcome.skipped[CONFLICT] += one.adds.num_rows

    def _delete(self, paths: Sequence[str]) -> None:
        """Delete new files that no commit has. What cannot be deleted is left behind: it is no error."""
        self._kept.update(paths)
        left = set(paths)
        try:
            for path, answer in self._table.storage.delete_many(paths) if paths else ():
                if not isinstance(answer, Failed):
                    left.discard(path)
        except DeltacliError:
            pass
        finally:
            self._outcome.left_behind += sorted(left)

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
    return [decode(file.path) for one in ready for file in one.result.files]


def _short_pause(repetition: int) -> None:
    jittered_pause(min(repetition, _SHORT))


def _is_worth_it(one: _Ready, plan: OptimizePlan) -> bool:
    """Return whether a bin still saves files, purges rows or sorts them, after some of its files were refused."""
    count, vectors, purge = one.adds.num_rows, one.adds.column("deletionVector"), plan.rules.purge
    if plan.order is not None:
        return plan.order.is_new_for(one.adds)
    return count > len(one.result.files) or (count > 0 and (purge or vectors.null_count < count))


class _Made:
    """The request of one commit, made again for newer versions; `ready` are the bins that it has then, `dropped` those
    that it had before.
    """

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
            reads=WatchedFiles(paths, self._watch),
            on_conflict=OnConflict.DROP,
        )

    def _body(self) -> Callable[[Slot], Iterator[bytes]]:
        ready, now_ms = self.ready, self._plan.table.clock()

        def batches() -> Iterator[tuple[str, RecordBatch]]:
            for one in ready:
                yield "remove", removes_of(one.adds, now_ms, is_change=False)
                if one.result.files:
                    yield "add", added_files(self._plan, one.opened, one.result.files, one.size_bytes)

        return lambda slot: encoded_files(batches, slot)
