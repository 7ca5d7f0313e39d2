"""What runs on an executor: unpack pieces, run the task, pack the results. Needs the standard library and pyarrow.

A process keeps the stores and the shared values that it has opened for the next task.

Spark notices that a task was cancelled when it next receives something from the worker, or after some seconds, and then
closes the connection; the process may go on writing and deleting. So a worker sends a beat several times per second,
which Spark drops, and ends as soon as its connection is closed. The second part is for Linux only; elsewhere a
cancelled task ends with the piece that it runs.
"""

from __future__ import annotations

import os
import pickle
import select
import socket
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from deltacli.core.errors import DeltacliError, FileMissing, HintSyntax, Refused, get_hint_syntax, use_hint_syntax
from deltacli.core.machine import system_clock
from deltacli.core.release import VERSION
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.engine.spark import orjson_stand_in
from deltacli.storage.location import StoreLocation
from deltacli.storage.optional_interfaces import Openable
from deltacli.storage.secrets import mask_secrets
from deltacli.work.task import TableStores, Task, TaskContext

orjson_stand_in.install()  # before a task is unpickled, which imports its module

DONE, FAULT, BUG, BEAT = "done", "fault", "bug", "beat"
_MOST_KEPT = 4
"""Shared values and tables that a process keeps."""


class Fingerprint(NamedTuple):
    """What must be the same on the driver and on every executor."""

    deltacli: str
    python: str
    pyarrow: str

    @classmethod
    def of_this_process(cls) -> Fingerprint:
        """Return what this process runs: versions, of Python the first two numbers."""
        import pyarrow

        return cls(VERSION, f"{sys.version_info[0]}.{sys.version_info[1]}", pyarrow.__version__)


