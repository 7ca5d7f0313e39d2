"""What is due for a table, and why: a function of its cheap facts, its policy and its past. Also what each step costs.

The facts are one listing of the log and its checkpoint hint, no commit and no checkpoint. Data files are not listed, so
their number is derived from the size of the newest checkpoint and the commits after it.

Nothing is changed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.core import errors
from deltacli.core.pools import ThreadPool
from deltacli.core.progress import SILENT, Progress
from deltacli.core.times import format_age, format_duration, format_timestamp
from deltacli.core.typing import Json
from deltacli.core.units import format_size, plural
from deltacli.delta.log.segment import Hint, choose_segment, read_listing
from deltacli.delta.log.state import DEFAULT_LOG_RETENTION_MS, log_cutoff_ms
from deltacli.fleet.planning.discovery import Discovery, Expander, FoundTable, Opener, discover
from deltacli.fleet.policy_file import model
from deltacli.fleet.policy_file.table_names import show_table_name
from deltacli.rules.framework.repairs import LOST
from deltacli.storage.secrets import mask_secrets
from deltacli.table.discover import note_log_backups
from deltacli.table.find_log import list_log_files, read_hint

if TYPE_CHECKING:
    from deltacli.engine.base import Engine
    from deltacli.operations.log.expire import LogExpiry
    from deltacli.operations.vacuum.plan import VacuumPlan
    from deltacli.storage import ReadStorage
    from deltacli.table.handle import TableHandle


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The state of a log, as far as its listing shows it. Sizes are bytes; versions are -1 where there is none."""

    version: int
    committed_ms: int
    """Modification time of the newest commit, or of the checkpoint where the commit is missing."""
    log_files: int
    log_bytes: int
    checkpoint: int
    """Version of the newest complete checkpoint."""
    checkpoint_ms: int
    checkpoint_bytes: int
    commits_behind: int
    bytes_behind: int
    hint: int
    """Version in `_last_checkpoint`; -1 where the file is missing or invalid."""
    behind_since_ms: int
    """Modification time of the oldest commit that the checkpoint does not contain; 0 where there is none."""
    expirable_files: int
    expirable_bytes: int
    """Versioned files before the newest checkpoint that is older than the cutoff."""

    def as_json(self) -> dict[str, Json]:
        """Return the facts for documents. What does not exist is left out."""
        found: dict[str, Json] = {
            "version": self.version,
            "committedMs": self.committed_ms,
            "committed": format_timestamp(self.committed_ms),
            "logFiles": self.log_files,
            "logBytes": self.log_bytes,
            "commitsBehind": self.commits_behind,
            "bytesBehind": self.bytes_behind,
            "expirableFiles": self.expirable_files,
            "expirableBytes": self.expirable_bytes,
        }
        if self.behind_since_ms:
            found["behindSinceMs"] = self.behind_since_ms
        if self.checkpoint >= 0:
            found |= {"checkpointVersion": self.checkpoint, "checkpointMs": self.checkpoint_ms}
        return found if self.hint < 0 else found | {"hintVersion": self.hint}


def read_facts(store: ReadStorage, at: str, cutoff_ms: int) -> TableFacts:
    """Return the facts of the table in a directory of a store: two calls, and one more per 1,000 files of its log.

    Raises NotATable, LogIncomplete and CommitCorrupt where the listing shows that the newest version cannot be rebuilt,
    and StorageFailed.
    """
    files = list_log_files(store, at)
    listing = read_listing(files)
    segment = choose_segment(listing)
    for file in segment.commits:
        if not file.size_bytes:
            raise errors.CommitCorrupt(
                f"commit {file.version} is empty", code="commit.empty", facts={"file": file.name}
            )
    start = segment.checkpoint
    newest = listing.commits.get(segment.version) or (start.files[0] if start else files[-1])
    boundary = max(
        (found.version for found in listing.checkpoints if max(one.modified_ms for one in found.files) <= cutoff_ms),
        default=-1,
    )
    hint = read_hint(store, at)
    expirable = [file for file in files if 0 <= file.version < boundary]
    return TableFacts(
        version=segment.version,
        committed_ms=newest.modified_ms,
        log_files=len(files),
        log_bytes=sum(file.size_bytes for file in files),
        checkpoint=start.version if start else -1,
        checkpoint_ms=max(file.modified_ms for file in start.files) if start else 0,
        checkpoint_bytes=sum(file.size_bytes for file in start.files) if start else 0,
        commits_behind=len(segment.commits),
        bytes_behind=sum(file.size_bytes for file in segment.commits),
        behind_since_ms=segment.commits[0].modified_ms if segment.commits else 0,
        hint=hint.version if isinstance(hint, Hint) else -1,
        expirable_files=len(expirable),
        expirable_bytes=sum(file.size_bytes for file in expirable),
    )


