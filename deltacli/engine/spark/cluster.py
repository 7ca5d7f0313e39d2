"""A Spark session, classic or Connect, as the engine uses it: ship files, run a job, cancel exactly our own jobs. Each
fault of a cluster is one error that says what to do.

A session refuses other content under the name of a file it already has, so the name has to change with the content.

What the session says about the tasks of a job is for progress only, so looking at it never raises.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread
from typing import Any, Generic, NamedTuple, TypeVar

from deltacli.core.errors import ClusterFailed, DeltacliError, UsageError, command, parameter
from deltacli.core.garbage_collection import POLL_SECONDS
from deltacli.core.release import VERSION
from deltacli.core.typing import SparkSession
from deltacli.engine.base import never
from deltacli.storage.secrets import mask_secrets

# -- the archive for executors -----------------------------------------------------------------------------------------

_LEFT_OUT = ("cli", "api", "__pycache__")
"""Directories that executors never import."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_package(directory: str | os.PathLike[str]) -> Path:
    """Write `deltacli-VERSION-HASH.zip` into a directory and return its path; an existing one is kept.

    The content is the same for the same sources. If deltacli itself runs from an archive, that one is returned. Raises
    OSError.
    """
    root = _root()
    if root.parent.is_file():
        return root.parent
    entries = list(_entries(root))
    digest = hashlib.sha256()
    for name, content in entries:
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    path = Path(directory) / f"deltacli-{VERSION}-{digest.hexdigest()[:16]}.zip"
    if path.exists():
        return path
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in entries:
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def _root() -> Path:
    return Path(__file__).parents[2]  # not while a module is imported: those that are carried to executors have no file


