"""Turn each fault of a cluster into one error that says what to do."""

from __future__ import annotations

import re

from deltacli.core.errors import ClusterFailed, DeltacliError, UsageError, command, parameter
from deltacli.storage.secrets import mask_secrets

_TOO_LARGE = re.compile(r"spark\.driver\.maxResultSize|RESULT_SIZE_EXCEEDED|bigger than")
_VERSIONS = re.compile(r"PYTHON_VERSION_MISMATCH|different (?:minor )?version(?:s)? (?:in|than)")
_UNREACHABLE = re.compile(r"UNAVAILABLE|failed to connect|Connection refused|JAVA_GATEWAY_EXITED|DEADLINE_EXCEEDED")
_MODULE = re.compile(r"No module named '([\w.]+)'|\[PACKAGE_NOT_INSTALLED\] (\w+)")
_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_LOST = re.compile(r"^.*Lost task [^()]*\([^()]*\) \([^()]*\): ")
"""What Spark puts before the fault of a task: which stage, which host."""
_OF_PYTHON = re.compile(r"(?!org\.|java\.|py4j\.)(?:\w+\.)*[A-Z]\w*(?:Error|Exception): ")
_FAULT = re.compile(r"(Exception|Error)\b")
_HEADLINE = re.compile(r"^Error occurred during initialization of VM$")
"""A line without content, before the one that has it."""
_CLASS = re.compile(r'^(?:Exception in thread "[^"]*" )?(?:Caused by: )?(?:[\w$]+\.)+[\w$]*(?:Exception|Error):\s*')


def is_too_large(fault: Exception) -> bool:
    return bool(_TOO_LARGE.search(str(fault)))


def make_missing_module_error(text: str) -> UsageError:
    """Return the error for executors that cannot import a module; `text` is its name and the message."""
    name, _, message = text.partition("\n")
    top = name.partition(".")[0]
    if top == "deltacli" or not top:
        archive = command("spark package", to="DIRECTORY") or "write the archive of deltacli"
        return UsageError(
            "executors cannot import deltacli",
            code="cluster.package",
            facts={"reason": message[:200]},
            hint=f"{archive}, then give the archive to the cluster with --py-files",
        )
    return UsageError(
        f"executors lack the Python package {top}",
        code="cluster.module",
        facts={"reason": message[:200]},
        hint=f"install {top} in the Python of the executors, or set PYSPARK_PYTHON to one that has it",
    )


def make_cluster_error(fault: Exception, what: str = "a job") -> DeltacliError:
    """Return a fault of Spark as an error of deltacli."""
    text = summarize_error_text(str(fault))
    missing = _MODULE.search(str(fault))
    if missing is not None:
        return make_missing_module_error(f"{(missing[1] or missing[2]).lower()}\n{text}")
    if (program := _PROGRAM.search(str(fault))) is not None:
        return UsageError(
            f"executors cannot start {program[1]}",
            code="cluster.python",
            facts={"reason": text},
            hint="set PYSPARK_PYTHON to a Python that exists under the same path on all hosts",
        )
    if _VERSIONS.search(str(fault)):
        return UsageError(
            "the executors run another version of Python than the driver",
            code="cluster.other-version",
            facts={"reason": text},
            hint="set PYSPARK_PYTHON to the same version of Python on all hosts",
        )
    if is_too_large(fault):
        larger = parameter("open_table.spark_conf", "spark.driver.maxResultSize=2g")
        return ClusterFailed(
            "one result is larger than the driver accepts",
            code="cluster.result-size",
            facts={"reason": text},
            hint=f"{larger}, or validate and list a part of the table",
        )
    if _UNREACHABLE.search(str(fault)):
        remote = parameter("open_table.remote")
        master = parameter("open_table.master")
        return ClusterFailed(
            "the cluster cannot be reached",
            code="cluster.unreachable",
            facts={"reason": text},
            hint=f"check {remote} or {master}, and that the server is running",
        )
    return ClusterFailed(f"{what} failed on the cluster", facts={"reason": text}, hint="run the same command again")


def find_reason(output: str) -> str | None:
    """Return the line of a JVM's output that names the fault, without the names of classes; None where none does."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if _HEADLINE.search(line) and number + 1 < len(lines):
            return mask_secrets(lines[number + 1])[:300]
        if _FAULT.search(line) and not line.endswith(":"):
            return mask_secrets(_CLASS.sub("", line))[:300]
    return None


def summarize_error_text(text: str) -> str:
    """Return what a text of Spark is about, in one line: the innermost cause, without stack traces and class names."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    meaningful_lines = [
        line for line in lines if not line.startswith(("at ", "File ", "Traceback", "JVM stacktrace", "... "))
    ]
    causes = [line for line in meaningful_lines if line.startswith("Caused by: ")]
    of_python = [line for line in lines if _OF_PYTHON.match(line)] if 'File "' in text else []
    summary = _LOST.sub("", (of_python or causes or [" ".join(meaningful_lines[:2])])[-1])
    while (shorter := _CLASS.sub("", summary)) != summary:
        summary = shorter
    return mask_secrets(summary)[:300]