_BYTES_PER_ADD = 300
_FOOTER_BYTES = 64 << 10
_LISTED_PER_CALL = 1_000


class _StoreCost(NamedTuple):
    """Seconds per call and per byte, with the parallelism of the store."""

    per_call: float
    per_byte: float


NEAR = _StoreCost(2e-4, 5e-9)
FAR = _StoreCost(0.04 / 16, 1e-8)
"""A disk; a remote store with 40 ms per request, 16 at once, and 100 MB per second, as in docs/performance.md."""

_FIXED_SECONDS = 0.015


class _Estimate(NamedTuple):
    """Calls, bytes and seconds. `size_bytes` is None where it depends on data files whose size is not known."""

    calls: int
    size_bytes: int | None
    seconds: float

    def as_json(self) -> dict[str, Json]:
        return {"calls": self.calls, "sizeBytes": self.size_bytes, "seconds": round(self.seconds, 3)}


def estimate(step: str, facts: TableFacts, settings: object, cost: _StoreCost) -> _Estimate:
    """Return what a step of a table is expected to cost."""
    state = facts.checkpoint_bytes + facts.bytes_behind
    replay = 3 + facts.commits_behind
    live = state // _BYTES_PER_ADD
    match step:
        case "checkpoint":
            calls, size = replay + 6, 2 * state
        case "log-expire":
            calls, size = 3 * replay + 4 + facts.expirable_files, 3 * state
        case "vacuum":
            listed = (
                0 if isinstance(settings, model.VacuumPolicy) and settings.mode == "lite" else live // _LISTED_PER_CALL
            )
            calls, size = 2 * replay + 6 + listed, facts.log_bytes
        case "optimize" | "copy":
            return _priced(2 * replay + 6, state, cost)._replace(size_bytes=None)
        case _:
            assert isinstance(settings, model.ValidatePolicy)
            return _of_check(settings, facts, live, cost)
    return _priced(calls, size, cost)


def _of_check(settings: model.ValidatePolicy, facts: TableFacts, live: int, cost: _StoreCost) -> _Estimate:
    calls, size = facts.log_files + 3, facts.log_bytes
    if settings.level != "log":
        calls += live // _LISTED_PER_CALL + 1
    if settings.level in ("footers", "data"):
        opened = round(live * settings.sample)
        calls += 2 * opened
        size += opened * _FOOTER_BYTES
    found = _priced(calls, size, cost)
    return found._replace(size_bytes=None) if settings.level == "data" else found


def _priced(calls: int, size: int, cost: _StoreCost) -> _Estimate:
    return _Estimate(calls, size, _FIXED_SECONDS + calls * cost.per_call + size * cost.per_byte)


ORDER = ("validate", "optimize", "checkpoint", "copy", "log-expire", "vacuum")
"""The order of the steps of a table: what checks comes first, what deletes last, when the replica has it."""


NEVER_MS = -1
"""The time of a step that was tried and never done."""


