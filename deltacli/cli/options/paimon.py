"""Options that work on Paimon tables only, of several commands."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options.values import parse_whole_number

BranchOption = Annotated[
    str | None, typer.Option("--branch", metavar="B", help="Branch of a Paimon table.  [default: main]")
]
SchemaIdOption = Annotated[
    int | None,
    typer.Option("--schema-id", metavar="N", parser=parse_whole_number, help="Use this schema of a Paimon table."),
]
SnapshotIdOption = Annotated[
    int | None,
    typer.Option(
        "--snapshot-id",
        metavar="N",
        parser=parse_whole_number,
        help="Use this snapshot of a Paimon table and its schema.",
    ),
]
TagOption = Annotated[
    str | None, typer.Option("--tag", metavar="T", help="Use this tag of a Paimon table and its schema.")
]
RefsOption = Annotated[
    bool,
    typer.Option(
        "--refs/--no-refs",
        help="Read the manifests of a Paimon table to find the users of each schema.  [default: --refs]",
    ),
]
AllowLossyOption = Annotated[
    bool,
    typer.Option(
        "--allow-lossy", help="Accept changes of a Paimon table after which stored values are read differently."
    ),
]
MinPaimonOption = Annotated[
    int | None,
    typer.Option(
        "--min-paimon",
        metavar="VERSION",
        parser=parse_whole_number,
        help="Oldest major version of Paimon among the engines of the table, 1 or 2; with 2, what Paimon 1.x cannot "
        "open is permitted.  [default: the table's option deltacli.min-paimon, or 1]",
    ),
]
