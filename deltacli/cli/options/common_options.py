"""Arguments and options that several commands declare: the table, its version, or a point of a Paimon table, --yes, …

An option that works on tables of one format only has its mark, `OF_DELTA` or `OF_PAIMON`.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from deltacli.core.request_fields import COMMIT_METADATA, OF_DELTA, OF_PAIMON, Option


def argument(meaning: str, metavar: str) -> Any:  # Any: what typer's own function returns
    """Return an argument whose default, if it has one, is not shown."""
    return typer.Argument(metavar=metavar, help=meaning, show_default=False)


TableArgument = Annotated[str, argument("Table directory: a path or URI.", "TABLE")]
VersionOption = Annotated[int | None, Option("Use the snapshot of this version.", "N", table_format=OF_DELTA)]
TimestampOption = Annotated[
    str | None,
    Option(
        "Use the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).",
        "T",
        table_format=OF_DELTA,
    ),
]
LastOption = Annotated[
    str | None,
    Option(
        "The last version: a number, or the last one committed at or before T.  [default: the newest]",
        "V|T",
        spelled="--to",
    ),
]
DryRunOption = Annotated[bool, Option("Show what would be done and change nothing; overrides --yes.")]
YesOption = Annotated[bool, Option("Do not ask for confirmation.")]
CommitMetadataOption = Annotated[list[str] | None, COMMIT_METADATA, OF_DELTA]
BranchOption = Annotated[str | None, Option("Branch of a Paimon table.  [default: main]", "B", table_format=OF_PAIMON)]
SchemaIdOption = Annotated[int | None, Option("Use this schema of a Paimon table.", "N", table_format=OF_PAIMON)]
SnapshotIdOption = Annotated[
    int | None, Option("Use this snapshot of a Paimon table and its schema.", "N", table_format=OF_PAIMON)
]
TagOption = Annotated[str | None, Option("Use this tag of a Paimon table and its schema.", "T", table_format=OF_PAIMON)]
DdlOption = Annotated[
    bool, Option("Show the schema of a Paimon table as CREATE TABLE of Flink SQL instead.", table_format=OF_PAIMON)
]
RefsOption = Annotated[
    bool,
    typer.Option(
        "--refs/--no-refs",
        help="Read the manifests of a Paimon table to find the users of each schema.  [default: --refs]",
        show_default=False,
    ),
    OF_PAIMON,
]
AllowLossyOption = Annotated[
    bool,
    Option("Accept changes of a Paimon table after which stored values are read differently.", table_format=OF_PAIMON),
]

DEFAULT_ROWS = 20
"Rows shown on a terminal without --limit."

LimitOption = Annotated[
    int | None, Option(f"Number of rows shown; 0 shows all.  [default: {DEFAULT_ROWS} on a terminal, else 0]", "N")
]
ColumnsOption = Annotated[str | None, Option("Show only these columns, in this order.", "A,B,…")]
