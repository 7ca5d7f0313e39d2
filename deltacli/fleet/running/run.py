"""A run: the due steps of many tables, several tables at once, each step on its own.

A table is planned again under its lease, so that what another run did meanwhile is not done twice, and after each step
that changed it, because steps make each other due: a checkpoint may repair what a validation found, and the commits of
a vacuum count for the next checkpoint.

At its end the summary of the journal, what later runs and `fleet status` need of the runs that have ended, is rewritten
atomically. Then the files of old runs are compressed, and kept.
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from deltacli.core.errors import EXIT_FINDINGS, EXIT_OK, DeltacliError, PartlyDone, Refused, parameter
from deltacli.core.machine import Clock
from deltacli.core.pools import ThreadPool
from deltacli.core.progress import SILENT, Progress
from deltacli.core.release import VERSION
from deltacli.core.times import DAY_MS
from deltacli.core.typing import Json
from deltacli.delta.log.segment import commit_name
from deltacli.engine.base import Engine
from deltacli.fleet.planning.discovery import Expander, Opener
from deltacli.fleet.planning.due import (
    FleetPlan,
    LastRun,
    Past,
    PlannedStep,
    PlanProblem,
    TablePlan,
    choose_groups,
    plan_fleet,
    plan_table,
)
from deltacli.fleet.policy_file.model import DESTRUCTIVE, UNCHANGING, FleetFile
from deltacli.fleet.policy_file.requests import FleetRunRequest
from deltacli.fleet.running.journal import (
    FINAL,
    MOST_BYTES,
    NOT_DONE,
    SUCCEEDED,
    SUFFIX,
    Holder,
    Journal,
    JournalFiles,
    JournalWriter,
    Leases,
    Record,
    RunRecord,
    Summary,
    TableLines,
    archive,
    new_run_id,
    process_identity,
    process_is_alive,
    read_summary,
)
from deltacli.fleet.running.steps import FleetCluster, StepOutcome, StepWork, attempt
from deltacli.fleet.status import Judgement, StatusReader, read_status
from deltacli.storage.secrets import mask_secrets
from deltacli.table.handle import TableHandle

_POLL_SECONDS = 0.2


class _Doubt(StrEnum):
    """Why nothing is deleted from a table whose policy has a validation. After `LOST`, nothing is written either."""

    LOST = "files are lost or damaged"
    FINDINGS = "the last validation of this table failed"
    FAILED = "the validation of this table could not be completed"

    @classmethod
    def after(cls, last: LastRun | None) -> _Doubt | None:
        if last is None or not last.has_findings:
            return None
        return cls.LOST if last.has_lost else cls.FINDINGS


class StepReport(NamedTuple):
    """A due step and what became of it."""

    step: PlannedStep
    outcome: StepOutcome
    duration_ms: int = 0

    def as_json(self) -> dict[str, Json]:
        outcome = self.outcome
        found: dict[str, Any] = {
            "kind": self.step.kind,
            "reason": self.step.reason,
            "state": outcome.state,
        }  # Any: JSON
        found |= {"exit": outcome.exit_code, "durationMs": self.duration_ms, "message": outcome.message}
        if outcome.code is not None:
            found["code"] = outcome.code
        return found if outcome.details is None else found | {"details": dict(outcome.details)}


class TableReport(NamedTuple):
    """A table with work, or with a problem."""

    name: str
    group: str
    steps: tuple[StepReport, ...] = ()
    problem: PlanProblem | None = None
    stolen: str | None = None

    def as_json(self) -> dict[str, Json]:
        found: dict[str, Json] = {"table": mask_secrets(self.name), "group": self.group}
        if self.problem is not None:
            found["problem"] = self.problem.as_json()
        if self.stolen is not None:
            found["leaseStolen"] = self.stolen
        return found | {"steps": [step.as_json() for step in self.steps]}


@dataclass
class FleetReport:
    """What a run did, table by table in the order in which they were finished."""

    run: str
    plan: FleetPlan
    is_resumed: bool = False
    tables: list[TableReport] = field(default_factory=list)
    left: int = 0
    """Due steps that were not started."""
    earlier: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Table and step -> the state in which the interrupted run, which this one resumes, has ended it."""
    alerts: Mapping[str, Sequence[Judgement]] = field(default_factory=dict)
    """Table -> its exceeded thresholds."""

    def summary(self) -> dict[str, Json]:
        """Return counts for documents. A step that was done again counts with its last state."""
        last = {(table.name, step.step.kind): step.outcome.state for table in self.tables for step in table.steps}
        states = Counter((dict(self.earlier) | last).values())
        unreadable = sum(table.problem is not None for table in self.tables) + len(self.plan.problems)
        known = ("done", "nothing", "findings", "refused", "failed", "partly", "leased")
        counts = {state: states[state] for state in known}
        totals = {"tables": len(self.plan.tables), "unreadable": unreadable, **counts, "left": self.left}
        return totals | {"alerts": len(self.alerts)}

    @property
    def exit_code(self) -> int:
        """Return 0 if everything due was done, 1 for findings and exceeded thresholds, 5 if something was not done."""
        summary = self.summary()
        if self.left or summary["unreadable"] or any(summary[state] for state in NOT_DONE):
            return PartlyDone.exit_code
        return EXIT_FINDINGS if summary["findings"] or summary["alerts"] else EXIT_OK


