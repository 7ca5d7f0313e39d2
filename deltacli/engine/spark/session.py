"""Open a Spark session: connect to a Spark Connect server, or start a driver for a master.

PySpark reports most mistakes late and in its own words: it tries for minutes to reach a host where nothing listens, and
a missing Java ends in a traceback. So the Python packages, Java, the URL and the address are checked before.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from deltacli.core.errors import (
    ClusterFailed,
    UsageError,
    install_command,
    parameter,
)
from deltacli.core.optional_packages import allow_optional_packages
from deltacli.core.typing import SparkSession
from deltacli.engine.spark.spark_errors import find_reason, make_cluster_error
from deltacli.storage.secrets import contains_secret, is_secret_name, remember_secrets

_MIN_JAVA_VERSION = 17

_MIN_PYSPARK_VERSION = (4, 0)
_MAX_TESTED_PYSPARK_VERSION = (4, 3)

_DEFAULT_CONNECT_PORT = 15002
_CONNECT_TIMEOUT_SECONDS = 15

_MASTER = re.compile(r"(local(\[.+\]|-cluster\[.+\])?|yarn)$|spark://.|k8s://.")

_PROXY_VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy")

_CLUSTER_VARIABLES = ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "MASTER")
"""Environment variables that name a cluster. `spark-submit` sets some of them."""

_DRIVER_SETTINGS = {"spark.ui.showConsoleProgress": "false"}
_LOCAL_DRIVER_SETTINGS = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The Spark cluster to use.

    Attributes:
        master: The URL of a master, such as `local[4]` or `spark://host:7077`; None to start no driver.
        remote: The URL of a Spark Connect server, such as `sc://host:15002`. It may contain a token.
        conf: Spark settings, such as `{"spark.executor.memory": "4g"}`.

    Without `master` and `remote`, environment variables name the cluster.
    """

    master: str | None = None
    remote: str | None = field(default=None, repr=False)
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_local(self) -> bool:
        """Whether the executors run on this machine, as threads of the driver."""
        return (self.master or "").startswith("local")


def open_session(settings: SparkSettings) -> SparkSession:
    """Return a new session.

    Raises:
        UsageError: If the settings are invalid, or PySpark or Java is missing or too old.
        ClusterFailed: If the cluster cannot be reached, or the driver does not start.
    """
    _require_valid_urls(settings)
    _remember_secrets(settings)
    allow_optional_packages()
    _require_pyspark(is_driver=settings.master is not None)
    if settings.master and not settings.remote:
        return _start_driver(settings, settings.master)
    return _connect(settings)


def _require_valid_urls(settings: SparkSettings) -> None:
    """Check the master and the URL of the Spark Connect server. Raises UsageError."""
    if settings.master and settings.remote:
        raise UsageError("a Spark master and a Spark Connect server exclude each other")
    if settings.remote and not settings.remote.startswith("sc://"):
        raise UsageError(
            "the URL of the Spark Connect server does not begin with sc://",
            code="cluster.url",
            hint=_format_remote_option(),
        )
    if settings.master and not _MASTER.match(settings.master):
        local_master = parameter("open_table.master", "local[4]")
        raise UsageError(
            f"{settings.master!r} is not a Spark master",
            code="cluster.url",
            facts={"expected": "local[N], spark://HOST:PORT, yarn, or k8s://URL"},
            hint=f"{local_master}, or {_format_remote_option()} for a Spark Connect server",
        )


def _remember_secrets(settings: SparkSettings) -> None:
    """Register the secrets among the settings, so that no message shows them."""
    token = re.search(r";token=([^;]+)", settings.remote or "", re.IGNORECASE)
    token_setting = {"token": token[1]} if token else {}
    remember_secrets({**settings.conf, **token_setting})


