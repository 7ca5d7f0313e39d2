"""Asking Spark, in an environment of its own, what it reads in our Parquet files, and what it makes of SQL."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[1] / "spark"
SCRIPT = "with_pyspark.py"
ENVIRONMENT_VARIABLE = "DELTACLI_SPARK_PYTHON"
_SECONDS = 500


def need_spark() -> str:
    """The interpreter that has PySpark; skips the test where there is none, or no Java, unless the gate demands it."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if not named or not Path(named).exists():
        pytest.skip(f"no Spark: {ENVIRONMENT_VARIABLE} names no interpreter")
    if shutil.which("java") is None:
        reason = "java is not installed: apt-get install openjdk-17-jre-headless"
        if os.environ.get("DELTACLI_REQUIRE_JAVA") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return named


def ask_spark(python: str, task: dict[str, Any], script: str = SCRIPT) -> Any:  # Any: JSON values, as in the script
    """One session that answers everything."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": python}
    done = subprocess.run(
        [python, str(SCRIPTS / script)],
        input=json.dumps(task).encode(),
        capture_output=True,
        env=environment,
        check=False,
        timeout=_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:].decode(errors="replace")
    return json.loads(done.stdout)
