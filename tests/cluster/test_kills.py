"""A driver, or an executor that is busy, is killed at each step of `checkpoint` and `vacuum`, with speculation on.

Afterwards the table is sound, and the same command does the rest: the state, the plan and the counts are those of the
embedded engine, and nothing is left that no checkpoint references.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table, open_table
from deltacli.core.errors import ClusterFailed, PartlyDone
from deltacli.engine.spark.engine import SparkEngine
from tests.cluster import mortal_tables as tables
from tests.cluster.commands import start
from tests.cluster.gates import Gates, Step, executor_of, executors, is_running, kill, of_session, wait_until
from tests.support.clusters import Cluster
from tests.support.effort import is_soaking

CHECKPOINTS = {
    "v2": ("--layout", "v2", "--rows-per-file", str(tables.ROWS_PER_FILE)),
    "multi-part": ("--layout", "multi-part", "--parts", "3"),
    "classic": ("--layout", "classic"),
}
TOP, SIDECAR, HINT = ".checkpoint.", "_delta_log/_sidecars/", "_last_checkpoint"
CHECKPOINT_STEPS = [
    ("v2", Step("begin", SIDECAR)),
    ("v2", Step("publish", SIDECAR, "after", executor=True)),
    ("v2", Step("publish", f"_delta_log/{1:020d}{TOP}")),
    ("v2", Step("publish", f"_delta_log/{1:020d}{TOP}", "after")),
    ("v2", Step("put", HINT)),
    ("v2", Step("put", HINT, "after")),
    ("multi-part", Step("publish", TOP)),
    ("multi-part", Step("publish", TOP, "after", number=2)),
    ("multi-part", Step("put", HINT)),
    ("classic", Step("publish", TOP)),
    ("classic", Step("put", HINT)),
]
"""What the driver was about to do, or had done, when it was killed; or an executor that worked for it."""
SIDECARS = tables.FILES // tables.ROWS_PER_FILE
"""Sidecars of a checkpoint by executors; the driver writes one more for newer commits."""
BESIDE = 2
"""Tasks that may run beside one that fails: each can publish its sidecar after the failed run has swept."""
VACUUM = ("--yes", "--json", "--max-delete", "100%")
VACUUM_STEPS = [
    Step("walk", executor=True),
    Step("create", "_delta_log/"),
    Step("create", "_delta_log/", "after"),
    Step("delete", "orphan", number=7, executor=True),
    Step("create", "_delta_log/", number=2),
    Step("create", "_delta_log/", "after", number=2),
    Step("put", "_last_vacuum_info"),
]
CHOSEN: dict[str, list[object]] = {
    "local": [CHECKPOINT_STEPS[1], CHECKPOINT_STEPS[3], VACUUM_STEPS[3]],
    "connect": [*CHECKPOINT_STEPS[:6:2], *VACUUM_STEPS[::2]],
    "standalone": [*CHECKPOINT_STEPS, *VACUUM_STEPS],
}
"""The steps that are tried on a cluster, except by `dev.py soak`: a driver of our own takes ten seconds to start."""


@pytest.fixture(autouse=True)
def gate_left_open(gates: Gates) -> Iterator[None]:
    """No process waits when a test is over."""
    yield
    gates.open()


def _require_chosen(cluster: Cluster, step: object) -> None:
    if step not in CHOSEN[cluster.kind] and not is_soaking():
        pytest.skip("this step is tried on another kind of cluster")


def _killed(cluster: Cluster, gates: Gates, step: Step, *arguments: str) -> None:
    """Run a command, kill its driver while a process is at a step, and wait until none of its processes runs.

    The workers of a Connect server go on without its client.
    """
    others = executors()
    gates.close(step)
    driver = start(*arguments, *cluster.options)
    try:
        waiting = gates.wait(lambda: driver.poll() is not None)
    except AssertionError as fault:
        kill(driver.pid)
        raise AssertionError(driver.communicate()) from fault
    assert step.executor == (waiting != driver.pid)
    ours = executors() - others
    kill(driver.pid)
    driver.communicate()
    if cluster.settings.remote:
        gates.open()
    wait_until(lambda: not of_session(driver.pid) and not any(map(is_running, ours)))
    gates.open()


# -- checkpoint --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("layout", "step"), CHECKPOINT_STEPS, ids=str)
def test_a_checkpoint_whose_driver_is_killed(
    layout: str, step: Step, cluster: Cluster, gates: Gates, spark_engine: SparkEngine, tmp_path: Path
) -> None:
    """Acceptance case 9: no hint moved, orphans swept, `--verify` equal."""
    _require_chosen(cluster, (layout, step))
    place = tables.with_checkpoint(tmp_path / "tbl", layout=layout)
    before, hint = tables.state(place), (place / "_delta_log" / HINT).read_bytes()

    _killed(cluster, gates, step, "checkpoint", str(place), *CHECKPOINTS[layout])

    moved = hint != (place / "_delta_log" / HINT).read_bytes()
    assert moved == (step == Step("put", HINT, "after"))
    if cluster.settings.remote and step.executor:
        wait_until(lambda: len(tables.present_sidecars(place)) == 2 * SIDECARS + 1 and not tables.drafts(place))
    tables.require_sound(place, before)
    _write_again(place, layout, spark_engine)
    tables.require_sound(place, before)
    _require_swept(place)
    tables.require_readable_by_others(place, tables.FILES)


def _write_again(place: Path, layout: str, engine: SparkEngine) -> None:
    options: dict[str, Any] = {"v2": {"rows_per_file": tables.ROWS_PER_FILE}, "multi-part": {"parts": 3}}
    result = open_table(str(place), engine=engine).checkpoint(layout=layout, **options.get(layout, {}))
    assert 1 == result.version == result.hint_version


def _require_swept(place: Path) -> None:
    """A run deletes what it left itself, and the next one the drafts of a killed one; sidecars of a killed run are
    deleted with the log that expires.
    """
    assert [] == tables.drafts(place)
    tables.expire_later(place)
    assert tables.named_sidecars(place) == tables.present_sidecars(place)


@pytest.mark.parametrize(
    "step",
    [
        Step("begin", SIDECAR, executor=True),
        Step("publish", SIDECAR, executor=True),
        Step("publish", SIDECAR, "after", number=2, executor=True),
    ],
    ids=str,
)
def test_a_checkpoint_of_which_an_executor_is_killed(
    step: Step, cluster: Cluster, gates: Gates, spark_engine: SparkEngine, tmp_path: Path
) -> None:
    place = tables.with_checkpoint(tmp_path / "tbl", layout="v2")
    before = tables.state(place)
    gates.close(step)
    killing = _in_thread(lambda: kill(executor_of(gates.wait())))

    failed = _fails(lambda: _write_again(place, "v2", spark_engine))
    killing.join()

    assert failed == (cluster.kind != "standalone")  # a local master tries nothing again
    tables.require_sound(place, before)
    unnamed = {name for name in tables.present_sidecars(place) if name[0] != "."} - tables.named_sidecars(place)
    assert len(unnamed) <= (BESIDE if failed else 0)
    gates.open()
    if failed:
        _write_again(place, "v2", spark_engine)
    tables.require_sound(place, before)
    _require_swept(place)
    tables.require_readable_by_others(place, tables.FILES)


# -- vacuum ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", VACUUM_STEPS, ids=str)
def test_a_vacuum_whose_driver_is_killed(
    step: Step, cluster: Cluster, gates: Gates, spark_engine: SparkEngine, tmp_path: Path
) -> None:
    """Acceptance case 2: counts = files gone = END commit."""
    _require_chosen(cluster, step)
    place = tables.with_orphans(tmp_path / "tbl")
    before = tables.state(place)

    _killed(cluster, gates, step, "vacuum", str(place), *VACUUM)

    if cluster.settings.remote and step.call == "delete":
        wait_until(lambda: not tables.orphans(place))
    tables.require_sound(place, before)
    left = tables.orphans(place)
    assert _plan(place, None) == _plan(place, spark_engine)
    assert left == _vacuum(open_table(str(place), engine=spark_engine))
    if left:
        assert left == _deleted_by_the_log(place)
    assert 0 == tables.orphans(place)
    tables.require_sound(place, before)
    tables.require_readable_by_others(place, 2)


@pytest.mark.parametrize(
    "step",
    [
        Step("walk", executor=True),
        Step("delete", "orphan", executor=True),
        Step("delete", "orphan", "after", number=300, executor=True),
    ],
    ids=str,
)
def test_a_vacuum_of_which_an_executor_is_killed(
    step: Step, cluster: Cluster, gates: Gates, spark_engine: SparkEngine, tmp_path: Path
) -> None:
    """Acceptance case 2: counts = files gone = END commit; an executor is killed in the middle of a batch."""
    place = tables.with_orphans(tmp_path / "tbl")
    before = tables.state(place)
    table = open_table(str(place), engine=spark_engine)
    gates.close(step)
    killing = _in_thread(lambda: kill(executor_of(gates.wait())))
    deleted: list[int] = []

    failed = _fails(lambda: deleted.append(_vacuum(table)))
    killing.join()

    assert failed == (cluster.kind != "standalone")
    tables.require_sound(place, before)
    left = _orphans_left(place)
    gates.open()
    assert _plan(place, None) == _plan(place, spark_engine)
    if failed:
        if step.call == "delete":
            assert ("VACUUM END", "FAILED") == _end_of(place)
        assert left == _vacuum(open_table(str(place), engine=spark_engine))
        deleted = [left]
    else:
        assert [tables.ORPHANS] == deleted
    assert deleted == [_deleted_by_the_log(place)]
    assert 0 == tables.orphans(place)
    tables.require_sound(place, before)


def _orphans_left(place: Path) -> int:
    """Count orphans once nobody deletes any more: tasks beside a failed one go on for a moment."""
    counts: list[int] = []

    def is_settled() -> bool:
        counts.append(tables.orphans(place))
        return len(counts) > 20 and len(set(counts[-20:])) == 1

    wait_until(is_settled)
    return counts[-1]


def _vacuum(table: Table) -> int:
    """Return the number of files that a vacuum says it has deleted."""
    outcome = table.vacuum(max_delete="100%").outcome
    assert outcome is not None
    return outcome.deleted.files


def _deleted_by_the_log(place: Path) -> int:
    return int(tables.last_commit(place)["operationMetrics"]["numDeletedFiles"])


def _end_of(place: Path) -> tuple[str, str]:
    info = tables.last_commit(place)
    return info["operation"], info["operationParameters"]["status"]


def _plan(place: Path, engine: SparkEngine | None) -> Any:  # Any: JSON values
    return tables.plan_document(open_table(str(place), engine=engine, clock=lambda: 1_900_000_000_000))


def _fails(work: Any) -> bool:  # Any: a function
    """Return whether the cluster failed, also after something was done. Any other error is raised."""
    try:
        work()
    except ClusterFailed:
        return True
    except PartlyDone as partly:
        if partly.code != ClusterFailed.code:
            raise
        return True
    return False


def _in_thread(work: Any) -> threading.Thread:  # Any: a function
    thread = threading.Thread(target=work)
    thread.start()
    return thread
