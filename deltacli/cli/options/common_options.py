"""Arguments and options that several commands declare: the table, the version, --dry-run, --yes, --commit-metadata.

An option that works on tables of one format only has its mark, `OF_DELTA` or `OF_PAIMON`.
"""

from __future__ import annotations

from typing import Annotated

import typer

OF_DELTA, OF_PAIMON = "Delta", "Paimon"

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
        metavar="K=V",
        help="Key to add to the commitInfo; userMetadata=V sets that field. Repeatable.",
        show_default=False,
    ),
    OF_DELTA,
]
