"""Commands that support Delta and Paimon tables: detect the format, and refuse options of the other format.

A command that supports Delta tables only opens its table by `CommandContext.open_table`. For a Paimon table the error
names alternatives, see `cli/paimon_alternatives.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from deltacli.cli.invocation import invocation
from deltacli.cli.options.given import DELTA_FORMAT, PAIMON_FORMAT
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
    """Call `delta` or `paimon`, depending on the format of a table, and return the result.

    Most tables are Delta tables, so a table is opened as one without any request. `delta` must read the log before it
    does anything else. If there is no log, and the table is a Paimon table, `paimon` is called instead.

    Args:
        run: The run of the command.
        name: The table as the user typed it.
        delta: Called with a Delta table.
        paimon: Called with a Paimon table.
        options: The options that the user has passed and that are for one format only, each with its format. For
            example, `{"--tag": "Paimon"}`.
        branch: The branch of a Paimon table. None: the main branch.
        writes: Whether the command changes the table.

    Raises:
        UsageError: If an option is for the other format, or `--table-format` contradicts the format of the table.
    """
    from deltacli.api.either_format import call_with_either_format

    storage = run.open_either(name, writes=writes)
    table_format = _find_format(run, storage, options)

    def call_delta(table: Table) -> Result:
        _require_options_of(DELTA_FORMAT, options)
        return delta(table)

    def call_paimon(table: Paimon) -> Result:
        _require_options_of(PAIMON_FORMAT, options)
        return paimon(table)

    try:
        return call_with_either_format(
            run.make_table(storage), delta=call_delta, paimon=call_paimon, table_format=table_format, branch=branch
        )
    except PaimonTable as error:
        # `paimon` itself may refuse what the user wants to do with a Paimon table.
        if run.table_format is not TableFormat.DELTA:
            raise
        from deltacli.cli.terminal.suggested_commands import remove_option, repeat_command

        raise UsageError(
            f"--table-format {run.table_format}: this is a Paimon table, without a _delta_log",
            code="usage.table-format",
            hint=repeat_command(remove_option(invocation.arguments, "--table-format")),
        ) from error


def _find_format(run: CommandContext, storage: Storage, options: Mapping[str, str]) -> FormatName | None:
    """Return the format of a table if it must be known before the table is opened.

    An option for Paimon tables must be refused before a Delta table is read. Detecting the format takes requests, which
    commands without such an option save.
    """
    if run.table_format is not None:
        return "paimon" if run.table_format is TableFormat.PAIMON else "delta"
    if PAIMON_FORMAT not in options.values():
        return None
    from deltacli.api.either_format import find_table_format

    return find_table_format(storage)


def require_one_point(*points: object) -> None:
    """Require that at most one of `--schema-id`, `--snapshot-id` and `--tag` has a value.

    Raises:
        UsageError: If several have one.
    """
    if sum(point is not None for point in points) > 1:
        raise UsageError("--schema-id, --snapshot-id and --tag exclude each other")


_POINTS: Mapping[str, str] = {
    **dict.fromkeys(("--version", "--timestamp"), "--schema-id N, --snapshot-id N or --tag T on a Paimon table"),
    **dict.fromkeys(("--schema-id", "--snapshot-id", "--tag"), "--version N or --timestamp T on a Delta table"),
    "version:": "schema:N, snapshot:N or tag:T on a Paimon table",
    **dict.fromkeys(("schema:", "snapshot:", "tag:"), "version:N on a Delta table"),
}
"""Maps an option, or a kind of point such as `tag:`, to the way to name a version in the other table format."""


def _require_options_of(table_format: str, options: Mapping[str, str]) -> None:
    """Require that all options are for a format. Raises UsageError."""
    for option, option_format in options.items():
        if option_format != table_format:
            facts = {"instead": _POINTS[option]} if option in _POINTS else {}
            raise make_format_error(option_format, option, facts)


def make_format_error(
    supported_format: str, subject: str, facts: Mapping[str, str], hint: str | None = None
) -> UsageError:
    """Return the error for a command or an option that supports tables of one format only.

    Args:
        supported_format: The format that is supported: `Delta` or `Paimon`.
        subject: A command (`alter set`), an option (`--tag`), an option with its value (`--profile java`), or a kind
            of point (`tag:`).
        facts: The facts of the error.
        hint: The hint of the error.
    """
    is_option = subject.startswith("--")
    if subject.endswith(":"):
        message = f"{subject}N is a point of a {supported_format} table"
    elif is_option and " " in subject:
        message = f"{subject} is for {supported_format} tables"
    elif is_option:
        message = f"{subject} works on {supported_format} tables only"
    else:
        other_format = DELTA_FORMAT if supported_format == PAIMON_FORMAT else PAIMON_FORMAT
        message = f"{subject} works on {supported_format} tables, and this is a {other_format} table"
    return UsageError(message, code="usage.table-format", facts=facts, hint=hint)
