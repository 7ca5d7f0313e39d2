"""Requirements of `hdfs://` besides Python: Java, Hadoop's own library and the classes of Hadoop.

Without them the libraries print every searched path, or a stack trace of Java, to stderr.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from deltacli.errors import UsageError

SCHEMES = frozenset({"hdfs", "arrow_hdfs"})
_UNLOADABLE = re.compile(r"Unable to load (lib\w+)")


def require_hadoop(scheme: str, environment: Mapping[str, str] = os.environ) -> None:
    """Raise UsageError for a scheme of Hadoop where its classes are not on the class path, which libhdfs requires."""
    if scheme in SCHEMES and not environment.get("CLASSPATH"):
        raise _unavailable(scheme, "the environment variable CLASSPATH is not set")


def unloadable_library(scheme: str, fault: BaseException) -> UsageError | None:
    """Return the error for a fault caused by a missing library; None for any other fault."""
    match = _UNLOADABLE.search(str(fault)) if scheme in SCHEMES else None
    return None if match is None else _unavailable(scheme, f"{match[1]} cannot be loaded")


def _unavailable(scheme: str, why: str) -> UsageError:
    return UsageError(
        f"{scheme}:// needs Java and Hadoop on this machine: {why}",
        code="usage.missing-library",
        facts={"needed": "JAVA_HOME for libjvm, HADOOP_HOME for libhdfs, CLASSPATH for the classes of Hadoop"},
        hint='export CLASSPATH="$(hadoop classpath --glob)"',
    )
