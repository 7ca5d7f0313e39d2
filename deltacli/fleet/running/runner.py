"""A run: the due steps of many tables, several tables at once, each step on its own.

A table is planned again under its lease, so that what another run did meanwhile is not done twice, and after each step
that changed it, because steps make each other due: a checkpoint may repair what a validation found, and the commits of
a vacuum count for the next checkpoint.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.core.clock import Clock
from deltacli.core.errors import EXIT_FINDINGS, EXIT_OK, DeltacliError, PartlyDone, Refused
from deltacli.core.hints import parameter
from deltacli.core.progress import SILENT, Progress
from deltacli.core.typing import Json
from deltacli.delta.log.log_path import commit_name
from deltacli.fleet.alerts import Judgement
from deltacli.fleet.planning.due import LastRun, Past, PlannedStep
from deltacli.fleet.planning.plan import FleetPlan, PlanProblem, TablePlan, plan_table
from deltacli.fleet.policy_file.model import DESTRUCTIVE
from deltacli.fleet.request import FleetRunRequest
from deltacli.fleet.running.journal import NOT_DONE, SUCCEEDED, Journal, JournalWriter
from deltacli.fleet.running.leases import Holder, Leases
from deltacli.fleet.running.steps import StepOutcome, StepWork, attempt
from deltacli.storage.secrets import without_secrets

if TYPE_CHECKING:
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
        """Return the step for documents."""
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
        """Return the table for documents."""
        found: dict[str, Json] = {"table": without_secrets(self.name), "group": self.group}
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
        return self.kind != "validate" and self.state in ("done", "partly")


def _may_follow(kind: str, ended: Sequence[_Ended]) -> bool:
    """Return True for a step that these have not ended. After a change of the table, one that deletes nothing may be
    done again, once.
    """
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
        """Do what is due, the most urgent first; `report` is updated meanwhile.

        Where the run is interrupted, steps in flight are ended, and no further ones are started.
        """
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
        with (
            self.progress.step("maintaining", unit="tables", total=len(due)) as step,
            ThreadPoolExecutor(self.jobs) as pool,
        ):
            waiting = {pool.submit(self._table, table): table for table in due}
            try:
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
            is_held = "validate" in left and (step.is_destructive or doubt is _Doubt.LOST)
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
        """Return what is due for a table now, and record its facts."""
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
        if doubt is _Doubt.LOST and step.kind != "validate":
            return StepOutcome("refused", Refused.exit_code, f"left out, because {doubt}", "fleet.findings")
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
