"""Commands as data: an operation, a table, arguments and options.

An error is raised far below the command line and the Python API, by code that does not know which of the two its user
works with. Its hint is therefore made from a `CommandCall`. `shell_syntax` and `python_syntax` turn the call into text:

    CommandCall("validate", "{table}", options={"level": "storage"})

    ShellSyntax    deltacli validate {table} --level storage
    PythonSyntax   open_table({table}).validate(level='storage')

The code that raises an error often does not know the name of the table either. It leaves one of the placeholders below,
and `hints.fill_table` replaces the placeholder when the name is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

TABLE_PLACEHOLDER = "{table}"
"""Stands for the name of the table. `{table}/NAME` stands for the path of a table below that directory."""

PARENT_PLACEHOLDER = "{parent}"
"""Stands for the directory that contains the table directory."""

PAIMON_OPTION = "paimon"
"""The option of a call that is True for a Paimon table.

Python opens such a table by `open_paimon`. Shell commands are the same for Delta and Paimon tables.
"""


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A command with its arguments, independent of the syntax in which it is shown.

    Attributes:
        operation: The words of the command, such as `vacuum` or `log expire`.
        table: The name of the table or a placeholder; None for a command without a table.
        arguments: The positional arguments after the table. `...` stands for a value that the user chooses.
        options: The values of the options by the names of the Python parameters, such as `retention_ms`. `...` stands
            for a value that the user chooses.
    """

    operation: str
    table: str | None
    arguments: tuple[object, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def has_placeholder(self) -> bool:
        """True if the name of the table has not been filled in."""
        return self.table is not None and is_table_placeholder(self.table)

    def fill_table(self, table: str) -> CommandCall:
        """Return the call with the placeholder replaced by the name of a table."""
        if self.table is None or not self.has_placeholder:
            return self
        return replace(self, table=resolve_placeholder(self.table, table))

    def add_options(self, options: Mapping[str, object]) -> CommandCall:
        """Return the call with these options added or replaced."""
        return replace(self, options={**self.options, **options})


class DoubleQuoted(str):
    """An option value that shell commands show in double quotes: a pattern of rule ids such as `"ict.*"`."""

    __slots__ = ()


class DurationArgument(str):
    """A duration as an option value: `7d` in a shell, 604800000 milliseconds in Python.

    Attributes:
        milliseconds: The length of the duration.
    """

    __slots__ = ("milliseconds",)
    milliseconds: int

    def __new__(cls, text: str, milliseconds: int) -> DurationArgument:
        argument = super().__new__(cls, text)
        argument.milliseconds = milliseconds
        return argument

    def __getnewargs__(self) -> tuple[str, int]:  # type: ignore[override]
        """Return the arguments of `__new__`. Errors with their hints are pickled by executors of a cluster."""
        return str(self), self.milliseconds

    def __repr__(self) -> str:
        return repr(self.milliseconds)


def is_table_placeholder(table: str) -> bool:
    """Return True for `{table}`, `{table}/NAME` and `{parent}`; False for a table whose name contains braces."""
    return table in (TABLE_PLACEHOLDER, PARENT_PLACEHOLDER) or table.startswith(f"{TABLE_PLACEHOLDER}/")


def resolve_placeholder(placeholder: str, table: str) -> str:
    """Return the path that a placeholder stands for.

    >>> resolve_placeholder("{table}/trips", "s3://lake/")
    's3://lake/trips'
    >>> resolve_placeholder("{parent}", "s3://lake/trips/_delta_log/")
    's3://lake/trips'
    """
    if placeholder == TABLE_PLACEHOLDER:
        return table
    if placeholder == PARENT_PLACEHOLDER:
        return _parent_directory(table)
    path_below = placeholder.removeprefix(f"{TABLE_PLACEHOLDER}/")
    return f"{table.rstrip('/')}/{path_below}"


def _parent_directory(table: str) -> str:
    """Return the directory that contains a table directory. `.` contains a table whose name has no slash."""
    path = table.rstrip("/")
    if "/" not in path:
        return "."
    return path.rpartition("/")[0] or "/"
