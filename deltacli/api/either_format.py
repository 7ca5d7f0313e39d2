"""Tables whose format is not known: the same call works on a Delta table and on a Paimon table.

A directory is taken for a Delta table first, because most are. Finding out the format before would cost a request to a
remote store for each table; instead, what reads the log raises PaimonTable, and the call is repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from deltacli.api.paimon import Paimon
from deltacli.api.table import Table
from deltacli.core.errors import PaimonTable
from deltacli.paimon.snapshots import MAIN_BRANCH
from deltacli.storage import PathKind, ReadStorage
from deltacli.table.missing_log import missing_log_error

Result = TypeVar("Result")
FormatName = Literal["delta", "paimon"]


def find_table_format(storage: ReadStorage) -> FormatName:
    """Return the format of the table in a directory, by requests to its store.

    Args:
        storage: The store. A directory that has files of both formats is a Delta table here; `require_delta` refuses
            such a directory.

    Raises:
        NotATable: If there is nothing at the path.
    """
    from deltacli.operations.paimon.table_files import is_paimon

    kind = storage.kind_of("")
    if kind is PathKind.MISSING:
        raise missing_log_error(storage)
    # A file is no table of any format. As a Delta table it gets the error that says so.
    return "paimon" if kind is PathKind.DIRECTORY and is_paimon(storage) else "delta"


def open_as_paimon(table: Table, *, branch: str = MAIN_BRANCH) -> Paimon:
    """Return a handle of the same directory as a Paimon table, with the same store, engine, clock and progress."""
    return Paimon(
        table.stores.storage,
        branch=branch,
        engine=table.engine,
        clock=table.clock,
        progress=table.progress,
        open_other=table.open_other,
        allowed=table.allowed,
        name=table.name,
        location=table.stores.location,
        machine=table.machine,
    )


def call_with_either_format(
    table: Table,
    call: Callable[[Table | Paimon], Result],
    *,
    table_format: FormatName | None = None,
    branch: str = MAIN_BRANCH,
) -> Result:
    """Return what a function makes of a table, whose format need not be known.

    Args:
        table: The table, opened as a Delta table. Nothing needs to have been read of it.
        call: The function. It is called a second time, with a Paimon table, if the first call raised PaimonTable. It
            has to read the log of a Delta table before it does anything else.
        table_format: The format, if the caller knows it. The function is called once then.
        branch: The branch of a Paimon table.

    Raises:
        PaimonTable: If the format is given as `delta`, and the table is a Paimon table.
    """
    if table_format == "paimon":
        return call(open_as_paimon(table, branch=branch))
    try:
        return call(table)
    except PaimonTable:
        if table_format is not None:
            raise
    return call(open_as_paimon(table, branch=branch))