class _Ended(NamedTuple):
    kind: str
    state: str

    @property
    def has_changed_table(self) -> bool:
        return self.kind not in UNCHANGING and self.state in ("done", "partly")


def _may_follow(kind: str, ended: Sequence[_Ended]) -> bool:
    """Return True for a step that these have not ended, and once for one that deletes nothing, after a change."""
    places = [place for place, one in enumerate(ended) if one.kind == kind]
    if not places:
        return True
    is_changed = any(one.has_changed_table for one in ended[places[-1] + 1 :])
    return is_changed and len(places) == 1 and kind not in DESTRUCTIVE


@dataclass
class FleetRunner:
    """Works through a plan, `jobs` tables at once. `open_table` opens the table of a name.

    `done` are steps that an interrupted run has ended, by table and step, with their states. `ticks` is a clock of
    seconds for the budget, which starts at `began` (default: with the work).
    """

    plan: FleetPlan
    open_table: Callable[[str], TableHandle]
    journal: Journal
    writer: JournalWriter
    leases: Leases
    request: FleetRunRequest
    jobs: int
    clock: Clock
    done: Mapping[tuple[str, str], str] = field(default_factory=dict)
    progress: Progress = SILENT
    ticks: Callable[[], float] = time.monotonic
    began: float | None = None
    attempt: Callable[[StepWork], StepOutcome] = attempt
    _stopping: Event = field(default_factory=Event)
    _deadline: float | None = None
    _ended: dict[str, list[_Ended]] = field(default_factory=dict)
    """Table -> the steps in `done`."""

    def __post_init__(self) -> None:
        for (table, kind), state in self.done.items():
            self._ended.setdefault(table, []).append(_Ended(kind, state))

    def run(self, report: FleetReport) -> None:
        """Do what is due, the most urgent first, and update `report`; an interruption lets steps in flight end."""
        if self.request.time_budget_ms is not None:
            began = self.ticks() if self.began is None else self.began
            self._deadline = began + self.request.time_budget_ms / 1_000
        for table in self.plan.tables:
            if table.problem is not None:
                report.tables.append(TableReport(table.name, table.group, (), table.problem))
                self._record_problem(table, table.problem)
        for problem in self.plan.problems:
            fields = problem.problem.as_json() | {"line": problem.line}
            self.writer.write("table-unreadable", self.clock(), table=problem.name, group=problem.group, **fields)
        due = [table for table in self.plan.tables if table.steps]
        with self.progress.step("maintaining", unit="tables", total=len(due)) as step, ThreadPool(self.jobs) as pool:
            waiting: dict[Future[tuple[TableReport, int]], TablePlan] = {}
            try:
                for table in due:
                    waiting[pool.submit(self._table, table)] = table
                while waiting:
                    for future in wait(waiting, _POLL_SECONDS, FIRST_COMPLETED).done:
                        self._collect(future, report)
                        del waiting[future]
                        step.advance()
            except BaseException:
                self._stopping.set()
                pool.shutdown(wait=True, cancel_futures=True)
                for future, table in waiting.items():
                    if future.cancelled():
                        report.left += len(table.steps)
                    elif future.exception() is None:
                        self._collect(future, report)
                raise

    def _record_problem(self, table: TablePlan, problem: PlanProblem) -> None:
        where = {"table": table.name, "group": table.group}
        self.writer.write("table-unreadable", self.clock(), **where, **problem.as_json())

    def _collect(self, future: Future[tuple[TableReport, int]], report: FleetReport) -> None:
        found, left = future.result()
        report.left += left
        if found.steps or found.problem is not None:
            report.tables.append(found)

    def _table(self, planned: TablePlan) -> tuple[TableReport, int]:
        """Do the steps of a table; return its report and the number of steps that were not started."""
        if not any(map(self._may_start, planned.steps)):
            return TableReport(planned.name, planned.group), len(planned.steps)
        try:
            lease = self.leases.acquire(self.plan.found[planned.name].identity)
        except DeltacliError as fault:
            outcome = StepOutcome.of(fault)
            return TableReport(planned.name, planned.group, _all(planned.steps, outcome)), 0
        if isinstance(lease, Holder):
            outcome = StepOutcome("leased", message=lease.sentence, code="fleet.leased")
            return TableReport(planned.name, planned.group, _all(planned.steps, outcome)), 0
        try:
            if lease.stolen is not None:
                self.writer.write(
                    "lease-stolen", self.clock(), table=planned.name, reason=lease.stolen, **{"from": lease.stolen_from}
                )
            return self._leased_table(planned, lease.stolen)
        finally:
            self.leases.release(self.plan.found[planned.name].identity)

    def _leased_table(self, planned: TablePlan, stolen: str | None) -> tuple[TableReport, int]:
        self.journal.refresh()
        past = dict(self.journal.past_of(planned.name))
        current = self._judge(planned.name, past)
        doubt = self._doubt(planned.name, past)
        opened: list[TableHandle] = []  # once for all steps: a client of an object store takes 0.1 to 0.3 s to make

        def table() -> TableHandle:
            if not opened:
                opened.append(self.open_table(planned.name))
            return opened[0]

        reports: list[StepReport] = []
        ended, left = list(self._ended.get(planned.name, ())), set[str]()
        while step := next(
            (one for one in current.steps if one.kind not in left and _may_follow(one.kind, ended)), None
        ):
            is_held = "validate" in left and (step.is_destructive or doubt is _Doubt.LOST) and step.kind != "copy"
            if is_held or not self._may_start(step):
                left.add(step.kind)
                continue
            report = self._step(current, step, table, doubt)
            state = report.outcome.state
            reports.append(report)
            ended.append(_Ended(step.kind, state))
            if state in SUCCEEDED:
                past[step.kind] = LastRun.of(self.clock(), state, report.outcome.code)
            if step.kind == "validate":
                doubt = _Doubt.after(past["validate"]) if state in SUCCEEDED else _Doubt.FAILED
            if ended[-1].has_changed_table:
                current = self._judge(planned.name, past)
        return TableReport(planned.name, planned.group, tuple(reports), current.problem, stolen), len(left)

    def _judge(self, name: str, past: Past) -> TablePlan:
        current = plan_table(self.plan.found[name], past, self.clock())
        if current.problem is not None:
            self._record_problem(current, current.problem)
        if current.facts is not None:
            facts = current.facts.as_json()
            self.writer.write("table-facts", self.clock(), table=name, group=current.group, facts=facts)
        return current

    def _doubt(self, name: str, past: Past) -> _Doubt | None:
        """Return what the last validation of a table says against deletions."""
        ended = self.done.get((name, "validate"))
        if "validate" not in self.plan.found[name].group.policy.steps:
            return None
        if ended is not None and ended not in SUCCEEDED:
            return _Doubt.FAILED
        return _Doubt.after(past.get("validate"))

    def _may_start(self, step: PlannedStep) -> bool:
        if self._stopping.is_set():
            return False
        left = None if self._deadline is None else self._deadline - self.ticks()
        return left is None or left > step.estimate.seconds

    def _step(
        self, planned: TablePlan, step: PlannedStep, table: Callable[[], TableHandle], doubt: _Doubt | None
    ) -> StepReport:
        """Carry out a step, or refuse it; every outcome is in the journal."""
        began = self.ticks()
        where = {"table": planned.name, "group": planned.group, "step": step.kind}
        refusal = self._refusal(planned.name, step, doubt)
        if refusal is None:
            self.writer.write("step-started", self.clock(), **where, reason=step.reason)
        outcome = refusal or self.attempt(self._work(planned, step, table))
        duration_ms = round((self.ticks() - began) * 1_000)
        self.writer.write(
            "step-finished",
            self.clock(),
            **where,
            state=outcome.state,
            exit=outcome.exit_code,
            code=outcome.code,
            message=outcome.message or None,
            durationMs=duration_ms,
            details=outcome.details,
        )
        return StepReport(step, outcome, duration_ms)

    def _work(self, planned: TablePlan, step: PlannedStep, table: Callable[[], TableHandle]) -> StepWork:
        policy, facts = self.plan.found[planned.name].group.policy, planned.facts
        newest = (commit_name(facts.version), facts.committed_ms) if facts and facts.commits_behind else None
        costs = step.estimate
        return StepWork(planned.name, step.kind, policy, table, costs.size_bytes, costs.seconds, newest)

    def _refusal(self, table: str, step: PlannedStep, doubt: _Doubt | None) -> StepOutcome | None:
        """Return why a step is not carried out, None where it may be."""
        if doubt is _Doubt.LOST and step.kind not in UNCHANGING:
            return StepOutcome("refused", Refused.exit_code, f"skipped, because {doubt}", "fleet.findings")
        if not step.is_destructive:
            return None
        if not step.consent:
            message, code = f"the policy lacks consent = true for {step.kind}", "fleet.consent"
        elif not self.request.yes:
            message, code = f"confirmation is required: add {parameter('fleet run.yes')}", "consent.missing"
        elif doubt is not None:
            message, code = f"{doubt}, so nothing is deleted", "fleet.findings"
        else:
            return self._lost_lease(table)
        return StepOutcome("refused", Refused.exit_code, message, code)

    def _lost_lease(self, table: str) -> StepOutcome | None:
        """Return a refusal where another run has taken the lease meanwhile, or where that cannot be found out."""
        try:
            if self.leases.is_held(self.plan.found[table].identity):
                return None
        except DeltacliError as fault:
            return StepOutcome.of(fault)
        message = "another run has taken the lease of this table"
        return StepOutcome("refused", Refused.exit_code, message, "fleet.lease-lost")