def _entries(root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the modules and data files of the package by their names in the archive, sorted."""
    for path in sorted(root.rglob("*")):
        inner = path.relative_to(root)
        if path.is_file() and not set(inner.parts[:-1]) & set(_LEFT_OUT) and path.suffix != ".pyc":
            yield f"deltacli/{inner.as_posix()}", path.read_bytes()


# -- a Spark session, classic or Connect -------------------------------------------------------------------------------

_TOO_LARGE = re.compile(r"spark\.driver\.maxResultSize|RESULT_SIZE_EXCEEDED|bigger than")
_VERSIONS = re.compile(r"PYTHON_VERSION_MISMATCH|different (?:minor )?version(?:s)? (?:in|than)")
_UNREACHABLE = re.compile(r"UNAVAILABLE|failed to connect|Connection refused|JAVA_GATEWAY_EXITED|DEADLINE_EXCEEDED")
_MODULE = re.compile(r"No module named '([\w.]+)'|\[PACKAGE_NOT_INSTALLED\] (\w+)")
_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_LOST = re.compile(r"^.*Lost task [^()]*\([^()]*\) \([^()]*\): ")
"""What Spark puts before the fault of a task: which stage, which host."""
_OF_PYTHON = re.compile(r"(?!org\.|java\.|py4j\.)(?:\w+\.)*[A-Z]\w*(?:Error|Exception): ")
_FAULT = re.compile(r"(Exception|Error)\b")
_HEADLINE = re.compile(r"^Error occurred during initialization of VM$")
"""A line without content, before the one that has it."""
_CLASS = re.compile(r'^(?:Exception in thread "[^"]*" )?(?:Caused by: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error):\s*')


class Stage(NamedTuple):
    """A stage of a job; newer ones have larger numbers."""

    number: int
    tasks: int
    ended: int


class TaskWatch:
    """Reports the tasks of one job that have ended. `tasks` is the number of tasks of its last stage: Spark runs others
    before, to distribute the pieces.
    """

    def __init__(self, tasks: int, advance: Callable[[int], None]) -> None:
        self._tasks, self._advance = tasks, advance
        self._ended = 0

    def note(self, stages: Iterable[Stage]) -> None:
        """Report what has ended since the last call."""
        last = max((stage for stage in stages), default=None)
        if last is not None and last.tasks == self._tasks and last.ended > self._ended:
            self._advance(last.ended - self._ended)
            self._ended = last.ended


def look(session: Any, tag: str, watch: TaskWatch) -> None:
    """Look at the jobs with a tag, in a classic session."""
    with suppress(Exception):  # the job may not have begun, or the session may be gone
        newest = max(_stages(session, tag))
        info = session.sparkContext.statusTracker().getStageInfo(newest)
        watch.note([Stage(newest, info.numTasks, info.numCompletedTasks)])


def is_at_work(session: Any, tag: str) -> bool:
    """Return whether a task of the jobs with a tag runs; False where a classic session cannot say."""
    with suppress(Exception):  # the session may be gone
        tracker = session.sparkContext.statusTracker()
        return any(info.numActiveTasks > 0 for info in map(tracker.getStageInfo, _stages(session, tag)) if info)
    return False


def _stages(session: Any, tag: str) -> list[int]:
    context = session.sparkContext
    jobs = context._jsc.sc().statusTracker().getJobIdsForTag(tag)  # the tracker of PySpark knows groups only
    return [number for job in jobs for number in context.statusTracker().getJobInfo(job).stageIds]


@contextmanager
def listening(session: Any, watch: TaskWatch) -> Iterator[None]:
    """Note what a Connect server reports about the job that this thread runs."""
    thread = threading.get_ident()

    def hear(*, stages: Iterable[Any], **_: object) -> None:
        if threading.get_ident() == thread:  # other jobs of the session have the same handlers
            with suppress(Exception):
                watch.note([Stage(stage.stage_id, stage.num_tasks, stage.num_completed_tasks) for stage in stages])

    session.registerProgressHandler(hear)
    try:
        yield
    finally:
        with suppress(Exception):
            session.removeProgressHandler(hear)


Result = TypeVar("Result")
_CANCEL_SECONDS = 10.0
"""Seconds to wait for a cancelled job to end before the engine gives up on it."""
_LOOK_SECONDS = 0.5
"""Seconds between two looks at the progress of a job: each takes some milliseconds."""
_LEAVING_SECONDS = 1.5
"""Seconds to wait for the request that cancels jobs when the process leaves at once."""
_WORKER_SECONDS = 1.0
"""Seconds after which no worker runs any more whose task has ended (see `worker.py`)."""


class JobFailedError(Exception):
    """What Spark raised in a job; `cause` is its exception. An exception of the waiting thread is never one."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


@cache
def _files() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="deltacli-spark-")


def _directory() -> str:
    """Return the directory of what is shipped, until this process ends: a session refuses a file that it knows from
    another path, and executors that start later fetch all files of the session from there.
    """
    return _files().name


