"""The plan of a fleet: its tables, the most useful work first. Nothing is changed."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.core.errors import EXIT_BUG, EXIT_OK, QUOTED, DeltacliError, PartlyDone, UsageError
from deltacli.core.hints import nearest_name, parameter
from deltacli.core.progress import SILENT, Progress
from deltacli.core.typing import Json
from deltacli.fleet.planning.discovery import Discovery, FoundTable, Opener, discover
from deltacli.fleet.planning.due import (
    FAR,
    NEAR,
    NO_PAST,
    Past,
    PlannedStep,
    TableFacts,
    expiry_cutoff_ms,
    plan_steps,
    read_facts,
)
from deltacli.fleet.policy_file.model import ExpirePolicy, FleetFile, Group, Policy, VacuumPolicy
from deltacli.storage.secrets import without_secrets

if TYPE_CHECKING:
    from deltacli.engine.base import Engine
    from deltacli.operations.log.expire_execute import LogExpiry
    from deltacli.operations.vacuum.plan import VacuumPlan
    from deltacli.storage import ReadStorage
    from deltacli.table.handle import TableHandle

_IN_FLIGHT = 32
"""Tables in flight for each thread that reads facts."""
_POLL_SECONDS = 0.2


class PlanProblem(NamedTuple):
    """Why a table, or a directory, could not be planned."""

    code: str
    message: str
    exit_code: int

    @classmethod
    def of(cls, fault: DeltacliError) -> PlanProblem:
        """Return an error as a problem."""
        return cls(fault.code, without_secrets(fault.message), fault.exit_code)

    @property
    def sentence(self) -> str:
        """Return the code and the message."""
        return f"{self.code}: {self.message}"

    def as_json(self) -> dict[str, Json]:
        """Return the problem for documents."""
        return {"code": self.code, "message": self.message, "exit": self.exit_code}


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A table with its facts and its due steps. Without facts there is a problem."""

    name: str
    group: str
    policy: str
    facts: TableFacts | None
    steps: tuple[PlannedStep, ...] = ()
    problem: PlanProblem | None = None

    @property
    def rank(self) -> tuple[float, int, str]:
        """Return what orders the work: the most urgent step, then the larger log, then the name."""
        urgency = max((step.urgency for step in self.steps), default=0.0)
        return (-urgency, -self.facts.log_bytes if self.facts else 0, self.name)

    def as_json(self) -> dict[str, Json]:
        """Return the table for documents."""
        found: dict[str, Any] = {"table": without_secrets(self.name), "group": self.group, "policy": self.policy}
        if self.facts is not None:
            found["facts"] = self.facts.as_json()
        if self.problem is not None:
            found["problem"] = self.problem.as_json()
        return found | {"steps": [step.as_json() for step in self.steps]}


class SearchProblem(NamedTuple):
    """An entry of the policy file that could not be searched."""

    name: str
    group: str
    line: int
    problem: PlanProblem

    def as_json(self) -> dict[str, Json]:
        """Return the problem for documents."""
        place = {"path": without_secrets(self.name), "group": self.group, "line": self.line}
        return place | self.problem.as_json()


@dataclass(frozen=True)
class FleetPlan:
    """The tables in the order of the work, and what could not be searched."""

    file: FleetFile
    now_ms: int
    tables: tuple[TablePlan, ...]
    problems: tuple[SearchProblem, ...] = ()
    others: tuple[str, ...] = ()
    """Tables of other formats, which a fleet does not maintain."""
    found: Mapping[str, FoundTable] = field(default_factory=dict, repr=False)
    """The tables by name."""

    @property
    def due(self) -> list[tuple[TablePlan, PlannedStep]]:
        """Return the due steps in the order of the work."""
        return [(table, step) for table in self.tables for step in table.steps]

    @property
    def unreadable(self) -> int:
        """Return the number of tables that could not be planned."""
        return sum(table.problem is not None for table in self.tables)

    @property
    def exit_code(self) -> int:
        """Return 5 if a table or a directory could not be read, else 0."""
        return PartlyDone.exit_code if self.unreadable or self.problems else EXIT_OK

    def summary(self) -> dict[str, Json]:
        """Return counts for documents."""
        due = self.due
        return {
            "tables": len(self.tables),
            "due": sum(bool(table.steps) for table in self.tables),
            "unreadable": self.unreadable,
            "problems": len(self.problems),
            "otherFormats": len(self.others),
            "steps": dict(sorted(Counter(step.kind for _, step in due).items())),
            "calls": sum(step.estimate.calls for _, step in due),
            "sizeBytes": sum(step.estimate.size_bytes or 0 for _, step in due),
            "seconds": round(sum(step.estimate.seconds for _, step in due), 3),
        }


def choose_groups(file: FleetFile, only: Collection[str]) -> Sequence[Group]:
    """Return the groups with these names, all of them for none. Raises UsageError."""
    known = {group.name: group for group in file.groups}
    for name in only:
        if name not in known:
            nearest = nearest_name(name, known, ignores_case=True)
            raise UsageError(
                f"{parameter('fleet plan.only', name)}: {file.path} has no such group",
                code="fleet.group",
                facts={"groups": ", ".join(known)},
            ).asking(name, nearest, QUOTED)
    return [group for group in file.groups if not only or group.name in only]