def _all(steps: Collection[PlannedStep], outcome: StepOutcome) -> tuple[StepReport, ...]:
    return tuple(StepReport(step, outcome) for step in steps)


# -- one run from its beginning to its end -----------------------------------------------------------------------------

LEASES = "leases"


@dataclass
class FleetSession:
    """What a run needs: the policy file, and how stores and tables are opened.

    `cluster` does the work on executors (default: in this process). `report` has what was done, also after an
    interruption.
    """

    file: FleetFile
    open_store: Opener
    open_table: Callable[[str], TableHandle]
    engine: Engine
    clock: Clock
    request: FleetRunRequest
    cluster: FleetCluster | None = None
    progress: Progress = SILENT
    ticks: Callable[[], float] = time.monotonic
    note: Callable[[str], None] = lambda _: None
    is_part: bool = False
    """The file has only some tables of its groups: the others are not gone, and not judged."""
    expand: Expander | None = None
    """Lists the tables of catalogs."""
    report: FleetReport | None = field(default=None, init=False)
    has_ended: bool = field(default=False, init=False)
    """All that was due was done, or left for the next run."""

    @property
    def state(self) -> Path:
        return Path(self.request.state or self.file.settings.state)

    def run(self) -> FleetReport:
        """Do what is due. Raises UsageError, StorageFailed, and Refused where that run is still active."""
        began = self.ticks()
        choose_groups(self.file, self.request.only)
        journal = Journal(self.state, self.clock)
        journal.refresh()
        interrupted = self._interrupted(journal) if self.request.resume else None
        run = (
            interrupted.run if interrupted else new_run_id(self.clock(), journal.newest.run if journal.newest else None)
        )
        place = self.file.settings.leases or str(self.state / LEASES)
        leases = Leases(
            self.open_store(place), run, self.file.settings.lease, self.clock, steal=self.request.steal_leases
        )
        self._require_inactive(leases, run)
        journal.refresh()  # what the run to resume did until its lease was free
        ended = dict(interrupted.steps) if interrupted else {}
        writer = JournalWriter(self.state, run)
        try:
            self._begin(writer, is_resumed=interrupted is not None)
            with leases.renewed():
                report = self._work(journal, writer, leases, None if interrupted is None else ended, began)
            try:
                summarize(self.state, self.clock)
            except DeltacliError as fault:
                self.note(f"warning: the journal could not be summarized: {mask_secrets(fault.message)}")
            if not report.left:
                leases.remove(f"run {run}")
            return report
        finally:
            leases.release(f"run {run}")
            writer.close()

    def _interrupted(self, journal: Journal) -> RunRecord | None:
        newest = journal.newest
        if newest is None or newest.is_complete:
            self.note("note: there is no interrupted run; a new one is started")
            return None
        return newest

    @staticmethod
    def _require_inactive(leases: Leases, run: str) -> None:
        held = leases.acquire(f"run {run}")
        if isinstance(held, Holder):
            raise Refused(
                f"run {run} is still active",
                code="fleet.run-active",
                facts={"lease": held.sentence},
                hint=f"omit {parameter('fleet run.resume')} to work on other tables meanwhile, or take over with "
                f"{parameter('fleet run.steal_leases', 'REASON')}",
            )

    def _begin(self, writer: JournalWriter, *, is_resumed: bool) -> None:
        writer.write(
            "run-resumed" if is_resumed else "run-started",
            self.clock(),
            file=str(self.file.path),
            host=socket.gethostname(),
            process=process_identity(os.getpid()),
            version=VERSION,
            groups=[group.name for group in choose_groups(self.file, self.request.only)],
            stolen=self.request.steal_leases,
        )

    def _work(
        self,
        journal: Journal,
        writer: JournalWriter,
        leases: Leases,
        ended: Mapping[tuple[str, str], str] | None,
        began: float,
    ) -> FleetReport:
        """Plan and do the work; `ended` are the steps that the run to resume has ended, None for a new run. The time
        budget starts at `began`.
        """
        plan = plan_fleet(
            self.file,
            self.open_store,
            self.engine,
            self.clock(),
            only=self.request.only,
            past_of=journal.past_of,
            progress=self.progress,
            read=None if self.cluster is None else self.cluster.read_facts,
            expand=self.expand,
        )
        plan.note_search(self.note)
        groups = {group.name for group in choose_groups(self.file, self.request.only)}
        record_facts(plan, set() if self.is_part else groups, journal, writer, self.clock())
        done = {key: state for key, state in (ended or {}).items() if state in FINAL}
        report = FleetReport(writer.run, plan, is_resumed=ended is not None, earlier=done)
        self.report = report
        at_once = self.request.jobs or (
            self.file.settings.jobs if self.cluster is None else self.cluster.tables_at_once
        )
        runner = FleetRunner(
            plan,
            self.open_table,
            journal,
            writer,
            leases,
            self.request,
            at_once,
            self.clock,
            done=done,
            began=began,
            attempt=attempt if self.cluster is None else self.cluster.attempt,
            progress=self.progress,
            ticks=self.ticks,
        )
        is_whole = False
        try:
            runner.run(report)
            self._judge(report)
            is_whole = self.has_ended = True
            return report
        finally:
            left = report.left if is_whole else max(report.left, 1)
            exit_code = report.exit_code if is_whole else None
            writer.write("run-finished", self.clock(), exit=exit_code, left=left, summary=report.summary())

    def _judge(self, report: FleetReport) -> None:
        """Judge the thresholds of all tables of the chosen groups, by everything that the journal has by now."""
        report.alerts = {
            table.name: exceeded
            for table in read_status(self.state, self.request.only, self.file, self.clock()).tables
            if (exceeded := table.exceeded) and (not self.is_part or table.name in report.plan.found)
        }


