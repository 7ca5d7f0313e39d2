"""Open a Spark session: connect to a server, or start a driver."""

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
from typing import IO, Any

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

_OLDEST_JAVA = 17
_VERSIONS = ((4, 0), (4, 3))
"""The oldest and the newest version of PySpark that were tried."""


def _require_pyspark(*, is_driver: bool) -> None:
    """Raise UsageError unless a PySpark of a supported version is installed, which can start a driver if it must."""
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
    oldest, newest = _VERSIONS
    if installed_version < oldest:
        raise UsageError(
            f"PySpark {pyspark.__version__} is too old",
            code="cluster.pyspark",
            facts={"supported": f"{oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"},
            hint=install_command(extra),
        )
    home = Path(next(iter(pyspark.__path__)))
    if is_driver and not (home / "jars").is_dir() and not os.environ.get("SPARK_HOME"):
        raise UsageError(
            "this PySpark is the client for Spark Connect, which cannot start a driver for "
            f"{parameter('open_table.master')}",
            code="usage.missing-extra",
            hint=f"use {_format_remote_option()}, or {install_command('spark-local')} in an environment of its own",
        )


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    version = _java_version(program) if program else None
    if version is None or version < _OLDEST_JAVA:
        if version:
            seen = f"Java {version}"
        else:
            seen = f"no Java in JAVA_HOME={home}" if home else "no Java"
        raise UsageError(
            f"{parameter('open_table.master')} needs Java {_OLDEST_JAVA} or newer, and {seen} was found",
            code="cluster.java",
            hint=f"apt-get install openjdk-{_OLDEST_JAVA}-jre-headless",
        )


def _java_version(program: str) -> int | None:
    try:
        done = subprocess.run([program, "-version"], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(rb'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match[1]) if match else None


_CONNECT_PORT = 15002
_CONNECT_SECONDS = 15
_MASTER = re.compile(r"(local(\[.+\]|-cluster\[.+\])?|yarn)$|spark://.|k8s://.")
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
_SETTINGS = {"spark.ui.showConsoleProgress": "false"}
_LOCAL_SETTINGS = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The cluster to use: the URL of a `master`, or of a Connect server (`remote`), and settings of Spark."""

    master: str | None = None
    remote: str | None = field(default=None, repr=False)
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_local(self) -> bool:
        """True where executors are threads of a driver on this machine."""
        return (self.master or "").startswith("local")


def open_session(settings: SparkSettings) -> SparkSession:
    """Return a new `SparkSession`. Raises UsageError where PySpark or Java is missing, and ClusterFailed."""
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
    token = re.search(r";token=([^;]+)", settings.remote or "", re.IGNORECASE)
    remember_secrets({**settings.conf, **({"token": token[1]} if token else {})})
    allow_optional_packages()
    _require_pyspark(is_driver=settings.master is not None)
    return _connect(settings) if settings.remote or not settings.master else _start_driver(settings)


def _connect(settings: SparkSettings) -> Any:  # Any: as above
    """Connect to a server; without a URL, use what the environment of `spark-submit` or SPARK_REMOTE names."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("deltacli")
    if settings.remote:
        _require_reachable(settings.remote)
        builder = builder.remote(settings.remote)
    elif not any(os.environ.get(name) for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "MASTER")):
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
            _ = session.version  # the first request
    except Exception as fault:
        raise make_cluster_error(fault, "the connection") from fault
    return session


def _format_remote_option() -> str:
    return parameter("open_table.remote", "sc://HOST:15002")


def _require_reachable(remote: str) -> None:
    """Raise ClusterFailed where nothing listens at the address: the client of Spark would try again for ten minutes.

    Not tried through a proxy, nor for a URL that only the client understands.
    """
    address = re.fullmatch(r"sc://(\[[^]/]+\]|[^:/;\[]+)(?::(\d+))?(?:/.*)?", remote)
    if address is None or any(os.environ.get(name) for name in _PROXIES):
        return
    _require_listener(
        [(address[1].strip("[]"), int(address[2] or _CONNECT_PORT))],
        f"check {parameter('open_table.remote')}, and that the Spark Connect server is running",
    )


def _require_master(master: str) -> None:
    """Raise ClusterFailed where no standalone master listens: Spark would try again for two minutes."""
    addresses = re.findall(r"(\[[^]]+\]|[^:/,]+):(\d+)", master.removeprefix("spark://"))
    if master.startswith("spark://") and addresses:
        listeners = [(host.strip("[]"), int(port)) for host, port in addresses]
        _require_listener(
            listeners, f"check {parameter('open_table.master')}, and that the master of the cluster is running"
        )


def _require_listener(addresses: Sequence[tuple[str, int]], hint: str) -> None:
    """Raise ClusterFailed where nothing listens at any address."""
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
        except OSError as fault:
            last = fault
        else:
            return
    host, port = addresses[-1]
    raise ClusterFailed(
        "the cluster cannot be reached",
        code="cluster.unreachable",
        facts={"address": f"{host}:{port}", "reason": last.strerror or str(last) or "no answer"},
        hint=hint,
    ) from last


def _start_driver(settings: SparkSettings) -> Any:  # Any: as above
    """Start a driver of our own. What its JVM writes is kept in a file, and shown only where the start fails.

    The JVM gets its settings as arguments, which other users of the machine see, and secrets only after its start.
    """
    _require_java()
    _require_master(str(settings.master))
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    defaults = _SETTINGS | (_LOCAL_SETTINGS if settings.is_local else {})
    conf, shown = (SparkConf().setMaster(settings.master).setAppName("deltacli") for _ in range(2))
    conf.setAll(list((defaults | dict(settings.conf)).items()))
    shown.setAll([(name, value) for name, value in conf.getAll() if not _is_secret(name, value)])
    if settings.is_local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with TemporaryFile() as log:
        try:
            with _keep_interrupt_handler():
                gateway = launch_gateway(shown, popen_kwargs={"stderr": log, "stdout": log})
                SparkContext(conf=conf, gateway=gateway)
                return SparkSession.builder.getOrCreate()
        except Exception as fault:
            raise ClusterFailed(
                "Spark could not be started",
                code="cluster.start",
                facts={"master": str(settings.master), "reason": _read_reason(log) or str(fault).splitlines()[0][:300]},
                hint=f"check {parameter('open_table.master')} and {parameter('open_table.spark_conf')}",
            ) from fault


def _is_secret(name: str, value: str) -> bool:
    """Return whether a setting is kept from the arguments of the JVM. Options of the JVM itself cannot be."""
    return not name.endswith("JavaOptions") and (is_secret_name(name) or contains_secret(value))


@contextmanager
def _keep_interrupt_handler() -> Iterator[None]:
    """Put the handler of SIGINT back: the one of PySpark cancels all jobs of the context."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _read_reason(log: IO[bytes]) -> str | None:
    """Return the line of a JVM's output that names the fault, None where none does."""
    log.seek(0)
    return find_reason(log.read().decode(errors="replace"))
