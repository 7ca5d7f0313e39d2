"""A suggestion, and questions about a command line that several kinds of mistakes ask."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from typer.core import TyperGroup

from deltacli.cli.command_tree import TAKES_VALUE
from deltacli.cli.vendored_click import Command, UsageError


class Suggestion(NamedTuple):
    """A guess of what the user meant, and the command that does it.

    Attributes:
        name: What was meant, for the question "did you mean …?". None: there is no such question.
        hint: The command to paste.
        fact: What to say where nothing else was meant.
        message: The message of the error, where that of the parser names another reason.
    """

    name: str | None
    hint: str
    fact: str | None = None
    message: str | None = None


def find_command(error: UsageError) -> Command | None:
    """Return the command that an error is about."""
    return error.ctx.command if error.ctx is not None else None


def list_options(error: UsageError) -> list[str]:
    """Return the long names of the options that the command of an error accepts; of a group, the shared ones."""
    command = find_command(error)
    if command is None:
        return []
    names = [name for parameter in command.params for name in parameter.opts]
    shared_names = TAKES_VALUE if isinstance(command, TyperGroup) else ()
    return [name for name in (*names, *shared_names) if name.startswith("--")]


def find_typed_value(option: str, arguments: Sequence[str]) -> str | None:
    """Return what stands behind an option on a command line, also with an equals sign; None if nothing does."""
    # The words are joined by a character that none of them can contain.
    match = re.search(rf"\0{re.escape(option)}[=\0]([^\0]*)", "\0" + "\0".join(arguments))
    return None if match is None else match[1]


def remove_word(arguments: Sequence[str], word: str) -> list[str]:
    """Return a command line without a word."""
    return [argument for argument in arguments if argument != word]