class LastRun(NamedTuple):
    """When a step of a table was last done; `has_findings`: a validation that failed, `has_lost`: because of rows or
    files that are lost or damaged. `tried`: when a later try ended without doing it, and in which state.
    """

    timestamp_ms: int
    has_findings: bool = False
    has_lost: bool = False
    tried: tuple[int, str] | None = None

    @classmethod
    def of(cls, timestamp_ms: int, state: str, code: str | None) -> LastRun:
        """Return a run that ended in a state; `code` is the rule of the worst finding."""
        return cls(timestamp_ms, state == "findings", state == "findings" and code in LOST)


Past = Mapping[str, LastRun]
"""Step -> its last run; steps that never ran are missing."""

NO_PAST: Past = MappingProxyType({})


class Due(NamedTuple):
    """Why a step is due. `urgency` is how far its limit is exceeded: 1 is just due, 2 is twice the limit."""

    reason: str
    urgency: float


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step that is due."""

    kind: str
    reason: str
    urgency: float
    estimate: _Estimate
    consent: bool = True
    """False where the step deletes files and its policy does not allow that."""

    @property
    def is_destructive(self) -> bool:
        return self.kind in model.DESTRUCTIVE

    def as_json(self) -> dict[str, Json]:
        found = {"kind": self.kind, "reason": self.reason, "urgency": round(self.urgency, 3)}
        if self.is_destructive:
            found["consent"] = self.consent
        return found | {"destructive": self.is_destructive, "estimate": self.estimate.as_json()}


def plan_steps(
    facts: TableFacts, policy: model.Policy, past: Past, now_ms: int, cost: _StoreCost
) -> tuple[PlannedStep, ...]:
    """Return the steps that are due, in the order in which they are done."""
    steps = []
    for kind in [kind for kind in ORDER if kind in policy.steps]:
        settings = policy.steps[kind]
        due = _JUDGES[kind](settings, facts, past.get(kind), now_ms)
        if due is not None:
            costs = estimate(kind, facts, settings, cost)
            steps.append(PlannedStep(kind, due.reason, due.urgency, costs, getattr(settings, "consent", True)))
    return tuple(steps)


def expiry_cutoff_ms(policy: model.Policy, now_ms: int) -> int:
    """Return the time before which log files may expire: by the policy's retention, else by the default of tables."""
    settings = policy.steps.get("log-expire")
    own = settings.retention_ms if isinstance(settings, model.ExpirePolicy) else None
    return log_cutoff_ms(now_ms, DEFAULT_LOG_RETENTION_MS if own is None else own)


def _checkpoint(settings: model.CheckpointPolicy, facts: TableFacts, _: LastRun | None, _now: int) -> Due | None:
    commits, size = facts.commits_behind, facts.bytes_behind
    since = f"since the checkpoint of version {facts.checkpoint}" if facts.checkpoint >= 0 else "without a checkpoint"
    found = []
    if commits >= settings.commits:
        found.append(
            Due(f"{plural(commits, 'commit')} {since} (limit {settings.commits:,})", commits / max(settings.commits, 1))
        )
    if settings.log_bytes is not None and size >= settings.log_bytes:
        limit = format_size(settings.log_bytes)
        found.append(Due(f"{format_size(size)} of commits {since} (limit {limit})", size / max(settings.log_bytes, 1)))
    if not found and facts.hint < facts.checkpoint and commits:
        named = f"names version {facts.hint}" if facts.hint >= 0 else "is missing or invalid"
        found.append(Due(f"_last_checkpoint {named}, and the newest checkpoint is {facts.checkpoint}", 1.0))
    return max(found, key=lambda due: due.urgency, default=None)


def _log_expire(settings: model.ExpirePolicy, facts: TableFacts, last: LastRun | None, now_ms: int) -> Due | None:
    due = _scheduled(settings, facts, last, now_ms)
    if due is None or not facts.expirable_files:
        return None
    what = f"{plural(facts.expirable_files, 'log file')} ({format_size(facts.expirable_bytes)}) before the retention"
    return Due(f"{what}; {due.reason}", due.urgency)


