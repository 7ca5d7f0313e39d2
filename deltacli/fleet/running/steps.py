"""Carrying out one step of one table, and what became of it.

What deletes files is planned and carried out by the process that holds the lease; of a large table, its parts are on
the executors. Checks and checkpoints of a small table are one piece of work there, because a second attempt of a piece
does no harm.
"""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from threading import Event, Lock, Semaphore
from typing import TYPE_CHECKING, NamedTuple

from deltacli.core import errors
from deltacli.core.machine import Clock, fixed_clock, system_clock
from deltacli.core.memory import build_memory_error, is_out_of_memory
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_size, plural
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.engine.base import Engine
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.fleet.planning import due
from deltacli.fleet.planning.discovery import FoundTable
from deltacli.fleet.policy_file import model
from deltacli.fleet.policy_file.table_names import make_file_name
from deltacli.fleet.status import LOSING, target_of
from deltacli.operations.validate.findings import MOST_COUNTED
from deltacli.rules.framework.base import Finding, Severity
from deltacli.rules.framework.baseline import Baseline, read_baseline
from deltacli.rules.framework.repairs import LOST, UNREADABLE
from deltacli.storage import LocalStorage, ReadStorage
from deltacli.storage.optional_interfaces import require_writable
from deltacli.storage.secrets import mask_secrets
from deltacli.table.handle import TableHandle
from deltacli.table.table_directories import require_one_format
from deltacli.work.table_stores import TableStores
from deltacli.work.task import TaskContext, light

if TYPE_CHECKING:
    from deltacli.operations.validate.validate import TableContents

# -- carrying out one step of one table --------------------------------------------------------------------------------

Details = dict[str, Json]

MOST_FINDINGS = 10
"""Number of findings of a table that a validation records."""


class StepOutcome(NamedTuple):
    """What became of a step: its state, its exit code as a command, a sentence, and numbers."""

    state: str
    exit_code: int = errors.EXIT_OK
    message: str = ""
    code: str | None = None
    details: JsonObject | None = None

    @classmethod
    def of(cls, fault: errors.DeltacliError, details: JsonObject | None = None) -> StepOutcome:
        state = {errors.Refused.exit_code: "refused", errors.PartlyDone.exit_code: "partly"}.get(
            fault.exit_code, "failed"
        )
        if (other := due.other_table(fault)) is not None:
            details = {**(details or {}), "protectedTable": other}
        return cls(state, fault.exit_code, due.describe_error(fault), fault.code, details)

    @classmethod
    def of_any(cls, fault: Exception) -> StepOutcome:
        """Return any exception as an outcome: one that is no error of deltacli is a bug."""
        if isinstance(fault, errors.DeltacliError):
            return cls.of(fault)
        if is_out_of_memory(fault):
            return cls.of(build_memory_error(fault))
        return cls("failed", errors.EXIT_BUG, f"{type(fault).__name__}: {mask_secrets(str(fault))}", "bug")


class StepWork(NamedTuple):
    """A step to carry out: `table` opens the table `name`. Size and seconds are estimates; a size of None is not known.
    `newest` is the name of the newest commit with its modification time, None where that is not known.
    """

    name: str
    kind: str
    policy: model.Policy
    table: Callable[[], TableHandle]
    size_bytes: int | None = 0
    seconds: float = 0.0
    newest: tuple[str, int] | None = None


def attempt(work: StepWork) -> StepOutcome:
    """Carry out a step. No fault of a table ends the run, not even a bug."""
    try:
        return carry_out(work)
    except Exception as fault:  # noqa: BLE001  (recorded as exit code in report and journal)
        return StepOutcome.of_any(fault)


def carry_out(work: StepWork) -> StepOutcome:
    """Carry out a step. Raises what its operation raises, and PartlyDone where it could not be completed."""
    opened = work.table()
    if work.kind not in model.UNCHANGING:
        require_writable(opened.storage)
    return _STEPS[work.kind](opened, work.policy, work.name)


