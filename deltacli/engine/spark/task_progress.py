"""Report how many tasks of a Spark job have finished.

The counts are only used for progress bars. If a session does not return them, no error is raised.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from deltacli.core.typing import SparkSession


class Stage(NamedTuple):
    """A stage of a job.

    Attributes:
        id: The id of the stage. Later stages have larger ids.
        task_count: The number of its tasks.
        finished_task_count: The number of tasks that have finished.
    """

    id: int
    task_count: int
    finished_task_count: int


class TaskWatch:
    """Reports the finished tasks of the last stage of one job.

    Spark may run other stages before, which distribute the pieces. They are recognized by their number of tasks, and
    are not reported.
    """

    def __init__(self, task_count: int, advance: Callable[[int], None]) -> None:
        """Create a watch.

        Args:
            task_count: The number of tasks of the last stage.
            advance: Called with the number of tasks that have finished since the previous call.
        """
        self._task_count = task_count
        self._advance = advance
        self._reported_count = 0

    def update(self, stages: Iterable[Stage]) -> None:
        """Report the tasks that have finished since the last update."""
        last_stage = max(stages, default=None)
        if last_stage is None or last_stage.task_count != self._task_count:
            return
        if last_stage.finished_task_count > self._reported_count:
            self._advance(last_stage.finished_task_count - self._reported_count)
            self._reported_count = last_stage.finished_task_count


def update_from_classic_session(watch: TaskWatch, session: SparkSession, job_tag: str) -> None:
    """Update a watch from the status tracker of a classic session."""
    # The job may not have started yet, or the session may be stopped.
    with suppress(Exception):
        stage_id = max(_find_stage_ids(session, job_tag))
        info = session.sparkContext.statusTracker().getStageInfo(stage_id)
        watch.update([Stage(stage_id, info.numTasks, info.numCompletedTasks)])


@contextmanager
def update_from_connect_session(watch: TaskWatch, session: SparkSession) -> Iterator[None]:
    """Update a watch while this thread runs a job in a Spark Connect session."""
    job_thread = threading.get_ident()

    # PySpark calls the handlers of a session for all of its jobs, each in the thread that waits for the job.
    def handle_progress(*, stages: Iterable[Any], **_: object) -> None:
        if threading.get_ident() != job_thread:
            return
        with suppress(Exception):
            watch.update([Stage(stage.stage_id, stage.num_tasks, stage.num_completed_tasks) for stage in stages])

    session.registerProgressHandler(handle_progress)
    try:
        yield
    finally:
        with suppress(Exception):
            session.removeProgressHandler(handle_progress)


def has_active_tasks(session: SparkSession, job_tag: str) -> bool:
    """Return whether a task of the jobs with a tag is running; False if the session does not return this."""
    with suppress(Exception):
        tracker = session.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage_id) for stage_id in _find_stage_ids(session, job_tag)]
        return any(stage.numActiveTasks > 0 for stage in stages if stage is not None)
    return False


def _find_stage_ids(session: SparkSession, job_tag: str) -> list[int]:
    context = session.sparkContext
    # The status tracker of PySpark cannot find jobs by their tag. The one of the JVM can.
    job_ids = context._jsc.sc().statusTracker().getJobIdsForTag(job_tag)
    tracker = context.statusTracker()
    return [stage_id for job_id in job_ids for stage_id in tracker.getJobInfo(job_id).stageIds]
