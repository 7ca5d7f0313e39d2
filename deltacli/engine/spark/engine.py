"""The engine that runs tasks on a Spark cluster. What is local to the driver runs in threads, as embedded.

The first job asks whether executors run the same versions, and see the same table.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NoReturn

from deltacli.core.clock import system_clock
from deltacli.core.errors import DeltacliError, FileMissing, Refused, UsageError
from deltacli.core.hints import spelling
from deltacli.core.progress import SILENT, Progress
from deltacli.core.typing import ArrowSchema, RecordBatch, SparkFrame
from deltacli.core.units import format_timestamp
from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.engine.base import GROUP_BYTES, GROUPS, NOTHING_SHARED, Reading, never
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.engine.spark.cluster import Cluster, JobFailedError, TaskWatch, explain, is_too_large, missing_module
from deltacli.engine.spark.jobs import PROBLEM, RESULT, run_job
from deltacli.engine.spark.tasks import TASKS_PER_SLOT
from deltacli.engine.spark.worker import BUG, FAULT, Fingerprint, Job, Row, SeenFile
from deltacli.storage.location import StoreLocation, may_be_sent
from deltacli.storage.secrets import holds_secret
from deltacli.work.task import Piece, Result, TableStores, Task

if TYPE_CHECKING:
    from deltacli.engine.spark.cluster import Cluster
    from deltacli.storage import ReadStorage
    from deltacli.storage.location import StoreLocation

_CLOCK_MS = 30_000
"""Milliseconds by which the clocks of hosts may differ."""


def _check_executors(cluster: Cluster, location: StoreLocation, seen_file: SeenFile | None) -> int:
    """Ship the package, compare every executor that answers with the driver, and return the number of task slots.

    Raises UsageError for other versions and missing modules, Refused for another table, and ClusterFailed.
    """
    wanted = Fingerprint.of_this_process()
    payload = pickle.dumps((location, seen_file, spelling()))
    sent_ms = system_clock()
    try:
        cluster.run(cluster.ship_package)
        answers = cluster.run(lambda: _answers(cluster, payload))
    except JobFailedError as failed:
        raise explain(failed, "the first job") from failed
    for status, content in answers:
        if status == PROBLEM:
            raise missing_module(content.decode(errors="replace"))
        if status == FAULT:
            raise pickle.loads(content)
        *fingerprint, now_ms = pickle.loads(content)
        _require_same(wanted, Fingerprint(*fingerprint))
        _require_clock(now_ms, sent_ms, system_clock())
    return len(answers)


def _require_clock(now_ms: int, sent_ms: int, received_ms: int) -> None:
    """Raise Refused where the clock of an executor is wrong: work that must not start late is dated by it."""
    if not sent_ms - _CLOCK_MS <= now_ms <= received_ms + _CLOCK_MS:
        raise Refused(
            f"the clock of an executor is {format_timestamp(now_ms)}, the clock of the driver "
            f"{format_timestamp(received_ms)}",
            code="cluster.clock-skew",
            hint="date -u",
        )


def _require_same(wanted: Fingerprint, found: Fingerprint) -> None:
    for name, ours, theirs in zip(Fingerprint._fields, wanted, found, strict=True):
        if ours != theirs:
            raise UsageError(
                f"executors run {name} {theirs}, the driver {ours}",
                code="cluster.other-version",
                hint=f"install the same version of {name} on all hosts",
            )


def _answers(cluster: Cluster, payload: bytes) -> list[tuple[str, bytes]]:
    """Ask once per slot: a range of numbers has as many partitions as the cluster has slots by default."""

    def answer(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        import pickle

        import pyarrow as pa

        for _ in batches:
            pass
        try:
            from deltacli.engine.spark.worker import identify

            status, content = identify(*pickle.loads(payload))
        except ImportError as missing:
            status, content = "problem", f"{missing.name or ''}\n{missing}".encode()
        columns = [pa.array([0], pa.int64()), pa.array([status]), pa.array([content], pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, names=["number", "status", "content"])

    found: Any = cluster.session.range(1 << 12).mapInArrow(answer, RESULT).toArrow()
    return list(zip(found.column("status").to_pylist(), found.column("content").to_pylist(), strict=True))


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
        self._seen_files: dict[StoreLocation, SeenFile | None] = {}

    def spread(
        self,
        task: Task[Piece, Result],
        pieces: Iterable[Piece],
        stores: TableStores,
        *,
        shared: Mapping[str, Any] = NOTHING_SHARED,  # Any: values of each operation
        weigh: Callable[[Piece], int] | None = None,
        at_once: int | None = None,
        is_cancelled: Callable[[], bool] = never,
    ) -> Iterator[Result]:
        """Run tasks on executors, a window of pieces per job."""
        remaining = iter(pieces)
        few = _FEW_PIECES if getattr(task, "is_light", False) else 0
        first = list(islice(remaining, few + 1))
        if len(first) <= few:
            yield from super().spread(
                task, first, stores, shared=shared, weigh=weigh, at_once=at_once, is_cancelled=is_cancelled
            )
            return
        job = self.prepare(task, shared, stores)
        size = max(1, self._slots) * _FIRST_PIECES
        sendable = (
            (pickle.dumps(one, pickle.HIGHEST_PROTOCOL), weigh(one) if weigh else 1) for one in chain(first, remaining)
        )
        while window := _window(sendable, size):
            returned = 0
            for row in self._rows(job, window, is_cancelled):
                returned += len(row.content)
                yield _value(row)
            size = _next_size(size, len(window), returned)

    def _rows(self, job: Job, window: Sequence[tuple[bytes, int]], is_cancelled: Callable[[], bool]) -> Iterator[Row]:
        """Run a window of pickled pieces with their weights, in halves where its results are larger than the driver
        accepts.
        """
        sent, weights = zip(*window, strict=True)
        try:
            rows = run_job(self._cluster, job, sent, weights, self._slots, is_cancelled, self._progress)
        except JobFailedError as failed:
            if not is_too_large(failed) or len(window) == 1:
                raise explain(failed) from failed
            rows = []
        if rows:
            yield from rows
            return
        middle = len(window) // 2
        yield from self._rows(job, window[:middle], is_cancelled)
        yield from self._rows(job, window[middle:], is_cancelled)

    def regroup(
        self,
        readings: Sequence[Reading],
        merge: Callable[[Sequence[Sequence[RecordBatch]]], Result],
        schema: ArrowSchema,
        size_bytes: int,
        temp_dir: str | None = None,  # noqa: ARG002  (the cluster keeps the batches)
    ) -> Iterator[Result]:
        """Read, distribute and merge on executors. All results come to the driver at once.

        Raises ClusterFailed (`cluster.result-size`) where they are larger than it accepts.
        """
        from deltacli.engine.spark.regroup import RESULTS, PickledResults, merge_tasks, regrouped

        jobs, groups = self._reading_jobs(readings, size_bytes)
        tasks = merge_tasks(groups)
        finish, session = PickledResults(merge, schema), self._cluster.session
        with self._progress.step("on the cluster", unit="tasks", total=tasks) as step:
            watch = None if self._progress is SILENT else TaskWatch(tasks, step.advance)

            def act() -> Any:  # Any: a table of Arrow
                return regrouped(session, self.slots, jobs, groups, finish, RESULTS).toArrow()

            try:
                found = self._cluster.run(act, watch=watch, description="deltacli: rows brought together by groups")
            except JobFailedError as failed:
                raise explain(failed) from failed
        for status, content in zip(*(found.column(name).to_pylist() for name in ("status", "content")), strict=True):
            yield _value(Row(0, status, content))

    def regrouped(self, readings: Sequence[Reading], finish: Any, size_bytes: int, schema: Any) -> SparkFrame:
        """Return the frame, of a schema of Spark, of what `finish` makes of each group: see `regroup.py`."""
        from deltacli.engine.spark.regroup import regrouped

        jobs, groups = self._reading_jobs(readings, size_bytes)
        return regrouped(self._cluster.session, self.slots, jobs, groups, finish, schema)

    def _reading_jobs(
        self, readings: Sequence[Reading], size_bytes: int
    ) -> tuple[Sequence[tuple[Job, Sequence[Any]]], int]:  # Any: pieces
        """Return the job and the pieces of each reading, and the number of groups."""
        self._require_cluster(readings[0].stores)
        groups = self._groups_of(size_bytes)
        return [
            (self.prepare(one.task, {**one.shared, GROUPS: groups}, one.stores), list(one.pieces)) for one in readings
        ], groups

    def _groups_of(self, size_bytes: int) -> int:
        busy = min(self.slots * TASKS_PER_SLOT, size_bytes // _SMALL_GROUP_BYTES + 1)
        return max(busy, size_bytes // GROUP_BYTES + 1)

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
            raise explain(failed, "sending the values that all tasks share") from failed
        return Job(task, location, seen_file, shared_name=name)

    def _require_cluster(self, stores: TableStores) -> tuple[StoreLocation, SeenFile | None]:
        """Return the table as executors see it; the first job of a table compares versions and the table."""
        location = sendable_location(stores.location)
        seen_file = self._seen_file(stores.storage, location)
        if not self._slots or location not in self._seen_files:
            with self._progress.step("preparing the cluster", unit="jobs", total=1):
                self._slots = _check_executors(self._cluster, location, seen_file)
        self._seen_files[location] = seen_file
        return location, seen_file

    @property
    def slots(self) -> int:
        """Return how many tasks run at once; known after `prepare`."""
        return max(1, self._slots)

    def _seen_file(self, storage: ReadStorage, location: StoreLocation) -> SeenFile | None:
        """Return the newest commit of the log, found from the one known before; in a log without commits, the newest
        file that has a version in its name.
        """
        known = self._seen_files.get(location)
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
        """Stop the session if this engine has opened it."""
        if self._is_own:
            self._cluster.stop()

    def __reduce__(self) -> NoReturn:
        raise TypeError("an engine cannot be sent to another process: a task must not hold one")


def _window(pieces: Iterator[tuple[bytes, int]], most: int) -> list[tuple[bytes, int]]:
    """Return the next pieces, up to a number and to the bytes of a window, at least one if there are any."""
    window: list[tuple[bytes, int]] = []
    sent = 0
    for piece in islice(pieces, most):
        window.append(piece)
        sent += len(piece[0])
        if sent >= _WINDOW_BYTES:
            break
    return window


def _next_size(size: int, pieces: int, returned: int) -> int:
    """Return the number of pieces of the next window: more while results are small."""
    fitting = _WINDOW_BYTES * pieces // max(1, returned)
    return max(1, min(size * 8, fitting))


def _value(row: Row) -> Any:  # Any: the result of a piece
    """Return the result of a piece. Raises its error."""
    if row.status == FAULT:
        fault: DeltacliError = pickle.loads(row.content)
        raise fault
    if row.status == PROBLEM:
        raise missing_module(row.content.decode(errors="replace"))
    if row.status == BUG:
        raise RuntimeError(f"a task failed on an executor:\n{row.content.decode(errors='replace')}")
    return pickle.loads(row.content)


def sendable_location(location: StoreLocation | None) -> StoreLocation:
    """Return the location of a table for executors. Raises UsageError where they cannot open it."""
    if location is None:
        raise UsageError(
            "this table exists in the memory of one process only",
            code="cluster.local-store",
            hint="open the table by a URI that executors reach",
        )
    secret = next((name for name, value in location.options if not may_be_sent(name, value)), None)
    if secret is not None:
        raise UsageError(
            f"the storage option {secret} may hold a secret, and is not sent to executors",
            code="cluster.secret",
            hint=f"omit {secret}, and configure executors themselves: variables, profiles or roles of the store",
        )
    if any(map(holds_secret, (location.uri, *location.allowed.uris))):
        raise UsageError(
            "the URI of the table holds a secret, which is not sent to executors",
            code="cluster.secret",
            hint="give executors their own credentials: variables, profiles or roles of the store",
        )
    return location
