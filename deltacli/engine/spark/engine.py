"""The engine that runs tasks on a Spark cluster. What is local to the driver runs in threads, as embedded.

The first job asks whether executors run the same versions, and see the same table.

Never one that somebody else has.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NoReturn

import pyarrow as pa

from deltacli.core.errors import (
    ClusterFailed,
    DeltacliError,
    FileMissing,
    Refused,
    UsageError,
    get_hint_syntax,
    install_command,
    parameter,
)
from deltacli.core.machine import system_clock
from deltacli.core.optional_packages import allow_optional_packages
from deltacli.core.progress import SILENT, Progress
from deltacli.core.times import format_timestamp
from deltacli.core.typing import ArrowSchema, RecordBatch, SparkFrame, SparkSession
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.engine.base import GROUP_BYTES, GROUPS, NOTHING_SHARED, EmbeddedEngine, Reading, never
from deltacli.engine.spark.cluster import (
    Cluster,
    JobFailedError,
    TaskWatch,
    explain,
    is_too_large,
    missing_module,
    reason_of,
)
from deltacli.engine.spark.jobs import (
    PROBLEM,
    RESULT,
    RESULTS,
    TASKS_PER_SLOT,
    PickledResults,
    merge_tasks,
    regrouped,
    run_job,
)
from deltacli.engine.spark.worker import BUG, FAULT, Fingerprint, Job, Row, SeenFile
from deltacli.storage import ReadStorage
from deltacli.storage.location import StoreLocation, require_sendable
from deltacli.storage.optional_interfaces import Openable, SharedDirectoryStore
from deltacli.storage.secrets import contains_secret, is_secret_name, remember_secrets
from deltacli.work.task import Piece, Result, TableStores, Task

_CLOCK_MS = 30_000
"""Milliseconds by which the clocks of hosts may differ."""


def _check_executors(cluster: Cluster, location: Openable, seen_file: SeenFile | None) -> int:
    """Ship the package, compare every executor that answers with the driver, and return the number of task slots.

    Raises UsageError for other versions and missing modules, Refused for another table, and ClusterFailed.
    """
    wanted = Fingerprint.of_this_process()
    payload = pickle.dumps((location, seen_file, get_hint_syntax()))
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
        for name, ours, theirs in zip(Fingerprint._fields, wanted, Fingerprint(*fingerprint), strict=True):
            if ours != theirs:
                raise UsageError(
                    f"executors run {name} {theirs}, the driver {ours}",
                    code="cluster.other-version",
                    hint=f"install the same version of {name} on all hosts",
                )
        received_ms = system_clock()
        if not sent_ms - _CLOCK_MS <= now_ms <= received_ms + _CLOCK_MS:
            raise Refused(
                f"the clock of an executor is {format_timestamp(now_ms)}, the clock of the driver "
                f"{format_timestamp(received_ms)}",
                code="cluster.clock-skew",
                hint="date -u",
            )
    return len(answers)


def _answers(cluster: Cluster, payload: bytes) -> list[tuple[str, bytes]]:
    """Ask once per slot: a range of numbers has as many partitions as the cluster has slots by default."""

    def answer(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
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
        self._seen_files: dict[object, SeenFile | None] = {}

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
        """Read, distribute and merge on executors. Raises ClusterFailed (`cluster.result-size`) for large results."""
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
        """Return the frame, of a schema of Spark, of what `finish` makes of each group: see `jobs.py`."""
        jobs, groups = self._reading_jobs(readings, size_bytes)
        return regrouped(self._cluster.session, self.slots, jobs, groups, finish, schema)

    def _reading_jobs(
        self, readings: Sequence[Reading], size_bytes: int
    ) -> tuple[Sequence[tuple[Job, Sequence[Any]]], int]:  # Any: pieces
        """Return the job and the pieces of each reading, and the number of groups."""
        self._require_cluster(readings[0].stores)
        busy = min(self.slots * TASKS_PER_SLOT, size_bytes // _SMALL_GROUP_BYTES + 1)
        groups = max(busy, size_bytes // GROUP_BYTES + 1)
        return [
            (self.prepare(one.task, {**one.shared, GROUPS: groups}, one.stores), list(one.pieces)) for one in readings
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
            raise explain(failed, "sending the values that all tasks share") from failed
        return Job(task, location, seen_file, shared_name=name)

    def _require_cluster(self, stores: TableStores) -> tuple[Openable, SeenFile | None]:
        """Return the table as executors see it; the first job of a table compares versions and the table."""
        location, table = sendable(stores), stores.location or stores.storage
        seen_file = self._seen_file(stores.storage, table)
        if not self._slots or table not in self._seen_files:
            with self._progress.step("preparing the cluster", unit="jobs", total=1):
                self._slots = _check_executors(self._cluster, location, seen_file)
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


def sendable(stores: TableStores) -> Openable:
    """Return what executors need to open a table. Raises UsageError where they cannot, and what a server raises."""
    storage = stores.storage
    return storage.get_openable() if isinstance(storage, SharedDirectoryStore) else sendable_location(stores.location)


def sendable_location(location: StoreLocation | None) -> StoreLocation:
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


# -- opening a session -------------------------------------------------------------------------------------------------

_OLDEST_JAVA = 17
_VERSIONS = ((4, 0), (4, 3))
"""The oldest and the newest version of PySpark that were tried."""


def _require_pyspark(*, is_driver: bool) -> None:
    extra = "spark-local" if is_driver else "spark"
    try:
        import pyspark
    except ImportError as missing:
        raise UsageError(
            f"{parameter('open_table.engine', 'spark')} needs PySpark, which is not installed",
            code="usage.missing-extra",
            hint=install_command(extra),
        ) from missing
    found = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    oldest, newest = _VERSIONS
    if found < oldest:
        raise UsageError(
            f"PySpark {pyspark.__version__} is too old",
            code="cluster.pyspark",
            facts={"supported": f"{oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"},
            hint=install_command(extra),
        )
    home = Path(next(iter(pyspark.__path__)))
    if is_driver and not (home / "jars").is_dir() and not os.environ.get("SPARK_HOME"):
        raise UsageError(
            "this PySpark is the client for Spark Connect, which cannot start a driver for "
            f"{parameter('open_table.master')}",
            code="usage.missing-extra",
            hint=f"use {_remote()}, or {install_command('spark-local')} in an environment of its own",
        )


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    version = _java_version(program) if program else None
    if version is None or version < _OLDEST_JAVA:
        seen = f"Java {version}" if version else f"no Java in JAVA_HOME={home}" if home else "no Java"
        raise UsageError(
            f"{parameter('open_table.master')} needs Java {_OLDEST_JAVA} or newer, and {seen} was found",
            code="cluster.java",
            hint=f"apt-get install openjdk-{_OLDEST_JAVA}-jre-headless",
        )


def _java_version(program: str) -> int | None:
    try:
        done = subprocess.run([program, "-version"], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(rb'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found else None


_CONNECT_PORT = 15002
_CONNECT_SECONDS = 15
_MASTER = re.compile(r"(local(\[.+\]|-cluster\[.+\])?|yarn)$|spark://.|k8s://.")
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
_SETTINGS = {"spark.ui.showConsoleProgress": "false"}
_LOCAL_SETTINGS = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Which cluster to use: the URL of a `master`, or of a Connect server (`remote`), and settings of Spark."""

    master: str | None = None
    remote: str | None = field(default=None, repr=False)
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_local(self) -> bool:
        """True where executors are threads of a driver on this machine."""
        return (self.master or "").startswith("local")


