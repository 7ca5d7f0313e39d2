"""Run jobs in a Spark session, and cancel them.

A `Cluster` wraps the session of the user, classic or Spark Connect. It sends files to the executors, runs jobs, and
cancels its own jobs, but never those of the user.
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
from deltacli.engine.spark.task_progress import (
    TaskWatch,
    has_active_tasks,
    update_from_classic_session,
    update_from_connect_session,
)

Result = TypeVar("Result")

_CANCEL_TIMEOUT_SECONDS = 10.0
"""How long to wait for the end of a cancelled job."""

_PROGRESS_INTERVAL_SECONDS = 0.5
"""How often the progress of a job is read. Each time takes some milliseconds."""

_ABANDON_TIMEOUT_SECONDS = 1.5
"""How long to wait for the request that cancels the jobs when the process ends immediately."""

_WORKER_EXIT_SECONDS = 1.0
"""A Python worker ends at most this long after its task (see `worker_lifetime.py`)."""


class JobFailedError(Exception):
    """A job has failed.

    Errors of the thread that waits for the job, such as a KeyboardInterrupt, are not wrapped.

    Attributes:
        cause: The exception of Spark.
    """

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


@cache
def _make_artifact_directory() -> TemporaryDirectory[str]:
    """Create the directory of the files that are sent to executors. It exists until this process ends.

    It is not removed earlier, because executors that start later fetch the files of the session from it.
    """
    return TemporaryDirectory(prefix="deltacli-spark-")


class Cluster:
    """A Spark session in which deltacli runs jobs.

    Attributes:
        session: The `pyspark.sql.SparkSession`, classic or Spark Connect.
        is_connect: Whether it is a Spark Connect session.
    """

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.is_connect = type(session).__module__.startswith("pyspark.sql.connect")
        self._sent_names: set[str] = set()
        self._tag_prefix = f"deltacli-{os.urandom(8).hex()}"
        self._running_tags: set[str] = set()

    def ship_package(self) -> str:
        """Make the modules of deltacli importable on executors. Return the name of the archive.

        The name contains a hash of the content: a session refuses a second file with the same name.
        """
        archive = write_package(_make_artifact_directory().name)
        self._add_artifact(archive, pyfile=True)
        return archive.name

    def ship_file(self, name: str, content: bytes) -> None:
        """Send a file to the executors. A name that was already sent is not sent again."""
        if name in self._sent_names:
            return
        # The driver of a classic session serves the file from the disk.
        path = Path(_make_artifact_directory().name, name)
        path.write_bytes(content)
        self._add_artifact(path, file=True)

    def _add_artifact(self, path: Path, **artifact_type: bool) -> None:
        if path.name not in self._sent_names:
            self.session.addArtifacts(str(path), **artifact_type)
            self._sent_names.add(path.name)

    def run(
        self,
        action: Callable[[], Result],
        is_cancelled: Callable[[], bool] = is_never_cancelled,
        watch: TaskWatch | None = None,
        description: str | None = None,
    ) -> Result:
        """Run an action, such as a call of `toArrow`, and return its result.

        The action runs in another thread, because a signal does not interrupt a call into the JVM. Any exception in
        this thread, such as a KeyboardInterrupt, cancels the jobs of the action.

        Args:
            action: Runs one or more Spark jobs.
            is_cancelled: Called repeatedly. When it returns True, the jobs are cancelled.
            watch: Receives the progress of the jobs.
            description: A description for the Spark UI. Only classic sessions show it.

        Raises:
            JobFailedError: If the action raises an exception.
            CancelledError: If `is_cancelled` returns True.
        """
        tag = f"{self._tag_prefix}-{os.urandom(4).hex()}"
        self._running_tags.add(tag)
        try:
            return _ActionThread(self, action, tag, watch, description).wait_for_result(is_cancelled)
        finally:
            self._running_tags.discard(tag)

    def abandon(self) -> None:
        """Request the cancellation of all jobs, without waiting for their end.

        This is called when the process is about to end. A Spark Connect server would continue to run the jobs.
        """
        has_requested = Event()

        def cancel_all() -> None:
            for tag in list(self._running_tags):
                self.cancel(tag)
            has_requested.set()

        if self._running_tags:
            Thread(target=cancel_all, name="deltacli-abandon", daemon=True).start()
            has_requested.wait(_ABANDON_TIMEOUT_SECONDS)

    def stop(self) -> None:
        """Stop the session, and remove the local copies of the files that were sent. Only for sessions of our own."""
        with suppress(Exception):  # it may be stopped already
            self.session.stop()
        _make_artifact_directory().cleanup()
        _make_artifact_directory.cache_clear()

    @contextmanager
    def tag_jobs(self, tag: str, description: str | None) -> Iterator[None]:
        """Add a tag and a description to the jobs that this thread starts."""
        if self.is_connect:
            self.session.addTag(tag)
            try:
                yield
            finally:
                self.session.removeTag(tag)
            return

        context = self.session.sparkContext
        context.addJobTag(tag)
        if description is not None:
            # The description applies to this thread, which runs only one action, so it is not reset.
            context.setJobDescription(description)
        try:
            yield
        finally:
            context.removeJobTag(tag)

    def cancel(self, tag: str) -> None:
        """Cancel the jobs with a tag."""
        # The session may be stopped. Then the jobs have ended, too.
        with suppress(Exception):
            if self.is_connect:
                self.session.interruptTag(tag)
            else:
                # Measured: `interruptTag` of a classic session does not cancel jobs of other threads.
                self.session.sparkContext.cancelJobsWithTag(tag)


class _ActionThread(Generic[Result]):
    """Runs an action in a thread, and cancels its jobs if the wait for them is interrupted."""

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
        # The thread acquires this lock before it runs the action. If an interrupted wait acquires it first, the action
        # never runs.
        self._start_lock = Lock()
        self._has_ended = Event()
        self._results: list[Result] = []
        self._error: BaseException | None = None

    def wait_for_result(self, is_cancelled: Callable[[], bool]) -> Result:
        """Start the action and wait for its result. An exception in the wait cancels the action.

        Raises:
            JobFailedError: If the action raises an exception.
            CancelledError: If `is_cancelled` returns True.
        """
        try:
            Thread(target=self._run_action, name="deltacli-spark", daemon=True).start()
            self._wait_for_end(is_cancelled)
        except BaseException:
            has_started = not self._start_lock.acquire(blocking=False)
            if has_started:
                self._cancel()
            raise

        if self._error is not None:
            # Spark cancels the other tasks of a failed job. Their workers may still be running.
            self._wait_for_workers()
            raise JobFailedError(self._error) from self._error
        return self._results[0]

    def _wait_for_end(self, is_cancelled: Callable[[], bool]) -> None:
        seconds_since_update = 0.0
        while not self._has_ended.wait(POLL_SECONDS):
            if is_cancelled():
                raise CancelledError
            # The progress of a Spark Connect session arrives by itself, see `_listen_to_progress`.
            if self._watch is None or self._cluster.is_connect:
                continue
            seconds_since_update += POLL_SECONDS
            if seconds_since_update >= _PROGRESS_INTERVAL_SECONDS:
                seconds_since_update = 0.0
                update_from_classic_session(self._watch, self._cluster.session, self._tag)

    def _cancel(self) -> None:
        """Cancel the jobs of the action, and wait until its tasks have ended, so that nothing is written afterwards."""
        waited_seconds = 0.0
        while not self._has_ended.is_set() and waited_seconds < _CANCEL_TIMEOUT_SECONDS:
            # Repeat the request: a job that is just being submitted is not found the first time.
            self._cluster.cancel(self._tag)
            self._has_ended.wait(POLL_SECONDS)
            waited_seconds += POLL_SECONDS
        self._wait_for_workers()

    def _wait_for_workers(self) -> None:
        """Wait until no Python worker of the jobs is running.

        A Spark Connect server does not say which tasks are running.
        """
        for _ in range(int(_CANCEL_TIMEOUT_SECONDS / POLL_SECONDS)):
            if self._cluster.is_connect or not has_active_tasks(self._cluster.session, self._tag):
                break
            Event().wait(POLL_SECONDS)
        Event().wait(_WORKER_EXIT_SECONDS)

    def _listen_to_progress(self) -> AbstractContextManager[None]:
        if self._watch is None or not self._cluster.is_connect:
            return nullcontext()
        return update_from_connect_session(self._watch, self._cluster.session)

    def _run_action(self) -> None:
        if not self._start_lock.acquire(blocking=False):
            return
        try:
            with self._cluster.tag_jobs(self._tag, self._description), self._listen_to_progress():
                self._results.append(self._action())
        except BaseException as error:  # noqa: BLE001  (raised again in the waiting thread)
            self._error = error
        finally:
            self._has_ended.set()