def _checkpoint(table: TableHandle, policy: model.Policy, _: str) -> StepOutcome:
    from deltacli.changing.change import execute_change
    from deltacli.operations.checkpoint.checkpoint import Checkpoint, CheckpointRequest

    assert isinstance(policy.steps["checkpoint"], model.CheckpointPolicy)
    done = execute_change(Checkpoint(CheckpointRequest()), table)
    size = sum(file.size_bytes for file in done.files)
    details: Details = {
        "version": done.version,
        "files": len(done.files),
        "sizeBytes": size,
        "layout": done.plan.layout.value,
    }
    if done.actions:
        details |= {"liveFiles": done.actions.get("add", 0), "tombstones": done.actions.get("remove", 0)}
    if done.skipped:
        return StepOutcome("nothing", message=f"version {done.version} has a checkpoint", details=details)
    return StepOutcome("done", message=f"checkpoint of version {done.version} ({format_size(size)})", details=details)


def _log_expire(table: TableHandle, policy: model.Policy, _: str) -> StepOutcome:
    from deltacli.changing.change import execute_change, plan_change
    from deltacli.operations.streams.protection import numbers_of

    change = due.expiry_step(policy, proves=False)
    plan = plan_change(change, table)
    streams: Details = numbers_of(plan.streams) if change.request.protect_streams else {}
    if streams and (refused := plan.build_refusal()) is not None:
        return StepOutcome.of(refused, streams)
    if not plan.files:
        details: Details = {"files": 0, "sizeBytes": 0, "retentionMs": plan.retention_ms, **streams}
        return StepOutcome("nothing", message="no log file can be deleted", details=details)
    outcome = execute_change(change, table, plan=plan)
    details = streams | {
        "planId": plan.plan_id,
        "files": outcome.deleted,
        "sizeBytes": outcome.deleted_bytes,
        "boundaryVersion": plan.boundary,
        "retentionMs": plan.retention_ms,
    }
    message = f"{plural(outcome.deleted, 'log file')} deleted ({format_size(outcome.deleted_bytes)})"
    return StepOutcome("done", message=message, details=details)


def _vacuum(table: TableHandle, policy: model.Policy, _: str) -> StepOutcome:
    from deltacli.operations.streams.protection import numbers_of
    from deltacli.operations.vacuum.full_plan import plan_vacuum, vacuum

    settings = policy.steps["vacuum"]
    assert isinstance(settings, model.VacuumPolicy)
    first = plan_vacuum(table, settings) if settings.protect_streams else None
    streams: Details = {} if first is None or first.streams is None else numbers_of(first.streams.queries)
    if first is not None and (refused := first.build_refusal()) is not None:
        return StepOutcome.of(refused, streams)
    plan, outcome = vacuum(table, settings, first)
    assert outcome is not None
    details = streams | {
        "planId": plan.plan_id,
        "files": outcome.deleted.files,
        "sizeBytes": outcome.deleted.size_bytes,
        "liveFiles": plan.kept.live.files,
        "retentionMs": plan.retention_ms,
        "startVersion": outcome.start_version,
        "endVersion": outcome.end_version,
    }
    if not plan.files and not plan.directories:
        return StepOutcome("nothing", message="no file can be deleted", details=details)
    deleted = outcome.deleted
    message = f"{plural(deleted.files, 'file')} deleted ({format_size(deleted.size_bytes)})"
    return StepOutcome("done", message=message, details=details)


def _optimize(table: TableHandle, policy: model.Policy, _: str) -> StepOutcome:
    from deltacli.changing import change as changing
    from deltacli.operations.optimize.execute import Optimize
    from deltacli.operations.read.file_sizes import file_sizes
    from deltacli.table.rebuild import read_snapshot

    settings = policy.steps["optimize"]
    assert isinstance(settings, model.OptimizePolicy)
    if settings.window is not None:
        settings = replace(settings, time_budget_ms=settings.window.remaining_ms(table.clock()))
    change = Optimize(settings)
    plan = changing.plan_change(change, table)
    small, files = plan.small_files, len(plan.live.keys)
    details: Details = {"version": plan.snapshot.version, "liveFiles": files}
    if settings.small_files is not None and small < settings.small_files * files:
        is_are = "is" if small == 1 else "are"
        message = f"{small:,} of {plural(files, 'data file')} {is_are} small (limit {settings.small_files:.0%})"
        return StepOutcome("nothing", message=message, details=details)
    outcome = changing.execute_change(change, table, plan=plan)
    details |= {
        "files": outcome.files_removed,
        "sizeBytes": outcome.bytes_removed,
        "addedFiles": outcome.files_added,
        "addedBytes": outcome.bytes_added,
        "refused": len(outcome.refused),
    }
    if not outcome.versions:
        return StepOutcome("nothing", message="no files to compact", details=details)
    newest = read_snapshot(table)
    layout = file_sizes(newest)
    details |= {"version": newest.version, "liveFiles": sum(layout.files_by_class.values())}
    details["smallFiles"] = layout.small_files
    removed = f"{plural(outcome.files_removed, 'file')} ({format_size(outcome.bytes_removed)})"
    return StepOutcome("done", message=f"{removed} became {outcome.files_added:,}", details=details)


