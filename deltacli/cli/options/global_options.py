"""The options that every command has besides `--format`, and those accepted before the command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum

from deltacli.core.request_fields import Option, option, spellings_of


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


OUTPUT_OF_ROWS = Option(
    "Write the result to this file, atomically, or Parquet files to this new or empty directory; .csv, … "
    "chooses the format.",
    "FILE|DIR/",
)
"""`--output` of the commands that also write directories."""
OUTPUT_OF_ONE_FORMAT = Option("Write the result to this file, atomically, instead of to stdout.", "FILE")
"""`--output` of the commands that have one format."""


@dataclass(frozen=True)
class GlobalOptions:
    """The shared options as on the command line, in the order of the help. Each command declares `--format` and
    `--json` with its own formats.
    """

    output_format: StrEnum | None = None
    as_json: bool = False
    output: str | None = option(
        "Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.", "FILE"
    )
    now: str | None = option("Time to use as the current time, for reproducible runs.", "T")
    storage_option: list[str] | None = option(
        "Option of the store; K=@FILE reads the value from a file. Repeatable.", "K=V"
    )
    retry_budget: str | None = option(
        "Time limit for retries of a request to a store; 0s disables them.  [default: 60s]", "DURATION"
    )
    allow_external: list[str] | None = option(
        "Allow to open files below this path or URI outside the table. Repeatable.", "PREFIX"
    )
    table_format: TableFormat | None = option("Format of the table, instead of detecting it.", "delta|paimon")
    config: str | None = option("TOML file with defaults for these options.", "FILE")
    colour: ColourChoice | None = option(
        "Use of colour on stdout.  [default: auto]", "auto|always|never", spelled="--color"
    )
    progress: ProgressChoice | None = option(
        "Progress on stderr; auto: on a terminal.  [default: auto]", "auto|always|never|json"
    )
    log_format: LogFormat | None = option(
        "Format of notes and errors on stderr; default: json with --format json or ndjson, else text.", "text|json"
    )
    no_pager: bool = option("Do not show a long result in a pager.", default=False)
    quiet: bool = option("Suppress notes and progress on stderr.", default=False, spelled="-q --quiet")
    verbose: int = option(
        "Write more details to stderr; -vv adds tracebacks.", default=0, spelled="-v --verbose", is_counted=True
    )


TAKES_VALUE: Mapping[str, bool] = {
    "--format": True,
    "--json": False,
    "-vv": False,
    **{
        name: one.default is None
        for one in fields(GlobalOptions)
        if one.metadata
        for name in spellings_of(one.name, one.metadata["option"])
    },
}
"""Shared options that are also accepted before the command."""
