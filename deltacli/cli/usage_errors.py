"""Errors of command lines for which Typer has no exception with attributes, and questions about their parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence

from deltacli.cli.options.values import InvalidValue
from deltacli.cli.vendored_click import Context, Parameter, UsageError

_ACTION_METAVAR = re.compile(r"CHANGE|\[(?:\w+\|?)+\]")
"""Metavars of actions: `CHANGE` of `alter`, and a choice such as `[get|set|unset]` of `properties`."""


class UnknownCommand(UsageError):
    """A group has no command of this name.

    Attributes:
        word: The name that the user typed.
    """

    def __init__(self, word: str, context: Context) -> None:
        super().__init__(f"no such command {word!r}", context)
        self.word = word


class UnexpectedWords(UsageError):
    """The command line contains more arguments than the command accepts.

    Attributes:
        words: The arguments after the last accepted one.
    """

    def __init__(self, words: Sequence[str], context: Context) -> None:
        super().__init__(f"unexpected argument: {' '.join(words)}", context)
        self.words = list(words)


def name_in_errors(parameter: Parameter) -> str:
    """Return the name of a parameter for error messages: `--retention`, `-n / --limit`, or `TABLE`."""
    if parameter.param_type_name == "option":
        return " / ".join(parameter.opts)
    metavar: str = getattr(parameter, "metavar", None) or parameter.name or ""
    return metavar.removesuffix("...")


def is_action(parameter: Parameter) -> bool:
    """Return True for an argument that selects an action, such as `set` in `deltacli properties TABLE set`."""
    if parameter.param_type_name != "argument":
        return False
    return _ACTION_METAVAR.fullmatch(name_in_errors(parameter)) is not None


def has_one_format(error: InvalidValue) -> bool:
    """Return True for a wrong value of `--format` if the command writes text only, so that there is no choice."""
    return error.param is not None and error.param.opts == ["--format"] and list(error.choices) == ["table"]
