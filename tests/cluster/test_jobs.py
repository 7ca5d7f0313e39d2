"""Jobs of the Spark engine: order, errors, cancelling, and what an executor refuses."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltacli.core.errors import ClusterFailed, DeltacliError, Refused, UsageError
from deltacli.engine.spark.cluster import JobFailedError
from deltacli.engine.spark.engine import SparkEngine
from deltacli.storage import open_storage
from deltacli.storage.location import StoreLocation
from deltacli.work.table_stores import TableStores
from tests.cluster.tasks import double, fail, touch_slowly
from tests.support.clusters import Cluster


@pytest.fixture
def stores(tmp_path: Path) -> TableStores:
    """A directory with a log of one file."""
    log = tmp_path / "table" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("{}\n")
    uri = str(tmp_path / "table")
    return TableStores(open_storage(uri), location=StoreLocation.of(uri))


def test_smoke_results_come_in_order_up_to_the_first_piece_that_fails(
    spark_engine: SparkEngine, stores: TableStores
) -> None:
    results = spark_engine.run_tasks(double, range(300), stores, shared={"broken": 250}, weigh=lambda piece: piece % 7)

    assert [2 * piece for piece in range(250)] == [next(results) for _ in range(250)]
    with pytest.raises(DeltacliError, match="piece 250 is broken") as raised:
        next(results)
    assert "test.broken" == raised.value.code


def test_large_shared_values_are_sent_as_a_file(spark_engine: SparkEngine, stores: TableStores) -> None:
    shared = {"broken": -1, "ballast": bytes(1 << 20)}

    assert [0, 2, 4] == list(spark_engine.run_tasks(double, range(3), stores, shared=shared))


def test_pieces_too_large_for_the_function_of_a_job_are_a_table(spark_engine: SparkEngine, stores: TableStores) -> None:
    pieces: list[Any] = [bytes([number]) * 10_000 for number in range(40)]

    assert [2 * piece for piece in pieces] == list(
        spark_engine.run_tasks(double, pieces, stores, shared={"broken": -1})
    )


def test_a_bug_in_a_task_is_raised_with_its_traceback(spark_engine: SparkEngine, stores: TableStores) -> None:
    with pytest.raises(RuntimeError, match="IndexError"):
        list(spark_engine.run_tasks(fail, range(3), stores))


def test_executors_that_see_another_table_are_refused(spark_engine: SparkEngine, stores: TableStores) -> None:
    elsewhere = TableStores(stores.storage, location=StoreLocation.of(f"{stores.storage.uri}-elsewhere"))

    with pytest.raises(Refused) as raised:
        list(spark_engine.run_tasks(double, range(3), elsewhere, shared={"broken": -1}))

    assert "cluster.other-table" == raised.value.code


@pytest.mark.parametrize(
    "location, code",
    [
        (None, "cluster.local-store"),
        (StoreLocation.of("s3://b/t", {"aws_secret_access_key": "hidden-value"}), "cluster.secret"),
        (StoreLocation.of("https://user:hidden-value@host/t"), "cluster.secret"),
    ],
)
def test_what_cannot_be_sent_is_refused_without_a_job(
    location: StoreLocation | None, code: str, spark_engine: SparkEngine, stores: TableStores
) -> None:
    with pytest.raises(UsageError) as raised:
        list(spark_engine.run_tasks(double, range(3), TableStores(stores.storage, location=location)))

    assert code == raised.value.code
    assert "hidden-value" not in f"{raised.value} {raised.value.facts}"


class _InterruptedError(Exception):
    """What the handler of the signal raises, as the one of deltacli does."""


@pytest.fixture
def interrupting() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise _InterruptedError

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("interrupting")
def test_an_interruption_cancels_our_job_at_once_and_no_other(
    spark_engine: SparkEngine, stores: TableStores, tmp_path: Path
) -> None:
    place = str(tmp_path)
    others: list[Any] = []
    theirs = threading.Thread(target=lambda: others.append(_count_slowly(spark_engine)))
    list(spark_engine.run_tasks(double, range(3), stores, shared={"broken": -1}))  # workers are warm
    theirs.start()

    results = spark_engine.run_tasks(touch_slowly, range(40), stores, shared={"place": place, "seconds": 1.0})
    threading.Thread(target=_interrupt_when_begun, args=(tmp_path,)).start()
    with pytest.raises(_InterruptedError):
        list(results)
    raised = time.monotonic()
    ended = len(list(tmp_path.glob("ended-*")))
    theirs.join()

    assert [2] == others
    assert ended <= len(list(tmp_path.glob("ended-*"))) <= ended + 1  # without the beats of workers: 4 or more
    assert len(list(tmp_path.glob("begun-*"))) < 40
    assert raised - _signal_sent[0] < 10  # half of the time that the job would take


class _Steps:
    """A progress that keeps how far each step came, and how often it advanced."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int | None, list[int]]] = []

    @contextmanager
    def step(self, what: str, *, unit: str, total: int | None = None) -> Iterator[Any]:  # noqa: ARG002
        amounts: list[int] = []
        self.steps.append((what, total, amounts))
        yield SimpleNamespace(advance=amounts.append)


