"""The work of a run on a cluster: facts and steps of small tables in groups, and the parts of large steps.

What deletes files is planned and carried out by the process that holds the lease; of a large table, its parts are on
the executors. Checks and checkpoints of a small table are one piece of work there, because a second attempt of a piece
does no harm.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from threading import Event, Lock, Semaphore
from typing import TYPE_CHECKING, NamedTuple

from deltacli.core.clock import fixed_clock, system_clock
from deltacli.core.errors import DeltacliError, FileMissing, Refused
from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.fleet.planning.discovery import FoundTable
from deltacli.fleet.planning.due import TableFacts
from deltacli.fleet.planning.plan import FactsPiece, PlanProblem, look, read_here
from deltacli.fleet.policy_file.model import DESTRUCTIVE, Policy, ValidatePolicy
from deltacli.fleet.running.steps import StepOutcome, StepWork, attempt, carry_out
from deltacli.table.find_log import require_delta
from deltacli.table.handle import TableHandle
from deltacli.work.task import TableStores, TaskContext, light

if TYPE_CHECKING:
    from deltacli.core.clock import Clock
    from deltacli.engine.base import Engine
    from deltacli.storage import ReadStorage

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
    policy: Policy
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

    def read_facts(self, tables: Sequence[tuple[FoundTable, int]]) -> Iterator[TableFacts | PlanProblem]:
        """Yield the facts of tables, each with its cutoff, in this order."""
        stores = self._anchor_of([table.name for table, _ in tables])
        if stores is None or not all(self.is_sent(table.name) for table, _ in tables):
            return read_here(tables)
        pieces = (FactsPiece(table.base, table.at, cutoff_ms) for table, cutoff_ms in tables)
        return self.engine.spread(look_there, pieces, stores)

    def _anchor_of(self, names: Sequence[str]) -> TableStores | None:
        """Return the stores of the first of some tables whose log can be listed."""
        for name in names if self._anchor is None else ():
            try:
                stores = self.open_stores(name)
                list(islice(stores.storage.list_from(LOG_DIRECTORY), 1))
            except DeltacliError:
                continue
            self._anchor = stores
            break
        return self._anchor

    def attempt(self, work: StepWork) -> StepOutcome:
        """Carry out a step where it belongs. No fault of it is raised."""
        if not self.is_sent(work.name):
            return self._in_this_process(work)
        if work.size_bytes is None or work.seconds >= self.large_seconds:
            with self._cluster:
                return attempt(work)
        settings = work.policy.steps[work.kind]
        has_baseline = isinstance(settings, ValidatePolicy) and settings.baselines is not None  # a file of this machine
        if work.kind in DESTRUCTIVE or has_baseline:
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
                batch, self.engine.spread(carry_out_there, pieces, stores, weigh=_weight), strict=True
            ):
                one.outcome, one.is_left = outcome, outcome is None
        except Exception as fault:  # noqa: BLE001  (recorded as the outcome of each step)
            for one in batch:
                one.outcome = one.outcome or (None if one.is_left else StepOutcome.of_any(fault))


def _weight(piece: StepPiece) -> int:
    return piece.weight


@light
def look_there(piece: FactsPiece, context: TaskContext) -> TableFacts | PlanProblem:
    """Return the facts of a table, or why there are none."""
    return look(context.stores.other(piece.base), piece.at, piece.cutoff_ms)


def carry_out_there(piece: StepPiece, context: TaskContext) -> StepOutcome | None:
    """Carry out a step of a table; None where this process lacks a package for it."""

    def table() -> TableHandle:
        storage = context.stores.open_other(piece.name)
        _require_same(storage, piece)
        require_delta(storage)
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
    except FileMissing:
        found = None
    if found != modified_ms:
        raise Refused("executors see another table than the driver", code="cluster.other-table", facts={"file": name})
