"""Call a function on a table that may be a Delta table or a Paimon table.

Most tables are Delta tables, so a table is opened as Delta first. For the directory of a Paimon table, reading the
Delta log raises PaimonTable, and the function is called again with the table opened as Paimon. Determining the format
in advance would cost an additional request to the store for each table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeVar

from deltacli.core.errors import PaimonTable
from deltacli.storage import PathKind, ReadStorage
from deltacli.table.missing_log import build_missing_log_error

if TYPE_CHECKING:
    from deltacli.api.paimon import Paimon
    from deltacli.api.table import Table

Result = TypeVar("Result")
FormatName = Literal["delta", "paimon"]


def find_table_format(storage: ReadStorage) -> FormatName:
    """Determine the format of a table from the files in its directory.

    Args:
        storage: The directory. If it contains the files of both formats, the result is `delta`. Reading such a table
            fails later, in `require_one_format`.

    Raises:
        NotATable: If the path does not exist.
    """
    from deltacli.operations.paimon.table_files import is_paimon

    kind = storage.kind_of("")
    if kind is PathKind.MISSING:
        raise build_missing_log_error(storage)
    # Opening a file as a Delta table raises the error that explains the problem.
    return "paimon" if kind is PathKind.DIRECTORY and is_paimon(storage) else "delta"


def require_delta_log(table: Table) -> None:
    """Check that a table is a Delta table.

    A command calls this before it parses arguments whose meaning depends on the format.

    Raises:
        PaimonTable: If the table is a Paimon table.
        NotATable: If the path is not a table.
    """
    from deltacli.table.find_log import list_log

    list_log(table.storage)


def open_as_paimon(table: Table, *, branch: str | None = None) -> Paimon:
    """Return the Paimon table in the directory of a Delta table handle, with the same store, engine, clock and
    progress.

    Args:
        table: The handle, opened by `open_table`.
        branch: The branch that methods read and change. None for the main branch.
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
    """Open a table in its format, Delta or Paimon, and call a function with it.

    Args:
        table: The table, opened as a Delta table.
        delta: The function for a Delta table. It must read the log before it does anything else. If that raises
            PaimonTable, `paimon` is called instead.
        paimon: The function for a Paimon table.
        table_format: The format of the table. None if it is unknown.
        branch: The branch of a Paimon table. None for the main branch.

    Raises:
        PaimonTable: If `table_format` is `delta`, and the table is a Paimon table.
    """
    if table_format == "paimon":
        return paimon(open_as_paimon(table, branch=branch))
    try:
        return delta(table)
    except PaimonTable:
        if table_format is not None:
            raise
    return paimon(open_as_paimon(table, branch=branch))
