"""Say in an error, a note or a rule what to do next, in the words of whoever reads it.

    raise UsageError(f"{parameter('vacuum.prefix')} and {parameter('vacuum.where')} exclude each other")
    raise Refused("the log has a gap", hint=command("validate", level="storage"))

Both functions return text as the caller of this process knows it: `--prefix`, or `` `prefix` `` in Python. So call
them where the text is made, never while a module is imported; a text that has to exist earlier is a `LazyText`.
Parameters have the names of the Python API, or that of the option if Python has none. `spelling` has the details.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable

from deltacli.core.spelling import PAIMON_OPTION, TABLE_PLACEHOLDER, Command, get_spelling

PLACEHOLDERS = frozenset(
    {
        *("COLUMN", "CONDITION", "COPY", "DIRECTORY", "FILE", "KEY", "N", "NAME", "POSITION", "RECIPIENT"),
        *("TABLE", "TEXT", "TYPE", "URI", "URL", "VALUE"),
    }
)
"""Words in hints that users replace by their own."""


class ParameterHint(str):
    """A hint to repeat the call with more parameters.

    The command line shows the command that was typed with these options instead of this text.

    Attributes:
        parameters: The parameters to add, each as its caller writes it, such as `--retention 7d`.
    """

    __slots__ = ("parameters",)
    parameters: tuple[str, ...]

    def __new__(cls, text: str, parameters: tuple[str, ...] = ()) -> ParameterHint:
        hint = super().__new__(cls, text)
        hint.parameters = parameters
        return hint


class LazyText:
    """A sentence that is written before it is known who reads it, such as the repair of a rule.

    The placeholder `{}` in it stands for a parameter or a command, which is spelled whenever the sentence is read.
    """

    __slots__ = ("_sentence", "_spell")

    def __init__(self, sentence: str, spell: Callable[[], str]) -> None:
        self._sentence = sentence
        self._spell = spell

    def __str__(self) -> str:
        """Return the sentence for the caller of this process. It ends before the colon if the caller has no command."""
        return self._sentence.replace("{}", self._spell()).removesuffix(": ")


def parameter(name: str, value: object = None) -> str:
    """Return what the caller calls a parameter: `--retention 7d`, or `` `retention_ms=604800000` ``.

    Args:
        name: `OPERATION.NAME`, as in `vacuum.retention_ms`. The operation is `open_table` for parameters that all
            operations share, and `storage_options` for a storage option.
        value: Shown with the name unless it is None. True and False are the values of flags.
    """
    operation, _, last_name = name.partition(".")
    return get_spelling().parameter(operation, last_name, value)


def command(operation: str, *arguments: object, table: str | None = TABLE_PLACEHOLDER, **options: object) -> str:
    """Return a next command as a hint; empty if the caller has no such command.

    Args:
        operation: The words of the command, such as `log expire`.
        arguments: What follows the table. `...` is for the user to fill in, and is shown as one of `PLACEHOLDERS`.
        table: The table. The default is filled in later, by whoever knows its name. None leaves it out, for use within
            a sentence.
        options: The options by the names of the parameters. Their values may be `...`, too.
    """
    return get_spelling().command(operation, table, arguments, options)


def paimon_command(operation: str) -> str:
    """Return an operation on a Paimon table as a hint. In Python, such a table is opened by another function."""
    return get_spelling().command(operation, TABLE_PLACEHOLDER, (), {PAIMON_OPTION: True})


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation."""
    # `importlib.metadata` takes as long as the rest of a short command, and is needed only if an extra is missing.
    from deltacli.core.installation import build_install_command

    return build_install_command(extra)


def suggest_parameters(*parameters: str, also: str = "") -> ParameterHint:
    """Return the hint to repeat the call with more parameters.

    Args:
        parameters: The texts that `parameter` returns.
        also: The end of the sentence, with the space before it: ` for any free port`.
    """
    return ParameterHint(f"add {' '.join(parameters)}{also}", parameters)


def get_command_option(hint: str | None, name: str) -> object:
    """Return an option of a hint that is a command; None if the hint is something else or lacks the option."""
    return hint.options.get(name) if isinstance(hint, Command) else None


def is_command(advice: str) -> bool:
    """Return True for advice that is a command to paste, False for a sentence."""
    return advice.startswith("deltacli ")


def is_complete_command(line: str, typed_words: Iterable[str]) -> bool:
    """Return True if a command line has no placeholder, so that it can be run as it is.

    Args:
        line: The command line, which may end with a comment.
        typed_words: The words of the command that was run. They are never placeholders: a table can be called FILE.
    """
    for word in shlex.split(line, comments=True):
        # Placeholders may be parts of words: `--storage-option KEY=VALUE`, `TABLE@N`.
        parts = set(re.split(r"[=,@]", word))
        if word not in typed_words and parts & PLACEHOLDERS:
            return False
    return True