class SeenFile(NamedTuple):
    """A file of the log that the driver has seen. An executor that does not see it sees another table."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Job:
    """All that the pieces of a job have in common. `shared_name` names the file of pickled shared values, if any."""

    task: Task[Any, Any]
    location: Openable
    seen_file: SeenFile | None
    shared: bytes = b""
    shared_name: str | None = None
    spelling: HintSyntax = field(default_factory=get_hint_syntax)


class Row(NamedTuple):
    """The result of a piece: its number, the status, and the pickled value, error, or the text of a traceback."""

    number: int
    status: str
    content: bytes


_BEAT = Row(-1, BEAT, bytes(1 << 16))
"""As large as the buffer between a worker and Spark, so that it arrives at once."""

_stores: dict[Openable, TableStores] = {}
_proven: dict[Openable, SeenFile] = {}
"""The file that this process has seen itself, so that a task does not send a request for it again."""
_shared: dict[str, Mapping[str, Any]] = {}  # Any: values of operations


def identify(location: Openable, seen_file: SeenFile | None, chosen: HintSyntax) -> tuple[str, bytes]:
    """Return the fingerprint of this process and its time, pickled, or the error where it sees another table."""
    try:
        with use_hint_syntax(chosen):
            _open(Job(_nothing, location, seen_file))
    except DeltacliError as fault:
        return FAULT, pickled_fault(_named(fault))
    return DONE, pickle.dumps((*Fingerprint.of_this_process(), system_clock()))


def _nothing(piece: object, context: TaskContext) -> None:
    """Do nothing: the task of a greeting."""


def run_pieces(job: Job, pieces: Iterable[tuple[int, bytes]]) -> Iterator[Row]:
    """Run the task for each numbered, pickled piece.

    An error of deltacli is a value. A piece that runs out of memory raises, so that the cluster tries it again.
    """
    with use_hint_syntax(job.spelling), ending_with_the_task():
        try:
            context = context_of(job)
        except DeltacliError as fault:
            content = pickled_fault(_named(fault))
            yield from (Row(number, FAULT, content) for number, _ in pieces)
            return
        yield from with_beats((_run(job, number, piece, context) for number, piece in pieces), _BEAT)


def context_of(job: Job) -> TaskContext:
    """Return what the task of a job finds in this process. Raises Refused where it sees another table."""
    return TaskContext(_open(job), _values(job))


def _run(job: Job, number: int, piece: bytes, context: TaskContext) -> Row:
    try:
        return Row(number, DONE, pickle.dumps(job.task(pickle.loads(piece), context), pickle.HIGHEST_PROTOCOL))
    except DeltacliError as fault:
        return Row(number, FAULT, pickled_fault(fault))
    except (MemoryError, ImportError):
        raise
    except Exception:  # noqa: BLE001  (raised again on the driver)
        import traceback

        return Row(number, BUG, mask_secrets(traceback.format_exc()).encode())  # the driver does not know ours


def _named(fault: DeltacliError) -> DeltacliError:
    """Say which executor cannot open the table: its environment and its files are not those of the driver."""
    fault.facts = {"executor": socket.gethostname(), **fault.facts}
    return fault


def pickled_fault(fault: DeltacliError) -> bytes:
    fault.__cause__ = fault.__context__ = None
    return pickle.dumps(fault.with_traceback(None), pickle.HIGHEST_PROTOCOL)


def _open(job: Job) -> TableStores:
    """Return the stores of the table, which this process opens once. Raises Refused where it is not the same table."""
    stores = _stores.get(job.location)
    if stores is None:
        location = job.location
        known = location if isinstance(location, StoreLocation) else None
        stores = TableStores(location.open(), location.open_other, location.allowed, known)
        _keep(_stores, location, stores)
    if job.seen_file is not None and _proven.get(job.location) != job.seen_file:
        require_same_table(stores, job.seen_file)
        _keep(_proven, job.location, job.seen_file)
    return stores


def require_same_table(stores: TableStores, seen_file: SeenFile) -> None:
    """Raise Refused unless this process sees the log file that the driver has seen."""
    path = f"{LOG_DIRECTORY}/{seen_file.name}"
    try:
        found = stores.storage.stat(path).size_bytes
    except FileMissing:
        found = None
    if found != seen_file.size_bytes:
        seen = "not there" if found is None else f"{found} bytes, {seen_file.size_bytes} on the driver"
        raise Refused(
            "executors see another table than the driver",
            code="cluster.other-table",
            facts={"table": stores.storage.uri, "file": f"{path}: {seen}"},
            hint="put the table on a store that all hosts share, such as s3:// or a mounted file system",
        )


def _values(job: Job) -> Mapping[str, Any]:  # Any: values of operations
    if job.shared_name is None:
        return pickle.loads(job.shared) if job.shared else {}
    values = _shared.get(job.shared_name)
    if values is None:
        from pyspark import SparkFiles

        values = pickle.loads(Path(SparkFiles.get(job.shared_name)).read_bytes())
        _keep(_shared, job.shared_name, values)
    return values


def _keep(kept: dict[Any, Any], key: Any, value: Any) -> None:  # Any: of each dictionary
    while len(kept) >= _MOST_KEPT:
        kept.pop(next(iter(kept)))
    kept[key] = value


One = TypeVar("One")

_BEAT_SECONDS = 0.15
_TICK_MS = 100
_DESCRIPTORS = "/proc/self/fd"


def _connections() -> list[int]:
    """Return the descriptors of sockets that are connected to a process of this host."""
    if not hasattr(select, "POLLRDHUP") or not os.path.isdir(_DESCRIPTORS):
        return []
    descriptors = []
    for name in os.listdir(_DESCRIPTORS):
        with suppress(OSError, ValueError):
            if _is_socket(int(name)) and _is_of_this_host(int(name)):
                descriptors.append(int(name))
    return descriptors


def _is_socket(descriptor: int) -> bool:
    return stat.S_ISSOCK(os.fstat(descriptor).st_mode)


def _is_of_this_host(descriptor: int) -> bool:
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        peer = connection.getpeername()
        return connection.family == socket.AF_UNIX or str(peer[0]).startswith(("127.", "::1", "::ffff:127."))


_OPEN_AT_FIRST = _connections()
"""Found when a process imports this module for its first task, before a store opens connections of its own."""


def _connection_to_spark() -> int | None:
    """Return the descriptor from which the worker reads its task; None where it is not certain.

    PySpark hands its stream to nobody, so it is taken from the frame of `pyspark.worker.main`. Under another worker
    module it is the connection to this host that was open at first, if there was only one: the user's own functions
    may have opened others in the same process, which they may close at any time.
    """
    if not hasattr(select, "POLLRDHUP"):
        return None
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and frame.f_globals.get("__name__") == "pyspark.worker":
            with suppress(AttributeError, KeyError, OSError, ValueError):
                descriptor: int = frame.f_locals["infile"].fileno()
                if _is_socket(descriptor):
                    return descriptor
        frame = frame.f_back
    return _OPEN_AT_FIRST[0] if len(_OPEN_AT_FIRST) == 1 else None


@contextmanager
def ending_with_the_task() -> Iterator[None]:
    """End this process at once if Spark closes its connection while the block runs."""
    done = Event()
    descriptor = _connection_to_spark()
    if descriptor is not None:
        Thread(target=_watch, args=(descriptor, done), name="deltacli-orphan", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _watch(descriptor: int, done: Event) -> None:
    watcher = select.poll()
    watcher.register(descriptor, select.POLLRDHUP)
    while not done.is_set():
        if watcher.poll(_TICK_MS) and not done.is_set():
            os._exit(1)


def with_beats(rows: Iterator[One], beat: One) -> Iterator[One]:
    """Yield what a thread gets from `rows`, and `beat` whenever there is nothing else for a while."""
    ready: SimpleQueue[One | _End] = SimpleQueue()
    Thread(target=_fill, args=(rows, ready), name="deltacli-task", daemon=True).start()
    while True:
        try:
            row = ready.get(timeout=_BEAT_SECONDS)
        except Empty:
            yield beat
            continue
        if not isinstance(row, _End):
            yield row
        elif row.cause is not None:
            raise row.cause
        else:
            return


class _End:
    """The end of the rows, with the exception that ended them early."""

    def __init__(self, cause: BaseException | None) -> None:
        self.cause = cause


def _fill(rows: Iterator[One], ready: SimpleQueue[One | _End]) -> None:
    cause: BaseException | None = None
    try:
        for row in rows:
            ready.put(row)
    except BaseException as fault:  # noqa: BLE001  (raised again in the thread that yields)
        cause = fault
    ready.put(_End(cause))
