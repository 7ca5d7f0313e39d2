"""The syntax in which this process shows commands and parameters to its user: that of a shell, or Python.

The syntax is a setting of the whole process. The default is Python. The command line sets `ShellSyntax` for each run,
and passes it on to the server processes and to the Spark tasks that it starts, because their errors are reported by the
command line, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from deltacli.core.command_calls import CommandCall
from deltacli.core.python_syntax import PythonSyntax


class HintSyntax(Protocol):
    """Formats parameters, commands and table names. Instances have no state and can be pickled."""

    def format_parameter(self, operation: str, name: str, value: object = None) -> str:
        """Return the name of a parameter, and its value unless that is None: `--mode lite`, or `` `mode='lite'` ``.

        Args:
            operation: The operation that has the parameter. `open_table` has the parameters that all operations share,
                and `storage_options` has the options of stores.
            name: The name of the Python parameter, such as `retention_ms`.
            value: The value. True and False are the values of flags.
        """

    def format_call(self, call: CommandCall) -> str:
        """Return a command, or an empty text if this syntax has no such command.

        A placeholder for the table stays in the text without quotes.
        """

    def quote_table(self, table: str) -> str:
        """Return the name of a table with the quotes and escapes that the syntax requires."""


_active_syntaxes: list[HintSyntax] = [PythonSyntax()]
"""The syntaxes of nested `use_hint_syntax` blocks, the innermost last."""


def get_hint_syntax() -> HintSyntax:
    """Return the syntax of this process, for example to pass it to another process."""
    return _active_syntaxes[-1]


@contextmanager
def use_hint_syntax(syntax: HintSyntax) -> Iterator[None]:
    """Use a syntax in all threads of the process until the end of the `with` block."""
    _active_syntaxes.append(syntax)
    try:
        yield
    finally:
        _active_syntaxes.pop()
