"""Where the engines are, and how a test gets one: a Spark session with Delta, or a Java process with a class path.

`dev.py prepare` fetches the jars that `pom.xml` pins. A test that asks for an engine is skipped, with the reason, where
the jars or Java are missing. In the gate it fails instead: nothing else would notice that no engine has judged.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.material import REPOSITORY

JARS_VARIABLE = "DELTACLI_JUDGE_JARS"
"""Can name another directory of jars than the one that `dev.py prepare` fills."""
JARS = REPOSITORY / ".venv-judges-jars"

JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A Java that lives for seconds takes 40 % less processor time without its second compiler."""


def require_jars(*prefixes: str) -> list[Path]:
    """Return the jars whose names begin with one of the prefixes, all of them without prefixes.

    The test that asks is skipped if the jars or Java are missing; in the gate it fails.
    """
    if shutil.which("java") is None:
        _skip_or_fail("java is not installed: apt-get install openjdk-17-jre-headless")
    directory = Path(os.environ.get(JARS_VARIABLE) or JARS)
    jars = sorted(directory.glob("*.jar"))
    if not jars:
        _skip_or_fail(f"no engines: {directory} has no jars, which `dev.py prepare` fetches with maven")
    return [jar for jar in jars if not prefixes or jar.name.startswith(prefixes)]


def _skip_or_fail(reason: str) -> None:
    if os.environ.get("DELTACLI_REQUIRE_JAVA") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def running_spark(directory: Path, **settings: str) -> Iterator[Any]:  # Any: a SparkSession, which has no types here
    """Run a Spark session with Delta for Spark that keeps its own tables below `directory`.

    Args:
        directory: For Spark's warehouse of tables that are named without a directory.
        settings: Further settings, with `__` instead of dots.

    Yields:
        The session. Times are shown in UTC.
    """
    jars = require_jars("delta-", "unitycatalog-")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_SUBMIT_OPTS", JVM_OPTIONS)

    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").appName("judges")
    defaults = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # Tables of tests have a few rows. One partition, plans that are not adapted, and expressions that are
        # interpreted instead of compiled take 40 % of the processor time off.
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # A vacuum lists with so many tasks, 10,000 without this setting, which take minutes.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        # Without an interface nobody looks at what has run. Hundreds of tests fill the memory with it.
        "spark.ui.retainedJobs": "1",
        "spark.ui.retainedStages": "1",
        "spark.ui.retainedTasks": "1",
        "spark.sql.ui.retainedExecutions": "1",
    }
    for name, value in (defaults | {name.replace("__", "."): value for name, value in settings.items()}).items():
        builder = builder.config(name, value)

    _convert_exceptions_of_spark_only()
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def _convert_exceptions_of_spark_only() -> None:
    """Leave the exceptions of other Java processes to Py4J, also that by which it ends the iteration of a list.

    PySpark converts the exceptions of every gateway, and asks Spark's process what kind of object each is. The ids of
    objects begin at 0 in each process, so that Spark answers about an object of its own.
    """
    from pyspark import SparkContext
    from pyspark.errors.exceptions import captured

    convert = captured.convert_exception

    def convert_own(java_exception: Any) -> Any:  # Any: a Throwable in Java; PySpark is untyped
        spark = SparkContext._gateway
        if spark is None or java_exception._gateway_client is not spark._gateway_client:
            return captured.UnknownException(desc="of another Java process", stackTrace="")  # Py4J raises its own then
        return convert(java_exception)

    captured.convert_exception = convert_own


@contextmanager
def running_java(jars: Sequence[Path]) -> Iterator[Any]:  # Any: a JVMView of Py4J
    """Run a Java process with the jars and Hadoop's client on its class path, and yield its `jvm`.

    It starts in half a second, where a Spark session takes five. Py4J converts strings, numbers and lists; everything
    else is a Java object whose methods can be called.
    """
    import pyspark
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    home = Path(pyspark.__file__).parent / "jars"
    py4j_jar = next(home.glob("py4j-*.jar"))
    # Spark brings Hadoop's client and a logger; the jars of the test come first, so that their versions count.
    shared = [jar for jar in home.glob("*.jar") if jar.name.startswith(("hadoop-client-", "slf4j-", "commons-logging"))]
    port, token = launch_gateway(
        jarpath=str(py4j_jar),
        classpath=os.pathsep.join(map(str, [*jars, *shared])),
        javaopts=JVM_OPTIONS.split(),
        die_on_exit=True,
        enable_auth=True,
        redirect_stderr=sys.stderr,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
    yield gateway.jvm
    gateway.shutdown()
