"""The format of a table, Delta or Paimon, for commands that work on both, and the options of one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from deltacli.cli.options.global_options import TableFormat
from deltacli.errors import PaimonTable, UsageError

if TYPE_CHECKING:
    from deltacli.cli.options.run import Run
    from deltacli.storage import Storage

BranchOption = Annotated[
    str | None,
    typer.Option("--branch", metavar="B", help="Branch of a Paimon table.  [default: main]", show_default=False),
]
SchemaIdOption = Annotated[
    int | None,
    typer.Option("--schema-id", metavar="N", help="Use this schema of a Paimon table.", show_default=False),
]
SnapshotIdOption = Annotated[
    int | None,
    typer.Option(
        "--snapshot-id", metavar="N", help="Use this snapshot of a Paimon table and its schema.", show_default=False
    ),
]
TagOption = Annotated[
    str | None,
    typer.Option("--tag", metavar="T", help="Use this tag of a Paimon table and its schema.", show_default=False),
]
DdlOption = Annotated[
    bool, typer.Option("--ddl", help="Show the schema of a Paimon table as CREATE TABLE of Flink SQL instead.")
]
RefsOption = Annotated[
    bool,
    typer.Option(
        "--refs/--no-refs",
        help="Read the manifests of a Paimon table to find the users of each schema.  [default: --refs]",
        show_default=False,
    ),
]
AllowLossyOption = Annotated[
    bool,
    typer.Option("--allow-lossy", help="Accept changes of a Paimon table after which stored values are read changed."),
]

Answer = TypeVar("Answer")


def on_its_format(
    run: Run,
    table: str,
    *,
    delta: Callable[[Storage], Answer],
    paimon: Callable[[Storage], Answer],
    of_delta: Mapping[str, bool],
    of_paimon: Mapping[str, bool],
    writes: bool = False,
) -> Answer:
    """Call the function for the format of a table. `of_delta` and `of_paimon` are options of one format: whether they
    were given. `writes`: the function changes the table.

    A table is taken for a Delta table first, which costs no request. Raises UsageError for an option of the other
    format.
    """
    storage = run.open_either(table, writes=writes)
    if run.table_format is TableFormat.PAIMON or (run.table_format is None and _is_only_paimon(storage, of_paimon)):
        _refuse(of_delta, "Delta")
        return paimon(storage)
    _refuse(of_paimon, "Paimon")
    try:
        return delta(storage)
    except PaimonTable:
        if run.table_format is not None:
            raise
    _refuse(of_delta, "Delta")
    return paimon(storage)


def given(**options: object) -> Mapping[str, bool]:
    """Return which options were given, by their names on the command line. None and False mean that one was not."""
    return {f"--{name.replace('_', '-')}": value is not None and value is not False for name, value in options.items()}


def _is_only_paimon(storage: Storage, of_paimon: Mapping[str, bool]) -> bool:
    """Return True for a Paimon table, if an option of Paimon was given; else this is not looked up."""
    if not any(of_paimon.values()):
        return False
    from deltacli.operations.paimon.table_files import is_paimon
    from deltacli.storage import PathKind

    return storage.kind_of("") is PathKind.DIRECTORY and is_paimon(storage)


_POINTS: Mapping[str, str] = {
    **dict.fromkeys(("--version", "--timestamp"), "--schema-id N, --snapshot-id N or --tag T on a Paimon table"),
    **dict.fromkeys(("--schema-id", "--snapshot-id", "--tag"), "--version N or --timestamp T on a Delta table"),
    "version:": "schema:N, snapshot:N or tag:T on a Paimon table",
    **dict.fromkeys(("schema:", "snapshot:", "tag:"), "version:N on a Delta table"),
}
"""How a point of a table is named, and how in the other format."""


def _refuse(options: Mapping[str, bool], table_format: str) -> None:
    """Raise UsageError if an option of the other format was given."""
    for option, is_given in options.items():
        if is_given:
            facts = {"instead": _POINTS[option]} if option in _POINTS else {}
            raise UsageError(f"{option} works on {table_format} tables only", code="usage.table-format", facts=facts)
