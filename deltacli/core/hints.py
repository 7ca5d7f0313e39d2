"""Hints: the texts of errors, notes and rules that tell the user what to do next.

    raise UsageError(f"{parameter('vacuum.prefix')} and {parameter('vacuum.where')} exclude each other")
    raise Refused("the log has a gap", hint=command("validate", level="storage"))

`parameter` and `command` return text in the syntax of this process (see `hint_syntax`): `--prefix` for a user of the
command line, `` `prefix` `` for a user of the Python API. Call them when an error is raised, not while a module is
imported: the syntax is not known at that time. Constants, such as the catalogue of rules, use `LazyText`.

`DeltacliError.hint` is a string, because programs print and compare it. Its class says which kind of hint it is:

    CommandHint     a command on the table; keeps its `CommandCall`, so that the table and options can be changed
    ParameterHint   "add --retention 7d": the call that failed, with more parameters
    CommandLine     a command line that needs no change, such as the one that the user typed
    str             a sentence, which may contain commands and the placeholders of `command_calls`
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable

from deltacli.core.command_calls import (
    PAIMON_OPTION,
    PARENT_PLACEHOLDER,
    TABLE_PLACEHOLDER,
    CommandCall,
    resolve_placeholder,
)
from deltacli.core.hint_syntax import get_hint_syntax

PLACEHOLDERS = frozenset(
    {
        *("COLUMN", "CONDITION", "COPY", "DIRECTORY", "FILE", "KEY", "N", "NAME", "POSITION", "RECIPIENT"),
        *("TABLE", "TEXT", "TYPE", "URI", "URL", "VALUE"),
    }
)
"""Words of a suggested command line that users replace by values of their own."""

_PLACEHOLDER_IN_SENTENCE = re.compile("|".join(map(re.escape, (TABLE_PLACEHOLDER, PARENT_PLACEHOLDER))))


class CommandHint(str):
    """A command on a table in the syntax of this process.

    Attributes:
        call: The command as data.
    """

    __slots__ = ("call",)
    call: CommandCall

    def __new__(cls, text: str, call: CommandCall) -> CommandHint:
        hint = super().__new__(cls, text)
        hint.call = call
        return hint

    def __getnewargs__(self) -> tuple[str, CommandCall]:  # type: ignore[override]
        """Return the arguments of `__new__`. Errors with their hints are pickled by executors of a cluster."""
        return str(self), self.call

    def with_options(self, **options: object) -> str:
        """Return the command with these options added or replaced."""
        return format_command(self.call.add_options(options))


class ParameterHint(str):
    """The advice to repeat the call with more parameters, such as `add --retention 7d`.

    The command line replaces it by the command that the user typed, with these options added.

    Attributes:
        parameters: The parameters to add, in the syntax of this process, such as `--retention 7d`.
    """

    __slots__ = ("parameters",)
    parameters: tuple[str, ...]

    def __new__(cls, text: str, parameters: tuple[str, ...]) -> ParameterHint:
        hint = super().__new__(cls, text)
        hint.parameters = parameters
        return hint

    def __getnewargs__(self) -> tuple[str, tuple[str, ...]]:  # type: ignore[override]
        """Return the arguments of `__new__`. Errors with their hints are pickled by executors of a cluster."""
        return str(self), self.parameters


class CommandLine(str):
    """A complete command line. `{table}` in it is part of a file name or a value, not a placeholder."""

    __slots__ = ()


class LazyText:
    """A sentence whose command or parameter is formatted when the sentence is shown.

    The catalogue of rules is built while modules are imported, before the syntax of the process is known:

        LazyText("write the checkpoint again: {}", partial(command, "repair"))
    """

    __slots__ = ("_format_insert", "_sentence")

    def __init__(self, sentence: str, format_insert: Callable[[], str]) -> None:
        """Create the text.

        Args:
            sentence: The sentence, with `{}` for the command or parameter.
            format_insert: Returns the command or parameter. An empty text means that the syntax has no such command.
        """
        self._sentence = sentence
        self._format_insert = format_insert

    def __str__(self) -> str:
        """Return the sentence. Without a command, it ends before the colon: `write the checkpoint again`."""
        return self._sentence.replace("{}", self._format_insert()).removesuffix(": ")


def parameter(name: str, value: object = None) -> str:
    """Return a parameter in the syntax of this process: `--retention 7d`, or `` `retention_ms=604800000` ``.

    Args:
        name: `OPERATION.NAME`, as in `vacuum.retention_ms`. The operation is `open_table` for parameters that all
            operations share, and `storage_options` for an option of a store. `NAME` is the name of the Python
            parameter, or that of the option if Python has no such parameter.
        value: The value to show. None shows the name alone. True and False are the values of flags.
    """
    operation, _, parameter_name = name.partition(".")
    return get_hint_syntax().format_parameter(operation, parameter_name, value)


def command(operation: str, *arguments: object, table: str | None = TABLE_PLACEHOLDER, **options: object) -> str:
    """Return a command as a hint, in the syntax of this process. See `CommandCall` for the arguments.

    Args:
        operation: The words of the command, such as `log expire`.
        arguments: The positional arguments after the table.
        table: The table. By default a placeholder, which `fill_table` replaces. None leaves the table out, for a
            command within a sentence.
        options: The options by the names of the Python parameters.

    Returns:
        A `CommandHint`. An empty text if the Python API has no such method.
    """
    return format_command(CommandCall(operation, table, arguments, options))


def paimon_command(operation: str) -> str:
    """Return a command on a Paimon table as a hint: `open_paimon({table})` instead of `open_table({table})`."""
    return format_command(CommandCall(operation, TABLE_PLACEHOLDER, options={PAIMON_OPTION: True}))


def format_command(call: CommandCall) -> str:
    """Return a `CommandHint` in the syntax of this process; an empty text if the syntax has no such command."""
    text = get_hint_syntax().format_call(call)
    return CommandHint(text, call) if text else ""


def install_command(extra: str) -> str:
    """Return the shell command that adds an extra to this installation, such as `pip install 'deltacli[s3]'`."""
    # `importlib.metadata` takes as long as the rest of a short command, and is needed only if an extra is missing.
    from deltacli.core.installation import build_install_command

    return build_install_command(extra)


def suggest_parameters(*parameters: str, also: str = "") -> ParameterHint:
    """Return the hint to repeat the call with more parameters: `add --port 0 for any free port`.

    Args:
        parameters: The results of `parameter`.
        also: The end of the sentence, including the space before it, such as ` for any free port`.
    """
    return ParameterHint(f"add {' '.join(parameters)}{also}", parameters)


def fill_table(hint: str, table: str | None) -> str:
    """Replace the table placeholders of a hint, quoted for the syntax of this process.

    Args:
        hint: A hint of any kind. Only commands with a placeholder, and sentences, are changed.
        table: The name of the table. None inserts the word TABLE, which the user replaces.
    """
    if isinstance(hint, CommandLine):
        return hint

    if isinstance(hint, CommandHint):
        if not hint.call.has_placeholder:
            return hint
        if table is not None:
            # Format the call anew. Replacing the placeholder in the text would also change braces in its arguments.
            return format_command(hint.call.fill_table(table))

    if table is None:
        return hint.replace(TABLE_PLACEHOLDER, "TABLE").replace(PARENT_PLACEHOLDER, "TABLE")
    return _fill_sentence(hint, table)


def _fill_sentence(sentence: str, table: str) -> str:
    """Replace `{table}` and `{parent}` in a sentence."""
    syntax = get_hint_syntax()

    def format_path(match: re.Match[str]) -> str:
        return syntax.quote_table(resolve_placeholder(match[0], table))

    return _PLACEHOLDER_IN_SENTENCE.sub(format_path, sentence)


def get_command_option(hint: str | None, name: str) -> object:
    """Return the value of an option of a `CommandHint`; None for other hints, and for commands without the option."""
    return hint.call.options.get(name) if isinstance(hint, CommandHint) else None


def is_command(advice: str) -> bool:
    """Return True for a command line of deltacli, and False for a sentence."""
    return advice.startswith("deltacli ")


def is_complete_command(line: str, typed_words: Iterable[str]) -> bool:
    """Return True if a command line can be run as it is, because none of its words is one of `PLACEHOLDERS`.

    Args:
        line: The command line. It may end with a comment.
        typed_words: The words of the command line that the user ran. They are not placeholders, even if they look
            like one: a table can be called FILE.
    """
    for word in shlex.split(line, comments=True):
        # A placeholder may be a part of a word: `--storage-option KEY=VALUE`, `TABLE@N`.
        parts = set(re.split(r"[=,@]", word))
        if word not in typed_words and parts & PLACEHOLDERS:
            return False
    return True