def open_engine(settings: SparkSettings, progress: Progress = SILENT) -> SparkEngine:
    """Return the engine on a new session, which it closes. Raises what `open_session` raises."""
    with progress.step("starting Spark", unit="sessions", total=1):
        session = open_session(settings)
    return SparkEngine(session, is_own=True, progress=progress)


def open_session(settings: SparkSettings) -> SparkSession:
    """Return a new `SparkSession`. Raises UsageError where PySpark or Java is missing, and ClusterFailed."""
    if settings.master and settings.remote:
        raise UsageError("a Spark master and a Spark Connect server exclude each other")
    if settings.remote and not settings.remote.startswith("sc://"):
        raise UsageError(
            "the URL of the Spark Connect server does not begin with sc://", code="cluster.url", hint=_remote()
        )
    if settings.master and not _MASTER.match(settings.master):
        raise UsageError(
            f"{settings.master!r} is not a Spark master",
            code="cluster.url",
            facts={"expected": "local[N], spark://HOST:PORT, yarn, or k8s://URL"},
            hint=f"{parameter('open_table.master', 'local[4]')}, or {_remote()} for a Spark Connect server",
        )
    token = re.search(r";token=([^;]+)", settings.remote or "", re.IGNORECASE)
    remember_secrets({**settings.conf, **({"token": token[1]} if token else {})})
    allow_optional_packages()
    _require_pyspark(is_driver=settings.master is not None)
    return _connect(settings) if settings.remote or not settings.master else _start_driver(settings)


