"""Run pieces on an executor: unpack them, run the task, pack the results. Needs the standard library and pyarrow.

A process keeps the stores and the shared values that it has opened for the next task.
"""

from __future__ import annotations

import pickle
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from deltacli.core.errors import DeltacliError, FileMissing, HintSyntax, Refused, get_hint_syntax, use_hint_syntax
from deltacli.core.machine import system_clock
from deltacli.core.release import VERSION
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.engine.spark import orjson_stand_in
from deltacli.engine.spark.worker_lifetime import exit_when_disconnected, interleave_beats
from deltacli.storage.location import StoreLocation
from deltacli.storage.optional_interfaces import Openable
from deltacli.storage.secrets import mask_secrets
from deltacli.work.table_stores import TableStores
from deltacli.work.task import Task, TaskContext

orjson_stand_in.install()  # before a task is unpickled, which imports its module

DONE = "done"
FAULT = "fault"
BUG = "bug"
BEAT = "beat"
_MOST_KEPT = 4
"""Shared values and tables that a process keeps."""


class Fingerprint(NamedTuple):
    """The versions that must be the same on the driver and on every executor."""

    deltacli: str
    python: str
    pyarrow: str

    @classmethod
    def read_from_this_process(cls) -> Fingerprint:
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


def identify_process(location: Openable, seen_file: SeenFile | None, chosen: HintSyntax) -> tuple[str, bytes]:
    """Return the fingerprint of this process and its time, pickled, or the error where it sees another table."""
    try:
        with use_hint_syntax(chosen):
            _open_stores(Job(_do_nothing, location, seen_file))
    except DeltacliError as fault:
        return FAULT, pickle_error(_name_executor(fault))
    return DONE, pickle.dumps((*Fingerprint.read_from_this_process(), system_clock()))


def _do_nothing(piece: object, context: TaskContext) -> None:
    """Do nothing: the task of a greeting."""


def run_pieces(job: Job, pieces: Iterable[tuple[int, bytes]]) -> Iterator[Row]:
    """Run the task for each numbered, pickled piece.

    An error of deltacli is a value. A piece that runs out of memory raises, so that the cluster tries it again.
    """
    with use_hint_syntax(job.spelling), exit_when_disconnected():
        try:
            context = open_context(job)
        except DeltacliError as fault:
            content = pickle_error(_name_executor(fault))
            yield from (Row(number, FAULT, content) for number, _ in pieces)
            return
        yield from interleave_beats((_run_piece(job, number, piece, context) for number, piece in pieces), _BEAT)


def open_context(job: Job) -> TaskContext:
    """Return what the task of a job finds in this process. Raises Refused where it sees another table."""
    return TaskContext(_open_stores(job), _load_shared_values(job))


def _run_piece(job: Job, number: int, piece: bytes, context: TaskContext) -> Row:
    try:
        return Row(number, DONE, pickle.dumps(job.task(pickle.loads(piece), context), pickle.HIGHEST_PROTOCOL))
    except DeltacliError as fault:
        return Row(number, FAULT, pickle_error(fault))
    except (MemoryError, ImportError):
        raise
    except Exception:  # noqa: BLE001  (raised again on the driver)
        import traceback

        return Row(number, BUG, mask_secrets(traceback.format_exc()).encode())  # the driver does not know ours


def _name_executor(fault: DeltacliError) -> DeltacliError:
    """Say which executor cannot open the table: its environment and its files are not those of the driver."""
    fault.facts = {"executor": socket.gethostname(), **fault.facts}
    return fault


def pickle_error(fault: DeltacliError) -> bytes:
    fault.__cause__ = fault.__context__ = None
    return pickle.dumps(fault.with_traceback(None), pickle.HIGHEST_PROTOCOL)


def _open_stores(job: Job) -> TableStores:
    """Return the stores of the table, which this process opens once. Raises Refused where it is not the same table."""
    stores = _stores.get(job.location)
    if stores is None:
        location = job.location
        known = location if isinstance(location, StoreLocation) else None
        stores = TableStores(location.open(), location.open_other, location.allowed, known)
        _cache_value(_stores, location, stores)
    if job.seen_file is not None and _proven.get(job.location) != job.seen_file:
        require_same_table(stores, job.seen_file)
        _cache_value(_proven, job.location, job.seen_file)
    return stores


def require_same_table(stores: TableStores, seen_file: SeenFile) -> None:
    """Raise Refused unless this process sees the log file that the driver has seen."""
    path = f"{LOG_DIRECTORY}/{seen_file.name}"
    try:
        size_bytes = stores.storage.stat(path).size_bytes
    except FileMissing:
        size_bytes = None
    if size_bytes != seen_file.size_bytes:
        seen = "not there" if size_bytes is None else f"{size_bytes} bytes, {seen_file.size_bytes} on the driver"
        raise Refused(
            "executors see another table than the driver",
            code="cluster.other-table",
            facts={"table": stores.storage.uri, "file": f"{path}: {seen}"},
            hint="put the table on a store that all hosts share, such as s3:// or a mounted file system",
        )


def _load_shared_values(job: Job) -> Mapping[str, Any]:  # Any: values of operations
    if job.shared_name is None:
        return pickle.loads(job.shared) if job.shared else {}
    values = _shared.get(job.shared_name)
    if values is None:
        from pyspark import SparkFiles

        values = pickle.loads(Path(SparkFiles.get(job.shared_name)).read_bytes())
        _cache_value(_shared, job.shared_name, values)
    return values


def _cache_value(cache: dict[Any, Any], key: Any, value: Any) -> None:  # Any: of each dictionary
    while len(cache) >= _MOST_KEPT:
        cache.pop(next(iter(cache)))
    cache[key] = value
