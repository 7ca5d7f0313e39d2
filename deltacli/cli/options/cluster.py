"""The options that choose the engine: threads of this process, or a Spark cluster."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from deltacli.cli.options.values import make_choice_parser


class EngineChoice(StrEnum):
    """The engine that does the work: threads of this process, or a Spark cluster."""

    EMBEDDED = "embedded"
    SPARK = "spark"


@dataclass(frozen=True)
class ClusterOptions:
    """The options that choose the engine, as they were given.

    Attributes:
        engine: Where the work runs; None: as the environment or the configuration says, else in this process.
        master: The Spark master.
        remote: The Spark Connect server, or `@FILE`.
        spark_conf: Settings of the Spark session, each `K=V` or `K=@FILE`.
    """

    engine: EngineChoice | None = None
    master: str | None = None
    remote: str | None = None
    spark_conf: list[str] | None = None


def declare_cluster_options(
    engine: Annotated[
        EngineChoice | None,
        typer.Option(
            "--engine",
            metavar="embedded|spark",
            parser=make_choice_parser(EngineChoice),
            help="Where the work runs: in this process, or on a Spark cluster.  [default: embedded]",
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Spark master, such as local[4] or spark://HOST:7077."),
    ] = None,
    remote: Annotated[
        str | None,
        typer.Option(
            "--remote",
            metavar="URL",
            help="Spark Connect server, such as sc://HOST:15002; @FILE reads the URL from a file.",
        ),
    ] = None,
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(
            "--spark-conf",
            metavar="K=V",
            help="Setting of the Spark session; K=@FILE reads the value from a file. Repeatable.",
        ),
    ] = None,
) -> None:
    """Declare the options of `ClusterOptions`, which the commands have that a cluster can run."""
