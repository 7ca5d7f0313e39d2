"""Tables whose format is not known: the same call works on a Delta table and on a Paimon table.

A directory is taken for a Delta table first, because most are. Finding out the format before would cost a request to a
remote store for each table; instead, what reads the log raises PaimonTable, and the call is repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeVar

from deltacli.core.errors import PaimonTable
from deltacli.storage import PathKind, ReadStorage
from deltacli.table.missing_log import missing_log_error

if TYPE_CHECKING:
    from deltacli.api.paimon import Paimon
    from deltacli.api.table import Table

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


def require_delta_log(table: Table) -> None:
    """Require that a table has a log, before arguments are parsed that mean something else in the other format.

    Raises:
        PaimonTable: If it is a Paimon table.
        NotATable: If it is no table.
    """
    from deltacli.table.find_log import list_log

    list_log(table.storage)


def open_as_paimon(table: Table, *, branch: str | None = None) -> Paimon:
    """Return a handle of the same directory as a Paimon table, with the same store, engine, clock and progress.

    Args:
        table: The directory, opened as a Delta table.
        branch: The branch that methods read and change. None: the main branch.
    """
    # A process that has Delta tables only does not need the code of the other format.
    from deltacli.api.paimon import Paimon
    from deltacli.paimon.snapshots import MAIN_BRANCH

    return Paimon(
        table.stores.storage,
        branch=branch or MAIN_BRANCH,
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
    *,
    delta: Callable[[Table], Result],
    paimon: Callable[[Paimon], Result],
    table_format: FormatName | None = None,
    branch: str | None = None,
) -> Result:
    """Return what the function for its format makes of a table, whose format need not be known.

    Args:
        table: The table, opened as a Delta table. Nothing needs to have been read of it.
        delta: Called with a Delta table, and with one of unknown format. It has to read the log before it does
            anything else: `paimon` is called if it raises PaimonTable.
        paimon: Called with a Paimon table.
        table_format: The format, if the caller knows it.
        branch: The branch of a Paimon table. None: the main branch.

    Raises:
        PaimonTable: If the format is given as `delta`, and the table is a Paimon table.
    """
    if table_format == "paimon":
        return paimon(open_as_paimon(table, branch=branch))
    try:
        return delta(table)
    except PaimonTable:
        if table_format is not None:
            raise
    return paimon(open_as_paimon(table, branch=branch))
