"""The options that every command has besides `--format`, and what may stand before the command."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer


class ColourChoice(StrEnum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class ProgressChoice(StrEnum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"
    JSON = "json"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class TableFormat(StrEnum):
    DELTA = "delta"
    PAIMON = "paimon"


GLOBAL_OPTIONS: Mapping[str, Any] = {  # Any: annotations
    "output": Annotated[
        str | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Write the result there, atomically, instead of stdout.",
            show_default=False,
        ),
    ],
    "now": Annotated[
        str | None,
        typer.Option("--now", metavar="T", help="The clock, for reproducible runs.", show_default=False),
    ],
    "storage_option": Annotated[
        list[str] | None,
        typer.Option(
            "--storage-option",
            metavar="K=V",
            help="Passed to the store; K=@FILE reads the value from a file. Repeatable.",
            show_default=False,
        ),
    ],
    "retry_budget": Annotated[
        str | None,
        typer.Option(
            "--retry-budget",
            metavar="DURATION",
            help="How long a request to a store is repeated; 0s = never.  [default: 60s]",
            show_default=False,
        ),
    ],
    "allow_external": Annotated[
        list[str] | None,
        typer.Option(
            "--allow-external",
            metavar="PREFIX",
            help="Open files outside the table below this path or URI. Repeatable.",
            show_default=False,
        ),
    ],
    "table_format": Annotated[
        TableFormat | None,
        typer.Option("--table-format", metavar="delta|paimon", help="Do not detect the format.", show_default=False),
    ],
    "config": Annotated[
        str | None,
        typer.Option("--config", metavar="FILE", help="Defaults for these options, as TOML.", show_default=False),
    ],
    "colour": Annotated[
        ColourChoice | None,
        typer.Option(
            "--color", metavar="auto|always|never", help="Colour on stdout.  [default: auto]", show_default=False
        ),
    ],
    "progress": Annotated[
        ProgressChoice | None,
        typer.Option(
            "--progress",
            metavar="auto|always|never|json",
            help="Progress on stderr; auto: on a terminal.  [default: auto]",
            show_default=False,
        ),
    ],
    "log_format": Annotated[
        LogFormat | None,
        typer.Option(
            "--log-format",
            metavar="text|json",
            help="Notes and errors on stderr; default: json with --format json or ndjson, else text.",
            show_default=False,
        ),
    ],
    "no_pager": Annotated[bool, typer.Option("--no-pager", help="Never show a long result in a pager.")],
    "quiet": Annotated[bool, typer.Option("-q", "--quiet", help="No notes and no progress on stderr.")],
    "verbose": Annotated[
        int,
        typer.Option(
            "-v", "--verbose", count=True, help="Say more on stderr; -vv adds tracebacks.", show_default=False
        ),
    ],
}
"""Parameter -> its declaration, in the order of the help. `--format` and `--json` belong to each command."""

DEFAULTS: Mapping[str, Any] = {"as_json": False, "no_pager": False, "quiet": False, "verbose": 0}  # Any: option values

TAKES_VALUE: Mapping[str, bool] = {
    "--format": True,
    "--json": False,
    "--output": True,
    "--now": True,
    "--storage-option": True,
    "--retry-budget": True,
    "--allow-external": True,
    "--table-format": True,
    "--config": True,
    "--color": True,
    "--progress": True,
    "--log-format": True,
    "--no-pager": False,
    "-q": False,
    "--quiet": False,
    "-v": False,
    "-vv": False,
    "--verbose": False,
}
"""Shared options that may also stand before the command."""
