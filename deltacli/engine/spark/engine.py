"""The engine that runs tasks on a Spark cluster. What is local to the driver runs in threads, as embedded."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import Any, NoReturn

from deltacli.core.errors import (
    DeltacliError,
    FileMissing,
    Refused,
    UsageError,
)
from deltacli.core.progress import SILENT, Progress
from deltacli.core.typing import ArrowSchema, RecordBatch, SparkFrame
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.engine.base import GROUP_BYTES, GROUPS, NOTHING_SHARED, GroupReading, is_never_cancelled
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.engine.spark.cluster import Cluster, JobFailedError
from deltacli.engine.spark.executor_check import check_executors
from deltacli.engine.spark.jobs import PROBLEM, TASKS_PER_SLOT, run_job
from deltacli.engine.spark.regrouping import (
    RESULT_SCHEMA,
    GroupMerger,
    PickledResults,
    count_merge_tasks,
    make_grouped_frame,
)
from deltacli.engine.spark.session import SparkSettings, open_session
from deltacli.engine.spark.spark_errors import is_too_large, make_cluster_error, make_missing_module_error
from deltacli.engine.spark.task_progress import TaskWatch
from deltacli.engine.spark.worker import BUG, FAULT, Job, Row, SeenFile, make_other_table_error
from deltacli.storage import ReadStorage
from deltacli.storage.directory_identity import OTHER_DIRECTORY, require_same_directory
from deltacli.storage.location import StoreLocation, require_sendable
from deltacli.storage.optional_interfaces import Openable, is_shared_directory
from deltacli.storage.secrets import contains_secret
from deltacli.work.table_stores import TableStores
from deltacli.work.task import Piece, Result, Task

_INLINE_BYTES = 64 << 10
"""Bytes of shared values that travel with every task; more are sent once, as a file."""
_FIRST_PIECES = 64
"""Pieces of the first window per slot."""
_FEW_PIECES = 32
"""Pieces of a light task that are not worth a job."""
_SMALL_GROUP_BYTES = 4 << 20
"""Bytes below which another group costs more than it saves: starting a task takes 0.1 to 0.4 s."""
_WINDOW_BYTES = 32 << 20
"""Bytes of results that a window should bring to the driver, and of pieces that it sends at most."""


class SparkEngine(EmbeddedEngine):
    """Runs tasks on the cluster of a session: `pyspark.sql.SparkSession`, classic or Connect, 4.0 or newer.

    The session stays the user's: no setting of it is changed, and only jobs of this engine are cancelled. Raises
    UsageError and ClusterFailed where the cluster cannot be used, and Refused where executors see another table.
    """

    may_repeat = True

    def __init__(
        self, session: Any, *, is_own: bool = False, progress: Progress = SILENT
    ) -> None:  # Any: pyspark has no stable types
        super().__init__()
        self._progress = progress
        self._cluster = Cluster(session)
        self._is_own = is_own
        self._slots = 0
        self._seen_files: dict[object, SeenFile | None] = {}

    def run_tasks(
        self,
        task: Task[Piece, Result],
        pieces: Iterable[Piece],
        stores: TableStores,
        *,
        shared: Mapping[str, Any] = NOTHING_SHARED,  # Any: values of each operation
        weigh: Callable[[Piece], int] | None = None,
        at_once: int | None = None,
        is_cancelled: Callable[[], bool] = is_never_cancelled,
    ) -> Iterator[Result]:
        """Run tasks on executors, a window of pieces per job."""
        remaining = iter(pieces)
        few = _FEW_PIECES if getattr(task, "is_light", False) else 0
        first = list(islice(remaining, few + 1))
        if len(first) <= few:
            yield from super().run_tasks(
                task, first, stores, shared=shared, weigh=weigh, at_once=at_once, is_cancelled=is_cancelled
            )
            return
        job = self.prepare(task, shared, stores)
        size = max(1, self._slots) * _FIRST_PIECES
        sendable = (
            (pickle.dumps(piece, pickle.HIGHEST_PROTOCOL), weigh(piece) if weigh else 1)
            for piece in chain(first, remaining)
        )
        while window := _take_window(sendable, size):
            returned = 0
            for row in self._rows(job, window, is_cancelled):
                returned += len(row.content)
                with _name_other_directories(stores.storage):
                    value = _unpack_value(row)
                yield value
            # More pieces while results are small.
            fitting = _WINDOW_BYTES * len(window) // max(1, returned)
            size = max(1, min(size * 8, fitting))

    def _rows(self, job: Job, window: Sequence[tuple[bytes, int]], is_cancelled: Callable[[], bool]) -> Iterator[Row]:
        """Run a window of pickled pieces, in halves where its results are larger than the driver accepts."""
        sent, weights = zip(*window, strict=True)
        try:
            rows = run_job(self._cluster, job, sent, weights, self._slots, is_cancelled, self._progress)
        except JobFailedError as failed:
            if not is_too_large(failed) or len(window) == 1:
                raise make_cluster_error(failed) from failed
            rows = []
        if rows:
            yield from rows
            return
        middle = len(window) // 2
        yield from self._rows(job, window[:middle], is_cancelled)
        yield from self._rows(job, window[middle:], is_cancelled)

    def merge_groups(
        self,
        readings: Sequence[GroupReading],
        merge: Callable[[Sequence[Sequence[RecordBatch]]], Result],
        schema: ArrowSchema,
        size_bytes: int,
        temp_dir: str | None = None,  # noqa: ARG002  (the cluster keeps the batches)
    ) -> Iterator[Result]:
        """Read, distribute and merge on executors. Raises ClusterFailed (`cluster.result-size`) for large results."""
        jobs, groups = self._reading_jobs(readings, size_bytes)
        tasks = count_merge_tasks(groups)
        merger = PickledResults(merge, schema)
        session = self._cluster.session
        with self._progress.step("on the cluster", unit="tasks", total=tasks) as step:
            watch = None if self._progress is SILENT else TaskWatch(tasks, step.advance)

            def act() -> Any:  # Any: a table of Arrow
                return make_grouped_frame(session, self.slots, jobs, groups, merger, RESULT_SCHEMA).toArrow()

            try:
                results = self._cluster.run(act, watch=watch, description="deltacli: rows brought together by groups")
            except JobFailedError as failed:
                raise make_cluster_error(failed) from failed
        for status, content in zip(*(results.column(name).to_pylist() for name in ("status", "content")), strict=True):
            yield _unpack_value(Row(0, status, content))

    def make_grouped_frame(
        self, readings: Sequence[GroupReading], merger: GroupMerger, size_bytes: int, schema: Any
    ) -> SparkFrame:
        """Return a frame with the merged groups, see `regrouping.make_grouped_frame`."""
        jobs, groups = self._reading_jobs(readings, size_bytes)
        return make_grouped_frame(self._cluster.session, self.slots, jobs, groups, merger, schema)

    def _reading_jobs(
        self, readings: Sequence[GroupReading], size_bytes: int
    ) -> tuple[Sequence[tuple[Job, Sequence[Any]]], int]:  # Any: pieces
        """Return the job and the pieces of each reading, and the number of groups."""
        self._require_cluster(readings[0].stores)
        busy = min(self.slots * TASKS_PER_SLOT, size_bytes // _SMALL_GROUP_BYTES + 1)
        groups = max(busy, size_bytes // GROUP_BYTES + 1)
        return [
            (self.prepare(reading.task, {**reading.shared, GROUPS: groups}, reading.stores), list(reading.pieces))
            for reading in readings
        ], groups

    def prepare(self, task: Task[Any, Any], shared: Mapping[str, Any], stores: TableStores) -> Job:
        """Return a task with all that executors need to run it: modules and shared values are sent to them, and the
        first job of a table compares versions and the table. Raises what the class says.
        """
        location, seen_file = self._require_cluster(stores)
        content = pickle.dumps(dict(shared), pickle.HIGHEST_PROTOCOL) if shared else b""
        if len(content) <= _INLINE_BYTES:
            return Job(task, location, seen_file, content)
        name = f"deltacli-{hashlib.sha256(content).hexdigest()[:24]}.pickle"
        try:
            self._cluster.run(lambda: self._cluster.ship_file(name, content))
        except JobFailedError as failed:
            raise make_cluster_error(failed, "sending the values that all tasks share") from failed
        return Job(task, location, seen_file, shared_name=name)

    def _require_cluster(self, stores: TableStores) -> tuple[Openable, SeenFile | None]:
        """Return the table as executors see it; the first job of a table compares versions and the table."""
        location = require_sendable_table(stores)
        table = stores.location or stores.storage
        seen_file = self._seen_file(stores.storage, table)
        if not self._slots or table not in self._seen_files:
            with (
                self._progress.step("preparing the cluster", unit="jobs", total=1),
                _name_other_directories(stores.storage),
            ):
                self._slots = check_executors(self._cluster, location, seen_file)
        self._seen_files[table] = seen_file
        return location, seen_file

    @property
    def slots(self) -> int:
        """Return how many tasks run at once; known after `prepare`."""
        return max(1, self._slots)

    def _seen_file(self, storage: ReadStorage, table: object) -> SeenFile | None:
        """Return the newest commit of the log; without commits, the newest file with a version in its name."""
        known = self._seen_files.get(table)
        other = None
        for start in [known.name, "0"] if known is not None else ["0"]:
            newest = None
            with suppress(FileMissing):  # a table that is not there, for whoever looks at many
                for file in storage.list_from(LOG_DIRECTORY, start):
                    if file.name[:1].isdigit():
                        other = SeenFile(file.name, file.size_bytes)
                        newest = other if file.name.endswith(".json") else newest
            if newest is not None:
                return newest
        return other

    def abandon(self) -> None:
        """Ask for the end of our jobs, without waiting for it."""
        self._cluster.abandon()

    def close(self) -> None:
        if self._is_own:
            self._cluster.stop()

    def __reduce__(self) -> NoReturn:
        raise TypeError("an engine cannot be sent to another process: a task must not hold one")


def _take_window(pieces: Iterator[tuple[bytes, int]], most: int) -> list[tuple[bytes, int]]:
    """Return the next pieces, up to a number and to the bytes of a window, at least one if there are any."""
    window: list[tuple[bytes, int]] = []
    sent = 0
    for piece in islice(pieces, most):
        window.append(piece)
        sent += len(piece[0])
        if sent >= _WINDOW_BYTES:
            break
    return window


@contextmanager
def _name_other_directories(storage: ReadStorage) -> Iterator[None]:
    """Replace the error of an executor that finds another directory at the path of the table, or none.

    On the driver, that error means that the directory was replaced since the change was planned. An executor on another
    host raises it, too, if the hosts do not share the disk. So if the driver still finds its directory, the error says
    that the executors see another table.

    Args:
        storage: The store of the table on the driver.

    Raises:
        Refused: `cluster.other-table`; or `plan.other-place` if the directory was replaced on the driver, too.
    """
    try:
        yield
    except Refused as refused:
        if refused.code != OTHER_DIRECTORY:
            raise
        require_same_directory(storage)
        facts = {"table": storage.uri, "directory": "another one is at this path on an executor, or none"}
        executor = refused.facts.get("executor")
        raise make_other_table_error(facts if executor is None else {"executor": executor, **facts}) from refused


def _unpack_value(row: Row) -> Any:  # Any: the result of a piece
    """Return the result of a piece. Raises its error."""
    if row.status == FAULT:
        fault: DeltacliError = pickle.loads(row.content)
        raise fault
    if row.status == PROBLEM:
        raise make_missing_module_error(row.content.decode(errors="replace"))
    if row.status == BUG:
        raise RuntimeError(f"a task failed on an executor:\n{row.content.decode(errors='replace')}")
    return pickle.loads(row.content)


def require_sendable_table(stores: TableStores) -> Openable:
    """Return what executors need to open a table. Raises UsageError where they cannot, and what a server raises."""
    storage = stores.storage
    return storage.get_openable() if is_shared_directory(storage) else require_sendable_location(stores.location)


def require_sendable_location(location: StoreLocation | None) -> StoreLocation:
    """Return the location of a table for executors. Raises UsageError where they cannot open it."""
    if location is None:
        raise UsageError(
            "this table exists in the memory of one process only",
            code="cluster.local-store",
            hint="open the table by a URI that executors reach",
        )
    require_sendable(dict(location.options))
    if any(map(contains_secret, (location.uri, *location.allowed.uris))):
        raise UsageError(
            "the URI of the table holds a secret, which is not sent to executors",
            code="cluster.secret",
            hint="give executors their own credentials: variables, profiles or roles of the store",
        )
    return location


def open_engine(settings: SparkSettings, progress: Progress = SILENT) -> SparkEngine:
    """Return the engine on a new session, which it closes. Raises what `open_session` raises."""
    with progress.step("starting Spark", unit="sessions", total=1):
        session = open_session(settings)
    return SparkEngine(session, is_own=True, progress=progress)
