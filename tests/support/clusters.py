"""Spark clusters on loopback: started as their own processes, and ended with everything they started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from deltacli.engine.spark.session import SparkSettings

_SECONDS = 120
_TICK = 0.05
_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}
"""Spark starts slow tasks again on another host, so that two attempts run at the same time."""
_SHARED = {"spark.driver.host": "127.0.0.1", "spark.cores.max": "2", "spark.executor.memory": "512m"}
"""Settings of an application on workers that run others at the same time: one slot on each host."""


@dataclass(frozen=True)
class Cluster:
    """A running cluster: its kind, how to reach it, and the options of a command that uses it."""

    kind: str
    settings: SparkSettings
    one_host: Path | None = None
    """A directory that is empty on one of two hosts."""

    @property
    def options(self) -> list[str]:
        """Return the options of a command."""
        at = ["--remote", self.settings.remote] if self.settings.remote else ["--master", str(self.settings.master)]
        conf = [f"--spark-conf={name}={value}" for name, value in self.settings.conf.items()]
        return ["--engine", "spark", *at, *conf]


@contextmanager
def running_cluster(kind: str, place: Path) -> Iterator[Cluster]:
    """Start a cluster with two task slots, and end it."""
    with ExitStack() as stack:
        if kind == "local":
            yield Cluster(kind, SparkSettings(master="local[2]", conf=_SPECULATION))
            return
        if kind == "connect":
            port = free_port()
            stack.enter_context(_connect_server(place, port))
            yield Cluster(kind, SparkSettings(remote=f"sc://127.0.0.1:{port}"))
            return
        one_host = place / "one-host"
        one_host.mkdir()
        apart = _apart(one_host)
        master = stack.enter_context(_standalone(place, apart))
        settings = SparkSettings(master=master, conf=_SHARED | _SPECULATION)
        yield Cluster(kind, settings, one_host if apart else None)


def spark_home() -> Path:
    """Return the directory of the installed Spark."""
    import pyspark

    return Path(next(iter(pyspark.__path__)))


def free_port() -> int:
    """Return a port of loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _connect_server(place: Path, port: int) -> Iterator[None]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        **_SPECULATION,
    }
    conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = [
        str(spark_home() / "bin/spark-submit"),
        "--class",
        server,
        "--master",
        "local[2]",
        *conf,
        "spark-internal",
    ]
    with _running(command, place / "connect.log"):
        _wait_for_port("127.0.0.1", port, place / "connect.log")
        yield


def _apart(directory: Path) -> list[str]:
    """Return the beginning of a command that runs where a directory is empty; nothing where the system forbids it."""
    script = f"mount -t tmpfs none '{directory}' && exec \"$@\""
    for unshare in (["unshare", "-m"], ["unshare", "-r", "-m"]):
        begin = [*unshare, "sh", "-c", script, "sh"]
        with suppress(FileNotFoundError):
            if subprocess.run([*begin, "true"], capture_output=True, check=False).returncode == 0:
                return begin
    return []


@contextmanager
def _standalone(place: Path, apart: Sequence[str]) -> Iterator[str]:
    """A master, and two workers with an address of their own each; the second begins `apart`."""
    run = [str(spark_home() / "bin/spark-class")]
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    with ExitStack() as stack:
        stack.enter_context(_running([*run, *master, "--webui-port", "0"], place / "master.log"))
        _wait_for_port("127.0.0.1", port, place / "master.log")
        for host, begin in (("127.0.0.1", ()), ("127.0.0.2", apart)):
            worker = ["org.apache.spark.deploy.worker.Worker", "--host", host, "--cores", "4", "--memory", "4g"]
            work = ["--work-dir", str(place / f"work-{host}"), "--webui-port", "0", address]
            log = place / f"worker-{host}.log"
            stack.enter_context(_running([*begin, *run, *worker, *work], log, {"SPARK_LOCAL_IP": host}))
            _wait_for_line(log, "Successfully registered with master")
        yield address


@contextmanager
def _running(command: list[str], log: Path, more: Mapping[str, str] | None = None) -> Iterator[None]:
    """Run a program in a process group of its own, and end the group."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **(more or {})}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True, cwd=log.parent
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for_port(host: str, port: int, log: Path) -> None:
    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((host, port)) == 0

    _wait(answers, log)


def _wait_for_line(log: Path, text: str) -> None:
    _wait(lambda: text in log.read_text(errors="replace"), log)


def _wait(is_there: Callable[[], bool], log: Path) -> None:
    last = time.monotonic() + _SECONDS
    while not is_there():
        assert time.monotonic() < last, log.read_text(errors="replace")[-2_000:]
        time.sleep(_TICK)
