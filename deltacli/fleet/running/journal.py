"""The journal: one file per run in the state directory, one line per event, only ever appended to. Old files are
compressed in an archive, and a summary makes most of them unnecessary to read.

A lease is a file with a number. Who creates the next number by `put_if_absent` has the lease, so of several exactly one
succeeds. Only the file with the highest number counts, and only lower ones are deleted. A lease ends when its holder
releases it, when it expires, or when its process on the same machine has ended. It expires when it was not renewed for
the time that the policy file gives (`lease`, of `RunSettings`).

A line is written by one call, and a reader skips what is not a whole line. So the journal is readable at every moment,
also while runs write to it and after one was killed. The summary names the files that it covers, with the bytes of
each. So every line is read once: it is in the summary, or read after it. A run is in the archive before its file is
deleted, so a crash between any two writes loses nothing. Without a summary, or with a damaged one, all files are read.
"""

from __future__ import annotations

import gzip
import os
import re
import secrets
import shutil
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, ClassVar, NamedTuple
from zlib import crc32
from zlib import error as compression_error

from deltacli.core.documents import dumps, loads
from deltacli.core.errors import DeltacliError, FileMissing, StorageFailed, UsageError
from deltacli.core.machine import Clock, system_clock
from deltacli.core.times import DAY_MS, format_timestamp
from deltacli.core.typing import Json, JsonObject
from deltacli.fleet.planning.due import NEVER_MS, LastRun, Past
from deltacli.fleet.policy_file.table_names import digest_table_name
from deltacli.storage import Storage
from deltacli.storage.outcomes import Unknown
from deltacli.storage.output_file import open_replacement, unwritable_error
from deltacli.storage.secrets import mask_secrets

_SUFFIX = ".lease"
_NAME = re.compile(r"[0-9]{12}\.lease")
_RENEWALS = 3
"""Number of times that a lease is renewed in the time after which it expires."""


