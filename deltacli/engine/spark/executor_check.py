"""Ask every executor whether it runs the same versions, has the same time, and sees the same table."""

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
from deltacli.engine.spark.jobs import PROBLEM, RESULT
from deltacli.engine.spark.spark_errors import make_cluster_error, make_missing_module_error
from deltacli.engine.spark.worker import FAULT, Fingerprint, SeenFile
from deltacli.storage.optional_interfaces import Openable

_CLOCK_MS = 30_000
"""Milliseconds by which the clocks of hosts may differ."""


def check_executors(cluster: Cluster, location: Openable, seen_file: SeenFile | None) -> int:
    """Ship the package, compare every executor that answers with the driver, and return the number of task slots.

    Raises UsageError for other versions and missing modules, Refused for another table, and ClusterFailed.
    """
    wanted = Fingerprint.read_from_this_process()
    payload = pickle.dumps((location, seen_file, get_hint_syntax()))
    sent_ms = system_clock()
    try:
        cluster.run(cluster.ship_package)
        answers = cluster.run(lambda: _ask_executors(cluster, payload))
    except JobFailedError as failed:
        raise make_cluster_error(failed, "the first job") from failed
    for status, content in answers:
        if status == PROBLEM:
            raise make_missing_module_error(content.decode(errors="replace"))
        if status == FAULT:
            raise pickle.loads(content)
        *fingerprint, now_ms = pickle.loads(content)
        for name, expected, actual in zip(Fingerprint._fields, wanted, Fingerprint(*fingerprint), strict=True):
            if expected != actual:
                raise UsageError(
                    f"executors run {name} {actual}, the driver {expected}",
                    code="cluster.other-version",
                    hint=f"install the same version of {name} on all hosts",
                )
        received_ms = system_clock()
        if not sent_ms - _CLOCK_MS <= now_ms <= received_ms + _CLOCK_MS:
            raise Refused(
                f"the clock of an executor is {format_timestamp(now_ms)}, the clock of the driver "
                f"{format_timestamp(received_ms)}",
                code="cluster.clock-skew",
                hint="date -u",
            )
    return len(answers)


def _ask_executors(cluster: Cluster, payload: bytes) -> list[tuple[str, bytes]]:
    """Ask once per slot: a range of numbers has as many partitions as the cluster has slots by default."""

    def answer(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        for _ in batches:
            pass
        try:
            from deltacli.engine.spark.worker import identify_process

            status, content = identify_process(*pickle.loads(payload))
        except ImportError as missing:
            status = "problem"
            content = f"{missing.name or ''}\n{missing}".encode()
        columns = [pa.array([0], pa.int64()), pa.array([status]), pa.array([content], pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, names=["number", "status", "content"])

    answers: Any = cluster.session.range(1 << 12).mapInArrow(answer, RESULT).toArrow()
    return list(zip(answers.column("status").to_pylist(), answers.column("content").to_pylist(), strict=True))
