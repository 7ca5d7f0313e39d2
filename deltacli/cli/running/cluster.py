"""The engine: the options that choose threads of this process or a Spark cluster, and the note that names the cluster
where this process would take long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from deltacli.cli.options.configuration import Variable, configured, parse_pair, plain_or_file
from deltacli.core.errors import UsageError
from deltacli.core.progress import SILENT, Plan, Progress, Step, WeighedStep, planned, weighed
from deltacli.core.request_fields import option
from deltacli.core.typing import JsonObject
from deltacli.core.units import format_duration, format_size

if TYPE_CHECKING:
    from deltacli.engine.spark.engine import SparkSettings


class EngineChoice(StrEnum):
    EMBEDDED = "embedded"
    SPARK = "spark"


@dataclass(frozen=True)
class ClusterOptions:
    """The options that choose the engine, for commands that a cluster can run."""

    engine: EngineChoice | None = option(
        "Where the work runs: in this process, or on a Spark cluster.  [default: embedded]", "embedded|spark"
    )
    master: str | None = option("Spark master, such as local[4] or spark://HOST:7077.", "URL")
    remote: str | None = option(
        "Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.", "URL"
    )
    spark_conf: list[str] | None = option(
        "Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.", "K=V"
    )


def settle_engine(given: ClusterOptions, settings: JsonObject, configuration: str) -> SparkSettings | None:
    """Return the cluster by option, then environment, then configuration file; None: this process does the work.

    A master, a server or a setting of Spark on the command line needs `--engine spark`; elsewhere they are defaults for
    runs that choose it. Raises UsageError.
    """
    choice = given.engine or configured(EngineChoice, Variable.ENGINE, settings, configuration) or EngineChoice.EMBEDDED
    if choice is EngineChoice.EMBEDDED:
        spark = {"--master": given.master, "--remote": given.remote, "--spark-conf": given.spark_conf}
        named = next((name for name, value in spark.items() if value), None)
        if named is not None:
            raise UsageError(f"{named} needs --engine spark", hint=f"add --engine spark, or omit {named}")
        return None
    from deltacli.engine.spark.engine import SparkSettings

    if given.master and given.remote:
        raise UsageError("--master and --remote exclude each other")
    conf = {
        **settings.get("spark_conf", {}),
        **dict(map(_parse_conf, given.spark_conf or [])),
    }
    if given.master or given.remote:
        remote = given.remote and plain_or_file("--remote", " ", given.remote, f"the variable {Variable.REMOTE}")
        return SparkSettings(given.master, remote, conf)
    default = SparkSettings(
        Variable.MASTER.read() or settings.get("master"),
        Variable.REMOTE.read() or settings.get("remote"),
        conf,
    )
    if default.master and default.remote:
        raise UsageError("the environment or the configuration names a Spark master and a Spark Connect server")
    return default


def _parse_conf(text: str) -> tuple[str, str]:
    """Return key and value of a `--spark-conf`. Raises UsageError."""
    return parse_pair("--spark-conf", text, "the configuration of Spark itself")


LONG_SECONDS = 1_800.0
"""From this estimate on, the engine is named: a cluster needs about a minute for its start and its first jobs."""

_HOURS_FROM = 7_200
"""Estimates are given in hours from so many seconds on, below in minutes."""


UNIT_COSTS: Mapping[tuple[str, str], tuple[float, float]] = {
    ("reading footers", "files"): (8e-5, 2.5e-3),
    ("reading rows", "bytes"): (2e-9, 1e-8),
    ("rewriting files", "bytes"): (1e-8, 1.5e-8),
    ("deleting", "files"): (5e-6, 6e-5),
    ("counting files", "rows"): (4e-7, 4e-7),
    ("reading the checkpoint", "rows"): (9e-7, 9e-7),
    ("writing file actions", "rows"): (2e-6, 2e-6),
    ("writing the checkpoint", "rows"): (2e-6, 2e-6),
}
"""Name of a step and its unit -> seconds per unit of its total, or per byte of its weight, on a disk and in a
remote store. The figures are those of docs/performance.md, with two cores; those of a remote store assume 40 ms per
request, 16 requests at once, and 100 MB per second. Other steps are not estimated: they are short, or have no known
total.
"""


class LongJobs:
    """A progress that passes everything on, and calls `suggest` once with what takes long and how long."""

    def __init__(
        self,
        inner: Progress,
        suggest: Callable[[str], None],
        *,
        is_far: bool,
    ) -> None:
        self._inner, self._suggest, self._is_far = inner, suggest, is_far
        self._is_done = False
        self.shows_nothing = inner is SILENT

    def step(self, what: str, *, unit: str, total: int | None = None) -> AbstractContextManager[Step]:
        """Start a step of the listener."""
        self._look(what, f"{total or 0:,} {unit}", unit, total or 0)
        return self._inner.step(what, unit=unit, total=total)

    def weighed_step(self, what: str, *, unit: str, total: int, weight: int) -> AbstractContextManager[WeighedStep]:
        """Start a step of the listener, with weights where it receives them."""
        self._look(what, f"{total:,} {unit}", unit, total)
        self._look(what, f"{total:,} {unit} ({format_size(weight)})", "bytes", weight)
        return weighed(self._inner, what, unit=unit, total=total, weight=weight)

    def plan(self, what: str, costs: Mapping[str, float]) -> AbstractContextManager[Plan]:
        """Start an operation of the listener."""
        return planned(self._inner, what, costs)

    def _look(self, what: str, amount: str, unit: str, total: int) -> None:
        cost = UNIT_COSTS.get((what, unit))
        if cost is None or self._is_done:
            return
        seconds = total * cost[self._is_far]
        if seconds >= LONG_SECONDS:
            self._is_done = True
            unit_s = 60 if seconds < _HOURS_FROM else 3_600
            time = format_duration(round(seconds / unit_s) * unit_s * 1_000)
            self._suggest(f"{what}: {amount} take about {time} in this process")