class Holder(NamedTuple):
    """Who holds a lease, as its file says."""

    number: int
    run: str
    host: str
    process: str
    expires_ms: int
    is_released: bool = False

    @property
    def sentence(self) -> str:
        return f"run {self.run} on {self.host} holds the lease until {format_timestamp(self.expires_ms)}"


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that this run holds. `stolen` is why it was taken from another run; None where it was free."""

    key: str
    number: int
    stolen: str | None = None
    stolen_from: str | None = None


class Leases:
    """The leases of one run in a directory of a store.

    `steal` is the reason to take leases that others hold; None: they are respected. Raises StorageFailed, and what
    `put_if_absent` raises.
    """

    def __init__(self, store: Storage, run: str, duration_ms: int, clock: Clock, *, steal: str | None = None) -> None:
        self._store, self._run, self._duration_ms, self._clock = store, run, duration_ms, clock
        self._steal = steal
        self._host, self._process = socket.gethostname(), process_identity(os.getpid())
        self._held: dict[str, Lease] = {}
        self._lock = Lock()

    def acquire(self, resource: str) -> Lease | Holder:
        """Return the lease of a table or run, or who holds it."""
        key = digest_table_name(resource)
        holder = self._newest(key)
        reason = None if holder is None else self._reason_to_take(holder)
        if holder is not None and reason is None:
            return holder
        number = 1 if holder is None else holder.number + 1
        creation = self._store.put_if_absent(_path(key, number), self._content(resource))
        found = self._newest(key)
        if found is None or found.number < number:
            reason = str(creation.cause) if isinstance(creation, Unknown) else "it was deleted"
            raise StorageFailed(f"the lease of {resource} could not be taken: {mask_secrets(reason)}")
        # A newer number is there also where we were slow: others took, released and deleted ours meanwhile.
        if (found.number, found.run, found.process) != (number, self._run, self._process):
            return found
        is_stolen = holder is not None and not holder.is_released
        lease = Lease(key, number, reason if is_stolen else None, holder.run if holder and is_stolen else None)
        with self._lock:
            self._held[resource] = lease
        if holder is not None:
            with suppress(DeltacliError):
                older = [stat.name for stat in self._store.list_from(key) if stat.name < _name(number)]
                for _ in self._store.delete_many([f"{key}/{name}" for name in older]):
                    pass
        return lease

    def release(self, resource: str) -> None:
        """End a lease. A fault of the store is not raised: the lease then expires."""
        with self._lock:
            lease = self._held.pop(resource, None)
            if lease is not None:
                with suppress(DeltacliError):
                    self._store.put(_path(lease.key, lease.number), self._content(resource, is_released=True))

    def remove(self, resource: str) -> None:
        """End a lease and delete its file. Only for what no other run can want any more."""
        with self._lock:
            lease = self._held.pop(resource, None)
        if lease is not None:
            with suppress(DeltacliError):
                for _ in self._store.delete_many([_path(lease.key, lease.number)]):
                    self._store.remove_directory(lease.key)

    def is_held(self, resource: str) -> bool:
        """Return True if the lease was not taken by another run meanwhile."""
        lease = self._held.get(resource)
        newest = None if lease is None else self._newest(lease.key)
        return lease is not None and newest is not None and newest.number == lease.number

    def renew(self) -> None:
        for resource, lease in list(self._held.items()):
            with suppress(DeltacliError):
                if self.is_held(resource):
                    with self._lock:  # never after its release, which would be undone
                        if self._held.get(resource) is lease:
                            self._store.put(_path(lease.key, lease.number), self._content(resource))

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew the leases in the background."""
        ended = Event()

        def keep_renewing() -> None:
            while not ended.wait(self._duration_ms / _RENEWALS / 1_000):
                self.renew()

        thread = Thread(target=keep_renewing, name="deltacli-leases", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()

    def _newest(self, key: str) -> Holder | None:
        try:
            names = [stat.name for stat in self._store.list_from(key) if _NAME.fullmatch(stat.name)]
        except FileMissing:
            return None
        for name in reversed(names):
            number = int(name.removesuffix(_SUFFIX))
            try:
                return _read(number, self._store.read(f"{key}/{name}"))
            except FileMissing:
                return self._newest(key)  # a newer one was created, and this one deleted
        return None

    def _reason_to_take(self, holder: Holder) -> str | None:
        """Return why a lease can be taken, None where it must be respected."""
        if holder.is_released:
            return "it was released"
        if holder.expires_ms <= self._clock():
            return f"it expired at {format_timestamp(holder.expires_ms)}"
        if holder.host == self._host and not process_is_alive(holder.process):
            return f"its process {holder.process.partition('@')[0]} has ended"
        return self._steal

    def _content(self, resource: str, *, is_released: bool = False) -> bytes:
        now_ms = self._clock()
        content = {
            "resource": resource,
            "run": self._run,
            "host": self._host,
            "process": self._process,
            "writtenMs": now_ms,
            "expiresMs": now_ms + self._duration_ms,
            "released": is_released,
        }
        return dumps(content) + b"\n"


def _name(number: int) -> str:
    return f"{number:012d}{_SUFFIX}"


def _path(key: str, number: int) -> str:
    return f"{key}/{_name(number)}"


def _read(number: int, data: bytes) -> Holder:
    """Return the holder that a file names. A damaged file counts as an expired lease."""
    try:
        content: JsonObject = loads(data)
        return Holder(
            number,
            str(content["run"]),
            str(content["host"]),
            str(content["process"]),
            int(content["expiresMs"]),
            content["released"] is True,
        )
    except (ValueError, KeyError, TypeError):
        return Holder(number, "unknown", "", "", 0)


def process_identity(pid: int) -> str:
    """Return a process as `PID@START@NAMESPACE`, because numbers of processes are used again, and by each container;
    without the last two where the system does not tell them.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            start = file.read().rpartition(b")")[2].split()[19].decode()
        return f"{pid}@{start}@{os.stat('/proc/self/ns/pid').st_ino}"
    except (OSError, IndexError):
        return f"{pid}@"


def process_is_alive(identity: str) -> bool:
    """Return True if a process of this machine still runs, or where that is not known, as of another container."""
    number, _, rest = identity.partition("@")
    namespace, own = rest.partition("@")[2], process_identity(os.getpid()).partition("@")[2].partition("@")[2]
    if not number.isdecimal() or (namespace and namespace != own):
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return process_identity(int(number)) == identity


# -- the journal -------------------------------------------------------------------------------------------------------

JOURNAL = "journal"
ARCHIVE = "journal-archive"
SUMMARY = "journal-summary.ndjson"
SUFFIX = ".ndjson"
_COMPRESSED = f"{SUFFIX}.gz"
_FORMAT = 1
ARCHIVE_AFTER_MS = 7 * DAY_MS
"""Age from which the file of a run is archived."""
MOST_BYTES = 64 << 20
"""Bytes of journal from which younger files are archived, too, the oldest first."""

Record = JsonObject
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
            raise unwritable_error(str(self._path), fault) from fault

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
            raise unwritable_error(str(self._path), fault) from fault

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
    left: int | None = None
    """Due steps that were not started; None as long as the run has no end."""
    host: str = field(default="", compare=False)
    process: str = field(default="", compare=False)
    steps: dict[tuple[str, str], str] = field(default_factory=dict)
    """Table and step -> the state in which it ended; of the newest run only."""

    @property
    def is_complete(self) -> bool:
        return self.finished_ms is not None and not self.left

    @property
    def is_active(self) -> bool:
        """Return True if the run is still working, as far as this machine can tell."""
        return self.finished_ms is None and self.host == socket.gethostname() and process_is_alive(self.process)

    @property
    def state(self) -> str:
        """Return `complete`, `active`, or `interrupted` where it left something."""
        if self.is_complete:
            return "complete"
        return "active" if self.is_active else "interrupted"

    def take(self, record: Record) -> None:
        """Take one event; those that are not about the whole run change nothing."""
        match record["type"]:
            case "run-started" | "run-resumed":
                self.started_ms = self.started_ms or record["timestampMs"]
                self.finished_ms = self.exit_code = self.left = None
                self.host, self.process = str(record.get("host", "")), str(record.get("process", ""))
            case "run-finished":
                self.finished_ms, self.exit_code = record["timestampMs"], record.get("exit")
                self.left = record.get("left", 0)

    def as_json(self) -> dict[str, Json]:
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


class Journal:
    """The events of all runs, as far as they matter to later ones. `refresh` reads what was added.

    Of two runs of a step, the one with the later time counts, unless that time is in the future of `clock`.
    """

    def __init__(self, state: Path, clock: Clock = system_clock, summary: Summary | None = None) -> None:
        summary = read_summary(state) if summary is None else summary
        self._files, self._clock = JournalFiles(state, summary), clock
        self._past: dict[str, dict[str, LastRun]] = {}
        self._tried: dict[str, dict[str, tuple[int, str]]] = {}
        self._runs: dict[str, RunRecord] = {}
        self._facts: dict[str, tuple[str, Facts]] = {}
        self._lock = Lock()
        self._load(summary)

    def _load(self, summary: Summary) -> None:
        for state, _ in summary.tables:
            name = state["table"]
            self._past[name] = {step: LastRun(*last) for step, last in state.get("past", {}).items()}
            if "tried" in state:
                self._tried[name] = {step: (last[0], last[1]) for step, last in state["tried"].items()}
            if "facts" in state:
                group, facts = state["facts"]
                self._facts[name] = group, tuple(facts)
        if newest := summary.of_runs.get("newest"):
            self._runs[newest["run"]] = RunRecord(*(newest[name] for name in RunRecord.KEPT))

    def kept(self, table: str) -> Record:
        """Return what a summary keeps of a table."""
        found: dict[str, object] = {"past": {step: list(last[:3]) for step, last in self._past.get(table, {}).items()}}
        if table in self._tried:
            found["tried"] = self._tried[table]
        if table in self._facts:
            found["facts"] = self._facts[table]
        return found

    @property
    def tables(self) -> Collection[str]:
        """Return the tables of which something is known."""
        return self._past.keys() | self._tried.keys() | self._facts.keys()

    def refresh(self) -> None:
        """Read the lines that were added since the last time. Raises UsageError where the journal is not readable."""
        with self._lock:
            for run, record in self._files.added():
                self.take(run, record)

    def past_of(self, table: str) -> Past:
        """Return the last successful run of each step of a table, with a later try that was not."""
        past, now_ms = dict(self._past.get(table, {})), self._clock()
        for step, tried in self._tried.get(table, {}).items():
            last = past.get(step, LastRun(NEVER_MS))
            if last.timestamp_ms < tried[0] <= now_ms:
                past[step] = last._replace(tried=tried)
        return past

    def has_facts(self, table: str, facts: JsonObject) -> bool:
        """Return True if these are the facts that were last recorded of a table."""
        return table in self._facts and self._facts[table][1] == _key_facts(facts)

    def tables_of(self, groups: Collection[str]) -> list[str]:
        """Return the tables of these groups that have recorded facts and are not recorded as gone."""
        return [table for table, (group, _) in self._facts.items() if group in groups]

    @property
    def newest(self) -> RunRecord | None:
        return self._runs[max(self._runs)] if self._runs else None

    def take(self, run: str, record: Record) -> None:
        """Take one event."""
        found = self._runs.get(run)
        if found is None:
            for other in self._runs.values():
                if other.run < run:
                    other.steps.clear()  # only the newest run can be resumed
            found = self._runs[run] = RunRecord(run)
        found.take(record)
        match record["type"]:
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
                elif state in NOT_DONE:
                    tried = self._tried.setdefault(table, {})
                    tried[step] = max((record["timestampMs"], state), tried.get(step, (NEVER_MS, "")))

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


def new_run_id(now_ms: int, newest: str | None = None) -> str:
    """Return the name of a run: in the order of beginnings, also after a clock was set back, and never twice."""
    last_ms = -1 if newest is None else _begin_of(newest)
    moment = format_timestamp(max(now_ms, last_ms + 1)).replace("-", "").replace(":", "").replace(".", "")
    return f"{moment}-{secrets.token_hex(4)}"


def _begin_of(run: str) -> int:
    """Return the time in the name of a run, or of its file; -1 if it has no time."""
    try:
        moment = datetime.strptime(run.partition("-")[0], "%Y%m%dT%H%M%S%fZ").replace(tzinfo=UTC)
    except ValueError:
        return -1
    return round(moment.timestamp() * 1_000)


class TableLines(NamedTuple):
    """What a summary has about a table: its state, and its trends as they are in the file."""

    state: Record
    trends: bytes


@dataclass(frozen=True)
class Summary:
    """What the journal has about the runs in some files. `files` is the number of bytes of each that are covered;
    `unfinished` are those of runs without an end, which are not archived.
    """

    files: Mapping[str, int] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()
    of_runs: Record = field(default_factory=dict)
    tables: Iterable[TableLines] = ()

    def write(self, state: Path) -> None:
        """Replace the summary of a state directory atomically. Raises StorageFailed."""
        head = {"fleetJournalSummary": _FORMAT, "files": self.files, "unfinished": self.unfinished, **self.of_runs}
        with open_replacement(str(state / SUMMARY)) as file:
            checksum = count = 0
            for line in self._lines(head):
                checksum = crc32(line, checksum)
                count += 1
                file.write(line)
            file.write(dumps({"lines": count, "crc32": checksum}) + b"\n")

    def _lines(self, head: Record) -> Iterator[bytes]:
        yield dumps(head) + b"\n"
        for table in self.tables:
            yield dumps(table.state) + b"\n"
            yield table.trends + b"\n"


def read_summary(state: Path) -> Summary:
    """Return the summary of a state directory, an empty one where it is absent, damaged, or not of the files."""
    try:
        data = (state / SUMMARY).read_bytes()
        end = data.rindex(b"\n", 0, -1) + 1
        last = loads(data[end:])
        if crc32(memoryview(data)[:end]) != last["crc32"]:
            return Summary()
        head, *lines = data[: end - 1].split(b"\n")
        known = loads(head)
        if known.pop("fleetJournalSummary") != _FORMAT or len(lines) != last["lines"] - 1:
            return Summary()
        files = {str(name): int(size) for name, size in known.pop("files").items()}
        tables = [TableLines(loads(one), trends) for one, trends in zip(lines[::2], lines[1::2], strict=True)]
        found = Summary(files, tuple(known.pop("unfinished")), known, tables)
    except (OSError, ValueError, KeyError, TypeError):
        return Summary()
    return found if all(_size(state / JOURNAL / name, size) >= size for name, size in files.items()) else Summary()


def _size(path: Path, otherwise: int) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return otherwise  # archived


class JournalFiles:
    """Reads what was added to the files of a journal, each line once. Raises UsageError where one cannot be read."""

    def __init__(self, state: Path, summary: Summary) -> None:
        self._directory, self._archive = state / JOURNAL, state / ARCHIVE
        self.offsets = dict(summary.files)
        self._unpacked = set(summary.files)
        """Names whose archived file has nothing to add."""
        self._archived: tuple[int, list[str]] = (-1, [])

    def names(self) -> list[str]:
        return sorted({*_names_in(self._directory, SUFFIX), *self._archived_names()})

    def _archived_names(self) -> list[str]:
        """Return the names of archived runs, which are listed again only when the directory has changed."""
        try:
            changed_ns = self._archive.stat().st_mtime_ns
        except FileNotFoundError:
            return []
        if changed_ns != self._archived[0]:
            names = [name.removesuffix(".gz") for name in _names_in(self._archive, _COMPRESSED)]
            self._archived = changed_ns, names
        return self._archived[1]

    def added(self) -> Iterator[tuple[str, Record]]:
        """Yield the events that were added since the last time, with their runs."""
        try:
            for name in self.names():
                yield from ((name.removesuffix(SUFFIX), record) for record in self.records(name))
        except (OSError, EOFError, compression_error) as fault:
            reason = (getattr(fault, "strerror", None) or str(fault)).lower()
            raise UsageError(f"the journal {self._directory} cannot be read: {reason}", code="fleet.state") from fault

    def records(self, name: str) -> Iterator[Record]:
        """Yield the events of a file that were not read before."""
        return (record for line in self._lines(name) if (record := read_record(line)) is not None)

    def _lines(self, name: str) -> Iterator[bytes]:
        path = self._directory / name
        try:
            if path.stat().st_size > self.offsets.get(name, 0):
                with path.open("rb") as file:
                    yield from self._whole_lines(name, file)
        except FileNotFoundError:
            if name not in self._unpacked:
                with gzip.open(self._archive / f"{name}.gz") as packed:
                    yield from self._whole_lines(name, packed)
                self._unpacked.add(name)

    def _whole_lines(self, name: str, file: Any) -> Iterator[bytes]:  # Any: a file of bytes, compressed or not
        offset = self.offsets.get(name, 0)
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return  # being written, or torn
            offset += len(line)
            self.offsets[name] = offset
            yield line


def archive(state: Path, summary: Summary, newest: str, now_ms: int, *, most_bytes: int = MOST_BYTES) -> None:
    """Compress the files that a written summary covers: those of old runs, and the oldest until at most so many bytes
    are left. Runs that have not ended, and the newest one, are left alone. Raises StorageFailed.
    """
    directory = state / JOURNAL
    sizes = {name: _size(directory / name, -1) for name in _names_in(directory, SUFFIX)}
    left = sum(sizes.values())
    for name in sorted(sizes):
        is_old = now_ms - _begin_of(name) >= ARCHIVE_AFTER_MS
        is_covered = summary.files.get(name) == sizes[name] and name not in summary.unfinished
        if is_covered and name != newest and (is_old or left > most_bytes):
            _archive_file(directory / name, state / ARCHIVE)
            left -= sizes[name]


def _archive_file(path: Path, directory: Path) -> None:
    """Move a file into the archive: it is complete there before it is deleted here."""
    try:
        directory.mkdir(exist_ok=True)
        with (
            path.open("rb") as source,
            open_replacement(str(directory / f"{path.name}.gz")) as sink,
            gzip.GzipFile(fileobj=sink, mode="wb", compresslevel=5, mtime=0) as packed,
        ):
            shutil.copyfileobj(source, packed)
        _sync(directory)
        path.unlink(missing_ok=True)
    except FileNotFoundError:
        return  # another run has archived it
    except OSError as fault:
        raise unwritable_error(str(path), fault) from fault


def _sync(directory: Path) -> None:
    """Write the names in a directory to the disk, where the system can."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _names_in(directory: Path, suffix: str) -> list[str]:
    try:
        return [name for name in os.listdir(directory) if name.endswith(suffix) and not name.startswith(".")]
    except FileNotFoundError:
        return []
