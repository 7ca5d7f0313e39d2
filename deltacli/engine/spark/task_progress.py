"""Report the progress of a Spark job.

What the session says about the tasks of a job is for progress only, so looking at it never raises.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple


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
        self._tasks = tasks
        self._advance = advance
        self._ended = 0

    def note(self, stages: Iterable[Stage]) -> None:
        """Report what has ended since the last call."""
        last = max((stage for stage in stages), default=None)
        if last is not None and last.tasks == self._tasks and last.ended > self._ended:
            self._advance(last.ended - self._ended)
            self._ended = last.ended


def report_classic_progress(session: Any, tag: str, watch: TaskWatch) -> None:
    """Look at the jobs with a tag, in a classic session."""
    with suppress(Exception):  # the job may not have begun, or the session may be gone
        newest = max(_find_stages(session, tag))
        info = session.sparkContext.statusTracker().getStageInfo(newest)
        watch.note([Stage(newest, info.numTasks, info.numCompletedTasks)])


def has_active_tasks(session: Any, tag: str) -> bool:
    """Return whether a task of the jobs with a tag runs; False where a classic session cannot say."""
    with suppress(Exception):  # the session may be gone
        tracker = session.sparkContext.statusTracker()
        return any(info.numActiveTasks > 0 for info in map(tracker.getStageInfo, _find_stages(session, tag)) if info)
    return False


def _find_stages(session: Any, tag: str) -> list[int]:
    context = session.sparkContext
    jobs = context._jsc.sc().statusTracker().getJobIdsForTag(tag)  # the tracker of PySpark knows groups only
    return [number for job in jobs for number in context.statusTracker().getJobInfo(job).stageIds]


@contextmanager
def listen_to_connect(session: Any, watch: TaskWatch) -> Iterator[None]:
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
