"""Suggest what was probably meant by a value that an option or argument does not accept."""

from __future__ import annotations

import re
from collections.abc import Sequence

from deltacli.cli.command_tree import get_command_path
from deltacli.cli.hints.commands import suggest_action
from deltacli.cli.hints.suggestion import Suggestion, list_options
from deltacli.cli.options.values import InvalidValue
from deltacli.cli.other_programs import FORMAT_SYNONYMS
from deltacli.cli.terminal.suggested_commands import remove_option_value, repeat_command, repeat_command_with
from deltacli.cli.usage_errors import has_one_format, is_action, name_in_errors
from deltacli.core.errors import nearest_name, quote_word

_LEAST_SIMILARITY = 0.75

_NEWEST_VERSION = frozenset({"current", "head", "HEAD", "last", "latest", "newest"})
"""What other programs call the newest version, which is the default here."""


def suggest_value(error: InvalidValue, path: Sequence[str], arguments: Sequence[str]) -> Suggestion | None:
    """Return the command line with the value that was meant.

    Args:
        error: The error.
        path: The words that lead to the command.
        arguments: The words of the command line.
    """
    parameter = error.param
    if parameter is None:
        return None
    if has_one_format(error):
        return Suggestion(None, repeat_command(remove_option_value(arguments, "--format", error.text)))
    if is_action(parameter):
        return suggest_action(error.text, error.choices, path, arguments[len(path) :])

    # `validate --format junit`: JUnit is a file beside the result.
    is_format = parameter.opts == ["--format"] and re.fullmatch(r"\w+", error.text)
    option = f"--{error.text}"
    if is_format and option in list_options(error):
        words = remove_option_value(arguments, "--format", error.text)
        file = f"{path[-1]}.{error.text}"
        return Suggestion(f"{option} FILE", repeat_command_with(words, option, file))
    if error.choices:
        return _suggest_choice(error, name_in_errors(parameter), arguments)
    return _suggest_version(error.text, name_in_errors(parameter), arguments)


def _suggest_choice(error: InvalidValue, option: str, arguments: Sequence[str]) -> Suggestion | None:
    """Return the nearest of several values, or what a format of other programs is called here."""
    value = error.text
    choice = nearest_name(value, error.choices, ignores_case=True, cutoff=_LEAST_SIMILARITY)
    format_here = FORMAT_SYNONYMS.get(value.lower(), "") if option == "--format" else ""
    if format_here in error.choices:
        choice = format_here
    if choice is None:
        return None

    words = []
    previous = ""
    for word in arguments:
        if word == f"{option}={value}":
            words.append(f"{option}={choice}")
        elif (previous, word) == (option, value):
            words.append(choice)
        else:
            words.append(word)
        previous = word
    return Suggestion(repr(choice), repeat_command(words))


def _suggest_version(value: str, option: str, arguments: Sequence[str]) -> Suggestion | None:
    """Return the version that was meant: none for the newest one, 5 for v5; else the list of versions."""
    if option == "--version" and value in _NEWEST_VERSION:
        return Suggestion(None, repeat_command(remove_option_value(arguments, option, value)))
    if option == "--version" and re.fullmatch(r"v\d+", value):
        return Suggestion(None, repeat_command_with(arguments, option, value[1:]))

    words = arguments[len(get_command_path(arguments)) :]
    tables = [word for word in words if not word.startswith("-") and word != value]
    if option in ("--version", "VERSION") and len(tables) == 1:
        return Suggestion(None, f"deltacli history {quote_word(tables[0])}")
    return None