def _scheduled(settings: Any, _: TableFacts, last: LastRun | None, now_ms: int) -> Due | None:  # Any: has `every`
    every = format_duration(settings.every)
    if last is None:
        return Due(f"never done (every {every})", 1.0)
    tried = ""
    if last.tried is not None:
        tried_ms, state = last.tried
        tried = f", {'partly done' if state == 'partly' else state} {format_age(tried_ms, now_ms)}"
    if last.timestamp_ms == NEVER_MS:
        return Due(f"never done{tried} (every {every})", 1.0)
    if last.has_findings:
        return Due(f"findings {format_age(last.timestamp_ms, now_ms)}{tried}", 1.0)
    elapsed = now_ms - last.timestamp_ms
    if elapsed < 0:
        return Due(f"the last time is in the future (every {every})", 1.0)
    if elapsed < settings.every:
        return None
    urgency = elapsed / settings.every if settings.every else 1.0
    return Due(f"done {format_age(last.timestamp_ms, now_ms)}{tried} (every {every})", urgency)


def _optimize(settings: model.OptimizePolicy, facts: TableFacts, last: LastRun | None, now_ms: int) -> Due | None:
    is_closed = settings.window is not None and not settings.window.remaining_ms(now_ms)
    return None if is_closed else _scheduled(settings, facts, last, now_ms)


_JUDGES: Mapping[str, Callable[[Any, TableFacts, LastRun | None, int], Due | None]] = {  # Any: settings of the step
    "checkpoint": _checkpoint,
    "log-expire": _log_expire,
    "vacuum": _scheduled,
    "validate": _scheduled,
    "optimize": _optimize,
    "copy": _scheduled,
}


# -- the plan of a fleet -----------------------------------------------------------------------------------------------

_IN_FLIGHT = 32
"""Tables in flight for each thread that reads facts."""
_POLL_SECONDS = 0.2


def other_table(fault: errors.DeltacliError) -> str | None:
    """Return the URI of the table of `protect-from`, or of the clone, that an error is about instead of its own."""
    other = fault.facts.get("protected table")
    return None if other is None or other != fault.table else mask_secrets(other)


def describe_error(fault: errors.DeltacliError) -> str:
    """Return the message of an error, behind the other table that it is about, if it is about one."""
    message, other = mask_secrets(fault.message), other_table(fault)
    return message if other is None else f"{show_table_name(other)}: {message}"


class PlanProblem(NamedTuple):
    """Why a table, or a directory, could not be planned."""

    code: str
    message: str
    exit_code: int

    @classmethod
    def of(cls, fault: errors.DeltacliError) -> PlanProblem:
        return cls(fault.code, describe_error(fault), fault.exit_code)

    @property
    def sentence(self) -> str:
        return f"{self.code}: {self.message}"

    def as_json(self) -> dict[str, Json]:
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
        found: dict[str, Any] = {"table": mask_secrets(self.name), "group": self.group, "policy": self.policy}
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
        place = {"path": mask_secrets(self.name), "group": self.group, "line": self.line}
        return place | self.problem.as_json()


@dataclass(frozen=True)
class FleetPlan:
    """The tables in the order of the work, and what could not be searched."""

    file: model.FleetFile
    now_ms: int
    tables: tuple[TablePlan, ...]
    problems: tuple[SearchProblem, ...] = ()
    others: tuple[str, ...] = ()
    """Tables of other formats, which a fleet does not maintain."""
    backups: tuple[str, ...] = ()
    """Backups of logs, which are no tables."""
    empty: tuple[model.Entry, ...] = ()
    """Globs and prefixes that lead to no table."""
    found: Mapping[str, FoundTable] = field(default_factory=dict, repr=False)
    """The tables by name."""

    @property
    def due(self) -> list[tuple[TablePlan, PlannedStep]]:
        """Return the due steps in the order of the work."""
        return [(table, step) for table in self.tables for step in table.steps]

    @property
    def unreadable(self) -> int:
        return sum(table.problem is not None for table in self.tables)

    @property
    def exit_code(self) -> int:
        """Return 5 if a table or a directory could not be read, else 0."""
        return errors.PartlyDone.exit_code if self.unreadable or self.problems else errors.EXIT_OK

    def note_search(self, note: Callable[[str], None]) -> None:
        """Note what the search skipped, and where it found nothing."""
        note_log_backups(note, self.backups)
        for entry in self.empty:
            note(f"note: {self.file.path}:{entry.line}: no table at or below {show_table_name(entry.text)}")

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


