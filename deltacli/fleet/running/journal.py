"""The journal: one file per run in the state directory, one line per event, only ever appended to.

A line is written by one call, and a reader skips what is not a whole line. So the journal is readable at every moment,
also while runs write to it and after one was killed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import orjson

from deltacli.clock import Clock, system_clock
from deltacli.documents import dumps
from deltacli.errors import UsageError
from deltacli.fleet.planning.due import LastRun, Past
from deltacli.storage.replacement import unwritable

JOURNAL = "journal"
SUFFIX = ".ndjson"

Record = Mapping[str, Any]  # Any: JSON values

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
    """What the journal has about a run."""

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

    def __init__(self, state: Path, clock: Clock = system_clock) -> None:
        self._directory, self._clock = state / JOURNAL, clock
        self._offsets: dict[str, int] = {}
        self._past: dict[str, dict[str, LastRun]] = {}
        self._runs: dict[str, RunRecord] = {}
        self._facts: dict[str, tuple[str, Facts]] = {}
        self._lock = Lock()

    def refresh(self) -> None:
        """Read the lines that were added since the last time. Raises UsageError where the journal is not readable."""
        with self._lock:
            for name, record in self.added():
                self._take(name, record)

    def past_of(self, table: str) -> Past:
        """Return the last successful run of each step of a table."""
        return dict(self._past.get(table, {}))

    def has_facts(self, table: str, facts: Mapping[str, Any]) -> bool:  # Any: JSON values
        """Return True if these are the facts that were last recorded of a table."""
        return table in self._facts and self._facts[table][1] == _key_facts(facts)

    def tables_of(self, groups: Collection[str]) -> list[str]:
        """Return the tables of these groups that have recorded facts and are not recorded as gone."""
        return [table for table, (group, _) in self._facts.items() if group in groups]

    @property
    def newest(self) -> RunRecord | None:
        """Return the newest run."""
        return self._runs[max(self._runs)] if self._runs else None

    def added(self) -> Iterator[tuple[str, Record]]:
        """Yield the events that were added since the last time, with the names of their files."""
        try:
            names = sorted(name for name in os.listdir(self._directory) if name.endswith(SUFFIX))
            for name in names:
                yield from ((name, record) for record in self._lines(name))
        except FileNotFoundError:
            return
        except OSError as fault:
            reason = (fault.strerror or str(fault)).lower()
            raise UsageError(f"the journal {self._directory} cannot be read: {reason}", code="fleet.state") from fault

    def _lines(self, name: str) -> Iterator[Record]:
        path, offset = self._directory / name, self._offsets.get(name, 0)
        if path.stat().st_size <= offset:
            return
        with path.open("rb") as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # being written, or torn
                offset += len(line)
                self._offsets[name] = offset
                record = read_record(line)
                if record is not None:
                    yield record

    def _take(self, name: str, record: Record) -> None:
        run = name.removesuffix(SUFFIX)
        found = self._runs.get(run)
        if found is None:
            for older in self._runs.values():
                older.steps.clear()  # only the newest run can be resumed
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
                    last = LastRun(record["timestampMs"], state == "findings")
                    past = self._past.setdefault(table, {})
                    if step not in past or self._is_later(last, past[step]):
                        past[step] = last

    def _is_later(self, one: LastRun, other: LastRun) -> bool:
        now_ms = self._clock()
        if (one.timestamp_ms > now_ms) is (other.timestamp_ms > now_ms):
            return one.timestamp_ms >= other.timestamp_ms
        return one.timestamp_ms <= now_ms


def _key_facts(facts: Mapping[str, Any]) -> Facts:  # Any: JSON values
    """Return the facts whose change is worth a line of the journal."""
    return tuple(facts.get(name) for name in ("version", "logBytes", "logFiles", "commitsBehind", "checkpointMs"))


def read_journal(state: Path) -> Iterator[tuple[str, Record]]:
    """Yield every whole event with its run, run by run. Raises UsageError where the journal is not readable."""
    return ((name.removesuffix(SUFFIX), record) for name, record in Journal(state).added())


def read_record(line: bytes) -> Record | None:
    """Return the event of a line; None for a line that is torn or not of a journal."""
    try:
        record = orjson.loads(line)
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