def _copy(table: TableHandle, policy: model.Policy, name: str) -> StepOutcome:
    from deltacli.changing.change import execute_change
    from deltacli.operations.copy.execute import Copy

    settings = policy.steps["copy"]
    assert isinstance(settings, model.CopyPolicy)
    place = target_of(settings, name)
    done = execute_change(Copy(table.open_other(place), replace(settings, replica=True)), table)
    version, target, copied = done.plan.last, mask_secrets(place), done.copied
    details: Details = {"version": version, "target": target, "files": copied.files, "sizeBytes": copied.size_bytes}
    if done.plan.is_noop:
        return StepOutcome("nothing", message=f"{target} has version {version}", details=details)
    message = (
        f"{plural(copied.files, 'file')} copied ({format_size(copied.size_bytes)}): {target} has version {version}"
    )
    return StepOutcome("done", message=message, details=details)


def _validate(table: TableHandle, policy: model.Policy, name: str) -> StepOutcome:
    from deltacli.operations.validate.validate import validate_table

    settings = policy.steps["validate"]
    assert isinstance(settings, model.ValidatePolicy)
    found = validate_table(table, settings)
    path = None if settings.baselines is None else Path(settings.baselines) / f"{make_file_name(name)}.json"
    baseline = None if path is None else _read_baseline(path)
    label = "" if path is None else _label(table, path)
    kept = [one for one in found.findings if baseline is None or not baseline.take(label, one)]
    more = {rule: count for rule, count in found.suppressed.items() if any(one.rule.id == rule for one in kept)}
    details = _counts(kept, len(found.findings) - len(kept), more) | {"level": settings.level, "version": found.version}
    details |= _contents(found.contents)
    failing = _failing(kept, settings.fail_on)
    if failing:
        failing.sort(key=_worst_first)
        details["findings"] = [_finding(one) for one in failing[:MOST_FINDINGS]]
    if found.unsupported is not None:
        return StepOutcome.of(found.unsupported, details)
    if not failing:
        message = f"no {settings.fail_on} at level {settings.level}"
        return StepOutcome("done", message=message, details=details)
    accept = "" if path is None else f"; to accept: {errors.command('validate', table=name, write_baseline=str(path))}"
    message = f"{_said(failing, more)}{accept}"
    return StepOutcome("findings", errors.EXIT_FINDINGS, message, failing[0].rule.id, details)


_SAID = {
    "data.file-missing": ("data file", "missing"),
    "data.not-parquet": ("data file", "unreadable"),
    "dv.file-missing": ("deletion vector", "missing"),
}


def _said(failing: list[Finding], more: Mapping[str, int]) -> str:
    """Return what was found, in words where files are lost, else as counts by rule; `more`: the findings not shown."""
    counts = Counter(one.rule.id for one in failing)
    counts.update({rule: count for rule, count in more.items() if rule in counts})
    said = [
        f"{'at least ' if more.get(rule, 0) >= MOST_COUNTED else ''}{plural(n, _SAID[rule][0])} "
        f"{'is' if n == 1 else 'are'} {_SAID[rule][1]}"
        for rule, n in counts.items()
        if rule in _SAID
    ]
    rest = {rule: n for rule, n in counts.items() if rule not in _SAID}
    if rest:
        said.append(f"{plural(sum(rest.values()), 'other finding' if said else 'finding')}: {', '.join(rest)}")
    return "; ".join(said)


def _failing(findings: list[Finding], fail_on: str) -> list[Finding]:
    worst_first = list(Severity)
    return [one for one in findings if worst_first.index(one.severity) <= worst_first.index(Severity(fail_on))]


def _worst_first(one: Finding) -> tuple[bool, bool, bool, bool]:
    rule = one.rule.id
    return one.severity is not Severity.ERROR, rule not in LOSING, rule not in UNREADABLE, rule not in LOST