def choose_groups(file: model.FleetFile, only: Collection[str]) -> Sequence[model.Group]:
    """Return the groups with these names, all of them for none. Raises UsageError."""
    known = {group.name: group for group in file.groups}
    for name in only:
        if name not in known:
            nearest = errors.nearest_name(name, known, ignores_case=True)
            raise errors.UsageError(
                f"{errors.parameter('fleet plan.only', name)}: {file.path} has no such group",
                code="fleet.group",
                facts={"groups": ", ".join(known)},
            ).suggest(name, nearest, is_quoted=True)
    return [group for group in file.groups if not only or group.name in only]


def plan_fleet(
    file: model.FleetFile,
    open_: Opener,
    engine: Engine,
    now_ms: int,
    *,
    only: Collection[str] = (),
    past_of: Callable[[str], Past] = lambda _: NO_PAST,
    progress: Progress = SILENT,
    read: FactsReader | None = None,
    expand: Expander | None = None,
) -> FleetPlan:
    """Find the tables, read their cheap facts in parallel, and decide what is due. `read` reads the facts (default:
    threads of this process), `expand` lists the tables of catalogs. Raises UsageError.

    A table that cannot be read is part of the plan, with its problem and without steps.
    """
    groups = choose_groups(file, only)
    chosen = {group.name for group in groups}
    until = file.groups.index(groups[-1]) + 1 if groups else 0  # earlier groups may have tables of a chosen one
    found = discover(file.groups[:until], open_, engine, progress=progress, expand=expand)
    tables = [table for table in found.tables if table.group.name in chosen]
    asked = [(table, expiry_cutoff_ms(table.group.policy, now_ms)) for table in tables]
    plans = []
    with progress.step("reading facts", unit="tables", total=len(tables)) as step:
        for table, facts in zip(tables, (read or read_here)(asked), strict=True):
            plans.append(judge(table, facts, past_of(table.name), now_ms))
            step.advance()
    plans.sort(key=lambda plan: plan.rank)
    by_name = {table.name: table for table in tables}
    empty = tuple(entry for group, entry in found.empty if group in chosen)
    problems = tuple(_problems(found, chosen))
    return FleetPlan(file, now_ms, tuple(plans), problems, found.others, found.backups, empty, by_name)


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
    with ThreadPool(at_once, thread_name_prefix="deltacli-facts") as pool:

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
    except errors.DeltacliError as fault:
        return PlanProblem.of(fault)
    except Exception as fault:  # noqa: BLE001  (recorded as exit 70: no table hides the others)
        return PlanProblem("bug", f"{type(fault).__name__}: {mask_secrets(str(fault))}", errors.EXIT_BUG)


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


def plan_vacuum_step(table: TableHandle, policy: model.Policy) -> VacuumPlan:
    """Return the plan of a vacuum with the settings of a policy. Raises what `plan_vacuum` raises."""
    from deltacli.operations.vacuum.full_plan import plan_vacuum

    settings = policy.steps["vacuum"]
    assert isinstance(settings, model.VacuumPolicy)
    return plan_vacuum(table, settings)


def expiry_step(policy: model.Policy, *, proves: bool) -> LogExpiry:
    """Return the log expiry with the settings of a policy."""
    from deltacli.operations.log.expire import ExpiryRequest, LogExpiry

    settings = policy.steps["log-expire"]
    assert isinstance(settings, model.ExpirePolicy)
    request = ExpiryRequest(
        retention_ms=settings.retention_ms,
        allow_retention_below_ms=settings.allow_retention_below_ms,
        protect_streams=settings.protect_streams,
        ignore_streams_older_ms=settings.ignore_streams_older_ms,
    )
    return LogExpiry(request, proves)
