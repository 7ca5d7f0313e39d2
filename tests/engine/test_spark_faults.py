"""Errors of Spark become one sentence, with a code and a remedy, without stack traces."""

from __future__ import annotations

import socket

import pytest

from deltacli.core.errors import ClusterFailed, UsageError
from deltacli.engine.spark.session import SparkSettings, _require_master, open_session
from deltacli.engine.spark.spark_errors import find_reason, make_cluster_error

_ABORTED = (
    "An error occurred while calling o59.getResult.\n"
    ": org.apache.spark.SparkException: Exception thrown in awaitResult:\n"
    "\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)\n"
    "Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, "
    "most recent failure: Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 1): "
)
_NO_PYTHON = (
    f'{_ABORTED}java.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory\n'
    "\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)\n"
    "Caused by: java.io.IOException: error=2, No such file or directory\n\t... 24 more\n"
)
_NO_ARROW = (
    f"{_ABORTED}org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    '  File "/opt/spark/python/pyspark/worker.py", line 1, in main\n    import pyarrow as pa\n'
    "ModuleNotFoundError: No module named 'pyarrow'\n"
)
_NO_ARROW_IN_SPARK = (
    f"{_ABORTED}[PACKAGE_NOT_INSTALLED] PyArrow >= 18.0.0 must be installed; however, it was not found."
)
_VERSIONS = (
    f"{_ABORTED}pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has "
    "different version: 3.12 than that in driver: 3.11\n"
)
_LOST_EXECUTOR = (
    f"{_ABORTED}ExecutorLostFailure (executor 1 exited caused by one of the running tasks)\nDriver stacktrace:"
)
_NO_MASTER = (
    "An error occurred\n: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n\tat x"
)


@pytest.mark.parametrize(
    "text, code, exit_code, message",
    [
        (_NO_PYTHON, "cluster.python", 2, "executors cannot start /opt/python"),
        (_NO_ARROW, "cluster.module", 2, "executors lack the Python package pyarrow"),
        (_NO_ARROW_IN_SPARK, "cluster.module", 2, "executors lack the Python package pyarrow"),
        (_VERSIONS, "cluster.other-version", 2, "the executors run another version of Python than the driver"),
        (_LOST_EXECUTOR, "cluster.failed", 7, "the first job failed on the cluster"),
        ("[RESULT_SIZE_EXCEEDED] too much", "cluster.result-size", 7, "one result is larger than the driver accepts"),
        ("<_InactiveRpcError: UNAVAILABLE>", "cluster.unreachable", 7, "the cluster cannot be reached"),
    ],
)
def test_each_fault_is_one_sentence_with_a_remedy(text: str, code: str, exit_code: int, message: str) -> None:
    fault = make_cluster_error(RuntimeError(text), "the first job")

    assert (code, exit_code, message) == (fault.code, fault.exit_code, fault.message)
    assert fault.hint
    shown = str(fault.facts)
    assert not [part for part in ("\\n", "\tat ", "org.apache", "java.", "Traceback", "Lost task") if part in shown]


def test_the_reason_is_the_innermost_cause() -> None:
    fault = make_cluster_error(RuntimeError(_LOST_EXECUTOR))

    assert {"reason": "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)"} == fault.facts


@pytest.mark.parametrize(
    "output, reason",
    [
        (
            'WARN x\nException in thread "main" org.apache.spark.SparkException: Master must be y\n\tat z',
            "Master must be y",
        ),
        ("Error occurred during initialization of VM\nToo small maximum heap\n", "Too small maximum heap"),
        ("x.SparkException: Exception thrown in awaitResult:\nCaused by: java.io.IOException: no route", "no route"),
        ("Picked up JAVA_TOOL_OPTIONS\n", None),
    ],
)
def test_the_reason_for_a_start_that_failed_is_one_line(output: str, reason: str | None) -> None:
    assert reason == find_reason(output)


@pytest.mark.parametrize(
    "settings",
    [SparkSettings(master="foo://x"), SparkSettings(remote="http://h:15002"), SparkSettings(master="locale")],
)
def test_urls_that_spark_does_not_know_are_refused_at_once(settings: SparkSettings) -> None:
    with pytest.raises(UsageError) as raised:
        open_session(settings)

    assert "cluster.url" == raised.value.code


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "spark://[::1]:1,127.0.0.1:1"])
def test_a_master_that_does_not_listen_is_named_at_once(master: str) -> None:
    with pytest.raises(ClusterFailed) as raised:
        _require_master(master)

    assert ("cluster.unreachable", "127.0.0.1:1") == (raised.value.code, raised.value.facts["address"])


def test_one_of_several_masters_suffices() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        _require_master(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")