def _counts(findings: list[Finding], accepted: int, more: Mapping[str, int]) -> Details:
    by_severity = Counter(one.severity.value for one in findings)
    severities = {one.rule.id: one.severity.value for one in findings}
    for rule, count in more.items():
        by_severity[severities[rule]] += count
    rules = Counter(one.rule.id for one in findings) + Counter(more)
    counts = {f"{name}s": by_severity[name] for name in Severity}
    failed = {one.rule.id for one in findings if one.severity is not Severity.INFO}
    return {**counts, "accepted": accepted, "failedRules": len(failed), "rules": dict(sorted(rules.items()))}


def _contents(found: TableContents | None) -> Details:
    if found is None:
        return {}
    numbers: Details = {"liveFiles": found.files, "liveBytes": found.size_bytes, "smallFiles": found.small_files}
    numbers["tombstones"] = found.tombstones
    return numbers if found.rows is None else numbers | {"rows": found.rows}


def _finding(one: Finding) -> Details:
    found: Details = {"rule": one.rule.id, "severity": one.severity.value, "message": one.message}
    found |= {name: value for name, value in one.place._asdict().items() if value not in (None, "")}
    seen = {"seen": one.seen, "expected": one.expected}
    return found | {name: value for name, value in seen.items() if value is not None}