def _require_pyspark(*, is_driver: bool) -> None:
    """Check that PySpark is installed, and that its version is supported.

    Args:
        is_driver: Whether to check that it can start a driver. The package `pyspark-client` cannot.

    Raises:
        UsageError: If it is missing or unsuitable. The hint contains the command that installs it.
    """
    extra = "spark-local" if is_driver else "spark"
    try:
        import pyspark
    except ImportError as missing:
        raise UsageError(
            f"{parameter('open_table.engine', 'spark')} needs PySpark, which is not installed",
            code="usage.missing-extra",
            hint=install_command(extra),
        ) from missing
    installed_version = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    if installed_version < _MIN_PYSPARK_VERSION:
        oldest = ".".join(map(str, _MIN_PYSPARK_VERSION))
        newest = ".".join(map(str, _MAX_TESTED_PYSPARK_VERSION))
        raise UsageError(
            f"PySpark {pyspark.__version__} is too old",
            code="cluster.pyspark",
            facts={"supported": f"{oldest} to {newest}"},
            hint=install_command(extra),
        )
    package_directory = Path(next(iter(pyspark.__path__)))
    has_jars = (package_directory / "jars").is_dir() or bool(os.environ.get("SPARK_HOME"))
    if is_driver and not has_jars:
        raise UsageError(
            "this PySpark is the client for Spark Connect, which cannot start a driver for "
            f"{parameter('open_table.master')}",
            code="usage.missing-extra",
            hint=f"use {_format_remote_option()}, or {install_command('spark-local')} in an environment of its own",
        )


def _require_java() -> None:
    """Check that Java is installed, and that its version is supported. Raises UsageError."""
    java_home = os.environ.get("JAVA_HOME")
    java = str(Path(java_home, "bin", "java")) if java_home else shutil.which("java")
    version = _read_java_version(java) if java else None
    if version is not None and version >= _MIN_JAVA_VERSION:
        return

    if version:
        installed = f"Java {version}"
    elif java_home:
        installed = f"no Java in JAVA_HOME={java_home}"
    else:
        installed = "no Java"
    raise UsageError(
        f"{parameter('open_table.master')} needs Java {_MIN_JAVA_VERSION} or newer, and {installed} was found",
        code="cluster.java",
        hint=f"apt-get install openjdk-{_MIN_JAVA_VERSION}-jre-headless",
    )


