"""Progress of jobs: tasks that have ended, however Spark reports them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from deltacli.engine.spark.task_progress import (
    Stage,
    TaskWatch,
    has_active_tasks,
    update_from_classic_session,
    update_from_connect_session,
)


class _Counter:
    def __init__(self) -> None:
        self.amounts: list[int] = []

    def advance(self, amount: int) -> None:
        self.amounts.append(amount)


def test_only_the_last_stage_counts_and_only_what_is_new() -> None:
    counter = _Counter()
    watch = TaskWatch(6, counter.advance)

    for stages in [[(1, 2, 2)], [(1, 2, 2), (2, 6, 1)], [(2, 6, 1)], [], [(2, 6, 5), (1, 2, 2)], [(2, 6, 4)]]:
        watch.update([Stage(*stage) for stage in stages])

    assert [1, 4] == counter.amounts


def test_a_classic_session_is_asked_for_the_jobs_of_a_tag() -> None:
    counter = _Counter()
    tracker = SimpleNamespace(
        getJobInfo={3: SimpleNamespace(stageIds=[7, 8])}.get,
        getStageInfo={8: SimpleNamespace(numTasks=6, numCompletedTasks=2, numActiveTasks=1)}.get,
    )
    scala = SimpleNamespace(getJobIdsForTag={"ours": [3]}.__getitem__)
    java = SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: scala))
    session = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker, _jsc=java))

    update_from_classic_session(TaskWatch(6, counter.advance), session, "ours")
    update_from_classic_session(TaskWatch(6, counter.advance), session, "theirs")

    assert [2] == counter.amounts
    assert has_active_tasks(session, "ours")
    assert not has_active_tasks(session, "theirs")


def test_a_connect_session_reports_while_the_job_runs() -> None:
    counter, handlers = _Counter(), list[Callable[..., Any]]()
    session = SimpleNamespace(registerProgressHandler=handlers.append, removeProgressHandler=handlers.remove)

    with update_from_connect_session(TaskWatch(6, counter.advance), session):
        stage = SimpleNamespace(stage_id=8, num_tasks=6, num_completed_tasks=3)
        handlers[0](stages=[stage], inflight_tasks=2, operation_id="a", done=False)

    assert [3] == counter.amounts
    assert [] == handlers