def _connect(settings: SparkSettings) -> Any:  # Any: as above
    """Connect to a server; without a URL, use what the environment of `spark-submit` or SPARK_REMOTE names."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("deltacli")
    if settings.remote:
        _require_reachable(settings.remote)
        builder = builder.remote(settings.remote)
    elif not any(os.environ.get(name) for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "MASTER")):
        raise UsageError(
            "no cluster is named",
            code="cluster.no-cluster",
            hint=f"add {parameter('open_table.master', 'URL')}, such as local[4] or spark://HOST:7077, or {_remote()}",
        )
    for name, value in settings.conf.items():
        builder = builder.config(name, value)
    try:
        with _handlers_kept():
            session = builder.getOrCreate()
            _ = session.version  # the first request
    except Exception as fault:
        raise explain(fault, "the connection") from fault
    return session


def _remote() -> str:
    return parameter("open_table.remote", "sc://HOST:15002")


def _require_reachable(remote: str) -> None:
    """Raise ClusterFailed where nothing listens at the address: the client of Spark would try again for ten minutes.

    Not tried through a proxy, nor for a URL that only the client understands.
    """
    address = re.fullmatch(r"sc://(\[[^]/]+\]|[^:/;\[]+)(?::(\d+))?(?:/.*)?", remote)
    if address is None or any(os.environ.get(name) for name in _PROXIES):
        return
    _require_listener(
        [(address[1].strip("[]"), int(address[2] or _CONNECT_PORT))],
        f"check {parameter('open_table.remote')}, and that the Spark Connect server is running",
    )


def _require_master(master: str) -> None:
    """Raise ClusterFailed where no standalone master listens: Spark would try again for two minutes."""
    addresses = re.findall(r"(\[[^]]+\]|[^:/,]+):(\d+)", master.removeprefix("spark://"))
    if master.startswith("spark://") and addresses:
        found = [(host.strip("[]"), int(port)) for host, port in addresses]
        _require_listener(
            found, f"check {parameter('open_table.master')}, and that the master of the cluster is running"
        )


def _require_listener(addresses: Sequence[tuple[str, int]], hint: str) -> None:
    """Raise ClusterFailed where nothing listens at any address."""
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
        except OSError as fault:
            last = fault
        else:
            return
    host, port = addresses[-1]
    raise ClusterFailed(
        "the cluster cannot be reached",
        code="cluster.unreachable",
        facts={"address": f"{host}:{port}", "reason": last.strerror or str(last) or "no answer"},
        hint=hint,
    ) from last


def _start_driver(settings: SparkSettings) -> Any:  # Any: as above
    """Start a driver of our own. What its JVM writes is kept in a file, and shown only where the start fails.

    The JVM gets its settings as arguments, which other users of the machine see, and secrets only after its start.
    """
    _require_java()
    _require_master(str(settings.master))
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    defaults = _SETTINGS | (_LOCAL_SETTINGS if settings.is_local else {})
    conf, shown = (SparkConf().setMaster(settings.master).setAppName("deltacli") for _ in range(2))
    conf.setAll(list((defaults | dict(settings.conf)).items()))
    shown.setAll([(name, value) for name, value in conf.getAll() if not _is_secret(name, value)])
    if settings.is_local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with TemporaryFile() as log:
        try:
            with _handlers_kept():
                gateway = launch_gateway(shown, popen_kwargs={"stderr": log, "stdout": log})
                SparkContext(conf=conf, gateway=gateway)
                return SparkSession.builder.getOrCreate()
        except Exception as fault:
            raise ClusterFailed(
                "Spark could not be started",
                code="cluster.start",
                facts={"master": str(settings.master), "reason": _reason(log) or str(fault).splitlines()[0][:300]},
                hint=f"check {parameter('open_table.master')} and {parameter('open_table.spark_conf')}",
            ) from fault


def _is_secret(name: str, value: str) -> bool:
    """Return whether a setting is kept from the arguments of the JVM. Options of the JVM itself cannot be."""
    return not name.endswith("JavaOptions") and (is_secret_name(name) or contains_secret(value))


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Put the handler of SIGINT back: the one of PySpark cancels all jobs of the context."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _reason(log: IO[bytes]) -> str | None:
    """Return the line of a JVM's output that names the fault, None where none does."""
    log.seek(0)
    return reason_of(log.read().decode(errors="replace"))