class Cluster:
    """One session of the user. Only jobs with a tag of this object are ever cancelled.

    `session` is a `pyspark.sql.SparkSession`, classic or Connect.
    """

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.is_connect = type(session).__module__.startswith("pyspark.sql.connect")
        self._shipped: set[str] = set()
        self._tag = f"deltacli-{os.urandom(8).hex()}"
        self._running: set[str] = set()
        """The tags of the jobs that run."""

    def ship_package(self) -> str:
        """Make the modules of deltacli importable on executors, once; return the name of the archive."""
        path = write_package(_directory())
        self._ship(path, pyfile=True)
        return path.name

    def ship_file(self, name: str, content: bytes) -> None:
        """Send a file to every executor that needs it, once per name. A classic driver serves it from the disk."""
        if name not in self._shipped:
            path = Path(_directory(), name)
            path.write_bytes(content)
            self._ship(path, file=True)

    def _ship(self, path: Path, **kind: bool) -> None:
        if path.name not in self._shipped:
            self.session.addArtifacts(str(path), **kind)
            self._shipped.add(path.name)

    def run(
        self,
        action: Callable[[], Result],
        is_cancelled: Callable[[], bool] = never,
        watch: TaskWatch | None = None,
        description: str | None = None,
    ) -> Result:
        """Run an action of Spark and return its result. Any exception here, such as a signal's, cancels its jobs.
        Spark's pages of a classic session show the description.

        The action runs in a thread of its own, because a signal would not end a call into the JVM. Raises
        JobFailedError for what the action raises, and CancelledError once `is_cancelled` returns True.
        """
        tag = f"{self._tag}-{os.urandom(4).hex()}"
        self._running.add(tag)
        try:
            return _Job(self, action, tag, watch, description).result(is_cancelled)
        finally:
            self._running.discard(tag)

    def abandon(self) -> None:
        """Ask for the end of our jobs, which a Connect server would go on with, and wait for the request only."""
        sent = Event()

        def cancel() -> None:
            for tag in list(self._running):
                self._cancel(tag)
            sent.set()

        if self._running:
            Thread(target=cancel, name="deltacli-abandon", daemon=True).start()
            sent.wait(_LEAVING_SECONDS)

    def stop(self) -> None:
        """Stop the session, which is nobody else's, and remove the local copies of what was shipped."""
        with suppress(Exception):  # it may be gone
            self.session.stop()
        _files().cleanup()
        _files.cache_clear()

    @contextmanager
    def _tagged(self, tag: str, description: str | None) -> Iterator[None]:
        """Mark the jobs that this thread starts."""
        if self.is_connect:
            self.session.addTag(tag)
            try:
                yield
            finally:
                self.session.removeTag(tag)
        else:
            context = self.session.sparkContext
            context.addJobTag(tag)
            if description is not None:
                context.setJobDescription(description)  # of this thread, which runs only this action
            try:
                yield
            finally:
                context.removeJobTag(tag)

    def _cancel(self, tag: str) -> None:
        """Cancel the jobs with a tag. A classic session cancels them through its context: measured, `interruptTag` of
        such a session leaves jobs of other threads running.
        """
        with suppress(Exception):  # the session may be gone, and the job with it
            if self.is_connect:
                self.session.interruptTag(tag)
            else:
                self.session.sparkContext.cancelJobsWithTag(tag)


