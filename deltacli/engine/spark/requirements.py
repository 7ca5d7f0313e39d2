"""What has to be installed for the Spark engine: PySpark, and Java for a driver of our own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from deltacli.errors import UsageError

_OLDEST_JAVA = 17
_VERSIONS = ((4, 0), (4, 3))
"""The oldest and the newest version of PySpark that were tried."""


def require_pyspark(*, is_driver: bool) -> None:
    """Raise UsageError unless a supported PySpark is installed: all of it for a driver, else its client suffices."""
    extra = "spark-local" if is_driver else "spark"
    try:
        import pyspark
    except ImportError as missing:
        raise UsageError(
            "--engine spark needs PySpark, which is not installed",
            code="usage.missing-extra",
            hint=f"pip install 'deltacli[{extra}]'",
        ) from missing
    found = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    oldest, newest = _VERSIONS
    if found < oldest:
        raise UsageError(
            f"PySpark {pyspark.__version__} is too old",
            code="cluster.pyspark",
            facts={"supported": f"{oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"},
            hint=f"pip install 'deltacli[{extra}]'",
        )
    home = Path(next(iter(pyspark.__path__)))
    if is_driver and not (home / "jars").is_dir() and not os.environ.get("SPARK_HOME"):
        raise UsageError(
            "this PySpark is the client for Spark Connect, which cannot start a driver for --master",
            code="usage.missing-extra",
            hint="use --remote sc://HOST:15002, or pip install 'deltacli[spark-local]' in an environment of its own",
        )


def require_java() -> None:
    """Raise UsageError unless a Java of a supported version is found where Spark looks for it."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    version = _java_version(program) if program else None
    if version is None or version < _OLDEST_JAVA:
        seen = f"Java {version}" if version else f"no Java in JAVA_HOME={home}" if home else "no Java"
        raise UsageError(
            f"--master needs Java {_OLDEST_JAVA} or newer, and {seen} was found",
            code="cluster.java",
            hint=f"apt-get install openjdk-{_OLDEST_JAVA}-jre-headless",
        )


def _java_version(program: str) -> int | None:
    """Return the major version of a Java, None where it does not start."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(rb'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found else None
