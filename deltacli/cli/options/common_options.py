"""Arguments and options that several commands declare: the table, its version, or a point of a Paimon table, --yes, …

An option that works on tables of one format only has its mark, `OF_DELTA` or `OF_PAIMON`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.request_fields import COMMIT_METADATA, OF_DELTA, OF_PAIMON

TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="Table directory: a path or URI.", show_default=False)
]
VersionOption = Annotated[
    int | None,
    typer.Option("--version", metavar="N", help="Use the snapshot of this version.", show_default=False),
    OF_DELTA,
]
TimestampOption = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        metavar="T",
        help="Use the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).",
        show_default=False,
    ),
    OF_DELTA,
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done and change nothing; overrides --yes.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
CommitMetadataOption = Annotated[
    list[str] | None,
    typer.Option(
        "--commit-metadata",
        metavar=COMMIT_METADATA.metavar,
        help=COMMIT_METADATA.meaning,
        show_default=False,
    ),
    OF_DELTA,
]
BranchOption = Annotated[
    str | None,
    typer.Option("--branch", metavar="B", help="Branch of a Paimon table.  [default: main]", show_default=False),
    OF_PAIMON,
]
SchemaIdOption = Annotated[
    int | None,
    typer.Option("--schema-id", metavar="N", help="Use this schema of a Paimon table.", show_default=False),
    OF_PAIMON,
]
SnapshotIdOption = Annotated[
    int | None,
    typer.Option(
        "--snapshot-id", metavar="N", help="Use this snapshot of a Paimon table and its schema.", show_default=False
    ),
    OF_PAIMON,
]
TagOption = Annotated[
    str | None,
    typer.Option("--tag", metavar="T", help="Use this tag of a Paimon table and its schema.", show_default=False),
    OF_PAIMON,
]
DdlOption = Annotated[
    bool,
    typer.Option("--ddl", help="Show the schema of a Paimon table as CREATE TABLE of Flink SQL instead."),
    OF_PAIMON,
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
    typer.Option(
        "--allow-lossy", help="Accept changes of a Paimon table after which stored values are read differently."
    ),
    OF_PAIMON,
]