def plan_fleet(
    file: FleetFile,
    open_: Opener,
    engine: Engine,
    now_ms: int,
    *,
    only: Collection[str] = (),
    past_of: Callable[[str], Past] = lambda _: NO_PAST,
    progress: Progress = SILENT,
    read: FactsReader | None = None,
) -> FleetPlan:
    """Find the tables, read their cheap facts in parallel, and decide what is due. `read` reads the facts (default:
    threads of this process). Raises UsageError.

    A table that cannot be read is part of the plan, with its problem and without steps.
    """
    groups = choose_groups(file, only)
    chosen = {group.name for group in groups}
    until = file.groups.index(groups[-1]) + 1 if groups else 0  # earlier groups may have tables of a chosen one
    found = discover(file.groups[:until], open_, engine, progress=progress)
    tables = [table for table in found.tables if table.group.name in chosen]
    asked = [(table, expiry_cutoff_ms(table.group.policy, now_ms)) for table in tables]
    plans = []
    with progress.step("reading facts", unit="tables", total=len(tables)) as step:
        for table, facts in zip(tables, (read or read_here)(asked), strict=True):
            plans.append(judge(table, facts, past_of(table.name), now_ms))
            step.advance()
    plans.sort(key=lambda plan: plan.rank)
    by_name = {table.name: table for table in tables}
    return FleetPlan(file, now_ms, tuple(plans), tuple(_problems(found, chosen)), found.others, by_name)


class FactsPiece(NamedTuple):
    """Where the facts of a table are: the URI of an open store, and the directory in it."""

    base: str
    at: str
    cutoff_ms: int


FactsReader = Callable[[Sequence[tuple[FoundTable, int]]], Iterator[TableFacts | PlanProblem]]
"""Yields the facts of tables, each with its cutoff, in their order."""


def read_here(tables: Sequence[tuple[FoundTable, int]]) -> Iterator[TableFacts | PlanProblem]:
    """Yield the facts of tables, read by as many threads as their stores can use.

    Many tables are in flight, so that one with a long log does not hold up the others.
    """
    at_once = max((table.store.capabilities.parallel_reads for table, _ in tables), default=1)
    if at_once == 1:
        yield from (look(table.store, table.at, cutoff_ms) for table, cutoff_ms in tables)
        return
    remaining = iter(tables)
    with ThreadPoolExecutor(at_once, thread_name_prefix="deltacli-facts") as pool:

        def submit(count: int) -> Iterator[Future[TableFacts | PlanProblem]]:
            return (pool.submit(look, table.store, table.at, cutoff) for table, cutoff in islice(remaining, count))

        flying = deque(submit(_IN_FLIGHT * at_once))
        try:
            while flying:
                while not flying[0].done():  # never in one long sleep, which could miss a signal
                    wait([flying[0]], _POLL_SECONDS)
                facts = flying.popleft().result()
                flying.extend(submit(1))
                yield facts
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def look(store: ReadStorage, at: str, cutoff_ms: int) -> TableFacts | PlanProblem:
    """Return the facts of a table, or why they cannot be read."""
    try:
        return read_facts(store, at, cutoff_ms)
    except DeltacliError as fault:
        return PlanProblem.of(fault)
    except Exception as fault:  # noqa: BLE001  (recorded as exit 70: no table hides the others)
        return PlanProblem("bug", f"{type(fault).__name__}: {without_secrets(str(fault))}", EXIT_BUG)


def plan_table(table: FoundTable, past: Past, now_ms: int) -> TablePlan:
    """Return what is due for one table. A table that cannot be read has a problem."""
    return judge(table, look(table.store, table.at, expiry_cutoff_ms(table.group.policy, now_ms)), past, now_ms)


def judge(table: FoundTable, facts: TableFacts | PlanProblem, past: Past, now_ms: int) -> TablePlan:
    """Return what is due for a table with these facts."""
    group = table.group
    if isinstance(facts, PlanProblem):
        return TablePlan(table.name, group.name, group.policy.name, None, (), facts)
    cost = FAR if table.store.capabilities.parallel_reads > 1 else NEAR
    steps = plan_steps(facts, group.policy, past, now_ms, cost)
    return TablePlan(table.name, group.name, group.policy.name, facts, steps)


def _problems(found: Discovery, chosen: Collection[str]) -> list[SearchProblem]:
    return [
        SearchProblem(failure.name, failure.group, failure.line, PlanProblem.of(failure.fault))
        for failure in found.failures
        if failure.group in chosen
    ]


def plan_vacuum_step(table: TableHandle, policy: Policy) -> VacuumPlan:
    """Return the plan of a vacuum with the settings of a policy. Raises what `plan_vacuum` raises."""
    from deltacli.operations.vacuum.full_plan import plan_vacuum

    settings = policy.steps["vacuum"]
    assert isinstance(settings, VacuumPolicy)
    return plan_vacuum(table, settings)


def expiry_step(policy: Policy, *, proves: bool) -> LogExpiry:
    """Return the log expiry with the settings of a policy."""
    from deltacli.operations.log.expire import ExpiryRequest
    from deltacli.operations.log.expire_execute import LogExpiry

    settings = policy.steps["log-expire"]
    assert isinstance(settings, ExpirePolicy)
    retention_ms, limit_ms = settings.retention_ms, settings.allow_retention_below_ms
    return LogExpiry(ExpiryRequest(retention_ms=retention_ms, allow_retention_below_ms=limit_ms), proves)
