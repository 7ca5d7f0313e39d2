"""The options that choose the engine: threads of this process, or a Spark cluster."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from deltacli.core.request_fields import option


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
