"""Call a function on a table that may be a Delta table or a Paimon table.

Most tables are Delta tables, so a table is opened as Delta first. For the directory of a Paimon table, reading the
Delta log raises PaimonTable, and the function is called again with the table opened as Paimon. Determining the format
in advance would cost an additional request to the store for each table.
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
    """Determine the format of a table from the files in its directory.

    Args:
        storage: The directory. If it contains the files of both formats, the result is `delta`. Reading such a table
            fails later, in `require_delta`.

    Raises:
        NotATable: If the path does not exist.
    """
    from deltacli.operations.paimon.table_files import is_paimon

    kind = storage.kind_of("")
    if kind is PathKind.MISSING:
        raise missing_log_error(storage)
    # Opening a file as a Delta table raises the error that explains the problem.
    return "paimon" if kind is PathKind.DIRECTORY and is_paimon(storage) else "delta"


def open_as_paimon(table: Table, *, branch: str = MAIN_BRANCH) -> Paimon:
    """Open the directory of a Delta table handle as Paimon, with the same store, engine, clock and progress."""
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
    """Call a function with a table, as Delta first and as Paimon if it is not a Delta table. Return its result.

    Args:
        table: The table, opened as Delta. Its log need not have been read.
        call: The function. If it raises PaimonTable, it is called again with a Paimon table. It must read the log of
            the table before it has any other effect.
        table_format: The format if the caller knows it: the function is called once. None if it is not known.
        branch: The branch of a Paimon table.

    Raises:
        PaimonTable: If `table_format` is `delta`, and the table is a Paimon table.
    """
    if table_format == "paimon":
        return call(open_as_paimon(table, branch=branch))
    try:
        return call(table)
    except PaimonTable:
        if table_format is not None:
            raise
    return call(open_as_paimon(table, branch=branch))
