"""The journal: one file per run in the state directory, one line per event, only ever appended to.

A line is written by one call, and a reader skips what is not a whole line. So the journal is readable at every moment,
also while runs write to it and after one was killed. `journal_files` reads the files.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import ClassVar

from deltacli.clock import Clock, system_clock
from deltacli.documents import dumps, loads
from deltacli.fleet.planning.due import LastRun, Past
from deltacli.fleet.running.journal_files import JOURNAL, SUFFIX, JournalFiles, Record, Summary, read_summary
from deltacli.storage.replacement import unwritable
from deltacli.typing import JsonObject

Facts = tuple[int | None, ...]

SUCCEEDED = frozenset({"done", "nothing", "findings"})
"""States of a step that was carried out. `nothing`: there was nothing to do after all."""

NOT_DONE = frozenset({"refused", "failed", "partly"})
"""States that need another run, or somebody to look."""

FINAL = SUCCEEDED | {"refused", "failed"}
"""States of a step that a resumed run does not repeat."""


class JournalWriter:
    """Appends to the file of one run. Its methods may be called from any thread. Raises StorageFailed."""

    def __init__(self, state: Path, run: str) -> None:
        self.run = run
        self._path = state / JOURNAL / f"{run}{SUFFIX}"
        self._lock = Lock()
        self._is_torn = False
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            size = os.lseek(self._file, 0, os.SEEK_END)
            self._is_torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
            self._end_torn_line()
        except OSError as fault:
            raise unwritable(str(self._path), fault) from fault

    def write(self, kind: str, timestamp_ms: int, **fields: object) -> None:
        """Append an event, and return when it is on the disk."""
        self.write_all(kind, timestamp_ms, [fields])

    def write_all(self, kind: str, timestamp_ms: int, events: Iterable[Mapping[str, object]]) -> None:
        """Append events of one kind, and return when all are on the disk."""
        lines = bytearray()
        for fields in events:
            known = {name: value for name, value in fields.items() if value is not None}
            lines += dumps({"type": kind, "run": self.run, "timestampMs": timestamp_ms, **known}) + b"\n"
        try:
            with self._lock:
                if lines:
                    self._end_torn_line()
                    self._is_torn = True
                    written = os.write(self._file, lines)
                    while written < len(lines):  # a full disk: the next write raises the error
                        written += os.write(self._file, lines[written:])
                    self._is_torn = False
                os.fsync(self._file)
        except OSError as fault:
            raise unwritable(str(self._path), fault) from fault

    def _end_torn_line(self) -> None:
        """End the line that a killed run, or a full disk, left torn, so that it does not spoil the next one."""
        if self._is_torn:
            os.write(self._file, b"\n")
            self._is_torn = False

    def close(self) -> None:
        os.close(self._file)


@dataclass(slots=True)
class RunRecord:
    """What the journal has about a run. `KEPT` are the fields that a summary keeps, in their order."""

    KEPT: ClassVar[tuple[str, ...]] = ("run", "started_ms", "finished_ms", "exit_code", "left")

    run: str
    started_ms: int = 0
    finished_ms: int | None = None
    exit_code: int | None = None
    left: int = 0
    """Due steps that were not started."""
    steps: dict[tuple[str, str], str] = field(default_factory=dict)
    """Table and step -> the state in which it ended; of the newest run only."""

    @property
    def is_complete(self) -> bool:
        """Return True if nothing is left of the run."""
        return self.finished_ms is not None and not self.left


class Journal:
    """The events of all runs, as far as they matter to later ones. `refresh` reads what was added.

    Of two runs of a step, the one with the later time counts, unless that time is in the future of `clock`.
    """

    def __init__(self, state: Path, clock: Clock = system_clock, summary: Summary | None = None) -> None:
        summary = read_summary(state) if summary is None else summary
        self._files, self._clock = JournalFiles(state, summary), clock
        self._past: dict[str, dict[str, LastRun]] = {}
        self._runs: dict[str, RunRecord] = {}
        self._facts: dict[str, tuple[str, Facts]] = {}
        self._lock = Lock()
        self._load(summary)

    def _load(self, summary: Summary) -> None:
        for state, _ in summary.tables:
            name = state["table"]
            self._past[name] = {step: LastRun(*last) for step, last in state.get("past", {}).items()}
            if "facts" in state:
                group, facts = state["facts"]
                self._facts[name] = group, tuple(facts)
        if newest := summary.of_runs.get("newest"):
            self._runs[newest["run"]] = RunRecord(*(newest[name] for name in RunRecord.KEPT))

    def kept(self, table: str) -> Record:
        """Return what a summary keeps of a table."""
        found: dict[str, object] = {"past": {step: list(last) for step, last in self._past.get(table, {}).items()}}
        if table in self._facts:
            found["facts"] = self._facts[table]
        return found

    @property
    def tables(self) -> Collection[str]:
        """Return the tables of which something is known."""
        return self._past.keys() | self._facts.keys()

    def refresh(self) -> None:
        """Read the lines that were added since the last time. Raises UsageError where the journal is not readable."""
        with self._lock:
            for name, line in self._files.added():
                if (record := read_record(line)) is not None:
                    self.take(name.removesuffix(SUFFIX), record)

    def past_of(self, table: str) -> Past:
        """Return the last successful run of each step of a table."""
        return dict(self._past.get(table, {}))

    def has_facts(self, table: str, facts: JsonObject) -> bool:
        """Return True if these are the facts that were last recorded of a table."""
        return table in self._facts and self._facts[table][1] == _key_facts(facts)

    def tables_of(self, groups: Collection[str]) -> list[str]:
        """Return the tables of these groups that have recorded facts and are not recorded as gone."""
        return [table for table, (group, _) in self._facts.items() if group in groups]

    @property
    def newest(self) -> RunRecord | None:
        """Return the newest run."""
        return self._runs[max(self._runs)] if self._runs else None

    def take(self, run: str, record: Record) -> None:
        """Take one event."""
        found = self._runs.get(run)
        if found is None:
            for other in self._runs.values():
                if other.run < run:
                    other.steps.clear()  # only the newest run can be resumed
            found = self._runs[run] = RunRecord(run)
        match record["type"]:
            case "run-started":
                found.started_ms = record["timestampMs"]
            case "run-resumed":
                found.finished_ms = None
            case "run-finished":
                found.finished_ms, found.exit_code = record["timestampMs"], record.get("exit")
                found.left = record.get("left", 0)
            case "table-facts" if "table" in record:
                self._facts[record["table"]] = str(record.get("group", "")), _key_facts(record.get("facts", {}))
            case "table-gone" if "table" in record:
                self._facts.pop(record["table"], None)
            case "step-finished":
                table, step, state = record["table"], record["step"], record["state"]
                found.steps.pop((table, step), None)  # in the order in which they ended
                found.steps[table, step] = state
                if state in SUCCEEDED:
                    last = LastRun.of(record["timestampMs"], state, record.get("code"))
                    past = self._past.setdefault(table, {})
                    if step not in past or self._is_later(last, past[step]):
                        past[step] = last

    def _is_later(self, one: LastRun, other: LastRun) -> bool:
        now_ms = self._clock()
        if (one.timestamp_ms > now_ms) is (other.timestamp_ms > now_ms):
            return one.timestamp_ms >= other.timestamp_ms
        return one.timestamp_ms <= now_ms


def _key_facts(facts: JsonObject) -> Facts:
    """Return the facts whose change is worth a line of the journal."""
    return tuple(facts.get(name) for name in ("version", "logBytes", "logFiles", "commitsBehind", "checkpointMs"))


def read_record(line: bytes) -> Record | None:
    """Return the event of a line; None for a line that is torn or not of a journal."""
    try:
        record = loads(line)
    except ValueError:
        return None
    is_known = (
        isinstance(record, dict) and isinstance(record.get("type"), str) and type(record.get("timestampMs")) is int
    )
    if not is_known or (record["type"] == "step-finished" and not _has_texts(record, "table", "step", "state")):
        return None
    return dict(record)


def _has_texts(record: Record, *names: str) -> bool:
    return all(isinstance(record.get(name), str) for name in names)
