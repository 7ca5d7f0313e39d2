"""Check all executors before the first job of a table.

Three things can be wrong on an executor without any error of Spark: it has another version of deltacli, Python or
pyarrow, its clock is wrong, or the path of the table is another directory there, such as a local disk.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from deltacli.core.errors import (
    Refused,
    UsageError,
    get_hint_syntax,
)
from deltacli.core.machine import system_clock
from deltacli.core.times import format_timestamp
from deltacli.core.typing import RecordBatch
from deltacli.engine.spark.cluster import Cluster, JobFailedError
from deltacli.engine.spark.jobs import PROBLEM, RESULT_SCHEMA
from deltacli.engine.spark.spark_errors import make_cluster_error, make_missing_module_error
from deltacli.engine.spark.worker import FAULT, Fingerprint, SeenFile
from deltacli.storage.optional_interfaces import Openable

_MAX_CLOCK_SKEW_MS = 30_000

_CHECKED_ROWS = 1 << 12
"""The number of rows of the checking job. Spark divides them into one partition per slot, so each slot gets some."""


def check_executors(cluster: Cluster, location: Openable, seen_file: SeenFile | None) -> int:
    """Send the package of deltacli to the executors, and compare each of them with the driver.

    Args:
        cluster: The session.
        location: The table, as executors open it.
        seen_file: A log file of the table. Executors must see it with the same size.

    Returns:
        The number of task slots of the cluster.

    Raises:
        UsageError: If an executor has another version (`cluster.other-version`), or lacks a module.
        Refused: If an executor sees another table, or its clock is wrong (`cluster.clock-skew`).
        ClusterFailed: If the job fails.
    """
    payload = pickle.dumps((location, seen_file, get_hint_syntax()))
    sent_ms = system_clock()
    try:
        cluster.run(cluster.ship_package)
        answers = cluster.run(lambda: _run_checks(cluster, payload))
    except JobFailedError as failed:
        raise make_cluster_error(failed, "the first job") from failed

    for status, content in answers:
        if status == PROBLEM:
            raise make_missing_module_error(content.decode(errors="replace"))
        if status == FAULT:
            raise pickle.loads(content)
        *versions, executor_ms = pickle.loads(content)
        _require_same_versions(Fingerprint(*versions))
        _require_same_time(executor_ms, sent_ms)
    return len(answers)


def _require_same_versions(executor: Fingerprint) -> None:
    """Compare the versions of an executor with those of this process. Raises UsageError."""
    driver = Fingerprint.read_from_this_process()
    for name, driver_version, executor_version in zip(Fingerprint._fields, driver, executor, strict=True):
        if driver_version != executor_version:
            raise UsageError(
                f"executors run {name} {executor_version}, the driver {driver_version}",
                code="cluster.other-version",
                hint=f"install the same version of {name} on all hosts",
            )


def _require_same_time(executor_ms: int, sent_ms: int) -> None:
    """Compare the clock of an executor with the time between the request and now. Raises Refused.

    Args:
        executor_ms: The time of the answer, by the clock of the executor.
        sent_ms: The time of the request, by the clock of this host.
    """
    received_ms = system_clock()
    if not sent_ms - _MAX_CLOCK_SKEW_MS <= executor_ms <= received_ms + _MAX_CLOCK_SKEW_MS:
        raise Refused(
            f"the clock of an executor is {format_timestamp(executor_ms)}, the clock of the driver "
            f"{format_timestamp(received_ms)}",
            code="cluster.clock-skew",
            hint="date -u",
        )


def _run_checks(cluster: Cluster, payload: bytes) -> list[tuple[str, bytes]]:
    """Run `worker.identify_process` in each slot, and return the statuses and contents of the answers."""

    # PySpark pickles this function by value, so it also runs on an executor without deltacli, and reports that.
    def check_process(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        for _ in batches:
            pass
        try:
            from deltacli.engine.spark.worker import identify_process

            status, content = identify_process(*pickle.loads(payload))
        except ImportError as error:
            status = "problem"
            content = f"{error.name or ''}\n{error}".encode()
        columns = [pa.array([0], pa.int64()), pa.array([status]), pa.array([content], pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, names=["number", "status", "content"])

    frame = cluster.session.range(_CHECKED_ROWS).mapInArrow(check_process, RESULT_SCHEMA)
    answers: Any = frame.toArrow()  # Any: a table of Arrow
    return list(zip(answers.column("status").to_pylist(), answers.column("content").to_pylist(), strict=True))
