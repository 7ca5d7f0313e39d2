"""Run the pieces of a job on an executor: unpickle them, run the task, pickle the results.

This module runs in the Python workers of Spark, which have the modules of deltacli and pyarrow, but no other packages.
A worker runs many tasks. It keeps opened stores and shared values for the following tasks.
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
"""The status of a row with the pickled result of a piece."""

FAULT = "fault"
"""The status of a row with a pickled error of deltacli."""

BUG = "bug"
"""The status of a row with the traceback of any other exception, as text."""

BEAT = "beat"
"""The status of a row without content, see `worker_lifetime.py`."""

_MAX_CACHED = 4
"""The number of tables, and of shared values, that a process keeps for later tasks."""


class Fingerprint(NamedTuple):
    """The versions that must be the same on the driver and on every executor.

    Attributes:
        deltacli: The version of deltacli.
        python: The major and minor version of Python, such as `3.11`.
        pyarrow: The version of pyarrow.
    """

    deltacli: str
    python: str
    pyarrow: str

    @classmethod
    def read_from_this_process(cls) -> Fingerprint:
        """Return the versions of this process."""
        # Imported here: the driver imports this module before it knows whether a job needs pyarrow.
        import pyarrow

        return cls(VERSION, f"{sys.version_info[0]}.{sys.version_info[1]}", pyarrow.__version__)


class SeenFile(NamedTuple):
    """A file of the log that the driver sees. An executor that does not see it is reading another table.

    Attributes:
        name: The name of the file in `_delta_log`.
        size_bytes: The size of the file.
    """

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Job:
    """A task, and everything that its pieces have in common.

    Attributes:
        task: The function that runs a piece.
        location: The table, as an executor opens it.
        seen_file: A log file of the table that executors must see; None for a table without a log.
        shared: The pickled shared values of the task (`TaskContext.shared`); empty if they are sent as a file.
        shared_name: The name of the file of the pickled shared values (`Cluster.ship_file`), or None.
        spelling: The syntax of the hints in errors: command line or Python.
    """

    task: Task[Any, Any]
    location: Openable
    seen_file: SeenFile | None
    shared: bytes = b""
    shared_name: str | None = None
    spelling: HintSyntax = field(default_factory=get_hint_syntax)


class Row(NamedTuple):
    """The result of a piece.

    Attributes:
        number: The number of the piece.
        status: `DONE`, `FAULT`, `BUG` or `BEAT`.
        content: The pickled result or error, or the text of a traceback.
    """

    number: int
    status: str
    content: bytes


_BEAT = Row(-1, BEAT, bytes(1 << 16))
"""As large as the buffer between a worker and Spark, so that it is sent immediately."""

_stores_by_table: dict[Openable, TableStores] = {}
_verified_files: dict[Openable, SeenFile] = {}
"""The log file of each table that this process has already seen, so that not every task requests it."""
_shared_values: dict[str, Mapping[str, Any]] = {}  # Any: values of operations


def identify_process(location: Openable, seen_file: SeenFile | None, hint_syntax: HintSyntax) -> tuple[str, bytes]:
    """Open a table, and return the versions and the time of this process (`executor_check.py`).

    Args:
        location: The table.
        seen_file: A log file that the driver sees.
        hint_syntax: The syntax of the hints in errors.

    Returns:
        `DONE` and a pickled tuple: the fields of `Fingerprint`, and the time in epoch milliseconds. Or `FAULT` and the
        pickled error, if the table cannot be opened or is another one.
    """
    try:
        with use_hint_syntax(hint_syntax):
            _open_stores(location, seen_file)
    except DeltacliError as error:
        return FAULT, pickle_error(_add_host_name(error))
    return DONE, pickle.dumps((*Fingerprint.read_from_this_process(), system_clock()))


def run_pieces(job: Job, pieces: Iterable[tuple[int, bytes]]) -> Iterator[Row]:
    """Run the task of a job for pieces, and yield a row for each of them, and beats.

    Errors of deltacli are yielded as rows. If the memory is exhausted, the error is raised: Spark then runs the pieces
    again, perhaps on another executor.

    Args:
        job: The job.
        pieces: The number and the pickled content of each piece.
    """
    with use_hint_syntax(job.spelling), exit_when_disconnected():
        try:
            context = open_context(job)
        except DeltacliError as error:
            content = pickle_error(_add_host_name(error))
            yield from (Row(number, FAULT, content) for number, _ in pieces)
            return
        rows = (_run_piece(job, number, piece, context) for number, piece in pieces)
        yield from interleave_beats(rows, _BEAT)


def open_context(job: Job) -> TaskContext:
    """Return the context of the task of a job: the stores of the table, and the shared values.

    Raises:
        Refused: If this executor sees another table than the driver (`cluster.other-table`).
        DeltacliError: If the table cannot be opened.
    """
    return TaskContext(_open_stores(job.location, job.seen_file), _load_shared_values(job))


def _run_piece(job: Job, number: int, piece: bytes, context: TaskContext) -> Row:
    try:
        result = job.task(pickle.loads(piece), context)
        return Row(number, DONE, pickle.dumps(result, pickle.HIGHEST_PROTOCOL))
    except DeltacliError as error:
        return Row(number, FAULT, pickle_error(error))
    except (MemoryError, ImportError):
        raise
    except Exception:  # noqa: BLE001  (raised again on the driver)
        import traceback

        # The executor masks its own secrets, because the driver does not know them.
        return Row(number, BUG, mask_secrets(traceback.format_exc()).encode())


def _add_host_name(error: DeltacliError) -> DeltacliError:
    """Add the name of this host to the facts of an error, because the cause may be the environment of the host."""
    error.facts = {"executor": socket.gethostname(), **error.facts}
    return error


def pickle_error(error: DeltacliError) -> bytes:
    """Pickle an error without its cause and traceback, which may refer to objects that cannot be pickled."""
    error.__cause__ = error.__context__ = None
    return pickle.dumps(error.with_traceback(None), pickle.HIGHEST_PROTOCOL)


def _open_stores(location: Openable, seen_file: SeenFile | None) -> TableStores:
    """Return the stores of a table. A process opens each table once.

    Raises:
        Refused: If this process does not see the log file that the driver sees.
    """
    stores = _stores_by_table.get(location)
    if stores is None:
        store_location = location if isinstance(location, StoreLocation) else None
        stores = TableStores(location.open(), location.open_other, location.allowed, store_location)
        _cache_value(_stores_by_table, location, stores)
    if seen_file is not None and _verified_files.get(location) != seen_file:
        require_same_table(stores, seen_file)
        _cache_value(_verified_files, location, seen_file)
    return stores


def require_same_table(stores: TableStores, seen_file: SeenFile) -> None:
    """Check that this process sees a log file that the driver sees.

    Raises:
        Refused: If the file is missing or has another size (`cluster.other-table`).
    """
    path = f"{LOG_DIRECTORY}/{seen_file.name}"
    try:
        size_bytes = stores.storage.stat(path).size_bytes
    except FileMissing:
        size_bytes = None
    if size_bytes != seen_file.size_bytes:
        seen = "not there" if size_bytes is None else f"{size_bytes} bytes, {seen_file.size_bytes} on the driver"
        raise make_other_table_error({"table": stores.storage.uri, "file": f"{path}: {seen}"})


def make_other_table_error(facts: Mapping[str, str]) -> Refused:
    """Return the error for an executor that sees another table at the location than the driver, or none.

    Args:
        facts: The table, and the difference.
    """
    return Refused(
        "executors see another table than the driver",
        code="cluster.other-table",
        facts=facts,
        hint="put the table on a store that all hosts share, such as s3:// or a mounted file system",
    )


def _load_shared_values(job: Job) -> Mapping[str, Any]:  # Any: values of operations
    if job.shared_name is None:
        return pickle.loads(job.shared) if job.shared else {}
    values = _shared_values.get(job.shared_name)
    if values is None:
        from pyspark import SparkFiles

        values = pickle.loads(Path(SparkFiles.get(job.shared_name)).read_bytes())
        _cache_value(_shared_values, job.shared_name, values)
    return values


def _cache_value(cache: dict[Any, Any], key: Any, value: Any) -> None:  # Any: of each dictionary
    """Add a value to a cache, and remove the oldest ones if there are too many."""
    while len(cache) >= _MAX_CACHED:
        cache.pop(next(iter(cache)))
    cache[key] = value
