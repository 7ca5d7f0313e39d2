"""Commands that work on tables of either format: the format is found, and options of the other one are refused.

A command that only Delta tables have opens its table by `CommandContext.open_table`; `cli/errors.py` says what does its
work on a Paimon table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from deltacli.cli.invocation import invocation
from deltacli.cli.options.given import OF_DELTA, OF_PAIMON
from deltacli.cli.shared_options import TableFormat
from deltacli.core.errors import PaimonTable, UsageError

if TYPE_CHECKING:
    from deltacli.api.either_format import FormatName
    from deltacli.api.paimon import Paimon
    from deltacli.api.table import Table
    from deltacli.cli.running.context import CommandContext
    from deltacli.storage import Storage

Result = TypeVar("Result")

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


def call_with_table(
    run: CommandContext,
    name: str,
    *,
    delta: Callable[[Table], Result],
    paimon: Callable[[Paimon], Result],
    options: Mapping[str, str] = NO_OPTIONS,
    branch: str | None = None,
    writes: bool = False,
) -> Result:
    """Return what the function for its format makes of a table.

    A table is taken for a Delta table first, which costs no request. So `delta` has to read the log before it does
    anything else, and `paimon` is called after it.

    Args:
        run: The run of the command.
        name: The table as the user wrote it.
        delta: Called with a Delta table.
        paimon: Called with a Paimon table.
        options: The given options of one format, each with its format.
        branch: The branch of a Paimon table. None: the main branch.
        writes: True if the command changes the table.

    Raises:
        UsageError: For an option of the other format, or another format than that of `--table-format`.
    """
    from deltacli.api.either_format import call_with_either_format

    storage = run.open_either(name, writes=writes)
    table_format = _find_format(run, storage, options)

    def call_delta(table: Table) -> Result:
        _require_options_of(OF_DELTA, options)
        return delta(table)

    def call_paimon(table: Paimon) -> Result:
        _require_options_of(OF_PAIMON, options)
        return paimon(table)

    try:
        return call_with_either_format(
            run.make_table(storage), delta=call_delta, paimon=call_paimon, table_format=table_format, branch=branch
        )
    except PaimonTable as error:
        # Of a Paimon table it says what the command cannot do with one.
        if run.table_format is not TableFormat.DELTA:
            raise
        from deltacli.cli.terminal.suggested_commands import remove_option, repeat_command

        raise UsageError(
            f"--table-format {run.table_format}: this is a Paimon table, without a _delta_log",
            code="usage.table-format",
            hint=repeat_command(remove_option(invocation.arguments, "--table-format")),
        ) from error


def _find_format(run: CommandContext, storage: Storage, options: Mapping[str, str]) -> FormatName | None:
    """Return the format of a table as far as it has to be known before the table is read.

    An option of Paimon alone is refused on a Delta table before anything is read of that. To find out takes requests,
    which commands without such an option do not need.
    """
    if run.table_format is not None:
        return "paimon" if run.table_format is TableFormat.PAIMON else "delta"
    if OF_PAIMON not in options.values():
        return None
    from deltacli.api.either_format import find_table_format

    return find_table_format(storage)


def require_one_point(*points: object) -> None:
    """Require that at most one point of a Paimon table is given.

    Raises:
        UsageError: If more than one is.
    """
    if sum(point is not None for point in points) > 1:
        raise UsageError("--schema-id, --snapshot-id and --tag exclude each other")


_POINTS: Mapping[str, str] = {
    **dict.fromkeys(("--version", "--timestamp"), "--schema-id N, --snapshot-id N or --tag T on a Paimon table"),
    **dict.fromkeys(("--schema-id", "--snapshot-id", "--tag"), "--version N or --timestamp T on a Delta table"),
    "version:": "schema:N, snapshot:N or tag:T on a Paimon table",
    **dict.fromkeys(("schema:", "snapshot:", "tag:"), "version:N on a Delta table"),
}
"""How a point of a table is named, and how in the other format."""


def _require_options_of(table_format: str, options: Mapping[str, str]) -> None:
    """Require that no option of the other format is given. Raises UsageError."""
    for option, needed_format in options.items():
        if needed_format != table_format:
            facts = {"instead": _POINTS[option]} if option in _POINTS else {}
            raise make_format_error(needed_format, option, facts)


def make_format_error(needed: str, what: str, facts: Mapping[str, str], hint: str | None = None) -> UsageError:
    """Return the error for something that only tables of one format have.

    Args:
        needed: The format that has it.
        what: A command, an option, an option with its value (`--profile java`), or a kind of point (`tag:`).
        facts: The facts of the error.
        hint: The hint of the error.
    """
    is_option = what.startswith("--")
    if what.endswith(":"):
        message = f"{what}N is a point of a {needed} table"
    elif is_option and " " in what:
        message = f"{what} is for {needed} tables"
    elif is_option:
        message = f"{what} works on {needed} tables only"
    else:
        other = OF_DELTA if needed == OF_PAIMON else OF_PAIMON
        message = f"{what} works on {needed} tables, and this is a {other} table"
    return UsageError(message, code="usage.table-format", facts=facts, hint=hint)
