"""One run from its beginning to its end: identity, journal, leases, plan, work, and the last line of the journal.

At its end the summary of the journal, what later runs and `fleet status` need of the runs that have ended, is rewritten
atomically. Then the files of old runs are compressed, and kept.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from deltacli.core.clock import Clock
from deltacli.core.errors import DeltacliError, Refused
from deltacli.core.hints import parameter
from deltacli.core.progress import SILENT, Progress
from deltacli.core.release import VERSION
from deltacli.core.units import DAY_MS
from deltacli.fleet.planning.discovery import Opener
from deltacli.fleet.planning.plan import FleetPlan, choose_groups, plan_fleet
from deltacli.fleet.policy_file.model import FleetFile
from deltacli.fleet.request import FleetRunRequest
from deltacli.fleet.running.journal import (
    FINAL,
    MOST_BYTES,
    SUFFIX,
    Journal,
    JournalFiles,
    JournalWriter,
    Record,
    RunRecord,
    Summary,
    TableLines,
    archive,
    new_run_id,
    read_summary,
)
from deltacli.fleet.running.leases import Holder, Leases, process_identity, process_is_alive
from deltacli.fleet.running.runner import FleetReport, FleetRunner
from deltacli.fleet.running.steps import attempt
from deltacli.fleet.status import StatusReader, read_status
from deltacli.storage.secrets import without_secrets

if TYPE_CHECKING:
    from deltacli.engine.base import Engine
    from deltacli.fleet.running.cluster import FleetCluster
    from deltacli.table.handle import TableHandle

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
    report: FleetReport | None = field(default=None, init=False)

    @property
    def state(self) -> Path:
        """The state directory."""
        return Path(self.request.state or self.file.settings.state)

    def run(self) -> FleetReport:
        """Do what is due.

        Raises UsageError, Refused where that run is still active, and StorageFailed where the state cannot be written.
        """
        began = self.ticks()
        choose_groups(self.file, self.request.only)
        journal = Journal(self.state, self.clock)
        journal.refresh()
        interrupted = self._interrupted(journal) if self.request.resume else None
        run = (
            interrupted.run if interrupted else new_run_id(self.clock(), journal.newest.run if journal.newest else None)
        )
        leases = self._leases(run)
        self._require_inactive(leases, run)
        journal.refresh()  # what the run to resume did until its lease was free
        ended = dict(interrupted.steps) if interrupted else {}
        writer = JournalWriter(self.state, run)
        try:
            self._begin(writer, is_resumed=interrupted is not None)
            with leases.renewed():
                report = self._work(journal, writer, leases, None if interrupted is None else ended, began)
            self._summarize()
            if not report.left:
                leases.remove(f"run {run}")
            return report
        finally:
            leases.release(f"run {run}")
            writer.close()

    def _summarize(self) -> None:
        """Summarize the journal. A failure is a warning, because the next run tries again."""
        try:
            summarize(self.state, self.clock)
        except DeltacliError as fault:
            self.note(f"warning: the journal could not be summarized: {without_secrets(fault.message)}")

    def _interrupted(self, journal: Journal) -> RunRecord | None:
        newest = journal.newest
        if newest is None or newest.is_complete:
            self.note("note: there is no interrupted run; a new one is started")
            return None
        return newest

    def _leases(self, run: str) -> Leases:
        place = self.file.settings.leases or str(self.state / LEASES)
        return Leases(
            self.open_store(place), run, self.file.settings.lease, self.clock, steal=self.request.steal_leases
        )

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
        )
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
            is_whole = True
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
