"""Format commands and parameters as calls of the Python API."""

from __future__ import annotations

from collections.abc import Mapping

from deltacli.core.command_calls import PAIMON_OPTION, CommandCall, is_table_placeholder

SHELL_ONLY = frozenset({"explain", "format", "master", "remote", "save_plan", "spark_conf", "verify", "write_baseline"})
"""Options without a Python parameter that change the effect of a command.

A command with one of these options cannot be shown as a call: no method saves a plan to a file, for example.
"""

OMITTED_OPTIONS = frozenset({"json", "schema", "yes"})
"""Options without a Python parameter that a call does not need: methods return values and never ask for consent."""

_OPENING_PARAMETERS = ("allow_external", "storage_options")
"""Options of every command that in Python are parameters of `open_table`."""

_VERSION_PARAMETERS = ("version", "timestamp")
"""Options of `deltacli read` that in Python are parameters of `Table.snapshot`; others are parameters of `scan`."""

_GROUPS_WITHOUT_METHOD = frozenset({"doctor", "fleet", "schema", "share", "spark"})

_OPERATIONS_WITHOUT_METHOD = frozenset({"alter", "catalog ls", "features", "log cat", "log crc", "properties"})


class PythonSyntax:
    """Formats commands and parameters as calls of the Python API."""

    def format_parameter(self, operation: str, name: str, value: object = None) -> str:
        """Return a parameter in backticks, such as `` `mode='lite'` ``. See `HintSyntax.format_parameter`."""
        if operation == "storage_options":
            if value is None:
                return f"`storage_options[{name!r}]`"
            return f"`storage_options={{{name!r}: {value!r}}}`"

        if value is None:
            return f"`{name}`"
        return f"`{name}={value!r}`"

    def format_call(self, call: CommandCall) -> str:
        """Return a call such as `open_table('trips').history(limit=10)`; empty if Python has no such method."""
        if not _has_method(call):
            return ""

        # `allow_external`, for example, is a parameter of `open_table`, not of the method.
        other_options = (*_OPENING_PARAMETERS, *OMITTED_OPTIONS, PAIMON_OPTION)
        method_options = {name: value for name, value in call.options.items() if name not in other_options}
        opened_table = self._format_opened_table(call)
        if call.operation == "read":
            # Python reads the rows of a snapshot: open_table('trips').snapshot(version=3).scan(limit=10)
            version_options = {name: value for name, value in method_options.items() if name in _VERSION_PARAMETERS}
            scan_options = {name: value for name, value in method_options.items() if name not in _VERSION_PARAMETERS}
            snapshot = f"{opened_table}.snapshot({_format_arguments((), version_options)})"
            return f"{snapshot}.scan({_format_arguments(call.arguments, scan_options)})"

        method = get_method_name(call.operation)
        return f"{opened_table}.{method}({_format_arguments(call.arguments, method_options)})"

    def quote_table(self, table: str) -> str:
        """Return the name of a table as a string literal."""
        return repr(table)

    def _format_opened_table(self, call: CommandCall) -> str:
        """Return the expression that opens the table, or the variable `table` for a call without a table."""
        if call.table is None:
            return "table"

        function = "open_paimon" if PAIMON_OPTION in call.options else "open_table"
        address = call.table if is_table_placeholder(call.table) else self.quote_table(call.table)
        opening_options = {name: call.options[name] for name in _OPENING_PARAMETERS if name in call.options}
        if not opening_options:
            return f"{function}({address})"
        return f"{function}({address}, {_format_arguments((), opening_options)})"


def get_method_name(operation: str) -> str:
    """Return the method of `Table` that performs an operation: `expire_log` for `log expire`."""
    return "_".join(reversed(operation.split())).replace("-", "_")


def _has_method(call: CommandCall) -> bool:
    """Return True if Python has a method for the operation, and parameters for all options that matter."""
    group = call.operation.split(maxsplit=1)[0]
    if group in _GROUPS_WITHOUT_METHOD or call.operation in _OPERATIONS_WITHOUT_METHOD:
        return False
    return SHELL_ONLY.isdisjoint(call.options)


def _format_arguments(arguments: tuple[object, ...], options: Mapping[str, object]) -> str:
    """Return the arguments of a call, separated by commas. `...` stands for values that the user chooses."""
    words = [repr(argument) for argument in arguments]
    words += [f"{name}={value!r}" for name, value in options.items()]
    return ", ".join(words).replace("Ellipsis", "...")
