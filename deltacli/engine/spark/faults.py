"""Faults of a cluster, each as one error that says what to do."""

from __future__ import annotations

import re
from typing import Any

from deltacli.errors import ClusterFailed, DeltacliError, UsageError
from deltacli.storage.secrets import without_secrets

_TOO_LARGE = re.compile(r"spark\.driver\.maxResultSize|RESULT_SIZE_EXCEEDED|bigger than")
_VERSIONS = re.compile(r"PYTHON_VERSION_MISMATCH|different (?:minor )?version(?:s)? (?:in|than)")
_UNREACHABLE = re.compile(r"UNAVAILABLE|failed to connect|Connection refused|JAVA_GATEWAY_EXITED|DEADLINE_EXCEEDED")


def is_too_large(fault: Exception) -> bool:
    """Return True where the results of a job were larger than the driver accepts."""
    return bool(_TOO_LARGE.search(str(fault)))


def missing_module(text: str) -> UsageError:
    """Return the error for executors that cannot import a module; `text` is its name and the message."""
    name, _, message = text.partition("\n")
    top = name.partition(".")[0]
    if top == "deltacli" or not top:
        return UsageError(
            "executors cannot import deltacli",
            code="cluster.package",
            facts={"reason": message[:200]},
            hint="deltacli spark package --to DIR, then give the archive to the cluster with --py-files",
        )
    return UsageError(
        f"executors lack the Python package {top}",
        code="cluster.module",
        facts={"reason": message[:200]},
        hint=f"install {top} in the Python environment of the executors",
    )


def explain(fault: Exception, what: str = "a job") -> DeltacliError:
    """Return a fault of Spark as an error of deltacli."""
    text = _first_lines(fault)
    if _VERSIONS.search(str(fault)):
        return UsageError(
            "the executors run another version of Python than the driver",
            code="cluster.other-version",
            facts={"reason": text},
            hint="set PYSPARK_PYTHON to the same version of Python on all hosts",
        )
    if is_too_large(fault):
        return ClusterFailed(
            "one result is larger than the driver accepts",
            code="cluster.result-size",
            facts={"reason": text},
            hint="--spark-conf spark.driver.maxResultSize=2g, or validate and list a part of the table",
        )
    if _UNREACHABLE.search(str(fault)):
        return ClusterFailed(
            "the cluster cannot be reached",
            code="cluster.unreachable",
            facts={"reason": text},
            hint="check --remote or --master, and that the server is running",
        )
    return ClusterFailed(f"{what} failed on the cluster", facts={"reason": text}, hint="run the same command again")


def _first_lines(fault: Any) -> str:  # Any: errors of Spark and of gRPC
    """Return the message of a fault without stack traces, in one line."""
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(("at ", "File ", "Traceback", "JVM stacktrace"))]
    return without_secrets(" ".join(kept))[:300]
