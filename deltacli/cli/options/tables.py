"""Arguments and options that several commands on tables have.

A command declares itself which of its options are for tables of one format only, see `get_format_options`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from deltacli.cli.invocation import make_pastable_path
from deltacli.cli.options.values import make_columns_parser, parse_whole_number

DEFAULT_ROWS = 20
"""How many rows are shown on a terminal without `--limit`."""

TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", parser=make_pastable_path, help="Table directory: a path or URI.")
]
TablesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="TABLE...",
        parser=make_pastable_path,
        help="Table directories, or patterns such as 'lake/**': paths or URIs.",
    ),
]
TableHereArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        parser=make_pastable_path,
        help="Table directory: a path or URI.  [default: the current directory]",
    ),
]
"""The table of a command that changes nothing. Its default is the current directory."""


def has_several_tables(tables: Sequence[str]) -> bool:
    """Return whether the user has named several tables, or a pattern that may match several."""
    return len(tables) > 1 or not {*"*?["}.isdisjoint(tables[0])


VersionOption = Annotated[
    int | None,
    typer.Option("--version", metavar="N", parser=parse_whole_number, help="Use the snapshot of this version."),
]
TimestampOption = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        metavar="T",
        help="Use the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).",
    ),
]
FirstVersionOption = Annotated[
    str,
    typer.Option(
        "--from", metavar="V|T", help="The first version: a number, or the first one committed at or after T."
    ),
]
LastVersionOption = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="V|T",
        help="The last version: a number, or the last one committed at or before T.  [default: the newest]",
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="N",
        parser=parse_whole_number,
        help=f"Number of rows shown; 0 shows all.  [default: {DEFAULT_ROWS} on a terminal, else 0]",
    ),
]
ColumnsOption = Annotated[
    str | None, typer.Option("--columns", metavar="A,B,…", help="Show only these columns, in this order.")
]
"""Columns of a result, as they are written; `ReadColumnsOption` has columns of the table."""

ReadColumnsOption = Annotated[
    Sequence[str] | None,
    typer.Option(
        "--columns",
        metavar="A,B,…",
        parser=make_columns_parser("--columns"),
        help="Show only these columns, in this order.",
    ),
]
ChangedColumnsOption = Annotated[
    Sequence[str] | None,
    typer.Option(
        "--columns",
        metavar="A,B,…",
        parser=make_columns_parser("--columns"),
        help="Show only these columns of the table; those of the change follow.",
    ),
]
WhereOption = Annotated[
    str | None, typer.Option("--where", metavar="CONDITION", help="Return only rows that match it.")
]
RowIdsOption = Annotated[
    bool, typer.Option("--row-ids", help="Add the id of each row and the version of its last change.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing; overrides --yes.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
CheckOption = Annotated[bool, typer.Option("--check", help="Change nothing; exit 1 if a change is due, 4 if refused.")]
ApplyPlanOption = Annotated[
    str | None, typer.Option("--apply", metavar="FILE", help="Execute a saved plan, or resume it.")
]
CommitMetadataOption = Annotated[
    list[str] | None,
    typer.Option(
        "--commit-metadata",
        metavar="K=V",
        help="Key to add to the commitInfo; userMetadata=V sets that field. Repeatable.",
    ),
]
UpgradeProtocolOption = Annotated[
    bool,
    typer.Option("--upgrade-protocol", help="Add missing features; clients that do not support them lose access."),
]
AcceptCommitsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--accept-commits",
        metavar="N,N-M,…",
        help="Versions of a copy to bring back although nothing proves that they are of this table. Repeatable.",
    ),
]