def test_progress_advances_while_a_job_runs(spark_engine: SparkEngine, stores: TableStores, tmp_path: Path) -> None:
    progress = _Steps()
    engine = SparkEngine(spark_engine._cluster.session, progress=progress)
    shared = {"place": str(tmp_path), "seconds": 0.5}

    list(engine.run_tasks(touch_slowly, range(12), stores, shared=shared))
    engine.close()

    names = [what for what, _, _ in progress.steps]
    _, total, amounts = progress.steps[-1]
    assert ["preparing the cluster", "on the cluster"] == names
    assert total is not None
    assert 0 < amounts[0] < total  # not all at the end
    assert sum(amounts) <= total


@pytest.mark.parametrize("how", ["cancelled", "abandoned"])
def test_a_job_ends_at_once_when_its_caller_says_so_or_leaves(
    how: str, spark_engine: SparkEngine, stores: TableStores, tmp_path: Path
) -> None:
    """Cancelled as by a vacuum, whose deletions run in another thread; abandoned as by a second Ctrl-C."""
    shared = {"place": str(tmp_path), "seconds": 1.0}
    stop = threading.Event()
    list(spark_engine.run_tasks(double, range(3), stores, shared={"broken": -1}))  # workers are warm

    def end() -> None:
        _wait_until_begun(tmp_path)
        if how == "cancelled":
            stop.set()
        else:
            spark_engine.abandon()

    threading.Thread(target=end).start()
    with pytest.raises(CancelledError if how == "cancelled" else ClusterFailed):
        list(spark_engine.run_tasks(touch_slowly, range(40), stores, shared=shared, is_cancelled=stop.is_set))
    ended = len(list(tmp_path.glob("ended-*")))
    time.sleep(1.5)

    assert ended == len(list(tmp_path.glob("ended-*")))
    assert len(list(tmp_path.glob("begun-*"))) < 20


def test_a_job_that_failed_is_over_when_its_slowest_task_is(
    cluster: Cluster, spark_engine: SparkEngine, tmp_path: Path
) -> None:
    if cluster.settings.remote:
        pytest.skip("a Connect server does not say what runs")

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.column("id")[0].as_py() == 0:
                while not list(tmp_path.glob("begun-*")):
                    time.sleep(0.05)
                raise ValueError("broken")
            (tmp_path / "begun-1").touch()
            time.sleep(1.6)  # without a beat, as a worker that is being started
            (tmp_path / "ended-1").touch()
            yield batch

    frame = spark_engine._cluster.session.range(0, 2, 1, 2).mapInArrow(work, "id long")
    with pytest.raises(JobFailedError):
        spark_engine._cluster.run(frame.toArrow)
    ended = (tmp_path / "ended-1").exists()
    time.sleep(1.5)

    assert ended == (tmp_path / "ended-1").exists()


_signal_sent: list[float] = []


def _interrupt_when_begun(place: Path) -> None:
    _wait_until_begun(place)
    _signal_sent[:] = [time.monotonic()]
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)


def _wait_until_begun(place: Path) -> None:
    while not list(place.glob("begun-*")):
        time.sleep(0.05)


def _count_slowly(engine: SparkEngine) -> int:
    """A job of the user's own on the same session."""

    def slow(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            time.sleep(3)
            yield batch

    session = engine._cluster.session
    return int(session.range(2).repartition(1).mapInArrow(slow, "id long").count())
