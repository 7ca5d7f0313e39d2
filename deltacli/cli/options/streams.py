"""Options that concern streaming queries of Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options.values import make_duration_parser, make_text_parser

CheckpointsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--checkpoints",
        metavar="GLOB",
        help="Name the streaming queries with these checkpoint directories that it concerns. Repeatable.",
    ),
]
"""Notes on these are written by `running/stream_notes.py`."""

ProtectStreamsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--protect-streams",
        metavar="GLOB",
        parser=make_text_parser("--protect-streams"),
        help="Keep what Spark queries need whose checkpoint directories match, such as 's3://lake/checkpoints/*'. "
        "Repeatable.",
    ),
]
IgnoreStreamsOlderOption = Annotated[
    int | None,
    typer.Option(
        "--ignore-streams-older",
        metavar="DURATION",
        parser=make_duration_parser("--ignore-streams-older"),
        help="Do not keep anything for a query that is behind and whose checkpoint is older than this.",
    ),
]
AllowStreamLossOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-stream-loss",
        metavar="QUERY",
        parser=make_text_parser("--allow-stream-loss"),
        help="Delete although this query (its id or checkpoint directory) cannot continue then. Repeatable.",
    ),
]
