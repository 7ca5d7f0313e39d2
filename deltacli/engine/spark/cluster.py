"""A Spark session, classic or Connect, as the engine uses it: ship files, run a job, cancel exactly our own jobs.

A session refuses other content under the name of a file it already has, so the name has to change with the content.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread
from typing import Generic, TypeVar

from deltacli.core.garbage_collection import POLL_SECONDS
from deltacli.core.typing import SparkSession
from deltacli.engine.base import is_never_cancelled
from deltacli.engine.spark.package_archive import write_package
from deltacli.engine.spark.task_progress import TaskWatch, has_active_tasks, listen_to_connect, report_classic_progress

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
    """A job has failed: `cause` is the exception of Spark. An exception of the waiting thread is never one."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


@cache
def _make_directory() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="deltacli-spark-")


def _get_directory() -> str:
    """Return the directory of what is shipped, until this process ends: a session refuses a file that it knows from
    another path, and executors that start later fetch all files of the session from there.
    """
    return _make_directory().name


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
        path = write_package(_get_directory())
        self._ship(path, pyfile=True)
        return path.name

    def ship_file(self, name: str, content: bytes) -> None:
        """Send a file to every executor that needs it, once per name. A classic driver serves it from the disk."""
        if name not in self._shipped:
            path = Path(_get_directory(), name)
            path.write_bytes(content)
            self._ship(path, file=True)

    def _ship(self, path: Path, **kind: bool) -> None:
        if path.name not in self._shipped:
            self.session.addArtifacts(str(path), **kind)
            self._shipped.add(path.name)

    def run(
        self,
        action: Callable[[], Result],
        is_cancelled: Callable[[], bool] = is_never_cancelled,
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
        _make_directory().cleanup()
        _make_directory.cache_clear()

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
        self._cluster = cluster
        self._action = action
        self._tag = tag
        self._watch = watch
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
                    report_classic_progress(self._cluster.session, self._tag, self._watch)
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
            if self._cluster.is_connect or not has_active_tasks(self._cluster.session, self._tag):
                break
            Event().wait(POLL_SECONDS)
        Event().wait(_WORKER_SECONDS)

    def _listening(self) -> AbstractContextManager[None]:
        if self._watch is None or not self._cluster.is_connect:
            return nullcontext()
        return listen_to_connect(self._cluster.session, self._watch)

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
