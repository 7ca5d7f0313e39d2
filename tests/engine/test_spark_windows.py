"""The Spark engine without a cluster: which pieces a job gets, what is made of its rows, and what proves the table."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltacli.core.errors import PythonSyntax, Refused, UsageError
from deltacli.engine.spark import engine as module
from deltacli.engine.spark.cluster import Cluster
from deltacli.engine.spark.engine import SparkEngine
from deltacli.engine.spark.jobs import PROBLEM, _make_task_function, run_job
from deltacli.engine.spark.worker import BEAT, BUG, DONE, FAULT, Job, Row, SeenFile, identify_process, run_pieces
from deltacli.storage import open_storage
from deltacli.storage.location import StoreLocation, is_sendable
from deltacli.work.table_stores import TableStores
from deltacli.work.task import TaskContext


def length(piece: bytes, context: TaskContext) -> int:
    """A task with large pieces and small results."""
    return len(piece)


@pytest.fixture
def stores(tmp_path: Path) -> TableStores:
    """A table whose log has a checkpoint only."""
    log = tmp_path / "table" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{5:020d}.checkpoint.parquet").write_bytes(b"PAR1")
    uri = str(tmp_path / "table")
    return TableStores(open_storage(uri), location=StoreLocation.of(uri))


@pytest.fixture
def engine() -> Iterator[SparkEngine]:
    """An engine whose jobs are replaced."""
    made = SparkEngine(object())
    yield made
    made.close()


def test_a_window_is_limited_by_the_bytes_of_its_pieces(
    engine: SparkEngine, stores: TableStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def run_here(
        _: Cluster, job: Job, pieces: Sequence[bytes], weights: Sequence[int], slots: int, *_more: object
    ) -> list[Row]:
        assert (len(weights), slots) == (len(pieces), 1)
        sizes.append(sum(map(len, pieces)))
        values = (job.task(pickle.loads(piece), TaskContext(stores)) for piece in pieces)
        return [Row(number, DONE, pickle.dumps(value)) for number, value in enumerate(values)]

    monkeypatch.setattr(module, "run_job", run_here)
    monkeypatch.setattr(module, "check_executors", lambda *_: 1)
    monkeypatch.setattr(module, "_WINDOW_BYTES", 1 << 20)

    found = list(engine.run_tasks(length, (bytes(10_000) for _ in range(2_000)), stores))

    assert [10_000] * 2_000 == found
    assert max(sizes) <= (1 << 20) + 11_000


def half_missing(piece: int, context: TaskContext) -> int:
    """A task that needs a missing module for one piece."""
    if piece == 2:
        raise ModuleNotFoundError("No module named 'fsspec'", name="fsspec")
    return piece


def test_a_module_that_only_some_pieces_need_leaves_the_other_results(stores: TableStores) -> None:
    import pyarrow as pa

    assert stores.location is not None
    job = pickle.dumps(Job(half_missing, stores.location, None))
    pieces = pa.array([pickle.dumps(number) for number in range(4)], pa.binary())
    batch = pa.RecordBatch.from_arrays([pa.array(range(4)), pieces], ["number", "piece"])

    rows = [row for part in _make_task_function(job)(iter([batch])) for row in part.to_pylist()]

    assert [(0, DONE), (1, DONE), (2, PROBLEM), (3, PROBLEM)] == [(row["number"], row["status"]) for row in rows]


class _Session:
    """Runs the tasks of a job in this process, and counts them; `toArrow` returns all their rows."""

    def __init__(self) -> None:
        self.tasks = 0
        self._batches: list[Any] = []

    def range(self, start: int, end: int, step: int, tasks: int) -> _Session:
        assert (start, end, step) == (0, tasks, 1)
        self.tasks = tasks
        return self

    def mapInArrow(self, function: Any, _: str) -> _Session:
        import pyarrow as pa

        ids = (pa.RecordBatch.from_arrays([pa.array([part])], ["id"]) for part in range(self.tasks))
        self._batches = [answer for batch in ids for answer in function(iter([batch]))]
        return self

    def where(self, _: str) -> _Session:
        return self

    def toArrow(self) -> Any:
        import pyarrow as pa

        return pa.Table.from_batches(self._batches)


class _Doubling:
    """A task whose pieces take a known time."""

    def __init__(self, unit_seconds: float) -> None:
        self.unit_seconds = unit_seconds

    def __call__(self, piece: int, _: TaskContext) -> int:
        return 2 * piece


@pytest.mark.parametrize("unit_seconds, tasks", [(0.001, 2), (10.0, 6)])
def test_short_work_is_one_task_per_slot_and_each_piece_runs_once(
    unit_seconds: float, tasks: int, stores: TableStores
) -> None:
    session = _Session()
    assert stores.location is not None
    job = Job(_Doubling(unit_seconds), stores.location, None)
    cluster: Any = SimpleNamespace(session=session, run=lambda action, *_: action())

    rows = run_job(cluster, job, [pickle.dumps(number) for number in range(20)], [1] * 20, 2)

    assert tasks == session.tasks
    assert [2 * number for number in range(20)] == [pickle.loads(row.content) for row in rows]


def test_a_process_looks_for_the_same_seen_file_once(stores: TableStores, tmp_path: Path) -> None:
    newest = tmp_path / "table" / "_delta_log" / f"{5:020d}.checkpoint.parquet"
    assert stores.location is not None
    seen_file = SeenFile(newest.name, 4)

    first, _ = identify_process(stores.location, seen_file, PythonSyntax())
    newest.unlink()
    again, _ = identify_process(stores.location, seen_file, PythonSyntax())
    other, _ = identify_process(stores.location, SeenFile(newest.name, 5), PythonSyntax())

    assert [DONE, DONE, FAULT] == [first, again, other]


def leak(piece: int, context: TaskContext) -> int:
    """A task with a bug that quotes a secret."""
    raise ValueError(f"bad request with {os.environ['AWS_SECRET_ACCESS_KEY']}")


def test_the_traceback_of_a_bug_has_no_secret_of_the_executor(
    stores: TableStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-value-of-the-executor")
    assert stores.location is not None

    rows = [row for row in run_pieces(Job(leak, stores.location, None), [(0, pickle.dumps(0))]) if row.status != BEAT]

    assert [BUG] == [row.status for row in rows]
    assert b"ValueError" in rows[0].content
    assert b"hidden-value" not in rows[0].content


@pytest.mark.parametrize(
    "option",
    [
        ("client_kwargs", '{"headers": {"Authorization": "Bearer hidden"}}'),
        ("headers", '{"X-Api-Key": "hidden"}'),
        ("passphrase", "hidden"),
        ("access_key", "hidden"),
        ("storage_key", "hidden"),
        ("auth", "user:hidden"),
        ("config_kwargs", '{"proxies": {"https": "hidden"}}'),
        ("client_kwargs", "hidden"),
        ("endpoint_url", "https://user:hidden@host"),
    ],
)
def test_options_with_secrets_of_other_stores_are_not_sent(
    option: tuple[str, str], engine: SparkEngine, stores: TableStores
) -> None:
    location = StoreLocation.of("https://host/t", dict([option]))

    with pytest.raises(UsageError) as raised:
        list(engine.run_tasks(length, [b""], TableStores(stores.storage, location=location)))

    assert "cluster.secret" == raised.value.code
    assert option[0] in raised.value.message
    assert "hidden" not in raised.value.message


@pytest.mark.parametrize(
    "option",
    [
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9000"),
        ("token", "anon"),
        ("account_name", "lake"),
        ("client_kwargs", '{"region_name": "eu-north-1"}'),
        ("config_kwargs", '{"read_timeout": 5}'),
    ],
)
def test_options_that_hold_no_secret_are_sent(option: tuple[str, str]) -> None:
    assert is_sendable(*option)


def test_a_log_without_commits_tells_another_table(engine: SparkEngine, stores: TableStores, tmp_path: Path) -> None:
    assert stores.location is not None
    (tmp_path / "other").mkdir()

    seen_file = engine._seen_file(stores.storage, stores.location)

    assert SeenFile(f"{5:020d}.checkpoint.parquet", 4) == seen_file
    status, content = identify_process(StoreLocation.of(str(tmp_path / "other")), seen_file, PythonSyntax())
    fault: Any = pickle.loads(content)
    assert isinstance(fault, Refused)
    assert (status, fault.code) == (FAULT, "cluster.other-table")
    assert "executor" in fault.facts
