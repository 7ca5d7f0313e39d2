"""Spell parameters and commands as the caller of this process knows them.

An error is raised far below the command line and the Python API. Its hint names an operation and its parameters, and a
`Spelling` turns that into text:

    operation "validate", level="storage"

    ShellSpelling   deltacli validate TABLE --level storage
    Spelling        open_table(TABLE).validate(level='storage')

A process uses one spelling for the whole of its work. The command line chooses that of a shell, and passes it to the
processes and tasks that work for it. This module is not part of `cli`, because executors of a cluster need it, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from deltacli.core.quoting import quote_table, quote_word

TABLE_PLACEHOLDER = "{table}"
"""Stands for the table in a hint until somebody fills it in who knows its name."""

_PARENT_PLACEHOLDER = "{parent}"
"""Stands for the directory that the table is in."""

SHELL_ONLY = frozenset({"explain", "format", "master", "remote", "save_plan", "spark_conf", "verify", "write_baseline"})
"""Parameters that no method has, and without which the command would be another one."""

OMITTED_OPTIONS = frozenset({"json", "schema", "yes"})
"""Options that methods have no parameter for, and need none: they return values, and never ask."""

PAIMON_OPTION = "paimon"
"""Is True among the options of an operation on a Paimon table, which Python opens by another function."""

_OPENING_PARAMETERS = ("allow_external", "storage_options")
"""Options of every command that in Python are parameters of `open_table`."""

_VERSION_PARAMETERS = ("version", "timestamp")

_TWO_WORD_GROUPS = ("catalog", "doctor", "log", "schema")
"""Groups whose commands take the table after the second word: `deltacli log expire TABLE`."""

_GROUPS_WITHOUT_TABLE = ("fleet", "share", "spark")

_GROUPS_WITHOUT_METHOD = (*_GROUPS_WITHOUT_TABLE, "doctor", "schema")

_OPERATIONS_WITHOUT_METHOD = frozenset({"alter", "catalog ls", "features", "log cat", "log crc", "properties"})

_OPTION_NAMES = {
    ("changes", "from_version"): "from",
    ("changes", "to_version"): "to",
    ("log compact", "first"): "from",
    ("open_table", "storage_options"): "storage-option",
    ("log compact", "last"): "to",
    ("undelete", "sources"): "from",
    ("repair", "sources"): "from",
    ("repair", "partition_values"): "partition-value",
    ("restore", "sources"): "from",
    ("vacuum", "keep_versions"): "keep-version",
    ("validate", "with_manifests"): "refs",
}
"""Operation and parameter -> its option, if that is not simply the name with dashes."""

_VALUE_PLACEHOLDERS = {"save_plan": "FILE", "sources": "COPY", "version": "N"}
"""Parameter -> the word that stands for its value in a command line; VALUE for others."""


class DoubleQuoted(str):
    """A value that a shell shows in double quotes: a pattern such as `"ict.*"`."""

    __slots__ = ()


class DurationArgument(str):
    """A duration as a value: `7d` in a shell, its milliseconds in Python.

    Attributes:
        milliseconds: The length of the duration.
    """

    __slots__ = ("milliseconds",)
    milliseconds: int

    def __new__(cls, text: str, milliseconds: int) -> DurationArgument:
        argument = super().__new__(cls, text)
        argument.milliseconds = milliseconds
        return argument

    def __repr__(self) -> str:
        return repr(self.milliseconds)


class CommandLine(str):
    """A hint that is a finished command line. Braces in it are those of the user, not placeholders."""

    __slots__ = ()


class Command(str):
    """The text of a next command, together with what it was made from.

    It is empty if the caller has no such command: nothing in Python saves a plan to a file, for example.

    Attributes:
        operation: The words of the command, such as `log expire`.
        table: The name of the table, or `{table}` until it is known; None for a command without a table.
        arguments: What follows the table.
        options: The values of parameters by the names of the Python API. `...` stands for a value that the user
            chooses.
    """

    __slots__ = ("arguments", "operation", "options", "table")
    operation: str
    table: str | None
    arguments: tuple[object, ...]
    options: Mapping[str, object]

    def __new__(
        cls,
        text: str,
        operation: str = "",
        table: str | None = None,
        arguments: tuple[object, ...] = (),
        options: Mapping[str, object] = MappingProxyType({}),
    ) -> Command:
        command = super().__new__(cls, text)
        command.operation = operation
        command.table = table
        command.arguments = arguments
        command.options = dict(options)
        return command

    def with_options(self, **options: object) -> Command:
        """Return the command with these options added or replaced."""
        return get_spelling().command(self.operation, self.table, self.arguments, {**self.options, **options})


class Spelling:
    """Spells parameters and commands for callers of the Python API."""

    def parameter(self, operation: str, name: str, value: object = None) -> str:
        """Return the name of a parameter, with its value unless that is None."""
        if operation == "storage_options":
            if value is None:
                return f"`storage_options[{name!r}]`"
            return f"`storage_options={{{name!r}: {value!r}}}`"

        if value is None:
            return f"`{name}`"
        return f"`{name}={value!r}`"

    def command(
        self, operation: str, table: str | None, arguments: tuple[object, ...], options: Mapping[str, object]
    ) -> Command:
        """Return the call of a method that does an operation; empty if there is no such method."""
        if not _has_method(operation, options):
            return Command("")

        not_of_method = (*_OPENING_PARAMETERS, *OMITTED_OPTIONS, PAIMON_OPTION)
        method_options = {name: value for name, value in options.items() if name not in not_of_method}
        opened_table = _format_opened_table(table, options)
        if operation == "read":
            # Rows are read from a snapshot, so the version is a parameter of that.
            version_options = {name: value for name, value in method_options.items() if name in _VERSION_PARAMETERS}
            scan_options = {name: value for name, value in method_options.items() if name not in _VERSION_PARAMETERS}
            snapshot = f"{opened_table}.snapshot({_format_arguments((), version_options)})"
            call = f"{snapshot}.scan({_format_arguments(arguments, scan_options)})"
        else:
            call = f"{opened_table}.{method_name(operation)}({_format_arguments(arguments, method_options)})"
        return Command(call, operation, table, arguments, options)

    def fill(self, hint: str, table: str) -> str:
        """Fill the name of the table into a hint that has `{table}`, `{table}/NAME` or `{parent}`."""
        if _is_filled(hint):
            return hint
        # Made anew, not replaced in the text: arguments and options may contain braces, too.
        if isinstance(hint, Command) and hint.table == TABLE_PLACEHOLDER:
            return self.command(hint.operation, table, hint.arguments, hint.options)
        if "deltacli " in hint:  # a command line, from a place that does not ask for a spelling
            return fill_hint(hint, table)

        if below := re.search(r"\{table\}(/[^)]*)", hint):
            path = table.rstrip("/") + below[1]
            return hint.replace(below[0], repr(path))
        filled = hint.replace(_PARENT_PLACEHOLDER, repr(_parent_directory(table)))
        return filled.replace(TABLE_PLACEHOLDER, repr(table))


class ShellSpelling(Spelling):
    """Spells parameters and commands for a shell."""

    def parameter(self, operation: str, name: str, value: object = None) -> str:
        """Return the option for a parameter, with its value unless that is None; `--no-NAME` for False."""
        if operation == "storage_options":
            return f"--storage-option {name}" if value is None else f"--storage-option {name}={value}"

        option = _OPTION_NAMES.get((operation, name))
        if option is None:
            # Options take durations with a unit, so their names have none: retention_ms is --retention.
            option = name.removesuffix("_ms").replace("_", "-")
        if value is False:
            return f"--no-{option}"
        if value is None or value is True:
            return f"--{option}"

        if isinstance(value, Mapping):
            value = " ".join(f"{key}={inner}" for key, inner in value.items())
        if isinstance(value, list):
            (value,) = value  # a list of several items becomes several options before it gets here
        return f"--{option} {value}"

    def command(
        self, operation: str, table: str | None, arguments: tuple[object, ...], options: Mapping[str, object]
    ) -> Command:
        """Return a command line, in which the table follows the words of the command."""
        words = operation.split()
        group = words[0]
        word_count = 2 if group in _TWO_WORD_GROUPS else 1

        line = ["deltacli", *words[:word_count]]
        # Commands of these groups name their tables by a file or a profile.
        if table is not None and group not in _GROUPS_WITHOUT_TABLE:
            line.append(table if is_template(table) else quote_table(table))
        line += words[word_count:]
        line += [_format_word(argument) for argument in arguments]
        for name, value in options.items():
            if name != PAIMON_OPTION:  # the same commands serve both formats
                line += self._format_option(operation, name, value)
        return Command(" ".join(line), operation, table, arguments, options)

    def fill(self, hint: str, table: str) -> str:
        """Fill the name of the table into a hint, quoted for a shell."""
        return fill_hint(hint, table)

    def _format_option(self, operation: str, name: str, value: object) -> Iterator[str]:
        """Yield an option with its value, once for each item of a list."""
        placeholder = _VALUE_PLACEHOLDERS.get(name, "VALUE")
        for item in value if isinstance(value, list) else [value]:
            shown = item if isinstance(item, bool) else _format_word(item, placeholder)
            yield self.parameter(operation, name, shown)


_active_spellings = [Spelling()]
"""The spellings in use, the innermost last."""


def get_spelling() -> Spelling:
    """Return the spelling of this process, for example to pass it to another process."""
    return _active_spellings[-1]


@contextmanager
def use_spelling(spelling: Spelling) -> Iterator[None]:
    """Use a spelling in the whole process, until the end of the `with` block."""
    _active_spellings.append(spelling)
    try:
        yield
    finally:
        _active_spellings.pop()


def method_name(operation: str) -> str:
    """Return the method of `Table` that does an operation: `expire_log` for `log expire`."""
    return "_".join(reversed(operation.split())).replace("-", "_")


def fill_hint(hint: str, table: str | None) -> str:
    """Fill the name of a table into a hint, quoted for a shell.

    Args:
        hint: A hint with `{table}`, `{table}/NAME` for a path below the table, or `{parent}` for the directory above.
        table: The name of the table. None leaves the word TABLE to the user.
    """
    if _is_filled(hint):
        return hint
    if table is None:
        return hint.replace(TABLE_PLACEHOLDER, "TABLE").replace(_PARENT_PLACEHOLDER, "TABLE")

    # A path below the table is quoted as one word, together with the table.
    if below := re.search(r"\{table\}/(.*)\Z", hint, re.DOTALL):
        path = f"{table.rstrip('/')}/{below[1]}"
        return hint[: below.start()] + quote_table(path)
    filled = hint.replace(TABLE_PLACEHOLDER, quote_table(table))
    return filled.replace(_PARENT_PLACEHOLDER, quote_table(_parent_directory(table)))


def is_template(table: str) -> bool:
    """Return True if a table is still a placeholder, and not a name that happens to contain braces."""
    return table in (TABLE_PLACEHOLDER, _PARENT_PLACEHOLDER) or table.startswith(f"{TABLE_PLACEHOLDER}/")


def _has_method(operation: str, options: Mapping[str, object]) -> bool:
    """Return True if Python has a method for an operation with these options."""
    if operation in _OPERATIONS_WITHOUT_METHOD or operation.split(maxsplit=1)[0] in _GROUPS_WITHOUT_METHOD:
        return False
    return SHELL_ONLY.isdisjoint(options)


def _format_opened_table(table: str | None, options: Mapping[str, object]) -> str:
    """Return the expression that opens a table in Python; the variable `table` if no name is to be shown."""
    if table is None:
        return "table"
    function = "open_paimon" if PAIMON_OPTION in options else "open_table"
    address = table if is_template(table) else repr(table)
    opening_options = {name: options[name] for name in _OPENING_PARAMETERS if name in options}
    if not opening_options:
        return f"{function}({address})"
    return f"{function}({address}, {_format_arguments((), opening_options)})"


def _is_filled(hint: str) -> bool:
    """Return True if braces in a hint belong to names, because the table is filled in already."""
    if isinstance(hint, Command):
        return hint.table is not None and not is_template(hint.table)
    return isinstance(hint, CommandLine)


def _format_arguments(arguments: tuple[object, ...], options: Mapping[str, object]) -> str:
    """Return the arguments of a call in Python. `...` stays as it is: the user replaces it."""
    words = [repr(argument) for argument in arguments]
    words += [f"{name}={value!r}" for name, value in options.items()]
    return ", ".join(words).replace("Ellipsis", "...")


def _format_word(value: object, placeholder: str = "VALUE") -> str:
    """Return a value as a word of a command line, or as several.

    Args:
        value: A tuple is several words; a mapping is several words KEY=VALUE; `...` is for the user to fill in.
        placeholder: The word to show for `...`.
    """
    if value is ...:
        return placeholder
    if isinstance(value, tuple):
        return " ".join(_format_word(item) for item in value)
    if isinstance(value, Mapping):
        return " ".join(_format_pair(key, inner) for key, inner in value.items())
    if isinstance(value, DoubleQuoted):
        return f'"{value}"'
    return quote_word(str(value))


def _format_pair(key: str, value: object) -> str:
    """Return KEY=VALUE as one word of a shell. Quotes stand around the value only, if it has a space."""
    if value is ...:
        return f"{key}=VALUE"
    if isinstance(value, str) and " " in value:
        return f"{key}={quote_word(value)}"
    return quote_word(f"{key}={value}")


def _parent_directory(table: str) -> str:
    """Return the directory that a table is in, as far as its name tells."""
    path = table.rstrip("/")
    if "/" not in path:
        return "."
    return path.rpartition("/")[0] or "/"