def record_facts(
    plan: FleetPlan, groups: Collection[str], journal: Journal, writer: JournalWriter, now_ms: int
) -> None:
    """Record the facts of tables that have changed and have no due step, and which tables of these groups are gone.

    Tables with due steps are planned again, and recorded, under their lease.
    """
    changed = [
        {"table": table.name, "group": table.group, "facts": table.facts.as_json()}
        for table in plan.tables
        if table.facts is not None and not table.steps and not journal.has_facts(table.name, table.facts.as_json())
    ]
    if changed:
        writer.write_all("table-facts", now_ms, changed)
    searched = set(groups) - {problem.group for problem in plan.problems}
    found = {table.name for table in plan.tables}
    gone = [table for table in journal.tables_of(searched) if table not in found]
    if gone:
        writer.write_all("table-gone", now_ms, [{"table": table} for table in gone])


_SILENT_MS = DAY_MS
"""Time without an event after which a run of another machine counts as ended."""


def summarize(state: Path, clock: Clock, *, most_bytes: int = MOST_BYTES) -> None:
    """Add the runs that have ended to the summary, and archive old ones. Raises StorageFailed and UsageError.

    Runs are taken in their order, up to the first one that may go on or has events in the future.
    """
    before = read_summary(state)
    files, journal, status = JournalFiles(state, before), Journal(state, clock, before), StatusReader(before)
    names = files.names()
    offsets, unfinished = dict(before.files), list(before.unfinished)
    for name in names:
        records = list(files.records(name))
        if not records:
            continue
        run, is_newest = name.removesuffix(SUFFIX), name == names[-1]
        if not _has_ended(records, clock(), is_newest=is_newest):
            break
        for record in records:
            journal.take(run, record)
            status.take(run, record)
        offsets[name] = files.offsets[name]
        if records[-1]["type"] == "run-finished":
            unfinished = [other for other in unfinished if other != name]
        elif name not in unfinished:
            unfinished.append(name)
    newest = journal.newest
    of_runs = {
        **status.kept_of_runs,
        "newest": None if newest is None else {field: getattr(newest, field) for field in RunRecord.KEPT},
    }
    known = {name: size for name, size in offsets.items() if name in names}
    after = Summary(known, tuple(unfinished), of_runs, _tables(journal, status))
    if after.files != before.files:
        after.write(state)
    if names:
        archive(state, after, names[-1], clock(), most_bytes=most_bytes)


def _has_ended(records: Sequence[Record], now_ms: int, *, is_newest: bool) -> bool:
    """Return True if nothing is added to the events of a run any more, as far as this machine can tell."""
    if any(record["timestampMs"] > now_ms for record in records):
        return False
    last = records[-1]
    if last["type"] == "run-finished":
        return not is_newest or not last.get("left", 0)
    if is_newest:
        return False
    begin = next((one for one in reversed(records) if one["type"] in ("run-started", "run-resumed")), {})
    is_here = begin.get("host") == socket.gethostname()
    return not process_is_alive(str(begin.get("process"))) if is_here else now_ms - last["timestampMs"] > _SILENT_MS


def _tables(journal: Journal, status: StatusReader) -> Iterator[TableLines]:
    for name in sorted({*journal.tables, *status.tables}):
        state, trends = status.kept(name)
        yield TableLines({"table": name, **state, **journal.kept(name)}, trends)