class _Job(Generic[Result]):
    """An action in a thread of its own."""

    def __init__(
        self,
        cluster: Cluster,
        action: Callable[[], Result],
        tag: str,
        watch: TaskWatch | None,
        description: str | None = None,
    ) -> None:
        self._cluster, self._action, self._tag, self._watch = cluster, action, tag, watch
        self._description = description
        self._begun = Lock()  # the first one to acquire it decides whether the action runs at all
        self._ended = Event()
        self._values: list[Result] = []
        self._fault: BaseException | None = None

    def result(self, is_cancelled: Callable[[], bool]) -> Result:
        """Wait for the action. Whatever ends the wait early cancels it."""
        waited = 0.0
        try:
            Thread(target=self._run, name="deltacli-spark", daemon=True).start()
            while not self._ended.wait(POLL_SECONDS):
                if is_cancelled():
                    raise CancelledError
                waited += POLL_SECONDS
                if self._watch is not None and not self._cluster.is_connect and waited >= _LOOK_SECONDS:
                    waited = 0.0
                    look(self._cluster.session, self._tag, self._watch)
        except BaseException:
            if not self._begun.acquire(blocking=False):
                self._cancel()
            raise
        if self._fault is not None:
            self._await_workers()  # Spark has cancelled its other tasks
            raise JobFailedError(self._fault) from self._fault
        return self._values[0]

    def _cancel(self) -> None:
        """Cancel until the action has ended, because a job that was just being submitted is not found at first; then
        wait until its workers have ended, so that nothing is written or deleted afterwards.
        """
        waited = 0.0
        while not self._ended.is_set() and waited < _CANCEL_SECONDS:
            self._cluster._cancel(self._tag)
            self._ended.wait(POLL_SECONDS)
            waited += POLL_SECONDS
        self._await_workers()

    def _await_workers(self) -> None:
        """Wait until no worker runs. A task whose worker has just been started ends with its first beat. A Connect
        server does not say what runs.
        """
        for _ in range(int(_CANCEL_SECONDS / POLL_SECONDS)):
            if self._cluster.is_connect or not is_at_work(self._cluster.session, self._tag):
                break
            Event().wait(POLL_SECONDS)
        Event().wait(_WORKER_SECONDS)

    def _listening(self) -> AbstractContextManager[None]:
        if self._watch is None or not self._cluster.is_connect:
            return nullcontext()
        return listening(self._cluster.session, self._watch)

    def _run(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            with self._cluster._tagged(self._tag, self._description), self._listening():
                self._values.append(self._action())
        except BaseException as fault:  # noqa: BLE001  (raised again in the waiting thread)
            self._fault = fault
        finally:
            self._ended.set()


def is_too_large(fault: Exception) -> bool:
    return bool(_TOO_LARGE.search(str(fault)))


def missing_module(text: str) -> UsageError:
    """Return the error for executors that cannot import a module; `text` is its name and the message."""
    name, _, message = text.partition("\n")
    top = name.partition(".")[0]
    if top == "deltacli" or not top:
        archive = command("spark package", to="DIRECTORY") or "write the archive of deltacli"
        return UsageError(
            "executors cannot import deltacli",
            code="cluster.package",
            facts={"reason": message[:200]},
            hint=f"{archive}, then give the archive to the cluster with --py-files",
        )
    return UsageError(
        f"executors lack the Python package {top}",
        code="cluster.module",
        facts={"reason": message[:200]},
        hint=f"install {top} in the Python of the executors, or set PYSPARK_PYTHON to one that has it",
    )


def explain(fault: Exception, what: str = "a job") -> DeltacliError:
    """Return a fault of Spark as an error of deltacli."""
    text = essence_of(str(fault))
    missing = _MODULE.search(str(fault))
    if missing is not None:
        return missing_module(f"{(missing[1] or missing[2]).lower()}\n{text}")
    if (program := _PROGRAM.search(str(fault))) is not None:
        return UsageError(
            f"executors cannot start {program[1]}",
            code="cluster.python",
            facts={"reason": text},
            hint="set PYSPARK_PYTHON to a Python that exists under the same path on all hosts",
        )
    if _VERSIONS.search(str(fault)):
        return UsageError(
            "the executors run another version of Python than the driver",
            code="cluster.other-version",
            facts={"reason": text},
            hint="set PYSPARK_PYTHON to the same version of Python on all hosts",
        )
    if is_too_large(fault):
        larger = parameter("open_table.spark_conf", "spark.driver.maxResultSize=2g")
        return ClusterFailed(
            "one result is larger than the driver accepts",
            code="cluster.result-size",
            facts={"reason": text},
            hint=f"{larger}, or validate and list a part of the table",
        )
    if _UNREACHABLE.search(str(fault)):
        remote, master = parameter("open_table.remote"), parameter("open_table.master")
        return ClusterFailed(
            "the cluster cannot be reached",
            code="cluster.unreachable",
            facts={"reason": text},
            hint=f"check {remote} or {master}, and that the server is running",
        )
    return ClusterFailed(f"{what} failed on the cluster", facts={"reason": text}, hint="run the same command again")


def reason_of(output: str) -> str | None:
    """Return the line of a JVM's output that names the fault, without the names of classes; None where none does."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if _HEADLINE.search(line) and number + 1 < len(lines):
            return mask_secrets(lines[number + 1])[:300]
        if _FAULT.search(line) and not line.endswith(":"):
            return mask_secrets(_CLASS.sub("", line))[:300]
    return None


def essence_of(text: str) -> str:
    """Return what a text of Spark is about, in one line: the innermost cause, without stack traces and class names."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(("at ", "File ", "Traceback", "JVM stacktrace", "... "))]
    causes = [line for line in kept if line.startswith("Caused by: ")]
    of_python = [line for line in lines if _OF_PYTHON.match(line)] if 'File "' in text else []
    found = _LOST.sub("", (of_python or causes or [" ".join(kept[:2])])[-1])
    while (shorter := _CLASS.sub("", found)) != found:
        found = shorter
    return mask_secrets(found)[:300]
