"""The options that every command has besides `--format`, and those accepted before the command."""

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


OUTPUT_OF_ROWS: Any = Annotated[  # Any: an annotation
    str | None,
    typer.Option(
        "--output",
        metavar="FILE|DIR/",
        help="Write the result to this file, atomically, or Parquet files to this new or empty directory; .csv, … "
        "chooses the format.",
        show_default=False,
    ),
]
"""`--output` of the commands that also write directories."""

GLOBAL_OPTIONS: Mapping[str, Any] = {  # Any: annotations
    "output": Annotated[
        str | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.",
            show_default=False,
        ),
    ],
    "now": Annotated[
        str | None,
        typer.Option(
            "--now", metavar="T", help="Time to use as the current time, for reproducible runs.", show_default=False
        ),
    ],
    "storage_option": Annotated[
        list[str] | None,
        typer.Option(
            "--storage-option",
            metavar="K=V",
            help="Option of the store; K=@FILE reads the value from a file. Repeatable.",
            show_default=False,
        ),
    ],
    "retry_budget": Annotated[
        str | None,
        typer.Option(
            "--retry-budget",
            metavar="DURATION",
            help="Time limit for retries of a request to a store; 0s disables them.  [default: 60s]",
            show_default=False,
        ),
    ],
    "allow_external": Annotated[
        list[str] | None,
        typer.Option(
            "--allow-external",
            metavar="PREFIX",
            help="Allow to open files below this path or URI outside the table. Repeatable.",
            show_default=False,
        ),
    ],
    "table_format": Annotated[
        TableFormat | None,
        typer.Option(
            "--table-format",
            metavar="delta|paimon",
            help="Format of the table, instead of detecting it.",
            show_default=False,
        ),
    ],
    "config": Annotated[
        str | None,
        typer.Option("--config", metavar="FILE", help="TOML file with defaults for these options.", show_default=False),
    ],
    "colour": Annotated[
        ColourChoice | None,
        typer.Option(
            "--color", metavar="auto|always|never", help="Use of colour on stdout.  [default: auto]", show_default=False
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
            help="Format of notes and errors on stderr; default: json with --format json or ndjson, else text.",
            show_default=False,
        ),
    ],
    "no_pager": Annotated[bool, typer.Option("--no-pager", help="Do not show a long result in a pager.")],
    "quiet": Annotated[bool, typer.Option("-q", "--quiet", help="Suppress notes and progress on stderr.")],
    "verbose": Annotated[
        int,
        typer.Option(
            "-v", "--verbose", count=True, help="Write more details to stderr; -vv adds tracebacks.", show_default=False
        ),
    ],
}
"""Parameter -> its declaration, in the order of the help. Each command declares its own `--format` and `--json`."""

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
"""Shared options that are also accepted before the command."""
