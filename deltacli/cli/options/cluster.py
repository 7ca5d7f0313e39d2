"""The options that choose the engine: threads of this process, or a Spark cluster."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from deltacli.cli.options.configuration import Variable, one_of, parse_pair, read_text
from deltacli.errors import UsageError
from deltacli.request_fields import option
from deltacli.typing import JsonObject

if TYPE_CHECKING:
    from deltacli.engine.spark.session import SparkSettings


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
    choice = (
        given.engine
        or one_of(EngineChoice, Variable.ENGINE.read(), Variable.ENGINE)
        or one_of(EngineChoice, settings.get("engine"), f"engine {configuration}")
        or EngineChoice.EMBEDDED
    )
    if choice is EngineChoice.EMBEDDED:
        spark = {"--master": given.master, "--remote": given.remote, "--spark-conf": given.spark_conf}
        named = next((name for name, value in spark.items() if value), None)
        if named is not None:
            raise UsageError(f"{named} needs --engine spark", hint=f"add --engine spark, or omit {named}")
        return None
    from deltacli.engine.spark.session import SparkSettings

    if given.master and given.remote:
        raise UsageError("--master and --remote exclude each other")
    conf = {
        **settings.get("spark_conf", {}),
        **dict(map(_parse_conf, given.spark_conf or [])),
    }
    if given.master or given.remote:
        return SparkSettings(given.master, _remote_of(given.remote), conf)
    default = SparkSettings(
        Variable.MASTER.read() or settings.get("master"),
        Variable.REMOTE.read() or settings.get("remote"),
        conf,
    )
    if default.master and default.remote:
        raise UsageError("the environment or the configuration names a Spark master and a Spark Connect server")
    return default


def _remote_of(given: str | None) -> str | None:
    """Return the URL of a server. Raises UsageError for one with a token on the command line."""
    from deltacli.storage.secrets import holds_secret

    if given is None or not given.startswith("@"):
        if given is not None and holds_secret(given):
            raise UsageError(
                "--remote has a token, which is visible in the process list",
                code="usage.secret",
                facts={"instead": "--remote @FILE, or the variable DELTACLI_REMOTE"},
            )
        return given
    return read_text(given[1:], "--remote")


def _parse_conf(text: str) -> tuple[str, str]:
    """Return key and value of a `--spark-conf`. Raises UsageError."""
    return parse_pair("--spark-conf", text, "the configuration of Spark itself")
