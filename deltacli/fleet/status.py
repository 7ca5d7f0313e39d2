"""The status of a fleet: what the journal has about each table, its last steps, and how its numbers changed."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from deltacli.errors import EXIT_FINDINGS, EXIT_OK, PartlyDone
from deltacli.fleet.running.journal import Record, read_journal
from deltacli.fleet.running.leases import process_is_alive
from deltacli.fleet.running.runner import NOT_DONE
from deltacli.storage.secrets import without_secrets
from deltacli.units import format_timestamp

POINTS = 30
"""Number of values that a trend keeps."""

SERIES = ("logBytes", "logFiles", "commitsBehind", "liveFiles", "tombstones", "errors", "deletedBytes")
"""The numbers whose trend is kept, where steps report them."""


class Point(NamedTuple):
    """A number at a time."""

    timestamp_ms: int
    value: int


@dataclass(slots=True)
class StepStatus:
    """The newest outcome of a step of a table."""

    kind: str
    state: str
    exit_code: int
    timestamp_ms: int
    run: str
    message: str = ""
    succeeded_ms: int | None = None

    @property
    def is_alert(self) -> bool:
        """Return True if somebody has to look."""
        return self.state in NOT_DONE or self.state == "findings"

    def as_json(self) -> dict[str, Any]:  # Any: JSON values
        """Return the step for documents."""
        found: dict[str, Any] = {"kind": self.kind, "state": self.state, "exit": self.exit_code, "run": self.run}  # Any
        found |= {"timestampMs": self.timestamp_ms, "timestamp": format_timestamp(self.timestamp_ms)}
        found |= {"message": self.message}
        return found if self.succeeded_ms is None else found | {"succeededMs": self.succeeded_ms}


@dataclass(slots=True)
class TableStatus:
    """What the journal has about a table."""

    name: str
    group: str
    seen_ms: int = 0
    steps: dict[str, StepStatus] = field(default_factory=dict)
    problem: tuple[str, str, str] | None = None
    """Run, code and message, where the newest run could not read the table."""
    trends: dict[str, deque[Point]] = field(default_factory=dict)

    @property
    def alerts(self) -> list[str]:
        """Return what is wrong, in sentences."""
        found = [] if self.problem is None else [f"{self.problem[1]}: {self.problem[2]}"]
        return found + [f"{step.kind} {step.state}: {step.message}" for step in self.steps.values() if step.is_alert]

    def note(self, name: str, timestamp_ms: int, value: object) -> None:
        """Add a value to a trend."""
        if type(value) is int:
            self.trends.setdefault(name, deque(maxlen=POINTS)).append(Point(timestamp_ms, value))

    def as_json(self) -> dict[str, Any]:  # Any: JSON values
        """Return the table for documents."""
        found: dict[str, Any] = {
            "table": without_secrets(self.name),
            "group": self.group,
            "seenMs": self.seen_ms,
        }  # Any
        if self.problem is not None:
            found["problem"] = {"code": self.problem[1], "message": self.problem[2]}
        trends = {name: [list(point) for point in points] for name, points in self.trends.items()}
        return found | {
            "alerts": self.alerts,
            "steps": [step.as_json() for step in self.steps.values()],
            "trends": trends,
        }


@dataclass(slots=True)
class RunStatus:
    """The newest run. `left` are due steps that it did not start; None as long as it has no end."""

    run: str
    started_ms: int
    finished_ms: int | None = None
    exit_code: int | None = None
    left: int | None = None
    host: str = ""
    process: str = ""
    groups: frozenset[str] = frozenset()

    @property
    def is_active(self) -> bool:
        """Return True if the run is still working, as far as this machine can tell."""
        return self.finished_ms is None and self.host == socket.gethostname() and process_is_alive(self.process)

    @property
    def state(self) -> str:
        """Return `complete`, `active`, or `interrupted` where it left something."""
        if self.finished_ms is not None and not self.left:
            return "complete"
        return "active" if self.is_active else "interrupted"

    def as_json(self) -> dict[str, Any]:  # Any: JSON values
        """Return the run for documents. What is not known yet is null."""
        return {
            "run": self.run,
            "state": self.state,
            "startedMs": self.started_ms,
            "started": format_timestamp(self.started_ms),
            "finishedMs": self.finished_ms,
            "exit": self.exit_code,
            "left": self.left,
        }


@dataclass
class FleetStatus:
    """The tables in the order of their names, those with alerts first, and the newest run."""

    tables: list[TableStatus]
    runs: int
    newest: RunStatus | None

    @property
    def exit_code(self) -> int:
        """Return 5 if the newest run was interrupted, 1 for alerts, else 0."""
        if self.newest is not None and self.newest.state == "interrupted":
            return PartlyDone.exit_code
        return EXIT_FINDINGS if any(table.alerts for table in self.tables) else EXIT_OK

    def summary(self) -> dict[str, int]:
        """Return counts for documents."""
        return {
            "tables": len(self.tables),
            "alerts": sum(bool(table.alerts) for table in self.tables),
            "unreadable": sum(table.problem is not None for table in self.tables),
            "runs": self.runs,
        }


def read_status(state: Path, only: Iterable[str] = ()) -> FleetStatus:
    """Return the status of the tables of these groups, of all groups for none. Raises UsageError."""
    reader = _Reader()
    for run, record in read_journal(state):
        reader.take(run, record)
    return reader.result(frozenset(only))


class _Reader:
    def __init__(self) -> None:
        self._tables: dict[str, TableStatus] = {}
        self._runs: dict[str, RunStatus] = {}

    def take(self, run: str, record: Record) -> None:
        """Take one event; events of one run come in their order, and runs by their names."""
        match record["type"]:
            case "run-started" | "run-resumed":
                self._begin(run, record)
            case "run-finished" if run in self._runs:
                found = self._runs[run]
                found.finished_ms, found.exit_code = record["timestampMs"], record.get("exit")
                found.left = record.get("left", 0)
            case "table-facts" | "table-unreadable" | "step-finished" if "table" in record:
                self._take_table(run, record)

    def _begin(self, run: str, record: Record) -> None:
        found = self._runs.setdefault(run, RunStatus(run, record["timestampMs"]))
        found.finished_ms = found.exit_code = found.left = None
        found.host, found.process = str(record.get("host", "")), str(record.get("process", ""))
        found.groups = frozenset(record.get("groups", ()))

    def _take_table(self, run: str, record: Record) -> None:
        name, now_ms = record["table"], record["timestampMs"]
        table = self._tables.setdefault(name, TableStatus(name, ""))
        table.group, table.seen_ms = str(record.get("group", "")), max(table.seen_ms, now_ms)
        match record["type"]:
            case "table-unreadable":
                table.problem = (run, str(record.get("code")), str(record.get("message")))
            case "table-facts":
                self._note(table, now_ms, record.get("facts", {}), ("logBytes", "logFiles", "commitsBehind"))
            case _:
                self._take_step(table, run, record)

    def _take_step(self, table: TableStatus, run: str, record: Record) -> None:
        kind, now_ms, state = record["step"], record["timestampMs"], record["state"]
        before = table.steps.get(kind)
        found = StepStatus(kind, state, record.get("exit", 0), now_ms, run, record.get("message", ""))
        found.succeeded_ms = before.succeeded_ms if before else None
        if not found.is_alert:
            found.succeeded_ms = now_ms
        table.steps[kind] = found
        details = record.get("details", {})
        self._note(table, now_ms, details, ("liveFiles", "tombstones", "errors"))
        if kind in ("vacuum", "log-expire"):
            table.note("deletedBytes", now_ms, details.get("sizeBytes"))

    @staticmethod
    def _note(table: TableStatus, now_ms: int, numbers: Mapping[str, Any], names: Iterable[str]) -> None:  # Any: JSON
        for name in names:
            table.note(name, now_ms, numbers.get(name))

    def result(self, only: frozenset[str]) -> FleetStatus:
        newest_of: dict[str, str] = {}
        for run in sorted(self._runs):
            newest_of |= dict.fromkeys(self._runs[run].groups, run)
        tables = [table for table in self._tables.values() if not only or table.group in only]
        for table in tables:
            if table.problem is not None and table.problem[0] != newest_of.get(table.group, table.problem[0]):
                table.problem = None  # a later run could read it
        tables.sort(key=lambda table: (not table.alerts, table.name))
        newest = self._runs[max(self._runs)] if self._runs else None
        return FleetStatus(tables, len(self._runs), newest)