def _read_java_version(java: str) -> int | None:
    """Return the major version that `java -version` prints, such as 17, or 8 for `1.8.0`; None if it cannot be run."""
    try:
        finished = subprocess.run([java, "-version"], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(rb'version "(?:1\.)?(\d+)', finished.stderr + finished.stdout)
    return int(match[1]) if match else None


def _connect(settings: SparkSettings) -> SparkSession:
    """Connect to a Spark Connect server, or to the cluster that environment variables name.

    Raises:
        UsageError: If neither the settings nor the environment name a cluster.
        ClusterFailed: If the cluster does not answer.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("deltacli")
    if settings.remote:
        _require_reachable(settings.remote)
        builder = builder.remote(settings.remote)
    elif not any(os.environ.get(name) for name in _CLUSTER_VARIABLES):
        master_option = parameter("open_table.master", "URL")
        raise UsageError(
            "no cluster is named",
            code="cluster.no-cluster",
            hint=f"add {master_option}, such as local[4] or spark://HOST:7077, or {_format_remote_option()}",
        )
    for name, value in settings.conf.items():
        builder = builder.config(name, value)
    try:
        with _keep_interrupt_handler():
            session = builder.getOrCreate()
            # A Spark Connect session sends its first request when the version is read.
            _ = session.version
    except Exception as error:
        raise make_cluster_error(error, "the connection") from error
    return session


def _format_remote_option() -> str:
    return parameter("open_table.remote", "sc://HOST:15002")


def _require_reachable(remote: str) -> None:
    """Check that a server listens at the address of a Spark Connect URL. PySpark would try for ten minutes.

    A URL that this function cannot parse is not checked, and neither is any URL if a proxy is configured.

    Raises:
        ClusterFailed: If no server listens.
    """
    match = re.fullmatch(r"sc://(?P<host>\[[^]/]+\]|[^:/;\[]+)(?::(?P<port>\d+))?(?:/.*)?", remote)
    has_proxy = any(os.environ.get(name) for name in _PROXY_VARIABLES)
    if match is None or has_proxy:
        return
    address = (match["host"].strip("[]"), int(match["port"] or _DEFAULT_CONNECT_PORT))
    _require_listener(
        [address], f"check {parameter('open_table.remote')}, and that the Spark Connect server is running"
    )


def _require_master(master: str) -> None:
    """Check that a standalone master listens. Spark would try for two minutes.

    Args:
        master: The URL, such as `spark://host1:7077,host2:7077`, or another one, which is not checked.

    Raises:
        ClusterFailed: If none of the masters listens.
    """
    if not master.startswith("spark://"):
        return
    pairs = re.findall(r"(\[[^]]+\]|[^:/,]+):(\d+)", master.removeprefix("spark://"))
    addresses = [(host.strip("[]"), int(port)) for host, port in pairs]
    if addresses:
        _require_listener(
            addresses, f"check {parameter('open_table.master')}, and that the master of the cluster is running"
        )


def _require_listener(addresses: Sequence[tuple[str, int]], hint: str) -> None:
    """Check that at least one of several addresses accepts connections.

    Args:
        addresses: Pairs of a host and a port; at least one.
        hint: The hint of the error.

    Raises:
        ClusterFailed: If none of them does (`cluster.unreachable`).
    """
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_SECONDS).close()
        except OSError as error:
            last_error = error
        else:
            return
    host, port = addresses[-1]
    raise ClusterFailed(
        "the cluster cannot be reached",
        code="cluster.unreachable",
        facts={"address": f"{host}:{port}", "reason": last_error.strerror or str(last_error) or "no answer"},
        hint=hint,
    ) from last_error


def _start_driver(settings: SparkSettings, master: str) -> SparkSession:
    """Start a JVM with a Spark driver, and return a session of it.

    All users of a machine can see the command line of a process. So the JVM is started without the settings that
    contain secrets. The driver gets all settings afterwards, when it is created through the gateway.

    Raises:
        UsageError: If Java is missing or too old.
        ClusterFailed: If the driver does not start. The error contains a line of the output of the JVM.
    """
    _require_java()
    _require_master(master)
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    local_settings = _LOCAL_DRIVER_SETTINGS if settings.is_local else {}
    driver_settings = {**_DRIVER_SETTINGS, **local_settings, **settings.conf}
    driver_conf = SparkConf().setMaster(master).setAppName("deltacli")
    driver_conf.setAll(list(driver_settings.items()))
    command_line_conf = SparkConf().setMaster(master).setAppName("deltacli")
    command_line_conf.setAll([(name, value) for name, value in driver_conf.getAll() if not _is_secret(name, value)])
    if settings.is_local:
        # Spark starts workers with these. Its defaults are `python3` of the PATH, and the address of the host name.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with TemporaryFile() as log:
        try:
            with _keep_interrupt_handler():
                gateway = launch_gateway(command_line_conf, popen_kwargs={"stderr": log, "stdout": log})
                SparkContext(conf=driver_conf, gateway=gateway)
                return SparkSession.builder.getOrCreate()
        except Exception as error:
            raise ClusterFailed(
                "Spark could not be started",
                code="cluster.start",
                facts={"master": master, "reason": _read_reason(log) or str(error).splitlines()[0][:300]},
                hint=f"check {parameter('open_table.master')} and {parameter('open_table.spark_conf')}",
            ) from error


def _is_secret(name: str, value: str) -> bool:
    """Return whether a setting must not appear on the command line of the JVM.

    Options of the JVM itself, such as `spark.driver.extraJavaOptions`, have no effect unless they are there.
    """
    return not name.endswith("JavaOptions") and (is_secret_name(name) or contains_secret(value))


@contextmanager
def _keep_interrupt_handler() -> Iterator[None]:
    """Restore the handler of SIGINT at the end. PySpark installs one that cancels all jobs of the context."""
    # Only the main thread may set handlers, and PySpark does not set one in another thread.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _read_reason(log: IO[bytes]) -> str | None:
    """Return the line of the output of a JVM that names the error; None if there is none."""
    log.seek(0)
    return find_reason(log.read().decode(errors="replace"))
