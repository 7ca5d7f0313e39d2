"""Errors in the words of a command line that Typer's exceptions do not describe by attributes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from deltacli.cli.options.values import InvalidValue
from deltacli.cli.vendored_click import Context, Parameter, UsageError


class UnknownCommand(UsageError):
    """A word in the place of a command that is none.

    Attributes:
        word: The word.
    """

    def __init__(self, word: str, context: Context) -> None:
        super().__init__(f"no such command {word!r}", context)
        self.word = word


class UnexpectedWords(UsageError):
    """Words behind the last argument of a command.

    Attributes:
        words: The words.
    """

    def __init__(self, words: Sequence[str], context: Context) -> None:
        super().__init__(f"unexpected argument: {' '.join(words)}", context)
        self.words = list(words)


def name_in_errors(parameter: Parameter) -> str:
    """Return how errors call a parameter: an option by its names, an argument by that of its value."""
    if parameter.param_type_name == "option":
        return " / ".join(parameter.opts)
    metavar: str = getattr(parameter, "metavar", None) or parameter.name or ""
    return metavar.removesuffix("...")


def is_action(parameter: Parameter) -> bool:
    """Return whether a parameter is an action behind a table, such as `set` of `properties TABLE set`."""
    is_choice = re.fullmatch(r"CHANGE|\[(?:\w+\|?)+\]", name_in_errors(parameter)) is not None
    return parameter.param_type_name == "argument" and is_choice


def has_one_format(error: InvalidValue) -> bool:
    """Return whether a value of `--format` is wrong because the command has one format, and no choice."""
    return error.param is not None and error.param.opts == ["--format"] and list(error.choices) == ["table"]
