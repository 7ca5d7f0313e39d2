"""The options that all commands share, declared once.

Each function below declares a group of options in the usual form of Typer, and is never called. `read_parameters`
returns the parameters that Typer creates from it, and the classes of `command_classes.py` add them to each command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from deltacli.cli.invocation import AT
from deltacli.cli.options.values import make_choice_parser
from deltacli.cli.output.formats import AnyFormat, FindingFormat, RowFormat
from deltacli.cli.output.formats import TableFormat as OneFormat
from deltacli.cli.vendored_click import Parameter


class ColourChoice(StrEnum):
    """The use of colours on stdout."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class ProgressChoice(StrEnum):
    """The form of progress on stderr."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"
    JSON = "json"


class LogFormat(StrEnum):
    """The form of notes and errors on stderr."""

    TEXT = "text"
    JSON = "json"


class TableFormat(StrEnum):
    """The formats of tables."""

    DELTA = "delta"
    PAIMON = "paimon"


class AccessMode(StrEnum):
    """The ways to read files of a shared table: by URLs, or in the directory of the table."""

    AUTO = "auto"
    URL = "url"
    DIR = "dir"


@dataclass(frozen=True)
class SharedOptions:
    """The shared options of the command line. An option that was not used is None or False.

    Attributes:
        output_format: The value of `--format`, one of the formats of the command.
        as_json: Whether `--json` was used.
        output: The file, or the directory of Parquet files, for the result.
        template: The line to write for each item.
        run_in: The value of `-C`. It has been applied before the command line is parsed.
        now: The time to use as the current time, as the user typed it.
        storage_option: Options of the store, each `K=V` or `K=@FILE`.
        retry_budget: The time limit for retries, as the user typed it.
        allow_external: Prefixes of URIs. Files outside a table directory may be opened if they have one of them.
        table_format: The format of the table.
        access: How shared tables are read.
        config: The configuration file.
        profile_name: The profile in that file.
        catalog_profile: The catalog in that file.
        colour: When colours are used.
        progress: When progress is shown on stderr.
        log_format: The format of notes and errors.
        no_pager: Whether long results are shown without a pager.
        quiet: Whether notes and progress are omitted.
        verbose: How often `-v` was used.
    """

    output_format: StrEnum | None = None
    as_json: bool = False
    output: str | None = None
    template: str | None = None
    run_in: str | None = None
    now: str | None = None
    storage_option: list[str] | None = None
    retry_budget: str | None = None
    allow_external: list[str] | None = None
    table_format: TableFormat | None = None
    access: AccessMode | None = None
    config: str | None = None
    profile_name: str | None = None
    catalog_profile: str | None = None
    colour: ColourChoice | None = None
    progress: ProgressChoice | None = None
    log_format: LogFormat | None = None
    no_pager: bool = False
    quiet: bool = False
    verbose: int = 0


def read_parameters(declaration: Callable[..., None]) -> list[Parameter]:
    """Return the options that a function declares, as new objects of Typer."""
    app = typer.Typer(add_completion=False)
    app.command()(declaration)
    return list(typer.main.get_command(app).params)


def _format_option(formats: type[StrEnum], *, is_hidden: bool = False) -> Any:  # Any: what typer.Option returns
    return typer.Option(
        "--format",
        metavar="|".join(formats),
        parser=make_choice_parser(formats),
        hidden=is_hidden,
        help="Format of stdout.  [default: table]",
    )


JsonOption = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
OutputOption = Annotated[
    str | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Write the result to this file, atomically, instead of to stdout; .csv, … chooses the format.",
    ),
]
RowsOutputOption = Annotated[
    str | None,
    typer.Option(
        "--output",
        metavar="FILE|DIR/",
        help="Write the result to this file, atomically, or Parquet files to this new or empty directory; .csv, … "
        "chooses the format.",
    ),
]
TextOutputOption = Annotated[
    str | None,
    typer.Option("--output", metavar="FILE", help="Write the result to this file, atomically, instead of to stdout."),
]
TemplateOption = Annotated[
    str | None,
    typer.Option(
        "--template",
        metavar="'TEXT {FIELD}'",
        help="Write a line for each item of ndjson; {FIELD} is one of its fields, \\t a tab.",
    ),
]


def declare_output(
    output_format: Annotated[StrEnum | None, _format_option(AnyFormat)] = None,
    as_json: JsonOption = False,
    output: OutputOption = None,
    template: TemplateOption = None,
) -> None:
    """Declare the options for the destination and the format of a result."""


def declare_output_of_findings(
    output_format: Annotated[StrEnum | None, _format_option(FindingFormat)] = None,
    as_json: JsonOption = False,
    output: OutputOption = None,
    template: TemplateOption = None,
) -> None:
    """Declare the options of `declare_output`, with the formats of findings for code hosts and build servers."""


def declare_output_of_rows(
    output_format: Annotated[StrEnum | None, _format_option(RowFormat)] = None,
    as_json: JsonOption = False,
    output: RowsOutputOption = None,
    template: TemplateOption = None,
) -> None:
    """Declare the options of `declare_output`, with Parquet as a format and directories as a destination."""


def declare_output_of_text(
    output_format: Annotated[StrEnum | None, _format_option(OneFormat, is_hidden=True)] = None,
    as_json: Annotated[bool, typer.Option("--json", hidden=True, help="The same as --format json.")] = False,
    output: TextOutputOption = None,
) -> None:
    """Declare the options for the destination of a text. `--format table` is accepted, because scripts may pass it."""


def declare_settings(
    *,
    run_in: Annotated[
        str | None,
        typer.Option(
            AT,
            metavar="DIR",
            help="Run in this directory, where relative paths begin. Repeatable: each one is relative to the one "
            "before.",
        ),
    ] = None,
    now: Annotated[
        str | None,
        typer.Option("--now", metavar="T", help="Time to use as the current time, for reproducible runs."),
    ] = None,
    storage_option: Annotated[
        list[str] | None,
        typer.Option(
            "--storage-option",
            metavar="K=V",
            help="Option of the store; K=@FILE reads the value from a file. Repeatable.",
        ),
    ] = None,
    retry_budget: Annotated[
        str | None,
        typer.Option(
            "--retry-budget",
            metavar="DURATION",
            help="Time limit for retries of a request to a store; 0s disables them.  [default: 60s]",
        ),
    ] = None,
    allow_external: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-external",
            metavar="PREFIX",
            help="Allow opening files below this path or URI outside the table. Repeatable.",
        ),
    ] = None,
    table_format: Annotated[
        TableFormat | None,
        typer.Option(
            "--table-format",
            metavar="delta|paimon",
            parser=make_choice_parser(TableFormat),
            help="Format of the table, instead of detecting it.",
        ),
    ] = None,
    access: Annotated[
        AccessMode | None,
        typer.Option(
            "--access",
            metavar="auto|url|dir",
            parser=make_choice_parser(AccessMode),
            help="Read a shared table by URLs of its files, or in its directory with temporary credentials.  "
            "[default: auto]",
        ),
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="TOML file with defaults for these options.")
    ] = None,
    profile_name: Annotated[
        str | None,
        typer.Option(
            "--profile-name",
            metavar="NAME",
            help="Use [profile.NAME] of that file, whose keys override the others of the file.",
        ),
    ] = None,
    catalog_profile: Annotated[
        str | None,
        typer.Option("--catalog-profile", metavar="NAME", help="Use [catalog.NAME] of that file for tables uc://…."),
    ] = None,
    colour: Annotated[
        ColourChoice | None,
        typer.Option(
            "--color",
            metavar="auto|always|never",
            parser=make_choice_parser(ColourChoice),
            help="Use of colour on stdout.  [default: auto]",
        ),
    ] = None,
    progress: Annotated[
        ProgressChoice | None,
        typer.Option(
            "--progress",
            metavar="auto|always|never|json",
            parser=make_choice_parser(ProgressChoice),
            help="Progress on stderr; auto: on a terminal.  [default: auto]",
        ),
    ] = None,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(
            "--log-format",
            metavar="text|json",
            parser=make_choice_parser(LogFormat),
            help="Format of notes and errors on stderr; default: json with --format json or ndjson, else text.",
        ),
    ] = None,
    no_pager: Annotated[bool, typer.Option("--no-pager", help="Do not show a long result in a pager.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Suppress notes and progress on stderr.")] = False,
    verbose: Annotated[
        int,
        typer.Option("-v", "--verbose", count=True, help="Write more details to stderr; -vv adds tracebacks."),
    ] = 0,
) -> None:
    """Declare the other options that all commands share."""