def _read_baseline(path: Path) -> Baseline | None:
    """Return the accepted findings of a table, None where there is no file. Raises UsageError for an invalid one."""
    try:
        return read_baseline(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None
    except OSError as fault:
        reason = (fault.strerror or str(fault)).lower()
        raise errors.UsageError(f"the baseline {path} cannot be read: {reason}", code="usage.baseline") from fault


def _label(table: TableHandle, path: Path) -> str:
    """Return the name of a table in a baseline, as `validate --write-baseline` writes it."""
    if not isinstance(table.storage, LocalStorage):
        return table.uri
    return os.path.relpath(table.storage.root, path.resolve().parent).replace(os.sep, "/")


_STEPS: Mapping[str, Callable[[TableHandle, model.Policy, str], StepOutcome]] = {
    "checkpoint": _checkpoint,
    "log-expire": _log_expire,
    "vacuum": _vacuum,
    "validate": _validate,
    "optimize": _optimize,
    "copy": _copy,
}


# -- the work of a run on a cluster ------------------------------------------------------------------------------------

LARGE_SECONDS = 30.0
"""Estimated seconds from which a step is divided among the executors."""
_MOST_PIECES = 256
_LINGER_SECONDS = 0.1
"""Seconds to wait for the steps of other tables before a job starts, which takes a second."""


class StepPiece(NamedTuple):
    """A step of a small table. `newest` is its newest commit, with its time, that executors must see too. `now_ms` is a
    time that somebody gave; None: the clock of the executor, which is compared with the log.
    """

    kind: str
    name: str
    policy: model.Policy
    now_ms: int | None
    newest: tuple[str, int] | None
    weight: int


class _Waiting:
    """A piece and, later, what became of it."""

    def __init__(self, piece: StepPiece) -> None:
        self.piece = piece
        self.outcome: StepOutcome | None = None
        self.is_left = False
        """True if this process must carry it out, because executors lack a package."""


@dataclass
class FleetCluster:
    """Runs the work of a fleet by an engine that distributes tasks.

    `open_stores` returns the stores of a table with its location; `is_sent` says of which tables executors may open the
    stores. `jobs` is the number of steps at once in this process.
    """

    engine: Engine
    open_stores: Callable[[str], TableStores]
    is_sent: Callable[[str], bool]
    clock: Clock
    jobs: int
    large_seconds: float = LARGE_SECONDS
    tables_at_once: int = 64
    """Tables that are worked on at once, unless the command line has a number."""
    _anchor: TableStores | None = None
    """The table by which executors are recognized; its place is that of all jobs, so that there is one first job."""
    _here: Semaphore = field(init=False)
    _cluster: Lock = field(default_factory=Lock)
    _queue: Lock = field(default_factory=Lock)
    _waiting: list[_Waiting] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._here = Semaphore(self.jobs)

    def read_facts(self, tables: Sequence[tuple[FoundTable, int]]) -> Iterator[due.TableFacts | due.PlanProblem]:
        """Yield the facts of tables, each with its cutoff, in this order."""
        stores = self._anchor_of([table.name for table, _ in tables])
        if stores is None or not all(self.is_sent(table.name) for table, _ in tables):
            return due.read_here(tables)
        pieces = (due.FactsPiece(table.base, table.at, cutoff_ms) for table, cutoff_ms in tables)
        return self.engine.run_tasks(look_there, pieces, stores)

    def _anchor_of(self, names: Sequence[str]) -> TableStores | None:
        """Return the stores of the first of some tables whose log can be listed."""
        for name in names if self._anchor is None else ():
            try:
                stores = self.open_stores(name)
                list(islice(stores.storage.list_from(LOG_DIRECTORY), 1))
            except errors.DeltacliError:
                continue
            self._anchor = stores
            break
        return self._anchor

    def attempt(self, work: StepWork) -> StepOutcome:
        """Carry out a step where it belongs. No fault of it is raised."""
        if work.kind == "copy" or not self.is_sent(work.name):
            return self._in_this_process(work)
        if work.size_bytes is None or work.seconds >= self.large_seconds:
            with self._cluster:
                return attempt(work)
        settings = work.policy.steps[work.kind]
        has_baseline = (
            isinstance(settings, model.ValidatePolicy) and settings.baselines is not None
        )  # a file of this machine
        if work.kind in model.DESTRUCTIVE or has_baseline:
            return self._in_this_process(work)
        return self._on_an_executor(work)

    def _in_this_process(self, work: StepWork) -> StepOutcome:
        def table() -> TableHandle:
            handle = copy.copy(work.table())
            handle.engine = EmbeddedEngine()
            return handle

        with self._here:
            return attempt(work._replace(table=table))

    def _on_an_executor(self, work: StepWork) -> StepOutcome:
        """Wait until a job has carried out the step: that of the first thread that comes has all that wait for one."""
        weight = max(1, (work.size_bytes or 0) >> 10)
        now_ms = None if self.clock is system_clock else self.clock()
        mine = _Waiting(StepPiece(work.kind, work.name, work.policy, now_ms, work.newest, weight))
        with self._queue:
            self._waiting.append(mine)
        with self._cluster:
            while mine.outcome is None and not mine.is_left:
                Event().wait(_LINGER_SECONDS)
                with self._queue:
                    batch, self._waiting = self._waiting[:_MOST_PIECES], self._waiting[_MOST_PIECES:]
                self._run(batch)
        return self._in_this_process(work) if mine.outcome is None else mine.outcome

    def _run(self, batch: Sequence[_Waiting]) -> None:
        pieces = [one.piece for one in batch]
        stores = self._anchor_of([piece.name for piece in pieces])
        if stores is None:
            for one in batch:
                one.is_left = True
            return
        try:
            for one, outcome in zip(
                batch, self.engine.run_tasks(carry_out_there, pieces, stores, weigh=_weight), strict=True
            ):
                one.outcome, one.is_left = outcome, outcome is None
        except Exception as fault:  # noqa: BLE001  (recorded as the outcome of each step)
            for one in batch:
                one.outcome = one.outcome or (None if one.is_left else StepOutcome.of_any(fault))


def _weight(piece: StepPiece) -> int:
    return piece.weight


@light
def look_there(piece: due.FactsPiece, context: TaskContext) -> due.TableFacts | due.PlanProblem:
    """Return the facts of a table, or why there are none."""
    return due.look(context.stores.open_output(piece.base), piece.at, piece.cutoff_ms)


def carry_out_there(piece: StepPiece, context: TaskContext) -> StepOutcome | None:
    """Carry out a step of a table; None where this process lacks a package for it."""

    def table() -> TableHandle:
        storage = context.stores.open_other(piece.name)
        _require_same(storage, piece)
        require_one_format(storage)
        return TableHandle(
            storage,
            engine=EmbeddedEngine(),
            clock=system_clock if piece.now_ms is None else fixed_clock(piece.now_ms),
            open_other=context.stores.open_other,
            allowed=context.stores.allowed,
            name=piece.name,
            machine=context.stores.machine,
        )

    try:
        return carry_out(StepWork(piece.name, piece.kind, piece.policy, table))
    except ImportError:
        return None
    except Exception as fault:  # noqa: BLE001  (recorded as the outcome of the step)
        return StepOutcome.of_any(fault)


def _require_same(storage: ReadStorage, piece: StepPiece) -> None:
    """Raise Refused unless this process sees the newest commit that the driver has seen."""
    if piece.newest is None:
        return
    name, modified_ms = piece.newest
    try:
        found = storage.stat(f"{LOG_DIRECTORY}/{name}").modified_ms
    except errors.FileMissing:
        found = None
    if found != modified_ms:
        raise errors.Refused(
            "executors see another table than the driver", code="cluster.other-table", facts={"file": name}
        )
